//! Everything that can fail.
//!
//! Most of it is a system call about one file, and differs only in what was to be done: [`ArchiveError::Io`] with its
//! [`Action`]. What a caller can distinguish by more than that has a variant of its own. What speaks against one
//! variant for many actions is that they all have the same source; those that have another are variants still.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::error::ArrowError;
use nix::errno::Errno;
use parquet::errors::ParquetError;
use weir_flow::Table;

use crate::manifest::EditRefused;
use crate::{FollowPosition, Position};

/// What was to be done to a file or folder when the system refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// Open or lock a lock file, or the folder of the manifest.
    Lock,
    /// Read or write the file that marks a folder as an archive.
    AccessMarker,
    /// Read the manifest.
    ReadManifest,
    /// Write the manifest. What was to be committed is not.
    UpdateManifest,
    /// Create a folder.
    CreateFolder,
    /// List a folder.
    ListFolder,
    /// Make the entries of a folder durable.
    SyncFolder,
    /// Create a tail.
    CreateTail,
    /// Open or read a tail.
    ReadTail,
    /// Append a frame to a tail. Nothing of it was kept, and the next append may succeed.
    AppendTail,
    /// Cut the torn end of a tail.
    CutTail,
    /// Remove a tail that was sealed.
    RemoveTail,
    /// Set a damaged file aside.
    SetAside,
    /// Remove a file that a crash left.
    RemoveLeftover,
    /// Create or sync a segment.
    CreateSegment,
    /// Move a segment into its place.
    PlaceSegment,
    /// Open or read a segment.
    OpenSegment,
    /// Remove a segment that is superseded or has expired.
    RemoveSegment,
    /// Read, write or lock a file of the folder of readers.
    UseLease,
    /// Read or write a list of exported files.
    AccessExportList,
    /// Read or write the list of files that flows were read from.
    AccessSourceFiles,
    /// Determine the free space of a file system.
    MeasureFreeSpace,
    /// Open or read a summary.
    ReadSummary,
    /// Write a summary, so its segment stays.
    WriteSummary,
    /// Remove an archive that nothing was appended to.
    RemoveArchive,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "lock",
            Self::AccessMarker => "read or write the archive marker",
            Self::ReadManifest => "read the manifest",
            Self::UpdateManifest => "write the manifest",
            Self::CreateFolder => "create folder",
            Self::ListFolder => "list folder",
            Self::SyncFolder => "sync folder",
            Self::CreateTail => "create tail",
            Self::ReadTail => "read tail",
            Self::AppendTail => "append to tail",
            Self::CutTail => "cut tail",
            Self::RemoveTail => "remove tail",
            Self::SetAside => "set aside the damaged file",
            Self::RemoveLeftover => "remove the leftover",
            Self::CreateSegment => "create segment",
            Self::PlaceSegment => "move segment to",
            Self::OpenSegment => "open segment",
            Self::RemoveSegment => "remove segment",
            Self::UseLease => "use the lease",
            Self::AccessExportList | Self::AccessSourceFiles => "read or write the list",
            Self::MeasureFreeSpace => "determine the free space at",
            Self::ReadSummary => "read summary",
            Self::WriteSummary => "write summary",
            Self::RemoveArchive => "remove the archive",
        })
    }
}

impl Action {
    /// What `map_err` makes of the system's answer when this action fails on a file.
    pub(crate) fn failed(self, path: &Path) -> impl Fn(io::Error) -> ArchiveError + Copy {
        move |source| ArchiveError::Io { action: self, path: path.to_owned(), source }
    }
}

