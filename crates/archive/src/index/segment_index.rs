//! The index of a segment, read back.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use weir_flow::Column;

use super::octets::{CorruptIndex, OctetReader};
use super::page_set::PageSet;
use super::place::{ChunkPlaces, Header, Section};
use super::postings::Directory;
use super::write::{LISTS_HERE, LISTS_HOSTS, LISTS_NONE, NO_VALUE, VERSION};
use super::zones::{ZoneMap, read_zones};
use crate::ArchiveError;

/// A range of keys, both ends included.
pub(super) type Keys = (u128, u128);

/// Pages of ranges of hosts that were decoded, by lane: a question about either side of flows looks for the same hosts
/// twice.
pub(super) type FoundHosts = Mutex<HashMap<Keys, Vec<PageSet>>>;

/// What a segment knows about its pages.
#[derive(Debug)]
pub struct SegmentIndex {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    octets: Vec<u8>,
    page_rows: u64,
    /// First row of each row group, and the number of all rows.
    group_rows: Vec<u64>,
    /// First page of each row group, and the number of all pages.
    group_pages: Vec<usize>,
    pub(crate) sections: Vec<Section>,
    pub(crate) leaves: usize,
    /// Where the column chunks are, as written by [`ChunkPlaces`], by row group and leaf.
    pub(crate) chunks: Range<usize>,
    /// Where the entry of each column is.
    columns: [Option<Range<usize>>; Column::COUNT],
    pub(super) hosts: Directory,
    pub(super) found_hosts: FoundHosts,
}

/// What a column's entry says.
pub(super) struct Entry<'a> {
    pub(super) nulls: PageSet,
    pub(super) zones: Vec<ZoneMap<'a>>,
    pub(super) lists: ValueLists<'a>,
    pub(super) pages: OctetReader<'a>,
}

pub(super) enum ValueLists<'a> {
    /// The column has no value at all.
    NoValue,
    Not,
    /// In the entry itself.
    Here(Directory, &'a [u8]),
    /// Among the hosts, in this lane.
    Hosts(usize),
}

impl SegmentIndex {
    /// Reads the index of the open segment at `path`; `None` when it has none, or one of a later version.
    pub(crate) fn open(path: PathBuf, file: File) -> Result<Option<Self>, ArchiveError> {
        let Some(header) = Header::read(&file, &path)? else { return Ok(None) };
        let octets = header.index.read(&file, &path, "index")?;
        let damaged = |path| ArchiveError::DamagedSegment { path, part: "index".to_owned() };
        if OctetReader::new(&octets).u32() != Ok(VERSION) {
            return Ok(None);
        }
        match Self::parse(path.clone(), file, octets) {
            Ok(index) => Ok(Some(index)),
            Err(CorruptIndex) => Err(damaged(path)),
        }
    }

    fn parse(path: PathBuf, file: File, octets: Vec<u8>) -> Result<Self, CorruptIndex> {
        let mut reader = OctetReader::new(&octets);
        let at = |reader: &OctetReader<'_>| octets.len() - reader.left();
        reader.u32()?;
        let page_rows = reader.u64()?;
        if page_rows == 0 {
            return Err(CorruptIndex);
        }
        let (groups, leaves) = (reader.u32()? as usize, reader.u32()? as usize);
        let (mut group_rows, mut group_pages) = (vec![0], vec![0]);
        let (mut rows, mut pages) = (0u64, 0usize);
        for _ in 0..groups {
            let group = reader.u64()?;
            rows = rows.checked_add(group).ok_or(CorruptIndex)?;
            pages = pages.checked_add(group.div_ceil(page_rows) as usize).ok_or(CorruptIndex)?;
            group_rows.push(rows);
            group_pages.push(pages);
        }
        if pages > reader.left() * 8 {
            return Err(CorruptIndex);
        }
        let sections = (0..reader.u32()?).map(|_| Section::parse(&mut reader)).collect::<Result<_, CorruptIndex>>()?;
        let start = at(&reader);
        reader.take(
            groups.checked_mul(leaves).and_then(|count| count.checked_mul(ChunkPlaces::OCTETS)).ok_or(CorruptIndex)?,
        )?;
        let chunks = start..at(&reader);
        let hosts = Directory::read(&mut reader)?;
        let mut columns = [const { None }; Column::COUNT];
        for _ in 0..reader.u32()? {
            let hint = usize::from(reader.u8()?);
            let length = usize::from(reader.u8()?);
            let name = std::str::from_utf8(reader.take(length)?).map_err(|_| CorruptIndex)?;
            let hinted = Column::ALL.get(hint).copied().filter(|column| column.name() == name);
            let length = reader.u32()? as usize;
            let start = at(&reader);
            reader.take(length)?;
            if let Some(column) = hinted.or_else(|| Column::by_name(name)) {
                columns[column as usize] = Some(start..start + length);
            }
        }
        let found_hosts = FoundHosts::default();
        Ok(Self {
            path,
            file,
            octets,
            page_rows,
            group_rows,
            group_pages,
            sections,
            leaves,
            chunks,
            columns,
            hosts,
            found_hosts,
        })
    }

