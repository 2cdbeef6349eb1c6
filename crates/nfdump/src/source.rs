//! Where flows come from, and what is counted of them on the way.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use crate::text::{QueryCost, Release, Totals};
use anyhow::Context;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{filter_record_batch, max, min};
use arrow::datatypes::TimestampMillisecondType;
use tracing::warn;
use weir_filter::{FileRecords, Predicate};
use weir_flow::{Column, FlowBatch};
use weir_formats::{FormatError, nfcapd};
use weir_query::{Archive, FlowQuery, QueryError, QueryOptions, Select, TimeWindow, ask_stream};
use weir_routes::PrefixMap;

use crate::input::Input;
use crate::view::View;

/// What was counted while flows were read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Of the flows that passed.
    pub(crate) totals: Totals,
    pub(crate) cost: QueryCost,
    /// Files were read, whatever was in them.
    is_read: bool,
}

/// Batches of an answer.
pub(crate) type Rows = Box<dyn Iterator<Item = anyhow::Result<RecordBatch>>>;

/// Where flows come from, with the filter that they must pass.
pub(crate) struct Source {
    input: OpenInput,
    selection: FlowSelection,
    options: QueryOptions,
    counts: Arc<Mutex<Counts>>,
}

enum OpenInput {
    Files(Arc<[PathBuf]>),
    Archive(Box<Archive>),
}

/// Which flows pass.
#[derive(Debug, Clone)]
pub(crate) struct FlowSelection {
    pub(crate) filter: Predicate,
    pub(crate) window: TimeWindow,
    /// Flows that pass at most.
    pub(crate) count_max: Option<u64>,
    /// Whose rules hold where releases differ.
    pub(crate) release: Release,
    /// What the headers of records say is added to the elements of flows.
    pub(crate) has_headers: bool,
    /// Files of which was said that they are left out.
    pub(crate) left_out: Arc<Mutex<HashSet<PathBuf>>>,
    /// The countries of addresses, which are added to the flows of files.
    pub(crate) countries: Option<Arc<PrefixMap<String>>>,
}

impl Source {
    pub(crate) fn open(input: Input, selection: FlowSelection, options: QueryOptions) -> anyhow::Result<Self> {
        let input = match input {
            Input::Files(files) => OpenInput::Files(files.into()),
            Input::Archive(path) => {
                if selection.filter.reads_file_records() {
                    anyhow::bail!("an archive keeps neither the number nor the ident of a record\nhint: ask files");
                }
                if selection.countries.is_some() {
                    anyhow::bail!(
                        "-G is for files: an archive has the countries that were kept with its flows\nhint: leave out -G; \
                         weir collect --geo-mmdb FILE keeps countries"
                    );
                }
                OpenInput::Archive(Box::new(Archive::open(&path, options.clone())?))
            }
        };
        Ok(Self { input, selection, options, counts: Arc::default() })
    }

    /// What was counted while flows were read last.
    pub(crate) fn counts(&self) -> Counts {
        *locked(&self.counts)
    }

    /// The flows that pass, with these columns, or all of them.
    pub(crate) fn flows(
        &self,
        columns: &[Column],
    ) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<FlowBatch>> + Send>> {
        let counts = Arc::clone(&self.counts);
        match &self.input {
            OpenInput::Files(files) => Ok(Box::new(PassedFlows::new(files, &self.selection, counts))),
            OpenInput::Archive(archive) => {
                *locked(&counts) = Counts::default();
                let mut columns = columns.to_vec();
                if !columns.is_empty() {
                    columns.extend([Column::Start, Column::End, Column::Packets, Column::Bytes, Column::Flows]);
                    columns.sort_unstable();
                    columns.dedup();
                }
                let limit = self.selection.count_max.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
                let answer = archive.ask(&self.question(Select::List { columns, sorting: None, limit }))?;
                Ok(Box::new(answer.map(move |batch| {
                    let batch = FlowBatch::try_new(batch?)?;
                    let mut counts = locked(&counts);
                    counts.cost.flows_processed += batch.rows() as u64;
                    count_passed(&batch, &mut counts);
                    Ok(batch)
                })))
            }
        }
    }

