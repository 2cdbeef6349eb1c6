//! Checking an archive: every file is read and compared with what its name, its folder and its checksums say.
//!
//! Nothing is ever deleted: what is wrong is set aside under a name that ends in `.damaged`, and only when asked for.
//! The newest position is remembered by that name too, so it is never given out twice.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::Table;

use crate::civil::{day_of_ms, day_text};
use crate::frame::TailEnd;
use crate::layout::{Layout, TailName};
use crate::lock::Lock;
use crate::manifest::rebuild::{Care, rebuild};
use crate::manifest::{ArchiveState, Edit, Manifest, SegmentKey};
use crate::position::TailNumber;
use crate::readers::Lease;
use crate::segment::SegmentName;
use crate::summaries::SegmentSummary;
use crate::tail::TailContents;
use crate::upkeep::{Upkeep, uncommitted};
use crate::{Action, ArchiveError, Position, Segment, disk, folder, recovery, summaries};

/// Rows decoded at a time.
const BATCH_ROWS: usize = 8192;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It cannot be read, or its checksums are wrong: the chain of errors.
    Unreadable(String),
    /// A segment with other rows than its name says.
    Rows {
        /// Rows by the name.
        named: u64,
        /// Rows found.
        found: u64,
    },
    /// A segment with times outside the range of its name.
    Times {
        /// Smallest and largest time by the name, in milliseconds since the epoch.
        named: Option<(i64, i64)>,
        /// Smallest and largest time found.
        found: (i64, i64),
    },
    /// A segment with rows of another day than that of its folder.
    Day {
        /// A day found, `YYYY-MM-DD`.
        found: String,
    },
    /// A segment or summary that the manifest does not name: its rows do not count.
    NotInManifest,
    /// A commit of the manifest is gone, and later ones are there.
    CommitGone,
    /// A tail that should be there is gone.
    TailGone,
    /// A file in the folder of a day that is no segment.
    NoSegment,
    /// A file in a folder of summaries that is none.
    NoSummary,
    /// A tail with octets that are no whole frame.
    Tail {
        /// Octets that cannot be read.
        octets: u64,
        /// Flows in whole frames behind them.
        rows_behind: u64,
    },
    /// Deliveries are missing, or twice there, between a tail and the next one.
    Positions {
        /// The position that was to come.
        expected: u64,
        /// The one that is there.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(chain) => f.write_str(chain),
            Self::Rows { named, found } => write!(f, "the name says {named} rows, but {found} are in it"),
            Self::Times { named: Some((from, to)), found } => {
                write!(f, "the name says times from {from} to {to}, but {} to {} are in it", found.0, found.1)
            }
            Self::Times { named: None, found } => {
                write!(f, "the name says no times, but {} to {} are in it", found.0, found.1)
            }
            Self::Day { found } => write!(f, "rows of {found} are in it"),
            Self::NotInManifest => f.write_str("the manifest does not name it, so its rows do not count"),
            Self::CommitGone => f.write_str("it is gone, and the commits after it are there"),
            Self::TailGone => f.write_str("it is gone, and nobody has sealed it"),
            Self::NoSegment => f.write_str("this is no segment"),
            Self::NoSummary => f.write_str("this is no summary"),
            Self::Tail { octets, rows_behind } => {
                write!(f, "{octets} octets cannot be read, with {rows_behind} whole flows behind them")
            }
            Self::Positions { expected, found } => {
                write!(f, "delivery {found} of the tails comes where {expected} was to come")
            }
        }
    }
}

/// Something found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
    /// Where it was set aside, if it was.
    pub set_aside: Option<PathBuf>,
}

/// What a check has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Segments that count.
    pub segments: u64,
    /// Rows in them, of all tables.
    pub rows: u64,
    /// Octets of them.
    pub octets: u64,
    /// Tails.
    pub tails: u64,
    /// Summaries of segments that have expired, those that do not count included.
    pub summaries: u64,
    /// Segments that no longer count and wait for being removed.
    pub covered: u64,
    /// Files set aside before, and left alone.
    pub set_aside: Vec<PathBuf>,
    /// Octets at the end of the last tail that are no whole frame: of a frame that is being written, or that was when a
    /// crash came.
    pub torn_octets: u64,
    /// Files that a crash has left and whose rows are in others, while nobody is at work who would use or remove them.
    pub leftovers: Vec<PathBuf>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Checks every file of the archive in `dir`, also with a writer at work; with `repair` damaged files are set aside.
