//! Flows that programs push: how many are read at a time, and where they go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};
use weir_collect::intake::{Intake, PushRefused};
use weir_flow::{DeliveryOutcome, Receipt};

use crate::config::IngestOptions;
use crate::problem::{Answered, Problem};

/// When a sender that was refused because of load may try again.
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
    /// Octets of flows that wait for the archive.
    pub(crate) queue_octets_max: usize,
    pub(crate) time_max: Duration,
    /// How long a sender waits until flows are durable.
    pub(crate) durable_max: Duration,
    pub(crate) intake: Arc<Intake>,
    places: Arc<Semaphore>,
}

impl Ingesting {
    pub(crate) fn new(ingest: &Ingest) -> Self {
        let Ingest { options, intake } = ingest;
        Self {
            octets_max: usize::try_from(options.body_max.bytes()).unwrap_or(usize::MAX),
            queue_octets_max: usize::try_from(options.queue.bytes()).unwrap_or(usize::MAX),
            time_max: options.body_timeout.duration(),
            durable_max: options.durable_timeout.duration(),
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

    /// The answer to a sender whose push was refused.
    pub(crate) fn refused(error: PushRefused) -> Problem {
        match error {
            PushRefused::Full { .. } | PushRefused::Closed => {
                Problem::unavailable(error.to_string()).after(AGAIN_AFTER)
            }
            PushRefused::TooLarge { .. } => {
                Problem::too_large(error.to_string()).with_hint("send fewer flows at once, or set 'queue' in [ingest]")
            }
        }
    }
}

/// Receipts of a push whose sender waits for them.
#[derive(Debug)]
pub(crate) struct PendingReceipts(Vec<oneshot::Receiver<DeliveryOutcome>>);

/// Result of [`PendingReceipts::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// All flows are durable; the last of them are at this position.
    Durable(u64),
    /// The time is over, and some flows are not durable yet.
    NotYet,
}

impl PendingReceipts {
    /// `count` receipts, and the other end of them.
    pub(crate) fn of(count: usize) -> (Vec<Receipt>, Self) {
        let receipt = |_| {
            let (sender, outcome) = oneshot::channel();
            // a client that has left takes nothing
            (
                Receipt::new(move |outcome| {
                    let _ = sender.send(outcome);
                }),
                outcome,
            )
        };
        let (receipts, outcomes) = (0..count).map(receipt).unzip();
        (receipts, Self(outcomes))
    }

    /// Waits until all of them are resolved, for `time_max` at most. Flows that are not stored are an error.
    pub(crate) async fn wait(self, time_max: Duration) -> Answered<WaitOutcome> {
        let (until, mut last) = (Instant::now() + time_max, 0);
        for outcome in self.0 {
            match timeout_at(until, outcome).await {
                Ok(Ok(DeliveryOutcome::Durable { position })) => last = last.max(position),
                Ok(Ok(DeliveryOutcome::NotAll)) => {
                    return Err(Problem::archive("the archive did not keep all of these flows")
                        .with_hint("the log of the service says why; flows that are sent again may be there twice"));
                }
                Ok(Err(_)) => {
                    return Err(Problem::unavailable("the archive ended before it confirmed these flows")
                        .with_hint("flows that are sent again may be there twice"));
                }
                Err(_) => return Ok(WaitOutcome::NotYet),
            }
        }
        Ok(WaitOutcome::Durable(last))
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    fn waited(time_max: Duration, resolve: impl FnOnce(Vec<Receipt>)) -> Result<WaitOutcome, u16> {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (receipts, awaited) = PendingReceipts::of(2);
        resolve(receipts);
        runtime.block_on(awaited.wait(time_max)).map_err(|problem| problem.status)
    }

    #[test]
    fn a_sender_learns_what_happened_to_all_of_its_flows() {
        let long = Duration::from_mins(1);
        let durable = |position| DeliveryOutcome::Durable { position };
        let all = waited(long, |receipts| {
            receipts[1].resolve(durable(8));
            receipts[0].resolve(durable(7));
        });
        assert_eq!(all, Ok(WaitOutcome::Durable(8)));
        let lost = waited(long, |receipts| {
            receipts[0].resolve(durable(7));
            receipts[1].resolve(DeliveryOutcome::NotAll);
        });
        assert_eq!(lost, Err(500));
        assert_eq!(waited(long, drop), Err(503), "nobody keeps them any more");
        let mut kept = Vec::new();
        let late = waited(Duration::from_millis(1), |receipts| {
            receipts[0].resolve(durable(7));
            kept = receipts;
        });
        assert_eq!(late, Ok(WaitOutcome::NotYet), "one is on its way");
        drop(kept);
        assert!(waited(Duration::ZERO, |receipts| receipts.iter().for_each(|one| one.resolve(durable(1)))).is_ok());
    }

    fn status(problem: &Problem) -> (u16, Option<u32>) {
        (problem.status, problem.retry_after_s)
    }

    #[test]
    fn a_sender_refused_because_of_load_may_try_again() {
        let ingest = Ingest::new(IngestOptions { at_once: 1, ..IngestOptions::default() });
        let ingesting = Ingesting::new(&ingest);
        let place = ingesting.place().expect("a place");
        assert_eq!(status(&ingesting.place().expect_err("it is taken")), (503, Some(1)));
        assert_eq!(ingest.intake.counts().full(), 1);
        drop(place);
        assert!(ingesting.place().is_ok());
        assert_eq!(status(&Ingesting::refused(PushRefused::Full { octets: 1 })), (503, Some(1)));
        assert_eq!(status(&Ingesting::refused(PushRefused::Closed)), (503, Some(1)));
        assert_eq!(status(&Ingesting::refused(PushRefused::TooLarge { octets_max: 1 })), (413, None));
    }
}
