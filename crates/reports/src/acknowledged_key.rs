//! Keys that somebody wants to acknowledge, compared with those that reports of the watch have.
//!
//! An acknowledgement of a key that no report can have would be kept and change nothing, and who made it would wait in vain. The
//! list of watches says which columns their keys have; of a watch that no list has, what it reported says it.

use std::net::IpAddr;
use std::path::Path;

use crate::JournalError;
use crate::report_key::{key_values, report_key};
use crate::reports::{ReportedKeys, find_key};
use crate::watches::{self, KeyColumn};

/// Keys of reports that a remedy names.
const SHOWN_MAX: usize = 3;

/// Why a key is none that reports of a watch have.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The watch has no key.
    #[error("reports of '{watch}' have no key")]
    NoKey {
        /// The watch.
        watch: String,
    },
    /// The key has other columns.
    #[error("'{}' is no key of '{watch}'", key.escape_debug())]
    OtherColumns {
        /// The key.
        key: String,
        /// The watch.
        watch: String,
        /// Names of the columns of its keys.
        columns: Vec<String>,
    },
    /// A value is no address.
    #[error("'{}' is no address, as {column} is", value.escape_debug())]
    NoAddress {
        /// The value.
        value: String,
        /// Its column.
        column: String,
    },
    /// No list has the watch, and it has not reported the key.
    #[error("'{watch}' is not among the watches that run, and has not reported the key '{}'", key.escape_debug())]
    NotReported {
        /// The key.
        key: String,
        /// The watch.
        watch: String,
        /// Keys that it reported last.
        reported: Vec<String>,
    },
    /// A list has the watch without the columns of its keys: its file could not be read, or a version before wrote the list.
    #[error(
        "'{watch}' has not reported the key '{}', and which columns its keys have is not known: its file may be wrong",
        key.escape_debug()
    )]
    UnknownColumns {
        /// The key.
        key: String,
        /// The watch.
        watch: String,
        /// Keys that it reported last.
        reported: Vec<String>,
    },
}

impl KeyError {
    /// What may be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoKey { .. } => Some("without a key all reports of the watch are acknowledged".to_owned()),
            Self::OtherColumns { columns, .. } => {
                let values: Vec<String> = columns.iter().map(|column| format!("{column}=VALUE")).collect();
                Some(format!("write {}", values.join(",")))
            }
            Self::NotReported { reported, .. } | Self::UnknownColumns { reported, .. } if !reported.is_empty() => {
                Some(format!("its last reports have {}", reported.join(" and ")))
            }
            Self::Journal(_) | Self::NoAddress { .. } | Self::NotReported { .. } | Self::UnknownColumns { .. } => None,
        }
    }
}

/// Compares a key with those of a watch, and gives it as reports have it: with addresses in their usual form. What the watch has
/// reported is a key in any case and as it was reported, whatever its file says by now.
pub fn check_key(folder: &Path, watch: &str, key: &str) -> Result<String, KeyError> {
    let listed = watches::read(folder)?.into_iter().find(|listed| listed.name == watch);
    let is_listed = listed.is_some();
    let checked = listed.and_then(|listed| listed.key).map(|columns| of_columns(watch, key, &columns));
    if let Some(Ok(usual)) = &checked
        && usual == key
    {
        return Ok(key.to_owned());
    }
    let reported = match find_key(folder, watch, key, SHOWN_MAX)? {
        ReportedKeys::HasKey => return Ok(key.to_owned()),
        ReportedKeys::Others(reported) => reported,
    };
    let (key, watch) = (key.to_owned(), watch.to_owned());
    match checked {
        Some(checked) => checked,
        None if is_listed => Err(KeyError::UnknownColumns { key, watch, reported }),
        None => Err(KeyError::NotReported { key, watch, reported }),
    }
}

/// The key with its values as reports have them, where it has the columns.
fn of_columns(watch: &str, key: &str, columns: &[KeyColumn]) -> Result<String, KeyError> {
    if columns.is_empty() {
        return Err(KeyError::NoKey { watch: watch.to_owned() });
    }
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let Some(found) = key_values(key, &names) else {
        let (key, watch) = (key.to_owned(), watch.to_owned());
        return Err(KeyError::OtherColumns { key, watch, columns: columns.iter().map(|of| of.name.clone()).collect() });
    };
    let mut values = Vec::new();
    for (column, value) in columns.iter().zip(found) {
        let value = match value {
            Some(text) if column.is_address => Some(address(&text, column)?),
            value => value,
        };
        values.push((column.name.as_str(), value));
    }
    Ok(report_key(&values))
}

