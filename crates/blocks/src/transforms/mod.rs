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
use weir_flow::Column;

/// Every kind of this folder.
pub const KINDS: &[&dyn AnyKind] = &[
    // keep in the order of the modules
    &aggregate::KIND_WITH_COLUMNS,
    &anonymise::KIND,
    &correlator::KIND_WITH_COLUMNS,
    &dedup::KIND_WITH_COLUMNS,
    &enrich::KIND,
    &filter::KIND_WITH_COLUMNS,
    &joiner::KIND,
    &sample::KIND,
    &sorter::KIND_WITH_COLUMNS,
    &statistic::KIND_WITH_COLUMNS,
    &stitch::KIND,
    &tee::KIND,
    &template::KIND,
    &topn::KIND_WITH_COLUMNS,
];

/// The columns of flows among keys such as `src_addr/24/48`; keys of other rows are left out.
fn columns_named<'a>(keys: impl IntoIterator<Item = &'a String>) -> Vec<&'static str> {
    let column = |key: &String| Column::by_name(key.split('/').next().unwrap_or_default());
    keys.into_iter().filter_map(column).map(Column::name).collect()
}
