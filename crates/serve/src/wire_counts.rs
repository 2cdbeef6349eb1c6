//! What happened over other protocols than HTTP.

use std::sync::Arc;

use weir_flight::FlightCounts;
use weir_postgres::PostgresCounts;

/// Counters of other protocols, for those that are spoken.
#[derive(Debug, Default)]
pub(crate) struct WireCounts {
    pub(crate) postgres: Option<Arc<PostgresCounts>>,
    pub(crate) flight: Option<Arc<FlightCounts>>,
}
