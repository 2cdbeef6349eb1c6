//! What may be wrong with a capture file.

use std::io;

/// Why a capture file was not read, or not to its end. What came before was handed on.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It could not be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// The system, or who decompresses, gave an error.
    #[error("cannot be read after octet {offset}: {error}")]
    Read {
        /// Octets that were read of it.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// It has no octet.
    #[error("is empty")]
    Empty,
    /// It begins with something else.
    #[error("is no capture file (pcap or pcapng): it begins with {0:#010x}")]
    NotACapture(u32),
    /// It ends within its header.
    #[error("is cut short in its header")]
    HeaderCutShort,
    /// A version of its format that nobody knows.
    #[error("is of version {major}.{minor}, which is not supported")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// Bits of the link type that have no meaning yet are set.
    #[error("has reserved bits set in its link type {0:#010x}")]
    LinkTypeReserved(u32),
    /// It makes no sense from some octet on.
    #[error("is damaged at octet {offset}: {damage}")]
    Damaged {
        /// Where the record begins, in the octets that the file has when it is not compressed.
        offset: u64,
        /// What is wrong.
        damage: Damage,
    },
}

/// What is wrong with a record (pcap) or block (pcapng).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("the file ends within this record")]
    CutShort,
    #[error("a frame of {0} octets is longer than any")]
    FrameTooLong(u32),
    #[error("a block says that it is {0} octets long")]
    BlockLength(u32),
    #[error("a block says {begin} octets at its begin and {end} at its end")]
    BlockLengths { begin: u32, end: u32 },
    #[error("a frame of {frame} octets does not fit into its block of {block}")]
    FrameOverBlock { frame: u32, block: u32 },
    #[error("the order of octets is {0:#010x}")]
    ByteOrder(u32),
    #[error("the section is of version {0}.{1}, which is not supported")]
    SectionVersion(u16, u16),
    #[error("interface {0} was not described")]
    NoInterface(u32),
    #[error("an option of {0} octets does not fit into its block")]
    Option(u16),
    #[error("there are more than {0} interfaces")]
    Interfaces(usize),
    #[error("frames of its link type {link} cannot be filtered: {reason}")]
    Filter { link: u16, reason: String },
}
