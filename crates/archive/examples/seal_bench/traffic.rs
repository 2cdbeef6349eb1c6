//! Flows drawn independently of each other, as exporters of `NetFlow` v5 would tell them.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

const ROWS_PER_DATAGRAM: usize = 30;
const DATAGRAMS_PER_BATCH: usize = 273;
const FIRST_RECEIVED_MS: i64 = 1_763_683_300_000;

/// Spreads a number over 64 bits (the finisher of `SplitMix64`).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) struct Traffic {
    random: Xoshiro256PlusPlus,
    received_ms: i64,
}

#[derive(Clone, Copy)]
struct Flow {
    start: i64,
    end: i64,
    addresses: [u32; 2],
    ports: [u16; 2],
    protocol: u8,
    flags: u8,
    tos: u8,
    packets: u64,
    bytes: u64,
}

impl Traffic {
    pub(crate) fn new() -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(1), received_ms: FIRST_RECEIVED_MS }
    }

    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.uniform() * limit as f64) as u64
    }

    /// Ranks 1 to `count` by Zipf's law with exponent 1.
    fn zipf(&mut self, count: u64) -> u64 {
        (count as f64).powf(self.uniform()) as u64
    }

    fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        median * (sigma * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()).exp()
    }

    fn service(&mut self) -> (u8, u16) {
        match self.below(1000) {
            0..420 => (if self.below(4) == 0 { 17 } else { 6 }, 443),
            420..600 => (17, 53),
            600..690 => (6, 80),
            690..699 => (6, 22),
            699..720 => (17, 123),
            720..740 => (1, 0),
            740..900 => (6, self.zipf(10_000) as u16),
            _ => (17, self.zipf(60_000) as u16),
        }
    }

    fn address(&mut self, side: u64) -> u32 {
        // A tenth of the ranks are servers; every rank lies in one of 40,000 prefixes of 24 bits.
        let rank = self.zipf(if side == 0 { 1_000_000 } else { 100_000 });
        let prefix = mix(rank / 8 % 40_000) as u32 & 0xffff_ff00;
        prefix | (mix(rank) as u32 & 0xff)
    }

    fn flow(&mut self) -> Flow {
        let (protocol, service) = self.service();
        let client = if protocol == 1 { self.below(2) as u16 * 2048 } else { 1024 + self.below(64_512) as u16 };
        let packets = (self.log_normal(4.0, 1.4) as u64).max(1);
        let octets_each = self.log_normal(180.0, 0.9).clamp(40.0, 1500.0);
        let duration = if packets == 1 { 0 } else { self.log_normal(500.0, 2.0).min(60_000.0) as i64 };
        let idle = if protocol == 6 && self.below(10) < 7 { 1_000 } else { 15_000 };
        let end = self.received_ms - 1 - self.below(idle) as i64;
        let flags = match (protocol, self.below(10)) {
            (6, 0..6) => 0x1b,
            (6, 6) => 0x02,
            (6, 7) => 0x18,
            (6, 8) => 0x12,
            (6, _) => 0x1f,
            _ => 0,
        };
        let mut flow = Flow {
            start: end - duration,
            end,
            addresses: [self.address(0), self.address(1)],
            ports: [client, service],
            protocol,
            flags,
            tos: if self.below(10) == 0 { 0x28 } else { 0 },
            packets,
            bytes: (packets as f64 * octets_each) as u64,
        };
        if self.below(2) == 0 {
            flow.addresses.reverse();
            flow.ports.reverse();
        }
        flow
    }

    pub(crate) fn batch(&mut self) -> FlowBatch {
        let mut builder = FlowBatchBuilder::new(ROWS_PER_DATAGRAM * DATAGRAMS_PER_BATCH);
        for _ in 0..DATAGRAMS_PER_BATCH {
            self.received_ms += 1;
            let flows: [Flow; ROWS_PER_DATAGRAM] = std::array::from_fn(|_| self.flow());
            let exporter = self.below(4) as u8;
            add_datagram(&mut builder, self.received_ms, exporter, &flows);
        }
        builder.finish()
    }
}

fn add_datagram(builder: &mut FlowBatchBuilder, received_ms: i64, exporter: u8, flows: &[Flow]) {
    let rows = flows.len();
    let system = |address: u32| ((60_000f64).powf(mix(u64::from(address >> 12)) as f64 / u64::MAX as f64)) as u32;
    let mask = |address: u32| [16u8, 20, 22, 24, 24, 19, 14, 24][(mix(u64::from(address >> 8)) & 7) as usize];
    builder.begin_rows(rows);
    builder.time(Column::Received).repeat(received_ms, rows);
    builder.time(Column::Start).extend(flows.iter().map(|flow| flow.start));
    builder.time(Column::End).extend(flows.iter().map(|flow| flow.end));
    builder.address(Column::Exporter).repeat(&[192, 0, 2, exporter], rows);
    builder.u32(Column::ObservationDomain).repeat(u32::from(exporter), rows);
    builder.u8(Column::ExportVersion).repeat(5, rows);
    builder.address(Column::SrcAddr).extend_fixed(flows.iter().map(|flow| flow.addresses[0].to_be_bytes()));
    builder.address(Column::DstAddr).extend_fixed(flows.iter().map(|flow| flow.addresses[1].to_be_bytes()));
    builder.u16(Column::SrcPort).extend(flows.iter().map(|flow| flow.ports[0]));
    builder.u16(Column::DstPort).extend(flows.iter().map(|flow| flow.ports[1]));
    builder.u8(Column::Protocol).extend(flows.iter().map(|flow| flow.protocol));
    builder.u16(Column::TcpFlags).extend(flows.iter().map(|flow| u16::from(flow.flags)));
    builder.u8(Column::Tos).extend(flows.iter().map(|flow| flow.tos));
    builder.u64(Column::Packets).extend(flows.iter().map(|flow| flow.packets));
    builder.u64(Column::Bytes).extend(flows.iter().map(|flow| flow.bytes));
    let hop = |flow: &Flow| [192, 0, 2, 100 + (mix(u64::from(flow.addresses[1] >> 12)) & 7) as u8];
    builder.address(Column::NextHop).extend_fixed(flows.iter().map(hop));
    let interface = |address: u32| (mix(u64::from(address >> 12)) >> 8) as u32 % 20;
    builder.u32(Column::InIf).extend(flows.iter().map(|flow| interface(flow.addresses[0])));
    builder.u32(Column::OutIf).extend(flows.iter().map(|flow| interface(flow.addresses[1])));
    builder.u32(Column::SrcAs).extend(flows.iter().map(|flow| system(flow.addresses[0])));
    builder.u32(Column::DstAs).extend(flows.iter().map(|flow| system(flow.addresses[1])));
    builder.u8(Column::SrcMask).extend(flows.iter().map(|flow| mask(flow.addresses[0])));
    builder.u8(Column::DstMask).extend(flows.iter().map(|flow| mask(flow.addresses[1])));
    builder.u8(Column::EngineType).repeat(0, rows);
    builder.u8(Column::EngineId).repeat(exporter, rows);
}
