//! Whether the numbers of a file can be true, and what it takes once it is decoded.
//!
//! Counted for each chunk of a column: its pages as their headers say, and for each row as many octets as the widest value has, which
//! is the longest of the dictionary where there is one. A text that is long once makes all rows count as long; in return
//! nothing has to be decoded to know.

use weir_flow::{Column, ColumnType};

use super::layout::{FILE_META_DATA, PAGE_HEADER};
use super::thrift::{Fields, Malformed, read};
use crate::arrow_stream::StreamError;
use crate::columnar::MAGIC;

/// Octets of a footer: those of 60 columns in a hundred row groups take less.
const FOOTER_OCTETS_MAX: usize = 1 << 20;
/// Values of a footer, and of the header of a page.
const FOOTER_VALUES_MAX: usize = 1 << 18;
const HEADER_VALUES_MAX: usize = 64;
/// Columns, several times those of flows.
const COLUMNS_MAX: usize = 1024;
/// Octets of a value of fixed length.
const FIXED_OCTETS_MAX: u64 = 256;
/// Octets of the place of a value that has no fixed length.
const PLACE_OCTETS: u64 = 4;
/// Octets of the longest address.
const ADDRESS_OCTETS: u64 = 16;
/// Octets of a number or a time that is written out: `+262142-12-31T23:59:59.999999999Z` is the longest.
const WRITTEN_OCTETS: u64 = 40;

/// Numbers of `parquet.thrift`: types of values, repetitions (a value is there, or may be), codecs, kinds of pages, encodings.
const BYTE_ARRAY: i64 = 6;
const FIXED_LEN_BYTE_ARRAY: i64 = 7;
const REQUIRED: i64 = 0;
const OPTIONAL: i64 = 1;
const UNCOMPRESSED: i64 = 0;
const ZSTD: i64 = 6;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_V2: i64 = 3;
const PLAIN: i64 = 0;
const PLAIN_DICTIONARY: i64 = 2;
const RLE_DICTIONARY: i64 = 8;

/// Why a file is refused: it cannot be true, or it is too large.
enum Refused {
    Malformed(Malformed),
    TooLarge,
}

impl From<Malformed> for Refused {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

/// A column, by the schema.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    physical: i64,
    /// Octets of a value once it is decoded; of one without a fixed length those of its place.
    width: u64,
    /// Octets of a value as a column of flows has it, without those of a text or of octets that are as long as they were.
    converted: u64,
}

/// Looks at all numbers of a file. Of one that passes, pages and the values that they become take no more than `octets_max`; a batch
/// of its rows is there besides while it is converted, and texts of control characters become three times as long, as these are
/// replaced.
pub(super) fn check(file: &[u8], octets_max: usize) -> Result<(), StreamError> {
    let mut budget = Budget { octets_left: octets_max as u64 };
    match file_of(file).and_then(|(footer, chunks)| check_file(&footer, chunks, &mut budget)) {
        Ok(()) => Ok(()),
        Err(Refused::Malformed(what)) => Err(StreamError::Parquet(what.to_owned())),
        Err(Refused::TooLarge) => Err(StreamError::TooLarge { octets_max }),
    }
}

/// Octets that may still be decoded.
struct Budget {
    octets_left: u64,
}

impl Budget {
    fn take(&mut self, octets: u64) -> Result<(), Refused> {
        self.octets_left = self.octets_left.checked_sub(octets).ok_or(Refused::TooLarge)?;
        Ok(())
    }
}

/// The footer, and all octets before it.
fn file_of(file: &[u8]) -> Result<(Fields, &[u8]), Refused> {
    let rest =
        file.strip_prefix(MAGIC).and_then(|rest| rest.strip_suffix(MAGIC)).ok_or("it has not the marks of one")?;
    let (rest, length) = rest.split_last_chunk::<4>().ok_or("it has no footer")?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > FOOTER_OCTETS_MAX {
        return Err("its footer is larger than 1 MiB".into());
    }
    let start = rest.len().checked_sub(length).ok_or("its footer is longer than what is there")?;
    let (footer, _) = read(&rest[start..], FILE_META_DATA, FOOTER_VALUES_MAX)?;
    Ok((footer, &file[..MAGIC.len() + start]))
}

