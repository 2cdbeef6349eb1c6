//! The contract of a sink.

use crate::{Burst, ComponentError, State};

/// Where rows leave the chain: an archive, a file, a network.
///
/// **Written means written.** When [`take`](Self::take) has returned, the sink answers for the burst: it is stored, or the
/// sink has counted what it could not store. Rows of one burst and their side tables are stored or refused together.
///
/// **A failure that may pass** (a full disk, a server that is away) is no error: the sink waits and tries again, so that
/// queues fill and back-pressure does its work, until it succeeds or [`StopSignal::is_set`](crate::StopSignal::is_set)
/// says that the chain is stopping; then it tries once more and returns an error. An error ends the sink and stops the
/// chain. A counter has what is lost by it.
///
/// **Shutdown.** [`finish`](Self::finish) is called once after all inputs have ended, also when the chain is stopped by
/// a failure elsewhere: the sink writes what it holds, syncs and closes. A sink that wants no more rows (a file that is
/// long enough) returns true from [`is_full`](Self::is_full), and everything upstream that no other sink needs stops.
///
/// **Books.** A sink that stores no books ignores the side tables; a burst may have side tables and no rows.
///
/// **Receipts.** A sink that stores flows for good resolves the [receipts](weir_flow::Receipt) among the side tables: as
/// durable when the flows survive a crash, or as not all when some were refused. Other sinks drop the receipts.
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
