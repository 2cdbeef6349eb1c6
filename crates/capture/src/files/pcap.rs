//! The classic capture format (draft-ietf-opsawg-pcap), in all the variants that libpcap reads.

use super::error::{CaptureDamage, CaptureError};
use super::sink::{FRAME_OCTETS_MAX, Frame, Port, Sink, Stop};
use super::time::Clock;
use crate::source::PacketMeta;

/// Octets of the file's header.
pub(super) const HEADER_OCTETS: usize = 24;
/// Longest frame of a link that is skipped anyway: that of USB captures in libpcap.
const SKIPPED_OCTETS_MAX: u32 = 128 << 20;

const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// Written by patched versions of libpcap 0.4 (Alexey Kuznetzov's), with 8 more octets in each record.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
/// The major version that AIX writes; its part of a second is nanoseconds.
const MAJOR_AIX: u16 = 543;

/// In which order a record has the captured length and the length on the wire; versions before 2.3 had them the other
/// way round, and of 2.3 there are both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    SmallerIsCaptured,
}

/// Reads the records of a file.
#[derive(Debug)]
pub(super) struct Pcap {
    big_endian: bool,
    clock: Clock,
    record_header_octets: usize,
    lengths: Lengths,
    port: Port,
}

/// Whether a file that begins so is one of this format.
pub(super) fn is_magic(magic: [u8; 4]) -> bool {
    known(u32::from_le_bytes(magic)) || known(u32::from_be_bytes(magic))
}

fn known(magic: u32) -> bool {
    matches!(magic, MAGIC_MICROS | MAGIC_NANOS | MAGIC_MODIFIED)
}

impl Pcap {
    /// Of the header of a file whose magic [is one](is_magic).
    pub(super) fn open(header: &[u8; HEADER_OCTETS], sink: &mut Sink<'_>) -> Result<Self, CaptureError> {
        let big_endian = known(u32_at(header, 0, true));
        let magic = u32_at(header, 0, big_endian);
        let u16_of = |octets| if big_endian { u16::from_be_bytes(octets) } else { u16::from_le_bytes(octets) };
        let (major, minor) = (u16_of([header[4], header[5]]), u16_of([header[6], header[7]]));
        let lengths = match (major, minor) {
            (2, 0..=2) | (MAJOR_AIX, 0) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            (2, 4) => Lengths::CapturedFirst,
            _ => return Err(CaptureError::Version { major, minor }),
        };
        let nanos = magic == MAGIC_NANOS || major == MAJOR_AIX;
        let link = u32_at(header, 20, big_endian);
        // Bits 28 to 31 and 26 are about the frame check sequence, which the frames have at their end; what is between
        // them and the link type is reserved.
        if link & 0x03ff_0000 != 0 {
            return Err(CaptureError::LinkTypeReserved(link));
        }
        let port = Port::open(1, "", link as u16, big_endian, sink)
            .map_err(|damage| CaptureError::Damaged { offset: 0, damage })?;
        Ok(Self {
            big_endian,
            clock: if nanos { Clock::NANOS } else { Clock::MICROS },
            record_header_octets: if magic == MAGIC_MODIFIED { 24 } else { 16 },
            lengths,
            port,
        })
    }

    /// Walks over records from `at` on, and moves it on to the first that was not read.
    pub(super) fn read(&self, octets: &[u8], at: &mut usize, sink: &mut Sink<'_>) -> Stop {
        let header_octets = self.record_header_octets;
        if header_octets == 16
            && self.lengths == Lengths::CapturedFirst
            && let Some((link, interface)) = self.port.takes_all()
        {
            self.read_whole(
                octets,
                at,
                PacketMeta { time_us: 0, offset: 0, captured: 0, length: 0, interface, link },
                sink,
            );
        }
        loop {
            let Some(header) = octets[*at..].first_chunk::<16>() else { return Stop::Record(header_octets) };
            let number = |at| u32_at(header, at, self.big_endian);
            let (captured, length) = self.lengths.of(number(8), number(12));
            if captured > FRAME_OCTETS_MAX && (self.port.is_open() || captured > SKIPPED_OCTETS_MAX) {
                return Stop::Damaged(CaptureDamage::FrameTooLong(captured));
            }
            let record_octets = header_octets + captured as usize;
            let missing = record_octets.saturating_sub(octets.len() - *at);
            if missing > 0 && self.port.is_open() {
                return Stop::Record(record_octets);
            }
            let time_us = self.clock.micros_of_parts(number(0), number(4));
            self.port.take(Frame { time_us, offset: *at + header_octets, captured, length }, octets, sink);
            *at += record_octets - missing;
            if missing > 0 {
                return Stop::Skip(missing as u64);
            }
        }
    }

    /// Walks over records that need no checks but of their length, up to the first that is not all there or not valid.
    fn read_whole(&self, octets: &[u8], at: &mut usize, meta: PacketMeta, sink: &mut Sink<'_>) {
        let (big_endian, clock) = (self.big_endian, self.clock);
        while let Some((header, rest)) = octets.get(*at..).and_then(<[u8]>::split_first_chunk::<16>) {
            let number = |at| u32_at(header, at, big_endian);
            let captured = number(8);
            if captured > FRAME_OCTETS_MAX || captured as usize > rest.len() {
                break;
            }
            sink.block.push_meta(PacketMeta {
                time_us: clock.micros_of_parts(number(0), number(4)),
                offset: (*at + 16) as u32,
                captured,
                length: number(12).max(captured),
                ..meta
            });
            *at += 16 + captured as usize;
        }
    }
}

impl Lengths {
    /// Captured length, and length on the wire.
    #[inline]
    fn of(self, first: u32, second: u32) -> (u32, u32) {
        match self {
            Self::CapturedFirst => (first, second),
            Self::WireFirst => (second, first),
            Self::SmallerIsCaptured => (first.min(second), first.max(second)),
        }
    }
}

/// The 32-bit number at an offset; 0 behind the end.
#[inline]
fn u32_at(octets: &[u8], at: usize, big_endian: bool) -> u32 {
    let Some(number) = octets.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return 0 };
    if big_endian { u32::from_be_bytes(*number) } else { u32::from_le_bytes(*number) }
}
