//! Where reports go besides the journal.

use std::path::{Path, PathBuf};

use toml::Table;
use weir_chain::options::Given;
use weir_chain::{OptionError, options};

options! {
    /// An action of a watch: one of these.
    pub struct ActionOptions {
        /// Append reports to this file, one object of JSON a line.
        file: Option<PathBuf>,
        /// Send reports to this server of syslog (RFC 5424): `tcp://HOST:PORT` (RFC 6587) or `udp://HOST:PORT` (RFC 5426).
        syslog: Option<String>,
    }
}

/// Where reports are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// To a file.
    File(PathBuf),
    /// To a server of syslog over TCP.
    SyslogTcp(String),
    /// To a server of syslog over UDP.
    SyslogUdp(String),
}

impl Action {
    /// Reads the table of an action.
    pub fn read(table: Table, folder: &Path) -> Result<Self, OptionError> {
        let options: ActionOptions = weir_chain::options::read(&Given::from_table(table, folder))?;
        match (options.file, options.syslog) {
            (Some(file), None) => Ok(Self::File(file)),
            (None, Some(server)) => match server.split_once("://") {
                Some(("tcp", address)) => Ok(Self::SyslogTcp(address.to_owned())),
                Some(("udp", address)) => Ok(Self::SyslogUdp(address.to_owned())),
                _ => Err(OptionError::new("syslog", format!("'{server}' is no server of syslog"))
                    .with_hint("write tcp://HOST:PORT or udp://HOST:PORT")),
            },
            _ => Err(OptionError::new("actions", "an action has one of 'file' and 'syslog'")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_one_thing() {
        let read = |text: &str| Action::read(text.parse().expect("TOML"), Path::new("/w"));
        assert_eq!(read("file = 'a.ndjson'").expect("a file"), Action::File("/w/a.ndjson".into()));
        assert_eq!(read("syslog = 'udp://[::1]:514'").expect("a server"), Action::SyslogUdp("[::1]:514".to_owned()));
        for wrong in ["", "file = 'a'\nsyslog = 'tcp://a:1'", "syslog = 'a:1'", "mail = 'a'"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
