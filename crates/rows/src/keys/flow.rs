//! Keys of flows: source, destination, ports and protocol, and other columns where several exporters need them.
//!
//! The key of an IPv4 flow is one number of 128 bits, which a table may keep beside the counters of the flow, in the
//! same line of the cache. Bits tell whether an address has 4 octets, 16, or another length, and which values are null,
//! so no two different keys are ever the same number. What does not fit (the upper octets of long addresses, columns
//! beside the five) is in further words, which exist only when there is such a key. So IPv6 costs IPv4 nothing.

mod rebuild;

pub use rebuild::KeyRows;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_chain::{ComponentError, OptionError};
use weir_flow::{Column, ColumnType};

use super::{Seed, WideWords};

/// The five columns that identify a flow, in the order of their table.
pub const FIVE_TUPLE: [Column; 5] =
    [Column::SrcAddr, Column::DstAddr, Column::SrcPort, Column::DstPort, Column::Protocol];

/// The first 128 bits of a key. When [`is_wide`](Self::is_wide), two keys are equal when these and their further words
/// are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowKey(u128);

// From the lowest bit: last four octets of both addresses, ports, protocol, classes of the addresses, what is null.
const DST_SHIFT: u32 = 32;
const SRC_PORT_SHIFT: u32 = 64;
const DST_PORT_SHIFT: u32 = 80;
const PROTOCOL_SHIFT: u32 = 96;
const SRC_CLASS_SHIFT: u32 = 104;
const DST_CLASS_SHIFT: u32 = 106;
const HAS_SRC_PORT: u128 = 1 << 108;
const HAS_DST_PORT: u128 = 1 << 109;
const HAS_PROTOCOL: u128 = 1 << 110;
const WIDE: u128 = 1 << 111;
const REFUSED: u128 = 1 << 112;

/// Classes of addresses; null is 0.
const FOUR: u128 = 1;
const SIXTEEN: u128 = 2;
const OTHER: u128 = 3;

/// Further words of addresses: the upper 64 bits of both, the next 32 of both, the lengths of those of class `OTHER`.
const ADDRESS_WORDS: usize = 4;

impl FlowKey {
    /// Whether the key has further words.
    #[inline]
    pub fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    /// Whether the row has no key, because an address is longer than 16 octets.
    #[inline]
    pub fn is_refused(self) -> bool {
        self.0 & REFUSED != 0
    }

    fn bits(self, shift: u32, bits: u32) -> u128 {
        self.0 >> shift & ((1 << bits) - 1)
    }

    fn swap(&mut self, shift: u32, other: u32, bits: u32) {
        let difference = (self.0 >> shift ^ self.0 >> other) & ((1 << bits) - 1);
        self.0 ^= difference << shift | difference << other;
    }

    /// Source and destination change places.
    fn reverse(&mut self) {
        self.swap(0, DST_SHIFT, 32);
        self.swap(SRC_PORT_SHIFT, DST_PORT_SHIFT, 16);
        self.swap(SRC_CLASS_SHIFT, DST_CLASS_SHIFT, 2);
        self.swap(HAS_SRC_PORT.ilog2(), HAS_DST_PORT.ilog2(), 1);
    }
}

/// A column of the key beside the five.
#[derive(Debug, Clone, Copy)]
struct Extra {
    column: Column,
    /// Index of its first word: the value and 1, or 0 and 0 for null; for addresses the length and 1, and two words.
    word: usize,
}

/// Makes keys of the rows of batches.
#[derive(Debug)]
pub struct FlowKeys {
    by: Vec<Column>,
    extras: Vec<Extra>,
    words: usize,
    seed: Seed,
    keys: Vec<FlowKey>,
    hashes: Vec<u64>,
    reversed: Vec<bool>,
    wide: WideWords,
}

impl FlowKeys {
    /// Keys of these columns of flows. Columns that are neither numbers nor addresses are refused.
    pub fn new(by: &[Column]) -> Result<Self, OptionError> {
        let mut by = by.to_vec();
        by.sort_unstable();
        by.dedup();
        let mut words = ADDRESS_WORDS;
        let mut extras = Vec::new();
        for &column in by.iter().filter(|column| !FIVE_TUPLE.contains(column)) {
            extras.push(Extra { column, word: words });
            words += match column.column_type() {
                ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => 2,
                ColumnType::Address | ColumnType::Mac => 3,
                _ => return Err(OptionError::new("keys", format!("'{column}' cannot be a part of the key"))),
            };
        }
        Ok(Self {
            by,
            extras,
            words,
            seed: Seed::random(),
            keys: Vec::new(),
            hashes: Vec::new(),
            reversed: Vec::new(),
            wide: WideWords::new(words),
        })
    }

