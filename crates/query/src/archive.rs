//! An archive that questions are put to.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_archive::{ArchiveHandle, FrameDigest, HandleOptions, Snapshot, TailFrame};
use weir_filter::Predicate;
use weir_flow::{Column, Completeness, FlowBatch, Table};

use crate::decode::PageDecoder;
use crate::estimate::{Estimate, EstimateLimits, FilteredEstimate};
use crate::flows::FlowSources;
use crate::group::{Grouping, Part, Sums};
use crate::list::{Sorted, in_schema, list_columns, order_columns, schema};
use crate::options::go_on;
use crate::ordered::Ordered;
use crate::passes::{decoder, has_few_groups, parts};
use crate::run::share_out_from;
use crate::scan::{FlowScan, ScanSpec, ScanUnit, frame_may_have};
use crate::summary::{self, SummaryAnswer};
use crate::{Admitted, FlowQuery, Progress, QueryError, QueryOptions, Reservation, Select, Sorting, TimeWindow};

/// An archive at one position.
#[derive(Debug)]
pub struct Archive {
    snapshot: Arc<Snapshot>,
    pub(crate) options: QueryOptions,
}

/// The part of the memory of questions that indexes and frames may take, which several passes of one question share.
const CACHE_PART: usize = 32;
/// Pages of a piece of work where what is made of the rows waits until its turn comes.
const LISTED_PAGES: usize = 4;

impl Archive {
    /// Takes a snapshot of the archive in a folder.
    pub fn open(folder: &Path, options: QueryOptions) -> Result<Self, QueryError> {
        let cache_octets_max = (options.memory.limit_bytes() / CACHE_PART) as u64;
        let handle = ArchiveHandle::open(folder, &HandleOptions { cache_octets_max })?;
        Ok(Self::at(handle.snapshot()?, options))
    }

    /// The archive as a snapshot has it: that of a [handle](weir_archive::ArchiveHandle), for those who ask often.
    pub fn at(snapshot: Snapshot, options: QueryOptions) -> Self {
        Self { snapshot: Arc::new(snapshot), options }
    }

    /// The archive as a snapshot has it that several questions share.
    pub fn over(snapshot: Arc<Snapshot>, options: QueryOptions) -> Self {
        Self { snapshot, options }
    }

    /// What is asked.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// How complete the flows of a window are, by the books of its minutes, or of its days where the books are kept by
    /// day. Opens only the books of these.
    pub fn completeness(&self, window: &TimeWindow) -> Result<Completeness, QueryError> {
        let (start_ms, end_ms) = window.range_ms();
        Ok(self.snapshot.completeness(start_ms, end_ms)?)
    }

