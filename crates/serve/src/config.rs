//! The configuration file of the service.
//!
//! One TOML file, whose sections are the option structs that flags and chain files have: a key means the same wherever it is
//! written. A section that nobody takes, and a key that its section lacks, are errors that say what was probably meant.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::{Table, Value};
use weir_chain::options::{Given, read};
use weir_chain::{ByteSize, OptionError, OptionText, Options, TimeSpan, options};
use weir_flow::scaling::{Corrections, CorrectionsFileError};

use crate::users::Role;

options! {
    /// How the service listens, and limits of connections.
    pub struct HttpOptions {
        /// Listen for HTTP here; port 0 takes a free one. On another address than one of this machine only (127.0.0.1, ::1) the
        /// configuration must have users.
        listen: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 2080)),
        /// Accept requests to these names as well, as a proxy in front of the service sends them. Without users only names and
        /// addresses of this machine are accepted, so that no page of another site can ask.
        hosts: Vec<String> = Vec::new(),
        /// Accept at most this many connections at a time; more are closed and counted in connections_refused.
        connections_max: usize = 512 => 1..=1 << 20,
        /// Accept at most this many of one address, or of one /64 of IPv6; without it a quarter of connections_max, and at least
        /// 8. Proxies and this machine have no limit of their own.
        connections_per_address_max: Option<usize>,
        /// Close a connection whose request has no whole head after this time, and refuse a body that takes longer.
        header_timeout: TimeSpan = TimeSpan::from_secs(10),
        /// Close a connection whose client has taken nothing of an answer for this time.
        write_timeout: TimeSpan = TimeSpan::from_secs(30),
        /// Refuse bodies of requests that are larger.
        body_max: ByteSize = ByteSize::from_mib(1) => 1..=1 << 40,
        /// Refuse answers that are larger.
        answer_max: ByteSize = ByteSize::from_mib(64) => 1..=1 << 40,
        /// Let answers of at most this many octets wait together for their clients to take them; more are answered with 503.
        /// One user gets at most a quarter of it, or one answer. Those of at most 64 KiB do not count.
        sending_max: ByteSize = ByteSize::from_mib(256) => 1 << 20..=1 << 40,
        /// Keep at most this many octets of answers for whoever asks the same again.
        cache: ByteSize = ByteSize::from_mib(64) => 0..=1 << 40,
        /// Ask for a password again after this time.
        session_length: TimeSpan = TimeSpan::from_secs(43_200),
        /// Refuse to sign in, with 429, after so many wrong passwords and tokens a minute from one address, and three times as
        /// many for one name; 0 for no limit.
        sign_in_failures_per_minute: u32 = 10,
        /// PEM file of the certificate of the service, followed by those of the authorities up to the root: with it the service
        /// speaks TLS. SIGHUP and POST /api/v1/reload have it read again.
        tls_cert: Option<PathBuf>,
        /// PEM file of its private key.
        tls_key: Option<PathBuf>,
        /// Addresses of proxies in front of the service, whose header X-Forwarded-For is believed.
        proxies: Vec<String> = Vec::new(),
    }
}

options! {
    /// How flows that programs push are taken.
    pub struct IngestOptions {
        /// Let flows of so many octets wait for the archive; when there is no room requests are answered with 503.
        queue: ByteSize = ByteSize::from_mib(64) => 1 << 20..=1 << 40,
        /// Refuse bodies that are larger.
        body_max: ByteSize = ByteSize::from_mib(16) => 1 << 10..=1 << 30,
        /// Refuse a body that takes longer to come.
        body_timeout: TimeSpan = TimeSpan::from_secs(60),
        /// Read so many bodies at a time; more are answered with 503.
        at_once: usize = 4 => 1..=256,
        /// Wait at most this time until flows are on disk; then the answer is 202, and they are on their way.
        durable_timeout: TimeSpan = TimeSpan::from_secs(10),
    }
}

options! {
    /// How much questions may use.
    pub struct QuestionOptions {
        /// Use at most this much memory for questions, indexes and what they sort and group; write the rest to temporary files
        /// where that is possible.
        memory: ByteSize = ByteSize::from_mib(1024) => 1..=1 << 50,
        /// Use at most this much space on disk for what does not fit into memory.
        spill: ByteSize = ByteSize::from_mib(10 << 10) => 0..=1 << 60,
        /// Answer at most this many questions at a time, and half as many that read few flows besides; the others wait for their turn.
        at_once: usize = 2 => 1..=1024,
        /// Let at most this many wait, and as many that read few flows; more are refused.
        waiting_max: usize = 64 => 1..=100_000,
        /// Let at most this many of one user run or wait; more are refused.
        per_user_max: usize = 32 => 1..=100_000,
        /// Let a user ask at most so many questions a minute, a sixth of them at once; more are refused with 429. 0 for no limit.
        /// Without users there is none.
        user_per_minute_max: u32 = 6000,
        /// Let whoever has one address ask at most so many questions a minute, whatever their names; as above.
        address_per_minute_max: u32 = 12_000,
        /// Stop a question after this time.
        time_limit: TimeSpan = TimeSpan::from_secs(60),
        /// Use at most this many threads for a question; without it one per core.
        threads: Option<usize>,
        /// Override the sampling intervals that exporters report by those of a CSV file, as --sampling-corrections of weir query.
        /// Watches use it too, as it was at the start; for questions SIGHUP and POST /api/v1/reload have it read again.
        sampling_corrections: Option<PathBuf>,
    }
}

