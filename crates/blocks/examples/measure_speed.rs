//! How long the transforms that filter, sample, count and sum take for a row.
//!
//! `cargo run --release -p weir-blocks --example measure_speed [rows] [text]` makes flows, puts them through one transform
//! after the other in this thread (those whose description has the text), and prints the best of five runs, to the last
//! row handed on. What it measures is the transform alone: no queue, no reader, no sink. Time is that which the thread spent
//! on a processor, where the system reports it (Linux), so that other work on the machine disturbs it less.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use arrow::array::RecordBatch;
use weir_blocks::registry;
use weir_chain::{Built, ComponentContext, Given, Outlet, Transform};
use weir_generate::TrafficModel;

/// Rows in a burst.
const BURST_ROWS: usize = 8192;

/// Time that this thread has spent on a processor, or the time of day.
enum Clock {
    Processor(f64),
    Wall(Instant),
}

impl Clock {
    fn now() -> Self {
        processor_ns().map_or_else(|| Self::Wall(Instant::now()), Self::Processor)
    }

    fn elapsed_ns(&self) -> f64 {
        match self {
            Self::Processor(begin_ns) => processor_ns().unwrap_or_default() - begin_ns,
            Self::Wall(begin) => begin.elapsed().as_secs_f64() * 1e9,
        }
    }
}

/// The first number of `schedstat` in `/proc` (Linux, `sched-stats.rst`).
fn processor_ns() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// What is measured: a kind of transform and its options.
const CASES: &[(&str, &str)] = &[
    ("statistic", "of = ['packets', 'bytes', 'src_port']\nwindow = 0\nquantiles = []"),
    ("statistic", "of = ['packets', 'bytes', 'src_port']\nwindow = 0"),
    ("statistic", "of = ['packets', 'bytes', 'src_port']\nwindow = '60s'\nlateness = '60s'\nhistogram = 'log2'"),
    ("statistic", "of = ['packets', 'bytes', 'src_port']\nkeys = ['dst_port']\nwindow = '60s'\nlateness = '60s'"),
    ("aggregate", "keys = []\nwindow = 0"),
    ("aggregate", "keys = ['src_addr']\nwindow = 0"),
    ("aggregate", "keys = ['src_addr/16']\nwindow = 0"),
    ("aggregate", "keys = ['src_addr']\nwindow = '60s'\nlateness = '60s'"),
    ("aggregate", "keys = ['src_addr/24', 'dst_addr/24', 'protocol']\nwindow = '60s'\nlateness = '60s'"),
    (
        "aggregate",
        "keys = ['src_addr', 'dst_addr', 'src_port', 'dst_port', 'protocol']\nwindow = 0\ngroups_max = 500000",
    ),
    ("topn", "keys = ['src_addr']\nwindow = '60s'\nlateness = '60s'"),
    ("filter", "filter = 'dst port 443'"),
    ("filter", "filter = 'proto tcp and bytes > 1000'"),
    ("filter", "filter = 'src net 10.0.0.0/8 or dst port 53'"),
    ("filter", "filter = 'packets > 1'"),
    ("sample", "one_in = 100"),
    ("sample", "one_in = 100\nmethod = 'random'"),
    ("sample", "one_in = 100\nmethod = 'flow'"),
    ("template", ""),
];

fn main() -> Result<(), Box<dyn Error>> {
    let rows: u64 = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    let mut flows = TrafficModel::new(1).flows(rows)?;
    let bursts: Vec<RecordBatch> =
        std::iter::from_fn(|| flows.next_batch(BURST_ROWS)).map(|flows| flows.record_batch().clone()).collect();
    println!("{rows} flows in bursts of {BURST_ROWS}\n");
    println!("{:>9} {:>10}  block", "ns a row", "rows out");
    let text = std::env::args().nth(2).unwrap_or_default();
    for (name, options) in CASES {
        let description = format!("{name}: {}", options.replace('\n', ", "));
        if !description.contains(&text) {
            continue;
        }
        let mut best = f64::INFINITY;
        let mut rows_out = 0;
        for _ in 0..5 {
            let mut block = open(name, options)?;
            let begin = Clock::now();
            rows_out = run(block.as_mut(), &bursts)?;
            best = best.min(begin.elapsed_ns());
        }
        println!("{:>9.1} {rows_out:>10}  {description}", best / rows as f64);
    }
    Ok(())
}

fn open(name: &str, options: &str) -> Result<Box<dyn Transform>, Box<dyn Error>> {
    let registry = registry();
    let kind = registry.get(name).ok_or("no such kind of component")?;
    let given = Given::from_table(options.parse()?, Path::new("."));
    let opener = kind.configure(&given).map_err(|error| error.message)?;
    match opener(&ComponentContext::default())? {
        Built::Transform(block) => Ok(block),
        _ => Err("no transform".into()),
    }
}

fn run(block: &mut dyn Transform, bursts: &[RecordBatch]) -> Result<usize, Box<dyn Error>> {
    let mut out = Outlet::new();
    let mut rows = 0;
    for burst in bursts {
        block.take(0, burst.clone(), &mut out)?;
        rows += out.drain().map(|burst| burst.len()).sum::<usize>();
    }
    block.finish(&mut out)?;
    Ok(rows + out.drain().map(|burst| burst.len()).sum::<usize>())
}