    /// How many pages the segment has.
    pub fn pages(&self) -> usize {
        self.group_pages.last().copied().unwrap_or(0)
    }

    /// The rows of a page, counted through the segment; empty for a page that it does not have.
    pub fn page_rows(&self, page: usize) -> Range<u64> {
        let group = self.group_pages.partition_point(|first| *first <= page).saturating_sub(1);
        let (Some(first_page), Some(first), Some(end)) =
            (self.group_pages.get(group), self.group_rows.get(group), self.group_rows.get(group + 1))
        else {
            return 0..0;
        };
        let start = first + (page - first_page) as u64 * self.page_rows;
        start..(start + self.page_rows).min(*end)
    }

    /// How many row groups the segment has.
    pub fn row_groups(&self) -> usize {
        self.group_rows.len() - 1
    }

    /// The rows of a row group, counted through the segment; empty for one that it does not have.
    pub fn row_group_rows(&self, group: usize) -> Range<u64> {
        self.group_rows.get(group).zip(self.group_rows.get(group + 1)).map_or(0..0, |(start, end)| *start..*end)
    }

    /// The pages of a row group; empty for one that it does not have.
    pub fn row_group_pages(&self, group: usize) -> Range<usize> {
        self.group_pages.get(group).zip(self.group_pages.get(group + 1)).map_or(0..0, |(start, end)| *start..*end)
    }

    pub(super) fn entry(&self, column: Column) -> Option<Result<Entry<'_>, CorruptIndex>> {
        let octets = self.octets.get(self.columns[column as usize].clone()?)?;
        Some(self.read_entry(octets))
    }

    fn read_entry<'a>(&'a self, octets: &'a [u8]) -> Result<Entry<'a>, CorruptIndex> {
        let mut reader = OctetReader::new(octets);
        let (nulls, zones) = read_zones(&mut reader, self.pages())?;
        let lists = match reader.u8()? {
            LISTS_NONE => ValueLists::Not,
            NO_VALUE => ValueLists::NoValue,
            LISTS_HERE => {
                let directory = Directory::read(&mut reader)?;
                let blocks = reader.take(usize::try_from(directory.octets()).map_err(|_| CorruptIndex)?)?;
                ValueLists::Here(directory, blocks)
            }
            LISTS_HOSTS => ValueLists::Hosts(reader.u8()?.into()),
            _ => return Err(CorruptIndex),
        };
        Ok(Entry { nulls, zones, lists, pages: reader })
    }

    pub(super) fn damaged(&self, part: String) -> ArchiveError {
        ArchiveError::DamagedSegment { path: self.path.clone(), part }
    }

    /// Whether every value of a column is null. False as well when the index does not know the column.
    pub fn is_null(&self, column: Column) -> Result<bool, ArchiveError> {
        match self.entry(column) {
            None => Ok(false),
            Some(Ok(entry)) => Ok(matches!(entry.lists, ValueLists::NoValue)),
            Some(Err(CorruptIndex)) => Err(self.damaged(format!("index of column '{column}'"))),
        }
    }

    /// Pages that have a null in this column; all pages when the column is not indexed.
    pub fn pages_with_nulls(&self, column: Column) -> Result<PageSet, ArchiveError> {
        match self.entry(column) {
            None => Ok(PageSet::all(self.pages())),
            Some(Ok(entry)) => Ok(entry.nulls),
            Some(Err(CorruptIndex)) => Err(self.damaged(format!("index of column '{column}'"))),
        }
    }

    /// The octets of a chunk's entry: by row group and leaf.
    pub(crate) fn chunk(&self, group: usize, leaf: usize) -> Result<ChunkPlaces, CorruptIndex> {
        let at = (group * self.leaves + leaf) * ChunkPlaces::OCTETS;
        let all = self.octets.get(self.chunks.clone()).ok_or(CorruptIndex)?;
        ChunkPlaces::parse(all.get(at..at + ChunkPlaces::OCTETS).ok_or(CorruptIndex)?)
    }
}
