//! The configuration of `weir serve`: the file, and what the command line says otherwise.

use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow};
use toml::Table;
use weir_blocks::sinks::archive::{ArchiveSinkOptions, RetentionOptions, SealingOptions};
use weir_blocks::sinks::statistics::{SeriesOptions, StatisticsSinkOptions};
use weir_blocks::sources::collector::CollectorSourceOptions;
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_blocks::sources::meter::MeterSourceOptions;
use weir_blocks::sources::meter::options::{FlowOptions, MeasureOptions, PacketOptions, RouteOptions};
use weir_blocks::transforms::enrich::{AddressFileOptions, EnrichOptions, ExporterFileOptions, RouteFileOptions};
use weir_chain::options::OptionSpec;
use weir_chain::{ByteSize, ChainBuilder, OptionError, Options, TimeSpan, options};
use weir_serve::config::{AccessOptions, RoleOptions, UserOptions};
use weir_serve::{
    AuditOptions, ConfigFile, DownloadOptions, FlightOptions, HttpOptions, Ingest, IngestOptions, PostgresOptions,
    QuestionOptions, Reloaded, Reloader, Server, ServiceOptions, granting,
};
use weir_sql::{EnrichmentFiles, VersionLimits};

use super::Args;
use super::chains::{Chains, locked};
use super::reload_signals::ReloadSignals;
use crate::command::collect::{CollectingSources, collecting};
use crate::command::{series, show_or_build};

/// The sections of a configuration.
pub(in crate::command) const SECTIONS: &[(&str, &str)] = &[
    ("http", "How the service listens, and limits of connections"),
    ("questions", "How much questions may use"),
    ("archive", "Where the archive is, how it is sealed, and what is kept"),
    ("collect", "Where datagrams and connections come in"),
    ("meter", "Interfaces whose packets are metered into the archive"),
    #[cfg(feature = "snmp")]
    ("snmp", "Agents that are asked for names, speeds and counters of interfaces"),
    ("ingest", "How flows that programs push over HTTP are taken into the archive"),
    ("chain", "Chains that run beside the service"),
    ("download", "Files that are fetched over HTTP, for other sections"),
    ("enrichment", "Files whose contents are kept with the flows: countries, labels, names"),
    ("statistics", "What statistics are kept of"),
    ("watch", "Where watches are"),
    ("dashboards", "Where dashboards are"),
    ("postgres", "How the wire of Postgres is spoken"),
    ("flight", "How Flight SQL is spoken"),
    ("audit", "Where it is written down who asked what"),
    ("access", "Where more users and the key of pseudonyms are"),
    ("roles", "Roles of your own: what their users may do and see"),
    ("users", "Who may ask"),
];

/// How often interfaces that have gone away are tried again, unless a section says otherwise.
const INTERFACE_RETRY: TimeSpan = TimeSpan::from_secs(5);
/// Sections that are read again while the service runs.
const READ_AGAIN: &[&str] = &["access", "roles", "users"];
/// The section whose files are read again, and whose names of files are those of questions then; what is kept with flows goes on to be
/// that of the files that collecting began with.
const ENRICHMENT: &str = "enrichment";
/// The section of which may change who may send.
const COLLECT: &str = "collect";

options! {
    /// The section `archive`.
    struct ArchiveSection {
        /// Folder of the archive.
        folder: Option<PathBuf>,
    }
    includes {
        /// When tails are sealed.
        sealing: SealingOptions,
        /// What is kept.
        retention: RetentionOptions,
    }
}

options! {
    /// The section `collect`, which has the options of the source `collector`.
    struct CollectSection {}
    includes {
        /// Where datagrams and connections come in.
        listening: ListenOptions,
        /// Limits of connections.
        connections: ConnectionOptions,
        /// Certificates.
        tls: ListenerTlsOptions,
        /// Other collectors.
        relaying: RelayingOptions,
        /// Limits of decoders.
        limits: LimitOptions,
    }
}

impl From<CollectSection> for CollectorSourceOptions {
    fn from(section: CollectSection) -> Self {
        let CollectSection { listening, connections, tls, relaying, limits } = section;
        Self { archive: None, listening, connections, tls, relaying, limits }
    }
}

