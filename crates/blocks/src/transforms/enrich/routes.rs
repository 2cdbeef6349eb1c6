//! Autonomous systems by the routes of addresses.

use std::path::Path;
use std::sync::Arc;

use weir_chain::ComponentError;
use weir_flow::address::to_ip;
use weir_routes::{RouteFile, RouteFileError, RouteTable, autonomous_system};

/// The routes of a file, which are in memory once for all of the process. Records that cannot be used are left out, with a
/// warning.
///
/// A file without any route is an error, and so is one that ends too early: it may still be being written, and the one before
/// has more.
pub(super) fn routes_of(path: &Path) -> Result<(Arc<RouteTable>, Option<String>), ComponentError> {
    let file = RouteFile::open(path).map_err(|error| match error {
        RouteFileError::Unusable(source) => ComponentError::caused("routes cannot be used", source),
        error => ComponentError::new(error.to_string()),
    })?;
    if let Some(warning) = file.warning {
        tracing::warn!("{warning}");
    }
    Ok((file.table, None))
}

/// The autonomous system of an address of 4 or 16 octets by these tables.
pub(super) fn system<'t>(tables: impl Iterator<Item = &'t RouteTable>, octets: &[u8]) -> Option<u32> {
    autonomous_system(tables, to_ip(octets)?)
}
