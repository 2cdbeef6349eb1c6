//! Where flows come from, and what is counted of them on the way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use anyhow::Context;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, max, min};
use arrow::datatypes::TimestampMillisecondType;
use weir_filter::{FileRecords, Predicate};
use weir_flow::{Column, FlowBatch};
use weir_formats::nfcapd;
use weir_print::nfdump::{Effort, Totals};
use weir_query::{Archive, FlowQuery, QueryError, QueryOptions, Select, TimeWindow, ask_stream};

use super::input::Input;
use super::view::View;

/// What was counted while flows were read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Of the flows that passed.
    pub(super) totals: Totals,
    pub(super) effort: Effort,
}

/// Batches of an answer.
pub(super) type Rows = Box<dyn Iterator<Item = anyhow::Result<RecordBatch>>>;

/// Where flows come from, with the filter that they must pass.
pub(super) struct Source {
    input: Opened,
    passage: Passage,
    options: QueryOptions,
    counts: Arc<Mutex<Counts>>,
}

enum Opened {
    Files(Arc<[PathBuf]>),
    Archive(Box<Archive>),
}

/// Which flows pass.
#[derive(Debug, Clone)]
pub(super) struct Passage {
    pub(super) filter: Predicate,
    pub(super) window: TimeWindow,
    /// At most so many flows.
    pub(super) count_max: Option<u64>,
}

impl Source {
    pub(super) fn open(input: Input, passage: Passage, options: QueryOptions) -> anyhow::Result<Self> {
        let input = match input {
            Input::Files(files) => Opened::Files(files.into()),
            Input::Archive(path) => {
                if passage.filter.reads_file_records() {
                    anyhow::bail!("an archive keeps neither the number nor the ident of a record\nhint: ask files");
                }
                Opened::Archive(Box::new(Archive::open(&path, options.clone())?))
            }
        };
        Ok(Self { input, passage, options, counts: Arc::default() })
    }

    /// What was counted while flows were read last.
    pub(super) fn counts(&self) -> Counts {
        *locked(&self.counts)
    }

    /// The flows that pass, with these columns, or all of them.
    pub(super) fn flows(
        &self,
        columns: &[Column],
    ) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<FlowBatch>> + Send>> {
        let counts = Arc::clone(&self.counts);
        match &self.input {
            Opened::Files(files) => Ok(Box::new(Passing::new(files, &self.passage, counts))),
            Opened::Archive(archive) => {
                *locked(&counts) = Counts::default();
                let mut columns = columns.to_vec();
                if !columns.is_empty() {
                    columns.extend([Column::Start, Column::End, Column::Packets, Column::Bytes, Column::Flows]);
                    columns.sort_unstable();
                    columns.dedup();
                }
                let limit = self.passage.count_max.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
                let answer = archive.ask(&self.question(Select::List { columns, sorting: None, limit }))?;
                Ok(Box::new(answer.map(move |batch| {
                    let batch = FlowBatch::try_new(batch?)?;
                    let mut counts = locked(&counts);
                    counts.effort.flows_processed += batch.rows() as u64;
                    count_passed(&batch, &mut counts);
                    Ok(batch)
                })))
            }
        }
    }

    /// Whether flows come from an archive, which groups them itself.
    pub(super) fn is_archive(&self) -> bool {
        matches!(self.input, Opened::Archive(_)) && self.passage.count_max.is_none()
    }

    /// Answers a question about the flows that pass, which are counted as `view` has them. An archive counts as it keeps
    /// flows: only what was sent, and without the counters that go out.
    pub(super) fn ask(&self, select: Select, view: View) -> anyhow::Result<Rows> {
        match &self.input {
            Opened::Archive(archive) if self.passage.count_max.is_none() => {
                Ok(Box::new(archive.ask(&self.question(select))?.map(|batch| Ok(batch?))))
            }
            Opened::Archive(_) => {
                let flows = self.flows(&[])?.collect::<Result<Vec<_>, _>>()?;
                Ok(asked_of(flows, select, view, &self.options))
            }
            Opened::Files(files) => {
                let (files, passage, counts) = (Arc::clone(files), self.passage.clone(), Arc::clone(&self.counts));
                let open = move || Passing::new(&files, &passage, Arc::clone(&counts));
                Ok(streamed(open, select, view, &self.options))
            }
        }
    }

