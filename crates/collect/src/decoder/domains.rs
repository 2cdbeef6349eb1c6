//! Observation Domains: found, made, counted for.

use weir_flow::{Counter, EXPORT_VERSION_SFLOW5};
use weir_wire::WireError;
use weir_wire::error::ErrorClass;

use super::{Decoder, is_sflow};
use crate::limits::UNSETTLED_MAX;
use crate::sequence::{Arrival, Outcome, SequenceUnit};
use crate::session::{Domain, DomainKey, Session, Transport};

/// An exporter's clock that is farther off counts as this far off, in milliseconds, so that sums stay sums.
const CLOCK_OFFSET_MS_MAX: i64 = 86_400_000;

impl Decoder {
    /// Garbage may fill half of the room for domains, so that it cannot keep real exporters out.
    pub(super) fn undecodable(&mut self, session: Session, payload: &[u8], error: WireError) {
        let version = match payload.get(1).copied() {
            _ if is_sflow(payload) => EXPORT_VERSION_SFLOW5,
            version => version.unwrap_or(0),
        };
        let key = DomainKey { session, version, domain: 0 };
        if self.index.len() >= self.limits.domains_max / 2 && !self.index.contains_key(&key) {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
        } else if let Some(index) = self.enter(key, payload) {
            self.count(index, Counter::DatagramsUndecodable, 1);
            self.count(index, class_counter(error), 1);
            self.domains[index as usize].inspection.undecodable(self.now_ms, payload);
        }
    }

    /// Finds or makes the domain that a datagram belongs to, and counts the datagram. `None` when there are too many.
    pub(super) fn enter(&mut self, key: DomainKey, payload: &[u8]) -> Option<u32> {
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => self.find(key)?,
        };
        self.last = Some((key, index));
        self.domains[index as usize].hear(self.now_ms);
        self.count(index, Counter::Datagrams, 1);
        self.count(index, Counter::Octets, payload.len() as u64);
        if key.session.transport != Transport::Udp {
            self.count(index, Counter::StreamMessages, 1);
        }
        Some(index)
    }

    pub(super) fn find(&mut self, key: DomainKey) -> Option<u32> {
        if let Some(&index) = self.index.get(&key) {
            return Some(index);
        }
        let domain = Domain::new(key, &self.limits);
        let index = if let Some(index) = self.ends.vacant.pop() {
            self.domains[index as usize] = domain;
            index
        } else if self.domains.len() < self.limits.domains_max {
            self.domains.push(domain);
            self.domains.len() as u32 - 1
        } else if let Some(index) = self.evict() {
            self.domains[index as usize] = domain;
            index
        } else {
            self.ledger.count_unassigned(Counter::DatagramsRefused, 1);
            return None;
        };
        self.index.insert(key, index);
        self.ends.began(key.session, index);
        if let Some(ports) = &mut self.ports {
            ports.insert(key, index);
        }
        Some(index)
    }

    /// Whether a datagram is new: one that came twice is counted and not decoded. Yields its hash, to be handed to
    /// [`Decoder::follow`].
    pub(super) fn is_new(&mut self, index: u32, sequence: u32, payload: &[u8]) -> Option<u64> {
        let domain = &self.domains[index as usize];
        // Numbers that do not move say nothing about which datagram it is, and a stream delivers nothing twice.
        let looks = self.limits.duplicate_datagrams_max > 0 && domain.key.session.transport.is_datagrams();
        if !looks || !domain.sequence.unit().tells_loss() {
            return Some(0);
        }
        let hash = self.hasher.hash(payload);
        if domain.duplicates.has(sequence, hash) {
            self.count(index, Counter::DatagramsDuplicate, 1);
            return None;
        }
        Some(hash)
    }

    /// Follows the sequence number and the clock of a datagram that was decoded.
    pub(super) fn follow(&mut self, index: u32, arrival: &Arrival, hash: u64) -> Outcome {
        let (received_ms, limits) = (self.now_ms, &self.limits);
        let domain = &mut self.domains[index as usize];
        domain.inspection.clock(received_ms, arrival);
        let before = domain.sequence.unsettled();
        let outcome = domain.sequence.observe(arrival);
        if domain.sequence.unit().of(arrival) > 0 || !arrival.complete {
            domain.duplicates.remember(arrival.sequence, hash, limits.duplicate_datagrams_max);
        }
        self.bound_unsettled(index, before);
        self.count(index, Counter::DatagramsDecoded, 1);
        let offset_ms = arrival.export_ms.saturating_sub(received_ms).clamp(-CLOCK_OFFSET_MS_MAX, CLOCK_OFFSET_MS_MAX);
        let clock = if offset_ms < 0 { Counter::ClockBehindMs } else { Counter::ClockAheadMs };
        self.count(index, clock, offset_ms.unsigned_abs());
        self.enter_in_books(index, outcome);
        outcome
    }

    /// A set that had waited was decoded.
    pub(super) fn settle(&mut self, index: u32, number: u64, records: Option<u32>) {
        let sequence = &mut self.domains[index as usize].sequence;
        let before = sequence.unsettled();
        let outcome = sequence.set_decoded(number, records);
        self.bound_unsettled(index, before);
        self.enter_in_books(index, outcome);
    }

    /// Keeps what all accounts of sequence numbers have not settled within its bound: a domain that would go beyond it
    /// leaves its own undecided.
    #[inline]
    pub(super) fn bound_unsettled(&mut self, index: u32, before: usize) {
        let sequence = &mut self.domains[index as usize].sequence;
        self.unsettled = self.unsettled + sequence.unsettled() - before;
        if self.unsettled > UNSETTLED_MAX {
            self.unsettled -= sequence.unsettled();
            sequence.leave_unsettled();
        }
    }

    #[inline]
    fn enter_in_books(&mut self, index: u32, outcome: Outcome) {
        if outcome == Outcome::default() {
            return;
        }
        let sequence = &self.domains[index as usize].sequence;
        let unit = if outcome.taken_back > 0 { sequence.unit_before() } else { sequence.unit() };
        let (lost, late) = match unit {
            SequenceUnit::Datagrams => (Counter::DatagramsLost, Counter::DatagramsLate),
            _ => (Counter::RecordsLost, Counter::RecordsLate),
        };
        let counts = [
            (lost, u64::from(outcome.lost)),
            (late, u64::from(outcome.late) + outcome.taken_back),
            (Counter::DatagramsReordered, u64::from(outcome.reordered)),
            (Counter::SequenceResets, u64::from(outcome.reset)),
            (Counter::DatagramsUnsequenced, u64::from(outcome.unsequenced)),
        ];
        for (counter, by) in counts.into_iter().filter(|(_, by)| *by > 0) {
            self.count(index, counter, by);
        }
    }

    #[inline]
    pub(super) fn count(&mut self, index: u32, counter: Counter, by: u64) {
        let domain = &mut self.domains[index as usize];
        if matches!(counter, Counter::RecordsStored | Counter::RecordsOptions) && by > 0 {
            domain.prove(self.now_ms);
        }
        self.ledger.count(index, domain, counter, by);
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
            self.count(index, class_counter(error), 1);
        }
    }
}

