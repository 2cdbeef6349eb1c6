//! Other protocols than HTTP: the wire of Postgres and Flight SQL.
//!
//! They know the service as [`QuestionService`]: its users, and turns of questions. What they ask runs as every question does, so
//! the same limits hold whatever the wire, and a user sees through each of them what that user may see.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use weir_sql::{Login, Question, QuestionService, Reason, Refusal, Work};

use crate::access::Asker;
use crate::audit::AuditLine;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::{CLOSING_MAX, Service};
use crate::users::{Role, User};

/// Letters of a name that are written down.
const NAME_LETTERS_MAX: usize = 64;
/// Status of HTTP of a login that is refused.
const UNAUTHENTICATED: u16 = 401;

/// The service, as other protocols see it.
pub(crate) struct Wires(pub(crate) Arc<Service>);

/// A user who has logged in over such a protocol. A connection or a session may last for hours: each question looks the user
/// up anew.
struct WireAsker {
    service: Arc<Service>,
    asker: Asker,
    /// The user at the login; `None` where there were no users.
    login: Option<User>,
}

impl Wires {
    fn asker(&self, login: User, from: IpAddr) -> Arc<dyn weir_sql::Asker> {
        let asker = Asker::of(&login, from);
        Arc::new(WireAsker { service: Arc::clone(&self.0), asker, login: Some(login) })
    }

    /// Writes the line of a login, in a thread that may wait for the disk; `status` is why it is refused. Must be called from a
    /// task of tokio. A caller that needs the line to be written waits for it.
    fn write_login(&self, name: &str, from: IpAddr, status: Option<u16>) -> impl Future<Output = ()> + use<> {
        let audit = Arc::clone(&self.0.listening.audit);
        let name: String = name.chars().take(NAME_LETTERS_MAX).collect();
        let write = move || {
            let outcome = if status.is_none() { "accepted" } else { "refused" };
            let line = AuditLine { status, ..AuditLine::now("sign-in", &name, Some(from), "", outcome) };
            match status {
                None => audit.write(&line),
                Some(_) => audit.write_of_stranger(&line),
            }
        };
        // a panic of it is not the login's
        tokio::task::spawn_blocking(write).map(drop)
    }
}

impl QuestionService for Wires {
    fn has_users(&self) -> bool {
        self.0.access.has_users()
    }

    fn local(&self, from: IpAddr) -> Arc<dyn weir_sql::Asker> {
        Arc::new(WireAsker { service: Arc::clone(&self.0), asker: Asker::local(from), login: None })
    }

    fn scram_verifier(&self, name: &str, from: IpAddr) -> Result<Option<String>, Refusal> {
        if let Err(problem) = self.0.access.begin_proof(name, from) {
            drop(self.write_login(name, from, Some(problem.status)));
            return Err(refusal(problem));
        }
        Ok(self.0.access.user(name).and_then(|user| user.scram))
    }

    fn by_name(&self, name: &str, from: IpAddr, is_proved: bool) -> Login {
        let user = is_proved.then(|| self.0.access.proved(name, from)).flatten();
        let wrong = || Refusal::new(Reason::Credentials, "the name or the password is not right");
        // the line is written meanwhile: this must not wait for a disk
        drop(self.write_login(name, from, user.is_none().then_some(UNAUTHENTICATED)));
        user.map(|user| self.asker(user, from)).ok_or_else(wrong)
    }

    fn by_password(&self, name: &str, password: &str, from: IpAddr) -> BoxFuture<'static, Login> {
        let (wires, name, password) = (Self(Arc::clone(&self.0)), name.to_owned(), password.to_owned());
        async move {
            let verified = wires.0.access.by_password(&name, &password, from).await;
            wires.write_login(&name, from, verified.as_ref().err().map(|problem| problem.status)).await;
            let (user, _) = verified.map_err(refusal)?;
            Ok(wires.asker(user, from))
        }
        .boxed()
    }

    fn by_token(&self, token: &str, from: IpAddr) -> BoxFuture<'static, Login> {
        let (wires, token) = (Self(Arc::clone(&self.0)), token.to_owned());
        async move {
            let found = wires.0.access.by_token(&token, from).await;
            if let Err(problem) = &found {
                // a token comes with each call, and what is asked with a right one is a line of its own
                let name = token.split_once(':').map_or("", |(name, _)| name);
                wires.write_login(name, from, Some(problem.status)).await;
            }
            let user = found.map_err(refusal)?;
            Ok(wires.asker(user, from))
        }
        .boxed()
    }
}

