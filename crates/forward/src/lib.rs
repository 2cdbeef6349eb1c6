//! Deliveries of an archive to a store elsewhere, each once.
//!
//! **The archive is the spool.** A collector or meter appends to an archive and is done; a [`Forwarder`] follows the archive,
//! in the same process or in another, and hands each delivery to a [`ForwardStore`]. A store that is away costs nothing but
//! room on the disk, up to the limits of the archive; what expires before it was forwarded is counted as lost. What speaks
//! against it is that every row is written to the local disk first, also when the store is well.
//!
//! **Each once.** The forwarder keeps its position after rows were acknowledged, so a crash repeats some deliveries. Rows
//! therefore have keys that depend on nothing but the archive, the delivery and what is in the row ([`identity`]): storing
//! a row again writes over itself.
//!
//! **Many producers.** A [`ForwardGroup`] forwards several archives to one store: each producer of a host appends to an
//! archive of its own, and one process hands all of them on.
//!
//! **Statistics** go the same way: a [`StatisticsForwarder`] follows a store of series and hands its steps on, one after the
//! other.

pub mod forwarder;
pub mod in_flight;
pub mod store;

pub mod group;
pub mod thread;

pub mod identity;

pub mod statistics;

pub mod counters;
pub mod state;

mod error;
mod warning;

pub use counters::{ForwardCounters, ForwardCounts};
pub use error::ForwardError;
pub use forwarder::{ForwardOptions, Forwarder};
pub use group::{ArchiveFailure, ForwardGroup, GroupArchive};
pub use in_flight::InFlight;
pub use state::{ForwardState, KeptForwarder, StateError, forwarders};
pub use statistics::{
    KeptStatisticsForwarder, StatisticsForwardCounts, StatisticsForwardError, StatisticsForwardOptions,
    StatisticsForwardState, StatisticsForwarder, StatisticsLag, StatisticsStep, StatisticsStore, statistics_forwarders,
};
pub use store::{ForwardDelivery, ForwardOutcome, ForwardStore, StoreError, StoredRows};
pub use thread::ForwardThread;
