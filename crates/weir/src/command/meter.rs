//! `weir meter`: packets of interfaces and capture files into flows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use tracing::info;
use weir_blocks::row_file::{RowFileOptions, RowFormat};
use weir_blocks::sinks::archive::{self as archive_sink, ArchiveSinkOptions};
use weir_blocks::sinks::dumper;
use weir_blocks::sinks::export::options::{ExportClock, ExportTlsOptions, MessageOptions, PatienceOptions};
use weir_blocks::sinks::export::target::Target;
use weir_blocks::sinks::export::{self, ExportOptions};
use weir_blocks::sinks::statistics::{self, StatisticsSinkOptions};
use weir_blocks::sources::meter::options::{FlowOptions, MeasureOptions, PacketOptions, RouteOptions};
use weir_blocks::sources::meter::{self, MeterSourceOptions};
use weir_blocks::transforms::enrich::{AddressFileOptions, EnrichOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::run::ComponentProgress;
use weir_chain::{Chain, ChainBuilder, Notices, OptionText, Problem, Progress, TimeSpan};
use weir_export::Refusal;
use weir_flow::Column;
use weir_formats::Format;

use super::chain_parts::{StatisticsArgs, enriched, show_or_build};
use super::new_archive::NewArchive;
use super::note_thread::NoteThread;
use super::read_before::ReadBefore;
use super::report::{counted, has_all_of, print_archived, print_counted};
use crate::flags::Flags;
use crate::running::{Foreground, Hooks};

const EXAMPLES: &str = "\
Examples:
  Flows of a capture, as CSV:
    weir meter trace.pcap
  Flows of an interface into an archive, with the applications they carry:
    weir meter eth0 --archive flows --measures application
  The same with statistics over time, by networks too:
    weir meter eth0 --archive flows --statistics --statistics-by src_net,dst_net
  As a probe that sends NetFlow v9 to two collectors:
    weir meter eth0 --to 192.0.2.1:2055 --to 192.0.2.2:2055 --protocol netflow-v9
  Straight into Cassandra, from every host that has traffic of its own:
    weir meter eth0 --to 'cassandra://10.0.0.1,10.0.0.2/weir?replication=3&ttl=90d' \\
      --spool /var/lib/weir/spool
  Only web traffic, one flow for both directions:
    weir meter trace.pcap --packet-filter 'tcp port 443' --biflow --format table";

/// Meter packets of interfaces or capture files into flows
///
/// Flows go into an archive, into statistics, to collectors as NetFlow v5, v9 or IPFIX, or to standard output as text; any of
/// these at the same time, and without any of them to standard output. Captures (pcap, pcapng, also compressed with gzip, zstd,
/// xz, bzip2 or lz4) are merged by the times of their packets. Capturing takes CAP_NET_RAW; reading files takes nothing.
///
/// Every packet is counted, and the counts are printed at the end. The exit status is 1 when not everything could be
/// metered or written, and 3 when it could but flows were not sent to a collector, or perhaps did not arrive as far as the
/// sender knows, which over UDP it does not. Ctrl-C ends capturing, or reading files, in order; a second one at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Capture files, - for standard input, or names of interfaces
    #[arg(value_name = "FILE|INTERFACE", required_unless_present_any = ["interfaces", "list_interfaces"])]
    sources: Vec<PathBuf>,
    /// Capture on this interface; may be repeated
    #[arg(short = 'i', long = "interface", value_name = "NAME", conflicts_with = "sources")]
    interfaces: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    /// Keep only flows that match, in nfdump's filter language; the others are dropped and counted
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    /// While capturing, log progress this often; 0s: never
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    report_interval: TimeSpan,
    /// Print the interfaces of this machine and their addresses, and exit
    #[arg(long)]
    list_interfaces: bool,
    /// Meter also files whose flows the archive has already
    #[arg(long, requires = "archive")]
    again: bool,
    /// Print this command as a chain file, and exit
    #[arg(long)]
    show_chain: bool,
    #[command(flatten)]
    packets: Flags<PacketOptions>,
    #[command(flatten)]
    flows: Flags<FlowOptions>,
    #[command(flatten)]
    measured: Flags<MeasureOptions>,
    #[command(flatten)]
    routing: Flags<RouteOptions>,
    #[command(flatten)]
    messages: Flags<MessageOptions>,
    #[command(flatten)]
    patience: Flags<PatienceOptions>,
    #[command(flatten)]
    tls: Flags<ExportTlsOptions>,
}

