//! Runs: the pieces of an archive that are read one after another, segments and what is in no segment yet.

use std::any::Any;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::statistics::Statistics;
use weir_archive::{Segment, Snapshot, TailFrame};
use weir_chain::ComponentError;
use weir_flow::schema::{arrow_type, field};
use weir_flow::{Column, FlowBatch, Table};

/// Rows of the tail that are read as one run: as many as a segment has by default.
const TAIL_ROWS: usize = 2_000_000;

/// A piece of an archive.
#[derive(Debug, Clone)]
pub(super) enum Run {
    /// A segment.
    Segment(Segment),
    /// Deliveries that are in no segment yet, in the order in which they were appended.
    Tail(Vec<TailFrame>),
}

impl Run {
    /// The runs of a snapshot that may have a row which starts in the window, in their order.
    pub(super) fn of(snapshot: &Snapshot, window: TimeWindow) -> Vec<Self> {
        let segments = snapshot.segments(Table::Flows).iter().filter(|segment| window.may_hold(segment));
        let mut runs: Vec<Self> = segments.cloned().map(Self::Segment).collect();
        let mut rows = TAIL_ROWS;
        for frame in snapshot.tail_frames().iter().filter(|frame| frame.flows() > 0) {
            match runs.last_mut() {
                Some(Self::Tail(frames)) if rows + frame.flows() <= TAIL_ROWS => frames.push(frame.clone()),
                _ => {
                    runs.push(Self::Tail(vec![frame.clone()]));
                    rows = 0;
                }
            }
            rows += frame.flows();
        }
        runs
    }

    /// Opens the run.
    pub(super) fn open(&self) -> Result<OpenRun, ComponentError> {
        match self {
            Self::Segment(segment) => OpenRun::segment(segment),
            Self::Tail(frames) => OpenRun::tail(frames),
        }
    }
}

/// Which flows are wanted, by their start: from the first time, and before the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TimeWindow {
    pub(super) from_ms: Option<i64>,
    pub(super) to_ms: Option<i64>,
}

impl TimeWindow {
    /// True when every flow is wanted, also one without a start.
    pub(super) fn is_open(self) -> bool {
        self == Self::default()
    }

    /// Whether a flow with this start is wanted.
    pub(super) fn holds(self, start_ms: i64) -> bool {
        self.from_ms.is_none_or(|from_ms| from_ms <= start_ms) && self.to_ms.is_none_or(|to_ms| start_ms < to_ms)
    }

    fn may_hold(self, segment: &Segment) -> bool {
        match segment.time_range_ms {
            Some((first_ms, last_ms)) => {
                self.from_ms.is_none_or(|from_ms| from_ms <= last_ms) && self.to_ms.is_none_or(|to_ms| first_ms < to_ms)
            }
            None => self.is_open(),
        }
    }
}

/// A run that is open. It can be read several times.
#[derive(Debug)]
pub(super) enum OpenRun {
    /// A segment: its file and what its footer says.
    ///
    /// The library reads a `File` by seeking in duplicates of its descriptor, which share one cursor. So whoever reads
    /// a segment opens it anew, and only one thread reads what was opened.
    Segment { file: File, name: String, metadata: ArrowReaderMetadata, rows: usize },
    /// Batches of flows.
    Tail(Vec<FlowBatch>),
}

