//! What can be wrong with octets from the network, or with what is to be put there.

/// Why something could not be read or written.
///
/// Small and `Copy`: it holds the numbers that explain it and nothing else, so that complaining about a flood of
/// bad datagrams allocates nothing. Lengths are octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The datagram ends inside the message header.
    #[error("message header needs {need} octets, have {have}")]
    TruncatedHeader {
        /// Length of the header.
        need: u32,
        /// Length of the datagram.
        have: u32,
    },
    /// The version field names another protocol.
    #[error("version {found} is not the one expected")]
    WrongVersion {
        /// The version field as found.
        found: u16,
    },
    /// The record count of a NetFlow v5 header promises more records than the datagram holds.
    #[error("header counts {stated} records, datagram holds {found}")]
    CountMismatch {
        /// The count field.
        stated: u16,
        /// Whole records present.
        found: u32,
    },
    /// The length field of an IPFIX message is shorter than its header or longer than the octets at hand.
    #[error("message length {stated} does not agree with {have} octets at hand")]
    MessageLength {
        /// The length field.
        stated: u16,
        /// Octets at hand.
        have: u32,
    },
    /// Octets follow the last record of a packet or the last set of a message.
    #[error("{octets} octets follow the end of the message")]
    TrailingOctets {
        /// How many.
        octets: u32,
    },
    /// A set's length is shorter than its header or reaches past the message.
    #[error("set {set_id} states length {stated}, message has {have} octets left")]
    SetLength {
        /// The set ID.
        set_id: u16,
        /// The length field, header included.
        stated: u16,
        /// Octets left in the message, from the set's header on.
        have: u32,
    },
    /// A set body longer than any message can carry.
    #[error("set body of {octets} octets is over the limit of {limit}")]
    SetTooLong {
        /// Length of the body.
        octets: u32,
        /// [`crate::layout::SET_BODY_OCTETS_MAX`].
        limit: u32,
    },
    /// A template ID below 256, which names sets and not templates.
    #[error("template id {id} is reserved, ids start at 256")]
    ReservedTemplateId {
        /// The ID as found.
        id: u16,
    },
    /// A template record reaches past its set.
    #[error("template {template} needs {need} octets, set has {have}")]
    TemplateTruncated {
        /// Its template ID.
        template: u16,
        /// Octets needed at least, as far as known.
        need: u32,
        /// Octets left in the set.
        have: u32,
    },
    /// The records of a template have no octets at all, so that any number of them fits into nothing.
    #[error("template describes records without octets")]
    ZeroLengthTemplate,
    /// More fields than [`crate::template::TEMPLATE_FIELDS_MAX`].
    #[error("template {template} has {stated} fields, limit is {limit}")]
    TooManyFields {
        /// Its template ID.
        template: u16,
        /// Number of fields.
        stated: u32,
        /// The limit.
        limit: u32,
    },
    /// The shortest record of a template is longer than any set.
    #[error("template {template} describes records of {octets} octets, limit is {limit}")]
    RecordTooLong {
        /// Its template ID.
        template: u16,
        /// Length of the shortest record.
        octets: u32,
        /// The limit.
        limit: u32,
    },
    /// An options template without scope fields, or with more scope fields than fields.
    #[error("options template {template} has {scopes} scope fields among {fields} fields")]
    ScopeCount {
        /// Its template ID.
        template: u16,
        /// Number of scope fields.
        scopes: u16,
        /// Number of fields, scopes included.
        fields: u32,
    },
    /// The lengths of a NetFlow v9 options template are no multiple of the four octets of a field specifier.
    #[error("options template {template} states {scope_octets} scope and {option_octets} option octets")]
    OptionsLength {
        /// Its template ID.
        template: u16,
        /// Option Scope Length.
        scope_octets: u16,
        /// Option Length.
        option_octets: u16,
    },
    /// A data record reaches past its set.
    #[error("record {record} needs {need} octets, set has {have}")]
    RecordTruncated {
        /// Number of the record in its set, from 0.
        record: u32,
        /// Octets needed, as far as known.
        need: u32,
        /// Octets left in the set, from the record's start.
        have: u32,
    },
    /// The length prefix of a variable-length field reaches past the set.
    #[error("record {record} field {field} has length {length}, set has {have} octets")]
    VariableLengthOverrun {
        /// Number of the record in its set, from 0.
        record: u32,
        /// Number of the field in its template, from 0.
        field: u16,
        /// The length that the prefix states.
        length: u16,
        /// Octets left in the set after the prefix.
        have: u32,
    },
    /// What is to be written does not fit into the message.
    #[error("message would have {need} octets, limit is {limit}")]
    MessageFull {
        /// Length that the message would have.
        need: u32,
        /// The limit.
        limit: u32,
    },
    /// A packet or message cannot count another record.
    #[error("message cannot hold more than {limit} records")]
    CountFull {
        /// The limit.
        limit: u32,
    },
    /// The octets written for a data record are not what its template describes.
    #[error("{written} octets are not {expected} whole records of the template")]
    RecordMismatch {
        /// Octets written.
        written: u32,
        /// Records they were to be.
        expected: u32,
    },
    /// The protocol has no way to name this element.
    #[error("element {enterprise}/{id} cannot be expressed in this protocol")]
    Inexpressible {
        /// Its private enterprise number.
        enterprise: u32,
        /// Its ID.
        id: u16,
    },
    /// A value is too long for a variable-length field.
    #[error("value of {octets} octets is over the limit of {limit}")]
    ValueTooLong {
        /// Its length.
        octets: u32,
        /// The limit.
        limit: u32,
    },
    /// The agent address of an sFlow datagram is of a type that is not known, and so is its length.
    #[error("agent address has type {found}, known are 0 to 2")]
    AddressType {
        /// The type.
        found: u32,
    },
    /// The header of an sFlow datagram counts more samples than there are.
    #[error("header counts {stated} samples, datagram holds {found}")]
    SampleCount {
        /// The number in the header.
        stated: u32,
        /// Whole samples present.
        found: u32,
    },
    /// An sFlow sample reaches past the datagram.
    #[error("sample {sample} needs {need} octets, datagram has {have}")]
    SampleTruncated {
        /// Number of the sample in its datagram, from 0.
        sample: u32,
        /// Octets needed, as far as known.
        need: u32,
        /// Octets left in the datagram, from the sample's start.
        have: u32,
    },
    /// A record of an sFlow sample reaches past the sample.
    #[error("record {record} needs {need} octets, sample has {have}")]
    SampleRecordTruncated {
        /// Number of the record in its sample, from 0.
        record: u32,
        /// Octets needed, as far as known.
        need: u32,
        /// Octets left in the sample, from the record's start.
        have: u32,
    },
    /// An sFlow sample or record is shorter than the structure that it names.
    #[error("structure {}:{} ends after {octets} octets", .format >> 12, .format & 0xfff)]
    StructureTooShort {
        /// Enterprise (20 bits) and format (12 bits).
        format: u32,
        /// Octets that it has.
        octets: u32,
    },
}

