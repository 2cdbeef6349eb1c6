//! Capture files of export datagrams: pcap and pcapng.

use std::io::Read;
use std::net::SocketAddr;

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

use crate::frame::{self, Frame, Reassembly};

/// Octets read at a time; also the longest block of a capture file.
const BUFFER_OCTETS: usize = 1 << 20;
/// Longest block for which the buffer grows.
const BLOCK_OCTETS_MAX: usize = 16 << 20;

/// A UDP datagram found in a capture.
#[derive(Debug, Clone, Copy)]
pub struct CapturedDatagram<'a> {
    /// Address and port that it came from.
    pub source: SocketAddr,
    /// Address and port that it went to.
    pub destination: SocketAddr,
    /// When it was captured, milliseconds since the epoch.
    pub captured_ms: i64,
    /// UDP payload.
    pub payload: &'a [u8],
    /// Octets of the file read so far.
    pub file_octets: u64,
}

/// What a capture held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Frames read.
    pub frames: u64,
    /// UDP datagrams handed on.
    pub datagrams: u64,
    /// Frames that are not UDP over IP.
    pub frames_other: u64,
    /// UDP datagrams that the capture cut short, or whose pieces are not all there.
    pub datagrams_truncated: u64,
}

/// Why a capture could not be read to its end. What came before the error was handed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Neither pcap nor pcapng.
    #[error("not a pcap or pcapng file")]
    NotACapture,
    /// Nothing in it.
    #[error("file is empty")]
    Empty,
    /// The file ends within a block.
    #[error("file is cut short after {frames} frames")]
    CutShort {
        /// Frames before the end.
        frames: u64,
    },
    /// A block makes no sense.
    #[error("block after {frames} frames is damaged")]
    Damaged {
        /// Frames before it.
        frames: u64,
    },
    /// Reading failed.
    #[error("reading failed after {frames} frames")]
    Read {
        /// Frames before the failure.
        frames: u64,
    },
}

/// How timestamps of an interface are told.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: i32,
    /// Units of a second.
    resolution: u64,
    offset_secs: i64,
}

/// A capture being read, block by block.
pub struct CaptureReader<'a> {
    blocks: Box<dyn PcapReaderIterator + Send + 'a>,
    /// Octets that the buffer may hold.
    capacity: usize,
    /// True when the last attempt to fill the buffer brought nothing.
    starved: bool,
    contents: Contents,
}

/// What is known of a capture so far.
#[derive(Debug, Default)]
struct Contents {
    interfaces: Vec<Interface>,
    reassembly: Reassembly,
    report: CaptureReport,
    file_octets: u64,
}