fn check_file(footer: &Fields, file: &[u8], budget: &mut Budget) -> Result<(), Refused> {
    let leaves = leaves(footer)?;
    let (mut rows, mut packed_left) = (0_u64, file.len() as u64);
    for group in footer.structs(4)? {
        let of_group = group.size(3)?;
        rows = rows.checked_add(of_group).ok_or("it has too many rows")?;
        let chunks = group.structs(1)?;
        if chunks.len() != leaves.len() {
            return Err("a row group has not one chunk for each column".into());
        }
        for (leaf, chunk) in leaves.iter().zip(chunks) {
            let chunk = chunk.inner(3)?;
            let octets = octets_of(chunk, file)?;
            // chunks that lie over each other would be decoded more than once
            packed_left = packed_left.checked_sub(octets.len() as u64).ok_or("chunks are larger than the file")?;
            check_chunk(chunk, octets, *leaf, of_group, budget)?;
        }
        // times of reception, where there are none
        budget.take(of_group.saturating_mul(8))?;
    }
    if rows != footer.size(3)? {
        return Err("its row groups have not as many rows as it says".into());
    }
    Ok(())
}

/// The columns of a file, all of which are children of the root.
fn leaves(footer: &Fields) -> Result<Vec<Leaf>, Refused> {
    let elements = footer.structs(2)?;
    let (root, leaves) = elements.split_first().ok_or("it has no schema")?;
    if root.int(5) != i64::try_from(leaves.len()).ok() || leaves.len() > COLUMNS_MAX {
        return Err("it has nested columns, or too many".into());
    }
    leaves.iter().map(|element| leaf(element)).collect()
}

fn leaf(element: &Fields) -> Result<Leaf, Refused> {
    if element.int(5).unwrap_or(0) != 0 || !matches!(element.int(3), Some(REQUIRED | OPTIONAL)) {
        return Err("it has nested columns or lists".into());
    }
    let physical = element.int(1).ok_or("a column has no type")?;
    let width = match physical {
        // BOOLEAN, INT32 and FLOAT, INT64 and DOUBLE, INT96, and the place of a BYTE_ARRAY
        0 => 1,
        1 | 4 | BYTE_ARRAY => PLACE_OCTETS,
        2 | 5 => 8,
        3 => 12,
        FIXED_LEN_BYTE_ARRAY => element.size(2)?,
        _ => return Err("a column has an unknown type".into()),
    };
    if width == 0 || width > FIXED_OCTETS_MAX {
        return Err("values of fixed length have none, or more than 256 octets".into());
    }
    let name = element.name(4).and_then(|name| std::str::from_utf8(name).ok());
    // columns that flows do not have are refused before any is decoded
    let converted = name.and_then(Column::by_name).map_or(0, |column| converted_width(column, physical, width));
    Ok(Leaf { physical, width, converted })
}

/// Octets of a value in a column of flows; `width` is what it has before.
fn converted_width(column: Column, physical: i64, width: u64) -> u64 {
    match column.column_type() {
        ColumnType::U8 => 1,
        ColumnType::U16 => 2,
        ColumnType::U32 => 4,
        ColumnType::U64 | ColumnType::Time => 8,
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => PLACE_OCTETS + width.max(ADDRESS_OCTETS),
        ColumnType::Text if physical == BYTE_ARRAY => PLACE_OCTETS,
        ColumnType::Text => PLACE_OCTETS + WRITTEN_OCTETS,
        // lists, which are refused
        ColumnType::Elements => 0,
    }
}

/// The octets of a chunk.
fn octets_of<'a>(chunk: &Fields, file: &'a [u8]) -> Result<&'a [u8], Refused> {
    // that is where the library begins
    let start = if chunk.int(11).is_some() { chunk.size(11)? } else { chunk.size(9)? };
    let end = start.checked_add(chunk.size(7)?).filter(|_| start >= MAGIC.len() as u64);
    let range = end.and_then(|end| Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?));
    Ok(range.and_then(|range| file.get(range)).ok_or("a chunk lies outside of the file")?)
}

