//! `weir archive status`: how an archive is, in some lines.

use std::path::Path;
use std::process::ExitCode;

use weir_archive::{Inventory, inventory};
use weir_series::StoreSize;

use super::ls::{amount, places};
use crate::command::archive_args::ArchiveArg;
use crate::command::series;

/// Print how the archive is: what counts, what waits, what is damaged
///
/// The exit status is 1 when something needs to be looked at: a tail that cannot be sealed, or damaged files that were
/// set aside. Files are not read for that; weir archive check reads them all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  weir archive status --archive /var/lib/weir")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    place: ArchiveArg,
}

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let found = inventory(&args.place.archive)?;
    for (name, value) in lines(&found).into_iter().chain(statistics_line(&args.place.archive)) {
        println!("{name:<18} {value}");
    }
    let shown = |path: &Path| path.strip_prefix(&args.place.archive).unwrap_or(path).display().to_string();
    let skipped: Vec<_> = found.tails.iter().filter(|tail| tail.is_skipped).collect();
    for tail in &skipped {
        println!("cannot be sealed   {}", shown(&tail.path));
    }
    for path in &found.damaged_tails {
        println!("damaged tail       {}", shown(path));
    }
    let is_well = skipped.is_empty() && found.damaged_tails.is_empty() && found.rows_set_aside == 0;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the statistics take that are kept in the archive's folder, if there are any: they are beside its limit.
fn statistics_line(archive: &Path) -> Option<(&'static str, String)> {
    let text = match StoreSize::of(&archive.join(series::FOLDER)) {
        Ok(None) => return None,
        Ok(Some(size)) => {
            let of_steps = |of: &weir_series::ResolutionSize| {
                format!("{} in steps of {} s", amount(of.octets), of.resolution.step_secs)
            };
            let steps: Vec<String> = size.resolutions.iter().map(of_steps).collect();
            format!("{}: {}", amount(size.octets), steps.join(", "))
        }
        Err(error) => format!("cannot be read: {error}"),
    };
    Some(("statistics", text))
}

fn lines(found: &Inventory) -> Vec<(&'static str, String)> {
    let rows: u64 = found.segments.iter().map(|segment| segment.rows).sum();
    let octets: u64 = found.segments.iter().map(|segment| segment.octets).sum();
    let summaries: u64 = found.summaries.iter().map(weir_archive::SegmentSummary::octets).sum();
    let (tail_rows, tail_octets) =
        found.tails.iter().fold((0, 0), |sum, tail| (sum.0 + tail.rows, sum.1 + tail.octets));
    vec![
        ("position", format!("{} in epoch {}", places(found.position.get()), found.epoch)),
        (
            "commits",
            format!("{}, {} since the checkpoint", places(found.commits), places(found.commits_since_checkpoint)),
        ),
        (
            "segments",
            format!("{} with {} rows and {}", places(found.segments.len() as u64), places(rows), amount(octets)),
        ),
        ("tails", format!("{} with {} flows and {}", found.tails.len(), places(tail_rows), amount(tail_octets))),
        ("summaries", format!("{} with {}", places(found.summaries.len() as u64), amount(summaries))),
        ("pending deletion", format!("{} files with {}", found.pending.len(), amount(found.pending_octets))),
        ("expired", format!("{} flows", places(found.rows_expired))),
        ("set aside", format!("{} flows", places(found.rows_set_aside))),
        ("free space", amount(found.free_octets)),
    ]
}
