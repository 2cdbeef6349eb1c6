//! Panes that have so many rows that these are aggregated before a window closes.
//!
//! The thread that follows sees a pane grow, and the one that asks has the statement: a pane is on its way from the one to the
//! other, one at a time. Rows that come meanwhile are aggregated the next time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_sql::standing::WindowRows;

/// A pane is aggregated when it has this part of the rows that may be kept.
const PART: u64 = 8;
/// Of fewer rows it is not worth a run of a plan.
const ROWS_MIN: u64 = 16_384;
/// How often it is looked whether a pane has been aggregated, and for how long.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A pane that has grown, as the windows have it that end with it.
#[derive(Debug)]
pub(crate) struct GrownPane {
    pub(crate) rows: Vec<WindowRows>,
    /// Kept until it was aggregated.
    _turn: Arc<()>,
}

impl GrownPane {
    /// With what [`Growth::gives`] gave.
    pub(crate) fn new(rows: Vec<WindowRows>, turn: Arc<()>) -> Self {
        Self { rows, _turn: turn }
    }
}

/// When a pane has grown.
#[derive(Debug)]
pub(crate) struct Growth {
    /// Rows of a pane that are enough.
    rows: u64,
    /// It is looked when so many rows have come.
    look_at: u64,
    /// Another one has it while a pane is on its way.
    turn: Arc<()>,
    /// The pane that was given last, by its end, and its rows then.
    given: Option<(i64, u64)>,
}

impl Growth {
    /// For a watch that keeps this many rows at most.
    pub(crate) fn new(rows_max: u64) -> Self {
        Self { rows: (rows_max / PART).max(ROWS_MIN), look_at: 0, turn: Arc::default(), given: None }
    }

    /// Whether to look, after this many rows in all, of which so many are kept.
    pub(crate) fn looks(&mut self, rows: u64, rows_kept: u64) -> bool {
        let looks = rows >= self.look_at && rows_kept >= self.rows && !self.is_busy();
        if looks {
            self.look_at = rows + self.rows / 4;
        }
        looks
    }

    /// Whether a pane with so many rows, and what else was aggregated, has grown by enough. What was aggregated without
    /// making fewer rows of them, or not at all, is waited for twice as long.
    pub(crate) fn gives(&mut self, end_ms: i64, rows: u64, aggregated: u64) -> Option<Arc<()>> {
        let at_least = match self.given {
            Some((given_ms, given)) if given_ms == end_ms && rows >= given => 2 * given,
            _ => aggregated,
        };
        if rows < self.rows.max(at_least) {
            return None;
        }
        self.given = Some((end_ms, rows));
        Some(Arc::clone(&self.turn))
    }

    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.turn) > 1
    }

    /// Waits until the pane that was given has been aggregated, which a watch that ends may not do.
    pub(crate) fn wait(&self) {
        let began = Instant::now();
        while self.is_busy() && began.elapsed() < WAIT_MAX {
            thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_given_again_when_it_has_grown_by_as_much() {
        let mut growth = Growth::new(1_000_000);
        assert!(!growth.looks(124_999, 124_999) && growth.looks(125_000, 125_000));
        let turn = growth.gives(60_000, 125_000, 0);
        assert!(turn.is_some());
        // one at a time
        assert!(!growth.looks(300_000, 300_000));
        drop(turn);
        assert!(growth.looks(300_000, 175_000));
        // 100,000 groups were made, and 75,000 rows have come since
        assert!(growth.gives(60_000, 75_000, 100_000).is_none());
        assert!(growth.gives(60_000, 125_000, 130_000).is_none());
    }

    #[test]
    fn a_pane_that_could_not_be_aggregated_is_given_when_it_has_doubled() {
        let mut growth = Growth::new(1_000_000);
        assert!(growth.gives(60_000, 125_000, 0).is_some());
        assert!(growth.gives(60_000, 249_999, 0).is_none());
        assert!(growth.gives(60_000, 250_000, 0).is_some());
        // another one has nothing to do with it
        assert!(growth.gives(120_000, 125_000, 0).is_some());
    }
}
