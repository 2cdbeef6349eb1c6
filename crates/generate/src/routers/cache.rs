//! The flow cache of a router, and when it exports which record.
//!
//! A conversation is known in full when it begins, but not its records: when the cache is full, what is exported
//! depends on everyone else. So the cache is simulated entry by entry, and each entry has one appointment: its timer
//! while it is in the cache, its next packet while it is not.

use std::collections::VecDeque;
use std::hint::black_box;

use crate::routers::agenda::Agenda;
use crate::routers::packets::Passage;
use crate::routers::plan::{Key, Plan};
use crate::routers::{Router, RouterPair};

/// What is the same in all records of a conversation from one router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub key: Key,
    pub tos: u8,
    pub packet_octets: u16,
    pub in_if: u32,
    pub out_if: u32,
}

/// A record as exported. Times are ms since the start of the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub facts: Facts,
    pub received_ms: u64,
    pub start_ms: u64,
    pub end_ms: u64,
    pub packets: u32,
    pub tcp_flags: u8,
    pub end_reason: u8,
}

/// Values of flowEndReason (RFC 5102 section 5.11.3).
pub(crate) const IDLE: u8 = 1;
pub(crate) const ACTIVE: u8 = 2;
pub(crate) const LACK_OF_RESOURCES: u8 = 5;

/// A conversation that has packets to come or a record to export.
#[derive(Debug, Clone, Copy)]
struct Flow {
    facts: Facts,
    passage: Passage,
    tcp_flags: u8,
    /// What its timer will say; `None` while it has no entry in the cache.
    end_reason: Option<u8>,
    /// The first packet of its entry, or of the next one.
    first: u32,
}

/// The flows of one router.
#[derive(Debug, Clone)]
pub(crate) struct FlowCache {
    router: Router,
    timers: Timers,
    entries_max: usize,
    /// Number of entries in the cache.
    entries: usize,
    /// Number of conversations with packets to come or a record to export.
    flows_live: usize,
    flows: Vec<Flow>,
    /// How often each slot of `flows` changed between having an entry and not; what was told about it before that is
    /// stale.
    generations: Vec<u32>,
    free: Vec<u32>,
    agenda: Agenda,
    /// What happens in the present millisecond; empty between two of them.
    due: Vec<(u32, u32)>,
    /// Entries as they were opened, and some that are gone; the first one is not gone.
    opened: VecDeque<(u32, u32)>,
}

impl FlowCache {
    pub(crate) fn new(pair: &RouterPair, router: Router) -> Self {
        let timers = Timers::new(pair, router);
        Self {
            router,
            agenda: Agenda::new(timers.ahead_ms_max(pair)),
            timers,
            entries_max: pair.cache_entries_max as usize,
            entries: 0,
            flows_live: 0,
            flows: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            due: Vec::new(),
            opened: VecDeque::new(),
        }
    }

    /// Whether all records are out of what has begun.
    pub(crate) fn is_over(&self) -> bool {
        self.flows_live == 0
    }

    /// A conversation begins that passes the first router now.
    #[inline]
    pub(crate) fn begin(&mut self, plan: &Plan, now_ms: u64, out: &mut Vec<Record>) {
        let passage = plan.passage(self.router);
        let Some(first) = passage.first_from(0) else { return };
        let (in_if, out_if) = match self.router {
            Router::First => (plan.interfaces[0], LINK),
            Router::Second => (LINK, plan.interfaces[1]),
        };
        let packet_octets = plan.octets_at(self.router);
        let facts = Facts { key: plan.key, tos: plan.tos, packet_octets, in_if, out_if };
        let slot = self.add(Flow { facts, passage, tcp_flags: plan.tcp_flags, end_reason: None, first });
        match passage.time_ms(first) {
            at_ms if at_ms == now_ms => self.open(slot, now_ms, out),
            at_ms => self.agenda.add(at_ms, slot, self.generations[slot as usize]),
        }
    }

    /// Everything that happens in this millisecond, after all that begins in it.
    #[inline]
    pub(crate) fn step(&mut self, now_ms: u64, out: &mut Vec<Record>) {
        let mut due = std::mem::take(&mut self.due);
        while let Some(appointment) = self.agenda.take(now_ms) {
            due.push(appointment);
        }
        // Flows lie anywhere in memory. Loads that do not depend on each other overlap, so to look at all of them
        // beforehand takes a fraction of the time that waiting for each in turn would.
        black_box(due.iter().fold(0, |sum, &(slot, _)| sum ^ self.flows[slot as usize].first));
        for (slot, generation) in due.drain(..) {
            // What was exported a moment ago to make room for another has no timer any more.
            if self.generations[slot as usize] == generation {
                match self.flows[slot as usize].end_reason {
                    None => self.open(slot, now_ms, out),
                    Some(end_reason) => self.close(slot, now_ms, end_reason, out),
                }
            }
        }
        self.due = due;
    }

    fn add(&mut self, flow: Flow) -> u32 {
        self.flows_live += 1;
        if let Some(slot) = self.free.pop() {
            self.flows[slot as usize] = flow;
            return slot;
        }
        self.flows.push(flow);
        self.generations.push(0);
        self.flows.len() as u32 - 1
    }

