//! The beginning of a connection: TLS, who is there, settings (chapter 55.2 of Postgres' manual).
//!
//! Passwords are proved by SCRAM-SHA-256 and by nothing else. A client of another machine that does not use TLS is refused
//! before it is asked for anything.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_openssl::SslStream;
use weir_sql::{Asker, QuestionService, Refusal};

use crate::connection::{Connection, ConnectionEnd, Transport};
use crate::errors::{NOT_AUTHORISED, NOT_SUPPORTED, PgError, WRONG_PASSWORD};
use crate::messages::Fields;
use crate::scram::{MECHANISM, ScramExchange};
use crate::settings::Settings;
use crate::shared::{Shared, scram_secret};

/// Octets of a startup message, as Postgres has it.
const STARTUP_OCTETS_MAX: usize = 10_000;
/// Octets of a message of a login.
const LOGIN_OCTETS_MAX: usize = 4096;
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// Types of messages of authentication.
const AUTHENTICATION_OK: u32 = 0;
const AUTHENTICATION_SASL: u32 = 10;
const AUTHENTICATION_SASL_CONTINUE: u32 = 11;
const AUTHENTICATION_SASL_FINAL: u32 = 12;

/// A client that has logged in.
pub(crate) struct LoggedIn {
    pub(crate) connection: Connection,
    pub(crate) asker: Arc<dyn Asker>,
    pub(crate) settings: Settings,
    /// The name of the database that the client wants.
    pub(crate) database: String,
}

/// Result of [`begin`].
pub(crate) enum StartupResult {
    Client(Box<LoggedIn>),
    /// The connection has ended: it was a request to cancel, or the client got an error.
    Over,
}

/// A startup message.
struct Startup {
    version: u32,
    parameters: BTreeMap<String, String>,
}

/// Begins a connection, within the time that a login may take.
pub(crate) async fn begin(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>) -> StartupResult {
    let patience = shared.options.login_timeout.duration();
    if let Ok(begun) = timeout(patience, begin_untimed(stream, from, shared)).await {
        begun
    } else {
        shared.counts.logins_late.add_one();
        StartupResult::Over
    }
}

async fn begin_untimed(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>) -> StartupResult {
    // answers are written at once
    let _ = stream.set_nodelay(true);
    let message_max = usize::try_from(shared.options.message_max.bytes()).unwrap_or(usize::MAX);
    let idle = shared.options.idle_timeout.duration();
    let mut connection = Connection::new(stream, message_max, idle);
    let (mut is_secure, mut requests) = (false, 0);
    let startup = loop {
        let octets = match connection.startup_message(STARTUP_OCTETS_MAX).await {
            Ok(octets) => octets,
            Err(end) => return malformed(connection, end, shared).await,
        };
        let mut fields = Fields::new(octets.clone());
        let Ok(code) = fields.u32() else {
            let end = ConnectionEnd::Said(PgError::protocol("the first message has no version"));
            return malformed(connection, end, shared).await;
        };
        match code {
            CANCEL_REQUEST => return cancel(fields, shared),
            SSL_REQUEST | GSS_REQUEST if requests < 2 => {
                requests += 1;
                if code == SSL_REQUEST && !is_secure && shared.tls.is_some() {
                    match secured(connection, shared, message_max).await {
                        Some(secured) => (connection, is_secure) = (secured, true),
                        None => return StartupResult::Over,
                    }
                } else if connection.write(b"N").await.is_err() {
                    return StartupResult::Over;
                }
            }
            _ => break octets,
        }
    };
    let logged_in = match parse(startup) {
        Ok(startup) => log_in(&mut connection, startup, from, is_secure, shared).await,
        Err(error) => Err(ConnectionEnd::Said(error)),
    };
    match logged_in {
        Ok((asker, settings, database)) => {
            StartupResult::Client(Box::new(LoggedIn { connection, asker, settings, database }))
        }
        Err(end) => malformed(connection, end, shared).await,
    }
}