    /// Whether flows come from an archive, which groups them itself.
    pub(crate) fn is_archive(&self) -> bool {
        matches!(self.input, OpenInput::Archive(_)) && self.selection.count_max.is_none()
    }

    /// Answers a question about the flows that pass, which are counted as `view` has them. An archive counts as it keeps
    /// flows: only what was sent, and without the counters that go out.
    pub(crate) fn ask(&self, select: Select, view: View) -> anyhow::Result<Rows> {
        match &self.input {
            OpenInput::Archive(archive) if self.selection.count_max.is_none() => {
                Ok(Box::new(archive.ask(&self.question(select))?.map(|batch| Ok(batch?))))
            }
            OpenInput::Archive(_) => {
                let flows = self.flows(&[])?.collect::<Result<Vec<_>, _>>()?;
                Ok(asked_of(flows, select, view, &self.options))
            }
            OpenInput::Files(files) => {
                let (files, selection, counts) = (Arc::clone(files), self.selection.clone(), Arc::clone(&self.counts));
                let open = move || PassedFlows::new(&files, &selection, Arc::clone(&counts));
                Ok(streamed(open, select, view, &self.options))
            }
        }
    }

    /// What the flows that pass amount to. Costs nothing for files once all of them were read.
    pub(crate) fn totals(&self) -> anyhow::Result<Counts> {
        if let (OpenInput::Archive(archive), None) = (&self.input, self.selection.count_max) {
            let totals = archive.totals(&self.selection.filter, &self.selection.window)?;
            let mut counts = Counts::default();
            // the window of what is there, as nfdump prints that of the files and not that of the flows that pass
            let all = archive.totals(&Predicate::True, &TimeWindow::default())?;
            (counts.cost.first_ms, counts.cost.last_ms) = (all.start_ms, all.end_ms);
            let rows = totals.rows.unwrap_or(totals.flows);
            (counts.cost.flows_processed, counts.cost.flows_passed) = (rows, rows);
            counts.totals = Totals {
                flows: totals.flows,
                packets: totals.packets.unwrap_or(0),
                bytes: totals.bytes.unwrap_or(0),
                first_ms: totals.start_ms,
                last_ms: totals.end_ms,
            };
            return Ok(counts);
        }
        if matches!(self.input, OpenInput::Archive(_)) || !self.counts().is_read {
            for flows in self.flows(&[Column::Start])? {
                flows?;
            }
        }
        let mut counts = self.counts();
        if let OpenInput::Archive(archive) = &self.input {
            let all = archive.totals(&Predicate::True, &TimeWindow::default())?;
            (counts.cost.first_ms, counts.cost.last_ms) = (all.start_ms, all.end_ms);
        }
        Ok(counts)
    }

    fn question(&self, select: Select) -> FlowQuery {
        let FlowSelection { filter, window, .. } = self.selection.clone();
        FlowQuery { filter, window, select, scaled: false }
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    // numbers are whole whatever happens
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What captures begin with, in either order of octets: pcap with microseconds, with nanoseconds, and pcapng.
const CAPTURES: [u32; 3] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0x0a0d_0d0a];

/// Answers a question about flows that are there.
pub(crate) fn asked_of(flows: Vec<FlowBatch>, select: Select, view: View, options: &QueryOptions) -> Rows {
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
        // the reader of the answer may go away
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
struct PassedFlows {
    files: Arc<[PathBuf]>,
    next: usize,
    reader: Option<(nfcapd::Reader, PathBuf)>,
    selection: FlowSelection,
    counts: Arc<Mutex<Counts>>,
    /// Files that were opened, or passed over because of their times.
    opened: usize,
    /// Why the last file that is none of nfdump's could not be opened.
    failure: Option<FormatError>,
}

impl Iterator for PassedFlows {
    type Item = anyhow::Result<FlowBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.selection.count_max == Some(0) {
                self.close();
                return None;
            }
            if self.reader.is_none() {
                let Some(path) = self.files.get(self.next).cloned() else {
                    // nfdump goes on with the next file; when there is none of its files at all, that is a mistake
                    return self.failure.take().filter(|_| self.opened == 0).map(|error| Err(refused(error)));
                };
                self.next += 1;
                self.open(path);
                continue;
            }
            let (reader, path) = self.reader.as_mut()?;
            match reader.next() {
                // what was read before the damage counts; nfdump goes on with the next file, too
                Some(Err(error)) => {
                    warn!("{:#}", anyhow::Error::from(error));
                    self.close();
                }
                None => {
                    log_damage(&reader.damage(), path);
                    self.close();
                }
                Some(Ok(batch)) => {
                    let placed = match &self.selection.countries {
                        Some(countries) => with_countries(&batch, countries),
                        None => Ok(batch),
                    };
                    let passed = placed.and_then(|batch| self.pass(&batch));
                    if !matches!(&passed, Ok(passed) if passed.rows() == 0) {
                        return Some(passed);
                    }
                }
            }
        }
    }
}

