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
//! There is no manifest. The commit point of sealing is the removal of the tail file: while tail N exists, segments
//! that carry its number do not count, and once it is gone they do. What speaks against it is that a listing of the
//! folders is the only index; names of segments therefore carry what a planner needs (tails, positions, rows, times).
//!
//! Invariants:
//!
//! * tails are numbered without gaps, and sealed and removed in the order of their numbers;
//! * a tail is written to only while no tail of a higher number exists;
//! * nothing here reads SQL, knows a protocol or runs asynchronously.

mod check;
mod civil;
mod compaction;
mod durability;
mod error;
mod expiry;
mod folder;
mod frame;
mod index;
mod inventory;
mod layout;
mod lock;
mod options;
mod order;
mod portable;
mod position;
mod readers;
mod recovery;
mod rollup;
mod seal;
mod segment;
mod shared;
mod snapshot;
mod space;
mod statistics;
mod stock;
mod summaries;
mod tail;
mod threads;
mod upkeep;
mod writer;

pub use check::{CheckReport, Fault, Finding, check};
pub use compaction::{CompactionReport, Merge, compact};
pub use durability::Durability;
pub use error::{Action, ArchiveError};
pub use expiry::{ExpiryReport, expire};
pub use index::{ColumnPages, GroupPages, PageEncoding, PagePlace, PageSet, SegmentIndex};
pub use inventory::{Inventory, TailInfo, inventory};
pub use options::{ArchiveOptions, CompactionOptions, ExpiryOptions, SummaryOptions, WhenFull};
pub use portable::{ExportReport, ExportSelection, ImportReport, export, import};
pub use position::Position;
pub use readers::Lease;
pub use recovery::Recovery;
pub use rollup::{OmittedKeys, Rollup, RollupTable};
pub use segment::{REWRITE_ROWS_MAX, Segment};
pub use snapshot::Snapshot;
pub use statistics::{Statistics, WriterReport};
pub use stock::PlacedSegment;
pub use summaries::SegmentSummary;
pub use tail::TailDamage;
pub use writer::Writer;
