//! How long groupings take and how much memory: `grouping make ARCHIVE FLOWS` writes generated flows,
//! `grouping ask ARCHIVE ROUNDS LIMIT_MB QUESTION [FILTER]` asks one of the questions below within a limit of memory.
//! Prints the rows of the answer and a number that depends on every row of it but not on their order, the best and the
//! median wall time, the mean processor time, and the peaks of the pool and of the process. Answers go nowhere.

use std::path::Path;
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery};
use weir_generate::TrafficModel;
use weir_query::{AggregateKey, Archive, FlowQuery, MemoryPool, Order, QueryOptions, Select, Sorting, TimeWindow};

// what the program has
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const QUESTIONS: [&str; 8] = ["src", "pair", "dst-port", "tuple", "sorted-src", "sorted-tuple", "top-src", "top-tuple"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["make", folder, flows] => make(Path::new(folder), flows.parse()?),
        ["ask", folder, rounds, limit_mb, what, ref filter @ ..] => {
            ask(Path::new(folder), rounds.parse()?, limit_mb.parse()?, what, &filter.join(" "))
        }
        _ => Err(format!("usage: grouping make ARCHIVE FLOWS, or grouping ask ARCHIVE ROUNDS LIMIT_MB QUESTION [FILTER], where a question is one of {}", QUESTIONS.join(", ")).into()),
    }
}

fn make(folder: &Path, flows: u64) -> Result<(), Box<dyn std::error::Error>> {
    let options = ArchiveOptions { summaries_when_sealing: true, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(folder, options)?;
    let mut model = TrafficModel::new(7);
    (model.received, model.hosts) = (true, 1 << 20);
    for batch in model.flows(flows)? {
        writer.append(Delivery::from(batch))?;
    }
    writer.close()?;
    Ok(())
}

fn select(what: &str) -> Result<Select, Box<dyn std::error::Error>> {
    let columns = |columns: &[Column]| columns.iter().copied().map(AggregateKey::Column).collect();
    let (sorting, limit) = match what.split_once('-') {
        Some(("sorted", _)) => (Some(Sorting::usual(Order::Bytes)), None),
        Some(("top", _)) => (Some(Sorting::usual(Order::Bytes)), Some(10)),
        Some(("first", _)) => (None, Some(10)),
        _ => (None, None),
    };
    let keys = match what.trim_start_matches("sorted-").trim_start_matches("first-").trim_start_matches("top-") {
        "src" => columns(&[Column::SrcAddr]),
        "pair" => columns(&[Column::SrcAddr, Column::DstAddr]),
        "dst-port" => columns(&[Column::Protocol, Column::DstPort]),
        "tuple" => Vec::new(),
        other => return Err(format!("no question '{other}'").into()),
    };
    Ok(Select::Aggregate { keys, more: Vec::new(), sorting, limit })
}

fn ask(
    folder: &Path,
    rounds: usize,
    limit_mb: usize,
    what: &str,
    filter: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let filter = weir_filter::parse(filter)?;
    let question = FlowQuery { filter, window: TimeWindow::default(), select: select(what)?, scaled: false };
    let mut times = Vec::new();
    let processor_before_ms = processor_ms()?;
    let (mut rows, mut sum, mut peak) = (0, 0, 0);
    for _ in 0..rounds {
        let memory = MemoryPool::new(limit_mb << 20);
        // rollups answer some of these without grouping
        let options = QueryOptions { memory: memory.clone(), summaries: false, ..QueryOptions::default() };
        let began = Instant::now();
        let archive = Archive::open(folder, options)?;
        (rows, sum) = (0, 0);
        for batch in archive.ask(&question)? {
            let batch = batch?;
            rows += batch.num_rows();
            sum = checksum(&batch, sum);
        }
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        peak = memory.peak_bytes();
    }
    times.sort_unstable_by(f64::total_cmp);
    let resident = std::fs::read_to_string("/proc/self/status")?;
    let resident = resident.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("?").trim();
    println!(
        "{what} {rows} rows, sum {sum:016x}: best {:.1} ms, median {:.1} ms, processor {:.0} ms; pool {} MiB, process {resident}",
        times[0],
        times[times.len() / 2],
        (processor_ms()? - processor_before_ms) / rounds as f64,
        peak >> 20
    );
    Ok(())
}

/// Processor time of this process, of all its threads, in milliseconds: it ticks every 10 ms.
fn processor_ms() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let times = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Ok(times.map(str::parse::<f64>).sum::<Result<f64, _>>()? * 10.0)
}

/// A number of all counters of all rows, whatever their order.
fn checksum(batch: &RecordBatch, mut sum: u64) -> u64 {
    for name in ["flows", "packets", "bytes"] {
        let Some(values) = batch.column_by_name(name) else { continue };
        let values = values.as_primitive::<UInt64Type>();
        sum = values.iter().flatten().fold(sum, |sum, value| sum.wrapping_add(value.wrapping_mul(value | 1)));
        sum = sum.wrapping_add(values.null_count() as u64);
    }
    sum
}