    /// The columns of which keys are made, in the order of their table.
    pub fn by(&self) -> &[Column] {
        &self.by
    }

    /// Further words of a wide key.
    pub fn words(&self) -> usize {
        self.words
    }

    /// The keys of the rows of the last batch.
    pub fn keys(&self) -> &[FlowKey] {
        &self.keys
    }

    /// Their hashes.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Further words of the wide ones among them.
    pub fn wide(&self) -> &WideWords {
        &self.wide
    }

    /// Whether source and destination of a row changed places, see [`encode_normalised`](Self::encode_normalised).
    #[inline]
    pub fn is_reversed(&self, row: usize) -> bool {
        self.reversed.get(row).copied().unwrap_or(false)
    }

    /// The hash of a key.
    #[inline]
    pub fn hash(&self, key: FlowKey, words: &[u64]) -> u64 {
        let first = self.seed.hash(&[key.0 as u64, (key.0 >> 64) as u64]);
        if key.is_wide() { first ^ self.seed.hash(words).rotate_left(17) } else { first }
    }

    /// Makes the keys of a batch. An absent column is null.
    pub fn encode(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        self.fill(rows)?;
        self.reversed.clear();
        self.hash_all();
        Ok(())
    }

    /// Makes the keys of a batch such that both directions of a conversation have the same one: the smaller of the two
    /// ends (address and port) is the source.
    pub fn encode_normalised(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        self.fill(rows)?;
        self.normalise();
        self.hash_all();
        Ok(())
    }

    fn fill(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        self.keys.clear();
        self.keys.resize(rows.num_rows(), FlowKey(if self.extras.is_empty() { 0 } else { WIDE }));
        self.wide.clear();
        for column in self.by.clone() {
            let Some(values) = rows.column_by_name(column.name()) else { continue };
            let expected = weir_flow::schema::arrow_type(column.column_type());
            if *values.data_type() != expected {
                let found = values.data_type();
                return Err(ComponentError::new(format!(
                    "column '{column}' has type {found}, but {expected} is needed"
                )));
            }
            match column {
                Column::SrcAddr => self.addresses(values.as_binary(), 0, SRC_CLASS_SHIFT),
                Column::DstAddr => self.addresses(values.as_binary(), DST_SHIFT, DST_CLASS_SHIFT),
                Column::SrcPort => self.numbers(values.as_primitive::<UInt16Type>(), SRC_PORT_SHIFT, HAS_SRC_PORT),
                Column::DstPort => self.numbers(values.as_primitive::<UInt16Type>(), DST_PORT_SHIFT, HAS_DST_PORT),
                Column::Protocol => self.numbers(values.as_primitive::<UInt8Type>(), PROTOCOL_SHIFT, HAS_PROTOCOL),
                _ => self.extra(column, values),
            }
        }
        Ok(())
    }

    fn numbers<T>(&mut self, values: &arrow::array::PrimitiveArray<T>, shift: u32, has: u128)
    where
        T: arrow::datatypes::ArrowPrimitiveType<Native: Into<u128>>,
    {
        let rows = self.keys.iter_mut().zip(values.values());
        if values.null_count() == 0 {
            rows.for_each(|(key, &value)| key.0 |= value.into() << shift | has);
            return;
        }
        for (row, (key, &value)) in rows.enumerate() {
            if values.is_valid(row) {
                key.0 |= value.into() << shift | has;
            }
        }
    }

    fn addresses(&mut self, values: &arrow::array::BinaryArray, shift: u32, class_shift: u32) {
        let offsets = values.value_offsets();
        let (first, last) = (offsets[0] as usize, offsets[values.len()] as usize);
        let all_short = offsets.windows(2).fold(0, |differing, pair| differing | ((pair[1] - pair[0]) ^ 4)) == 0;
        if all_short && values.null_count() == 0 {
            let octets = values.value_data()[first..last].as_chunks::<4>().0;
            for (key, octets) in self.keys.iter_mut().zip(octets) {
                key.0 |= u128::from(u32::from_be_bytes(*octets)) << shift | FOUR << class_shift;
            }
            return;
        }
        for row in 0..values.len() {
            if values.is_valid(row) {
                self.address(row, values.value(row), shift, class_shift);
            }
        }
    }

