//! Sources: where rows enter a chain. One file or folder for each kind, named after the kind.

pub mod archive_reader;
pub mod capture_reader;
pub mod collector;
pub mod file_reader;
pub mod generator;
pub mod ingest;
pub mod meter;
pub mod router_generator;

pub mod traffic;

use weir_chain::AnyKind;

/// Every kind of this folder.
pub const KINDS: &[&'static dyn AnyKind] = &[
    // keep in the order of the modules
    &archive_reader::KIND_WITH_COLUMNS,
    &capture_reader::KIND,
    &collector::KIND,
    &file_reader::KIND,
    &generator::KIND,
    &ingest::KIND,
    &meter::KIND,
    &router_generator::KIND,
];
