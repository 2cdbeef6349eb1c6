//! The numbers that name things: information elements, templates, observation domains.

use std::fmt;

use crate::error::WireError;

/// A field length of 65535 says that each record states the field's length itself (RFC 7011 section 7).
///
/// NetFlow v9 does not define it, but exporters that share code with IPFIX send it there too, with the same
/// meaning; no real field has this length, since no set could hold it.
pub const VARIABLE_LENGTH: u16 = 65535;

/// `paddingOctets`, the element of octets that mean nothing (RFC 7011 section 3.3.1).
pub const PADDING_OCTETS: u16 = 210;

/// The smallest template ID (RFC 7011 section 3.4.1, RFC 3954 section 5.2); smaller numbers name kinds of sets.
pub const TEMPLATE_ID_MIN: u16 = 256;

/// Names an information element (RFC 7011 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId {
    /// Private enterprise number; 0 for elements of the IANA registry and for NetFlow v9 field types.
    pub enterprise: u32,
    /// The element within its enterprise. IPFIX has 15 bits for it. NetFlow v9 has no enterprise bit: all 16
    /// bits are the type, so vendors' types from 32768 up are kept as they are, with enterprise 0.
    pub id: u16,
}

impl ElementId {
    /// An element of the IANA registry, or a NetFlow v9 field type.
    pub const fn iana(id: u16) -> Self {
        Self { enterprise: 0, id }
    }
}

/// `id` for IANA elements, `enterprise/id` for others.
impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.enterprise {
            0 => write!(f, "{}", self.id),
            enterprise => write!(f, "{enterprise}/{}", self.id),
        }
    }
}

/// Names a template within one exporter's observation domain; 256 to 65535.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(u16);

impl TemplateId {
    /// The smallest one.
    pub const MIN: Self = Self(TEMPLATE_ID_MIN);
    /// The largest one.
    pub const MAX: Self = Self(u16::MAX);

    /// Checks that `id` is at least 256; else [`WireError::ReservedTemplateId`].
    pub const fn new(id: u16) -> Result<Self, WireError> {
        if id < TEMPLATE_ID_MIN {
            return Err(WireError::ReservedTemplateId { id });
        }
        Ok(Self(id))
    }

    /// The number itself.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for TemplateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Observation Domain ID of IPFIX (RFC 7011 section 3.1), Source ID of NetFlow v9 (RFC 3954 section 5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObservationDomainId(pub u32);

impl fmt::Display for ObservationDomainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One field of a template: which element, and how many octets of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldSpecifier {
    /// The element. In the leading [`crate::Template::scope_count`] fields of a NetFlow v9 options template its
    /// `id` is a [`ScopeType`] and no element of the registry.
    pub element: ElementId,
    /// Octets in each record, possibly none, or [`VARIABLE_LENGTH`].
    pub length: u16,
}

impl FieldSpecifier {
    /// A field of the IANA registry.
    pub const fn iana(id: u16, length: u16) -> Self {
        Self { element: ElementId::iana(id), length }
    }

    /// Whether each record states this field's length itself.
    pub const fn is_variable(self) -> bool {
        self.length == VARIABLE_LENGTH
    }
}

/// What the scope fields of a NetFlow v9 options template name (RFC 3954 section 6.1).
///
/// These numbers collide with information elements (1 is a system here and octetDeltaCount there). A template
/// does not remember its protocol, since a collector keeps templates per protocol anyway: of a template that came
/// by NetFlow v9, the first `scope_count()` fields are scope types, of an IPFIX one they are elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScopeType {
    /// 1: the exporter as a whole.
    System,
    /// 2: an interface, by its index.
    Interface,
    /// 3: a line card.
    LineCard,
    /// 4: a flow cache.
    Cache,
    /// 5: a template.
    Template,
    /// A number that RFC 3954 does not name.
    Other(u16),
}

impl ScopeType {
    /// The scope type with this number.
    pub const fn from_id(id: u16) -> Self {
        match id {
            1 => Self::System,
            2 => Self::Interface,
            3 => Self::LineCard,
            4 => Self::Cache,
            5 => Self::Template,
            other => Self::Other(other),
        }
    }

    /// The number of this scope type.
    pub const fn id(self) -> u16 {
        match self {
            Self::System => 1,
            Self::Interface => 2,
            Self::LineCard => 3,
            Self::Cache => 4,
            Self::Template => 5,
            Self::Other(id) => id,
        }
    }
}