fn log_damage(damage: &nfcapd::Damage, path: &Path) {
    if damage.is_damaged() {
        let (blocks, records) = (damage.blocks_damaged, damage.records_damaged);
        warn!("{} has {blocks} damaged blocks and {records} damaged records", path.display());
    }
}

impl PassedFlows {
    fn new(files: &Arc<[PathBuf]>, selection: &FlowSelection, counts: Arc<Mutex<Counts>>) -> Self {
        *locked(&counts) = Counts { is_read: true, ..Counts::default() };
        Self {
            files: Arc::clone(files),
            next: 0,
            reader: None,
            selection: selection.clone(),
            counts,
            opened: 0,
            failure: None,
        }
    }

    /// Opens a file, unless its statistics say that no flow is in the window.
    fn open(&mut self, path: PathBuf) {
        let opened = if self.selection.has_headers {
            nfcapd::Reader::open_with_headers(&path)
        } else {
            nfcapd::Reader::open(&path)
        };
        match opened {
            Ok(reader) => {
                self.opened += 1;
                if may_have_flows(reader.info(), &self.selection.window) {
                    self.count_times(reader.info());
                    self.reader = Some((reader, path));
                }
            }
            Err(error) => {
                let mut left_out = self.selection.left_out.lock().unwrap_or_else(PoisonError::into_inner);
                if self.files.len() > 1 && left_out.insert(path) {
                    warn!("{}, and is left out", error_line(&error));
                }
                drop(left_out);
                self.failure = Some(error);
            }
        }
    }

    fn close(&mut self) {
        if let Some((reader, _)) = self.reader.take() {
            locked(&self.counts).cost.bytes_read += reader.octets_read();
        }
    }

    /// The window of a file's flows by its statistics, which is the one that nfdump prints.
    fn count_times(&mut self, info: &nfcapd::Info) {
        let said = info.statistics.map(|statistics| (statistics.first_ms as i64, statistics.last_ms as i64));
        let is_known = |first| first > 0 || self.selection.release.is_last();
        if let Some((first, last)) = said.filter(|(first, last)| is_known(*first) && first <= last && *last > 0) {
            count_window(&mut locked(&self.counts).cost, Some(first), Some(last));
        }
    }

