//! Files and bodies of other programs: read to their end, within the time and memory that their octets may cost.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nix::sys::memfd::{MFdFlags, memfd_create};
use weir_formats::{AnyReader, Format, parquet_body};

use crate::cost::measure;

/// What reading may take with the checks and the sanitizer of these builds: to begin with, for each octet, and for each row,
/// since a few octets of a compressed file may be many rows.
const BASE_TIME: Duration = Duration::from_millis(200);
const OCTET_TIME: Duration = Duration::from_micros(20);
const ROW_TIME: Duration = Duration::from_micros(40);
/// The most memory at a time: two batches of all columns and a block of nfcapd, and so much for each octet.
const BASE_MEMORY: usize = 96 << 20;
const OCTET_MEMORY: usize = 64;
/// Rows after which enough was read.
const ROWS_MAX: usize = 1 << 20;
/// Octets that a body may take once it is decoded, and the most memory at a time for it: the same once more for what is decoded but not
/// converted, what the footer says, and what the library needs for each column.
const BODY_OCTETS_MAX: usize = 1 << 20;
const BODY_MEMORY: usize = 32 << 20;

/// A file in memory, used again for each input, and the path under which a reader opens it.
static FILE: LazyLock<Mutex<(File, PathBuf)>> = LazyLock::new(|| {
    let memory: OwnedFd = memfd_create("flows", MFdFlags::empty()).expect("a file in memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    Mutex::new((File::from(memory), path))
});

/// Reads octets as a file of a format.
pub(crate) fn read(format: Format, octets: &[u8]) {
    let mut file = FILE.lock().unwrap_or_else(PoisonError::into_inner);
    let (file, path) = &mut *file;
    file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).expect("emptied");
    file.write_all(octets).expect("written");
    check_cost(octets, BASE_MEMORY, || rows(format, path));
}

/// Reads octets as the body of a request.
pub(crate) fn read_parquet_body(octets: &[u8]) {
    let body = Bytes::copy_from_slice(octets);
    check_cost(octets, BODY_MEMORY, || {
        let Ok(flows) = parquet_body::read(body.clone(), 0, BODY_OCTETS_MAX) else { return 0 };
        let rows: usize = flows.iter().map(|batch| batch.rows()).sum();
        // each has a time of reception at least
        assert!(rows <= BODY_OCTETS_MAX / 8, "{rows} rows of a body");
        rows
    });
}

/// Checks what it costs to read octets, and `read` gives how many rows they are.
fn check_cost(octets: &[u8], base_memory: usize, read: impl Fn() -> usize) {
    let (rows, mut cost) = measure(&read);
    let time_max = BASE_TIME + OCTET_TIME * octets.len() as u32 + ROW_TIME * rows as u32;
    // a page that is not in memory yet costs time as well
    for _ in 0..2 {
        if cost.time > time_max {
            cost = cost.least(measure(&read).1);
        }
    }
    assert!(cost.time <= time_max, "{:?} for {} octets and {rows} rows", cost.time, octets.len());
    let memory_max = base_memory + OCTET_MEMORY * octets.len();
    assert!(cost.octets <= memory_max, "{} octets of memory for {}", cost.octets, octets.len());
    #[cfg(feature = "canary")]
    assert!(rows < 2, "the canary was found");
}

/// Rows of the file, or of its beginning. An error is the last item, and the first of its kind.
fn rows(format: Format, path: &PathBuf) -> usize {
    let Ok(mut reader) = AnyReader::open(path, Some(format), &[]) else { return 0 };
    let mut rows = 0;
    while let Some(batch) = reader.next() {
        match batch {
            Ok(batch) => rows += batch.rows(),
            Err(_) => {
                assert!(reader.next().is_none(), "nothing comes after an error");
                break;
            }
        }
        if rows > ROWS_MAX {
            break;
        }
    }
    let _ = (reader.take_options(), reader.lost());
    rows
}