/// What is wrong with a segment.
fn broken(name: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ComponentError {
    ComponentError::caused(format!("cannot read segment '{name}'"), cause)
}

impl OpenRun {
    fn segment(segment: &Segment) -> Result<Self, ComponentError> {
        let name = segment.path().display().to_string();
        let open = |path: &Path| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            let file = File::open(path)?;
            let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()))??;
            Ok((file, metadata))
        };
        let (file, metadata) = open(&segment.path()).map_err(|error| broken(&name, error))?;
        let found = metadata.metadata().file_metadata().num_rows();
        if u64::try_from(found) != Ok(segment.rows) || found >= i64::from(u32::MAX) {
            return Err(broken(&name, format!("it has {found} rows, and {} by its name", segment.rows)));
        }
        for found in metadata.schema().fields() {
            let Some(column) = Column::by_name(found.name()) else { continue };
            let needed = arrow_type(column.column_type());
            if !found.data_type().equals_datatype(&needed) {
                let found = found.data_type();
                return Err(broken(&name, format!("column '{column}' has type {found}, but {needed} is needed")));
            }
        }
        Ok(Self::Segment { file, name, metadata, rows: segment.rows as usize })
    }

    fn tail(frames: &[TailFrame]) -> Result<Self, ComponentError> {
        let read = |frame: &TailFrame| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            Ok(frame.read_flows(Column::ALL)?.map(FlowBatch::try_new).transpose()?)
        };
        let flows = frames.iter().filter_map(|frame| read(frame).transpose()).collect::<Result<_, _>>();
        flows.map(Self::Tail).map_err(|error| ComponentError::caused("cannot read the tail of the archive", error))
    }

    /// Columns that have a value in some row.
    pub(super) fn columns(&self) -> Vec<Column> {
        let columns = Column::ALL.iter().copied();
        match self {
            Self::Segment { metadata, .. } => {
                let schema = metadata.parquet_schema();
                let mut has_value = [false; Column::COUNT];
                for leaf in 0..schema.num_columns() {
                    let group_has_value = |group: &RowGroupMetaData| {
                        let chunk = group.column(leaf);
                        let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
                        nulls != u64::try_from(chunk.num_values()).ok()
                    };
                    if let Some(column) = Column::by_name(schema.get_column_root(leaf).name())
                        && metadata.metadata().row_groups().iter().any(group_has_value)
                    {
                        has_value[column as usize] = true;
                    }
                }
                columns.filter(|column| has_value[*column as usize]).collect()
            }
            Self::Tail(batches) => {
                columns.filter(|column| batches.iter().any(|batch| batch.column(*column).is_some())).collect()
            }
        }
    }

    /// Reads these columns, which are in the order of the table, in batches of at most so many rows. Every batch has
    /// those of them that have a value in it, or that the segment has.
    pub(super) fn read(&self, columns: &[Column], batch_rows: usize) -> Result<Input, ComponentError> {
        match self {
            Self::Segment { file, name, metadata, rows } => {
                let file = file.try_clone().map_err(|error| broken(name, error))?;
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
                let mask =
                    ProjectionMask::columns(builder.parquet_schema(), columns.iter().map(|column| column.name()));
                let builder = builder.with_batch_size(batch_rows).with_projection(mask);
                let reader: Result<_, Box<dyn std::error::Error + Send + Sync>> =
                    guarded(|| builder.build()).and_then(|reader| reader.map_err(Into::into));
                let reader = reader.map_err(|error| broken(name, error))?;
                Ok(Input::Segment { reader, name: name.clone(), rows_left: *rows })
            }
            Self::Tail(batches) => {
                let batches = batches.iter().flat_map(|batch| cut(batch, columns, batch_rows)).collect::<Vec<_>>();
                Ok(Input::Tail(batches.into_iter()))
            }
        }
    }
}

/// Some columns of a batch, in pieces of at most so many rows.
fn cut(batch: &FlowBatch, columns: &[Column], batch_rows: usize) -> Vec<RecordBatch> {
    let present: Vec<_> =
        columns.iter().filter_map(|&column| batch.column(column).map(|values| (column, Arc::clone(values)))).collect();
    let schema = Arc::new(Schema::new(present.iter().map(|(column, _)| field(*column)).collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
    let arrays = present.into_iter().map(|(_, values)| values).collect();
    let whole = RecordBatch::try_new_with_options(schema, arrays, &options);
    let whole = whole.unwrap_or_else(|_| batch.record_batch().clone());
    let starts = (0..whole.num_rows()).step_by(batch_rows);
    starts.map(|start| whole.slice(start, batch_rows.min(whole.num_rows() - start))).collect()
}

/// The rows of a run, in the order in which they are stored.
#[derive(Debug)]
pub(super) enum Input {
    /// Rows of a segment.
    Segment { reader: ParquetRecordBatchReader, name: String, rows_left: usize },
    /// Rows of the tail.
    Tail(std::vec::IntoIter<RecordBatch>),
}

impl Input {
    /// The next batch; `None` when all rows have come.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>, ComponentError> {
        match self {
            Self::Tail(batches) => Ok(batches.next()),
            Self::Segment { reader, name, rows_left } => {
                let next = guarded(|| reader.next().transpose()).and_then(|next| next.map_err(Into::into));
                let next = next.map_err(|error| broken(name, error))?;
                let rows = next.as_ref().map_or(0, RecordBatch::num_rows);
                match rows_left.checked_sub(rows) {
                    Some(left) if next.is_some() || left == 0 => *rows_left = left,
                    _ => {
                        return Err(broken(
                            name,
                            format!("{rows_left} rows are left by its footer, {rows} were found"),
                        ));
                    }
                }
                Ok(next)
            }
        }
    }
}

/// Calls the library, which may panic on octets that make no sense.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the Parquet reader panicked: {text}").into()
    })
}
