//! The whole `Decoder` over datagrams of several exporters and domains: options, lists, type records, samplers, templates that
//! come and go. What must hold besides no panic: the books balance, and an octet costs no more time and memory than it may.

use std::net::SocketAddr;
use std::time::Duration;

use weir_collect::{Decoder, Limits};
use weir_flow::books::{BooksSums, balance};

use crate::cost;

/// What decoding may take with the checks and the sanitizer of these builds, in which ordinary records take a
/// fiftieth of it, for each octet and to begin with.
const OCTET_TIME: Duration = Duration::from_micros(10);
const BASE_TIME: Duration = Duration::from_millis(100);
/// What may be kept or handed on for each octet, and to begin with: 8 times what ordinary records take, and what the
/// builders of a delivery reserve.
const OCTET_MEMORY: usize = 40;
const BASE_MEMORY: usize = 32 << 20;
const RECEIVED_MS: i64 = 1_700_000_010_000;

/// Datagrams with the ports that they come from. Each begins with an octet for the port and what becomes of its header, and
/// two for its length.
fn datagrams(mut input: &[u8]) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut datagrams = Vec::new();
    while let [how, high, low, rest @ ..] = input {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (payload, after) = rest.split_at(length);
        let mut payload = payload.to_vec();
        // one in two has the length and the number that it should have, or little would ever be decoded
        if how & 8 != 0 && payload.len() >= 16 && payload[..2] == [0, 10] {
            payload[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            payload[8..12].copy_from_slice(&(datagrams.len() as u32).to_be_bytes());
        }
        datagrams.push((SocketAddr::from(([192, 0, 2, 1 + (how >> 6)], 1 + u16::from(how & 7))), payload));
        input = after;
    }
    datagrams
}

/// Decodes all datagrams; returns the time of the processor that it took, and the octets of memory.
fn decode(datagrams: &[(SocketAddr, Vec<u8>)], across_ports: bool) -> (Duration, usize, u64) {
    let mut decoder = Decoder::new(Limits::default()).with_sequences([]);
    if across_ports {
        decoder = decoder.with_templates_across_ports();
    }
    let (mut sums, mut most, mut took, mut records) = (BooksSums::default(), 0, Duration::ZERO, 0);
    let mut take = |decoder: &mut Decoder| {
        let mut octets = decoder.statistics().octets_kept;
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break octets;
            }
            if let Some(flows) = &delivery.flows {
                records += flows.rows() as u64;
                octets += flows.record_batch().get_array_memory_size();
            }
            delivery.books().iter().for_each(|books| sums.add(books, i64::MIN, i64::MAX));
            octets += delivery.side_tables.batches().map(|(_, rows)| rows.get_array_memory_size()).sum::<usize>();
        }
    };
    for (number, (source, payload)) in datagrams.iter().enumerate() {
        let began = cost::now();
        decoder.datagram(*source, RECEIVED_MS + number as i64, payload);
        took += cost::now().saturating_sub(began);
        if decoder.is_full() {
            most = most.max(take(&mut decoder));
        }
    }
    decoder.expire(RECEIVED_MS + 86_400_000);
    most = most.max(take(&mut decoder));
    assert_eq!(balance(&sums.totals()), Ok(()), "the books balance");
    (took, most, records)
}

/// Decodes datagrams within the time and memory that their octets may cost.
pub(crate) fn decoder(input: &[u8]) {
    let datagrams = datagrams(input);
    let across_ports = input.first().is_some_and(|how| how & 16 != 0);
    let octets: usize = datagrams.iter().map(|(_, payload)| payload.len()).sum();
    let (took, memory, records) = decode(&datagrams, across_ports);
    let time_max = BASE_TIME + OCTET_TIME * octets as u32;
    assert!(took <= time_max, "{took:?} for {octets} octets");
    let memory_max = BASE_MEMORY + OCTET_MEMORY * octets;
    assert!(memory <= memory_max, "{memory} octets of memory for {octets}");
    #[cfg(feature = "canary")]
    assert!(records < 2, "the canary was found");
    #[cfg(not(feature = "canary"))]
    let _ = records;
}
