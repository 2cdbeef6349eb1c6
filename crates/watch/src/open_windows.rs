//! The windows of a watch that are open: panes, or sessions.

use arrow::array::RecordBatch;

use crate::grown::GrownPane;
use crate::panes::{ClosedWindow, PaneCounts, Panes};
use crate::sessions::Sessions;
use crate::window_clock::WindowClock;

/// The windows of a watch that are open. Each kind keeps rows in its way, and time moves for both alike.
#[derive(Debug)]
pub(crate) enum OpenWindows {
    Panes(Box<Panes>),
    Sessions(Box<Sessions>),
}

impl OpenWindows {
    fn clock(&self) -> &WindowClock {
        match self {
            Self::Panes(panes) => &panes.clock,
            Self::Sessions(sessions) => &sessions.clock,
        }
    }

    fn clock_mut(&mut self) -> &mut WindowClock {
        match self {
            Self::Panes(panes) => &mut panes.clock,
            Self::Sessions(sessions) => &mut sessions.clock,
        }
    }

    /// Takes the flows of a delivery; windows that they close go to `closed`.
    pub(crate) fn take(&mut self, flows: &RecordBatch, closed: &mut Vec<ClosedWindow>) {
        match self {
            Self::Panes(panes) => panes.take(flows, closed),
            Self::Sessions(sessions) => sessions.take(flows, closed),
        }
    }

    /// Takes flows in any order without moving time.
    pub(crate) fn load(&mut self, flows: &RecordBatch) {
        match self {
            Self::Panes(panes) => panes.load(flows),
            Self::Sessions(sessions) => sessions.load(flows),
        }
    }

    /// The clock says that it is this time, and no flows come.
    pub(crate) fn advance(&mut self, now_ms: i64, closed: &mut Vec<ClosedWindow>) {
        match self {
            Self::Panes(panes) => panes.advance(now_ms, closed),
            Self::Sessions(sessions) => sessions.advance(now_ms, closed),
        }
    }

    /// Gives the windows that end at this time or before, of which all rows were loaded.
    pub(crate) fn close_through(&mut self, end_ms: i64, closed: &mut Vec<ClosedWindow>) {
        self.advance(self.clock().closes_at(end_ms), closed);
    }

    /// Goes on from now when times are ahead of the clock; whether they were.
    pub(crate) fn rewind(&mut self, now_ms: i64) -> bool {
        match self {
            Self::Panes(panes) => panes.rewind(now_ms),
            Self::Sessions(sessions) => sessions.rewind(now_ms),
        }
    }

    /// A pane that is to be aggregated now, before its windows close.
    pub(crate) fn grown(&mut self) -> Option<GrownPane> {
        match self {
            Self::Panes(panes) => panes.grown(),
            Self::Sessions(_) => None,
        }
    }

    /// Leaves out rows that came last, because the windows of all watches keep too much; false when none can go.
    pub(crate) fn give_way(&mut self) -> bool {
        match self {
            Self::Panes(panes) => panes.give_way(),
            // a session is not known to be whole before it ends: further rows of sessions are left out, and none that are kept
            Self::Sessions(_) => false,
        }
    }

    /// Waits until the pane that was given has been aggregated.
    pub(crate) fn wait_for_grown(&self) {
        if let Self::Panes(panes) = self {
            panes.wait_for_grown();
        }
    }

    /// What happened to rows.
    pub(crate) fn counts(&self) -> PaneCounts {
        match self {
            Self::Panes(panes) => panes.counts(),
            Self::Sessions(sessions) => sessions.counts(),
        }
    }

    /// Rows that are kept at most.
    pub(crate) fn rows_max(&self) -> u64 {
        match self {
            Self::Panes(panes) => panes.rows_max(),
            Self::Sessions(sessions) => sessions.rows_max(),
        }
    }

    /// Rows of the past that are loaded at once at most, where so many watches do that at the same time.
    pub(crate) fn loaded_rows_max(&self, watches: u64) -> u64 {
        match self {
            Self::Panes(panes) => panes.loaded_rows_max(watches),
            Self::Sessions(sessions) => sessions.rows_max(),
        }
    }

    /// How long before the end of a window rows must be known.
    pub(crate) fn size_max_ms(&self) -> i64 {
        match self {
            Self::Panes(panes) => panes.size_max_ms(),
            Self::Sessions(sessions) => sessions.size_max_ms(),
        }
    }

    /// Gives no window that ends at this time or before.
    pub(crate) fn skip_through(&mut self, end_ms: i64) {
        self.clock_mut().skip_through(end_ms);
    }

    /// When the first window ends that can close after this time.
    pub(crate) fn first_end_after(&self, time_ms: i64) -> i64 {
        self.clock().kind.first_end_after(time_ms)
    }

    /// The end of the next window to close, when it is this time or before.
    pub(crate) fn next_end_through(&self, through_ms: i64) -> Option<i64> {
        self.clock().next_end_ms().filter(|end_ms| *end_ms <= through_ms)
    }

    /// The same, of the windows that are given: those without a row are passed over at once, and not one after the other. A
    /// wrong clock of an exporter may have put millions of them between two flows.
    pub(crate) fn next_given_through(&mut self, through_ms: i64) -> Option<i64> {
        match self {
            Self::Panes(panes) => panes.pass_empty(through_ms),
            Self::Sessions(sessions) => sessions.pass_empty(through_ms),
        }
        self.next_end_through(through_ms)
    }

    /// The end of the last window that has closed, with rows or without.
    pub(crate) fn closed_through(&self) -> Option<i64> {
        self.clock().closed_through()
    }

    /// Begins with the window that ends first after this time.
    pub(crate) fn begin_at(&mut self, time_ms: i64) {
        self.clock_mut().next_end_for(time_ms);
    }
}
