//! The embedded archive: a crash-safe tail sealed into clustered Parquet segments.
//!
//! A [`Writer`] appends every [`Delivery`](weir_flow::Delivery) as one checksummed frame to the *tail*, an append-only
//! file. A thread of its own syncs the tail at most one commit interval after a write, so that appending never waits
//! for a disk to flush; [`Durability`] tells how far that has come. When a tail is large or old enough it is *sealed*:
//! its rows are sorted by service and written as Parquet *segments*, one per UTC day, that any tool can read.
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

pub mod check;
pub mod compaction;
pub mod durability;
pub mod error;
pub mod expiry;
pub mod index;
pub mod inventory;
pub mod options;
pub mod portable;
pub mod position;
pub mod recovery;
pub mod rollup;
pub mod segment;
pub mod snapshot;
pub mod space;
pub mod statistics;
pub mod summaries;
pub mod writer;

mod books;
mod civil;
mod folder;
mod frame;
mod layout;
mod lock;
mod order;
mod readers;
mod seal;
mod shared;
mod stock;
mod tail;
mod threads;
mod upkeep;

pub use check::{Checked, Fault, Finding, check};
pub use compaction::{Compacted, CompactionOptions, compact};
pub use durability::Durability;
pub use error::ArchiveError;
pub use expiry::{Expired, ExpiryOptions, expire};
pub use index::{PageSet, SegmentIndex};
pub use inventory::{Inventory, TailFound, inventory};
pub use options::ArchiveOptions;
pub use portable::{Exported, Imported, Part, export, import};
pub use position::Position;
pub use readers::Lease;
pub use recovery::{Damage, Recovery};
pub use rollup::{Rest, Rollup, RollupTable};
pub use segment::Segment;
pub use snapshot::Snapshot;
pub use space::WhenFull;
pub use statistics::{Statistics, Summary};
pub use stock::Kept;
pub use summaries::{SegmentSummary, SummaryOptions};
pub use writer::Writer;
