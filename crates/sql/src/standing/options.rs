//! What standing questions may take, and what one needs besides its text.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_flow::scaling::Corrections;

use super::dialect::Parameters;

/// Limits of standing questions.
#[derive(Debug, Clone)]
pub struct StandingOptions {
    /// Memory that all questions may use together, in octets. Rows of windows do not count, nor does what is kept of history,
    /// which may be half as much.
    pub memory_octets_max: usize,
    /// Memory that rows of the windows of all questions may take together, in octets.
    pub window_octets_max: u64,
    /// Folder for what does not fit; the system's folder of temporary files by default.
    pub spill_folder: Option<PathBuf>,
    /// Sampling intervals that override what exporters report.
    pub corrections: Arc<Corrections>,
}

impl Default for StandingOptions {
    fn default() -> Self {
        Self { memory_octets_max: 2 << 30, window_octets_max: 1 << 30, spill_folder: None, corrections: Arc::default() }
    }
}

/// What a statement needs besides its text.
#[derive(Debug, Clone)]
pub struct QuerySetup {
    /// The time of flows by which history lies before a window, and that `[range by …]` goes by.
    pub time: Column,
    /// Names for statements over flows, as `WITH` would give them.
    pub views: Vec<(String, String)>,
    /// What `:name` stands for in the statement and the views.
    pub parameters: Parameters,
    /// Zone of times that are written without one, and of days in functions; UTC by default.
    pub zone: TimeZone,
}

impl Default for QuerySetup {
    fn default() -> Self {
        Self { time: Column::Received, views: Vec::new(), parameters: Parameters::default(), zone: TimeZone::UTC }
    }
}
