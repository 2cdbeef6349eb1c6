//! Readers: questions of all kinds, over snapshots of one handle that several threads share.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{UInt16Type, UInt64Type};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_archive::{ArchiveHandle, HandleOptions};
use weir_flow::Column;
use weir_query::{AggregateKey, Archive, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey, TimeWindow};

use crate::checks::check_all;
use crate::children::say;
use crate::traffic::{DELIVERY_MS, Flow, HOSTS, KEPT, ROWS, flows, time_of};

const THREADS: u64 = 5;
const DELIVERIES_PER_MINUTE: u64 = 60_000 / DELIVERY_MS as u64;

/// Asks until it is killed.
pub(crate) fn run(dir: &Path, seed: u64) {
    let handle = ArchiveHandle::open(dir, &HandleOptions { cache_octets_max: 4 << 20 }).expect("a handle");
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (handle, random) = (handle.clone(), Xoshiro256PlusPlus::seed_from_u64(seed ^ (number << 40)));
            scope.spawn(move || ask_forever(&handle, random));
        }
    });
}

fn ask_forever(handle: &ArchiveHandle, mut random: Xoshiro256PlusPlus) {
    let mut newest = 0;
    loop {
        let snapshot = handle.snapshot().expect("a snapshot");
        let position = snapshot.position().get();
        assert!(position >= newest, "delivery {newest} was there, and now {position} is the newest");
        newest = position;
        let options = QueryOptions { threads: 2, ..QueryOptions::default() };
        let reader = Reader { archive: Archive::at(snapshot, options), window: window(&mut random, newest) };
        match random.next_u64() % 16 {
            0..4 => reader.ports(),
            4..8 => reader.host((random.next_u64() % HOSTS * 3) as u32 + 0x0a00_0000),
            8..11 => reader.network((random.next_u64() % 16) as u32),
            11..13 => reader.top_sources(),
            13..15 => reader.books(),
            _ => check_all(reader.archive.snapshot()),
        }
        say("answers", 1);
    }
}

/// Deliveries of some whole minutes that are still there.
fn window(random: &mut Xoshiro256PlusPlus, newest: u64) -> std::ops::Range<u64> {
    let first = (newest.saturating_sub(KEPT) + 1).next_multiple_of(DELIVERIES_PER_MINUTE);
    let minutes = (newest + 1).saturating_sub(first) / DELIVERIES_PER_MINUTE;
    let from = random.next_u64() % minutes.max(1);
    let until = from + random.next_u64() % (minutes.saturating_sub(from) + 1);
    first + from * DELIVERIES_PER_MINUTE..first + until.min(minutes) * DELIVERIES_PER_MINUTE
}

struct Reader {
    archive: Archive,
    /// The deliveries that are asked about.
    window: std::ops::Range<u64>,
}

impl Reader {
    fn truth(&self, passes: impl Fn(&Flow) -> bool) -> Vec<Flow> {
        flows(self.window.clone()).filter(|flow| passes(flow)).collect()
    }

    fn time(&self) -> TimeWindow {
        let (from_ms, until_ms) = (Some(time_of(self.window.start)), Some(time_of(self.window.end) - 1));
        TimeWindow { from_ms, until_ms, ..TimeWindow::default() }
    }

    fn ask(&self, filter: &str, select: Select) -> Vec<RecordBatch> {
        let filter = weir_filter::parse(filter).expect("a filter");
        let question = FlowQuery { filter, window: self.time(), select, scaled: false };
        let answer = self.archive.ask(&question).expect("asked");
        answer.map(|batch| batch.expect("an answer")).collect()
    }

