//! Flows that programs push: how many are read at a time, and where they go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_collect::intake::{Intake, NotTaken};

use crate::config::IngestOptions;
use crate::problem::{Answered, Problem};

/// When who found no room may come again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Where flows that are pushed go, in the process that collects.
#[derive(Debug, Clone)]
pub struct Ingest {
    /// How they are taken.
    pub options: IngestOptions,
    /// The queue that the chain takes them from.
    pub intake: Arc<Intake>,
}

impl Ingest {
    /// With a queue as the options say.
    pub fn new(options: IngestOptions) -> Self {
        let octets_max = usize::try_from(options.queue.bytes()).unwrap_or(usize::MAX);
        Self { options, intake: Arc::new(Intake::new(octets_max)) }
    }
}

/// The place of a body that is read; it is free again when the last copy is dropped.
pub(crate) type ReadingPlace = Arc<OwnedSemaphorePermit>;

/// Takes flows that programs push.
#[derive(Debug)]
pub(crate) struct Ingesting {
    pub(crate) octets_max: usize,
    pub(crate) time_max: Duration,
    pub(crate) intake: Arc<Intake>,
    places: Arc<Semaphore>,
}

impl Ingesting {
    pub(crate) fn new(ingest: &Ingest) -> Self {
        let Ingest { options, intake } = ingest;
        Self {
            octets_max: usize::try_from(options.body_max.bytes()).unwrap_or(usize::MAX),
            time_max: options.body_timeout.duration(),
            intake: Arc::clone(intake),
            places: Arc::new(Semaphore::new(options.at_once)),
        }
    }

    /// A place among the bodies that are read now, or why there is none.
    pub(crate) fn place(&self) -> Answered<ReadingPlace> {
        Arc::clone(&self.places).try_acquire_owned().map(Arc::new).map_err(|_| {
            self.intake.count_full();
            Problem::unavailable("too many bodies of flows come at once").after(AGAIN_AFTER)
        })
    }

    /// Why flows were not taken, for who sent them.
    pub(crate) fn refused(error: NotTaken) -> Problem {
        match error {
            NotTaken::Full { .. } | NotTaken::Closed => Problem::unavailable(error.to_string()).after(AGAIN_AFTER),
            NotTaken::TooLarge { .. } => {
                Problem::too_large(error.to_string()).with_hint("send fewer flows at once, or set 'queue' in [ingest]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(problem: &Problem) -> (u16, Option<u32>) {
        (problem.status, problem.retry_after_s)
    }

    #[test]
    fn who_finds_no_room_may_come_again() {
        let ingest = Ingest::new(IngestOptions { at_once: 1, ..IngestOptions::default() });
        let ingesting = Ingesting::new(&ingest);
        let place = ingesting.place().expect("a place");
        assert_eq!(status(&ingesting.place().expect_err("it is taken")), (503, Some(1)));
        assert_eq!(ingest.intake.counts().full(), 1);
        drop(place);
        assert!(ingesting.place().is_ok());
        assert_eq!(status(&Ingesting::refused(NotTaken::Full { octets: 1 })), (503, Some(1)));
        assert_eq!(status(&Ingesting::refused(NotTaken::Closed)), (503, Some(1)));
        assert_eq!(status(&Ingesting::refused(NotTaken::TooLarge { octets_max: 1 })), (413, None));
    }
}
