//! The chains of a service, which read their files again when the service does.

use toml::Table;
use weir_chain::ReloadSignal;

use crate::command::collect::COLLECTOR;

/// Their signals, once they run.
#[derive(Debug, Default)]
pub(super) struct ReloadSignals {
    /// That of the chain that the sections of the configuration make.
    collecting: Option<ReloadSignal>,
    /// Those of chain files, which have options of their own.
    beside: Vec<ReloadSignal>,
}

impl ReloadSignals {
    /// The chain that collects runs.
    pub(super) fn set_collecting(&mut self, signal: ReloadSignal) {
        self.collecting = Some(signal);
    }

    /// A chain of a file runs.
    pub(super) fn add(&mut self, signal: ReloadSignal) {
        self.beside.push(signal);
    }

    /// Asks all of them to read their files again; the collector has these options then, where there are some.
    pub(super) fn ask(&self, of_collector: Option<Table>) {
        match (&self.collecting, of_collector) {
            (Some(signal), Some(options)) => signal.ask_with(COLLECTOR, options),
            (Some(signal), None) => signal.ask(),
            (None, _) => {}
        }
        self.beside.iter().for_each(ReloadSignal::ask);
    }
}
