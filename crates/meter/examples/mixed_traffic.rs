//! Makes a long capture of mixed traffic out of many short ones.
//!
//! `cargo run --release -p weir-meter --example mixed_traffic -- OUT PACKETS SNAP FILE...`
//!
//! All packets of Ethernet in the files are taken again and again, each round with other IPv4 and IPv6 addresses (the
//! lower octets are changed in the same way for the whole of a capture, so that flows stay flows) and begun at another
//! moment of ten minutes, and written in the order of their times. The result is what the captures are: a mix of
//! protocols, packet sizes and lengths of flows as networks have it. The same arguments give the same file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use weir_capture::{FileOptions, FillOutcome, PacketBlock, WarningHandler, open_files};
use weir_wire::packet::{LinkType, dissect};

/// Time that the captures of a round are spread over, microseconds.
const SPAN_US: u64 = 600_000_000;

struct Frame {
    time_us: u64,
    length: u32,
    octets: Vec<u8>,
}

/// All Ethernet frames of a capture, their times from its first one on.
fn frames(path: PathBuf) -> Vec<Frame> {
    let tell: WarningHandler = Arc::new(|_: &str| {});
    let Ok(mut source) = open_files(&FileOptions { paths: vec![path], ..FileOptions::default() }, &tell) else {
        return Vec::new();
    };
    let (mut block, mut frames, mut first_us) = (PacketBlock::default(), Vec::new(), None);
    while matches!(source.fill(&mut block), Ok(FillOutcome::Packets)) {
        for packet in block.packets().iter().filter(|packet| packet.link == LinkType::Ethernet) {
            let first_us = *first_us.get_or_insert(packet.time_us);
            let time_us = packet.time_us.abs_diff(first_us).min(SPAN_US);
            frames.push(Frame { time_us, length: packet.length, octets: block.frame(packet).to_vec() });
        }
    }
    frames
}

/// Where the addresses of the outermost IP header lie in a frame, and how long they are.
fn addresses(frame: &[u8]) -> Option<(usize, usize)> {
    let packet = dissect(LinkType::Ethernet, frame);
    let ip = packet.outer.ip?;
    Some((ip.source.as_ptr().addr() - frame.as_ptr().addr(), ip.source.len()))
}

fn mix(number: u64) -> u64 {
    let z = (number.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (z >> 31)
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::other("usage: mixed_traffic OUT PACKETS SNAP FILE...");
    let out = arguments.next().ok_or_else(usage)?;
    let mut number = || arguments.next().and_then(|text| text.parse::<usize>().ok()).ok_or_else(usage);
    let (packets, snap) = (number()?, number()?);
    let captures: Vec<Vec<Frame>> = arguments.map(|path| frames(path.into())).filter(|some| !some.is_empty()).collect();
    let once: usize = captures.iter().map(Vec::len).sum();
    if once == 0 {
        return Err(io::Error::other("no Ethernet frame in these files"));
    }
    // time, capture, frame, round
    let mut order: Vec<(u64, u32, u32, u32)> = Vec::with_capacity(packets + once);
    for round in 0..packets.div_ceil(once) as u32 {
        for (capture, frames) in captures.iter().enumerate() {
            let begin = mix(u64::from(round) << 32 | capture as u64) % SPAN_US;
            let entry =
                |(number, frame): (usize, &Frame)| (begin + frame.time_us, capture as u32, number as u32, round);
            order.extend(frames.iter().enumerate().map(entry));
        }
    }
    order.sort_unstable();
    order.truncate(packets);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(out)?);
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, snap as u32, 1] {
        file.write_all(&word.to_le_bytes())?;
    }
    for (time_us, capture, number, round) in order {
        let frame = &captures[capture as usize][number as usize];
        let mut octets = frame.octets.clone();
        if let Some((at, length)) = addresses(&octets) {
            let change = mix(u64::from(round) << 20 | u64::from(capture)).to_le_bytes();
            for address in [at + length - 3, at + 2 * length - 3] {
                octets[address..address + 3].iter_mut().zip(change).for_each(|(octet, change)| *octet ^= change);
            }
        }
        octets.truncate(snap);
        let (secs, micros) = (1_700_000_000 + time_us / 1_000_000, time_us % 1_000_000);
        for word in [secs as u32, micros as u32, octets.len() as u32, frame.length.max(octets.len() as u32)] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&octets)?;
    }
    file.flush()
}
