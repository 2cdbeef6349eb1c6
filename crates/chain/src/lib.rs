//! The framework of processing blocks: a graph of sources, transforms and sinks, its threads and its queues.
//!
//! After Kögel and Scholz, "Processing of Flow Accounting Data in Java" (2010): components form a directed acyclic graph, the
//! *chain*; each may keep rows in a state; each runs in the thread of the component before it or in a thread of its own, and
//! threads are joined by bounded first-in-first-out queues of *bursts*. A burst is an Arrow record batch, so that a
//! queue is touched once for hundreds of rows and nothing is allocated per row. What speaks against it is that a component
//! must be written for columns; [`Source`], [`Transform`] and [`Sink`] tell how.
//!
//! The framework names no component and no database. Kinds of components come from a [`Registry`], which other crates fill, and
//! [`compliance`] tests a kind against the contract.
//!
//! ```text
//! text ─▶ config ─▶ graph (inputs, cycles) ─▶ plan (threads, queues) ─▶ run
//! ```

pub mod sink;
pub mod source;
pub mod transform;

pub mod burst;
mod file_receipts;
pub mod notices;
pub mod outlet;

mod option_error;
pub mod options;
pub mod registry;
mod reload;

pub mod builder;
pub mod chain;
mod columns;
pub mod config;
pub mod graph;

pub mod run;

pub mod compliance;
pub mod counters;
pub mod draw;
pub mod error;
pub mod reference;
pub mod stop;

// the macros `options!` and `choices!` name it
#[doc(hidden)]
pub use toml;

pub use builder::ChainBuilder;
pub use burst::Burst;
pub use chain::Chain;
pub use columns::{ColumnRule, FlowColumnRule};
pub use config::Setting;
pub use counters::{Counter, Counters};
pub use error::{ComponentError, ConfigError};
pub use file_receipts::{FileEnd, FileReceipts};
pub use notices::Notices;
pub use option_error::{OptionError, closest};
pub use options::{
    ByteSize, Given, OptionSpec, OptionText, OptionValue, Options, Problem, Rate, Secret, TimeSpan, UnitError,
    ValueType,
};
pub use outlet::Outlet;
pub use registry::{
    AnyKind, Built, ComponentContext, ComponentKind, KindWithColumns, NoOptions, ONE_INPUT, Opener, Registry, Role,
};
pub use reload::ReloadSignal;
pub use run::{ChainError, Progress, Running};
pub use sink::Sink;
pub use source::{PullResult, Source};
pub use stop::StopSignal;
pub use transform::{State, Transform};
