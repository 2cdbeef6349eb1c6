//! What one question can see of an archive: sealed segments and the tail, at one position.

use std::any::Any;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use weir_archive::{ArchiveError, Segment, SegmentIndex};
use weir_flow::Table;

use crate::scan::AtOffset;

const DAY_MS: i64 = 86_400_000;

/// A Parquet file with the full schema of its table.
///
/// Its footer is read once and kept, however many partitions of however many questions read it. The file is not kept
/// open: an archive of a few days has more segments than a process may have open files.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    octets: u64,
    rows: u64,
    time_range_ms: Option<(i64, i64)>,
    indexed: Option<Segment>,
    footer: OnceLock<Arc<ParquetMetaData>>,
}

impl SegmentFile {
    /// A segment at `path`, of `octets` octets and `rows` rows. Nothing is opened yet.
    pub fn new(path: impl Into<PathBuf>, octets: u64, rows: u64) -> Self {
        let path = path.into();
        Self { path, octets, rows, time_range_ms: None, indexed: None, footer: OnceLock::new() }
    }

    /// With the smallest and the largest of all values of `start` and `end` (of `minute` in the books).
    #[must_use]
    pub fn with_time_range_ms(self, time_range_ms: Option<(i64, i64)>) -> Self {
        Self { time_range_ms, ..self }
    }

    /// With what the archive knows of it, its index above all.
    #[must_use]
    pub fn with_index_of(self, segment: Segment) -> Self {
        Self { indexed: Some(segment), ..self }
    }

    /// The index of its pages, if it has one. It is read anew each time: it holds the file open, and an archive has more
    /// segments than a process may have open files.
    pub(crate) fn index(&self) -> Result<Option<SegmentIndex>, ArchiveError> {
        self.indexed.as_ref().map_or(Ok(None), Segment::index)
    }

    /// The smallest and the largest of all values of `start` and `end`, as far as they are known without opening it.
    pub fn time_range_ms(&self) -> Option<(i64, i64)> {
        self.time_range_ms
    }

    /// The UTC day that the rows were received on, first and last millisecond, when the folder of the segment has it:
    /// `date=2026-01-31`.
    pub fn received_range_ms(&self) -> Option<(i64, i64)> {
        let folder = self.path.parent()?.file_name()?.to_str()?;
        let day: jiff::civil::Date = folder.strip_prefix("date=")?.parse().ok()?;
        let first = day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_millisecond();
        Some((first, first + DAY_MS - 1))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of the file in octets.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// Rows in the file.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Opens the file.
    pub(crate) fn open(&self) -> std::io::Result<File> {
        File::open(&self.path)
    }

    /// The footer, without page index: which columns of the index are worth reading, only a question knows. Read from
    /// `file` unless it was read before.
    pub(crate) fn footer(&self, file: &File) -> Result<Arc<ParquetMetaData>, ParquetError> {
        if let Some(footer) = self.footer.get() {
            return Ok(Arc::clone(footer));
        }
        let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Skip);
        reader.try_parse(&AtOffset { file, octets: self.octets })?;
        let footer = Arc::new(reader.finish()?);
        Ok(Arc::clone(self.footer.get_or_init(|| footer)))
    }
}

/// The rows of one table: segments and tail together hold each row once.
#[derive(Debug, Clone, Default)]
pub struct TableView {
    /// Sealed rows.
    pub segments: Vec<Arc<SegmentFile>>,
    /// Rows that are not sealed yet, as sparse batches: an absent column is null throughout.
    pub tail: Vec<RecordBatch>,
}

impl TableView {
    /// Rows of segments and tail together.
    pub fn rows(&self) -> u64 {
        let sealed: u64 = self.segments.iter().map(|segment| segment.rows).sum();
        sealed + self.tail.iter().map(|batch| batch.num_rows() as u64).sum::<u64>()
    }
}

/// An archive at one position.
///
/// Whatever keeps the files of the position from being deleted rides along in `guard`.
#[derive(Default)]
pub struct ArchiveView {
    /// The rows of every table, in the order of [`Table::ALL`].
    pub tables: [TableView; Table::ALL.len()],
    /// Kept until the last question over this view is done.
    pub guard: Option<Arc<dyn Any + Send + Sync>>,
}

impl ArchiveView {
    /// The rows of a table.
    pub fn table(&self, table: Table) -> &TableView {
        &self.tables[table as usize]
    }
}
