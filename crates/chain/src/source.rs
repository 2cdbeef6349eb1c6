//! The contract of a source.

use crate::{ComponentError, Outlet};

/// Result of [`Source::pull`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullResult {
    /// More rows may be there at once.
    More,
    /// No rows came within the time that the call may wait; later calls may have some.
    Nothing,
    /// No rows will come any more.
    Ended,
}

/// Where rows enter the chain: files, sockets, generators.
///
/// **Thread.** A source always has a thread to call it, its own or one that it shares with others. [`pull`](Self::pull)
/// is called again and again. It hands on one burst of moderate size (some thousand rows), not the whole input, because
/// components downstream get control between two calls. When nothing is there it may wait, 100 ms at most.
///
/// **Order.** The order of rows that a source hands on is part of its documentation, and depends neither on how it cuts
/// them into bursts nor on how many threads it uses inside.
///
/// **Back-pressure.** A source is not called while the queue behind it is full. A source that cannot wait (a socket)
/// has a bounded queue and a thread inside, and counts what it drops.
///
/// **Shutdown downwards.** After [`PullResult::Ended`] or an error a source is not called again; the components behind it
/// are notified that their input has ended.
///
/// **Shutdown upwards.** [`stop`](Self::stop) is called once, when the chain is stopped (Ctrl-C, a failed component) or
/// no component behind the source wants rows any more. `pull` is then called until it returns [`PullResult::Ended`]: a
/// reader of files ends at once, a collector first hands on what the kernel still holds. A source that goes on for ever
/// after `stop` would hang the chain.
///
/// **Errors.** An error ends the source and stops the chain: every other source is stopped, rows on their way are
/// processed, the state of transforms is handed on and sinks are closed. Input that is damaged in part is no error: the
/// damaged part is counted (see [`Counters`](crate::Counters)) and the rest handed on.
pub trait Source: Send {
    /// Hands on what comes next.
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError>;

    /// Asks the source to end soon.
    fn stop(&mut self);
}
