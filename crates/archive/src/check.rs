//! Checking an archive: every file is read and compared with what its name, its folder and its checksums say.
//!
//! Nothing is ever deleted: what is wrong is set aside under a name that ends in `.damaged`, and only when asked for.
//! The newest position is remembered by that name too, so it is never given out twice.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::Table;

use crate::civil::{day_of_ms, day_text};
use crate::frame::TailEnd;
use crate::layout::{Layout, TailName};
use crate::lock::Lock;
use crate::readers::Lease;
use crate::segment::SegmentName;
use crate::stock::{PlacedSegment, Stock};
use crate::tail::TailContents;
use crate::upkeep::Upkeep;
use crate::{Action, ArchiveError, Segment, folder, recovery, summaries};

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
    /// A segment made in part of the same tails as another one, so that rows may be there twice.
    Overlaps(PathBuf),
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
            Self::Overlaps(other) => write!(f, "made in part of the same tails as '{}'", other.display()),
            Self::NoSegment => f.write_str("this is no segment"),
            Self::NoSummary => f.write_str("this is no summary"),
            Self::Tail { octets, rows_behind } => {
                write!(f, "{octets} octets cannot be read, with {rows_behind} whole flows behind them")
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
    /// Temporary files, while there is no writer.
    pub leftovers: Vec<PathBuf>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Checks every file of the archive in `dir`, also with a writer at work; with `repair` damaged files are set aside.
/// `report` is called with each file before it is read.
pub fn check(dir: &Path, repair: bool, mut report: impl FnMut(&Path)) -> Result<CheckReport, ArchiveError> {
    let layout = Layout::new(dir);
    layout.check()?;
    let upkeep = repair.then(|| Upkeep::begin(&layout)).transpose()?;
    // Everything that is listed from here on stays.
    let _lease = Lease::take(&layout)?;
    let stock = Stock::read(&layout)?;
    let mut checked = CheckReport { covered: stock.covered.len() as u64, ..CheckReport::default() };
    for day in stock.days() {
        check_overlaps(day, &mut checked.findings);
    }
    for kept in &stock.live {
        report(&kept.segment.path);
        checked.segments += 1;
        checked.octets += kept.segment.octets;
        match check_segment(kept) {
            Ok(()) => checked.rows += kept.segment.rows,
            Err(fault) => checked.found(kept.segment.path.clone(), fault),
        }
    }
    let summaries = stock.summaries(&layout)?;
    for summary in summaries.live.iter().chain(&summaries.void) {
        report(summary.path());
        checked.summaries += 1;
        if let Err(error) = summary.check() {
            checked.found(summary.path().to_owned(), Fault::Unreadable(chain(&error)));
        }
    }
    find_strangers(&layout, &mut checked)?;
    check_tails(&layout, &mut checked, &mut report)?;
    if upkeep.is_some() {
        set_aside(&layout, &mut checked)?;
    }
    Ok(checked)
}

impl CheckReport {
    fn found(&mut self, path: PathBuf, fault: Fault) {
        self.findings.push(Finding { path, fault, set_aside: None });
    }
}

/// An error with its causes, on one line.
fn chain(error: &ArchiveError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Verifies the checksums of a segment, then reads it whole, as every reader would, and compares it with its name.
fn check_segment(kept: &PlacedSegment) -> Result<(), Fault> {
    let segment = &kept.segment;
    let unreadable = |error: ArchiveError| Fault::Unreadable(chain(&error));
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
        check_times(kept, &batch)?;
    }
    if rows == segment.rows { Ok(()) } else { Err(Fault::Rows { named: segment.rows, found: rows }) }
}

fn check_times(kept: &PlacedSegment, batch: &RecordBatch) -> Result<(), Fault> {
    let times = |name: &str| {
        let values = batch.column_by_name(name)?.as_primitive_opt::<TimestampMillisecondType>()?;
        arrow::compute::min(values).zip(arrow::compute::max(values))
    };
    // The first column is the one by which a table is parted into days.
    let first = kept.table.schema().field(0).name().clone();
    if let Some((from, to)) = times(&first)
        && let Some(other) = [from, to].map(day_of_ms).into_iter().find(|day| *day != kept.day)
    {
        return Err(Fault::Day { found: day_text(other) });
    }
    let named = kept.segment.time_range_ms;
    for column in ["start", "end", "minute"] {
        let Some(found) = times(column) else { continue };
        if !named.is_some_and(|named| named.0 <= found.0 && found.1 <= named.1) {
            return Err(Fault::Times { named, found });
        }
    }
    Ok(())
}

/// Segments of one table and day that count, and were made in part of the same tails.
fn check_overlaps(day: &[PlacedSegment], findings: &mut Vec<Finding>) {
    let mut day: Vec<&Segment> = day.iter().map(|kept| &kept.segment).collect();
    day.sort_by_key(|segment| segment.tails);
    for pair in day.windows(2) {
        if pair[1].tails.0 <= pair[0].tails.1 {
            let fault = Fault::Overlaps(pair[0].path.clone());
            findings.push(Finding { path: pair[1].path.clone(), fault, set_aside: None });
        }
    }
}

/// Files that are where only segments or summaries should be, and what others have left.
fn find_strangers(layout: &Layout, checked: &mut CheckReport) -> Result<(), ArchiveError> {
    let is_segment = |name: &str| SegmentName::parse(name).is_some();
    for &table in Table::ALL {
        find_strangers_in(&layout.partitions(table)?, is_segment, &Fault::NoSegment, checked)?;
    }
    find_strangers_in(&layout.summary_partitions()?, summaries::is_name, &Fault::NoSummary, checked)?;
    // While somebody writes or keeps house, these are in use.
    for (lock, folder) in [(layout.lock(), layout.tmp()), (layout.upkeep_lock(), layout.merging())] {
        if Lock::is_free(&lock) {
            checked.leftovers.extend(folder::names(&folder)?.iter().map(|name| folder.join(name)));
        }
    }
    Ok(())
}

fn find_strangers_in(
    partitions: &[PathBuf],
    belongs: impl Fn(&str) -> bool,
    fault: &Fault,
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
            }
        }
    }
    Ok(())
}

