//! How fast capture files are read.
//!
//! usage: `read_rate FILE... [--touch] [--filter EXPRESSION] [--times N]`, or `read_rate --make FILE PACKETS OCTETS`
//!
//! Reads the files N times (3 by default) and prints packets, octets and rates of each time. With `--touch`
//! the first 64 octets of every frame are added up, which brings them into the cache as a dissector would. `--make` writes
//! a pcap file of PACKETS UDP packets, whose frames have OCTETS octets.

#![expect(clippy::print_stderr, reason = "whoever runs it looks on")]

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use weir_capture::{FileOptions, FillOutcome, PacketBlock, PacketSource, WarningHandler, open_files};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Octets of a frame that a dissector usually reads.
const HEADER_OCTETS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = FileOptions::default();
    let (mut touch, mut times) = (false, 3);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--touch" => touch = true,
            "--filter" => options.filter = arguments.next(),
            "--make" => return make(&arguments.collect::<Vec<_>>()),
            "--times" => times = arguments.next().ok_or("--times needs a number")?.parse()?,
            _ => options.paths.push(argument.into()),
        }
    }
    for _ in 0..times {
        let warn: WarningHandler = std::sync::Arc::new(|line: &str| eprintln!("{line}"));
        let mut source = open_files(&options, &warn)?;
        let start = Instant::now();
        let (packets, sum) = drain(source.as_mut(), touch)?;
        let secs = start.elapsed().as_secs_f64();
        let counts = source.counts();
        println!(
            "{packets} packets, {} octets in {secs:.3} s: {:.1} M packets/s, {:.2} GB/s; {} filtered, sum {sum}",
            counts.octets_read,
            packets as f64 / secs / 1e6,
            counts.octets_read as f64 / secs / 1e9,
            counts.frames_filtered,
        );
    }
    Ok(())
}

/// Writes a file: name, packets, octets of a frame.
fn make(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let [path, packets, octets] = arguments else { return Err("--make needs a file, packets and octets".into()) };
    let (packets, octets): (u32, u32) = (packets.parse()?, octets.parse()?);
    let mut file = BufWriter::new(File::create(path)?);
    for number in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1_u32] {
        file.write_all(&number.to_le_bytes())?;
    }
    // Ethernet, IPv4 without a length and a checksum, UDP
    let mut frame = vec![0; octets.max(42) as usize];
    frame[..24].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    for number in 0..packets {
        frame[26..30].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
        frame[36..38].copy_from_slice(&53_u16.to_be_bytes());
        for field in [1_700_000_000 + number / 300_000, number % 300_000 * 3, frame.len() as u32, frame.len() as u32] {
            file.write_all(&field.to_le_bytes())?;
        }
        file.write_all(&frame)?;
    }
    Ok(file.flush()?)
}

/// Packets, and the sum of their first octets.
fn drain(source: &mut dyn PacketSource, touch: bool) -> Result<(u64, u64), Box<dyn Error>> {
    let mut block = PacketBlock::default();
    let (mut packets, mut sum) = (0, 0_u64);
    while source.fill(&mut block)? != FillOutcome::Ended {
        packets += block.packets().len() as u64;
        for packet in block.packets().iter().filter(|_| touch) {
            let frame = block.frame(packet);
            let header = &frame[..frame.len().min(HEADER_OCTETS)];
            sum = header.iter().fold(sum, |sum, octet| sum.wrapping_add(u64::from(*octet)));
        }
    }
    Ok((packets, sum))
}