/// Ends a connection whose client has not logged in, with an error for the client.
async fn malformed(connection: Connection, end: ConnectionEnd, shared: &Shared) -> StartupResult {
    match &end {
        ConnectionEnd::Lost(_) => {}
        ConnectionEnd::Said(error) if [NOT_AUTHORISED, WRONG_PASSWORD].contains(&error.code) => {
            shared.counts.logins_refused.add_one();
        }
        _ => shared.counts.messages_malformed.add_one(),
    }
    connection.end(end.error()).await;
    StartupResult::Over
}

fn cancel(mut fields: Fields, shared: &Shared) -> StartupResult {
    let key = fields.u32().and_then(|process| Ok((process, fields.u32()?)));
    let is_known = key.is_ok_and(|(process, secret)| shared.cancel.cancel(process, secret));
    let counts = &shared.counts;
    if is_known {
        counts.cancels.add_one();
    } else {
        counts.cancels_unknown.add_one();
    }
    StartupResult::Over
}

/// Does the handshake of TLS; `None` when it fails.
async fn secured(mut connection: Connection, shared: &Arc<Shared>, message_max: usize) -> Option<Connection> {
    let patience = connection.patience;
    let handshake = async {
        connection.write(b"S").await.ok()?;
        let transport: Box<dyn Transport> = connection.into_transport()?;
        let mut session = SslStream::new(shared.tls.as_ref()?.session().ok()?, transport).ok()?;
        Pin::new(&mut session).accept().await.ok()?;
        Some(Connection::new(session, message_max, patience))
    };
    let secured = handshake.await;
    if secured.is_none() {
        shared.counts.handshakes_failed.add_one();
    }
    secured
}

fn parse(octets: Bytes) -> Result<Startup, PgError> {
    let mut fields = Fields::new(octets);
    let version = fields.u32()?;
    if version >> 16 != 3 {
        let message = format!("protocol {}.{} is not spoken", version >> 16, version & 0xffff);
        return Err(PgError::fatal(NOT_SUPPORTED, message).with_hint("protocol 3.0 is"));
    }
    let mut parameters = BTreeMap::new();
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            return Ok(Startup { version, parameters });
        }
        parameters.insert(name, fields.text()?);
    }
}

async fn log_in(
    connection: &mut Connection,
    startup: Startup,
    from: SocketAddr,
    is_secure: bool,
    shared: &Arc<Shared>,
) -> Result<(Arc<dyn Asker>, Settings, String), ConnectionEnd> {
    let Startup { version, mut parameters } = startup;
    if !is_secure && !from.ip().to_canonical().is_loopback() {
        let error = PgError::fatal(NOT_AUTHORISED, "clients of other machines must use TLS");
        return Err(ConnectionEnd::Said(error.with_hint("sslmode=require")));
    }
    let Some(user) = parameters.remove("user") else {
        return Err(ConnectionEnd::Said(PgError::fatal(NOT_AUTHORISED, "the startup message names no user")));
    };
    let database = parameters.remove("database").unwrap_or_else(|| user.clone());
    if parameters.remove("replication").is_some_and(|value| !["false", "off", "no", "0"].contains(&value.as_str())) {
        return Err(ConnectionEnd::Said(PgError::fatal(NOT_SUPPORTED, "there is no replication")));
    }
    let unknown: Vec<String> = parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if version & 0xffff > 0 || !unknown.is_empty() {
        connection.replies.negotiate_version(&unknown);
    }
    let asker = authenticated(connection, &user, from, &*shared.service).await?;
    let mut settings = Settings::new(asker.name());
    for (name, value) in parameters.iter().filter(|(name, _)| !name.starts_with("_pq_.")) {
        let set =
            if name == "options" { options(&mut settings, value) } else { settings.set(name, Some(value)).map(drop) };
        set.map_err(|error| ConnectionEnd::Said(PgError { is_fatal: true, ..error }))?;
    }
    connection.replies.authentication(AUTHENTICATION_OK, &[]);
    Ok((asker, settings, database))
}

/// `-c name=value`, `--name=value`.
fn options(settings: &mut Settings, text: &str) -> Result<(), PgError> {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        let pair = match word.strip_prefix("--") {
            Some(pair) => pair,
            None if word == "-c" => words.next().unwrap_or_default(),
            None => word.strip_prefix("-c").unwrap_or(word),
        };
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| PgError::new(crate::errors::SYNTAX, format!("'{}' is no option", word.escape_debug())))?;
        settings.set(&name.replace('-', "_"), Some(value))?;
    }
    Ok(())
}

