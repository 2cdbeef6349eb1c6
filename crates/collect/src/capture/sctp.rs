//! From an IP packet to the chunks of the SCTP packet in it (RFC 9260 section 3). No length is trusted.
//!
//! The checksum is not looked at: where a network card fills it in, a capture on the sender has a wrong one. What speaks
//! against it: a packet that was damaged on its way is read, which its receiver drops.

use std::net::{IpAddr, SocketAddr};

/// Octets of the header of a packet.
const HEADER_OCTETS: usize = 12;
/// Octets of a chunk before its value.
const CHUNK_HEADER_OCTETS: usize = 4;

// types of chunks: RFC 9260 section 3.2, RFC 8260 section 2.1 and RFC 3758 section 3.2
const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;
const I_DATA: u8 = 64;
const FORWARD_TSN: u8 = 192;
const I_FORWARD_TSN: u8 = 194;

// flags of DATA and I-DATA
const END: u8 = 0x01;
const BEGIN: u8 = 0x02;
const UNORDERED: u8 = 0x04;
/// Flag of ABORT and SHUTDOWN COMPLETE: the tag is the one of the packet that is answered.
const REFLECTED: u8 = 0x01;

// parameters of INIT and INIT ACK: RFC 9260 section 3.3.2.1
const IPV4_ADDRESS: u16 = 5;
const IPV6_ADDRESS: u16 = 6;

/// An SCTP packet, as far as it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packet<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// The Verification Tag, which the destination has chosen.
    pub(super) tag: u32,
    chunks: &'a [u8],
}

/// A chunk of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk<'a> {
    /// User data: DATA or I-DATA.
    Data(DataChunk<'a>),
    /// The sender begins an association: INIT or INIT ACK.
    Begin(BeginChunk<'a>),
    /// The sender gives up all chunks up to this TSN: FORWARD-TSN or I-FORWARD-TSN.
    Forward {
        tsn: u32,
    },
    /// The association has ended: ABORT or SHUTDOWN COMPLETE.
    End {
        /// Whether the tag of the packet is the one that its sender has chosen.
        is_reflected: bool,
    },
    Other,
}

/// A user message, or a fragment of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataChunk<'a> {
    pub(super) tsn: u32,
    pub(super) header: FragmentHeader,
    pub(super) payload: &'a [u8],
}

/// Which fragment of which user message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FragmentHeader {
    pub(super) stream: u16,
    pub(super) is_unordered: bool,
    pub(super) begins: bool,
    pub(super) ends: bool,
    /// Number of the message in its stream: Stream Sequence Number, or Message Identifier.
    pub(super) message: u32,
    /// Number of the fragment, which the next one of the message follows by one: its TSN, or its Fragment Sequence Number.
    pub(super) fragment: u32,
}

/// What the sender of INIT or INIT ACK says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BeginChunk<'a> {
    /// The tag of packets that are sent to it.
    pub(super) initiate_tag: u32,
    /// The TSN of its first chunk of user data.
    pub(super) initial_tsn: u32,
    parameters: &'a [u8],
}

/// A chunk is not whole, or has a length that cannot be: nothing shows where the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DamagedChunk;

/// The chunks of a packet. A damaged one is the last.
#[derive(Debug)]
pub(super) struct Chunks<'a> {
    rest: &'a [u8],
}

/// Reads the header of a packet; `None` when it is not all there.
pub(super) fn packet(source: IpAddr, destination: IpAddr, octets: &[u8]) -> Option<Packet<'_>> {
    let (header, chunks) = octets.split_first_chunk::<HEADER_OCTETS>()?;
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    Some(Packet {
        source: SocketAddr::new(source, port(0)),
        destination: SocketAddr::new(destination, port(2)),
        tag: u32::from_be_bytes([header[4], header[5], header[6], header[7]]),
        chunks,
    })
}

impl<'a> Packet<'a> {
    /// Its chunks, in order.
    pub(super) fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.chunks }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, DamagedChunk>;

    fn next(&mut self) -> Option<Self::Item> {
        let octets = std::mem::take(&mut self.rest);
        if octets.is_empty() {
            return None;
        }
        let Some((chunk, rest)) = first_chunk(octets) else { return Some(Err(DamagedChunk)) };
        self.rest = rest;
        Some(Ok(chunk))
    }
}

