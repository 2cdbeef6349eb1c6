//! Durations and rates of flows, in whole numbers, rounded down, as filters count them.
//!
//! Counts may be decimals, as `bytes + bytes_reverse` is: those below 0 count as 0, those beyond 64 bits as the largest number.
#![expect(clippy::unnecessary_wraps, reason = "functions of one table have one signature")]

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{Decimal128Type, TimestampMillisecondType, UInt64Type};
use datafusion::common::Result;

fn durations(arguments: &[ArrayRef]) -> impl Iterator<Item = Option<u64>> {
    let starts = arguments[0].as_primitive::<TimestampMillisecondType>();
    let ends = arguments[1].as_primitive::<TimestampMillisecondType>();
    starts.iter().zip(ends).map(|(start, end)| {
        let (start, end) = (start?, end?);
        (end >= start).then(|| end.abs_diff(start))
    })
}

/// Milliseconds from start to end; null when the end is before the start.
pub(super) fn duration_ms(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let durations: UInt64Array = durations(arguments).collect();
    Ok(Arc::new(durations))
}

fn counts(values: &ArrayRef) -> UInt64Array {
    match values.as_primitive_opt::<Decimal128Type>() {
        Some(decimals) => decimals.unary(|count| count.clamp(0, i128::from(u64::MAX)) as u64),
        None => values.as_primitive::<UInt64Type>().clone(),
    }
}

fn rate(arguments: &[ArrayRef], per_count: u128) -> ArrayRef {
    let counts = counts(&arguments[2]);
    let rates = durations(arguments).zip(&counts).map(|(duration, count)| match (duration?, count?) {
        (0, _) => Some(0),
        (duration, count) => {
            let rate = u128::from(count) * per_count / u128::from(duration);
            Some(u64::try_from(rate).unwrap_or(u64::MAX))
        }
    });
    Arc::new(rates.collect::<UInt64Array>())
}

/// Packets per second; 0 for a flow without duration.
pub(super) fn packets_per_second(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(rate(arguments, 1000))
}

/// Bits per second; 0 for a flow without duration.
pub(super) fn bits_per_second(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(rate(arguments, 8000))
}

/// Octets per packet; 0 when there are no packets.
pub(super) fn bytes_per_packet(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let (bytes, packets) = (counts(&arguments[0]), counts(&arguments[1]));
    let means = bytes.iter().zip(&packets).map(|(bytes, packets)| Some(bytes?.checked_div(packets?).unwrap_or(0)));
    Ok(Arc::new(means.collect::<UInt64Array>()))
}
