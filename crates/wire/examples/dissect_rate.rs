//! How many packets a second one core dissects from memory.
//!
//! `cargo run --release -p weir-wire --example dissect_rate`
//!
//! 4,096 different frames of each kind are dissected again and again, and what was found is added up so that nothing of
//! it can be left out.

use std::hint::black_box;
use std::time::Instant;

use weir_wire::packet::{LinkType, Packet, dissect_into};

const FRAMES: u32 = 4_096;
const ROUNDS: u32 = 10;
/// Runs, of which the median and the best are told: other programs on the machine only make a run slower.
const RUNS: usize = 301;

/// A small generator (`SplitMix64`), so that values differ from frame to frame.
struct Noise(u64);

impl Noise {
    fn octets<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (z ^ (z >> 27)) as u8
        })
    }
}

/// IPv4 and TCP with these addresses and ports.
fn ipv4_tcp(noise: &mut Noise) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 104, 0, 1, 0, 0, 64, 6, 0, 0];
    packet.extend(noise.octets::<8>());
    packet.extend(noise.octets::<12>());
    packet.extend([0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    packet.extend([0; 64]);
    packet
}

fn ethernet(ethertypes: &[u8], packet: &[u8], noise: &mut Noise) -> Vec<u8> {
    [&noise.octets::<12>(), ethertypes, packet].concat()
}

fn ipv6_udp(noise: &mut Noise) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 72, 17, 64];
    packet.extend(noise.octets::<32>());
    packet.extend(noise.octets::<2>());
    packet.extend([0, 53, 0, 72, 0, 0]);
    packet.extend([0; 64]);
    packet
}

fn vxlan(noise: &mut Noise) -> Vec<u8> {
    let inner = ipv4_tcp(noise);
    let inner = ethernet(&[8, 0], &inner, noise);
    let mut packet = vec![0x45, 0, 0, 154, 0, 1, 0, 0, 64, 17, 0, 0];
    packet.extend(noise.octets::<8>());
    packet.extend([4, 0, 0x12, 0xb5, 0, 134, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0]);
    packet.extend(inner);
    packet
}

fn measure(name: &str, frames: &[Vec<u8>]) {
    let (mut sum, mut packet) = (0_u64, Packet::default());
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for frame in (0..ROUNDS).flat_map(|_| frames) {
                dissect_into(LinkType::Ethernet, frame, &mut packet);
                // The whole packet is needed, and not only what is added up.
                let packet = black_box(&mut packet);
                let (source, destination) = packet.innermost().ports.unwrap_or_default();
                sum += u64::from(source) + u64::from(destination) + u64::from(packet.tunnels);
            }
            frames.len() as f64 * f64::from(ROUNDS) / began.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    assert!(sum > 0, "nothing was found");
    rates.sort_by(f64::total_cmp);
    println!("{name:<26} {:>7.2} M packets/s, best {:>7.2}", rates[RUNS / 2], rates[RUNS - 1]);
}

fn main() {
    let mut noise = Noise(1);
    let mut frames = |make: &dyn Fn(&mut Noise) -> Vec<u8>| (0..FRAMES).map(|_| make(&mut noise)).collect::<Vec<_>>();
    let tagged = |noise: &mut Noise| {
        let packet = ipv4_tcp(noise);
        ethernet(&[0x81, 0, 0, 100, 8, 0], &packet, noise)
    };
    measure("VLAN, IPv4, TCP", &frames(&tagged));
    let six = |noise: &mut Noise| {
        let packet = ipv6_udp(noise);
        ethernet(&[0x86, 0xdd], &packet, noise)
    };
    measure("IPv6, UDP", &frames(&six));
    let tunnelled = |noise: &mut Noise| {
        let packet = vxlan(noise);
        ethernet(&[8, 0], &packet, noise)
    };
    measure("IPv4, VXLAN, IPv4, TCP", &frames(&tunnelled));
}
