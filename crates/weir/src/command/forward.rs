//! `weir forward`: archives into a cluster, while they grow or to their end.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use weir_cassandra::{CassandraOptions, CassandraStore, CassandraUrl};
use weir_chain::run::ComponentProgress;
use weir_chain::{OptionText, Problem, TimeSpan};
use weir_forward::{ForwardCounts, ForwardGroup, ForwardOptions, ForwardThread, GroupArchive};

use crate::running::Signals;

/// How often it is looked at whether a signal came.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  Store what an archive has and will have in a keyspace of three replicas, for 90 days:
    weir forward -R flows --to 'cassandra://10.0.0.1,10.0.0.2/weir?replication=3&ttl=90d'
  Store what an archive has, and end:
    weir forward -R flows --to cassandra://localhost/weir --until-end
  Store what the producers of this host hand over, each in an archive of its own:
    weir forward -R /var/lib/weir/web -R /var/lib/weir/dns --to cassandra://10.0.0.1/weir
  With a user whose name and password are in a file, over TLS:
    weir forward -R flows --to 'cassandra://db.example/weir?user_file=user&tls_ca=ca.pem'";

/// Store the flows of archives in Cassandra, while they grow
///
/// Each flow is stored once: the archive keeps how far it was forwarded, and the keys of flows make storing one again change
/// nothing. While the cluster is away flows wait in the archive, and are stored when it is back. What the limits of the archive
/// remove before it was stored is counted as lost. A collector or meter may write the archive meanwhile; weir collect and
/// weir meter do the same in one process with --to.
///
/// Several archives share the connections to the cluster, and what is on its way at the same time. Each keeps how far it was
/// forwarded; when one cannot be, that is printed, the others go on, and it is tried again each minute. When none can be,
/// forwarding ends.
///
/// Ends in order at SIGINT or SIGTERM. The exit status is 0 also when flows wait; how many deliveries do is printed. It is 1 when
/// an archive could not be forwarded at the end.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder of the archive; the option may be repeated
    #[arg(long = "archive", short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE", required = true)]
    archives: Vec<PathBuf>,
    /// Store flows in this cluster and keyspace: cassandra://HOST,HOST:PORT/KEYSPACE
    ///
    /// Options follow a question mark: cassandra://host/keyspace?replication=3&ttl=90d. They are those of the sink cassandra, see
    /// weir chain kinds cassandra.
    #[arg(long, value_name = "URL", value_parser = cluster)]
    to: CassandraOptions,
    /// Keep how far archives were forwarded under this name; each cluster needs one of its own
    #[arg(long, value_name = "NAME", default_value = "cassandra")]
    name: String,
    /// End when everything that the archives have is stored
    #[arg(long)]
    until_end: bool,
    /// Log progress this often; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    report_interval: TimeSpan,
}

