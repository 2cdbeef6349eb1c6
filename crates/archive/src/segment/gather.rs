//! A column put together from its pieces, so that its rows can be taken in another order.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray};
use arrow::datatypes::{DataType, Field, TimeUnit, TimestampMillisecondType};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use super::Columns;
use super::chunk::{BufferedValue, Buffers, Ipv4, Values};
use crate::ArchiveError;
use crate::order::hosts::{Hosts, NO_HOST};

/// Octets of an IPv4 address.
const SHORT_OCTETS: usize = 4;

/// A column of which rows are taken.
pub(super) enum Gather<'a> {
    U8(Values<u8>),
    U16(Values<u16>),
    U32(Values<u32>),
    U64(Values<u64>),
    Time(Values<i64>),
    /// Octets that are all four long: IPv4 addresses.
    Ipv4(Values<Ipv4>),
    /// Addresses of both families, by their numbers.
    Hosts(&'a [u32], &'a Hosts),
    /// Octets or text of any length.
    Octets(BinaryArray),
    /// Anything else, which the library encodes.
    General(ArrayRef),
}

impl<'a> Gather<'a> {
    /// A column of flows; `None` when no row has a value.
    pub(super) fn flows(
        columns: &Columns<'_>,
        field: &Field,
        buffers: &mut Buffers,
    ) -> Result<Option<Self>, ArchiveError> {
        Ok(match field.data_type() {
            DataType::UInt8 => numbers::<UInt8Type>(columns, field, buffers)?.map(Self::U8),
            DataType::UInt16 => numbers::<UInt16Type>(columns, field, buffers)?.map(Self::U16),
            DataType::UInt32 => numbers::<UInt32Type>(columns, field, buffers)?.map(Self::U32),
            DataType::UInt64 => numbers::<UInt64Type>(columns, field, buffers)?.map(Self::U64),
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                numbers::<TimestampMillisecondType>(columns, field, buffers)?.map(Self::Time)
            }
            DataType::Binary => match addresses(columns, field, buffers)? {
                Some(values) => Some(Self::Ipv4(values)),
                None => columns.column(field)?.map(|values| Self::Octets(values.as_binary().clone())),
            },
            DataType::Utf8 => texts(columns, field)?.map(Self::Octets),
            _ => Self::general(columns, field)?,
        })
    }

    /// A column of addresses by their numbers; `None` when no row has one.
    pub(super) fn hosts(numbers: &'a [u32], hosts: &'a Hosts, buffers: &mut Buffers) -> Option<Self> {
        if numbers.iter().all(|number| *number == NO_HOST) {
            return None;
        }
        if !hosts.long.is_empty() {
            return Some(Self::Hosts(numbers, hosts));
        }
        let mut values = std::mem::take(Ipv4::buffer(buffers));
        let short = |number: &u32| number.checked_sub(1).and_then(|at| hosts.short.get(at as usize));
        values.extend(numbers.iter().map(|number| Ipv4(short(number).copied().unwrap_or_default())));
        let has_gaps = numbers.contains(&NO_HOST);
        let valid = has_gaps.then(|| numbers.iter().map(|number| *number != NO_HOST).collect());
        Some(Self::Ipv4(Values { values, valid }))
    }

    /// A column that the library encodes; `None` when no row has a value.
    pub(super) fn general(columns: &Columns<'_>, field: &Field) -> Result<Option<Self>, ArchiveError> {
        Ok(columns.column(field)?.map(Self::General))
    }
}

/// Notes which rows of a piece have a value; nothing as long as all rows have one.
fn note_nulls(valid: &mut Option<Vec<bool>>, before: usize, piece: &dyn Array) {
    if valid.is_none() && piece.null_count() == 0 {
        return;
    }
    let valid = valid.get_or_insert_with(|| vec![true; before]);
    match piece.nulls() {
        Some(nulls) => valid.extend(nulls.iter()),
        None => valid.resize(before + piece.len(), true),
    }
}