/// Where flows go, and what is added to them before.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Write flows into the archive in this folder; made when missing
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: Option<PathBuf>,
    /// Send flows to this collector: HOST:PORT or udp://HOST:PORT, for IPFIX also tcp://…, tls://… or sctp://…; or - for
    /// standard output, or cassandra://HOST/KEYSPACE to store them there; may be repeated
    ///
    /// Flows for Cassandra wait in the archive, or without one in the spool, while the cluster is away. Options of the cluster
    /// follow a question mark, as those of weir forward.
    #[arg(long, value_name = "HOST:PORT|URL|-", value_parser = Destination::parse)]
    to: Vec<Destination>,
    /// Without an archive, keep flows for Cassandra in this folder until the cluster has them
    #[cfg(feature = "cassandra")]
    #[arg(long, value_name = "DIR", default_value = "weir-spool")]
    spool: PathBuf,
    /// Remove the oldest flows from the spool when it has this size, stored or not
    #[cfg(feature = "cassandra")]
    #[arg(long, value_name = "SIZE", default_value = "10GiB")]
    spool_size: weir_chain::ByteSize,
    /// Format on standard output
    #[arg(long, short = 'o', value_enum, default_value_t = TextFormat::Csv)]
    format: TextFormat,
    #[command(flatten)]
    addresses: Flags<AddressFileOptions>,
    #[command(flatten)]
    statistics: StatisticsArgs,
}

#[cfg(feature = "cassandra")]
impl OutputArgs {
    /// The cluster that flows are stored in, if any.
    fn cluster(&self) -> Option<&weir_cassandra::CassandraOptions> {
        self.to.iter().find_map(|to| match to {
            Destination::Cassandra(options) => Some(options.as_ref()),
            _ => None,
        })
    }

    /// Begins to forward the archive that flows are written to.
    fn begin(&self, forwarding: &super::forward::ForwardBeside, is_live: bool) {
        if let Some(archive) = &self.archive {
            forwarding.begin(archive, self.cluster(), is_live);
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let clusters = self.to.iter().filter(|to| matches!(to, Destination::Cassandra(_))).count();
        ensure!(clusters <= 1, "flows are stored in one cluster; weir forward stores the archive in another");
        Ok(())
    }
}

/// How flows are written to standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TextFormat {
    /// Comma-separated values with a header line
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Ndjson,
    /// Aligned columns for people
    Table,
}

impl From<TextFormat> for RowFormat {
    fn from(format: TextFormat) -> Self {
        match format {
            TextFormat::Csv => Self::Csv,
            TextFormat::Json => Self::Json,
            TextFormat::Ndjson => Self::Ndjson,
            TextFormat::Table => Self::Table,
        }
    }
}

/// Where flows are sent.
#[derive(Debug, Clone)]
enum Destination {
    StandardOutput,
    Collector(Target),
    #[cfg(feature = "cassandra")]
    Cassandra(Box<weir_cassandra::CassandraOptions>),
}

