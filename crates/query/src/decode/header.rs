//! The header of a Parquet page, which is a Thrift structure in the compact protocol.
//!
//! Only what is needed to find and decode the values is kept; statistics and unknown fields are skipped. Reading it
//! here takes some hundred nanoseconds, a tenth of what the general reader takes for a page.

use super::Damage;

/// What kind of page it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Values, in the first version of the layout: levels and values are compressed together.
    Data,
    /// The values of a dictionary.
    Dictionary,
}

/// How the values of a page are encoded (parquet.thrift, `Encoding`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueEncoding {
    Plain,
    Dictionary,
    DeltaBinaryPacked,
    DeltaLength,
    ByteStreamSplit,
}

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    /// Octets after decompression.
    pub(crate) octets: usize,
    /// Octets in the file, after the header.
    pub(crate) compressed: usize,
    /// Values, nulls included.
    pub(crate) values: usize,
    pub(crate) encoding: ValueEncoding,
    /// Octets of the header itself.
    pub(crate) header: usize,
}

const DAMAGED: Damage = Damage("the header of a page is damaged");

/// Largest page that is believed: 256 MiB, far above what is ever written.
const PAGE_OCTETS_MAX: i64 = 256 << 20;
/// Structures within structures that are skipped, at most.
const DEPTH_MAX: u32 = 16;

struct Compact<'a> {
    rest: &'a [u8],
}

/// Types of the compact protocol.
mod kind {
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const STRUCT: u8 = 12;
}

impl Compact<'_> {
    fn octet(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.rest.split_first().ok_or(DAMAGED)?;
        self.rest = rest;
        Ok(first)
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            value |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DAMAGED)
    }

    fn zigzag(&mut self) -> Result<i64, Damage> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn pass(&mut self, octets: usize) -> Result<(), Damage> {
        self.rest = self.rest.get(octets..).ok_or(DAMAGED)?;
        Ok(())
    }

    /// The next field: its number and type, or `None` at the end of the structure.
    fn field(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>, Damage> {
        let octet = self.octet()?;
        if octet == 0 {
            return Ok(None);
        }
        let number = match octet >> 4 {
            0 => self.zigzag()? as i16,
            delta => last.checked_add(i16::from(delta)).ok_or(DAMAGED)?,
        };
        *last = number;
        Ok(Some((number, octet & 0x0f)))
    }

    fn skip(&mut self, what: u8, depth: u32) -> Result<(), Damage> {
        if depth > DEPTH_MAX {
            return Err(DAMAGED);
        }
        match what {
            kind::TRUE | kind::FALSE => Ok(()),
            kind::BYTE => self.pass(1),
            kind::I16 | kind::I32 | kind::I64 => self.varint().map(drop),
            kind::DOUBLE => self.pass(8),
            kind::BINARY => {
                let octets = self.varint()?;
                self.pass(usize::try_from(octets).map_err(|_| DAMAGED)?)
            }
            kind::LIST | kind::SET => {
                let head = self.octet()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    count => u64::from(count),
                };
                for _ in 0..count {
                    match head & 0x0f {
                        kind::TRUE | kind::FALSE => self.pass(1)?,
                        element => self.skip(element, depth + 1)?,
                    }
                }
                Ok(())
            }
            kind::STRUCT => {
                let mut last = 0;
                while let Some((_, inner)) = self.field(&mut last)? {
                    self.skip(inner, depth + 1)?;
                }
                Ok(())
            }
            _ => Err(DAMAGED),
        }
    }
}

fn encoding(number: i64) -> Result<ValueEncoding, Damage> {
    Ok(match number {
        0 => ValueEncoding::Plain,
        2 | 8 => ValueEncoding::Dictionary,
        5 => ValueEncoding::DeltaBinaryPacked,
        6 => ValueEncoding::DeltaLength,
        9 => ValueEncoding::ByteStreamSplit,
        _ => return Err(Damage("a page has an encoding that segments do not use")),
    })
}

