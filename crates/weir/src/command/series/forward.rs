//! `weir series forward`: statistics to Prometheus, to Cassandra and to files of rrdtool, while they grow or to their end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use weir_chain::TimeSpan;
use weir_forward::{
    StatisticsForwardCounts, StatisticsForwardError, StatisticsForwardOptions, StatisticsForwarder, StatisticsStore,
};
use weir_rrdtool::{RrdError, RrdOptions, RrdStore};

use super::source::SeriesSource;
use super::{StoreArgs, check_by, step_of};
use crate::running::Signals;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  Send the steps of a minute to a Prometheus that runs with --web.enable-remote-write-receiver:
    weir series forward -R flows --to http://localhost:9090
  Send hosts and interfaces of this collector to VictoriaMetrics, with a label that names it:
    weir series forward -R flows --by src_addr --by exporter+in_if \\
      --to http://10.0.0.5:8428 --label collector=north
  Store what there is in the table series of a keyspace, and end:
    weir series forward -R flows --to 'cassandra://10.0.0.1/weir?ttl=90d' --until-end
  Keep a file of rrdtool for each exporter and interface in the folder rrd, in steps of 5 minutes:
    weir series forward -R flows --by exporter --by exporter+in_if --step 5m --to rrd:rrd";

/// What the address of a folder of files of rrdtool begins with.
const RRD: &str = "rrd:";
/// The name of forwarders to these.
const RRDTOOL: &str = "rrdtool";

/// Send statistics to Prometheus, Cassandra or files of rrdtool, while they grow
///
/// Steps are sent in the order of time, and the next one when the last one was acknowledged; the statistics keep how far they were
/// sent. A receiver that is away is tried until it is back, and gets what it missed as long as the statistics keep it. The
/// newest of the finest steps is sent when the next one is there.
///
/// To http:// and https:// by remote write, as Prometheus, VictoriaMetrics, Mimir and Thanos take it: a sample of
/// weir_bytes{by, key, step} has the bytes of the step that ends at its time, so sum_over_time(weir_bytes[1h]) are those of an
/// hour. To cassandra:// in the table series, with the columns that it has in weir sql.
///
/// To rrd: into files of rrdtool in a folder, one for each series, as weir series export makes them: rrdtool runs as long as this
/// does. A file that is there goes on after its last step; a new one gets what the statistics still have of its series.
///
/// Ends in order at SIGINT or SIGTERM, and at once when the receiver refuses who we are or has no such path.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct ForwardArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Send to this address: http://HOST:PORT, https://USER:PASSWORD@HOST/PATH, cassandra://HOST/KEYSPACE or rrd:FOLDER
    ///
    /// Without a path, the one of Prometheus is taken, /api/v1/write.
    #[arg(long, value_name = "URL")]
    to: String,
    /// Send these series: total, exporter, src_addr and so on; the option may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    by: Vec<String>,
    /// Send steps of this length [default: 1m, or the shortest when there are none of 1m]
    #[arg(long, value_name = "DURATION")]
    step: Option<TimeSpan>,
    /// Keep how far statistics were sent under this name; each receiver needs one of its own [default: prometheus, cassandra or rrdtool]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End when everything that there is was sent
    #[arg(long)]
    until_end: bool,
    /// Give each sample this label, NAME=VALUE; the option may be repeated. Collectors that send the same series need one
    #[arg(long = "label", value_name = "LABEL", help_heading = "Remote write")]
    labels: Vec<String>,
    /// Send at most this many samples in a request
    #[arg(long, value_name = "N", default_value = "10000", help_heading = "Remote write")]
    samples_max: std::num::NonZeroUsize,
    /// Send the bearer token in the first line of this file
    #[arg(long, value_name = "FILE", help_heading = "Remote write")]
    token_file: Option<PathBuf>,
    /// Trust the authorities in this file (PEM) and no others
    #[arg(long, value_name = "FILE", help_heading = "Remote write")]
    tls_ca: Option<PathBuf>,
    /// Log progress this often; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    report_interval: TimeSpan,
}

pub(super) fn run(args: &ForwardArgs) -> anyhow::Result<ExitCode> {
    let series = args.store.open()?;
    for by in &args.by {
        check_by(&series, by)?;
    }
    let (kind, store) = store(args)?;
    let options = StatisticsForwardOptions {
        name: args.name.clone().unwrap_or_else(|| kind.to_owned()),
        step_secs: step_secs(args, &series)?,
        families: (!args.by.is_empty()).then(|| args.by.clone()),
        ..StatisticsForwardOptions::default()
    };
    let signals = Signals::new()?;
    let forwarder = StatisticsForwarder::open(&args.store.folder()?, options, store);
    let forwarder = forwarder.map_err(|error| explained(error, kind))?;
    let begun = forwarder.counts();
    let every = (!args.report_interval.is_zero()).then(|| args.report_interval.duration());
    let mut reported = Instant::now();
    let is_stopping = |counts: &StatisticsForwardCounts| {
        if every.is_some_and(|every| reported.elapsed() >= every) {
            reported = Instant::now();
            tracing::info!("{}", summary(kind, counts, &begun));
        }
        signals.is_stopping()
    };
    let counts = forwarder.run(is_stopping, args.until_end).map_err(|error| explained(error, kind))?;
    eprintln!("{}", summary(kind, &counts, &begun));
    Ok(ExitCode::SUCCESS)
}