impl Destination {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "-" {
            return Ok(Self::StandardOutput);
        }
        #[cfg(feature = "cassandra")]
        if text.starts_with(weir_cassandra::url::SCHEME) {
            return super::forward::cluster(text).map(|options| Self::Cassandra(Box::new(options)));
        }
        Target::parse_text(text).map(Self::Collector).map_err(|problem| match problem {
            Problem::Because(message, Some(hint)) => format!("{message}\nhint: {hint}"),
            Problem::Because(message, None) => message,
            Problem::Needs(needed) => format!("{needed} is needed"),
        })
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.list_interfaces {
        list_interfaces()?;
        return Ok(ExitCode::SUCCESS);
    }
    #[cfg(feature = "cassandra")]
    args.output.check()?;
    if args.sources.iter().filter(|source| source.as_os_str() == "-").count() > 1 {
        eprintln!("error: standard input (-) is named twice, and can be read only once");
        return Ok(ExitCode::from(USAGE));
    }
    let mut sources = args.sources()?;
    let is_live = !sources.interfaces.is_empty();
    let before = match &args.output.archive {
        Some(archive) if !is_live && !args.show_chain => {
            let before = ReadBefore::leave_out(archive, &mut sources.files, args.again)?;
            if sources.files.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            Some(before)
        }
        _ => None,
    };
    let files = sources.files.clone();
    let made = args.output.archive.as_deref().filter(|_| !is_live).map(NewArchive::of);
    let Some(chain) = show_or_build(args.chain(sources)?, args.show_chain)? else { return Ok(ExitCode::SUCCESS) };
    let every = (is_live && !args.report_interval.is_zero()).then(|| args.report_interval.duration());
    let begun = Instant::now();
    #[cfg(feature = "cassandra")]
    let forwarding = super::forward::ForwardBeside::default();
    let begin = |_: &weir_chain::Running| {
        #[cfg(feature = "cassandra")]
        args.output.begin(&forwarding, is_live);
    };
    let (notices, noting) = noting(before)?;
    let hooks = Hooks { started: Box::new(begin), every, report: Box::new(log_progress), ..Hooks::default() };
    let run = Foreground::new()?.run_with(chain, &notices, hooks);
    let before = noting.map(NoteThread::end);
    let (progress, ended) = run?;
    print_packets(&progress, begun.elapsed());
    print_archived(&progress);
    print_counted(&progress);
    // whatever else has failed, these flows are in the archive
    let before = before.filter(|_| has_all_of(&progress, METER, ended.is_err()));
    let noted = before.map_or(Ok(()), |mut before| before.note(&notices.files_ended()));
    // flows of files are all stored before it ends, those of interfaces get a moment
    #[cfg(feature = "cassandra")]
    forwarding.end_of(is_live)?;
    #[cfg(feature = "cassandra")]
    progress.component("cassandra").iter().for_each(|stored| super::forward::print_stored(stored));
    ended.context("metering ended")?;
    noted?;
    let unread = UNREAD.map(|name| progress.component(METER).map_or(0, |meter| meter.counter(name)));
    let is_all_read = unread.iter().all(|count| *count == 0);
    if !is_all_read {
        made.iter().for_each(NewArchive::remove_if_empty);
        hint_at_import(&files);
    }
    let unsent = progress.component("export").and_then(unsent);
    if let Some(unsent) = &unsent {
        eprintln!("error: {unsent}");
    }
    Ok(match (is_all_read, unsent) {
        (true, None) => ExitCode::SUCCESS,
        (true, Some(_)) => ExitCode::from(UNSENT),
        _ => ExitCode::FAILURE,
    })
}

/// Takes lines for standard error and, with an archive, files: those that are begun, and those to note while others are read.
fn noting(before: Option<ReadBefore>) -> anyhow::Result<(Notices, Option<NoteThread>)> {
    let notices = Notices::to(|line| eprintln!("{line}"));
    let Some(before) = before else { return Ok((notices, None)) };
    let notices = notices.with_begun(before.begun_taker());
    let noting = NoteThread::start(before)?;
    Ok((notices.with_kept(noting.taker()), Some(noting)))
}

/// Names what reads files of flows, which are no captures.
fn hint_at_import(files: &[PathBuf]) {
    let has_flows = |path: &&PathBuf| path.is_file() && matches!(Format::of_file(path), Ok(Some(_)));
    if let Some(path) = files.iter().find(has_flows) {
        eprintln!("hint: {} has flows and no packets: weir import reads it", path.display());
    }
}

/// Counters of what could not be read. A packet that is not IP was read, and is none that flows are made of.
const UNREAD: [&str; 3] = ["files_failed", "frames_unknown_link", "frames_unfilterable"];

/// Exit status when the arguments make no sense.
const USAGE: u8 = 2;

/// Exit status when everything was done but that collectors have not, or perhaps not, got all flows.
const UNSENT: u8 = 3;

