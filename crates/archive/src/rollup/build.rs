//! The rollups of a segment, made while it is written.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, Table};

use super::pack::{PackedRollup, RollupKeys};
use super::table::{OmittedKeys, Rollup, Sum};
use crate::ArchiveError;
use crate::order::FlowOrder;
use crate::order::hosts::{HostCollector, Hosts, Mixer};
use crate::segment::Columns;

/// Rows of a segment for each further heavy host.
const ROWS_PER_HEAVY_HOST: usize = 250;

const MINUTE_MS: i64 = 60_000;

/// Time is counted in minutes from here, so that keys have no sign.
const FIRST_MINUTE: i64 = i64::MIN / MINUTE_MS - 1;

/// The minute of a key of [`Rollup::Minute`].
pub(super) fn minute_ms(key: u64) -> i64 {
    (key as i64).wrapping_add(FIRST_MINUTE).saturating_mul(MINUTE_MS)
}

fn minute_key(ms: i64) -> u64 {
    ms.div_euclid(MINUTE_MS).wrapping_sub(FIRST_MINUTE) as u64
}

/// What is summed up, row by row in the order in which rows came.
struct Measures {
    /// `None` when every row is one flow.
    flows: Option<Vec<u64>>,
    packets: Vec<u64>,
    bytes: Vec<u64>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Measures {
    /// `None` when a row lacks one of them, or sums could exceed 64 bits.
    fn read(columns: &Columns<'_>) -> Result<Option<Self>, ArchiveError> {
        let rows = columns.rows();
        let numbers = |column| -> Result<Option<Vec<u64>>, ArchiveError> {
            let mut numbers = Vec::with_capacity(rows);
            for piece in pieces(columns, column)? {
                let Some(values) = piece.as_primitive_opt::<UInt64Type>() else { return Ok(None) };
                if values.null_count() > 0 {
                    return Ok(None);
                }
                numbers.extend_from_slice(values.values());
            }
            Ok(Some(numbers).filter(|numbers| numbers.len() == rows))
        };
        let times = |column| -> Result<Option<Vec<i64>>, ArchiveError> {
            let mut times = Vec::with_capacity(rows);
            for piece in pieces(columns, column)? {
                let Some(values) = piece.as_primitive_opt::<TimestampMillisecondType>() else { return Ok(None) };
                if values.null_count() > 0 {
                    return Ok(None);
                }
                times.extend_from_slice(values.values());
            }
            Ok(Some(times).filter(|times| times.len() == rows))
        };
        let (Some(packets), Some(bytes)) = (numbers(Column::Packets)?, numbers(Column::Bytes)?) else {
            return Ok(None);
        };
        let (Some(starts), Some(ends)) = (times(Column::Start)?, times(Column::End)?) else { return Ok(None) };
        let mut flows = None;
        for (piece, at) in with_starts(pieces(columns, Column::Flows)?) {
            let Some(values) = piece.as_primitive_opt::<UInt64Type>() else { continue };
            let flows = flows.get_or_insert_with(|| vec![1; rows]);
            for (flows, value) in flows[at..].iter_mut().zip(values.iter()) {
                *flows = value.unwrap_or(1);
            }
        }
        let fits =
            |numbers: &[u64]| u64::try_from(numbers.iter().map(|number| u128::from(*number)).sum::<u128>()).is_ok();
        let all = [Some(&packets), Some(&bytes), flows.as_ref()];
        let fit = all.into_iter().flatten().all(|numbers| fits(numbers));
        Ok(fit.then_some(Self { flows, packets, bytes, starts, ends }))
    }

    /// Sums of `rows` by the slot that each row has.
    fn sum(&self, rows: &[u32], slots: &[u32], count: usize) -> Vec<Sum> {
        let none = Sum { flows: 0, packets: 0, bytes: 0, start_ms: i64::MAX, end_ms: i64::MIN };
        let mut sums = vec![none; count];
        for &row in rows {
            let row = row as usize;
            let sum = &mut sums[slots[row] as usize];
            sum.flows += self.flows.as_ref().map_or(1, |flows| flows[row]);
            sum.packets += self.packets[row];
            sum.bytes += self.bytes[row];
            sum.start_ms = sum.start_ms.min(self.starts[row]);
            sum.end_ms = sum.end_ms.max(self.ends[row]);
        }
        sums
    }
}

fn pieces(columns: &Columns<'_>, column: Column) -> Result<Vec<ArrayRef>, ArchiveError> {
    Ok(columns.pieces(Table::Flows.schema().field(column as usize))?.unwrap_or_default())
}

fn with_starts(pieces: Vec<ArrayRef>) -> impl Iterator<Item = (ArrayRef, usize)> {
    pieces.into_iter().scan(0, |at, piece| {
        let start = *at;
        *at += piece.len();
        Some((piece, start))
    })
}

/// The rollups of these rows as octets; none when the rows lack something that is summed up.
pub(crate) fn rollups(
    columns: &Columns<'_>,
    rows: &[u32],
    order: &FlowOrder,
    heavy_keys_min: usize,
) -> Result<Vec<(Rollup, Vec<u8>)>, ArchiveError> {
    let mut rollups = Vec::new();
    if columns.table() != Table::Flows {
        return Ok(rollups);
    }
    let Some(measures) = Measures::read(columns)? else { return Ok(rollups) };
    // As they came: in the order of the segment every measure of every row would be a miss of the caches.
    let rows = if rows.len() == columns.rows() {
        (0..rows.len() as u32).collect()
    } else {
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        rows
    };
    let rows = &rows[..];
    for &rollup in Rollup::ALL {
        let heavy = match rollup {
            Rollup::SrcAddr | Rollup::DstAddr => heavy_keys_min.max(rows.len() / ROWS_PER_HEAVY_HOST),
            _ => heavy_keys_min,
        };
        let packed = match rollup {
            Rollup::SrcAddr => by_host(&measures, rows, &order.host_numbers[0], &order.hosts, heavy),
            Rollup::DstAddr => by_host(&measures, rows, &order.host_numbers[1], &order.hosts, heavy),
            Rollup::Exporter => {
                let mut collector = HostCollector::new();
                let mut numbers = Vec::with_capacity(columns.rows());
                for piece in pieces(columns, Column::Exporter)? {
                    collector.add(&piece, |number| numbers.push(number));
                }
                numbers.resize(columns.rows(), 0);
                let (hosts, ranks) = collector.finish();
                for number in &mut numbers {
                    *number = ranks[*number as usize];
                }
                by_host(&measures, rows, &numbers, &hosts, heavy)
            }
            Rollup::Minute => {
                let mut slots = Slots::new();
                let numbers: Vec<u32> =
                    measures.starts.iter().map(|start| slots.slot(Some(minute_key(*start)))).collect();
                Some(by_number(&measures, rows, &numbers, &slots, usize::MAX))
            }
            _ => {
                let Some(column) = rollup.column() else { continue };
                let mut slots = Slots::new();
                let mut numbers = Vec::with_capacity(columns.rows());
                pieces(columns, column)?.iter().for_each(|piece| slots.add(piece, &mut numbers));
                if numbers.is_empty() {
                    let none = slots.slot(None);
                    numbers.resize(columns.rows(), none);
                }
                Some(by_number(&measures, rows, &numbers, &slots, heavy))
            }
        };
        rollups.extend(packed.map(|packed| (rollup, packed.write())));
    }
    Ok(rollups)
}

/// Sums by host; `None` when an address has neither 4 octets nor 16.
fn by_host(measures: &Measures, rows: &[u32], numbers: &[u32], hosts: &Hosts, heavy: usize) -> Option<PackedRollup> {
    let sums = measures.sum(rows, numbers, hosts.numbers());
    let (kept, rest) = keep_heavy(&sums, 1, heavy);
    let mut packed = PackedRollup { rest, ..PackedRollup::default() };
    for (slot, sum) in kept {
        match slot.checked_sub(1) {
            None => packed.keys.has_null = true,
            Some(at) => match (hosts.short.get(at), hosts.long.get(at.wrapping_sub(hosts.short.len()))) {
                (Some(short), _) => packed.keys.short.push((*short).into()),
                (None, Some(long)) => packed.keys.long.push(*long),
                (None, None) => return None,
            },
        }
        packed.sums.push(sum);
    }
    // of what is in the rest the length does not matter
    Some(packed)
}

fn by_number(measures: &Measures, rows: &[u32], numbers: &[u32], slots: &Slots, heavy: usize) -> PackedRollup {
    let sums = measures.sum(rows, numbers, slots.keys.len());
    let mut order: Vec<(Option<u64>, usize)> = slots.keys.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let sorted: Vec<Sum> = order.iter().map(|(_, slot)| sums[*slot]).collect();
    let nulls = usize::from(order.first().is_some_and(|first| first.0.is_none()));
    let (kept, rest) = keep_heavy(&sorted, nulls, heavy);
    let mut packed = PackedRollup { rest, keys: RollupKeys::default(), sums: Vec::with_capacity(kept.len()) };
    for (at, sum) in kept {
        match order[at].0 {
            None => packed.keys.has_null = true,
            Some(key) => packed.keys.short.push(key.into()),
        }
        packed.sums.push(sum);
    }
    packed
}

/// Of sums by slot those that have a flow and are among the `heavy` largest by flows, packets or bytes, and what the
/// others have at most. The first `always` are kept anyway.
fn keep_heavy(sums: &[Sum], always: usize, heavy: usize) -> (Vec<(usize, Sum)>, Option<OmittedKeys>) {
    let heavy = heavy.max(1);
    let is_used = |sum: &Sum| sum.start_ms != i64::MAX || sum.end_ms != i64::MIN;
    let measures: [fn(&Sum) -> u64; 3] = [|sum| sum.flows, |sum| sum.packets, |sum| sum.bytes];
    let used = sums.iter().filter(|sum| is_used(sum)).count();
    let bounds = measures.map(|measure| {
        if used <= heavy.saturating_mul(2) {
            return None;
        }
        let mut numbers: Vec<u64> = sums.iter().filter(|sum| is_used(sum)).map(measure).collect();
        let at = numbers.len() - heavy;
        Some(*numbers.select_nth_unstable(at).1)
    });
    // those equal to a bound are not kept: where most keys have one flow they would be nearly all
    let is_heavy = |sum: &Sum| measures.iter().zip(bounds).any(|(of, bound)| bound.is_none_or(|bound| of(sum) > bound));
    let (mut kept, mut rest) = (Vec::new(), OmittedKeys { keys: 0, flows_max: 0, packets_max: 0, bytes_max: 0 });
    for (slot, sum) in sums.iter().enumerate().filter(|(_, sum)| is_used(sum)) {
        if slot < always || is_heavy(sum) {
            kept.push((slot, *sum));
        } else {
            rest.keys += 1;
            rest.flows_max = rest.flows_max.max(sum.flows);
            rest.packets_max = rest.packets_max.max(sum.packets);
            rest.bytes_max = rest.bytes_max.max(sum.bytes);
        }
    }
    (kept, (rest.keys > 0).then_some(rest))
}

/// Distinct numbers, in the order in which they come.
struct Slots {
    keys: Vec<Option<u64>>,
    direct: Vec<u32>,
    others: HashMap<u64, u32, Mixer>,
    none: u32,
    /// The last key that was hashed, and its slot: minutes come in runs.
    last: (u64, u32),
}

/// Numbers below this find their slot without hashing.
const DIRECT_KEYS: usize = 1 << 16;

/// No slot yet.
const NEW: u32 = u32::MAX;

impl Slots {
    fn new() -> Self {
        let others = HashMap::with_hasher(Mixer::new());
        Self { keys: Vec::new(), direct: Vec::new(), others, none: NEW, last: (0, NEW) }
    }

