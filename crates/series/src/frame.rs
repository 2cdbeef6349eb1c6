//! Steps as they are written: a file for each block, which grows at its end by one frame for each step.
//!
//! ```text
//! file   "weirstep" version:u32 step_secs:u32 frame*
//! frame  "STP3" head_len:u32 body_len:u64 head_crc:u32 body_crc:u32 head body
//! head   time_secs:i64 known:u32 continuations:u32 groups:u16
//!        (family:u16 rows:u32 columns:u8 sketches:u8 offset:u64 len:u64 directory_crc:u32)*
//! body   group*
//! group  directory, then the chunks
//! directory  first_id:u32 for each chunk of rows, then offset:u32 of each chunk of each column, the numbers of series first
//!            and the sketches last, then crc:u32 of each of these chunks
//! ```
//!
//! Everything has the lowest octet first. The rows of a group are in the order of the numbers of their series, so one
//! series is found in a frame by its chunk, without reading the rest. The checksum of the head includes what is before it
//! and the checksum of the body; that of a directory or a chunk is verified whenever it is read.
//!
//! Two earlier versions are read, also in the same file. Frames that begin with "STP2" have no checksums of directories and
//! chunks, and that of their head is of the head alone; those that begin with "STEP" have no sketches either, nor their
//! number. Of both the checksum of the whole body is verified when the file is opened.
//!
//! Behind a frame whose head is damaged the next one is searched for. When there is none, it counts as a write that was not
//! finished. A step may be written in parts, and a part without another one of its step would be a wrong number: the
//! continuations, how many frames of the file so far are of the same step as the frame before them, show whether the frame
//! that was lost was part of a step next to it. Earlier versions do not have that number, and neither of these is known then.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::column::{CHUNK, Fields, pack_chunk, pack_sketches, unpack_chunk, unpack_sketches};
use crate::{FamilyId, FamilyRows};

const FILE_MAGIC: &[u8; 8] = b"weirstep";
const FRAME_MAGIC: &[u8; 4] = b"STP3";
/// Frames without checksums of chunks.
const SECOND_FRAME_MAGIC: &[u8; 4] = b"STP2";
/// Frames without sketches, too.
const FIRST_FRAME_MAGIC: &[u8; 4] = b"STEP";
/// Octets of a group in the head of a frame.
const ENTRY_LEN: usize = 28;
const VERSION: u32 = 1;
/// Octets before the first frame.
pub(crate) const FILE_HEAD_LEN: u64 = 16;
/// Octets before the head of a frame.
const PRELUDE_LEN: usize = 24;
/// Longest head that is believed: 65,535 groups.
const HEAD_LEN_MAX: usize = 1 << 21;
/// Octets that are read at once where a whole body is verified, or a frame searched for.
const READ_LEN: usize = 1 << 20;

/// The octets that a file of steps begins with.
pub(crate) fn file_head(step_secs: u32) -> Vec<u8> {
    [&FILE_MAGIC[..], &VERSION.to_le_bytes(), &step_secs.to_le_bytes()].concat()
}

/// Appends a frame.
pub(crate) fn encode(
    time_secs: i64,
    known: u32,
    continuations: u32,
    groups: &[(FamilyId, FamilyRows)],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let head_len = 18 + groups.len() * ENTRY_LEN;
    out.resize(start + PRELUDE_LEN, 0);
    out.extend_from_slice(&time_secs.to_le_bytes());
    out.extend_from_slice(&known.to_le_bytes());
    out.extend_from_slice(&continuations.to_le_bytes());
    out.extend_from_slice(&(groups.len() as u16).to_le_bytes());
    let directory = out.len();
    let body = start + PRELUDE_LEN + head_len;
    out.resize(body, 0);
    for (at, (family, rows)) in groups.iter().enumerate() {
        let from = out.len();
        let directory_crc = encode_group(rows, out);
        let entry = [
            &family.0.to_le_bytes()[..],
            &(rows.ids.len() as u32).to_le_bytes(),
            &[rows.columns.len() as u8, rows.sketches.len() as u8],
            &((from - body) as u64).to_le_bytes(),
            &((out.len() - from) as u64).to_le_bytes(),
            &directory_crc.to_le_bytes(),
        ];
        out[directory + at * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&entry.concat());
    }
    let lengths = [&FRAME_MAGIC[..], &(head_len as u32).to_le_bytes(), &((out.len() - body) as u64).to_le_bytes()];
    out[start..start + 16].copy_from_slice(&lengths.concat());
    let body_crc = crc32c::crc32c(&out[body..]);
    out[start + 20..start + PRELUDE_LEN].copy_from_slice(&body_crc.to_le_bytes());
    let head_crc = head_checksum(&out[start..start + PRELUDE_LEN], &out[start + PRELUDE_LEN..body]);
    out[start + 16..start + 20].copy_from_slice(&head_crc.to_le_bytes());
}

