//! Sending at an even rate.

use std::thread;
use std::time::{Duration, Instant};

/// Keeps a count of things sent to a rate, from when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    started: Instant,
    per_second: Option<u32>,
}

impl Pace {
    /// At most `per_second`, or as fast as possible.
    pub(crate) fn new(per_second: Option<u32>) -> Self {
        Self { started: Instant::now(), per_second }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long after the start the next may go out when `sent` have.
    pub(crate) fn due(&self, sent: u64) -> Duration {
        let Some(per_second) = self.per_second.filter(|&rate| rate > 0) else { return Duration::ZERO };
        let nanos = u128::from(sent) * 1_000_000_000 / u128::from(per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Waits until the next may go out. After a delay it catches up, so that the count comes out right.
    pub(crate) fn wait(&self, sent: u64) {
        if let Some(left) = self.due(sent).checked_sub(self.elapsed()) {
            thread::sleep(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_follow_the_rate() {
        let pace = Pace::new(Some(200));
        assert_eq!(pace.due(0), Duration::ZERO);
        assert_eq!(pace.due(1), Duration::from_millis(5));
        assert_eq!(pace.due(200 * 3600), Duration::from_hours(1));
        assert_eq!(Pace::new(None).due(1_000_000), Duration::ZERO);
    }
}
