//! Meters packets of interfaces and capture files into flows.
//!
//! One worker runs in the thread that calls the source, the whole way from the packet to the batch. Several have threads
//! of their own, and hand their batches on through a queue; when that is full they wait, and what an interface receives
//! meanwhile is dropped by the system and counted.

mod configuration;
mod open_files;
pub mod options;
mod reporter;
mod retry;
mod routes;

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use weir_capture::{PacketSource, SourceError};
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Counter, Notices, Opener, OptionError, Outlet,
    PullResult, Role, Source,
};
use weir_flow::books::stored_rows;
use weir_flow::{BooksBatch, Delivery, FlowBatch};
use weir_meter::{MeterOptions, Metering, Step, Worker};
use weir_routes::SharedRouteTable;

use crate::flow_filter::{FlowFilter, filtered_counter};
use crate::reception::Reception;
use configuration::Configuration;
use open_files::OpenFiles;
pub use options::MeterSourceOptions;
use reporter::MeterReporter;
use retry::Retry;
use routes::{OpenRoutes, RouteFiles, Watching};

/// The kind `meter`.
pub const KIND: ComponentKind<MeterSourceOptions> = ComponentKind {
    name: "meter",
    role: Role::Source,
    inputs: &[],
    doc: "Meters packets into flows: of capture files (pcap, pcapng, also compressed with gzip, zstd, xz, bzip2 or lz4), \
          which are merged by the times of packets, or of interfaces. Flows are handed on as they end, those of several workers in no \
          particular order; which flows there are does not depend on the number of workers, unless the table was full. \
          With them come lines of the books that count them as stored, and what `filter` left out. Beside them it tells \
          the interfaces, and how packets were sampled, as rows of `exporter_options`. Every packet \
          is counted: `packets` = `packets_in_flows` + `packets_not_ip` + `packets_truncated` + `packets_malformed` + \
          `packets_too_deep` + `packets_not_sampled` + `fragments_of_tunnels` (further fragments of packets that carry \
          another one, which is metered whole). Besides it counts `octets` of frames, `fragments_without_first` \
          (in flows without ports), `flows_begun`, `flows_ended`, `flows_evicted` (ended since the table was full), \
          `flows_peak`, `tunnel_pairs_forgotten` (ends of tunnels, of which 1,048,576 are known at the same time: \
          a flow whose ends were forgotten and come again is told in two), `handshakes_cut` (too long, or too many at the same time, to be looked at whole), \
          `payloads_malformed`, `kernel_drops` (packets that were not fetched in time), `buffer_overruns` \
          (how often the memory for packets of an interface became full), `frames_filtered`, \
          `frames_unknown_link` (of a link type that is not dissected), `frames_unfilterable` (of one that the packet filter has \
          no meaning on), `octets_read`, `files_failed` and `times_replaced` (times of reception, which of captures are those of packets, beyond 1000 days \
          for each file: they are replaced by the present; those of pipes alone are not limited). With `routes` it counts `routes_peak` (prefixes), \
          `route_octets_peak` (of memory, for one table; there are two while files are read again), `routes_defective` \
          (records or lines that could not be used), `routes_reloaded` and `routes_reloads_failed` (the old routes stay \
          in force). With `interface_retry` it counts `interfaces_lost` (how often all interfaces had gone away) and \
          `interface_retries_failed`.",
    configure,
};

/// Batches that wait to be taken, for each worker.
const AHEAD: usize = 4;
/// How long one call may take.
const WAIT: Duration = Duration::from_millis(100);

fn configure(options: MeterSourceOptions) -> Result<Opener, OptionError> {
    let filter = FlowFilter::configure(options.filter.as_deref(), "filter")?;
    let configuration = Configuration::of(options)?;
    Ok(Box::new(move |context: &ComponentContext| {
        // with the routes, which are read next, all of what `check` looks at
        configuration.check().map_err(source_error)?;
        let routes = configuration.routes.as_ref().map(|files| files.open(&context.counters)).transpose()?;
        let sources = configuration.open().map_err(source_error)?;
        let shared = routes.as_ref().map(|open| open.routes.clone());
        let (metering, workers) = begin(&configuration, sources, shared.clone())?;
        let reporter = MeterReporter::new(context, &configuration, metering.clone());
        let retry = configuration.retry.map(|every| Retry::new(every, shared, &context.counters));
        let watching = routes.map(OpenRoutes::watch).transpose()?.flatten();
        let filtered = filtered_counter(context);
        let (notices, is_stopped) = (context.notices.clone(), false);
        Ok(Built::Source(Box::new(MeterSource {
            workers,
            metering,
            reporter,
            filter,
            filtered,
            files: configuration.open_files(),
            reception: configuration.has_regular_files().then(|| Reception::of_packets(context)),
            configuration,
            notices,
            is_stopped,
            retry,
            _watching: watching,
        })))
    }))
}

