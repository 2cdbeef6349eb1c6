//! Sending at an even rate.

use std::time::{Duration, Instant};

/// Keeps to a rate. Time in which nothing was sent is not made up for later: collectors would get it all at once.
#[derive(Debug)]
pub(super) struct Pace {
    per_second: u32,
    /// When the next may go out.
    next: Option<Instant>,
}

impl Pace {
    /// At most this many a second, 1 or more.
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second, next: None }
    }

    /// How many go out together: those of 50 ms.
    pub(super) fn piece(&self) -> usize {
        (self.per_second / 20).max(1) as usize
    }

    /// How long to wait until `count` more may go out.
    pub(super) fn wait(&mut self, now: Instant, count: usize) -> Duration {
        let at = self.next.map_or(now, |next| next.max(now));
        let nanos = count as u64 * 1_000_000_000 / u64::from(self.per_second);
        self.next = Some(at + Duration::from_nanos(nanos));
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_rate_and_pauses_are_not_made_up_for() {
        let mut pace = Pace::new(200);
        assert_eq!(pace.piece(), 10);
        let start = Instant::now();
        assert_eq!(pace.wait(start, 10), Duration::ZERO);
        assert_eq!(pace.wait(start, 10), Duration::from_millis(50));
        assert_eq!(pace.wait(start + Duration::from_millis(70), 1), Duration::from_millis(30));
        let later = start + Duration::from_secs(9);
        assert_eq!(pace.wait(later, 100), Duration::ZERO);
        assert_eq!(pace.wait(later, 1), Duration::from_millis(500));
        assert_eq!(Pace::new(1).piece(), 1);
    }
}