/// Why an archive could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The system refused something about a file or folder.
    #[error("cannot {action} '{}'", path.display())]
    Io {
        /// What was to be done.
        action: Action,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A folder that is no archive, and for writing not empty either; or none at all.
    #[error("{}", not_an_archive(path, *is_there))]
    NotAnArchive {
        /// The folder.
        path: PathBuf,
        /// Whether there is anything of this name.
        is_there: bool,
    },
    /// An archive of a version that this program does not know.
    #[error("archive '{}' has format '{found}', but this program knows '{known}'", path.display())]
    UnknownVersion {
        /// The file that names the version.
        path: PathBuf,
        /// What it says, cut to one line.
        found: String,
        /// What it should say.
        known: &'static str,
    },
    /// Another writer has the archive open.
    #[error("archive is being written by {}, which holds '{}'", holder.map_or("another process".to_owned(), |pid| format!("process {pid}")), path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Process that holds it, when the file names one.
        holder: Option<u32>,
    },
    /// The manifest is locked by a process that was stopped while it replaced the checkpoint. What was to be committed is not.
    #[error("the manifest '{}' is locked by another process, for {} s already", path.display(), waited.as_secs())]
    LockedManifest {
        /// Its folder.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A tail was changed after it was written. Only the end of the last one can be torn, by a crash.
    #[error("tail '{}' is damaged: {octets} octets are no frames, or follow such", path.display())]
    DamagedTail {
        /// The file.
        path: PathBuf,
        /// Octets from the damage on.
        octets: u64,
    },
    /// A tail could not be synced. What was appended since the last durable position may or may not survive a crash of
    /// the machine, and syncing it again would prove nothing: nothing more is taken until it is written to another file.
    #[error("cannot sync tail '{}' to the disk", path.display())]
    SyncTail {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: Arc<io::Error>,
    },
    /// Flows without a time in the column `received`, by which segments are partitioned.
    #[error("flows without a time in the column 'received' cannot be kept")]
    NoReceived,
    /// A delivery that does not fit into a frame.
    #[error("delivery of {octets} octets exceeds the limit of {octets_max}")]
    FrameTooLarge {
        /// Octets of the frame.
        octets: u64,
        /// The limit, `frame_octets_max`.
        octets_max: u64,
    },
    /// A delivery of more flows than are sealed at once.
    #[error("delivery of {rows} flows exceeds the limit of {rows_max}")]
    DeliveryTooLong {
        /// Its flows.
        rows: usize,
        /// The limit, [`ArchiveOptions::frame_rows_max`](crate::ArchiveOptions::frame_rows_max).
        rows_max: usize,
    },
    /// Columns that could not be put into a frame.
    #[error("cannot encode a delivery")]
    EncodeFrame(#[source] ArrowError),
    /// A frame whose checksum is right but whose columns cannot be read.
    #[error("cannot decode a frame of tail '{}'", path.display())]
    DecodeFrame {
        /// The file.
        path: PathBuf,
        /// Arrow's error.
        #[source]
        source: ArrowError,
    },
    /// Columns of a tail that could not be put in order for a segment.
    #[error("cannot gather column '{column}' of table '{}'", table.name())]
    GatherColumn {
        /// The table.
        table: Table,
        /// The column.
        column: String,
        /// Arrow's error.
        #[source]
        source: ArrowError,
    },
    /// A segment could not be encoded or written.
    #[error("cannot write segment '{}'", path.display())]
    WriteSegment {
        /// The temporary file.
        path: PathBuf,
        /// The Parquet writer's error.
        #[source]
        source: ParquetError,
    },
    /// A segment could not be read.
    #[error("cannot read segment '{}'", path.display())]
    ReadSegment {
        /// The file.
        path: PathBuf,
        /// The Parquet reader's error.
        #[source]
        source: ParquetError,
    },
    /// More rows than one segment may have.
    #[error("segment '{}' would have {rows} rows, over the limit of {rows_max}", path.display())]
    TooManyRows {
        /// The file that was to be written.
        path: PathBuf,
        /// Rows of all inputs.
        rows: u64,
        /// The limit, [`REWRITE_ROWS_MAX`](crate::REWRITE_ROWS_MAX).
        rows_max: u64,
    },
    /// A merged segment would not have had the rows of those that it was made of.
    #[error("segments of '{}' have {expected} rows by their names, but {found} were found in them", path.display())]
    MergedRows {
        /// Their folder.
        path: PathBuf,
        /// Rows by the names.
        expected: u64,
        /// Rows read.
        found: u64,
    },
    /// Segments with too much in one of their columns for one merge; they stay as they are, or are merged with fewer.
    #[error("segments of {table} have more than {octets_max} octets in '{column}' together, too many for one merge", table = table.name())]
    MergeTooLarge {
        /// The table.
        table: Table,
        /// The column.
        column: String,
        /// The limit.
        octets_max: usize,
    },
    /// A merge that was not finished because the writer ends; its segments stay as they are.
    #[error("the merge was abandoned, because the writer ends")]
    MergeAbandoned,
    /// The folder of an export that is not empty.
    #[error("folder '{}' is not empty", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that is no export.
    #[error("'{}' is no export of a weir archive: it has no list of files", path.display())]
    NotAnExport {
        /// The folder.
        path: PathBuf,
    },
    /// A file of an export that is not what it should be.
    #[error("cannot import '{}': {what}", path.display())]
    BadExport {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A segment could not be copied.
    #[error("cannot copy segment '{}' to '{}'", path.display(), to.display())]
    CopySegment {
        /// The segment.
        path: PathBuf,
        /// Its copy.
        to: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A segment that has expired or was merged, and whose file was removed before it was read: it had waited for readers
    /// for as long as it may, or too much did.
    #[error("segment '{}' was removed before it was read: {}", path.display(), why_removed(*is_merged))]
    RemovedSegment {
        /// The file.
        path: PathBuf,
        /// Whether its rows are in another segment now.
        is_merged: bool,
    },
    /// A part of a segment is not what was written.
    #[error("segment '{}' is damaged: {part}", path.display())]
    DamagedSegment {
        /// The file.
        path: PathBuf,
        /// The part, and what is wrong with it.
        part: String,
    },
    /// A part of a summary is not what was written.
    #[error("summary '{}' is damaged: {part}", path.display())]
    DamagedSummary {
        /// The file.
        path: PathBuf,
        /// The part, and what is wrong with it.
        part: String,
    },
    /// A file of the manifest is not what was written, or does not follow from those before it.
    #[error("the manifest '{}' is damaged: {what}", path.display())]
    DamagedManifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A commit that contradicts the manifest: a defect of this program.
    #[error("a commit to the archive '{}' was refused", root.display())]
    RefusedEdit {
        /// The archive.
        root: PathBuf,
        /// What it contradicts.
        #[source]
        source: EditRefused,
    },
    /// A tail that the manifest names is not there.
    #[error("tail '{}' is gone, which nobody has sealed", path.display())]
    MissingTail {
        /// Where it was.
        path: PathBuf,
    },
    /// A tail ends before the next one goes on.
    #[error(
        "tail '{}' lacks frames: it ends with {}, and the next tail goes on with delivery {next}",
        path.display(),
        last.map_or("nothing".to_owned(), |last| format!("delivery {last}"))
    )]
    MissingFrames {
        /// The tail.
        path: PathBuf,
        /// Its last delivery, if it has any.
        last: Option<Position>,
        /// The first delivery of the next tail.
        next: Position,
    },
    /// A position from which an archive cannot be followed: it was not given out there, or so long ago that its epoch is
    /// no longer remembered.
    #[error("archive '{}', whose epoch is {epoch}, does not know position {position}", path.display())]
    UnknownPosition {
        /// The archive.
        path: PathBuf,
        /// The position.
        position: FollowPosition,
        /// The newest epoch of the archive.
        epoch: u32,
    },
    /// The listing of tails changed each time it was read.
    #[error("archive '{}' changed during each of {attempts} attempts to list it", path.display())]
    Unsettled {
        /// The archive.
        path: PathBuf,
        /// Attempts made.
        attempts: u32,
    },
    /// A thread of the archive could not be started.
    #[error("cannot start the thread '{name}'")]
    StartThread {
        /// Its name.
        name: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A thread of the archive panicked: a defect of this program.
    #[error("the thread '{name}' of the archive panicked")]
    ThreadPanicked {
        /// Its name.
        name: &'static str,
    },
}

fn why_removed(is_merged: bool) -> &'static str {
    if is_merged { "it was merged into a larger one" } else { "it expired" }
}

fn not_an_archive(path: &Path, is_there: bool) -> String {
    if is_there {
        format!("'{}' is not a weir archive", path.display())
    } else {
        format!("there is no archive '{}': there is nothing of this name", path.display())
    }
}

impl ArchiveError {
    /// What can be done about it, when that is known: one line without a prefix. The message does not repeat it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DamagedTail { .. } => {
                Some("`weir archive check --repair` keeps the frames before the damage, and sets the file aside")
            }
            Self::DamagedSummary { .. } => Some(
                "`weir archive check --repair` sets it aside; what it summed up is missing from approximate answers then",
            ),
            Self::DamagedManifest { .. } => {
                Some("`weir archive check --rebuild-manifest` makes it anew of the segments and tails that are there")
            }
            Self::LockedManifest { .. } => Some(
                "a process of weir was stopped (SIGSTOP, docker pause) in the middle of a commit: let it go on, or end it; \
                 lslocks lists it",
            ),
            Self::MissingTail { .. } | Self::MissingFrames { .. } => {
                Some("put it back, or let `weir archive check --repair` go on without it")
            }
            Self::RemovedSegment { .. } => Some(
                "ask again, for less at once; what expired or was merged waits for questions for an hour, and for less when an \
                 eighth of max_size waits",
            ),
            Self::UnknownPosition { .. } => Some("follow it from its start, 0:0, or from a snapshot of now"),
            Self::NotAnExport { .. } => Some("weir archive export writes a folder that can be imported"),
            Self::NotEmpty { .. } => Some("name a folder that does not exist yet"),
            Self::NotAnArchive { path, .. } => hint_at_what_is_there(path),
            _ => None,
        }
    }

    /// The error with its causes, on one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
    }

    /// The action that the system refused, and its error.
    pub fn io(&self) -> Option<(Action, &io::Error)> {
        match self {
            Self::Io { action, source, .. } => Some((*action, source)),
            _ => None,
        }
    }

    /// Whether a file is not what was written, or is gone: reading it again would fail again.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::DamagedSegment { .. }
            | Self::DamagedSummary { .. }
            | Self::DamagedTail { .. }
            | Self::DamagedManifest { .. }
            | Self::MissingTail { .. }
            | Self::MissingFrames { .. }
            | Self::DecodeFrame { .. }
            | Self::MergedRows { .. } => true,
            // Parquet's reader wraps the system's errors, of which only the end of a file is one of the file
            Self::ReadSegment { source, .. } => !matches!(source, ParquetError::External(_)),
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
            }
            _ => false,
        }
    }

    /// Whether a file is damaged, or cannot be read for a reason that lies in it or its disk. False of what whoever reads it
    /// lacks: memory, room for one more open file, the right to read it.
    pub(crate) fn is_unreadable(&self) -> bool {
        let mut error: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(cause) = error {
            if let Some(source) = cause.downcast_ref::<io::Error>() {
                return !is_of_reader(source);
            }
            error = cause.source();
        }
        self.is_damage()
    }

    /// Whether the same call may succeed later: a full disk may have space again; anything else would fail again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::SyncTail { .. })
            || matches!(self.io(), Some((Action::AppendTail | Action::CreateTail | Action::MeasureFreeSpace, _)))
    }

    /// Whether the delivery is too large for one frame: its halves may be taken.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::FrameTooLarge { .. } | Self::DeliveryTooLong { .. })
    }

    /// Whether the disk, or a quota of it, is full.
    pub fn is_full_disk(&self) -> bool {
        let mut error: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(cause) = error {
            let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
            if matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) {
                return true;
            }
            error = cause.source();
        }
        false
    }
}