/// The checksum of a head and of everything before it but the checksum itself.
fn head_checksum(prelude: &[u8], head: &[u8]) -> u32 {
    let lengths = crc32c::crc32c(&prelude[..16]);
    crc32c::crc32c_append(crc32c::crc32c_append(lengths, &prelude[20..PRELUDE_LEN]), head)
}

/// Appends a group, and returns the checksum of its directory.
fn encode_group(rows: &FamilyRows, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    for chunk in rows.ids.chunks(CHUNK) {
        out.extend_from_slice(&chunk[0].to_le_bytes());
    }
    let pieces = rows.ids.len().div_ceil(CHUNK) * (1 + rows.columns.len() + rows.sketches.len());
    let offsets = out.len();
    let checksums = offsets + 4 * pieces;
    out.resize(checksums + 4 * pieces, 0);
    let mut begins = Vec::with_capacity(pieces + 1);
    let mut wide = [0_u64; CHUNK];
    for chunk in rows.ids.chunks(CHUNK) {
        begins.push(out.len());
        for (wide, &id) in wide.iter_mut().zip(chunk) {
            *wide = u64::from(id);
        }
        pack_chunk(&wide[..chunk.len()], out);
    }
    for chunk in rows.columns.iter().flat_map(|column| column.chunks(CHUNK)) {
        begins.push(out.len());
        pack_chunk(chunk, out);
    }
    for chunk in rows.sketches.iter().flat_map(|column| column.chunks(CHUNK)) {
        begins.push(out.len());
        pack_sketches(chunk, out);
    }
    begins.push(out.len());
    for (piece, ends) in begins.windows(2).enumerate() {
        let offset = (ends[0] - start) as u32;
        let checksum = crc32c::crc32c(&out[ends[0]..ends[1]]);
        out[offsets + 4 * piece..][..4].copy_from_slice(&offset.to_le_bytes());
        out[checksums + 4 * piece..][..4].copy_from_slice(&checksum.to_le_bytes());
    }
    crc32c::crc32c(&out[start..checksums + 4 * pieces])
}

/// A frame in a file, without its rows.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Where it begins in its file.
    pub(crate) offset: u64,
    pub(crate) time_secs: i64,
    /// How many finest steps are in it.
    pub(crate) known: u32,
    /// How many frames of the file so far, this one included, are of the same step as the frame before them; `None` in
    /// earlier versions.
    continuations: Option<u32>,
    pub(crate) groups: Vec<Group>,
}

/// The rows of a family in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    pub(crate) family: FamilyId,
    pub(crate) rows: u32,
    pub(crate) columns: u8,
    pub(crate) sketches: u8,
    /// Where it is in the file.
    offset: u64,
    len: u64,
    /// The checksum of its directory; `None` in earlier versions, which have none of pieces.
    directory_crc: Option<u32>,
}

/// The frames of a file.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) frames: Vec<Frame>,
    /// Octets of the file up to the end of the last whole frame.
    pub(crate) octets: u64,
    /// Times, from one to another one which is included, in which each damaged frame was. These frames are left out.
    pub(crate) damaged: Vec<(i64, i64)>,
    /// The continuations of the last frame.
    pub(crate) continuations: Option<u32>,
}

/// Finds the frames of a file up to the last one that is whole. With `verify` the checksums of all rows are looked at, else of
/// frames only whose pieces have none.
pub(crate) fn frames(file: &File, step_secs: u32, verify: bool) -> io::Result<Frames> {
    let mut head = [0; FILE_HEAD_LEN as usize];
    let len = file.metadata()?.len();
    if len < FILE_HEAD_LEN {
        return Ok(Frames::default());
    }
    file.read_exact_at(&mut head, 0)?;
    if head[..] != file_head(step_secs)[..] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no file of steps of this length"));
    }
    let mut found = Frames { octets: FILE_HEAD_LEN, continuations: Some(0), ..Frames::default() };
    let (mut at, mut last_secs, mut is_hole) = (FILE_HEAD_LEN, i64::MIN, false);
    loop {
        let Some(next) = frame_at(file, at, len)? else {
            let Some(resumed) = next_frame(file, at + 1, len)? else { return Ok(found) };
            (at, is_hole) = (resumed, true);
            continue;
        };
        let time_secs = next.frame.time_secs;
        let continuations = next.frame.continuations;
        if is_hole {
            let is_apart = continuations.is_some() && continuations == found.continuations;
            let inside = i64::from(is_apart);
            found.damaged.push((last_secs.saturating_add(inside), time_secs.saturating_sub(inside)));
            is_hole = false;
        }
        (last_secs, found.continuations) = (time_secs, continuations);
        found.octets = at + next.octets;
        if (verify || !next.has_checksums) && !next.is_whole(file)? {
            found.damaged.push((time_secs, time_secs));
            if !next.has_checksums {
                // its length has no checksum, and it may be what is wrong
                let resumed = next_frame(file, next.body, len)?;
                found.octets = resumed.unwrap_or(found.octets);
            }
        } else {
            found.frames.push(next.frame);
        }
        at = found.octets;
    }
}

