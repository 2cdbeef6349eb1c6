//! Closed windows that wait for their answer, and what they keep in memory meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, RecordBatch};
use weir_sql::standing::{WindowPane, WindowRows};

use crate::panes::ClosedWindow;

/// Closed windows that wait for their answer at a moment, and what all windows of the watch keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitingCounts {
    /// How many there are.
    pub windows: u64,
    /// Their rows, as many as there were when they closed. Those that several windows share count for each.
    pub rows: u64,
    /// Octets of these rows.
    pub octets: u64,
    /// Octets of memory that windows of the watch keep, open ones, those that wait and the one that is being answered.
    pub octets_kept: u64,
}

impl WaitingCounts {
    /// All of them with their names.
    pub fn all(&self) -> [(&'static str, u64); 4] {
        let Self { windows, rows, octets, octets_kept } = *self;
        [("windows_waiting", windows), ("rows_waiting", rows), ("octets_waiting", octets), ("octets_kept", octets_kept)]
    }
}

/// A window on its way from the thread that follows to the one that asks.
#[derive(Debug)]
pub(crate) struct WaitingWindow {
    pub(crate) window: ClosedWindow,
    rows: u64,
    /// Rows that are kept for it, those that what was aggregated counts as among them.
    kept_rows: u64,
    /// Those of them that the window before does not have.
    own_rows: u64,
    octets: u64,
}

impl WaitingWindow {
    pub(crate) fn of(window: ClosedWindow) -> Self {
        // all windows of a statement end together: the longest has the rows of the others
        let longest = window.rows.iter().max_by_key(|rows| rows.window.end_ms.saturating_sub(rows.window.start_ms));
        let batches = longest.map(WindowRows::batches).unwrap_or_default();
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let octets = batches.iter().map(octets).sum();
        let panes = longest.map(|rows| rows.panes.iter().map(kept).collect::<Vec<_>>()).unwrap_or_default();
        let (kept_rows, own_rows) = (panes.iter().sum(), panes.last().copied().unwrap_or_default());
        Self { window, rows, kept_rows, own_rows, octets }
    }

    /// Whether there is room for it beside those that wait: at least one may, and all of them have as many rows as a watch may
    /// keep.
    pub(crate) fn has_room(&self, counters: &WaitingCounters, rows_max: u64) -> bool {
        let waiting = counters.own_rows.load(Ordering::Relaxed);
        counters.windows.load(Ordering::Relaxed) == 0 || waiting.saturating_add(self.kept_rows) <= rows_max
    }
}

/// Rows that a pane keeps.
fn kept(pane: &WindowPane) -> u64 {
    let size = pane.size();
    size.rows.saturating_add(size.aggregated_rows)
}

/// Octets of the rows of a batch, which may be some of those that it shares with others.
fn octets(batch: &RecordBatch) -> u64 {
    let of_column = |column: &dyn Array| column.to_data().get_slice_memory_size().unwrap_or(0) as u64;
    batch.columns().iter().map(|column| of_column(column.as_ref())).sum()
}

/// Counts windows that wait; the two threads share it.
#[derive(Debug, Default)]
pub(crate) struct WaitingCounters {
    windows: AtomicU64,
    /// Windows that are being answered.
    answering: AtomicU64,
    rows: AtomicU64,
    own_rows: AtomicU64,
    octets: AtomicU64,
}

impl WaitingCounters {
    /// One more waits, or is about to: it must be counted before the other thread can take it.
    pub(crate) fn add(&self, waiting: &WaitingWindow) {
        self.windows.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(waiting.rows, Ordering::Relaxed);
        self.own_rows.fetch_add(waiting.own_rows, Ordering::Relaxed);
        self.octets.fetch_add(waiting.octets, Ordering::Relaxed);
    }

    /// One that was added waits no more.
    pub(crate) fn remove(&self, waiting: &WaitingWindow) {
        self.windows.fetch_sub(1, Ordering::Relaxed);
        self.rows.fetch_sub(waiting.rows, Ordering::Relaxed);
        self.own_rows.fetch_sub(waiting.own_rows, Ordering::Relaxed);
        self.octets.fetch_sub(waiting.octets, Ordering::Relaxed);
    }

    /// One that waited is being answered, until [`answered`](Self::answered).
    pub(crate) fn answer(&self, waiting: &WaitingWindow) {
        self.answering.fetch_add(1, Ordering::Relaxed);
        self.remove(waiting);
    }

    /// The answer is there, and nothing has the window any more.
    pub(crate) fn answered(&self) {
        self.answering.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether windows wait or are being answered, so that their memory will be free.
    pub(crate) fn has_windows(&self) -> bool {
        self.windows.load(Ordering::Relaxed) + self.answering.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn counts(&self) -> WaitingCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WaitingCounts { windows: of(&self.windows), rows: of(&self.rows), octets: of(&self.octets), octets_kept: 0 }
    }
}
