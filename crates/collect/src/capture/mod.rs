//! Exports in capture files: datagrams, and messages of connections and associations.
//!
//! The reader of captures is that of `weir_capture`, and `weir_wire::packet` dissects the frames; here UDP datagrams are
//! taken out of them, and put together where IP fragmented them. So are TCP segments and SCTP packets, of which the messages
//! of exports come.

mod associations;
mod connections;
mod datagram;
mod export_port;
mod likeness;
mod reassembly;
mod sctp;
mod segment;
mod stream_table;

use std::io::Read;
use std::net::SocketAddr;

use weir_capture::{CaptureError, Input, PacketBlock};
use weir_wire::packet::dissect;

pub use self::associations::AssociationReport;
use self::associations::Associations;
use self::connections::Connections;
pub use self::connections::{ConnectionEvent, ConnectionReport};
use self::datagram::{Content, Datagram, PROTOCOL_SCTP, PROTOCOL_TCP};
use self::export_port::ExportPort;
pub use self::likeness::looks_like_export;
use self::reassembly::{Fragment, Reassembly};
use self::sctp::Packet;
use self::segment::Segment;

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
}

/// What is found in a capture.
#[derive(Debug, Clone, Copy)]
pub enum Captured<'a> {
    /// A UDP datagram, whatever is in it.
    Datagram(CapturedDatagram<'a>),
    /// Of a connection or association with IPFIX.
    Connection(ConnectionEvent<'a>),
}

/// What a capture contained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureReport {
    /// Frames read.
    pub frames: u64,
    /// UDP datagrams delivered.
    pub datagrams: u64,
    /// TCP segments.
    pub segments: u64,
    /// SCTP packets.
    pub packets_sctp: u64,
    /// Frames that are none of UDP, TCP and SCTP over IP.
    pub frames_other: u64,
    /// UDP datagrams that the capture cut short, or whose pieces are not all there.
    pub datagrams_truncated: u64,
    /// Those of them that the capture cut short and that begin as exports do.
    pub exports_truncated: u64,
    /// Packets that a tunnel carries and that look like exports. They are not read: the address inside sent them to no
    /// collector by itself, and a port mirror may have them twice.
    pub exports_tunneled: u64,
    /// What was found of connections.
    pub connections: ConnectionReport,
    /// What was found of associations.
    pub associations: AssociationReport,
}

/// Reads the UDP datagrams of a capture, and the messages of its connections and associations, block by block.
pub struct ExportReader<'a> {
    capture: weir_capture::CaptureReader<'a>,
    block: PacketBlock,
    reassembly: Reassembly,
    /// Of TCP segments.
    segments: Reassembly,
    /// Of SCTP packets.
    packets: Reassembly,
    connections: Connections,
    associations: Associations,
    report: CaptureReport,
}

