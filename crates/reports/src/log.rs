//! The file of reports, one object of JSON a line, and how it is cut.
//!
//! The *place* of a line is the number of octets of all lines that were ever written before it. It does not change when the oldest
//! lines are removed: the file then begins with a line of its own, the header, that has the place of the line after it and how
//! many reports of each watch were removed. The header and the lines that stay are written to a new file, which is
//! synced and then takes the name of the old one: after a crash one of the two is there, whole. Readers that have the old file open go
//! on reading it.
//!
//! Other programs may remove, rename or empty the file (logrotate, a cleanup of a full disk): before each append it is looked at
//! whether the name still leads to the open file. A new file begins with a header, too, so places go on, and whoever sends reports
//! counts those that are gone and goes on with the first one of the new file. What speaks against it is a system call for each append,
//! which syncs anyway.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// What the line at the beginning of a file that was cut begins with. Reports have no such member.
const HEADER_BEGIN: &[u8] = b"{\"begins_at\":";
/// How often lines are looked at whether they are too old.
const AGE_LOOK_EVERY_MS: i64 = 86_400_000;
/// How long after a failure the file is cut again.
const CUT_AGAIN_MS: i64 = 60_000;

/// How long reports are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Octets of the file at most; when it has more, the oldest reports are removed until it has three quarters.
    pub octets_max: u64,
    /// Reports older than this are removed, up to a day later.
    pub age_max: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { octets_max: 256 << 20, age_max: Duration::from_hours(365 * 24) }
    }
}

/// What the file begins with after it was cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Header {
    /// The place of the first line.
    begins_at: u64,
    /// Reports of each watch that were removed.
    removed: BTreeMap<String, u64>,
    /// Octets that the header itself takes.
    octets: u64,
}

impl Header {
    /// Reads it from the beginning of a file, and leaves the file where the first report begins.
    fn read(file: &mut BufReader<File>) -> io::Result<Self> {
        file.seek(SeekFrom::Start(0))?;
        let mut line = Vec::new();
        if file.fill_buf()?.starts_with(HEADER_BEGIN) {
            file.read_until(b'\n', &mut line)?;
        }
        let parsed = || {
            let value: Value = serde_json::from_slice(&line).ok()?;
            let removed = value.get("removed")?.as_object()?;
            Some(Self {
                begins_at: value.get("begins_at")?.as_u64()?,
                removed: removed.iter().filter_map(|(watch, count)| Some((watch.clone(), count.as_u64()?))).collect(),
                octets: line.len() as u64,
            })
        };
        if let Some(header) = parsed() {
            return Ok(header);
        }
        file.seek(SeekFrom::Start(0))?;
        Ok(Self::default())
    }

    fn line(&self) -> String {
        format!("{}\n", json!({ "begins_at": self.begins_at, "removed": self.removed }))
    }
}

/// A line that is a report.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedReport {
    /// The place after it.
    pub end: u64,
    /// Its members; `None` when a person broke the line.
    pub members: Option<Map<String, Value>>,
    /// The line, without its end.
    pub line: Vec<u8>,
}

