//! Up to when packets are in flows that were handed on, while more flows end than a batch has.

use std::net::Ipv4Addr;
use std::sync::Arc;

use weir_capture::{FileOptions, WarningHandler, open_files};
use weir_flow::Column;
use weir_flow::address::to_ip;
use weir_meter::{MeterOptions, Metering, Step, Timeouts};

const PACKETS: u32 = 300_000;
const PACKETS_PER_SECOND: u32 = 1000;

/// A capture (pcap, little endian, microseconds) of datagrams of UDP, each of a host of its own. The first may be a fragment
/// whose packet has no other.
fn capture(begins_with_fragment: bool) -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend(0xa1b2_c3d4_u32.to_le_bytes());
    octets.extend([2_u16, 4].into_iter().flat_map(u16::to_le_bytes));
    octets.extend([0_u32, 0, 65_535, 1].into_iter().flat_map(u32::to_le_bytes));
    for number in 0..PACKETS {
        let offset = u8::from(begins_with_fragment && number == 0);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 1, 0, offset, 64, 17, 0, 0];
        frame.extend(Ipv4Addr::from(0x0a00_0000 + number).octets());
        frame.extend([192, 0, 2, 1, 4, 0, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        let micros = number % PACKETS_PER_SECOND * (1_000_000 / PACKETS_PER_SECOND);
        let length = frame.len() as u32;
        let header = [number / PACKETS_PER_SECOND, micros, length, length];
        octets.extend(header.into_iter().flat_map(u32::to_le_bytes));
        octets.extend(frame);
    }
    octets
}

/// Meters a capture, with a look at what is known as handed on after each step; gives the last of it before the end.
fn known_through_us(capture: Vec<u8>) -> i64 {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("packets.pcap");
    std::fs::write(&path, capture).expect("a capture");
    let tell: WarningHandler = Arc::new(|line: &str| panic!("{line}"));
    let source = open_files(&FileOptions { paths: vec![path], ..FileOptions::default() }, &tell).expect("a source");
    let timeouts = Timeouts { active_us: 5_000_000, idle_us: 1_000_000, ..Timeouts::default() };
    let (metering, mut workers) = Metering::new(&MeterOptions { timeouts, ..MeterOptions::default() }, vec![source], 1);
    let mut is_there = vec![false; PACKETS as usize];
    let (mut known, mut last_us) = (0, i64::MIN);
    loop {
        let step = workers[0].step(&mut |batch| {
            for address in batch.binary(Column::SrcAddr).expect("addresses") {
                let Some(std::net::IpAddr::V4(address)) = address.and_then(to_ip) else { panic!("no address") };
                is_there[(u32::from(address) - 0x0a00_0000) as usize] = true;
            }
        });
        if step == Step::Ended {
            break;
        }
        let through_us = metering.handed_on_through_us();
        last_us = last_us.max(through_us);
        while known < is_there.len() && known as i64 * 1_000_000 / i64::from(PACKETS_PER_SECOND) <= through_us {
            assert!(is_there[known], "packet {known} is in no flow that was handed on, and through is {through_us}");
            known += 1;
        }
    }
    assert!(is_there.iter().all(|is_there| *is_there));
    last_us
}

#[test]
fn what_was_handed_on_is_known_while_flows_wait_for_batches() {
    let last_us = known_through_us(capture(false));
    // all but the timeouts and a batch
    assert!(last_us > 250_000_000, "known through {last_us} µs of 300 s");
}

/// It is held for a minute of packets, and then counted in a flow without ports.
#[test]
fn a_fragment_without_others_holds_up_what_is_known_for_its_time_only() {
    let last_us = known_through_us(capture(true));
    assert!(last_us > 250_000_000, "known through {last_us} µs of 300 s");
}
