//! The components of chains: sources, transforms and sinks, one file or folder for each kind and all of the same shape.
//!
//! Every file has the same parts in the same order: `KIND`, which names the component, documents it and lists its
//! options; `configure`, which checks the options; the component itself; its tests, of which the first is the compliance
//! test. Components do not know each other, which `cargo xtask blocks` checks: what several of them do
//! with rows is in `weir-rows`, and what else two of them need is in a module of its own next to the three folders.
//! [`transforms::template`] is there to be copied.
//!
//! [`registry`] has them all. A crate above this one, or a user's own program, adds its own kinds to it.

pub mod sinks;
pub mod sources;
pub mod transforms;

// what several components need
mod books_counters;
mod filter_error;
mod flow_filter;
mod plot;
mod reception;
pub mod row_file;

use weir_chain::{AnyKind, Registry};

/// Every kind of component of this crate.
pub fn kinds() -> impl Iterator<Item = &'static dyn AnyKind> {
    [sources::KINDS, transforms::KINDS, sinks::KINDS].into_iter().flatten().copied()
}

/// A registry with every kind of component of this crate.
pub fn registry() -> Registry {
    let mut registry = Registry::new();
    for kind in kinds() {
        registry.add(kind);
    }
    registry
}
