//! Writes a capture of UDP packets of some flows in turn: `udp_flows FILE FLOWS PAYLOAD_OCTETS PACKETS [random]`.
//!
//! They come from one port and go to a port for each flow, as in the measurements of ffProbe (2010, section 4); with
//! `random` payloads have any length up to twice the given one less 18 octets, so that it is their mean.

use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Where packets go, and the link address that it has.
const TO: ([u8; 4], [u8; 6]) = ([10, 9, 0, 2], [2, 0, 0, 0, 0, 2]);
const FROM: ([u8; 4], [u8; 6]) = ([10, 9, 0, 1], [2, 0, 0, 0, 0, 1]);
/// Fewest octets of a payload: those that fill the shortest frame.
const PAYLOAD_MIN: u16 = 18;

fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: udp_flows FILE FLOWS PAYLOAD_OCTETS PACKETS [random]");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, numbers @ ..] = arguments.as_slice() else { return Err(usage()) };
    let number = |at: usize| numbers.get(at).and_then(|text| text.parse::<u32>().ok()).ok_or_else(usage);
    let (flows, payload, packets) = (number(0)?, number(1)? as u16, number(2)?);
    let is_random = numbers.get(3).is_some_and(|word| word == "random");

    let mut out = BufWriter::new(File::create(path)?);
    // the header of libpcap's format: magic, version 2.4, zone, accuracy, longest packet, Ethernet
    out.write_all(&0xa1b2_c3d4_u32.to_le_bytes())?;
    out.write_all(&[2, 0, 4, 0])?;
    out.write_all(&[0; 8])?;
    out.write_all(&65_535_u32.to_le_bytes())?;
    out.write_all(&1_u32.to_le_bytes())?;
    let mut state = 1_u32;
    for packet in 0..packets {
        let mut octets = payload;
        if is_random {
            // numbers of a linear congruential generator: the same in every run
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            octets = PAYLOAD_MIN + (state >> 8) as u16 % (2 * (payload - PAYLOAD_MIN) + 1);
        }
        let frame = frame(5_000 + (packet % flows) as u16, octets);
        let length = (frame.len() as u32).to_le_bytes();
        out.write_all(&(packet / 100_000).to_le_bytes())?;
        out.write_all(&(packet % 100_000 * 10).to_le_bytes())?;
        out.write_all(&length)?;
        out.write_all(&length)?;
        out.write_all(&frame)?;
    }
    out.flush()
}

/// A frame of Ethernet, IPv4 and UDP to a port.
fn frame(port: u16, payload: u16) -> Vec<u8> {
    let mut frame = [TO.1, FROM.1].concat();
    frame.extend([8, 0]);
    let mut header = [0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&(28 + payload).to_be_bytes());
    header[12..16].copy_from_slice(&FROM.0);
    header[16..].copy_from_slice(&TO.0);
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes());
    frame.extend(header);
    frame.extend(4_000_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend((8 + payload).to_be_bytes());
    // no checksum (RFC 768)
    frame.extend([0, 0]);
    frame.resize(frame.len() + usize::from(payload), 0);
    frame
}
