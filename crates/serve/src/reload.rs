//! What may change while the service runs: users and roles, certificates, what is known about addresses.
//!
//! Everything new is read before anything of it is put in place: a file that is wrong leaves all as it was, and says why.
//! Questions that run go on as they began; connections stay.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;
use weir_chain::OptionError;
use weir_sql::{Enrichment, EnrichmentFiles};

use crate::audit::AuditLine;
use crate::problem::{Answered, Problem, with_causes};
use crate::server::check;
use crate::service::Service;
use crate::tls;
use crate::users::User;

/// What a configuration says now.
#[derive(Debug, Clone, Default)]
pub struct Reloaded {
    /// Who may ask.
    pub users: Vec<User>,
    /// Files about addresses and interfaces.
    pub enrichment: EnrichmentFiles,
    /// Sections that are not as they were and take a restart.
    pub restart_needed: Vec<String>,
}

/// Reads the configuration again.
type Read = dyn Fn() -> Result<Reloaded, OptionError> + Send + Sync;
/// Tells the rest of the process to read its files again.
type Tell = dyn Fn() + Send + Sync;

/// How the configuration is read again, by whoever runs the service.
#[derive(Clone)]
pub struct Reloader {
    read: Arc<Read>,
    tell: Arc<Tell>,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloader")
    }
}

impl Reloader {
    /// `read` reads the configuration; `tell` is called once all of it is in place.
    pub fn new(
        read: impl Fn() -> Result<Reloaded, OptionError> + Send + Sync + 'static,
        tell: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { read: Arc::new(read), tell: Arc::new(tell) }
    }
}

/// How often the configuration was read again.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    turn: Mutex<()>,
    done: watch::Sender<u64>,
    failed: AtomicU64,
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

    /// Becomes another number each time.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.done.subscribe()
    }
}

/// What was read again.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ReloadAnswer {
    /// Users that there are now.
    users: usize,
    /// Whether the service speaks TLS, whose certificate was read.
    has_tls: bool,
    /// Sections of the configuration that are not as they were, and take a restart.
    restart_needed: Vec<String>,
}

impl Service {
    /// Reads the configuration again, or leaves all as it was and says why.
    pub(crate) fn reload(&self, user: &str) -> Answered<ReloadAnswer> {
        // one after the other: the later one has the last word
        let _turn = self.reloads.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = self.read_again();
        let (outcome, text) = match &reloaded {
            Ok(_) => ("accepted", String::new()),
            Err(problem) => ("failed", problem.detail.clone()),
        };
        self.listening.audit.write(&AuditLine::now("reload", user, None, &text, outcome));
        match &reloaded {
            Ok(reloaded) => {
                tracing::info!("the configuration was read again: {} users", reloaded.users);
                self.reloads.done.send_modify(|times| *times += 1);
            }
            Err(problem) => {
                tracing::error!("the configuration stays as it was: {}", problem.detail);
                self.reloads.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
        reloaded
    }

    fn read_again(&self) -> Answered<ReloadAnswer> {
        let reloader = self.options.reloader.as_ref();
        let reloader =
            reloader.ok_or_else(|| Problem::not_found("there is no configuration that could be read again"))?;
        let Reloaded { users, enrichment, restart_needed } = (reloader.read)()?;
        check(self.listening.address, &users).map_err(|error| Problem::request(error.to_string()))?;
        check_still_users(self.access.has_users(), &users)?;
        let enrichment = Enrichment::load(&enrichment).map_err(|error| Problem::request(with_causes(&error)))?;
        let identity = tls::options(&self.options.http)?;
        if let (Some(server), Some(options)) = (&self.listening.tls, &identity) {
            // the last that may fail, and it leaves the old certificate where it does
            server.reload(options).map_err(|error| Problem::request(with_causes(&error)))?;
        }
        let answer = ReloadAnswer { users: users.len(), has_tls: self.listening.tls.is_some(), restart_needed };
        self.access.replace_users(users);
        self.archive.set_enrichment(Arc::new(enrichment));
        (reloader.tell)();
        Ok(answer)
    }
}

/// Refuses to go on without users where there were some: a file of users that is missing would let anybody ask as an admin.
fn check_still_users(had_users: bool, users: &[User]) -> Answered<()> {
    if had_users && users.is_empty() {
        return Err(Problem::request("there are no users any more, and anybody could ask")
            .with_hint("a restart serves this machine without users"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_do_not_disappear_while_it_runs() {
        let hash = crate::hash_password("secret").expect("a hash");
        let users = [User::new("ann", crate::Role::Admin, Some(hash), Vec::new()).expect("a user")];
        assert_eq!(check_still_users(true, &[]).expect_err("nobody is left").status, 400);
        assert!(check_still_users(true, &users).is_ok());
        assert!(check_still_users(false, &[]).is_ok() && check_still_users(false, &users).is_ok());
    }
}
