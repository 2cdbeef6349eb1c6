//! What is counted for a group of flows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, PrimitiveArray, TimestampMillisecondArray, UInt64Array};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, TimestampMillisecondType, UInt64Type};
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch};

use crate::{Order, Sorting};

/// Columns that are counted.
pub(crate) const COUNTED: [Column; 5] = [Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];

const PACKETS: u64 = 1;
const BYTES: u64 = 2;
const SATURATED: u64 = 4;

/// Adds to a sum. One that is larger than 64 bits hold becomes the largest number, and the result is true: the same
/// whatever the order in which parts of it are added.
#[inline]
pub(crate) fn add_saturating(sum: &mut u64, more: u64) -> bool {
    let (added, is_over) = sum.overflowing_add(more);
    *sum = if is_over { u64::MAX } else { added };
    is_over
}

/// Counters of a group: as large as its key leaves of a line of the processor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// `i64::MAX` when no flow has one.
    pub(crate) start: i64,
    /// `i64::MIN` when no flow has one.
    pub(crate) end: i64,
    /// Which of packets and bytes some flow has, and whether a sum is larger than 64 bits hold.
    known: u64,
}

impl Sums {
    /// Those of no flow.
    pub(crate) const NONE: Self = Self { flows: 0, packets: 0, bytes: 0, start: i64::MAX, end: i64::MIN, known: 0 };

    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        let is_over = add_saturating(&mut self.flows, other.flows)
            | add_saturating(&mut self.packets, other.packets)
            | add_saturating(&mut self.bytes, other.bytes);
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.known |= other.known | (u64::from(is_over) * SATURATED);
    }

    /// Says that a sum of the group is larger than 64 bits hold.
    pub(crate) fn saturate(&mut self) {
        self.known |= SATURATED;
    }

    /// Whether a sum is larger than 64 bits hold, and given as the largest number.
    pub(crate) fn is_saturated(&self) -> bool {
        self.known & SATURATED != 0
    }

    pub(crate) fn packets(&self) -> Option<u64> {
        (self.known & PACKETS != 0).then_some(self.packets)
    }

    pub(crate) fn bytes(&self) -> Option<u64> {
        (self.known & BYTES != 0).then_some(self.bytes)
    }

    pub(crate) fn start(&self) -> Option<i64> {
        (self.start != i64::MAX).then_some(self.start)
    }

    pub(crate) fn end(&self) -> Option<i64> {
        (self.end != i64::MIN).then_some(self.end)
    }

    fn duration_ms(&self) -> Option<u64> {
        let (start, end) = (self.start()?, self.end()?);
        (end >= start).then(|| end.abs_diff(start))
    }

    fn rate(&self, count: Option<u64>, per_count: u64) -> Option<u64> {
        let (duration, count) = (self.duration_ms()?, count?);
        if duration == 0 {
            return Some(0);
        }
        if let Some(scaled) = count.checked_mul(per_count) {
            return Some(scaled / duration);
        }
        // takes several times as long, and is hardly ever needed
        let rate = u128::from(count) * u128::from(per_count) / u128::from(duration);
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn bytes_per_packet(&self) -> Option<u64> {
        Some(self.bytes()?.checked_div(self.packets()?).unwrap_or(0))
    }

    /// A number by which groups are sorted, the smallest first; what is null comes last either way.
    pub(crate) fn rank_by(&self, sorting: Sorting) -> u64 {
        let ordered = |time: i64| (time as u64) ^ (1 << 63);
        let value = match sorting.order {
            Order::Flows => Some(self.flows),
            Order::Packets => self.packets(),
            Order::Bytes => self.bytes(),
            Order::PacketsPerSecond => self.rate(self.packets(), 1000),
            Order::BitsPerSecond => self.rate(self.bytes(), 8000),
            Order::BytesPerPacket => self.bytes_per_packet(),
            Order::Start => self.start().map(ordered),
            Order::End => self.end().map(ordered),
            Order::Duration => self.duration_ms(),
        };
        match value {
            None => u64::MAX,
            // the largest number of all is taken for the one before it, so that nulls have one of their own
            Some(value) if sorting.is_ascending() => value.min(u64::MAX - 1),
            Some(value) => (u64::MAX - 1).saturating_sub(value),
        }
    }
}

/// The one counter that decides which groups come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RankingCounter {
    Flows,
    Packets,
    Bytes,
}