options! {
    /// A section `meter`, which has the options of the source `meter`.
    struct MeterSection {
        /// Capture on these interfaces; it takes CAP_NET_RAW. When all of them have gone away they are tried again, as
        /// interface_retry says: those that are not to wait for others have a section of their own.
        interfaces: Vec<String>,
        /// Address of the exporter that flows have.
        exporter: IpAddr = IpAddr::from([127, 0, 0, 1]),
        /// Keep only flows that match, in nfdump's filter language; the others are counted in the books under
        /// records_filtered.
        filter: Option<String>,
    }
    includes {
        /// Which packets.
        packets: PacketOptions,
        /// What a flow is.
        flows: FlowOptions,
        /// What flows have besides their counters.
        measured: MeasureOptions,
        /// What flows have of the networks of their addresses.
        routing: RouteOptions,
    }
}

impl From<MeterSection> for MeterSourceOptions {
    fn from(section: MeterSection) -> Self {
        let MeterSection { interfaces, exporter, filter, packets, flows, measured, routing } = section;
        let packets = PacketOptions { interface_retry: packets.interface_retry.or(Some(INTERFACE_RETRY)), ..packets };
        Self { interfaces, exporter, filter, packets, flows, measured, routing, ..Self::default() }
    }
}

options! {
    /// A section `chain`.
    struct ChainSection {
        /// The chain file, as weir chain run takes it. The chain begins when the service answers and ends with it; one that ends
        /// before is reported, and the service goes on.
        file: PathBuf,
    }
}

options! {
    /// The section `enrichment`, which has files of the transform `enrich`.
    struct EnrichmentSection {
        /// Ask for the names of hosts, and keep them with the flows.
        reverse_dns: bool = false,
        /// Keep at most this many versions of each file, for questions about the time when they were valid; the oldest are
        /// dropped first.
        versions_max: usize = 32 => 1..=10_000,
        /// Keep at most this much of the versions of each file; the newest is kept in any case.
        versions_size_max: ByteSize = ByteSize::from_mib(256) => 1..=1 << 40,
    }
    includes {
        /// What is known of addresses.
        addresses: AddressFileOptions,
        /// What is known of exporters.
        exporters: ExporterFileOptions,
        /// What is known of routes.
        routes: RouteFileOptions,
    }
}

options! {
    /// The section `statistics`, which has the options of the sink `statistics`.
    struct StatisticsSection {
        /// Folder of the statistics; the folder statistics of the archive without it.
        folder: Option<PathBuf>,
    }
    includes {
        /// What is counted, and in which steps.
        series: SeriesOptions,
    }
}

options! {
    /// The section `watch`.
    struct WatchSection {
        /// Folder of watch files.
        folder: PathBuf,
        /// Keep the flows of windows of all watches in at most this much memory. When it is full, the watch that keeps most of it
        /// leaves out flows, which are counted in `rows_over_memory`.
        memory_max: ByteSize = ByteSize::from_mib(1024) => 1..=1 << 50,
    }
}

options! {
    /// The section `dashboards`.
    struct DashboardSection {
        /// Folder of the files of dashboards.
        folder: PathBuf,
    }
}

impl EnrichmentSection {
    /// The files that questions look into: what was collected before they were named has nothing of them.
    fn files(self) -> EnrichmentFiles {
        let AddressFileOptions { asn_mmdb, geo_mmdb, labels } = self.addresses;
        let limits = VersionLimits { versions_max: self.versions_max, octets_max: self.versions_size_max.bytes() };
        let (interfaces, routes) = (self.exporters.interfaces, self.routes.routes);
        // the service knows the archive, where versions are
        EnrichmentFiles { asn_mmdb, routes, geo_mmdb, labels, interfaces, versions: None, limits: Some(limits) }
    }
}