/// The part of a message that an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The message header.
    Header,
    /// A length or count that does not agree with the octets at hand.
    Length,
    /// A Template Record.
    Template,
    /// A Data Record.
    Record,
}

impl WireError {
    /// Every label that [`WireError::label`] can give.
    pub const LABELS: &'static [&'static str] = &[
        "truncated_header",
        "wrong_version",
        "count_mismatch",
        "message_length",
        "trailing_octets",
        "set_length",
        "set_too_long",
        "reserved_template_id",
        "template_truncated",
        "zero_length_template",
        "too_many_fields",
        "record_too_long",
        "scope_count",
        "options_length",
        "record_truncated",
        "variable_length_overrun",
        "message_full",
        "count_full",
        "record_mismatch",
        "inexpressible",
        "value_too_long",
        "address_type",
        "sample_count",
        "sample_truncated",
        "sample_record_truncated",
        "structure_too_short",
    ];

    /// The variant's name, as the label of a metric: a closed set that no sender of datagrams can grow.
    pub fn label(self) -> &'static str {
        Self::LABELS[self.index()]
    }

    /// What part of a message is wrong. What can only go wrong in writing counts with the part that is written.
    pub fn class(self) -> ErrorClass {
        match self {
            Self::TruncatedHeader { .. } | Self::WrongVersion { .. } => ErrorClass::Header,
            Self::CountMismatch { .. }
            | Self::MessageLength { .. }
            | Self::TrailingOctets { .. }
            | Self::SetLength { .. }
            | Self::SetTooLong { .. }
            | Self::MessageFull { .. }
            | Self::CountFull { .. }
            | Self::AddressType { .. }
            | Self::SampleCount { .. }
            | Self::SampleTruncated { .. } => ErrorClass::Length,
            Self::ReservedTemplateId { .. }
            | Self::TemplateTruncated { .. }
            | Self::ZeroLengthTemplate
            | Self::TooManyFields { .. }
            | Self::RecordTooLong { .. }
            | Self::ScopeCount { .. }
            | Self::OptionsLength { .. }
            | Self::Inexpressible { .. } => ErrorClass::Template,
            Self::RecordTruncated { .. }
            | Self::VariableLengthOverrun { .. }
            | Self::RecordMismatch { .. }
            | Self::ValueTooLong { .. }
            | Self::SampleRecordTruncated { .. }
            | Self::StructureTooShort { .. } => ErrorClass::Record,
        }
    }

    /// Position of the variant's label in [`WireError::LABELS`].
    fn index(self) -> usize {
        match self {
            Self::TruncatedHeader { .. } => 0,
            Self::WrongVersion { .. } => 1,
            Self::CountMismatch { .. } => 2,
            Self::MessageLength { .. } => 3,
            Self::TrailingOctets { .. } => 4,
            Self::SetLength { .. } => 5,
            Self::SetTooLong { .. } => 6,
            Self::ReservedTemplateId { .. } => 7,
            Self::TemplateTruncated { .. } => 8,
            Self::ZeroLengthTemplate => 9,
            Self::TooManyFields { .. } => 10,
            Self::RecordTooLong { .. } => 11,
            Self::ScopeCount { .. } => 12,
            Self::OptionsLength { .. } => 13,
            Self::RecordTruncated { .. } => 14,
            Self::VariableLengthOverrun { .. } => 15,
            Self::MessageFull { .. } => 16,
            Self::CountFull { .. } => 17,
            Self::RecordMismatch { .. } => 18,
            Self::Inexpressible { .. } => 19,
            Self::ValueTooLong { .. } => 20,
            Self::AddressType { .. } => 21,
            Self::SampleCount { .. } => 22,
            Self::SampleTruncated { .. } => 23,
            Self::SampleRecordTruncated { .. } => 24,
            Self::StructureTooShort { .. } => 25,
        }
    }
}

/// A length as an error holds it. Nothing that arrives by network is longer than 32 bits can express.
pub(crate) fn octets_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
