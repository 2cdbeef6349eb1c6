//! Parts of an archive as folders that can be carried elsewhere.
//!
//! An export is a folder of Parquet files, laid out as in an archive, so that any tool reads it; and a list of them
//! with their checksums, which is written last. A segment is exported whole: a range of times takes every segment that
//! may have a row in it.
//!
//! An import copies the files, gives them numbers of tails and positions behind all that the archive has, and commits
//! them all at once, as sealing does.
//! Importing is idempotent by file: an archive remembers the checksum, size and name of what it has imported, and
//! passes over that. What speaks against it is that rows which the other archive has merged with others since come in
//! a new file, and are imported again.

pub(crate) mod list;

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use weir_flow::Table;

use crate::civil::{MS_PER_DAY, day_of_text};
use crate::layout::Layout;
use crate::lock::Lock;
use crate::manifest::{Edit, Manifest};
use crate::position::{LOCAL, TailNumber};
use crate::recovery::{self, RecoveredTails, recover};
use crate::seal::{move_to, seal_tail};
use crate::segment::{SegmentName, found_segment};
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError, ArchiveOptions, Position, Segment, Snapshot, disk, folder, space};

use list::{Entry, imported_before, read_list, remember, write_list};

/// Octets copied at a time.
const COPY_OCTETS: usize = 1 << 20;

/// Which part of an archive is exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportSelection {
    /// Only segments that may have rows at this time or later, in milliseconds since the epoch.
    pub from_ms: Option<i64>,
    /// Only segments that may have rows before this time.
    pub until_ms: Option<i64>,
    /// Only these tables; all of them when empty.
    pub tables: Vec<Table>,
}

impl ExportSelection {
    fn has(&self, segment: &Segment) -> bool {
        let day = (segment.day * MS_PER_DAY, (segment.day + 1) * MS_PER_DAY - 1);
        let (first, last) = segment.time_range_ms.unwrap_or(day);
        (self.tables.is_empty() || self.tables.contains(&segment.table))
            && self.from_ms.is_none_or(|from_ms| last >= from_ms)
            && self.until_ms.is_none_or(|until_ms| first < until_ms)
    }
}

/// What was exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportReport {
    /// Segments copied.
    pub segments: u64,
    /// Rows in them, of all tables.
    pub rows: u64,
    /// Octets of them.
    pub octets: u64,
    /// Flows that are in no segment yet, and so not in the export either.
    pub flows_unsealed: u64,
}

/// What was imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportReport {
    /// Segments added.
    pub segments: u64,
    /// Rows in them, of all tables.
    pub rows: u64,
    /// Octets of them.
    pub octets: u64,
    /// Segments passed over because they had been imported before.
    pub segments_known: u64,
    /// Position of the archive afterwards.
    pub position: Position,
}

/// Copies a part of the archive in `dir` to the folder `to`, which must be new or empty. A writer may be at work.
pub fn export(dir: &Path, to: &Path, part: &ExportSelection) -> Result<ExportReport, ArchiveError> {
    let layout = Layout::new(dir);
    let snapshot = Snapshot::open(dir)?;
    if !folder::names(to)?.is_empty() {
        return Err(ArchiveError::NotEmpty { path: to.to_owned() });
    }
    let mut exported = ExportReport { flows_unsealed: snapshot.flows_unsealed(), ..ExportReport::default() };
    let mut entries = Vec::new();
    for segment in Table::ALL.iter().flat_map(|table| snapshot.segments(*table)).filter(|segment| part.has(segment)) {
        let from = segment.path();
        let Ok(path) = from.strip_prefix(layout.root()) else { continue };
        let place = to.join(path);
        let failed = |source| ArchiveError::CopySegment { path: from.clone(), to: place.clone(), source };
        place.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let crc = copy(&from, &place).map_err(failed)?;
        entries.push(Entry { crc, octets: segment.octets, path: path.to_owned() });
        exported.segments += 1;
        exported.rows += segment.rows;
        exported.octets += segment.octets;
    }
    fs::create_dir_all(to).map_err(Action::CreateFolder.failed(to))?;
    write_list(to, &entries)?;
    Ok(exported)
}

