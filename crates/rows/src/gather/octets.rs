//! Gathering of octets, above all of addresses.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use weir_chain::ComponentError;

use super::store::Rows;
use super::{Pick, pick};

/// The values of a column of octets.
#[derive(Debug)]
pub(crate) struct OctetSlice<'a> {
    offsets: &'a [i32],
    data: &'a [u8],
    /// The length of all values, when it is the same; found out when it is first asked for.
    width: OnceCell<Option<usize>>,
}

impl<'a> OctetSlice<'a> {
    pub(crate) fn new(column: &'a BinaryArray) -> Self {
        Self { offsets: column.value_offsets(), data: column.value_data(), width: OnceCell::new() }
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// A column for such values with the capacity for this many.
    pub(crate) fn stored(&self, capacity: usize) -> StoredOctets {
        match self.width() {
            Some(16) => StoredOctets::Sixteen(Vec::with_capacity(capacity)),
            _ => StoredOctets::Four(Vec::with_capacity(capacity)),
        }
    }

    fn width(&self) -> Option<usize> {
        *self.width.get_or_init(|| width(self.offsets))
    }

    /// The values, when all have `N` octets.
    pub(crate) fn fixed<const N: usize>(&self) -> Option<&'a [[u8; N]]> {
        let (first, last) = (*self.offsets.first()?, *self.offsets.last()?);
        (self.width() == Some(N)).then(|| self.data[first as usize..last as usize].as_chunks().0)
    }

    /// The octets of all values, and where those of one are.
    #[inline]
    fn bounds(&self, row: usize) -> (&'a [u8], usize, usize) {
        (self.data, self.offsets[row] as usize, self.offsets[row + 1] as usize)
    }
}

fn width(offsets: &[i32]) -> Option<usize> {
    let first = offsets.get(1)? - offsets.first()?;
    // no early exit, so that several are compared at a time
    let differing = offsets.windows(2).fold(0, |differing, pair| differing | ((pair[1] - pair[0]) ^ first));
    (differing == 0).then_some(first as usize)
}

pub(crate) fn take(values: &OctetSlice, rows: &[u32], nulls: Option<NullBuffer>) -> Result<ArrayRef, ComponentError> {
    if let Some(values) = values.fixed::<4>() {
        return Ok(of_width(pick(values, rows), nulls));
    }
    if let Some(values) = values.fixed::<16>() {
        return Ok(of_width(pick(values, rows), nulls));
    }
    gather(rows, |row| values.bounds(row as usize), nulls)
}

