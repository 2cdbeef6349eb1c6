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
}

impl Table {
    /// Every table.
    pub const ALL: &'static [Table] =
        &[Table::Flows, Table::ExporterBooks, Table::ExporterOptions, Table::InterfaceCounters, Table::HostCounters];

    /// Name in SQL, and of the table's folder in an archive.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::ExporterBooks => "exporter_books",
            Self::ExporterOptions => "exporter_options",
            Self::InterfaceCounters => "interface_counters",
            Self::HostCounters => "host_counters",
        }
    }
}