/// What is wrong when flows did not reach a collector, or may not have, and what can be done about it.
fn unsent(export: &ComponentProgress) -> Option<String> {
    let [unsent, uncertain] = ["records_unsent", "records_uncertain"].map(|name| export.counter(name));
    let mut what = Vec::new();
    if unsent > 0 {
        what.push(format!("{unsent} flows were not sent to a collector"));
    }
    if uncertain > 0 {
        what.push(format!("it is not known whether {uncertain} flows arrived"));
    }
    let hint = if export.counter("datagrams_failed") > 0 {
        "the system refused datagrams: is there a route to the collector, and does no firewall hold them up?"
    } else if export.counter("connections_made") == 0 {
        "no collector could be connected to: does one listen there?"
    } else {
        "a collector was slow or went away; --room-timeout and --finish-timeout give it more time, --queue-size more memory"
    };
    (!what.is_empty()).then(|| format!("{}\nhint: {hint}", what.join(", and ")))
}

/// Prints the interfaces of this machine: number, name, state, addresses.
fn list_interfaces() -> anyhow::Result<()> {
    let interfaces = weir_capture::list_interfaces().context("interfaces are not known")?;
    let name_width = interfaces.iter().map(|interface| interface.name.len()).max().unwrap_or(0);
    for interface in interfaces {
        let state = if interface.is_up { "up" } else { "down" };
        let addresses: Vec<_> = interface.addresses.iter().map(ToString::to_string).collect();
        let line =
            format!("{:>4}  {:name_width$}  {state:4}  {}", interface.index, interface.name, addresses.join(" "));
        println!("{}", line.trim_end());
    }
    Ok(())
}

/// How long statistics wait for flows of files beyond their idle timeout, by the times of other flows: workers hand on flows of
/// a block of packets one after the other, and a block of a quiet link has packets of a minute.
const PAST_LATENESS: Duration = Duration::from_mins(1);

/// Name of the source in the chain.
const METER: &str = "meter";

/// What packets come from.
struct Sources {
    files: Vec<PathBuf>,
    interfaces: Vec<String>,
}

impl Args {
    /// What is a file and what an interface: a name without a file of that name is an interface when there is one.
    fn sources(&self) -> anyhow::Result<Sources> {
        let (mut files, mut interfaces) = (Vec::new(), Vec::new());
        for source in &self.sources {
            // names of interfaces are text, those of files any octets
            match source.to_str() {
                Some(name) if !source.exists() && Path::new("/sys/class/net").join(name).exists() => {
                    interfaces.push(name.to_owned());
                }
                _ => files.push(source.clone()),
            }
        }
        if let Some(missing) = files.iter().find(|path| path.as_os_str() != "-" && !path.exists()) {
            bail!("there is neither a file nor an interface '{}'", missing.display());
        }
        let interfaces = if self.interfaces.is_empty() { interfaces } else { self.interfaces.clone() };
        ensure!(
            files.is_empty() || interfaces.is_empty(),
            "packets come from files or from interfaces, not from both: '{}' is an interface",
            interfaces.first().map_or("", String::as_str)
        );
        Ok(Sources { files, interfaces })
    }

    /// The chain that these arguments describe.
    fn chain(&self, sources: Sources) -> anyhow::Result<ChainBuilder> {
        let is_live = !sources.interfaces.is_empty();
        let source = MeterSourceOptions {
            files: sources.files,
            interfaces: sources.interfaces,
            filter: self.filter.clone(),
            packets: self.packets.0.clone(),
            flows: self.flows.0.clone(),
            measured: self.measured.0.clone(),
            routing: self.routing.0.clone(),
            ..MeterSourceOptions::default()
        };
        let enrichment = EnrichOptions { addresses: self.output.addresses.0.clone(), ..EnrichOptions::default() };
        let mut columns = source.columns();
        columns.extend(enrichment.columns());
        columns.sort_unstable();
        columns.dedup();
        let chain = Chain::builder("meter").add(METER, &meter::KIND, source, &[], ThreadChoice::Default);
        let (chain, input) = enriched(chain, METER, enrichment);
        let statistics = self.statistics(is_live)?;
        let is_counted = statistics.is_some();
        let chain = self.sinks(chain, input, is_live, &columns, is_counted);
        Ok(match statistics {
            Some(options) => chain.add("statistics", &statistics::KIND, options, &[input], ThreadChoice::Own),
            None => chain,
        })
    }

