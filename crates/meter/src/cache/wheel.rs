//! Flows by the time at which they may be over.
//!
//! A ring of lists, one for each second or so. A flow is in one list, which is not changed when packets come: when the
//! time of its list has come, the flow either is over or enters again at its deadline of then. So a packet costs
//! nothing here, and a flow one visit for each idle timeout that it lives. An entry whose flow has ended otherwise stays
//! in its list until its time, even when it holds another flow by then, which is then looked at early, or late by the
//! idle timeout at most.

use super::flow::Flow;

/// A tick is 2^20 microseconds.
const TICK_BITS: u32 = 20;
/// Ticks of the ring, over an hour; later deadlines enter again then.
const TICKS: i64 = 4096;
/// A clock that goes back by more ticks than this was set, or belongs to another capture.
const BACK_MAX: i64 = 4;
/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Wheel {
    heads: Vec<u32>,
    /// The next tick to look at; `None` before the first flow.
    tick: Option<i64>,
    /// What is left of the list that is looked at.
    draining: u32,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { heads: vec![NONE; TICKS as usize], tick: None, draining: NONE }
    }

    pub(super) fn octets(&self) -> usize {
        self.heads.len() * size_of::<u32>()
    }

    /// Enters an entry, unless it is in a list.
    pub(super) fn enter(&mut self, slot: u32, deadline_us: i64, now_us: i64, flows: &mut [Flow]) {
        let flow = &mut flows[slot as usize];
        if flow.is_in_wheel() {
            return;
        }
        let next = *self.tick.get_or_insert(now_us >> TICK_BITS);
        // the tick after the deadline, so that it has passed when the list is looked at
        let tick = (deadline_us >> TICK_BITS).saturating_add(1).clamp(next, next + TICKS - 1);
        let head = &mut self.heads[tick.rem_euclid(TICKS) as usize];
        flow.next = *head;
        *head = slot;
        flow.set_in_wheel(true);
    }

    /// Takes the next entry out whose time has come.
    pub(super) fn next_due(&mut self, now_us: i64, flows: &mut [Flow]) -> Option<u32> {
        let mut next = self.tick?;
        let now = now_us >> TICK_BITS;
        if now < next - BACK_MAX - 1 {
            next = now;
        }
        // each list once is enough, however far the clock went
        next = next.max(now - TICKS + 1);
        while self.draining == NONE && next <= now {
            self.draining = std::mem::replace(&mut self.heads[next.rem_euclid(TICKS) as usize], NONE);
            next += 1;
        }
        self.tick = Some(next);
        let slot = (self.draining != NONE).then_some(self.draining)?;
        let flow = &mut flows[slot as usize];
        self.draining = flow.next;
        flow.set_in_wheel(false);
        Some(slot)
    }
}
