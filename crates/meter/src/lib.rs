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

mod block;
pub use block::{Interface, PacketBlock, PacketMeta, PacketSource, Pulled, SourceCounts, SourceError};
