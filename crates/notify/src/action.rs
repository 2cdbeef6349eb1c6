//! Where reports go besides the journal, and when.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use weir_chain::options::Given;
use weir_chain::{OptionError, Secret, TimeSpan, choices, options};
use weir_reports::Severity;

use crate::quiet::{QuietHours, Zone};
use crate::secret::SecretText;

options! {
    /// An action of a watch: one of `file`, `syslog`, `webhook` and `mail`, and when it is used.
    pub struct ActionOptions {
        /// Append reports to this file, one object of JSON a line.
        file: Option<PathBuf>,
        /// Send reports to this server of syslog (RFC 5424): `udp://HOST:PORT` (RFC 5426), `tcp://HOST:PORT` (RFC 6587) or
        /// `tls://HOST:PORT` (RFC 5425).
        syslog: Option<String>,
        /// POST reports as JSON to this address, `https://…` or `http://…`.
        webhook: Option<SecretText>,
        /// Send reports by mail to these addresses.
        mail: Vec<String> = Vec::new(),
    }
    includes {
        /// Webhooks.
        hook: WebhookOptions,
        /// Mail.
        letter: MailOptions,
        /// TLS.
        tls: TlsOptions,
        /// When.
        schedule: ScheduleOptions,
    }
}

options! {
    /// Options of a webhook.
    pub struct WebhookOptions {
        /// Sign requests with this secret, as Standard Webhooks does: HMAC-SHA256 over id, time and body. A secret that begins with
        /// `whsec_` is base64.
        signing_secret: Option<Secret>,
        /// Send these headers too, `Name: value`; `{file:PATH}` and `{env:NAME}` stand for secrets.
        headers: Vec<SecretText> = Vec::new(),
    }
}

options! {
    /// Options of mail.
    pub struct MailOptions {
        /// Hand mail to this server: `starttls://HOST:PORT`, `tls://HOST:PORT` or, without encryption, `plain://HOST:PORT`.
        smtp: Option<String>,
        /// The sender of mail.
        mail_from: Option<String>,
        /// Log in at the server of mail by this name.
        user: Option<String>,
        /// The password for that.
        password: Option<Secret>,
    }
}

options! {
    /// Options of TLS to servers.
    pub struct TlsOptions {
        /// Trust the authorities of this PEM file, and not those of the system.
        tls_ca: Option<PathBuf>,
        /// Show the certificate of this PEM file to a server of syslog.
        tls_certificate: Option<PathBuf>,
        /// The PEM file of its key.
        tls_key: Option<PathBuf>,
    }
}

choices! {
    /// What happens to reports held back in quiet hours.
    pub enum QuietHoursPolicy {
        /// Send them together when the quiet hours are over.
        Digest = "digest",
        /// Drop them, and count them in `reports_quieted`. They are in the journal.
        Drop = "drop",
    }
}

options! {
    /// Which reports an action takes, and when.
    pub struct ScheduleOptions {
        /// Send reports of this severity and of higher ones.
        severity: Severity = Severity::Info,
        /// Hold reports back in these hours: `22:00-07:00`, `sat-sun`, `mon-fri 18:00-08:00`.
        quiet: Vec<QuietHours> = Vec::new(),
        /// Take quiet hours by the clock of this zone.
        zone: Zone = Zone::default(),
        /// Hold back reports up to this severity; higher ones are sent in quiet hours too.
        quiet_up_to: Severity = Severity::Warning,
        /// What becomes of reports of quiet hours.
        quiet_then: QuietHoursPolicy = QuietHoursPolicy::Digest,
        /// Send the reports of this time in one message: at once by default, those of a minute by mail.
        digest: Option<TimeSpan>,
        /// Send at most this many messages an hour: 30 by mail, any number else. Reports beyond wait, and are sent together.
        messages_per_hour_max: Option<u32> => 1..=1_000_000,
    }
}

/// Where reports are sent, and when.
#[derive(Debug, Clone)]
pub struct Action {
    /// Where.
    pub target: TargetOptions,
    /// When.
    pub schedule: ScheduleOptions,
}

