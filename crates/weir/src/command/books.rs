//! `weir books`: what happened to everything that was received.

mod verdict;

use std::convert::Infallible;
use std::io;
use std::iter;
use std::path::Path;
use std::process::ExitCode;

use arrow::array::RecordBatch;
use weir_archive::{Segment, SequenceHole, Snapshot};
use weir_flow::books::{BooksSums, Completeness, Counts, balance, balance_rows, sets_waiting};
use weir_flow::{Counter, Table};
use weir_forward::{KeptForwarder, KeptStatisticsForwarder};
use weir_print::{OutputOptions, PrintError, write_batches};
use weir_series::SeriesStore;

use super::answer_format::FormatArg;
use super::archive_args::ArchiveArg;
use super::series;
use crate::time_args::TimeArgs;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir books --archive flows
  weir books --archive flows --last 1h
  weir books --archive flows --from yesterday --until today --all
  weir books --archive flows --format json";

/// Print how complete the flows of each exporter are, and check that the books balance
///
/// The first line is the verdict. The exit status is 1 when the books do not balance; a loss on the way is none.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    folder: ArchiveArg,
    #[command(flatten)]
    times: TimeArgs,
    /// Print every counter that is not zero rather than what most people look at
    #[arg(long)]
    all: bool,
    /// Write the books in this format; all but table have every counter
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let snapshot = Snapshot::open(&args.folder.archive)?;
    let [from, until] = args.times.range()?;
    let sums = snapshot.books(from.unwrap_or(i64::MIN), until.unwrap_or(i64::MAX))?;
    let totals = sums.totals();
    let is_for_people = args.format == FormatArg::Table;
    let gone = gone_segments(&snapshot);
    let flows_gone: u64 = gone.iter().map(|segment| segment.rows).sum();
    if is_for_people {
        println!("{}\n", verdict::sentence(&sums, flows_gone, &args.times.zone()));
    }
    let table = match (is_for_people, args.all) {
        (true, false) => verdict::table(&sums),
        (true, true) => counters_of_any(&sums, &totals),
        // programs find the same columns each time
        (false, _) => sums.table(Counter::ALL),
    };
    let schema = table.schema();
    let options = OutputOptions { scaled: false, zone: args.times.zone(), ..OutputOptions::default() };
    let table = iter::once(Ok::<_, Infallible>(table));
    match write_batches(table, &schema, args.format.into(), &options, &mut io::stdout().lock()) {
        Err(PrintError::Write(error)) => return Err(error.into()),
        Err(PrintError::Batches(error)) => match error {},
        Ok(_) => {}
    }
    report_gone(&gone);
    if from.is_some() || until.is_some() {
        // flows of a time are not the records of that time: only all of them can be compared
        return Ok(ExitCode::SUCCESS);
    }
    let is_balanced = report(&totals, &sums.completeness(), &snapshot.sequence_holes()?, &snapshot, flows_gone);
    report_forwarders(&args.folder.archive, &snapshot);
    report_statistics_forwarders(&args.folder.archive.join(series::FOLDER));
    Ok(if is_balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A row for each exporter. A counter that is zero for every exporter is left out; datagrams and stored records never are.
/// The counters that are not zero, without the sums of clocks, of which [`verdict`] has the mean.
fn counters_of_any(sums: &BooksSums, totals: &Counts) -> RecordBatch {
    let is_shown = |counter: &Counter| {
        (totals[*counter as usize] > 0 && !super::report::CLOCKS.contains(counter))
            || matches!(counter, Counter::Datagrams | Counter::RecordsStored)
    };
    let counters: Vec<Counter> = Counter::ALL.iter().copied().filter(is_shown).collect();
    sums.table(&counters)
}

/// Reports on standard error what became of flows that are forwarded to stores elsewhere.
fn report_forwarders(archive: &Path, snapshot: &Snapshot) {
    let kept = match weir_forward::forwarders(archive) {
        Ok(kept) => kept,
        Err(error) => return eprintln!("warning: {:#}", anyhow::Error::new(error)),
    };
    for KeptForwarder { name, state } in kept {
        let state = match state {
            Ok(state) => state,
            Err(error) => {
                eprintln!("warning: forwarding as {name}: {:#}", anyhow::Error::new(error));
                continue;
            }
        };
        let counts = state.counts;
        // a damaged file is reported where flows are read
        let lag_ms = state.lag_ms(snapshot).ok().flatten().unwrap_or(0);
        eprintln!(
            "forwarded as {name}: {} flows stored, {} refused, {} lost; {} deliveries wait, {} are lost{}",
            counts.rows_forwarded,
            counts.rows_refused,
            counts.rows_lost,
            state.deliveries_waiting(snapshot.position()),
            counts.deliveries_lost,
            behind(lag_ms.div_ceil(1_000))
        );
    }
}

/// How far something is behind, when it is.
fn behind(secs: u64) -> String {
    if secs == 0 { String::new() } else { format!("; {secs} s behind") }
}

/// Reports on standard error what became of statistics that are sent elsewhere.
fn report_statistics_forwarders(statistics: &Path) {
    let kept = match weir_forward::statistics_forwarders(statistics) {
        Ok(kept) => kept,
        Err(error) => return eprintln!("warning: {:#}", anyhow::Error::new(error)),
    };
    if kept.is_empty() {
        return;
    }
    let series = match SeriesStore::open(statistics) {
        Ok(series) => series,
        Err(error) => return eprintln!("warning: {:#}", anyhow::Error::new(error)),
    };
    for KeptStatisticsForwarder { name, state } in kept {
        let known = state.map_err(anyhow::Error::new).and_then(|state| Ok((state, state.lag(&series)?)));
        let (state, lag) = match known {
            Ok(known) => known,
            Err(error) => {
                eprintln!("warning: statistics sent as {name}: {error:#}");
                continue;
            }
        };
        let (waiting, secs) = lag.map_or((0, 0), |lag| (lag.steps_waiting, lag.secs));
        eprintln!(
            "statistics sent as {name}: {} steps of {} s with {} rows, {} refused; {waiting} steps wait, {} are lost{}",
            state.counts.steps_forwarded,
            state.step_secs,
            state.counts.rows_forwarded,
            state.counts.rows_refused,
            state.counts.steps_lost,
            behind(secs)
        );
    }
}

/// Segments of flows whose files somebody else has removed: while the snapshot is there, the archive removes none.
fn gone_segments(snapshot: &Snapshot) -> Vec<&Segment> {
    let is_gone = |segment: &&Segment| matches!(segment.path().try_exists(), Ok(false));
    snapshot.segments(Table::Flows).iter().filter(is_gone).collect()
}

/// Reports on standard error which flows of an archive are gone with their files.
pub(super) fn report_flows_gone(archive: &Path) {
    match Snapshot::open(archive) {
        Ok(snapshot) => report_gone(&gone_segments(&snapshot)),
        Err(error) => eprintln!("warning: {:#}", anyhow::Error::new(error)),
    }
}

/// Reports these segments on standard error.
fn report_gone(gone: &[&Segment]) {
    for segment in gone {
        eprintln!("{} flows are gone with their file {}", segment.rows, segment.path().display());
    }
    if !gone.is_empty() {
        eprintln!("hint: restore the files, or `weir archive check --repair` takes them off the archive");
    }
}

/// Reports on standard error whether the books balance with each other and with the flows of the archive.
fn report(
    totals: &Counts,
    completeness: &Completeness,
    holes: &[SequenceHole],
    snapshot: &Snapshot,
    flows_gone: u64,
) -> bool {
    let (expired, set_aside) = (snapshot.rows_expired(), snapshot.rows_set_aside());
    let flows = snapshot.flows().saturating_sub(flows_gone);
    let total = |counter: Counter| totals[counter as usize];
    let (stored, filtered) = (total(Counter::RecordsStored), total(Counter::RecordsFiltered));
    let Completeness { lost_records, lost_datagrams, dropped_datagrams, .. } = *completeness;
    eprintln!("records stored by the books: {stored}, filtered: {filtered}, flows in the archive: {flows}");
    let made = total(Counter::RecordsMade);
    if made > 0 {
        eprintln!("of them made of others by transforms, which count as filtered: {made}");
    }
    let not_stored = total(Counter::RecordsNotStored);
    if not_stored > 0 {
        eprintln!("records that came and could not be written: {not_stored}");
        eprintln!(
            "hint: the disk took nothing until the collector stopped, or records were too large; its log says which"
        );
    }
    if expired > 0 {
        eprintln!("flows that have expired: {expired}");
    }
    if set_aside > 0 {
        eprintln!("flows in segments that were set aside as damaged: {set_aside}");
    }
    eprintln!(
        "missing by sequence numbers: {lost_records} records and {lost_datagrams} datagrams; dropped here: \
         {dropped_datagrams} datagrams"
    );
    // what proved not to be lost is taken back from the loss, and cannot be more than that
    let down =
        [total(Counter::RecordsLostDown).min(lost_records), total(Counter::DatagramsLostDown).min(lost_datagrams)];
    if down != [0; 2] {
        eprintln!("of them missed while the collector was down: {} records and {} datagrams", down[0], down[1]);
    }
    report_refused(totals);
    let waiting = sets_waiting(totals);
    if waiting > 0 {
        eprintln!("sets that still wait for their template, or waited when the collector ended: {waiting}");
    }
    for hole in holes {
        let SequenceHole { key, unit, missing, between_ms: [after_ms, until_ms] } = hole;
        let exporter = weir_flow::AddressText(&key.exporter);
        let [after, until] = [after_ms, until_ms].map(|ms| weir_print::time_text(*ms));
        eprintln!(
            "nothing tells any more what came of {missing} {unit} of {exporter}, port {}, Observation Domain {}, received after \
             {after} and until {until}: files of exporter_sequences are gone, and perhaps those of the flows",
            key.exporter_port, key.observation_domain
        );
    }
    let imbalances: Vec<_> = [balance(totals), balance_rows(totals, flows, expired + set_aside)]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    for imbalance in &imbalances {
        eprintln!("{imbalance}");
    }
    let is_balanced = imbalances.is_empty();
    eprintln!("{}", if is_balanced { "the books balance" } else { "the books do not balance" });
    is_balanced
}

/// Prints how many datagrams were refused before decoding, and which handshakes failed.
fn report_refused(totals: &Counts) {
    let total = |counter: Counter| totals[counter as usize];
    let not_allowed = total(Counter::DatagramsNotAllowed);
    if not_allowed > 0 {
        eprintln!("datagrams of senders that are not allowed: {not_allowed}");
        eprintln!("hint: the log of the collector names them; --allow and --sflow-agents say who may send");
    }
    let failed = total(Counter::HandshakesFailed);
    if failed > 0 {
        let of = |counter: &Counter| (counter.name(), total(*counter));
        let reasons = Counter::HANDSHAKE_REASONS.iter().map(of).filter(|(_, count)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(name, count)| format!("{name} {count}")).collect();
        eprintln!("handshakes of TLS and DTLS that failed: {failed} ({})", reasons.join(", "));
        eprintln!("hint: the log of the collector names the peers");
    }
}
