//! A segment, of which some columns are read.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use weir_archive::{Segment, SegmentIndex};
use weir_flow::elements::without_empty_lists;
use weir_flow::{Column, ColumnType, FlowBatch};

use super::AtOffset;
use super::elements::ElementsReader;
use super::footer::footer;
use crate::QueryError;
use crate::decode::{Damage, Dictionary, PageAt, PageDecoder, PageLayout, page_locations};

/// Rows of a page when no column says where pages begin.
const PAGE_ROWS: usize = 8192;

/// A segment, of which some columns are read. Its file is opened when the first page is read, and closed when this is
/// dropped.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    segment: Segment,
    path: PathBuf,
    file: OnceLock<AtOffset<Arc<File>>>,
    columns: Vec<Column>,
    groups: Vec<Group>,
    elements: OnceLock<ElementsReader>,
    /// What the library needs to read whole row groups; left out while pages can be read by themselves.
    footer: Option<Arc<ParquetMetaData>>,
}

/// A row group, with the chunks of the columns that are read.
#[derive(Debug)]
struct Group {
    rows: u64,
    /// Number of its first page in the segment.
    first_page: usize,
    chunks: Vec<Chunk>,
    /// Rows that pages begin with; `None` when columns differ in it.
    pages: Option<Vec<u64>>,
}

/// A column within a row group.
#[derive(Debug)]
struct Chunk {
    /// Nothing but nulls.
    absent: bool,
    nullable: bool,
    compressed: bool,
    dictionary_at: Option<PageAt>,
    dictionary: OnceLock<Dictionary>,
    pages: Vec<PageAt>,
}

impl SegmentFile {
    /// Finds the pages of these columns, by the index when there is one.
    pub(super) fn open(
        segment: &Segment,
        columns: &[Column],
        index: Option<&SegmentIndex>,
    ) -> Result<Self, QueryError> {
        let mut opened = Self {
            path: segment.path(),
            segment: segment.clone(),
            file: OnceLock::new(),
            columns: columns.to_vec(),
            groups: Vec::new(),
            elements: OnceLock::new(),
            footer: None,
        };
        match index {
            Some(index) => opened.by_index(index)?,
            None => opened.by_footer()?,
        }
        Ok(opened)
    }

    fn by_index(&mut self, index: &SegmentIndex) -> Result<(), QueryError> {
        let columns = self.columns.iter().map(|column| index.column_pages(*column)).collect::<Result<Vec<_>, _>>()?;
        for group in 0..index.row_groups() {
            let all = index.row_group_rows(group);
            let pages = index.row_group_pages(group);
            let first_page = pages.start;
            let firsts: Vec<u64> = pages.map(|page| index.page_rows(page).start - all.start).collect();
            let chunks =
                columns.iter().map(|column| match column.as_ref().and_then(|column| column.groups.get(group)) {
                    None => Chunk::absent(),
                    Some(places) => Chunk {
                        absent: false,
                        nullable: true,
                        compressed: true,
                        dictionary_at: places.dictionary.as_ref().map(|at| PageAt {
                            offset: at.start,
                            octets: (at.end - at.start) as usize,
                            first_row: 0,
                        }),
                        dictionary: OnceLock::new(),
                        pages: firsts
                            .iter()
                            .zip(&places.pages)
                            .map(|(first_row, page)| PageAt {
                                offset: page.offset,
                                octets: page.octets as usize,
                                first_row: *first_row,
                            })
                            .collect(),
                    },
                });
            let chunks = chunks.collect();
            self.groups.push(Group { rows: all.end - all.start, first_page, chunks, pages: Some(firsts) });
        }
        Ok(())
    }

    fn by_footer(&mut self) -> Result<(), QueryError> {
        let file = self.file()?;
        self.segment.verify_footer(&file.file)?;
        let footer = footer(file);
        let footer = Arc::new(footer.map_err(|source| QueryError::Parquet { path: self.path.clone(), source })?);
        let mut first_page = 0;
        for group in footer.row_groups() {
            let chunks =
                self.columns.iter().map(|column| self.chunk(&footer, group, *column)).collect::<Result<Vec<_>, _>>()?;
            let rows = group.num_rows() as u64;
            let pages = common_pages(rows, &chunks, &self.columns);
            let count = pages.as_ref().map_or(1, Vec::len);
            self.groups.push(Group { rows, first_page, chunks, pages });
            first_page += count;
        }
        if self.groups.iter().any(|group| group.pages.is_none()) {
            self.footer = Some(footer);
        }
        // it is opened again when the first page is read
        self.file = OnceLock::new();
        Ok(())
    }

