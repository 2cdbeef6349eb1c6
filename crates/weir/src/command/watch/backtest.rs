//! `weir watch test`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use jiff::tz::TimeZone;
use serde_json::json;
use weir_chain::ByteSize;
use weir_print::plot::{PictureFile, Plot, terminal as letters};
use weir_watch::report::time_text;
use weir_watch::{Backtest, Outcome, WatchFile};

use super::JournalArgs;
use super::timeline::{self, PICTURE_STEPS, Timeline};
use crate::command::archive_args::SamplingArgs;
use crate::foreground_query::terminal;
use crate::time_args::{check_order, moment, zone};

/// Columns of a terminal whose width is not known.
const WIDTH_DEFAULT: usize = 80;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir watch test -R flows watches/portscan.toml
  weir watch test -R flows watches/portscan.toml --from 2026-01-31 --until 2026-02-01
  weir watch test -R flows watches/portscan.toml --plot portscan.svg
  weir watch test -R flows watches/portscan.toml --compare changed/portscan.toml";

/// Show when a watch would have reported, on the flows of an archive
///
/// Nothing is kept or sent. All flows of a window count, also those that would have come late. Flows that lack the time that
/// windows go by, and those that are dated after their reception by more than the option `skew` of the watch, are in no window:
/// their number is printed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct TestArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// The watch file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ask for windows that end after this time
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    from: Option<i64>,
    /// Ask for windows that end at this time or before
    #[arg(long, alias = "to", value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Test another version of the watch too, and show the difference
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Draw when there were reports into this file, which ends in .svg or .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PictureFile>,
    /// Print the reports as objects of JSON, one a line, and a last one with a summary
    #[arg(long)]
    json: bool,
    /// Print times and count days in UTC rather than in the local zone
    #[arg(long)]
    utc: bool,
    /// Sort, group and join in at most this much memory
    #[arg(long, value_name = "SIZE", default_value = "2GiB", help_heading = "Limits")]
    memory_limit: ByteSize,
    /// Keep the flows of windows in at most this much memory, beside that
    #[arg(long, value_name = "SIZE", default_value = "1GiB", help_heading = "Limits")]
    watch_memory: ByteSize,
    #[command(flatten)]
    sampling: SamplingArgs,
}

pub(super) fn run(args: &TestArgs) -> anyhow::Result<ExitCode> {
    check_order(args.from, args.until)?;
    let outcome = test(args, &args.file)?;
    let other = args.compare.as_ref().map(|file| test(args, file)).transpose()?;
    let named: Vec<(&str, &Outcome)> = match &other {
        None => vec![("reports", &outcome)],
        Some(other) => vec![("first", &outcome), ("second", other)],
    };
    if let Some(file) = &args.plot {
        let Some(timeline) = Timeline::of(&named, PICTURE_STEPS) else {
            bail!("there is nothing to draw: no window has flows")
        };
        Plot::Points(&timeline.picture(args.file.display().to_string())).save(file)?;
    }
    // whoever reads it may have gone
    match print(args, &named, &mut io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        printed => Ok(printed.map(|()| ExitCode::SUCCESS)?),
    }
}

fn print(args: &TestArgs, named: &[(&str, &Outcome)], out: &mut impl Write) -> io::Result<()> {
    let zone = zone(args.utc);
    match named {
        [(_, outcome), (_, other)] => difference(outcome, other, args.json, out)?,
        _ => {
            for report in named.iter().flat_map(|(_, outcome)| &outcome.firings).flat_map(|firing| &firing.reports) {
                let text = if args.json { report.json().to_string() } else { report.text() };
                writeln!(out, "{text}")?;
            }
        }
    }
    if args.json {
        return named.iter().try_for_each(|(_, outcome)| writeln!(out, "{}", timeline::summary(outcome, &zone)));
    }
    let columns = terminal::width().unwrap_or(WIDTH_DEFAULT);
    let Some(line) = Timeline::of(named, letters::cells(letters::MARGIN, columns)) else {
        let rows: u64 = named.iter().map(|(_, outcome)| outcome.rows).sum();
        writeln!(out, "no window has flows; flows read: {rows}")?;
        return named.iter().try_for_each(|(_, outcome)| left_out(outcome, out));
    };
    write!(out, "\n{}", letters::strip(&line.chart(zone.clone()), columns))?;
    named.iter().try_for_each(|(name, outcome)| summary(name, outcome, &zone, out))
}

