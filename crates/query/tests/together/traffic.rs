//! Deliveries that can be told from their positions.

use weir_flow::{BooksBatch, BooksRow, Column, Counter, Delivery, FlowBatchBuilder, SideTables};

/// Flows of a delivery.
pub(crate) const ROWS: u64 = 60;
/// The newest deliveries, which no limit of size reaches.
pub(crate) const KEPT: u64 = 200;
/// Hosts that are sources.
pub(crate) const HOSTS: u64 = 700;
/// Time that a delivery is about.
pub(crate) const DELIVERY_MS: i64 = 20_000;
/// Half an hour before a midnight, and the start of a minute.
const FIRST_MS: i64 = 1_763_683_200_000 - 1_800_000;
const PORTS: [u16; 5] = [22, 53, 80, 123, 443];

/// A flow, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) number: u64,
    pub(crate) start_ms: i64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) port: u16,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// A number that looks like chance.
fn mixed(number: u64) -> u64 {
    let mixed = (number ^ (number >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
}

pub(crate) fn flow(number: u64) -> Flow {
    let (position, row, chance) = (number / ROWS, (number % ROWS) as i64, mixed(number));
    let packets = 1 + chance % 50;
    Flow {
        number,
        start_ms: time_of(position) + row * DELIVERY_MS / ROWS as i64,
        src: 0x0a00_0000 + (chance % HOSTS * 3) as u32,
        dst: 0xc0a8_0000 + (chance >> 10 & 0xfff) as u32,
        port: PORTS[(chance >> 24) as usize % PORTS.len()],
        packets,
        bytes: packets * (40 + (chance >> 5) % 1400),
    }
}

/// The flows of these deliveries.
pub(crate) fn flows(positions: std::ops::Range<u64>) -> impl Iterator<Item = Flow> {
    (positions.start * ROWS..positions.end * ROWS).map(flow)
}

/// First millisecond of a delivery.
pub(crate) fn time_of(position: u64) -> i64 {
    FIRST_MS + position as i64 * DELIVERY_MS
}

/// The delivery of this position: flows, and one row of the books that counts them.
pub(crate) fn delivery(position: u64) -> Delivery {
    let rows: Vec<Flow> = flows(position..position + 1).collect();
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    builder.time(Column::Received).extend(rows.iter().map(|flow| flow.start_ms));
    builder.time(Column::Start).extend(rows.iter().map(|flow| flow.start_ms));
    builder.time(Column::End).extend(rows.iter().map(|flow| flow.start_ms));
    builder.u64(Column::FlowId).extend(rows.iter().map(|flow| flow.number));
    builder.address(Column::SrcAddr).extend_fixed(rows.iter().map(|flow| flow.src.to_be_bytes()));
    builder.address(Column::DstAddr).extend_fixed(rows.iter().map(|flow| flow.dst.to_be_bytes()));
    builder.u16(Column::DstPort).extend(rows.iter().map(|flow| flow.port));
    builder.u64(Column::Packets).extend(rows.iter().map(|flow| flow.packets));
    builder.u64(Column::Bytes).extend(rows.iter().map(|flow| flow.bytes));
    let mut counts = [0; Counter::COUNT];
    counts[Counter::RecordsStored as usize] = ROWS;
    let minute_ms = time_of(position).div_euclid(60_000) * 60_000;
    let row = BooksRow { minute_ms, exporter: None, observation_domain: None, export_version: None, counts };
    let side_tables = SideTables { books: Some(BooksBatch::from_rows(&[row])), ..SideTables::default() };
    Delivery { flows: Some(builder.finish()), side_tables }
}