/// Rows of several columns; `None` for those that are all null.
pub(crate) fn interleave(
    columns: &[Option<&OctetSlice>],
    picks: &[Pick],
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ComponentError> {
    // Finding out the width takes a fraction of what a row of unknown width takes more.
    let rows: usize = columns.iter().flatten().map(|column| column.len()).sum();
    if rows / 8 <= picks.len() {
        if let Some(values) = interleave_fixed::<4>(columns, picks) {
            return Ok(of_width(values, nulls));
        }
        if let Some(values) = interleave_fixed::<16>(columns, picks) {
            return Ok(of_width(values, nulls));
        }
    }
    let bounds = |pick: Pick| match columns[pick.batch as usize] {
        Some(column) => column.bounds(pick.row as usize),
        None => (&[][..], 0, 0),
    };
    gather(picks, bounds, nulls)
}

fn interleave_fixed<const N: usize>(columns: &[Option<&OctetSlice>], picks: &[Pick]) -> Option<Vec<[u8; N]>> {
    let values: Vec<&[[u8; N]]> =
        columns.iter().map(|column| column.and_then(OctetSlice::fixed)).collect::<Option<_>>()?;
    Some(picks.iter().map(|pick| values[pick.batch as usize][pick.row as usize]).collect())
}

pub(crate) fn of_width<const N: usize>(values: Vec<[u8; N]>, nulls: Option<NullBuffer>) -> ArrayRef {
    let offsets = OffsetBuffer::from_repeated_length(N, values.len());
    Arc::new(BinaryArray::new(offsets, values.into_flattened().into(), nulls))
}

/// Values of different lengths: `bounds` tells where the octets of each are.
fn gather<'a, T: Copy>(
    rows: &[T],
    bounds: impl Fn(T) -> (&'a [u8], usize, usize),
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ComponentError> {
    let mut total = 0;
    let mut offsets: Vec<i32> = Vec::with_capacity(rows.len() + 1);
    offsets.push(0);
    offsets.extend(rows.iter().map(|&row| {
        let (_, from, to) = bounds(row);
        total += to - from;
        total as i32
    }));
    let mut octets = Appender::after(Vec::new(), total)?;
    for &row in rows {
        let (data, from, to) = bounds(row);
        octets.push(data, from, to);
    }
    let octets: Buffer = octets.finish().into();
    Ok(Arc::new(BinaryArray::new(OffsetBuffer::new(offsets.into()), octets, nulls)))
}

/// Appends octets to a buffer. Most values are short, and a copy of 16 octets of which too many are overwritten by the
/// next value is faster than one of the right length.
struct Appender {
    octets: Vec<u8>,
    end: usize,
}

const WIDE: usize = 16;

impl Appender {
    /// Room for `total` octets, of which some are there already.
    fn after(mut octets: Vec<u8>, total: usize) -> Result<Self, ComponentError> {
        if total > i32::MAX as usize {
            return Err(ComponentError::new(format!("{total} octets are too many for a column of one batch")));
        }
        let end = octets.len();
        octets.resize(total + WIDE, 0);
        Ok(Self { octets, end })
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

    fn finish(mut self) -> Vec<u8> {
        self.octets.truncate(self.end);
        self.octets
    }
}

/// Octets of a column that grows. As long as all are equally long, no offsets are kept.
#[derive(Debug)]
pub(crate) enum StoredOctets {
    Four(Vec<[u8; 4]>),
    Sixteen(Vec<[u8; 16]>),
    /// The offsets begin with 0.
    Mixed(Vec<i32>, Vec<u8>),
}

impl Default for StoredOctets {
    fn default() -> Self {
        Self::Four(Vec::new())
    }
}

impl StoredOctets {
    /// Appends empty or other values, which are null.
    pub(crate) fn pad(&mut self, missing: usize) {
        match self {
            Self::Four(values) => values.extend(std::iter::repeat_n([0; 4], missing)),
            Self::Sixteen(values) => values.extend(std::iter::repeat_n([0; 16], missing)),
            Self::Mixed(offsets, octets) => offsets.extend(std::iter::repeat_n(octets.len() as i32, missing)),
        }
    }

    pub(crate) fn append(&mut self, source: &OctetSlice, rows: Rows) -> Result<(), ComponentError> {
        match self {
            Self::Four(values) => {
                if let Some(source) = source.fixed() {
                    rows.extend(values, source);
                    return Ok(());
                }
            }
            Self::Sixteen(values) => {
                if let Some(source) = source.fixed() {
                    rows.extend(values, source);
                    return Ok(());
                }
            }
            Self::Mixed(offsets, octets) => return append_mixed(offsets, octets, source, rows),
        }
        self.mix();
        self.append(source, rows)
    }

    /// Keeps offsets from now on.
    fn mix(&mut self) {
        let (width, len, octets) = match std::mem::take(self) {
            Self::Four(values) => (4, values.len(), values.into_flattened()),
            Self::Sixteen(values) => (16, values.len(), values.into_flattened()),
            mixed @ Self::Mixed(..) => return *self = mixed,
        };
        *self = Self::Mixed((0..=len as i32).map(|row| row * width).collect(), octets);
    }

    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Four(values) => 4 * values.len(),
            Self::Sixteen(values) => 16 * values.len(),
            Self::Mixed(offsets, octets) => 4 * offsets.len() + octets.len(),
        }
    }

    pub(crate) fn finish(self, nulls: Option<NullBuffer>) -> ArrayRef {
        match self {
            Self::Four(values) => of_width(values, nulls),
            Self::Sixteen(values) => of_width(values, nulls),
            Self::Mixed(offsets, octets) => {
                Arc::new(BinaryArray::new(OffsetBuffer::new(offsets.into()), octets.into(), nulls))
            }
        }
    }
}

fn append_mixed(
    offsets: &mut Vec<i32>,
    octets: &mut Vec<u8>,
    source: &OctetSlice,
    rows: Rows,
) -> Result<(), ComponentError> {
    let mut total = octets.len();
    offsets.reserve(rows.len());
    rows.for_each(|row| {
        let (_, from, to) = source.bounds(row);
        total += to - from;
        offsets.push(total as i32);
    });
    let mut appender = Appender::after(std::mem::take(octets), total)?;
    rows.for_each(|row| {
        let (data, from, to) = source.bounds(row);
        appender.push(data, from, to);
    });
    *octets = appender.finish();
    Ok(())
}
