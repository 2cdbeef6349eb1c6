//! `weir collect`: from sockets of any transport into an archive.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tracing::info;
use weir_archive::ArchiveOptions;
use weir_chain::Progress;
use weir_chain::run::ComponentProgress;
use weir_flow::Counter;

use super::{chain_of, seconds, tell_archived, tell_books, texts};
use crate::age::Age;
use crate::octets::Octets;
use crate::running::Foreground;

/// Receive NetFlow, IPFIX and sFlow and keep the flows in an archive
///
/// SIGINT and SIGTERM end it in order: what the kernel still holds is read, everything is written, synced and sealed,
/// and the books are printed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen, any number of times: udp://0.0.0.0:2055, tcp://[::]:4739, tls://…, dtls://…, sctp://…; without a
    /// transport it is UDP; port 0 takes a free one
    #[arg(long, value_name = "[TRANSPORT://]ADDR:PORT", default_value = "127.0.0.1:2055")]
    listen: Vec<String>,
    /// Folder of the archive; made when it is not there
    #[arg(long, value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: PathBuf,
    /// Folder in which templates, samplers and waiting data are kept from one start to the next
    ///
    /// By default the folder `collector` in that of the archive.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Sockets that share the port of a UDP listener, each with a thread that receives and one that decodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    sockets: usize,
    /// Receive buffer to ask the kernel for, per socket
    #[arg(long, value_name = "OCTETS", default_value = "64M")]
    buffer: Octets,
    /// Flows to keep, in nfdump's filter language; the others are counted in the books under records_filtered
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    relay: RelayArgs,
    /// Longest time that flows stay unsynced, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    commit_interval_ms: u64,
    /// Longest time before the tail is sealed into a segment, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    seal_interval_secs: u64,
    /// Flows after which the tail is sealed into a segment
    #[arg(long, value_name = "ROWS", default_value_t = ArchiveOptions::default().segment_rows_max)]
    segment_rows: usize,
    #[command(flatten)]
    limits: LimitArgs,
    /// Time between lines that tell how it goes, in seconds; 0 for none
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    report_secs: u64,
    /// Print the chain that this command is, as a chain file, and end
    #[arg(long)]
    show_chain: bool,
}

/// What the archive keeps, and for how long.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits of the archive")]
struct LimitArgs {
    /// Age at which flows expire: 90m, 12h, 30d, 4w, 1y; without it never
    #[arg(long, value_name = "AGE")]
    max_age: Option<Age>,
    /// Age at which books, options and counters expire; without it never
    #[arg(long, value_name = "AGE")]
    max_age_beside: Option<Age>,
    /// Size of the archive at which the oldest segments expire, with K, M, G or T; without it never
    #[arg(long, value_name = "OCTETS")]
    max_size: Option<Octets>,
    /// Age at which summaries go, which are what stays of flows that have expired: sums by host, port, minute and so on, a
    /// hundredth of their size; 0d keeps none [default: 400d]
    #[arg(long, value_name = "AGE")]
    keep_summaries: Option<Age>,
    /// Size of all summaries at which the oldest go; without it a tenth of --max-size
    #[arg(long, value_name = "OCTETS")]
    max_size_summaries: Option<Octets>,
    /// Percentage of a limit that data goes down to when it is hit
    #[arg(long, value_name = "PERCENT", default_value_t = 95, value_parser = clap::value_parser!(u8).range(1..=100))]
    low_water: u8,
    /// On a full disk: refuse what cannot be written and try again, or remove the oldest segments
    #[arg(long, value_name = "WHAT", value_parser = ["refuse", "oldest-first"], default_value = "refuse")]
    when_full: String,
    /// Free space to have back when the disk is full, at most a twentieth of the file system
    #[arg(long, value_name = "OCTETS", default_value = "1G")]
    reserve: Octets,
    /// Leave small segments as they are
    #[arg(long)]
    no_merge: bool,
}

/// Certificates for TLS and DTLS.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS and DTLS")]
struct TlsArgs {
    /// PEM file of the certificate, followed by those of the authorities up to the root
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// PEM file of the authorities that sign the certificates of exporters
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Whether exporters must show a certificate; one that is requested is checked when it comes
    #[arg(long, value_name = "HOW", value_parser = ["require", "request", "none"])]
    tls_client_auth: Option<String>,
    /// Name of which the certificate of an exporter must have one; any number of times
    #[arg(long, value_name = "NAME")]
    tls_peer: Vec<String>,
}

