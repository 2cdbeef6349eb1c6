//! The index of a segment as octets.

use arrow::array::{Array, BinaryArray};
use arrow::datatypes::{DataType, Field};
use weir_flow::{Column, ColumnType, Table};

use super::build::ColumnBuilder;
use super::key::{OTHER_KEY, address_key};
use super::octets::{put_u32, put_u64};
use super::place::{ChunkPlaces, PageEncoding, Section, put_places};
use super::postings::{Directory, Lists};
use super::zones::Zones;
use crate::order::FlowOrder;
use crate::order::hosts::{Hosts, NO_HOST};

/// The version of the format; an index of another version is taken as absent.
pub(super) const VERSION: u32 = 1;

pub(super) const LISTS_NONE: u8 = 0;
pub(super) const LISTS_HERE: u8 = 1;
pub(super) const LISTS_HOSTS: u8 = 2;
pub(super) const NO_VALUE: u8 = 3;

/// One column of flows, ready to be written.
#[derive(Debug)]
struct ColumnEntry {
    column: Column,
    builder: ColumnBuilder,
    leaf: u32,
    /// Where its pages are; `None` while that is not known or pages are not those of the other columns.
    places: Option<Places>,
}

#[derive(Debug, Default)]
struct Places {
    encodings: Vec<PageEncoding>,
    dictionaries: Vec<u32>,
    pages: Vec<u32>,
}

/// Collects the index of a segment.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    page_rows: usize,
    rows: usize,
    groups: Vec<usize>,
    columns: Vec<ColumnEntry>,
    /// Columns without a value.
    null_columns: Vec<Column>,
    chunks: Vec<ChunkPlaces>,
    sections: Vec<Section>,
    hosts: Directory,
}

impl IndexWriter {
    /// An index of row groups of these sizes.
    pub(crate) fn new(page_rows: usize, groups: Vec<usize>) -> Self {
        Self {
            page_rows,
            rows: groups.iter().sum(),
            groups,
            columns: Vec::new(),
            null_columns: Vec::new(),
            chunks: Vec::new(),
            sections: Vec::new(),
            hosts: Directory::default(),
        }
    }

    /// What the pages of a column are added to; the column is the `leaf`th of Parquet's. `None` for what is not
    /// indexed.
    pub(crate) fn column(&mut self, table: Table, field: &Field, leaf: usize) -> Option<&mut ColumnBuilder> {
        if table != Table::Flows {
            return None;
        }
        let column = Column::by_name(field.name())?;
        if self.columns.last().is_none_or(|last| last.column != column) {
            let builder = ColumnBuilder::new(field.data_type(), has_lists(column))?;
            self.columns.push(ColumnEntry { column, builder, leaf: leaf as u32, places: Some(Places::default()) });
        }
        self.columns.last_mut().map(|entry| &mut entry.builder)
    }

    /// Adds the rows of a row group of a column of octets or text.
    pub(crate) fn add(&mut self, table: Table, field: &Field, leaf: usize, values: &BinaryArray) {
        let page_rows = self.page_rows;
        let Some(builder) = self.column(table, field, leaf) else { return };
        for first in (0..values.len()).step_by(page_rows) {
            let page = values.slice(first, page_rows.min(values.len() - first));
            match field.data_type() {
                DataType::Utf8 => builder.add_texts(&page),
                _ => builder.add_addresses(&page),
            }
        }
    }

    /// Adds a column without a value.
    pub(crate) fn add_null(&mut self, table: Table, field: &Field) {
        if table == Table::Flows {
            self.null_columns.extend(Column::by_name(field.name()));
        }
    }

    /// Notes how a chunk of a column just added is made up.
    pub(crate) fn add_places(&mut self, leaf: usize, encoding: PageEncoding, dictionary: u32, pages: &[u32]) {
        let Some(entry) = self.columns.iter_mut().find(|entry| entry.leaf as usize == leaf) else { return };
        let Some(places) = &mut entry.places else { return };
        let rows = self.groups.get(places.dictionaries.len()).copied().unwrap_or(0);
        if pages.len() != rows.div_ceil(self.page_rows) {
            entry.places = None;
            return;
        }
        places.encodings.push(encoding);
        places.dictionaries.push(dictionary);
        places.pages.extend(pages);
    }

    /// Notes where a chunk was written; chunks come row group by row group, leaf by leaf.
    pub(crate) fn add_chunk(&mut self, chunk: ChunkPlaces) {
        self.chunks.push(chunk);
    }

