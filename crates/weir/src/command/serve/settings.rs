//! The configuration of `weir serve`: the file, and what the command line says otherwise.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use toml::Table;
use weir_blocks::sinks::archive::ArchiveSinkOptions;
use weir_blocks::sinks::statistics::StatisticsSinkOptions;
use weir_blocks::sources::collector::CollectorSourceOptions;
use weir_blocks::sources::meter::MeterSourceOptions;
use weir_blocks::transforms::enrich::EnrichOptions;
use weir_chain::{ByteSize, ChainBuilder, OptionError, Options};
use weir_serve::{
    AuditOptions, ConfigFile, DownloadOptions, FlightOptions, HttpOptions, Ingest, IngestOptions, PostgresOptions,
    QuestionOptions, Reloaded, Reloader, ServiceOptions, granting,
};

use super::Args;
use super::chains::locked;
use super::origin::{Origin, in_file, log_replaced};
use super::reload_signals::ReloadSignals;
use super::sections::{
    ArchiveSection, ChainSection, CollectSection, DashboardSection, EnrichmentSection, MeterSection, SECTIONS,
    StatisticsSection, WatchSection,
};
use crate::command::collect::{CollectingSources, collecting};
use crate::command::series;

/// Sections that are read again while the service runs.
const READ_AGAIN: &[&str] = &["access", "roles", "users"];
/// Section whose files are read again. Queries use the new files; the columns that are stored with flows still come from the
/// files that collecting began with.
const ENRICHMENT: &str = "enrichment";
/// Section whose networks of senders can be changed without a restart.
const COLLECT: &str = "collect";

/// Reads every section, so that a mistake in any of them is an error.
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
    for (number, download) in downloads.iter().enumerate() {
        let placed = |error: OptionError| file.placed("download", number, error);
        download.check().map_err(placed)?;
        if downloads[..number].iter().any(|other| other.file == download.file) {
            let wrong = format!("{} is the file of two sections [[download]]", download.file.display());
            return Err(placed(OptionError::new("file", wrong).with_hint("fetch each file by one section")));
        }
    }
    Ok(downloads)
}

/// The parts of the file that may change while the service runs.
fn reloaded(file: &ConfigFile) -> Result<Reloaded, OptionError> {
    let enrichment = file.section::<EnrichmentSection>("enrichment")?.unwrap_or_default();
    Ok(Reloaded { users: granting::users(file)?, enrichment: enrichment.files(), ..Reloaded::default() })
}

/// The configuration at the start, to find what needs a restart.
struct StartedWith {
    file: Arc<ConfigFile>,
    /// Listening addresses of the command line, which replace those of the file.
    listen: Vec<String>,
    is_collecting: bool,
}

/// Reads the file again, and has the running components read theirs; the collector gets the changed networks of senders.
fn reloader(path: PathBuf, begun: StartedWith, signals: Arc<Mutex<ReloadSignals>>) -> Reloader {
    let ask = move |of_collector: Option<Table>| locked(&signals).ask(of_collector);
    Reloader::new(move || read_again(&path, &begun), ask)
}

