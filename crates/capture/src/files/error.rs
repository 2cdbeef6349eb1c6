//! What may be wrong with a capture file.

use std::io;

/// Why a capture file was not read, or not to its end. What came before was delivered.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// It could not be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// Reading or decompressing failed.
    #[error("cannot be read after octet {offset}: {error}")]
    Read {
        /// Octets that were read of it.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// It has no octet.
    #[error("file is empty")]
    Empty,
    /// It begins with something else.
    #[error("not a pcap or pcapng file: it begins with {0:#010x}")]
    NotACapture(u32),
    /// It ends within its header.
    #[error("header is cut short")]
    HeaderCutShort,
    /// A version of its format that is not known.
    #[error("version {major}.{minor} is not supported")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// Bits of the link type that have no meaning yet are set.
    #[error("link type {0:#010x} has reserved bits set")]
    LinkTypeReserved(u32),
    /// A record is not valid; nothing after it is read.
    #[error("damaged at octet {offset}: {damage}")]
    Damaged {
        /// Where the record begins, in the octets that the file has when it is not compressed.
        offset: u64,
        /// What is wrong.
        damage: CaptureDamage,
    },
}

/// What is wrong with a record (pcap) or block (pcapng).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureDamage {
    /// The file ends within it.
    #[error("the file is cut short within this record")]
    CutShort,
    /// It has a frame longer than [`FRAME_OCTETS_MAX`](super::FRAME_OCTETS_MAX).
    #[error("a frame of {0} octets is longer than any")]
    FrameTooLong(u32),
    /// The length of a block is too small, too large, or not a multiple of 4.
    #[error("a block says that it is {0} octets long")]
    BlockLength(u32),
    /// The two lengths of a block differ.
    #[error("a block says {begin} octets at its begin and {end} at its end")]
    BlockLengths {
        /// Length at its beginning.
        begin: u32,
        /// Length at its end.
        end: u32,
    },
    /// A frame is longer than its block.
    #[error("a frame of {frame} octets does not fit into its block of {block}")]
    FrameOverBlock {
        /// Octets of the frame.
        frame: u32,
        /// Octets of the block.
        block: u32,
    },
    /// The byte-order magic of a section is not valid.
    #[error("the order of octets is {0:#010x}")]
    ByteOrder(u32),
    /// A section has another version of the format: major and minor.
    #[error("the section is of version {0}.{1}, which is not supported")]
    SectionVersion(u16, u16),
    /// A block refers to an interface that no block before it describes.
    #[error("interface {0} was not described")]
    NoInterface(u32),
    /// An option is longer than its block.
    #[error("an option of {0} octets does not fit into its block")]
    Option(u16),
    /// The file has more interfaces than are supported.
    #[error("there are more than {0} interfaces")]
    Interfaces(usize),
}