fn check_tails(layout: &Layout, checked: &mut CheckReport, report: &mut impl FnMut(&Path)) -> Result<(), ArchiveError> {
    let mut numbers = Vec::new();
    for name in layout.tail_names()? {
        match name {
            TailName::Tail(number) => numbers.push(number),
            TailName::Damaged(number, last) => checked.set_aside.push(layout.damaged(number, last)),
        }
    }
    numbers.sort_unstable();
    for number in &numbers {
        let path = layout.tail(*number);
        // One that is sealed meanwhile is checked by whoever seals it.
        let Ok(file) = File::open(&path) else { continue };
        report(&path);
        checked.tails += 1;
        let contents = TailContents::read(&file, &path)?;
        let octets = contents.octets() - contents.scan.whole_octets as u64;
        let is_last = numbers.last() == Some(number);
        match contents.scan.end {
            TailEnd::Damaged { rows, .. } => checked.found(path, Fault::Tail { octets, rows_behind: rows }),
            // The end of the last one is being written, or was when the writer was killed.
            TailEnd::Torn if !is_last => checked.found(path, Fault::Tail { octets, rows_behind: 0 }),
            TailEnd::Torn | TailEnd::Clean => {
                if let Err(error) = contents.batches() {
                    checked.found(path, Fault::Unreadable(chain(&error)));
                }
            }
        }
    }
    Ok(())
}

/// Sets aside what is wrong. Tails are the writer's: without one, this opens the archive as a writer would.
fn set_aside(layout: &Layout, checked: &mut CheckReport) -> Result<(), ArchiveError> {
    let mut tails = false;
    for finding in &mut checked.findings {
        let path = &finding.path;
        if matches!(finding.fault, Fault::Overlaps(_)) {
            continue; // nothing tells which of the two is right
        }
        if path.starts_with(layout.tails()) {
            tails = true;
            continue;
        }
        let mut aside = path.clone().into_os_string();
        aside.push(".damaged");
        let aside = PathBuf::from(aside);
        fs::rename(path, &aside).map_err(Action::SetAside.failed(path))?;
        path.parent().map_or(Ok(()), folder::sync)?;
        finding.set_aside = Some(aside);
    }
    let Ok(lock) = Lock::acquire(&layout.lock()) else { return Ok(()) };
    if tails {
        for damage in recovery::recover(layout)?.recovery.damages {
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
