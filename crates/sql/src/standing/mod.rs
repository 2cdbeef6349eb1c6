//! Standing questions: SQL over a window of the live stream, asked again whenever a window closes.
//!
//! A window is a relation. `TUMBLE(flows, received, INTERVAL '1' SECOND)` is, each time, a table of the rows of one
//! window that has closed, so a standing question is a bounded question that is asked once for each window, and plain
//! SQL over the same rows is its oracle. `HISTORY(flows, INTERVAL '7' DAY)` is the archive before the window, at a
//! snapshot that has the window's last row: the time column of the two decides, so no row is in both or in neither.
//!
//! The statement is planned once ([`planner`]). A question without history keeps its physical plan, and only the rows
//! in the [`slot`] change. One with history is optimised again for each window, because the bounds of the time range
//! decide which segments are opened; the part that asks the window alone is answered first, and its keys narrow the
//! part that asks history ([`keys`]). Rows of hosts that were found before are kept ([`key_rows`]), and what history
//! answers whatever the window found is cached ([`cache`]). Where there is nothing at all, nothing is planned
//! ([`silence`]), and where the window's own part decides that there is nothing to say, history is not ([`live`]). Rows
//! that the statement leaves out whatever the window are not kept ([`row_filter`]). What speaks against a plan for each
//! window is its cost of some milliseconds; what an incremental engine would save there it would lose in exactness, for
//! late rows and in backtests.

mod arguments;
mod cache;
pub mod dialect;
mod history;
mod history_counters;
mod key_rows;
mod keyed_scan;
mod keys;
mod live;
mod made_rows;
mod merged_state;
mod options;
mod pane_aggregates;
mod pane_rows;
pub(crate) mod planner;
mod query;
mod row_filter;
mod session;
mod session_relation;
mod silence;
mod slot;
mod sources;
mod statement;
mod window_memory;
mod window_table;
mod window_time;

pub use history_counters::{HistoryCounters, HistoryCounts};
pub use options::{QuerySetup, StandingOptions};
pub use pane_rows::{PaneRows, PaneSize, WindowPane};
pub use query::{StandingEngine, StandingQuery};
pub use row_filter::RowFilter;
pub use session::{Run, Session, SessionInput, SessionKind};
pub use slot::{Window, WindowRows};
pub use window_memory::{QuestionMemory, StateMemory, WindowMemory};
pub use window_time::{WindowKind, WindowSpec};
