//! What inspection costs per packet: `inspect_rate ROUNDS CAPTURE...`.
//!
//! Reads the packets of captures into memory, deals them out to flows by their Flow Keys, and then inspects all flows so
//! many times, packet by packet in the order of capture. Prints the best round: nanoseconds for each packet with payload
//! that is given, for each one that is looked at, and for each flow, with begin and conclusion.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use weir_capture::{CaptureReader, Input, PacketBlock};
use weir_meter::application::{Counts, Direction, Inspection, Inspector, Limits, Verdict};
use weir_wire::packet::{LinkType, dissect};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Protocol and ends of a flow, the lower one first.
type Key = (u8, (Vec<u8>, u16), (Vec<u8>, u16));

/// A packet's flow, direction, sequence number of TCP and payload.
type Inspected = (usize, Direction, Option<u32>, Vec<u8>);

/// A flow's protocol and ports, and packets.
#[derive(Default)]
struct Traffic {
    flows: Vec<(u8, u16, u16)>,
    packets: Vec<Inspected>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rounds, captures @ ..] = &arguments[..] else {
        return Err("usage: inspect_rate ROUNDS CAPTURE...".into());
    };
    let mut traffic = Traffic::default();
    for capture in captures {
        read(Path::new(capture), &mut traffic)?;
    }
    let (mut best, mut counts) = (Duration::MAX, Counts::default());
    for _ in 0..rounds.parse()? {
        let start = Instant::now();
        counts = inspect(&traffic);
        best = best.min(start.elapsed());
    }
    let nanoseconds = |parts: u64| best.as_nanos() as f64 / parts.max(1) as f64;
    let octets: usize = traffic.packets.iter().map(|packet| packet.3.len()).sum();
    println!("{} packets with payload of {} flows, {octets} octets", traffic.packets.len(), traffic.flows.len());
    println!("{counts:?}");
    println!(
        "{:.0} ns a packet given, {:.0} ns a packet looked at, {:.0} ns a flow",
        nanoseconds(traffic.packets.len() as u64),
        nanoseconds(counts.packets),
        nanoseconds(counts.flows)
    );
    Ok(())
}

/// Inspects all flows once.
fn inspect(traffic: &Traffic) -> Counts {
    let mut inspector = Inspector::new(Limits::default());
    let mut inspections: Vec<Option<Box<Inspection>>> = traffic.flows.iter().map(|_| None).collect();
    let mut done = vec![false; traffic.flows.len()];
    for (flow, direction, sequence, payload) in &traffic.packets {
        if done[*flow] {
            continue;
        }
        let (protocol, source, destination) = traffic.flows[*flow];
        let inspection =
            inspections[*flow].get_or_insert_with(|| Box::new(Inspection::new(protocol, source, destination)));
        done[*flow] = inspector.inspect(inspection, *direction, *sequence, payload) == Verdict::Done;
    }
    for inspection in inspections.into_iter().flatten() {
        std::hint::black_box(inspector.conclude(*inspection));
    }
    inspector.counts()
}

/// Adds the packets of a capture.
fn read(path: &Path, traffic: &mut Traffic) -> Result<(), Box<dyn std::error::Error>> {
    let mut reader = CaptureReader::open(Input::open(path)?)?;
    let (mut block, mut places) = (PacketBlock::default(), HashMap::new());
    loop {
        let result = reader.fill(&mut block);
        for packet in block.packets() {
            add(packet.link, block.frame(packet), &mut places, traffic);
        }
        if result.is_err() || block.packets().is_empty() {
            return Ok(());
        }
    }
}

fn add(link: LinkType, frame: &[u8], places: &mut HashMap<Key, (usize, Vec<u8>, u16)>, traffic: &mut Traffic) {
    let packet = dissect(link, frame);
    let headers = packet.innermost();
    let (Some(ip), Some((from, to))) = (headers.ip, headers.ports) else { return };
    if headers.payload().is_empty() || !matches!(ip.protocol, 6 | 17) {
        return;
    }
    let (source, destination) = ((ip.source.to_vec(), from), (ip.destination.to_vec(), to));
    let key = (ip.protocol, source.clone().min(destination.clone()), source.max(destination));
    let (flow, first, port) = places.entry(key).or_insert_with(|| {
        traffic.flows.push((ip.protocol, from, to));
        (traffic.flows.len() - 1, ip.source.to_vec(), from)
    });
    let forward = first == ip.source && *port == from;
    let direction = if forward { Direction::Forward } else { Direction::Reverse };
    traffic.packets.push((*flow, direction, headers.tcp_sequence(), headers.payload().to_vec()));
}
