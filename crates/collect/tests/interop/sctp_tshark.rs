//! Wireshark's dissector on IPFIX over SCTP: which messages and flows a capture has, by its own reassembly.

use std::net::Ipv4Addr;
use std::process::Command;

use weir_collect::capture::{Captured, ConnectionEvent, read_exports};
use weir_collect::{Decoder, Limits};
use weir_flow::Column;

/// Flags of DATA and I-DATA (RFC 9260 section 3.3.1): the fragment that ends a message, and the one that begins it.
const END: u8 = 1;
const BEGIN: u8 = 2;
/// Octets of a fragment.
const FRAGMENT_OCTETS: usize = 100;

/// The chunks of each packet.
type Packets = Vec<Vec<Vec<u8>>>;

/// The chunks of an association, one after the other.
struct Chunks {
    is_interleaved: bool,
    /// TSN of the next one.
    tsn: u32,
    chunks: Vec<Vec<u8>>,
}

impl Chunks {
    fn new(is_interleaved: bool) -> Self {
        Self { is_interleaved, tsn: 1, chunks: Vec::new() }
    }

    /// Adds a fragment of the message with this number of a stream.
    fn add(&mut self, flags: u8, (stream, number, fragment): (u16, u16, u32), payload: &[u8]) {
        let mut chunk = vec![if self.is_interleaved { 64 } else { 0 }, flags, 0, 0];
        chunk.extend(self.tsn.to_be_bytes());
        chunk.extend(stream.to_be_bytes());
        if self.is_interleaved {
            chunk.extend([0, 0]);
            chunk.extend(u32::from(number).to_be_bytes());
            chunk.extend(fragment.to_be_bytes());
        } else {
            chunk.extend(number.to_be_bytes());
            chunk.extend([0; 4]);
        }
        chunk.extend(payload);
        let length = (chunk.len() as u16).to_be_bytes();
        chunk[2..4].copy_from_slice(&length);
        chunk.resize(chunk.len().next_multiple_of(4), 0);
        self.chunks.push(chunk);
        self.tsn += 1;
    }

    /// Adds messages, each of a stream of its own, the fragments of one between those of the others.
    fn add_in_fragments(&mut self, messages: &[&[u8]], number: u16) {
        let longest = messages.iter().map(|message| message.len().div_ceil(FRAGMENT_OCTETS)).max().unwrap_or(0);
        for fragment in 0..longest {
            for (message, stream) in messages.iter().zip(0..) {
                let Some(payload) = message.chunks(FRAGMENT_OCTETS).nth(fragment) else { continue };
                let is_last = (fragment + 1) * FRAGMENT_OCTETS >= message.len();
                let flags = if fragment == 0 { BEGIN } else { 0 } | if is_last { END } else { 0 };
                self.add(flags, (stream, number, fragment as u32), payload);
            }
        }
    }
}

/// A message (RFC 7011 section 3) of one set.
fn message(sequence: u32, set_id: u16, set: &[u8]) -> Vec<u8> {
    let mut message = vec![0, 10];
    message.extend((20 + set.len() as u16).to_be_bytes());
    message.extend(1_700_000_000_u32.to_be_bytes());
    message.extend(sequence.to_be_bytes());
    message.extend([0, 0, 0, 7]);
    message.extend(set_id.to_be_bytes());
    message.extend((4 + set.len() as u16).to_be_bytes());
    message.extend(set);
    message
}

/// A Template of source address and octets, and messages of 1 to 20 records of it, each of an address of its own.
fn messages() -> Vec<Vec<u8>> {
    let mut messages = vec![message(0, 2, &[1, 0, 0, 2, 0, 8, 0, 4, 0, 1, 0, 4])];
    let mut sequence = 0_u32;
    for records in 1..=20 {
        let mut set = Vec::new();
        for number in sequence..sequence + records {
            set.extend([10, 0, (number >> 8) as u8, number as u8]);
            set.extend(number.to_be_bytes());
        }
        messages.push(message(sequence, 256, &set));
        sequence += records;
    }
    messages
}

