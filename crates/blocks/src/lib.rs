//! The processing blocks: readers, windows, measures and sinks, one file each and all of the same shape.
//!
//! Every file has the same parts in the same order: `KIND`, which names the block, documents it and lists its
//! parameters; `configure`, which makes sense of the parameters; the block itself; its tests, of which the first is the
//! compliance test. Blocks do not know each other: what two of them need stands in a module of its own beside them.
//! `template.rs` is there to be copied.
//!
//! [`registry`] has them all. A crate above this one, or a user's own program, adds its own kinds to it.

// what several blocks need
pub(crate) mod decoded;
pub(crate) mod decoder_limits;

// the blocks
pub mod archive;
pub mod archive_reader;
pub mod capture_reader;
pub mod collector;

use weir_chain::{BlockKind, Registry};

/// Every kind of block of this crate.
pub const KINDS: &[&BlockKind] = &[
    // keep in the order of the modules
    &archive::KIND,
    &archive_reader::KIND,
    &capture_reader::KIND,
    &collector::KIND,
];

/// A registry with every kind of block of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for kind in KINDS {
        registry.add(**kind);
    }
    registry
}
