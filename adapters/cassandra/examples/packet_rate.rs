//! Export packets at a steady rate through an archive into a cluster: `packet_rate URL PACKETS_A_SECOND SECONDS [PID]`.
//!
//! As the paper counts: packets of 30 flows that were handed over, and those stored in the same time. Then what is left is
//! stored too. With a rate of 0 the archive alone is measured: what handing a flow over costs.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arrow::array::TimestampMillisecondArray;
use weir_archive::{ArchiveOptions, Writer};
use weir_cassandra::{CassandraStore, CassandraUrl};
use weir_chain::OptionText;
use weir_flow::{Column, Delivery, FlowBatch};
use weir_forward::{ForwardOptions, ForwardThread};
use weir_generate::{Flows, TrafficModel};

/// Flows of a packet, as Open vSwitch sends them in the paper.
const PACKET_FLOWS: u64 = 30;
/// Deliveries a second.
const DELIVERIES: u64 = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, rate, secs, rest @ ..] = &arguments[..] else { panic!("usage: packet_rate URL PACKETS SECONDS [PID]") };
    let (rate, secs): (u64, u64) = (rate.parse().expect("a rate"), secs.parse().expect("a time"));
    let server = || rest.first().map_or(0.0, |pid| cpu_secs(pid));
    let dir = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
    let model = TrafficModel { received: true, flows_per_second: 50_000, ..TrafficModel::new(7) };
    let mut flows = model.flows(u64::MAX).expect("flows");
    if rate == 0 {
        return append_only(&mut writer, &mut flows, secs);
    }
    let options = CassandraUrl::parse_text(url).and_then(|url| url.options()).expect("an address");
    let store = CassandraStore::new(options).expect("a store");
    store.connect().expect("a cluster");
    let forwarding = ForwardThread::start(dir.path(), ForwardOptions::default(), store).expect("a forwarder");
    let (began, client_before, server_before) = (Instant::now(), cpu_secs("self"), server());
    let mut handed_over = 0;
    for delivery in 1..=secs * DELIVERIES {
        let due = rate * delivery / DELIVERIES * PACKET_FLOWS - handed_over;
        let rows = flows.next_batch(due as usize).expect("flows");
        writer.append(Delivery::from(received_now(&rows))).expect("appended");
        handed_over += due;
        let next = began + Duration::from_secs(delivery) / DELIVERIES as u32;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let (took, stored) = (began.elapsed().as_secs_f64(), forwarding.counts().rows_forwarded);
    let counts = forwarding.end(|| false).expect("stored");
    let packets = |rows: u64| rows as f64 / PACKET_FLOWS as f64;
    println!(
        "{rate} packets/s for {took:.0} s: {:.0} packets/min handed over, {:.0} packets/min stored, {:.1} % stored in that time, \
         {:.1} % {:.1} s later; client {:.2} us/flow, server {:.2} us/flow",
        packets(handed_over) * 60.0 / took,
        packets(stored) * 60.0 / took,
        stored as f64 * 100.0 / handed_over as f64,
        counts.rows_forwarded as f64 * 100.0 / handed_over as f64,
        began.elapsed().as_secs_f64() - took,
        (cpu_secs("self") - client_before) * 1e6 / handed_over as f64,
        (server() - server_before) * 1e6 / handed_over as f64,
    );
    writer.close().expect("closed");
}

/// What handing flows over costs, without anything behind it.
fn append_only(writer: &mut Writer, flows: &mut Flows, secs: u64) {
    let batches: Vec<_> = (0..64).map(|_| flows.next_batch(8192).expect("flows")).collect();
    let (began, before, mut rows) = (Instant::now(), cpu_secs("self"), 0);
    for batch in batches.iter().cycle() {
        writer.append(Delivery::from(batch.clone())).expect("appended");
        rows += batch.rows() as u64;
        if began.elapsed() >= Duration::from_secs(secs) {
            break;
        }
    }
    let us = |secs: f64| secs * 1e6 / rows as f64;
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_secs("self") - before);
    println!("appended {rows} flows to an archive: {:.3} us/flow, of the processor {:.3} us/flow", us(took), us(cpu));
}

fn received_now(flows: &FlowBatch) -> FlowBatch {
    let now_ms = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as i64;
    let now: TimestampMillisecondArray = vec![now_ms; flows.rows()].into();
    let columns = Column::ALL.iter().filter_map(|column| Some((*column, Arc::clone(flows.column(*column)?))));
    let received = |(column, values)| match column {
        Column::Received => (column, Arc::new(now.clone().with_timezone("UTC")) as _),
        _ => (column, values),
    };
    FlowBatch::from_columns(flows.rows(), columns.map(received).collect()).expect("flows")
}

/// Time that a process has spent on processors, in seconds; ticks of Linux are hundredths.
fn cpu_secs(pid: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
    let (_, rest) = text.rsplit_once(')').expect("a name");
    let fields: Vec<f64> = rest.split(' ').skip(12).take(2).map(|field| field.parse().expect("ticks")).collect();
    fields.iter().sum::<f64>() / 100.0
}
