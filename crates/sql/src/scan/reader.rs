//! Reading of local Parquet files.
//!
//! `DataFusion`'s own reader goes through an object store, which hands every read to a blocking thread and back: about
//! as long as decoding a page takes. Segments are local files, mostly in the page cache, so this reader reads where
//! it is called. What speaks against it: while a cold disk is read, a worker of the engine waits; the engine has
//! threads of its own, so the reader does not.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use weir_query::Progress;

use super::AtOffset;
use super::page_index::{IndexColumns, with_page_index};
use crate::view::SegmentFile;

/// A segment as one scan reads it, in one piece or several.
#[derive(Debug)]
pub(crate) struct ScannedSegment {
    segment: Arc<SegmentFile>,
    index_columns: Arc<IndexColumns>,
    metadata: OnceLock<Arc<ParquetMetaData>>,
    progress: Arc<Progress>,
    /// Rows that are read, when the segment is.
    rows_selected: u64,
    /// Pieces that are not done.
    pieces_left: AtomicUsize,
    /// Whether any piece had to read more than metadata.
    is_read: AtomicBool,
}

/// A piece of a segment: rides along with its entry in the plan.
#[derive(Debug)]
pub(crate) struct Piece {
    segment: Arc<ScannedSegment>,
    /// Whoever reads the piece. A scan may change readers on the way, the second before the first goes.
    reading: Mutex<Weak<Reading>>,
}

/// A piece that is being read; it is done when the last of its readers goes.
#[derive(Debug)]
struct Reading(Arc<ScannedSegment>);

impl Drop for Reading {
    fn drop(&mut self) {
        let ScannedSegment { segment, progress, pieces_left, is_read, rows_selected, .. } = &*self.0;
        if pieces_left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        if is_read.load(Ordering::Acquire) {
            progress.add_segments_done(1);
            progress.add_rows_done(*rows_selected);
            progress.add_rows_pruned(segment.rows() - rows_selected);
        } else {
            progress.add_segments_pruned(1);
            progress.add_rows_pruned(segment.rows());
        }
    }
}

impl Piece {
    fn reading(&self) -> Arc<Reading> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = reading.upgrade() {
            return reading;
        }
        let begun = Arc::new(Reading(Arc::clone(&self.segment)));
        *reading = Arc::downgrade(&begun);
        begun
    }
}

impl ScannedSegment {
    pub(crate) fn new(segment: Arc<SegmentFile>, index_columns: Arc<IndexColumns>, progress: Arc<Progress>) -> Self {
        Self {
            rows_selected: segment.rows(),
            segment,
            index_columns,
            metadata: OnceLock::new(),
            progress,
            pieces_left: AtomicUsize::new(0),
            is_read: AtomicBool::new(false),
        }
    }

    /// Of which only some rows are read.
    pub(crate) fn with_rows(self, selected: Option<&Arc<ParquetRowSelection>>) -> Self {
        let rows_selected = selected.map_or(self.rows_selected, |selected| selected.selection().row_count() as u64);
        Self { rows_selected, ..self }
    }

    /// One more piece of it.
    pub(crate) fn piece(self: &Arc<Self>) -> Arc<Piece> {
        self.pieces_left.fetch_add(1, Ordering::AcqRel);
        Arc::new(Piece { segment: Arc::clone(self), reading: Mutex::default() })
    }

    /// Footer and page index, the latter for the columns of this scan only; read from `file` unless they were read
    /// before.
    fn metadata(&self, file: &mut LazyFile) -> ParquetResult<Arc<ParquetMetaData>> {
        if let Some(metadata) = self.metadata.get() {
            return Ok(Arc::clone(metadata));
        }
        let file = file.of(&self.segment)?;
        let footer = self.segment.footer(file)?;
        let metadata = if self.index_columns.is_empty() {
            footer
        } else {
            let file = AtOffset { file, octets: self.segment.octets() };
            Arc::new(with_page_index(file, &footer, &self.index_columns)?)
        };
        Ok(Arc::clone(self.metadata.get_or_init(|| metadata)))
    }
}

/// The file of a reader, opened by its first read and closed with the reader.
///
/// A partition reads one segment after the other, so that a scan has about as many files open as it has partitions,
/// however many segments there are.
#[derive(Debug, Default)]
struct LazyFile(Option<File>);

impl LazyFile {
    fn of(&mut self, segment: &SegmentFile) -> std::io::Result<&File> {
        let file = match self.0.take() {
            Some(file) => file,
            None => segment.open()?,
        };
        Ok(self.0.insert(file))
    }
}

/// Whether a file of a scan is a segment of an archive.
pub(crate) fn is_segment(file: &PartitionedFile) -> bool {
    file.extension::<Arc<Piece>>().is_some()
}

/// Makes readers of local files out of the [`Piece`] that each file of a scan carries.
#[derive(Debug)]
pub(crate) struct LocalFiles;

impl ParquetFileReaderFactory for LocalFiles {
    fn create_reader(
        &self,
        partition_index: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let Some(piece) = file.extension::<Arc<Piece>>() else {
            return Err(DataFusionError::Internal(format!("file {} is no segment of a scan", file.path())));
        };
        let metrics = ParquetFileMetrics::new(partition_index, file.path().as_ref(), metrics);
        Ok(Box::new(LocalReader { reading: piece.reading(), file: LazyFile::default(), metrics }))
    }
}

struct LocalReader {
    reading: Arc<Reading>,
    file: LazyFile,
    metrics: ParquetFileMetrics,
}

impl LocalReader {
    fn read(&mut self, range: &Range<u64>) -> ParquetResult<Bytes> {
        let scanned = &self.reading.0;
        let segment = &scanned.segment;
        if range.start > range.end || range.end > segment.octets() {
            let octets = segment.octets();
            return Err(ParquetError::EOF(format!("octets {range:?} of a segment of {octets} octets")));
        }
        let mut octets = vec![0; (range.end - range.start) as usize];
        self.file.of(segment)?.read_exact_at(&mut octets, range.start)?;
        self.metrics.bytes_scanned.add(octets.len());
        scanned.is_read.store(true, Ordering::Release);
        scanned.progress.add_octets_read(octets.len() as u64);
        Ok(octets.into())
    }
}

impl LocalReader {
    /// An error with the name of the file, which the library does not know.
    fn named(&self, error: &ParquetError) -> ParquetError {
        let path = self.reading.0.segment.path().display().to_string();
        ParquetError::External(format!("segment {path}: {error}").into())
    }
}

impl AsyncFileReader for LocalReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let read = self.read(&range).map_err(|error| self.named(&error));
        std::future::ready(read).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        let read: ParquetResult<_> = ranges.iter().map(|range| self.read(range)).collect();
        std::future::ready(read.map_err(|error| self.named(&error))).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        let metadata = self.reading.0.metadata(&mut self.file).map_err(|error| self.named(&error));
        std::future::ready(metadata).boxed()
    }
}
