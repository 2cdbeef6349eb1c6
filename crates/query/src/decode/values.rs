//! The body of a page: levels, then values.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, PrimitiveArray, StringArray, TimestampMillisecondArray, UInt32Array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::{ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType};

use super::Damage;
use super::header::{PageHeader, PageKind, ValueEncoding, page_header};
use super::packed::{Packed, SLACK};

const SHORT: Damage = Damage("a page ends within its values");

/// The dictionary of a column chunk.
#[derive(Debug)]
pub(crate) enum Dictionary {
    /// Numbers, as 64 bits.
    Numbers(Vec<u64>),
    /// Octets that are all four long: IPv4 addresses.
    Short(Vec<[u8; 4]>),
    /// Octets of any length.
    Long {
        /// Where each value begins, and where the last one ends.
        offsets: Vec<u32>,
        octets: Vec<u8>,
    },
}

/// Decodes pages, one after another, in memory of its own: one for each thread.
pub struct PageDecoder {
    zstd: zstd::bulk::Decompressor<'static>,
    /// Octets as they were read.
    pub(crate) read: Vec<u8>,
    body: Vec<u8>,
    deltas: Vec<i64>,
    codes: Vec<u32>,
}

/// The dense values of a page that are not null, and which rows they are of.
struct Levels {
    /// `None` when every row has a value.
    valid: Option<NullBuffer>,
    values: usize,
}

impl fmt::Debug for PageDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageDecoder").finish_non_exhaustive()
    }
}

impl PageDecoder {
    /// A decoder without anything in its memory.
    pub fn new() -> std::io::Result<Self> {
        let zstd = zstd::bulk::Decompressor::new()?;
        Ok(Self { zstd, read: Vec::new(), body: Vec::new(), deltas: Vec::new(), codes: Vec::new() })
    }

    /// Decompresses what follows `header`.
    fn unpack(&mut self, octets: &[u8], header: &PageHeader, compressed: bool) -> Result<(), Damage> {
        let body = octets.get(header.header..header.header + header.compressed).ok_or(SHORT)?;
        self.body.clear();
        if compressed {
            self.body.reserve(header.octets + SLACK);
            let unpacked = self.zstd.decompress_to_buffer(body, &mut self.body);
            unpacked.map_err(|_| Damage("a page cannot be decompressed"))?;
        } else {
            self.body.extend_from_slice(body);
        }
        if self.body.len() != header.octets {
            return Err(Damage("a page has not the length that its header tells"));
        }
        self.body.extend_from_slice(&[0; SLACK]);
        Ok(())
    }

    /// The dictionary at the start of `octets`.
    pub(crate) fn dictionary(&mut self, octets: &[u8], of: ColumnType, compressed: bool) -> Result<Dictionary, Damage> {
        let header = page_header(octets)?;
        if header.kind != PageKind::Dictionary {
            return Err(Damage("a dictionary is missing"));
        }
        self.unpack(octets, &header, compressed)?;
        let mut body = Packed::new(&self.body);
        match of {
            ColumnType::U8 | ColumnType::U16 | ColumnType::U32 => {
                let octets = body.take(header.values.checked_mul(4).ok_or(SHORT)?)?;
                let (values, _) = octets.as_chunks::<4>();
                Ok(Dictionary::Numbers(values.iter().map(|value| u64::from(u32::from_le_bytes(*value))).collect()))
            }
            ColumnType::U64 | ColumnType::Time => {
                let octets = body.take(header.values.checked_mul(8).ok_or(SHORT)?)?;
                let (values, _) = octets.as_chunks::<8>();
                Ok(Dictionary::Numbers(values.iter().map(|value| u64::from_le_bytes(*value)).collect()))
            }
            _ => {
                let (offsets, octets) = plain_octets(&mut body, header.values)?;
                if offsets.windows(2).all(|pair| pair[1] - pair[0] == 4) {
                    return Ok(Dictionary::Short(octets.as_chunks().0.to_vec()));
                }
                Ok(Dictionary::Long { offsets, octets })
            }
        }
    }