/// `report` is called with each file before it is read.
pub fn check(dir: &Path, repair: bool, mut report: impl FnMut(&Path)) -> Result<CheckReport, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    let mut upkeep = repair.then(|| Upkeep::begin(&layout)).transpose()?;
    // Everything that counts from here on stays.
    let _lease = Lease::take(&layout)?;
    let state = Manifest::load_or_rebuild(&layout)?;
    let mut checked = CheckReport { covered: state.pending.len() as u64, ..CheckReport::default() };
    let mut damaged = Damaged::default();
    for (key, segment) in &state.segments {
        report(&segment.path());
        checked.segments += 1;
        checked.octets += segment.octets;
        match check_segment(segment) {
            Ok(()) => checked.rows += segment.rows,
            Err(fault) => {
                checked.found(segment.path(), fault);
                damaged.segments.push(*key);
            }
        }
    }
    for (key, summary) in &state.summaries {
        report(&summary.path());
        checked.summaries += 1;
        if let Err(error) = summary.check() {
            checked.found(summary.path(), Fault::Unreadable(error.chain()));
            damaged.summaries.push(*key);
        }
    }
    find_strangers(&layout, &state, &mut checked)?;
    find_lost_commits(&layout, &mut checked)?;
    check_tails(&layout, &state, &mut checked, &mut report)?;
    if let Some(upkeep) = &mut upkeep {
        set_aside(upkeep, &mut checked, &damaged)?;
    }
    Ok(checked)
}

/// Makes the manifest of the archive in `dir` anew, of the files that are there. No writer and no maintenance may be at
/// work. Returns segments that could not be brought in, because others that have more rows were made in part of the
/// same tails.
pub fn rebuild_manifest(dir: &Path) -> Result<Vec<Segment>, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    let _writer = Lock::acquire(&layout.lock())?;
    let _upkeep = Lock::acquire(&layout.upkeep_lock())?;
    let rebuilt = rebuild(&layout, Care::Headers)?;
    Manifest::create(&layout, rebuilt.state)?;
    layout.mark()?;
    Ok(rebuilt.conflicts)
}

/// What is damaged, by what the manifest calls it.
#[derive(Default)]
struct Damaged {
    segments: Vec<SegmentKey>,
    summaries: Vec<SegmentKey>,
}

impl CheckReport {
    fn found(&mut self, path: PathBuf, fault: Fault) {
        self.findings.push(Finding { path, fault, set_aside: None });
    }
}

/// Verifies the checksums of a segment, then reads it whole, as every reader would, and compares it with its name.
fn check_segment(segment: &Segment) -> Result<(), Fault> {
    let unreadable = |error: ArchiveError| Fault::Unreadable(error.chain());
    // Nothing but the index may be looked at before the checksums are right: the Parquet reader trusts its footer.
    if let Some(index) = segment.index().map_err(unreadable)? {
        let found = index.row_group_rows(index.row_groups().saturating_sub(1)).end;
        if found != segment.rows {
            return Err(Fault::Rows { named: segment.rows, found });
        }
    }
    segment.check().map_err(unreadable)?;
    let failed = |source| unreadable(segment.unreadable(source));
    let reader = segment.open().map_err(unreadable)?.with_batch_size(BATCH_ROWS).build().map_err(failed)?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|error| failed(error.into()))?;
        rows += batch.num_rows() as u64;
        check_times(segment, &batch)?;
    }
    if rows == segment.rows { Ok(()) } else { Err(Fault::Rows { named: segment.rows, found: rows }) }
}

fn check_times(segment: &Segment, batch: &RecordBatch) -> Result<(), Fault> {
    let times = |name: &str| {
        let values = batch.column_by_name(name)?.as_primitive_opt::<TimestampMillisecondType>()?;
        arrow::compute::min(values).zip(arrow::compute::max(values))
    };
    // The first column is the one by which a table is parted into days.
    let first = segment.table.schema().field(0).name().clone();
    if let Some((from, to)) = times(&first)
        && let Some(other) = [from, to].map(day_of_ms).into_iter().find(|day| *day != segment.day)
    {
        return Err(Fault::Day { found: day_text(other) });
    }
    let named = segment.time_range_ms;
    for column in ["start", "end", "minute"] {
        let Some(found) = times(column) else { continue };
        if !named.is_some_and(|named| named.0 <= found.0 && found.1 <= named.1) {
            return Err(Fault::Times { named, found });
        }
    }
    Ok(())
}

/// The files that count, and those that wait for being removed.
fn known_files(state: &ArchiveState) -> HashSet<PathBuf> {
    let pending = state.pending.iter().map(|pending| pending.file.path());
    let live = state.segments.values().map(Segment::path);
    live.chain(state.summaries.values().map(SegmentSummary::path)).chain(pending).collect()
}

