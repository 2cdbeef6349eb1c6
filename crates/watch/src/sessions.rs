//! Sessions that are open, and those that end.
//!
//! Flows become rows of the relation that SESSION is of, and rows are kept by key until their session has ended: when
//! the time, less the lateness, is a gap after its last row, or where it is cut. Sessions are looked at by steps; those
//! that ended within one are a window, with the bounds of each session in the columns `window_start` and `window_end`.
//!
//! A row is late when the step that it is of has been given. It is kept where a session of its key is open that has begun
//! before it: the session has it, as if it had come in time. Otherwise it could join sessions that were given, so it is
//! counted and left out. What speaks against rows in place of sums is memory; `rows_max` and `sessions_max` limit it, and so does
//! the memory of all watches, of which keys take a part as rows do. Further keys do not get the last of that memory, which is
//! reserved for rows of sessions that are open: a sender of many keys would make the sessions of others end too early. Of a
//! delivery only rows of open sessions are stored then.

mod open_keys;

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, TimestampMillisecondArray};
use arrow::compute::{filter_record_batch, interleave_record_batch};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, TimestampMillisecondType};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use weir_flow::Column;
use weir_sql::standing::{QuestionMemory, Run, SessionInput, SessionKind, Window, WindowRows, WindowSpec};

use self::open_keys::{KeptRow, OpenKey, OpenKeys};
use crate::panes::{ClosedWindow, PaneCounts, times};
use crate::window_clock::{EMPTY_WINDOWS_MAX, WindowClock};

/// Rows of sessions that were given which may stay in memory next to those of open ones; beyond that, memory is freed.
const DEAD_ROWS_MAX: u64 = 65_536;
/// Rows of a batch when memory is freed.
const BATCH_ROWS: usize = 65_536;
/// This part of the memory of all watches is reserved for sessions that are open.
const RESERVED_PART: u64 = 16;

/// How sessions are kept.
#[derive(Debug, Clone, Copy)]
pub struct SessionOptions {
    /// The windows that sessions are given in.
    pub windows: WindowSpec,
    /// Which window relation of the statement they are, of how many.
    pub relation: (usize, usize),
    /// How long after its end a session is given, in milliseconds.
    pub lateness_ms: i64,
    /// How far after its reception a row may be dated, in milliseconds.
    pub skew_ms: i64,
    /// Rows that are kept at most.
    pub rows_max: u64,
    /// Sessions that are open at most.
    pub sessions_max: usize,
    /// Whether steps in which no session ended are given too.
    pub empty_windows: bool,
}

/// Rows of one delivery.
#[derive(Debug)]
struct KeptBatch {
    rows: RecordBatch,
    /// How many of them are kept.
    live: u64,
    /// What counts their memory.
    memory: Option<QuestionMemory>,
}

impl KeptBatch {
    fn new(rows: RecordBatch, live: u64, memory: Option<&QuestionMemory>) -> Self {
        if let Some(memory) = memory {
            memory.add(&rows);
        }
        Self { rows, live, memory: memory.cloned() }
    }
}

impl Drop for KeptBatch {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.remove(&self.rows);
        }
    }
}

/// Sessions of a watch.
#[derive(Debug)]
pub struct Sessions {
    input: SessionInput,
    options: SessionOptions,
    pub(crate) clock: WindowClock,
    converter: Option<RowConverter>,
    keys: OpenKeys,
    batches: BTreeMap<u64, KeptBatch>,
    next_batch: u64,
    rows_stored: u64,
    rows_kept: u64,
    counts: PaneCounts,
    /// Rows that were left out, as far as windows have told of them.
    rows_told: u64,
    /// What its rows take of the memory of all watches; it is not counted without.
    memory: Option<QuestionMemory>,
}

/// Rows of sessions that end, and when these begin and end.
#[derive(Debug, Default)]
struct Ended {
    rows: Vec<KeptRow>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

/// What keys may take of memory in addition to the rows of a delivery.
#[derive(Debug, Clone, Copy)]
struct KeyMemory {
    /// Octets that are left; `None` when the rows themselves do not fit.
    left: Option<u64>,
    /// Octets that must be left when a further key is added.
    reserved: u64,
}

impl KeyMemory {
    fn with(rows: &RecordBatch, memory: Option<&QuestionMemory>) -> Self {
        let Some(memory) = memory else { return Self { left: Some(u64::MAX), reserved: 0 } };
        Self { left: memory.octets_left_after(rows), reserved: memory.of_all().octets_max() / RESERVED_PART }
    }

