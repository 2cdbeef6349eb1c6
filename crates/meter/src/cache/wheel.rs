//! Flows by the time at which they may be over.
//!
//! A ring of lists, one for each second or so. A flow is in one list, which is not changed when packets come: when the
//! time of its list has come, the flow either is over or enters again at its deadline of then. So a packet costs
//! nothing here, and a flow one visit for each idle timeout that it lives. An entry whose flow has ended otherwise stays
//! in its list until its time, even when it holds another flow by then, which is then looked at early, or late by the
//! idle timeout at most.
//!
//! The lists have the numbers of entries by themselves. Links from entry to entry would need no room, and each would be
//! known only when the entry before had come from memory, one after the other.

use super::flow::Flow;

/// A tick is 2^20 microseconds.
const TICK_BITS: u32 = 20;
/// Ticks of the ring, over an hour; later deadlines enter again then.
const TICKS: i64 = 4096;
/// A clock that goes back by more ticks than this was set, or belongs to another capture.
const BACK_MAX: i64 = 4;
#[derive(Debug)]
pub(super) struct Wheel {
    lists: Vec<Vec<u32>>,
    /// The next tick to look at; `None` before the first flow.
    tick: Option<i64>,
    /// What is left of the list that is looked at.
    draining: Vec<u32>,
    /// Numbers that lists have room for.
    room: usize,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { lists: vec![Vec::new(); TICKS as usize], tick: None, draining: Vec::new(), room: 0 }
    }

    pub(super) fn octets(&self) -> usize {
        self.lists.len() * size_of::<Vec<u32>>() + self.room * size_of::<u32>()
    }

    /// Enters an entry, unless it is in a list.
    pub(super) fn enter(&mut self, slot: u32, flow: &mut Flow, deadline_us: i64, now_us: i64) {
        if flow.is_in_wheel() {
            return;
        }
        let next = *self.tick.get_or_insert(now_us >> TICK_BITS);
        // the tick after the deadline, so that it has passed when the list is looked at
        let tick = (deadline_us >> TICK_BITS).saturating_add(1).clamp(next, next + TICKS - 1);
        let list = &mut self.lists[tick.rem_euclid(TICKS) as usize];
        let room = list.capacity();
        list.push(slot);
        self.room += list.capacity() - room;
        flow.set_in_wheel(true);
    }

    /// Takes entries out whose time has come, as many as `slots` has room for, and tells how many. Who takes them
    /// [says so](Flow::set_in_wheel) in each.
    pub(super) fn take_due(&mut self, now_us: i64, slots: &mut [u32]) -> usize {
        let Some(mut next) = self.tick else { return 0 };
        let now = now_us >> TICK_BITS;
        if now < next - BACK_MAX - 1 {
            next = now;
        }
        // each list once is enough, however far the clock went
        next = next.max(now - TICKS + 1);
        while self.draining.is_empty() && next <= now {
            self.room -= self.draining.capacity();
            self.draining = std::mem::take(&mut self.lists[next.rem_euclid(TICKS) as usize]);
            next += 1;
        }
        self.tick = Some(next);
        let left = self.draining.len().saturating_sub(slots.len());
        let taken = self.draining.len() - left;
        slots[..taken].copy_from_slice(&self.draining[left..]);
        self.draining.truncate(left);
        taken
    }
}
