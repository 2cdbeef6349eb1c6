//! Operands that are computed from several columns.

use arrow::array::{Array, UInt64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use weir_flow::{Column, FlowBatch};

use super::elements;
use crate::Operand;

/// The values of an operand that is not a column by itself; `None` when all of them are null.
pub(super) fn values(batch: &FlowBatch, operand: Operand) -> Option<UInt64Array> {
    match operand {
        Operand::TcpFlags => tcp_flags(batch),
        Operand::IcmpType => icmp(batch, Column::IcmpType, |both| both >> 8),
        Operand::IcmpCode => icmp(batch, Column::IcmpCode, |both| both & 0xff),
        Operand::DurationMs => duration_ms(batch),
        Operand::PacketsPerSecond => per_second(batch, Column::Packets, 1000),
        Operand::BitsPerSecond => per_second(batch, Column::Bytes, 8000),
        Operand::BytesPerPacket => {
            let (bytes, packets) = (counter(batch, Column::Bytes)?, counter(batch, Column::Packets)?);
            let nulls = NullBuffer::union(bytes.nulls(), packets.nulls());
            let quotients = bytes.values().iter().zip(packets.values());
            let quotients = quotients.map(|(bytes, packets)| bytes.checked_div(*packets).unwrap_or(0)).collect();
            Some(UInt64Array::new(quotients, nulls))
        }
        Operand::TtlSpread => {
            let min = batch.primitive::<UInt8Type>(Column::MinTtl)?;
            let max = batch.primitive::<UInt8Type>(Column::MaxTtl)?;
            let ordered = BooleanBuffer::collect_bool(min.len(), |row| min.values()[row] <= max.values()[row]);
            let nulls = NullBuffer::union(min.nulls(), max.nulls());
            let nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(ordered)));
            let spreads = min.values().iter().zip(max.values()).map(|(min, max)| max.wrapping_sub(*min).into());
            Some(UInt64Array::new(spreads.collect(), nulls))
        }
        Operand::Element(number) => elements::numbers(batch, number),
        Operand::MplsBottom => elements::mpls_bottom(batch),
        // Read where they are, by the caller.
        Operand::Column(_) | Operand::Flows | Operand::RecordNumber => None,
    }
}

fn counter(batch: &FlowBatch, column: Column) -> Option<&UInt64Array> {
    batch.primitive::<UInt64Type>(column)
}

fn tcp_flags(batch: &FlowBatch) -> Option<UInt64Array> {
    let protocols = batch.primitive::<UInt8Type>(Column::Protocol)?;
    let flags = batch.primitive::<UInt16Type>(Column::TcpFlags)?;
    let tcp = BooleanBuffer::collect_bool(protocols.len(), |row| protocols.values()[row] == 6);
    let nulls = NullBuffer::union(protocols.nulls(), flags.nulls());
    let nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(tcp)));
    Some(UInt64Array::new(flags.values().iter().map(|flags| u64::from(*flags)).collect(), nulls))
}

fn icmp(batch: &FlowBatch, column: Column, part: fn(u16) -> u16) -> Option<UInt64Array> {
    let protocols = batch.primitive::<UInt8Type>(Column::Protocol)?;
    let own = batch.primitive::<UInt8Type>(column);
    let both = batch.primitive::<UInt16Type>(Column::IcmpTypeCode);
    let port = batch.primitive::<UInt16Type>(Column::DstPort);
    let value = |row: usize| -> Option<u64> {
        if protocols.is_null(row) || !matches!(protocols.value(row), 1 | 58) {
            return None;
        }
        if let Some(own) = own.filter(|own| own.is_valid(row)) {
            return Some(own.value(row).into());
        }
        let both = [both, port].into_iter().flatten().find(|both| both.is_valid(row))?;
        Some(part(both.value(row)).into())
    };
    Some((0..protocols.len()).map(value).collect())
}

fn duration_ms(batch: &FlowBatch) -> Option<UInt64Array> {
    let starts = batch.primitive::<TimestampMillisecondType>(Column::Start)?;
    let ends = batch.primitive::<TimestampMillisecondType>(Column::End)?;
    let ordered = BooleanBuffer::collect_bool(starts.len(), |row| starts.values()[row] <= ends.values()[row]);
    let nulls = NullBuffer::union(starts.nulls(), ends.nulls());
    let nulls = NullBuffer::union(nulls.as_ref(), Some(&NullBuffer::new(ordered)));
    // The difference of two i64 in order always fits u64.
    let durations = starts.values().iter().zip(ends.values()).map(|(start, end)| end.wrapping_sub(*start) as u64);
    Some(UInt64Array::new(durations.collect(), nulls))
}

fn per_second(batch: &FlowBatch, column: Column, factor: u64) -> Option<UInt64Array> {
    let (durations, counts) = (duration_ms(batch)?, counter(batch, column)?);
    let nulls = NullBuffer::union(durations.nulls(), counts.nulls());
    let rate = |(duration, count): (&u64, &u64)| match (count.checked_mul(factor), *duration) {
        (_, 0) => 0,
        (Some(product), duration) => product / duration,
        // Too large for 64 bits before the division, perhaps not after it.
        (None, duration) => {
            let exact = u128::from(*count) * u128::from(factor) / u128::from(duration);
            u64::try_from(exact).unwrap_or(u64::MAX)
        }
    };
    Some(UInt64Array::new(durations.values().iter().zip(counts.values()).map(rate).collect(), nulls))
}
