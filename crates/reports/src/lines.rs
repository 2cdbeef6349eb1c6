//! Lines that several processes append to one file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long another writer may hold the file, or the reader of a pipe take nothing.
const WAITED_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether it still does.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Appends whole lines, which are on disk afterwards, to a file that is made if it is not there.
///
/// After an error nothing of them is in the file. What a crash has cut off does not become one line with the first. Who appends in
/// this way at the same time waits; who does otherwise may lose lines when the disk is full.
///
/// # Errors
///
/// Those of the file; a pipe without a reader, or with one that is too slow; another writer that holds the file for seconds.
pub fn append_lines(path: &Path, lines: &[u8]) -> io::Result<()> {
    // a pipe without a reader must not hold up its writer for good
    let mut file = OpenOptions::new().create(true).append(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        // up to 4,096 octets are written to a pipe at once or not at all (pipe(7))
        return lines.split_inclusive(|octet| *octet == b'\n').try_for_each(|line| write_slowly(&file, line));
    }
    lock(&file)?;
    let length = file.metadata()?.len();
    let written = begin_line(&file, path, length).and_then(|()| file.write_all(lines)).and_then(|()| file.sync_data());
    if written.is_err() {
        // a part of a line must not become one with the next
        let _ = file.set_len(length);
    }
    written
}

/// Writes to a pipe, as long as its reader takes something now and then.
fn write_slowly(mut file: &File, mut octets: &[u8]) -> io::Result<()> {
    let mut began = Instant::now();
    while !octets.is_empty() {
        match file.write(octets) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                octets = octets.get(written..).unwrap_or_default();
                began = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < WAITED_MAX => {
                sleep(LOOK_EVERY);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Ends the line that a crash has cut off, if there is one.
fn begin_line(mut file: &File, path: &Path, length: u64) -> io::Result<()> {
    let Some(last_at) = length.checked_sub(1) else { return Ok(()) };
    let mut last = [0];
    match File::open(path) {
        Ok(reader) => reader.read_exact_at(&mut last, last_at)?,
        // who may append only cannot look
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(error),
    }
    if last == [b'\n'] { Ok(()) } else { file.write_all(b"\n") }
}

fn lock(file: &File) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            // a file system without locks
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if began.elapsed() > WAITED_MAX => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds it"));
            }
            Err(TryLockError::WouldBlock) => sleep(LOOK_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_writers_are_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        // what a crash has left
        std::fs::write(&path, "half").expect("written");
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for number in 0..50 {
                        append_lines(path, format!("{writer} {number}\n").as_bytes()).expect("appended");
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.starts_with("half\n") && text.ends_with('\n'), "{text}");
        for writer in 0..4 {
            let numbers: Vec<String> =
                text.lines().filter_map(|line| line.strip_prefix(&format!("{writer} "))).map(str::to_owned).collect();
            assert_eq!(numbers, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
        }
        assert_eq!(text.lines().count(), 201);
    }

    /// `/dev/full` takes nothing, and cannot be synced.
    #[test]
    fn what_is_no_file_is_written_to_and_waited_for_by_nobody() {
        append_lines(Path::new("/dev/null"), b"a\nb\n").expect("taken");
        let full = append_lines(Path::new("/dev/full"), b"a\n").expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let error = append_lines(&pipe, b"a\n").expect_err("nobody reads");
        assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).expect("a reader");
        append_lines(&pipe, b"a\nb\n").expect("taken");
        let mut octets = [0; 8];
        assert_eq!(io::Read::read(&mut &reader, &mut octets).expect("read"), 4);
        assert_eq!(&octets[..4], b"a\nb\n");
        // more than a pipe holds, to one who reads slowly
        let reading = std::thread::spawn(move || {
            let (mut found, mut octets) = (Vec::new(), [0; 4096]);
            while found.len() < 300_000 {
                match io::Read::read(&mut &reader, &mut octets) {
                    Ok(read) => found.extend_from_slice(&octets[..read]),
                    Err(_) => sleep(Duration::from_millis(20)),
                }
            }
            found
        });
        let lines = [[b'x'; 2_999].as_slice(), b"\n"].concat().repeat(100);
        append_lines(&pipe, &lines).expect("taken");
        assert!(reading.join().expect("read") == lines);
    }

    #[test]
    fn a_file_that_another_holds_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines");
        let held = File::create(&path).expect("a file");
        held.lock().expect("locked");
        let error = append_lines(&path, b"a\n").expect_err("held");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        append_lines(&path, b"a\n").expect("appended");
    }
}