/// Reads the file again, and finds the sections whose changes need a restart.
fn read_again(path: &Path, begun: &StartedWith) -> Result<Reloaded, OptionError> {
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

/// The networks of senders of a file that is read again, as options of the running collector; `None` if other options of the
/// section have changed too, or if the section is new or gone.
fn senders(file: &ConfigFile, begun: &StartedWith) -> Result<Option<Table>, OptionError> {
    let options = |file: &ConfigFile| -> Result<Option<CollectorSourceOptions>, OptionError> {
        let Some(mut section) = file.section::<CollectSection>(COLLECT)? else { return Ok(None) };
        if !begun.listen.is_empty() {
            section.listening.listen.clone_from(&begun.listen);
        }
        Ok(Some(section.into()))
    };
    let (Some(now), Some(then)) = (options(file)?, options(begun.file.as_ref())?) else { return Ok(None) };
    now.senders_after(&then).map_err(|error| file.placed(COLLECT, 0, error))
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
    pub(super) collect: Option<CollectSection>,
    pub(super) meters: Vec<MeterSection>,
    #[cfg(feature = "snmp")]
    pub(super) snmp: Vec<weir_snmp::SnmpOptions>,
    pub(super) enrichment: EnrichmentSection,
    /// Where all of it comes from.
    pub(super) origin: Origin,
    archive: ArchiveSection,
    /// Whether agents are asked for names of interfaces.
    is_polling: bool,
    statistics: Option<StatisticsSection>,
}

impl Settings {
    /// Reads the file, and applies the command line.
    pub(in crate::command) fn of(args: &Args) -> anyhow::Result<Self> {
        let file = Arc::new(args.config.as_deref().map(read).transpose()?.unwrap_or_default());
        let origin = Origin {
            file: args.config.clone().map(|path| (path, Arc::clone(&file))),
            replaced: args.replaced_sections(),
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
        let (postgres, flight) = query_protocols(args, &file, &named)?;
        let folder = archive_folder(args, &archive)?;
        let Reloaded { users, enrichment, .. } = reloaded(&file).map_err(&named)?;
        let running = Arc::<Mutex<ReloadSignals>>::default();
        let audit = section::<AuditOptions>(&file, "audit", &named)?.unwrap_or_default();
        let questions = question_section(args, &file, &named)?;
        let kept: EnrichmentSection = section(&file, "enrichment", &named)?.unwrap_or_default();
        let is_collecting = collect.is_some() || !meters.is_empty() || ingest.is_some() || is_polling;
        let reloader = args.config.clone().map(|path| {
            let begun = StartedWith { file, listen: args.collect.clone(), is_collecting };
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
            origin,
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

    /// The chain that collects, meters and polls; `None` when it would do none of them.
    pub(super) fn chain(&self) -> Option<ChainBuilder> {
        let are_pushed = self.service.ingest.is_some();
        if self.collect.is_none() && self.meters.is_empty() && !are_pushed && !self.is_polling {
            return None;
        }
        let sources = CollectingSources {
            collector: self.collector_options(),
            meters: self.meter_options(),
            are_pushed,
            #[cfg(feature = "snmp")]
            snmp: self.snmp.clone(),
        };
        Some(collecting(sources, self.enrich_options(), self.archive_options(), self.statistics_options()))
    }

    pub(super) fn collector_options(&self) -> Option<CollectorSourceOptions> {
        self.collect.clone().map(CollectorSourceOptions::from)
    }

    pub(super) fn meter_options(&self) -> Vec<MeterSourceOptions> {
        self.meters.iter().cloned().map(MeterSourceOptions::from).collect()
    }

    pub(super) fn enrich_options(&self) -> EnrichOptions {
        let EnrichmentSection { reverse_dns, addresses, exporters, routes, .. } = self.enrichment.clone();
        EnrichOptions { reverse_dns, addresses, exporters, routes, ..EnrichOptions::default() }
    }

    pub(super) fn archive_options(&self) -> ArchiveSinkOptions {
        ArchiveSinkOptions {
            archive: self.service.archive.clone(),
            sealing: self.archive.sealing.clone(),
            retention: self.archive.retention.clone(),
            ..ArchiveSinkOptions::default()
        }
    }

    pub(super) fn statistics_options(&self) -> Option<StatisticsSinkOptions> {
        self.statistics.as_ref().map(|section| StatisticsSinkOptions {
            statistics: section.folder.clone().unwrap_or_else(|| self.service.archive.join(series::FOLDER)),
            series: section.series.clone(),
        })
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
                let wrong = format!("{} is an exporter of two sections [[snmp]]", polled.exporter);
                let wrong = OptionError::new("exporters", wrong).with_hint("name each exporter in one section");
                return Err(file.placed("snmp", number, wrong));
            }
        }
    }
    Ok(sections)
}

/// The other protocols, which the command line may have listen elsewhere.
fn query_protocols(
    args: &Args,
    file: &ConfigFile,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<(PostgresOptions, FlightOptions)> {
    let mut postgres: PostgresOptions = section(file, "postgres", named)?.unwrap_or_default();
    postgres.listen = args.postgres.or(postgres.listen);
    let mut flight: FlightOptions = section(file, "flight", named)?.unwrap_or_default();
    flight.listen = args.flight.or(flight.listen);
    Ok((postgres, flight))
}

/// What questions may use, and the corrections of sampling, which the command line or the environment may name.
fn question_section(
    args: &Args,
    file: &ConfigFile,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<QuestionOptions> {
    let mut questions: QuestionOptions = section(file, "questions", named)?.unwrap_or_default();
    let (given, of_file) = (args.sampling_corrections.as_deref(), questions.sampling_corrections.as_deref());
    log_replaced("questions", "sampling_corrections", given, of_file);
    questions.sampling_corrections = args.sampling_corrections.clone().or(questions.sampling_corrections);
    Ok(questions)
}

/// The folder of the archive.
fn archive_folder(args: &Args, archive: &ArchiveSection) -> anyhow::Result<PathBuf> {
    log_replaced("archive", "folder", args.archive.as_deref(), archive.folder.as_deref());
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