    /// Whether there is memory for a further key.
    fn has_some_for_further_keys(&self) -> bool {
        self.left.is_some_and(|left| left >= self.reserved)
    }

    /// What is left when a key takes so many octets more; `None` when it may not.
    fn left_after(&self, octets: u64, is_further_key: bool) -> Option<u64> {
        let reserved = if is_further_key { self.reserved } else { 0 };
        self.left?.checked_sub(octets).filter(|left| *left >= reserved)
    }
}

impl Sessions {
    /// Without rows.
    pub fn new(input: SessionInput, options: SessionOptions) -> Self {
        Self {
            clock: WindowClock::new(options.windows.kind, options.lateness_ms),
            input,
            options,
            converter: None,
            keys: OpenKeys::default(),
            batches: BTreeMap::new(),
            next_batch: 0,
            rows_stored: 0,
            rows_kept: 0,
            counts: PaneCounts::default(),
            rows_told: 0,
            memory: None,
        }
    }

    /// The same without rows, which will share memory with those of other watches, as its keys will.
    #[must_use]
    pub fn within(self, memory: Option<QuestionMemory>) -> Self {
        Self { keys: OpenKeys::within(memory.as_ref()), memory, ..self }
    }

    /// What happened to rows.
    pub fn counts(&self) -> PaneCounts {
        self.counts
    }

    /// Rows that are kept.
    pub fn rows_kept(&self) -> u64 {
        self.rows_kept
    }

    /// Rows in memory: those that are kept, and others of their deliveries.
    pub fn rows_stored(&self) -> u64 {
        self.rows_stored
    }

