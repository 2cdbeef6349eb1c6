//! Statistics over time: series of numbers, one value for each step, kept in a store whose size is known beforehand.
//!
//! A *series* is what one key of one family counts: flows, packets and bytes of the host 192.0.2.1, say. A *family* is all
//! series of one kind of key, which have the same metrics. A *step* is an interval of fixed length, at multiples of it
//! since the epoch. A store has several *resolutions*: the finest is written, and each coarser one is consolidated
//! from the one before it (sum, smallest, largest and last value), and kept for longer.
//!
//! ```text
//! statistics/
//!   store.toml          resolutions and families
//!   catalogue           which number each series has
//!   1s/5918402.steps    steps as they are written, each one frame with a checksum
//!   1s/5918401.block    the same values turned around: all steps of a series next to each other
//!   60s/…  300s/…       coarser resolutions, likewise
//! ```
//!
//! A step is one write at the end of one file, whatever the number of series, steps and years: that is what a file for
//! each series (RRD) cannot do. Reading one series would then touch every step, so 288 finished steps are turned around
//! into a block by a thread of its own, and a year of a series at 5 minutes is in 366 places. What speaks against it:
//! each value is written twice.
//!
//! Blocks have numbers that follow from the time alone (`time / (step * 288)`), so no list of files is needed: a block that
//! is there counts, and replaces the steps of the same number. The oldest blocks are removed when the retention of their
//! resolution is over, or when the store is larger than it may be. A process that is killed leaves at most a torn frame at
//! the end of a file, which is cut off.
//!
//! Sums of finer steps make the sum of a coarser one; numbers of distinct things and quantiles do not, so metrics may have
//! sketches of them ([`DistinctSketch`], [`QuantileSketch`]), which are merged.
//!
//! A step that was not written is a gap: nothing is known about it. A series that is not in a step that was written
//! was zero if its family is *complete*; it is unknown if the family keeps only its largest keys.

mod block;
mod catalogue;
mod column;
mod consolidation;
mod content;
mod damage;
mod error;
mod family;
mod folder;
mod following;
mod frame;
mod reader;
mod resolution;
mod rows;
mod runs;
mod shared_file;
mod size;
mod sketch;
mod table;
mod turning;
mod writer;

pub use catalogue::Catalogue;
pub use damage::Damage;
pub use error::SeriesError;
pub use family::{Coverage, Family, FamilyId, Metric, MetricKind, SeriesId, Sketch};
pub use following::StepsAfter;
pub use reader::{Fetched, FetchedSeries, Point, SeriesStore};
pub use resolution::{LargestKeys, Resolution, StoreOptions, check as check_resolutions};
pub use rows::{FamilyRows, StepRows};
pub use size::{ResolutionSize, StoreSize};
pub use sketch::{DistinctSketch, QuantileSketch};
pub use table::{RowSelection, SeriesRows};
pub use writer::{StatisticsWriter, WriterCounts};
