//! A segment, opened for reading some of its columns.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use weir_archive::Segment;
use weir_archive::SegmentIndex;
use weir_flow::{Column, ColumnType, FlowBatch};

use super::AtOffset;
use crate::QueryError;
use crate::decode::{Damage, Dictionary, PageAt, PageDecoder, page_locations};

/// Octets at the end of a segment that are read at once, in the hope that the footer is in them.
const FOOTER_OCTETS: u64 = 64 << 10;

/// A segment, opened for reading some of its columns.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    path: PathBuf,
    file: Arc<File>,
    octets: u64,
    columns: Vec<Column>,
    groups: Vec<Group>,
    /// What the library needs; left out while pages can be read by themselves.
    metadata: Option<Arc<ParquetMetaData>>,
}

/// A row group, with the chunks of the columns that are read.
#[derive(Debug)]
struct Group {
    rows: u64,
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
    /// Opens a segment for these columns, by its index when it has one and nothing but flat columns is asked for.
    pub(crate) fn open(
        segment: &Segment,
        columns: &[Column],
        index: Option<&SegmentIndex>,
    ) -> Result<Self, QueryError> {
        let path = segment.path();
        let read = |source| QueryError::Read { path: path.clone(), source };
        let file = segment.open_file()?;
        let octets = file.metadata().map_err(read)?.len();
        let mut opened =
            Self { path, file: Arc::new(file), octets, columns: columns.to_vec(), groups: Vec::new(), metadata: None };
        let is_flat = |column: &Column| column.column_type() != ColumnType::Elements;
        match index.filter(|_| columns.iter().all(is_flat)) {
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
            self.groups.push(Group { rows: all.end - all.start, chunks, pages: Some(firsts) });
        }
        Ok(())
    }

    fn by_footer(&mut self) -> Result<(), QueryError> {
        let footer = footer(&self.file, self.octets);
        let footer = Arc::new(footer.map_err(|source| QueryError::Parquet { path: self.path.clone(), source })?);
        for group in footer.row_groups() {
            let chunks =
                self.columns.iter().map(|column| self.chunk(&footer, group, *column)).collect::<Result<Vec<_>, _>>()?;
            let rows = group.num_rows() as u64;
            let pages = self.common_pages(rows, &chunks);
            self.groups.push(Group { rows, chunks, pages });
        }
        self.metadata = Some(footer);
        Ok(())
    }

    pub(crate) fn row_groups(&self) -> usize {
        self.groups.len()
    }