    /// The file, opened when it was not yet.
    fn file(&self) -> Result<&AtOffset<Arc<File>>, QueryError> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let opened = AtOffset { file: Arc::new(self.segment.open_file()?), octets: self.segment.octets };
        // another thread may have been faster: then its file is used and this one closed
        Ok(self.file.get_or_init(|| opened))
    }

    pub(super) fn row_groups(&self) -> usize {
        self.groups.len()
    }

    /// Rows of a row group.
    pub(super) fn group_rows(&self, group: usize) -> usize {
        self.groups[group].rows as usize
    }

    /// Pages of the segment.
    pub(super) fn pages(&self) -> usize {
        self.groups.last().map_or(0, Group::end_page)
    }

    /// Pages of a row group, by their numbers in the segment, the same in every column; a group that is read as a whole
    /// counts as one.
    pub(super) fn group_pages(&self, group: usize) -> Range<usize> {
        let group = &self.groups[group];
        group.first_page..group.end_page()
    }

    fn chunk(&self, footer: &ParquetMetaData, group: &RowGroupMetaData, column: Column) -> Result<Chunk, QueryError> {
        let descriptor = footer.file_metadata().schema_descr();
        let leaf = (0..descriptor.num_columns()).find(|leaf| descriptor.get_column_root(*leaf).name() == column.name());
        // a column that is younger than the file
        let Some(leaf) = leaf else { return Ok(Chunk::absent()) };
        let chunk = group.column(leaf);
        let nulls = chunk.statistics().and_then(parquet::file::statistics::Statistics::null_count_opt);
        if nulls == Some(group.num_rows() as u64) {
            return Ok(Chunk::absent());
        }
        let pages = self.locations(chunk).map_err(|source| self.damaged(column, source))?;
        Ok(Chunk {
            absent: false,
            nullable: chunk.column_descr().max_def_level() > 0,
            compressed: chunk.compression() != Compression::UNCOMPRESSED,
            dictionary_at: dictionary_at(chunk),
            dictionary: OnceLock::new(),
            pages,
        })
    }

    /// Where the pages of a chunk are.
    fn locations(&self, chunk: &ColumnChunkMetaData) -> Result<Vec<PageAt>, Damage> {
        let (Some(at), Some(octets)) = (chunk.offset_index_offset(), chunk.offset_index_length()) else {
            return Ok(Vec::new());
        };
        let octets = self.at(at as u64, octets as usize).map_err(|_| Damage("the index of pages cannot be read"))?;
        page_locations(&octets)
    }

    /// Rows of a page.
    pub(super) fn page_rows(&self, page: usize) -> usize {
        let group = self.groups.partition_point(|group| group.first_page <= page).saturating_sub(1);
        self.groups.get(group).map_or(0, |group| group.page_rows(page).len())
    }

    /// Whether pages can be read by themselves.
    pub(crate) fn has_pages(&self, group: usize) -> bool {
        self.groups[group].pages.is_some()
    }

    fn at(&self, offset: u64, octets: usize) -> Result<Vec<u8>, QueryError> {
        let mut read = Vec::new();
        self.read_at(offset, octets, &mut read)?;
        Ok(read)
    }

    /// Reads octets of the file into the front of `into`, which is only ever made longer: octets that are overwritten
    /// need not be zero.
    fn read_at<'a>(&self, offset: u64, octets: usize, into: &'a mut Vec<u8>) -> Result<&'a [u8], QueryError> {
        let file = self.file()?;
        if offset.checked_add(octets as u64).is_none_or(|end| end > file.octets) {
            return Err(self.unreadable(std::io::ErrorKind::UnexpectedEof.into()));
        }
        if into.len() < octets {
            into.resize(octets, 0);
        }
        let read = &mut into[..octets];
        file.file.read_exact_at(read, offset).map_err(|source| self.unreadable(source))?;
        Ok(read)
    }

    /// A column of a page, by the number of the page in the segment and the place of the column: all rows, or those that
    /// are selected. `None` when it has no value there.
    pub(super) fn column(
        &self,
        decoder: &mut PageDecoder,
        (group, page): (usize, usize),
        place: usize,
        selected: Option<&[u32]>,
    ) -> Result<Option<ArrayRef>, QueryError> {
        let (of_group, column) = (&self.groups[group], self.columns[place]);
        let rows = of_group.page_rows(page);
        if column.column_type() == ColumnType::Elements {
            let lists = self.elements_of(group, rows)?;
            let Some((lists, selected)) = lists.as_ref().zip(selected) else { return Ok(lists) };
            return Ok(Some(take(lists, &UInt32Array::from(selected.to_vec()), None)?));
        }
        let chunk = &of_group.chunks[place];
        if chunk.absent {
            return Ok(None);
        }
        let failed = |source| self.damaged(column, source);
        let at = chunk.pages.get(page - of_group.first_page).ok_or(failed(Damage("a page is not in the index")))?;
        let mut buffer = std::mem::take(&mut decoder.read);
        let octets = self.read_at(at.offset, at.octets, &mut buffer)?;
        let dictionary = match (chunk.dictionary.get(), &chunk.dictionary_at) {
            (Some(dictionary), _) => Some(dictionary),
            (None, None) => None,
            (None, Some(at)) => {
                let octets = self.at(at.offset, at.octets)?;
                let decoded = decoder.dictionary(&octets, column.column_type(), chunk.compressed).map_err(failed)?;
                Some(chunk.dictionary.get_or_init(|| decoded))
            }
        };
        let Chunk { nullable, compressed, .. } = *chunk;
        let layout = PageLayout { of: column, nullable, compressed, dictionary };
        let values = decoder.page(octets, layout, rows.len(), selected).map_err(failed)?;
        decoder.read = buffer;
        Ok(Some(values))
    }

    /// The elements of rows of a row group; `None` when none of the group has any.
    fn elements_of(&self, group: usize, rows: Range<usize>) -> Result<Option<ArrayRef>, QueryError> {
        let failed = |source| QueryError::Parquet { path: self.path.clone(), source };
        self.elements_reader()?.read(self.file()?, group, rows).map_err(failed)
    }

    fn elements_reader(&self) -> Result<&ElementsReader, QueryError> {
        if let Some(reader) = self.elements.get() {
            return Ok(reader);
        }
        let file = self.file()?;
        self.segment.verify_footer(&file.file)?;
        let failed = |source| QueryError::Parquet { path: self.path.clone(), source };
        let opened = ElementsReader::open(file).map_err(failed)?;
        Ok(self.elements.get_or_init(|| opened))
    }

    /// The columns of these that have a value in some row.
    pub(super) fn columns_with_values(&self) -> Result<Vec<Column>, QueryError> {
        let mut found = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            let has_value = if column.column_type() == ColumnType::Elements {
                self.elements_reader()?.has_any()
            } else {
                self.groups.iter().any(|group| !group.chunks[place].absent)
            };
            found.extend(has_value.then_some(*column));
        }
        Ok(found)
    }

    /// A whole row group by the library, batch by batch: for what is not laid out in pages of its own.
    pub(super) fn row_group(
        &self,
        group: usize,
    ) -> Result<impl Iterator<Item = Result<FlowBatch, QueryError>>, QueryError> {
        let path = self.path.clone();
        let failed = move |source| QueryError::Parquet { path: path.clone(), source };
        let Some(footer) = &self.footer else { return Err(self.unreadable(std::io::ErrorKind::InvalidData.into())) };
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::new());
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file()?.clone(), metadata.map_err(&failed)?);
        let names = self.columns.iter().map(|column| column.name());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let batches = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(PAGE_ROWS).build();
        let read = move |batch: RecordBatch| {
            let schema = batch.schema();
            let columns = schema.fields().iter().zip(batch.columns());
            let columns = columns.map(|(field, values)| match Column::by_name(field.name()) {
                Some(Column::Elements) => without_empty_lists(values),
                _ => Arc::clone(values),
            });
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect())?;
            FlowBatch::try_new(batch).map_err(|error| QueryError::Source(error.into()))
        };
        Ok(batches.map_err(failed)?.map(move |batch| read(batch?)))
    }

    fn damaged(&self, column: Column, source: Damage) -> QueryError {
        QueryError::Damaged { path: self.path.clone(), column: column.name().to_owned(), source }
    }

    fn unreadable(&self, source: std::io::Error) -> QueryError {
        QueryError::Read { path: self.path.clone(), source }
    }
}