    /// The statistics that are kept, if any. Flows of files are received by a clock that their packets move on in leaps, and come
    /// at most so long after their end.
    fn statistics(&self, is_live: bool) -> anyhow::Result<Option<StatisticsSinkOptions>> {
        let options = self.output.statistics.options(self.output.archive.as_deref())?;
        if is_live {
            return Ok(options);
        }
        let lateness = TimeSpan::from(self.flows.0.idle_timeout.duration().saturating_add(PAST_LATENESS));
        Ok(options.map(|options| StatisticsSinkOptions { series: options.series.of_past(lateness), ..options }))
    }

    fn sinks(
        &self,
        mut chain: ChainBuilder,
        input: &str,
        is_live: bool,
        columns: &[Column],
        is_counted: bool,
    ) -> ChainBuilder {
        let OutputArgs { archive, to, format, .. } = &self.output;
        let collectors: Vec<Target> = to
            .iter()
            .filter_map(|to| match to {
                Destination::Collector(target) => Some(target.clone()),
                _ => None,
            })
            .collect();
        let asks_for_text = to.iter().any(|to| matches!(to, Destination::StandardOutput));
        let is_printed = asks_for_text || (archive.is_none() && to.is_empty() && !is_counted);
        if let Some(folder) = archive {
            let options = ArchiveSinkOptions { archive: folder.clone(), ..ArchiveSinkOptions::default() };
            chain = chain.add("archive", &archive_sink::KIND, options, &[input], ThreadChoice::Default);
        }
        #[cfg(feature = "cassandra")]
        if let (None, Some(cluster)) = (archive, self.output.cluster()) {
            let options = weir_cassandra::sink::CassandraSinkOptions {
                spool: self.output.spool.clone(),
                spool_size: self.output.spool_size,
                cassandra: cluster.clone(),
                ..weir_cassandra::sink::CassandraSinkOptions::default()
            };
            chain = chain.add("cassandra", &weir_cassandra::sink::KIND, options, &[input], ThreadChoice::Default);
        }
        if !collectors.is_empty() {
            let options = self.export(collectors, is_live);
            chain = chain.add("export", &export::KIND, options, &[input], ThreadChoice::Default);
        }
        if is_printed {
            let options = RowFileOptions {
                path: PathBuf::from("-"),
                format: (*format).into(),
                columns: columns.iter().map(|column| column.name().to_owned()).collect(),
                ..RowFileOptions::default()
            };
            chain = chain.add("text", &dumper::KIND, options, &[input], ThreadChoice::Default);
        }
        chain
    }

    /// Flows of files are of the past, and can wait for a slow collector; an interrupt while they are read ends soon, while
    /// an interface has no other end.
    fn export(&self, to: Vec<Target>, is_live: bool) -> ExportOptions {
        let (clock, room, finish) = if is_live { (ExportClock::Now, 0, 10) } else { (ExportClock::Rows, 30, 30) };
        let given = self.patience.0.clone();
        let finish = given.finish_timeout.unwrap_or(TimeSpan::from_secs(finish));
        let stop = if is_live { finish } else { finish.min(TimeSpan::from_secs(1)) };
        let patience = PatienceOptions {
            room_timeout: Some(given.room_timeout.unwrap_or(TimeSpan::from_secs(room))),
            finish_timeout: Some(finish),
            stop_timeout: Some(given.stop_timeout.unwrap_or(stop)),
            ..given
        };
        ExportOptions {
            to,
            clock,
            allow_remote: true,
            messages: self.messages.0.clone(),
            patience,
            tls: self.tls.0.clone(),
            ..ExportOptions::default()
        }
    }
}