/// Other collectors.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Relay")]
struct RelayArgs {
    /// Another collector that gets every datagram as it came, over UDP; any number of times
    #[arg(long, value_name = "HOST:PORT")]
    relay: Vec<String>,
    /// Send relayed datagrams under the address of the exporter, which takes CAP_NET_RAW
    #[arg(long, requires = "relay")]
    relay_keep_source: bool,
    /// Relay only exporters of this network; any number of times
    #[arg(long, value_name = "NETWORK", requires = "relay")]
    relay_source: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = args.chain();
    if args.show_chain {
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let chain = chain_of(&text)?;
    let every = (args.report_secs > 0).then(|| Duration::from_secs(args.report_secs));
    let (progress, ended) = Foreground::new()?.run(chain, every, |_| {}, tell_progress)?;
    tell_books(&progress, "collector");
    tell_archived(&progress);
    ended.context("collecting ended")?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The chain file of these arguments.
    fn chain(&self) -> String {
        format!(
            "name = \"collect\"\n\
             # deliveries stay as the collector makes them, with the books that account for them\n\
             burst_records = 0\n\
             queue_bursts = 8\n\
             \n\
             [components.collector]\n\
             type = \"collector\"\n\
             listen = {}\n\
             sockets = {}\n\
             buffer_octets = {}\n\
             where = {}\n\
             state = {}\n\
             {}\
             \n\
             [components.archive]\n\
             type = \"archive\"\n\
             inputs = [\"collector\"]\n\
             thread = \"own\"\n\
             archive = {}\n\
             commit_interval_secs = {}\n\
             seal_interval_secs = {}\n\
             segment_rows = {}\n\
             {}",
            texts(&self.listen),
            self.sockets,
            self.buffer.0,
            super::toml_text(self.filter.as_deref().unwrap_or_default()),
            super::quoted(&self.state.clone().unwrap_or_else(|| self.archive.join("collector"))),
            self.tls.lines() + &self.relay.lines(),
            super::quoted(&self.archive),
            seconds(self.commit_interval_ms),
            self.seal_interval_secs,
            self.segment_rows,
            self.limits.lines(),
        )
    }
}

impl LimitArgs {
    /// Lines of the chain file.
    fn lines(&self) -> String {
        let mut lines = format!(
            "low_water_percent = {}\nwhen_full = \"{}\"\nfree_octets_min = {}\nmerge = {}\n",
            self.low_water, self.when_full, self.reserve.0, !self.no_merge
        );
        let ages = [
            ("age_max_secs", self.max_age),
            ("beside_age_max_secs", self.max_age_beside),
            ("summaries_age_max_secs", self.keep_summaries),
        ];
        for (key, age) in ages {
            if let Some(age) = age {
                // writing to a text does not fail
                let _ = writeln!(lines, "{key} = {}", age.0.as_secs());
            }
        }
        let sizes = [("octets_max", self.max_size), ("summaries_octets_max", self.max_size_summaries)];
        for (key, octets) in sizes {
            if let Some(octets) = octets {
                let _ = writeln!(lines, "{key} = {}", octets.0);
            }
        }
        lines
    }
}

impl TlsArgs {
    /// Lines of the chain file, for what was given.
    fn lines(&self) -> String {
        let mut lines = String::new();
        for (key, path) in [("tls_cert", &self.tls_cert), ("tls_key", &self.tls_key), ("tls_ca", &self.tls_ca)] {
            if let Some(path) = path {
                // writing to a text does not fail
                let _ = writeln!(lines, "{key} = {}", super::quoted(path));
            }
        }
        if let Some(how) = &self.tls_client_auth {
            let _ = writeln!(lines, "tls_client_auth = \"{how}\"");
        }
        if !self.tls_peer.is_empty() {
            let _ = writeln!(lines, "tls_peers = {}", texts(&self.tls_peer));
        }
        lines
    }
}

impl RelayArgs {
    /// Lines of the chain file, for what was given.
    fn lines(&self) -> String {
        let mut lines = String::new();
        if !self.relay.is_empty() {
            let _ = writeln!(lines, "relay = {}", texts(&self.relay));
        }
        if self.relay_keep_source {
            lines.push_str("relay_keep_source = true\n");
        }
        if !self.relay_source.is_empty() {
            let _ = writeln!(lines, "relay_sources = {}", texts(&self.relay_source));
        }
        lines
    }
}

fn tell_progress(progress: &Progress) {
    let (Some(collector), Some(archive)) = (progress.component("collector"), progress.component("archive")) else {
        return;
    };
    let of = |block: &ComponentProgress, counter: Counter| block.counter(counter.name());
    let drops = [Counter::KernelDrops, Counter::QueueDrops].map(|counter| of(collector, counter));
    info!(
        "{} datagrams, {} flows decoded, {} synced, lost {} (kernel {}, queue {}, sequence {} records and {} datagrams)",
        of(collector, Counter::Datagrams),
        of(collector, Counter::RecordsStored),
        archive.counter("rows_durable"),
        drops[0] + drops[1],
        drops[0],
        drops[1],
        of(collector, Counter::RecordsLost).saturating_sub(of(collector, Counter::RecordsLate)),
        of(collector, Counter::DatagramsLost).saturating_sub(of(collector, Counter::DatagramsLate)),
    );
}