fn test(args: &TestArgs, file: &std::path::Path) -> anyhow::Result<Outcome> {
    let mut options = args.journal.options(args.memory_limit);
    options.standing.corrections = args.sampling.corrections()?;
    options.standing.window_octets_max = args.watch_memory.bytes();
    let mut backtest = Backtest::new(WatchFile::read(file)?, &options)?;
    Ok(backtest.run(args.from, args.until, |_, _| ())?)
}

/// The number of reports, for a day and of the days.
fn summary(name: &str, outcome: &Outcome, zone: &TimeZone, out: &mut impl Write) -> io::Result<()> {
    let Outcome { windows, rows, suppressed, elapsed, .. } = outcome;
    writeln!(
        out,
        "{name}: {} ({:.1} a day), repeated: {suppressed}; windows: {windows}; flows: {rows}, read in {:.2} s",
        outcome.reports(),
        timeline::per_day(outcome),
        elapsed.as_secs_f64()
    )?;
    let days = timeline::days(outcome, zone);
    if let Some((worst, most)) = days.iter().max_by_key(|(_, count)| **count)
        && days.len() > 1
    {
        let quiet = days.values().filter(|count| **count == 0).count();
        writeln!(out, "days: {}, without a report: {quiet}, the most: {most} on {worst}", days.len())?;
    }
    if let Some(lack) = &outcome.lack {
        writeln!(out, "windows without enough past: {}, of the first: {lack}", outcome.windows_without_past)?;
    }
    if let Some(failure) = &outcome.failure {
        writeln!(out, "windows without an answer: {}, the first because {failure}", outcome.windows_failed)?;
    }
    left_out(outcome, out)
}

/// The flows that are in no window, and why.
fn left_out(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let all = [
        (outcome.rows_shed, "a window has more than rows_max, or than the memory for windows"),
        (outcome.rows_future, "they are dated after their reception by more than skew"),
        (outcome.rows_without_time, "they lack the time that windows go by"),
    ];
    let mut some = all.into_iter().filter(|(rows, _)| *rows > 0);
    some.try_for_each(|(rows, why)| writeln!(out, "{rows} flows were left out: {why}"))
}

/// Reports that only one of two versions makes.
fn difference(one: &Outcome, other: &Outcome, is_json: bool, out: &mut impl Write) -> io::Result<()> {
    let keys = |outcome: &Outcome| -> std::collections::BTreeMap<(i64, String), String> {
        let reports = outcome.firings.iter().flat_map(|firing| &firing.reports);
        reports.map(|report| ((report.window.end_ms, report.key.clone()), report.text())).collect()
    };
    let (one_keys, other_keys) = (keys(one), keys(other));
    let mut both = 0;
    let all: std::collections::BTreeSet<_> = one_keys.keys().chain(other_keys.keys()).collect();
    for key in all {
        let (sign, text) = match (one_keys.get(key), other_keys.get(key)) {
            (Some(text), None) => ('-', text),
            (None, Some(text)) => ('+', text),
            _ => {
                both += 1;
                continue;
            }
        };
        if is_json {
            let (window_end, key) = (time_text(key.0), &key.1);
            writeln!(
                out,
                "{}",
                json!({ "only_in": if sign == '-' { "first" } else { "second" }, "window_end": window_end, "key": key })
            )?;
        } else {
            writeln!(out, "{sign} {text}")?;
        }
    }
    if !is_json {
        writeln!(out, "reports: {} and {}, the same in both: {both}", one.reports(), other.reports())?;
    }
    Ok(())
}
