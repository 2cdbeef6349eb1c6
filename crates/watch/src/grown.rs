//! Panes that have so many rows that these are aggregated before a window closes.
//!
//! The thread that follows sees a pane grow, and the one that asks has the statement: a pane is on its way from the one to the
//! other, one at a time. Rows that come meanwhile are aggregated the next time.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weir_sql::standing::{PaneSize, WindowRows};

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
    /// Rows of a pane that are enough, and rows that are never waited for longer.
    rows: (u64, u64),
    /// Rows that may be kept, those that were aggregated count among them.
    rows_max: u64,
    /// Rows that may still come, when it was looked last.
    rows_left: u64,
    /// It is looked when so many rows have come.
    look_at: u64,
    /// Another one has it while a pane is on its way.
    turn: Arc<()>,
    /// The pane that was given last, by its end, and what it had then.
    given: Option<(i64, PaneSize)>,
    /// Whether memory is scarce: then a pane has enough as soon as it is worth it.
    is_scarce: bool,
}

impl Growth {
    /// For a watch that keeps this many rows at most.
    pub(crate) fn new(rows_max: u64) -> Self {
        let enough = (rows_max / PART).max(ROWS_MIN);
        Self {
            rows: (enough, enough.max(rows_max / 2)),
            rows_max,
            rows_left: rows_max,
            look_at: 0,
            turn: Arc::default(),
            given: None,
            is_scarce: false,
        }
    }

    /// Whether the memory that all watches share is scarce.
    pub(crate) fn set_scarce(&mut self, is_scarce: bool) {
        if is_scarce && !self.is_scarce {
            self.look_at = 0;
        }
        self.is_scarce = is_scarce;
    }

    /// Rows of a pane that are enough.
    fn enough(&self) -> u64 {
        if self.is_scarce { ROWS_MIN } else { self.rows.0 }
    }

    /// Whether to look, after this many rows in all, of which so many are kept.
    pub(crate) fn looks(&mut self, rows: u64, rows_kept: u64) -> bool {
        let looks = rows >= self.look_at && rows_kept >= self.enough() && !self.is_busy();
        if looks {
            self.look_at = rows + self.enough() / 4;
            self.rows_left = self.rows_max.saturating_sub(rows_kept);
        }
        looks
    }

    /// Whether a pane has grown by enough: by as many rows as what was aggregated has. Where rows were not replaced, because
    /// aggregating failed or made no fewer of them, it must have doubled, or have half of what may be kept for the first time.
    /// Before rows are left out there is a last attempt, however few rows have come: beside what was aggregated the pane may never
    /// have as many as that.
    pub(crate) fn gives(&mut self, end_ms: i64, size: PaneSize) -> Option<Arc<()>> {
        let (enough, longest) = (self.enough(), self.rows.1);
        let (at_least, tried) = match self.given {
            Some((given_ms, given)) if given_ms == end_ms && given.released_rows == size.released_rows => {
                let doubled = given.rows.saturating_mul(2);
                (if given.rows < longest { doubled.min(longest) } else { doubled }, given.rows)
            }
            _ => (size.aggregated_rows.min(longest), 0),
        };
        // it is looked twice while so many come; after this attempt so many cannot come again
        let last_rows = enough / 2;
        let is_last = self.rows_left < last_rows && size.rows.saturating_sub(tried) >= last_rows;
        if size.rows < at_least.max(enough) && !is_last {
            return None;
        }
        self.given = Some((end_ms, size));
        Some(Arc::clone(&self.turn))
    }

    /// Whether a pane is on its way.
    pub(crate) fn is_busy(&self) -> bool {
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

    fn size(rows: u64, aggregated_rows: u64, released_rows: u64) -> PaneSize {
        PaneSize { rows, aggregated_rows, released_rows }
    }

    #[test]
    fn a_pane_is_given_again_when_it_has_grown_by_as_much() {
        let mut growth = Growth::new(1_000_000);
        assert!(!growth.looks(124_999, 124_999) && growth.looks(125_000, 125_000));
        let turn = growth.gives(60_000, size(125_000, 0, 0));
        assert!(turn.is_some());
        // one at a time
        assert!(!growth.looks(300_000, 300_000));
        drop(turn);
        assert!(growth.looks(300_000, 175_000));
        // 130,000 groups were made of them
        assert!(growth.gives(60_000, size(129_999, 130_000, 125_000)).is_none());
        assert!(growth.gives(60_000, size(130_000, 130_000, 125_000)).is_some());
        // fewer groups: as many as were given before need not come again
        assert!(growth.gives(60_000, size(125_000, 1_000, 255_000)).is_some());
        // half of what may be kept is enough, whatever was made
        assert!(growth.gives(60_000, size(500_000, 700_000, 380_000)).is_some());
    }

    #[test]
    fn a_pane_is_given_once_more_before_rows_are_left_out() {
        let mut growth = Growth::new(1_000_000);
        // sums of 400,000 groups and half of the rows: aggregating fails
        assert!(growth.looks(900_000, 900_000));
        assert!(growth.gives(60_000, size(500_000, 400_000, 400_000)).is_some());
        // there are never twice as many rows beside the sums
        assert!(growth.looks(937_000, 937_000));
        assert!(growth.gives(60_000, size(537_000, 400_000, 400_000)).is_none());
        assert!(growth.looks(970_000, 970_000));
        assert!(growth.gives(60_000, size(570_000, 400_000, 400_000)).is_some());
        // that was the last attempt
        assert!(growth.looks(1_100_000, 1_000_000));
        assert!(growth.gives(60_000, size(600_000, 400_000, 400_000)).is_none());
        // sums of more groups than rows can come beside them
        let mut growth = Growth::new(1_000_000);
        assert!(growth.looks(950_000, 950_000));
        assert!(growth.gives(60_000, size(250_000, 700_000, 900_000)).is_some());
    }

    #[test]
    fn where_memory_is_scarce_a_pane_is_given_as_soon_as_it_is_worth_it() {
        let mut growth = Growth::new(1_000_000);
        assert!(!growth.looks(20_000, 20_000));
        growth.set_scarce(true);
        assert!(growth.looks(20_000, 20_000));
        assert!(growth.gives(60_000, size(16_383, 0, 0)).is_none());
        assert!(growth.gives(60_000, size(16_384, 0, 0)).is_some());
        // what was made has as many groups: it is waited for as many rows
        assert!(growth.gives(60_000, size(17_000, 18_000, 16_384)).is_none());
        assert!(growth.gives(60_000, size(18_000, 18_000, 16_384)).is_some());
    }

    #[test]
    fn a_pane_that_could_not_be_aggregated_is_given_when_it_has_doubled() {
        let mut growth = Growth::new(1_000_000);
        assert!(growth.gives(60_000, size(125_000, 0, 0)).is_some());
        assert!(growth.gives(60_000, size(249_999, 0, 0)).is_none());
        assert!(growth.gives(60_000, size(300_000, 0, 0)).is_some());
        assert!(growth.gives(60_000, size(500_000, 0, 0)).is_some());
        // half of what may be kept was tried
        assert!(growth.gives(60_000, size(999_999, 0, 0)).is_none());
        // another one has nothing to do with it
        assert!(growth.gives(120_000, size(125_000, 0, 0)).is_some());
    }
}