/// Reads a capture, compressed or not, and calls `each` with every UDP datagram in it, in order.
///
/// Returns what was read, and the error that ended it early, if any.
pub fn read(
    input: impl Read + Send,
    mut each: impl FnMut(CapturedDatagram<'_>),
) -> (CaptureReport, Result<(), CaptureError>) {
    read_exports(input, |captured| {
        if let Captured::Datagram(datagram) = captured {
            each(datagram);
        }
    })
}

/// As [`read`], with what comes of connections and associations that look like exports.
pub fn read_exports(
    input: impl Read + Send,
    mut each: impl FnMut(Captured<'_>),
) -> (CaptureReport, Result<(), CaptureError>) {
    let mut reader = match Input::new(input).and_then(|input| ExportReader::open(input, None)) {
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

impl<'a> ExportReader<'a> {
    /// Begins to read a capture. Of connections and associations all to the port are taken; without one those that look like
    /// exports.
    ///
    /// # Errors
    ///
    /// What begins as neither pcap nor pcapng does, or whose header is not valid.
    pub fn open(input: Input<'a>, port: Option<u16>) -> Result<Self, CaptureError> {
        let capture = weir_capture::CaptureReader::open(input)?;
        let (block, reassembly, segments, packets, report) = Default::default();
        let port = ExportPort::new(port);
        let (connections, associations) = (Connections::new(port), Associations::new(port));
        Ok(Self { capture, block, reassembly, segments, packets, connections, associations, report })
    }

    /// Reads the next block of frames and calls `each` with what is in them; false at the end of the capture.
    ///
    /// # Errors
    ///
    /// What ends the capture early; what was before it was delivered, and nothing is to be read after it.
    pub fn read_block(&mut self, mut each: impl FnMut(Captured<'_>)) -> Result<bool, CaptureError> {
        let result = self.capture.fill(&mut self.block);
        let block = std::mem::take(&mut self.block);
        for packet in block.packets() {
            self.report.frames += 1;
            let frame = block.frame(packet);
            let dissected = dissect(packet.link, frame);
            self.report.exports_tunneled += u64::from(datagram::is_tunneled_export(&dissected));
            let content = datagram::content(&dissected, frame.len() < packet.length as usize);
            self.take(content, packet.time_us.div_euclid(1000), &mut each);
        }
        self.block = block;
        let has_ended = result.is_err() || self.block.packets().is_empty();
        if has_ended {
            self.connections.finish(&mut |event| each(Captured::Connection(event)));
            self.associations.finish(&mut |event| each(Captured::Connection(event)));
        }
        result.map(|()| !has_ended)
    }

    /// Octets read so far, of the content without compression.
    pub fn octets(&self) -> u64 {
        self.capture.counts().octets_read
    }

    /// What was read so far.
    pub fn report(&self) -> CaptureReport {
        let unknown = self.capture.counts().frames_unknown_link;
        let CaptureReport { frames, frames_other, datagrams_truncated, .. } = self.report;
        CaptureReport {
            frames: frames + unknown,
            frames_other: frames_other + unknown,
            datagrams_truncated: datagrams_truncated + self.reassembly.abandoned + self.reassembly.unfinished(),
            connections: self.connections.report(),
            associations: self.associations.report(),
            ..self.report
        }
    }

    fn take(&mut self, content: Content<'_>, captured_ms: i64, each: &mut impl FnMut(Captured<'_>)) {
        let mut deliver = |Datagram { source, destination, payload }: Datagram<'_>| {
            self.report.datagrams += 1;
            each(Captured::Datagram(CapturedDatagram { source, destination, captured_ms, payload }));
        };
        match content {
            Content::Datagram(datagram) => deliver(datagram),
            Content::Segment(segment) => self.segment(&segment, captured_ms, each),
            Content::Packet(packet) => self.packet(&packet, captured_ms, each),
            Content::Fragment(fragment) if matches!(fragment.protocol, PROTOCOL_TCP | PROTOCOL_SCTP) => {
                self.fragment(&fragment, captured_ms, each);
            }
            Content::Fragment(fragment) => {
                let Some((source, destination, segment)) = self.reassembly.add(&fragment) else { return };
                match datagram::datagram(source, destination, &segment) {
                    Some(datagram) => deliver(datagram),
                    None => self.report.datagrams_truncated += 1,
                }
            }
            Content::Truncated => self.report.datagrams_truncated += 1,
            Content::ExportTruncated => {
                self.report.datagrams_truncated += 1;
                self.report.exports_truncated += 1;
            }
            Content::Other => self.report.frames_other += 1,
        }
    }

    /// Takes a piece of a TCP segment or SCTP packet.
    fn fragment(&mut self, fragment: &Fragment<'_>, captured_ms: i64, each: &mut impl FnMut(Captured<'_>)) {
        let is_tcp = fragment.protocol == PROTOCOL_TCP;
        let pieces = if is_tcp { &mut self.segments } else { &mut self.packets };
        let Some((source, destination, octets)) = pieces.add(fragment) else { return };
        if is_tcp && let Some(segment) = segment::segment(source, destination, &octets, octets.len()) {
            self.segment(&segment, captured_ms, each);
        } else if !is_tcp && let Some(packet) = sctp::packet(source, destination, &octets) {
            self.packet(&packet, captured_ms, each);
        } else {
            self.report.frames_other += 1;
        }
    }

    fn segment(&mut self, segment: &Segment<'_>, captured_ms: i64, each: &mut impl FnMut(Captured<'_>)) {
        self.report.segments += 1;
        self.connections.take(segment, captured_ms, &mut |event| each(Captured::Connection(event)));
    }

    fn packet(&mut self, packet: &Packet<'_>, captured_ms: i64, each: &mut impl FnMut(Captured<'_>)) {
        self.report.packets_sctp += 1;
        self.associations.take(packet, captured_ms, &mut |event| each(Captured::Connection(event)));
    }
}

