//! What may change while the service runs: users and roles, certificates, what is known about addresses, who may send flows.
//!
//! Everything new is read before anything of it is put in place: a file that is wrong leaves all as it was, and says why.
//! Questions that run go on as they began, except those of users who are gone or have other rights: these are cancelled.
//! Connections stay, and each question over them is that of the user as it is then; streams of events end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::watch;
use toml::Table;
use utoipa::ToSchema;
use weir_chain::OptionError;
use weir_sql::EnrichmentFiles;

use crate::users::User;
use crate::version_keeper::VersionKeeper;

/// What a configuration says now.
#[derive(Debug, Clone, Default)]
pub struct Reloaded {
    /// Who may ask.
    pub users: Vec<User>,
    /// Files about addresses and interfaces.
    pub enrichment: EnrichmentFiles,
    /// Options of what collects that apply while it runs; `None` when it goes on with those that it has.
    pub collecting: Option<Table>,
    /// Sections that are not as they were and take a restart.
    pub restart_needed: Vec<String>,
}

/// Reads the configuration again.
type Read = dyn Fn() -> Result<Reloaded, OptionError> + Send + Sync;
/// Tells the rest of the process to read its files again, and what collects its new options.
type Tell = dyn Fn(Option<Table>) + Send + Sync;

/// How the configuration is read again, by the process around the service.
#[derive(Clone)]
pub struct Reloader {
    pub(crate) read: Arc<Read>,
    pub(crate) tell: Arc<Tell>,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloader")
    }
}

impl Reloader {
    /// `read` reads the configuration; `tell` is called once all of it is in place, with the new options of what collects.
    pub fn new(
        read: impl Fn() -> Result<Reloaded, OptionError> + Send + Sync + 'static,
        tell: impl Fn(Option<Table>) + Send + Sync + 'static,
    ) -> Self {
        Self { read: Arc::new(read), tell: Arc::new(tell) }
    }
}

/// How often the configuration was read again.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) turn: Mutex<()>,
    pub(crate) done: watch::Sender<u64>,
    pub(crate) failed: AtomicU64,
    /// What keeps versions of the files that were read.
    pub(crate) versions: VersionKeeper,
}

impl Reloads {
    /// How often it was.
    pub(crate) fn done(&self) -> u64 {
        *self.done.borrow()
    }

    /// How often something was wrong with it.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// What was read again.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReloadAnswer {
    /// Users that there are now.
    pub(crate) users: usize,
    /// Whether the service speaks TLS, whose certificate was read.
    pub(crate) has_tls: bool,
    /// Sections of the configuration that are not as they were, and take a restart.
    pub(crate) restart_needed: Vec<String>,
}
