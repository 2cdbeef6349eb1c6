//! Everything that can fail, one variant per action.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use weir_flow::Table;

/// Why an archive could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A folder that is no archive, and for writing not empty either.
    #[error("'{}' is not a weir archive", path.display())]
    NotAnArchive {
        /// The folder.
        path: PathBuf,
    },
    /// An archive of a version that this program does not know.
    #[error("archive '{}' has format '{found}', but this program knows '{known}'", path.display())]
    UnknownVersion {
        /// The file that tells the version.
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
        /// Process that holds it, as far as it said.
        holder: Option<u32>,
    },
    /// The lock file could not be opened or locked.
    #[error("cannot lock '{}'", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file that marks a folder as an archive could not be read or written.
    #[error("cannot read or write the archive marker '{}'", path.display())]
    Marker {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A folder could not be created.
    #[error("cannot create folder '{}'", path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A folder could not be listed.
    #[error("cannot list folder '{}'", path.display())]
    ListFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The entries of a folder could not be synced to the disk.
    #[error("cannot sync folder '{}'", path.display())]
    SyncFolder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A tail file could not be created.
    #[error("cannot create tail '{}'", path.display())]
    CreateTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A tail file could not be opened or read.
    #[error("cannot read tail '{}'", path.display())]
    ReadTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A tail was changed after it was written. Only the end of the last one can be torn, by a crash.
    #[error(
        "tail '{}' is damaged: {octets} octets are no frames, or behind such\nhint: `weir archive check --repair` \
         keeps what lies before them, and sets the file aside",
        path.display()
    )]
    DamagedTail {
        /// The file.
        path: PathBuf,
        /// Octets from the damage on.
        octets: u64,
    },
    /// A frame could not be appended. Nothing of it was kept, and the next append may succeed.
    #[error("cannot append to tail '{}'", path.display())]
    AppendTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The torn end of a tail could not be cut.
    #[error("cannot cut tail '{}'", path.display())]
    CutTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A tail could not be synced. What was appended since the last durable position may or may not survive a crash of
    /// the machine, and asking again would prove nothing, so the writer takes nothing more.
    #[error("cannot sync tail '{}' to the disk; the archive must be opened again", path.display())]
    SyncTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// A tail that was sealed could not be removed.
    #[error("cannot remove tail '{}'", path.display())]
    RemoveTail {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A damaged tail could not be set aside.
    #[error("cannot set the damaged tail '{}' aside", path.display())]
    SetAside {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file left by a crash could not be removed.
    #[error("cannot remove the leftover '{}'", path.display())]
    RemoveLeftover {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Flows without the column `received`, by which segments are partitioned.
    #[error("flows without the column 'received' cannot be kept")]
    NoReceived,
    /// A delivery that does not fit into a frame.
    #[error("delivery of {octets} octets exceeds the limit of {octets_max}")]
    FrameTooLarge {
        /// Octets of the frame.
        octets: u64,
        /// The limit, `frame_octets_max`.
        octets_max: u64,
    },
    /// Columns that could not be put into a frame.
    #[error("cannot encode a delivery")]
    EncodeFrame(#[source] ArrowError),
    /// A frame whose checksum is right but whose columns cannot be read.
    #[error("cannot decode a frame of tail '{}'", path.display())]
    DecodeFrame {
        /// The file.
        path: PathBuf,
        /// What Arrow said.
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
        /// What Arrow said.
        #[source]
        source: ArrowError,
    },
    /// A segment could not be encoded or written.
    #[error("cannot write segment '{}'", path.display())]
    WriteSegment {
        /// The temporary file.
        path: PathBuf,
        /// What the Parquet writer said.
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
        /// The limit, [`REWRITE_ROWS_MAX`](crate::segment::REWRITE_ROWS_MAX).
        rows_max: u64,
    },
    /// A segment could not be created or synced.
    #[error("cannot create segment '{}'", path.display())]
    CreateSegment {
        /// The temporary file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A segment could not be moved into its place.
    #[error("cannot move segment to '{}'", path.display())]
    PlaceSegment {
        /// Its place.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A segment could not be opened.
    #[error("cannot open segment '{}'", path.display())]
    OpenSegment {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A segment could not be read.
    #[error("cannot read segment '{}'", path.display())]
    ReadSegment {
        /// The file.
        path: PathBuf,
        /// What the Parquet reader said.
        #[source]
        source: ParquetError,
    },

    /// A segment that is covered or has expired could not be removed.
    #[error("cannot remove segment '{}'", path.display())]
    RemoveSegment {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file of the folder of readers could not be read, written or locked.
    #[error("cannot use the lease '{}'", path.display())]
    Lease {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
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
    /// A list of exported files could not be read or written.
    #[error("cannot read or write the list '{}'", path.display())]
    ExportList {
        /// The list.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A segment could not be copied.
    #[error("cannot copy segment '{}' to '{}'", path.display(), to.display())]
    CopySegment {
        /// The segment.
        path: PathBuf,
        /// Its copy.
        to: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The free space of a file system could not be asked for.
    #[error("cannot tell the free space at '{}'", path.display())]
    FreeSpace {
        /// A folder on it.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
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
    #[error(
        "summary '{}' is damaged: {part}\nhint: `weir archive check --repair` sets it aside; what it summed up is missing \
         from approximate answers then",
        path.display()
    )]
    DamagedSummary {
        /// The file.
        path: PathBuf,
        /// The part, and what is wrong with it.
        part: String,
    },
    /// A summary could not be opened or read.
    #[error("cannot read summary '{}'", path.display())]
    ReadSummary {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A summary could not be written, so its segment stays.
    #[error("cannot write summary '{}'", path.display())]
    WriteSummary {
        /// Its place.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The listing of tails changed whenever it was read.
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
        /// What the system said.
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

impl ArchiveError {
    /// Whether the same call may succeed later: a full disk may have room again; what else can fail will fail again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::AppendTail { .. } | Self::CreateTail { .. })
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
