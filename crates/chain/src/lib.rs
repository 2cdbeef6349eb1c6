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

pub mod burst;
pub mod chain;
pub mod compliance;
pub mod config;
pub mod counters;
pub mod draw;
pub mod error;
pub mod graph;
pub mod outlet;
pub mod parameter;
pub mod reference;
pub mod registry;
pub mod run;
pub mod sink;
pub mod source;
pub mod stop;
pub mod transform;

pub use burst::Burst;
pub use chain::Chain;
pub use config::Setting;
pub use counters::{Counter, Counters};
pub use error::{ComponentError, ConfigError, ParameterError};
pub use outlet::Outlet;
pub use parameter::{ParameterSpec, ParameterType, Parameters};
pub use registry::{Built, ComponentContext, ComponentKind, ONE_INPUT, Opener, Registry, Role};
pub use run::{ChainError, Progress, Running};
pub use sink::Sink;
pub use source::{Pulled, Source};
pub use stop::StopSignal;
pub use transform::{State, Transform};
