//! Which flows may have to leave when time goes on.
//!
//! Time is cut into ticks, and each flow is listed under the tick in which its time to wait is over. A flow that gets
//! another record stays where it is listed; only when that tick has passed it is looked at, and listed anew. So a
//! record costs nothing here, and a flow one look for each `max_waiting` that it lasts.

/// Lists of flows, by tick.
#[derive(Debug)]
pub(super) struct Wheel {
    /// A time is shifted by this to get its tick.
    bits: u32,
    /// The tick that is now; all before it are done.
    tick: i64,
    lists: Vec<Vec<u32>>,
}

/// Ticks that can be told apart; what is due later is looked at once in so many.
const TICKS: i64 = 2048;

impl Wheel {
    /// Lists for flows that wait so many milliseconds. A tick is at most a 1024th of that.
    pub(super) fn new(waiting_ms: i64, now: i64) -> Self {
        let bits = (waiting_ms / (TICKS / 2)).max(1).ilog2();
        Self { bits, tick: now >> bits, lists: vec![Vec::new(); TICKS as usize] }
    }

    /// The tick of a time.
    #[inline]
    pub(super) fn tick_of(&self, time: i64) -> i64 {
        time >> self.bits
    }

    /// The tick that is now.
    #[inline]
    pub(super) fn now(&self) -> i64 {
        self.tick
    }

    /// When the present tick began.
    pub(super) fn start_ms(&self) -> i64 {
        self.tick << self.bits
    }

    /// Lists a flow under the tick of a time.
    #[inline]
    pub(super) fn insert(&mut self, flow: u32, due: i64) {
        let tick = self.tick_of(due).clamp(self.tick, self.tick.saturating_add(TICKS - 1));
        self.lists[(tick & (TICKS - 1)) as usize].push(flow);
    }

    /// Goes on to a later tick and puts the flows listed under those before it into `passed`.
    pub(super) fn advance(&mut self, tick: i64, passed: &mut Vec<u32>) {
        let ticks = tick.saturating_sub(self.tick).min(TICKS);
        for at in self.tick..self.tick.saturating_add(ticks) {
            passed.append(&mut self.lists[(at & (TICKS - 1)) as usize]);
        }
        self.tick = tick;
    }

    /// Takes out what is not to stay.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u32) -> bool) {
        for list in &mut self.lists {
            list.retain(|&flow| stays(flow));
        }
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.lists.iter().map(|list| list.capacity() * size_of::<u32>()).sum()
    }
}
