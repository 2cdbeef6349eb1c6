//! The books: what was counted for each Observation Domain, minute by minute, on its way into a delivery.

use weir_flow::{BooksRow, Counter};

use crate::domain::DomainKey;

const MINUTE_MS: i64 = 60_000;
/// Lines from which on a delivery should be taken, however few flows there are.
const LINES_MAX: usize = 16_384;

/// Every counter of the books.
pub(crate) type Counts = [u64; Counter::COUNT];

/// What was counted for one Observation Domain.
#[derive(Debug)]
pub(crate) struct Account {
    key: DomainKey,
    /// Counts not yet written to the books.
    pending: Counts,
    has_pending: bool,
    /// Counts that are in the books.
    written: Counts,
}

impl Account {
    fn new(key: DomainKey) -> Self {
        Self { key, pending: [0; Counter::COUNT], has_pending: false, written: [0; Counter::COUNT] }
    }

    /// Takes what is not written yet.
    fn line(&mut self, minute_ms: i64) -> BooksRow {
        self.has_pending = false;
        self.written.iter_mut().zip(&self.pending).for_each(|(total, count)| *total += count);
        BooksRow {
            minute_ms,
            exporter: Some(self.key.exporter()),
            observation_domain: Some(self.key.domain),
            export_version: Some(self.key.version),
            counts: std::mem::replace(&mut self.pending, [0; Counter::COUNT]),
        }
    }
}

/// The accounts of all domains, by their places in the table of domains.
#[derive(Debug)]
pub(crate) struct Ledger {
    minute_ms: i64,
    lines: Vec<BooksRow>,
    accounts: Vec<Account>,
    /// Accounts with counts that are not in `lines` yet.
    changed: Vec<u32>,
    /// Counts that belong to no exporter.
    unassigned: Counts,
    /// All counts of all exporters since the start.
    totals: Counts,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            minute_ms: 0,
            lines: Vec::new(),
            accounts: Vec::new(),
            changed: Vec::new(),
            unassigned: [0; Counter::COUNT],
            totals: [0; Counter::COUNT],
        }
    }
}

impl Ledger {
    /// Moves to the minute of this time; what was counted before belongs to the minute before.
    #[inline]
    pub(crate) fn move_to(&mut self, received_ms: i64) {
        let minute_ms = received_ms.saturating_sub(received_ms.rem_euclid(MINUTE_MS));
        if minute_ms != self.minute_ms {
            self.write_lines();
            self.minute_ms = minute_ms;
        }
    }

    /// Opens the account of a new domain at this place, the next one or that of an account that was closed.
    pub(crate) fn open(&mut self, index: u32, key: DomainKey) {
        let account = Account::new(key);
        match self.accounts.get_mut(index as usize) {
            Some(closed) => *closed = account,
            None => self.accounts.push(account),
        }
    }

    /// Counts for a domain.
    #[inline]
    pub(crate) fn count(&mut self, index: u32, counter: Counter, by: u64) {
        let account = &mut self.accounts[index as usize];
        account.pending[counter as usize] += by;
        self.totals[counter as usize] += by;
        if !account.has_pending {
            account.has_pending = true;
            self.changed.push(index);
        }
    }

    /// Counts what belongs to no exporter.
    pub(crate) fn count_unassigned(&mut self, counter: Counter, by: u64) {
        self.unassigned[counter as usize] += by;
        self.totals[counter as usize] += by;
    }

    /// Counts for a domain that is no longer known.
    pub(crate) fn count_forgotten(&mut self, key: DomainKey, counter: Counter, by: u64) {
        self.totals[counter as usize] += by;
        let mut account = Account::new(key);
        account.pending[counter as usize] = by;
        self.lines.push(account.line(self.minute_ms));
    }

    /// Writes the line of a domain that is about to be forgotten.
    pub(crate) fn close(&mut self, index: u32) {
        let account = &mut self.accounts[index as usize];
        if account.has_pending {
            // its entry in `changed` stays, and finds the account that has the place by then
            self.lines.push(account.line(self.minute_ms));
        }
    }

    /// Whether enough lines have gathered that a delivery should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= LINES_MAX
    }

    /// Most octets of lines: each domain may have one, and those that were forgotten.
    pub(crate) const fn octets_max(domains_max: usize) -> usize {
        // two sizes because a list doubles when it grows, and the address
        (domains_max + LINES_MAX) * (2 * size_of::<BooksRow>() + 32)
    }

    /// The lines since the last call.
    pub(crate) fn take_lines(&mut self) -> Vec<BooksRow> {
        self.write_lines();
        std::mem::take(&mut self.lines)
    }

    /// All counts of all exporters.
    pub(crate) fn totals(&self) -> &Counts {
        &self.totals
    }

    /// All counts of one domain.
    pub(crate) fn totals_of(&self, index: u32) -> Counts {
        let account = &self.accounts[index as usize];
        let mut totals = account.written;
        totals.iter_mut().zip(&account.pending).for_each(|(total, count)| *total += count);
        totals
    }

    fn write_lines(&mut self) {
        for index in self.changed.drain(..) {
            let account = &mut self.accounts[index as usize];
            if account.has_pending {
                self.lines.push(account.line(self.minute_ms));
            }
        }
        if self.unassigned.iter().any(|count| *count > 0) {
            self.lines.push(BooksRow {
                minute_ms: self.minute_ms,
                exporter: None,
                observation_domain: None,
                export_version: None,
                counts: std::mem::replace(&mut self.unassigned, [0; Counter::COUNT]),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::session::Session;

    fn key(domain: u32) -> DomainKey {
        DomainKey { session: Session::udp(SocketAddr::from(([192, 0, 2, 1], 2055))), version: 10, domain }
    }

    /// Minute, domain and count of Data Records in each line.
    fn records(ledger: &mut Ledger) -> Vec<(i64, Option<u32>, u64)> {
        let records = |line: &BooksRow| line.counts[Counter::RecordsStored as usize];
        ledger.take_lines().iter().map(|line| (line.minute_ms, line.observation_domain, records(line))).collect()
    }

    #[test]
    fn counts_belong_to_the_minute_in_which_they_were_made() {
        let mut ledger = Ledger::default();
        ledger.move_to(59_999);
        ledger.open(0, key(7));
        ledger.count(0, Counter::RecordsStored, 2);
        ledger.count(0, Counter::RecordsStored, 3);
        ledger.move_to(60_000);
        ledger.count(0, Counter::RecordsStored, 10);
        ledger.count_unassigned(Counter::RecordsStored, 1);
        assert_eq!(records(&mut ledger), [(0, Some(7), 5), (60_000, Some(7), 10), (60_000, None, 1)]);
        assert!(records(&mut ledger).is_empty());
        assert_eq!(ledger.totals()[Counter::RecordsStored as usize], 16);
        assert_eq!(ledger.totals_of(0)[Counter::RecordsStored as usize], 15);
    }

    #[test]
    fn a_place_that_is_used_again_keeps_the_accounts_apart() {
        let mut ledger = Ledger::default();
        ledger.open(0, key(1));
        ledger.count(0, Counter::RecordsStored, 2);
        ledger.close(0);
        ledger.open(0, key(2));
        ledger.count(0, Counter::RecordsStored, 3);
        ledger.count_forgotten(key(1), Counter::RecordsStored, 4);
        assert_eq!(ledger.totals_of(0)[Counter::RecordsStored as usize], 3);
        assert_eq!(records(&mut ledger), [(0, Some(1), 2), (0, Some(1), 4), (0, Some(2), 3)]);
    }
}
