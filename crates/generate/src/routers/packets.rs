//! When the packets of a conversation pass a router, and which of them are lost before, as arithmetic on their numbers.
//!
//! How many packets have passed by a time is a division, so a conversation of two million packets costs no more than
//! one of two. What speaks against it is that packets keep an even step and losses are spread evenly, with no bursts of
//! either; a pause is the only irregularity. Timers see gaps and counts and nothing else, and those come out as planned.

/// When the packets of a conversation are sent, relative to the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// How many there are, at least 1.
    pub packets: u32,
    /// From each packet to the next, in 2^-16 ms, at least 1.
    pub step: u32,
    /// The packet that a pause comes before; as many as there are packets when there is none.
    pub pause_before: u32,
    /// How much later that packet and those after it are.
    pub pause_ms: u32,
}

const STEP_BITS: u32 = 16;

impl Schedule {
    /// When this packet is sent.
    #[inline]
    pub(crate) fn offset_ms(&self, packet: u32) -> u64 {
        let pause_ms = if packet >= self.pause_before { self.pause_ms } else { 0 };
        ((u64::from(packet) * u64::from(self.step)) >> STEP_BITS) + u64::from(pause_ms)
    }

    /// How many packets have been sent by then; those sent at that time count.
    #[inline]
    pub(crate) fn sent_by(&self, offset_ms: u64) -> u32 {
        let unpaused = |ms: u64| {
            // The last packet whose exact time is before the next millisecond.
            let last = (((ms + 1) << STEP_BITS) - 1) / u64::from(self.step);
            last.min(u64::from(self.packets) - 1) as u32 + 1
        };
        let before = unpaused(offset_ms).min(self.pause_before);
        match offset_ms.checked_sub(self.pause_ms.into()) {
            Some(ms) if before == self.pause_before && before < self.packets => before.max(unpaused(ms)),
            _ => before,
        }
    }
}

/// Which packets of a conversation are lost: so many of 1000, evenly spread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// Either at most 500, so that no two lost packets follow each other, or 1000.
    pub permille: u16,
    /// Where among 1000 the first packet stands; below 1000.
    pub phase: u16,
}

impl Loss {
    /// No packet is lost.
    pub(crate) const NONE: Self = Self { permille: 0, phase: 0 };

    #[inline]
    fn place(self, packet: u32) -> u64 {
        u64::from(self.phase) + u64::from(packet) * u64::from(self.permille)
    }

    #[inline]
    pub(crate) fn is_lost(self, packet: u32) -> bool {
        self.place(packet) % 1000 < self.permille.into()
    }

    /// How many of the first `packets` are lost: one each time that the place passes a multiple of 1000.
    #[inline]
    pub(crate) fn lost_of(self, packets: u32) -> u32 {
        match packets.checked_sub(1) {
            Some(last) if self.permille > 0 => (self.place(last) / 1000) as u32 + u32::from(self.phase < self.permille),
            _ => 0,
        }
    }
}

/// A conversation passing a router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// When the first packet passes, or would have if it were not lost; ms since the start of the model.
    pub origin_ms: u64,
    pub schedule: Schedule,
    /// What was lost before the router.
    pub loss: Loss,
}

impl Passage {
    /// When this packet passes.
    #[inline]
    pub(crate) fn time_ms(&self, packet: u32) -> u64 {
        self.origin_ms + self.schedule.offset_ms(packet)
    }

    /// The number of the first packet that has not passed by then, lost ones passing unseen; `time_ms` is not before
    /// the origin.
    #[inline]
    pub(crate) fn passed_by(&self, time_ms: u64) -> u32 {
        self.schedule.sent_by(time_ms - self.origin_ms)
    }

    /// The first packet with this number or a higher one that is not lost.
    #[inline]
    pub(crate) fn first_from(&self, packet: u32) -> Option<u32> {
        let first = packet + u32::from(self.loss.is_lost(packet));
        (first < self.schedule.packets && !self.loss.is_lost(first)).then_some(first)
    }

    /// The last packet with a number below `end` that is not lost, if it is not below `first`, which is not lost.
    #[inline]
    pub(crate) fn last_before(&self, end: u32, first: u32) -> u32 {
        let last = end.saturating_sub(1);
        last.saturating_sub(self.loss.is_lost(last).into()).max(first)
    }

    /// How many packets with numbers from `first` to below `end` are not lost.
    #[inline]
    pub(crate) fn count(&self, first: u32, end: u32) -> u32 {
        (end - first) - (self.loss.lost_of(end) - self.loss.lost_of(first))
    }

    /// The longest time between two packets that no pause parts, rounded up.
    #[inline]
    pub(crate) fn step_max_ms(&self) -> u64 {
        let steps = if self.loss.permille > 0 { 2 } else { 1 };
        ((steps * u64::from(self.schedule.step)) >> STEP_BITS) + 1
    }
}
