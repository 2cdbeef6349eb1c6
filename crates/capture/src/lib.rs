//! Capture files and interfaces into frames.
//!
//! ```text
//! files       ─▶ decompression ─▶ pcap or pcapng ─┐
//!                       │                         ├─▶ packet filter ─▶ blocks of packets
//! interfaces  ─▶ packet rings ────────────────────┘
//!                       └─▶ messages of IPFIX files
//! ```
//!
//! A [`PacketSource`] fills [`PacketBlock`]s: [`open_files`] reads any number of captures as if they were one, and
//! [`open_live`] captures on interfaces. [`CaptureReader`] reads a single capture from anything that can be read, with
//! typed errors; [`MessageFile`] reads IPFIX files, which have messages in the place of frames. What is in a frame is
//! found by `weir_wire::packet`; flows are never made here.

mod source;
pub use source::{FillOutcome, Interface, PacketBlock, PacketMeta, PacketSource, SourceCounts, SourceError};

mod filter;

mod files;
pub use files::{
    CaptureDamage, CaptureEnd, CaptureError, CaptureReader, FILES_OPEN_MAX, FRAME_OCTETS_MAX, FileEnds, FileOptions,
    Input, PACKED_PLACES, open_files,
};

mod messages;
pub use messages::{MessageFile, MessageFileReport, export_ms, looks_like_messages};

mod live;
pub use live::{LiveOptions, SystemInterface, check_live, list_interfaces, open_live};

use std::sync::Arc;

/// Takes one line, without its end, that informs a person of what went wrong while the source goes on.
pub type WarningHandler = Arc<dyn Fn(&str) + Send + Sync>;