/// Whether reading failed because of who reads.
fn is_of_reader(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::OutOfMemory | io::ErrorKind::PermissionDenied | io::ErrorKind::Interrupted)
        || matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE))
}

/// What can be done with what is in the place of an archive.
fn hint_at_what_is_there(path: &Path) -> Option<&'static str> {
    const MAKERS: &str =
        "weir collect, weir import and weir meter make one with --archive, in a folder that is new or empty";
    if path.is_file() {
        return Some("it is a file; an archive is a folder, which weir meter, weir import and weir collect make");
    }
    let mut entries = match fs::read_dir(path) {
        Ok(entries) => entries.filter_map(Result::ok).peekable(),
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(MAKERS),
    };
    if entries.peek().is_none() {
        return Some(
            "the folder is empty; weir collect, weir import and weir meter make an archive in it with --archive",
        );
    }
    let is_of_nfcapd = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("nfcapd.");
    let hint = "it has files of nfcapd: weir nfdump -R reads them, and weir import takes them into an archive";
    Some(if entries.any(is_of_nfcapd) { hint } else { MAKERS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_action_and_its_file() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let error = Action::AppendTail.failed(Path::new("a/7.tail"))(full());
        assert_eq!(error.to_string(), "cannot append to tail 'a/7.tail'");
        assert!(error.may_pass() && error.is_full_disk() && error.hint().is_none());
        let error = Action::OpenSegment.failed(Path::new("x"))(io::ErrorKind::NotFound.into());
        assert!(!error.may_pass() && !error.is_full_disk());
        assert!(!Action::WriteSummary.failed(Path::new("x"))(full()).may_pass());
    }

    #[test]
    fn a_bad_sector_is_of_the_file_and_a_lack_is_of_who_reads() {
        let of_system = |errno: Errno| Action::OpenSegment.failed(Path::new("x"))(errno.into());
        let of_parquet = |errno: Errno| ArchiveError::ReadSegment {
            path: PathBuf::from("x"),
            source: ParquetError::from(io::Error::from(errno)),
        };
        for errno in [Errno::EIO, Errno::EBADMSG, Errno::ELOOP, Errno::ENOENT] {
            assert!(of_system(errno).is_unreadable() && of_parquet(errno).is_unreadable(), "{errno}");
        }
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EACCES] {
            assert!(!of_system(errno).is_unreadable() && !of_parquet(errno).is_unreadable(), "{errno}");
        }
        let damaged = ArchiveError::DamagedSegment { path: PathBuf::from("x"), part: "footer".to_owned() };
        assert!(damaged.is_unreadable() && damaged.is_damage());
        assert!(!of_system(Errno::EIO).is_damage(), "another look may succeed");
        assert!(!ArchiveError::ThreadPanicked { name: "x" }.is_unreadable());
    }

    #[test]
    fn a_remedy_is_no_part_of_the_message() {
        let error = ArchiveError::DamagedTail { path: PathBuf::from("x"), octets: 3 };
        assert!(error.hint().is_some_and(|hint| hint.contains("--repair") && !hint.contains('\n')));
        assert_eq!(error.to_string(), "tail 'x' is damaged: 3 octets are no frames, or follow such");
    }
}