impl LoggedReport {
    /// A member that is a text.
    pub fn text(&self, name: &str) -> &str {
        self.member(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it is about a window that was reported before, without flows that came too late.
    pub fn is_correction(&self) -> bool {
        self.member("correction") == Some(&Value::Bool(true))
    }

    /// Whether it withdraws an earlier report of its key and window.
    pub fn is_withdrawal(&self) -> bool {
        self.is_correction() && self.member("rows").and_then(Value::as_u64) == Some(0)
    }

    fn member(&self, name: &str) -> Option<&Value> {
        self.members.as_ref()?.get(name)
    }

    /// When it was written, in milliseconds since the epoch: the end of its window where nothing says so.
    pub fn reported_ms(&self) -> Option<i64> {
        let time = |name| self.text(name).parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
        time("reported").or_else(|| time("window_end"))
    }
}

/// Reads the file of reports from some place on.
#[derive(Debug)]
pub struct LogReader {
    file: BufReader<File>,
    header: Header,
    place: u64,
    end: u64,
}

impl LogReader {
    /// Opens the file; `None` when there is none.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        Self::of(file).map(Some)
    }

    fn of(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let header = Header::read(&mut file)?;
        let end = header.begins_at + length.saturating_sub(header.octets);
        Ok(Self { place: header.begins_at, end, file, header })
    }

    /// The place of the first line.
    pub fn begins_at(&self) -> u64 {
        self.header.begins_at
    }

    /// The place after the last line.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Where it reads.
    pub fn place(&self) -> u64 {
        self.place
    }

    /// How many reports of a watch, or of all, were removed.
    pub fn removed(&self, watch: Option<&str>) -> u64 {
        match watch {
            Some(watch) => self.header.removed.get(watch).copied().unwrap_or(0),
            None => self.header.removed.values().sum(),
        }
    }

    /// Goes to the line at a place; to the first one when that was removed.
    pub fn seek(&mut self, place: u64) -> io::Result<()> {
        self.place = place.clamp(self.header.begins_at, self.end);
        self.file.seek(SeekFrom::Start(self.place - self.header.begins_at + self.header.octets)).map(drop)
    }

    /// Goes to the first line that begins in the last octets of the file.
    pub fn seek_to_last(&mut self, octets: u64) -> io::Result<()> {
        let place = self.end.saturating_sub(octets);
        self.seek(place)?;
        if self.place > self.header.begins_at {
            // it may be in the middle of a line
            self.place += self.file.read_until(b'\n', &mut Vec::new())? as u64;
        }
        Ok(())
    }

    /// The next report; `None` at the end, and where a line is not whole yet.
    pub fn next_report(&mut self) -> io::Result<Option<LoggedReport>> {
        let mut line = Vec::new();
        self.file.read_until(b'\n', &mut line)?;
        let octets = line.len() as u64;
        if line.pop() != Some(b'\n') {
            // the rest of it may be there the next time
            self.file.seek_relative(-(octets as i64))?;
            return Ok(None);
        }
        self.place += octets;
        self.end = self.end.max(self.place);
        let members = match serde_json::from_slice(&line) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        };
        Ok(Some(LoggedReport { end: self.place, members, line }))
    }
}

/// Appends to the file of reports, and cuts it.
#[derive(Debug)]
pub(crate) struct LogWriter {
    path: PathBuf,
    file: File,
    /// The place after the last line.
    end: u64,
    retention: Retention,
    /// When lines are looked at next whether they are too old.
    age_look_ms: i64,
    /// When the file may be cut next.
    cut_after_ms: i64,
}

