//! What is kept of history, in numbers.

use std::sync::Arc;

use super::cache::HistoryCache;
use super::key_rows::KeyRows;

/// What is kept of history for windows to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryCounts {
    /// Octets of rows, by host and hour.
    pub rows_octets: u64,
    /// Octets of answers that are the same for all windows of an hour.
    pub answers_octets: u64,
    /// Scans for hosts that were answered with rows that are kept, after what they lacked was read.
    pub scans_kept: u64,
    /// Scans for hosts of which there is too much to be kept: each reads all of its rows.
    pub scans_too_large: u64,
}

/// Says what is kept of history, while statements are asked.
#[derive(Debug, Clone)]
pub struct HistoryCounters {
    cache: Arc<HistoryCache>,
    rows: Arc<KeyRows>,
}

impl HistoryCounters {
    pub(super) fn new(cache: &Arc<HistoryCache>, rows: &Arc<KeyRows>) -> Self {
        Self { cache: Arc::clone(cache), rows: Arc::clone(rows) }
    }

    /// What is kept now.
    pub fn counts(&self) -> HistoryCounts {
        let (rows_octets, scans_kept, scans_too_large) = self.rows.counts();
        HistoryCounts { rows_octets, answers_octets: self.cache.octets(), scans_kept, scans_too_large }
    }
}