/// Where reports are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetOptions {
    /// To a file.
    File(PathBuf),
    /// To a server of syslog over UDP.
    SyslogUdp(String),
    /// To a server of syslog over TCP.
    SyslogTcp(String),
    /// To a server of syslog over TLS.
    SyslogTls(SyslogTls),
    /// To an address of HTTP.
    Webhook(Webhook),
    /// To people.
    Mail(Mail),
}

/// A server of syslog over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyslogTls {
    /// `HOST:PORT`; the certificate must have the name HOST.
    pub address: String,
    /// The authorities that are trusted; those of the system without.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// An address of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The address.
    pub url: SecretText,
    /// Headers.
    pub headers: Vec<SecretText>,
    /// What requests are signed with.
    pub signing_secret: Option<Secret>,
    /// The authorities that are trusted; those of the system without.
    pub ca: Option<PathBuf>,
}

/// People who get mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// Their addresses.
    pub to: Vec<String>,
    /// The sender.
    pub from: String,
    /// How the server is spoken to.
    pub security: MailSecurity,
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Name and password.
    pub login: Option<(String, Secret)>,
    /// The authorities that are trusted; those of the system without.
    pub ca: Option<PathBuf>,
}

/// Why a file of actions cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActionFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no TOML, or an option is wrong.
    #[error("{}: {}{}", path.display(), error.message, error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: OptionError,
    },
}

/// How a server of mail is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailSecurity {
    /// Over TLS from the first octet on.
    Tls,
    /// Over TLS after STARTTLS, without which nothing is sent.
    StartTls,
    /// Without encryption.
    Plain,
}

impl Action {
    /// Reads a file of tables `[[actions]]` and nothing else.
    pub fn read_file(path: &Path) -> Result<Vec<Self>, ActionFileError> {
        let named = |error: OptionError| ActionFileError::File { path: path.to_owned(), error };
        let text =
            std::fs::read_to_string(path).map_err(|source| ActionFileError::Read { path: path.to_owned(), source })?;
        let table: Table =
            text.parse().map_err(|error: toml::de::Error| named(OptionError::new("", error.to_string())))?;
        if let Some(key) = table.keys().find(|key| *key != "actions") {
            return Err(named(OptionError::new(key, format!("'{key}' is not known here"))));
        }
        Self::read_all(table.get("actions").cloned(), path.parent().unwrap_or(Path::new(""))).map_err(named)
    }

    /// Reads the tables `[[actions]]`. No two have one target: how far an action got is kept by that.
    pub fn read_all(actions: Option<Value>, folder: &Path) -> Result<Vec<Self>, OptionError> {
        let no_tables = || OptionError::new("actions", "each action is a table [[actions]]");
        let tables = match actions {
            None => Vec::new(),
            Some(Value::Array(tables)) => tables,
            Some(_) => return Err(no_tables()),
        };
        let mut read: Vec<Self> = Vec::new();
        for table in tables {
            let Value::Table(table) = table else { return Err(no_tables()) };
            let action = Self::read(table, folder)?;
            let identity = action.identity();
            if read.iter().any(|other| other.identity() == identity) {
                return Err(OptionError::new("actions", format!("two actions have the target {identity}"))
                    .with_hint("leave one of them, with the lower severity"));
            }
            read.push(action);
        }
        Ok(read)
    }

    /// Reads the table of an action.
    pub fn read(table: Table, folder: &Path) -> Result<Self, OptionError> {
        let given: Vec<String> = table.keys().cloned().collect();
        let options: ActionOptions = weir_chain::options::read(&Given::from_table(table, folder))?;
        let kinds = ["file", "syslog", "webhook", "mail"];
        let named: Vec<_> = kinds.into_iter().filter(|kind| given.iter().any(|key| key == kind)).collect();
        let [kind] = named.as_slice() else {
            return Err(OptionError::new("actions", "an action has one of 'file', 'syslog', 'webhook' and 'mail'"));
        };
        check_keys(kind, &given)?;
        let (tls, schedule) = (options.tls, options.schedule);
        let target = match (options.file, options.syslog, options.webhook) {
            (Some(file), ..) => TargetOptions::File(file),
            (_, Some(server), _) => syslog(&server, tls)?,
            (_, _, Some(url)) => webhook(url, options.hook, tls)?,
            _ => mail(options.mail, options.letter, tls)?,
        };
        Ok(Self { target, schedule })
    }

