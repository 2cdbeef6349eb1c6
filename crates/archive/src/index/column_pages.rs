//! Where the pages of a column lie in the file of a segment.

use std::ops::Range;

use weir_flow::Column;

use super::octets::{CorruptIndex, OctetReader, narrow};
use super::place::{ChunkPlaces, PageEncoding};
use super::segment_index::SegmentIndex;
use crate::ArchiveError;

/// Where the pages of a column lie.
///
/// Each page is a Parquet page: a Thrift header, then its data, compressed with zstd (a data page of version 1: the
/// definition levels are part of what is compressed). The column is optional: a page without nulls has one run of the
/// level 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPages {
    /// Encoding of the data pages.
    pub encoding: PageEncoding,
    /// Row group by row group.
    pub groups: Vec<GroupPages>,
}

/// The pages of a column in one row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPages {
    /// All octets of the column in the file, dictionary included.
    pub chunk: Range<u64>,
    /// CRC-32C of these octets.
    pub crc32c: u32,
    /// Octets of the dictionary page in the file, header included; `None` when there is none.
    pub dictionary: Option<Range<u64>>,
    /// The data pages in order: page `n` of the row group is page `row_group_pages(group).start + n` of the index.
    pub pages: Vec<PagePlace>,
}

/// Where one page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagePlace {
    /// Offset in the file.
    pub offset: u64,
    /// Octets, header included.
    pub octets: u64,
    /// Rows.
    pub rows: u64,
}

impl SegmentIndex {
    /// Where the pages of a column lie, so that they can be read without Parquet's footer. `None` for columns that are
    /// not in the index, have no value in the segment, or are lists.
    pub fn column_pages(&self, column: Column) -> Result<Option<ColumnPages>, ArchiveError> {
        let damaged = |CorruptIndex| self.damaged(format!("index of column '{column}'"));
        let Some(entry) = self.entry(column) else { return Ok(None) };
        let entry = entry.map_err(damaged)?;
        self.read_places(entry.pages).map_err(damaged)
    }

    fn read_places(&self, mut reader: OctetReader<'_>) -> Result<Option<ColumnPages>, CorruptIndex> {
        if reader.left() == 0 {
            return Ok(None);
        }
        let encoding = PageEncoding::of_octet(reader.u8()?).ok_or(CorruptIndex)?;
        let leaf = reader.u32()? as usize;
        let dictionaries = (0..self.row_groups()).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        let width = usize::from(reader.u8()?);
        let sizes = reader.take(self.pages().checked_mul(width).ok_or(CorruptIndex)?)?;
        let mut groups = Vec::with_capacity(self.row_groups());
        for (group, &dictionary) in dictionaries.iter().enumerate() {
            let ChunkPlaces { offset, octets, crc } = self.chunk(group, leaf)?;
            let end = offset.checked_add(octets).ok_or(CorruptIndex)?;
            let mut at = offset + u64::from(dictionary);
            let mut pages = Vec::new();
            for page in self.row_group_pages(group) {
                let octets = narrow(sizes, page, width).ok_or(CorruptIndex)?;
                let rows = self.page_rows(page);
                pages.push(PagePlace { offset: at, octets, rows: rows.end - rows.start });
                at += octets;
            }
            if at != end {
                return Err(CorruptIndex);
            }
            let dictionary = (dictionary > 0).then(|| offset..offset + u64::from(dictionary));
            groups.push(GroupPages { chunk: offset..end, crc32c: crc, dictionary, pages });
        }
        Ok(Some(ColumnPages { encoding, groups }))
    }
}