/// Associations from ports of their own, and the packets of each with their chunks.
fn associations() -> Vec<(u16, Packets)> {
    let messages = messages();
    let whole = |is_interleaved| {
        let mut chunks = Chunks::new(is_interleaved);
        messages.iter().zip(0..).for_each(|(message, number)| chunks.add(BEGIN | END, (0, number, 0), message));
        chunks.chunks
    };
    let mut fragments = Chunks::new(false);
    messages.iter().zip(0..).for_each(|(message, number)| fragments.add_in_fragments(&[message.as_slice()], number));
    // the Template first, and then two messages at a time
    let mut interleaved = Chunks::new(true);
    interleaved.add_in_fragments(&[messages[0].as_slice()], 0);
    messages[1..].chunks(2).zip(1..).for_each(|(pair, number)| {
        let pair: Vec<&[u8]> = pair.iter().map(Vec::as_slice).collect();
        interleaved.add_in_fragments(&pair, number);
    });
    let each = |chunks: Vec<Vec<u8>>| -> Packets { chunks.into_iter().map(|chunk| vec![chunk]).collect() };
    vec![
        (40_001, each(whole(false))),
        (40_002, whole(false).chunks(3).map(<[Vec<u8>]>::to_vec).collect()),
        (40_003, each(fragments.chunks)),
        (40_004, each(whole(true))),
        (40_005, each(interleaved.chunks)),
    ]
}

/// A capture of IPv4 packets (link type RAW).
fn capture() -> Vec<u8> {
    let words = [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x0004_0000, 101];
    let mut capture: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    for (port, packets) in associations() {
        for chunks in packets {
            let chunks = chunks.concat();
            let length = 32 + chunks.len() as u32;
            for word in [1_700_000_000, 0, length, length] {
                capture.extend(u32::to_be_bytes(word));
            }
            capture.extend([0x45, 0]);
            capture.extend((length as u16).to_be_bytes());
            capture.extend([0, 1, 0, 0, 64, 132, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9]);
            capture.extend(port.to_be_bytes());
            capture.extend(4739_u16.to_be_bytes());
            // a tag, and no checksum
            capture.extend(u32::from(port).to_be_bytes());
            capture.extend([0; 4]);
            capture.extend(&chunks);
        }
    }
    capture
}

/// Ports of exporters and source addresses of flows, in order.
fn flows(capture: &[u8]) -> Vec<(String, String)> {
    let (mut decoder, mut found) = (Decoder::new(Limits::default()), Vec::new());
    let (_, outcome) = read_exports(capture, |captured| {
        let Captured::Connection(ConnectionEvent::Message { session, captured_ms, octets }) = captured else { return };
        decoder.message(session, captured_ms, octets);
        let Some(flows) = decoder.take_delivery().flows else { return };
        let addresses = flows.binary(Column::SrcAddr).expect("a column").iter().flatten();
        let addresses = addresses.map(|octets| Ipv4Addr::from(<[u8; 4]>::try_from(octets).expect("IPv4")).to_string());
        found.extend(addresses.map(|address| (session.source.port().to_string(), address)));
    });
    outcome.expect("read");
    found
}

#[test]
fn tshark_agrees_on_sctp() {
    let Some(tshark) = weir_testkit::program("tshark") else { return };
    let capture = capture();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sctp.pcap");
    std::fs::write(&path, &capture).expect("a file");
    let mut command = Command::new(tshark);
    command.args(["-n", "-T", "fields", "-e", "sctp.srcport", "-e", "cflow.srcaddr", "-r"]).arg(&path);
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8_lossy(&output.stdout);
    let theirs: Vec<(String, String)> = output
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .flat_map(|(ports, addresses)| {
            // the port comes once for each chunk
            let port = ports.split(',').next().unwrap_or_default();
            let addresses = addresses.split(',').filter(|address| !address.is_empty());
            addresses.map(move |address| (port.to_owned(), address.to_owned()))
        })
        .collect();
    assert_eq!(theirs.len(), 5 * 210);
    assert_eq!(flows(&capture), theirs);
}