    /// The first packet of an entry passes.
    fn open(&mut self, slot: u32, now_ms: u64, out: &mut Vec<Record>) {
        let flow = &mut self.flows[slot as usize];
        let (due_ms, end_reason) = self.timers.due(&flow.passage, flow.first);
        flow.end_reason = Some(end_reason);
        let generation = self.generations[slot as usize];
        self.agenda.add(due_ms, slot, generation);
        self.entries += 1;
        self.opened.push_back((slot, generation));
        while let Some(&(slot, generation)) = self.opened.front() {
            let is_gone = self.generations[slot as usize] != generation;
            if !is_gone && self.entries <= self.entries_max {
                break;
            }
            self.opened.pop_front();
            if !is_gone {
                self.close(slot, now_ms, LACK_OF_RESOURCES, out);
            }
        }
    }

    /// An entry is exported.
    fn close(&mut self, slot: u32, now_ms: u64, end_reason: u8, out: &mut Vec<Record>) {
        let flow = &mut self.flows[slot as usize];
        let (passage, first) = (flow.passage, flow.first);
        let next = passage.passed_by(now_ms);
        let last = passage.last_before(next, first);
        out.push(Record {
            facts: flow.facts,
            received_ms: now_ms,
            start_ms: passage.time_ms(first),
            end_ms: passage.time_ms(last),
            packets: passage.count(first, next),
            tcp_flags: Plan::flags_of(flow.tcp_flags, passage.schedule.packets, first, last),
            end_reason,
        });
        self.entries -= 1;
        self.generations[slot as usize] = self.generations[slot as usize].wrapping_add(1);
        flow.end_reason = None;
        if let Some(next) = passage.first_from(next) {
            flow.first = next;
            self.agenda.add(passage.time_ms(next), slot, self.generations[slot as usize]);
        } else {
            self.flows_live -= 1;
            self.free.push(slot);
        }
    }
}

/// SNMP index, on both routers, of the interface between them.
const LINK: u32 = 200;

/// When entries are exported that have room to stay.
#[derive(Debug, Clone, Copy)]
struct Timers {
    active_ms: u64,
    inactive_ms: u64,
    fast_ms: u64,
    fast_packets: u32,
    /// Timers are looked at so often, first at `phase_ms`.
    check_ms: u64,
    phase_ms: u64,
}

impl Timers {
    fn new(pair: &RouterPair, router: Router) -> Self {
        let check_ms = u64::from(pair.timer_check_ms);
        Self {
            active_ms: pair.active_timeout_ms.into(),
            inactive_ms: pair.inactive_timeout_ms.into(),
            fast_ms: pair.fast_timeout_ms.into(),
            fast_packets: pair.fast_packets,
            check_ms,
            phase_ms: u64::from(pair.timer_phases_ms[router as usize]) % check_ms,
        }
    }

    /// The longest time until a timer or until a packet, from a packet of the same conversation or its begin.
    fn ahead_ms_max(&self, pair: &RouterPair) -> u64 {
        let packet_ms = u64::from(pair.delay_base_ms) + u64::from(pair.delay_jitter_ms) + RouterPair::GAP_MS_MAX;
        packet_ms.max(self.active_ms + self.check_ms)
    }

    /// When timers are looked at, at that time or next.
    #[inline]
    fn check_at(&self, at_ms: u64) -> u64 {
        let late = (at_ms + self.check_ms - self.phase_ms) % self.check_ms;
        if late == 0 { at_ms } else { at_ms + self.check_ms - late }
    }

    /// When the entry that begins with packet `first` is exported, and why.
    #[inline]
    fn due(&self, passage: &Passage, first: u32) -> (u64, u8) {
        let start_ms = passage.time_ms(first);
        let active_ms = self.check_at(start_ms + self.active_ms);
        let idle_ms = self.idle_at(passage, first, active_ms);
        let timeout = if idle_ms <= active_ms { (idle_ms, IDLE) } else { (active_ms, ACTIVE) };
        if self.fast_packets == 0 {
            return timeout;
        }
        let fast_ms = self.check_at(start_ms + self.fast_ms);
        let is_fast = fast_ms < timeout.0 && passage.count(first, passage.passed_by(fast_ms)) < self.fast_packets;
        if is_fast { (fast_ms, IDLE) } else { timeout }
    }

    /// When the entry that begins with packet `first` has had no packet for the inactive timeout, or some time after
    /// `limit_ms`.
    #[inline]
    fn idle_at(&self, passage: &Passage, first: u32, limit_ms: u64) -> u64 {
        // Where no gap can be long enough, the search goes on at the pause or the end.
        let is_dense = passage.step_max_ms() < self.inactive_ms;
        let mut packet = first;
        loop {
            if is_dense {
                let schedule = &passage.schedule;
                let is_before = packet < schedule.pause_before;
                packet = passage.last_before(if is_before { schedule.pause_before } else { schedule.packets }, packet);
            }
            let idle_ms = self.check_at(passage.time_ms(packet) + self.inactive_ms);
            match passage.first_from(packet + 1) {
                Some(next) if idle_ms <= limit_ms && passage.time_ms(next) <= idle_ms => packet = next,
                _ => return idle_ms,
            }
        }
    }
}
