//! Templates: what the records of a data set look like.

use crate::element::{FieldSpecifier, TemplateId};
use crate::error::{WireError, octets_of};
use crate::layout::SET_BODY_OCTETS_MAX;
pub use crate::layout::{FieldPositions, Layout, LocatedRecords, Spans, VariablePositions};

/// Most fields that a template may have. Registries name some hundred elements; a sender that repeats them by the
/// thousand only wants our memory.
pub const TEMPLATE_FIELDS_MAX: usize = 1024;

/// Longest template record that can be accepted or written, in octets: an options template's six octets of header
/// and [`TEMPLATE_FIELDS_MAX`] field specifiers with enterprise numbers. A consequence of the limit on fields.
pub const TEMPLATE_RECORD_OCTETS_MAX: usize = 6 + 8 * TEMPLATE_FIELDS_MAX;

/// A template or options template (RFC 7011 section 3.4, RFC 3954 sections 5.2 and 6.1), owned and built once.
///
/// Two templates are equal when they have the same ID, fields and scope; so a refresh differs from a redefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    id: TemplateId,
    fields: Box<[FieldSpecifier]>,
    scope_count: u16,
    /// Numbers of the fields that take octets of a record, or may.
    filled: Box<[u16]>,
    layout: Layout,
}

impl Template {
    /// A template with these fields, of which the first `scope_count` are scope fields; 0 for a data template.
    ///
    /// Fields of no octets are accepted, since exporters do send them. A template all of whose fields have none is
    /// not: any number of its records would fit into a set, so there is no saying how many a set holds.
    ///
    /// # Errors
    ///
    /// [`WireError::TooManyFields`], [`WireError::ScopeCount`] for more scopes than fields,
    /// [`WireError::ZeroLengthTemplate`] when the shortest record has no octets (no fields included), and
    /// [`WireError::RecordTooLong`] when it is longer than any set.
    pub fn new(id: TemplateId, fields: Vec<FieldSpecifier>, scope_count: u16) -> Result<Self, WireError> {
        let count = octets_of(fields.len());
        if fields.len() > TEMPLATE_FIELDS_MAX {
            return Err(WireError::TooManyFields {
                template: id.get(),
                stated: count,
                limit: octets_of(TEMPLATE_FIELDS_MAX),
            });
        }
        if usize::from(scope_count) > fields.len() {
            return Err(WireError::ScopeCount { template: id.get(), scopes: scope_count, fields: count });
        }
        let layout = Layout::new(&fields);
        match layout.min_record_len() {
            0 => Err(WireError::ZeroLengthTemplate),
            octets if octets > SET_BODY_OCTETS_MAX => Err(WireError::RecordTooLong {
                template: id.get(),
                octets: octets_of(octets),
                limit: octets_of(SET_BODY_OCTETS_MAX),
            }),
            _ => {
                // nearly always all of them, so that what is allocated is what is kept
                let mut filled = Vec::with_capacity(fields.len());
                filled.extend(fields.iter().zip(0..).filter(|(field, _)| field.length > 0).map(|(_, number)| number));
                let (fields, filled) = (fields.into_boxed_slice(), filled.into_boxed_slice());
                Ok(Self { id, fields, scope_count, filled, layout })
            }
        }
    }

    /// Its ID.
    pub fn id(&self) -> TemplateId {
        self.id
    }

    /// Its fields in the order of the record, scope fields first.
    #[inline]
    pub fn fields(&self) -> &[FieldSpecifier] {
        &self.fields
    }

    /// The fields that take octets of a record, or may, with their numbers: what is read record by record goes through
    /// these, so that its cost is bounded by the octets received.
    #[inline]
    pub fn filled_fields(&self) -> impl ExactSizeIterator<Item = (usize, &FieldSpecifier)> + Clone {
        self.filled.iter().map(|&number| (usize::from(number), &self.fields[usize::from(number)]))
    }

    /// How many leading fields are scope fields; 0 for data templates.
    pub fn scope_count(&self) -> usize {
        usize::from(self.scope_count)
    }

    /// Whether this is an options template.
    pub fn is_options(&self) -> bool {
        self.scope_count > 0
    }

    /// Where each field is in a record.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}
