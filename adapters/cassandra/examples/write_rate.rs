//! How many flows a second a cluster takes, and what each costs: `write_rate URL ROWS [PID OF THE SERVER]`.
//!
//! Flows of the generator, received now, go from memory to the store, with keys as a forwarder makes them; then all of them
//! are read back and counted. Times of the processor are those of `/proc`.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow::array::TimestampMillisecondArray;
use futures::TryStreamExt;
use weir_archive::{FollowPosition, Position};
use weir_cassandra::options::Model;
use weir_cassandra::{CassandraOptions, CassandraReader, CassandraStore, CassandraUrl};
use weir_chain::OptionText;
use weir_flow::{Column, FlowBatch};
use weir_forward::identity::row_keys;
use weir_forward::{ForwardDelivery, ForwardStore};
use weir_generate::TrafficModel;

/// Rows that were handed over and not acknowledged, at most.
const IN_FLIGHT_MAX: u64 = 65_536;
/// Deliveries that are made before anything is measured, and then used in turn.
const DELIVERIES: usize = 64;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rows, rest @ ..] = &arguments[..] else { panic!("usage: write_rate URL ROWS [PID]") };
    let options = CassandraUrl::parse_text(url).and_then(|url| url.options()).expect("an address");
    let rows: u64 = rows.replace('_', "").parse().expect("a number of rows");
    let pid = rest.first().cloned();
    let batches = batches();
    let columns = batches[0].record_batch().num_columns();
    let mut store = CassandraStore::new(options.clone()).expect("a store");
    store.connect().expect("a cluster");
    let origin = now_ms();
    let server = || pid.as_deref().map_or(0.0, cpu_secs);
    let (began, client_before, server_before) = (Instant::now(), cpu_secs("self"), server());
    let stored = write(&mut store, &batches, rows, origin);
    let secs = began.elapsed().as_secs_f64();
    let per_row = 1e6 / stored as f64;
    println!(
        "wrote {stored} of {rows} rows of {columns} columns in {secs:.1} s: {:.0} rows/s, client {:.2} us/row, server {:.2} us/row",
        stored as f64 / secs,
        (cpu_secs("self") - client_before) * per_row,
        (server() - server_before) * per_row,
    );
    if options.model == Model::Flows {
        read(&options, origin, server);
    }
}

fn batches() -> Vec<FlowBatch> {
    let model = TrafficModel { received: true, flows_per_second: 50_000, ..TrafficModel::new(7) };
    let mut flows = model.flows(u64::MAX).expect("flows");
    (0..DELIVERIES).map(|_| flows.next_batch(8192).expect("a batch")).collect()
}

fn write(store: &mut CassandraStore, batches: &[FlowBatch], rows: u64, origin: i64) -> u64 {
    let (mut begun, mut stored, mut in_flight) = (0, 0, 0);
    while stored < rows {
        while begun < rows && in_flight < IN_FLIGHT_MAX {
            let number = begun / 8192;
            let flows = received_now(&batches[number as usize % DELIVERIES]);
            let position = FollowPosition { epoch: 1, position: Position::new(number) };
            let row_keys = row_keys(position, &flows).into();
            (begun, in_flight) = (begun + flows.rows() as u64, in_flight + flows.rows() as u64);
            store.begin(ForwardDelivery { position, flows, origin, row_keys });
        }
        for outcome in store.ended(Duration::from_secs(1)) {
            let rows = outcome.result.expect("stored");
            (stored, in_flight) = (stored + rows.stored, in_flight - rows.stored - rows.refused);
        }
    }
    stored
}

fn received_now(flows: &FlowBatch) -> FlowBatch {
    let now: TimestampMillisecondArray = vec![now_ms(); flows.rows()].into();
    let columns = Column::ALL.iter().filter_map(|column| Some((*column, Arc::clone(flows.column(*column)?))));
    let received = |(column, values)| match column {
        Column::Received => (column, Arc::new(now.clone().with_timezone("UTC")) as _),
        _ => (column, values),
    };
    FlowBatch::from_columns(flows.rows(), columns.map(received).collect()).expect("flows")
}

fn read(options: &CassandraOptions, from_ms: i64, server: impl Fn() -> f64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (began, client_before, server_before) = (Instant::now(), cpu_secs("self"), server());
    let rows: usize = runtime.block_on(async {
        let reader = CassandraReader::connect(options.clone()).await.expect("a reader");
        let batches = reader.scan(from_ms..i64::MAX, None, &[]).await.expect("a scan");
        batches.try_fold(0, |rows, batch| std::future::ready(Ok(rows + batch.rows()))).await.expect("batches")
    });
    let (secs, per_row) = (began.elapsed().as_secs_f64(), 1e6 / rows as f64);
    println!(
        "read {rows} rows in {secs:.1} s: {:.0} rows/s, client {:.2} us/row, server {:.2} us/row",
        rows as f64 / secs,
        (cpu_secs("self") - client_before) * per_row,
        (server() - server_before) * per_row,
    );
}

fn now_ms() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as i64
}

/// Time that a process has spent on processors, in seconds; ticks of Linux are hundredths.
fn cpu_secs(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let (_, rest) = text.rsplit_once(')').expect("a name");
    let fields: Vec<f64> = rest.split(' ').skip(12).take(2).map(|field| field.parse().expect("ticks")).collect();
    fields.iter().sum::<f64>() / 100.0
}
