//! The processing blocks: readers, windows, measures and sinks, one file each and all of the same shape.
//!
//! Every file has the same parts in the same order: `KIND`, which names the block, documents it and lists its
//! parameters; `configure`, which makes sense of the parameters; the block itself; its tests, of which the first is the
//! compliance test. Blocks do not know each other: what two of them need stands in a module of its own beside them.
//! `template.rs` is there to be copied.
//!
//! [`registry`] has them all. A crate above this one, or a user's own program, adds its own kinds to it.

// what several blocks need
pub mod gather;
pub mod keys;
#[cfg(test)]
mod test_flows;

// the blocks
pub mod joiner;
pub mod sorter;

use weir_chain::{BlockKind, Registry};

/// Every kind of block of this crate.
pub const KINDS: &[&BlockKind] = &[
    // keep in the order of the modules
    &joiner::KIND,
    &sorter::KIND,
];

/// A registry with every kind of block of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    KINDS.iter().for_each(|kind| registry.add(**kind));
    registry
}