fn numbers<T: ArrowPrimitiveType<Native: BufferedValue>>(
    columns: &Columns<'_>,
    field: &Field,
    buffers: &mut Buffers,
) -> Result<Option<Values<T::Native>>, ArchiveError> {
    let mut values = std::mem::take(T::Native::buffer(buffers));
    let mut valid = None;
    values.reserve_exact(columns.rows());
    let found = columns.each(field, |piece| {
        note_nulls(&mut valid, values.len(), &piece);
        values.extend_from_slice(piece.as_primitive::<T>().values());
    })?;
    let values = Values { values, valid };
    if found {
        return Ok(Some(values));
    }
    buffers.keep(values);
    Ok(None)
}

/// A column of text, as octets; `None` when no row has a text.
fn texts(columns: &Columns<'_>, field: &Field) -> Result<Option<BinaryArray>, ArchiveError> {
    let found = columns.column(field)?.filter(|values| values.null_count() < values.len());
    Ok(found.map(|values| BinaryArray::from(values.as_string::<i32>().clone())))
}

/// A column of addresses, unless one that is there has other than four octets, or none is there.
fn addresses(
    columns: &Columns<'_>,
    field: &Field,
    buffers: &mut Buffers,
) -> Result<Option<Values<Ipv4>>, ArchiveError> {
    let mut values = std::mem::take(Ipv4::buffer(buffers));
    let mut valid = None;
    let mut are_short = true;
    let found = columns.each(field, |piece| {
        are_short = are_short && is_short(piece.as_binary());
        if are_short {
            note_nulls(&mut valid, values.len(), &piece);
            put_addresses(piece.as_binary(), &mut values);
        }
    })?;
    let values = Values { values, valid };
    if found && are_short {
        return Ok(Some(values));
    }
    buffers.keep(values);
    Ok(None)
}

/// Whether all values that are there have four octets.
fn is_short(values: &BinaryArray) -> bool {
    match values.null_count() {
        0 => values.value_offsets().windows(2).all(|pair| pair[1] - pair[0] == SHORT_OCTETS as i32),
        _ => values.iter().flatten().all(|octets| octets.len() == SHORT_OCTETS),
    }
}

fn put_addresses(piece: &BinaryArray, values: &mut Vec<Ipv4>) {
    let short = |octets: &[u8; SHORT_OCTETS]| Ipv4(u32::from_be_bytes(*octets));
    if piece.null_count() > 0 {
        return values.extend(piece.iter().map(|octets| octets.and_then(<[u8]>::first_chunk).map_or(Ipv4(0), short)));
    }
    let (Some(&first), Some(&end)) = (piece.value_offsets().first(), piece.value_offsets().last()) else { return };
    let octets = piece.value_data().get(first as usize..end as usize).unwrap_or_default();
    values.extend(octets.as_chunks().0.iter().map(short));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_four_octets() {
        let short = BinaryArray::from_vec(vec![&[9; 4], &[1, 2, 3, 4], &[7; 4]]);
        let gaps = BinaryArray::from_iter([Some(&[1u8; 4][..]), None]);
        let mixed = BinaryArray::from_iter([Some(&[1u8; 4][..]), None, Some(&[2; 16]), Some(&[])]);
        assert!(is_short(&short) && is_short(&gaps) && !is_short(&mixed) && !is_short(&mixed.slice(2, 1)));
        let (mut values, mut valid) = (Vec::new(), None);
        for piece in [short.slice(1, 2), gaps, short.slice(0, 1)] {
            note_nulls(&mut valid, values.len(), &piece);
            put_addresses(&piece, &mut values);
        }
        assert_eq!(values, [0x0102_0304, 0x0707_0707, 0x0101_0101, 0, 0x0909_0909].map(Ipv4));
        assert_eq!(valid, Some(vec![true, true, true, false, true]));
    }
}
