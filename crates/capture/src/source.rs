//! Blocks of packets, and the contract of sources that fill them.

use std::io;

use weir_wire::packet::LinkType;

/// Many packets: their octets in one piece, and where each of them is.
///
/// A block is filled, read by one or several workers, and filled again, so that in the long run nothing is allocated.
#[derive(Debug, Default)]
pub struct PacketBlock {
    octets: Vec<u8>,
    packets: Vec<PacketMeta>,
}

/// What is known of a packet before it is dissected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketMeta {
    /// When it was captured, in microseconds since the epoch; finer times are cut off.
    pub time_us: i64,
    /// Where its first octet is in the block.
    pub offset: u32,
    /// Octets of it that were captured.
    pub captured: u32,
    /// Octets that it had on the wire; at least as many as were captured.
    pub length: u32,
    /// The interface it was captured on: its position among [`PacketSource::interfaces`].
    pub interface: u16,
    /// How it begins.
    pub link: LinkType,
}

impl PacketBlock {
    /// An empty block with the capacity for this many octets and packets.
    pub fn with_capacity(octets: usize, packets: usize) -> Self {
        Self { octets: Vec::with_capacity(octets), packets: Vec::with_capacity(packets) }
    }

    /// Makes it empty, and keeps its capacity.
    pub fn clear(&mut self) {
        self.octets.clear();
        self.packets.clear();
    }

    /// The packets, in the order in which they were captured.
    #[inline]
    pub fn packets(&self) -> &[PacketMeta] {
        &self.packets
    }

    /// The captured octets of a packet of this block.
    #[inline]
    pub fn frame(&self, packet: &PacketMeta) -> &[u8] {
        let start = packet.offset as usize;
        self.octets.get(start..start + packet.captured as usize).unwrap_or_default()
    }

    /// All octets. A source may read many packets into the block at once, and add them with
    /// [`push_meta`](Self::push_meta).
    pub fn octets_mut(&mut self) -> &mut Vec<u8> {
        &mut self.octets
    }

    /// All octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Adds a packet whose octets are in the block already.
    #[inline]
    pub fn push_meta(&mut self, packet: PacketMeta) {
        self.packets.push(packet);
    }

    /// Adds a packet and copies its octets; `offset` and `captured` of `packet` are set here.
    pub fn push(&mut self, packet: PacketMeta, frame: &[u8]) {
        let offset = self.octets.len() as u32;
        self.octets.extend_from_slice(frame);
        self.packets.push(PacketMeta { offset, captured: frame.len() as u32, ..packet });
    }
}

/// An interface that packets were captured on (RFC 5470: part of the Observation Point).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Number that flows have as `in_if`: the system's index of a live interface; of a file the number of the
    /// interface in it, from 1.
    pub index: u32,
    /// Its name, empty when it has none.
    pub name: String,
    /// How its frames begin.
    pub link: LinkType,
}

/// What a call of [`PacketSource::fill`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillOutcome {
    /// The block has packets, and there may be more at once.
    Packets,
    /// Nothing came within the time that the call may wait. `clock_us` is the time it is for flows.
    Nothing {
        /// Microseconds since the epoch.
        clock_us: i64,
    },
    /// Nothing will come any more.
    Ended,
}

/// What a source counts besides the packets that it delivers. Each frame that it could have is delivered or counted in
/// one of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceCounts {
    /// Octets of files read.
    pub octets_read: u64,
    /// Frames that the packet filter did not take, where the source knows them.
    pub frames_filtered: u64,
    /// Frames that the system dropped because they were not fetched in time.
    pub kernel_drops: u64,
    /// How often the memory for captured frames became full.
    pub buffer_overruns: u64,
    /// Frames whose link layer is not known.
    pub frames_unknown_link: u64,
    /// Frames of a link layer that the packet filter has no meaning on.
    pub frames_unfilterable: u64,
    /// Files that could not be opened or not be read to their end; each was reported.
    pub files_failed: u64,
}

impl SourceCounts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            octets_read: self.octets_read + other.octets_read,
            frames_filtered: self.frames_filtered + other.frames_filtered,
            kernel_drops: self.kernel_drops + other.kernel_drops,
            buffer_overruns: self.buffer_overruns + other.buffer_overruns,
            frames_unknown_link: self.frames_unknown_link + other.frames_unknown_link,
            frames_unfilterable: self.frames_unfilterable + other.frames_unfilterable,
            files_failed: self.files_failed + other.files_failed,
        }
    }
}

/// Why a source ended early.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Something could not be opened, set or read.
    #[error("{what}")]
    Io {
        /// What failed, such as `cannot open trace.pcap`.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Anything else, such as a filter expression that is wrong.
    #[error("{what}")]
    Unusable {
        /// What is wrong.
        what: String,
        /// What may be done about it.
        hint: Option<String>,
    },
}

/// Where packets come from: files, interfaces.
///
/// **Order.** Packets come in the order in which they were captured; a source of several files or interfaces documents
/// how it orders them.
///
/// **Waiting.** [`fill`](Self::fill) waits 100 ms at most for packets of a live interface.
///
/// **Damage.** A file that is damaged, missing or cut short is counted, reported once (a line to the warning handler given at
/// opening), and the others are read all the same.
pub trait PacketSource: Send {
    /// Empties the block and fills it with packets: some hundred to some ten thousand, about a megabyte at most.
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError>;

    /// The interfaces so far. The list grows, and what is in it does not change.
    fn interfaces(&self) -> &[Interface];

    /// What was counted so far.
    fn counts(&self) -> SourceCounts;
}