impl QuestionOptions {
    /// Questions that read few flows and are answered at a time, besides the others.
    pub(crate) fn quick_at_once(&self) -> usize {
        (self.at_once / 2).max(1)
    }

    /// The sampling intervals that override what exporters report, as the file has them now; none without a file.
    pub fn corrections(&self) -> Result<Corrections, CorrectionsFileError> {
        let read = self.sampling_corrections.as_deref().map(Corrections::read);
        Ok(read.transpose()?.unwrap_or_default())
    }

    /// Questions that are answered at a time, of both kinds, among which memory and disk are shared out.
    pub(crate) fn turns(&self) -> u64 {
        (self.at_once + self.quick_at_once()) as u64
    }
}

options! {
    /// Who may ask.
    pub struct AccessOptions {
        /// Read users from this file too, which weir user changes.
        users_file: Option<PathBuf>,
        /// Read the key of pseudonyms from this file: 32 octets, or 64 hexadecimal digits.
        pseudonym_key_file: Option<PathBuf>,
    }
}

options! {
    /// A role of your own.
    pub struct RoleOptions {
        /// The name.
        name: String,
        /// What its users may do: analyst or viewer.
        may: Role = Role::Viewer,
        /// Show only the flows that this filter takes, in nfdump's language. What is about all flows is refused.
        rows: Option<String>,
        /// Show images of addresses, which share prefixes as the addresses do, and no column that may name a host.
        pseudonyms: bool = false,
    }
}

options! {
    /// A user.
    pub struct UserOptions {
        /// The name.
        name: String,
        /// What the user may do: admin, analyst, viewer, or a role of your own.
        role: String = "viewer".to_owned(),
        /// Show only the flows that this filter takes, besides that of the role.
        rows: Option<String>,
        /// The hash of the password, as weir serve --hash-password prints it. Without it the user has tokens only.
        password: Option<String>,
        /// Hashes of tokens, made in the same way. A client sends "Authorization: Bearer NAME:TOKEN".
        tokens: Vec<String> = Vec::new(),
        /// What clients of Postgres prove the password with, as weir serve --scram-password prints it.
        scram: Option<String>,
    }
}

/// Sections that are lists of tables.
const LISTS: [&str; 6] = ["meter", "snmp", "chain", "download", "roles", "users"];

/// A configuration file, whose sections are taken one by one.
#[derive(Debug, Default)]
pub struct ConfigFile {
    folder: PathBuf,
    text: String,
    sections: BTreeMap<String, Value>,
}

impl ConfigFile {
    /// Reads the text of a file; relative paths in it are relative to `folder`. `known` are the names of its sections.
    pub fn parse(text: &str, folder: &Path, known: &[(&str, &str)]) -> Result<Self, OptionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| OptionError::new("", error.to_string()))?;
        for (name, value) in &table {
            let at = |message: String| OptionError::new(name, format!("{}{message}", at_line(text, name, 0, None)));
            if !known.iter().any(|(known, _)| known == name) {
                let problem = weir_chain::Problem::no_choice(name, known);
                let weir_chain::Problem::Because(_, hint) = problem else { continue };
                return Err(OptionError { hint, ..at(format!("'{name}' is no section of a configuration")) });
            }
            let is_list = LISTS.contains(&name.as_str());
            let is_fit = if is_list { value.is_array() } else { value.is_table() };
            if !is_fit {
                let hint = if is_list { format!("write [[{name}]]") } else { format!("write [{name}]") };
                return Err(at(format!("'{name}' is a section, and no key")).with_hint(hint));
            }
        }
        Ok(Self { folder: folder.to_owned(), text: text.to_owned(), sections: table.into_iter().collect() })
    }

    /// The options of a section; `None` when the file does not have it.
    pub fn section<O: Options>(&self, name: &str) -> Result<Option<O>, OptionError> {
        let Some(Value::Table(table)) = self.sections.get(name) else { return Ok(None) };
        self.read(table, name, 0).map(Some)
    }

    /// The options of each table of a section that is a list.
    pub fn list<O: Options>(&self, name: &str) -> Result<Vec<O>, OptionError> {
        let tables = self.sections.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let each = tables.iter().enumerate().map(|(number, value)| match value {
            Value::Table(table) => self.read(table, name, number),
            _ => Err(OptionError::new(name, format!("each of '{name}' is a table [[{name}]]"))),
        });
        each.collect()
    }

    /// The tables of a section as they are written.
    pub fn tables(&self, name: &str) -> Vec<&Table> {
        match self.sections.get(name) {
            Some(Value::Table(table)) => vec![table],
            Some(Value::Array(tables)) => tables.iter().filter_map(Value::as_table).collect(),
            _ => Vec::new(),
        }
    }

    /// Sections of this file and of another that are not the same.
    pub fn changed_sections(&self, other: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.sections.keys().chain(other.sections.keys()).collect();
        names.into_iter().filter(|name| self.sections.get(*name) != other.sections.get(*name)).cloned().collect()
    }

    /// The same error with its place: line and section, and the key where the text does not name it. `number` is that of the table,
    /// from 0, in a section that is a list.
    pub fn placed(&self, section: &str, number: usize, error: OptionError) -> OptionError {
        let at = at_line(&self.text, section, number, Some(&error.key));
        let is_named = error.key.is_empty() || error.message.contains(&format!("'{}'", error.key));
        let key = if is_named { String::new() } else { format!("'{}': ", error.key) };
        OptionError { message: format!("{at}[{section}] {key}{}", error.message), ..error }
    }

    fn read<O: Options>(&self, table: &Table, section: &str, number: usize) -> Result<O, OptionError> {
        let read = read(&Given::from_table(table.clone(), &self.folder));
        read.map_err(|error| self.placed(section, number, error))
    }
}