/// Copies and syncs a file; returns the checksum of what was copied.
fn copy(from: &Path, to: &Path) -> io::Result<u32> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let mut octets = vec![0; COPY_OCTETS];
    let mut crc = 0;
    loop {
        let count = match from.read(&mut octets) {
            Ok(0) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let piece = octets.get(..count).unwrap_or_default();
        crc = crc32c::crc32c_append(crc, piece);
        to.write_all(piece)?;
    }
    to.sync_all()?;
    Ok(crc)
}

/// A file that is being imported.
struct ImportedFile {
    entry: Entry,
    table: Table,
    day: i64,
    name: SegmentName,
    /// Where it is now.
    path: PathBuf,
}

/// Adds the export in the folder `from` to the archive in `dir`, which is made when it is not there: all of it or, on
/// an error, nothing. Fails while a writer has the archive.
pub fn import(dir: &Path, from: &Path) -> Result<ImportReport, ArchiveError> {
    let entries = read_list(from)?;
    let layout = Layout::new(dir);
    layout.create_root()?;
    let _lock = Lock::acquire(&layout.lock())?;
    recovery::create(&layout, layout.create_root()?)?;
    folder::create(&layout.imported())?;
    let RecoveredTails { recovery, mut manifest, tails, next_number } = recover(&layout)?;
    for tail in &tails {
        seal_tail(&layout, &mut manifest, &ArchiveOptions::default(), tail)?;
    }
    if recovery.is_unconfirmed {
        // what was not confirmed is in segments now
        let _ = disk::remove(&layout.unconfirmed());
    }
    let mut imported = ImportReport { position: recovery.position, ..ImportReport::default() };
    let before = imported_before(&layout)?;
    let mut arriving = Vec::new();
    for (number, entry) in entries.into_iter().enumerate() {
        if before.contains(&entry) {
            imported.segments_known += 1;
        } else {
            arriving.push(fetch(&layout, from, entry, number)?);
        }
    }
    if arriving.is_empty() {
        return Ok(imported);
    }
    renumber(&mut arriving, next_number, recovery.position, from)?;
    commit(&layout, &mut manifest, &arriving, next_number)?;
    for ImportedFile { entry, name, .. } in &arriving {
        imported.segments += 1;
        imported.rows += name.rows;
        imported.octets += entry.octets;
        imported.position = imported.position.max(name.last);
    }
    Ok(imported)
}

/// Copies a file of an export into the folder for what is being written, and checks it.
fn fetch(layout: &Layout, from: &Path, entry: Entry, number: usize) -> Result<ImportedFile, ArchiveError> {
    let source_path = from.join(&entry.path);
    let bad = |what: &str| ArchiveError::BadExport { path: source_path.clone(), what: what.to_owned() };
    let mut parts = entry.path.iter().map(|part| part.to_str().unwrap_or_default());
    let table = parts.next().and_then(|name| Table::ALL.iter().copied().find(|table| table.name() == name));
    let day = parts.next().and_then(|name| day_of_text(name.strip_prefix("date=")?));
    let name = parts.next().and_then(SegmentName::parse);
    let (Some(table), Some(day), Some(name), None) = (table, day, name, parts.next()) else {
        return Err(bad("this is no path of a segment"));
    };
    let path = layout.tmp().join(format!("import-{number}"));
    let failed = |source| ArchiveError::CopySegment { path: source_path.clone(), to: path.clone(), source };
    if !space::has_room(layout.root(), entry.octets, 0)? {
        return Err(failed(io::ErrorKind::StorageFull.into()));
    }
    let crc = copy(&source_path, &path).map_err(failed)?;
    let octets = path.metadata().map_err(failed)?.len();
    if (crc, octets) != (entry.crc, entry.octets) {
        return Err(bad("its checksum is not that of the list"));
    }
    let copied = File::open(&path).map_err(failed)?;
    let rows = SerializedFileReader::new(copied).map(|reader| reader.metadata().file_metadata().num_rows());
    if rows.ok() != i64::try_from(name.rows).ok() {
        return Err(bad("it has other rows than its name says"));
    }
    Ok(ImportedFile { entry, table, day, name, path })
}

