//! The block format of captures (draft-ietf-opsawg-pcapng), with sections, interfaces and the obsolete packet block.
//!
//! Blocks that hold no packet, interface or count are passed over without being looked into, whatever their length.
//! What `epb_dropcount` and the drop counts of the obsolete packet block say is not added up: the interface statistics
//! count the same frames.

use super::error::CaptureDamage;
use super::interfaces::INTERFACES_MAX;
use super::sink::{FRAME_OCTETS_MAX, Frame, Port, Sink, Stop};
use super::time::Clock;

/// What a file of this format begins with: the type of the Section Header Block, the same in both orders.
pub(super) const MAGIC: [u8; 4] = 0x0a0d_0d0a_u32.to_be_bytes();
/// Longest block that is read as a whole, which those that matter are. Wireshark and libpcap have the same limit.
const BLOCK_OCTETS_MAX: u32 = 16 << 20;
/// Type and length at its begin, and the length again at its end.
const BLOCK_OCTETS_MIN: u32 = 12;

// Types of blocks (section 4).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

// Options: `if_name`, `if_tsresol`, `if_tsoffset`, `isb_ifdrop`, `isb_osdrop`.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Reads the blocks of a file.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    big_endian: bool,
    /// Of the section that is being read.
    interfaces: Vec<SectionInterface>,
    /// That of the last packet that had one, for simple packets, which have none.
    time_us: i64,
}

#[derive(Debug)]
struct SectionInterface {
    port: Port,
    clock: Clock,
    /// Most octets that were captured of a frame, 0 for no limit.
    snap_octets: u32,
    /// Frames dropped so far; what the file says grows.
    drops: u64,
}

/// A block that is there from begin to end.
#[derive(Clone, Copy)]
struct Block<'a> {
    kind: u32,
    /// What is between the lengths.
    body: &'a [u8],
    /// The octets at hand, and where the body is in them.
    octets: &'a [u8],
    offset: usize,
    big_endian: bool,
}

impl Pcapng {
    /// Walks over blocks from `at` on, and moves it on to the first that was not read.
    pub(super) fn read(&mut self, octets: &[u8], at: &mut usize, sink: &mut Sink<'_>) -> Stop {
        loop {
            match self.block(octets, *at, sink) {
                Ok(block_octets) => *at += block_octets,
                Err(Stop::Skip(block_octets)) => {
                    let here = octets.len() - *at;
                    *at = octets.len();
                    return Stop::Skip(block_octets - here as u64);
                }
                Err(stop) => return stop,
            }
        }
    }

    /// Reads one block and returns how long it is; [`Stop::Skip`] with its length when it is of no use and not all here.
    #[inline]
    fn block(&mut self, all: &[u8], offset: usize, sink: &mut Sink<'_>) -> Result<usize, Stop> {
        let octets = &all[offset..];
        let Some(start) = octets.first_chunk::<12>() else { return Err(Stop::Record(BLOCK_OCTETS_MIN as usize)) };
        let kind = u32_of(start, 0, self.big_endian);
        if kind == SECTION_HEADER {
            self.big_endian = byte_order(u32_of(start, 8, true))?;
        }
        let total = u32_of(start, 4, self.big_endian);
        if total < BLOCK_OCTETS_MIN || !total.is_multiple_of(4) {
            return Err(Stop::Damaged(CaptureDamage::BlockLength(total)));
        }
        let Some(octets) = octets.get(..total as usize) else {
            return Err(match kind {
                SECTION_HEADER
                | INTERFACE_DESCRIPTION
                | PACKET
                | SIMPLE_PACKET
                | INTERFACE_STATISTICS
                | ENHANCED_PACKET => match total {
                    ..=BLOCK_OCTETS_MAX => Stop::Record(total as usize),
                    _ => Stop::Damaged(CaptureDamage::BlockLength(total)),
                },
                _ => Stop::Skip(u64::from(total)),
            });
        };
        let end = u32_of(octets, octets.len() - 4, self.big_endian);
        if end != total {
            return Err(Stop::Damaged(CaptureDamage::BlockLengths { begin: total, end }));
        }
        let body = &octets[8..octets.len() - 4];
        let block = Block { kind, body, octets: all, offset: offset + 8, big_endian: self.big_endian };
        self.take(block, sink).map_err(Stop::Damaged)?;
        Ok(octets.len())
    }

    #[inline]
    fn take(&mut self, block: Block<'_>, sink: &mut Sink<'_>) -> Result<(), CaptureDamage> {
        match block.kind {
            ENHANCED_PACKET => self.packet(block, block.u32(0)?, sink),
            PACKET => self.packet(block, u32::from(block.u16(0)?), sink),
            SIMPLE_PACKET => self.simple_packet(block, sink),
            INTERFACE_DESCRIPTION => self.interface(block, sink),
            INTERFACE_STATISTICS => self.statistics(block, sink),
            SECTION_HEADER => self.section(block),
            _ => Ok(()),
        }
    }

    /// Sections 4.3 and A: the obsolete block has the same fields from the timestamp on.
    #[inline]
    fn packet(&mut self, block: Block<'_>, interface: u32, sink: &mut Sink<'_>) -> Result<(), CaptureDamage> {
        let known = self.interfaces.get(interface as usize).ok_or(CaptureDamage::NoInterface(interface))?;
        let ticks = (u64::from(block.u32(4)?) << 32) | u64::from(block.u32(8)?);
        let (captured, length) = (block.u32(12)?, block.u32(16)?);
        let time_us = known.clock.micros(ticks);
        known.port.take(block.frame(20, time_us, captured, length)?, block.octets, sink);
        self.time_us = time_us;
        Ok(())
    }

