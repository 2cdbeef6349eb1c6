//! How far an action got.

use std::io;
use std::path::Path;

use serde_json::{Value, json};
use weir_reports::journal::replace;

/// How far an action got in the file of reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The place up to which reports were sent, or not wanted.
    pub(crate) sent: u64,
    /// Reports of the watch before that place, since the journal began.
    pub(crate) passed: u64,
    /// The place up to which urgent reports were sent in quiet hours.
    pub(crate) urgent: u64,
    /// Those of them that are behind `sent`.
    pub(crate) urgent_sent: u64,
}

/// What the file of a cursor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptCursor {
    /// There is none: the action is new.
    Missing,
    /// It cannot be understood.
    Damaged,
    /// The place alone, as earlier versions kept it.
    Place(u64),
    /// All of it.
    Whole(Cursor),
}

impl KeptCursor {
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Self::Damaged),
            Err(error) => return Err(error),
        };
        if let Ok(place) = text.trim().parse() {
            return Ok(Self::Place(place));
        }
        let parsed = || {
            let value: Value = serde_json::from_str(&text).ok()?;
            let number = |name: &str| value.get(name)?.as_u64();
            Some(Cursor {
                sent: number("sent")?,
                passed: number("passed")?,
                urgent: number("urgent")?,
                urgent_sent: number("urgent_sent")?,
            })
        };
        Ok(parsed().map_or(Self::Damaged, Self::Whole))
    }
}

impl Cursor {
    /// Keeps it: a crash leaves the one before or this one.
    pub(crate) fn keep(&self, path: &Path) -> io::Result<()> {
        let Self { sent, passed, urgent, urgent_sent } = self;
        let text = json!({ "sent": sent, "passed": passed, "urgent": urgent, "urgent_sent": urgent_sent });
        replace(path, text.to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_kept_and_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scan.sent");
        assert_eq!(KeptCursor::read(&path).expect("none"), KeptCursor::Missing);
        let cursor = Cursor { sent: 7, passed: 2, urgent: 9, urgent_sent: 1 };
        cursor.keep(&path).expect("kept");
        assert_eq!(KeptCursor::read(&path).expect("a cursor"), KeptCursor::Whole(cursor));
        std::fs::write(&path, "4711").expect("written");
        assert_eq!(KeptCursor::read(&path).expect("a cursor"), KeptCursor::Place(4_711));
        for damaged in [&b"{\"sent\":7"[..], b"\xff\xfe", b""] {
            std::fs::write(&path, damaged).expect("written");
            assert_eq!(KeptCursor::read(&path).expect("read"), KeptCursor::Damaged);
        }
    }
}
