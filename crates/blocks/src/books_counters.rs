//! The books of decoders as counters of a component.

use weir_chain::{ComponentContext, Counter};
use weir_collect::DecoderStatistics;

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

fn raise(counter: &Counter, to: u64) {
    counter.add(to.saturating_sub(counter.get()));
}
