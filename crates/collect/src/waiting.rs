//! Data Sets whose template has not come yet.
//!
//! RFC 7011 section 8 lets an exporter's template arrive after its data on UDP. What waits is bounded in octets and
//! in time; the oldest sets go first, and every one that goes is counted.

use std::collections::{HashMap, VecDeque};

use weir_wire::TemplateId;

use crate::Limits;
use crate::clock::MessageClock;

/// A Data Set put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldSet {
    pub clock: MessageClock,
    pub body: Box<[u8]>,
    /// Running number, given by [`WaitingRoom::hold`].
    pub number: u64,
}

/// Octets that a held set costs beside its body.
const OVERHEAD_OCTETS: usize = 96;
/// Entries of sets that left, beyond as many as are held, before they are cleared away.
const ARRIVALS_SLACK: usize = 1_024;

type Key = (u32, TemplateId);

/// All Data Sets that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    sets: HashMap<Key, VecDeque<HeldSet>, foldhash::fast::RandomState>,
    /// Order of arrival, to know who is oldest: key, number and time. Released sets leave their entries behind.
    arrivals: VecDeque<(Key, u64, i64)>,
    octets: usize,
    held: usize,
    next_number: u64,
}

impl WaitingRoom {
    /// Puts a set aside for the template of a domain.
    pub(crate) fn hold(&mut self, domain: u32, template: TemplateId, clock: MessageClock, body: &[u8]) {
        let (key, number) = ((domain, template), self.next_number);
        self.next_number += 1;
        self.held += 1;
        self.octets += body.len() + OVERHEAD_OCTETS;
        self.arrivals.push_back((key, number, clock.received_ms));
        self.sets.entry(key).or_default().push_back(HeldSet { clock, body: body.into(), number });
        if self.arrivals.len() > 2 * self.held + ARRIVALS_SLACK {
            let sets = &self.sets;
            self.arrivals.retain(|(key, number, _)| {
                sets.get(key).and_then(VecDeque::front).is_some_and(|oldest| oldest.number <= *number)
            });
        }
    }

    /// The sets that waited for this template, oldest first.
    pub(crate) fn release(&mut self, domain: u32, template: TemplateId) -> VecDeque<HeldSet> {
        let released = self.sets.remove(&(domain, template)).unwrap_or_default();
        self.octets -= released.iter().map(|set| set.body.len() + OVERHEAD_OCTETS).sum::<usize>();
        self.held -= released.len();
        released
    }

    /// Gives up what is too old or too much. Calls `expired` with the domain of each set.
    pub(crate) fn expire(&mut self, now_ms: i64, limits: &Limits, mut expired: impl FnMut(u32)) {
        let oldest_ms = now_ms.saturating_sub(i64::from(limits.waiting_secs_max) * 1000);
        while let Some(&(key, number, arrived_ms)) = self.arrivals.front() {
            if arrived_ms >= oldest_ms && self.octets <= limits.waiting_octets_max {
                break;
            }
            self.arrivals.pop_front();
            let Some(queue) = self.sets.get_mut(&key) else { continue };
            if let Some(set) = queue.pop_front_if(|oldest| oldest.number == number) {
                self.octets -= set.body.len() + OVERHEAD_OCTETS;
                self.held -= 1;
                expired(key.0);
            }
            if queue.is_empty() {
                self.sets.remove(&key);
            }
        }
    }

    /// Sets that wait.
    pub(crate) fn len(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(room: &mut WaitingRoom, domain: u32, template: u16, received_ms: i64, octets: usize) {
        let clock = MessageClock { received_ms, export_ms: 0, uptime_ms: None };
        room.hold(domain, id(template), clock, &vec![0; octets]);
    }

    fn id(id: u16) -> TemplateId {
        TemplateId::new(id).expect("id")
    }

    #[test]
    fn sets_leave_in_the_order_they_came() {
        let mut room = WaitingRoom::default();
        hold(&mut room, 0, 256, 1, 10);
        hold(&mut room, 0, 257, 2, 10);
        hold(&mut room, 0, 256, 3, 10);
        let times: Vec<_> = room.release(0, id(256)).iter().map(|set| set.clock.received_ms).collect();
        assert_eq!(times, [1, 3]);
        assert_eq!((room.len(), room.octets), (1, 10 + OVERHEAD_OCTETS));
        assert!(room.release(1, id(257)).is_empty());
    }

    #[test]
    fn old_sets_and_too_many_octets_expire() {
        let limits =
            Limits { waiting_octets_max: 2 * (100 + OVERHEAD_OCTETS), waiting_secs_max: 10, ..Limits::default() };
        let mut room = WaitingRoom::default();
        let mut gone = Vec::new();
        for at in 0..3 {
            hold(&mut room, at as u32, 256, at, 100);
        }
        room.expire(3, &limits, |domain| gone.push(domain));
        assert_eq!(gone, [0]);
        room.release(1, id(256));
        room.expire(10_003, &limits, |domain| gone.push(domain));
        assert_eq!(gone, [0, 2]);
        assert_eq!((room.len(), room.octets), (0, 0));
    }

    #[test]
    fn what_was_released_leaves_nothing_behind() {
        let mut room = WaitingRoom::default();
        for at in 0..100_000 {
            hold(&mut room, 0, 256, at, 8);
            room.release(0, id(256));
        }
        assert_eq!((room.len(), room.octets), (0, 0));
        assert!(room.arrivals.len() <= ARRIVALS_SLACK + 1);
    }
}