    fn listed(&self, filter: &str, passes: impl Fn(&Flow) -> bool) {
        let columns = vec![Column::FlowId, Column::Bytes, Column::DstPort];
        let batches = self.ask(filter, Select::List { columns, sorting: None, limit: None });
        let mut found: Vec<(u64, u64, u16)> = Vec::new();
        for batch in &batches {
            let numbers = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
            let ports = batch.column(2).as_primitive::<UInt16Type>().values().to_vec();
            found.extend(numbers(0).into_iter().zip(numbers(1)).zip(ports).map(|((n, bytes), port)| (n, bytes, port)));
        }
        found.sort_unstable();
        let truth: Vec<_> = self.truth(passes).iter().map(|flow| (flow.number, flow.bytes, flow.port)).collect();
        assert_eq!(found, truth, "'{filter}' of deliveries {:?}", self.window);
    }

    fn host(&self, host: u32) {
        let address = std::net::Ipv4Addr::from(host);
        self.listed(&format!("src host {address}"), |flow| flow.src == host);
    }

    fn network(&self, number: u32) {
        let net = 0xc0a8_0000 | number << 8;
        let filter = format!("dst net {}/24 and dst port 53", std::net::Ipv4Addr::from(net));
        self.listed(&filter, |flow| flow.dst >> 8 == net >> 8 && flow.port == 53);
    }

    /// Groups: flows, packets and bytes of each port.
    fn ports(&self) {
        let keys = vec![AggregateKey::Column(Column::DstPort)];
        let batches = self.ask("any", Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None });
        let mut found = BTreeMap::new();
        for batch in &batches {
            let sums = |name| batch.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().clone();
            let (flows, packets, bytes) = (sums("flows"), sums("packets"), sums("bytes"));
            for (row, port) in batch.column(0).as_primitive::<UInt16Type>().values().iter().enumerate() {
                let sums = (flows.value(row), packets.value(row), bytes.value(row));
                assert!(found.insert(*port, sums).is_none(), "port {port} twice");
            }
        }
        let mut truth: BTreeMap<u16, (u64, u64, u64)> = BTreeMap::new();
        for flow in self.truth(|_| true) {
            let sums = truth.entry(flow.port).or_default();
            *sums = (sums.0 + 1, sums.1 + flow.packets, sums.2 + flow.bytes);
        }
        assert_eq!(found, truth, "deliveries {:?}", self.window);
    }

    fn top_sources(&self) {
        let key = StatisticKey::parse("srcip").expect("a key");
        let sorting = Sorting::usual(Order::Bytes);
        let batches = self.ask("any", Select::Statistic { key, per_protocol: false, sorting, limit: Some(10) });
        let mut found: Vec<(u64, u32)> = Vec::new();
        for batch in &batches {
            let bytes = batch.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>();
            let hosts = batch.column_by_name("src_addr").expect("hosts").as_binary::<i32>();
            let number = |host: Option<&[u8]>| u32::from_be_bytes(host.expect("one").try_into().expect("IPv4"));
            found.extend(bytes.values().iter().copied().zip(hosts.iter().map(number)));
        }
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        for flow in self.truth(|_| true) {
            *sums.entry(flow.src).or_default() += flow.bytes;
        }
        let mut truth: Vec<(u64, u32)> = sums.iter().map(|(host, bytes)| (*bytes, *host)).collect();
        truth.sort_unstable_by(|a, b| b.cmp(a));
        truth.truncate(10);
        // hosts of equal bytes are in an order of their own
        found.sort_unstable_by(|a, b| b.cmp(a));
        let bytes = |ranks: &[(u64, u32)]| ranks.iter().map(|rank| rank.0).collect::<Vec<_>>();
        assert_eq!(bytes(&found), bytes(&truth), "deliveries {:?}", self.window);
        for (bytes, host) in found {
            assert_eq!(sums.get(&host), Some(&bytes), "host {host:#x} of deliveries {:?}", self.window);
        }
    }

    fn books(&self) {
        let found = self.archive.completeness(&self.time()).expect("the books").stored;
        let deliveries = self.window.end - self.window.start;
        assert_eq!(found, deliveries * ROWS, "books of deliveries {:?}", self.window);
    }
}
