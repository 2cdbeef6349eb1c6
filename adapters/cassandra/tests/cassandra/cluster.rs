//! What the tests share: archives of numbered flows, forwarding them, and reading them back.

#![expect(clippy::print_stderr, reason = "for whoever reads why a test failed")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use scylla::client::session_builder::SessionBuilder;
use weir_archive::{ArchiveOptions, Writer};
use weir_cassandra::{
    CassandraOptions, CassandraReader, CassandraStore, CassandraUrl, ExportPacket, Predicate, ScanRange,
};
use weir_chain::OptionText;
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};
use weir_forward::{ForwardCounters, ForwardCounts, ForwardError, ForwardOptions, Forwarder};
use weir_testkit::cassandra::Cassandra;

/// 2026-03-01 00:00:00 UTC.
pub(crate) const BEGIN_MS: i64 = 1_772_323_200_000;

/// Options for a keyspace of its own on a cluster.
pub(crate) fn options(cluster: &Cassandra, settings: &str) -> CassandraOptions {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let text = format!("cassandra://{}/t{number}?request_timeout=5s&{settings}", cluster.hosts());
    CassandraUrl::parse_text(&text).and_then(|url| url.options()).expect("options")
}

/// Flows with the numbers of a range, each in `FlowId`, received one millisecond after the other in groups of ten.
pub(crate) fn numbered(numbers: std::ops::Range<u64>) -> FlowBatch {
    let rows = (numbers.end - numbers.start) as usize;
    let mut flows = FlowBatchBuilder::new(rows);
    flows.begin_rows(rows);
    flows
        .time(Column::Received)
        .extend(numbers.clone().map(|n| BEGIN_MS + (n / 10) as i64).collect::<Vec<_>>().into_iter());
    flows.address(Column::SrcAddr).extend_fixed((0..rows).map(|n| (n as u32).to_be_bytes()));
    flows.u16(Column::DstPort).extend((0..rows).map(|n| (n % 1024) as u16));
    flows.u64(Column::Bytes).extend((0..rows).map(|n| n as u64 * 1000));
    flows.u64(Column::FlowId).extend(numbers.collect::<Vec<_>>().into_iter());
    flows.finish()
}

/// Appends deliveries to an archive and closes it.
pub(crate) fn write(dir: &Path, deliveries: impl IntoIterator<Item = FlowBatch>) {
    let (mut writer, _) = Writer::open(dir, ArchiveOptions::default()).expect("an archive");
    for flows in deliveries {
        writer.append(Delivery::from(flows)).expect("appended");
    }
    writer.close().expect("closed");
}

/// Forwards an archive to its end.
pub(crate) fn forward(dir: &Path, options: &CassandraOptions) -> Result<ForwardCounts, ForwardError> {
    let store = CassandraStore::new(options.clone()).expect("a store");
    let forwarder = Forwarder::open(dir, ForwardOptions::default(), store, ForwardCounters::default())?;
    forwarder.run(|| false, || true, Duration::from_mins(5))
}

/// A forwarder in a thread of its own, until `stop` is set.
pub(crate) struct Background {
    stop: Arc<AtomicBool>,
    pub(crate) counters: ForwardCounters,
    thread: std::thread::JoinHandle<Result<ForwardCounts, ForwardError>>,
}

impl Background {
    pub(crate) fn start(dir: &Path, options: &CassandraOptions) -> Self {
        let (stop, counters) = (Arc::new(AtomicBool::new(false)), ForwardCounters::default());
        let store = CassandraStore::new(options.clone()).expect("a store");
        let forwarder = Forwarder::open(dir, ForwardOptions::default(), store, counters.clone()).expect("a forwarder");
        let is_stopping = Arc::clone(&stop);
        // at the end everything must have been forwarded
        let run = move || {
            let ended = forwarder.run(|| false, || is_stopping.load(Ordering::Relaxed), Duration::from_mins(5));
            // for who waits for rows, and learns only that there is nobody who forwards them
            ended.inspect_err(|error| eprintln!("the forwarder has ended: {error}"))
        };
        Self { stop, counters, thread: std::thread::spawn(run) }
    }