    /// The rows of the page at the start of `octets`: all of `rows`, or those that are selected. What is decoded of the
    /// others depends on the encoding.
    pub(crate) fn page(
        &mut self,
        octets: &[u8],
        layout: PageLayout<'_>,
        rows: usize,
        selected: Option<&[u32]>,
    ) -> Result<ArrayRef, Damage> {
        let PageLayout { of, nullable, compressed, dictionary } = layout;
        let header = page_header(octets)?;
        if header.kind != PageKind::Data {
            return Err(Damage("a page of values is missing"));
        }
        if header.values != rows {
            return Err(Damage("a page has other rows than its index says"));
        }
        self.unpack(octets, &header, compressed)?;
        let Self { body, deltas, codes, .. } = self;
        let mut body = Packed::new(body);
        let levels = if nullable {
            levels(&mut body, header.values, codes)?
        } else {
            Levels { valid: None, values: header.values }
        };
        if levels.values == 0 {
            return Ok(new_null_array(field(of).data_type(), selected.map_or(rows, <[u32]>::len)));
        }
        // with nulls, values are not where their rows are
        let direct = selected.filter(|_| levels.valid.is_none());
        if direct.is_some_and(|selected| selected.iter().any(|row| *row as usize >= rows)) {
            return Err(SHORT);
        }
        let mut page =
            Page { body, encoding: header.encoding, rows, selected: direct, levels, deltas, codes, dictionary };
        let values: ArrayRef = match of.column_type() {
            ColumnType::U8 => Arc::new(page.numbers::<UInt8Type>()?),
            ColumnType::U16 => Arc::new(page.numbers::<UInt16Type>()?),
            ColumnType::U32 => Arc::new(page.numbers::<UInt32Type>()?),
            ColumnType::U64 => Arc::new(page.numbers::<UInt64Type>()?),
            ColumnType::Time => {
                let times = page.numbers::<arrow::datatypes::TimestampMillisecondType>()?;
                Arc::new(TimestampMillisecondArray::with_timezone_opt(times, Some("UTC")))
            }
            ColumnType::Address | ColumnType::Mac | ColumnType::Octets => Arc::new(page.octets()?),
            ColumnType::Text => {
                let (offsets, octets, valid) = page.octets()?.into_parts();
                Arc::new(StringArray::try_new(offsets, octets, valid).map_err(|_| Damage("a text is no UTF-8"))?)
            }
            ColumnType::Elements => return Err(Damage("lists are not decoded here")),
        };
        match selected {
            Some(selected) if direct.is_none() => {
                take(&values, &UInt32Array::from(selected.to_vec()), None).map_err(|_| SHORT)
            }
            _ => Ok(values),
        }
    }
}

/// What must be known to decode a page of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLayout<'a> {
    pub(crate) of: Column,
    pub(crate) nullable: bool,
    pub(crate) compressed: bool,
    pub(crate) dictionary: Option<&'a Dictionary>,
}

/// Which rows have a value: definition levels of one bit.
fn levels(body: &mut Packed<'_>, rows: usize, codes: &mut Vec<u32>) -> Result<Levels, Damage> {
    let octets = body.word()? as usize;
    let rest = body.rest();
    let taken = body.take(octets)?;
    // nearly always one run: every row has a value, or none has
    if let Some(value) = single_run(taken, rows) {
        return Ok(Levels { valid: None, values: if value { rows } else { 0 } });
    }
    let mut rest = rest;
    rest.hybrid(1, rows, codes)?;
    let valid = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| codes[row] == 1));
    let values = rows - valid.null_count();
    Ok(Levels { valid: (values < rows).then_some(valid), values })
}

/// The value of levels that are one run.
fn single_run(octets: &[u8], rows: usize) -> Option<bool> {
    let (&value, head) = octets.split_last()?;
    let mut run = 0_u64;
    for (index, octet) in head.iter().enumerate() {
        run |= u64::from(octet & 0x7f) << (7 * index.min(8));
        let is_last = octet & 0x80 == 0;
        if is_last != (index + 1 == head.len()) {
            return None;
        }
    }
    (!head.is_empty() && run & 1 == 0 && run >> 1 == rows as u64 && value <= 1).then_some(value == 1)
}