    /// Sessions that are open.
    pub fn sessions_open(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn rows_max(&self) -> u64 {
        self.options.rows_max
    }

    /// How long before the end of a window rows must be known.
    pub(crate) fn size_max_ms(&self) -> i64 {
        self.options.windows.kind.size_ms
    }

    /// Takes the flows of a delivery; what ends by them goes to `closed`.
    pub fn take(&mut self, flows: &RecordBatch, closed: &mut Vec<ClosedWindow>) {
        self.counts.rows += flows.num_rows() as u64;
        let Some(flows) = self.without_future(flows) else { return };
        let Some(times) = times(&flows, self.options.windows.time) else {
            self.counts.rows_without_time += flows.num_rows() as u64;
            return;
        };
        // between two steps it does not matter in which order rows come
        let mut from = 0;
        for row in (0..times.len()).filter(|row| times.is_valid(*row)) {
            let given_through_ms = self.clock.closed_through();
            if self.clock.advance(times.value(row)) && self.clock.closes() {
                self.place(&flows.slice(from, row - from), given_through_ms);
                from = row;
                self.close(closed);
            }
        }
        self.place(&flows.slice(from, flows.num_rows() - from), self.clock.closed_through());
    }

    /// Takes flows in any order without moving time.
    pub fn load(&mut self, flows: &RecordBatch) {
        self.counts.rows += flows.num_rows() as u64;
        if let Some(flows) = self.without_future(flows) {
            self.place(&flows, None);
        }
    }

    /// The clock says that it is this time, and no flows come.
    pub fn advance(&mut self, now_ms: i64, closed: &mut Vec<ClosedWindow>) {
        self.clock.advance(now_ms);
        if self.clock.closes() {
            self.close(closed);
        }
    }

    /// Passes over steps that end at this time or before and in which no session can end, all rows being loaded.
    pub(crate) fn pass_empty(&mut self, through_ms: i64) {
        let kind = self.options.windows.kind;
        let next_ms = self.keys.next_look_ms().map(|at_ms| kind.first_end_after(at_ms.saturating_sub(1)));
        self.clock.pass_empty(next_ms, through_ms, self.options.empty_windows);
    }

    /// Goes on from now when times are ahead of the clock, as panes do.
    pub fn rewind(&mut self, now_ms: i64) -> bool {
        let Some(open_end_ms) = self.clock.rewind(now_ms, self.options.skew_ms) else { return false };
        let gone = self.keys.drop_from(open_end_ms, self.input.kind);
        self.counts.rows_future += gone.len() as u64;
        self.release(&gone);
        self.keys.count_memory();
        true
    }

    /// The flows that are not dated too long after their reception; the others are counted. `None` when nothing is left.
    fn without_future(&mut self, flows: &RecordBatch) -> Option<RecordBatch> {
        let time = self.options.windows.time;
        if time == Column::Received {
            return Some(flows.clone());
        }
        let (Some(dated), Some(received)) = (times(flows, time), times(flows, Column::Received)) else {
            return Some(flows.clone());
        };
        let skew_ms = self.options.skew_ms;
        let is_kept = |(dated, received): (Option<i64>, Option<i64>)| match (dated, received) {
            (Some(dated), Some(received)) => Some(dated <= received.saturating_add(skew_ms)),
            _ => Some(true),
        };
        let is_kept: BooleanArray = dated.iter().zip(received).map(is_kept).collect();
        let future = flows.num_rows() - is_kept.true_count();
        self.counts.rows_future += future as u64;
        if future == 0 { Some(flows.clone()) } else { filter_record_batch(flows, &is_kept).ok() }
    }

    /// Puts flows to the sessions of their keys. Those are late that are dated before what was given.
    fn place(&mut self, flows: &RecordBatch, given_through_ms: Option<i64>) {
        if flows.num_rows() == 0 {
            return;
        }
        let rows = self.input.rows(flows).ok().filter(|rows| times_of(rows, &self.input.time).is_some());
        let names = rows.as_ref().and_then(|rows| self.names(rows).ok());
        let (Some(rows), Some(names)) = (rows, names) else {
            self.counts.rows_failed += flows.num_rows() as u64;
            return;
        };
        let Some(times) = times_of(&rows, &self.input.time) else { return };
        let mut memory = KeyMemory::with(&rows, self.memory.as_ref());
        let open = (!memory.has_some_for_further_keys()).then(|| self.of_open_keys(names.as_ref(), rows.num_rows()));
        let stored = open.as_ref().map_or_else(|| Ok(rows.clone()), |open| filter_record_batch(&rows, open));
        let Ok(stored) = stored else {
            self.counts.rows_failed += flows.num_rows() as u64;
            return;
        };
        if open.is_some() {
            memory = KeyMemory { reserved: u64::MAX, ..KeyMemory::with(&stored, self.memory.as_ref()) };
        }
        let (batch, mut live, mut position) = (self.next_batch, 0, 0);
        for row in 0..rows.num_rows() {
            if times.is_null(row) {
                self.counts.rows_without_time += 1;
            } else {
                let name = names.as_ref().map(|names| names.row(row)).map_or(&[][..], |name| name.data());
                let kept = KeptRow { time_ms: times.value(row), batch, row: position };
                live += u64::from(self.keep(name, kept, given_through_ms, &mut memory));
            }
            // a row that is not stored is of a further key, for which there is no memory
            position += u32::from(open.as_ref().is_none_or(|open| open.value(row)));
        }
        if live > 0 {
            self.next_batch += 1;
            self.rows_stored += stored.num_rows() as u64;
            self.batches.insert(batch, KeptBatch::new(stored, live, self.memory.as_ref()));
        }
        self.keys.count_memory();
    }

    /// The keys of rows as octets; `None` when all rows are of one key.
    fn names(&mut self, rows: &RecordBatch) -> Result<Option<Rows>, ArrowError> {
        if self.input.keys.is_empty() {
            return Ok(None);
        }
        let columns = self.input.keys.iter().filter_map(|key| rows.column_by_name(key).cloned()).collect::<Vec<_>>();
        let converter = match &mut self.converter {
            Some(converter) => converter,
            none => {
                let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
                none.insert(RowConverter::new(fields.collect())?)
            }
        };
        converter.convert_columns(&columns).map(Some)
    }

    /// Which of so many rows are of sessions that are open.
    fn of_open_keys(&self, names: Option<&Rows>, rows: usize) -> BooleanArray {
        let name = |row: usize| names.map_or(&[][..], |names| names.row(row).data());
        let is_open = |row: usize| self.keys.place_of(name(row)).is_some();
        BooleanArray::from((0..rows).map(is_open).collect::<Vec<bool>>())
    }

    /// Keeps a row; false, and counted, when it is late or over a limit. `memory` is what keys may take.
    fn keep(&mut self, name: &[u8], row: KeptRow, given_through_ms: Option<i64>, memory: &mut KeyMemory) -> bool {
        let place = self.keys.place_of(name);
        let is_late = given_through_ms.is_some_and(|given_ms| row.time_ms < given_ms);
        let first_ms = place.and_then(|place| self.keys.first_ms(place));
        if is_late && first_ms.is_none_or(|first_ms| row.time_ms < first_ms) {
            self.counts.rows_late += 1;
            self.counts.rows_late_dropped += 1;
            return false;
        }
        if self.rows_kept >= self.options.rows_max {
            self.counts.rows_shed += 1;
            return false;
        }
        let end_ms = self.input.kind.earliest_end(row.time_ms);
        let more = self.keys.more_octets(place, name, end_ms);
        let Some(left) = memory.left_after(more, place.is_none()) else {
            self.counts.rows_over_memory += 1;
            return false;
        };
        if place.is_none() && self.keys.len() >= self.options.sessions_max {
            self.counts.rows_without_session += 1;
            return false;
        }
        memory.left = Some(left);
        self.keys.push(place, name, row, end_ms);
        self.rows_kept += 1;
        true
    }

    /// Gives the steps that are over.
    fn close(&mut self, closed: &mut Vec<ClosedWindow>) {
        let (edge_ms, kind) = (self.clock.edge_ms(), self.options.windows.kind);
        let Some(mut end_ms) = self.clock.next_end_ms() else { return };
        while end_ms <= edge_ms {
            let ended = self.ended_through(end_ms);
            let is_empty = ended.rows.is_empty();
            if self.clock.is_given(end_ms) && (!is_empty || self.options.empty_windows) {
                let window = self.window(end_ms, &ended);
                closed.push(window);
            }
            self.release(&ended.rows);
            end_ms = end_ms.saturating_add(kind.slide_ms);
            let behind = (edge_ms - end_ms).div_euclid(kind.slide_ms);
            if is_empty && (!self.options.empty_windows || behind > EMPTY_WINDOWS_MAX) {
                // to the next step in which a session may end, or to the one that is open now
                let next = self.keys.next_look_ms().map(|at_ms| kind.first_end_after(at_ms - 1));
                let open = kind.first_end_after(edge_ms);
                end_ms = next.map_or(open, |next| next.min(open)).max(end_ms);
            }
        }
        self.clock.set_next_end(end_ms);
        if self.rows_stored > 2 * self.rows_kept + DEAD_ROWS_MAX {
            self.free_memory();
        }
        self.keys.free_places();
        self.keys.count_memory();
    }

    /// Takes the rows of the sessions that end at a time or before. Those that ended in steps before are dropped: they were
    /// given before a restart.
    fn ended_through(&mut self, end_ms: i64) -> Ended {
        let mut ended = Ended::default();
        let after_ms = end_ms.saturating_sub(self.options.windows.kind.slide_ms);
        while let Some((at_ms, places)) = self.keys.pop_due(end_ms) {
            for place in places {
                if let Some(key) = self.keys.due_mut(place, at_ms) {
                    let dropped = end_sessions(key, self.input.kind, (after_ms, end_ms), &mut ended);
                    self.release(&dropped);
                    self.keys.reschedule(place, self.input.kind);
                }
            }
        }
        ended
    }

    /// The rows of sessions that ended, as a window that reaches from the first of them to the end of the step.
    fn window(&mut self, end_ms: i64, ended: &Ended) -> ClosedWindow {
        let start_ms = ended.starts.iter().min().copied();
        let window = Window { start_ms: start_ms.unwrap_or(end_ms - self.options.windows.kind.slide_ms), end_ms };
        let (relation, relations) = self.options.relation;
        let mut rows = vec![WindowRows::default(); relations.max(relation + 1)];
        let mut batches = Vec::new();
        if !ended.rows.is_empty() {
            let gathered = self.gathered(&ended.rows);
            match gathered.and_then(|batch| with_bounds(&batch, &ended.starts, &ended.ends)) {
                Ok(batch) => batches.push(batch),
                // more than a batch can have of a column
                Err(_) => self.counts.rows_failed += ended.rows.len() as u64,
            }
        }
        if let Some(place) = rows.get_mut(relation) {
            *place = WindowRows::within(window, batches, self.memory.as_ref());
        }
        // which session a row that was left out would have been in is not known: those that end next are told
        let PaneCounts { rows_shed, rows_over_memory, rows_without_session, rows_failed, .. } = self.counts;
        let left_out = rows_shed + rows_over_memory + rows_without_session + rows_failed;
        let told = std::mem::replace(&mut self.rows_told, left_out);
        ClosedWindow { end_ms, rows, is_correction: false, rows_left_out: left_out - told }
    }

    /// Rows in one batch; there is one at least.
    fn gathered(&self, rows: &[KeptRow]) -> Result<RecordBatch, ArrowError> {
        let mut places = HashMap::new();
        let mut batches = Vec::new();
        let mut indices = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(kept) = self.batches.get(&row.batch) else { continue };
            let place = *places.entry(row.batch).or_insert_with(|| {
                batches.push(&kept.rows);
                batches.len() - 1
            });
            indices.push((place, row.row as usize));
        }
        if batches.is_empty() {
            return Err(ArrowError::InvalidArgumentError("no rows".to_owned()));
        }
        interleave_record_batch(&batches, &indices)
    }

