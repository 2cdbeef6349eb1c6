//! What decoders saw, as counters of the block that runs them.
//!
//! The names are those of the books and of decoding errors, both closed sets: whoever sends datagrams cannot make the
//! counters more.

use weir_chain::{Counter, Meter};
use weir_collect::DecoderStatistics;

/// The counters.
pub(crate) struct DecodedCounters {
    meter: Meter,
    /// By counter of the books.
    totals: Vec<Counter>,
}

/// Brings a counter up to a value.
fn raise(counter: &Counter, value: u64) {
    counter.add(value.saturating_sub(counter.get()));
}

impl DecodedCounters {
    /// Counters that are 0 yet. Those of errors are made when one occurs.
    pub(crate) fn new(meter: &Meter) -> Self {
        let totals = weir_flow::Counter::ALL.iter().map(|counter| meter.counter(counter.name())).collect();
        Self { meter: meter.clone(), totals }
    }

    /// Brings the counters up to what the decoders say they have seen since they began.
    pub(crate) fn update(&self, decoders: &[DecoderStatistics]) {
        for (&counter, total) in weir_flow::Counter::ALL.iter().zip(&self.totals) {
            raise(total, decoders.iter().map(|decoder| decoder.total(counter)).sum());
        }
        let problems = || decoders.iter().flat_map(|decoder| &decoder.problems);
        for (label, _) in problems() {
            let count = problems().filter(|(other, _)| other == label).map(|(_, count)| count).sum();
            raise(&self.meter.counter(label), count);
        }
    }

    /// The same at the end, with the Data Sets whose Template never came.
    pub(crate) fn end(&self, decoders: &[DecoderStatistics]) {
        self.update(decoders);
        let waiting: usize = decoders.iter().map(|decoder| decoder.sets_waiting).sum();
        raise(&self.meter.counter("sets_still_waiting"), waiting as u64);
    }
}