/// A frame as it was found.
#[derive(Debug)]
struct FoundFrame {
    frame: Frame,
    /// Where its body is, how long that is, and its checksum.
    body: u64,
    body_len: u64,
    body_crc: u32,
    /// Octets of all of it.
    octets: u64,
    /// Whether its pieces have checksums.
    has_checksums: bool,
}

/// The frame at an offset; `None` when there is no whole one.
fn frame_at(file: &File, at: u64, len: u64) -> io::Result<Option<FoundFrame>> {
    let mut prelude = [0; PRELUDE_LEN];
    if len.saturating_sub(at) < PRELUDE_LEN as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut prelude, at)?;
    let mut fields = Fields(&prelude);
    let mut parsed = || {
        let magic = fields.octets(4)?;
        let is_known = [FRAME_MAGIC, SECOND_FRAME_MAGIC, FIRST_FRAME_MAGIC].iter().any(|known| magic == &known[..]);
        is_known.then_some(())?;
        Some((magic, fields.u32()? as usize, fields.u64()?, fields.u32()?, fields.u32()?))
    };
    let Some((magic, head_len, body_len, head_crc, body_crc)) = parsed() else {
        return Ok(None);
    };
    let body = at + (PRELUDE_LEN + head_len) as u64;
    if head_len > HEAD_LEN_MAX || body.checked_add(body_len).is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut head = vec![0; head_len];
    file.read_exact_at(&mut head, at + PRELUDE_LEN as u64)?;
    let has_checksums = magic == FRAME_MAGIC;
    let found_crc = if has_checksums { head_checksum(&prelude, &head) } else { crc32c::crc32c(&head) };
    if found_crc != head_crc {
        return Ok(None);
    }
    let frame = parsed_head(&head, magic, at, (body, body_len));
    let octets = (PRELUDE_LEN + head_len) as u64 + body_len;
    Ok(frame.map(|frame| FoundFrame { frame, body, body_len, body_crc, octets, has_checksums }))
}

/// Where the next whole frame begins, at this offset or behind it.
fn next_frame(file: &File, from: u64, len: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; len.saturating_sub(from).min(READ_LEN as u64) as usize];
    let mut at = from;
    while at.saturating_add(PRELUDE_LEN as u64) <= len {
        let some = (len - at).min(READ_LEN as u64) as usize;
        file.read_exact_at(&mut buffer[..some], at)?;
        for (place, octets) in buffer[..some].windows(4).enumerate() {
            if octets.starts_with(b"ST") && frame_at(file, at + place as u64, len)?.is_some() {
                return Ok(Some(at + place as u64));
            }
        }
        // a frame may begin with the last three octets
        at += (some - 3) as u64;
    }
    Ok(None)
}

impl FoundFrame {
    fn is_whole(&self, file: &File) -> io::Result<bool> {
        let mut buffer = vec![0; self.body_len.min(READ_LEN as u64) as usize];
        let (mut at, mut found) = (0, 0);
        while at < self.body_len {
            let some = buffer.len().min((self.body_len - at) as usize);
            file.read_exact_at(&mut buffer[..some], self.body + at)?;
            found = crc32c::crc32c_append(found, &buffer[..some]);
            at += some as u64;
        }
        Ok(found == self.body_crc)
    }
}

fn parsed_head(head: &[u8], magic: &[u8], at: u64, (body, body_len): (u64, u64)) -> Option<Frame> {
    let mut fields = Fields(head);
    let (time_secs, known) = (fields.u64()? as i64, fields.u32()?);
    let continuations = if magic == FRAME_MAGIC { Some(fields.u32()?) } else { None };
    let count = fields.u16()?;
    let mut groups = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (family, rows, columns) = (FamilyId(fields.u16()?), fields.u32()?, fields.u8()?);
        let sketches = if magic == FIRST_FRAME_MAGIC { 0 } else { fields.u8()? };
        let (offset, len) = (fields.u64()?, fields.u64()?);
        let directory_crc = if magic == FRAME_MAGIC { Some(fields.u32()?) } else { None };
        (offset.checked_add(len)? <= body_len).then_some(())?;
        groups.push(Group { family, rows, columns, sketches, offset: body + offset, len, directory_crc });
    }
    Some(Frame { offset: at, time_secs, known, continuations, groups })
}

impl Frame {
    /// The rows of a family.
    pub(crate) fn group(&self, family: FamilyId) -> Option<Group> {
        self.groups.iter().copied().find(|group| group.family == family)
    }
}

