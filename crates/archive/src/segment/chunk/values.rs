//! Values as they lie in a page: numbers octet by octet, addresses behind their lengths.

use std::fmt::Debug;
use std::hash::Hash;

use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::file::statistics::Statistics;

use super::header::put_varint;
use crate::index::PageEncoding;
use crate::index::key::time_key;
use crate::order::hosts::{Hosts, NO_HOST};

/// Octets of a buffer that is kept for the next column, at most: fresh memory for every column costs the kernel as much
/// as a quarter of the sealing, and a merge has columns that are larger.
const KEPT_OCTETS_MAX: usize = 32 << 20;

/// The values of a column, in the order in which rows came.
#[derive(Debug)]
pub(in crate::segment) struct Values<T> {
    /// Anything where a row has none.
    pub(in crate::segment) values: Vec<T>,
    /// Which rows have a value; `None` when all have one.
    pub(in crate::segment) valid: Option<Vec<bool>>,
}

/// Memory for the values of a column, by type.
#[derive(Debug, Default)]
pub(in crate::segment) struct Buffers {
    u8: Vec<u8>,
    u16: Vec<u16>,
    u32: Vec<u32>,
    u64: Vec<u64>,
    i64: Vec<i64>,
    short: Vec<Ipv4>,
}

impl Buffers {
    /// Takes the memory of a column back.
    pub(in crate::segment) fn keep<T: BufferedValue>(&mut self, mut values: Values<T>) {
        if values.values.capacity() * size_of::<T>() <= KEPT_OCTETS_MAX {
            values.values.clear();
            *T::buffer(self) = values.values;
        }
    }
}

/// A value of a column.
pub(in crate::segment) trait Value: Copy + Ord + Hash + Debug {
    /// How values are encoded that have no dictionary.
    const DIRECT: Encoding;

    /// A number that no other value has, if there is one.
    fn number(self) -> Option<u64>;

    /// Milliseconds since the epoch, if it is a time.
    fn time(self) -> Option<i64> {
        None
    }

    /// As Parquet's `PLAIN` encoding has it, without a length.
    fn octets(self) -> Vec<u8>;

    /// As Parquet's `PLAIN` encoding has it.
    fn put_plain(self, out: &mut Vec<u8>);

    /// Writes values all of which lie in the range, without a dictionary.
    fn put_direct(values: &[Self], range: (Self, Self), out: &mut Vec<u8>);

    fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics;

    fn page_encoding() -> PageEncoding {
        match Self::DIRECT {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => PageEncoding::DeltaLengthByteArray,
            Encoding::PLAIN => PageEncoding::Plain,
            _ => PageEncoding::ByteStreamSplit,
        }
    }
}

/// A value of four octets or eight at most, of which a whole column is kept in memory.
pub(in crate::segment) trait BufferedValue: Value {
    /// As a number that orders like it, the one that the index knows.
    fn key(self) -> u64;

    /// The memory for such values.
    fn buffer(buffers: &mut Buffers) -> &mut Vec<Self>;
}

/// Splits values into streams of their octets, the lowest first. A stream whose octets are the same in all values is
/// known from the range: whatever lies between two numbers shares their upper octets.
macro_rules! numbers {
    ($($native:ident: $physical:ty, $statistics:ident, $key:expr, $time:expr;)*) => {$(
        impl Value for $native {
            const DIRECT: Encoding = Encoding::BYTE_STREAM_SPLIT;

            #[inline]
            fn number(self) -> Option<u64> {
                Some(self.key())
            }

            fn time(self) -> Option<i64> {
                let time: fn($native) -> Option<i64> = $time;
                time(self)
            }

            fn octets(self) -> Vec<u8> {
                (self as $physical).to_le_bytes().to_vec()
            }

            fn put_plain(self, out: &mut Vec<u8>) {
                out.extend((self as $physical).to_le_bytes());
            }

            fn put_direct(values: &[Self], (low, high): (Self, Self), out: &mut Vec<u8>) {
                let differing = ((low ^ high) as u64).checked_ilog2().map_or(0, |bit| bit / 8 + 1);
                for stream in 0..size_of::<$physical>() as u32 {
                    if stream < differing {
                        out.extend(values.iter().map(|value| (*value >> (stream * 8)) as u8));
                    } else {
                        let octet = (low as $physical).to_le_bytes()[stream as usize];
                        out.resize(out.len() + values.len(), octet);
                    }
                }
            }

            fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics {
                let range = range.map(|(low, high)| (low as $physical, high as $physical)).unzip();
                Statistics::$statistics(range.0, range.1, None, Some(nulls), false)
            }
        }

        impl BufferedValue for $native {
            #[inline]
            fn key(self) -> u64 {
                let key: fn($native) -> u64 = $key;
                key(self)
            }

            fn buffer(buffers: &mut Buffers) -> &mut Vec<Self> {
                &mut buffers.$native
            }
        }
    )*};
}
numbers! {
    u8: i32, int32, u64::from, |_| None;
    u16: i32, int32, u64::from, |_| None;
    u32: i32, int32, u64::from, |_| None;
    u64: i64, int64, |number| number, |_| None;
    i64: i64, int64, time_key, Some;
}

