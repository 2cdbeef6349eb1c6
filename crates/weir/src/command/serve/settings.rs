//! The configuration of `weir serve`: the file, and what the command line says otherwise.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use weir_blocks::sinks::archive::{ArchiveSinkOptions, RetentionOptions, SealingOptions};
use weir_blocks::sinks::statistics::{SeriesOptions, StatisticsSinkOptions};
use weir_blocks::sources::collector::CollectorSourceOptions;
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_chain::{ChainBuilder, OptionError, Options, options};
use weir_serve::{ConfigFile, HttpOptions, QuestionOptions, ServiceOptions};

use super::Args;
use crate::command::collect::collecting;
use crate::command::series;

/// The sections of a configuration.
const SECTIONS: &[(&str, &str)] = &[
    ("http", "How the service listens, and limits of connections"),
    ("questions", "How much questions may use"),
    ("archive", "Where the archive is, how it is sealed, and what is kept"),
    ("collect", "Where datagrams and connections come in"),
    ("statistics", "What statistics are kept of"),
    ("watch", "Where watches are"),
    ("dashboards", "Where dashboards are"),
    ("users", "Who may ask"),
];

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
    }
}

options! {
    /// The section `dashboards`.
    struct DashboardSection {
        /// Folder of the files of dashboards.
        folder: PathBuf,
    }
}

/// What the service is, and what it collects.
pub(super) struct Settings {
    pub(super) service: ServiceOptions,
    pub(super) demo_rate: Option<u32>,
    archive: ArchiveSection,
    collect: Option<CollectSection>,
    statistics: Option<StatisticsSection>,
}

impl Settings {
    /// Reads the file, and applies the command line.
    pub(super) fn of(args: &Args) -> anyhow::Result<Self> {
        let file = match &args.config {
            Some(path) => read(path)?,
            None => ConfigFile::default(),
        };
        let named = |error: OptionError| in_file(args.config.as_deref(), &error);
        let archive: ArchiveSection = section(&file, "archive", &named)?.unwrap_or_default();
        let collect = collect_section(args, &file, archive.folder.is_some(), &named)?;
        let mut http: HttpOptions = section(&file, "http", &named)?.unwrap_or_default();
        http.listen = args.listen.unwrap_or(http.listen);
        let watches = section::<WatchSection>(&file, "watch", &named)?.map(|section| section.folder);
        let dashboards = section::<DashboardSection>(&file, "dashboards", &named)?.map(|section| section.folder);
        let statistics = section::<StatisticsSection>(&file, "statistics", &named)?;
        let folder = args.archive.clone().or_else(|| archive.folder.clone());
        let folder = folder.map_or_else(|| data_folder(if args.demo { "demo" } else { "archive" }), Ok)?;
        let service = ServiceOptions {
            archive: folder,
            http,
            questions: section::<QuestionOptions>(&file, "questions", &named)?.unwrap_or_default(),
            users: file.users().map_err(named)?,
            watches: args.watch.clone().or(watches),
            dashboards,
            collecting: collect.as_ref().map(|collect| collect.listening.listen.clone()).unwrap_or_default(),
        };
        Ok(Self {
            service,
            demo_rate: args.demo.then_some(args.demo_rate),
            archive,
            collect,
            statistics: statistics.or_else(|| args.statistics.then(StatisticsSection::default)),
        })
    }

    /// The chain that collects; `None` when nothing is collected.
    pub(super) fn chain(&self) -> Option<ChainBuilder> {
        let CollectSection { listening, connections, tls, relaying, limits } = self.collect.clone()?;
        let folder = &self.service.archive;
        let source = CollectorSourceOptions { archive: None, listening, connections, tls, relaying, limits };
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
        Some(collecting(source, sink, statistics))
    }
}

/// What is collected: what the command line or the file says, and without either something on this machine.
fn collect_section(
    args: &Args,
    file: &ConfigFile,
    has_archive: bool,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<Option<CollectSection>> {
    let given: Option<CollectSection> = section(file, "collect", named)?;
    let is_alone = args.archive.is_none() && !has_archive;
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

fn section<O: Options>(
    file: &ConfigFile,
    name: &str,
    named: &impl Fn(OptionError) -> anyhow::Error,
) -> anyhow::Result<Option<O>> {
    file.section(name).map_err(named)
}

fn read(path: &Path) -> anyhow::Result<ConfigFile> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::parse(&text, folder, SECTIONS).map_err(|error| in_file(Some(path), &error))
}

fn in_file(path: Option<&Path>, error: &OptionError) -> anyhow::Error {
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