    /// What distinguishes it from the other actions of a watch: where it sends. How far it got is kept under that, so what is changed
    /// beside it changes nothing of what was sent.
    pub fn identity(&self) -> String {
        match &self.target {
            TargetOptions::File(path) => format!("File({})", path.display()),
            TargetOptions::SyslogUdp(address) => format!("SyslogUdp({address:?})"),
            TargetOptions::SyslogTcp(address) => format!("SyslogTcp({address:?})"),
            TargetOptions::SyslogTls(server) => format!("SyslogTls({:?})", server.address),
            TargetOptions::Webhook(hook) => format!("Webhook({:?})", hook.url.shown()),
            TargetOptions::Mail(mail) => format!("Mail({:?})", mail.to),
        }
    }

    /// The time whose reports are sent together.
    pub(crate) fn digest_ms(&self) -> i64 {
        let usual =
            if matches!(self.target, TargetOptions::Mail(_)) { TimeSpan::from_secs(60) } else { TimeSpan::ZERO };
        self.schedule.digest.unwrap_or(usual).millis()
    }

    pub(crate) fn messages_per_hour_max(&self) -> usize {
        let usual = if matches!(self.target, TargetOptions::Mail(_)) { 30 } else { usize::MAX };
        self.schedule.messages_per_hour_max.map_or(usual, |max| max as usize)
    }
}

/// Options that only some kinds of actions have.
const OF_KINDS: [(&str, &[&str]); 9] = [
    ("signing_secret", &["webhook"]),
    ("headers", &["webhook"]),
    ("smtp", &["mail"]),
    ("mail_from", &["mail"]),
    ("user", &["mail"]),
    ("password", &["mail"]),
    ("tls_ca", &["webhook", "mail", "syslog"]),
    ("tls_certificate", &["syslog"]),
    ("tls_key", &["syslog"]),
];

/// Options of another kind would do nothing.
fn check_keys(kind: &str, given: &[String]) -> Result<(), OptionError> {
    let strange = OF_KINDS.iter().find(|(key, kinds)| !kinds.contains(&kind) && given.iter().any(|other| other == key));
    match strange {
        None => Ok(()),
        Some((key, kinds)) => {
            Err(OptionError::new(*key, format!("'{key}' is for actions with '{}'", kinds.join("' or '"))))
        }
    }
}

/// A host and a port, as they are written after `://`.
fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (!host.is_empty()).then_some(host).zip(port.parse().ok())
}

fn syslog(server: &str, tls: TlsOptions) -> Result<TargetOptions, OptionError> {
    let scheme = server.split_once("://").filter(|(_, address)| host_and_port(address).is_some());
    let identity = match (tls.tls_certificate, tls.tls_key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(OptionError::new("tls_key", "'tls_certificate' and 'tls_key' go together")),
    };
    let is_tls = matches!(scheme, Some(("tls", _)));
    if !is_tls && (identity.is_some() || tls.tls_ca.is_some()) {
        return Err(OptionError::new("tls_ca", "TLS is for 'tls://HOST:PORT'"));
    }
    match scheme {
        Some(("tcp", address)) => Ok(TargetOptions::SyslogTcp(address.to_owned())),
        Some(("udp", address)) => Ok(TargetOptions::SyslogUdp(address.to_owned())),
        Some(("tls", address)) => {
            Ok(TargetOptions::SyslogTls(SyslogTls { address: address.to_owned(), ca: tls.tls_ca, identity }))
        }
        _ => Err(OptionError::new("syslog", format!("'{server}' is no server of syslog"))
            .with_hint("write tcp://HOST:PORT, udp://HOST:PORT or tls://HOST:PORT")),
    }
}