impl BeginChunk<'_> {
    /// Further addresses of the sender.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let mut rest = self.parameters;
        let parameters = std::iter::from_fn(move || {
            let (kind, value, behind) = first_parameter(rest)?;
            rest = behind;
            Some((kind, value))
        });
        parameters.filter_map(|(kind, value)| match kind {
            IPV4_ADDRESS => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
            IPV6_ADDRESS => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
            _ => None,
        })
    }
}

/// The chunk that begins here, and what is behind it.
fn first_chunk(octets: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    let [kind, flags, high, low, ..] = *octets else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let value = octets.get(CHUNK_HEADER_OCTETS..length)?;
    let chunk = match kind {
        DATA => Chunk::Data(data(flags, value)?),
        I_DATA => Chunk::Data(interleaved_data(flags, value)?),
        INIT | INIT_ACK => Chunk::Begin(begin(value)?),
        FORWARD_TSN | I_FORWARD_TSN => Chunk::Forward { tsn: number(value, 0)? },
        ABORT | SHUTDOWN_COMPLETE => Chunk::End { is_reflected: flags & REFLECTED != 0 },
        _ => Chunk::Other,
    };
    Some((chunk, behind(octets, length)))
}

/// The type and the value of the parameter that begins here, and what is behind it.
fn first_parameter(octets: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let [kind_high, kind_low, high, low, ..] = *octets else { return None };
    let length = usize::from(u16::from_be_bytes([high, low]));
    let value = octets.get(4..length)?;
    Some((u16::from_be_bytes([kind_high, kind_low]), value, behind(octets, length)))
}

/// What is behind so many octets and their padding, which the last ones may lack.
fn behind(octets: &[u8], length: usize) -> &[u8] {
    octets.get(length.next_multiple_of(4)..).unwrap_or_default()
}

/// RFC 9260 section 3.3.1: TSN, stream, Stream Sequence Number, Payload Protocol Identifier.
fn data(flags: u8, value: &[u8]) -> Option<DataChunk<'_>> {
    let (header, payload) = value.split_first_chunk::<12>()?;
    let [_, _, _, _, stream_high, stream_low, high, low, ..] = *header;
    let tsn = number(value, 0)?;
    let (stream, message) = (u16::from_be_bytes([stream_high, stream_low]), u16::from_be_bytes([high, low]).into());
    Some(DataChunk { tsn, header: FragmentHeader::new(flags, stream, message, tsn), payload })
}

/// RFC 8260 section 2.1: TSN, stream, two octets, Message Identifier, and the Fragment Sequence Number. In the first fragment,
/// whose number is 0, that is the Payload Protocol Identifier.
fn interleaved_data(flags: u8, value: &[u8]) -> Option<DataChunk<'_>> {
    let (header, payload) = value.split_first_chunk::<16>()?;
    let [_, _, _, _, stream_high, stream_low, ..] = *header;
    let fragment = if flags & BEGIN != 0 { 0 } else { number(value, 12)? };
    let stream = u16::from_be_bytes([stream_high, stream_low]);
    Some(DataChunk {
        tsn: number(value, 0)?,
        header: FragmentHeader::new(flags, stream, number(value, 8)?, fragment),
        payload,
    })
}

impl FragmentHeader {
    fn new(flags: u8, stream: u16, message: u32, fragment: u32) -> Self {
        Self {
            stream,
            is_unordered: flags & UNORDERED != 0,
            begins: flags & BEGIN != 0,
            ends: flags & END != 0,
            message,
            fragment,
        }
    }
}

/// RFC 9260 section 3.3.2: Initiate Tag, window, numbers of streams, Initial TSN.
fn begin(value: &[u8]) -> Option<BeginChunk<'_>> {
    Some(BeginChunk { initiate_tag: number(value, 0)?, initial_tsn: number(value, 12)?, parameters: value.get(16..)? })
}