/// The options of each section, by its name.
pub(in crate::command) fn specs(section: &str) -> Vec<OptionSpec> {
    match section {
        "http" => HttpOptions::specs(),
        "questions" => QuestionOptions::specs(),
        "archive" => ArchiveSection::specs(),
        "collect" => CollectSection::specs(),
        "meter" => MeterSection::specs(),
        #[cfg(feature = "snmp")]
        "snmp" => weir_snmp::SnmpOptions::specs(),
        "ingest" => IngestOptions::specs(),
        "chain" => ChainSection::specs(),
        "download" => DownloadOptions::specs(),
        "statistics" => StatisticsSection::specs(),
        "watch" => WatchSection::specs(),
        "dashboards" => DashboardSection::specs(),
        "postgres" => PostgresOptions::specs(),
        "flight" => FlightOptions::specs(),
        "enrichment" => EnrichmentSection::specs(),
        "audit" => AuditOptions::specs(),
        "access" => AccessOptions::specs(),
        "roles" => RoleOptions::specs(),
        "users" => UserOptions::specs(),
        _ => Vec::new(),
    }
}

/// Reads every section, so that what is wrong with any of them is an error.
pub(in crate::command) fn check(path: &Path) -> Result<ConfigFile, OptionError> {
    let file = parsed(path)?;
    file.section::<HttpOptions>("http")?;
    file.section::<QuestionOptions>("questions")?;
    file.section::<ArchiveSection>("archive")?;
    file.section::<CollectSection>(COLLECT)?;
    file.list::<MeterSection>("meter")?;
    #[cfg(feature = "snmp")]
    snmp_sections(&file)?;
    file.section::<IngestOptions>("ingest")?;
    file.list::<ChainSection>("chain")?;
    downloads(&file)?;
    file.section::<StatisticsSection>("statistics")?;
    file.section::<WatchSection>("watch")?;
    file.section::<DashboardSection>("dashboards")?;
    file.section::<PostgresOptions>("postgres")?;
    file.section::<FlightOptions>("flight")?;
    file.section::<AuditOptions>("audit")?;
    reloaded(&file)?;
    Ok(file)
}

/// Files that are fetched.
fn downloads(file: &ConfigFile) -> Result<Vec<DownloadOptions>, OptionError> {
    let downloads: Vec<DownloadOptions> = file.list("download")?;
    downloads.iter().try_for_each(DownloadOptions::check)?;
    let is_named_before = |number: usize, file: &Path| downloads[..number].iter().any(|other| other.file == file);
    let twice = downloads.iter().enumerate().find(|(number, download)| is_named_before(*number, &download.file));
    if let Some((_, download)) = twice {
        let wrong = format!("[download] {} is the file of two sections [[download]]", download.file.display());
        return Err(OptionError::new("file", wrong).with_hint("fetch each file by one section"));
    }
    Ok(downloads)
}

/// What of a file may change while the service runs.
fn reloaded(file: &ConfigFile) -> Result<Reloaded, OptionError> {
    let enrichment = file.section::<EnrichmentSection>("enrichment")?.unwrap_or_default();
    Ok(Reloaded { users: granting::users(file)?, enrichment: enrichment.files(), ..Reloaded::default() })
}

/// What a service has begun with, by which is known what takes a restart.
struct Begun {
    file: ConfigFile,
    /// Where the command line has it collect, whatever the file says.
    listen: Vec<String>,
    is_collecting: bool,
}

/// How a file is read again, and who hears of it.
fn reloader(path: PathBuf, begun: Begun, signals: Arc<Mutex<ReloadSignals>>) -> Reloader {
    let tell = move |of_collector: Option<Table>| locked(&signals).ask(of_collector);
    Reloader::new(move || read_again(&path, &begun), tell)
}

/// Reads a file again, and finds out what of it takes a restart.
fn read_again(path: &Path, begun: &Begun) -> Result<Reloaded, OptionError> {
    let in_file =
        |error: OptionError| OptionError { message: format!("{}: {}", path.display(), error.message), ..error };
    let file = check(path).map_err(in_file)?;
    let collecting = senders(&file, begun).map_err(in_file)?;
    let takes_restart = |name: &String| match name.as_str() {
        ENRICHMENT => begun.is_collecting,
        COLLECT => collecting.is_none(),
        name => !READ_AGAIN.contains(&name),
    };
    let restart_needed = file.changed_sections(&begun.file).into_iter().filter(takes_restart).collect();
    Ok(Reloaded { restart_needed, collecting, ..reloaded(&file).map_err(in_file)? })
}