/// Finds out whether metering with these options could begin, as its start does first: whether interfaces are there, and files of
/// routes can be used. Nothing is captured, so the right to do that is not asked for.
pub fn check(options: &MeterSourceOptions) -> Result<(), ComponentError> {
    let configuration = Configuration::of(options.clone()).map_err(|error| ComponentError::new(error.message))?;
    configuration.check().map_err(source_error)?;
    configuration.routes.as_ref().map_or(Ok(()), RouteFiles::check)
}

/// Makes workers for packets of some sources, those with threads at work.
fn begin(
    configuration: &Configuration,
    sources: Vec<Box<dyn PacketSource>>,
    routes: Option<SharedRouteTable>,
) -> Result<(Metering, Workers), ComponentError> {
    let options = MeterOptions { routes, ..configuration.options.clone() };
    let (metering, mut workers) = Metering::new(&options, sources, configuration.workers);
    let workers = match workers.pop() {
        Some(one) if workers.is_empty() => Workers::Here(Box::new(one)),
        last => Workers::Threads(Threads::start(workers.into_iter().chain(last))?),
    };
    Ok((metering, workers))
}

fn source_error(error: SourceError) -> ComponentError {
    match &error {
        SourceError::Unusable { what, hint: Some(hint) } => ComponentError::new(format!("{what}\nhint: {hint}")),
        _ => ComponentError::caused("packets cannot be read", error),
    }
}

struct MeterSource {
    workers: Workers,
    metering: Metering,
    reporter: MeterReporter,
    filter: FlowFilter,
    filtered: Counter,
    configuration: Configuration,
    files: OpenFiles,
    /// Judges times of reception; `None` for those of interfaces, and of pipes alone.
    reception: Option<Reception>,
    notices: Notices,
    is_stopped: bool,
    /// How interfaces that have gone away are tried again; they are not without it.
    retry: Option<Retry>,
    _watching: Option<Watching>,
}

impl MeterSource {
    /// Tries to capture again, when it is time; the service that this is part of goes on meanwhile.
    fn try_again(&mut self) -> PullResult {
        let Some(retry) = &mut self.retry else { return PullResult::Ended };
        if !retry.is_due(WAIT) {
            return PullResult::Nothing;
        }
        let sources = self.configuration.open().map_err(source_error);
        let begun = sources.and_then(|sources| begin(&self.configuration, sources, retry.routes()));
        let Ok((metering, workers)) = begun else {
            retry.failed();
            return PullResult::Nothing;
        };
        retry.succeeded();
        self.reporter.begin_again(metering.clone());
        (self.metering, self.workers) = (metering, workers);
        self.notices.send(&format!("{} is captured again", self.configuration.interfaces()));
        PullResult::More
    }
}

enum Workers {
    Here(Box<Worker>),
    Threads(Threads),
}

impl Workers {
    /// Batches that wait to be taken.
    fn waiting(&self) -> usize {
        match self {
            Self::Here(_) => 0,
            Self::Threads(threads) => threads.batches.as_ref().map_or(0, Receiver::len),
        }
    }
}