/// The length of the steps that are sent.
fn step_secs(args: &ForwardArgs, series: &dyn SeriesSource) -> anyhow::Result<u32> {
    if let Some(step) = args.step {
        return Ok(step_of(series, step)?.step_secs);
    }
    let lengths: Vec<u32> = series.steps().iter().map(|step| step.step_secs).collect();
    let length = lengths.iter().find(|secs| **secs == 60).or(lengths.first());
    length.copied().context("there are no steps")
}

/// Where the address leads, and what it is called.
fn store(args: &ForwardArgs) -> anyhow::Result<(&'static str, Box<dyn StatisticsStore>)> {
    if let Some(folder) = args.to.strip_prefix(RRD) {
        refuse_remote_write_options(args, "a folder", "files of rrdtool have none")?;
        return Ok((RRDTOOL, Box::new(rrd(args, folder)?)));
    }
    match args.to.split_once("://").map(|(scheme, _)| scheme) {
        #[cfg(feature = "prometheus")]
        Some("http" | "https") => Ok(("prometheus", Box::new(remote_write(args)?))),
        #[cfg(feature = "cassandra")]
        Some("cassandra") => {
            let options = crate::command::forward::cluster(&args.to).map_err(anyhow::Error::msg)?;
            let hint = "its options follow a question mark, such as ?tls_ca=ca.pem";
            refuse_remote_write_options(args, "a cluster", hint)?;
            Ok(("cassandra", Box::new(weir_cassandra::CassandraStatistics::new(options)?)))
        }
        _ => bail!(
            "statistics cannot be sent to '{}'\nhint: http://HOST:9090 for remote write, cassandra://HOST/KEYSPACE, rrd:FOLDER",
            args.to.escape_debug()
        ),
    }
}

/// An error about an option of remote write where statistics go to something else.
fn refuse_remote_write_options(args: &ForwardArgs, what: &str, hint: &str) -> anyhow::Result<()> {
    let unread = [
        ("--label", !args.labels.is_empty()),
        ("--token-file", args.token_file.is_some()),
        ("--tls-ca", args.tls_ca.is_some()),
    ];
    if let Some((option, _)) = unread.iter().find(|(_, is_given)| *is_given) {
        bail!("{option} is of remote write, and '{}' is {what}\nhint: {hint}", args.to.escape_debug());
    }
    Ok(())
}

fn rrd(args: &ForwardArgs, folder: &str) -> anyhow::Result<RrdStore> {
    if folder.is_empty() {
        bail!("'{RRD}' names no folder\nhint: --to rrd:FOLDER");
    }
    let options = RrdOptions::new(Path::new(folder), &args.store.folder()?);
    RrdStore::new(options).map_err(|error| match &error {
        RrdError::Program { source, .. } => {
            anyhow!("{error}: {source}\nhint: it is in the package rrdtool of most systems")
        }
        RrdError::Locked { .. } => {
            anyhow!("{error}\nhint: --to rrd: with another folder, or one process with every --by")
        }
        RrdError::Folder { .. } => error.into(),
    })
}

#[cfg(feature = "prometheus")]
fn remote_write(args: &ForwardArgs) -> anyhow::Result<weir_prometheus::RemoteWriteStore> {
    let mut options = weir_prometheus::RemoteWriteOptions::new(&args.to)?;
    for label in &args.labels {
        options.label(label)?;
    }
    options.samples_max = args.samples_max.get();
    options.token_file.clone_from(&args.token_file);
    options.tls_ca.clone_from(&args.tls_ca);
    Ok(weir_prometheus::RemoteWriteStore::new(options)?)
}

/// An error with what to do about it.
fn explained(error: StatisticsForwardError, kind: &str) -> anyhow::Error {
    let hint = match &error {
        // a file of rrdtool has steps of one length
        StatisticsForwardError::OtherStep { .. } if kind == RRDTOOL => {
            "\nhint: another folder and --name keep them apart"
        }
        StatisticsForwardError::OtherStep { .. } => "\nhint: --name keeps them apart",
        StatisticsForwardError::Store(_) => "\nhint: nothing is lost; forwarding goes on from here once it is mended",
        _ => return error.into(),
    };
    anyhow!("{error}{hint}")
}

/// What was sent since it began, and what was not.
fn summary(kind: &str, counts: &StatisticsForwardCounts, begun: &StatisticsForwardCounts) -> String {
    use std::fmt::Write as _;

    let since = |of: fn(&StatisticsForwardCounts) -> u64| of(counts).saturating_sub(of(begun));
    let mut text = format!(
        "{kind}: {} steps sent, {} rows, {} steps wait",
        since(|counts| counts.steps_forwarded),
        since(|counts| counts.rows_forwarded),
        counts.steps_waiting
    );
    for (what, count) in [
        ("rows refused", since(|counts| counts.rows_refused)),
        ("steps lost", since(|counts| counts.steps_lost)),
        ("failures", since(|counts| counts.failures)),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}