#[cfg(test)]
mod tests {
    use weir_capture::CaptureDamage;

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
    fn exports_are_distinguished_from_other_traffic() {
        let of = |version: u8, count: u8, length: usize| {
            let mut payload = vec![0; length];
            payload[..4].copy_from_slice(&[0, version, 0, count]);
            looks_like_export(&payload)
        };
        assert!(of(1, 2, 16 + 2 * 48) && of(7, 1, 24 + 52) && of(7, 1, 24 + 52 + 4) && of(5, 2, 24 + 2 * 48));
        // a binding request of STUN with eight octets, and a read request of TFTP
        assert!(!of(1, 8, 28));
        assert!(!looks_like_export(b"\0\x01file\0octet\0"));
        // more behind the records of NetFlow v5 than there should be, or fewer counted than there are; and an error of TFTP
        let mut longer = vec![0; 24 + 3 * 48 + 9];
        longer[..4].copy_from_slice(&[0, 5, 0, 2]);
        assert!(!looks_like_export(&longer), "no time");
        longer[8..12].copy_from_slice(&1_700_000_000_u32.to_be_bytes());
        assert!(looks_like_export(&longer));
        assert!(!looks_like_export(&[&b"\0\x05\0\x01"[..], &[b'x'; 90]].concat()));
        // a datagram of sFlow whose samples are damaged, and one of another protocol
        let mut sampled = vec![0xff; 40];
        sampled[..8].copy_from_slice(&[0, 0, 0, 5, 0, 0, 0, 1]);
        assert!(looks_like_export(&sampled));
        sampled[7] = 3;
        assert!(!looks_like_export(&sampled));
    }

    /// NetFlow v9 whose header counts nothing, and sFlow of an agent that does not know its address.
    #[test]
    fn exports_whose_header_lacks_something_are_distinguished_too() {
        // a set of a template, of 12 octets
        let mut counted_none =
            [&[0, 9, 0, 0, 0, 1, 0x86, 0xa0][..], &1_700_000_000_u32.to_be_bytes(), &[0; 8]].concat();
        counted_none.extend([0, 0, 0, 12, 1, 0, 0, 1, 0, 8, 0, 4]);
        assert!(looks_like_export(&counted_none));
        for (at, octet, what) in [(8, 0, "the time"), (21, 2, "the set"), (23, 13, "its length"), (23, 3, "its length")]
        {
            let mut other = counted_none.clone();
            other[at] = octet;
            assert!(!looks_like_export(&other), "{what}");
        }
        assert!(!looks_like_export(&counted_none[..20]));
        // version, no address, sub-agent, number, uptime, one sample: a counters sample without records
        let words = [5_u32, 0, 3, 1, 1_000, 1, 2, 12, 1, 3, 0];
        let datagram = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        assert!(looks_like_export(&datagram(&words)));
        for (at, word, what) in [(5, 0, "samples"), (5, 13, "samples"), (6, 0, "a format"), (7, 13, "its length")] {
            let mut other = words;
            other[at] = word;
            assert!(!looks_like_export(&datagram(&other)), "{what}");
        }
        assert!(!looks_like_export(&datagram(&words[..7])));
    }

