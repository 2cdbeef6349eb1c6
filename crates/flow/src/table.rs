//! The tables that an archive keeps.

/// The tables that an archive keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// One row per flow, columns of [`Column`].
    Flows,
    /// One row per exporter, domain and time bin, see [`crate::books`].
    ExporterBooks,
    /// One row per Options Data Record that said something new, see [`crate::options`].
    ExporterOptions,
    /// Counters of network interfaces, see [`crate::counters`].
    InterfaceCounters,
    /// Counters of hosts and devices, see [`crate::counters`].
    HostCounters,
    /// Where sequence numbers stood with the flows of a delivery, see [`crate::sequences`].
    ExporterSequences,
}

impl Table {
    /// Every table.
    pub const ALL: &'static [Table] = &[
        Table::Flows,
        Table::ExporterBooks,
        Table::ExporterOptions,
        Table::InterfaceCounters,
        Table::HostCounters,
        Table::ExporterSequences,
    ];

    /// Name in SQL, and of the table's folder in an archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::ExporterBooks => "exporter_books",
            Self::ExporterOptions => "exporter_options",
            Self::InterfaceCounters => "interface_counters",
            Self::HostCounters => "host_counters",
            Self::ExporterSequences => "exporter_sequences",
        }
    }

    /// Whether an archive makes one row of several that say the same together; of other tables every row stays.
    pub const fn is_folded(self) -> bool {
        matches!(self, Self::ExporterBooks | Self::ExporterSequences)
    }
}
