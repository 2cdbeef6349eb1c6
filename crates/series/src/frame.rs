//! Steps as they are written: a file for each block, which grows at its end by one frame for each step.
//!
//! ```text
//! file   "weirstep" version:u32 step_secs:u32 frame*
//! frame  "STP2" head_len:u32 body_len:u64 head_crc:u32 body_crc:u32 head body
//! head   time_secs:i64 known:u32 groups:u16 (family:u16 rows:u32 columns:u8 sketches:u8 offset:u64 len:u64)*
//! body   group*
//! group  first_id:u32 for each chunk, then offset:u32 of each chunk of each column, the numbers of series first and the
//!        sketches last; then the chunks
//! ```
//!
//! Frames of the first version begin with "STEP" and have no sketches, nor their number; a file may have frames of both.
//!
//! Everything has the lowest octet first. The rows of a group are in the order of the numbers of their series, so one
//! series is found in a frame by its chunk, without reading the rest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::column::{CHUNK, Fields, pack_chunk, pack_sketches, unpack_chunk, unpack_sketches};
use crate::{FamilyId, FamilyRows};

const FILE_MAGIC: &[u8; 8] = b"weirstep";
const FRAME_MAGIC: &[u8; 4] = b"STP2";
/// Frames without sketches.
const FIRST_FRAME_MAGIC: &[u8; 4] = b"STEP";
/// Octets of a group in the head of a frame.
const ENTRY_LEN: usize = 24;
const VERSION: u32 = 1;
/// Octets before the first frame.
pub(crate) const FILE_HEAD_LEN: u64 = 16;
/// Octets before the head of a frame.
const PRELUDE_LEN: usize = 24;
/// Longest head that is believed: 65,535 groups.
const HEAD_LEN_MAX: usize = 1 << 21;

/// The octets that a file of steps begins with.
pub(crate) fn file_head(step_secs: u32) -> Vec<u8> {
    [&FILE_MAGIC[..], &VERSION.to_le_bytes(), &step_secs.to_le_bytes()].concat()
}

/// Appends a frame.
pub(crate) fn encode(time_secs: i64, known: u32, groups: &[(FamilyId, FamilyRows)], out: &mut Vec<u8>) {
    let start = out.len();
    let head_len = 14 + groups.len() * ENTRY_LEN;
    out.resize(start + PRELUDE_LEN, 0);
    out.extend_from_slice(&time_secs.to_le_bytes());
    out.extend_from_slice(&known.to_le_bytes());
    out.extend_from_slice(&(groups.len() as u16).to_le_bytes());
    let directory = out.len();
    let body = start + PRELUDE_LEN + head_len;
    out.resize(body, 0);
    for (at, (family, rows)) in groups.iter().enumerate() {
        let from = out.len();
        encode_group(rows, out);
        let entry = [
            &family.0.to_le_bytes()[..],
            &(rows.ids.len() as u32).to_le_bytes(),
            &[rows.columns.len() as u8, rows.sketches.len() as u8],
            &((from - body) as u64).to_le_bytes(),
            &((out.len() - from) as u64).to_le_bytes(),
        ];
        out[directory + at * ENTRY_LEN..][..ENTRY_LEN].copy_from_slice(&entry.concat());
    }
    let prelude = [
        &FRAME_MAGIC[..],
        &(head_len as u32).to_le_bytes(),
        &((out.len() - body) as u64).to_le_bytes(),
        &crc32c::crc32c(&out[start + PRELUDE_LEN..body]).to_le_bytes(),
        &crc32c::crc32c(&out[body..]).to_le_bytes(),
    ];
    out[start..start + PRELUDE_LEN].copy_from_slice(&prelude.concat());
}

fn encode_group(rows: &FamilyRows, out: &mut Vec<u8>) {
    let start = out.len();
    for chunk in rows.ids.chunks(CHUNK) {
        out.extend_from_slice(&chunk[0].to_le_bytes());
    }
    let chunks = rows.ids.len().div_ceil(CHUNK);
    let offsets = out.len();
    out.resize(offsets + 4 * chunks * (1 + rows.columns.len() + rows.sketches.len()), 0);
    let mut at = offsets;
    let mut place = |out: &mut Vec<u8>| {
        let offset = (out.len() - start) as u32;
        out[at..at + 4].copy_from_slice(&offset.to_le_bytes());
        at += 4;
    };
    let mut wide = [0_u64; CHUNK];
    for chunk in rows.ids.chunks(CHUNK) {
        place(out);
        for (wide, &id) in wide.iter_mut().zip(chunk) {
            *wide = u64::from(id);
        }
        pack_chunk(&wide[..chunk.len()], out);
    }
    for chunk in rows.columns.iter().flat_map(|column| column.chunks(CHUNK)) {
        place(out);
        pack_chunk(chunk, out);
    }
    for chunk in rows.sketches.iter().flat_map(|column| column.chunks(CHUNK)) {
        place(out);
        pack_sketches(chunk, out);
    }
}

/// A frame in a file, without its rows.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Where it begins in its file.
    pub(crate) offset: u64,
    pub(crate) time_secs: i64,
    /// How many finest steps are in it.
    pub(crate) known: u32,
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
}

/// The frames of a file.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) frames: Vec<Frame>,
    /// Octets of the file up to the end of the last whole frame.
    pub(crate) octets: u64,
    /// Frames whose rows have a wrong checksum. They are left out.
    pub(crate) damaged: u64,
}

