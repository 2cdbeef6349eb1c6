//! Values by their numbers in a dictionary.

use std::collections::HashMap;

use super::Value;
use super::header::put_varint;
use crate::order::hosts::Mixer;

/// Values of a dictionary at most, so that a number fits into two octets.
const VALUES_MAX: usize = 1 << 16;

/// Values below this find their number without hashing.
const DIRECT_VALUES: usize = 1 << 16;

const NEW: u32 = u32::MAX;

/// The distinct values of a chunk, in the order in which they came.
#[derive(Debug)]
pub(super) struct Dictionary<T> {
    values: Vec<T>,
    direct: Vec<u32>,
    hashed: HashMap<u64, u32, Mixer>,
    /// Numbers of values that are no numbers themselves.
    others: HashMap<T, u32>,
}

impl<T> Default for Dictionary<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            direct: Vec::new(),
            hashed: HashMap::with_hasher(Mixer::new()),
            others: HashMap::new(),
        }
    }
}

impl<T: Value> Dictionary<T> {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn put_values(&self, out: &mut Vec<u8>) {
        self.values.iter().for_each(|value| value.put_plain(out));
    }

    #[inline]
    fn number(&mut self, value: T) -> u32 {
        let slot = match value.number() {
            Some(key) if key < self.direct.len() as u64 => &mut self.direct[key as usize],
            Some(key) if key < DIRECT_VALUES as u64 => {
                self.direct.resize((key as usize + 1).next_power_of_two().max(256), NEW);
                &mut self.direct[key as usize]
            }
            Some(key) => self.hashed.entry(key).or_insert(NEW),
            None => self.others.entry(value).or_insert(NEW),
        };
        if *slot == NEW {
            *slot = self.values.len() as u32;
            self.values.push(value);
        }
        *slot
    }

    /// Writes the numbers of a page's values, all of which lie in the range. Returns whether it did: when there are too
    /// many values, it wrote nothing, the values of this page are forgotten, and the dictionary takes no more pages.
    pub(super) fn put(&mut self, values: &[T], (low, high): (T, T), codes: &mut Vec<u16>, out: &mut Vec<u8>) -> bool {
        let before = self.values.len();
        if low == high {
            let number = self.number(low);
            if self.values.len() > VALUES_MAX {
                self.values.truncate(before);
                return false;
            }
            out.push(16);
            put_varint(out, (values.len() as u64) << 1);
            out.extend((number as u16).to_le_bytes());
            return true;
        }
        codes.clear();
        let mut last = (low, self.number(low));
        for &value in values {
            if value != last.0 {
                last = (value, self.number(value));
            }
            codes.push(last.1 as u16);
        }
        if self.values.len() > VALUES_MAX {
            self.values.truncate(before);
            return false;
        }
        self.put_codes(codes, out);
        true
    }

    /// Numbers in one string of bits (parquet-format, Encodings, RLE). They have one, two, four, eight or sixteen bits,
    /// so that the compressor finds repeated octets.
    fn put_codes(&self, codes: &[u16], out: &mut Vec<u8>) {
        let bits = (self.values.len() as u32 - 1).checked_ilog2().unwrap_or(0) + 1;
        // times are in no order, so nothing is repeated
        let is_time = self.values.first().is_some_and(|value| value.time().is_some());
        let width = if is_time { bits } else { bits.next_power_of_two() };
        out.push(width as u8);
        put_varint(out, (codes.len().div_ceil(8) as u64) << 1 | 1);
        let start = out.len();
        match width {
            16 => out.extend(codes.iter().flat_map(|code| code.to_le_bytes())),
            8 => out.extend(codes.iter().map(|code| *code as u8)),
            1 | 2 | 4 => {
                let join = |codes: &[u16]| codes.iter().rev().fold(0u16, |octet, code| octet << width | code) as u8;
                out.extend(codes.chunks(8 / width as usize).map(join));
            }
            _ => {
                // eight numbers make whole octets
                for codes in codes.chunks(8) {
                    let joined = codes.iter().rev().fold(0u128, |joined, code| joined << width | u128::from(*code));
                    out.extend(&joined.to_le_bytes()[..width as usize]);
                }
            }
        }
        // groups of eight are whole
        out.resize(start + codes.len().div_ceil(8) * width as usize, 0);
    }
}