fn check_chunk(chunk: &Fields, octets: &[u8], leaf: Leaf, rows: u64, budget: &mut Budget) -> Result<(), Refused> {
    if chunk.int(1) != Some(leaf.physical) {
        return Err("a chunk has another type than its column".into());
    }
    let codec = chunk.int(4).filter(|codec| [UNCOMPRESSED, ZSTD].contains(codec));
    let codec = codec.ok_or("it is compressed otherwise than with zstd")?;
    if chunk.size(5)? != rows {
        return Err("a chunk has not as many values as its row group has rows".into());
    }
    budget.take(rows.saturating_mul(leaf.width.max(leaf.converted)))?;
    let (mut left, mut values, mut is_first) = (octets, 0_u64, true);
    while !left.is_empty() {
        let (header, length) = read(left, PAGE_HEADER, HEADER_VALUES_MAX)?;
        let page = Page::of(&header, &left[length..])?;
        budget.take(page.unpacked.max(page.packed.len() as u64))?;
        match header.int(1) {
            Some(DICTIONARY_PAGE) if is_first => {
                let longest = page.longest_of_dictionary(header.inner(7)?, leaf, codec)?;
                budget.take(rows.saturating_mul(longest))?;
            }
            Some(DATA_PAGE) => values = values.saturating_add(values_of(header.inner(5)?, 2)?),
            Some(DATA_PAGE_V2) => values = values.saturating_add(page.values_v2(header.inner(8)?)?),
            _ => return Err("a page is of another kind, or a dictionary is not the first".into()),
        }
        left = &left[length + page.packed.len()..];
        is_first = false;
    }
    if values != rows {
        return Err("pages have not as many values as their row group has rows".into());
    }
    Ok(())
}

/// A page: its octets in the file, and how many they become.
struct Page<'a> {
    packed: &'a [u8],
    unpacked: u64,
}

impl<'a> Page<'a> {
    /// The page whose octets are at the front of `octets`.
    fn of(header: &Fields, octets: &'a [u8]) -> Result<Self, Malformed> {
        let (unpacked, packed) = (header.size(2)?, header.size(3)?);
        let packed = usize::try_from(packed).ok().and_then(|packed| octets.get(..packed));
        Ok(Self { packed: packed.ok_or("a page is longer than its chunk")?, unpacked })
    }

    /// How many values a page of data of version 2 says that it has, whose levels are not compressed.
    fn values_v2(&self, header: &Fields) -> Result<u64, Malformed> {
        let levels = header.size(5)?.saturating_add(header.size(6)?);
        if levels > self.unpacked.min(self.packed.len() as u64) {
            return Err("levels of a page are longer than the page");
        }
        values_of(header, 4)
    }

    /// Octets of the longest value of a dictionary, beyond those that every value has.
    fn longest_of_dictionary(&self, header: &Fields, leaf: Leaf, codec: i64) -> Result<u64, Malformed> {
        if !header.int(2).is_some_and(|it| [PLAIN, PLAIN_DICTIONARY].contains(&it)) {
            return Err("a dictionary is not plain");
        }
        let values = header.size(1)?;
        if values.saturating_mul(leaf.width) > self.unpacked {
            return Err("a dictionary is shorter than its values");
        }
        if leaf.physical != BYTE_ARRAY || values == 0 {
            return Ok(0);
        }
        // it is no more than may be decoded: that was taken before
        let unpacked = usize::try_from(self.unpacked).map_err(|_| "a page is too large")?;
        if codec == UNCOMPRESSED {
            return longest(self.packed, values);
        }
        let octets =
            zstd::bulk::decompress(self.packed, unpacked).map_err(|_| "a dictionary cannot be decompressed")?;
        longest(&octets, values)
    }
}

/// How many values a page of data says that it has; `encoding` is the number of the field that says how.
fn values_of(header: &Fields, encoding: i16) -> Result<u64, Malformed> {
    let is_known = header.int(encoding).is_some_and(|it| [PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY].contains(&it));
    if is_known { header.size(1) } else { Err("a page is encoded otherwise than plain or with a dictionary") }
}

/// Octets of the longest of some values, each behind its length.
fn longest(mut octets: &[u8], values: u64) -> Result<u64, Malformed> {
    let mut longest = 0;
    for _ in 0..values {
        let (length, rest) = octets.split_first_chunk::<4>().ok_or("a dictionary is shorter than its values")?;
        let length = u32::from_le_bytes(*length);
        octets = rest.get(length as usize..).ok_or("a dictionary is shorter than its values")?;
        longest = longest.max(u64::from(length));
    }
    Ok(longest)
}
