//! Tail files: the one that is written, and reading any of them, whole or column by column.

mod frames;
mod stream;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use weir_flow::Table;

use crate::frame::{EncodedFrame, FrameHeader, HEADER_OCTETS, Octets, Scan, TailEnd, TailMark, decode, scan, streams};
use crate::layout::Layout;
use crate::position::TailNumber;
use crate::{Action, ArchiveError, Position, disk, folder};

pub use frames::TailFrame;
pub(crate) use frames::TailFrames;
pub(crate) use stream::Stream;

/// Most pieces of one vectored write; the kernel takes no more (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// Most frames in a row that frames without payload take the place of. More are missing only when the file was another.
const LOST_FRAMES_MAX: u64 = 1 << 24;

/// The tail that is written.
#[derive(Debug)]
pub(crate) struct LiveTail {
    pub(crate) number: TailNumber,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<File>,
    /// What its frames have in common.
    mark: TailMark,
    /// When its first frame came.
    pub(crate) begun: Instant,
    pub(crate) octets: u64,
    pub(crate) rows: u64,
    /// Position of its first frame; `None` while there is none.
    pub(crate) first: Option<Position>,
    pub(crate) last: Position,
    /// True when the end could not be cut back after a failed write: nothing may be appended any more.
    broken: bool,
}

impl LiveTail {
    /// Creates the file of a tail that is not there yet.
    pub(crate) fn create(layout: &Layout, number: TailNumber) -> Result<Self, ArchiveError> {
        let path = layout.tail(number);
        let file = disk::create_to_append(&path).map_err(Action::CreateTail.failed(&path))?;
        Ok(Self {
            number,
            path,
            file: Arc::new(file),
            mark: TailMark::random(number),
            begun: Instant::now(),
            octets: 0,
            rows: 0,
            first: None,
            last: Position::ZERO,
            broken: false,
        })
    }

    /// True when nothing may be appended any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes a frame, all of it or nothing: after an error the file is cut back to its last whole frame, or left
    /// alone from then on when even that fails. Either way its readers never take the piece for a frame.
    pub(crate) fn append(&mut self, frame: &EncodedFrame) -> Result<(), ArchiveError> {
        if let Err(source) = write_frame(&self.file, frame, self.mark) {
            self.broken = disk::set_length(&self.file, &self.path, self.octets).is_err();
            return Err(Action::AppendTail.failed(&self.path)(source));
        }
        disk::written(&self.path);
        let header = &frame.header;
        self.octets += header.frame_octets();
        self.rows += u64::from(header.flows_rows);
        self.first = self.first.or(Some(header.position));
        self.last = header.position;
        Ok(())
    }
}

fn write_frame(mut file: &File, frame: &EncodedFrame, mark: TailMark) -> io::Result<()> {
    let header = frame.header_octets(mark);
    let pieces = frame.payload.iter().map(|buffer| IoSlice::new(buffer));
    let pieces = std::iter::once(IoSlice::new(&header)).chain(pieces);
    let mut slices: Vec<_> = pieces.filter(|piece| !piece.is_empty()).collect();
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        let count = left.len().min(SLICES_MAX);
        match file.write_vectored(&left[..count]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A tail that is complete and waits for being sealed.
#[derive(Debug, Clone)]
pub(crate) struct FinishedTail {
    pub(crate) number: TailNumber,
    pub(crate) path: PathBuf,
    /// Position of its last frame; `None` when all its frames were lost to damage.
    pub(crate) last: Option<Position>,
    pub(crate) rows: u64,
    pub(crate) octets: u64,
    /// How often sealing it has failed.
    pub(crate) failures: u32,
}

/// A tail that was changed after it was written. Its whole frames, before the damage and behind it, are kept as if
/// nothing had happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TailDamage {
    /// The whole file, set aside for people to look at.
    pub path: PathBuf,
    /// Octets of the file that are in no whole frame.
    pub octets_lost: u64,
    /// Deliveries that are lost, as far as the positions of those around them show.
    pub frames_lost: u64,
    /// Flows in them, as far as their headers can be read.
    pub rows_lost: u64,
    /// Whole frames found behind the first damage.
    pub frames_behind: u64,
    /// Flows in these frames.
    pub rows_behind: u64,
    /// Position of the last frame before the damage, if there is one.
    pub kept: Option<Position>,
}

/// What a tail holds up to its last whole frame.
#[derive(Debug)]
pub(crate) struct TailContents {
    path: PathBuf,
    octets: Buffer,
    pub(crate) scan: Scan,
}

impl TailContents {
    /// Opens and reads a tail.
    pub(crate) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(Action::ReadTail.failed(path))?;
        Self::read(&file, path)
    }

    /// Reads a tail that is open, and may have been removed since.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Self, ArchiveError> {
        let octets = read_octets(file).map_err(Action::ReadTail.failed(path))?;
        Ok(Self::of(octets, path))
    }

    fn of(octets: Buffer, path: &Path) -> Self {
        let scan = scan(&octets[..], number_of(path));
        Self { path: path.to_owned(), octets, scan }
    }

    /// Octets of the file when it was read.
    pub(crate) fn octets(&self) -> u64 {
        self.octets.len() as u64
    }

    /// Octets that are in no whole frame.
    pub(crate) fn octets_lost(&self) -> u64 {
        self.octets() - self.scan.whole_octets as u64 - self.scan.behind.octets()
    }

    /// Writes every whole frame, and one without payload for each position from the one after `before` through `through`
    /// that has none. Without `before` nothing is written for what is missing in front. Returns how many of these were
    /// written.
    fn write_whole(&self, before: Option<Position>, through: Position, out: &mut impl Write) -> io::Result<u64> {
        let Scan { frames, behind, mark, .. } = &self.scan;
        let mark = mark.unwrap_or_default();
        let mut next = before.map(Position::next);
        let mut lost = 0;
        let mut fill = |end: Position, out: &mut dyn Write| -> io::Result<()> {
            let mut at = next.unwrap_or(end);
            if end.get().saturating_sub(at.get()) > LOST_FRAMES_MAX {
                at = end;
            }
            while at < end {
                out.write_all(&FrameHeader::lost(at, mark).to_octets())?;
                lost += 1;
                at = at.next();
            }
            next = next.max(Some(end.next()));
            Ok(())
        };
        for frame in frames.iter().chain(&behind.frames) {
            fill(frame.header.position, out)?;
            out.write_all(self.octets.get(frame.at()..frame.end()).unwrap_or_default())?;
        }
        fill(through.next(), out)?;
        Ok(lost)
    }

    /// The batches of every table, in the order of frames. Columns lie where they were read.
    pub(crate) fn batches(&self) -> Result<[Vec<RecordBatch>; Table::ALL.len()], ArchiveError> {
        let mut tables = [const { Vec::new() }; Table::ALL.len()];
        for frame in &self.scan.frames {
            let decoded = decode(frame, &self.octets);
            let decoded = decoded.map_err(|source| ArchiveError::DecodeFrame { path: self.path.clone(), source })?;
            for (table, batch) in decoded {
                tables[table as usize].push(batch);
            }
        }
        Ok(tables)
    }
}

