//! What the parts return, entered in the books.

use weir_flow::Counter;
use weir_wire::WireError;
use weir_wire::error::ErrorClass;

use super::learned::OptionsSet;
use super::templates::Evicted;
use crate::ledger::Ledger;

/// An exporter's clock that is farther off counts as this far off, in milliseconds, so that sums stay sums.
const CLOCK_OFFSET_MS_MAX: i64 = 86_400_000;

/// How often each error occurred.
#[derive(Debug)]
struct ErrorCounts {
    by_label: [u64; WireError::LABELS.len()],
}

impl Default for ErrorCounts {
    fn default() -> Self {
        Self { by_label: [0; WireError::LABELS.len()] }
    }
}

impl ErrorCounts {
    fn note(&mut self, error: WireError) {
        let label = error.label();
        if let Some(position) = WireError::LABELS.iter().position(|known| *known == label) {
            self.by_label[position] += 1;
        }
    }

    /// Errors by [`WireError::label`], those that occurred.
    fn seen(&self) -> Vec<(&'static str, u64)> {
        let all = WireError::LABELS.iter().copied().zip(self.by_label);
        all.filter(|(_, count)| *count > 0).collect()
    }
}

/// The books on all exporters, and the errors by label, which the books do not have.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub ledger: Ledger,
    errors: ErrorCounts,
}

impl Books {
    /// Counts for a domain.
    #[inline]
    pub(super) fn count(&mut self, index: u32, counter: Counter, by: u64) {
        self.ledger.count(index, counter, by);
    }

    /// Counts several things for a domain.
    pub(super) fn count_all(&mut self, index: u32, counts: impl IntoIterator<Item = (Counter, u64)>) {
        for (counter, by) in counts.into_iter().filter(|(_, by)| *by > 0) {
            self.ledger.count(index, counter, by);
        }
    }

    /// Counts a message that was decoded, and by how much the clock of its exporter is ahead.
    pub(super) fn count_decoded(&mut self, index: u32, offset_ms: i64) {
        self.count(index, Counter::DatagramsDecoded, 1);
        let offset_ms = offset_ms.clamp(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX);
        let clock = if offset_ms < 0 { Counter::ClockBehindMs } else { Counter::ClockAheadMs };
        self.count(index, clock, offset_ms.unsigned_abs());
    }

    /// Counts what was not taken of a set of options data.
    pub(super) fn count_left_out(&mut self, index: u32, set: &OptionsSet) {
        let samplers = set.learned.as_deref().map_or(0, |learned| learned.samplers.refused);
        let left_out = [
            (Counter::SamplersRefused, samplers),
            (Counter::OptionsUnlisted, set.left_out.records),
            (Counter::ApplicationsRefused, set.left_out.applications),
        ];
        self.count_all(index, left_out);
    }

    /// Counts an error in the sets of a message of a domain. Returns how many.
    pub(super) fn count_error(&mut self, index: u32, error: Option<WireError>) -> u32 {
        let Some(error) = error else { return 0 };
        self.note_error(error);
        self.count(index, Counter::SetsUndecodable, 1);
        self.count(index, class_counter(error), 1);
        1
    }

    /// Counts errors in the samples of a datagram. Where octets are left behind the last one, every sample that the header
    /// counts was read: what an agent appends to them is no loss.
    pub(super) fn count_sample_errors(&mut self, index: u32, errors: &[WireError]) {
        for error in errors {
            if matches!(error, WireError::TrailingOctets { .. }) {
                self.note_error(*error);
            } else {
                self.count_error(index, Some(*error));
            }
        }
    }

    /// Counts evicted templates.
    pub(super) fn count_evicted(&mut self, evicted: Evicted) {
        for (victim, templates) in evicted {
            self.count(victim, Counter::TemplatesEvicted, templates);
        }
    }

    /// Counts an error by its label only.
    pub(super) fn note_error(&mut self, error: WireError) {
        self.errors.note(error);
    }

    /// Errors by [`WireError::label`], those that occurred.
    pub(super) fn errors_seen(&self) -> Vec<(&'static str, u64)> {
        self.errors.seen()
    }
}

/// The counter of a class of errors.
pub(super) fn class_counter(error: WireError) -> Counter {
    match error.class() {
        ErrorClass::Header => Counter::ErrorsHeader,
        ErrorClass::Length => Counter::ErrorsLength,
        ErrorClass::Template => Counter::ErrorsTemplate,
        ErrorClass::Record => Counter::ErrorsRecord,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_label_and_class() {
        let (version, header) = (WireError::WrongVersion { found: 7 }, WireError::TruncatedHeader { need: 2, have: 1 });
        let mut errors = ErrorCounts::default();
        for error in [version, header, version] {
            errors.note(error);
        }
        let mut seen = errors.seen();
        seen.sort_by_key(|(_, count)| *count);
        assert_eq!(seen, [(header.label(), 1), (version.label(), 2)]);
        assert_eq!(class_counter(version), Counter::ErrorsHeader);
    }
}