    fn address(&mut self, row: usize, octets: &[u8], shift: u32, class_shift: u32) {
        let key = &mut self.keys[row];
        if let Ok(octets) = <[u8; 4]>::try_from(octets) {
            key.0 |= u128::from(u32::from_be_bytes(octets)) << shift | FOUR << class_shift;
            return;
        }
        let Some(value) = padded(octets) else {
            key.0 |= REFUSED;
            return;
        };
        let class = if octets.len() == 16 { SIXTEEN } else { OTHER };
        key.0 |= (value & 0xffff_ffff) << shift | class << class_shift | WIDE;
        let words = self.wide.of_mut(row);
        let is_src = shift == 0;
        words[usize::from(!is_src)] = (value >> 64) as u64;
        words[2] |= (value as u64 >> 32) << shift;
        if class == OTHER {
            words[3] |= (octets.len() as u64) << if is_src { 0 } else { 8 };
        }
    }

    fn extra(&mut self, column: Column, values: &arrow::array::ArrayRef) {
        let Some(extra) = self.extras.iter().find(|extra| extra.column == column).copied() else { return };
        for row in 0..values.len() {
            if values.is_null(row) {
                continue;
            }
            let number = match column.column_type() {
                ColumnType::U8 => values.as_primitive::<UInt8Type>().value(row).into(),
                ColumnType::U16 => values.as_primitive::<UInt16Type>().value(row).into(),
                ColumnType::U32 => values.as_primitive::<UInt32Type>().value(row).into(),
                ColumnType::U64 => values.as_primitive::<UInt64Type>().value(row),
                _ => {
                    let octets = values.as_binary::<i32>().value(row);
                    match padded(octets) {
                        Some(value) => {
                            let words = &mut self.wide.of_mut(row)[extra.word..];
                            words[0] = octets.len() as u64 + 1;
                            (words[1], words[2]) = (value as u64, (value >> 64) as u64);
                        }
                        None => self.keys[row].0 |= REFUSED,
                    }
                    continue;
                }
            };
            let words = &mut self.wide.of_mut(row)[extra.word..];
            (words[0], words[1]) = (number, 1);
        }
    }

    fn normalise(&mut self) {
        self.reversed.clear();
        for (row, key) in self.keys.iter_mut().enumerate() {
            let words = if key.is_wide() { self.wide.of(row) } else { &[0; ADDRESS_WORDS] };
            let end = |word: usize, shift: u32, length_shift: u32, class: u32, has: u128, port: u32| {
                let (upper, middle) = (words[word], words[2] >> shift & 0xffff_ffff);
                let address = (key.bits(class, 2), words[3] >> length_shift & 0xff, upper, middle, key.bits(shift, 32));
                (address, key.0 & has != 0, key.bits(port, 16))
            };
            let src = end(0, 0, 0, SRC_CLASS_SHIFT, HAS_SRC_PORT, SRC_PORT_SHIFT);
            let dst = end(1, DST_SHIFT, 8, DST_CLASS_SHIFT, HAS_DST_PORT, DST_PORT_SHIFT);
            self.reversed.push(src > dst);
            if src > dst {
                key.reverse();
                if key.is_wide() {
                    reverse_words(self.wide.of_mut(row));
                }
            }
        }
    }

    fn hash_all(&mut self) {
        self.hashes.clear();
        let mut hashes = std::mem::take(&mut self.hashes);
        if self.extras.is_empty() && self.wide.is_empty() {
            hashes.extend(self.keys.iter().map(|&key| self.seed.hash(&[key.0 as u64, (key.0 >> 64) as u64])));
        } else {
            hashes.extend(self.keys.iter().enumerate().map(|(row, &key)| self.hash(key, self.wide.of(row))));
        }
        self.hashes = hashes;
    }
}

/// Up to 16 octets as a number, the first one uppermost.
fn padded(octets: &[u8]) -> Option<u128> {
    let mut padded = [0; 16];
    padded.get_mut(..octets.len())?.copy_from_slice(octets);
    Some(u128::from_be_bytes(padded))
}

fn reverse_words(words: &mut [u64]) {
    words.swap(0, 1);
    words[2] = words[2].rotate_left(32);
    words[3] = words[3] >> 8 & 0xff | (words[3] & 0xff) << 8;
}
