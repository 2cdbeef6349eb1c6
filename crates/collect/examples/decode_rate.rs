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
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, fixed, ipfix, netflow5, netflow9};

/// As in the `weir` binary: batches are large allocations that come and go.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DATAGRAMS: u32 = 4_096;
const ROUNDS: u32 = 60;
const EXPORT_SECS: u32 = 1_700_000_000;
const UPTIME_MS: u32 = 3_600_000;

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

    /// A record of noise, but for its times, which begin at this octet: flows of the last minute, as exporters tell them.
    fn record(&mut self, length: u16, times_at: usize, export: u64, time_len: usize) -> Vec<u8> {
        let mut record = self.octets(length);
        let end = export - self.next() % 15_000;
        let start = end - self.next() % 45_000;
        for (number, time) in [start, end].into_iter().enumerate() {
            let at = times_at + number * time_len;
            record[at..at + time_len].copy_from_slice(&time.to_be_bytes()[8 - time_len..]);
        }
        record
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
    let header = fixed::Header {
        count: 0,
        sys_uptime_ms: UPTIME_MS,
        unix_secs: EXPORT_SECS,
        unix_nsecs: 0,
        flow_sequence: number * 30,
        engine_type: 0,
        engine_id: 0,
        sampling: 0,
    };
    fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &header).finish();
    out[2..4].copy_from_slice(&30_u16.to_be_bytes());
    for _ in 0..30 {
        out.extend(noise.record(48, 24, UPTIME_MS.into(), 4));
    }
    out
}

fn netflow9_datagram(number: u32, template: &Template, noise: &mut Noise) -> Vec<u8> {
    let mut out = Vec::new();
    let header = netflow9::Header {
        count: 0,
        sys_uptime_ms: UPTIME_MS,
        unix_secs: EXPORT_SECS,
        sequence: number,
        source_id: ObservationDomainId(1),
    };
    let mut message = netflow9::MessageBuilder::new(&mut out, &header).within(1400);
    if number == 0 {
        message.template(template).expect("fits");
    }
    let length = template.layout().min_record_len() as u16;
    while message.record(template, |out| out.extend(noise.record(length, 28, UPTIME_MS.into(), 4))).is_ok() {}
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
    let export_ms = u64::from(EXPORT_SECS) * 1000;
    while message.record(template, |out| out.extend(noise.record(length, 36, export_ms, 8))).is_ok() {}
    *sequence += message.finish().data_records;
    out
}

/// What switches send: seven samples of packets with a VLAN tag, IPv4 and TCP, of each 128 octets and the VLAN.
fn sflow_datagram(number: u32, noise: &mut Noise) -> Vec<u8> {
    let words = |out: &mut Vec<u8>, words: &[u32]| out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    let mut out = Vec::new();
    words(&mut out, &[5, 1, 0xc000_0201, 0, number, 3_600_000, 7]);
    for sample in 0..7 {
        let interface = 1 + noise.next() as u32 % 48;
        words(&mut out, &[1, 208, number * 7 + sample, 17, 1_000, 0, 0, interface, 1 + noise.next() as u32 % 48, 2]);
        words(&mut out, &[1001, 16, 100, 0, 100, 0]);
        words(&mut out, &[1, 144, 1, 1_518, 4, 128]);
        out.extend(noise.octets(12));
        out.extend([0x81, 0, 0, 100, 8, 0, 0x45, 0, 5, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        out.extend(noise.octets(8 + 12));
        out.extend([0x50, 0x10]);
        out.extend(noise.octets(128 - 52));
    }
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
    let datagrams: Vec<_> = (0..DATAGRAMS).map(|number| sflow_datagram(number, &mut noise)).collect();
    measure("sFlow", &datagrams);
}
