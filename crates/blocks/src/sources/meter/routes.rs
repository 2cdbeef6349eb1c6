//! Files of routes: read at the start, and again when they change while interfaces are metered.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tracing::{info, warn};
use weir_chain::{ComponentError, Counter};
use weir_routes::{AsChoice, LoadReport, RouteTable, RouteTableBuilder, SharedRouteTable};

/// Which files, which system of a path, and how often to look whether a file has changed.
#[derive(Debug, Clone)]
pub(super) struct RouteFiles {
    pub(super) paths: Vec<PathBuf>,
    pub(super) choice: AsChoice,
    /// `None` for never.
    pub(super) every: Option<Duration>,
}

/// What is counted of routes.
#[derive(Debug, Clone)]
struct RouteCounters {
    prefixes: Counter,
    octets: Counter,
    defective: Counter,
    reloaded: Counter,
    failed: Counter,
}

impl RouteCounters {
    fn new(counters: &weir_chain::Counters) -> Self {
        let counter = |name| counters.counter(name);
        Self {
            prefixes: counter("routes_peak"),
            octets: counter("route_octets_peak"),
            defective: counter("routes_defective"),
            reloaded: counter("routes_reloaded"),
            failed: counter("routes_reloads_failed"),
        }
    }

    fn table(&self, table: &RouteTable) {
        let [v4, v6] = table.prefixes();
        let raise = |counter: &Counter, to: usize| counter.add((to as u64).saturating_sub(counter.get()));
        raise(&self.prefixes, v4 + v6);
        raise(&self.octets, table.octets());
        info!("routes: {v4} prefixes of IPv4, {v6} of IPv6, {} KiB", table.octets() >> 10);
    }

    /// Counts what could not be used of a file, and tells the first of it.
    fn account(&self, path: &Path, report: &LoadReport) {
        self.defective.add(report.defective);
        if let Some(defect) = report.defects.first() {
            let cut = if report.is_cut { "; what follows is not read" } else { "" };
            warn!(
                "{}: {} of {} records tell no route that can be used; the first, at {}: {}{cut}",
                path.display(),
                report.defective,
                report.records,
                defect.place,
                defect.what
            );
        }
    }
}

impl RouteFiles {
    /// Reads the files. One that tells no route at all is an error; records that cannot be used are counted, and of a file
    /// that ends too early what stands in it is taken.
    pub(super) fn open(&self, meter: &weir_chain::Counters) -> Result<OpenRoutes, ComponentError> {
        let counters = RouteCounters::new(meter);
        // taken before reading, so that a change meanwhile is seen as one
        let stamps = self.stamps();
        let (table, reports) = self.load()?;
        for (path, report) in self.paths.iter().zip(&reports) {
            counters.account(path, report);
        }
        counters.table(&table);
        let routes = SharedRouteTable::new(table);
        let watch =
            Watch { files: self.clone(), routes: routes.clone(), counters, seen: stamps.clone(), loaded: stamps };
        Ok(OpenRoutes { routes, watch })
    }

    /// Finds out whether the files can be used.
    pub(super) fn check(&self) -> Result<(), ComponentError> {
        self.load().map(drop)
    }

    fn load(&self) -> Result<(RouteTable, Vec<LoadReport>), ComponentError> {
        let unusable = |error| ComponentError::caused("routes cannot be used", error);
        let mut builder = RouteTableBuilder::new(self.choice);
        let mut reports = Vec::new();
        for path in &self.paths {
            let report = builder.load(path).map_err(unusable)?;
            if report.routes == 0 {
                let why = report.defects.first().map(|defect| format!(": {} (at {})", defect.what, defect.place));
                return Err(ComponentError::new(format!("no route in {}{}", path.display(), why.unwrap_or_default())));
            }
            reports.push(report);
        }
        Ok((builder.build().map_err(unusable)?, reports))
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.paths.iter().map(|path| stamp(path)).collect()
    }
}

/// What changes when a file does: its time, its length, and its inode when another was moved to its name.
type Stamp = (i64, i64, u64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
}

/// Routes that were read.
pub(super) struct OpenRoutes {
    pub(super) routes: SharedRouteTable,
    watch: Watch,
}

impl OpenRoutes {
    /// Reads the files again whenever they change, in a thread of its own, until what is returned is dropped.
    pub(super) fn watch(self) -> Result<Option<Watching>, ComponentError> {
        let Some(every) = self.watch.files.every else { return Ok(None) };
        let mut watch = self.watch;
        let (stop, stopped) = mpsc::channel::<()>();
        let work = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                watch.look();
            }
        };
        let thread = thread::Builder::new().name("weir-routes".to_owned()).spawn(work);
        // nobody waits for the thread in the end: it may be reading a large file for nothing
        thread.map_err(|error| ComponentError::caused("cannot start a thread", error))?;
        Ok(Some(Watching { _stop: stop }))
    }
}

/// Files are watched as long as it lives.
pub(super) struct Watching {
    _stop: Sender<()>,
}

/// Looks whether files have changed.
struct Watch {
    files: RouteFiles,
    routes: SharedRouteTable,
    counters: RouteCounters,
    /// The files as they were at the last look.
    seen: Vec<Option<Stamp>>,
    /// The files as they were when they were read last.
    loaded: Vec<Option<Stamp>>,
}

impl Watch {
    /// A file that changes between two looks is still being written, and is left alone until it does not.
    fn look(&mut self) {
        let stamps = self.files.stamps();
        let is_settled = stamps == self.seen;
        self.seen.clone_from(&stamps);
        if !is_settled || stamps == self.loaded {
            return;
        }
        // also when it fails: the next look should not try the same files again
        self.loaded = stamps;
        match self.load() {
            Ok(table) => {
                self.counters.table(&table);
                self.routes.replace(table);
                self.counters.reloaded.add(1);
            }
            Err(error) => {
                self.counters.failed.add(1);
                warn!("changed routes are not used, the old ones stay: {}", error.chain());
            }
        }
    }

    /// A table of a file that ends too early has fewer routes than the one in force.
    fn load(&self) -> Result<RouteTable, ComponentError> {
        let (table, reports) = self.files.load()?;
        for (path, report) in self.files.paths.iter().zip(&reports) {
            if report.is_cut {
                let what = report.defects.last().map_or("file ends early", |defect| defect.what);
                return Err(ComponentError::new(format!("{} is damaged: {what}", path.display())));
            }
            self.counters.account(path, report);
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests;