/// Where the pieces of a group are.
#[derive(Debug)]
struct Directory {
    /// The first series of each chunk of rows.
    first_ids: Vec<u32>,
    /// Where each chunk of each column begins in the group.
    offsets: Vec<u32>,
    /// Their checksums; none in earlier versions.
    checksums: Vec<u32>,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a step is damaged")
}

impl Group {
    /// The largest number of a series in it.
    pub(crate) fn last_id(&self, file: &File) -> io::Result<u32> {
        let Some(first_of_last) = self.directory(file)?.first_ids.last().copied() else { return Ok(0) };
        let rows = self.rows(file, first_of_last, u32::MAX)?;
        Ok(rows.ids.last().copied().unwrap_or(0))
    }

    fn directory(&self, file: &File) -> io::Result<Directory> {
        let chunks = (self.rows as usize).div_ceil(CHUNK);
        let pieces = chunks * (1 + usize::from(self.columns) + usize::from(self.sketches));
        let words = chunks + if self.directory_crc.is_some() { 2 * pieces } else { pieces };
        if 4 * words as u64 > self.len {
            return Err(damaged());
        }
        let mut octets = vec![0; 4 * words];
        file.read_exact_at(&mut octets, self.offset)?;
        if self.directory_crc.is_some_and(|checksum| checksum != crc32c::crc32c(&octets)) {
            return Err(damaged());
        }
        let mut words = octets.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        let first_ids = words.by_ref().take(chunks).collect();
        let offsets = words.by_ref().take(pieces).collect();
        Ok(Directory { first_ids, offsets, checksums: words.collect() })
    }

    /// Reads pieces that are next to each other, and verifies each of them.
    fn pieces(&self, file: &File, directory: &Directory, pieces: std::ops::Range<usize>) -> io::Result<Vec<u8>> {
        let begin = |piece: usize| directory.offsets.get(piece).map_or(self.len, |&offset| u64::from(offset));
        let (from, until) = (begin(pieces.start), begin(pieces.end));
        let len = until.checked_sub(from).filter(|_| until <= self.len).ok_or_else(damaged)?;
        let mut octets = vec![0; len as usize];
        file.read_exact_at(&mut octets, self.offset + from)?;
        for piece in pieces {
            let Some(checksum) = directory.checksums.get(piece) else { continue };
            let bounds = begin(piece).checked_sub(from).zip(begin(piece + 1).checked_sub(from));
            let found = bounds.and_then(|(from, until)| octets.get(from as usize..until as usize));
            if found.is_none_or(|octets| crc32c::crc32c(octets) != *checksum) {
                return Err(damaged());
            }
        }
        Ok(octets)
    }

    /// Reads the rows of the series `first..=last`.
    pub(crate) fn rows(&self, file: &File, first: u32, last: u32) -> io::Result<FamilyRows> {
        let directory = self.directory(file)?;
        let first_ids = &directory.first_ids;
        let chunks = first_ids.len();
        let (columns, sketches) = (usize::from(self.columns), usize::from(self.sketches));
        let from = first_ids.partition_point(|&id| id <= first).saturating_sub(1);
        let until = first_ids.partition_point(|&id| id <= last);
        let mut found = FamilyRows::new(columns);
        if from >= until {
            return Ok(found);
        }
        let count = |chunk: usize| (self.rows as usize - chunk * CHUNK).min(CHUNK);
        // the chunks of a column that have the series
        let octets = |which: usize| self.pieces(file, &directory, which * chunks + from..which * chunks + until);
        let column = |which: usize, out: &mut Vec<u64>| {
            let octets = octets(which)?;
            let mut rest = &octets[..];
            (from..until).try_for_each(|chunk| unpack_chunk(&mut rest, count(chunk), out)).ok_or_else(damaged)
        };
        let mut ids = Vec::new();
        column(0, &mut ids)?;
        let lower = ids.partition_point(|&id| id < u64::from(first));
        let upper = ids.partition_point(|&id| id <= u64::from(last));
        for (which, values) in found.columns.iter_mut().enumerate() {
            column(which + 1, values)?;
            keep(values, lower..upper);
        }
        for which in 0..sketches {
            let octets = octets(1 + columns + which)?;
            let (mut rest, mut values) = (&octets[..], Vec::new());
            (from..until)
                .try_for_each(|chunk| unpack_sketches(&mut rest, count(chunk), &mut values))
                .ok_or_else(damaged)?;
            keep(&mut values, lower..upper);
            found.sketches.push(values);
        }
        keep(&mut ids, lower..upper);
        found.ids = ids.into_iter().map(|id| id as u32).collect();
        Ok(found)
    }
}

/// Leaves a range of the values.
fn keep<T>(values: &mut Vec<T>, range: std::ops::Range<usize>) {
    values.truncate(range.end);
    values.drain(..range.start);
}