/// Finds the frames of a file up to the first one that is not whole. With `verify` the checksums of rows are looked at,
/// too.
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
    let mut found = Frames { octets: FILE_HEAD_LEN, ..Frames::default() };
    while let Some((frame, body, octets)) = frame_at(file, found.octets, len)? {
        let (body, body_len, checksum) = body;
        if verify && !is_whole(file, body, body_len, checksum)? {
            found.damaged += 1;
        } else {
            found.frames.push(frame);
        }
        found.octets += octets;
    }
    Ok(found)
}

/// A frame, its body (offset, length and checksum) and its length.
type FrameAt = (Frame, (u64, u64, u32), u64);

/// The frame at an offset; `None` when there is no whole one.
fn frame_at(file: &File, at: u64, len: u64) -> io::Result<Option<FrameAt>> {
    let mut prelude = [0; PRELUDE_LEN];
    if len.saturating_sub(at) < PRELUDE_LEN as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut prelude, at)?;
    let parsed = |mut fields: Fields<'_>| {
        let magic = fields.octets(4)?;
        (magic == FRAME_MAGIC || magic == FIRST_FRAME_MAGIC).then_some(())?;
        Some((magic == FRAME_MAGIC, fields.u32()? as usize, fields.u64()?, fields.u32()?, fields.u32()?))
    };
    let Some((has_sketches, head_len, body_len, head_crc, body_crc)) = parsed(Fields(&prelude)) else {
        return Ok(None);
    };
    let body = at + (PRELUDE_LEN + head_len) as u64;
    if head_len > HEAD_LEN_MAX || body.checked_add(body_len).is_none_or(|end| end > len) {
        return Ok(None);
    }
    let mut head = vec![0; head_len];
    file.read_exact_at(&mut head, at + PRELUDE_LEN as u64)?;
    if crc32c::crc32c(&head) != head_crc {
        return Ok(None);
    }
    let frame = parsed_head(&head, has_sketches, at, (body, body_len));
    Ok(frame.map(|frame| (frame, (body, body_len, body_crc), (PRELUDE_LEN + head_len) as u64 + body_len)))
}

fn is_whole(file: &File, from: u64, len: u64, checksum: u32) -> io::Result<bool> {
    let mut buffer = vec![0; len.min(1 << 20) as usize];
    let (mut at, mut found) = (0, 0);
    while at < len {
        let some = buffer.len().min((len - at) as usize);
        file.read_exact_at(&mut buffer[..some], from + at)?;
        found = crc32c::crc32c_append(found, &buffer[..some]);
        at += some as u64;
    }
    Ok(found == checksum)
}

fn parsed_head(head: &[u8], has_sketches: bool, at: u64, (body, body_len): (u64, u64)) -> Option<Frame> {
    let mut fields = Fields(head);
    let (time_secs, known, count) = (fields.u64()? as i64, fields.u32()?, fields.u16()?);
    let mut groups = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (family, rows, columns) = (FamilyId(fields.u16()?), fields.u32()?, fields.u8()?);
        let sketches = if has_sketches { fields.u8()? } else { 0 };
        let (offset, len) = (fields.u64()?, fields.u64()?);
        (offset.checked_add(len)? <= body_len).then_some(())?;
        groups.push(Group { family, rows, columns, sketches, offset: body + offset, len });
    }
    Some(Frame { offset: at, time_secs, known, groups })
}

impl Frame {
    /// The rows of a family.
    pub(crate) fn group(&self, family: FamilyId) -> Option<Group> {
        self.groups.iter().copied().find(|group| group.family == family)
    }
}

impl Group {
    /// The largest number of a series in it.
    pub(crate) fn last_id(&self, file: &File) -> io::Result<u32> {
        let chunks = u64::from(self.rows).div_ceil(CHUNK as u64);
        let mut first_of_last = [0; 4];
        if chunks == 0 {
            return Ok(0);
        }
        file.read_exact_at(&mut first_of_last, self.offset + (chunks - 1) * 4)?;
        let rows = self.rows(file, u32::from_le_bytes(first_of_last), u32::MAX)?;
        Ok(rows.ids.last().copied().unwrap_or(0))
    }

    /// Reads the rows of the series `first..=last`.
    pub(crate) fn rows(&self, file: &File, first: u32, last: u32) -> io::Result<FamilyRows> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a step is damaged");
        let chunks = (self.rows as usize).div_ceil(CHUNK);
        let (columns, sketches) = (usize::from(self.columns), usize::from(self.sketches));
        let mut directory = vec![0; 4 * chunks * (2 + columns + sketches)];
        if directory.len() as u64 > self.len {
            return Err(damaged());
        }
        file.read_exact_at(&mut directory, self.offset)?;
        let words: Vec<u32> =
            directory.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        let (first_ids, offsets) = words.split_at(chunks);
        let from = first_ids.partition_point(|&id| id <= first).saturating_sub(1);
        let until = first_ids.partition_point(|&id| id <= last);
        let mut found = FamilyRows::new(columns);
        if from >= until {
            return Ok(found);
        }
        let count = |chunk: usize| (self.rows as usize - chunk * CHUNK).min(CHUNK);
        // the chunks of a column that have the series
        let octets = |which: usize| {
            let start = u64::from(offsets[which * chunks + from]);
            let end = offsets.get(which * chunks + until).map_or(self.len, |&offset| u64::from(offset));
            let mut octets = vec![0; end.checked_sub(start).filter(|_| end <= self.len).ok_or_else(damaged)? as usize];
            file.read_exact_at(&mut octets, self.offset + start)?;
            Ok::<_, io::Error>(octets)
        };
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
