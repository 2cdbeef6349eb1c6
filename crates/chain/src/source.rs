//! The contract of a source.

use crate::{ComponentError, Outlet};

/// What a call of [`Source::pull`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulled {
    /// There may be more at once.
    More,
    /// Nothing came within the time that the call may wait; asking again is worth while.
    Nothing,
    /// Nothing will come any more.
    Ended,
}

/// Where rows enter the chain: files, sockets, generators.
///
/// **Thread.** A source always has a thread to call it, its own or one that it shares with others. [`pull`](Self::pull)
/// is called again and again. It hands on one burst of moderate size (some thousand rows), not the whole input, because
/// whoever is downstream gets control between two calls. When nothing is there it may wait, 100 ms at most.
///
/// **Order.** The order of rows that a source hands on is part of its documentation, and depends neither on how it cuts
/// them into bursts nor on how many threads it uses inside.
///
/// **Back-pressure.** A source is not called while the queue behind it is full. A source that cannot wait (a socket)
/// has a bounded queue and a thread inside, and counts what it drops.
///
/// **Shutdown downwards.** After [`Pulled::Ended`] or an error a source is not called again; what is behind it is told
/// that its input has ended.
///
/// **Shutdown upwards.** [`stop`](Self::stop) is called once, when the chain is stopped (Ctrl-C, a failed component) or
/// nobody behind the source wants rows any more. `pull` is then called until it says [`Pulled::Ended`]: a reader of
/// files ends at once, a collector first hands on what the kernel still holds. A source that goes on for ever after
/// `stop` would hang the chain.
///
/// **Errors.** An error ends the source and stops the chain: every other source is stopped, rows on their way are
/// processed, state are emptied and sinks closed. Input that is damaged in part is no error: the damaged part is
/// counted (see [`Counters`](crate::Counters)) and the rest handed on.
pub trait Source: Send {
    /// Hands on what comes next.
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, ComponentError>;

    /// Asks the source to end soon.
    fn stop(&mut self);
}