/// Values of variable length: offsets and octets.
fn plain_octets(body: &mut Packed<'_>, values: usize) -> Result<(Vec<u32>, Vec<u8>), Damage> {
    let mut offsets = Vec::with_capacity(values.min(body.left()) + 1);
    let mut octets = Vec::with_capacity(body.left());
    offsets.push(0);
    for _ in 0..values {
        let length = body.word()? as usize;
        octets.extend_from_slice(body.take(length)?);
        offsets.push(octets.len() as u32);
    }
    Ok((offsets, octets))
}

/// A number as it lies in a page: 32 or 64 bits, of which the column keeps the low ones.
trait Physical: Copy + Default {
    /// Octets in the page.
    const OCTETS: usize;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! physical {
    ($($native:ty: $octets:literal),*) => {$(
        impl Physical for $native {
            const OCTETS: usize = $octets;
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}
physical!(u8: 4, u16: 4, u32: 4, u64: 8, i64: 8);

struct Page<'a> {
    body: Packed<'a>,
    encoding: ValueEncoding,
    rows: usize,
    /// Rows that are wanted, when not all are. No row is null then.
    selected: Option<&'a [u32]>,
    levels: Levels,
    deltas: &'a mut Vec<i64>,
    codes: &'a mut Vec<u32>,
    dictionary: Option<&'a Dictionary>,
}

impl Page<'_> {
    /// The codes of the values that are wanted, all of them smaller than `size`, the length of the dictionary.
    fn codes(&mut self, size: usize) -> Result<(), Damage> {
        let width = self.body.take(1)?[0];
        self.body.rest().hybrid(u32::from(width), self.levels.values, self.codes)?;
        if let Some(rows) = self.selected {
            // rows ascend, so no code is needed any more that is overwritten
            for (to, row) in rows.iter().enumerate() {
                self.codes[to] = self.codes[*row as usize];
            }
            self.codes.truncate(rows.len());
        }
        if self.codes.iter().copied().max().is_some_and(|largest| largest as usize >= size) {
            return Err(Damage("a page refers to what its dictionary does not have"));
        }
        Ok(())
    }

    fn numbers<T>(&mut self) -> Result<PrimitiveArray<T>, Damage>
    where
        T: ArrowPrimitiveType,
        T::Native: Physical,
    {
        let values = self.levels.values;
        let octets = values.checked_mul(T::Native::OCTETS).ok_or(SHORT)?;
        let dense: Vec<T::Native> = match self.encoding {
            ValueEncoding::Plain => match self.selected {
                None => plain(self.body.take(octets)?),
                Some(rows) => selected_plain(self.body.take(octets)?, rows),
            },
            ValueEncoding::ByteStreamSplit => match self.selected {
                None => split(self.body.take(octets)?, values),
                Some(rows) => selected_split(self.body.take(octets)?, values, rows),
            },
            ValueEncoding::DeltaBinaryPacked => {
                self.body.rest().deltas(values, self.deltas)?;
                if self.deltas.len() != values {
                    return Err(SHORT);
                }
                let number = |value: &i64| T::Native::from_bits(*value as u64);
                match self.selected {
                    None => self.deltas.iter().map(number).collect(),
                    Some(rows) => rows.iter().map(|row| number(&self.deltas[*row as usize])).collect(),
                }
            }
            ValueEncoding::Dictionary => {
                let Some(Dictionary::Numbers(numbers)) = self.dictionary else {
                    return Err(Damage("a dictionary of numbers is missing"));
                };
                self.codes(numbers.len())?;
                self.codes.iter().map(|code| T::Native::from_bits(numbers[*code as usize])).collect()
            }
            ValueEncoding::DeltaLength => return Err(Damage("numbers are encoded as octets")),
        };
        let valid = self.levels.valid.take();
        let all = match &valid {
            None => dense,
            Some(valid) => spread(&dense, valid, self.rows),
        };
        PrimitiveArray::try_new(ScalarBuffer::from(all), valid).map_err(|_| SHORT)
    }

    fn octets(&mut self) -> Result<BinaryArray, Damage> {
        let values = self.selected.map_or(self.levels.values, <[u32]>::len);
        let (lengths, octets): (Lengths, Buffer) = match self.encoding {
            ValueEncoding::DeltaLength => {
                let all = self.levels.values;
                let mut rest = self.body.rest();
                rest.deltas(all, self.deltas)?;
                if self.deltas.len() != all {
                    return Err(SHORT);
                }
                let lengths = lengths(self.deltas)?;
                let total = lengths.total(all);
                let octets = rest.take(total)?;
                match self.selected {
                    None => (lengths, Buffer::from(octets)),
                    Some(rows) => lengths.selected(octets, rows),
                }
            }
            ValueEncoding::Plain => {
                let (offsets, octets) = plain_octets(&mut self.body, self.levels.values)?;
                let lengths = Lengths::Each(offsets.windows(2).map(|pair| pair[1] - pair[0]).collect());
                match self.selected {
                    None => (lengths, Buffer::from_vec(octets)),
                    Some(rows) => lengths.selected(&octets, rows),
                }
            }
            ValueEncoding::Dictionary => self.octets_of_dictionary()?,
            _ => return Err(Damage("octets are encoded as numbers")),
        };
        let valid = self.levels.valid.take();
        let offsets = match (&valid, lengths) {
            (None, Lengths::Same(length)) => same_offsets(length, values),
            (None, Lengths::Each(lengths)) => {
                OffsetBuffer::from_lengths(lengths.into_iter().map(|length| length as usize))
            }
            (Some(valid), lengths) => {
                let mut next = 0..values;
                let lengths = valid.iter().map(|valid| match valid.then(|| next.next()).flatten() {
                    Some(value) => lengths.of(value),
                    None => 0,
                });
                OffsetBuffer::from_lengths(lengths)
            }
        };
        BinaryArray::try_new(offsets, octets, valid).map_err(|_| SHORT)
    }

    fn octets_of_dictionary(&mut self) -> Result<(Lengths, Buffer), Damage> {
        match self.dictionary {
            Some(Dictionary::Short(addresses)) => {
                self.codes(addresses.len())?;
                let octets: Vec<[u8; 4]> = self.codes.iter().map(|code| addresses[*code as usize]).collect();
                Ok((Lengths::Same(4), Buffer::from_vec(octets.into_flattened())))
            }
            Some(Dictionary::Long { offsets, octets }) => {
                self.codes(offsets.len() - 1)?;
                let mut gathered = Vec::new();
                let lengths = self.codes.iter().map(|code| {
                    let (start, end) = (offsets[*code as usize], offsets[*code as usize + 1]);
                    gathered.extend_from_slice(&octets[start as usize..end as usize]);
                    end - start
                });
                let lengths = lengths.collect();
                Ok((Lengths::Each(lengths), Buffer::from_vec(gathered)))
            }
            _ => Err(Damage("a dictionary of octets is missing")),
        }
    }
}

/// Lengths of values.
enum Lengths {
    Same(usize),
    Each(Vec<u32>),
}

impl Lengths {
    fn of(&self, value: usize) -> usize {
        match self {
            Self::Same(length) => *length,
            Self::Each(lengths) => lengths[value] as usize,
        }
    }

    /// Values of some rows, which ascend, out of the octets of all.
    fn selected(&self, octets: &[u8], rows: &[u32]) -> (Self, Buffer) {
        let mut gathered = Vec::new();
        match self {
            Self::Same(length) => {
                for row in rows {
                    gathered.extend_from_slice(&octets[*row as usize * length..][..*length]);
                }
                (Self::Same(*length), Buffer::from_vec(gathered))
            }
            Self::Each(lengths) => {
                let (mut at, mut next) = (0, 0);
                for row in rows {
                    let row = *row as usize;
                    at += lengths[next..row].iter().map(|length| *length as usize).sum::<usize>();
                    gathered.extend_from_slice(&octets[at..at + lengths[row] as usize]);
                    (at, next) = (at + lengths[row] as usize, row + 1);
                }
                (Self::Each(rows.iter().map(|row| lengths[*row as usize]).collect()), Buffer::from_vec(gathered))
            }
        }
    }

    fn total(&self, values: usize) -> usize {
        match self {
            Self::Same(length) => length.saturating_mul(values),
            Self::Each(lengths) => lengths.iter().map(|length| *length as usize).sum(),
        }
    }
}

fn lengths(deltas: &[i64]) -> Result<Lengths, Damage> {
    let first = deltas.first().copied().unwrap_or_default();
    if deltas.iter().any(|length| !(0..=i64::from(i32::MAX)).contains(length)) {
        return Err(Damage("a page has values of impossible length"));
    }
    if deltas.iter().all(|length| *length == first) {
        return Ok(Lengths::Same(first as usize));
    }
    Ok(Lengths::Each(deltas.iter().map(|length| *length as u32).collect()))
}

fn same_offsets(length: usize, values: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_repeated_length(length, values)
}

fn plain<T: Physical>(octets: &[u8]) -> Vec<T> {
    if T::OCTETS == 4 {
        octets.as_chunks::<4>().0.iter().map(|value| T::from_bits(u64::from(u32::from_le_bytes(*value)))).collect()
    } else {
        octets.as_chunks::<8>().0.iter().map(|value| T::from_bits(u64::from_le_bytes(*value))).collect()
    }
}

/// Values whose octets lie apart: all first octets, then all second ones, and so on.
fn split<T: Physical>(octets: &[u8], values: usize) -> Vec<T> {
    let stream = |index: usize| &octets[index * values..(index + 1) * values];
    let kept = size_of::<T>().min(T::OCTETS);
    match kept {
        1 => stream(0).iter().map(|octet| T::from_bits(u64::from(*octet))).collect(),
        2 => {
            let pairs = stream(0).iter().zip(stream(1));
            pairs.map(|(low, high)| T::from_bits(u64::from(u16::from_le_bytes([*low, *high])))).collect()
        }
        4 => {
            let (a, b, c, d) = (stream(0), stream(1), stream(2), stream(3));
            let rows = a.iter().zip(b).zip(c.iter().zip(d));
            rows.map(|((a, b), (c, d))| T::from_bits(u64::from(u32::from_le_bytes([*a, *b, *c, *d])))).collect()
        }
        _ => {
            let streams: [&[u8]; 8] = std::array::from_fn(stream);
            let eights = streams.map(|stream| stream.as_chunks::<8>().0);
            let mut all = Vec::with_capacity(values);
            for at in 0..values / 8 {
                let words = eights.map(|eights| u64::from_le_bytes(eights[at]));
                all.extend(transposed(words).map(T::from_bits));
            }
            let value = |row: usize| T::from_bits(u64::from_le_bytes(streams.map(|stream| stream[row])));
            all.extend((all.len()..values).map(value));
            all
        }
    }
}

/// Eight words whose octets change places: the first word of the result has the first octets of all, the second one the second
/// ones (Warren, Hacker's Delight, 7-3, with octets for bits).
fn transposed(mut words: [u64; 8]) -> [u64; 8] {
    for (distance, shift, kept) in
        [(1, 8, 0x00ff_00ff_00ff_00ff), (2, 16, 0x0000_ffff_0000_ffff), (4, 32, 0x0000_0000_ffff_ffff)]
    {
        for low in (0..8).filter(|word| word & distance == 0) {
            let high = low + distance;
            let exchanged = (words[low] >> shift ^ words[high]) & kept;
            words[high] ^= exchanged;
            words[low] ^= exchanged << shift;
        }
    }
    words
}

/// The values of some rows.
fn selected_plain<T: Physical>(octets: &[u8], rows: &[u32]) -> Vec<T> {
    let value = |row: &u32| {
        let octets = &octets[*row as usize * T::OCTETS..][..T::OCTETS];
        T::from_bits(octets.iter().rev().fold(0, |bits, octet| bits << 8 | u64::from(*octet)))
    };
    rows.iter().map(value).collect()
}

/// The values of some rows, whose octets lie apart.
fn selected_split<T: Physical>(octets: &[u8], values: usize, rows: &[u32]) -> Vec<T> {
    let kept = size_of::<T>().min(T::OCTETS);
    let mut all = vec![0_u64; rows.len()];
    for index in 0..kept {
        let stream = &octets[index * values..(index + 1) * values];
        for (value, row) in all.iter_mut().zip(rows) {
            *value |= u64::from(stream[*row as usize]) << (8 * index);
        }
    }
    all.into_iter().map(T::from_bits).collect()
}

/// Values at the rows that have one.
fn spread<T: Physical>(dense: &[T], valid: &NullBuffer, rows: usize) -> Vec<T> {
    let mut all = vec![T::default(); rows];
    for (row, value) in valid.valid_indices().zip(dense) {
        all[row] = *value;
    }
    all
}