impl Group {
    fn end_page(&self) -> usize {
        self.first_page + self.pages.as_ref().map_or(1, Vec::len)
    }

    /// Rows of a page, by its number in the segment.
    fn page_rows(&self, page: usize) -> Range<usize> {
        let Some(firsts) = &self.pages else { return 0..self.rows as usize };
        let page = page - self.first_page;
        let end = firsts.get(page + 1).copied().unwrap_or(self.rows);
        let start = firsts.get(page).copied().unwrap_or(end).min(end);
        start as usize..end as usize
    }
}

impl Chunk {
    fn absent() -> Self {
        Self {
            absent: true,
            nullable: true,
            compressed: false,
            dictionary_at: None,
            dictionary: OnceLock::new(),
            pages: Vec::new(),
        }
    }
}

fn dictionary_at(chunk: &ColumnChunkMetaData) -> Option<PageAt> {
    let at = chunk.dictionary_page_offset()?;
    let octets = chunk.data_page_offset().checked_sub(at).filter(|octets| *octets > 0)?;
    Some(PageAt { offset: at as u64, octets: octets as usize, first_row: 0 })
}

/// First rows of the pages of a group, when all columns have the same.
fn common_pages(rows: u64, chunks: &[Chunk], columns: &[Column]) -> Option<Vec<u64>> {
    let mut common: Option<Vec<u64>> = None;
    for (chunk, column) in chunks.iter().zip(columns) {
        // lists are read by their rows, wherever their pages are
        if chunk.absent || column.column_type() == ColumnType::Elements {
            continue;
        }
        let firsts: Vec<u64> = chunk.pages.iter().map(|page| page.first_row).collect();
        match &common {
            _ if firsts.is_empty() => return None,
            None => common = Some(firsts),
            Some(common) if *common == firsts => {}
            Some(_) => return None,
        }
    }
    common.or_else(|| Some((0..rows).step_by(PAGE_ROWS).collect()))
}
