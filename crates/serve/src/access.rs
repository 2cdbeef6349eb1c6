//! Who asks, and what they may do.
//!
//! Without users the service listens on this machine only, and whoever is on it may do everything; a page of another site must
//! not, so the name that a request is for is checked (a name that leads here from elsewhere is DNS rebinding), and so is
//! where a request that changes something comes from. With users each request of the API has a token or a session.
//!
//! Hashes of passwords take long on purpose. At most [`HASHES_AT_ONCE`] are computed at a time, and tokens that were found
//! right are remembered, so that guessing costs whoever guesses, and not those who know.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use argon2::password_hash::rand_core::{OsRng, RngCore};
use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use axum::http::{HeaderMap, Method, header};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use utoipa::ToSchema;
use weir_chain::OptionError;

use crate::problem::{Answered, Problem};

/// Hashes of passwords that are computed at a time.
const HASHES_AT_ONCE: usize = 2;
/// Sessions at a time; beyond it the oldest ends.
const SESSIONS_MAX: usize = 4096;
/// Tokens that are remembered.
const TOKENS_MAX: usize = 1024;
/// Name of the cookie of a session.
pub(crate) const COOKIE: &str = "weir_session";
/// Octets of the name of a session.
const SESSION_OCTETS: usize = 32;

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look: every question but statements of SQL.
    Viewer,
    /// Ask everything, acknowledge reports, test watches.
    Analyst,
    /// Change watches, and cancel questions of others.
    Admin,
}

impl Role {
    /// The words of all roles, each with its help.
    pub const WORDS: &'static [(&'static str, &'static str)] = &[
        ("admin", "Change watches, and cancel questions of others"),
        ("analyst", "Ask everything, acknowledge reports, test watches"),
        ("viewer", "Look: every question but statements of SQL"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Analyst => "analyst",
            Self::Admin => "admin",
        }
    }

    /// The role of a word.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Viewer, Self::Analyst, Self::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// A user.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    password: Option<String>,
    tokens: Vec<String>,
}

impl std::fmt::Debug for User {
    /// Without hashes: a log is no place for them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

impl User {
    /// A user with hashes of a password and of tokens.
    pub fn new(name: &str, role: Role, password: Option<String>, tokens: Vec<String>) -> Result<Self, OptionError> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_fit) {
            let message = format!("'{}' is no name of a user", name.escape_debug());
            return Err(OptionError::new("name", message).with_hint("use letters, digits and - _ . @"));
        }
        for hash in password.iter().chain(&tokens) {
            if PasswordHash::new(hash).is_err() {
                // what stands there may be the password itself
                let message = format!("the password or a token of '{name}' is not a hash");
                let hint = "weir serve --hash-password makes a hash of a password";
                return Err(OptionError::new("password", message).with_hint(hint));
            }
        }
        if password.is_none() && tokens.is_empty() {
            let message = format!("'{name}' has neither a password nor a token");
            return Err(OptionError::new("password", message));
        }
        Ok(Self { name: name.to_owned(), role, password, tokens })
    }
}

/// The hash of a password or a token, for the configuration.
pub fn hash_password(password: &str) -> Result<String, argon2::password_hash::Error> {
    let salt = SaltString::generate(&mut OsRng);
    Argon2::default().hash_password(password.as_bytes(), &salt).map(|hash| hash.to_string())
}

fn is_right(password: &str, hash: &str) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Asker {
    /// The name.
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
}

impl Asker {
    /// Whoever is on this machine, where there are no users.
    fn local() -> Self {
        Self { name: "local".to_owned(), role: Role::Admin }
    }

    /// Fails when the role is less.
    pub(crate) fn needs(&self, role: Role) -> Answered<()> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::forbidden(format!("'{}' is {}, and this takes {}", self.name, self.role.name(), role.name())))
    }
}

#[derive(Debug, Clone)]
struct Session {
    asker: Asker,
    began: Instant,
}

/// Who may ask.
#[derive(Debug)]
pub(crate) struct Access {
    users: Vec<User>,
    hosts: Vec<String>,
    session_length: Duration,
    sessions: Mutex<HashMap<String, Session>>,
    /// Tokens that were found right, with the name before them.
    tokens: Mutex<HashMap<String, Asker>>,
    hashing: Semaphore,
}