/// Moves tails and positions behind those of the archive, in the order that they have among themselves.
fn renumber(
    arriving: &mut [ImportedFile],
    next_number: TailNumber,
    position: Position,
    from: &Path,
) -> Result<(), ArchiveError> {
    let first_tail = arriving.iter().map(|file| file.name.tails.0).min().unwrap_or_default();
    let first_position = arriving.iter().map(|file| file.name.first.get()).min().unwrap_or_default();
    for file in arriving {
        let tail = |tail: TailNumber| tail.checked_sub(first_tail)?.checked_add(next_number);
        let place = |old: Position| old.get().checked_sub(first_position)?.checked_add(position.next().get());
        let name = &mut file.name;
        let moved = (tail(name.tails.0), tail(name.tails.1), place(name.first), place(name.last));
        let (Some(tail_first), Some(tail_last), Some(first), Some(last)) = moved else {
            let what = "its numbers of tails or positions make no sense".to_owned();
            return Err(ArchiveError::BadExport { path: from.join(&file.entry.path), what });
        };
        (name.tails, name.first, name.last) = ((tail_first, tail_last), Position::new(first), Position::new(last));
    }
    Ok(())
}

/// Moves the files into their places and commits them, all at once. Where that fails, they are removed: each attempt would leave
/// its own otherwise.
fn commit(
    layout: &Layout,
    manifest: &mut Manifest,
    arriving: &[ImportedFile],
    number: TailNumber,
) -> Result<(), ArchiveError> {
    let mut moved = Vec::with_capacity(arriving.len());
    let placed = place(layout, arriving, &mut moved)
        .and_then(|segments| remember(layout, number, arriving.iter().map(|file| &file.entry)).map(|()| segments));
    let segments = placed.inspect_err(|_| moved.iter().for_each(|path| drop(disk::remove(path))))?;
    let last_tail = segments.iter().map(|segment| segment.tails.last()).max().unwrap_or(number);
    let last = segments.iter().map(|segment| segment.last).max().unwrap_or_default();
    manifest.commit_segments(&segments, |_| {
        let tails = (number, last_tail);
        Ok(Some(Edit::Sealed { writer: LOCAL, tails, last, segments: segments.clone() }))
    })?;
    Ok(())
}

/// Moves the files into their places, which are in `moved` when one fails.
fn place(layout: &Layout, arriving: &[ImportedFile], moved: &mut Vec<PathBuf>) -> Result<Vec<Segment>, ArchiveError> {
    let mut segments = Vec::with_capacity(arriving.len());
    for ImportedFile { table, day, name, path, .. } in arriving {
        let (mut name, partition) = (*name, layout.partition(*table, *day));
        folder::create(&partition)?;
        while !move_to(path, &partition.join(name.to_string()))? {
            name.generation += 1;
        }
        let place = partition.join(name.to_string());
        moved.push(place.clone());
        folder::sync(&partition)?;
        let found = found_segment(layout, (*table, *day), name, true)?;
        let gone = || Action::PlaceSegment.failed(&place)(io::ErrorKind::NotFound.into());
        // The tails in the file are those of the archive that it comes from; here they are those of its new name.
        let segment = found.ok_or_else(gone)?;
        segments.push(Segment { tails: TailSet::range(name.tails.0, name.tails.1), ..segment });
    }
    Ok(segments)
}
