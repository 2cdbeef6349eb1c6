//! What NetFlow v9 and IPFIX do differently inside a message, in one table.
//!
//! Everything else about sets and templates is the same in both, and is written once.

/// The rules of one protocol.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Set ID of template sets.
    pub(crate) template_set: u16,
    /// Set ID of options template sets.
    pub(crate) options_template_set: u16,
    /// Whether the first bit of a field's element means that an enterprise number follows.
    pub(crate) enterprise_bit: bool,
    /// Whether a template with no fields withdraws it.
    pub(crate) withdrawals: bool,
    /// Whether options templates state the lengths of their scope and option parts in octets, rather than the
    /// number of all fields and of scope fields.
    pub(crate) options_lengths_in_octets: bool,
}

/// RFC 3954 sections 5.2 and 6.1.
pub(crate) static NETFLOW9: Dialect = Dialect {
    template_set: 0,
    options_template_set: 1,
    enterprise_bit: false,
    withdrawals: false,
    options_lengths_in_octets: true,
};

/// RFC 7011 sections 3.2, 3.3.2, 3.4 and 8.1.
pub(crate) static IPFIX: Dialect = Dialect {
    template_set: 2,
    options_template_set: 3,
    enterprise_bit: true,
    withdrawals: true,
    options_lengths_in_octets: false,
};

/// The bit of a field's element that means that an enterprise number follows (RFC 7011 section 3.2).
pub(crate) const ENTERPRISE_BIT: u16 = 0x8000;