impl RankingCounter {
    /// The counter that decides an order, when it is one counter and the largest come first.
    pub(crate) fn of(sorting: Sorting) -> Option<Self> {
        match sorting.order {
            _ if sorting.is_ascending() => None,
            Order::Flows => Some(Self::Flows),
            Order::Packets => Some(Self::Packets),
            Order::Bytes => Some(Self::Bytes),
            _ => None,
        }
    }

    pub(crate) fn column(self) -> Column {
        match self {
            Self::Flows => Column::Flows,
            Self::Packets => Column::Packets,
            Self::Bytes => Column::Bytes,
        }
    }
}

/// The counters of the rows of a batch.
pub(crate) struct Counters<'a> {
    flows: Option<&'a UInt64Array>,
    packets: Option<&'a UInt64Array>,
    bytes: Option<&'a UInt64Array>,
    starts: Option<&'a TimestampMillisecondArray>,
    ends: Option<&'a TimestampMillisecondArray>,
}

#[inline]
fn value<T: ArrowPrimitiveType>(values: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    let values = values?;
    values.nulls().is_none_or(|nulls| nulls.is_valid(row)).then(|| values.values()[row])
}

impl<'a> Counters<'a> {
    pub(crate) fn of(batch: &'a FlowBatch) -> Self {
        Self {
            flows: batch.primitive::<UInt64Type>(Column::Flows),
            packets: batch.primitive::<UInt64Type>(Column::Packets),
            bytes: batch.primitive::<UInt64Type>(Column::Bytes),
            starts: batch.primitive::<TimestampMillisecondType>(Column::Start),
            ends: batch.primitive::<TimestampMillisecondType>(Column::End),
        }
    }

    /// One counter of a row, 0 where it is null.
    #[inline]
    pub(crate) fn one(&self, of: RankingCounter, row: usize) -> u64 {
        match of {
            RankingCounter::Flows => value(self.flows, row).unwrap_or(1),
            RankingCounter::Packets => value(self.packets, row).unwrap_or(0),
            RankingCounter::Bytes => value(self.bytes, row).unwrap_or(0),
        }
    }

    #[inline]
    pub(crate) fn row(&self, row: usize) -> Sums {
        let (packets, bytes) = (value(self.packets, row), value(self.bytes, row));
        Sums {
            flows: value(self.flows, row).unwrap_or(1),
            packets: packets.unwrap_or(0),
            bytes: bytes.unwrap_or(0),
            start: value(self.starts, row).unwrap_or(i64::MAX),
            end: value(self.ends, row).unwrap_or(i64::MIN),
            known: (u64::from(packets.is_some()) * PACKETS) | (u64::from(bytes.is_some()) * BYTES),
        }
    }
}

/// The fields of what is counted, in an answer.
pub(crate) fn sum_fields() -> Vec<Field> {
    let mut fields: Vec<Field> = COUNTED.iter().map(|column| field(*column)).collect();
    let rates = [Order::Duration, Order::PacketsPerSecond, Order::BitsPerSecond, Order::BytesPerPacket];
    fields.extend(rates.map(|order| Field::new(order.column_name(), DataType::UInt64, true)));
    fields
}

/// The columns of what is counted, in an answer.
pub(crate) fn sum_columns(groups: &[Sums]) -> Vec<ArrayRef> {
    let times = |of: fn(&Sums) -> Option<i64>| -> ArrayRef {
        Arc::new(column::<TimestampMillisecondType>(groups, of).with_timezone("UTC"))
    };
    let numbers = |of: fn(&Sums) -> Option<u64>| -> ArrayRef { Arc::new(column::<UInt64Type>(groups, of)) };
    vec![
        numbers(|sums| Some(sums.flows)),
        numbers(Sums::packets),
        numbers(Sums::bytes),
        times(Sums::start),
        times(Sums::end),
        numbers(Sums::duration_ms),
        numbers(|sums| sums.rate(sums.packets(), 1000)),
        numbers(|sums| sums.rate(sums.bytes(), 8000)),
        numbers(Sums::bytes_per_packet),
    ]
}

/// One value of each group.
fn column<T: ArrowPrimitiveType>(groups: &[Sums], of: impl Fn(&Sums) -> Option<T::Native>) -> PrimitiveArray<T> {
    let mut nulls = 0;
    let values: Vec<T::Native> = groups
        .iter()
        .map(|sums| {
            let value = of(sums);
            nulls += usize::from(value.is_none());
            value.unwrap_or_default()
        })
        .collect();
    let valid = (nulls > 0).then(|| groups.iter().map(|sums| of(sums).is_some()).collect());
    PrimitiveArray::new(values.into(), valid)
}
