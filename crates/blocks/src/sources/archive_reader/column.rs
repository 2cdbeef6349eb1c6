//! One column of a run: its values in their slots.
//!
//! Values go to memory and come back, so what counts is how wide they are. Times and counters of 64 bits lie in slots of
//! 32 bits as long as they fit, addresses in slots of four octets as long as all of them are IPv4; the first value that
//! does not fit makes the column wide, for good.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, PrimitiveArray, UInt64Array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
use weir_flow::schema::arrow_type;
use weir_flow::{Column, ColumnType};

use super::numbers::{LongNumbers, gather, grow, scatter};
use super::partitions::NO_TIME;

/// Octets of an IPv4 address.
const SHORT: usize = 4;
/// Octets of an IPv6 address: the longest that lies in a slot.
const WIDE: usize = 16;
/// Times this far from the first of a run, either way, count as near: 24 days.
const HALF_REACH_MS: u64 = 1 << 31;

/// A value is longer than a slot: the run must be placed again, with the column's arrays kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The values of a column by slot. It keeps its memory from one run to the next.
#[derive(Debug)]
pub(super) struct StagedColumn {
    values: Values,
    /// By slot, whether it has a value; all of them have while `has_nulls` is false.
    valid: Vec<bool>,
    has_nulls: bool,
    slots_total: usize,
}

#[derive(Debug)]
enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(LongNumbers),
    Time(LongNumbers),
    /// Octets that are all of the length of an IPv4 address.
    Short(Vec<[u8; SHORT]>),
    /// Octets of up to the length of an IPv6 address, and their lengths.
    Wide(Vec<[u8; WIDE]>, Vec<u8>),
    /// Anything else stays where it was read; a slot holds the place of its row.
    Kept(Vec<ArrayRef>, Vec<(u32, u32)>),
}

impl StagedColumn {
    /// A column without memory. `is_kept` when its values are known to be too long for slots.
    pub(super) fn new(column: Column, is_kept: bool) -> Self {
        let values = match column.column_type() {
            ColumnType::U8 => Values::U8(Vec::new()),
            ColumnType::U16 => Values::U16(Vec::new()),
            ColumnType::U32 => Values::U32(Vec::new()),
            ColumnType::U64 => Values::U64(LongNumbers::default()),
            ColumnType::Time => Values::Time(LongNumbers::default()),
            ColumnType::Address | ColumnType::Mac if !is_kept => Values::Short(Vec::new()),
            _ => Values::Kept(Vec::new(), Vec::new()),
        };
        Self { values, valid: Vec::new(), has_nulls: false, slots_total: 0 }
    }

    /// Begins a run.
    pub(super) fn begin(&mut self, slots_total: usize) {
        self.has_nulls = false;
        self.slots_total = slots_total;
        match &mut self.values {
            Values::U8(values) => grow(values, slots_total),
            Values::U16(values) => grow(values, slots_total),
            Values::U32(values) => grow(values, slots_total),
            Values::U64(values) | Values::Time(values) => values.begin(slots_total),
            Values::Short(values) => grow(values, slots_total),
            Values::Wide(values, lengths) => {
                grow(values, slots_total);
                grow(lengths, slots_total);
            }
            Values::Kept(arrays, places) => {
                arrays.clear();
                grow(places, slots_total);
            }
        }
    }

    /// Gives back what was kept of a run.
    pub(super) fn end(&mut self) {
        if let Values::Kept(arrays, _) = &mut self.values {
            arrays.clear();
        }
    }

    /// Puts the values of the next rows, which have the type of the column, into their slots.
    pub(super) fn put(&mut self, slots: &[u32], values: &ArrayRef) -> Result<(), TooLong> {
        if let Values::Kept(arrays, places) = &mut self.values {
            let array = arrays.len() as u32;
            slots.iter().zip(0..).for_each(|(&slot, row)| places[slot as usize] = (array, row));
            arrays.push(Arc::clone(values));
            return Ok(());
        }
        if let Some(nulls) = values.nulls().filter(|nulls| nulls.null_count() > 0) {
            self.put_nulls(slots, nulls);
        }
        match &mut self.values {
            Values::U8(to) => scatter(to, slots, values.as_primitive::<UInt8Type>().values().iter().copied()),
            Values::U16(to) => scatter(to, slots, values.as_primitive::<UInt16Type>().values().iter().copied()),
            Values::U32(to) => scatter(to, slots, values.as_primitive::<UInt32Type>().values().iter().copied()),
            Values::U64(to) => to.put(slots, values.as_primitive(), 0),
            Values::Time(to) => {
                let times = values.as_primitive::<TimestampMillisecondType>();
                // the same octets, taken as numbers
                let numbers = ScalarBuffer::from(times.values().inner().clone());
                to.put(slots, &UInt64Array::new(numbers, times.nulls().cloned()), HALF_REACH_MS);
            }
            _ => return self.put_octets(slots, values.as_binary()),
        }
        Ok(())
    }