    /// Waits until so many rows were acknowledged.
    pub(crate) fn wait_for(&self, rows: u64) {
        let began = std::time::Instant::now();
        while self.counters.read().rows_forwarded < rows {
            assert!(!self.thread.is_finished(), "the forwarder has ended");
            assert!(began.elapsed() < Duration::from_mins(10), "{:?}", self.counters.read());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends when everything is forwarded.
    pub(crate) fn end(self) -> ForwardCounts {
        self.stop.store(true, Ordering::Relaxed);
        self.ended().expect("forwarded")
    }

    /// How it ends by itself.
    pub(crate) fn ended(self) -> Result<ForwardCounts, ForwardError> {
        self.thread.join().expect("no panic")
    }
}

/// Runs a statement of an administrator.
pub(crate) fn administer(options: &CassandraOptions, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let session = SessionBuilder::new().known_nodes(&options.to.hosts).build().await.expect("a session");
        session.query_unpaged(statement, ()).await.expect("an answer");
    });
}

/// Reading back may take the time that it takes.
pub(crate) fn patient(options: &CassandraOptions) -> CassandraOptions {
    let mut patient = options.clone();
    patient.connection.request_timeout = weir_chain::TimeSpan::from_secs(120);
    patient
}

/// Everything that a keyspace has of a range.
pub(crate) fn read(
    options: &CassandraOptions,
    range: ScanRange,
    columns: Option<&[Column]>,
    predicates: &[Predicate],
) -> Vec<FlowBatch> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let reader = CassandraReader::connect(patient(options)).await.expect("a reader").with_limits(4, 1000);
        let batches = reader.scan(range, columns, predicates).await.expect("a scan");
        batches.try_collect().await.expect("batches")
    })
}

/// All export packets of a keyspace.
pub(crate) fn read_packets(options: &CassandraOptions) -> Vec<ExportPacket> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let reader = CassandraReader::connect(patient(options)).await.expect("a reader");
        reader.packets(i64::MIN..i64::MAX).await.expect("packets").try_collect().await.expect("packets")
    })
}

/// The numbers in `FlowId` of all flows of a keyspace, in order.
pub(crate) fn numbers(options: &CassandraOptions) -> Vec<u64> {
    let batches = read(options, i64::MIN..i64::MAX, Some(&[Column::FlowId]), &[]);
    let values = batches.iter().filter_map(|batch| batch.primitive::<arrow::datatypes::UInt64Type>(Column::FlowId));
    let mut numbers: Vec<u64> = values.flat_map(|values| values.values().to_vec()).collect();
    numbers.sort_unstable();
    numbers
}

/// Asserts that a keyspace has the flows with these numbers, each once.
pub(crate) fn assert_each_once(options: &CassandraOptions, rows: u64) {
    let mut found = numbers(options);
    let stored = found.len() as u64;
    found.dedup();
    let missing: Vec<_> = (0..rows).filter(|number| found.binary_search(number).is_err()).collect();
    let twice = stored - found.len() as u64;
    assert!(
        missing.is_empty() && twice == 0,
        "{} missing of {rows}, {twice} twice: {:?}",
        missing.len(),
        missing.first()
    );
}

/// Rows as text, in the order of the text: what two sets of batches are compared by.
pub(crate) fn rows<'b>(batches: impl IntoIterator<Item = &'b FlowBatch>) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let full: RecordBatch = batch.to_full();
        let options = FormatOptions::new().with_null("null");
        // times as numbers, for which no calendar is needed
        let plain = |column: &ArrayRef| match column.data_type() {
            DataType::Timestamp(..) => cast(column, &DataType::Int64).expect("a number"),
            _ => Arc::clone(column),
        };
        let columns: Vec<_> = full.columns().iter().map(plain).collect();
        let columns: Vec<_> =
            columns.iter().map(|column| ArrayFormatter::try_new(column, &options).expect("a format")).collect();
        for row in 0..full.num_rows() {
            let values = columns.iter().zip(full.schema_ref().fields()).zip(full.columns());
            let values = values.filter(|(_, column)| column.is_valid(row));
            let text = values.map(|((value, field), _)| format!("{}={}", field.name(), value.value(row)));
            rows.push(text.collect::<Vec<_>>().join(" "));
        }
    }
    rows.sort_unstable();
    rows
}
