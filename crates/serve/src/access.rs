//! Who asks, and what they may do.
//!
//! Without users the service listens on this machine only, and whoever is on it may do everything; a page of another site must
//! not, so the name that a request is for is checked (a name that leads here from elsewhere is DNS rebinding), and so is
//! where a request that changes something comes from. With users each request of the API has a token or a session.
//!
//! Hashes of passwords take long on purpose. At most [`HASHES_AT_ONCE`] are computed at a time, and tokens that were found
//! right are remembered, so that guessing costs whoever guesses, and not those who know. Guesses are counted before they are
//! tried, by address and by name, and those that were right are taken back.
//!
//! Users may change while the service runs. Sessions and tokens name their user and the hash that let them in, and hold as
//! long as both are there. What lasts longer than a request, as streams of events do, watches for that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use argon2::password_hash::rand_core::{OsRng, RngCore};
use axum::http::{HeaderMap, Method, header};
use serde::{Serialize, Serializer};
use tokio::sync::{Semaphore, watch};
use utoipa::ToSchema;

use crate::config::HttpOptions;
use crate::problem::{Answered, Problem};
use crate::rate_limit::{RateLimit, site};
use crate::users::{Role, User, hash_password, is_right};
use crate::view::View;

/// Hashes of passwords that are computed at a time.
const HASHES_AT_ONCE: usize = 2;
/// Sessions at a time, of all users and of one; beyond it the oldest of the user ends, who has most.
const SESSIONS_MAX: usize = 4096;
const SESSIONS_PER_USER_MAX: usize = 64;
/// Tokens that are remembered.
const TOKENS_MAX: usize = 1024;
/// Failures of all who guess one name, as a multiple of those of one address.
const FAILURES_OF_NAME: u32 = 3;
/// Letters of a name that are compared and counted.
const NAME_LETTERS_MAX: usize = 64;
/// Who asks where there are no users. No user has the name: it has a space.
const LOCAL: &str = "this machine";
/// Name of the cookie of a session.
pub(crate) const COOKIE: &str = "weir_session";
/// Octets of the name of a session.
const SESSION_OCTETS: usize = 32;

/// Who asks.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Asker {
    /// The name.
    pub(crate) name: String,
    /// What they may do.
    pub(crate) role: Role,
    /// Whether they see all flows, and addresses as they are. If not, what is about all flows is refused.
    #[serde(rename = "sees_all", serialize_with = "sees_all")]
    #[schema(value_type = bool)]
    pub(crate) view: Arc<View>,
    /// Where they ask from.
    #[serde(skip)]
    pub(crate) from: Option<IpAddr>,
}

fn sees_all<S: Serializer>(view: &Arc<View>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(view.is_whole())
}

impl Asker {
    /// Whoever is on this machine, where there are no users.
    pub(crate) fn local(from: IpAddr) -> Self {
        Self { name: LOCAL.to_owned(), role: Role::Admin, view: Arc::default(), from: Some(from) }
    }

    pub(crate) fn of(user: &User, from: IpAddr) -> Self {
        Self { name: user.name.clone(), role: user.role, view: Arc::clone(&user.view), from: Some(from) }
    }

    /// Whether there are no users, so that anybody on this machine asks.
    pub(crate) fn is_local(&self) -> bool {
        self.name == LOCAL
    }

