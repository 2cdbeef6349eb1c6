//! Tests of addresses and other octets.
//!
//! A batch of one family is in memory without gaps, four or sixteen octets after the other, and is compared as an
//! array of numbers. Batches of both families, or with nulls, are read value by value.

use arrow::array::{Array, BinaryArray};
use arrow::buffer::BooleanBuffer;

use super::bits::{bits_by_chunk, bits_of_pairs, bits_where};
use super::rows::{Mask, with_nulls};
use crate::AddressSet;
use crate::address_set::Probe;

/// Ranges of a set up to which each is compared with every address, rather than searched.
const RANGES_COMPARED_MAX: usize = 8;

pub(super) fn addresses_in(addresses: &BinaryArray, set: &AddressSet) -> Mask {
    if let Some(v4) = all_of_width::<4>(addresses) {
        return v4_in(addresses, v4, set);
    }
    if let ([(first, last)], []) = (set.ranges_v4(), set.ranges_v6()) {
        return one_v4_range(addresses, *first, *last);
    }
    octets_where(addresses, |octets| set.contains(octets))
}

/// Addresses of both families in a range of IPv4, without a branch: four octets are read wherever an address begins.
fn one_v4_range(addresses: &BinaryArray, first: u32, last: u32) -> Mask {
    let octets = addresses.value_data();
    let Some(furthest) = octets.len().checked_sub(4) else { return Mask::None };
    with_nulls(
        addresses,
        bits_of_widths(addresses, |start, width| {
            let at = (start as usize).min(furthest);
            let number = octets[at..].first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets));
            (width == 4) & (number.wrapping_sub(first) <= last - first)
        }),
    )
}

/// Which values are wanted by where they begin and how wide they are.
fn bits_of_widths(values: &BinaryArray, wanted: impl Fn(i32, i32) -> bool) -> BooleanBuffer {
    let offsets = values.value_offsets();
    bits_of_pairs(&offsets[..values.len()], &offsets[1..], |start, end| wanted(start, end - start))
}

fn v4_in(addresses: &BinaryArray, v4: &[[u8; 4]], set: &AddressSet) -> Mask {
    let bits = match set.ranges_v4() {
        [] => return Mask::None,
        &[(first, last)] => {
            // One comparison without a branch finds whether a number is in a range.
            bits_where(v4, |octets| u32::from_be_bytes(octets).wrapping_sub(first) <= last - first)
        }
        ranges if ranges.len() <= RANGES_COMPARED_MAX => bits_by_chunk(v4, |chunk, found| {
            for &(first, last) in ranges {
                for (found, octets) in found.iter_mut().zip(chunk) {
                    *found |= u8::from(u32::from_be_bytes(*octets).wrapping_sub(first) <= last - first);
                }
            }
        }),
        _ => match set.v4_probe() {
            Some(probe) => probed(v4, set, probe),
            None => bits_where(v4, |octets| set.contains_v4(u32::from_be_bytes(octets))),
        },
    };
    with_nulls(addresses, bits)
}

/// Looks closer only at those that a probe does not rule out.
fn probed(v4: &[[u8; 4]], set: &AddressSet, probe: &Probe) -> BooleanBuffer {
    bits_by_chunk(v4, |chunk, found| {
        for (found, octets) in found.iter_mut().zip(chunk) {
            *found = u8::from(probe.may_contain(u32::from_be_bytes(*octets)));
        }
        for (found, octets) in found.iter_mut().zip(chunk).filter(|(found, _)| **found != 0) {
            *found = u8::from(set.contains_v4(u32::from_be_bytes(*octets)));
        }
    })
}

/// The values as arrays, when all of them have this width.
fn all_of_width<const WIDTH: usize>(values: &BinaryArray) -> Option<&[[u8; WIDTH]]> {
    let offsets = values.value_offsets();
    let (first, last) = (*offsets.first()?, *offsets.last()?);
    let odd = offsets.iter().zip(&offsets[1..]).fold(0, |odd, (start, end)| odd | (end - start) ^ WIDTH as i32);
    (odd == 0).then(|| values.value_data()[first as usize..last as usize].as_chunks().0)
}

pub(super) fn octets_where(values: &BinaryArray, wanted: impl Fn(&[u8]) -> bool) -> Mask {
    let octets = values.value_data();
    let value = |start: i32, width: i32| &octets[start as usize..(start + width) as usize];
    with_nulls(values, bits_of_widths(values, |start, width| wanted(value(start, width))))
}

pub(super) fn of_width(values: &BinaryArray, width: i32) -> BooleanBuffer {
    let bits = bits_of_widths(values, |_, found| found == width);
    match values.nulls() {
        Some(nulls) => &bits & nulls.inner(),
        None => bits,
    }
}
