//! From values to pages: which may have one of them, and which have nothing else.
//!
//! Zone maps are looked at first. The lists of a column are decoded only for pages that are left then, and only when
//! that is less work than reading the pages: a short prefix covers many blocks of hosts and is on nearly every page.

use std::os::unix::fs::FileExt;
use std::sync::PoisonError;

use weir_flow::{Column, ColumnType};

use super::key::{OTHER_KEY, address_key, text_key, time_key};
use super::octets::CorruptIndex;
use super::page_set::PageSet;
use super::place::HOSTS;
use super::postings::{Block, add_pages};
use super::segment_index::{Keys, SegmentIndex, ValueLists};
use crate::{Action, ArchiveError};

/// Blocks of a list that are decoded in any case: fewer cost less than a page does.
const BLOCKS_MIN: usize = 4;
/// Pages that must be left for each further block.
const PAGES_PER_BLOCK: usize = 4;

impl SegmentIndex {
    /// Pages that may have a value from `lo` to `hi`, both included, in a column of numbers. All pages when the column
    /// is not indexed.
    pub fn pages_of_numbers(&self, column: Column, lo: u64, hi: u64) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => {
                self.pages_between(column, 0, (lo.into(), hi.into()), None)
            }
            _ => Ok(PageSet::all(self.pages())),
        }
    }

    /// Pages that may have a time from `lo_ms` to `hi_ms`, both included, milliseconds since the epoch. All pages when
    /// the column is not indexed.
    pub fn pages_of_times(&self, column: Column, lo_ms: i64, hi_ms: i64) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::Time => self.pages_between(column, 0, (time_key(lo_ms).into(), time_key(hi_ms).into()), None),
            _ => Ok(PageSet::all(self.pages())),
        }
    }

    /// Pages that may have an address from `lo` to `hi`, both included: both of 4 octets or both of 16. All pages when
    /// the column is not indexed or the ends are not of one family.
    pub fn pages_of_addresses(&self, column: Column, lo: &[u8], hi: &[u8]) -> Result<PageSet, ArchiveError> {
        self.pages_of_addresses_among(column, lo, hi, &PageSet::all(self.pages()))
    }

    /// The same when only these pages are of interest: others may be in the set or not.
    pub fn pages_of_addresses_among(
        &self,
        column: Column,
        lo: &[u8],
        hi: &[u8],
        among: &PageSet,
    ) -> Result<PageSet, ArchiveError> {
        match address_range(column, lo, hi) {
            Some((family, keys)) => self.pages_between(column, family, keys, Some(among)),
            None => Ok(PageSet::all(self.pages())),
        }
    }

    /// Pages that may have this text, whatever the case of ASCII letters. All pages when the column is not indexed.
    pub fn pages_of_text(&self, column: Column, text: &str) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::Text => {
                let key = text_key(text.as_bytes()).into();
                self.pages_between(column, 0, (key, key), None)
            }
            _ => Ok(PageSet::all(self.pages())),
        }
    }

    /// Pages that have any text. All pages when the column is not indexed.
    pub fn pages_with_text(&self, column: Column) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::Text => self.pages_between(column, 0, (0, u64::MAX.into()), None),
            _ => Ok(PageSet::all(self.pages())),
        }
    }

    /// Pages that have an address of this family: IPv6 or IPv4. All pages when the column is not indexed.
    pub fn pages_of_family(&self, column: Column, v6: bool) -> Result<PageSet, ArchiveError> {
        let Some(entry) = self.entry(column) else { return Ok(PageSet::all(self.pages())) };
        let entry = entry.map_err(|CorruptIndex| self.damaged_column(column))?;
        Ok(entry.zones.get(usize::from(v6)).map_or_else(|| PageSet::all(self.pages()), |zone| zone.present().clone()))
    }

    /// Pages of which every row has a number from `lo` to `hi`, both included: none has a null. No page when the column
    /// is not indexed.
    pub fn whole_pages_of_numbers(&self, column: Column, lo: u64, hi: u64) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => {
                self.whole_pages(column, 0, (lo.into(), hi.into()))
            }
            _ => Ok(PageSet::none(self.pages())),
        }
    }

    /// Pages of which every row has a time from `lo_ms` to `hi_ms`, both included, milliseconds since the epoch. No page
    /// when the column is not indexed.
    pub fn whole_pages_of_times(&self, column: Column, lo_ms: i64, hi_ms: i64) -> Result<PageSet, ArchiveError> {
        match column.column_type() {
            ColumnType::Time => self.whole_pages(column, 0, (time_key(lo_ms).into(), time_key(hi_ms).into())),
            _ => Ok(PageSet::none(self.pages())),
        }
    }

    /// Pages of which every row has an address from `lo` to `hi`, both included: both of 4 octets or both of 16. No page
    /// when the hosts of the column are not listed.
    pub fn whole_pages_of_addresses(&self, column: Column, lo: &[u8], hi: &[u8]) -> Result<PageSet, ArchiveError> {
        // the last keys stand for several addresses
        let is_exact = |keys: Keys| keys.0 < OTHER_KEY - 1 && (keys.1 < OTHER_KEY - 1 || hi == [0xff; 16]);
        match address_range(column, lo, hi) {
            Some((family, keys)) if is_exact(keys) => self.whole_pages(column, family, keys),
            _ => Ok(PageSet::none(self.pages())),
        }
    }

    fn pages_between(
        &self,
        column: Column,
        family: usize,
        keys: Keys,
        among: Option<&PageSet>,
    ) -> Result<PageSet, ArchiveError> {
        let damaged = |CorruptIndex| self.damaged_column(column);
        let Some(entry) = self.entry(column) else { return Ok(PageSet::all(self.pages())) };
        let entry = entry.map_err(damaged)?;
        if matches!(entry.lists, ValueLists::NoValue) {
            return Ok(PageSet::none(self.pages()));
        }
        let Some(zone) = entry.zones.get(family) else { return Ok(PageSet::all(self.pages())) };
        let mut pages = zone.pages(keys.0, keys.1);
        if let Some(among) = among {
            pages.and(among);
        }
        let left = pages.count();
        if keys.0 > keys.1 || left == 0 {
            return Ok(pages);
        }
        let is_worth_it = |blocks: &[Block]| blocks.len() <= BLOCKS_MIN.max(left / PAGES_PER_BLOCK);
        match entry.lists {
            ValueLists::NoValue | ValueLists::Not => {}
            ValueLists::Here(directory, blocks) => {
                let covering = directory.covering(keys.0, keys.1);
                if !is_worth_it(covering) {
                    return Ok(pages);
                }
                let mut lanes = vec![PageSet::none(self.pages()); directory.lanes.max(1).into()];
                for block in covering {
                    let octets = blocks.get(block.offset as usize..(block.offset + block.octets) as usize);
                    octets
                        .ok_or(CorruptIndex)
                        .and_then(|octets| add_pages(block, octets, keys, &mut lanes))
                        .map_err(damaged)?;
                }
                pages.and(&lanes[0]);
            }
            ValueLists::Hosts(lane) => {
                if is_worth_it(self.contents.hosts.covering(keys.0, keys.1)) {
                    pages.and(&self.pages_of_hosts(lane, keys)?);
                }
            }
        }
        Ok(pages)
    }

    fn whole_pages(&self, column: Column, family: usize, keys: Keys) -> Result<PageSet, ArchiveError> {
        let none = || PageSet::none(self.pages());
        let Some(entry) = self.entry(column) else { return Ok(none()) };
        let entry = entry.map_err(|CorruptIndex| self.damaged_column(column))?;
        if matches!(entry.lists, ValueLists::NoValue) {
            return Ok(none());
        }
        let Some(zone) = entry.zones.get(family) else { return Ok(none()) };
        let mut pages = zone.whole_pages(keys.0, keys.1);
        pages.and_not(&entry.nulls);
        for (other, zone) in entry.zones.iter().enumerate() {
            if other != family {
                pages.and_not(zone.present());
            }
        }
        if column.column_type() != ColumnType::Address || pages.is_none() {
            return Ok(pages);
        }
        // octets that are no address are in no zone, but in the lists
        let ValueLists::Hosts(lane) = entry.lists else { return Ok(none()) };
        pages.and_not(&self.pages_of_hosts(lane, (OTHER_KEY, OTHER_KEY))?);
        Ok(pages)
    }

    /// Pages with hosts of these keys in one lane.
    fn pages_of_hosts(&self, lane: usize, keys: Keys) -> Result<PageSet, ArchiveError> {
        // nothing under the lock can leave it half done
        let mut found = self.found_hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = match found.get(&keys) {
            Some(lanes) => lanes,
            None => found.entry(keys).or_insert(self.read_hosts(keys)?),
        };
        Ok(lanes.get(lane).cloned().unwrap_or_else(|| PageSet::none(self.pages())))
    }

    /// Reads the blocks with hosts of these keys; returns their pages by lane.
    fn read_hosts(&self, keys: Keys) -> Result<Vec<PageSet>, ArchiveError> {
        let damaged = |CorruptIndex| self.damaged("lists of hosts".to_owned());
        let mut lanes = vec![PageSet::none(self.pages()); self.contents.hosts.lanes.into()];
        let blocks = self.contents.hosts.covering(keys.0, keys.1);
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(lanes) };
        let section =
            self.contents.sections.iter().find(|section| section.kind == HOSTS).ok_or(CorruptIndex).map_err(damaged)?;
        let length = (last.offset - first.offset) as usize + last.octets as usize;
        if u64::from(first.offset) + length as u64 > section.octets {
            return Err(damaged(CorruptIndex));
        }
        let mut octets = vec![0; length];
        self.file
            .read_exact_at(&mut octets, section.offset + u64::from(first.offset))
            .map_err(Action::OpenSegment.failed(&self.path))?;
        for block in blocks {
            let start = (block.offset - first.offset) as usize;
            let block_octets = octets.get(start..start + block.octets as usize).ok_or(CorruptIndex).map_err(damaged)?;
            add_pages(block, block_octets, keys, &mut lanes).map_err(damaged)?;
        }
        Ok(lanes)
    }

    fn damaged_column(&self, column: Column) -> ArchiveError {
        self.damaged(format!("index of column '{column}'"))
    }
}

/// Family and keys of a range of addresses; `None` when its ends are not of one family.
fn address_range(column: Column, lo: &[u8], hi: &[u8]) -> Option<(usize, Keys)> {
    let keys = address_key(lo).zip(address_key(hi)).filter(|_| lo.len() == hi.len())?;
    (column.column_type() == ColumnType::Address).then_some((usize::from(lo.len() != 4), keys))
}
