//! The contract of a sink.

use crate::{Burst, ComponentError, State};

/// Where rows leave the chain: an archive, a file, a network.
///
/// **Written means written.** When [`take`](Self::take) has returned, the sink answers for the burst: it is kept, or the
/// sink has counted what it could not keep. Rows of one burst and what stands beside them are kept or refused together.
///
/// **A failure that may pass** (a full disk, a server that is away) is no error: the sink waits and tries again, so that
/// queues fill and back-pressure does its work, until it succeeds or [`StopSignal::is_set`](crate::StopSignal::is_set)
/// says that the chain is stopping; then it tries once more and returns an error. An error ends the sink and stops the
/// chain. What is lost by it stands in a counter.
///
/// **Shutdown.** [`finish`](Self::finish) is called once after all inputs have ended, also when the chain is stopped by
/// a failure elsewhere: the sink writes what it holds, syncs and closes. A sink that wants no more rows (a file that is
/// long enough) says so by [`is_full`](Self::is_full), and everything upstream that nobody else needs stops.
///
/// **Books.** A sink that keeps no books ignores what stands beside the rows; a burst may have that and no rows.
///
/// **Receipts.** A sink that keeps flows for good tells the [receipts](weir_flow::Receipt) among the side tables when the flows survive a
/// crash, or that they were refused. Other sinks drop them.
pub trait Sink: Send {
    /// Takes a burst.
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError>;

    /// Writes what is still held, and closes.
    fn finish(&mut self) -> Result<(), ComponentError>;

    /// Called about once a second while the chain runs, for what must be done by the clock.
    fn tick(&mut self) -> Result<(), ComponentError> {
        Ok(())
    }

    /// Whether more rows are of no use.
    fn is_full(&self) -> bool {
        false
    }

    /// What the sink holds.
    fn state(&self) -> State {
        State::default()
    }
}
