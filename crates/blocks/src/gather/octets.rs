//! Gathering of octets, above all of addresses.

use arrow::array::{Array, BinaryArray};
use arrow::buffer::{Buffer, OffsetBuffer};

use weir_chain::BlockError;

use super::{Pick, interleave_nulls, take_nulls};

/// Offsets and octets of a column.
type Values = (OffsetBuffer<i32>, Buffer);

/// The length that all values of a column have, nulls counting as their empty value.
pub(crate) fn width(column: &BinaryArray) -> Option<usize> {
    let offsets = column.value_offsets();
    let first = offsets.get(1)? - offsets.first()?;
    // no early exit, so that the loop is done several values at a time
    let differing = offsets.windows(2).fold(0, |differing, pair| differing | ((pair[1] - pair[0]) ^ first));
    (differing == 0).then_some(first as usize)
}

/// The values of a column whose values all have `N` octets.
pub(crate) fn fixed<const N: usize>(column: &BinaryArray) -> &[[u8; N]] {
    let from = column.value_offsets().first().map_or(0, |&offset| offset as usize);
    column.value_data().get(from..from + N * column.len()).map_or(&[], |octets| octets.as_chunks().0)
}

fn of_width<const N: usize>(values: Vec<[u8; N]>) -> Values {
    let offsets = OffsetBuffer::from_repeated_length(N, values.len());
    (offsets, values.into_flattened().into())
}

/// Appends octets to a buffer. Most values are short, and a copy of 16 octets of which too many are overwritten by the
/// next value is faster than one of the right length.
struct Appender {
    octets: Vec<u8>,
    end: usize,
}

const WIDE: usize = 16;

impl Appender {
    /// Room for `octets` octets.
    fn new(octets: usize) -> Self {
        Self { octets: vec![0; octets + WIDE], end: 0 }
    }

    #[inline]
    fn push(&mut self, data: &[u8], from: usize, to: usize) {
        let (at, length) = (self.end, to - from);
        match (data.get(from..from + WIDE), self.octets.get_mut(at..at + WIDE)) {
            (Some(source), Some(target)) if length <= WIDE => target.copy_from_slice(source),
            _ => self.octets[at..at + length].copy_from_slice(&data[from..to]),
        }
        self.end += length;
    }

    fn finish(mut self) -> Buffer {
        self.octets.truncate(self.end);
        self.octets.into()
    }
}

pub(super) fn take(column: &BinaryArray, rows: &[u32]) -> Result<BinaryArray, BlockError> {
    let nulls = column.nulls().filter(|nulls| nulls.null_count() > 0);
    let (offsets, octets) = match width(column) {
        Some(4) => take_fixed::<4>(column, rows),
        Some(6) => take_fixed::<6>(column, rows),
        Some(16) => take_fixed::<16>(column, rows),
        _ => {
            let (offsets, data) = (column.value_offsets(), column.value_data());
            gather(rows.len(), |at| {
                let row = rows[at] as usize;
                (data, offsets[row] as usize, offsets[row + 1] as usize)
            })?
        }
    };
    Ok(BinaryArray::new(offsets, octets, nulls.and_then(|nulls| take_nulls(nulls, rows))))
}

fn take_fixed<const N: usize>(column: &BinaryArray, rows: &[u32]) -> Values {
    let values = fixed::<N>(column);
    of_width(rows.iter().map(|&row| values[row as usize]).collect())
}

pub(super) fn interleave(sources: &[Option<&BinaryArray>], picks: &[Pick]) -> Result<BinaryArray, BlockError> {
    let mut widths = sources.iter().map(|source| source.and_then(width));
    let first = widths.next().flatten().filter(|first| widths.all(|width| width == Some(*first)));
    let (offsets, octets) = match first {
        Some(4) => interleave_fixed::<4>(sources, picks),
        Some(6) => interleave_fixed::<6>(sources, picks),
        Some(16) => interleave_fixed::<16>(sources, picks),
        _ => {
            let columns: Vec<Option<(&[i32], &[u8])>> =
                sources.iter().map(|source| source.map(|s| (s.value_offsets(), s.value_data()))).collect();
            gather(picks.len(), |at| match columns[picks[at].batch as usize] {
                Some((offsets, data)) => {
                    let row = picks[at].row as usize;
                    (data, offsets[row] as usize, offsets[row + 1] as usize)
                }
                None => (&[], 0, 0),
            })?
        }
    };
    let arrays: Vec<_> = sources.iter().map(|source| source.map(|source| source as &dyn Array)).collect();
    Ok(BinaryArray::new(offsets, octets, interleave_nulls(&arrays, picks)))
}

fn interleave_fixed<const N: usize>(sources: &[Option<&BinaryArray>], picks: &[Pick]) -> Values {
    let values: Vec<&[[u8; N]]> = sources.iter().map(|source| source.map_or(&[][..], fixed::<N>)).collect();
    of_width(picks.iter().map(|pick| values[pick.batch as usize][pick.row as usize]).collect())
}

/// Values of different lengths: `source` tells for each where its octets are.
fn gather<'a>(rows: usize, source: impl Fn(usize) -> (&'a [u8], usize, usize)) -> Result<Values, BlockError> {
    let mut total = 0;
    let mut offsets: Vec<i32> = Vec::with_capacity(rows + 1);
    offsets.push(0);
    offsets.extend((0..rows).map(|at| {
        let (_, from, to) = source(at);
        total += to - from;
        total as i32
    }));
    if total > i32::MAX as usize {
        return Err(BlockError::new(format!("{total} octets are too many for a column of one batch")));
    }
    let mut octets = Appender::new(total);
    (0..rows).for_each(|at| {
        let (data, from, to) = source(at);
        octets.push(data, from, to);
    });
    Ok((OffsetBuffer::new(offsets.into()), octets.finish()))
}
