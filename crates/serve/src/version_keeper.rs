//! Keeping versions of files about addresses, in a thread of its own.
//!
//! A version is copied to the disk of the archive by one process at a time, which takes as long as the disk and the
//! others do. Its tables are in use before, so neither questions nor the next reload have to wait for that. What speaks
//! against a thread is that a service which ends meanwhile leaves the version out; it finds the file again when it
//! starts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_sql::Enrichment;

/// How long a caller waits for versions to be kept.
pub(crate) const KEEPING_MAX: Duration = Duration::from_secs(5);

/// Keeps versions.
#[derive(Debug, Default)]
pub(crate) struct VersionKeeper(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<Work>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    /// The files whose versions are kept next. One read of them replaces the one before: it has found the same versions, or
    /// those that files have had since. A version that its file does not have any more by then is not kept.
    next: Option<Arc<Enrichment>>,
    has_thread: bool,
}

impl VersionKeeper {
    /// Begins to keep the versions that are new. What cannot be kept is in the log.
    pub(crate) fn begin(&self, enrichment: Arc<Enrichment>) {
        let mut work = self.0.locked();
        work.next = Some(enrichment);
        if work.has_thread {
            return;
        }
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new()
            .name("weir-versions".to_owned())
            .spawn(move || shared.run(Enrichment::keep_versions));
        match thread {
            Ok(_) => work.has_thread = true,
            Err(error) => tracing::warn!("new versions of files about addresses are not kept: {error}"),
        }
    }

    /// Waits until all are kept, but no longer than this; whether they are.
    pub(crate) fn wait(&self, time_max: Duration) -> bool {
        let work = self.0.locked();
        let ended = self.0.ended.wait_timeout_while(work, time_max, |work| work.has_thread);
        !ended.unwrap_or_else(PoisonError::into_inner).0.has_thread
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, keep: impl Fn(&Enrichment)) {
        while let Some(enrichment) = self.next() {
            // who waits, and what comes next, are not to wait for a thread that has gone
            if catch_unwind(AssertUnwindSafe(|| keep(&enrichment))).is_err() {
                tracing::error!("new versions of files about addresses are not kept: that has panicked");
            }
        }
    }

    /// What comes next; without anything the thread ends.
    fn next(&self) -> Option<Arc<Enrichment>> {
        let mut work = self.locked();
        let next = work.next.take();
        if next.is_none() {
            work.has_thread = false;
            self.ended.notify_all();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use weir_sql::{EnrichmentFiles, VersionLimits};

    use super::*;

    #[test]
    fn nobody_waits_for_what_has_panicked() {
        let enrichment = Arc::new(Enrichment::load(&EnrichmentFiles::default()).expect("nothing to read"));
        let keeper = VersionKeeper::default();
        *keeper.0.locked() = Work { next: Some(enrichment), has_thread: true };
        keeper.0.run(|_| panic!("as a defect does"));
        assert!(keeper.wait(Duration::ZERO));
    }

    #[test]
    fn nobody_waits_longer_than_they_want_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let (labels, versions) = (folder.path().join("labels.csv"), folder.path().join("versions"));
        fs::write(&labels, "10.0.0.0/8,office\n").expect("written");
        let files = EnrichmentFiles {
            labels: Some(labels),
            versions: Some(versions.clone()),
            limits: Some(VersionLimits::default()),
            ..EnrichmentFiles::default()
        };
        let enrichment = Arc::new(Enrichment::load(&files).expect("readable"));
        fs::create_dir_all(versions.join("labels")).expect("a folder");
        // somebody else who keeps versions
        let lock = File::create(versions.join("labels/lock")).expect("a file");
        lock.lock().expect("nobody has it");
        let keeper = VersionKeeper::default();
        assert!(keeper.wait(Duration::ZERO));
        for _ in 0..3 {
            keeper.begin(Arc::clone(&enrichment));
            assert!(!keeper.wait(Duration::from_millis(1)));
        }
        lock.unlock().expect("it was locked");
        assert!(keeper.wait(Duration::from_mins(1)));
        // and once more, by another thread
        keeper.begin(enrichment);
        assert!(keeper.wait(Duration::from_mins(1)));
        let index = fs::read_to_string(versions.join("labels/index")).expect("an index");
        assert_eq!(index.lines().count(), 2, "{index}");
    }
}
