//! Autonomous systems by the routes of addresses.

use std::path::Path;

use weir_chain::ComponentError;
use weir_flow::address::to_ip;
use weir_routes::{AsChoice, RouteTable, RouteTableBuilder};

/// The routes of a file, whatever form it has. Records that cannot be used are left out, with a warning.
///
/// A file without any route is an error, and so is one that ends too early: it may still be being written, and the one before
/// has more.
pub(super) fn routes_of(path: &Path) -> Result<(RouteTable, Option<String>), ComponentError> {
    let unusable = |error| ComponentError::caused("routes cannot be used", error);
    let mut builder = RouteTableBuilder::new(AsChoice::Origin);
    let report = builder.load(path).map_err(unusable)?;
    let first = report.defects.first().map(|defect| format!(": {} (at {})", defect.what, defect.place));
    let first = first.unwrap_or_default();
    if report.routes == 0 {
        return Err(ComponentError::new(format!("no route in {}{first}", path.display())));
    }
    if report.is_cut {
        let what = report.defects.last().map_or("file ends early", |defect| defect.what);
        return Err(ComponentError::new(format!("{} is damaged: {what}", path.display())));
    }
    if report.defective > 0 {
        let (defective, records) = (report.defective, report.records);
        tracing::warn!("{}: {defective} of {records} records tell no route that can be used{first}", path.display());
    }
    Ok((builder.build().map_err(unusable)?, None))
}

/// The autonomous system of an address of 4 or 16 octets, by the longest prefix of all tables; of the same prefix the last
/// table counts. A route of no system, such as that of the own network, gives none.
pub(super) fn system<'t>(tables: impl Iterator<Item = &'t RouteTable>, octets: &[u8]) -> Option<u32> {
    // IPv4 in IPv6 is looked up as IPv4, as in the other files
    let address = to_ip(octets)?.to_canonical();
    let longest = tables.filter_map(|table| table.find(address)).max_by_key(|route| route.prefix_bits)?;
    Some(longest.attributes.autonomous_system).filter(|system| *system != 0)
}