    /// Section 4.4: of the first interface, without a time and without the length that was captured.
    fn simple_packet(&self, block: Block<'_>, sink: &mut Sink<'_>) -> Result<(), CaptureDamage> {
        let first = self.interfaces.first().ok_or(CaptureDamage::NoInterface(0))?;
        let length = block.u32(0)?;
        let captured = if first.snap_octets == 0 { length } else { length.min(first.snap_octets) };
        first.port.take(block.frame(4, self.time_us, captured, length)?, block.octets, sink);
        Ok(())
    }

    /// Section 4.2.
    fn interface(&mut self, block: Block<'_>, sink: &mut Sink<'_>) -> Result<(), CaptureDamage> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(CaptureDamage::Interfaces(INTERFACES_MAX));
        }
        let link = block.u16(0)?;
        let snap_octets = block.u32(4)?;
        let mut name = String::new();
        let mut clock = Clock::MICROS;
        block.options(8, |option, value| match (option, value) {
            (IF_NAME, _) => name = String::from_utf8_lossy(value).into_owned(),
            (IF_TSRESOL, [octet]) => clock = clock.with_resolution(*octet),
            (IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => {
                clock = clock.with_offset_secs(u64_of(value, block.big_endian) as i64);
            }
            _ => (),
        })?;
        let index = self.interfaces.len() as u32 + 1;
        let port = Port::open(index, &name, link, block.big_endian, sink)?;
        self.interfaces.push(SectionInterface { port, clock, snap_octets, drops: 0 });
        Ok(())
    }

    /// Section 4.6.
    fn statistics(&mut self, block: Block<'_>, sink: &mut Sink<'_>) -> Result<(), CaptureDamage> {
        let number = block.u32(0)?;
        let mut drops = 0_u64;
        block.options(12, |option, value| {
            if matches!(option, ISB_IFDROP | ISB_OSDROP) && value.len() == 8 {
                drops = drops.saturating_add(u64_of(value, block.big_endian));
            }
        })?;
        let interface = self.interfaces.get_mut(number as usize).ok_or(CaptureDamage::NoInterface(number))?;
        // counted since the capture began, so of several statistics the last is the sum
        let more = drops.saturating_sub(interface.drops);
        interface.drops += more;
        sink.counts.kernel_drops = sink.counts.kernel_drops.saturating_add(more);
        Ok(())
    }

    /// Section 4.1. The length of the section is not used: what follows says itself what it is.
    fn section(&mut self, block: Block<'_>) -> Result<(), CaptureDamage> {
        self.interfaces.clear();
        match (block.u16(4)?, block.u16(6)?) {
            // 1.2 was written by mistake and is the same
            (1, 0 | 2) => Ok(()),
            (major, minor) => Err(CaptureDamage::SectionVersion(major, minor)),
        }
    }
}

impl Block<'_> {
    #[inline]
    fn u32(self, at: usize) -> Result<u32, CaptureDamage> {
        match self.body.get(at..at + 4) {
            Some(number) => Ok(u32_of(number, 0, self.big_endian)),
            None => Err(CaptureDamage::BlockLength(self.total())),
        }
    }

    #[inline]
    fn u16(self, at: usize) -> Result<u16, CaptureDamage> {
        let number = self.body.get(at..).and_then(|rest| rest.first_chunk::<2>());
        let number = number.ok_or(CaptureDamage::BlockLength(self.total()))?;
        Ok(if self.big_endian { u16::from_be_bytes(*number) } else { u16::from_le_bytes(*number) })
    }

    fn total(self) -> u32 {
        self.body.len() as u32 + BLOCK_OCTETS_MIN
    }

    /// A frame whose octets begin at an offset in the body.
    #[inline]
    fn frame(self, at: usize, time_us: i64, captured: u32, length: u32) -> Result<Frame, CaptureDamage> {
        if captured as usize > self.body.len().saturating_sub(at) {
            return Err(CaptureDamage::FrameOverBlock { frame: captured, block: self.total() });
        }
        if captured > FRAME_OCTETS_MAX {
            return Err(CaptureDamage::FrameTooLong(captured));
        }
        Ok(Frame { time_us, offset: self.offset + at, captured, length })
    }

    /// Goes through the options (section 3.5) that begin at an offset in the body.
    fn options(self, at: usize, mut each: impl FnMut(u16, &[u8])) -> Result<(), CaptureDamage> {
        let mut at = at;
        while at + 4 <= self.body.len() {
            let (option, octets) = (self.u16(at)?, self.u16(at + 2)?);
            if option == 0 {
                break;
            }
            let value = self.body.get(at + 4..at + 4 + octets as usize).ok_or(CaptureDamage::Option(octets))?;
            each(option, value);
            at += 4 + (octets as usize).next_multiple_of(4);
        }
        Ok(())
    }
}

/// Whether numbers are big-endian, given the byte-order magic read as if they were.
fn byte_order(magic: u32) -> Result<bool, Stop> {
    match magic {
        BYTE_ORDER_MAGIC => Ok(true),
        _ if magic.swap_bytes() == BYTE_ORDER_MAGIC => Ok(false),
        _ => Err(Stop::Damaged(CaptureDamage::ByteOrder(magic))),
    }
}

/// The 32-bit number at an offset; 0 behind the end.
#[inline]
fn u32_of(octets: &[u8], at: usize, big_endian: bool) -> u32 {
    let Some(number) = octets.get(at..).and_then(|rest| rest.first_chunk::<4>()) else { return 0 };
    if big_endian { u32::from_be_bytes(*number) } else { u32::from_le_bytes(*number) }
}

/// The 64-bit number that 8 octets are; 0 if they are not 8.
fn u64_of(octets: &[u8], big_endian: bool) -> u64 {
    let Ok(number) = <[u8; 8]>::try_from(octets) else { return 0 };
    if big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) }
}
