//! Several archives to one store.
//!
//! Each archive has a forwarder of its own, with a thread and a position, so that what happens to one does not happen to the
//! others. What they have in flight is limited together. One that fails begins again after a while: an archive may come
//! back, or be made later. What speaks against a thread for each is their number; there are as many as a host has
//! producers, which is a handful.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::in_flight::InFlight;
use crate::{ForwardCounts, ForwardError, ForwardOptions, ForwardStore, ForwardThread};

/// How often it is looked at whether forwarding has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The pause after which an archive that could not be forwarded is tried again.
const RETRY_AFTER: Duration = Duration::from_mins(1);

/// Archives that are forwarded to one store.
pub struct ForwardGroup<S> {
    members: Vec<Member>,
    options: ForwardOptions,
    in_flight: InFlight,
    store: Box<dyn Fn() -> S>,
    retry_after: Duration,
}

/// An archive of a group.
struct Member {
    archive: PathBuf,
    /// `None` while it is not forwarded.
    thread: Option<ForwardThread>,
    /// When it is tried next; `None` when trying is of no use.
    next: Option<Instant>,
    /// What was counted when it began first.
    begun: Option<ForwardCounts>,
    /// What was counted when it ended last.
    counts: ForwardCounts,
    /// The reason that was returned last, since it began.
    returned: Option<String>,
}

/// Why an archive of a group is not forwarded.
#[derive(Debug)]
pub struct ArchiveFailure {
    /// The folder of the archive.
    pub archive: PathBuf,
    /// Why.
    pub error: ForwardError,
}

/// How forwarding an archive ended, or how far it is.
#[derive(Debug)]
pub struct GroupArchive {
    /// The folder of the archive.
    pub archive: PathBuf,
    /// What was counted when forwarding began.
    pub begun: ForwardCounts,
    /// What is counted now.
    pub counts: ForwardCounts,
    /// Whether it is not forwarded, for a reason that [`ForwardGroup::tend`] has returned or that is in `error`.
    pub has_failed: bool,
    /// Why it ended, when that was at the end.
    pub error: Option<ForwardError>,
}

impl<S: ForwardStore + 'static> ForwardGroup<S> {
    /// A group of the archives in these folders, each with a store that `store` gives. The limits of `options` are those
    /// of all together. Nothing is forwarded before the first [`tend`](Self::tend).
    pub fn new(archives: Vec<PathBuf>, options: ForwardOptions, store: impl Fn() -> S + 'static) -> Self {
        let next = Some(Instant::now());
        let member = |archive| Member {
            archive,
            thread: None,
            next,
            begun: None,
            counts: ForwardCounts::default(),
            returned: None,
        };
        let members = archives.into_iter().map(member).collect();
        Self { members, options, in_flight: InFlight::default(), store: Box::new(store), retry_after: RETRY_AFTER }
    }

    /// The same with another pause before an archive that failed is tried again.
    #[must_use]
    pub fn retrying_after(self, retry_after: Duration) -> Self {
        Self { retry_after, ..self }
    }

    /// What all forwarders have in flight.
    pub fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Begins what is not forwarded and whose pause is over. Returns why archives are not forwarded; a reason that lasts
    /// once. To be called from time to time.
    pub fn tend(&mut self) -> Vec<ArchiveFailure> {
        let mut failures = Vec::new();
        for member in &mut self.members {
            let begin = |archive: &Path| {
                ForwardThread::start_with(archive, self.options.clone(), (self.store)(), self.in_flight.clone())
            };
            let Some(error) = member.tend(begin) else { continue };
            // a store that refuses one archive for good goes on refusing it
            let is_final = matches!(error, ForwardError::Store(_));
            member.next = (!is_final).then(|| Instant::now() + self.retry_after);
            let reason = weir_flow::with_causes(&error);
            if member.returned.as_ref() != Some(&reason) {
                member.returned = Some(reason);
                failures.push(ArchiveFailure { archive: member.archive.clone(), error });
            }
        }
        failures
    }

    /// Whether any archive is forwarded.
    pub fn is_running(&self) -> bool {
        self.members.iter().any(|member| member.thread.is_some())
    }

    /// How far each archive is.
    pub fn archives(&self) -> Vec<GroupArchive> {
        self.members.iter().map(Member::now).collect()
    }

    /// Forwards what the archives have, until that is done or `is_stopping` says that it must end, and ends. Archives that
    /// are not forwarded now are not tried again.
    pub fn end(self, is_stopping: impl Fn() -> bool) -> Vec<GroupArchive> {
        let threads = || self.members.iter().filter_map(|member| member.thread.as_ref());
        for thread in threads() {
            thread.finish();
        }
        while threads().any(|thread| !thread.has_ended()) {
            if is_stopping() {
                for thread in threads() {
                    thread.stop();
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.members.into_iter().map(Member::ended).collect()
    }
}

impl Member {
    /// Begins with `begin` when it does not run and is to be tried. Returns why it does not run, when it has ended or could
    /// not begin.
    fn tend(&mut self, begin: impl FnOnce(&Path) -> Result<ForwardThread, ForwardError>) -> Option<ForwardError> {
        if self.thread.as_ref().is_some_and(|thread| !thread.has_ended()) {
            return None;
        }
        if let Some(ended) = self.thread.take() {
            self.counts = ended.counts();
            self.next = None;
            return ended.end(|| true).err();
        }
        if self.next.is_none_or(|next| Instant::now() < next) {
            return None;
        }
        match begin(&self.archive) {
            Ok(thread) => {
                self.begun.get_or_insert(thread.begun());
                self.returned = None;
                self.thread = Some(thread);
                None
            }
            Err(error) => Some(error),
        }
    }

    fn now(&self) -> GroupArchive {
        let counts = self.thread.as_ref().map_or(self.counts, ForwardThread::counts);
        GroupArchive {
            archive: self.archive.clone(),
            begun: self.begun.unwrap_or_default(),
            counts,
            has_failed: self.thread.is_none(),
            error: None,
        }
    }

    fn ended(self) -> GroupArchive {
        let now = self.now();
        match self.thread.map(|thread| thread.end(|| true)) {
            Some(Ok(counts)) => GroupArchive { counts, ..now },
            Some(Err(error)) => GroupArchive { has_failed: true, error: Some(error), ..now },
            None => now,
        }
    }
}