/// Who may send by a file that is read again, as options of the collector that runs; `None` where more of the section has
/// changed than that, or the file has not had it.
fn senders(file: &ConfigFile, begun: &Begun) -> Result<Option<Table>, OptionError> {
    let options = |file: &ConfigFile| -> Result<Option<CollectorSourceOptions>, OptionError> {
        let Some(mut section) = file.section::<CollectSection>(COLLECT)? else { return Ok(None) };
        if !begun.listen.is_empty() {
            section.listening.listen.clone_from(&begun.listen);
        }
        Ok(Some(section.into()))
    };
    let (Some(now), Some(then)) = (options(file)?, options(&begun.file)?) else { return Ok(None) };
    let in_section = |error: OptionError| OptionError { message: format!("[{COLLECT}] {}", error.message), ..error };
    now.senders_after(&then).map_err(in_section)
}

/// What the service is, and what it collects.
pub(in crate::command) struct Settings {
    pub(super) service: ServiceOptions,
    pub(super) demo_rate: Option<u32>,
    /// The chains of the process, once they run: they read their files again when the service does.
    pub(super) running: Arc<Mutex<ReloadSignals>>,
    /// Files of chains that run beside it.
    pub(super) chains: Vec<PathBuf>,
    /// Memory for windows of watches, where the file says it.
    pub(super) watch_memory: Option<ByteSize>,
    /// Files that are fetched before it begins, and while it runs.
    pub(super) downloads: Vec<DownloadOptions>,
    archive: ArchiveSection,
    collect: Option<CollectSection>,
    meters: Vec<MeterSection>,
    /// Whether agents are asked for names of interfaces.
    is_polling: bool,
    #[cfg(feature = "snmp")]
    snmp: Vec<weir_snmp::SnmpOptions>,
    enrichment: EnrichmentSection,
    statistics: Option<StatisticsSection>,
}

impl Settings {
    /// Reads the file, and applies the command line.
    pub(in crate::command) fn of(args: &Args) -> anyhow::Result<Self> {
        let file = match &args.config {
            Some(path) => read(path)?,
            None => ConfigFile::default(),
        };
        let named = |error: OptionError| in_file(args.config.as_deref(), &error);
        let archive: ArchiveSection = section(&file, "archive", &named)?.unwrap_or_default();
        let meters: Vec<MeterSection> = file.list("meter").map_err(&named)?;
        let chains: Vec<ChainSection> = file.list("chain").map_err(&named)?;
        let downloads = downloads(&file).map_err(&named)?;
        let ingest = section::<IngestOptions>(&file, "ingest", &named)?.map(Ingest::new);
        let is_polling = !file.tables("snmp").is_empty();
        #[cfg(feature = "snmp")]
        let snmp = snmp_sections(&file).map_err(&named)?;
        let has_other = archive.folder.is_some() || !meters.is_empty() || ingest.is_some() || is_polling;
        let collect = collect_section(args, &file, has_other, &named)?;
        let mut http: HttpOptions = section(&file, "http", &named)?.unwrap_or_default();
        http.listen = args.listen.unwrap_or(http.listen);
        let (watches, watch_memory) = watch_section(&file, &named)?;
        let dashboards = section::<DashboardSection>(&file, "dashboards", &named)?.map(|section| section.folder);
        let statistics = section::<StatisticsSection>(&file, "statistics", &named)?;
        let mut postgres: PostgresOptions = section(&file, "postgres", &named)?.unwrap_or_default();
        postgres.listen = args.postgres.or(postgres.listen);
        let mut flight: FlightOptions = section(&file, "flight", &named)?.unwrap_or_default();
        flight.listen = args.flight.or(flight.listen);
        let folder = archive_folder(args, &archive)?;
        let Reloaded { users, enrichment, .. } = reloaded(&file).map_err(&named)?;
        let running = Arc::<Mutex<ReloadSignals>>::default();
        let audit = section::<AuditOptions>(&file, "audit", &named)?.unwrap_or_default();
        let mut questions = section::<QuestionOptions>(&file, "questions", &named)?.unwrap_or_default();
        questions.sampling_corrections = args.sampling_corrections.clone().or(questions.sampling_corrections);
        let kept: EnrichmentSection = section(&file, "enrichment", &named)?.unwrap_or_default();
        let is_collecting = collect.is_some() || !meters.is_empty() || ingest.is_some() || is_polling;
        let reloader = args.config.clone().map(|path| {
            let begun = Begun { file, listen: args.collect.clone(), is_collecting };
            reloader(path, begun, Arc::clone(&running))
        });
        let service = ServiceOptions {
            archive: folder,
            http,
            questions,
            users,
            postgres,
            flight,
            watches: args.watch.clone().or(watches),
            dashboards,
            collecting: collect.as_ref().map(|collect| addresses(&collect.listening.listen)).unwrap_or_default(),
            ingest,
            audit,
            enrichment,
            reloader,
        };
        Ok(Self {
            service,
            running,
            watch_memory,
            demo_rate: args.demo.then_some(args.demo_rate),
            archive,
            collect,
            meters,
            is_polling,
            #[cfg(feature = "snmp")]
            snmp,
            chains: chains.into_iter().map(|section| section.file).collect(),
            downloads,
            enrichment: kept,
            statistics: statistics.or_else(|| args.statistics.then(StatisticsSection::default)),
        })
    }

