//! Sinks: where rows leave a chain. One file or folder for each kind, named after the kind.

pub mod archive;
pub mod counter;
pub mod dumper;
pub mod export;
pub mod statistics;

use weir_chain::AnyKind;

/// Every kind of this folder.
pub const KINDS: &[&'static dyn AnyKind] = &[
    // keep in the order of the modules
    &archive::KIND_WITH_COLUMNS,
    &counter::KIND,
    &dumper::KIND,
    &export::KIND,
    &statistics::KIND,
];