    fn put_nulls(&mut self, slots: &[u32], nulls: &NullBuffer) {
        if !self.has_nulls {
            self.has_nulls = true;
            self.valid.clear();
            self.valid.resize(self.slots_total, true);
        }
        scatter(&mut self.valid, slots, nulls.iter());
    }

    fn put_octets(&mut self, slots: &[u32], values: &BinaryArray) -> Result<(), TooLong> {
        if let Values::Short(to) = &mut self.values {
            if let Some(short) = all_short(values) {
                scatter(to, slots, short.iter().copied());
                return Ok(());
            }
            self.values = widened(to);
        }
        let Values::Wide(to, lengths) = &mut self.values else { return Ok(()) };
        for (&slot, value) in slots.iter().zip(values) {
            let value = value.unwrap_or_default();
            let place = to[slot as usize].get_mut(..value.len()).ok_or(TooLong)?;
            place.copy_from_slice(value);
            lengths[slot as usize] = value.len() as u8;
        }
        Ok(())
    }

    /// The values in these slots as an array.
    pub(super) fn array(&self, slots: &[u32]) -> Result<ArrayRef, ArrowError> {
        let valid = || BooleanBuffer::collect_bool(slots.len(), |at| self.valid[slots[at] as usize]);
        let nulls = self.has_nulls.then(|| NullBuffer::new(valid())).filter(|nulls| nulls.null_count() > 0);
        Ok(match &self.values {
            Values::U8(values) => numbers::<UInt8Type>(gather(values, slots), nulls),
            Values::U16(values) => numbers::<UInt16Type>(gather(values, slots), nulls),
            Values::U32(values) => numbers::<UInt32Type>(gather(values, slots), nulls),
            Values::U64(values) => numbers::<UInt64Type>(values.gather(slots), nulls),
            Values::Time(values) => times(values.gather(slots), nulls),
            Values::Short(values) => {
                let octets = Buffer::from_vec(gather(values, slots).into_flattened());
                let offsets = OffsetBuffer::from_repeated_length(SHORT, slots.len());
                Arc::new(BinaryArray::try_new(offsets, octets, nulls)?)
            }
            Values::Wide(values, lengths) => {
                let lengths_of_slots = slots.iter().map(|&slot| usize::from(lengths[slot as usize]));
                let offsets = OffsetBuffer::from_lengths(lengths_of_slots.clone());
                let mut octets = Vec::with_capacity(slots.len() * WIDE);
                for (&slot, length) in slots.iter().zip(lengths_of_slots) {
                    octets.extend_from_slice(&values[slot as usize][..length]);
                }
                Arc::new(BinaryArray::try_new(offsets, octets.into(), nulls)?)
            }
            Values::Kept(arrays, places) => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                let place = |&slot: &u32| {
                    let (array, row) = places[slot as usize];
                    (array as usize, row as usize)
                };
                let places: Vec<(usize, usize)> = slots.iter().map(place).collect();
                interleave(&arrays, &places)?
            }
        })
    }
}

/// Octets of IPv4 addresses in slots for longer ones.
fn widened(short: &[[u8; SHORT]]) -> Values {
    let widened = short.iter().map(|value| {
        let mut wide = [0; WIDE];
        wide[..SHORT].copy_from_slice(value);
        wide
    });
    Values::Wide(widened.collect(), vec![SHORT as u8; short.len()])
}

fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

fn times(values: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    let times = PrimitiveArray::<TimestampMillisecondType>::new(ScalarBuffer::from(Buffer::from_vec(values)), nulls);
    Arc::new(times.with_data_type(arrow_type(ColumnType::Time)))
}

/// The times in these slots as an array, in which [`NO_TIME`] is null.
pub(super) fn gather_times(from: &[i64], slots: &[u32]) -> ArrayRef {
    let values: Vec<u64> = slots.iter().map(|&slot| from[slot as usize] as u64).collect();
    let is_null = |value: &u64| *value == NO_TIME as u64;
    let nulls = values.iter().any(is_null).then(|| values.iter().map(|value| !is_null(value)).collect());
    times(values, nulls)
}

/// The values when all have the length of an IPv4 address; nulls have it only if something lies beneath them.
fn all_short(values: &BinaryArray) -> Option<&[[u8; SHORT]]> {
    let offsets = values.value_offsets();
    // differences of all lengths together, so that many are looked at in one instruction
    let other = offsets.windows(2).fold(0, |bits, pair| bits | ((pair[1] - pair[0]) ^ SHORT as i32));
    if other != 0 {
        return None;
    }
    let (first, end) = (*offsets.first()?, *offsets.last()?);
    Some(values.value_data()[first as usize..end as usize].as_chunks().0)
}