/// Files that are where only segments or summaries should be, those that do not count, and what others have left.
fn find_strangers(layout: &Layout, state: &ArchiveState, checked: &mut CheckReport) -> Result<(), ArchiveError> {
    let known = known_files(state);
    let is_segment = |name: &str| SegmentName::parse(name).is_some();
    // Segments of a tail that is being sealed, or was when a crash came: they are committed, or made again. Without the
    // tail they cannot be made again, so a commit is lost.
    let has_tail = |name: &str| {
        SegmentName::parse(name).is_some_and(|name| {
            let tail = name.tails.0;
            tail == name.tails.1 && state.local().has_tail(tail) && layout.tail(tail).exists()
        })
    };
    for &table in Table::ALL {
        let partitions = layout.partitions(table)?;
        find_strangers_in(&partitions, (is_segment, has_tail), (&Fault::NoSegment, &known), checked)?;
    }
    let none = (&Fault::NoSummary, &known);
    find_strangers_in(&layout.summary_partitions()?, (summaries::is_name, |_: &str| false), none, checked)?;
    if checked.findings.iter().any(|finding| finding.fault == Fault::NotInManifest) {
        // What was committed since the manifest was read is known now.
        let now = Manifest::load_or_rebuild(layout)?;
        let known = known_files(&now);
        let uncommitted: HashSet<PathBuf> = uncommitted(layout, &now)?.into_iter().collect();
        let is_known = |path: &PathBuf| known.contains(path) || uncommitted.contains(path);
        checked.findings.retain(|finding| finding.fault != Fault::NotInManifest || !is_known(&finding.path));
        // while somebody does maintenance, they are about to be committed
        if Lock::is_free(&layout.upkeep_lock()) {
            checked.leftovers.extend(uncommitted);
        }
    }
    // While somebody writes or does maintenance, these are in use.
    for (lock, folder) in [(layout.lock(), layout.tmp()), (layout.upkeep_lock(), layout.merging())] {
        if Lock::is_free(&lock) {
            checked.leftovers.extend(folder::names(&folder)?.iter().map(|name| folder.join(name)));
        }
    }
    Ok(())
}

fn find_strangers_in(
    partitions: &[PathBuf],
    (belongs, is_uncommitted): (impl Fn(&str) -> bool, impl Fn(&str) -> bool),
    (fault, known): (&Fault, &HashSet<PathBuf>),
    checked: &mut CheckReport,
) -> Result<(), ArchiveError> {
    for partition in partitions {
        for name in folder::names(partition)? {
            let path = partition.join(&name);
            let name = name.to_string_lossy();
            if name.ends_with(".damaged") {
                checked.set_aside.push(path);
            } else if !belongs(&name) {
                checked.found(path, fault.clone());
            } else if !known.contains(&path) && !is_uncommitted(&name) {
                checked.found(path, Fault::NotInManifest);
            }
        }
    }
    Ok(())
}

/// Finds commits that are missing: those after them are not read.
fn find_lost_commits(layout: &Layout, checked: &mut CheckReport) -> Result<(), ArchiveError> {
    if !Manifest::exists(layout) {
        return Ok(());
    }
    let names = folder::names(&layout.manifest())?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".edit")?.parse().ok());
    // After the listing: what is committed meanwhile is known.
    let known = Manifest::load(layout)?.state().sequence;
    if numbers.max().is_some_and(|last: u64| last > known) {
        let path = layout.manifest().join(format!("{:016}.edit", known + 1));
        checked.found(path, Fault::CommitGone);
    }
    Ok(())
}

