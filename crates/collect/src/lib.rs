//! The Collecting Process: export datagrams into flow batches, with books that balance.
//!
//! The [`Decoder`] is the heart and does no I/O: it is given datagrams with their source and time, keeps what
//! exporters reported about themselves (templates, samplers, sequence numbers), appends flows to columns and writes the
//! books. The same decoder serves live sockets ([`Collector`]) and capture files ([`capture`]), so both read the same
//! protocols and count the same way.
//!
//! # Invariants
//!
//! The receive thread only moves datagrams from a socket into a bounded queue, and does not decode. While there is no
//! room in the queue, datagrams wait in the buffer of the kernel, which counts what it drops.
//!
//! Every datagram received ends up in exactly one of the counters of [`weir_flow::books`], and the lines of the books
//! travel in the same [`weir_flow::Delivery`] as the flows that they account for.

mod change_limit;
mod choice;
mod clock;
mod columns;
mod counters;
pub mod decoder;
mod domain;
mod domain_key;
pub mod inspection;
mod ledger;
pub mod limits;
mod list_kinds;
mod lists;
mod observed;
mod options;
mod options_plan;
mod plan;
mod records;
mod sampling;
mod section;
mod sequence;
mod session;
mod shares;
mod sparse_counts;
pub mod spool;
pub(crate) mod state;
mod texts;
mod time_flags;
mod waiting;

mod age;
mod applications;
mod burst;
pub mod collector;
mod deliver;
pub mod inherited;
pub mod intake;
mod listener;
mod listening;
mod rate;
pub mod relay;
mod socket;
pub mod stream;

pub mod capture;
pub mod doctor;

pub use collector::{CollectError, Collector, CollectorOptions, Drops, Next, Senders};
pub use decoder::{Decoder, DecoderStatistics};
pub use inspection::Diagnosis;
pub use limits::Limits;
pub use listener::{Listener, ListenerError};
pub use listening::ListenerInfo;
pub use rate::DEPTH as RATE_DEPTH;
pub use relay::{AgentRule, Network, RelayOptions};
pub use sequence::SequenceUnit;
pub use session::{Session, Transport};
pub use socket::SocketInfo;
pub use state::StateError;
pub use stream::{Descriptors, SessionLimits};