impl LogWriter {
    /// Opens the file, which is made; a last line that a crash left half is removed.
    pub(crate) fn open(path: &Path, retention: Retention) -> io::Result<Self> {
        // what a crash left of cutting
        match std::fs::remove_file(new_path(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (file, end) = open_whole(path)?;
        Ok(Self { path: path.to_owned(), file, end, retention, age_look_ms: i64::MIN, cut_after_ms: i64::MIN })
    }

    /// Appends lines and syncs them: all of them or, on an error, none.
    pub(crate) fn append(&mut self, lines: &str) -> io::Result<()> {
        self.follow()?;
        let length = self.file.metadata()?.len();
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // a part of a line must not become one with the next; when this fails too, the next start cuts it off
            let _ = self.file.set_len(length);
        } else {
            self.end += lines.len() as u64;
        }
        written
    }

    /// Removes what is too much or too old; the number of reports that were. After a failure it tries again a minute later.
    pub(crate) fn cut(&mut self, now_ms: i64) -> io::Result<u64> {
        let is_long = self.file.metadata()?.len() > self.retention.octets_max;
        // a clock that went back must not put it off
        let is_aged = now_ms >= self.age_look_ms || now_ms < self.age_look_ms.saturating_sub(AGE_LOOK_EVERY_MS);
        let may_try = now_ms >= self.cut_after_ms || now_ms < self.cut_after_ms.saturating_sub(CUT_AGAIN_MS);
        if !(may_try && (is_long || is_aged)) {
            return Ok(0);
        }
        let cut = self.cut_now(now_ms);
        if cut.is_ok() {
            self.age_look_ms = now_ms.saturating_add(AGE_LOOK_EVERY_MS);
        } else {
            self.cut_after_ms = now_ms.saturating_add(CUT_AGAIN_MS);
            // it takes space that others need
            let _ = std::fs::remove_file(new_path(&self.path));
        }
        cut
    }

    fn cut_now(&mut self, now_ms: i64) -> io::Result<u64> {
        self.follow()?;
        let Some(mut reader) = LogReader::open(&self.path)? else { return Ok(0) };
        let length = reader.end() - reader.begins_at();
        let is_long = length > self.retention.octets_max;
        let too_many = if is_long { length - self.retention.octets_max / 4 * 3 } else { 0 };
        let enough_at = reader.begins_at() + too_many;
        let oldest_ms = now_ms.saturating_sub(i64::try_from(self.retention.age_max.as_millis()).unwrap_or(i64::MAX));
        let (mut begins_at, mut removed, mut count) = (reader.begins_at(), reader.header.removed.clone(), 0);
        while let Some(report) = reader.next_report()? {
            let is_kept = begins_at >= enough_at && report.reported_ms().is_none_or(|at_ms| at_ms >= oldest_ms);
            if is_kept {
                break;
            }
            begins_at = report.end;
            if report.members.is_some() {
                *removed.entry(report.text("watch").to_owned()).or_default() += 1;
                count += 1;
            }
        }
        if begins_at > reader.begins_at() {
            reader.seek(begins_at)?;
            self.replace(&Header { begins_at, removed, octets: 0 }, reader.file)?;
        }
        Ok(count)
    }

    /// Makes the file anew when others have removed, renamed or emptied it, and goes on in what they have put in its place.
    fn follow(&mut self) -> io::Result<()> {
        let named = match std::fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        let Some(named) = named.filter(|named| named.len() > 0 || self.end == 0) else {
            let behind = self.header_behind();
            self.end = behind.begins_at;
            self.replace(&behind, io::empty())?;
            let path = self.path.display();
            tracing::warn!("the reports {path} were removed, renamed or emptied by others; the file is made anew");
            return Ok(());
        };
        let own = self.file.metadata()?;
        if (own.dev(), own.ino()) != (named.dev(), named.ino()) {
            (self.file, self.end) = open_whole(&self.path)?;
            let path = self.path.display();
            tracing::warn!("the reports {path} are another file, which others have put there; reports go to that one");
        }
        Ok(())
    }

    /// The header of a file that begins after all that was written, with the reports of our file as removed.
    fn header_behind(&self) -> Header {
        let mut behind = Header { begins_at: self.end, ..Header::default() };
        let mut count = || -> io::Result<()> {
            let mut reader = LogReader::of(self.file.try_clone()?)?;
            behind.removed.clone_from(&reader.header.removed);
            while let Some(report) = reader.next_report()? {
                if report.members.is_some() {
                    *behind.removed.entry(report.text("watch").to_owned()).or_default() += 1;
                }
            }
            behind.begins_at = behind.begins_at.max(reader.end());
            Ok(())
        };
        // a disk that cannot read them must not keep new ones from being written
        if let Err(error) = count() {
            let path = self.path.display();
            tracing::warn!("how many reports went with {path} is not known: {error}");
        }
        behind
    }

    /// Puts a file with this header and the rest of another in the place of ours.
    fn replace(&mut self, header: &Header, mut rest: impl Read) -> io::Result<()> {
        let new = new_path(&self.path);
        let mut file = BufWriter::new(File::create(&new)?);
        file.write_all(header.line().as_bytes())?;
        io::copy(&mut rest, &mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
        // opened first, so that nothing can fail after the new file has taken the name
        let opened = append_to(&new)?;
        std::fs::rename(&new, &self.path)?;
        self.file = opened;
        self.path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}

fn new_path(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).read(true).append(true).open(path)
}

/// Opens a file for appending, without a half line at its end; and the place after its last line.
fn open_whole(path: &Path) -> io::Result<(File, u64)> {
    let mut file = append_to(path)?;
    remove_half_line(&mut file)?;
    let end = LogReader::of(file.try_clone()?)?.end();
    Ok((file, end))
}

/// Removes a last line that a crash cut off.
fn remove_half_line(file: &mut File) -> io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    let mut octet = [0];
    while end > 0 {
        file.seek(SeekFrom::Start(end - 1))?;
        file.read_exact(&mut octet)?;
        if octet == *b"\n" {
            break;
        }
        end -= 1;
    }
    if end < length { file.set_len(end) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
