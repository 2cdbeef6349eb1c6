//! The books: what was counted for each Observation Domain, minute by minute, on its way into a delivery.

use weir_flow::{BooksBatch, BooksBuilder, BooksKey, Counter};

use crate::domain::DomainKey;
use crate::sparse_counts::{Counts, SparseCounts};

const MINUTE_MS: i64 = 60_000;
/// Lines from which on a delivery should be taken, however few flows there are.
const LINES_MAX: usize = 16_384;
/// Octets of an account of a domain, which is in a list that is copied when it grows.
pub(crate) const ACCOUNT_OCTETS: usize = 3 * size_of::<Account>() / 2 + 2 * SparseCounts::ELSEWHERE_OCTETS;

/// What was counted for one Observation Domain.
#[derive(Debug)]
struct Account {
    key: DomainKey,
    /// Counts not yet written to the books.
    pending: SparseCounts,
    /// Counts that are in the books.
    written: SparseCounts,
}

impl Account {
    fn new(key: DomainKey) -> Self {
        Self { key, pending: SparseCounts::default(), written: SparseCounts::default() }
    }
}

/// The accounts of all domains, by their places in the table of domains.
#[derive(Debug)]
pub(crate) struct Ledger {
    minute_ms: i64,
    lines: BooksBuilder,
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
            lines: BooksBuilder::default(),
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
        match self.accounts.get_mut(index as usize) {
            Some(closed) => {
                closed.key = key;
                closed.pending.clear();
                closed.written.clear();
            }
            None => self.accounts.push(Account::new(key)),
        }
    }

    /// Counts for a domain.
    #[inline]
    pub(crate) fn count(&mut self, index: u32, counter: Counter, by: u64) {
        if by == 0 {
            return;
        }
        let account = &mut self.accounts[index as usize];
        if account.pending.is_empty() {
            self.changed.push(index);
        }
        account.pending.add(counter, by);
        self.totals[counter as usize] += by;
    }

    /// Counts what belongs to no exporter.
    pub(crate) fn count_unassigned(&mut self, counter: Counter, by: u64) {
        self.unassigned[counter as usize] += by;
        self.totals[counter as usize] += by;
    }

    /// Counts for a domain that is no longer known.
    pub(crate) fn count_forgotten(&mut self, key: DomainKey, counter: Counter, by: u64) {
        self.totals[counter as usize] += by;
        write_line(&mut self.lines, self.minute_ms, key, [(counter, by)]);
    }

    /// Writes the line of a domain that is about to be forgotten.
    pub(crate) fn close(&mut self, index: u32) {
        let account = &mut self.accounts[index as usize];
        if !account.pending.is_empty() {
            // its entry in `changed` stays, and finds the account that has the place by then
            write_line(&mut self.lines, self.minute_ms, account.key, account.pending.iter());
            account.pending.clear();
        }
    }

    /// Whether enough lines have gathered that a delivery should be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.lines.rows() >= LINES_MAX
    }

    /// Most octets of lines: each domain may have one, and those that were forgotten.
    pub(crate) const fn octets_max(domains_max: usize) -> usize {
        // two sizes because a list doubles when it grows, and the place in `changed`
        (domains_max + LINES_MAX) * (2 * BooksBuilder::ROW_OCTETS_MAX + 8)
    }

    /// The lines since the last call, if there are any.
    pub(crate) fn take_lines(&mut self) -> Option<BooksBatch> {
        self.write_lines();
        (self.lines.rows() > 0).then(|| self.lines.finish())
    }

    /// All counts of all exporters.
    pub(crate) fn totals(&self) -> &Counts {
        &self.totals
    }

    /// All counts of one domain.
    pub(crate) fn totals_of(&self, index: u32) -> Counts {
        let account = &self.accounts[index as usize];
        let mut totals = [0; Counter::COUNT];
        account.written.add_to(&mut totals);
        account.pending.add_to(&mut totals);
        totals
    }

    fn write_lines(&mut self) {
        for index in self.changed.drain(..) {
            let account = &mut self.accounts[index as usize];
            if account.pending.is_empty() {
                continue;
            }
            let Account { key, pending, written } = account;
            pending.iter().for_each(|(counter, count)| written.add(counter, count));
            write_line(&mut self.lines, self.minute_ms, *key, pending.iter());
            pending.clear();
        }
        if self.unassigned.iter().any(|count| *count > 0) {
            let key =
                BooksKey { minute_ms: self.minute_ms, exporter: None, observation_domain: None, export_version: None };
            let unassigned = std::mem::replace(&mut self.unassigned, [0; Counter::COUNT]);
            self.lines.push(key, Counter::ALL.iter().copied().zip(unassigned));
        }
    }
}

/// Writes what was counted for a domain in a minute.
fn write_line(
    lines: &mut BooksBuilder,
    minute_ms: i64,
    key: DomainKey,
    counts: impl IntoIterator<Item = (Counter, u64)>,
) {
    let exporter = key.exporter();
    let key = BooksKey {
        minute_ms,
        exporter: Some(&*exporter),
        observation_domain: Some(key.domain),
        export_version: Some(key.version),
    };
    lines.push(key, counts);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use arrow::array::AsArray;
    use arrow::datatypes::{TimestampMillisecondType, UInt32Type, UInt64Type};

    use super::*;
    use crate::session::Session;

    fn key(domain: u32) -> DomainKey {
        DomainKey { session: Session::udp(SocketAddr::from(([192, 0, 2, 1], 2055))), version: 10, domain }
    }

    /// Minute, domain and count of Data Records in each line.
    fn records(ledger: &mut Ledger) -> Vec<(i64, Option<u32>, u64)> {
        let Some(lines) = ledger.take_lines() else { return Vec::new() };
        let column = |name: &str| lines.record_batch().column_by_name(name).expect(name);
        let minutes = column("minute").as_primitive::<TimestampMillisecondType>();
        let domains = column("observation_domain").as_primitive::<UInt32Type>();
        let stored = column(Counter::RecordsStored.name()).as_primitive::<UInt64Type>();
        let line = |((minute_ms, domain), stored): ((&i64, Option<u32>), &u64)| (*minute_ms, domain, *stored);
        minutes.values().iter().zip(domains.iter()).zip(stored.values().iter()).map(line).collect()
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
