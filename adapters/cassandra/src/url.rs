//! Where a cluster is: `cassandra://user:password@host:port,host2/keyspace?option=value`.

use std::fmt::{self, Write};

use weir_chain::options::{OptionText, Problem, ValueType};

/// The scheme of such addresses, with what follows it.
pub const SCHEME: &str = "cassandra://";
/// The port of a node that none is given for.
const PORT: u16 = 9042;

/// A cluster and a keyspace.
#[derive(Clone, PartialEq, Eq)]
pub struct CassandraUrl {
    /// Nodes to begin with, `host:port` each; the driver finds the others.
    pub hosts: Vec<String>,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// The keyspace.
    pub keyspace: String,
    /// What follows the question mark, in its order.
    pub(crate) settings: Vec<(String, String)>,
}

/// The password is not shown: options are logged.
impl fmt::Debug for CassandraUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.hosts.join(","), self.keyspace)
    }
}

impl CassandraUrl {
    /// The nodes, for messages.
    pub fn hosts_text(&self) -> String {
        self.hosts.join(",")
    }
}

impl OptionText for CassandraUrl {
    fn value_type() -> ValueType {
        ValueType::Text("URL")
    }

    fn parse_text(text: &str) -> Result<Self, Problem> {
        parse(text).map_err(|problem| {
            let hint =
                "an address is cassandra://host:port,host/keyspace, perhaps with user:password@ before the hosts";
            Problem::Because(format!("'{}' {problem}", without_password(text).escape_debug()), Some(hint.to_owned()))
        })
    }

    fn text(&self) -> String {
        let user = self.user.as_ref();
        let user = user.map(|(name, password)| format!("{}:{}@", escaped(name), escaped(password))).unwrap_or_default();
        let settings: Vec<_> =
            self.settings.iter().map(|(key, value)| format!("{}={}", escaped(key), escaped(value))).collect();
        let mark = if settings.is_empty() { "" } else { "?" };
        format!("{SCHEME}{user}{}/{}{mark}{}", self.hosts.join(","), self.keyspace, settings.join("&"))
    }

    fn unset() -> Self {
        Self { hosts: Vec::new(), user: None, keyspace: String::new(), settings: Vec::new() }
    }
}

fn parse(text: &str) -> Result<CassandraUrl, String> {
    let rest = text.strip_prefix(SCHEME).ok_or("does not begin with cassandra://")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, keyspace) = rest.rsplit_once('/').ok_or("names no keyspace")?;
    let (user, hosts) = match place.rsplit_once('@') {
        None => (None, place),
        Some((user, hosts)) => {
            let (name, password) = user.split_once(':').ok_or("has a user without a password")?;
            (Some((unescaped(name)?, unescaped(password)?)), hosts)
        }
    };
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let is_name = keyspace.starts_with(|first: char| first.is_ascii_lowercase()) && keyspace.chars().all(is_letter);
    if !is_name || keyspace.len() > 48 {
        return Err(
            "has a keyspace that is no name: a lower-case letter, then letters, digits and '_', 48 at most".into()
        );
    }
    let hosts = hosts.split(',').map(host).collect::<Result<Vec<_>, _>>()?;
    let mut settings = Vec::new();
    for setting in query.split('&').filter(|setting| !setting.is_empty()) {
        let (key, value) =
            setting.split_once('=').ok_or_else(|| format!("has the option '{setting}' without a value"))?;
        settings.push((unescaped(key)?, unescaped(value)?));
    }
    Ok(CassandraUrl { hosts, user, keyspace: keyspace.to_owned(), settings })
}

/// A node with its port. An IPv6 address is in brackets.
fn host(text: &str) -> Result<String, String> {
    let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            address.parse::<std::net::Ipv6Addr>().map_err(|_| format!("has '[{address}]', which is no address"))?;
            (format!("[{address}]"), port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((name, port)) => (name.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    if name.is_empty() || name.chars().any(|letter| letter.is_whitespace() || letter == '/' || letter == '@') {
        return Err("names no host".to_owned());
    }
    let port = match port {
        None => PORT,
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| format!("has the port '{port}'"))?,
    };
    Ok(format!("{name}:{port}"))
}

/// `%` and two digits stand for an octet, as in any address.
fn unescaped(text: &str) -> Result<String, String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(octet) = rest.next() {
        if *octet != b'%' {
            octets.push(*octet);
            continue;
        }
        let digits: Vec<u8> = rest.by_ref().take(2).copied().collect();
        let number = std::str::from_utf8(&digits).ok().filter(|digits| digits.len() == 2);
        let number = number.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        octets.push(number.ok_or("has a '%' that two hexadecimal digits do not follow")?);
    }
    String::from_utf8(octets).map_err(|_| "has octets that are no text".to_owned())
}

fn escaped(text: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~:".contains(&octet);
    let mut escaped = String::with_capacity(text.len());
    for octet in text.bytes() {
        // in names and passwords a colon would be taken for the one between them
        if plain(octet) && octet != b':' {
            escaped.push(octet.into());
        } else {
            let _ = write!(escaped, "%{octet:02x}");
        }
    }
    escaped
}

fn without_password(text: &str) -> String {
    match text.strip_prefix(SCHEME).and_then(|rest| rest.rsplit_once('@')) {
        Some((_, rest)) => format!("{SCHEME}…@{rest}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
