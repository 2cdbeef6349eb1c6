//! The processing blocks: readers, windows, measures and sinks, one file each and all of the same shape.
//!
//! Every file has the same parts in the same order: `KIND`, which names the block, documents it and lists its
//! parameters; `configure`, which makes sense of the parameters; the block itself; its tests, of which the first is the
//! compliance test. Blocks do not know each other: what two of them need stands in a module of its own beside them.
//! `template.rs` is there to be copied.
//!
//! [`registry`] has them all. A crate above this one, or a user's own program, adds its own kinds to it.

// what several blocks need
pub mod by_start;
pub mod flow_columns;
pub mod gather;
pub mod keys;

mod fit;
mod five_tuple;
mod folds;
mod grouping;
mod numbers;
mod plot;
mod row_file;
mod traffic;
mod windows;

#[cfg(test)]
mod naive;
#[cfg(test)]
mod test_flows;

// the blocks
pub mod aggregate;
pub mod anonymise;
pub mod archive;
pub mod archive_reader;
pub mod capture_reader;
pub mod collector;
pub mod correlator;
pub mod dedup;
pub mod dumper;
pub mod enrich;
pub mod export;
pub mod filter;
pub mod foreign;
pub mod generator;
pub mod joiner;
pub mod meter;
pub mod null;
pub mod router_generator;
pub mod sample;
pub mod sorter;
pub mod statistic;
pub mod stitch;
pub mod tee;
pub mod template;
pub mod topn;

use weir_chain::{BlockKind, Registry};

/// Every kind of block of this crate.
pub const KINDS: &[&BlockKind] = &[
    // keep in the order of the modules
    &aggregate::KIND,
    &anonymise::KIND,
    &archive::KIND,
    &archive_reader::KIND,
    &capture_reader::KIND,
    &collector::KIND,
    &correlator::KIND,
    &dedup::KIND,
    &dumper::KIND,
    &enrich::KIND,
    &export::KIND,
    &filter::KIND,
    &foreign::KIND,
    &generator::KIND,
    &joiner::KIND,
    &meter::KIND,
    &null::KIND,
    &router_generator::KIND,
    &sample::KIND,
    &sorter::KIND,
    &statistic::KIND,
    &stitch::KIND,
    &tee::KIND,
    &template::KIND,
    &topn::KIND,
];

/// A registry with every kind of block of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for kind in KINDS {
        registry.add(**kind);
    }
    registry
}