    /// The first and the last millisecond of the flows, as far as is known before anything is read: `None` when there are no
    /// flows, or none has a time.
    pub fn time_range_ms(&self) -> Option<(i64, i64)> {
        let segments = self.snapshot.segments(Table::Flows).iter().filter_map(|segment| segment.time_range_ms);
        let frames = self.snapshot.tail_frames().iter().filter(|frame| frame.flows() > 0);
        let of_digest = |digest: &FrameDigest| {
            let ((first_ms, _), (_, last_ms)) = (digest.times(Column::Start)?, digest.times(Column::End)?);
            (first_ms <= last_ms).then_some((first_ms, last_ms))
        };
        let ranges = segments.chain(frames.filter_map(TailFrame::digest).filter_map(of_digest));
        ranges.reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)))
    }

    /// Answers with record batches.
    pub fn ask(&self, question: &FlowQuery) -> Result<Answer<RecordBatch>, QueryError> {
        self.ask_each(question, |batch| batch)
    }

    /// Answers with what `each` makes of the record batches, in threads: text, for instance.
    pub fn ask_each<T: Send + 'static>(
        &self,
        question: &FlowQuery,
        each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
    ) -> Result<Answer<T>, QueryError> {
        self.ask_admitted(self.admitted()?, question, each)
    }

    /// Waits for a turn, where questions wait for each other. It ends with the last copy. Whoever has one must not wait for another: with
    /// one turn for all that would be waiting for itself.
    pub(crate) fn admitted(&self) -> Result<Option<Arc<Admitted>>, QueryError> {
        let QueryOptions { admission, progress, .. } = &self.options;
        Ok(admission.as_ref().map(|admission| admission.enter(progress)).transpose()?.map(Arc::new))
    }

    /// The same as [`ask_each`](Self::ask_each) in a turn that is there already.
    pub(crate) fn ask_admitted<T: Send + 'static>(
        &self,
        admitted: Option<Arc<Admitted>>,
        question: &FlowQuery,
        each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
    ) -> Result<Answer<T>, QueryError> {
        let answer = if self.options.approximate {
            self.answer_approximately(question, each)?
        } else if question.scaled {
            return Err(QueryError::NeedsEngine("scaling by sampling intervals"));
        } else {
            answer(&self.flows(&question.window), question, &self.options, each)?
        };
        Ok(answer.in_turn(admitted))
    }

    /// What a question about a window may have to read, before anything is read: an upper bound by the times of segments.
    pub fn estimate(&self, window: &TimeWindow) -> Estimate {
        Estimate::of(&self.may_have(window))
    }

    /// What a question about flows of a window that pass a filter may have to read, by the indexes of segments: no page is read.
    /// Like pages that are read, pages that are left out are those of packets and octets as they were received. A segment whose
    /// index cannot be read counts as a whole.
    pub fn estimate_filtered(
        &self,
        window: &TimeWindow,
        filter: &Predicate,
        limits: EstimateLimits,
    ) -> Result<FilteredEstimate, QueryError> {
        let wanted = ScanSpec::of(filter.clone(), window, []);
        FilteredEstimate::of(&self.may_have(window), &wanted, limits, &self.options)
    }

    /// A number for the segments and deliveries that may have flows of a window: as long as it stays the same, so do the answers
    /// to questions about that window.
    pub fn content(&self, window: &TimeWindow) -> u64 {
        let flows = self.may_have(window);
        let mut hasher = DefaultHasher::new();
        flows.segments.iter().for_each(|segment| segment.path().hash(&mut hasher));
        // positions are given again after a crash that lost some
        self.snapshot.follow_position().epoch.hash(&mut hasher);
        flows.frames.iter().for_each(|frame| frame.position().get().hash(&mut hasher));
        hasher.finish()
    }

    /// Where flows of a window may be, as far as is known before anything is read.
    fn may_have(&self, window: &TimeWindow) -> FlowSources {
        let mut flows = FlowSources::of(&self.snapshot, window, &Progress::default());
        let wanted = ScanSpec::of(Predicate::True, window, []);
        flows.frames.retain(|frame| frame_may_have(frame, &wanted));
        flows
    }

    /// Where flows of a window may be.
    pub(crate) fn flows(&self, window: &TimeWindow) -> FlowSources {
        FlowSources::of(&self.snapshot, window, &self.options.progress)
    }
}

/// Answers a question about flows that come from anywhere.
pub fn ask_batches<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    question: &FlowQuery,
    flows: impl IntoIterator<Item = Result<FlowBatch, E>>,
    options: &QueryOptions,
) -> Result<Answer<RecordBatch>, QueryError> {
    let tail = flows.into_iter().collect::<Result<Vec<_>, E>>().map_err(|error| QueryError::Source(error.into()))?;
    answer(&FlowSources::of_batches(tail), question, options, |batch| batch)
}

/// Answers a question about flows of these sources.
pub(crate) fn answer<T: Send + 'static>(
    flows: &FlowSources,
    question: &FlowQuery,
    options: &QueryOptions,
    each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
) -> Result<Answer<T>, QueryError> {
    match &question.select {
        Select::List { columns, sorting, limit } => {
            let columns = list_columns(columns).to_vec();
            let schema = schema(&columns);
            match (sorting, limit) {
                (Some(sorting), limit) => {
                    let batches = sorted(flows, question, &columns, *sorting, *limit, options)?;
                    Ok(Answer::of_batches(schema, batches, options, each))
                }
                (None, Some(limit)) => {
                    let batches = first(flows, question, &columns, *limit, options)?;
                    Ok(Answer::of_batches(schema, batches, options, each))
                }
                (None, None) => Ok(list(flows, question, columns, options, each)),
            }
        }
        Select::Statistic { .. } | Select::Aggregate { .. } => {
            let grouping = Grouping::of(&question.select).ok_or(QueryError::NeedsEngine("this question"))?;
            groups(flows, question, grouping, options, each)
        }
    }
}

