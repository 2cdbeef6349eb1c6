//! Reads one run after another, step by step, and puts the rows of each into order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{Schema, SchemaRef, TimestampMillisecondType};
use weir_chain::{ComponentError, Counter};
use weir_flow::Column;
use weir_flow::schema::{arrow_type, field};

use super::Settings;
use super::column::{StagedColumn, TooLong, gather_times};
use super::partitions::{NO_TIME, Partitions};
use super::run::{Input, OpenRun, Run};

/// Rows decoded at a time: few enough that they stay in the cache until they are in their slots.
const DECODED_ROWS: usize = if cfg!(test) { 500 } else { 8192 };
/// Rows after which a step ends, so that whoever calls can do something else.
const STEP_ROWS: usize = if cfg!(test) { 1000 } else { 65_536 };

/// What a step came to.
#[derive(Debug)]
pub(super) enum Step {
    /// The run is being read, but no row is ready.
    Busy,
    /// The next rows.
    Rows(RecordBatch),
    /// The run is at its end.
    Done,
}

/// What is counted while reading. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    pub(super) segments_read: Counter,
    pub(super) segments_damaged: Counter,
    pub(super) rows_damaged: Counter,
}

/// Reads runs. Memory for a run is used again for the next one.
pub(super) struct RunReader {
    settings: Arc<Settings>,
    counters: Counters,
    state: State,
    /// Rows of the run handed on so far.
    rows_given: u64,
    partitions: Partitions,
    /// Times to sort by, by row of the run.
    times: Vec<i64>,
    /// Memory of columns, each at its place in the table.
    staged: Vec<Option<StagedColumn>>,
    /// Schema of the rows handed on last, so that it stays the same one.
    schema: SchemaRef,
}

/// How far a run is.
enum State {
    Idle,
    /// Rows are handed on as they are stored.
    Passing(Reading),
    /// The times to sort by are read.
    Timing(Reading),
    /// Values are put into their slots; `row` is the next row.
    Placing {
        reading: Reading,
        row: usize,
    },
    /// Rows are handed on in order.
    Ordered {
        columns: Vec<Column>,
    },
}

/// A run being read.
struct Reading {
    run: OpenRun,
    input: Input,
    /// Columns to hand on that have a value in the run.
    columns: Vec<Column>,
}

impl RunReader {
    pub(super) fn new(settings: Arc<Settings>, counters: Counters) -> Self {
        Self {
            settings,
            counters,
            state: State::Idle,
            rows_given: 0,
            partitions: Partitions::default(),
            times: Vec::new(),
            staged: Column::ALL.iter().map(|_| None).collect(),
            schema: Arc::new(Schema::empty()),
        }
    }

    /// Goes on with a run: begins it when none is being read. A segment that cannot be read is an error, or is given up
    /// and counted if the settings say so.
    pub(super) fn step(&mut self, run: &Run) -> Result<Step, ComponentError> {
        let step = self.advance(run);
        let step = match (step, run) {
            (Err(error), Run::Segment(_, segment)) if self.settings.skips_damaged => {
                tracing::warn!("segment skipped: {}", error.chain());
                self.counters.segments_damaged.add(1);
                self.counters.rows_damaged.add(segment.rows.saturating_sub(self.rows_given));
                Step::Done
            }
            (Ok(Step::Done), Run::Segment(..)) => {
                self.counters.segments_read.add(1);
                Step::Done
            }
            (step, _) => step?,
        };
        match &step {
            Step::Rows(rows) => self.rows_given += rows.num_rows() as u64,
            Step::Done => {
                self.state = State::Idle;
                self.rows_given = 0;
                self.staged.iter_mut().flatten().for_each(StagedColumn::end);
            }
            Step::Busy => {}
        }
        Ok(step)
    }

