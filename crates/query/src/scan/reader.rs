//! Reading of local Parquet files.
//!
//! `DataFusion`'s own reader goes through an object store, which hands every read to a blocking thread and back: about
//! as long as decoding a page takes. Segments are local files, mostly in the page cache, so this reader reads where
//! it is called. What speaks against it: while a cold disk is read, a worker of the engine waits; the engine has
//! threads of its own, so nobody else does.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::AtOffset;
use super::page_index::{IndexColumns, with_page_index};
use crate::view::SegmentFile;

/// A segment as one scan reads it: rides along with the file's entry in the plan.
#[derive(Debug)]
pub(crate) struct ScannedSegment {
    segment: Arc<SegmentFile>,
    index_columns: Arc<IndexColumns>,
    metadata: OnceLock<Arc<ParquetMetaData>>,
}

impl ScannedSegment {
    pub(crate) fn new(segment: Arc<SegmentFile>, index_columns: Arc<IndexColumns>) -> Self {
        Self { segment, index_columns, metadata: OnceLock::new() }
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

/// Makes readers of local files out of the [`ScannedSegment`] that each file of a scan carries.
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
        let Some(segment) = file.extension::<Arc<ScannedSegment>>() else {
            return Err(DataFusionError::Internal(format!("file {} is no segment of a scan", file.path())));
        };
        let metrics = ParquetFileMetrics::new(partition_index, file.path().as_ref(), metrics);
        Ok(Box::new(LocalReader { segment: Arc::clone(segment), file: LazyFile::default(), metrics }))
    }
}

struct LocalReader {
    segment: Arc<ScannedSegment>,
    file: LazyFile,
    metrics: ParquetFileMetrics,
}

impl LocalReader {
    fn read(&mut self, range: &Range<u64>) -> ParquetResult<Bytes> {
        let segment = &self.segment.segment;
        if range.start > range.end || range.end > segment.octets() {
            let octets = segment.octets();
            return Err(ParquetError::EOF(format!("octets {range:?} of a segment of {octets} octets")));
        }
        let mut octets = vec![0; (range.end - range.start) as usize];
        self.file.of(segment)?.read_exact_at(&mut octets, range.start)?;
        self.metrics.bytes_scanned.add(octets.len());
        Ok(octets.into())
    }
}

impl AsyncFileReader for LocalReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        std::future::ready(self.read(&range)).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        std::future::ready(ranges.iter().map(|range| self.read(range)).collect()).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        std::future::ready(self.segment.metadata(&mut self.file)).boxed()
    }
}
