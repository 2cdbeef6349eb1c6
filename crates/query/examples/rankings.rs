//! Every ranking of an archive with summaries and without: `rankings ARCHIVE [LIMIT]`. Prints for each key and counter
//! the processor time of both ways and what the summaries left to do, and fails when answers differ.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_filter::Predicate;
use weir_query::{
    Archive, FlowQuery, Order, Progress, ProgressCounts, QueryError, QueryOptions, Select, Sorting, StatisticKey,
    TimeWindow,
};

/// How often a question is asked with summaries, because the clock of processor time ticks every 10 ms.
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (folder, limit) = match &arguments[..] {
        [_, folder] => (Path::new(folder), 10),
        [_, folder, limit] => (Path::new(folder), limit.parse()?),
        _ => return Err("usage: rankings ARCHIVE [LIMIT]".into()),
    };
    let keys = ["srcip", "dstip", "ip", "srcport", "dstport", "port", "proto", "srcas", "as", "inif", "if", "router"];
    let mut all_same = true;
    println!("{:<16} {:>8} {:>8}  ms of processor; summed up, looked up, left open", "ranking", "with", "without");
    for name in keys {
        for order in [Order::Flows, Order::Packets, Order::Bytes] {
            let key = StatisticKey::parse(name)?;
            let sorting = Sorting::usual(order);
            let select = Select::Statistic { key, per_protocol: false, sorting, limit: Some(limit) };
            let window = TimeWindow::default();
            let question = FlowQuery { filter: Predicate::True, window, select, scaled: false };
            let ((with, seen), with_ms) = timed(ROUNDS, || asked(folder, &question, true))?;
            let ((without, _), without_ms) = timed(1, || asked(folder, &question, false))?;
            let is_same = with == without;
            all_same &= is_same;
            println!(
                "{:<16} {with_ms:>8.1} {without_ms:>8.0}  {}, {}, {}{}",
                format!("{name}/{}", order.column_name()),
                seen.segments_summed,
                seen.keys_looked_up,
                seen.rankings_open,
                if is_same { "" } else { ": ANSWERS DIFFER" }
            );
        }
    }
    let totals = |summaries| {
        let archive = Archive::open(folder, QueryOptions { summaries, ..QueryOptions::default() })?;
        archive.totals(&Predicate::True, &TimeWindow::default())
    };
    let ((with, with_ms), (without, without_ms)) = (timed(ROUNDS, || totals(true))?, timed(1, || totals(false))?);
    println!("{:<16} {with_ms:>8.1} {without_ms:>8.0}", "totals");
    if all_same && with == without { Ok(()) } else { Err("answers differ".into()) }
}

fn asked(
    folder: &Path,
    question: &FlowQuery,
    summaries: bool,
) -> Result<(Vec<RecordBatch>, ProgressCounts), QueryError> {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions { summaries, progress: Arc::clone(&progress), ..QueryOptions::default() };
    let batches = Archive::open(folder, options)?.ask(question)?.collect::<Result<_, _>>()?;
    Ok((batches, progress.counts()))
}

/// The last of some answers, and the processor time of one in milliseconds.
fn timed<T>(
    rounds: u32,
    mut ask: impl FnMut() -> Result<T, QueryError>,
) -> Result<(T, f64), Box<dyn std::error::Error>> {
    let before = processor_ms()?;
    let mut answer = ask()?;
    for _ in 1..rounds {
        answer = ask()?;
    }
    Ok((answer, (processor_ms()? - before) / f64::from(rounds)))
}

/// User and system time of this process, in steps of 10 ms (Linux).
fn processor_ms() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let numbers = text.rsplit_once(") ").ok_or("no process status")?.1;
    let ticks: u32 = numbers.split(' ').skip(11).take(2).map(str::parse::<u32>).sum::<Result<_, _>>()?;
    Ok(f64::from(ticks) * 10.0)
}
