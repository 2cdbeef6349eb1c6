//! Where the readers of both formats put what they find.

use std::sync::Arc;

use weir_wire::packet::LinkType;

use super::error::CaptureDamage;
use super::interfaces::{INTERFACES_MAX, Interfaces};
use super::left_out::{LeftOutLink, LeftOutLinks};
use crate::filter::{Filter, Program};
use crate::source::{PacketBlock, PacketMeta, SourceCounts};

/// Longest frame that is accepted: what libpcap and Wireshark allow for all links that are dissected here.
pub const FRAME_OCTETS_MAX: u32 = 262_144;

/// What a reader finds while it walks over octets.
pub(super) struct Sink<'a> {
    /// Takes the packets; their octets are put there where the file is read.
    pub(super) block: &'a mut PacketBlock,
    pub(super) counts: &'a mut SourceCounts,
    pub(super) interfaces: &'a mut Interfaces,
    pub(super) left_out: &'a mut LeftOutLinks,
    pub(super) filter: Option<&'a mut Filter>,
}

/// How frames of one interface are delivered.
#[derive(Debug, Clone)]
pub(super) enum Port {
    /// Those that a program takes, or all.
    Open {
        /// How frames begin.
        link: LinkType,
        /// The position of the interface in the list of all files.
        interface: u16,
        program: Option<Arc<Program>>,
    },
    /// Not at all.
    Closed(LeftOutLink),
}

/// A frame as a file describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) time_us: i64,
    /// Where it is in the octets at hand, and how long it is there.
    pub(super) offset: usize,
    pub(super) captured: u32,
    /// Octets on the wire, as the file says.
    pub(super) length: u32,
}

/// Why a reader stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// The next record is not all there: it has this many octets, as far as is known.
    Record(usize),
    /// All was read, and this many octets that follow are of no use.
    Skip(u64),
    /// The record is not valid.
    Damaged(CaptureDamage),
}

impl Port {
    /// The interface of that number in its file, whose frames are of the link type of that number (`LINKTYPE_`).
    pub(super) fn open(
        index: u32,
        name: &str,
        number: u16,
        big_endian: bool,
        sink: &mut Sink<'_>,
    ) -> Result<Self, CaptureDamage> {
        let Some(link) = LinkType::from_dlt(number) else { return Ok(Self::Closed(LeftOutLink::unknown(number))) };
        let program = match sink.filter.as_mut().map(|filter| filter.program(number, big_endian)).transpose() {
            Ok(program) => program,
            Err(error) => return Ok(Self::Closed(LeftOutLink::unfilterable(number, error.reason()))),
        };
        let interface = sink.interfaces.position(index, name, link).ok_or(CaptureDamage::Interfaces(INTERFACES_MAX))?;
        Ok(Self::Open { link, interface, program })
    }

    /// Whether frames are delivered at all.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// How frames begin and their interface, when all of them are delivered.
    pub(super) fn takes_all(&self) -> Option<(LinkType, u16)> {
        match self {
            Self::Open { link, interface, program: None } => Some((*link, *interface)),
            _ => None,
        }
    }

    /// Delivers a frame, or counts why not.
    #[inline]
    pub(super) fn take(&self, frame: Frame, octets: &[u8], sink: &mut Sink<'_>) {
        let (link, interface, program) = match self {
            Self::Open { link, interface, program } => (*link, *interface, program),
            Self::Closed(link) => {
                sink.left_out.count(link, sink.counts);
                return;
            }
        };
        if let Some(program) = program {
            let captured = octets.get(frame.offset..frame.offset + frame.captured as usize);
            if !program.takes(captured.unwrap_or_default(), frame.length) {
                sink.counts.frames_filtered += 1;
                return;
            }
        }
        sink.block.push_meta(PacketMeta {
            time_us: frame.time_us,
            offset: frame.offset as u32,
            captured: frame.captured,
            // some writers say less than what they captured; what is there was on the wire
            length: frame.length.max(frame.captured),
            interface,
            link,
        });
    }
}