    /// The flows of a batch that pass.
    fn pass(&mut self, batch: &FlowBatch) -> anyhow::Result<FlowBatch> {
        let counts = Arc::clone(&self.counts);
        let mut counts = locked(&counts);
        let FlowSelection { filter, window, count_max, release, .. } = &mut self.selection;
        let ident = self.reader.as_ref().map_or("", |(reader, _)| reader.info().ident.as_str());
        let file = FileRecords { before: counts.cost.flows_processed, ident };
        let mut mask = filter.mask_in_file(batch, file);
        if *window != TimeWindow::default() {
            let inside = inside(batch, window, *release);
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
        counts.cost.flows_processed += read as u64;
        if self.reader.as_ref().is_none_or(|(reader, _)| reader.info().statistics.is_none()) {
            let (first, last) = times(batch.record_batch());
            count_window(&mut counts.cost, first, last);
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

/// The flows with the countries of their addresses.
fn with_countries(batch: &FlowBatch, countries: &PrefixMap<String>) -> anyhow::Result<FlowBatch> {
    let fields = batch.record_batch().schema();
    let held = fields.fields().iter().zip(batch.record_batch().columns());
    let mut columns: Vec<(Column, ArrayRef)> =
        held.filter_map(|(field, values)| Some((Column::by_name(field.name())?, Arc::clone(values)))).collect();
    for (of, to) in [(Column::SrcAddr, Column::SrcCountry), (Column::DstAddr, Column::DstCountry)] {
        let Some(addresses) = batch.binary(of) else { continue };
        let country = |address: Option<&[u8]>| countries.find_octets(address?).map(String::as_str);
        columns.retain(|(column, _)| *column != to);
        columns.push((to, Arc::new(addresses.iter().map(country).collect::<StringArray>())));
    }
    columns.sort_by_key(|(column, _)| *column);
    Ok(FlowBatch::from_columns(batch.rows(), columns)?)
}

/// The mask with no more than the first `left` values set, and the rows up to the last of them.
fn cut(mask: &BooleanArray, left: usize) -> (BooleanArray, usize) {
    let rows = mask.values().set_indices().nth(left.saturating_sub(1)).map_or(0, |row| row + 1);
    ((0..mask.len()).map(|row| Some(row < rows && mask.value(row))).collect(), rows)
}

/// Whether flows of a file may be in a window, by its statistics.
fn may_have_flows(info: &nfcapd::Info, window: &TimeWindow) -> bool {
    let Some(statistics) = info.statistics.filter(|statistics| statistics.last_ms > 0) else { return true };
    let is_after = window.from_ms.is_some_and(|from| (statistics.last_ms as i64) < from);
    let is_before = window.until_ms.is_some_and(|until| (statistics.first_ms as i64) > until);
    !is_after && !is_before
}

/// Why none of the files was read, with what reads the last one when it is a capture.
fn refused(error: FormatError) -> anyhow::Error {
    let FormatError::NotThis { path, .. } = &error else { return error.into() };
    let mut magic = [0; 4];
    let is_read = File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    if is_read && CAPTURES.iter().any(|known| [known.to_be_bytes(), known.to_le_bytes()].contains(&magic)) {
        return anyhow::anyhow!(
            "{error}\nhint: weir meter makes flows of packets, weir import reads captures of exports"
        );
    }
    error.into()
}

/// An error and its causes on one line.
fn error_line(error: &FormatError) -> String {
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

/// Flows that lie inside a window, strictly in 1.7.8; those without times do not.
fn inside(batch: &FlowBatch, window: &TimeWindow, release: Release) -> BooleanArray {
    let is_after = |time: i64, from: i64| if release.is_last() { time > from } else { time >= from };
    let time = |column, row| {
        let times = batch.primitive::<TimestampMillisecondType>(column)?;
        times.is_valid(row).then(|| times.value(row))
    };
    (0..batch.rows())
        .map(|row| {
            let begins = time(Column::Start, row);
            let ends = time(Column::End, row);
            let is_late = window.from_ms.is_none_or(|from| begins.is_some_and(|start| is_after(start, from)));
            let is_early = window.until_ms.is_none_or(|until| ends.is_some_and(|end| is_after(until, end)));
            Some(is_late && is_early)
        })
        .collect()
}

fn count_window(cost: &mut QueryCost, first: Option<i64>, last: Option<i64>) {
    cost.first_ms = cost.first_ms.into_iter().chain(first).min();
    cost.last_ms = cost.last_ms.into_iter().chain(last).max();
}

fn times(batch: &RecordBatch) -> (Option<i64>, Option<i64>) {
    let column = |column: Column| {
        batch.column_by_name(column.name()).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>())
    };
    (column(Column::Start).and_then(min), column(Column::End).and_then(max))
}

fn count_passed(batch: &FlowBatch, counts: &mut Counts) {
    counts.cost.flows_passed += batch.rows() as u64;
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