    #[inline]
    fn slot(&mut self, key: Option<u64>) -> u32 {
        let next = self.keys.len() as u32;
        let slot = match key {
            Some(key) if key < DIRECT_KEYS as u64 => {
                if self.direct.is_empty() {
                    self.direct = vec![NEW; DIRECT_KEYS];
                }
                &mut self.direct[key as usize]
            }
            Some(key) if key == self.last.0 && self.last.1 != NEW => return self.last.1,
            Some(key) => {
                let slot = self.others.entry(key).or_insert(NEW);
                self.last = (key, if *slot == NEW { next } else { *slot });
                slot
            }
            None => &mut self.none,
        };
        if *slot == NEW {
            *slot = next;
            self.keys.push(key);
        }
        *slot
    }

    fn add(&mut self, values: &ArrayRef, slots: &mut Vec<u32>) {
        match values.data_type() {
            DataType::UInt8 => {
                slots.extend(values.as_primitive::<UInt8Type>().iter().map(|value| self.slot(value.map(Into::into))));
            }
            DataType::UInt16 => {
                slots.extend(values.as_primitive::<UInt16Type>().iter().map(|value| self.slot(value.map(Into::into))));
            }
            DataType::UInt32 => {
                slots.extend(values.as_primitive::<UInt32Type>().iter().map(|value| self.slot(value.map(Into::into))));
            }
            _ => slots.extend(std::iter::repeat_n(self.slot(None), values.len())),
        }
    }
}
