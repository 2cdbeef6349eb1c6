//! What happens now: rates of the last second.
//!
//! One thread follows the archive, from the writer's memory when that is in this process, and adds up what deliveries carry. So
//! the rates are those of flows that are received, whoever collects them, and many who look cost as much as one.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use arrow::datatypes::UInt64Type;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use utoipa::ToSchema;
use weir_archive::{ArchiveError, FollowEvent, FollowOptions, Follower};
use weir_flow::{Column, Counter, FlowBatch};
use weir_watch::reports::OpenReports;

use crate::archive::AskedArchive;
use crate::moment::now_ms;
use crate::status::Status;

/// How often rates are given.
const EVERY: Duration = Duration::from_secs(1);
/// How often the thread looks whether it must end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long seconds are kept for those who come later, and how many at most.
const HISTORY_MS: i64 = 300_000;
const SECONDS_MAX: usize = 600;
/// Exporters with rates of their own; senders of datagrams must not fill memory, or pages.
const EXPORTERS_MAX: usize = 64;

/// Rates of the last second.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LiveSample {
    /// When the second ended, in milliseconds since the epoch.
    pub(crate) time_ms: i64,
    /// Flows received a second.
    pub(crate) flows_per_s: f64,
    /// Packets that these flows had.
    pub(crate) packets_per_s: f64,
    /// Octets that these flows had.
    pub(crate) bytes_per_s: f64,
    /// The same of each exporter, those with most flows first; what has no place of its own is `other`.
    pub(crate) exporters: Vec<ExporterRate>,
    /// Datagrams that this machine dropped since the start; null where another process collects.
    pub(crate) drops: Option<u64>,
    /// Reports of watches that nobody has acknowledged; null where there are no watches.
    pub(crate) reports_open: Option<u64>,
}

/// Rates of an exporter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExporterRate {
    /// Its address; `other` for all that have no place of their own.
    pub(crate) exporter: String,
    /// Flows received a second.
    pub(crate) flows_per_s: f64,
    /// Packets that these flows had.
    pub(crate) packets_per_s: f64,
    /// Octets that these flows had.
    pub(crate) bytes_per_s: f64,
}

/// The rates of a second, of all exporters together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub(crate) struct LiveSecond {
    /// When the second ended, in milliseconds since the epoch.
    pub(crate) time_ms: i64,
    /// Flows received a second.
    pub(crate) flows_per_s: f64,
    /// Packets that these flows had.
    pub(crate) packets_per_s: f64,
    /// Octets that these flows had.
    pub(crate) bytes_per_s: f64,
}

/// The last seconds, for clients that connect later.
#[derive(Debug, Default)]
pub(crate) struct LiveHistory(Mutex<VecDeque<LiveSecond>>);

impl LiveHistory {
    /// Keeps the second of a sample, and those of the five minutes before it.
    fn push(&self, sample: &LiveSample) {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // those of a clock that was set back are in the future
        while seconds.back().is_some_and(|last| last.time_ms >= sample.time_ms) {
            seconds.pop_back();
        }
        let is_old = |first: &LiveSecond| sample.time_ms - first.time_ms >= HISTORY_MS;
        while seconds.len() >= SECONDS_MAX || seconds.front().is_some_and(is_old) {
            seconds.pop_front();
        }
        seconds.push_back(LiveSecond {
            time_ms: sample.time_ms,
            flows_per_s: sample.flows_per_s,
            packets_per_s: sample.packets_per_s,
            bytes_per_s: sample.bytes_per_s,
        });
    }

    /// The seconds of the last five minutes that there was a sample of, the oldest first.
    pub(crate) fn seconds(&self) -> Vec<LiveSecond> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}

/// Flows, packets and octets.
type Amounts = [u64; 3];

/// What came since the last sample.
#[derive(Debug, Default)]
struct Gathered {
    all: Amounts,
    exporters: HashMap<Vec<u8>, Amounts>,
}

