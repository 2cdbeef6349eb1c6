//! One file of waiting sets.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{CROSSED_OUT, Header, RECORD_HEADER_OCTETS, SEGMENT_HEADER, WAITS, write};
use crate::waiting::set::{SetKey, WaitingSet};

/// No segment grows to this length, so it need not be read to know that a file is none.
const FILE_OCTETS_MAX: u64 = 64 << 20;

/// A file, and how many of its sets still wait. It is removed when none does.
#[derive(Debug)]
pub(super) struct Segment {
    pub number: u64,
    path: PathBuf,
    file: File,
    /// Octets that are good.
    pub length: u64,
    /// Sets that wait.
    pub waiting: usize,
    /// When its newest set came, milliseconds since the epoch.
    pub newest_ms: i64,
    /// When its oldest came.
    pub oldest_ms: i64,
}

/// A set found in a segment: where, how long its record is, and what it waits for.
#[derive(Debug)]
pub(super) struct FoundSet {
    pub offset: u32,
    pub key: SetKey,
}

/// The name of a segment.
pub(super) fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016}.spool"))
}

/// The number of a segment's name.
pub(super) fn number_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".spool")?.parse().ok()
}

impl Segment {
    /// Begins a new one.
    pub(super) fn create(folder: &Path, number: u64) -> io::Result<Self> {
        let path = path_of(folder, number);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        let mut segment = Self::of(number, path, file);
        if let Err(error) = segment.append_octets(SEGMENT_HEADER) {
            segment.remove();
            return Err(error);
        }
        Ok(segment)
    }

    pub(super) fn of(number: u64, path: PathBuf, file: File) -> Self {
        Self { number, path, file, length: 0, waiting: 0, newest_ms: i64::MIN, oldest_ms: i64::MAX }
    }

    /// Reads one that a process before this one has left: the sets that wait in it, and how many places are damaged.
    /// `None` when it is no segment.
    pub(super) fn open(path: &Path, number: u64) -> io::Result<Option<(Self, Vec<FoundSet>, u64)>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() > FILE_OCTETS_MAX {
            return Ok(None);
        }
        let octets = fs::read(path)?;
        if octets.first_chunk::<16>() != Some(SEGMENT_HEADER) {
            return Ok(None);
        }
        let mut segment = Self::of(number, path.to_owned(), file);
        segment.length = octets.len() as u64;
        let (mut found, mut damaged, mut at) = (Vec::new(), 0, SEGMENT_HEADER.len());
        let mut framed = true;
        while at < octets.len() {
            let header = octets.get(at..).and_then(Header::read);
            let body = header.and_then(|header| octets.get(at + RECORD_HEADER_OCTETS..)?.get(..header.body_octets));
            let Some((header, body)) = header.zip(body) else {
                // the next record is found by its mark
                damaged += u64::from(std::mem::take(&mut framed));
                at = next_mark(&octets, at + 1);
                continue;
            };
            framed = true;
            match header.body(body) {
                Some((key, set)) if header.waits => {
                    segment.came(set.clock.received_ms);
                    found.push(FoundSet { offset: at as u32, key });
                }
                Some(_) => {}
                // one that was crossed out is no loss
                None => damaged += u64::from(header.waits),
            }
            at += RECORD_HEADER_OCTETS + header.body_octets;
        }
        Ok(Some((segment, found, damaged)))
    }

    fn came(&mut self, at_ms: i64) {
        self.waiting += 1;
        self.newest_ms = self.newest_ms.max(at_ms);
        self.oldest_ms = self.oldest_ms.min(at_ms);
    }

    /// Says that no set came later: one that is said to was stamped by a clock that was ahead.
    pub(super) fn came_before(&mut self, now_ms: i64) {
        self.newest_ms = self.newest_ms.min(now_ms);
        self.oldest_ms = self.oldest_ms.min(now_ms);
    }

    /// Appends a set that came at this time. Returns its offset.
    pub(super) fn append(
        &mut self,
        key: SetKey,
        set: &WaitingSet,
        at_ms: i64,
        buffer: &mut Vec<u8>,
    ) -> io::Result<u32> {
        buffer.clear();
        write(buffer, key, set);
        let offset = self.append_octets(buffer)?;
        self.came(at_ms);
        Ok(offset)
    }

    fn append_octets(&mut self, octets: &[u8]) -> io::Result<u32> {
        let offset = u32::try_from(self.length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if let Err(error) = self.file.write_all_at(octets, self.length) {
            // a part of it may be there, which the process after this one would take for damage
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += octets.len() as u64;
        Ok(offset)
    }

    /// Reads a set. `None` when it is damaged.
    pub(super) fn read(&self, offset: u32, buffer: &mut Vec<u8>) -> Option<(SetKey, WaitingSet)> {
        let mut header = [0; RECORD_HEADER_OCTETS];
        self.file.read_exact_at(&mut header, u64::from(offset)).ok()?;
        let header = Header::read(&header)?;
        buffer.resize(header.body_octets, 0);
        self.file.read_exact_at(buffer, u64::from(offset) + RECORD_HEADER_OCTETS as u64).ok()?;
        header.body(buffer)
    }

    /// Crosses a set out, so that it is not found again.
    pub(super) fn cross_out(&mut self, offset: u32) -> io::Result<()> {
        self.waiting = self.waiting.saturating_sub(1);
        self.file.write_all_at(&CROSSED_OUT, u64::from(offset))
    }

    /// Removes the file.
    pub(super) fn remove(self) {
        // one that stays is found at the next start, and its sets are old by then
        let _ = fs::remove_file(&self.path);
    }
}

/// Where the next record may begin.
fn next_mark(octets: &[u8], from: usize) -> usize {
    let rest = octets.get(from..).unwrap_or_default();
    let marks = rest.windows(4).position(|window| window == WAITS || window == CROSSED_OUT);
    marks.map_or(octets.len(), |at| from + at)
}

#[cfg(test)]
mod tests {
    use weir_wire::TemplateId;

    use super::*;
    use crate::clock::MessageClock;
    use crate::domain::DomainKey;
    use crate::session::Session;
    use crate::waiting::set::UNNUMBERED;

    #[test]
    fn a_full_disk_is_an_error_and_leaves_the_segment_as_it_was() {
        // every write to this device fails as on a full disk
        let file = OpenOptions::new().write(true).open("/dev/full").expect("the device");
        let mut segment = Segment::of(1, PathBuf::from("unused"), file);
        let session = Session::udp(([192, 0, 2, 1], 4739).into());
        let domain = DomainKey { session, version: 10, domain: 1 };
        let key = SetKey { domain, template: TemplateId::new(256).expect("id") };
        let clock = MessageClock { received_ms: 1, export_ms: 1, uptime_ms: None };
        let set = WaitingSet { clock, body: vec![0; 100].into(), number: UNNUMBERED };
        let error = segment.append(key, &set, 1, &mut Vec::new()).expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!((segment.length, segment.waiting), (0, 0));
    }
}
