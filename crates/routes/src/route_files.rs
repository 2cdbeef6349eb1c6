//! Tables of the routes of files: one for a file as it is, however many of the process look into it.
//!
//! Flows get their autonomous systems as they come in, and questions ask for those of addresses; both look into the same
//! files, and the table of all routes of the internet takes a second to make and tens of MiB. So whoever opens a file of which
//! somebody has the table gets that one, unless the file has changed. Nothing is kept that nobody has any more. What speaks
//! against it is state of the whole process; chains are made of options, through which no table can be handed on.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::builder::{AsChoice, RouteTableBuilder, RoutingError};
use super::route_table::RouteTable;

/// Tables that somebody has.
static TABLES: Mutex<Vec<KnownTable>> = Mutex::new(Vec::new());

/// A table, and the file that it was made of as it was then.
#[derive(Debug)]
struct KnownTable {
    path: PathBuf,
    stamp: Stamp,
    table: Weak<RouteTable>,
}

/// What changes when a file does: its time, its length, and its inode when another was moved to its name.
type Stamp = (i64, i64, u64, u64);

/// The routes of a file, whatever form it has, with the systems that prefixes belong to ([`AsChoice::Origin`]).
#[derive(Debug, Clone)]
pub struct RouteFile {
    /// The table, which others may have as well.
    pub table: Arc<RouteTable>,
    /// What of the file could not be used, as a line of a log; `None` also when others had the table already.
    pub warning: Option<String>,
}

/// Why the routes of a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RouteFileError {
    /// It cannot be read, or has too many routes.
    #[error("routes cannot be used")]
    Unusable(#[from] RoutingError),
    /// There is no route in it.
    #[error("no route in {}{first}", path.display())]
    NoRoute {
        /// The file.
        path: PathBuf,
        /// The first of what is wrong with it, behind a colon; empty when nothing is.
        first: String,
    },
    /// It ends too early: it may still be being written, and the one before has more.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl RouteFile {
    /// Opens a file. Records that cannot be used are left out, with a warning.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is damaged, or has no route.
    pub fn open(path: &Path) -> Result<Self, RouteFileError> {
        // who waits here gets the table that is being made
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|known| known.table.strong_count() > 0);
        // taken before reading, so that a change meanwhile is seen as one
        let stamp = stamp(path);
        let known = tables.iter().find(|known| known.path == path && Some(known.stamp) == stamp);
        if let Some(table) = known.and_then(|known| known.table.upgrade()) {
            return Ok(Self { table, warning: None });
        }
        let file = Self::read(path)?;
        if let Some(stamp) = stamp {
            tables.push(KnownTable { path: path.to_owned(), stamp, table: Arc::downgrade(&file.table) });
        }
        Ok(file)
    }

    fn read(path: &Path) -> Result<Self, RouteFileError> {
        let mut builder = RouteTableBuilder::new(AsChoice::Origin);
        let report = builder.load(path)?;
        let first = report.defects.first().map(|defect| format!(": {} (at {})", defect.what, defect.place));
        let first = first.unwrap_or_default();
        if report.routes == 0 {
            return Err(RouteFileError::NoRoute { path: path.to_owned(), first });
        }
        if report.is_cut {
            let what = report.defects.last().map_or("file ends early", |defect| defect.what);
            return Err(RouteFileError::Damaged { path: path.to_owned(), what });
        }
        let (defective, records) = (report.defective, report.records);
        let warning = (defective > 0).then(|| {
            format!("{}: {defective} of {records} records tell no route that can be used{first}", path.display())
        });
        Ok(Self { table: Arc::new(builder.build()?), warning })
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
}

/// The autonomous system of an address by the longest prefix of all tables; of the same prefix the last table counts. A route of
/// no system, such as that of the own network, gives none. IPv4 in IPv6 (`::ffff:0:0/96`) is looked up as IPv4.
pub fn autonomous_system<'t>(tables: impl IntoIterator<Item = &'t RouteTable>, address: IpAddr) -> Option<u32> {
    let routes = tables.into_iter().filter_map(|table| table.find(address));
    let longest = routes.max_by_key(|route| route.prefix_bits)?;
    Some(longest.attributes.autonomous_system).filter(|system| *system != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    fn opened(path: &Path) -> RouteFile {
        RouteFile::open(path).expect("routes")
    }

    #[test]
    fn a_file_is_in_memory_once_and_no_longer_than_somebody_looks_into_it() {
        let file = written("10.0.0.0/8,64501\n");
        let [one, other] = [opened(file.path()), opened(file.path())];
        assert!(Arc::ptr_eq(&one.table, &other.table));
        std::fs::write(file.path(), "10.0.0.0/8,64501\n10.1.0.0/16,64502\n").expect("written");
        let changed = opened(file.path());
        let of = |file: &RouteFile| autonomous_system([&*file.table], IpAddr::from([10, 1, 2, 3]));
        assert_eq!((of(&one), of(&changed)), (Some(64501), Some(64502)));
        assert!(Arc::ptr_eq(&changed.table, &opened(file.path()).table));
        let both = [Arc::downgrade(&one.table), Arc::downgrade(&changed.table)];
        drop((one, other, changed));
        assert!(both.iter().all(|table| table.upgrade().is_none()));
    }

    #[test]
    fn the_longest_prefix_of_all_files_counts() {
        let files = [
            written("8.0.0.0/8,64500\n10.1.0.0/16,64502\n2001:db8::/32,64510\n"),
            written("10.0.0.0/8,64501\n8.0.0.0/8,64503\n8.8.0.0/16,0\n"),
        ];
        let tables = files.map(|file| opened(file.path()).table);
        for (address, expected) in [
            ("8.1.1.1", Some(64503)),
            ("8.8.8.8", None),
            ("10.1.2.3", Some(64502)),
            ("::ffff:10.2.0.1", Some(64501)),
            ("2001:db8::1", Some(64510)),
            ("192.0.2.1", None),
        ] {
            let found = autonomous_system(tables.iter().map(|table| &**table), address.parse().expect("an address"));
            assert_eq!(found, expected, "{address}");
        }
    }

    #[test]
    fn a_file_without_routes_is_an_error_and_a_bad_line_a_warning() {
        let empty = RouteFile::open(written("# nothing\n").path()).expect_err("no route").to_string();
        assert!(empty.starts_with("no route in "), "{empty}");
        let absent = RouteFile::open(Path::new("no-such-file")).expect_err("no file");
        assert!(matches!(absent, RouteFileError::Unusable(RoutingError::Read { .. })), "{absent:?}");
        let file = written("10.0.0.0/8,64501\nnonsense,1\n");
        let warning = opened(file.path()).warning.expect("a warning");
        assert!(warning.contains("1 of 2 records tell no route that can be used: "), "{warning}");
    }
}
