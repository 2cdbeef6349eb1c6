//! Who reads a filter, and what a filter may ask of the world around it.
//!
//! A filter may name files and hosts, which nfdump's users do. But a filter may also come from a form on a web page,
//! and then must do neither. So a [`Reader`] allows nothing by default: no file is opened, no name is looked up.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::PathBuf;

use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::{Operand, Predicate, Test};

/// Looks a host name up: every address that it has, of both families.
pub type Resolve = fn(&str) -> io::Result<Vec<IpAddr>>;

/// Reads filters under stated rules.
///
/// ```
/// let reader = weir_filter::Reader::new().with_files("/etc/weir/filters");
/// assert!(reader.parse("src ip in no-such-list.txt").is_err());
/// assert!(weir_filter::parse("@include other.nf").is_err());
/// ```
#[derive(Debug, Clone)]
pub struct Reader {
    pub(crate) zone: TimeZone,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) resolve: Option<Resolve>,
    pub(crate) knows_files: bool,
    pub(crate) now: Option<Zoned>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { zone: TimeZone::UTC, folder: None, resolve: None, knows_files: false, now: None }
    }
}

impl Reader {
    /// A reader that allows nothing: times without a zone are UTC, neither files nor host names may be named.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader of what a person typed in a terminal: files of the working folder and host names may be named, times
    /// without a zone are local, and others are relative to now.
    pub fn for_command_line() -> Self {
        let reader = Self::new().in_zone(TimeZone::system()).with_now(Zoned::now());
        reader.with_files(".").with_host_names(resolve_by_system)
    }

    /// Times without a zone are civil times of this one. nfdump reads them in the system's zone.
    #[must_use]
    pub fn in_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Times may be relative to this moment, as [`times::moment`](crate::times::moment) reads them: `-1h`,
    /// `yesterday 14:00`. Without it they are errors: a filter that is kept would mean another time whenever it is read.
    #[must_use]
    pub fn with_now(mut self, now: Zoned) -> Self {
        self.now = Some(now);
        self
    }

    /// Files may be named, by `@include FILE` and `ip in FILE`; those without a leading `/` are in `folder`.
    #[must_use]
    pub fn with_files(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Host names may stand for addresses. They are looked up once, while the filter is read.
    #[must_use]
    pub fn with_host_names(mut self, resolve: Resolve) -> Self {
        self.resolve = Some(resolve);
        self
    }

    /// `count` and `ident` may be asked: the filter runs over files in order, by [`Predicate::mask_in_file`].
    #[must_use]
    pub fn with_file_records(mut self) -> Self {
        self.knows_files = true;
        self
    }
}

/// Looks a host name up as the system does: its file of hosts, then DNS.
pub fn resolve_by_system(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = (name, 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

impl Predicate {
    /// Whether it asks for the place of records in files, so that only [`Predicate::mask_in_file`] answers it.
    pub fn reads_file_records(&self) -> bool {
        match self {
            Self::Not(part) => part.reads_file_records(),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(Self::reads_file_records),
            Self::Test(Test::Ident(_)) => true,
            Self::Test(Test::Number { operand, .. } | Test::NumberIn { operand, .. }) => {
                *operand == Operand::RecordNumber
            }
            Self::True | Self::False | Self::Test(_) => false,
        }
    }
}