/// The flows as they are found, while threads read ahead.
fn list<T: Send + 'static>(
    flows: &FlowSources,
    question: &FlowQuery,
    columns: Vec<Column>,
    options: &QueryOptions,
    each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
) -> Answer<T> {
    let wanted = ScanSpec::new(question, columns.iter().copied());
    listed(flows.scan(&wanted, options), columns, options, each)
}

/// The flows of a scan, while threads read ahead.
pub(crate) fn listed<T: Send + 'static>(
    scan: FlowScan,
    columns: Vec<Column>,
    options: &QueryOptions,
    each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
) -> Answer<T> {
    let scan = scan.with_unit_pages_max(LISTED_PAGES);
    let schema = schema(&columns);
    let (threads, answered) = (options.threads.min(scan.units_max()), Arc::clone(&schema));
    let memory = options.memory.reservation("rows of the answer");
    let next = move || Ok(scan.next_unit()?.map(|unit| (unit.number() as usize, unit)));
    let work = move |decoder: &mut PageDecoder, unit: ScanUnit| {
        let mut done = Vec::new();
        unit.read(decoder, |batch| {
            done.push(Counted::new(in_schema(&batch, &columns, &answered)?, &memory, &each));
            Ok(())
        })?;
        Ok(done)
    };
    Answer { schema, unlisted_max: None, _admitted: None, items: Ordered::spawn_from(threads, next, decoder, work) }
}

/// The first flows that are found.
fn first(
    flows: &FlowSources,
    question: &FlowQuery,
    columns: &[Column],
    limit: usize,
    options: &QueryOptions,
) -> Result<Vec<RecordBatch>, QueryError> {
    let mut left = limit;
    let mut batches = Vec::new();
    if left == 0 {
        return Ok(batches);
    }
    for batch in list(flows, question, columns.to_vec(), options, |batch| batch) {
        let batch = batch?;
        let taken = batch.num_rows().min(left);
        batches.push(batch.slice(0, taken));
        left -= taken;
        if left == 0 {
            break;
        }
    }
    Ok(batches)
}

/// The flows in an order.
fn sorted(
    flows: &FlowSources,
    question: &FlowQuery,
    columns: &[Column],
    sorting: Sorting,
    limit: Option<usize>,
    options: &QueryOptions,
) -> Result<Vec<RecordBatch>, QueryError> {
    let read = columns.iter().copied().chain(order_columns(sorting.order).iter().copied());
    let wanted = ScanSpec::new(question, read);
    let scan = flows.scan(&wanted, options);
    let threads = options.threads.min(scan.units_max());
    let make = || Ok((decoder()?, Sorted::new(sorting, limit, options.memory.reservation("sorted rows"))));
    let next = || scan.next_unit();
    let sorted = share_out_from(threads, next, make, |(decoder, sorted), unit| {
        unit.read(decoder, |batch| sorted.add(unit.number(), batch))?;
        go_on(options)
    })?;
    let sorted = sorted.into_iter().map(|(_, sorted)| sorted).collect();
    Sorted::finish(sorted, columns, &schema(columns))
}

/// Flows in groups.
fn groups<T: Send + 'static>(
    flows: &FlowSources,
    question: &FlowQuery,
    mut grouping: Grouping,
    options: &QueryOptions,
    each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
) -> Result<Answer<T>, QueryError> {
    let parts = parts_of_flows(flows, question, &mut grouping, options)?;
    answer_of_groups(grouping, parts, options, each)
}