    /// Somebody who sees everything.
    #[cfg(test)]
    pub(crate) fn with_name(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::local(std::net::Ipv4Addr::LOCALHOST.into()) }
    }

    /// Fails when the role is less.
    pub(crate) fn needs(&self, role: Role) -> Answered<()> {
        if self.role >= role {
            return Ok(());
        }
        Err(Problem::forbidden(format!("'{}' is {}, and this takes {}", self.name, self.role.name(), role.name())))
    }

    /// Fails for who may not push flows: it takes the role for it, or that of admins.
    pub(crate) fn needs_ingest(&self) -> Answered<()> {
        if matches!(self.role, Role::Ingest | Role::Admin) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("'{}' is {}, and this takes ingest", self.name, self.role.name())))
    }

    /// Fails for who may push flows and nothing else: so is every path but that one, whatever it needs.
    pub(crate) fn needs_more_than_ingest(&self) -> Answered<()> {
        if self.role > Role::Ingest {
            return Ok(());
        }
        Err(Problem::forbidden(format!("'{}' may push flows, and nothing else", self.name))
            .with_hint("POST /api/v1/ingest takes them"))
    }

    /// Fails when some flows are not seen, or not as they are: what is asked is about all of them.
    pub(crate) fn needs_all_flows(&self) -> Answered<()> {
        if self.view.is_whole() {
            return Ok(());
        }
        Err(Problem::forbidden(format!("'{}' sees a part of the flows, and this is about all of them", self.name))
            .with_hint("flows, rankings, groups, time lines and SQL can be asked"))
    }
}

#[derive(Debug, Clone)]
struct Session {
    user: String,
    /// The hash of the password that began it.
    password: String,
    began: Instant,
}

/// The session that gives way to a new one of a user, if one must.
fn too_many(sessions: &HashMap<String, Session>, user: &str) -> Option<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for session in sessions.values() {
        *counts.entry(&session.user).or_default() += 1;
    }
    let of = if counts.get(user).is_some_and(|count| *count >= SESSIONS_PER_USER_MAX) {
        user
    } else if sessions.len() >= SESSIONS_MAX {
        counts.into_iter().max_by_key(|(_, count)| *count)?.0
    } else {
        return None;
    };
    let own = sessions.iter().filter(|(_, session)| session.user == of);
    own.min_by_key(|(_, session)| session.began).map(|(id, _)| id.clone())
}

/// A token that was found right.
#[derive(Debug, Clone)]
struct KnownToken {
    user: String,
    hash: String,
}

/// Who may ask.
#[derive(Debug)]
pub(crate) struct Access {
    users: RwLock<Arc<[User]>>,
    /// How often there were other users.
    replaced: watch::Sender<u64>,
    hosts: Vec<String>,
    session_length: Duration,
    /// Whether cookies go over TLS only.
    is_secure: bool,
    sessions: Mutex<HashMap<String, Session>>,
    /// Tokens that were found right, with the name before them.
    tokens: Mutex<HashMap<String, KnownToken>>,
    hashing: Arc<Semaphore>,
    failures_from: RateLimit<IpAddr>,
    failures_of: RateLimit<String>,
}

impl Access {
    pub(crate) fn new(users: Vec<User>, options: &HttpOptions) -> Self {
        let failures = options.sign_in_failures_per_minute;
        Self {
            users: RwLock::new(users.into()),
            replaced: watch::Sender::default(),
            hosts: options.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            session_length: options.session_length.duration(),
            is_secure: options.tls_cert.is_some(),
            sessions: Mutex::default(),
            tokens: Mutex::default(),
            hashing: Arc::new(Semaphore::new(HASHES_AT_ONCE)),
            failures_from: RateLimit::at_once(failures),
            failures_of: RateLimit::at_once(failures.saturating_mul(FAILURES_OF_NAME)),
        }
    }

    /// Whether there are users.
    pub(crate) fn has_users(&self) -> bool {
        !self.users().is_empty()
    }

