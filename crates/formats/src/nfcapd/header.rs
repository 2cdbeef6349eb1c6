//! What a file says about itself: header, ident and the statistics that its writer kept.

use std::fmt;

use super::octets::{le_u16, le_u32, le_u64, text};

/// The first two octets of every file, as a little-endian machine writes them.
pub(super) const MAGIC: u16 = 0xa50c;
/// Octets of the header of layout 1: magic, layout, flags, blocks, ident.
pub(super) const HEADER_1_OCTETS: usize = 12 + IDENT_OCTETS;
/// Octets of the statistics that follow it.
pub(super) const STATISTICS_1_OCTETS: usize = 15 * 8 + 4 + 4 + 2 + 2 + 4;
/// Octets of the header of layout 2.
pub(super) const HEADER_2_OCTETS: usize = 40;
/// Octets of the statistics in the appendix of layout 2.
pub(super) const STATISTICS_2_OCTETS: usize = 18 * 8;
/// Octets of the ident in the header of layout 1.
const IDENT_OCTETS: usize = 128;

/// How the blocks of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZO1X.
    Lzo,
    /// bzip2.
    Bzip2,
    /// LZ4, raw blocks.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Every way.
    pub const ALL: &'static [Self] = &[Self::None, Self::Lzo, Self::Bzip2, Self::Lz4, Self::Zstd];

    /// Its name, as in the options of nfdump.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lzo => "lzo",
            Self::Bzip2 => "bz2",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Its number in the header of layout 2.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lzo => 1,
            Self::Bzip2 => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    pub(super) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|way| way.number() == number)
    }

    /// From the flags of layout 1.
    pub(super) fn of_flags(flags: u32) -> Self {
        match flags {
            _ if flags & 1 != 0 => Self::Lzo,
            _ if flags & 8 != 0 => Self::Bzip2,
            _ if flags & 16 != 0 => Self::Lz4,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sums over the flows of one class of protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Flows.
    pub flows: u64,
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

/// The statistics that the writer of a file kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Over all flows.
    pub total: Sums,
    /// Over TCP.
    pub tcp: Sums,
    /// Over UDP.
    pub udp: Sums,
    /// Over ICMP and ICMPv6.
    pub icmp: Sums,
    /// Over all other protocols.
    pub other: Sums,
    /// Start of the first flow, milliseconds since the epoch.
    pub first_ms: u64,
    /// End of the last flow, milliseconds since the epoch.
    pub last_ms: u64,
    /// Gaps in sequence numbers that the collector noticed.
    pub sequence_failures: u64,
}

impl Statistics {
    /// Both layouts begin with the same fifteen sums.
    fn sums(octets: &[u8]) -> Self {
        let word = |index: usize| le_u64(octets, index * 8);
        let class = |index: usize| Sums { flows: word(3 + index), bytes: word(7 + index), packets: word(11 + index) };
        Self {
            total: Sums { flows: word(0), bytes: word(1), packets: word(2) },
            tcp: class(0),
            udp: class(1),
            icmp: class(2),
            other: class(3),
            ..Self::default()
        }
    }

    pub(super) fn of_layout_1(octets: &[u8]) -> Self {
        let at = 15 * 8;
        let time = |secs: usize, ms: usize| u64::from(le_u32(octets, secs)) * 1000 + u64::from(le_u16(octets, ms));
        Self {
            first_ms: time(at, at + 8),
            last_ms: time(at + 4, at + 10),
            sequence_failures: le_u32(octets, at + 12).into(),
            ..Self::sums(octets)
        }
    }

    pub(super) fn of_layout_2(octets: &[u8]) -> Self {
        let word = |index: usize| le_u64(octets, index * 8);
        Self { first_ms: word(15), last_ms: word(16), sequence_failures: word(17), ..Self::sums(octets) }
    }

    /// Octets as layout 2 has them.
    pub(super) fn to_layout_2(self) -> [u8; STATISTICS_2_OCTETS] {
        let classes = [self.tcp, self.udp, self.icmp, self.other];
        let mut words = vec![self.total.flows, self.total.bytes, self.total.packets];
        words.extend(classes.iter().map(|class| class.flows));
        words.extend(classes.iter().map(|class| class.bytes));
        words.extend(classes.iter().map(|class| class.packets));
        words.extend([self.first_ms, self.last_ms, self.sequence_failures]);
        let mut octets = [0; STATISTICS_2_OCTETS];
        for (place, word) in octets.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        octets
    }
}

/// What a file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// Layout: 1 (nfdump 1.6) or 2 (nfdump 1.7).
    pub layout: u16,
    /// Compression of the blocks.
    pub compression: Compression,
    /// Who the flows are of, as the collector was told; empty when nothing is said.
    pub ident: String,
    /// Version of the nfdump that wrote the file, where it says so.
    pub nfdump_version: Option<[u8; 4]>,
    /// When the file was made, seconds since the epoch, where it says so.
    pub created_secs: Option<i64>,
    /// The program that made it, where it says so.
    pub creator: Option<&'static str>,
    /// Blocks of records, by the header; 0 in a file that is still being written.
    pub blocks: u32,
    /// What the writer counted; `None` when the file is still being written, or its appendix is damaged.
    pub statistics: Option<Statistics>,
}

/// The header of layout 2.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header2 {
    pub(super) compression: u8,
    pub(super) encryption: u8,
    pub(super) appendix_blocks: u16,
    pub(super) appendix_at: u64,
}

/// Programs by the number in the header.
const CREATORS: &[&str] =
    &["", "nfcapd", "nfpcapd", "sfcapd", "nfdump", "nfanon", "nfprofile", "geolookup", "ft2nfdump", "torlookup"];

impl Info {
    pub(super) fn of_layout_1(header: &[u8], statistics: &[u8]) -> Self {
        Self {
            layout: 1,
            compression: Compression::of_flags(le_u32(header, 4)),
            ident: text(header.get(12..).unwrap_or_default()),
            blocks: le_u32(header, 8),
            statistics: Some(Statistics::of_layout_1(statistics)),
            ..Self::default()
        }
    }

    /// Without what stands in the appendix.
    pub(super) fn of_layout_2(header: &[u8]) -> (Self, Header2) {
        let creator = CREATORS.get(le_u32(header, 20) as usize).filter(|name| !name.is_empty());
        let [b0, b1, b2, b3] = le_u32(header, 4).to_be_bytes();
        let info = Self {
            layout: 2,
            // the upper half of the first octet tells that the program was built from a repository
            nfdump_version: Some([b0 & 0x0f, b1, b2, b3]).filter(|version| *version != [0; 4]),
            created_secs: Some(le_u64(header, 8) as i64).filter(|secs| *secs != 0),
            creator: creator.copied(),
            blocks: le_u32(header, 36),
            ..Self::default()
        };
        let rest = Header2 {
            compression: header.get(16).copied().unwrap_or(0),
            encryption: header.get(17).copied().unwrap_or(0),
            appendix_blocks: le_u16(header, 18),
            appendix_at: le_u64(header, 24),
        };
        (info, rest)
    }
}