/// The groups of flows, at least those that the answer has.
pub(crate) fn parts_of_flows(
    flows: &FlowSources,
    question: &FlowQuery,
    grouping: &mut Grouping,
    options: &QueryOptions,
) -> Result<Vec<Part<Sums>>, QueryError> {
    let summed;
    let flows = match summary::of(flows, question, grouping, options)? {
        SummaryAnswer::Groups(part) => return Ok(vec![part]),
        SummaryAnswer::Flows(left) => {
            summed = left;
            &summed
        }
        SummaryAnswer::NotApplicable => flows,
    };
    let mut wanted = ScanSpec::new(question, grouping.columns());
    let mut only = None;
    if let Some(lean) = grouping.lean()
        && !has_few_groups(flows, &wanted, grouping, options)?
    {
        let wanted_first = ScanSpec::new(question, grouping.lean_columns(lean));
        let measures = std::mem::take(&mut grouping.counting.measures);
        let parts = parts::<u64>(flows, &wanted_first, grouping, &lean, None, options)?;
        only = grouping.answer(&parts, &options.memory.reservation("the order of groups"))?.keys(&parts);
        grouping.counting.measures = measures;
        if let Some(only) = &only {
            wanted = wanted.with_hint(grouping.hint(only));
        }
    }
    grouping.counting.passes = 1;
    parts::<Sums>(flows, &wanted, grouping, &(), only.as_ref(), options)
}

/// The answer that groups make.
pub(crate) fn answer_of_groups<T: Send + 'static>(
    grouping: Grouping,
    parts: Vec<Part<Sums>>,
    options: &QueryOptions,
    each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
) -> Result<Answer<T>, QueryError> {
    let chosen = grouping.answer(&parts, &options.memory.reservation("the order of groups"))?;
    let (schema, count, progress) = (grouping.schema(), chosen.batches(), Arc::clone(&options.progress));
    let memory = options.memory.reservation("rows of the answer");
    let work = move |(): &mut (), number: usize| {
        Ok(vec![Counted::new(chosen.batch(&grouping, &parts, number, &progress)?, &memory, &each)])
    };
    Ok(Answer {
        schema,
        unlisted_max: None,
        _admitted: None,
        items: Ordered::spawn(options.threads, count, || Ok(()), work),
    })
}

/// An answer on its way: its pieces come in order while threads work ahead. Dropping it ends the question.
pub struct Answer<T> {
    schema: SchemaRef,
    unlisted_max: Option<[u64; 3]>,
    /// Until the answer is dropped.
    _admitted: Option<Arc<Admitted>>,
    items: Ordered<Counted<T>>,
}

/// A piece of an answer that waits to be taken, counted as the rows that it was made of.
struct Counted<T> {
    item: T,
    _memory: Reservation,
}

impl<T> Counted<T> {
    fn new(batch: RecordBatch, memory: &Reservation, each: impl Fn(RecordBatch) -> T) -> Self {
        let mut memory = memory.empty();
        memory.grow(batch.get_array_memory_size());
        Self { item: each(batch), _memory: memory }
    }
}

impl<T: Send + 'static> Answer<T> {
    pub(crate) fn of_batches(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        options: &QueryOptions,
        each: impl Fn(RecordBatch) -> T + Send + Sync + 'static,
    ) -> Self {
        let count = batches.len();
        let memory = options.memory.reservation("rows of the answer");
        let work = move |(): &mut (), number: usize| {
            Ok(vec![Counted::new(RecordBatch::clone(&batches[number]), &memory, &each)])
        };
        Self {
            schema,
            unlisted_max: None,
            _admitted: None,
            items: Ordered::spawn(options.threads, count, || Ok(()), work),
        }
    }
}

impl<T> Answer<T> {
    pub(crate) fn with_unlisted_max(self, amounts: [u64; 3]) -> Self {
        Self { unlisted_max: Some(amounts), ..self }
    }

    /// The same, which keeps its turn until it is dropped.
    pub(crate) fn in_turn(self, admitted: Option<Arc<Admitted>>) -> Self {
        Self { _admitted: admitted, ..self }
    }

    /// How many flows, packets and bytes a value that the answer lacks has at most, because no summary of expired
    /// flows lists it. `None` for answers that are not approximate.
    pub fn unlisted_max(&self) -> Option<[u64; 3]> {
        self.unlisted_max
    }

    /// Columns of the answer.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl<T> Iterator for Answer<T> {
    type Item = Result<T, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next().map(|made| made.map(|made| made.item))
    }
}