    /// Finds out whether the service could begin: what is wrong beyond the options themselves, such as files that are not there.
    /// Nothing is fetched for it: files that are not there and will be are left out.
    pub(in crate::command) fn check(mut self) -> anyhow::Result<()> {
        self.leave_out_missing_downloads();
        if let Some(chain) = self.chain() {
            show_or_build(chain, false)?;
        }
        Chains::read(&self.chains)?;
        Ok(Server::check(&self.service)?)
    }

    /// Leaves out files that are not there and are fetched at the start, and prints which.
    fn leave_out_missing_downloads(&mut self) {
        let files = self.downloads.iter().map(|download| &download.file);
        let missing: Vec<PathBuf> = files.filter(|file| !file.exists()).cloned().collect();
        for file in &missing {
            eprintln!("{} is not there: it is fetched at the start", file.display());
        }
        let (kept, asked) = (&mut self.enrichment, &mut self.service.enrichment);
        let named = [&mut kept.addresses.asn_mmdb, &mut kept.addresses.geo_mmdb, &mut kept.addresses.labels];
        let of_exporters = [&mut kept.exporters.interfaces, &mut kept.exporters.exporters];
        let of_questions = [&mut asked.asn_mmdb, &mut asked.geo_mmdb, &mut asked.labels, &mut asked.interfaces];
        for file in named.into_iter().chain(of_exporters).chain(of_questions) {
            file.take_if(|file| missing.contains(file));
        }
        kept.routes.routes.retain(|file| !missing.contains(file));
        asked.routes.retain(|file| !missing.contains(file));
        self.chains.retain(|file| !missing.contains(file));
    }

    /// The chain that collects, meters and polls; `None` when it would do none of them.
    pub(super) fn chain(&self) -> Option<ChainBuilder> {
        let are_pushed = self.service.ingest.is_some();
        if self.collect.is_none() && self.meters.is_empty() && !are_pushed && !self.is_polling {
            return None;
        }
        let folder = &self.service.archive;
        let collector = self.collect.clone().map(CollectorSourceOptions::from);
        let meters = self.meters.iter().cloned().map(MeterSourceOptions::from).collect();
        let sink = ArchiveSinkOptions {
            archive: folder.clone(),
            sealing: self.archive.sealing.clone(),
            retention: self.archive.retention.clone(),
            ..ArchiveSinkOptions::default()
        };
        let statistics = self.statistics.as_ref().map(|section| StatisticsSinkOptions {
            statistics: section.folder.clone().unwrap_or_else(|| folder.join(series::FOLDER)),
            series: section.series.clone(),
        });
        let EnrichmentSection { reverse_dns, addresses, exporters, routes, .. } = self.enrichment.clone();
        let enrichment = EnrichOptions { reverse_dns, addresses, exporters, routes, ..EnrichOptions::default() };
        let sources = CollectingSources {
            collector,
            meters,
            are_pushed,
            #[cfg(feature = "snmp")]
            snmp: self.snmp.clone(),
        };
        Some(collecting(sources, enrichment, sink, statistics))
    }
}