fn check_tails(
    layout: &Layout,
    state: &ArchiveState,
    checked: &mut CheckReport,
    report: &mut impl FnMut(&Path),
) -> Result<(), ArchiveError> {
    let mut numbers = Vec::new();
    for name in layout.tail_names()? {
        match name {
            TailName::Tail(number) if state.local().has_tail(number) => numbers.push(number),
            TailName::Tail(_) => {}
            TailName::Damaged(number, last) => checked.set_aside.push(layout.damaged(number, last)),
        }
    }
    numbers.sort_unstable();
    let first = state.local().first_tail;
    let wanted = state.local().skipped.iter().chain(first..numbers.last().copied().unwrap_or(first));
    let missing: Vec<_> = wanted.filter(|number| !numbers.contains(number)).collect();
    if !missing.is_empty() {
        // One that was sealed meanwhile is not gone.
        let now = Manifest::load_or_rebuild(layout)?;
        for number in missing.into_iter().filter(|number| now.local().has_tail(*number)) {
            checked.found(layout.tail(number), Fault::TailGone);
        }
    }
    let mut before = (first > 0).then(|| (first - 1, state.local().position));
    for number in &numbers {
        let path = layout.tail(*number);
        // One that is sealed meanwhile is checked by the process that seals it.
        let Ok(file) = File::open(&path) else { continue };
        report(&path);
        checked.tails += 1;
        let contents = TailContents::read(&file, &path)?;
        check_tail(&path, &contents, numbers.last() == Some(number), checked);
        if *number >= first {
            before = before.filter(|(tail, _)| tail + 1 == *number);
            if let Some(before) = before {
                check_positions(layout, before, (*number, &contents), checked);
            }
            let last = contents.scan.last().or(before.map(|(_, last)| last));
            before = last.map(|last| (*number, last));
        }
    }
    Ok(())
}

fn check_tail(path: &Path, contents: &TailContents, is_last: bool, checked: &mut CheckReport) {
    let octets = contents.octets_lost();
    let rows_behind = contents.scan.behind.rows();
    match contents.scan.end {
        TailEnd::Damaged => checked.found(path.to_owned(), Fault::Tail { octets, rows_behind }),
        // The end of the last one is being written, or was when the writer was killed.
        TailEnd::Torn if !is_last => checked.found(path.to_owned(), Fault::Tail { octets, rows_behind }),
        TailEnd::Torn | TailEnd::Clean => {
            checked.torn_octets += octets;
            if let Err(error) = contents.batches() {
                checked.found(path.to_owned(), Fault::Unreadable(error.chain()));
            }
        }
    }
}

/// Positions go on from one tail to the next; the first goes on from what is sealed.
fn check_positions(
    layout: &Layout,
    (before, last): (TailNumber, Position),
    (number, contents): (TailNumber, &TailContents),
    checked: &mut CheckReport,
) {
    let first = contents.scan.frames.first().map(|frame| frame.header.position);
    let (expected, Some(found)) = (last.next(), first) else { return };
    let before = layout.tail(before);
    let has_before = before.exists();
    // A writer that opens the archive notes the last position of its tails before it seals them.
    if found == expected || (found < expected && !has_before) {
        return;
    }
    // What is missing is more likely the end of the one before.
    let path = if found > expected && has_before { before } else { layout.tail(number) };
    if checked.findings.iter().all(|finding| finding.path != path) {
        checked.found(path, Fault::Positions { expected: expected.get(), found: found.get() });
    }
}

/// Sets aside what is wrong. Tails are the writer's: without one, this opens the archive as a writer would.
fn set_aside(upkeep: &mut Upkeep, checked: &mut CheckReport, damaged: &Damaged) -> Result<(), ArchiveError> {
    let layout = upkeep.layout.clone();
    let mut tails = false;
    for finding in &mut checked.findings {
        let path = &finding.path;
        if path.starts_with(layout.tails()) {
            tails = true;
            continue;
        }
        let mut aside = path.clone().into_os_string();
        aside.push(".damaged");
        let aside = PathBuf::from(aside);
        match disk::rename(path, &aside) {
            Ok(()) => finding.set_aside = Some(aside),
            // one that is gone needs no other name
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Action::SetAside.failed(path)(source)),
        }
        path.parent().filter(|folder| folder.exists()).map_or(Ok(()), folder::sync)?;
    }
    let Damaged { segments, summaries } = damaged;
    if !segments.is_empty() || !summaries.is_empty() {
        upkeep.manifest.commit(|state| {
            let segments = segments.iter().filter(|key| state.segments.contains_key(key)).copied().collect();
            let summaries = summaries.iter().filter(|key| state.summaries.contains_key(key)).copied().collect();
            Ok(Some(Edit::SetAside { segments, summaries }))
        })?;
    }
    let Ok(lock) = Lock::acquire(&layout.lock()) else { return Ok(()) };
    if tails {
        for damage in recovery::recover(&layout)?.recovery.damages {
            let number =
                damage.path.file_name().and_then(|name| name.to_str()?.split_once('-')).map(|(number, _)| number);
            let is_it = |finding: &&mut Finding| finding.path.file_stem().and_then(|stem| stem.to_str()) == number;
            if let Some(finding) = checked.findings.iter_mut().find(is_it) {
                finding.set_aside = Some(damage.path);
            }
        }
    }
    drop(lock);
    Ok(())
}
