//! The configuration file of the service.
//!
//! One TOML file, whose sections are the option structs that flags and chain files have: a key means the same wherever it is
//! written. A section that nobody takes, and a key that its section lacks, are errors that say what was probably meant.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::{Table, Value};
use weir_chain::options::{Given, read};
use weir_chain::{ByteSize, OptionError, OptionText, Options, TimeSpan, options};

use crate::access::{Role, User};

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
        /// Close a connection whose request has no whole head after this time.
        header_timeout: TimeSpan = TimeSpan::from_secs(10),
        /// Refuse bodies of requests that are larger.
        body_max: ByteSize = ByteSize::from_mib(1) => 1..=1 << 40,
        /// Refuse answers that are larger.
        answer_max: ByteSize = ByteSize::from_mib(64) => 1..=1 << 40,
        /// Keep at most this many octets of answers for whoever asks the same again.
        cache: ByteSize = ByteSize::from_mib(64) => 0..=1 << 40,
        /// Ask for a password again after this time.
        session_length: TimeSpan = TimeSpan::from_secs(43_200),
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
        /// Answer at most this many questions at a time; the others wait for their turn.
        at_once: usize = 2 => 1..=1024,
        /// Let at most this many wait; more are refused.
        waiting_max: usize = 64 => 1..=100_000,
        /// Let at most this many of one user run or wait; more are refused.
        per_user_max: usize = 32 => 1..=100_000,
        /// Stop a question after this time.
        time_limit: TimeSpan = TimeSpan::from_secs(60),
        /// Use at most this many threads for a question; without it one per core.
        threads: Option<usize>,
    }
}

options! {
    /// A user.
    struct UserOptions {
        /// The name.
        name: String,
        /// What the user may do: admin, analyst or viewer.
        role: Role = Role::Viewer,
        /// The hash of the password, as weir serve --hash-password prints it. Without it the user has tokens only.
        password: Option<String>,
        /// Hashes of tokens, made in the same way. A client sends "Authorization: Bearer NAME:TOKEN".
        tokens: Vec<String> = Vec::new(),
    }
}

/// A configuration file, whose sections are taken one by one.
#[derive(Debug, Default)]
pub struct ConfigFile {
    folder: PathBuf,
    sections: BTreeMap<String, Value>,
}

impl ConfigFile {
    /// Reads the text of a file; relative paths in it are relative to `folder`. `known` are the names of its sections.
    pub fn parse(text: &str, folder: &Path, known: &[(&str, &str)]) -> Result<Self, OptionError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| OptionError::new("", error.to_string()))?;
        for (name, value) in &table {
            if !known.iter().any(|(known, _)| known == name) {
                let problem = weir_chain::Problem::no_choice(name, known);
                let weir_chain::Problem::Because(_, hint) = problem else { continue };
                let error = OptionError::new(name, format!("'{name}' is no section of a configuration"));
                return Err(OptionError { hint, ..error });
            }
            let is_fit = value.is_table() || value.is_array() && name == "users";
            if !is_fit {
                let hint = if name == "users" { "write [[users]]".to_owned() } else { format!("write [{name}]") };
                return Err(OptionError::new(name, format!("'{name}' is a section, and no key")).with_hint(hint));
            }
        }
        Ok(Self { folder: folder.to_owned(), sections: table.into_iter().collect() })
    }

    /// The options of a section; `None` when the file does not have it.
    pub fn section<O: Options>(&self, name: &str) -> Result<Option<O>, OptionError> {
        let Some(Value::Table(table)) = self.sections.get(name) else { return Ok(None) };
        self.read(table, name).map(Some)
    }

    /// The users.
    pub fn users(&self) -> Result<Vec<User>, OptionError> {
        let Some(users) = self.sections.get("users") else { return Ok(Vec::new()) };
        let tables = users.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut read: Vec<User> = Vec::new();
        for user in tables {
            let Value::Table(table) = user else {
                return Err(OptionError::new("users", "each user is a table [[users]]"));
            };
            let UserOptions { name, role, password, tokens } = self.read(table, "users")?;
            let user = User::new(&name, role, password, tokens)?;
            if read.iter().any(|other| other.name == user.name) {
                return Err(OptionError::new("name", format!("two users are named '{name}'")));
            }
            read.push(user);
        }
        Ok(read)
    }

    fn read<O: Options>(&self, table: &Table, section: &str) -> Result<O, OptionError> {
        let read = read(&Given::from_table(table.clone(), &self.folder));
        read.map_err(|error| OptionError { message: format!("[{section}] {}", error.message), ..error })
    }
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
    use crate::hash_password;

    const KNOWN: &[(&str, &str)] = &[("http", ""), ("questions", ""), ("users", "")];

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
        assert_eq!(error.message, "'htpp' is no section of a configuration");
        assert_eq!(error.hint.as_deref(), Some("did you mean 'http'?"));
        let file = parse("[http]\nlisen = 'x'\n").expect("a file");
        let error = file.section::<HttpOptions>("http").expect_err("misspelt");
        assert_eq!(error.message, "[http] 'lisen' is not known here");
        assert_eq!(error.hint.as_deref(), Some("did you mean 'listen'?"));
        assert_eq!(parse("http = 1").expect_err("a key").hint.as_deref(), Some("write [http]"));
    }

    #[test]
    fn users_have_roles_and_hashes() {
        let hash = hash_password("correct horse").expect("a hash");
        let text = format!("[[users]]\nname = 'ann'\nrole = 'admin'\npassword = '{hash}'\n");
        let users = parse(&text).expect("a file").users().expect("users");
        assert_eq!((users[0].name.as_str(), users[0].role), ("ann", Role::Admin));
        let error = parse(&text.replace("admin", "root")).expect("a file").users().expect_err("no role");
        assert!(error.message.contains("'root' is not known here"), "{}", error.message);
        let error = parse(&format!("{text}{text}")).expect("a file").users().expect_err("twice");
        assert_eq!(error.message, "two users are named 'ann'");
        let error =
            parse("[[users]]\nname = 'bob'\npassword = 'secret'\n").expect("a file").users().expect_err("plain");
        assert!(!error.message.contains("secret") && error.hint.is_some(), "{error:?}");
    }
}
