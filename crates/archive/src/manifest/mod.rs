//! The manifest: which files of an archive count, as a log of commits.
//!
//! [`ArchiveState`] is the one truth, and [`ArchiveState::apply`] the one way in which it changes; [`Manifest`] keeps
//! it on the disk. Folders are listed only to find what a crash has left, and to make a manifest anew
//! ([`rebuild`]) for an archive that has lost it, or that a program wrote which had none.

mod codec;
mod commit_lock;
mod edit;
mod key;
mod log;
pub(crate) mod rebuild;
mod refused;
mod state;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use edit::Edit;
pub(crate) use key::SegmentKey;
pub(crate) use log::{Manifest, clear_new};
pub use refused::EditRefused;
pub(crate) use state::{ArchiveState, EPOCHS_MAX};