/// Where a section, or a key of it, is written, for an error; nothing where that is not found.
fn at_line(text: &str, section: &str, number: usize, key: Option<&str>) -> String {
    let (mut within, mut seen, mut heading) = (false, 0, None);
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.starts_with('[') {
            let name = text.trim_start_matches('[').split(']').next().unwrap_or_default().trim();
            let is_it = name == section;
            within = is_it && seen == number;
            seen += usize::from(is_it);
            if within {
                heading = Some(line);
            }
        } else if let Some((name, _)) = text.split_once('=')
            && (within && key == Some(name.trim()) || key.is_none() && name.trim() == section)
        {
            return format!("line {line}: ");
        }
    }
    heading.map_or_else(String::new, |line| format!("line {line}: "))
}

impl OptionText for Role {
    fn value_type() -> weir_chain::ValueType {
        weir_chain::ValueType::Choice(Role::WORDS)
    }

    fn parse_text(text: &str) -> Result<Self, weir_chain::Problem> {
        Self::by_name(text).ok_or_else(|| weir_chain::Problem::no_choice(text, Self::WORDS))
    }

    fn text(&self) -> String {
        self.name().to_owned()
    }

    fn unset() -> Self {
        Self::Viewer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[(&str, &str)] = &[("http", ""), ("questions", ""), ("roles", ""), ("users", "")];

    fn parse(text: &str) -> Result<ConfigFile, OptionError> {
        ConfigFile::parse(text, Path::new("/etc/weir"), KNOWN)
    }

    #[test]
    fn sections_are_options() {
        let file = parse("[http]\nlisten = '127.0.0.1:0'\nheader_timeout = '3s'\n").expect("a file");
        let options: HttpOptions = file.section("http").expect("options").expect("a section");
        assert_eq!((options.listen.port(), options.header_timeout), (0, TimeSpan::from_secs(3)));
        assert!(file.section::<QuestionOptions>("questions").expect("none").is_none());
    }

    #[test]
    fn what_nobody_knows_is_an_error_that_says_what_was_meant() {
        let error = parse("[htpp]\n").expect_err("misspelt");
        assert_eq!(error.message, "line 1: 'htpp' is no section of a configuration");
        assert_eq!(error.hint.as_deref(), Some("did you mean 'http'?"));
        let file = parse("# ours\n[questions]\n\n[http]\nlisen = 'x'\n").expect("a file");
        let error = file.section::<HttpOptions>("http").expect_err("misspelt");
        assert_eq!(error.message, "line 5: [http] 'lisen' is not known here");
        assert_eq!(error.hint.as_deref(), Some("did you mean 'listen'?"));
        let error = parse("[[users]]\nname = 'a'\n[[users]]\nnaem = 'b'\n").expect("a file");
        let error = error.list::<UserOptions>("users").expect_err("misspelt");
        assert_eq!(error.message, "line 4: [users] 'naem' is not known here");
        let file =
            parse("[http]\nlisten = '127.0.0.1:0'\n[[users]]\nname = 'a'\n[[users]]\nname = 'b'\n").expect("a file");
        let placed = |section, number, key| file.placed(section, number, OptionError::new(key, "'x' is wrong")).message;
        assert_eq!(placed("http", 0, "listen"), "line 2: [http] 'listen': 'x' is wrong");
        assert_eq!(placed("users", 1, "name"), "line 6: [users] 'name': 'x' is wrong");
        // of what is not written there is the line of the section, if there is one
        assert_eq!(placed("http", 0, "hosts"), "line 1: [http] 'hosts': 'x' is wrong");
        assert_eq!(placed("roles", 0, ""), "[roles] 'x' is wrong");
        assert_eq!(parse("http = 1").expect_err("a key").hint.as_deref(), Some("write [http]"));
    }
}
