//! The Metering Process (RFC 5470 section 5.2): packets into flows, on any number of cores, exactly.
//!
//! ```text
//! source ─▶ block of packets ─▶ dissect ─▶ digests by shard ─▶ flow cache ─▶ flow batches
//!           in order            any worker                     one worker per shard
//! ```
//!
//! A [source](PacketSource) fills blocks with packets. Whichever worker is free takes the next block, dissects its
//! packets into digests, and deals these out by the hash of their Flow Keys; each worker owns one shard of the flow
//! cache and takes in the digests of all blocks in the order of the blocks. So the packets of a flow arrive in order, no
//! lock is taken per packet, and any number of workers gives the same flows.

mod options;
pub use options::{FastTimeout, MeterOptions, Timeouts};

mod block;
pub use block::{Interface, PacketBlock, PacketMeta, PacketSource, Pulled, SourceCounts, SourceError};

mod source;
pub use source::{
    FILES_OPEN_MAX, FRAME_OCTETS_MAX, FileOptions, LiveOptions, SystemInterface, Tell, files, interfaces, live,
};

mod icmp;

mod key;
pub use key::{FlowKey, KeyFields, KeyHasher, KeyHeaders, KeyParts};

mod digest;
pub use digest::{Digest, Digested, Digester, FragmentId, NotFlow};

mod cache;
pub use cache::{CacheCounts, EndReason, Ended, Flow, FlowCache, Side};

mod measures;
pub use measures::Measures;

mod dissection;
mod endpoints;
pub use endpoints::PAIRS_MAX;
mod exchange;
mod fragments;
mod rows;
pub use fragments::{FRAGMENT_TIMEOUT_US, HELD_MAX, KNOWN_MAX};

mod sampling;
pub use sampling::{Sampler, Selection};

mod counts;
pub use counts::MeterCounts;

mod worker;
pub use worker::{Step, Worker};

mod metering;
pub use metering::Metering;

pub mod application;
mod community_id;
pub use community_id::CommunityId;
pub mod routing;

mod octets;