impl Access {
    pub(crate) fn new(users: Vec<User>, hosts: Vec<String>, session_length: Duration) -> Self {
        Self {
            users,
            hosts: hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect(),
            session_length,
            sessions: Mutex::default(),
            tokens: Mutex::default(),
            hashing: Semaphore::new(HASHES_AT_ONCE),
        }
    }

    /// Whether there are users.
    pub(crate) fn has_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Refuses a request that a page of another site makes: one for a name that is not ours, or a change from elsewhere.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Answered<()> {
        let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(header::HOST).unwrap_or_default();
        if !self.has_users() && !self.is_own_host(host) {
            let detail = format!("'{}' is not a name of this machine", host.escape_debug());
            return Err(Problem::forbidden(detail).with_hint("the option 'hosts' adds names"));
        }
        if matches!(*method, Method::GET | Method::HEAD) {
            return Ok(());
        }
        let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
        let is_foreign = match (site, text(header::ORIGIN)) {
            (Some(site), _) => !matches!(site, "same-origin" | "none"),
            (None, Some(origin)) => origin.split_once("://").is_none_or(|(_, from)| !from.eq_ignore_ascii_case(host)),
            // no browser
            (None, None) => false,
        };
        if is_foreign {
            return Err(Problem::forbidden("the request comes from a page of another site"));
        }
        Ok(())
    }