/// An address, or a network of addresses, in its usual form.
fn address(value: &str, column: &KeyColumn) -> Result<String, KeyError> {
    let (address, length) = value.split_once('/').map_or((value, None), |(address, length)| (address, Some(length)));
    let wrong = || KeyError::NoAddress { value: value.to_owned(), column: column.name.clone() };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let Some(length) = length else { return Ok(address.to_string()) };
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = length.parse::<u8>().ok().filter(|bits| *bits <= bits_max).ok_or_else(wrong)?;
    Ok(format!("{address}/{bits}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::journal::REPORTS;
    use crate::watches::ListedWatch;

    fn columns(names: &[(&str, bool)]) -> Vec<KeyColumn> {
        names.iter().map(|(name, is_address)| KeyColumn { name: (*name).to_owned(), is_address: *is_address }).collect()
    }

    fn list(folder: &Path, key: Option<Vec<KeyColumn>>) {
        let scan = ListedWatch {
            name: "scan".to_owned(),
            severity: None,
            window: String::new(),
            is_paused_by_file: false,
            key,
            error: None,
        };
        watches::keep(folder, &[scan]).expect("a list");
    }

    fn said(folder: &Path, watch: &str, key: &str) -> (String, Option<String>) {
        let error = check_key(folder, watch, key).expect_err(key);
        (error.to_string(), error.hint())
    }

    #[test]
    fn keys_have_the_columns_of_their_watch() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        list(folder, Some(columns(&[("src_addr", true), ("name", false), ("port", false)])));
        let whole = "src_addr=192.0.2.1,name=a,b=c,port=53";
        assert_eq!(check_key(folder, "scan", whole).expect("a key"), whole);
        // RFC 5952 section 4
        let usual = check_key(folder, "scan", "src_addr=2001:DB8:0::1,name=,port=1").expect("a key");
        assert_eq!(usual, "src_addr=2001:db8::1,name=,port=1");
        // a text that could be taken for something else is a string of JSON
        for quoted in [r#"src_addr=,name="",port=1"#, r#"src_addr=,name="a,port=2",port=1"#] {
            assert_eq!(check_key(folder, "scan", quoted).expect("a key"), quoted);
        }
        assert_eq!(
            check_key(folder, "scan", r#"src_addr=,name="a",port=1"#).expect("a key"),
            "src_addr=,name=a,port=1"
        );
        let hint = Some("write src_addr=VALUE,name=VALUE,port=VALUE".to_owned());
        for wrong in
            ["foo", "src_adr=192.0.2.1,name=a,port=1", "src_addr=192.0.2.1", "name=a,src_addr=192.0.2.1,port=1"]
        {
            assert_eq!(said(folder, "scan", wrong), (format!("'{wrong}' is no key of 'scan'"), hint.clone()));
        }
        let without = "src_addr=,name=a,port=1";
        assert_eq!(check_key(folder, "scan", without).expect("the key of a null"), without);
        let value = said(folder, "scan", "src_addr=10.0.0.999,name=a,port=1").0;
        assert_eq!(value, "'10.0.0.999' is no address, as src_addr is");
        list(folder, Some(columns(&[("dst_net", true)])));
        assert!(check_key(folder, "scan", "dst_net=192.0.2.0/24").is_ok());
        assert!(check_key(folder, "scan", "dst_net=192.0.2.0/33").is_err());
        list(folder, Some(Vec::new()));
        assert_eq!(said(folder, "scan", "foo").0, "reports of 'scan' have no key");
    }

    #[test]
    fn what_was_reported_can_be_acknowledged_whatever_the_list_says() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let line = |watch: &str, key: &str| {
            json!({ "watch": watch, "key": key, "window_end": "2026-01-01T00:01:00.000Z" }).to_string() + "\n"
        };
        let loud = "src_addr=2001:DB8::1";
        let of_scan = [line("scan", "(further keys)"), line("scan", loud)];
        let lines = [of_scan.concat(), line("gone", "src_addr=a"), line("gone", "src_addr=b")];
        std::fs::write(folder.join(REPORTS), lines.concat()).expect("written");
        list(folder, Some(columns(&[("src_addr", true)])));
        assert_eq!(check_key(folder, "scan", "(further keys)").expect("reported"), "(further keys)");
        // one that reports have so is not changed
        assert_eq!(check_key(folder, "scan", loud).expect("reported"), loud);
        assert_eq!(check_key(folder, "scan", "src_addr=2001:DB8::2").expect("a key"), "src_addr=2001:db8::2");
        assert_eq!(check_key(folder, "gone", "src_addr=a").expect("reported"), "src_addr=a");
        let (text, hint) = said(folder, "gone", "src_addr=c");
        assert_eq!(text, "'gone' is not among the watches that run, and has not reported the key 'src_addr=c'");
        assert_eq!(hint.as_deref(), Some("its last reports have src_addr=b and src_addr=a"));
        // a list that a version before has written does not say what keys there are
        list(folder, None);
        let (text, hint) = said(folder, "scan", "src_addr=192.0.2.1");
        assert!(text.starts_with("'scan' has not reported the key 'src_addr=192.0.2.1', and which columns"), "{text}");
        assert_eq!(hint.as_deref(), Some("its last reports have src_addr=2001:DB8::1 and (further keys)"));
        assert!(check_key(folder, "scan", "(further keys)").is_ok());
    }
}