/// Reads the address of a cluster with its options.
pub(crate) fn cluster(text: &str) -> Result<CassandraOptions, String> {
    CassandraUrl::parse_text(text).and_then(|url| url.options()).map_err(|problem| match problem {
        Problem::Because(message, Some(hint)) => format!("{message}\nhint: {hint}"),
        Problem::Because(message, None) => message,
        Problem::Needs(needed) => format!("{needed} is needed"),
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_distinct(&args.archives)?;
    let is_alone = args.archives.len() == 1;
    let signals = Signals::new()?;
    let forward = ForwardOptions { name: args.name.clone(), ..ForwardOptions::default() };
    let store = CassandraStore::new(args.to.clone())?;
    let mut group = ForwardGroup::new(args.archives.clone(), forward, move || store.share());
    let every = (!args.report_interval.is_zero()).then(|| args.report_interval.duration());
    let mut reported = Instant::now();
    loop {
        for failure in group.tend() {
            let error = anyhow::Error::new(failure.error);
            if is_alone {
                return Err(error);
            }
            eprintln!("error: {} is not forwarded: {error:#}", failure.archive.display());
        }
        if args.until_end || signals.is_stopping() || !group.is_running() {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
        if every.is_some_and(|every| reported.elapsed() >= every) {
            reported = Instant::now();
            for archive in group.archives() {
                tracing::info!("{}", archive_summary(&archive, is_alone));
            }
        }
    }
    // with --until-end a signal is what stops it, and without it has come
    let mut has_failed = false;
    for archive in group.end(|| signals.is_stopping()) {
        has_failed |= archive.has_failed;
        let summary = archive_summary(&archive, is_alone);
        match archive.error.map(anyhow::Error::new) {
            Some(error) if is_alone => return Err(error.context("forwarding ended")),
            Some(error) => eprintln!("error: forwarding {} ended: {error:#}", archive.archive.display()),
            None => {}
        }
        eprintln!("{summary}");
    }
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// An archive that is named twice would be locked by itself.
fn check_distinct(archives: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen = Vec::new();
    for archive in archives {
        let place = archive.canonicalize().unwrap_or_else(|_| archive.clone());
        if seen.contains(&place) {
            bail!("the archive {} is given twice", archive.display());
        }
        seen.push(place);
    }
    Ok(())
}

/// What was forwarded of an archive, with its folder where there are several.
fn archive_summary(archive: &GroupArchive, is_alone: bool) -> String {
    let text = summary(&archive.counts, &archive.begun);
    if is_alone { text } else { format!("{}: {text}", archive.archive.display()) }
}

fn start(archive: &Path, options: &CassandraOptions, forward: ForwardOptions) -> anyhow::Result<ForwardThread> {
    let store = CassandraStore::new(options.clone())?;
    Ok(ForwardThread::start(archive, forward, store)?)
}

/// What was forwarded since it began, and what was not.
pub(crate) fn summary(counts: &ForwardCounts, begun: &ForwardCounts) -> String {
    let since = |of: fn(&ForwardCounts) -> u64| of(counts).saturating_sub(of(begun));
    let mut text = format!(
        "cassandra: {} flows stored, {} deliveries wait",
        since(|counts| counts.rows_forwarded),
        counts.deliveries_waiting
    );
    let rest = [
        ("flows that it can never take", since(|counts| counts.rows_refused)),
        ("flows lost", since(|counts| counts.rows_lost)),
        ("deliveries lost", since(|counts| counts.deliveries_lost)),
        ("failures", since(|counts| counts.failures)),
    ];
    for (what, count) in rest.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(text, ", {count} {what}");
    }
    text
}

/// How long forwarding beside a chain waits after a refusal: what a cluster refuses waits in the archive, and the chain goes on.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// Forwarding beside a chain that writes the archive.
#[derive(Default)]
pub(crate) struct ForwardBeside {
    running: Mutex<Option<ForwardThread>>,
}

impl ForwardBeside {
    /// Begins, once the archive is open. Flows are kept whatever becomes of it.
    /// What is refused is tried again only where flows go on coming.
    pub(crate) fn begin(&self, archive: &Path, options: Option<&CassandraOptions>, is_live: bool) {
        let Some(options) = options else { return };
        let forward = ForwardOptions {
            name: "cassandra".to_owned(),
            retry_refused_after: is_live.then_some(REFUSED_PAUSE),
            ..ForwardOptions::default()
        };
        match start(archive, options, forward) {
            Ok(started) => *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(started),
            Err(error) => eprintln!("error: flows are not stored in Cassandra: {error:#}"),
        }
    }

    /// Ends forwarding when everything is stored, or `is_stopping` says that it must, and prints what came of it.
    pub(crate) fn end(self, is_stopping: impl Fn() -> bool) -> anyhow::Result<()> {
        let Some(running) = self.running.into_inner().unwrap_or_else(PoisonError::into_inner) else { return Ok(()) };
        let begun = running.begun();
        let counts = running.end(is_stopping).context("storing flows in Cassandra ended")?;
        eprintln!("{}", summary(&counts, &begun));
        if counts.deliveries_waiting > 0 {
            eprintln!("hint: weir forward stores what waits in the archive, and so does the next run");
        }
        Ok(())
    }

    /// As [`end`](Self::end): of interfaces what is stored within a moment, of files everything, unless a signal comes.
    pub(crate) fn end_of(self, is_live: bool) -> anyhow::Result<()> {
        if is_live {
            return self.end(after(LIVE_GRACE));
        }
        let signals = Signals::new()?;
        self.end(|| signals.is_stopping())
    }

    /// What was counted, for the log.
    pub(crate) fn counts(&self) -> Option<String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|running| {
            let counts = summary(&running.counts(), &running.begun());
            // by itself it ends after an error only
            let ended = if running.has_ended() { "; it has ended, and flows wait in the archive" } else { "" };
            format!("{counts}{ended}")
        })
    }
}

/// How long flows of interfaces and sockets get to be stored when their command ends.
pub(crate) const LIVE_GRACE: Duration = Duration::from_secs(10);

/// Says that it is time to stop once so much time has passed.
pub(crate) fn after(length: Duration) -> impl Fn() -> bool {
    let began = Instant::now();
    move || began.elapsed() >= length
}

/// Prints what a sink `cassandra` stored.
pub(crate) fn print_stored(sink: &ComponentProgress) {
    let of = |name: &str| sink.counter(name);
    let mut text = format!("cassandra: {} flows stored of {} spooled", of("rows_forwarded"), of("rows_spooled"));
    for (name, what) in [("rows_refused", "that it can never take"), ("rows_lost", "lost")] {
        if of(name) > 0 {
            let _ = write!(text, ", {} {what}", of(name));
        }
    }
    eprintln!("{text}");
}