    /// Pages of a row group, the same in every column; 1 when columns differ and the group is read as a whole.
    pub(crate) fn pages(&self, group: usize) -> usize {
        self.groups[group].pages.as_ref().map_or(1, Vec::len)
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

    /// First rows of the pages of a group, when all columns have the same.
    fn common_pages(&self, rows: u64, chunks: &[Chunk]) -> Option<Vec<u64>> {
        let mut common: Option<Vec<u64>> = None;
        for (chunk, column) in chunks.iter().zip(&self.columns) {
            if column.column_type() == ColumnType::Elements && !chunk.absent {
                return None;
            }
            if chunk.absent {
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
        common.or_else(|| Some((0..rows).step_by(8192).collect()))
    }

    /// Rows of a page.
    pub(crate) fn rows(&self, group: usize, page: usize) -> usize {
        let Group { rows, pages, .. } = &self.groups[group];
        let Some(firsts) = pages else { return *rows as usize };
        let end = firsts.get(page + 1).copied().unwrap_or(*rows);
        end.saturating_sub(firsts.get(page).copied().unwrap_or(end)) as usize
    }

    /// Whether pages can be read by themselves.
    pub(crate) fn has_pages(&self, group: usize) -> bool {
        self.groups[group].pages.is_some()
    }

    fn at(&self, offset: u64, octets: usize) -> std::io::Result<Vec<u8>> {
        let mut read = Vec::new();
        self.read_at(offset, octets, &mut read)?;
        Ok(read)
    }

    fn read_at(&self, offset: u64, octets: usize, into: &mut Vec<u8>) -> std::io::Result<()> {
        if offset.checked_add(octets as u64).is_none_or(|end| end > self.octets) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        into.resize(octets, 0);
        self.file.read_exact_at(into, offset)
    }

    /// A column of a page; `None` when it has no value there.
    pub(crate) fn column(
        &self,
        decoder: &mut PageDecoder,
        group: usize,
        page: usize,
        position: usize,
    ) -> Result<Option<ArrayRef>, QueryError> {
        let (chunk, column) = (&self.groups[group].chunks[position], self.columns[position]);
        if chunk.absent {
            return Ok(None);
        }
        let failed = |source| self.damaged(column, source);
        let at = &chunk.pages[page];
        let mut octets = std::mem::take(&mut decoder.read);
        self.read_at(at.offset, at.octets, &mut octets).map_err(|source| self.unreadable(source))?;
        let dictionary = match (chunk.dictionary.get(), &chunk.dictionary_at) {
            (Some(dictionary), _) => Some(dictionary),
            (None, None) => None,
            (None, Some(at)) => {
                let octets = self.at(at.offset, at.octets).map_err(|source| self.unreadable(source))?;
                let decoded = decoder.dictionary(&octets, column.column_type(), chunk.compressed).map_err(failed)?;
                Some(chunk.dictionary.get_or_init(|| decoded))
            }
        };
        let values = decoder.page(&octets, column, chunk.nullable, chunk.compressed, dictionary).map_err(failed)?;
        decoder.read = octets;
        if values.len() != self.rows(group, page) {
            return Err(failed(Damage("a page has other rows than its index tells")));
        }
        Ok(Some(values))
    }

    /// A whole row group by the library: for what is not laid out in pages of its own.
    pub(crate) fn row_group(&self, group: usize) -> Result<Vec<FlowBatch>, QueryError> {
        let failed = |source| QueryError::Parquet { path: self.path.clone(), source };
        let Some(footer) = &self.metadata else { return Ok(Vec::new()) };
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(footer), ArrowReaderOptions::new());
        let reader = AtOffset { file: Arc::clone(&self.file), octets: self.octets };
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader, metadata.map_err(failed)?);
        let names = self.columns.iter().map(|column| column.name());
        let mask = ProjectionMask::columns(builder.parquet_schema(), names);
        let batches = builder.with_row_groups(vec![group]).with_projection(mask).with_batch_size(8192).build();
        let batches = batches.map_err(failed)?.collect::<Result<Vec<RecordBatch>, _>>()?;
        batches
            .into_iter()
            .map(|batch| FlowBatch::try_new(batch).map_err(|error| QueryError::Source(error.into())))
            .collect()
    }

    fn damaged(&self, column: Column, source: Damage) -> QueryError {
        QueryError::Damaged { path: self.path.clone(), column: column.name().to_owned(), source }
    }

    fn unreadable(&self, source: std::io::Error) -> QueryError {
        QueryError::Read { path: self.path.clone(), source }
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

fn footer(file: &File, octets: u64) -> ParquetResult<ParquetMetaData> {
    let start = octets.saturating_sub(FOOTER_OCTETS);
    let mut end = vec![0; (octets - start) as usize];
    file.read_exact_at(&mut end, start)?;
    let mut reader = ParquetMetaDataReader::new();
    match reader.try_parse_sized(&Bytes::from(end), octets) {
        Ok(()) => {}
        Err(parquet::errors::ParquetError::NeedMoreData(needed)) => {
            let needed = (needed as u64).min(octets);
            let mut end = vec![0; needed as usize];
            file.read_exact_at(&mut end, octets - needed)?;
            reader.try_parse_sized(&Bytes::from(end), octets)?;
        }
        Err(error) => return Err(error),
    }
    reader.finish()
}
