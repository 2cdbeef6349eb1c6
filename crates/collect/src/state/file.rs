//! The state file, and the thread that writes it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::Decoder;

/// How often the file is written at most, when something was learnt or forgotten.
pub(crate) const WRITE_INTERVAL: Duration = Duration::from_secs(10);
/// How often it is written when templates were only sent again.
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);

const NAME: &str = "exporters.state";
const NAME_NEW: &str = "exporters.state.new";
const NAME_DAMAGED: &str = "exporters.state.damaged";
const LOCK: &str = "lock";

/// The folder in which a collector stores its state.
#[derive(Debug)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// Held for as long as the folder is used.
    _lock: File,
}

impl StateFolder {
    /// Opens the folder, or makes it. Fails when another collector uses it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => {
                Err(io::Error::new(io::ErrorKind::AddrInUse, "another collector uses this folder"))
            }
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }

    /// The folder of waiting sets.
    pub(crate) fn spool(&self) -> PathBuf {
        self.path.join("spool")
    }

    /// The stored state. A file that cannot be read is set aside, which the second value reports.
    pub(crate) fn load(&self) -> (Vec<u8>, Option<String>) {
        let path = self.path.join(NAME);
        match fs::read(&path) {
            Ok(octets) => match Decoder::new(crate::Limits::default()).import_state(&octets) {
                Ok(()) => (octets, None),
                Err(error) => {
                    let aside = self.path.join(NAME_DAMAGED);
                    let moved = fs::rename(&path, &aside).map_or_else(
                        |error| format!("it cannot be renamed: {error}"),
                        |()| format!("renamed to {}", aside.display()),
                    );
                    let notice = format!(
                        "cannot read {}: {error}; {moved}\nhint: data waits until exporters send their \
                         templates again",
                        path.display()
                    );
                    (octets, Some(notice))
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Vec::new(), None),
            Err(error) => (Vec::new(), Some(format!("cannot read {}: {error}", path.display()))),
        }
    }

    fn write<'p>(&self, mut parts: impl Iterator<Item = &'p Vec<u8>>) -> io::Result<()> {
        let new = self.path.join(NAME_NEW);
        let mut file = File::create(&new)?;
        parts.try_for_each(|part| file.write_all(part))?;
        file.sync_data()?;
        fs::rename(&new, self.path.join(NAME))?;
        File::open(&self.path)?.sync_all()
    }
}

/// Attempts to write the file that failed.
#[derive(Debug, Default)]
pub(crate) struct WriteFailures {
    count: AtomicU64,
    /// A warning about the first one after a success, until it is taken.
    notice: Mutex<Option<String>>,
}

impl WriteFailures {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn take_notice(&self) -> Option<String> {
        self.notice.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn count_more(&self, more: u64) {
        self.count.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn say(&self, notice: String) {
        *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
    }

    fn add(&self, path: &Path, error: &io::Error, is_first: bool) {
        self.count_more(1);
        if is_first {
            self.say(format!(
                "cannot write {}: {error}; what was learned since the last write is not stored; the next change \
                 is a new attempt\nhint: free space on the disk, or set another folder with state",
                path.display()
            ));
        }
    }
}

/// Sends the state of one decoder to the thread that writes it.
#[derive(Debug)]
pub(crate) struct StatePort {
    decoder: usize,
    parts: Sender<(usize, Vec<u8>)>,
    /// `None`: not yet, so the first change is written at once.
    exported_at: Option<Instant>,
    changed: bool,
    refreshed: bool,
}

/// Starts the thread, which writes what comes and ends when all ports are gone.
pub(crate) fn start(
    folder: StateFolder,
    decoders: usize,
    loaded: Vec<u8>,
    failures: Arc<WriteFailures>,
) -> (io::Result<JoinHandle<()>>, Vec<StatePort>) {
    let (parts, from_decoders) = bounded(decoders.max(1));
    let ports = (0..decoders)
        .map(|decoder| StatePort {
            decoder,
            parts: parts.clone(),
            exported_at: None,
            changed: !loaded.is_empty(),
            refreshed: false,
        })
        .collect();
    let work = move || keep(&folder, &from_decoders, decoders, loaded, &failures);
    (thread::Builder::new().name("weir-state".to_owned()).spawn(work), ports)
}

/// Writes what decoders export. Until each has exported for the first time, what was stored of its exporters is only in
/// what the process began with, which is written too: of what several parts know about a domain the latest counts.
fn keep(
    folder: &StateFolder,
    parts: &Receiver<(usize, Vec<u8>)>,
    decoders: usize,
    loaded: Vec<u8>,
    failures: &WriteFailures,
) {
    let mut latest = vec![Vec::new(); decoders];
    let mut loaded = Some(loaded);
    let mut exported = vec![false; decoders];
    let mut failing = false;
    while let Ok((decoder, part)) = parts.recv() {
        for (decoder, part) in std::iter::once((decoder, part)).chain(parts.try_iter()) {
            if let Some(slot) = latest.get_mut(decoder) {
                *slot = part;
                exported[decoder] = true;
            }
        }
        if exported.iter().all(|exported| *exported) {
            loaded = None;
        }
        // A disk that is full is tried again with the next change; the file from before is still there.
        let written = folder.write(latest.iter().chain(&loaded));
        if let Err(error) = &written {
            failures.add(&folder.path.join(NAME), error, !failing);
        }
        failing = written.is_err();
    }
}

impl StatePort {
    /// Exports what the decoder knows if that is due.
    pub(crate) fn export(&mut self, decoder: &mut Decoder) {
        let changes = decoder.take_changes();
        self.changed |= changes.changed;
        self.refreshed |= changes.refreshed;
        let age = self.exported_at.map_or(Duration::MAX, |at| at.elapsed());
        let due = self.changed && age >= WRITE_INTERVAL || self.refreshed && age >= REFRESH_INTERVAL;
        if due && self.parts.is_empty() {
            let _ = self.parts.try_send((self.decoder, decoder.export_state()));
            (self.exported_at, self.changed, self.refreshed) = (Some(Instant::now()), false, false);
        }
    }

    /// Exports all at the end.
    pub(crate) fn close(self, decoder: &Decoder) {
        let _ = self.parts.send((self.decoder, decoder.export_state()));
    }
}