/// A finished tail of which only what is asked for is in memory.
#[derive(Debug)]
pub(crate) struct TailFile {
    path: PathBuf,
    file: File,
    length: usize,
    /// Why a look for frames came to an end too early.
    failure: RefCell<Option<io::Error>>,
}

/// Octets read at a time for a checksum.
const CHECK_OCTETS: usize = 256 << 10;

impl TailFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let failed = Action::ReadTail.failed(path);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len() as usize;
        Ok(Self { path: path.to_owned(), file, length, failure: RefCell::new(None) })
    }

    /// Octets of the file when it was opened.
    pub(crate) fn octets(&self) -> u64 {
        self.length as u64
    }

    /// Finds the whole frames, checksums and all.
    pub(crate) fn scan(&self) -> Result<Scan, ArchiveError> {
        let scan = scan(self, number_of(&self.path));
        match self.failure.take() {
            Some(source) => Err(Action::ReadTail.failed(&self.path)(source)),
            None => Ok(scan),
        }
    }

    /// The streams of all frames, by table.
    pub(crate) fn streams(&self, scan: &Scan) -> Result<[Vec<Stream>; Table::ALL.len()], ArchiveError> {
        let mut tables: [Vec<Stream>; Table::ALL.len()] = Default::default();
        for frame in &scan.frames {
            let heading_at = |at: usize| -> Result<_, ArrowError> {
                let mut heading = [0; HEADER_OCTETS];
                self.file.read_exact_at(&mut heading, at as u64)?;
                Ok(heading)
            };
            for (table, at, _) in streams(frame, heading_at).map_err(|source| self.failed(source))? {
                let stream = Stream::open(&self.file, at as u64, table).map_err(|source| self.failed(source))?;
                tables[table as usize].push(stream);
            }
        }
        Ok(tables)
    }

    /// Reads a column of a stream; `None` when the stream does not have it.
    pub(crate) fn column(&self, stream: &Stream, name: &str) -> Result<Option<ArrayRef>, ArchiveError> {
        stream.column(&self.file, name).map_err(|source| self.failed(source))
    }

    /// An error of decoding a frame.
    pub(crate) fn failed(&self, source: ArrowError) -> ArchiveError {
        ArchiveError::DecodeFrame { path: self.path.clone(), source }
    }

    /// Reads, and keeps the error for later when that fails.
    fn read(&self, at: usize, octets: &mut [u8]) -> Option<()> {
        self.file.read_exact_at(octets, at as u64).map_err(|error| *self.failure.borrow_mut() = Some(error)).ok()
    }
}

impl Octets for TailFile {
    fn length(&self) -> usize {
        self.length
    }

    fn header_at(&self, at: usize) -> impl AsRef<[u8]> {
        let mut header = vec![0; HEADER_OCTETS.min(self.length.saturating_sub(at))];
        self.read(at, &mut header);
        header
    }