/// An IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::segment) struct Ipv4(pub(in crate::segment) u32);

/// Octets of an IPv4 address.
const SHORT_OCTETS: u32 = 4;

impl Value for Ipv4 {
    const DIRECT: Encoding = Encoding::DELTA_LENGTH_BYTE_ARRAY;

    #[inline]
    fn number(self) -> Option<u64> {
        Some(self.key())
    }

    fn octets(self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn put_plain(self, out: &mut Vec<u8>) {
        out.extend(SHORT_OCTETS.to_le_bytes());
        out.extend(self.0.to_be_bytes());
    }

    fn put_direct(values: &[Self], _: (Self, Self), out: &mut Vec<u8>) {
        put_same_lengths(values.len(), SHORT_OCTETS.into(), out);
        out.extend(values.iter().flat_map(|value| value.0.to_be_bytes()));
    }

    fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics {
        let range = range.map(|(low, high)| (ByteArray::from(low.octets()), ByteArray::from(high.octets()))).unzip();
        Statistics::byte_array(range.0, range.1, None, Some(nulls), false)
    }
}

impl BufferedValue for Ipv4 {
    #[inline]
    fn key(self) -> u64 {
        self.0.into()
    }

    fn buffer(buffers: &mut Buffers) -> &mut Vec<Self> {
        &mut buffers.short
    }
}

/// An address of IPv4 or IPv6, which orders as Parquet orders its octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::segment) struct Address {
    /// 0 behind those that there are.
    octets: [u8; 16],
    length: u8,
}

impl Address {
    /// The host of this number; `None` of [`NO_HOST`].
    #[inline]
    pub(in crate::segment) fn of(number: u32, hosts: &Hosts) -> Option<Self> {
        let at = number.checked_sub(NO_HOST + 1)? as usize;
        if let Some(short) = hosts.short.get(at) {
            return Some(Self { octets: (u128::from(*short) << 96).to_be_bytes(), length: 4 });
        }
        let long = hosts.long.get(at - hosts.short.len())?;
        Some(Self { octets: long.to_be_bytes(), length: 16 })
    }
}

impl Value for Address {
    const DIRECT: Encoding = Encoding::PLAIN;

    fn number(self) -> Option<u64> {
        None
    }

    fn octets(self) -> Vec<u8> {
        self.octets[..self.length.into()].to_vec()
    }

    #[inline]
    fn put_plain(self, out: &mut Vec<u8>) {
        out.extend(u32::from(self.length).to_le_bytes());
        if self.length == 4 {
            out.extend_from_slice(&self.octets[..4]);
        } else {
            out.extend_from_slice(&self.octets);
        }
    }

    fn put_direct(values: &[Self], _: (Self, Self), out: &mut Vec<u8>) {
        out.reserve(values.len() * 20);
        for value in values {
            value.put_plain(out);
        }
    }

    fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics {
        let range = range.map(|(low, high)| (ByteArray::from(low.octets()), ByteArray::from(high.octets()))).unzip();
        Statistics::byte_array(range.0, range.1, None, Some(nulls), false)
    }
}

/// Octets of any length.
impl Value for &[u8] {
    const DIRECT: Encoding = Encoding::PLAIN;

    fn number(self) -> Option<u64> {
        None
    }

    fn octets(self) -> Vec<u8> {
        self.to_vec()
    }

    fn put_plain(self, out: &mut Vec<u8>) {
        out.extend((self.len() as u32).to_le_bytes());
        out.extend(self);
    }

    fn put_direct(values: &[Self], _: (Self, Self), out: &mut Vec<u8>) {
        for value in values {
            value.put_plain(out);
        }
    }

    fn statistics(range: Option<(Self, Self)>, nulls: u64) -> Statistics {
        let range = range.map(|(low, high)| (ByteArray::from(low.to_vec()), ByteArray::from(high.to_vec()))).unzip();
        Statistics::byte_array(range.0, range.1, None, Some(nulls), false)
    }
}

/// Values of a block of differences, and the miniblocks that it has.
const BLOCK_VALUES: usize = 128;
const MINIBLOCKS: usize = 4;

/// Lengths that are all the same, as differences of no bits (parquet-format, Encodings, `DELTA_BINARY_PACKED`).
fn put_same_lengths(count: usize, length: u64, out: &mut Vec<u8>) {
    for number in [BLOCK_VALUES as u64, MINIBLOCKS as u64, count as u64, length * 2] {
        put_varint(out, number);
    }
    let blocks = count.saturating_sub(1).div_ceil(BLOCK_VALUES);
    // the smallest difference, and the width of each miniblock
    out.resize(out.len() + blocks * (1 + MINIBLOCKS), 0);
}
