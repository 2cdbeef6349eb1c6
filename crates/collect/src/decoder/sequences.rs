//! The accounts of sequence numbers of all domains, with one bound over all of them.

use std::collections::HashMap;

use weir_flow::{SequenceKey, SequenceRow};

use super::domains::Domains;
use crate::Limits;
use crate::domain::Domain;
use crate::limits::UNSETTLED_MAX;
use crate::sequence::{Arrival, DatagramHasher, Outcome, SequencePosition, SequenceUnit};

/// An account of a process before is not gone on with after this time, in milliseconds.
const RESUMED_AGE_MAX_MS: i64 = 2 * 86_400_000;

/// What the accounts of all domains have in common.
#[derive(Debug)]
pub(super) struct Sequences {
    duplicate_datagrams_max: usize,
    /// What the accounts have not settled, of all domains.
    unsettled: usize,
    hasher: DatagramHasher,
    /// Most accounts of the process before that are remembered.
    resumable_max: usize,
    /// `None` when nobody asks where they stand.
    standing: Option<Standing>,
}

/// Where the accounts stand, as the next process is told.
#[derive(Debug, Default)]
struct Standing {
    /// Where those of the process before this one stood, of exporters that have not been heard since.
    before: HashMap<SequenceKey, SequencePosition>,
    /// Domains that something came from since the last rows.
    moved: Vec<u32>,
    /// Of domains that are forgotten by now.
    rows: Vec<SequenceRow>,
}

impl Sequences {
    /// None yet.
    pub(super) fn new(limits: &Limits) -> Self {
        let duplicate_datagrams_max = limits.duplicate_datagrams_max;
        let (hasher, resumable_max) = (DatagramHasher::default(), limits.domains_max);
        Self { duplicate_datagrams_max, unsettled: 0, hasher, resumable_max, standing: None }
    }

    /// Has rows made of where the accounts stand, and goes on from those of the process before.
    pub(super) fn resume(&mut self, rows: impl IntoIterator<Item = SequenceRow>) {
        let before = rows.into_iter().filter_map(|row| {
            let unit = SequenceUnit::by_name(&row.unit)?;
            let SequenceRow { key, received_ms, since_ms, first, next, units, is_least, uptime_ms, .. } = row;
            let export_ms = row.exported_ms;
            let position =
                SequencePosition { unit, first, next, units, is_least, received_ms, since_ms, export_ms, uptime_ms };
            Some((key, position))
        });
        let standing = self.standing.get_or_insert_default();
        standing.before.extend(before.take(self.resumable_max));
    }

    /// Exporters whose accounts may still be gone on with.
    pub(super) fn resumable(&self) -> usize {
        self.standing.as_ref().map_or(0, |standing| standing.before.len())
    }

    /// Goes on with the account of a new domain, if it had one in the process before and that is not long ago.
    pub(super) fn begin(&mut self, domain: &mut Domain, now_ms: i64) {
        let Some(standing) = self.standing.as_mut().filter(|standing| !standing.before.is_empty()) else { return };
        let position = domain.key.sequence_key().and_then(|key| standing.before.remove(&key));
        // domains that are restored at the start have no time yet
        let is_old = |ms: i64| now_ms > 0 && now_ms.saturating_sub(ms) > RESUMED_AGE_MAX_MS;
        if let Some(position) = position.filter(|position| !is_old(position.received_ms)) {
            domain.sequence.resume(&position);
        }
    }

    /// Where the accounts stand of all domains that something came from since the last call.
    pub(super) fn take_rows(&mut self, domains: &mut Domains) -> Vec<SequenceRow> {
        let Some(Standing { moved, rows, .. }) = &mut self.standing else { return Vec::new() };
        let mut rows = std::mem::take(rows);
        for index in moved.drain(..) {
            let domain = &mut domains[index];
            // another may have its place by now, and is there twice then
            if domain.sequence.take_untold() {
                rows.extend(row(domain));
            }
        }
        rows
    }

    /// The hash of a datagram, for [`Sequences::observe`]; `None` when it is a duplicate.
    #[inline]
    pub(super) fn hash_unless_duplicate(&self, domain: &Domain, sequence: u32, payload: &[u8]) -> Option<u64> {
        if !self.looks_for_duplicates(domain) {
            return Some(0);
        }
        let hash = self.hasher.hash(payload);
        (!domain.duplicates.has(sequence, hash)).then_some(hash)
    }

    /// Numbers that do not move say nothing about which datagram it is, and a stream delivers nothing twice.
    #[inline]
    fn looks_for_duplicates(&self, domain: &Domain) -> bool {
        let may_come_twice = domain.key.session.transport.is_datagrams();
        self.duplicate_datagrams_max > 0 && may_come_twice && domain.sequence.unit().shows_loss()
    }

    /// Takes the next message of a domain at this place, with its hash.
    pub(super) fn observe(&mut self, index: u32, domain: &mut Domain, arrival: &Arrival, hash: u64) -> Outcome {
        if let Some(standing) = &mut self.standing
            && domain.sequence.note_untold()
        {
            standing.moved.push(index);
        }
        let before = domain.sequence.unsettled();
        let outcome = domain.sequence.observe(arrival);
        let has_units = domain.sequence.unit().of(arrival) > 0 || !arrival.complete;
        if has_units && self.looks_for_duplicates(domain) {
            domain.duplicates.remember(arrival.sequence, hash, self.duplicate_datagrams_max);
        }
        self.bound_unsettled(domain, before);
        outcome
    }

