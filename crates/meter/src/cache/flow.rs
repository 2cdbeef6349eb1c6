//! An entry of the flow cache.

use crate::digest::Digest;
use crate::key::FlowKey;
use crate::options::Timeouts;

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;

/// Why a flow ended: `flowEndReason` (RFC 5102 section 5.11.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for the idle timeout.
    Idle = 1,
    /// It went on for the active timeout.
    Active = 2,
    /// TCP has ended.
    EndOfFlow = 3,
    /// The Metering Process has ended.
    Forced = 4,
    /// Another flow needed the entry.
    LackOfResources = 5,
}

/// What is counted of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Side {
    /// Packets.
    pub packets: u64,
    /// Octets of IP packets.
    pub octets: u64,
    /// Time of the first packet, microseconds since the epoch.
    pub first_us: i64,
    /// Time of the last packet.
    pub last_us: i64,
}

impl Side {
    const NONE: Self = Self { packets: 0, octets: 0, first_us: 0, last_us: 0 };

    #[inline]
    fn add(&mut self, digest: &Digest) {
        if self.packets == 0 {
            (self.first_us, self.last_us) = (digest.time_us, digest.time_us);
        }
        self.packets += 1;
        self.octets += u64::from(digest.octets);
        // captures of several queues are not quite in order
        self.first_us = self.first_us.min(digest.time_us);
        self.last_us = self.last_us.max(digest.time_us);
    }
}

/// A flow: two lines of the processor's cache, the first with what is read to find it.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Flow {
    /// What its packets have in common; of a biflow the same whichever side began.
    key: FlowKey,
    marks: u8,
    tos: u8,
    min_ttl: u8,
    max_ttl: u8,
    icmp_code: u8,
    _room: [u8; 7],
    forward_flags: u16,
    backward_flags: u16,
    forward: Side,
    backward: Side,
}

const _: () = assert!(size_of::<Flow>() == 128, "a flow is two cache lines");

/// The entry holds a flow.
const LIVE: u8 = 1;
/// The entry is in the wheel.
const IN_WHEEL: u8 = 2;
/// The first packet went against the direction of the key.
const REVERSED: u8 = 4;
/// One of the packets was a fragment.
const FRAGMENTS: u8 = 8;
/// It is known that TCP has ended the flow.
const CLOSING: u8 = 16;

impl Flow {
    /// An entry without a flow.
    pub(super) const NONE: Self = Self {
        key: FlowKey::ZERO,
        marks: 0,
        tos: 0,
        min_ttl: 0,
        max_ttl: 0,
        icmp_code: 0,
        _room: [0; 7],
        forward_flags: 0,
        backward_flags: 0,
        forward: Side::NONE,
        backward: Side::NONE,
    };

    /// What its packets have in common, in the direction of the first of them.
    pub fn key(&self) -> FlowKey {
        if self.marks & REVERSED == 0 { self.key } else { self.key.reversed() }
    }

    /// The key that the index knows.
    #[inline]
    pub(super) const fn index_key(&self) -> &FlowKey {
        &self.key
    }

    /// What went in the direction of the first packet.
    pub const fn forward(&self) -> &Side {
        &self.forward
    }

    /// What went in the opposite direction, of a biflow.
    pub const fn backward(&self) -> &Side {
        &self.backward
    }

    /// TCP control bits of both directions.
    pub const fn tcp_flags(&self) -> (u16, u16) {
        (self.forward_flags, self.backward_flags)
    }

    /// Type of service of the first packet.
    pub const fn tos(&self) -> u8 {
        self.tos
    }

    /// Smallest and largest TTL in the direction of the first packet.
    pub const fn ttl(&self) -> (u8, u8) {
        (self.min_ttl, self.max_ttl)
    }

    /// Code of ICMP in the first packet.
    pub const fn icmp_code(&self) -> u8 {
        self.icmp_code
    }

    /// Whether one of the packets was a fragment.
    pub const fn has_fragments(&self) -> bool {
        self.marks & FRAGMENTS != 0
    }

    /// Packets of both directions.
    #[inline]
    pub const fn packets_total(&self) -> u64 {
        self.forward.packets + self.backward.packets
    }

    /// Time of the first packet of both directions, microseconds since the epoch.
    #[inline]
    pub const fn first_us(&self) -> i64 {
        let (forward, backward) = (self.forward.first_us, self.backward.first_us);
        if self.backward.packets > 0 && backward < forward { backward } else { forward }
    }

    /// Time of the last packet of both directions.
    #[inline]
    pub const fn last_us(&self) -> i64 {
        let (forward, backward) = (self.forward.last_us, self.backward.last_us);
        if self.backward.packets > 0 && backward > forward { backward } else { forward }
    }

    /// Something of both cache lines, to have them fetched.
    #[inline]
    pub(super) const fn touch(&self) -> u64 {
        self.forward.packets ^ self.marks as u64
    }