    /// Other users from now on. Gives the names of those whose questions must not go on: they are no users any more, may less,
    /// see something else, or were let in by what does not let in any more.
    pub(crate) fn replace_users(&self, users: Vec<User>) -> Vec<String> {
        let now: Arc<[User]> = users.into();
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *users, Arc::clone(&now));
        drop(users);
        // a task that it wakes finds the current users
        self.replaced.send_modify(|times| *times += 1);
        if before.is_empty() && !now.is_empty() {
            return vec![LOCAL.to_owned()];
        }
        let lost = before.iter().filter(|user| !now.iter().any(|other| other.upholds(user)));
        lost.map(|user| user.name.clone()).collect()
    }

    /// Changes as soon as there are other users. Who is asked for after the call is a user of before only if it changes.
    pub(crate) fn watch_users(&self) -> watch::Receiver<u64> {
        self.replaced.subscribe()
    }

    fn users(&self) -> Arc<[User]> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
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
    pub(crate) async fn asker(&self, headers: &HeaderMap, from: IpAddr) -> Answered<Option<Asker>> {
        let users = self.users();
        if users.is_empty() {
            return Ok(Some(Asker::local(from)));
        }
        if let Some(token) = token_of(headers) {
            return self.by_token(token, from).await.map(|user| Some(Asker::of(&user, from)));
        }
        let Some(id) = session_of(headers) else { return Ok(None) };
        let mut sessions = locked(&self.sessions);
        sessions.retain(|_, session| session.began.elapsed() < self.session_length);
        let user = sessions.get(id).and_then(|session| {
            let is_same = |user: &&User| user.name == session.user && user.password.as_ref() == Some(&session.password);
            users.iter().find(is_same)
        });
        Ok(user.map(|user| Asker::of(user, from)))
    }

    /// The session by which a request is let in; `None` where a token does it, or where there are no users.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<String> {
        let id = session_of(headers).filter(|_| self.has_users() && token_of(headers).is_none());
        id.map(str::to_owned)
    }

    /// Whether a session has neither been ended nor lasted for as long as it may.
    pub(crate) fn has_session(&self, id: &str) -> bool {
        locked(&self.sessions).get(id).is_some_and(|session| session.began.elapsed() < self.session_length)
    }

    /// The user of a name.
    pub(crate) fn user(&self, name: &str) -> Option<User> {
        self.users().iter().find(|user| user.name == name).cloned()
    }

    /// Who asks in a login of `login` that lasts, as things are now; `None` for a login where there were no users. Nobody does
    /// once the user is gone, or has another password or other tokens.
    pub(crate) fn again(&self, before: &Asker, login: Option<&User>) -> Option<Asker> {
        let Some(login) = login else { return (!self.has_users()).then(|| before.clone()) };
        let user = self.user(&login.name)?;
        let is_same = user.password == login.password && user.tokens == login.tokens && user.scram == login.scram;
        is_same.then(|| Asker { name: user.name, role: user.role, view: user.view, from: before.from })
    }

    /// The user of a token.
    pub(crate) async fn by_token(&self, token: &str, from: IpAddr) -> Answered<User> {
        let users = self.users();
        let known = locked(&self.tokens).get(token).cloned();
        if let Some(known) = known
            && let Some(user) = users.iter().find(|user| user.name == known.user && user.tokens.contains(&known.hash))
        {
            return Ok(user.clone());
        }
        let wrong = || Problem::unauthenticated("the token is not right").with_hint("a token is sent as NAME:TOKEN");
        let (name, secret) = token.split_once(':').ok_or_else(wrong)?;
        let guess = self.guess(name, from)?;
        let user = users.iter().find(|user| user.name == name);
        let hashes = user.map(|user| user.tokens.clone()).unwrap_or_default();
        let (user, hash) = user.zip(self.verified(hashes, secret).await).ok_or_else(wrong)?;
        guess.was_right();
        let mut tokens = locked(&self.tokens);
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(token.to_owned(), KnownToken { user: user.name.clone(), hash });
        Ok(user.clone())
    }

    /// The hash that a secret is right for. Without hashes it takes as long as with one: how long it takes must not say who is
    /// a user.
    async fn verified(&self, hashes: Vec<String>, secret: &str) -> Option<String> {
        let hashing = Arc::clone(&self.hashing).acquire_owned().await.ok()?;
        let secret = secret.to_owned();
        let check = move || {
            // a client that leaves does not end the hash, so it does not end its place
            let _hashing = hashing;
            if hashes.is_empty() {
                // for the time that it takes
                drop(hash_password(&secret));
            }
            hashes.into_iter().find(|hash| is_right(&secret, hash))
        };
        tokio::task::spawn_blocking(check).await.ok().flatten()
    }

    /// Counts a guess, or refuses one more.
    fn guess(&self, name: &str, from: IpAddr) -> Answered<Guess<'_>> {
        let name: String = name.chars().take(NAME_LETTERS_MAX).collect();
        let from = site(from);
        let refused = |wait| Problem::limited("too many wrong passwords or tokens came").after(wait);
        self.failures_from.take(&from).map_err(refused)?;
        self.failures_of.take(&name).map_err(|wait| {
            // whoever is kept out by guesses of others has not guessed
            self.failures_from.give_back(&from);
            refused(wait)
        })?;
        Ok(Guess { access: self, name, from })
    }

    /// Counts a guess of who proves to know a password without sending it, or refuses one more.
    pub(crate) fn begin_proof(&self, name: &str, from: IpAddr) -> Answered<()> {
        self.guess(name, from).map(|_| ())
    }

    /// The user of a name, who has proved to be it; the guess counts no more.
    pub(crate) fn proved(&self, name: &str, from: IpAddr) -> Option<User> {
        let user = self.user(name)?;
        Guess { access: self, name: user.name.clone(), from: site(from) }.was_right();
        Some(user)
    }

    /// The user of a password, and the hash that it is right for.
    pub(crate) async fn by_password(&self, name: &str, password: &str, from: IpAddr) -> Answered<(User, String)> {
        let wrong = || Problem::unauthenticated("the name or the password is not right");
        let guess = self.guess(name, from)?;
        let user = self.user(name);
        let hashes = user.as_ref().and_then(|user| user.password.clone()).into_iter().collect();
        let verified = self.verified(hashes, password).await;
        let verified = user.zip(verified).ok_or_else(wrong)?;
        guess.was_right();
        Ok(verified)
    }

    /// Begins a session, and gives the cookie that names it.
    pub(crate) async fn sign_in(&self, name: &str, password: &str, from: IpAddr) -> Answered<(Asker, String)> {
        if !self.has_users() {
            return Err(Problem::request("there are no users, so nobody needs to sign in"));
        }
        let (user, password) = self.by_password(name, password, from).await?;
        let mut octets = [0; SESSION_OCTETS];
        OsRng.fill_bytes(&mut octets);
        let id = octets.iter().fold(String::new(), |id, octet| id + &format!("{octet:02x}"));
        let mut sessions = locked(&self.sessions);
        if let Some(oldest) = too_many(&sessions, &user.name) {
            sessions.remove(&oldest);
        }
        sessions.insert(id.clone(), Session { user: user.name.clone(), password, began: Instant::now() });
        Ok((Asker::of(&user, from), self.cookie(&id, self.session_length)))
    }

    /// Ends the session of a request, and gives the cookie that takes its name away.
    pub(crate) fn sign_out(&self, headers: &HeaderMap) -> String {
        if let Some(session) = session_of(headers) {
            locked(&self.sessions).remove(session);
        }
        self.cookie("", Duration::ZERO)
    }

    fn cookie(&self, id: &str, age: Duration) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{COOKIE}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", age.as_secs())
    }
}

/// A guess that was counted.
struct Guess<'a> {
    access: &'a Access,
    name: String,
    from: IpAddr,
}

impl Guess<'_> {
    /// It was none.
    fn was_right(self) {
        self.access.failures_from.give_back(&self.from);
        self.access.failures_of.give_back(&self.name);
    }
}

fn token_of(headers: &HeaderMap) -> Option<&str> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    authorization.and_then(|text| text.strip_prefix("Bearer ")).map(str::trim)
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
mod tests;
