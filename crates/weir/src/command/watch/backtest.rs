//! `weir watch test`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::time_args::moment;
use serde_json::json;
use weir_chain::ByteSize;
use weir_watch::report::time_text;
use weir_watch::{Backtest, Outcome, WatchFile};

use super::JournalArgs;

/// Columns of the time line.
const LINE_WIDTH: usize = 72;
const DAY_MS: f64 = 86_400_000.0;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir watch test -R flows watches/portscan.toml
  weir watch test -R flows watches/portscan.toml --from 2026-01-31 --until 2026-02-01
  weir watch test -R flows watches/portscan.toml --compare changed/portscan.toml";

/// Show when a watch would have reported, on the flows of an archive
///
/// Nothing is kept or sent. All flows of a window count, also those that would have come late.
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
    /// Print the reports as objects of JSON, one a line, and nothing else
    #[arg(long)]
    json: bool,
    /// Sort, group and join in at most this much memory
    #[arg(long, value_name = "SIZE", default_value = "2GiB", help_heading = "Limits")]
    memory_limit: ByteSize,
}

pub(super) fn run(args: &TestArgs) -> anyhow::Result<ExitCode> {
    let outcome = test(args, &args.file)?;
    let other = args.compare.as_ref().map(|file| test(args, file)).transpose()?;
    let mut out = io::stdout().lock();
    if let Some(other) = &other {
        difference(&outcome, other, args.json, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for report in outcome.firings.iter().flat_map(|firing| &firing.reports) {
        let text = if args.json { report.json().to_string() } else { report.text() };
        writeln!(out, "{text}")?;
    }
    if !args.json {
        summary(&outcome, &mut out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn test(args: &TestArgs, file: &std::path::Path) -> anyhow::Result<Outcome> {
    let options = args.journal.options(args.memory_limit);
    let mut backtest = Backtest::new(WatchFile::read(file)?, &options)?;
    Ok(backtest.run(args.from, args.until, |_, _| ())?)
}

/// The times of reports on a line, and their number for a day.
fn summary(outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let Outcome { windows, rows, suppressed, elapsed, .. } = outcome;
    let Some((first_ms, last_ms)) = outcome.range_ms else {
        return writeln!(out, "no window has flows; flows read: {rows}");
    };
    writeln!(out, "\n{}  {}", time_text(first_ms), line(outcome, first_ms, last_ms))?;
    writeln!(out, "{}", time_text(last_ms))?;
    let days = ((last_ms - first_ms) as f64 / DAY_MS).max(1.0 / 24.0);
    let reports = outcome.reports();
    writeln!(
        out,
        "reports: {reports} ({:.1} a day), repeated: {suppressed}; windows: {windows}; flows: {rows}, read in {:.2} s",
        reports as f64 / days,
        elapsed.as_secs_f64()
    )?;
    if outcome.rows_shed > 0 {
        writeln!(out, "{} flows were left out: a window has more than rows_max", outcome.rows_shed)?;
    }
    Ok(())
}

/// A mark for each part of the range: how many reports there were.
fn line(outcome: &Outcome, first_ms: i64, last_ms: i64) -> String {
    let mut counts = [0_usize; LINE_WIDTH];
    let span = (last_ms - first_ms).max(1) as i128;
    for firing in &outcome.firings {
        let at = i128::from(firing.window_end_ms - first_ms) * (LINE_WIDTH as i128 - 1) / span;
        if let Some(count) = usize::try_from(at).ok().and_then(|at| counts.get_mut(at)) {
            *count += firing.reports.len();
        }
    }
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let marks = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mark =
        |count: usize| if count == 0 { '·' } else { marks.get((count * 7).div_ceil(most)).copied().unwrap_or('█') };
    counts.iter().map(|count| mark(*count)).collect()
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
