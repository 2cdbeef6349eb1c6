//! Where the octets of a file go: to a file of that name, to one beside it that gets the name at the end, or to
//! standard output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use weir_chain::{ComponentContext, ComponentError, Counter, StopSignal};

/// How long a full disk is waited for before it is tried again.
const FULL_DISK_WAIT: Duration = Duration::from_millis(100);

/// A file that is being written.
///
/// A disk that is full is waited for when the target is patient: until there is room, or until the chain is to stop.
/// Then writing is tried once more, and what fails then is an error.
#[derive(Debug)]
pub(crate) struct Target {
    out: Out,
    path: PathBuf,
    /// What the file is called until it is finished.
    temporary: Option<PathBuf>,
    is_patient: bool,
    stop: StopSignal,
    octets: Counter,
    waits: Counter,
}

#[derive(Debug)]
enum Out {
    File(File),
    Standard(io::Stdout),
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Whether a file of that name is replaced.
    pub overwrite: bool,
    /// Whether the file gets its name when it is whole.
    pub name_at_end: bool,
    /// Whether a full disk is waited for.
    pub is_patient: bool,
}

/// Whether a path stands for standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "-")
}

impl Target {
    /// Opens a file. Devices and pipes are opened as they are, since there is nothing in them to be kept.
    pub(crate) fn open(path: &Path, opening: Opening, context: &ComponentContext) -> Result<Self, ComponentError> {
        let mut target = Self {
            out: Out::Standard(io::stdout()),
            path: path.to_owned(),
            temporary: None,
            is_patient: opening.is_patient,
            stop: context.stop.clone(),
            octets: context.counters.counter("octets_written"),
            waits: context.counters.counter("writes_retried"),
        };
        if is_standard_output(path) {
            return Ok(target);
        }
        let is_special = fs::metadata(path).is_ok_and(|found| !found.is_file());
        if !is_special && !opening.overwrite && path.exists() {
            return Err(exists_already(path));
        }
        if opening.name_at_end && !is_special {
            target.temporary = Some(beside(path));
        }
        let name = target.temporary.as_deref().unwrap_or(path);
        let mut options = OpenOptions::new();
        options.write(true);
        if !is_special {
            options.create_new(!opening.overwrite).create(true).truncate(opening.overwrite);
        }
        match options.open(name) {
            Ok(file) => target.out = Out::File(file),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(exists_already(name)),
            Err(error) => return Err(ComponentError::caused(format!("cannot create {}", name.display()), error)),
        }
        Ok(target)
    }

    /// The file as errors name it.
    pub(crate) fn name(&self) -> String {
        match self.out {
            Out::File(_) => self.path.display().to_string(),
            Out::Standard(_) => "standard output".to_owned(),
        }
    }

    /// Makes what was written last, and gives the file its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let Out::File(file) = &self.out else { return Ok(()) };
        match file.sync_all() {
            // Devices and pipes cannot be synced, and need not.
            Err(error) if error.kind() != ErrorKind::InvalidInput => return Err(error),
            _ => {}
        }
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path)?;
        }
        Ok(())
    }

    fn is_file(&self) -> bool {
        matches!(self.out, Out::File(_))
    }

    fn write_once(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::File(file) => file.write(octets),
            Out::Standard(standard) => standard.write(octets),
        }
    }
}

impl Write for Target {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        loop {
            let is_stopping = self.stop.is_set();
            match self.write_once(octets) {
                // standard output gets no more room by waiting
                Err(error) if self.is_patient && self.is_file() && is_full(&error) && !is_stopping => {
                    if self.waits.get() == 0 {
                        tracing::warn!(file = self.name(), %error, "waiting for room on the disk");
                    }
                    self.waits.add(1);
                    thread::sleep(FULL_DISK_WAIT);
                }
                Ok(written) => {
                    self.octets.add(written as u64);
                    return Ok(written);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::File(file) => file.flush(),
            Out::Standard(standard) => standard.flush(),
        }
    }
}

fn exists_already(path: &Path) -> ComponentError {
    ComponentError::new(format!("{} exists already\nhint: 'overwrite = true' replaces it", path.display()))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The name of a file until it is finished.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    path.with_file_name(name)
}
