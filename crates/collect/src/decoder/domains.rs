//! Observation Domains: found, made, counted for.

use weir_flow::Counter;
use weir_wire::WireError;

use super::Decoder;
use crate::sequence::Verdict;
use crate::session::{Domain, DomainKey, Session};

impl Decoder {
    /// Garbage may fill half of the room for domains, so that it cannot keep real exporters out.
    pub(super) fn undecodable(&mut self, session: Session, payload: &[u8]) {
        let version = payload.get(1).copied().unwrap_or(0);
        let key = DomainKey { session, version, domain: 0 };
        if self.domains.len() >= self.limits.domains_max / 2 && !self.index.contains_key(&key) {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
        } else if let Some(index) = self.enter(key, payload) {
            self.count(index, Counter::DatagramsUndecodable, 1);
        }
    }

    /// Finds or makes the domain that a datagram belongs to, and counts the datagram. `None` when there are too many.
    pub(super) fn enter(&mut self, key: DomainKey, payload: &[u8]) -> Option<u32> {
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => self.find(key)?,
        };
        self.last = Some((key, index));
        self.count(index, Counter::Datagrams, 1);
        self.count(index, Counter::Octets, payload.len() as u64);
        Some(index)
    }

    pub(super) fn find(&mut self, key: DomainKey) -> Option<u32> {
        if let Some(&index) = self.index.get(&key) {
            return Some(index);
        }
        if self.domains.len() >= self.limits.domains_max {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
            return None;
        }
        let index = self.domains.len() as u32;
        self.domains.push(Domain::new(key));
        self.index.insert(key, index);
        Some(index)
    }

    /// Follows the sequence number; `units` is what the number counts, `present` how many of them are here.
    pub(super) fn follow(&mut self, index: u32, sequence: u32, units: Option<u32>, present: u32) {
        let domain = &mut self.domains[index as usize];
        let datagrams = domain.key.version == 9;
        let verdict = domain.sequence.observe(sequence, units);
        let (counter, by) = match verdict {
            Verdict::InOrder => return,
            Verdict::Lost(units) if datagrams => (Counter::DatagramsLost, units),
            Verdict::Lost(units) => (Counter::RecordsLost, units),
            Verdict::Late if datagrams => (Counter::DatagramsLate, 1),
            Verdict::Late => (Counter::RecordsLate, present),
            Verdict::Reset => (Counter::SequenceResets, 1),
        };
        self.count(index, counter, u64::from(by));
    }

    #[inline]
    pub(super) fn count(&mut self, index: u32, counter: Counter, by: u64) {
        self.ledger.count(index, &mut self.domains[index as usize], counter, by);
    }

    pub(super) fn note(&mut self, error: WireError) {
        let label = error.label();
        if let Some(position) = WireError::LABELS.iter().position(|known| *known == label) {
            self.problems[position] += 1;
        }
    }

    pub(super) fn note_in_set(&mut self, index: u32, problem: Option<WireError>) {
        if let Some(error) = problem {
            self.note(error);
            self.count(index, Counter::SetsUndecodable, 1);
        }
    }
}
