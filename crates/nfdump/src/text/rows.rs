//! Rows of an answer as nfdump sees a flow: every field has a value, mostly 0 when it is not there.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, TimeUnit, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::Column;

/// Numbers or times of a column, which may be absent.
#[derive(Debug, Clone)]
pub(super) struct Numbers<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

#[derive(Debug, Clone, Copy)]
enum Values<'a> {
    Absent,
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
    Ms(&'a [i64]),
}

impl<'a> Numbers<'a> {
    /// The column of a name, if it holds numbers that are not negative, or times.
    pub(super) fn of(batch: &'a RecordBatch, column: Column) -> Self {
        batch.column_by_name(column.name()).map_or(Self::absent(), Self::new)
    }

    pub(super) fn absent() -> Self {
        Self { values: Values::Absent, nulls: None }
    }

    pub(super) fn new(array: &'a ArrayRef) -> Self {
        let values = match array.data_type() {
            DataType::UInt8 => Values::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Values::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Values::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Values::U64(array.as_primitive::<UInt64Type>().values()),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                Values::Ms(array.as_primitive::<TimestampMillisecondType>().values())
            }
            _ => return Self::absent(),
        };
        Self { values, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) }
    }

    /// The value in a row.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<u64> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        match self.values {
            Values::Absent => None,
            Values::U8(values) => values.get(row).map(|value| u64::from(*value)),
            Values::U16(values) => values.get(row).map(|value| u64::from(*value)),
            Values::U32(values) => values.get(row).map(|value| u64::from(*value)),
            Values::U64(values) => values.get(row).copied(),
            Values::Ms(values) => values.get(row).map(|value| *value as u64),
        }
    }

    #[inline]
    pub(super) fn or_zero(&self, row: usize) -> u64 {
        self.get(row).unwrap_or(0)
    }
}

/// Addresses of a column, which may be absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses<'a>(Option<&'a BinaryArray>);

impl<'a> Addresses<'a> {
    pub(super) fn of(batch: &'a RecordBatch, column: Column) -> Self {
        Self(batch.column_by_name(column.name()).and_then(|values| values.as_binary_opt::<i32>()))
    }

    pub(super) fn new(array: &'a ArrayRef) -> Self {
        Self(array.as_binary_opt::<i32>())
    }

    pub(super) fn absent() -> Self {
        Self(None)
    }

    /// The octets in a row.
    #[inline]
    pub(super) fn get(self, row: usize) -> Option<&'a [u8]> {
        self.0.filter(|values| values.is_valid(row)).map(|values| values.value(row))
    }
}

/// Type and code of ICMP, wherever the exporter put them.
#[derive(Debug, Clone)]
pub(super) struct Icmp<'a> {
    protocol: Numbers<'a>,
    icmp_type: Numbers<'a>,
    icmp_code: Numbers<'a>,
    both: Numbers<'a>,
    dst_port: Numbers<'a>,
}

/// The columns that [`Icmp`] looks at.
pub(super) const ICMP_COLUMNS: &[Column] =
    &[Column::Protocol, Column::IcmpType, Column::IcmpCode, Column::IcmpTypeCode, Column::DstPort];

impl<'a> Icmp<'a> {
    pub(super) fn of(batch: &'a RecordBatch) -> Self {
        let [protocol, icmp_type, icmp_code, both, dst_port] =
            [Column::Protocol, Column::IcmpType, Column::IcmpCode, Column::IcmpTypeCode, Column::DstPort]
                .map(|column| Numbers::of(batch, column));
        Self { protocol, icmp_type, icmp_code, both, dst_port }
    }

    /// Type and code when the protocol is ICMP or ICMPv6.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<(u64, u64)> {
        if !matches!(self.protocol.get(row), Some(1 | 58)) {
            return None;
        }
        if let Some(icmp_type) = self.icmp_type.get(row) {
            return Some((icmp_type, self.icmp_code.or_zero(row)));
        }
        let both = self.both.get(row).unwrap_or_else(|| self.dst_port.or_zero(row));
        Some((both >> 8 & 255, both & 255))
    }

    #[inline]
    pub(super) fn dst_port(&self, row: usize) -> u64 {
        self.dst_port.or_zero(row)
    }
}

/// Start and end, and what follows from both.
#[derive(Debug, Clone)]
pub(super) struct Span<'a> {
    start: Numbers<'a>,
    end: Numbers<'a>,
}

impl<'a> Span<'a> {
    pub(super) fn of(batch: &'a RecordBatch) -> Self {
        Self { start: Numbers::of(batch, Column::Start), end: Numbers::of(batch, Column::End) }
    }

    /// The same; 0 when the start is 0, which stands for no time.
    #[inline]
    pub(super) fn ms_of_flow(&self, row: usize) -> u64 {
        if self.start.get(row) == Some(0) { 0 } else { self.ms(row) }
    }

    /// Milliseconds from start to end; 0 when one is not known or they are the wrong way round.
    #[inline]
    pub(super) fn ms(&self, row: usize) -> u64 {
        match (self.start.get(row), self.end.get(row)) {
            (Some(start), Some(end)) => end.saturating_sub(start),
            _ => 0,
        }
    }
}

/// A rate as nfdump has it: rounded down, 0 without a duration.
pub(super) fn per_second(amount: u64, duration_ms: u64) -> u64 {
    if duration_ms == 0 { 0 } else { (amount as f64 / (duration_ms as f64 / 1000.0)) as u64 }
}
