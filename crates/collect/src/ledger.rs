//! Lines of the books on their way into a delivery.

use weir_flow::{BooksRow, Counter};

use crate::Limits;
use crate::session::{Domain, DomainKey};

const MINUTE_MS: i64 = 60_000;
/// Lines from which on a delivery should be taken, however few flows there are.
const LINES_MAX: usize = 16_384;

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

    /// Writes the line of a domain that is about to be forgotten.
    pub(crate) fn close(&mut self, domain: &mut Domain) {
        if domain.has_pending {
            // its entry in `changed` stays, and finds whoever has the place by then
            domain.has_pending = false;
            self.rows.push(line(self.minute_ms, domain));
        }
    }

    /// Counts for a domain that is no longer known.
    pub(crate) fn count_forgotten(&mut self, key: DomainKey, counter: Counter, by: u64) {
        self.totals[counter as usize] += by;
        let mut domain = Domain::new(key, &Limits::default());
        domain.pending[counter as usize] = by;
        self.rows.push(line(self.minute_ms, &mut domain));
    }

    /// Whether so many lines have gathered that a delivery should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= LINES_MAX
    }

    /// Most octets of lines: each domain may have one, and those that were forgotten.
    pub(crate) const fn octets_max(domains_max: usize) -> usize {
        // two sizes because a list doubles when it grows, and the address
        (domains_max + LINES_MAX) * (2 * size_of::<BooksRow>() + 32)
    }

    /// The lines since the last call.
    pub(crate) fn take_lines(&mut self, domains: &mut [Domain]) -> Vec<BooksRow> {
        self.write_lines(domains);
        std::mem::take(&mut self.rows)
    }

    pub(crate) fn totals(&self) -> &[u64; Counter::COUNT] {
        &self.totals
    }

    pub(crate) fn total(&self, counter: Counter) -> u64 {
        self.totals[counter as usize]
    }

    fn write_lines(&mut self, domains: &mut [Domain]) {
        for index in self.changed.drain(..) {
            let Some(domain) = domains.get_mut(index as usize) else { continue };
            if std::mem::take(&mut domain.has_pending) {
                self.rows.push(line(self.minute_ms, domain));
            }
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

/// Takes what a domain has counted.
fn line(minute_ms: i64, domain: &mut Domain) -> BooksRow {
    domain.totals.iter_mut().zip(&domain.pending).for_each(|(total, count)| *total += count);
    BooksRow {
        minute_ms,
        exporter: Some(domain.exporter.clone()),
        observation_domain: Some(domain.key.domain),
        export_version: Some(domain.key.version),
        counts: std::mem::replace(&mut domain.pending, [0; Counter::COUNT]),
    }
}