/// Reads the header at the start of `octets`.
pub(crate) fn page_header(octets: &[u8]) -> Result<PageHeader, Damage> {
    let mut reader = Compact { rest: octets };
    let (mut page, mut size, mut compressed, mut inner) = (None, None, None, None);
    let mut last = 0;
    while let Some((number, what)) = reader.field(&mut last)? {
        match (number, what) {
            (1, kind::I32) => page = Some(reader.zigzag()?),
            (2, kind::I32) => size = Some(reader.zigzag()?),
            (3, kind::I32) => compressed = Some(reader.zigzag()?),
            // data_page_header and dictionary_page_header both begin with num_values and encoding
            (5 | 7, kind::STRUCT) => inner = Some(values_and_encoding(&mut reader)?),
            (_, what) => reader.skip(what, 0)?,
        }
    }
    let header = octets.len() - reader.rest.len();
    let kind = match page {
        Some(0) => PageKind::Data,
        Some(2) => PageKind::Dictionary,
        _ => return Err(Damage("a page is of a kind that segments do not have")),
    };
    let bounded = |value: Option<i64>| match value {
        Some(value @ 0..=PAGE_OCTETS_MAX) => Ok(value as usize),
        _ => Err(DAMAGED),
    };
    let (values, number) = inner.ok_or(DAMAGED)?;
    Ok(PageHeader {
        kind,
        octets: bounded(size)?,
        compressed: bounded(compressed)?,
        values: bounded(Some(values))?,
        encoding: encoding(number)?,
        header,
    })
}

fn values_and_encoding(reader: &mut Compact<'_>) -> Result<(i64, i64), Damage> {
    let (mut values, mut encoding) = (None, None);
    let mut last = 0;
    while let Some((number, what)) = reader.field(&mut last)? {
        match (number, what) {
            (1, kind::I32) => values = Some(reader.zigzag()?),
            (2, kind::I32) => encoding = Some(reader.zigzag()?),
            (_, what) => reader.skip(what, 1)?,
        }
    }
    values.zip(encoding).ok_or(DAMAGED)
}

/// Where a page is in its file, its header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageAt {
    pub(crate) offset: u64,
    pub(crate) octets: usize,
    /// Number of its first row in the row group.
    pub(crate) first_row: u64,
}

/// Reads an `OffsetIndex`: where the pages of a column chunk are.
pub(crate) fn page_locations(octets: &[u8]) -> Result<Vec<PageAt>, Damage> {
    const DAMAGED: Damage = Damage("the index of pages is damaged");
    let mut reader = Compact { rest: octets };
    let mut last = 0;
    while let Some((number, what)) = reader.field(&mut last)? {
        if (number, what) != (1, kind::LIST) {
            reader.skip(what, 0)?;
            continue;
        }
        let head = reader.octet()?;
        let count = match head >> 4 {
            15 => reader.varint()?,
            count => u64::from(count),
        };
        let mut pages = Vec::with_capacity((count as usize).min(octets.len()));
        for _ in 0..count {
            let (mut offset, mut size, mut row) = (None, None, None);
            let mut last = 0;
            while let Some((number, what)) = reader.field(&mut last)? {
                match (number, what) {
                    (1, kind::I64) => offset = Some(reader.zigzag()?),
                    (2, kind::I32) => size = Some(reader.zigzag()?),
                    (3, kind::I64) => row = Some(reader.zigzag()?),
                    (_, what) => reader.skip(what, 1)?,
                }
            }
            let unsigned = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok()).ok_or(DAMAGED);
            pages.push(PageAt {
                offset: unsigned(offset)?,
                octets: unsigned(size)? as usize,
                first_row: unsigned(row)?,
            });
        }
        if pages.windows(2).any(|pair| pair[0].first_row >= pair[1].first_row) {
            return Err(DAMAGED);
        }
        return Ok(pages);
    }
    Err(DAMAGED)
}
