//! Any number of workers gives the same flows, and every packet is accounted for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use arrow::array::RecordBatch;
use arrow::row::{RowConverter, SortField};
use weir_capture::{FillOutcome, PacketBlock};
use weir_flow::{Column, FlowBatch};
use weir_meter::{FastTimeout, KeyFields, MeterOptions, NotFlow, Timeouts};

use crate::captures::captures;
use crate::metered::{Metered, meter};
use crate::source::{Small, capture};

/// Active, idle, fast (with the most packets) and closed timeouts.
type TimeoutsMs = (i64, i64, Option<(i64, u64)>, i64);

/// In milliseconds: the usual ones, short ones, a fast one, and ones so short
/// that most packets begin a flow.
pub(crate) const TIMEOUTS_MS: [TimeoutsMs; 4] =
    [(1_800_000, 15_000, None, 2_000), (2_000, 500, None, 100), (60_000, 5_000, Some((1_000, 3)), 0), (20, 5, None, 1)];

/// Packets of a block.
const SMALL: usize = 5;

fn timeouts((active, idle, fast, closed): TimeoutsMs) -> Timeouts {
    Timeouts {
        active_us: active * 1_000,
        idle_us: idle * 1_000,
        fast: fast.map(|(idle, packets_max)| FastTimeout { idle_us: idle * 1_000, packets_max }),
        closed_us: closed * 1_000,
    }
}

/// Packets of a capture, octets of their frames, and whether they are in the order of their times.
struct Read {
    packets: u64,
    octets: u64,
    in_order: bool,
}

fn read(path: &Path) -> Read {
    let (mut source, mut block) = (capture(path), PacketBlock::default());
    let (mut read, mut last_us) = (Read { packets: 0, octets: 0, in_order: true }, i64::MIN);
    while source.fill(&mut block).expect("a block") == FillOutcome::Packets {
        for packet in block.packets() {
            read.packets += 1;
            read.octets += u64::from(packet.length);
            read.in_order &= packet.time_us >= last_us;
            last_us = packet.time_us;
        }
    }
    read
}

/// How often each flow occurs, all columns but when it was told: whoever looks earlier tells earlier.
fn set(batches: &[FlowBatch]) -> BTreeMap<Vec<u8>, usize> {
    let mut set = BTreeMap::new();
    for batch in batches {
        let full = batch.to_full();
        let columns: Vec<_> = full.columns().iter().skip(Column::Received as usize + 1).cloned().collect();
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let converter = RowConverter::new(fields).expect("columns that can be ordered");
        for row in &converter.convert_columns(&columns).expect("rows") {
            *set.entry(row.as_ref().to_vec()).or_insert(0) += 1;
        }
    }
    set
}

/// A flow that the one has and the other has not, as text.
fn first_difference(one: &[FlowBatch], other: &[FlowBatch]) -> String {
    let lines = |batches: &[FlowBatch]| -> Vec<String> {
        let mut lines: Vec<_> = batches.iter().flat_map(|batch| lines(batch.record_batch())).collect();
        lines.sort();
        lines
    };
    let (one, other) = (lines(one), lines(other));
    let only = |these: &[String], those: &[String]| {
        these.iter().filter(|line| those.binary_search(line).is_err()).take(3).cloned().collect::<Vec<_>>().join("\n  ")
    };
    format!("{} and {} flows\n  {}\nand\n  {}", one.len(), other.len(), only(&one, &other), only(&other, &one))
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let schema = batch.schema();
    let value = |row: usize| {
        let cells = batch.columns().iter().zip(schema.fields()).skip(1).map(|(column, field)| {
            let value = column.slice(row, 1);
            format!("{}={}", field.name(), format!("{value:?}").replace('\n', "").replace("  ", ""))
        });
        cells.collect::<Vec<_>>().join(" ")
    };
    (0..batch.num_rows()).map(value).collect()
}

