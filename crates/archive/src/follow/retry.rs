//! When following is tried again after an error.

use std::time::{Duration, Instant};

/// The pause after the first error; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often an error that lasts is reported.
const LASTING_EVERY: Duration = Duration::from_hours(1);
/// How often the first error after a success is reported at most.
const FIRST_EVERY: Duration = Duration::from_mins(1);

/// When following is tried again after an error, and which errors are reported. There is no last attempt: disks, mounts and
/// descriptors come back after minutes or after days. What speaks against it is that an error which never passes ends nothing, so
/// one that lasts is reported again.
#[derive(Debug, Default)]
pub struct FollowRetry {
    /// When the first of the errors came since it worked last.
    since: Option<Instant>,
    pause: Duration,
    until: Option<Instant>,
    reported_at: Option<Instant>,
    /// Whether an error was reported since it worked last.
    is_reported: bool,
}

impl FollowRetry {
    /// Notes an error, after which there is a pause. Whether it is to be reported: the first one is, and one an hour of those that
    /// follow.
    pub fn failed(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.until = Some(now + self.pause);
        let every = if self.is_reported { LASTING_EVERY } else { FIRST_EVERY };
        let is_due = self.reported_at.is_none_or(|at| now.saturating_duration_since(at) >= every);
        if is_due {
            self.reported_at = Some(now);
            self.is_reported = true;
        }
        is_due
    }

    /// Notes that it works.
    pub fn succeeded(&mut self) {
        *self = Self { reported_at: self.reported_at, ..Self::default() };
    }

    /// Whether there is a pause now.
    pub fn is_waiting(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// For how long there were only errors; `None` when it works.
    pub fn failing_for(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_there_is_no_last_one() {
        let (mut retry, began) = (FollowRetry::default(), Instant::now());
        let mut now = began;
        let mut pauses = Vec::new();
        for _ in 0..10_000 {
            retry.failed(now);
            pauses.push(retry.pause);
            assert!(retry.is_waiting(now) && !retry.is_waiting(now + retry.pause));
            now += retry.pause;
        }
        assert_eq!(pauses[..3].iter().map(Duration::as_millis).collect::<Vec<_>>(), [100, 200, 400]);
        assert!(pauses.is_sorted() && pauses[9] == PAUSE_MAX && pauses[9_999] == PAUSE_MAX);
        assert_eq!(retry.failing_for(now), Some(now.duration_since(began)));
        retry.succeeded();
        assert!(!retry.is_waiting(now) && retry.failing_for(now).is_none());
    }

    #[test]
    fn an_error_that_lasts_is_reported_once_an_hour() {
        let (mut retry, began) = (FollowRetry::default(), Instant::now());
        let minutes: Vec<u64> = (0..150).filter(|minute| retry.failed(began + Duration::from_mins(*minute))).collect();
        assert_eq!(minutes, [0, 60, 120]);
    }

    #[test]
    fn the_first_error_after_a_success_is_reported_but_not_more_often_than_once_a_minute() {
        let (mut retry, began) = (FollowRetry::default(), Instant::now());
        let fail_once = |second: &u64| {
            let is_reported = retry.failed(began + Duration::from_secs(*second));
            retry.succeeded();
            is_reported
        };
        let seconds: Vec<u64> = (0..130).filter(fail_once).collect();
        assert_eq!(seconds, [0, 60, 120]);
    }
}
