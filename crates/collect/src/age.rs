//! The time by which what is known grows old.
//!
//! A collector stamps what it receives with the system's clock, and that may be set: by 400 days ahead for some seconds, or
//! from 1970 to today. Neither has made a template old, or a set that waits for one. So ages are told by a clock that goes
//! as the system's does, but for its jumps: those show by comparison with a clock that cannot be set.

use std::time::Instant;

use crate::socket;

/// The clocks may drift apart by this much between two looks, in milliseconds.
const JUMP_MS: i64 = 60_000;

/// A clock without jumps, in milliseconds since the epoch until the first jump of the system's.
#[derive(Debug)]
pub(crate) struct AgeClock {
    /// What both clocks said at the last look.
    last: (i64, Instant),
    /// By how much the system's clock has jumped ahead.
    jumped_ms: i64,
    /// The time that was asked for last: what is received within one millisecond takes one look.
    asked_ms: i64,
}

impl AgeClock {
    /// A clock that trusts the system's as it is now.
    pub(crate) fn start() -> Self {
        let wall_ms = socket::now_ms();
        Self { last: (wall_ms, Instant::now()), jumped_ms: 0, asked_ms: wall_ms }
    }

    /// A clock since whose start the system's has jumped ahead by this much.
    #[cfg(test)]
    pub(crate) fn after_jump(jumped_ms: i64) -> Self {
        Self { jumped_ms, ..Self::start() }
    }

    /// What it said when something was received, by the system's clock: never more than it says now.
    pub(crate) fn at(&mut self, received_ms: i64) -> i64 {
        if received_ms != self.asked_ms {
            self.asked_ms = received_ms;
            self.look(socket::now_ms(), Instant::now());
        }
        received_ms.min(self.last.0).saturating_sub(self.jumped_ms)
    }

    /// What it says now.
    pub(crate) fn now(&mut self) -> i64 {
        self.at(socket::now_ms())
    }

    fn look(&mut self, wall_ms: i64, now: Instant) {
        let (last_ms, last) = self.last;
        let passed = i64::try_from(now.saturating_duration_since(last).as_millis()).unwrap_or(i64::MAX);
        let jump_ms = wall_ms.saturating_sub(last_ms).saturating_sub(passed);
        if jump_ms.saturating_abs() > JUMP_MS {
            self.jumped_ms = self.jumped_ms.saturating_add(jump_ms);
        }
        self.last = (wall_ms, now);
    }
}

/// The time of what a decoder was given last, in milliseconds since the epoch.
#[derive(Debug, Default)]
pub(crate) struct DecoderTime {
    /// As it is said.
    pub(crate) now_ms: i64,
    /// By the clock of ages.
    pub(crate) age_ms: i64,
    /// Whether it is not that of reception, which is not known: clocks of exporters are not compared with it.
    pub(crate) is_replaced: bool,
    /// That clock; without it times are as they are said.
    ages: Option<AgeClock>,
}

impl DecoderTime {
    /// From now on ages are told by a clock that cannot be set.
    pub(crate) fn keep_ages(&mut self) {
        self.ages = Some(AgeClock::start());
    }

    /// Whether what is decoded is received meanwhile, and has not been recorded before.
    pub(crate) fn is_live(&self) -> bool {
        self.ages.is_some()
    }

    /// By the clock of ages, for limits on what comes in a time: there are none on what was recorded before.
    pub(crate) fn limited_ms(&self) -> Option<i64> {
        self.is_live().then_some(self.age_ms)
    }

    /// By how much a time of an exporter is ahead of that of reception; 0 where that one says nothing.
    pub(crate) fn offset_of(&self, export_ms: i64) -> i64 {
        if self.is_replaced { 0 } else { export_ms.saturating_sub(self.now_ms) }
    }

    /// By how much the system's clock is ahead of that of ages.
    pub(crate) fn jumped_ms(&self) -> i64 {
        self.ages.as_ref().map_or(0, |ages| ages.jumped_ms)
    }

    pub(crate) fn move_to(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.age_ms = self.ages.as_mut().map_or(now_ms, |ages| ages.at(now_ms));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const YEAR_MS: i64 = 400 * 86_400_000;

    #[test]
    fn jumps_do_not_count_and_time_does() {
        let began = Instant::now();
        let mut clock = AgeClock { last: (1_000_000, began), jumped_ms: 0, asked_ms: 0 };
        let mut look = |wall_ms: i64, secs: u64| {
            clock.look(wall_ms, began + Duration::from_secs(secs));
            clock.last.0 - clock.jumped_ms
        };
        assert_eq!(look(1_002_000, 1), 1_002_000, "it may be corrected by a little");
        assert_eq!(look(1_003_000 + YEAR_MS, 2), 1_003_000);
        assert_eq!(look(1_007_000 + YEAR_MS, 6), 1_007_000);
        assert_eq!(look(1_008_000, 7), 1_008_000, "it was set back");
        assert_eq!(look(8_000, 8), 1_009_000);
        assert_eq!(look(1_808_000, 1_808), 2_809_000, "half an hour in which nobody has looked");
    }

    #[test]
    fn what_was_stamped_by_a_wrong_clock_is_no_younger_than_now() {
        let mut clock = AgeClock::start();
        let now_ms = clock.now();
        let ahead_ms = clock.at(now_ms + YEAR_MS);
        assert!((now_ms..now_ms + JUMP_MS).contains(&ahead_ms), "{ahead_ms}");
        assert_eq!(clock.at(now_ms - 5_000), now_ms - 5_000, "what has waited in a queue is as old as it is");
    }
}