    fn is_own_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        // [::1]:2080, 127.0.0.1:2080, localhost
        let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => host.split_once(':').map_or(host.as_str(), |(name, _)| name),
        };
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_loopback || name == "localhost" || name.ends_with(".localhost") || self.hosts.iter().any(|own| own == name)
    }

    /// Who asks, as far as the request says; `None` where nothing says it.
    pub(crate) async fn asker(&self, headers: &HeaderMap) -> Answered<Option<Asker>> {
        if !self.has_users() {
            return Ok(Some(Asker::local()));
        }
        let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(token) = authorization.and_then(|text| text.strip_prefix("Bearer ")) {
            return self.by_token(token.trim()).await.map(Some);
        }
        let Some(session) = session_of(headers) else { return Ok(None) };
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, session| session.began.elapsed() < self.session_length);
        Ok(sessions.get(session).map(|session| session.asker.clone()))
    }

    async fn by_token(&self, token: &str) -> Answered<Asker> {
        if let Some(asker) = locked(&self.tokens).get(token) {
            return Ok(asker.clone());
        }
        let wrong = || Problem::unauthenticated("the token is not right").with_hint("a token is sent as NAME:TOKEN");
        let (name, secret) = token.split_once(':').ok_or_else(wrong)?;
        let user = self.users.iter().find(|user| user.name == name).ok_or_else(wrong)?;
        let asker = self.verified(user, user.tokens.clone(), secret).await.ok_or_else(wrong)?;
        let mut tokens = locked(&self.tokens);
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), asker.clone());
        Ok(asker)
    }

    async fn verified(&self, user: &User, hashes: Vec<String>, secret: &str) -> Option<Asker> {
        let _hashing = self.hashing.acquire().await.ok()?;
        let secret = secret.to_owned();
        let check = move || hashes.iter().any(|hash| is_right(&secret, hash));
        let is_right = tokio::task::spawn_blocking(check).await.unwrap_or(false);
        is_right.then(|| Asker { name: user.name.clone(), role: user.role })
    }

    /// Begins a session, and gives the cookie that names it.
    pub(crate) async fn sign_in(&self, name: &str, password: &str) -> Answered<(Asker, String)> {
        let wrong = || Problem::unauthenticated("the name or the password is not right");
        if !self.has_users() {
            return Err(Problem::request("there are no users, so nobody needs to sign in"));
        }
        let user = self.users.iter().find(|user| user.name == name);
        // who is no user costs the same time as who is one
        let any = self.users.first().ok_or_else(wrong)?;
        let hashes = user.unwrap_or(any).password.iter().cloned().collect();
        let verified = self.verified(user.unwrap_or(any), hashes, password).await;
        let asker = verified.filter(|_| user.is_some()).ok_or_else(wrong)?;
        let mut octets = [0; SESSION_OCTETS];
        OsRng.fill_bytes(&mut octets);
        let id = octets.iter().fold(String::new(), |id, octet| id + &format!("{octet:02x}"));
        let mut sessions = locked(&self.sessions);
        if sessions.len() >= SESSIONS_MAX {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.began).map(|(id, _)| id.clone());
            oldest.map(|id| sessions.remove(&id));
        }
        sessions.insert(id.clone(), Session { asker: asker.clone(), began: Instant::now() });
        let age = self.session_length.as_secs();
        Ok((asker, format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}")))
    }

    /// Ends the session of a request, and gives the cookie that takes its name away.
    pub(crate) fn sign_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = session_of(headers) {
            locked(&self.sessions).remove(session);
        }
        format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0")
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, id)| id)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // every step under these locks leaves whole values behind
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use tokio::runtime::Builder;

    use super::*;

    fn access(users: Vec<User>) -> Access {
        Access::new(users, vec!["flows.example.net".to_owned()], Duration::from_mins(1))
    }

    fn ann() -> User {
        let hash = |text| hash_password(text).expect("a hash");
        User::new("ann", Role::Analyst, Some(hash("correct horse")), vec![hash("battery")]).expect("a user")
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| ((*name).parse().expect("a name"), HeaderValue::from_str(value).expect("a value")))
            .collect()
    }

    #[test]
    fn only_names_of_this_machine_are_ours_without_users() {
        let access = access(Vec::new());
        for host in ["localhost:2080", "127.0.0.1:2080", "127.8.8.8", "[::1]:2080", "flows.example.net", "Localhost"] {
            assert!(access.check_origin(&Method::GET, &headers(&[("host", host)])).is_ok(), "{host}");
        }
        for host in
            ["evil.example", "192.0.2.1:2080", "", "localhost.evil.example", "[::2]:80", "127.0.0.1.evil.example"]
        {
            assert!(access.check_origin(&Method::GET, &headers(&[("host", host)])).is_err(), "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let access = access(Vec::new());
        let check = |more: &[(&'static str, &str)]| {
            let all = headers(&[&[("host", "localhost:2080")], more].concat());
            access.check_origin(&Method::POST, &all).is_ok()
        };
        assert!(
            check(&[]) && check(&[("sec-fetch-site", "same-origin")]) && check(&[("origin", "http://localhost:2080")])
        );
        assert!(!check(&[("sec-fetch-site", "cross-site")]) && !check(&[("sec-fetch-site", "same-site")]));
        assert!(!check(&[("origin", "http://evil.example")]) && !check(&[("origin", "null")]));
        assert!(!check(&[("origin", "http://localhost:8000")]));
    }

    #[test]
    fn tokens_and_sessions_say_who_asks() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let access = access(vec![ann()]);
        let asker = |pairs: &[(&'static str, &str)]| runtime.block_on(access.asker(&headers(pairs)));
        assert_eq!(asker(&[]).expect("nobody"), None);
        let found = asker(&[("authorization", "Bearer ann:battery")]).expect("ann").expect("ann");
        assert_eq!((found.name.as_str(), found.role), ("ann", Role::Analyst));
        for wrong in ["Bearer ann:horse", "Bearer bob:battery", "Bearer battery", "Bearer ann:correct horse"] {
            assert_eq!(asker(&[("authorization", wrong)]).expect_err("wrong").status, 401, "{wrong}");
        }
        let sign_in = |name, password| runtime.block_on(access.sign_in(name, password));
        assert!(sign_in("ann", "battery").is_err() && sign_in("bob", "correct horse").is_err());
        let (_, cookie) = sign_in("ann", "correct horse").expect("a session");
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let pair = cookie.split(';').next().expect("a pair");
        assert_eq!(asker(&[("cookie", &format!("a=b; {pair}"))]).expect("ann").expect("ann").name, "ann");
        assert_eq!(asker(&[("cookie", "weir_session=0000")]).expect("nobody"), None);
        access.sign_out(&headers(&[("cookie", pair)]));
        assert_eq!(asker(&[("cookie", pair)]).expect("nobody"), None);
    }

    #[test]
    fn a_role_may_what_lesser_ones_may() {
        let asker = |role| Asker { name: "ann".to_owned(), role };
        assert!(asker(Role::Admin).needs(Role::Analyst).is_ok() && asker(Role::Viewer).needs(Role::Viewer).is_ok());
        let problem = asker(Role::Viewer).needs(Role::Analyst).expect_err("less");
        assert_eq!((problem.status, problem.detail.as_str()), (403, "'ann' is viewer, and this takes analyst"));
    }

    #[test]
    fn hashes_are_not_shown() {
        assert!(!format!("{:?}", access(vec![ann()])).contains("argon2"));
    }
}
