//! Who calls: passwords become tokens, which each call then has.
//!
//! A client logs in with a name and a password, by a handshake or by the header of any call, and gets a token that is valid for
//! some hours. It may also send a token of the configuration, `NAME:TOKEN`, each time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use openssl::rand::rand_bytes;
use tonic::Status;
use tonic::metadata::MetadataMap;
use weir_sql::{Asker, QuestionService};

use crate::counts::FlightCounts;
use crate::errors::status;
use crate::shares::most_frequent;

/// Logins that are kept; beyond it the oldest of the user who has most is forgotten.
const SESSIONS_MAX: usize = 4096;
const TOKEN_OCTETS: usize = 32;
/// How tokens that were made here begin.
const PREFIX: &str = "weir-session-";

/// Who has logged in.
pub(crate) struct Sessions {
    service: Arc<dyn QuestionService>,
    counts: Arc<FlightCounts>,
    length: Duration,
    sessions: Mutex<HashMap<String, Session>>,
}

struct Session {
    asker: Arc<dyn Asker>,
    began: Instant,
}

impl Sessions {
    pub(crate) fn new(service: Arc<dyn QuestionService>, counts: Arc<FlightCounts>, length: Duration) -> Self {
        Self { service, counts, length, sessions: Mutex::default() }
    }

    /// Whether there are users, who must log in.
    pub(crate) fn has_users(&self) -> bool {
        self.service.has_users()
    }

    /// Who calls, as the headers of the call say.
    pub(crate) async fn asker(&self, headers: &MetadataMap, from: IpAddr) -> Result<Arc<dyn Asker>, Status> {
        if !self.has_users() {
            return Ok(self.service.local(from));
        }
        let found = self.by_headers(headers, from).await;
        if found.is_err() {
            self.counts.logins_refused.add_one();
        }
        found
    }

    async fn by_headers(&self, headers: &MetadataMap, from: IpAddr) -> Result<Arc<dyn Asker>, Status> {
        let missing = || {
            Status::unauthenticated(
                "the call has no header 'authorization'\nhint: log in with a name and a password, or with a token",
            )
        };
        let header = headers.get("authorization").and_then(|value| value.to_str().ok()).ok_or_else(missing)?;
        let (scheme, value) = header.split_once(' ').ok_or_else(missing)?;
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("basic") {
            let (name, password) = basic(value).ok_or_else(missing)?;
            return self.service.by_password(&name, &password, from).await.map_err(|refusal| status(&refusal));
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(missing());
        }
        if value.starts_with(PREFIX) {
            let ended = || Status::unauthenticated("the login has ended\nhint: log in again");
            return self.session(value).ok_or_else(ended);
        }
        self.service.by_token(value, from).await.map_err(|refusal| status(&refusal))
    }

    fn session(&self, token: &str) -> Option<Arc<dyn Asker>> {
        let mut sessions = self.locked();
        sessions.retain(|_, session| session.began.elapsed() < self.length);
        sessions.get(token).map(|session| Arc::clone(&session.asker))
    }

    /// Begins a session, and gives its token.
    pub(crate) fn begin(&self, asker: Arc<dyn Asker>) -> Result<String, Status> {
        let mut octets = [0; TOKEN_OCTETS];
        rand_bytes(&mut octets).map_err(|_| Status::internal("the system has no random numbers"))?;
        let token = format!("{PREFIX}{}", STANDARD_NO_PAD.encode(octets));
        let mut sessions = self.locked();
        sessions.retain(|_, session| session.began.elapsed() < self.length);
        if sessions.len() >= SESSIONS_MAX {
            let most = most_frequent(sessions.values().map(|session| session.asker.name()));
            let own = sessions.iter().filter(|(_, session)| Some(session.asker.name()) == most);
            let oldest = own.min_by_key(|(_, session)| session.began).map(|(token, _)| token.clone());
            if let Some(oldest) = oldest {
                sessions.remove(&oldest);
                self.counts.sessions_ended.add_one();
            }
        }
        sessions.insert(token.clone(), Session { asker, began: Instant::now() });
        Ok(token)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        // every step under the lock leaves whole values behind
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name and password of a header (RFC 7617).
fn basic(text: &str) -> Option<(String, String)> {
    let octets = STANDARD.decode(text).or_else(|_| STANDARD_NO_PAD.decode(text)).ok()?;
    let text = String::from_utf8(octets).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_basic_header_is_a_name_and_a_password() {
        // RFC 7617 section 2
        let parsed = basic("QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(parsed, Some(("Aladdin".to_owned(), "open sesame".to_owned())));
        assert_eq!(basic("QWxhZGRpbg=="), None);
        assert_eq!(basic("%%"), None);
    }
}
