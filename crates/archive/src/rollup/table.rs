//! What flows are summed up by, and the sums of one segment.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, TimeUnit};
use weir_flow::{Column, Table};

/// What flows are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Rollup {
    /// By source address.
    SrcAddr,
    /// By destination address.
    DstAddr,
    /// By source port.
    SrcPort,
    /// By destination port.
    DstPort,
    /// By protocol.
    Protocol,
    /// By the source's autonomous system.
    SrcAs,
    /// By the destination's autonomous system.
    DstAs,
    /// By the interface that flows came in by.
    InIf,
    /// By the interface that flows went out by.
    OutIf,
    /// By exporter.
    Exporter,
    /// By the minute in which flows start.
    Minute,
}

impl Rollup {
    /// Every rollup.
    pub const ALL: &'static [Self] = &[
        Self::SrcAddr,
        Self::DstAddr,
        Self::SrcPort,
        Self::DstPort,
        Self::Protocol,
        Self::SrcAs,
        Self::DstAs,
        Self::InIf,
        Self::OutIf,
        Self::Exporter,
        Self::Minute,
    ];

    /// The column whose values are the keys; `None` for minutes.
    pub const fn column(self) -> Option<Column> {
        match self {
            Self::SrcAddr => Some(Column::SrcAddr),
            Self::DstAddr => Some(Column::DstAddr),
            Self::SrcPort => Some(Column::SrcPort),
            Self::DstPort => Some(Column::DstPort),
            Self::Protocol => Some(Column::Protocol),
            Self::SrcAs => Some(Column::SrcAs),
            Self::DstAs => Some(Column::DstAs),
            Self::InIf => Some(Column::InIf),
            Self::OutIf => Some(Column::OutIf),
            Self::Exporter => Some(Column::Exporter),
            Self::Minute => None,
        }
    }

    /// Name of the column of keys.
    pub const fn name(self) -> &'static str {
        match self.column() {
            Some(column) => column.name(),
            None => "minute",
        }
    }

    pub(super) fn key_field(self) -> Field {
        match self.column() {
            Some(column) => Table::Flows.schema().field(column as usize).clone(),
            None => Field::new("minute", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
        }
    }
}

/// The sums of one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct RollupTable {
    /// A row for each key: the key under its column's name, then `flows`, `packets` and `bytes` (64-bit, unsigned),
    /// `start` and `end` (milliseconds). The flows whose key is null are a row whose key is null.
    pub rows: RecordBatch,
    /// What there is besides these rows; `None` when they are all.
    pub rest: Option<OmittedKeys>,
}

/// Keys that have no row of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OmittedKeys {
    /// How many there are.
    pub keys: u64,
    /// No one of them has more flows than this.
    pub flows_max: u64,
    /// No one of them has more packets than this.
    pub packets_max: u64,
    /// No one of them has more octets than this.
    pub bytes_max: u64,
}

/// The sums of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) flows: u64,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
}