    /// Notes where a section was written.
    pub(crate) fn add_section(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The lists of the hosts of these rows, for a section of their own.
    pub(crate) fn host_blocks(&mut self, rows: &[u32], order: &FlowOrder) -> Vec<u8> {
        let [src, dst] = [0, 1].map(|side| self.host_pages(rows, order, side));
        if src.is_empty() && dst.is_empty() {
            return Vec::new();
        }
        let lists = Lists::new(&keys(&order.hosts), &[src, dst]);
        let (directory, blocks) = lists.encode(self.pages());
        self.hosts = directory;
        blocks
    }

    fn pages(&self) -> usize {
        self.groups.iter().map(|rows| rows.div_ceil(self.page_rows)).sum()
    }

    fn host_pages(&self, rows: &[u32], order: &FlowOrder, side: usize) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        let mut last = vec![u32::MAX; order.hosts.numbers()];
        let numbers = &order.host_numbers[side];
        let (mut rest, mut page) = (rows, 0);
        for group in &self.groups {
            let (group, after) = rest.split_at((*group).min(rest.len()));
            rest = after;
            for rows in group.chunks(self.page_rows) {
                for row in rows {
                    let Some(&number) = numbers.get(*row as usize) else { continue };
                    if number != NO_HOST && last[number as usize] != page {
                        last[number as usize] = page;
                        pairs.push((number - 1, page));
                    }
                }
                page += 1;
            }
        }
        pairs
    }

    /// The index.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        put_u32(&mut out, VERSION);
        put_u64(&mut out, self.page_rows as u64);
        put_u32(&mut out, self.groups.len() as u32);
        put_u32(&mut out, self.chunks.len().checked_div(self.groups.len()).unwrap_or(0) as u32);
        self.groups.iter().for_each(|rows| put_u64(&mut out, *rows as u64));
        put_u32(&mut out, self.sections.len() as u32);
        self.sections.iter().for_each(|section| section.put(&mut out));
        self.chunks.iter().for_each(|chunk| chunk.put(&mut out));
        self.hosts.put(&mut out);
        put_u32(&mut out, (self.columns.len() + self.null_columns.len()) as u32);
        let (rows, pages, hosts) = (self.rows, self.pages(), !self.hosts.blocks.is_empty());
        for entry in &mut self.columns {
            put_entry(&mut out, entry.column, &entry.encode(rows, pages, hosts));
        }
        for column in &self.null_columns {
            let mut body = Vec::new();
            Zones::put_nulls(&mut body, pages);
            body.push(NO_VALUE);
            put_entry(&mut out, *column, &body);
        }
        out
    }
}

impl ColumnEntry {
    fn encode(&mut self, rows: usize, pages: usize, hosts: bool) -> Vec<u8> {
        let mut out = Vec::new();
        self.builder.zones.put(&mut out);
        match (self.column, self.builder.lists(rows)) {
            (Column::SrcAddr | Column::DstAddr, _) if hosts => {
                out.extend([LISTS_HOSTS, u8::from(self.column == Column::DstAddr)]);
            }
            (_, Some(lists)) => {
                let (directory, blocks) = lists.encode(pages);
                out.push(LISTS_HERE);
                directory.put(&mut out);
                out.extend(blocks);
            }
            _ => out.push(LISTS_NONE),
        }
        if let Some(places) = &self.places {
            let encoding = places.encodings.first().copied().unwrap_or(PageEncoding::Mixed);
            let alike = places.encodings.iter().all(|other| *other == encoding);
            let encoding = if alike { encoding } else { PageEncoding::Mixed };
            put_places(&mut out, encoding, self.leaf, &places.dictionaries, &places.pages);
        }
        out
    }
}

fn put_entry(out: &mut Vec<u8>, column: Column, body: &[u8]) {
    out.extend([column as u8, column.name().len() as u8]);
    out.extend(column.name().as_bytes());
    put_u32(out, body.len() as u32);
    out.extend(body);
}

/// The key of each host, and its place among the numbers, in the order of keys.
fn keys(hosts: &Hosts) -> Vec<(u128, u32)> {
    let short = hosts.short.iter().map(|host| u128::from(*host));
    let long = hosts.long.iter().map(|host| address_key(&host.to_be_bytes()).unwrap_or(OTHER_KEY));
    let other = hosts.other.iter().map(|octets| address_key(octets).unwrap_or(OTHER_KEY));
    let mut keys: Vec<(u128, u32)> = short.chain(long).chain(other).zip(0..).collect();
    keys.sort_unstable();
    keys
}

/// Whether single values of a column are listed with their pages: those that filters name, and that few pages have.
fn has_lists(column: Column) -> bool {
    match column.column_type() {
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 => !matches!(column, Column::IcmpCode | Column::IcmpType),
        ColumnType::Address => !matches!(column, Column::SrcAddr | Column::DstAddr),
        ColumnType::Text => true,
        _ => false,
    }
}
