//! The records of template and options template sets (RFC 7011 sections 3.4.1, 3.4.2 and 8.1, RFC 3954 sections
//! 5.2 and 6.1).

use crate::cursor::Cursor;
use crate::dialect::{Dialect, ENTERPRISE_BIT};
use crate::element::{ElementId, FieldSpecifier, TemplateId};
use crate::error::{WireError, octets_of};
use crate::template::{TEMPLATE_FIELDS_MAX, Template};

/// What a record of a template set asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateRecord {
    /// Use this template from now on.
    Define(Template),
    /// Forget this template (IPFIX only).
    Withdraw(TemplateId),
    /// Forget all templates of the kind that the set is for: data templates when it was [`crate::Set::Templates`],
    /// options templates when it was [`crate::Set::OptionsTemplates`] (IPFIX only).
    WithdrawAll,
}

/// Iterates over the records of a template or options template set.
///
/// A template that is complete but not acceptable yields an error, and the next one is read. One that reaches past
/// the set yields [`WireError::TemplateTruncated`] and is the last. Fewer than four octets at the end are padding
/// (RFC 7011 section 3.3.1), and so is any number of zero octets, which some exporters send. Four zero octets that
/// something else follows are [`WireError::ReservedTemplateId`], and the last as well.
#[derive(Debug, Clone)]
pub struct TemplateRecords<'a> {
    rest: &'a [u8],
    set_id: u16,
    dialect: &'static Dialect,
}

/// The part of a template record before its fields.
struct Head {
    id: u16,
    fields: usize,
    scopes: u16,
}

/// Shortest template record: ID and field count.
const TEMPLATE_HEADER_LEN: usize = 4;

impl<'a> TemplateRecords<'a> {
    pub(crate) fn new(body: &'a [u8], set_id: u16, dialect: &'static Dialect) -> Self {
        Self { rest: body, set_id, dialect }
    }

    /// Reads one record. The cursor is after it whenever its end is known; an error that is not about
    /// truncation leaves it there too.
    fn record(&self, cursor: &mut Cursor<'a>) -> Result<TemplateRecord, WireError> {
        let octets = cursor.rest;
        let id = cursor.u16().unwrap_or_default();
        let truncated = |need: usize| WireError::TemplateTruncated {
            template: id,
            need: octets_of(need),
            have: octets_of(octets.len()),
        };
        let lost = |cursor: &mut Cursor<'a>, need: usize| {
            cursor.rest = &[];
            truncated(need)
        };
        let Some(count) = cursor.u16() else { return Err(lost(cursor, TEMPLATE_HEADER_LEN)) };
        if count == 0 && self.dialect.withdrawals {
            if id == self.set_id {
                return Ok(TemplateRecord::WithdrawAll);
            }
            return TemplateId::new(id).map(TemplateRecord::Withdraw);
        }
        let head = if self.set_id == self.dialect.options_template_set {
            let Some(second) = cursor.u16() else {
                return Err(lost(cursor, TEMPLATE_HEADER_LEN + 2));
            };
            match self.options_head(id, count, second) {
                Ok(head) => head,
                Err(error) => {
                    // Only octet lengths can disagree with themselves, and then they at least determine where it ends.
                    let length = usize::from(count) + usize::from(second);
                    if cursor.take(length).is_none() {
                        return Err(lost(cursor, TEMPLATE_HEADER_LEN + 2 + length));
                    }
                    return Err(error);
                }
            }
        } else {
            Head { id, fields: usize::from(count), scopes: 0 }
        };
        let header_len = octets.len() - cursor.rest.len();
        match self.fields(cursor, head.fields) {
            Some(fields) => self.template(&head, fields),
            // Enterprise numbers may take more than the four octets of each field.
            None => Err(lost(cursor, (header_len + 4 * head.fields).max(octets.len() + 1))),
        }
    }

    fn options_head(&self, id: u16, first: u16, second: u16) -> Result<Head, WireError> {
        if !self.dialect.options_lengths_in_octets {
            return Ok(Head { id, fields: usize::from(first), scopes: second });
        }
        if !first.is_multiple_of(4) || !second.is_multiple_of(4) {
            return Err(WireError::OptionsLength { template: id, scope_octets: first, option_octets: second });
        }
        let fields = usize::from(first / 4) + usize::from(second / 4);
        Ok(Head { id, fields, scopes: first / 4 })
    }

    /// Reads `count` field specifiers; `None` when they reach past the set. Walks over all of them, so that the
    /// next template is found, but keeps no more than one over the limit, so that the limit is seen to be passed.
    fn fields(&self, cursor: &mut Cursor<'a>, count: usize) -> Option<Vec<FieldSpecifier>> {
        let present = cursor.rest.len() / 4;
        let mut fields = Vec::with_capacity(count.min(present).min(TEMPLATE_FIELDS_MAX + 1));
        for _ in 0..count {
            let mut element = ElementId::iana(cursor.u16()?);
            let length = cursor.u16()?;
            if self.dialect.enterprise_bit && element.id & ENTERPRISE_BIT != 0 {
                element = ElementId { enterprise: cursor.u32()?, id: element.id & !ENTERPRISE_BIT };
            }
            if fields.len() <= TEMPLATE_FIELDS_MAX {
                fields.push(FieldSpecifier { element, length });
            }
        }
        Some(fields)
    }

    fn template(&self, head: &Head, fields: Vec<FieldSpecifier>) -> Result<TemplateRecord, WireError> {
        let id = TemplateId::new(head.id)?;
        if fields.len() > TEMPLATE_FIELDS_MAX {
            return Err(WireError::TooManyFields {
                template: head.id,
                stated: octets_of(head.fields),
                limit: octets_of(TEMPLATE_FIELDS_MAX),
            });
        }
        // Without a scope, options would pass for flows (RFC 7011 section 3.4.2.2: MUST NOT be zero).
        if self.set_id == self.dialect.options_template_set && head.scopes == 0 {
            return Err(WireError::ScopeCount { template: head.id, scopes: 0, fields: octets_of(head.fields) });
        }
        Template::new(id, fields, head.scopes).map(TemplateRecord::Define)
    }
}

impl Iterator for TemplateRecords<'_> {
    type Item = Result<TemplateRecord, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Ending here in either case keeps a set of almost only zeros from being searched again and again.
        match std::mem::take(&mut self.rest) {
            [] | [_] | [_, _] | [_, _, _] => None,
            [0, 0, 0, 0, rest @ ..] => {
                let padding = rest.iter().all(|&octet| octet == 0);
                (!padding).then_some(Err(WireError::ReservedTemplateId { id: 0 }))
            }
            octets => {
                let mut cursor = Cursor::new(octets);
                let record = self.record(&mut cursor);
                self.rest = cursor.rest;
                Some(record)
            }
        }
    }
}