impl Gathered {
    fn add(&mut self, flows: &FlowBatch) {
        let batch = flows.record_batch();
        let counts = |column: Column| {
            let values = batch.column_by_name(column.name())?;
            values.as_primitive_opt::<UInt64Type>()
        };
        let (flows, packets, bytes) = (counts(Column::Flows), counts(Column::Packets), counts(Column::Bytes));
        let exporters = batch.column_by_name(Column::Exporter.name()).and_then(|values| values.as_binary_opt::<i32>());
        for row in 0..batch.num_rows() {
            let of = |values: Option<&arrow::array::UInt64Array>| {
                values.filter(|values| values.is_valid(row)).map(|values| values.value(row))
            };
            let amounts = [of(flows).unwrap_or(1), of(packets).unwrap_or(0), of(bytes).unwrap_or(0)];
            add(&mut self.all, amounts);
            let exporter =
                exporters.filter(|values| values.is_valid(row)).map_or(&[] as &[u8], |values| values.value(row));
            if let Some(sums) = self.exporters.get_mut(exporter) {
                add(sums, amounts);
                continue;
            }
            // those without a place share that of no address
            let has_place = self.exporters.len() < EXPORTERS_MAX;
            let key = if has_place { exporter.to_vec() } else { Vec::new() };
            add(self.exporters.entry(key).or_default(), amounts);
        }
    }

    fn sample(self, span: Duration) -> LiveSample {
        let rate = |count: u64| count as f64 / span.as_secs_f64().max(1e-3);
        let mut exporters: Vec<ExporterRate> = self
            .exporters
            .into_iter()
            .map(|(exporter, [flows, packets, bytes])| ExporterRate {
                exporter: name_of(&exporter),
                flows_per_s: rate(flows),
                packets_per_s: rate(packets),
                bytes_per_s: rate(bytes),
            })
            .collect();
        exporters.sort_by(|a, b| b.flows_per_s.total_cmp(&a.flows_per_s).then_with(|| a.exporter.cmp(&b.exporter)));
        let [flows, packets, bytes] = self.all;
        LiveSample {
            time_ms: now_ms(),
            flows_per_s: rate(flows),
            packets_per_s: rate(packets),
            bytes_per_s: rate(bytes),
            exporters,
            drops: None,
            reports_open: None,
        }
    }
}

fn add(sums: &mut Amounts, amounts: Amounts) {
    sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(amount));
}

/// The text of an address.
pub(crate) fn name_of(octets: &[u8]) -> String {
    let address = match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        _ => None,
    };
    address.map_or_else(|| "other".to_owned(), |address| address.to_string())
}

/// The thread that follows.
#[derive(Debug)]
pub(crate) struct LiveThread {
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LiveThread {
    /// Follows the archive from now on; samples go to `samples`, and are kept in `history`.
    pub(crate) fn start(
        archive: Arc<AskedArchive>,
        status: Arc<Status>,
        samples: watch::Sender<LiveSample>,
        history: Arc<LiveHistory>,
    ) -> std::io::Result<Self> {
        let is_ending = Arc::<AtomicBool>::default();
        let ending = Arc::clone(&is_ending);
        let run = move || {
            let mut live = Live { archive, status, samples, history, reports: OpenReports::default() };
            let mut said = false;
            while !ending.load(Ordering::Relaxed) {
                if let Err(error) = live.run(&ending) {
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!("rates are not known: {}", crate::problem::with_causes(&error));
                    }
                    live.pause(&ending);
                }
            }
        };
        let thread = thread::Builder::new().name("weir-live".to_owned()).spawn(run)?;
        Ok(Self { is_ending, thread: Some(thread) })
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // one that panicked has ended too
            let _ = thread.join();
        }
    }
}

impl Drop for LiveThread {
    fn drop(&mut self) {
        self.end();
    }
}

struct Live {
    archive: Arc<AskedArchive>,
    status: Arc<Status>,
    samples: watch::Sender<LiveSample>,
    history: Arc<LiveHistory>,
    reports: OpenReports,
}

