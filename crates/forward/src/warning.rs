//! Warnings about a state that lasts.

use std::time::{Duration, Instant};

/// How often the warning is repeated: on a disk that is full, each line of the log makes it worse.
const EVERY: Duration = Duration::from_mins(1);

/// A warning about something that is tried often and fails as long as a state lasts. It is due at the first failure, and then once a
/// minute.
#[derive(Debug, Default)]
pub(crate) struct LastingWarning {
    warned_at: Option<Instant>,
}

impl LastingWarning {
    /// Notes a failure; whether to warn of it.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.warned_at.is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if is_due {
            self.warned_at = Some(now);
        }
        is_due
    }

    /// Notes a success.
    pub(crate) fn clear(&mut self) {
        self.warned_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_lasts_is_a_warning_a_minute() {
        let (mut warning, began) = (LastingWarning::default(), Instant::now());
        let mut warned = |seconds: std::ops::Range<u64>| -> Vec<u64> {
            seconds.filter(|second| warning.is_due(began + Duration::from_secs(*second))).collect()
        };
        assert_eq!(warned(5..130), [5, 65, 125]);
        warning.clear();
        assert!(warning.is_due(began + Duration::from_secs(131)) && !warning.is_due(began + Duration::from_secs(132)));
    }
}