impl Source for MeterSource {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        if self.retry.as_ref().is_some_and(Retry::is_waiting) {
            return Ok(if self.is_stopped { PullResult::Ended } else { self.try_again() });
        }
        let mut begun = self.files.look(&self.metering, &self.notices, || self.workers.waiting());
        let mut batches = Vec::new();
        let pulled = match &mut self.workers {
            Workers::Here(worker) => step(worker, &mut batches),
            Workers::Threads(threads) => threads.take(&mut batches)?,
        };
        if !batches.is_empty() {
            begun += self.files.report_begun(&self.notices);
        }
        if let Some(reception) = &mut self.reception {
            reception.add_files(begun);
            batches = batches.into_iter().map(|flows| reception.judged_flows(flows)).collect();
        }
        let side_tables = self.reporter.report(batches.last());
        let mut side_tables = Some(side_tables);
        for flows in batches {
            let mut side_tables = side_tables.take().unwrap_or_default();
            side_tables.books = Some(BooksBatch::from_rows(&stored_rows(&flows)));
            let delivery = Delivery { flows: Some(flows), side_tables };
            let mut delivery = self.filter.apply(delivery, &self.filtered)?;
            self.files.attach(&mut delivery);
            out.burst(Burst::from(delivery));
            self.files.handed_on(1);
        }
        if let Some(side_tables) = side_tables.filter(|side_tables| !side_tables.is_empty()) {
            let mut delivery = Delivery { flows: None, side_tables };
            self.files.attach(&mut delivery);
            out.burst(Burst::from(delivery));
        }
        if let Some(error) = self.metering.take_failure().map(source_error) {
            if self.retry.is_none() {
                return Err(error);
            }
            self.notices.send(&format!("error: {}", error.chain()));
        }
        if let Some(retry) = self.retry.as_mut().filter(|_| matches!(pulled, PullResult::Ended) && !self.is_stopped) {
            retry.begin();
            let interfaces = self.configuration.interfaces();
            self.notices.send(&format!("error: {interfaces} is gone; it is tried again every {:?}", retry.every()));
            return Ok(PullResult::More);
        }
        // every packet that was read is in a flow by now, also when metering was stopped
        if matches!(pulled, PullResult::Ended) {
            self.files.finish();
            self.configuration.note_files(&self.notices);
        }
        Ok(pulled)
    }

    fn stop(&mut self) {
        self.is_stopped = true;
        self.metering.stop();
    }
}

/// Steps until there is a batch, or time is over.
fn step(worker: &mut Worker, batches: &mut Vec<FlowBatch>) -> PullResult {
    let begun = Instant::now();
    while batches.is_empty() {
        match worker.step(&mut |flows| batches.push(flows)) {
            Step::Ended => return PullResult::Ended,
            Step::Nothing => return PullResult::Nothing,
            Step::More if begun.elapsed() > WAIT => break,
            Step::More => {}
        }
    }
    PullResult::More
}

/// Workers with threads of their own.
struct Threads {
    batches: Option<Receiver<FlowBatch>>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    fn start(workers: impl Iterator<Item = Worker>) -> Result<Self, ComponentError> {
        let workers: Vec<_> = workers.collect();
        let (sender, batches) = bounded(AHEAD * workers.len());
        let start = |worker| {
            let sender = sender.clone();
            let thread = thread::Builder::new().name("weir-meter".to_owned()).spawn(move || work(worker, &sender));
            thread.map_err(|error| ComponentError::caused("cannot start a thread", error))
        };
        let threads = workers.into_iter().map(start).collect::<Result<_, _>>()?;
        Ok(Self { batches: Some(batches), threads })
    }

    fn take(&mut self, batches: &mut Vec<FlowBatch>) -> Result<PullResult, ComponentError> {
        let Some(queue) = &self.batches else { return Ok(PullResult::Ended) };
        match queue.recv_timeout(WAIT) {
            Ok(flows) => {
                batches.push(flows);
                Ok(PullResult::More)
            }
            Err(RecvTimeoutError::Timeout) => Ok(PullResult::Nothing),
            Err(RecvTimeoutError::Disconnected) if self.join() => Ok(PullResult::Ended),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ComponentError::new("a thread that meters packets ended by a panic"))
            }
        }
    }

    /// Waits for all threads; false when one has panicked.
    fn join(&mut self) -> bool {
        self.batches = None;
        let mut is_fine = true;
        for thread in self.threads.drain(..) {
            is_fine &= thread.join().is_ok();
        }
        is_fine
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // threads find that nobody takes their batches
        self.join();
    }
}