fn webhook(url: SecretText, hook: WebhookOptions, tls: TlsOptions) -> Result<TargetOptions, OptionError> {
    let shown = url.shown();
    if !shown.starts_with('{') {
        let rest = shown.strip_prefix("https://").or_else(|| shown.strip_prefix("http://"));
        let authority = rest.map(|rest| rest.split('/').next().unwrap_or_default());
        match authority {
            Some(authority) if authority.contains('@') => {
                return Err(OptionError::new("webhook", "an address of a webhook has no name and password in it")
                    .with_hint("write headers = [\"Authorization: Basic {file:PATH}\"]"));
            }
            Some(authority) if !authority.is_empty() => {}
            _ => {
                return Err(OptionError::new("webhook", format!("'{shown}' is no address of HTTP"))
                    .with_hint("write https://HOST/PATH"));
            }
        }
    }
    for header in &hook.headers {
        let shown = header.shown();
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let name = shown.split_once(':').map(|(name, _)| name);
        if name.is_none_or(|name| name.is_empty() || !name.chars().all(is_fit)) {
            return Err(OptionError::new("headers", format!("'{shown}' is no header")).with_hint("write Name: value"));
        }
    }
    let WebhookOptions { signing_secret, headers } = hook;
    Ok(TargetOptions::Webhook(Webhook { url, headers, signing_secret, ca: tls.tls_ca }))
}

/// Whether a text is an address of mail without a name: ASCII, one `@`, nothing that would end it in a command.
fn is_mail_address(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | ',' | ';' | '"' | '(' | ')' | '@');
    let is_part = |part: &str| !part.is_empty() && part.chars().all(is_fit);
    text.split_once('@').is_some_and(|(user, host)| is_part(user) && is_part(host))
}