    /// What the flows that pass amount to. Costs nothing for files once all of them were read.
    pub(super) fn totals(&self) -> anyhow::Result<Counts> {
        if let (Opened::Archive(archive), None) = (&self.input, self.passage.count_max) {
            let totals = archive.totals(&self.passage.filter, &self.passage.window)?;
            let mut counts = Counts::default();
            let rows = totals.rows.unwrap_or(totals.flows);
            (counts.effort.flows_processed, counts.effort.flows_passed) = (rows, rows);
            counts.totals = Totals {
                flows: totals.flows,
                packets: totals.packets.unwrap_or(0),
                bytes: totals.bytes.unwrap_or(0),
                first_ms: totals.start_ms,
                last_ms: totals.end_ms,
            };
            return Ok(counts);
        }
        if matches!(self.input, Opened::Archive(_)) || self.counts().effort.flows_processed == 0 {
            for flows in self.flows(&[Column::Start])? {
                flows?;
            }
        }
        Ok(self.counts())
    }

    fn question(&self, select: Select) -> FlowQuery {
        let Passage { filter, window, .. } = self.passage.clone();
        FlowQuery { filter, window, select, scaled: false }
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // numbers are whole whatever happens
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a question about flows that are there.
pub(super) fn asked_of(flows: Vec<FlowBatch>, select: Select, view: View, options: &QueryOptions) -> Rows {
    streamed(move || flows.clone().into_iter().map(anyhow::Ok), select, view, options)
}

/// Batches of an answer that may wait to be taken.
const WAITING_MAX: usize = 4;

/// Answers a question in a thread of its own, so that the answer is written while it is made.
fn streamed<I>(open: impl Fn() -> I + Send + 'static, select: Select, view: View, options: &QueryOptions) -> Rows
where
    I: Iterator<Item = anyhow::Result<FlowBatch>> + Send,
{
    let options = options.clone();
    let (send, receive) = mpsc::sync_channel(WAITING_MAX);
    thread::spawn(move || {
        let open = || Ok(open().map(|flows| flows.map_err(|error| QueryError::Source(error.into()))));
        let counted = |flows: &FlowBatch| view.of(flows);
        // whoever waits for the answer may go away
        let mut take = |batch| send.send(Ok(batch)).map_err(|_| QueryError::Cancelled);
        let asked = catch_unwind(AssertUnwindSafe(|| ask_stream(&select, open, &counted, &options, &mut take)));
        match asked {
            Ok(Ok(()) | Err(QueryError::Cancelled)) => {}
            Ok(Err(error)) => drop(send.send(Err(error.into()))),
            Err(_) => drop(send.send(Err(anyhow::anyhow!("the thread that answers panicked")))),
        }
    });
    Box::new(receive.into_iter())
}

/// The flows of files that pass.
struct Passing {
    files: Arc<[PathBuf]>,
    next: usize,
    reader: Option<(nfcapd::Reader, PathBuf)>,
    passage: Passage,
    counts: Arc<Mutex<Counts>>,
}

impl Iterator for Passing {
    type Item = anyhow::Result<FlowBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.passage.count_max == Some(0) {
                self.close();
                return None;
            }
            if self.reader.is_none() {
                let path = self.files.get(self.next)?.clone();
                self.next += 1;
                match nfcapd::Reader::open(&path) {
                    Ok(reader) => {
                        self.count_times(reader.info());
                        self.reader = Some((reader, path));
                    }
                    Err(error) => return Some(Err(error.into())),
                }
            }
            let (reader, path) = self.reader.as_mut()?;
            match reader.next() {
                // what was read before the damage counts; nfdump goes on with the next file, too
                Some(Err(error)) => {
                    eprintln!("warning: {:#}", anyhow::Error::from(error));
                    self.close();
                }
                None => {
                    tell_damage(&reader.damage(), path);
                    self.close();
                }
                Some(Ok(batch)) => {
                    let passed = self.pass(&batch);
                    if !matches!(&passed, Ok(passed) if passed.rows() == 0) {
                        return Some(passed);
                    }
                }
            }
        }
    }
}

fn tell_damage(damage: &nfcapd::Damage, path: &Path) {
    if damage.is_damaged() {
        let (blocks, records) = (damage.blocks_damaged, damage.records_damaged);
        eprintln!("warning: {} has {blocks} damaged blocks and {records} damaged records", path.display());
    }
}

impl Passing {
    fn new(files: &Arc<[PathBuf]>, passage: &Passage, counts: Arc<Mutex<Counts>>) -> Self {
        *locked(&counts) = Counts::default();
        Self { files: Arc::clone(files), next: 0, reader: None, passage: passage.clone(), counts }
    }

