//! The books of decoders as counters of a component.

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use weir_chain::{ComponentContext, Counter};
use weir_collect::{DecoderStatistics, Drops};

/// How often drops are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The counters of the books and of decoding errors as counters of a component.
#[derive(Debug)]
pub(crate) struct BooksCounters {
    context: ComponentContext,
    books: Vec<Counter>,
}

impl BooksCounters {
    pub(crate) fn new(context: &ComponentContext) -> Self {
        let books = weir_flow::Counter::ALL.iter().map(|counter| context.counters.counter(counter.name())).collect();
        Self { context: context.clone(), books }
    }

    /// Brings the counters up to what decoders have seen.
    pub(crate) fn set(&self, decoders: &[DecoderStatistics]) {
        for (&counter, shown) in weir_flow::Counter::ALL.iter().zip(&self.books) {
            raise(shown, decoders.iter().map(|decoder| decoder.total(counter)).sum());
        }
        let mut problems: Vec<(&'static str, u64)> = Vec::new();
        for &(label, count) in decoders.iter().flat_map(|decoder| &decoder.problems) {
            match problems.iter_mut().find(|(known, _)| *known == label) {
                Some((_, sum)) => *sum += count,
                None => problems.push((label, count)),
            }
        }
        // labels come from the decoder's own closed set
        for (label, sum) in problems {
            raise(&self.context.counters.counter(label), sum);
        }
    }
}

/// Brings the counters of drops up to what was dropped, once a second until the sender of the channel is gone: while the
/// chain takes nothing, nobody else looks.
pub(crate) fn watch_drops(context: &ComponentContext, drops: Drops) -> io::Result<Sender<()>> {
    let (alive, watched) = bounded(0);
    let counters = context.counters.clone();
    let work = move || {
        while watched.recv_timeout(LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            for (counter, count) in drops.read() {
                raise(&counters.counter(counter.name()), count);
            }
        }
    };
    thread::Builder::new().name("weir-drops".to_owned()).spawn(work)?;
    Ok(alive)
}

fn raise(counter: &Counter, to: u64) {
    counter.add(to.saturating_sub(counter.get()));
}
