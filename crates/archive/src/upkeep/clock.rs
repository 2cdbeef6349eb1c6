//! Whether the system's clock can be trusted with removing what is old.
//!
//! A clock that jumps a year ahead for some seconds would make everything too old at once. Time that has passed by the
//! clock is therefore compared with time that has passed by the one that only counts; after a jump nothing expires by
//! age until the clock has kept still for a while. A clock that was wrong before the process began is compared with the flows
//! that there are: by a right one, some of them are of the time that is kept. What speaks against it is that a clock which is
//! set right after years, as machines without a battery do at their start, delays expiry by that while; and so does a
//! collector that was away for longer than flows are kept.

use std::time::{Duration, Instant, SystemTime};

/// A difference of this size between the two clocks is a jump.
const JUMP_MIN: Duration = Duration::from_hours(1);
/// After a jump the clock is trusted again when it has kept still for this time.
const SETTLE_TIME: Duration = Duration::from_hours(24);

/// Watches the system's clock.
#[derive(Debug)]
pub(super) struct ClockGuard {
    counted: Instant,
    clock: SystemTime,
    jumped: Option<Instant>,
}

impl ClockGuard {
    pub(super) fn new() -> Self {
        Self { counted: Instant::now(), clock: SystemTime::now(), jumped: None }
    }

    /// Compares the clock at the start with the newest flows, which are kept for `age_max`: when all of them are too old by it, or the
    /// day on which the last of them came is one to come, it counts as one that has jumped.
    pub(super) fn compare(&mut self, now_ms: i64, newest_ms: i64, newest_day_ms: i64, age_max: Duration) {
        let age_max_ms = i64::try_from(age_max.as_millis()).unwrap_or(i64::MAX);
        let all_too_old = newest_ms < now_ms.saturating_sub(age_max_ms);
        // not by when they end, which exporters say
        let ahead = newest_day_ms > now_ms.saturating_add(JUMP_MIN.as_millis() as i64);
        if all_too_old || ahead {
            self.jumped = Some(self.counted);
        }
    }

    /// Whether what is old by the clock may go.
    pub(super) fn may_expire_by_age(&mut self) -> bool {
        self.look(Instant::now(), SystemTime::now())
    }

    fn look(&mut self, counted: Instant, clock: SystemTime) -> bool {
        let passed = counted.duration_since(self.counted);
        let difference = match clock.duration_since(self.clock) {
            Ok(by_clock) => by_clock.abs_diff(passed),
            Err(backwards) => backwards.duration() + passed,
        };
        if difference >= JUMP_MIN {
            self.jumped = Some(counted);
        }
        (self.counted, self.clock) = (counted, clock);
        self.jumped.is_none_or(|jumped| counted.duration_since(jumped) >= SETTLE_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_makes_everything_too_old_at_the_start_is_not_trusted_for_a_day() {
        let (day, newest_ms) = (86_400_000, 1_000 * 86_400_000);
        let kept = Duration::from_hours(30 * 24);
        let mut guard = ClockGuard::new();
        let (counted, clock) = (guard.counted, guard.clock);
        let hours = |hours| Duration::from_hours(hours);
        guard.compare(newest_ms + 29 * day, newest_ms, newest_ms, kept);
        // an exporter whose clock is hours ahead says nothing of ours
        guard.compare(newest_ms, newest_ms + day / 2, newest_ms, kept);
        assert!(guard.look(counted + hours(1), clock + hours(1)));
        guard.compare(newest_ms + 3 * 365 * day, newest_ms, newest_ms, kept);
        assert!(!guard.look(counted + hours(2), clock + hours(2)));
        assert!(guard.look(counted + hours(26), clock + hours(26)), "it has kept still");
        guard.compare(newest_ms - day, newest_ms, newest_ms, kept);
        assert!(!guard.look(counted + hours(27), clock + hours(27)), "flows of tomorrow");
    }

    #[test]
    fn a_clock_that_jumps_is_not_trusted_for_a_day() {
        let mut guard = ClockGuard::new();
        let (counted, clock) = (guard.counted, guard.clock);
        let hours = |hours| Duration::from_hours(hours);
        assert!(guard.look(counted + hours(5), clock + hours(5)), "a machine that slept has slept by both");
        assert!(!guard.look(counted + hours(6), clock + hours(400 * 24)), "ahead");
        assert!(!guard.look(counted + hours(7), clock + hours(7)), "and back");
        assert!(!guard.look(counted + hours(30), clock + hours(30)));
        assert!(guard.look(counted + hours(31), clock + hours(31)), "a day after the last jump");
    }
}