    fn close(&mut self) {
        if let Some((reader, _)) = self.reader.take() {
            locked(&self.counts).effort.bytes_read += reader.octets_read();
        }
    }

    /// The window that a file says its flows lie in, which is the one that nfdump tells.
    fn count_times(&mut self, info: &nfcapd::Info) {
        let said = info.statistics.map(|statistics| (statistics.first_ms as i64, statistics.last_ms as i64));
        if let Some((first, last)) = said.filter(|(first, last)| *first > 0 && first <= last) {
            count_window(&mut locked(&self.counts).effort, Some(first), Some(last));
        }
    }

    /// The flows of a batch that pass.
    fn pass(&mut self, batch: &FlowBatch) -> anyhow::Result<FlowBatch> {
        let counts = Arc::clone(&self.counts);
        let mut counts = locked(&counts);
        let Passage { filter, window, count_max } = &mut self.passage;
        let ident = self.reader.as_ref().map_or("", |(reader, _)| reader.info().ident.as_str());
        let file = FileRecords { before: counts.effort.flows_processed, ident };
        let mut mask = filter.mask_in_file(batch, file);
        if *window != TimeWindow::default() {
            let inside = inside(batch, window);
            mask = arrow::compute::and(&mask, &inside).context("cannot combine filter and window")?;
        }
        let (mut read, mut passed) = (batch.rows(), mask.true_count());
        if let Some(left) = count_max {
            if passed as u64 > *left {
                (mask, read) = cut(&mask, *left as usize);
                passed = *left as usize;
            }
            *left -= passed as u64;
        }
        counts.effort.flows_processed += read as u64;
        if self.reader.as_ref().is_none_or(|(reader, _)| reader.info().statistics.is_none()) {
            let (first, last) = times(batch.record_batch());
            count_window(&mut counts.effort, first, last);
        }
        let batch = if passed == batch.rows() {
            batch.clone()
        } else {
            FlowBatch::try_new(filter_record_batch(batch.record_batch(), &mask)?)?
        };
        count_passed(&batch, &mut counts);
        Ok(batch)
    }
}

/// The mask with no more than the first `left` values set, and the rows up to the last of them.
fn cut(mask: &BooleanArray, left: usize) -> (BooleanArray, usize) {
    let rows = mask.values().set_indices().nth(left.saturating_sub(1)).map_or(0, |row| row + 1);
    ((0..mask.len()).map(|row| Some(row < rows && mask.value(row))).collect(), rows)
}

/// Flows that lie strictly inside a window; those without times do not.
fn inside(batch: &FlowBatch, window: &TimeWindow) -> BooleanArray {
    let time = |column, row| {
        let times = batch.primitive::<TimestampMillisecondType>(column)?;
        times.is_valid(row).then(|| times.value(row))
    };
    (0..batch.rows())
        .map(|row| {
            let is_after = window.from_ms.is_none_or(|from| time(Column::Start, row).is_some_and(|start| start > from));
            let is_before = window.until_ms.is_none_or(|until| time(Column::End, row).is_some_and(|end| end < until));
            Some(is_after && is_before)
        })
        .collect()
}

fn count_window(effort: &mut Effort, first: Option<i64>, last: Option<i64>) {
    effort.first_ms = effort.first_ms.into_iter().chain(first).min();
    effort.last_ms = effort.last_ms.into_iter().chain(last).max();
}

fn times(batch: &RecordBatch) -> (Option<i64>, Option<i64>) {
    let column = |column: Column| {
        batch.column_by_name(column.name()).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>())
    };
    (column(Column::Start).and_then(min), column(Column::End).and_then(max))
}

fn count_passed(batch: &FlowBatch, counts: &mut Counts) {
    counts.effort.flows_passed += batch.rows() as u64;
    let flows = batch.column(Column::Flows);
    let ones = flows.map_or(batch.rows(), arrow::array::Array::null_count) as u64;
    let totals = &mut counts.totals;
    totals.flows += ones + batch.sum(Column::Flows);
    // as nfdump adds them up: what came in and what went out
    for column in [Column::Packets, Column::PacketsOut, Column::PacketsReverse] {
        totals.packets += batch.sum(column);
    }
    for column in [Column::Bytes, Column::BytesOut, Column::BytesReverse] {
        totals.bytes += batch.sum(column);
    }
    let (first, last) = times(batch.record_batch());
    totals.first_ms = totals.first_ms.into_iter().chain(first).min();
    totals.last_ms = totals.last_ms.into_iter().chain(last).max();
}
