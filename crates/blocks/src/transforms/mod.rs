//! Transforms: rows into rows. One file or folder for each kind, named after the kind; `template` is there to be copied.

pub mod aggregate;
pub mod anonymise;
pub mod correlator;
pub mod dedup;
pub mod enrich;
pub mod filter;
pub mod joiner;
pub mod sample;
pub mod sorter;
pub mod statistic;
pub mod stitch;
pub mod tee;
pub mod template;
pub mod topn;

use weir_chain::AnyKind;

/// Every kind of this folder.
pub const KINDS: &[&dyn AnyKind] = &[
    // keep in the order of the modules
    &aggregate::KIND,
    &anonymise::KIND,
    &correlator::KIND_WITH_COLUMNS,
    &dedup::KIND_WITH_COLUMNS,
    &enrich::KIND,
    &filter::KIND,
    &joiner::KIND,
    &sample::KIND,
    &sorter::KIND,
    &statistic::KIND_WITH_COLUMNS,
    &stitch::KIND,
    &tee::KIND,
    &template::KIND,
    &topn::KIND,
];
