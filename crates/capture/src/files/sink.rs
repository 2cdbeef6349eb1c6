//! Where the readers of both formats put what they find.

use std::sync::Arc;

use weir_wire::packet::LinkType;

use super::error::CaptureDamage;
use super::interfaces::{INTERFACES_MAX, Interfaces};
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
    pub(super) filter: Option<&'a mut Filter>,
}

/// How frames of one interface are delivered.
#[derive(Debug, Clone)]
pub(super) struct Port {
    /// How frames begin, and the position of the interface in the list of all files; `None` when that link is not
    /// dissected.
    link: Option<(LinkType, u16)>,
    /// Which frames are taken, `None` for all.
    program: Option<Arc<Program>>,
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
        let Some(link) = LinkType::from_dlt(number) else { return Ok(Self { link: None, program: None }) };
        let position = sink.interfaces.position(index, name, link).ok_or(CaptureDamage::Interfaces(INTERFACES_MAX))?;
        let program = sink.filter.as_mut().map(|filter| filter.program(number, big_endian)).transpose();
        let program = program.map_err(|error| CaptureDamage::Filter { link: number, reason: error.to_string() })?;
        Ok(Self { link: Some((link, position)), program })
    }

    /// Whether frames are delivered at all.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.link.is_some()
    }

    /// How frames begin and their interface, when all of them are delivered.
    pub(super) fn takes_all(&self) -> Option<(LinkType, u16)> {
        self.link.filter(|_| self.program.is_none())
    }

    /// Delivers a frame, or counts why not.
    #[inline]
    pub(super) fn take(&self, frame: Frame, octets: &[u8], sink: &mut Sink<'_>) {
        let Some((link, interface)) = self.link else {
            sink.counts.frames_unknown_link += 1;
            return;
        };
        if let Some(program) = &self.program {
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