/// The counter of a class of errors.
fn class_counter(error: WireError) -> Counter {
    match error.class() {
        ErrorClass::Header => Counter::ErrorsHeader,
        ErrorClass::Length => Counter::ErrorsLength,
        ErrorClass::Template => Counter::ErrorsTemplate,
        ErrorClass::Record => Counter::ErrorsRecord,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::{ObservationDomainId, ipfix};

    use super::*;
    use crate::Limits;

    /// A message of a domain with one Data Set, of which nobody knows the Template.
    fn data(domain: u32, sequence: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let header = ipfix::Header { domain: ObservationDomainId(domain), sequence, ..ipfix::Header::default() };
        ipfix::MessageBuilder::new(&mut out, &header).finish();
        out[2..4].copy_from_slice(&24_u16.to_be_bytes());
        out.extend([1, 0, 0, 8, 0, 0, 0, 0]);
        out
    }

    #[test]
    fn accounts_that_are_not_settled_are_bounded_over_all_domains() {
        let mut decoder = Decoder::new(Limits { waiting_octets_max: 0, ..Limits::default() });
        let source = SocketAddr::from(([192, 0, 2, 1], 4739));
        let mut most = 0;
        for datagram in 0..UNSETTLED_MAX as u32 {
            decoder.datagram(source, 0, &data(datagram % 3_000, datagram * 10));
            most = most.max(decoder.unsettled);
            assert!(decoder.unsettled <= UNSETTLED_MAX, "{}", decoder.unsettled);
        }
        assert!(most + 5_000 > UNSETTLED_MAX, "the bound was never met: {most}");
        let counted: usize = decoder.domains.iter().map(|domain| domain.sequence.unsettled()).sum();
        assert_eq!(decoder.unsettled, counted);
    }
}
