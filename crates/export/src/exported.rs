//! What an exporter counts.

/// Why a flow could not be exported in a protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// An IPv6 address in NetFlow v5, or octets that are no address.
    Address,
    /// A number or text that does not fit into its field.
    Value,
    /// A time that 32 bits of uptime cannot express: after the export, more than 24 days before it, or before the exporter
    /// began.
    Time,
    /// The record or its template does not fit into a datagram.
    Length,
    /// A combination of fields over the limit on templates, or a flow without a single value.
    Template,
}

impl Refusal {
    /// Every reason.
    pub const ALL: &'static [Refusal] = &[Self::Address, Self::Value, Self::Time, Self::Length, Self::Template];
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason as a label of metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Value => "value",
            Self::Time => "time",
            Self::Length => "length",
            Self::Template => "template",
        }
    }
}

/// What an exporter has done. Flows given = `flows` + the sum of `refused`, where each of the flows that NetFlow v5 makes
/// of a biflow, or of one that is too large for its counters, is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Flows accepted; after a flush all of them are in datagrams.
    pub flows: u64,
    /// Sum of the packets of flows accepted, modulo 2^64.
    pub packets: u64,
    /// Sum of the octets of flows accepted, modulo 2^64.
    pub bytes: u64,
    /// Datagrams handed out.
    pub datagrams: u64,
    /// Octets of UDP payload handed out.
    pub octets: u64,
    /// Template Records and Options Template Records handed out, refreshes included.
    pub templates: u64,
    /// Options Data Records handed out.
    pub options_records: u64,
    /// Flows refused, by [`Refusal`].
    pub refused: [u64; Refusal::COUNT],
    /// Values of accepted and refused flows that the version has no field for: the flows went out without them.
    pub values_left_out: u64,
}

impl Exported {
    /// Flows refused for any reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Flows refused for this reason.
    pub fn refused_for(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }
}