fn log_progress(progress: &Progress) {
    let Some(meter) = progress.component(METER) else { return };
    let of = |name| meter.counter(name);
    info!(
        "{} packets, {} in flows, {} dropped by the system; {} flows begun, {} ended, {} of them because the table was full",
        of("packets"),
        of("packets_in_flows"),
        of("kernel_drops"),
        of("flows_begun"),
        of("flows_ended"),
        of("flows_evicted"),
    );
}

/// Counters that are printed at the end when they are not zero, and what they count.
const COUNTERS: &[(&str, &str)] = &[
    ("packets_not_ip", "packets that are not IP"),
    ("packets_truncated", "packets cut off before the end of their IP header"),
    ("packets_malformed", "packets of which a header contradicts itself"),
    ("packets_too_deep", "packets with too many tunnels or extension headers"),
    ("packets_not_sampled", "packets that were not selected"),
    ("fragments_of_tunnels", "further fragments of packets that carry another one, which is in a flow"),
    ("fragments_without_first", "fragments in flows without ports, because the first one did not come"),
    ("frames_filtered", "frames that the packet filter left out"),
    ("frames_unknown_link", "frames of an unknown link layer"),
    ("frames_unfilterable", "frames of a link layer that the packet filter has no meaning on"),
    ("kernel_drops", "packets that the system dropped"),
    ("buffer_overruns", "times that the memory for captured packets was full (--buffer)"),
    ("flows_evicted", "flows that ended early because the table was full"),
    ("tunnel_pairs_forgotten", "ends of tunnels that were forgotten, so that one flow may be exported as two"),
    ("handshakes_cut", "handshakes too long, or too many at the same time, to be looked at whole"),
    ("payloads_malformed", "payloads of a known protocol that contradict themselves"),
    ("files_failed", "files that could not be read to their end"),
    ("times_replaced", "flows of more than 1000 days in one file: now is taken for the time of their reception"),
    ("routes_defective", "records of routes that could not be used"),
    ("routes_reloads_failed", "times that changed routes were not used"),
];

fn print_packets(progress: &Progress, took: Duration) {
    let Some(meter) = progress.component(METER) else { return };
    let packets = meter.counter("packets");
    eprintln!(
        "{}, {} of them in {}, {} octets, {:.0} packets/s",
        counted(packets, "packet"),
        meter.counter("packets_in_flows"),
        counted(meter.counter("flows_ended"), "flow"),
        meter.counter("octets"),
        packets as f64 / took.as_secs_f64().max(1e-3),
    );
    for (name, what) in COUNTERS {
        let count = meter.counter(name);
        if count > 0 {
            eprintln!("  {count:>14}  {what}");
        }
    }
    let left_out = meter.counter(weir_flow::Counter::RecordsFiltered.name());
    if left_out > 0 {
        eprintln!("  {left_out:>14}  flows left out by --filter");
    }
    if let Some(export) = progress.component("export") {
        print_exported(export);
    }
}

/// Counters of exporting that are printed at the end when they are not zero, and what they count.
const EXPORT_COUNTERS: &[(&str, &str)] = &[
    ("records_unsent", "flows not sent to a collector"),
    ("records_uncertain", "flows written into a connection that then failed: whether they arrived is not known"),
    ("datagrams_failed", "datagrams that the system did not send"),
    ("connections_failed", "attempts to connect that failed"),
    ("connections_lost", "connections that were lost"),
    ("options_left_out", "rows about interfaces and samplers that were not sent to collectors"),
];

fn print_exported(export: &ComponentProgress) {
    let of = |name: &str| export.counter(name);
    eprintln!(
        "export: {} flows sent to collectors in {} datagrams and {} messages, {} not sent",
        of("records_exported"),
        of("datagrams_sent"),
        of("messages_sent"),
        of("records_unsent") + export.rows_discarded,
    );
    let refused = Refusal::ALL.iter().map(|reason| of(&format!("records_refused_{}", reason.label()))).sum::<u64>();
    if refused > 0 {
        eprintln!("  {refused:>14}  flows that cannot be expressed in this protocol");
    }
    for (name, what) in EXPORT_COUNTERS {
        let count = of(name);
        if count > 0 {
            eprintln!("  {count:>14}  {what}");
        }
    }
}