impl weir_sql::Asker for WireAsker {
    fn name(&self) -> &str {
        &self.asker.name
    }

    fn ask(&self, question: Question, work: Work) -> BoxFuture<'static, Result<(), Refusal>> {
        let service = Arc::clone(&self.service);
        let asker = service.access.again(&self.asker, self.login.as_ref());
        async move {
            let ended = || Refusal::new(Reason::Credentials, "the login has ended").with_hint("log in again");
            let asker = asker.ok_or_else(ended)?;
            asker.needs(Role::Analyst).map_err(refusal)?;
            let time_max = question.time_max;
            let asked = ask(&service, &asker, question, work);
            match time_max {
                None => asked.await,
                Some(time_max) => tokio::time::timeout(time_max, asked).await.unwrap_or_else(|_| {
                    let message = format!("the statement ran longer than {time_max:?}, which the client has set");
                    Err(Refusal::new(Reason::Time, message))
                }),
            }
        }
        .boxed()
    }
}

async fn ask(service: &Arc<Service>, asker: &Asker, question: Question, work: Work) -> Result<(), Refusal> {
    let refused: Arc<Mutex<Option<Refusal>>> = Arc::default();
    let (asked, slot, viewer) = (Arc::clone(service), Arc::clone(&refused), asker.clone());
    let run = move |turn: &Turn| -> Answered<()> {
        let snapshot = asked.archive.snapshot()?;
        let admitted = turn.enter(u64::MAX)?;
        let engine = asked.archive.engine_in(&snapshot, &turn.control, &viewer.view, question.zone)?;
        let worked = work(&engine, &turn.control);
        turn.note_busy(engine.close(CLOSING_MAX));
        turn.leave(admitted);
        worked.map_err(|refusal| {
            let problem = problem(&refusal);
            // the place of a mistake is known here only
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
            problem
        })
    };
    let answered = service.questions.answer(asker, question.text, run).await;
    answered.map_err(|problem| {
        let known = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        known.unwrap_or_else(|| refusal(problem))
    })
}

fn problem(refusal: &Refusal) -> Problem {
    let message = refusal.message.clone();
    let problem = match refusal.reason {
        Reason::Credentials => Problem::unauthenticated(message),
        Reason::Forbidden | Reason::Change => Problem::forbidden(message),
        Reason::TooMany => Problem::too_many(message),
        Reason::Busy => Problem::unavailable(message),
        Reason::Time => Problem::time(message),
        Reason::Cancelled => Problem::cancelled(message),
        Reason::Memory => Problem::memory(message),
        Reason::Limit => Problem::too_large(message),
        Reason::Archive => Problem::archive(message),
        Reason::Internal => Problem::internal(message),
        _ => Problem::statement(message),
    };
    match &refusal.hint {
        Some(hint) => problem.with_hint(hint.clone()),
        None => problem,
    }
}

fn refusal(problem: Problem) -> Refusal {
    let reason = match problem.kind.strip_prefix("urn:weir:").unwrap_or_default() {
        "unauthenticated" => Reason::Credentials,
        "forbidden" => Reason::Forbidden,
        "too-many-questions" | "rate-limit" => Reason::TooMany,
        "unavailable" => Reason::Busy,
        "time-limit" => Reason::Time,
        "cancelled" => Reason::Cancelled,
        "memory" => Reason::Memory,
        "too-large" => Reason::Limit,
        "archive" => Reason::Archive,
        "statement" | "request" | "filter" => Reason::Statement,
        _ => Reason::Internal,
    };
    Refusal { hint: problem.hint, ..Refusal::new(reason, problem.detail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_the_same_there_and_back() {
        for reason in [
            Reason::Credentials,
            Reason::Forbidden,
            Reason::TooMany,
            Reason::Busy,
            Reason::Time,
            Reason::Cancelled,
            Reason::Memory,
            Reason::Limit,
            Reason::Statement,
            Reason::Archive,
            Reason::Internal,
        ] {
            let there = Refusal::new(reason, "it cannot be").with_hint("do otherwise");
            assert_eq!(refusal(problem(&there)), there);
        }
    }
}