    /// Notes that sets of a message, with these numbers, wait for their template.
    pub(super) fn sets_wait(&mut self, domain: &mut Domain, arrival: &Arrival, numbers: std::ops::Range<u64>) {
        let before = domain.sequence.unsettled();
        domain.sequence.sets_wait(arrival, numbers);
        self.bound_unsettled(domain, before);
    }

    /// Notes that a set that had waited was decoded; `records` is `None` when they could not all be counted.
    pub(super) fn settle(&mut self, domain: &mut Domain, number: u64, records: Option<u32>) -> Outcome {
        let before = domain.sequence.unsettled();
        let outcome = domain.sequence.set_decoded(number, records);
        self.bound_unsettled(domain, before);
        outcome
    }

    /// Forgets the account of a domain that is about to be forgotten.
    pub(super) fn forget(&mut self, domain: &mut Domain) {
        self.unsettled -= domain.sequence.unsettled();
        let Some(standing) = &mut self.standing else { return };
        let unheard = domain.sequence.unheard();
        if let Some((position, key)) = unheard.and_then(|position| Some((position, domain.key.sequence_key()?))) {
            // it had to give way before it was heard, and may still be
            standing.before.insert(key, position);
        } else if domain.sequence.take_untold() {
            standing.rows.extend(row(domain));
        }
    }

    /// Keeps what all accounts have not settled within its bound: a domain that would go beyond it leaves its own
    /// undecided.
    #[inline]
    fn bound_unsettled(&mut self, domain: &mut Domain, before: usize) {
        let sequence = &mut domain.sequence;
        self.unsettled = self.unsettled + sequence.unsettled() - before;
        if self.unsettled > UNSETTLED_MAX {
            self.unsettled -= sequence.unsettled();
            sequence.leave_unsettled();
        }
    }

    /// Sequence gaps, over all domains, of which it is not decided whether something is missing.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }
}

/// Where the account of a domain stands. Nothing is told of one without records: anybody can make up any number of those.
fn row(domain: &mut Domain) -> Option<SequenceRow> {
    domain.activity.records_since_ms?;
    let key = domain.key.sequence_key()?;
    let position = domain.sequence.tell()?;
    let SequencePosition { unit, first, next, units, is_least, received_ms, since_ms, export_ms, uptime_ms } = position;
    let unit = unit.name().to_owned();
    let exported_ms = export_ms;
    Some(SequenceRow { key, received_ms, since_ms, unit, first, next, units, is_least, exported_ms, uptime_ms })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::domain::DomainKey;
    use crate::session::{Session, Transport};

    fn domain(transport: Transport) -> Domain {
        let session = Session { transport, source: SocketAddr::from(([192, 0, 2, 1], 4739)) };
        Domain::new(DomainKey { session, version: 10, domain: 0 }, &Limits::default())
    }

    fn arrival(sequence: u32, complete: bool) -> Arrival {
        Arrival { sequence, records: 1, all_records: 1, complete, received_ms: 0, export_ms: 0, uptime_ms: None }
    }

    #[test]
    fn a_datagram_that_comes_again_is_a_duplicate_and_a_message_of_a_connection_is_not() {
        for (transport, is_duplicate) in [(Transport::Udp, true), (Transport::Tcp, false)] {
            let (mut sequences, mut domain) = (Sequences::new(&Limits::default()), domain(transport));
            let hash = sequences.hash_unless_duplicate(&domain, 7, b"message").expect("new");
            sequences.observe(0, &mut domain, &arrival(7, true), hash);
            assert_eq!(sequences.hash_unless_duplicate(&domain, 7, b"message").is_none(), is_duplicate);
            assert!(sequences.hash_unless_duplicate(&domain, 7, b"another").is_some());
        }
    }

    #[test]
    fn what_is_not_settled_is_counted_over_all_domains() {
        let mut sequences = Sequences::new(&Limits::default());
        let mut domains = [domain(Transport::Udp), domain(Transport::Udp)];
        for domain in &mut domains {
            for number in 0..10 {
                let arrival = arrival(number * 10, false);
                sequences.observe(0, domain, &arrival, 0);
                sequences.sets_wait(domain, &arrival, number.into()..u64::from(number) + 1);
            }
        }
        let unsettled: usize = domains.iter().map(|domain| domain.sequence.unsettled()).sum();
        assert!(unsettled > 20, "sets that wait and the gaps after them: {unsettled}");
        assert_eq!(sequences.unsettled(), unsettled);
        let outcome = sequences.settle(&mut domains[0], 0, Some(4));
        assert_eq!(outcome.lost, 5, "one record known at once, four of the set that waited");
        let left: usize = domains.iter().map(|domain| domain.sequence.unsettled()).sum();
        assert_eq!((sequences.unsettled(), left), (unsettled - 2, unsettled - 2));
        sequences.forget(&mut domains[0]);
        assert_eq!(sequences.unsettled(), domains[1].sequence.unsettled());
    }
}