fn mail(to: Vec<String>, letter: MailOptions, tls: TlsOptions) -> Result<TargetOptions, OptionError> {
    let needs = |key: &str, value: Option<String>| {
        value.ok_or_else(|| OptionError::new(key, format!("'{key}' must be given with 'mail'")))
    };
    let from = needs("mail_from", letter.mail_from)?;
    let server = needs("smtp", letter.smtp)?;
    for address in to.iter().chain([&from]) {
        if !is_mail_address(address) {
            let address = address.escape_debug();
            return Err(OptionError::new("mail", format!("'{address}' is no address of mail")));
        }
    }
    if to.is_empty() {
        return Err(OptionError::new("mail", "mail needs an address"));
    }
    let found = server.split_once("://").and_then(|(scheme, address)| {
        let security = match scheme {
            "tls" => MailSecurity::Tls,
            "starttls" => MailSecurity::StartTls,
            "plain" => MailSecurity::Plain,
            _ => return None,
        };
        host_and_port(address).map(|(host, port)| (security, host.to_owned(), port))
    });
    let Some((security, host, port)) = found else {
        return Err(OptionError::new("smtp", format!("'{server}' is no server of mail"))
            .with_hint("write starttls://HOST:587, tls://HOST:465 or plain://HOST:25"));
    };
    let login = match (letter.user, letter.password) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => return Err(OptionError::new("password", "'user' and 'password' go together")),
    };
    if login.is_some() && security == MailSecurity::Plain {
        return Err(OptionError::new("smtp", "a password is not sent without encryption")
            .with_hint("write starttls://HOST:587 or tls://HOST:465"));
    }
    Ok(TargetOptions::Mail(Mail { to, from, security, host, port, login, ca: tls.tls_ca }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Action, OptionError> {
        Action::read(text.parse().expect("TOML"), Path::new("/w"))
    }

    #[test]
    fn two_actions_have_two_targets() {
        let read =
            |text: &str| Action::read_all(text.parse::<Table>().expect("TOML").remove("actions"), Path::new("/w"));
        let two = "[[actions]]\nfile = 'a'\n[[actions]]\nfile = 'b'\nseverity = 'critical'";
        assert_eq!(read(two).expect("actions").len(), 2);
        let same = "[[actions]]\nfile = 'a'\n[[actions]]\nfile = 'a'\nseverity = 'critical'";
        assert!(read(same).expect_err("the same").message.contains("two actions have the target File"));
        assert!(read("actions = 7").is_err() && read("actions = [7]").is_err());
    }

    #[test]
    fn an_action_is_one_thing() {
        assert_eq!(read("file = 'a.ndjson'").expect("a file").target, TargetOptions::File("/w/a.ndjson".into()));
        let udp = read("syslog = 'udp://[::1]:514'").expect("a server");
        assert_eq!(udp.target, TargetOptions::SyslogUdp("[::1]:514".to_owned()));
        let tls = read("syslog = 'tls://logs.example.com:6514'\ntls_ca = 'ca.pem'").expect("a server");
        let expected =
            SyslogTls { address: "logs.example.com:6514".to_owned(), ca: Some("/w/ca.pem".into()), identity: None };
        assert_eq!(tls.target, TargetOptions::SyslogTls(expected));
        for (wrong, reason) in [
            ("", "one of 'file', 'syslog', 'webhook' and 'mail'"),
            ("file = 'a'\nsyslog = 'tcp://a:1'", "one of"),
            ("syslog = 'a:1'", "no server of syslog"),
            ("syslog = 'tcp://a'", "no server of syslog"),
            ("syslog = 'tcp://a:1'\ntls_ca = 'x'", "TLS is for"),
            ("syslog = 'tls://a:1'\ntls_key = 'x'", "go together"),
            ("maill = 'a'", "'maill' is not known here"),
            ("file = 'a'\nheaders = ['a: b']", "'headers' is for actions with 'webhook'"),
            ("webhook = 'ftp://a/b'", "no address of HTTP"),
            ("webhook = 'https://me:pw@a/b'", "no name and password"),
            ("webhook = 'https://a/b'\nheaders = ['X y']", "is no header"),
            ("webhook = 'https://a/b'\nsigning_secret = 'abc'", "a secret is not written here"),
            ("mail = 'a@example.com'", "'mail_from' must be given"),
            ("mail = 'a@example.com'\nmail_from = 'b@example.com'", "'smtp' must be given"),
            ("mail = 'a b'\nmail_from = 'b@example.com'\nsmtp = 'tls://a:1'", "no address of mail"),
            ("mail = 'a@example.com'\nmail_from = 'b@example.com'\nsmtp = 'smtp://a:1'", "no server of mail"),
            (
                "mail = 'a@example.com'\nmail_from = 'b@example.com'\nsmtp = 'plain://a:1'\nuser = 'u'\npassword = 'file:p'",
                "not sent without encryption",
            ),
            ("file = 'a'\nquiet = 'night'", "'night' is no hours"),
            ("file = 'a'\nzone = 'Mars'", "'Mars' is no time zone"),
        ] {
            let error = read(wrong).expect_err(wrong);
            assert!(error.message.contains(reason), "{wrong}: {error:?}");
        }
    }

    /// How far an action got is kept by its identity, so options beside the target must not change it.
    #[test]
    fn a_schedule_changes_no_identity() {
        let plain = read("webhook = 'https://a/b'").expect("a webhook");
        let quiet = read(
            "webhook = 'https://a/b'\nquiet = ['22:00-07:00']\nzone = 'UTC'\nseverity = 'critical'\nheaders = ['X: y']",
        );
        assert_eq!(plain.identity(), quiet.expect("a webhook").identity());
        assert_ne!(plain.identity(), read("webhook = 'https://a/c'").expect("a webhook").identity());
        // as in journals of before
        assert_eq!(read("syslog = 'tcp://a:1'").expect("a server").identity(), "SyslogTcp(\"a:1\")");
    }
}