/// Where flows can be sent to, without who may.
fn addresses(listen: &[String]) -> Vec<String> {
    listen.iter().map(|text| text.split('?').next().unwrap_or_default().to_owned()).collect()
}

/// What is collected: what the command line or the file says, and something on this machine when there is neither that nor
/// anything else (`has_other`: an archive to look at, interfaces to meter, flows that are pushed, or agents to ask).
fn collect_section(
    args: &Args,
    file: &ConfigFile,
    has_other: bool,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<Option<CollectSection>> {
    let given: Option<CollectSection> = section(file, COLLECT, named)?;
    let is_alone = args.archive.is_none() && !has_other;
    if given.is_none() && args.collect.is_empty() && !args.demo && !is_alone {
        return Ok(None);
    }
    let is_given = given.is_some();
    let mut collect = given.unwrap_or_default();
    if !args.collect.is_empty() {
        collect.listening.listen.clone_from(&args.collect);
    } else if args.demo && !is_given {
        collect.listening.listen = vec!["127.0.0.1:0".to_owned()];
    }
    Ok(Some(collect))
}

/// The sections `snmp`. An exporter is in one of them: two would write its names and counters in turns.
#[cfg(feature = "snmp")]
fn snmp_sections(file: &ConfigFile) -> Result<Vec<weir_snmp::SnmpOptions>, OptionError> {
    let sections: Vec<weir_snmp::SnmpOptions> = file.list("snmp")?;
    let mut asked = std::collections::HashMap::new();
    for (number, section) in sections.iter().enumerate() {
        for polled in &section.exporters {
            // twice in the same section is an error of that section
            if *asked.entry(polled.exporter).or_insert(number) != number {
                let wrong = format!("[snmp] {} is an exporter of two sections [[snmp]]", polled.exporter);
                return Err(OptionError::new("exporters", wrong).with_hint("name each exporter in one section"));
            }
        }
    }
    Ok(sections)
}

/// The folder of the archive.
fn archive_folder(args: &Args, archive: &ArchiveSection) -> anyhow::Result<PathBuf> {
    let folder = args.archive.clone().or_else(|| archive.folder.clone());
    folder.map_or_else(|| data_folder(if args.demo { "demo" } else { "archive" }), Ok)
}

/// The folder of watch files, and the memory for their windows, where the file has them.
fn watch_section(
    file: &ConfigFile,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<(Option<PathBuf>, Option<ByteSize>)> {
    let section: Option<WatchSection> = section(file, "watch", named)?;
    Ok(section.map(|section| (section.folder, section.memory_max)).unzip())
}

fn section<O: Options>(
    file: &ConfigFile,
    name: &str,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<Option<O>> {
    file.section(name).map_err(named)
}

fn parsed(path: &Path) -> Result<ConfigFile, OptionError> {
    let text = fs::read_to_string(path).map_err(|error| OptionError::new("", format!("it cannot be read: {error}")))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::parse(&text, folder, SECTIONS)
}

fn read(path: &Path) -> anyhow::Result<ConfigFile> {
    parsed(path).map_err(|error| in_file(Some(path), &error))
}

pub(in crate::command) fn in_file(path: Option<&Path>, error: &OptionError) -> anyhow::Error {
    let place = path.map(|path| format!("{}: ", path.display())).unwrap_or_default();
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    anyhow!("{place}{}{hint}", error.message)
}

/// A folder of ours where the user's programs keep their data (XDG Base Directory Specification).
fn data_folder(name: &str) -> anyhow::Result<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")));
    let data = data.context("no folder for the archive is known\nhint: --archive DIR names one")?;
    Ok(data.join("weir").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_send_is_not_shown() {
        let listen = ["udp://192.0.2.1:2055?allow=198.51.100.0/24,@partners", "[::1]:2055"].map(str::to_owned);
        assert_eq!(addresses(&listen), ["udp://192.0.2.1:2055", "[::1]:2055"]);
    }
}