/// Takes the datagrams of a capture.
type Each<'e> = &'e mut dyn FnMut(CapturedDatagram<'_>);

/// Reads a capture and calls `each` with every UDP datagram in it, in order.
///
/// Returns what was read, and the error that ended it early, if any.
pub fn read(
    input: impl Read + Send,
    mut each: impl FnMut(CapturedDatagram<'_>),
) -> (CaptureReport, Result<(), CaptureError>) {
    let mut reader = match CaptureReader::open(input) {
        Ok(reader) => reader,
        Err(error) => return (CaptureReport::default(), Err(error)),
    };
    loop {
        match reader.read_block(&mut each) {
            Ok(true) => {}
            Ok(false) => return (reader.report(), Ok(())),
            Err(error) => return (reader.report(), Err(error)),
        }
    }
}

/// What reading the next block calls for.
enum Step {
    Consume(usize),
    Refill,
    Grow,
    End(Result<(), CaptureError>),
}

impl<'a> CaptureReader<'a> {
    /// Begins to read a capture.
    pub fn open(input: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        let blocks = create_reader(BUFFER_OCTETS, input).map_err(|error| match error {
            PcapError::Eof => CaptureError::Empty,
            PcapError::ReadError => CaptureError::Read { frames: 0 },
            _ => CaptureError::NotACapture,
        })?;
        Ok(Self { blocks, capacity: BUFFER_OCTETS, starved: false, contents: Contents::default() })
    }

    /// Reads the next block and calls `each` with the datagram in it, if there is one; false at the end of the capture.
    /// Nothing is to be read after an error.
    pub fn read_block(&mut self, mut each: impl FnMut(CapturedDatagram<'_>)) -> Result<bool, CaptureError> {
        loop {
            match self.step(&mut each) {
                Step::Consume(octets) => {
                    self.contents.file_octets += octets as u64;
                    self.starved = false;
                    self.blocks.consume(octets);
                    return Ok(true);
                }
                Step::Refill => {
                    if self.refill()? {
                        return Ok(false);
                    }
                }
                Step::Grow => self.grow()?,
                Step::End(result) => return result.map(|()| false),
            }
        }
    }

    /// Octets of the file read so far.
    pub fn octets(&self) -> u64 {
        self.contents.file_octets
    }

    /// What was read so far.
    pub fn report(&self) -> CaptureReport {
        let Contents { report, reassembly, .. } = &self.contents;
        let abandoned = reassembly.abandoned + reassembly.unfinished();
        CaptureReport { datagrams_truncated: report.datagrams_truncated + abandoned, ..*report }
    }

    /// Reads on; true when the file ended with its last block.
    fn refill(&mut self) -> Result<bool, CaptureError> {
        let frames = self.contents.report.frames;
        let before = self.blocks.data().len();
        if self.blocks.refill().is_err() {
            return Err(CaptureError::Read { frames });
        }
        if self.blocks.data().len() > before {
            return Ok(false);
        }
        if before == 0 {
            return Ok(true);
        }
        // a refill that brings nothing will never bring anything
        if self.starved || self.blocks.reader_exhausted() {
            return Err(CaptureError::CutShort { frames });
        }
        self.starved = true;
        Ok(false)
    }

    /// Makes room for a longer block.
    fn grow(&mut self) -> Result<(), CaptureError> {
        let frames = self.contents.report.frames;
        if self.capacity >= BLOCK_OCTETS_MAX {
            return Err(CaptureError::Damaged { frames });
        }
        self.capacity *= 2;
        self.blocks.grow(self.capacity);
        self.blocks.refill().map_err(|_| CaptureError::Read { frames })
    }

    fn step(&mut self, each: Each<'_>) -> Step {
        let frames = self.contents.report.frames;
        match self.blocks.next() {
            Ok((octets, block)) => {
                self.contents.block(&block, each);
                Step::Consume(octets)
            }
            Err(PcapError::Eof) => Step::End(Ok(())),
            Err(PcapError::Incomplete(_)) => Step::Refill,
            Err(PcapError::BufferTooSmall) => Step::Grow,
            Err(PcapError::UnexpectedEof) => Step::End(Err(CaptureError::CutShort { frames })),
            Err(PcapError::ReadError) => Step::End(Err(CaptureError::Read { frames })),
            Err(PcapError::HeaderNotRecognized) => Step::End(Err(CaptureError::NotACapture)),
            Err(PcapError::NomError(..) | PcapError::OwnedNomError(..)) => {
                Step::End(Err(CaptureError::Damaged { frames }))
            }
        }
    }
}

impl Contents {
    fn block(&mut self, block: &PcapBlockOwned<'_>, each: Each<'_>) {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
                self.interfaces = vec![Interface { link_type: header.network.0, resolution, offset_secs: 0 }];
            }
            PcapBlockOwned::Legacy(packet) => {
                let Some(&interface) = self.interfaces.first() else { return };
                let fraction_ms = u64::from(packet.ts_usec) * 1000 / interface.resolution;
                let captured_ms = i64::from(packet.ts_sec) * 1000 + fraction_ms as i64;
                let captured = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                self.frame(interface.link_type, captured_ms, captured, each);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => self.interfaces.push(Interface {
                link_type: interface.linktype.0,
                resolution: interface.ts_resolution().unwrap_or(1_000_000).max(1),
                offset_secs: interface.ts_offset(),
            }),
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let Some(&interface) = self.interfaces.get(packet.if_id as usize) else {
                    self.report.frames += 1;
                    self.report.frames_other += 1;
                    return;
                };
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let ms = u128::from(ticks) * 1000 / u128::from(interface.resolution);
                let captured_ms = interface.offset_secs.saturating_mul(1000).saturating_add(ms as i64);
                let captured = packet.data.get(..packet.caplen as usize).unwrap_or(packet.data);
                self.frame(interface.link_type, captured_ms, captured, each);
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                // a Simple Packet Block has no time (pcapng draft section 4.4)
                let link_type = self.interfaces.first().map_or(1, |interface| interface.link_type);
                self.frame(link_type, 0, packet.data, each);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn frame(&mut self, link_type: i32, captured_ms: i64, octets: &[u8], each: Each<'_>) {
        self.report.frames += 1;
        let mut datagram = |contents: &mut Self, source, destination, payload: &[u8]| {
            contents.report.datagrams += 1;
            let file_octets = contents.file_octets;
            each(CapturedDatagram { source, destination, captured_ms, payload, file_octets });
        };
        match frame::read(link_type, octets) {
            Frame::Udp { source, destination, payload } => datagram(self, source, destination, payload),
            Frame::Fragment(fragment) => {
                let Some((source, destination, segment)) = self.reassembly.add(&fragment) else { return };
                match frame::udp(source, destination, &segment) {
                    Frame::Udp { source, destination, payload } => datagram(self, source, destination, payload),
                    _ => self.report.datagrams_truncated += 1,
                }
            }
            Frame::Truncated => self.report.datagrams_truncated += 1,
            Frame::Other => self.report.frames_other += 1,
        }
    }
}

/// Whether a UDP payload looks like an export datagram: a known version, and a header that agrees with its length.
///
/// Captures often hold other traffic as well; a live collector has its own port and needs no such guess.
pub fn looks_like_export(payload: &[u8]) -> bool {
    let word = |at: usize| payload.get(at..at + 2).map(|two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    match (word(0), word(2)) {
        // other protocols begin with a 1 too, so the length has to agree
        (Some(1), Some(records @ 1..=60)) => payload.len().wrapping_sub(16 + records * 48) <= 4,
        (Some(7), Some(records @ 1..=60)) => payload.len().wrapping_sub(24 + records * 52) <= 4,
        (Some(5), Some(records @ 1..=60)) => payload.len() >= 24 && payload.len() <= 24 + records * 48 + 4,
        (Some(9), Some(records)) => payload.len() >= 20 && records > 0 && records <= payload.len(),
        (Some(0), Some(5)) => weir_wire::sflow::decode(payload).is_ok_and(|datagram| datagram.header.samples > 0),
        (Some(10), Some(length)) => payload.len() >= 16 && length >= 16 && length <= payload.len() + 4,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capture of one frame of link type RAW: 192.0.2.1:1000 to 192.0.2.2:2055, payload "abcd".
    fn capture() -> Vec<u8> {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x0001_0000, 101, 1_700_000_000, 500_000, 32, 32] {
            file.extend(word.to_be_bytes());
        }
        file.extend([0x45, 0, 0, 32, 0, 7, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        file.extend([3, 232, 8, 7, 0, 12, 0, 0, b'a', b'b', b'c', b'd']);
        file
    }

    #[test]
    fn exports_are_told_from_other_traffic() {
        let of = |version: u8, count: u8, length: usize| {
            let mut payload = vec![0; length];
            payload[..4].copy_from_slice(&[0, version, 0, count]);
            looks_like_export(&payload)
        };
        assert!(of(1, 2, 16 + 2 * 48) && of(7, 1, 24 + 52) && of(7, 1, 24 + 52 + 4) && of(5, 2, 24 + 2 * 48));
        // a binding request of STUN with eight octets, and a read request of TFTP
        assert!(!of(1, 8, 28));
        assert!(!looks_like_export(b"\0\x01file\0octet\0"));
    }

    fn check(file: &[u8], datagrams: u64, expected: Result<(), CaptureError>) {
        let mut seen = Vec::new();
        let (report, result) = read(file, |captured| seen.push((captured.captured_ms, captured.payload.to_vec())));
        assert_eq!((report.datagrams, result), (datagrams, expected));
        assert!(seen.iter().all(|datagram| *datagram == (1_700_000_000_500, b"abcd".to_vec())));
    }

    #[test]
    fn a_whole_capture_is_read_to_its_end() {
        check(&capture(), 1, Ok(()));
        check(&capture()[..24], 0, Ok(()));
    }

    #[test]
    fn a_capture_cut_short_is_read_as_far_as_it_goes() {
        let whole = capture();
        let twice = [&whole[..], &whole[24..]].concat();
        check(&twice[..twice.len() - 1], 1, Err(CaptureError::CutShort { frames: 1 }));
        check(&[], 0, Err(CaptureError::Empty));
        check(b"<!DOCTYPE html><html><body></body></html>", 0, Err(CaptureError::NotACapture));
    }
}
