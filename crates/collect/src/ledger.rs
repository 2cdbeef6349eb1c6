//! Lines of the books on their way into a delivery.

use weir_flow::{BooksRow, Counter};

use crate::session::Domain;

const MINUTE_MS: i64 = 60_000;

/// Collects what domains counted, minute by minute.
#[derive(Debug)]
pub(crate) struct Ledger {
    minute_ms: i64,
    rows: Vec<BooksRow>,
    /// Domains with counts that are not in `rows` yet.
    changed: Vec<u32>,
    /// Counts that belong to no exporter.
    unassigned: [u64; Counter::COUNT],
    /// All counts of all exporters since the start.
    totals: [u64; Counter::COUNT],
}

impl Default for Ledger {
    fn default() -> Self {
        let (unassigned, totals) = ([0; Counter::COUNT], [0; Counter::COUNT]);
        Self { minute_ms: 0, rows: Vec::new(), changed: Vec::new(), unassigned, totals }
    }
}

impl Ledger {
    /// Moves to the minute of this time; what was counted before belongs to the minute before.
    #[inline]
    pub(crate) fn at(&mut self, received_ms: i64, domains: &mut [Domain]) {
        let minute_ms = received_ms.saturating_sub(received_ms.rem_euclid(MINUTE_MS));
        if minute_ms != self.minute_ms {
            self.write_lines(domains);
            self.minute_ms = minute_ms;
        }
    }

    /// Counts for a domain.
    #[inline]
    pub(crate) fn count(&mut self, index: u32, domain: &mut Domain, counter: Counter, by: u64) {
        domain.pending[counter as usize] += by;
        self.totals[counter as usize] += by;
        if !domain.has_pending {
            domain.has_pending = true;
            self.changed.push(index);
        }
    }

    /// Counts what belongs to no exporter.
    pub(crate) fn count_unassigned(&mut self, counter: Counter, by: u64) {
        self.unassigned[counter as usize] += by;
        self.totals[counter as usize] += by;
    }

    /// The lines since the last call.
    pub(crate) fn take_lines(&mut self, domains: &mut [Domain]) -> Vec<BooksRow> {
        self.write_lines(domains);
        std::mem::take(&mut self.rows)
    }

    pub(crate) fn totals(&self) -> &[u64; Counter::COUNT] {
        &self.totals
    }

    fn write_lines(&mut self, domains: &mut [Domain]) {
        for index in self.changed.drain(..) {
            let Some(domain) = domains.get_mut(index as usize) else { continue };
            domain.has_pending = false;
            self.rows.push(BooksRow {
                minute_ms: self.minute_ms,
                exporter: Some(domain.exporter.clone()),
                observation_domain: Some(domain.key.domain),
                export_version: Some(domain.key.version),
                counts: std::mem::replace(&mut domain.pending, [0; Counter::COUNT]),
            });
        }
        if self.unassigned.iter().any(|count| *count > 0) {
            self.rows.push(BooksRow {
                minute_ms: self.minute_ms,
                exporter: None,
                observation_domain: None,
                export_version: None,
                counts: std::mem::replace(&mut self.unassigned, [0; Counter::COUNT]),
            });
        }
    }
}