/// Complains when a packet is not accounted for.
fn sums(read: &Read, metered: &Metered, options: &MeterOptions, complaints: &mut Vec<String>) {
    let counts = &metered.counts;
    let mut expect = |what: &str, found: u64, expected: u64| {
        if found != expected {
            complaints.push(format!("{what} {found}, expected {expected}"));
        }
    };
    let sum = |column| metered.batches.iter().map(|batch| batch.sum(column)).sum::<u64>();
    let rows: usize = metered.batches.iter().map(FlowBatch::rows).sum();
    expect("balance", counts.balances().into(), 1);
    expect("packets", counts.packets, read.packets);
    expect("octets of frames", counts.octets, read.octets);
    expect("packets in rows", sum(Column::Packets) + sum(Column::PacketsReverse), counts.packets_in_flows);
    expect("rows", rows as u64, counts.flows_ended);
    expect("flows begun", counts.flows_begun, counts.flows_ended);
    expect("fragments held", counts.fragments_held, 0);
    expect("flows evicted", counts.flows_evicted, 0);
    if !options.is_biflow {
        expect("packets of the other direction", sum(Column::PacketsReverse), 0);
    }
}

/// Meters a capture in every way; returns how many flows there were, and what is wrong.
fn check(path: &Path, outcome: &mut Outcome) -> (usize, Vec<String>) {
    let read = read(path);
    outcome.packets += read.packets;
    let (mut flows, mut complaints) = (0, Vec::new());
    for (number, parts) in TIMEOUTS_MS.into_iter().enumerate() {
        for (is_biflow, has_endpoints) in [(false, false), (true, false), (false, true), (true, true)] {
            // both ways together, so that the identifier of the tunnel shares its place in the key with the ends
            let fields = KeyFields { tunnel: has_endpoints, tunnel_endpoints: has_endpoints, ..KeyFields::default() };
            if has_endpoints && number > 1 {
                continue;
            }
            let options = MeterOptions {
                fields,
                is_biflow,
                timeouts: timeouts(parts),
                flows_max: 1 << 18,
                seed: number as u64,
                ..MeterOptions::default()
            };
            let whole = meter(capture(path), &options, 1);
            let small = |workers| meter(Box::new(Small::new(capture(path), SMALL)), &options, workers);
            let others = [(1, small(1)), (2, small(2)), (4, small(4))];
            let expected = set(&others[0].1.batches);
            flows += expected.len();
            let mut of_this = Vec::new();
            if number == 0 && is_biflow && !has_endpoints {
                outcome.not_flows.iter_mut().zip(whole.counts.not_flows).for_each(|(sum, count)| *sum += count);
            }
            sums(&read, &whole, &options, &mut of_this);
            for (workers, metered) in &others {
                sums(&read, metered, &options, &mut of_this);
                if set(&metered.batches) != expected {
                    let difference = first_difference(&others[0].1.batches, &metered.batches);
                    of_this.push(format!("{workers} workers: {difference}"));
                }
            }
            // packets that go back in time may find that their flow is over, or not, by how far the others were read
            if read.in_order && set(&whole.batches) != expected {
                of_this.push(format!("blocks: {}", first_difference(&whole.batches, &others[0].1.batches)));
            }
            complaints.extend(
                of_this
                    .into_iter()
                    .map(|line| format!("timeouts {parts:?}, biflow {is_biflow}, endpoints {has_endpoints}: {line}")),
            );
        }
    }
    (flows, complaints)
}

/// What came of metering every capture.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) captures: usize,
    pub(crate) captures_with_flows: usize,
    pub(crate) packets: u64,
    /// Packets in no flow, by the reasons of the meter.
    pub(crate) not_flows: [u64; NotFlow::COUNT],
    pub(crate) flows: usize,
    pub(crate) complaints: Vec<String>,
}

impl Outcome {
    pub(crate) fn check(&self) {
        let (captures, flows) = (self.captures_with_flows, self.flows);
        println!("{captures} captures with flows, {flows} flows");
        assert!(self.complaints.is_empty(), "{} wrong\n{}", self.complaints.len(), self.complaints.join("\n"));
        assert!(captures > 50 && flows > 10_000, "{captures} captures with flows, {flows} flows");
    }
}

/// Meters every capture; made once.
pub(crate) fn outcome(corpus: &Path) -> &'static Outcome {
    static OUTCOME: OnceLock<Outcome> = OnceLock::new();
    OUTCOME.get_or_init(|| {
        let mut outcome = Outcome::default();
        for path in captures(corpus) {
            let (flows, wrong) = check(&corpus.join(&path), &mut outcome);
            outcome.captures += 1;
            outcome.flows += flows;
            outcome.captures_with_flows += usize::from(flows > 0);
            outcome.complaints.extend(wrong.into_iter().take(2).map(|line| format!("{}: {line}", path.display())));
        }
        outcome
    })
}
