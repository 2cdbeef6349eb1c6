//! `weir books`: what became of everything that was received.

use std::io;
use std::process::ExitCode;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_flow::Counter;
use weir_flow::books::{balance, sets_waiting};
use weir_sql::Engine;
use weir_sql::output::{OutputOptions, write_answer};

use super::{ArchiveArgs, FormatArg};

/// Print the books per exporter and whether they balance
///
/// The exit status is 1 when they do not.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// How the books are written
    #[arg(long, short = 'o', value_enum, default_value_t = FormatArg::Table)]
    output: FormatArg,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let engine = args.archive.open()?;
    let totals = totals(&engine)?;
    // counters that are zero everywhere say nothing; datagrams and stored records always do
    let shown: Vec<_> = Counter::ALL
        .iter()
        .filter(|&&counter| {
            totals[counter as usize] > 0 || matches!(counter, Counter::Datagrams | Counter::RecordsStored)
        })
        .map(|counter| format!("sum({name}) AS {name}", name = counter.name()))
        .collect();
    let statement = format!(
        "SELECT exporter, observation_domain, export_version, {} FROM exporter_books \
         GROUP BY exporter, observation_domain, export_version \
         ORDER BY exporter, export_version, observation_domain",
        shown.join(", ")
    );
    let options = OutputOptions { scaled: false, ..OutputOptions::default() };
    write_answer(engine.sql(&statement)?, args.output.into(), &options, &mut io::stdout().lock())?;
    let flows = single(&engine, "SELECT count(*) AS n FROM flows")?;
    let lost = [missing(&engine, "records")?, missing(&engine, "datagrams")?];
    Ok(if judge(&totals, flows, lost) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says whether the books balance.
fn judge(totals: &[u64; Counter::COUNT], flows: u64, [lost, lost_datagrams]: [u64; 2]) -> bool {
    let total = |counter: Counter| totals[counter as usize];
    let stored = total(Counter::RecordsStored);
    let filtered = total(Counter::RecordsFiltered);
    let waiting = sets_waiting(totals);
    let dropped = total(Counter::KernelDrops) + total(Counter::QueueDrops) + total(Counter::DatagramsRefused);
    eprintln!("records stored by the books: {stored}, filtered: {filtered}, flows in the archive: {flows}");
    eprintln!(
        "missing by sequence numbers: {lost} records and {lost_datagrams} datagrams; dropped here: {dropped} datagrams"
    );
    if waiting > 0 {
        eprintln!("sets that still wait for their template, or waited when the collector ended: {waiting}");
    }
    let imbalance = balance(totals).err();
    if let Some(imbalance) = imbalance {
        eprintln!("{imbalance}");
    }
    let balanced = imbalance.is_none() && stored.saturating_sub(filtered) == flows;
    eprintln!("{}", if balanced { "the books balance" } else { "the books do not balance" });
    balanced
}

/// What is missing by sequence numbers, exporter by exporter: what came late to one is no consolation for another.
fn missing(engine: &Engine, unit: &str) -> anyhow::Result<u64> {
    let of_each = format!(
        "SELECT sum({unit}_lost) AS lost, sum({unit}_late) AS late FROM exporter_books \
         GROUP BY exporter, observation_domain, export_version"
    );
    single(
        engine,
        &format!("SELECT coalesce(sum(CASE WHEN lost > late THEN lost - late ELSE 0 END), 0) AS n FROM ({of_each})"),
    )
}

fn totals(engine: &Engine) -> anyhow::Result<[u64; Counter::COUNT]> {
    let sums: Vec<_> = Counter::ALL
        .iter()
        .map(|counter| format!("coalesce(sum({name}), 0) AS {name}", name = counter.name()))
        .collect();
    let batches: Vec<_> =
        engine.sql(&format!("SELECT {} FROM exporter_books", sums.join(", ")))?.collect::<Result<Vec<_>, _>>()?;
    let mut totals = [0; Counter::COUNT];
    for batch in &batches {
        for (total, column) in totals.iter_mut().zip(batch.columns()) {
            let values = arrow::compute::cast(column, &arrow::datatypes::DataType::UInt64)?;
            *total += values.as_primitive::<UInt64Type>().values().iter().sum::<u64>();
        }
    }
    Ok(totals)
}

fn single(engine: &Engine, statement: &str) -> anyhow::Result<u64> {
    let batches: Vec<_> = engine.sql(statement)?.collect::<Result<Vec<_>, _>>()?;
    let first = batches.iter().find(|batch| batch.num_rows() > 0);
    let column = first.map(|batch| arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::UInt64));
    Ok(column.transpose()?.map_or(0, |column| column.as_primitive::<UInt64Type>().value(0)))
}