    /// Rows are not kept any more.
    fn release(&mut self, rows: &[KeptRow]) {
        self.rows_kept -= rows.len() as u64;
        for row in rows {
            let Some(kept) = self.batches.get_mut(&row.batch) else { continue };
            kept.live -= 1;
            if kept.live == 0 {
                self.rows_stored -= kept.rows.num_rows() as u64;
                self.batches.remove(&row.batch);
            }
        }
    }

    /// Puts the rows that are kept into batches of their own.
    fn free_memory(&mut self) {
        let kept: Vec<KeptRow> = self.keys.rows().copied().collect();
        let gathered: Result<Vec<RecordBatch>, ArrowError> =
            kept.chunks(BATCH_ROWS).map(|rows| self.gathered(rows)).collect();
        let Ok(gathered) = gathered else { return };
        self.batches.clear();
        self.rows_stored = 0;
        let first = self.next_batch;
        for rows in gathered {
            self.rows_stored += rows.num_rows() as u64;
            let live = rows.num_rows() as u64;
            self.batches.insert(self.next_batch, KeptBatch::new(rows, live, self.memory.as_ref()));
            self.next_batch += 1;
        }
        for (number, row) in self.keys.rows_mut().enumerate() {
            (row.batch, row.row) = (first + (number / BATCH_ROWS) as u64, (number % BATCH_ROWS) as u32);
        }
    }
}

/// Takes the sessions of a key that end at the second time or before; gives the rows of those that end at the first or before.
fn end_sessions(
    key: &mut OpenKey,
    kind: SessionKind,
    (after_ms, through_ms): (i64, i64),
    ended: &mut Ended,
) -> Vec<KeptRow> {
    key.sort();
    let mut dropped = Vec::new();
    while let Some(session) = kind.first(key.before, key.rows.iter().map(|row| row.time_ms)) {
        if session.end_ms > through_ms {
            break;
        }
        let rows = key.rows.drain(..session.rows);
        if session.end_ms > after_ms {
            ended.rows.extend(rows);
            ended.starts.resize(ended.rows.len(), session.start_ms);
            ended.ends.resize(ended.rows.len(), session.end_ms);
        } else {
            dropped.extend(rows);
        }
        key.before = Some(session.run);
    }
    let cannot_go_on = |run: &Run| run.last_ms.saturating_add(kind.gap_ms) <= through_ms;
    if key.rows.is_empty() && key.before.as_ref().is_some_and(cannot_go_on) {
        key.before = None;
    }
    dropped
}

fn times_of<'a>(rows: &'a RecordBatch, name: &str) -> Option<&'a TimestampMillisecondArray> {
    rows.column_by_name(name)?.as_primitive_opt::<TimestampMillisecondType>()
}

/// Rows with the times of their sessions.
fn with_bounds(rows: &RecordBatch, starts: &[i64], ends: &[i64]) -> Result<RecordBatch, ArrowError> {
    let kind = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let bounds = [("window_start", starts), ("window_end", ends)];
    let mut fields: Vec<_> = rows.schema().fields().iter().cloned().collect();
    let mut columns = rows.columns().to_vec();
    for (name, times) in bounds {
        fields.push(Field::new(name, kind.clone(), false).into());
        let times = TimestampMillisecondArray::from(times.to_vec()).with_timezone("UTC");
        columns.push(std::sync::Arc::new(times) as ArrayRef);
    }
    RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns)
}