fn work(mut worker: Worker, batches: &Sender<FlowBatch>) {
    let mut is_wanted = true;
    while worker.step(&mut |flows| is_wanted &= batches.send(flows).is_ok()) != Step::Ended {
        if !is_wanted {
            worker.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    use arrow::array::AsArray;
    use arrow::datatypes::{TimestampMillisecondType, UInt32Type};
    use weir_chain::{AnyKind, compliance};

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const METER: &'static dyn AnyKind = &KIND;

    /// An IPv4 packet of UDP from a port, in an Ethernet frame.
    fn frame(from: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
        frame.extend(from.to_be_bytes());
        frame.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        frame
    }

    /// A capture of so many packets, in turn of one of `flows` flows, every tenth of no flow at all.
    fn capture(path: &Path, packets: u32, flows: u16) {
        let frames = (0..packets).map(|number| {
            let mut frame = frame(1_000 + (number % u32::from(flows)) as u16);
            if number % 10 == 9 {
                // the Address Resolution Protocol
                frame[12..14].copy_from_slice(&[8, 6]);
            }
            (1_700_000_000_000_000 + i64::from(number) * 1_000, frame)
        });
        weir_testkit::write_capture(path, frames);
    }

    #[test]
    fn complies_and_counts_every_packet() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        capture(&path("one.pcap"), 20_000, 7_777);
        std::fs::write(path("garbage"), [7; 100]).expect("written");
        let files = ["one.pcap", "garbage", "missing"].map(|name| format!("'{}'", path(name).display()));
        let parameters = format!("files = [{}]\nidle_timeout = '3s'", files.join(", "));
        let outcome = compliance::source(METER, &parameters);
        let counted = ["packets", "packets_in_flows", "packets_not_ip", "files_failed", "flows_evicted"];
        assert_eq!(counted.map(|name| outcome.counter(name)), [20_000, 18_000, 2_000, 2, 0]);
        assert_eq!(outcome.counter("flows_ended"), outcome.len() as u64);
        assert!(outcome.len() > 7_000, "{}", outcome.len());
    }

    #[test]
    fn routes_come_from_files_and_wrong_ones_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        capture(&path("one.pcap"), 100, 10);
        std::fs::write(path("routes"), "192.0.2.0/24,64500\n198.51.100.0/25,64501\nwhat\n").expect("written");
        let parameters = |routes: &str| {
            let [capture, routes] = ["one.pcap", routes].map(|name| path(name).display().to_string());
            format!("files = ['{capture}']\nroutes = ['{routes}']")
        };
        let outcome = compliance::source(METER, &parameters("routes"));
        let counted = ["routes_peak", "routes_defective", "routes_reloaded"].map(|name| outcome.counter(name));
        assert_eq!(counted, [2, 1, 0]);
        let rows = outcome.rows.expect("rows");
        let of = |name: &str| rows.column_by_name(name).expect(name).as_primitive::<UInt32Type>().values().to_vec();
        assert_eq!([of("src_as"), of("dst_as")], [64500, 64501].map(|system| vec![system; rows.num_rows()]));
        let options = weir_chain::options::parse(&parameters("missing")).expect("options");
        let opener = configure(options).expect("it is read when the component is opened");
        let error = opener(&ComponentContext::default()).err().expect("an error").chain();
        assert!(error.contains("cannot read routes from") && error.contains("missing"), "{error}");
    }

    #[test]
    fn workers_in_threads_tell_the_same_packets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("one.pcap");
        capture(&path, 20_000, 7_777);
        let run = |workers: usize| {
            let text = format!(
                "[components.meter]\ntype = 'meter'\nfiles = ['{}']\nworkers = {workers}\n\
                 [components.out]\ntype = 'counter'\ninputs = ['meter']\n",
                path.display()
            );
            let chain = weir_chain::Chain::parse(&text, Path::new(""), &crate::registry(), &[]).expect("a chain");
            let (progress, ended) = chain.start().expect("started").wait();
            ended.expect("ended");
            let meter = progress.component("meter").expect("the meter");
            (meter.counter("packets_in_flows"), meter.counter("flows_ended"), meter.rows_out)
        };
        assert_eq!(run(1), run(3));
    }

    const DAY_MS: i64 = 86_400_000;

    /// Meters files; gives the days on which flows began and were received, and the times that were replaced.
    fn days(files: &[PathBuf]) -> (usize, usize, u64) {
        let files: Vec<_> = files.iter().map(|path| format!("'{}'", path.display())).collect();
        let options =
            weir_chain::options::parse(&format!("files = [{}]\nworkers = 1", files.join(", "))).expect("options");
        let context = ComponentContext::default();
        let opener = configure(options).expect("right options");
        let Ok(Built::Source(mut source)) = opener(&context) else { panic!("a source") };
        let mut out = Outlet::new();
        while !matches!(source.pull(&mut out).expect("no error"), PullResult::Ended) {}
        let rows: Vec<_> = out.drain().map(|burst| burst.rows().clone()).collect();
        let days = |name: &str| -> HashSet<i64> {
            let times = rows.iter().filter_map(|rows| rows.column_by_name(name));
            let times = times.flat_map(|times| times.as_primitive::<TimestampMillisecondType>().values().to_vec());
            times.map(|ms| ms.div_euclid(DAY_MS)).collect()
        };
        (days("start").len(), days("received").len(), context.counters.counter("times_replaced").get())
    }

    /// A packet on each of 2,500 days, each of which ends the flow of the one before.
    fn packets_of_days() -> impl Iterator<Item = (i64, Vec<u8>)> {
        (1..=2_500).map(|day| (day * DAY_MS * 1_000, frame(1_000)))
    }

    /// An archive has a file for each day of reception: a capture has flows of 1,000 at most, and of the present.
    #[test]
    fn a_capture_of_absurd_times_is_of_so_many_days() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two] = ["one.pcap", "two.pcap"].map(|name| folder.path().join(name));
        for path in [&one, &two] {
            weir_testkit::write_capture(path, packets_of_days());
        }
        assert_eq!(days(std::slice::from_ref(&one)), (2_500, 1_001, 1_500));
        let (starts, received, _) = days(&[one, two]);
        assert_eq!(starts, 2_500);
        assert!((1_001..=2_001).contains(&received), "{received}");
    }

    /// Flows come after their packets, when other files have begun: each file has its days.
    #[test]
    fn captures_of_many_days_keep_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |day: i64| {
            let path = folder.path().join(format!("{day}.pcap"));
            let packets = (0..10_u16).map(|port| (day * DAY_MS * 1_000 + i64::from(port), frame(1_000 + port)));
            weir_testkit::write_capture(&path, packets);
            path
        };
        let files: Vec<PathBuf> = (1..=1_200).map(write).collect();
        // a day without packets is longer than a flow waits for one: each was over on its own day
        assert_eq!(days(&files), (1_200, 1_200, 0));
    }

    #[test]
    fn a_pipe_may_have_packets_of_many_days() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        let writer = {
            let path = path.clone();
            thread::spawn(move || weir_testkit::write_capture(&path, packets_of_days()))
        };
        assert_eq!(days(&[path]), (2_500, 2_500, 0));
        writer.join().expect("written");
    }

    /// The limit is for the file next to it.
    #[test]
    fn a_pipe_takes_the_limit_from_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, pipe] = ["one.pcap", "pipe"].map(|name| folder.path().join(name));
        weir_testkit::write_capture(&file, packets_of_days());
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
        assert!(made.success());
        let writer = {
            let pipe = pipe.clone();
            thread::spawn(move || weir_testkit::write_capture(&pipe, packets_of_days().take(1)))
        };
        let (starts, received, _) = days(&[file, pipe]);
        assert_eq!(starts, 2_500);
        assert!((1_001..=2_001).contains(&received), "{received}");
        writer.join().expect("written");
    }

    #[test]
    fn wrong_options_are_errors() {
        let configure = |text: &str| {
            let text = format!(
                "[components.meter]\ntype = 'meter'\n{text}\n[components.out]\ntype = 'counter'\ninputs = ['meter']\n"
            );
            match weir_chain::Chain::parse(&text, Path::new(""), &crate::registry(), &[]) {
                Ok(_) => String::new(),
                Err(errors) => errors.iter().map(ToString::to_string).collect(),
            }
        };
        for (text, told) in [
            ("", "neither 'files' nor 'interfaces'"),
            ("files = ['a']\ninterfaces = ['lo']", "not from both"),
            ("files = ['a']\nkeys = ['colour']", "'colour' is not known here"),
            ("files = ['a']\nbiflow = true\nkeys = ['src_addr']", "only when source and destination are both keys"),
            ("files = ['a']\nidle_timeout = '0s'", "before its second packet"),
            ("files = ['a']\nmeasures = ['weight']", "'weight' is not known here"),
            ("files = ['a']\nexporter = 'me'", "'me' is not an address"),
        ] {
            let errors = configure(text);
            assert!(errors.contains(told), "{text}: {errors}");
        }
    }
}
