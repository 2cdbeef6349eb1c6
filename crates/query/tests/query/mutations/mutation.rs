//! Files of an archive by kind, and what may happen to one.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::summaries::Numbers;

/// A kind of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Segments of flows that count.
    Flows,
    /// The same, changed only in the index, the rollups and Parquet's footer.
    Index,
    Books,
    OtherTables,
    /// Segments that were merged and wait for readers.
    Merged,
    Summary,
    /// A tail before the last one.
    Tail,
    LastTail,
    Checkpoint,
    /// A commit after the checkpoint.
    Edit,
    /// A commit before it, which is kept for those that follow.
    OldEdit,
    Marker,
    /// Lists of what was imported.
    Imported,
    /// Locks, leases of readers and the reserve for a full disk.
    Service,
}

impl Kind {
    pub(crate) const ALL: [Self; 14] = [
        Self::Flows,
        Self::Index,
        Self::Books,
        Self::OtherTables,
        Self::Merged,
        Self::Summary,
        Self::Tail,
        Self::LastTail,
        Self::Checkpoint,
        Self::Edit,
        Self::OldEdit,
        Self::Marker,
        Self::Imported,
        Self::Service,
    ];
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { walk(&path, found) } else { found.push(path) }
    }
}

/// Every file of an archive, with its kind; `live` are the segments that count.
pub(crate) fn files(dir: &Path, live: &[PathBuf]) -> Vec<(Kind, PathBuf)> {
    let mut paths = Vec::new();
    walk(dir, &mut paths);
    paths.sort();
    let checkpoint = number_in(&fs::read(dir.join("manifest/checkpoint")).expect("a checkpoint"));
    let last_tail = paths.iter().rfind(|path| path.extension().is_some_and(|end| end == "tail")).cloned();
    let kind = |path: &PathBuf| -> Kind {
        let relative = path.strip_prefix(dir).expect("a file of the archive");
        let top = relative.iter().next().and_then(|top| top.to_str()).expect("text");
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        match top {
            "flows" | "exporter_books" | "exporter_options" | "interface_counters" | "host_counters"
                if !live.contains(path) =>
            {
                Kind::Merged
            }
            "flows" => Kind::Flows,
            "exporter_books" => Kind::Books,
            "exporter_options" | "interface_counters" | "host_counters" => Kind::OtherTables,
            "summaries" => Kind::Summary,
            "tail" if Some(path) == last_tail.as_ref() => Kind::LastTail,
            "tail" => Kind::Tail,
            "manifest" if path.ends_with("checkpoint") => Kind::Checkpoint,
            "manifest" if number.is_some_and(|number| number <= checkpoint) => Kind::OldEdit,
            "manifest" if number.is_some() => Kind::Edit,
            "weir-archive" => Kind::Marker,
            "imported" => Kind::Imported,
            "manifest" | "readers" | "lock" | "upkeep.lock" | "reserve" | "unconfirmed" => Kind::Service,
            other => panic!("a file of no known kind: {other}"),
        }
    };
    let mut found: Vec<(Kind, PathBuf)> = paths.iter().map(|path| (kind(path), path.clone())).collect();
    let of_flows: Vec<_> = found.iter().filter(|(kind, _)| *kind == Kind::Flows).cloned().collect();
    found.extend(of_flows.into_iter().map(|(_, path)| (Kind::Index, path)));
    found
}

/// The number of the commit in the header of a checkpoint.
fn number_in(octets: &[u8]) -> u64 {
    octets.get(12..20).and_then(|number| number.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// What happens to a file.
#[derive(Clone)]
pub(crate) enum Mutation {
    Flip {
        bit: usize,
    },
    Truncate {
        octets: usize,
    },
    Double,
    Empty,
    Remove,
    Swap {
        with: PathBuf,
    },
    /// The content of another file.
    Replace {
        by: PathBuf,
    },
}

impl fmt::Debug for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flip { bit } => write!(f, "bit {} of octet {} flipped", bit % 8, bit / 8),
            Self::Truncate { octets } => write!(f, "cut to {octets} octets"),
            Self::Double => f.write_str("appended to itself"),
            Self::Empty => f.write_str("emptied"),
            Self::Remove => f.write_str("removed"),
            Self::Swap { with } => write!(f, "swapped with {}", with.display()),
            Self::Replace { by } => write!(f, "replaced by {}", by.display()),
        }
    }
}

