//! The embedded archive: a crash-safe tail sealed into clustered Parquet segments.
//!
//! A [`Writer`] appends every [`Delivery`](weir_flow::Delivery) as one checksummed frame to the *tail*, an append-only
//! file. A thread of its own syncs the tail at most one commit interval after a write, so that appending never waits
//! for a disk to flush; [`Durability`] reports how far that has come. When a tail is large or old enough it is
//! *sealed*: its rows are sorted by service and written as Parquet *segments*, one per UTC day, that any tool can read.
//!
//! A [`Snapshot`] reads segments and tail as one table at one [`Position`], from any process and without a lock, also
//! while a writer is at work.
//!
//! A [`Follower`] gives every delivery after a position once, in order, whatever happens to its file meanwhile.
//!
//! Which files count is decided by the `manifest` alone: a log of commits, each one file that is there or not. Sealing,
//! merging, expiry and repair are one commit each, so a crash at any moment leaves the state before or after. What
//! speaks against it is that files can be there which do not count; `check` finds them, and the log can be made anew of
//! the files when it is lost.
//!
//! Invariants:
//!
//! * tails are numbered without gaps, and sealed in the order of their numbers, but for those that cannot be;
//! * a tail is written to only while no tail of a higher number exists;
//! * nothing here reads SQL, knows a protocol or runs asynchronously.

mod books;
mod caches;
mod check;
mod civil;
mod compaction;
mod durability;
mod error;
mod expiry;
mod folder;
mod follow;
mod frame;
mod handle;
mod index;
mod inventory;
mod layout;
mod lock;
mod manifest;
mod new_folders;
mod options;
mod order;
mod portable;
mod position;
#[cfg(test)]
mod power_loss;
mod readers;
mod recovery;
mod removed;
mod ring;
mod rollup;
mod seal;
mod segment;
mod sequences;
mod shared;
mod snapshot;
mod source_files;
mod space;
mod statistics;
mod summaries;
mod syncing;
mod tail;
mod tail_set;
mod tails;
mod threads;
mod unsynced;
mod upkeep;
mod writer;

use weir_disk as disk;

pub use check::{CheckReport, Fault, Finding, check, rebuild_manifest};
pub use compaction::{CompactionReport, Merge, compact};
pub use durability::Durability;
pub use error::{Action, ArchiveError};
pub use expiry::{ExpiryReport, expire};
pub use follow::{Behind, FollowEvent, FollowOptions, FollowRetry, FollowedDelivery, Follower};
pub use frame::FrameDigest;
pub use handle::{ArchiveHandle, HandleOptions};
pub use index::{ColumnPages, GroupPages, PageEncoding, PagePlace, PageSet, SegmentIndex};
pub use inventory::{Inventory, TailInfo, commits_since_checkpoint, inventory};
pub use manifest::EditRefused;
pub use new_folders::NewFolders;
pub use options::{ArchiveOptions, CompactionOptions, ExpiryOptions, SealRetries, SummaryOptions, WhenFull};
pub use portable::{ExportReport, ExportSelection, ImportReport, export, import};
pub use position::{BadFollowPosition, FollowPosition, Position};
pub use readers::Lease;
pub use recovery::Recovery;
pub use rollup::{OmittedKeys, Rollup, RollupTable};
pub use segment::{REWRITE_ROWS_MAX, Segment};
pub use sequences::SequenceHole;
pub use shared::SealFailure;
pub use snapshot::Snapshot;
pub use source_files::{BegunFiles, EarlierContent, EarlierFiles, ReadFile, SourceFile, SourceFiles};
pub use statistics::{Statistics, WriterReport};
pub use summaries::SegmentSummary;
pub use tail::{TailDamage, TailFrame};
pub use writer::Writer;