    /// Reads a capture whose datagrams are all that of [`capture`], and returns how many it has and the error.
    fn read_all(file: &[u8]) -> (CaptureReport, Option<CaptureError>) {
        let mut seen = Vec::new();
        let (report, result) = read(file, |captured| seen.push((captured.captured_ms, captured.payload.to_vec())));
        assert!(seen.iter().all(|datagram| *datagram == (1_700_000_000_500, b"abcd".to_vec())));
        assert_eq!(report.datagrams, seen.len() as u64);
        (report, result.err())
    }

    #[test]
    fn a_whole_capture_is_read_to_its_end() {
        for (file, datagrams) in [(&capture()[..], 1), (&capture()[..24], 0)] {
            let (report, error) = read_all(file);
            assert!(report.datagrams == datagrams && error.is_none(), "{report:?} {error:?}");
        }
    }

    #[test]
    fn a_compressed_capture_is_read_as_the_plain_one() {
        let compressed = zstd::encode_all(capture().as_slice(), 1).expect("compressed");
        let (report, error) = read_all(&compressed);
        assert!(report == read_all(&capture()).0 && error.is_none(), "{report:?} {error:?}");
    }

    #[test]
    fn a_capture_cut_short_is_read_as_far_as_it_goes() {
        let whole = capture();
        let twice = [&whole[..], &whole[24..]].concat();
        let (report, error) = read_all(&twice[..twice.len() - 1]);
        assert_eq!((report.datagrams, report.frames), (1, 1));
        let expected = (whole.len() as u64, CaptureDamage::CutShort);
        assert!(
            matches!(error, Some(CaptureError::Damaged { offset, damage }) if (offset, &damage) == (expected.0, &expected.1))
        );
        assert!(matches!(read_all(&[]), (CaptureReport { datagrams: 0, .. }, Some(CaptureError::Empty))));
        let (report, error) = read_all(b"<!DOCTYPE html><html><body></body></html>");
        assert!(report.datagrams == 0 && matches!(error, Some(CaptureError::NotACapture(0x3c21_444f))), "{error:?}");
    }

    #[test]
    fn frames_of_unknown_links_are_counted() {
        let mut file = capture();
        // LINKTYPE_USB_LINUX, which has no packets of a network
        file[20..24].copy_from_slice(&189_u32.to_be_bytes());
        let (report, error) = read_all(&file);
        assert_eq!(report, CaptureReport { frames: 1, frames_other: 1, ..CaptureReport::default() });
        assert!(error.is_none());
    }

    #[test]
    fn fragments_make_one_datagram() {
        let whole = capture();
        let (header, record) = whole.split_at(24);
        let (start, packet) = record.split_at(16);
        let piece = |flags: u16, octets: &[u8]| {
            let mut ip = packet[..20].to_vec();
            ip[2..4].copy_from_slice(&(20 + octets.len() as u16).to_be_bytes());
            ip[6..8].copy_from_slice(&flags.to_be_bytes());
            let length = (20 + octets.len() as u32).to_be_bytes();
            [&start[..8], &length, &length, &ip, octets].concat()
        };
        let (first, last) = (piece(0x2000, &packet[20..28]), piece(1, &packet[28..]));
        let file = [header, &last, &first].concat();
        let (report, error) = read_all(&file);
        assert_eq!(report, CaptureReport { frames: 2, datagrams: 1, ..CaptureReport::default() });
        assert!(error.is_none());
        let (report, _) = read_all(&[header, &first].concat());
        assert_eq!(report, CaptureReport { frames: 1, datagrams_truncated: 1, ..CaptureReport::default() });
    }
}
