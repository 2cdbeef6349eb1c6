//! Reading the configuration again while the service runs.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use weir_secure::ReadIdentity;
use weir_sql::Enrichment;

use crate::audit::AuditLine;
use crate::exposure::check;
use crate::problem::{Answered, Problem, with_causes};
use crate::reload::{ReloadAnswer, Reloaded};
use crate::service::Service;
use crate::tls;
use crate::users::User;

impl Service {
    /// Reads the configuration again, or leaves all as it was and says why. New versions of files may not be kept yet.
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
                if !reloaded.restart_needed.is_empty() {
                    // of a signal the log is the only answer
                    let sections = reloaded.restart_needed.join("], [");
                    tracing::warn!("what has changed in [{sections}] takes a restart");
                }
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
        let Reloaded { users, enrichment, collecting, restart_needed } = (reloader.read)()?;
        check(self.listening.address, &users).map_err(|error| Problem::request(error.to_string()))?;
        check_still_users(self.access.has_users(), &users)?;
        let enrichment = Enrichment::load(&enrichment.with_versions_of(self.archive.folder()));
        let enrichment = enrichment.map_err(|error| Problem::request(with_causes(&error)))?;
        let corrections = self.options.questions.corrections();
        let corrections = corrections.map_err(|error| Problem::request(with_causes(&error)))?;
        let own = match (&self.listening.tls, tls::options(&self.options.http)?) {
            (Some(server), Some(options)) => Some(server.read_again(&options)),
            _ => None,
        };
        let own = own.transpose().map_err(|error| Problem::request(with_causes(&error)))?;
        let of_wires = self.listening.wire_certificates.read()?;
        // nothing fails from here on, so that all of it is new or nothing
        own.into_iter().chain(of_wires).for_each(ReadIdentity::put_in_place);
        let answer = ReloadAnswer { users: users.len(), has_tls: self.listening.tls.is_some(), restart_needed };
        // at once: what comes below may wait for a disk
        self.questions.cancel_of(&self.access.replace_users(users));
        let enrichment = Arc::new(enrichment);
        self.archive.set_enrichment(Arc::clone(&enrichment));
        self.archive.set_corrections(Arc::new(corrections));
        (reloader.tell)(collecting);
        // this waits for a disk, and for whoever else keeps versions, without a limit: a thread does
        self.reloads.versions.begin(enrichment);
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