    #[inline]
    pub(super) const fn is_live(&self) -> bool {
        self.marks & LIVE != 0
    }

    #[inline]
    pub(super) const fn is_in_wheel(&self) -> bool {
        self.marks & IN_WHEEL != 0
    }

    #[inline]
    pub(super) const fn set_in_wheel(&mut self, is_in: bool) {
        self.marks = if is_in { self.marks | IN_WHEEL } else { self.marks & !IN_WHEEL };
    }

    /// The entry holds no flow any more; where it is in the wheel it stays.
    pub(super) const fn clear(&mut self) {
        self.marks &= IN_WHEEL;
    }

    /// Begins a flow in this entry with its first packet.
    pub(super) fn renew(&mut self, digest: &Digest) {
        let reversed = if digest.marks & Digest::REVERSED == 0 { 0 } else { REVERSED };
        *self = Self {
            key: digest.key,
            marks: (self.marks & IN_WHEEL) | LIVE | reversed,
            tos: digest.tos,
            min_ttl: digest.ttl,
            max_ttl: digest.ttl,
            icmp_code: digest.icmp_code,
            ..Self::NONE
        };
        self.add(digest);
    }

    /// Counts a packet.
    #[inline]
    pub(super) fn add(&mut self, digest: &Digest) {
        if digest.marks & Digest::FRAGMENT != 0 {
            self.marks |= FRAGMENTS;
        }
        if self.is_forward(digest) {
            self.min_ttl = self.min_ttl.min(digest.ttl);
            self.max_ttl = self.max_ttl.max(digest.ttl);
            self.forward_flags |= digest.tcp_flags;
            self.forward.add(digest);
        } else {
            self.backward_flags |= digest.tcp_flags;
            self.backward.add(digest);
        }
    }

    /// Whether a packet goes in the direction of the first one.
    #[inline]
    pub const fn is_forward(&self, digest: &Digest) -> bool {
        (digest.marks & Digest::REVERSED == 0) == (self.marks & REVERSED == 0)
    }

    /// When the flow ends if no packet comes before, and why.
    #[inline]
    pub fn deadline(&self, timeouts: &Timeouts, is_biflow: bool) -> (i64, EndReason) {
        let last_us = self.last_us();
        let idle_us = match timeouts.fast {
            Some(fast) if self.packets_total() <= fast.packets_max => fast.idle_us.min(timeouts.idle_us),
            _ => timeouts.idle_us,
        };
        let idle = if self.is_closed(is_biflow) && timeouts.closed_us <= idle_us {
            (last_us.saturating_add(timeouts.closed_us), EndReason::EndOfFlow)
        } else {
            (last_us.saturating_add(idle_us), EndReason::Idle)
        };
        let active_us = self.first_us().saturating_add(timeouts.active_us);
        if active_us < idle.0 { (active_us, EndReason::Active) } else { idle }
    }

    /// When it was found to be over, by a clock that shows `now_us`, the time of the last packet of any flow: not before its
    /// own last packet, and not later than a clock that goes on finds it, `late_us` after its deadline. Without these bounds
    /// one packet of an absurd time decides when all open flows were received.
    pub(super) fn ended_us(&self, now_us: i64, late_us: i64, timeouts: &Timeouts, is_biflow: bool) -> i64 {
        let (deadline_us, _) = self.deadline(timeouts, is_biflow);
        now_us.min(deadline_us.saturating_add(late_us)).max(self.last_us())
    }

    /// Why the flow is over when this packet comes at `now_us`, if it is: its deadline has passed, or TCP begins anew after
    /// an end.
    #[inline]
    pub(super) fn over_before(
        &self,
        digest: &Digest,
        now_us: i64,
        timeouts: &Timeouts,
        is_biflow: bool,
    ) -> Option<EndReason> {
        let (deadline, reason) = self.deadline(timeouts, is_biflow);
        if now_us >= deadline {
            return Some(reason);
        }
        (digest.tcp_flags & SYN != 0 && self.is_closed(is_biflow)).then_some(EndReason::EndOfFlow)
    }

    /// Whether TCP has ended it: by a reset, or by the ends of all directions that are counted.
    #[inline]
    const fn is_closed(&self, is_biflow: bool) -> bool {
        let (either, both) = (self.forward_flags | self.backward_flags, self.forward_flags & self.backward_flags);
        either & RST != 0 || (if is_biflow { both } else { either }) & FIN != 0
    }

    /// True once, when TCP has ended the flow.
    #[inline]
    pub(super) const fn closes_now(&mut self, is_biflow: bool) -> bool {
        let closes = self.marks & CLOSING == 0 && self.is_closed(is_biflow);
        if closes {
            self.marks |= CLOSING;
        }
        closes
    }
}