/// What a mutation is chosen from.
pub(crate) struct Choice<'a> {
    pub(crate) kind: Kind,
    pub(crate) path: &'a Path,
    /// The other files of the kind.
    pub(crate) beside: Vec<&'a PathBuf>,
    /// All files of the archive.
    pub(crate) all: &'a [(Kind, PathBuf)],
    pub(crate) dir: &'a Path,
    pub(crate) other: &'a Path,
}

impl Choice<'_> {
    pub(crate) fn make(&self, numbers: &mut Numbers, octets: &[u8]) -> Mutation {
        let flip = |numbers: &mut Numbers| {
            let from = if self.kind == Kind::Index { index_at(octets) } else { 0 };
            Mutation::Flip { bit: from * 8 + numbers.below((octets.len() - from) as u64 * 8) as usize }
        };
        match numbers.below(20) {
            0..8 if !octets.is_empty() => flip(numbers),
            8..11 if !octets.is_empty() => Mutation::Truncate { octets: numbers.below(octets.len() as u64) as usize },
            11 | 12 => Mutation::Double,
            13 => Mutation::Empty,
            14 => Mutation::Remove,
            15 | 16 if !self.beside.is_empty() => {
                Mutation::Swap { with: self.beside[numbers.below(self.beside.len() as u64) as usize].clone() }
            }
            _ => Mutation::Replace { by: self.content(numbers) },
        }
    }

    /// Another file: of the same name in the other archive, of the kind, or any.
    fn content(&self, numbers: &mut Numbers) -> PathBuf {
        let relative = self.path.strip_prefix(self.dir).expect("a file of the archive");
        let twin = self.other.join(relative);
        match numbers.below(4) {
            0 | 1 if twin.exists() => twin,
            2 if !self.beside.is_empty() => self.beside[numbers.below(self.beside.len() as u64) as usize].clone(),
            _ => {
                let mut others = Vec::new();
                walk(self.other, &mut others);
                others.extend(self.all.iter().map(|(_, path)| path.clone()));
                others.sort();
                others[numbers.below(others.len() as u64) as usize].clone()
            }
        }
    }
}

/// Where the last row group of a segment ends, about: from there on are index, rollups and footer.
fn index_at(octets: &[u8]) -> usize {
    let index = octets.get(12..20).and_then(|at| at.try_into().ok()).map_or(0, u64::from_le_bytes) as usize;
    index.saturating_sub(6000).min(octets.len().saturating_sub(1))
}

/// The files before they were changed; dropping it puts them back.
pub(crate) struct Changed {
    before: Vec<(PathBuf, Vec<u8>)>,
    /// Whether anything is different from before.
    pub(crate) is_different: bool,
}

impl Changed {
    pub(crate) fn new(path: &Path, mutation: &Mutation) -> Self {
        let octets = fs::read(path).expect("a file");
        let mut before = vec![(path.to_owned(), octets.clone())];
        let after = match mutation {
            Mutation::Flip { bit } => {
                let mut octets = octets.clone();
                octets[bit / 8] ^= 1 << (bit % 8);
                Some(octets)
            }
            Mutation::Truncate { octets: length } => Some(octets[..*length].to_vec()),
            Mutation::Double => Some(octets.repeat(2)),
            Mutation::Empty => Some(Vec::new()),
            Mutation::Remove => None,
            Mutation::Replace { by } => Some(fs::read(by).expect("a file")),
            Mutation::Swap { with } => {
                let other = fs::read(with).expect("a file");
                before.push((with.clone(), other.clone()));
                fs::write(with, &octets).expect("written");
                Some(other)
            }
        };
        match &after {
            Some(after) => fs::write(path, after).expect("written"),
            None => fs::remove_file(path).expect("removed"),
        }
        Self { before, is_different: after.as_ref() != Some(&octets) }
    }

    /// The files that were changed.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.before.iter().map(|(path, _)| path.as_path())
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        for (path, octets) in &self.before {
            fs::write(path, octets).expect("put back");
        }
    }
}