impl Live {
    /// Follows until it must end, or until files cannot be read.
    fn run(&mut self, is_ending: &AtomicBool) -> Result<(), ArchiveError> {
        let columns = vec![Column::Exporter, Column::Flows, Column::Packets, Column::Bytes];
        let options = FollowOptions { columns: Some(columns), poll_interval: LOOK_EVERY, ..FollowOptions::default() };
        let newest = self.archive.snapshot()?.follow_position();
        let mut follower = Follower::attach(self.archive.folder(), newest, options)?;
        let (mut gathered, mut began) = (Gathered::default(), Instant::now());
        while !is_ending.load(Ordering::Relaxed) {
            let event = follower.next_timeout(LOOK_EVERY.min(EVERY.saturating_sub(began.elapsed())))?;
            if let Some(FollowEvent::Delivery(delivery)) = event
                && let Some(flows) = &delivery.flows
            {
                gathered.add(flows);
            }
            if began.elapsed() >= EVERY {
                let span = began.elapsed();
                began = Instant::now();
                self.give(std::mem::take(&mut gathered).sample(span));
            }
        }
        Ok(())
    }

    fn give(&mut self, sample: LiveSample) {
        self.archive.forget_old();
        let drops = [Counter::KernelDrops, Counter::QueueDrops, Counter::DatagramsRefused, Counter::DatagramsOverRate];
        let drops = self.status.counters("collector").map(|counters| {
            let of =
                |counter: &Counter| counters.iter().find(|(name, _)| *name == counter.name()).map_or(0, |one| one.1);
            drops.iter().map(of).sum()
        });
        let reports_open = self.reports.count(&self.archive.folder().join("watch"));
        // before it is sent: who has the sample finds it among the seconds
        self.history.push(&sample);
        self.samples.send_replace(LiveSample { drops, reports_open, ..sample });
    }

    /// Waits before the archive is tried again.
    fn pause(&self, is_ending: &AtomicBool) {
        let began = Instant::now();
        while began.elapsed() < EVERY && !is_ending.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        self.archive.forget_old();
    }
}

#[cfg(test)]
mod tests {
    use weir_flow::FlowBatchBuilder;

    use super::*;

    fn batch(exporter: &[u8], rows: usize) -> FlowBatch {
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        builder.u64(Column::Bytes).extend((0..rows).map(|_| 100_u64));
        builder.address(Column::Exporter).extend((0..rows).map(|_| exporter));
        builder.finish()
    }

    #[test]
    fn rates_are_of_the_span_and_of_each_exporter() {
        let mut gathered = Gathered::default();
        gathered.add(&batch(&[192, 0, 2, 1], 10));
        gathered.add(&batch(&[192, 0, 2, 2], 30));
        let sample = gathered.sample(Duration::from_secs(2));
        assert_eq!((sample.flows_per_s, sample.bytes_per_s), (20.0, 2000.0));
        let names: Vec<_> = sample.exporters.iter().map(|one| (one.exporter.as_str(), one.flows_per_s)).collect();
        assert_eq!(names, [("192.0.2.2", 15.0), ("192.0.2.1", 5.0)]);
    }

    #[test]
    fn the_seconds_of_five_minutes_are_kept() {
        let history = LiveHistory::default();
        let push = |second: i64| {
            let time_ms = 1_000 * second;
            history.push(&LiveSample { time_ms, bytes_per_s: second as f64, ..LiveSample::default() });
        };
        let times = || history.seconds().iter().map(|second| second.time_ms / 1_000).collect::<Vec<_>>();
        (1..=400).for_each(push);
        assert_eq!(times(), (101..=400).collect::<Vec<_>>());
        let first = history.seconds()[0];
        assert_eq!((first.time_ms, first.bytes_per_s), (101_000, 101.0));
        // nothing came for a while
        push(600);
        assert_eq!(times(), (301..=400).chain([600]).collect::<Vec<_>>());
        push(350);
        assert_eq!(times(), (301..=350).collect::<Vec<_>>());
    }

    #[test]
    fn many_exporters_take_no_more_than_their_places() {
        let mut gathered = Gathered::default();
        for number in 0..2000_u16 {
            let [high, low] = number.to_be_bytes();
            gathered.add(&batch(&[10, 0, high, low], 1));
        }
        let sample = gathered.sample(Duration::from_secs(1));
        assert!(sample.exporters.len() <= EXPORTERS_MAX + 1);
        let flows: f64 = sample.exporters.iter().map(|one| one.flows_per_s).sum();
        assert!((flows - 2000.0).abs() < 1e-6, "{flows}");
        assert_eq!(sample.exporters[0].exporter, "other");
    }
}