    fn crc_at(&self, at: usize, length: usize) -> Option<u32> {
        let end = at.checked_add(length).filter(|end| *end <= self.length)?;
        let (mut crc, mut at) = (0, at);
        let mut octets = vec![0; CHECK_OCTETS.min(length)];
        while at < end {
            let piece = octets.get_mut(..CHECK_OCTETS.min(end - at))?;
            self.read(at, piece)?;
            crc = crc32c::crc32c_append(crc, piece);
            at += piece.len();
        }
        Some(crc)
    }
}

/// The position of the first frame of a tail, as far as its header can be read.
pub(crate) fn first_position(path: &Path) -> Option<Position> {
    let mut header = [0; HEADER_OCTETS];
    File::open(path).and_then(|file| file.read_exact_at(&mut header, 0)).ok()?;
    let header = FrameHeader::parse(&header)?;
    header.mark.may_be_of(number_of(path)).then_some(header.position)
}

/// The number in the name of a tail; no tail has the number 0.
fn number_of(path: &Path) -> TailNumber {
    path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).unwrap_or_default()
}

/// Reads what a file has now. Its writer may append meanwhile, or cut back the piece of a frame.
fn read_octets(file: &File) -> io::Result<Buffer> {
    let length = file.metadata()?.len() as usize;
    let mut octets = MutableBuffer::from_len_zeroed(length);
    let mut read = 0;
    while read < length {
        match file.read_at(&mut octets.as_slice_mut()[read..], read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    octets.truncate(read);
    Ok(octets.into())
}

/// Keeps a damaged tail under another name and puts its whole frames in its place. Returns the last position of the tail.
///
/// Frames without payload take the place of those that are lost: in front after the position `before`, when that is
/// known; at the end through the position `through`, or else the last that was found.
///
/// The damaged file gets its second name before the new one takes its first, so a crash in between loses nothing and
/// the next writer does the same again.
pub(crate) fn set_aside(
    layout: &Layout,
    number: TailNumber,
    contents: &TailContents,
    (before, through): (Option<Position>, Option<Position>),
) -> Result<(TailDamage, Position), ArchiveError> {
    let behind = &contents.scan.behind;
    let kept = contents.scan.last();
    let whole = behind.frames.last().map(|frame| frame.header.position).or(kept);
    let last = whole.max(through.or(behind.last)).unwrap_or_default();
    let (path, aside) = (layout.tail(number), layout.damaged(number, last));
    match disk::link(&path, &aside) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => other.map_err(Action::SetAside.failed(&path))?,
    }
    let frames_lost = replace(layout, number, contents, (before, last))?;
    let damage = TailDamage {
        path: aside,
        octets_lost: contents.octets_lost(),
        frames_lost,
        rows_lost: behind.rows_lost,
        frames_behind: behind.frames.len() as u64,
        rows_behind: behind.rows(),
        kept,
    };
    Ok((damage, last))
}

/// Puts a new file of its whole frames in the place of a tail; see [`set_aside`] for what is written for those that are
/// lost. Returns how many of these there are.
pub(crate) fn replace(
    layout: &Layout,
    number: TailNumber,
    contents: &TailContents,
    (before, last): (Option<Position>, Position),
) -> Result<u64, ArchiveError> {
    let path = layout.tail(number);
    let rewritten = layout.tmp().join(format!("{number:016}.tail"));
    let replaced: io::Result<u64> = (|| {
        let mut file = disk::create(&rewritten)?;
        let frames_lost = contents.write_whole(before, last, &mut file)?;
        disk::written(&rewritten);
        disk::sync(&file, &rewritten)?;
        disk::rename(&rewritten, &path)?;
        Ok(frames_lost)
    })();
    // a piece of it must not hold the last room that there is
    let replaced = replaced.inspect_err(|_| drop(disk::remove(&rewritten)));
    let frames_lost = replaced.map_err(Action::SetAside.failed(&path))?;
    folder::sync(&layout.tails())?;
    Ok(frames_lost)
}

/// Writes a finished tail to a new file, which takes its place: the only way to make durable what a sync has failed for,
/// as the kernel may have dropped what it could not write and says that all is well when it is asked again. What the
/// kernel gives back no more is damage like any other, and the file is set aside then. Returns it, and how many flows are
/// left.
pub(crate) fn write_again(layout: &Layout, tail: &FinishedTail) -> Result<Option<(TailDamage, u64)>, ArchiveError> {
    let contents = TailContents::open(&tail.path)?;
    let last = contents.scan.last();
    // what is torn at the end was never a frame
    if matches!(contents.scan.end, TailEnd::Clean | TailEnd::Torn) && last == tail.last {
        replace(layout, tail.number, &contents, (None, last.unwrap_or_default()))?;
        return Ok(None);
    }
    let rows = contents.scan.rows() + contents.scan.behind.rows();
    let (damage, _) = set_aside(layout, tail.number, &contents, (None, tail.last))?;
    Ok(Some((damage, rows)))
}