fn number(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk::<4>().map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From port 40000 to 4739, tag 0x01020304, no checksum.
    const HEADER: [u8; 12] = [0x9c, 0x40, 0x12, 0x83, 1, 2, 3, 4, 0, 0, 0, 0];
    /// DATA with U, B and E: TSN 100, stream 2, number 3, protocol 0, "abcde" and three octets of padding.
    const DATA_CHUNK: [u8; 24] =
        [0, 7, 0, 21, 0, 0, 0, 100, 0, 2, 0, 3, 0, 0, 0, 0, b'a', b'b', b'c', b'd', b'e', 0, 0, 0];

    fn chunks(octets: &[u8]) -> Vec<Result<Chunk<'_>, DamagedChunk>> {
        let [source, destination] = ["192.0.2.1", "192.0.2.9"].map(|address| address.parse().expect("an address"));
        let packet = packet(source, destination, octets).expect("a header");
        assert_eq!((packet.source.port(), packet.destination.port(), packet.tag), (40_000, 4739, 0x0102_0304));
        packet.chunks().collect()
    }

    fn data_chunk() -> Chunk<'static> {
        let header =
            FragmentHeader { stream: 2, is_unordered: true, begins: true, ends: true, message: 3, fragment: 100 };
        Chunk::Data(DataChunk { tsn: 100, header, payload: b"abcde" })
    }

    #[test]
    fn chunks_follow_one_another_behind_their_padding() {
        // SACK, which has nothing for us
        let other = [3, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0];
        let octets = [&HEADER[..], &DATA_CHUNK, &other, &DATA_CHUNK].concat();
        let expected = [Ok(data_chunk()), Ok(Chunk::Other), Ok(data_chunk())];
        assert_eq!(chunks(&octets), expected);
        // the padding of the last one may be missing
        assert_eq!(chunks(&octets[..octets.len() - 3]), expected);
        assert_eq!(chunks(&HEADER), []);
        for length in 0..HEADER.len() {
            let address = "192.0.2.1".parse().expect("an address");
            assert_eq!(packet(address, address, &HEADER[..length]), None);
        }
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_packet() {
        let with = |octets: &[u8]| [&HEADER[..], &DATA_CHUNK, octets, &DATA_CHUNK].concat();
        // less than a header, less than what DATA has before its payload, and more than the packet has
        for length in [0_u16, 3, 15, 49] {
            let mut damaged = DATA_CHUNK;
            damaged[2..4].copy_from_slice(&length.to_be_bytes());
            assert_eq!(chunks(&with(&damaged)), [Ok(data_chunk()), Err(DamagedChunk)], "{length}");
        }
        // cut short by the capture
        let octets = with(&[]);
        for cut in 4..DATA_CHUNK.len() {
            let found = chunks(&octets[..octets.len() - cut]);
            assert_eq!(found, [Ok(data_chunk()), Err(DamagedChunk)], "{cut} octets less");
        }
    }

    #[test]
    fn interleaved_data_has_numbers_of_fragments() {
        // I-DATA: TSN 100, stream 2, reserved, message 7, protocol or number 5, "a"
        let mut chunk = [64, 2, 0, 21, 0, 0, 0, 100, 0, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 5, b'a', 0, 0, 0];
        let read = |chunk: &[u8]| match chunks(&[&HEADER[..], chunk].concat())[..] {
            [Ok(Chunk::Data(DataChunk { tsn: 100, header, payload: b"a" }))] => header,
            ref other => panic!("{other:?}"),
        };
        let first =
            FragmentHeader { stream: 2, is_unordered: false, begins: true, ends: false, message: 7, fragment: 0 };
        assert_eq!(read(&chunk), first);
        chunk[1] = 1;
        assert_eq!(read(&chunk), FragmentHeader { begins: false, ends: true, fragment: 5, ..first });
    }

    #[test]
    fn begins_and_ends_of_associations() {
        // INIT: tag 9, window, streams, TSN 77, cookie preservative, addresses of both families
        let mut init = vec![1, 0, 0, 60, 0, 0, 0, 9, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 77];
        init.extend([0, 9, 0, 8, 0, 0, 0, 0, 0, 5, 0, 8, 198, 51, 100, 1, 0, 6, 0, 20]);
        init.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        init.extend([0, 5, 0, 6]);
        let octets = [&HEADER[..], &init].concat();
        let found = chunks(&octets);
        let [Ok(Chunk::Begin(begin))] = found[..] else { panic!("{found:?}") };
        assert_eq!((begin.initiate_tag, begin.initial_tsn), (9, 77));
        let addresses: Vec<String> = begin.addresses().map(|address| address.to_string()).collect();
        assert_eq!(addresses, ["198.51.100.1", "2001:db8::1"]);
        let ends = [6, 0, 0, 4, 14, 1, 0, 4, 192, 0, 0, 8, 0, 0, 0, 5];
        let expected = [
            Ok(Chunk::End { is_reflected: false }),
            Ok(Chunk::End { is_reflected: true }),
            Ok(Chunk::Forward { tsn: 5 }),
        ];
        assert_eq!(chunks(&[&HEADER[..], &ends].concat()), expected);
    }
}