/// Has the client prove who it is, where there are users.
async fn authenticated(
    connection: &mut Connection,
    user: &str,
    from: SocketAddr,
    service: &dyn QuestionService,
) -> Result<Arc<dyn Asker>, ConnectionEnd> {
    let from = from.ip();
    if !service.has_users() {
        return Ok(service.local(from));
    }
    let refused =
        |refusal: Refusal| ConnectionEnd::Said(PgError { is_fatal: true, ..PgError::of_refusal(refusal, "") });
    let kept = service.scram_verifier(user, from).map_err(refused)?;
    let is_proved = proved(connection, user, kept.as_deref()).await?;
    // failures are counted there
    let asker = service.by_name(user, from, is_proved.is_some());
    match (asker, is_proved) {
        (Ok(asker), Some(answer)) => {
            connection.replies.authentication(AUTHENTICATION_SASL_FINAL, answer.as_bytes());
            Ok(asker)
        }
        (Err(refusal), Some(_)) => Err(refused(refusal)),
        (_, None) => {
            let message = format!("the name '{}' or its password is not right", user.escape_debug());
            let error = PgError::fatal(WRONG_PASSWORD, message);
            Err(ConnectionEnd::Said(
                error.with_hint("a user needs a verifier for SCRAM: weir serve --scram-password makes one"),
            ))
        }
    }
}

/// The exchange of SCRAM; gives our last message when the proof was right.
async fn proved(connection: &mut Connection, user: &str, kept: Option<&str>) -> Result<Option<String>, ConnectionEnd> {
    let Some(secret) = scram_secret() else {
        return Err(ConnectionEnd::Said(PgError::fatal("XX000", "the system has no random numbers")));
    };
    let mechanisms = format!("{MECHANISM}\0\0");
    connection.replies.authentication(AUTHENTICATION_SASL, mechanisms.as_bytes());
    connection.flush().await?;
    let malformed = || ConnectionEnd::Said(PgError::protocol("a message of SCRAM-SHA-256 is malformed"));
    let mut fields = Fields::new(password_message(connection).await?);
    let mechanism = fields.text().map_err(ConnectionEnd::Said)?;
    if mechanism != MECHANISM {
        return Err(malformed());
    }
    let first = fields.value().map_err(ConnectionEnd::Said)?.ok_or_else(malformed)?;
    let first = std::str::from_utf8(&first).map_err(|_| malformed())?;
    let (exchange, answer) = ScramExchange::begin(first, user, kept, secret).ok_or_else(malformed)?;
    connection.replies.authentication(AUTHENTICATION_SASL_CONTINUE, answer.as_bytes());
    connection.flush().await?;
    let last = password_message(connection).await?;
    let last = std::str::from_utf8(&last).map_err(|_| malformed())?;
    Ok(exchange.finish(last))
}

async fn password_message(connection: &mut Connection) -> Result<Bytes, ConnectionEnd> {
    match connection.login_message(LOGIN_OCTETS_MAX).await? {
        (b'p', octets) => Ok(octets),
        _ => Err(ConnectionEnd::Said(PgError::protocol("a message of a login was expected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let mut settings = Settings::new("ann");
        options(&mut settings, "-c statement_timeout=5s --timezone=Europe/Paris -cextra_float_digits=2")
            .expect("options");
        assert_eq!(settings.time_max(), Some(std::time::Duration::from_secs(5)));
        assert_eq!(settings.get("timezone"), Some(("TimeZone", "Europe/Paris")));
        assert!(options(&mut settings, "-c nonsense").is_err() && options(&mut settings, "-c no=1").is_err());
    }

    #[test]
    fn a_startup_message_has_pairs_of_texts() {
        let parsed = parse(Bytes::from_static(b"\0\x03\0\0user\0ann\0database\0flows\0\0")).expect("a message");
        assert_eq!(parsed.parameters.get("database").map(String::as_str), Some("flows"));
        for wrong in [b"\0\x02\0\0\0".as_slice(), b"\0\x03\0\0user\0ann", b"\0\x03\0\0user\0ann\0", b"\0\x03"] {
            assert!(parse(Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }
}