    fn advance(&mut self, run: &Run) -> Result<Step, ComponentError> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Idle => self.begin(run),
            State::Passing(reading) => self.pass(reading),
            State::Timing(reading) => self.time(reading),
            State::Placing { reading, row } => self.place(reading, row),
            State::Ordered { columns } => self.hand_on(columns),
        }
    }

    fn begin(&mut self, run: &Run) -> Result<Step, ComponentError> {
        let run = run.open()?;
        let mut columns = run.columns.clone();
        if let Some(wanted) = &self.settings.columns {
            columns.retain(|column| wanted.contains(column));
        }
        let Some(key) = self.settings.order.key().filter(|key| run.columns.contains(key)) else {
            return Ok(self.begin_passing(run, columns));
        };
        let input = run.read(&[key], self.settings.span, STEP_ROWS);
        self.times.clear();
        self.state = State::Timing(Reading { run, input, columns });
        Ok(Step::Busy)
    }

    fn begin_passing(&mut self, run: OpenRun, columns: Vec<Column>) -> Step {
        let input = run.read(&columns, self.settings.span, self.settings.batch_rows);
        self.state = State::Passing(Reading { run, input, columns });
        Step::Busy
    }

    /// Hands on rows as they are stored.
    fn pass(&mut self, mut reading: Reading) -> Result<Step, ComponentError> {
        let Some(rows) = reading.input.next()? else { return Ok(Step::Done) };
        let count = rows.num_rows();
        let values = |column: Column| match rows.column_by_name(column.name()) {
            Some(values) => Arc::clone(values),
            None => new_null_array(&arrow_type(column.column_type()), count),
        };
        let columns = reading.columns.iter().map(|column| (*column, values(*column))).collect();
        let rows = self.assemble(count, columns)?;
        self.state = State::Passing(reading);
        Ok(Step::Rows(rows))
    }

    /// Reads times, and at their end gives every row its rank.
    fn time(&mut self, mut reading: Reading) -> Result<Step, ComponentError> {
        let Some(key) = self.settings.order.key() else { return Ok(self.begin_passing(reading.run, reading.columns)) };
        if let Some(rows) = reading.input.next()? {
            let times = rows.column_by_name(key.name());
            match times.and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>()) {
                None => self.times.resize(self.times.len() + rows.num_rows(), NO_TIME),
                Some(times) if times.null_count() == 0 => self.times.extend_from_slice(times.values()),
                Some(times) => self.times.extend(times.iter().map(|time| time.unwrap_or(NO_TIME))),
            }
            self.state = State::Timing(reading);
            return Ok(Step::Busy);
        }
        if self.times.is_sorted() {
            return Ok(self.begin_passing(reading.run, reading.columns));
        }
        self.partitions.begin(&self.times);
        Ok(self.begin_placing(reading.run, reading.columns))
    }

    fn begin_placing(&mut self, run: OpenRun, columns: Vec<Column>) -> Step {
        let key = self.settings.order.key();
        let others: Vec<Column> = columns.iter().copied().filter(|column| Some(*column) != key).collect();
        for column in &others {
            let staged = self.staged[*column as usize].get_or_insert_with(|| StagedColumn::new(*column, false));
            staged.begin(self.partitions.slots_total());
        }
        let input = run.read(&others, self.settings.span, DECODED_ROWS);
        self.state = State::Placing { reading: Reading { run, input, columns }, row: 0 };
        Step::Busy
    }

    /// Puts the values of some rows into their slots.
    fn place(&mut self, mut reading: Reading, mut row: usize) -> Result<Step, ComponentError> {
        let step_end = row + STEP_ROWS;
        while row < step_end {
            let Some(rows) = reading.input.next()? else {
                self.state = State::Ordered { columns: reading.columns };
                return Ok(Step::Busy);
            };
            let range = row..row + rows.num_rows();
            row = range.end;
            self.partitions.place(&self.times[range]);
            if let Err((column, TooLong)) = self.put(&reading.columns, &rows) {
                self.staged[column as usize] = Some(StagedColumn::new(column, true));
                self.partitions.begin_again();
                return Ok(self.begin_placing(reading.run, reading.columns));
            }
        }
        self.state = State::Placing { reading, row };
        Ok(Step::Busy)
    }

    /// Puts the values of columns into the slots of their rows. The times to sort by are there already.
    fn put(&mut self, columns: &[Column], rows: &RecordBatch) -> Result<(), (Column, TooLong)> {
        let key = self.settings.order.key();
        for &column in columns.iter().filter(|column| Some(**column) != key) {
            let Some(staged) = &mut self.staged[column as usize] else { continue };
            let slots = self.partitions.slots();
            let put = match rows.column_by_name(column.name()) {
                Some(values) => staged.put(slots, values),
                None => staged.put(slots, &new_null_array(&arrow_type(column.column_type()), slots.len())),
            };
            put.map_err(|error| (column, error))?;
        }
        Ok(())
    }

    /// Hands on the next rows in order.
    fn hand_on(&mut self, columns: Vec<Column>) -> Result<Step, ComponentError> {
        self.partitions.put_in_order(self.settings.batch_rows);
        let slots = self.partitions.order();
        let count = slots.len();
        if count == 0 {
            return Ok(Step::Done);
        }
        let key = self.settings.order.key();
        let mut values = Vec::with_capacity(columns.len());
        for &column in &columns {
            if Some(column) == key {
                values.push((column, gather_times(self.partitions.times(), slots)));
            } else if let Some(staged) = &self.staged[column as usize] {
                values.push((column, staged.array(slots).map_err(cannot_arrange)?));
            }
        }
        let rows = self.assemble(count, values)?;
        self.state = State::Ordered { columns };
        Ok(Step::Rows(rows))
    }

    /// A batch of the columns that are handed on: those asked for, or those given here.
    fn assemble(&mut self, rows: usize, values: Vec<(Column, ArrayRef)>) -> Result<RecordBatch, ComponentError> {
        let mut columns: Vec<Column> = values.iter().map(|(column, _)| *column).collect();
        let mut values: Vec<ArrayRef> = values.into_iter().map(|(_, values)| values).collect();
        if let Some(wanted) = &self.settings.columns {
            for (position, column) in wanted.iter().enumerate() {
                if columns.get(position) != Some(column) {
                    columns.insert(position, *column);
                    values.insert(position, new_null_array(&arrow_type(column.column_type()), rows));
                }
            }
        }
        let is_same = self.schema.fields().len() == columns.len()
            && self.schema.fields().iter().zip(&columns).all(|(field, column)| field.name() == column.name());
        if !is_same {
            self.schema = Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options).map_err(cannot_arrange)
    }
}

fn cannot_arrange(error: arrow::error::ArrowError) -> ComponentError {
    ComponentError::caused("cannot put rows of the archive in order", error)
}
