//! The Metering Process (RFC 5470 section 5.2): packets into flows, on any number of cores, exactly.
//!
//! ```text
//! source ─▶ block of packets ─▶ dissect ─▶ digests by shard ─▶ flow cache ─▶ flow batches
//!           in order            any worker                     one worker per shard
//! ```
//!
//! A [source](weir_capture::PacketSource) fills blocks with packets. Whichever worker is free takes the next block, dissects its
//! packets into digests, and deals these out by the hash of their Flow Keys; each worker owns one shard of the flow
//! cache and takes in the digests of all blocks in the order of the blocks. So the packets of a flow arrive in order, no
//! lock is taken per packet, and any number of workers gives the same flows.

mod options;
pub use options::{FastTimeout, MeterOptions, Timeouts};

mod key;
pub use key::{FlowKey, FragmentTransport, KeyFields, KeyHasher, KeyHeaders, KeyParts};

mod digest;
pub use digest::{Digest, DigestOutcome, Digester, FragmentId, NotFlow};

mod cache;
pub use cache::{CacheCounts, EndReason, Flow, FlowCache, FlowSink, Side};

mod measures;
pub use measures::Measures;

mod dissection;
mod endpoints;
pub use endpoints::TUNNEL_PAIRS_MAX;
mod exchange;
mod fragments;
mod rows;
pub use fragments::{FIRST_FRAGMENTS_MAX, FRAGMENT_TIMEOUT_US, FRAGMENTS_HELD_MAX};

mod sampling;
pub use sampling::{Sampler, Selection};

mod counts;
pub use counts::MeterCounts;

mod worker;
pub use worker::{Step, Worker};

mod metering;
pub use metering::Metering;

pub mod application;
mod route_columns;
