//! How many records a second one core decodes from memory into flow batches.
//!
//! `cargo run --release -p weir-collect --example decode_rate`
//!
//! 4,096 different datagrams of each protocol are decoded again and again for some seconds, and batches are taken
//! as a collector takes them. Everything that decoding costs is in it: templates, sequence numbers, books, columns.

use std::net::SocketAddr;
use std::time::Instant;

use weir_collect::{Decoder, Limits};
use weir_flow::Counter;
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix, netflow5, netflow9};

/// As in the `weir` binary: batches are large allocations that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DATAGRAMS: u32 = 4_096;
const ROUNDS: u32 = 60;
const EXPORT_SECS: u32 = 1_700_000_000;

/// A small generator (`SplitMix64`), so that values differ from record to record.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn octets(&mut self, length: u16) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// What routers send: the fields of NetFlow v5 as NetFlow v9 has them.
const NETFLOW9_FIELDS: &[(u16, u16)] = &[
    (8, 4),
    (12, 4),
    (15, 4),
    (10, 4),
    (14, 4),
    (2, 4),
    (1, 4),
    (22, 4),
    (21, 4),
    (7, 2),
    (11, 2),
    (6, 1),
    (4, 1),
    (5, 1),
    (16, 4),
    (17, 4),
    (9, 1),
    (13, 1),
    (61, 1),
];

/// The same with 64-bit counters and absolute times.
const IPFIX_FIELDS: &[(u16, u16)] = &[
    (8, 4),
    (12, 4),
    (15, 4),
    (10, 4),
    (14, 4),
    (2, 8),
    (1, 8),
    (152, 8),
    (153, 8),
    (7, 2),
    (11, 2),
    (6, 1),
    (4, 1),
    (5, 1),
    (16, 4),
    (17, 4),
    (9, 1),
    (13, 1),
    (61, 1),
];

fn template(fields: &[(u16, u16)]) -> Template {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    Template::new(TemplateId::new(256).expect("over 255"), fields, 0).expect("a template")
}

fn netflow5_datagram(number: u32, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let header = netflow5::Header {
        count: 0,
        sys_uptime_ms: 3_600_000,
        unix_secs: EXPORT_SECS,
        unix_nsecs: 0,
        flow_sequence: number * 30,
        engine_type: 0,
        engine_id: 0,
        sampling: 0,
    };
    netflow5::PacketBuilder::new(&mut out, &header).finish();
    out[2..4].copy_from_slice(&30_u16.to_be_bytes());
    out.extend(noise.octets(30 * 48));
    out
}

fn netflow9_datagram(number: u32, template: &Template, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let header = netflow9::Header {
        count: 0,
        sys_uptime_ms: 3_600_000,
        unix_secs: EXPORT_SECS,
        sequence: number,
        source_id: ObservationDomainId(1),
    };
    let mut message = netflow9::MessageBuilder::new(&mut out, &header).within(1400);
    if number == 0 {
        message.template(template).expect("fits");
    }
    let length = template.layout().min_record_len() as u16;
    while message.record(template, |out| out.extend(noise.octets(length))).is_ok() {}
    message.finish();
    out
}

fn ipfix_datagram(sequence: &mut u32, template: &Template, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let header =
        ipfix::Header { length: 0, export_time_secs: EXPORT_SECS, sequence: *sequence, domain: ObservationDomainId(1) };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header).within(1400);
    if *sequence == 0 {
        message.template(template).expect("fits");
    }
    let length = template.layout().min_record_len() as u16;
    while message.record(template, |out| out.extend(noise.octets(length))).is_ok() {}
    *sequence += message.finish().data_records;
    out
}

fn measure(name: &str, datagrams: &[Vec<u8>]) {
    let source = SocketAddr::from(([192, 0, 2, 1], 2055));
    let mut decoder = Decoder::new(Limits::default());
    let mut rows = 0;
    let began = Instant::now();
    for round in 0..ROUNDS {
        for datagram in datagrams {
            decoder.datagram(source, i64::from(EXPORT_SECS) * 1000 + i64::from(round), datagram);
            if decoder.rows() >= 32_768 {
                rows += decoder.take_delivery().rows();
            }
        }
    }
    rows += decoder.take_delivery().rows();
    let seconds = began.elapsed().as_secs_f64();
    assert_eq!(rows as u64, decoder.statistics().total(Counter::RecordsStored), "records went missing");
    let octets: usize = datagrams.iter().map(Vec::len).sum();
    println!(
        "{name:<10} {rows:>11} records {:>6.2} s {:>7.2} M records/s {:>8.1} MB/s",
        seconds,
        rows as f64 / seconds / 1e6,
        octets as f64 * f64::from(ROUNDS) / seconds / 1e6
    );
}

fn main() {
    let mut noise = Noise(1);
    let datagrams: Vec<_> = (0..DATAGRAMS).map(|number| netflow5_datagram(number, &mut noise)).collect();
    measure("v5", &datagrams);
    let nine = template(NETFLOW9_FIELDS);
    let datagrams: Vec<_> = (0..DATAGRAMS).map(|number| netflow9_datagram(number, &nine, &mut noise)).collect();
    measure("v9", &datagrams);
    let (ten, mut sequence) = (template(IPFIX_FIELDS), 0);
    let datagrams: Vec<_> = (0..DATAGRAMS).map(|_| ipfix_datagram(&mut sequence, &ten, &mut noise)).collect();
    measure("IPFIX", &datagrams);
}
