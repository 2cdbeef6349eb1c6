//! How long the transforms that change rows take for one: CPU time of the thread that calls them, rows made beforehand.
//! `cargo run --release -p weir-blocks --example change_speed [scene]`

use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use weir_blocks::transforms::{anonymise, dedup, enrich, stitch};
use weir_chain::{AnyKind, Built, Outlet, compliance};
use weir_flow::{Column, FlowBatchBuilder};

/// Rows of a run.
const ROWS: u64 = 3_000_000;
/// Rows of a burst.
const BURST_ROWS: u64 = 2048;
/// Flows in a millisecond of data time.
const FLOWS_PER_MS: u64 = 5;

fn main() {
    let chosen = std::env::args().nth(1);
    let folder = tempfile::tempdir().expect("a folder");
    for scene in scenes(folder.path()) {
        if chosen.as_ref().is_none_or(|chosen| scene.name.contains(chosen.as_str())) {
            run(&scene);
        }
    }
}

/// A kind of transform, its options, and the rows that it gets.
struct Scene {
    name: &'static str,
    kind: &'static dyn AnyKind,
    options: String,
    row: fn(u64) -> Row,
    /// Addresses replaced or looked up in a row.
    addresses: u64,
}

/// What differs between rows.
struct Row {
    exporter: u8,
    start: u64,
    src: Address,
    dst: Address,
    ports: (u16, u16),
}

enum Address {
    V4(u32),
    V6(u128),
}

fn scenes(folder: &Path) -> Vec<Scene> {
    let key = folder.join("key");
    std::fs::write(&key, [7; 32]).expect("a key");
    let pan = format!("key_file = '{}'\ncolumns = ['src_addr', 'dst_addr']", key.display());
    let labels = format!("labels = '{}'", prefixes(folder).display());
    let scene = |name, kind: &'static dyn AnyKind, options: &str, row, addresses| Scene {
        name,
        kind,
        options: options.to_owned(),
        row,
        addresses,
    };
    let truncate = "method = 'truncate'\ncolumns = ['src_addr', 'dst_addr']";
    vec![
        scene("anonymise, 100,000 IPv4 addresses", &anonymise::KIND, &pan, few_v4, 2),
        scene("anonymise, IPv4 addresses never seen", &anonymise::KIND, &pan, many_v4, 2),
        scene("anonymise, 30,000 IPv6 addresses", &anonymise::KIND, &pan, few_v6, 2),
        scene("anonymise, IPv6 addresses never seen", &anonymise::KIND, &pan, many_v6, 2),
        scene("anonymise by truncation", &anonymise::KIND, truncate, few_v4, 2),
        scene("enrich, 500,000 prefixes, 100,000 addresses", &enrich::KIND, &labels, few_v4, 2),
        scene("enrich, 500,000 prefixes, any address", &enrich::KIND, &labels, many_v4, 2),
        scene("dedup, seen by 3 exporters, 20 s", &dedup::KIND, "window = '20s'", seen_thrice, 0),
        scene("dedup, seen once, 60 s", &dedup::KIND, "window = '60s'", seen_once, 0),
        scene("stitch, both ways, 60 s", &stitch::KIND, "window = '60s'", both_ways, 0),
        scene("stitch, one way, 60 s", &stitch::KIND, "window = '60s'", seen_once, 0),
        scene("dedup, 60 s, starts out of order by 30 s", &dedup::KIND, "window = '60s'", out_of_order, 0),
    ]
}

/// Labels of 500,000 different prefixes, from 8 to 24 bits.
fn prefixes(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for number in 0..500_000u64 {
        let bits = if number < 200 { 8 + number % 8 } else { 24 };
        let first = (number.wrapping_mul(0x9e37_79b1) as u32) << (32 - bits);
        let address = std::net::Ipv4Addr::from(first);
        writeln!(text, "{address}/{bits},net-{}", number % 5000).expect("a string takes everything");
    }
    let unique: std::collections::BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(',')).collect();
    let lines: Vec<String> = unique.iter().map(|(prefix, label)| format!("{prefix},{label}")).collect();
    let path = folder.join("labels.csv");
    std::fs::write(&path, lines.join("\n")).expect("labels");
    path
}

/// Bits without order that follow from a number.
fn bits(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn flow(number: u64) -> Row {
    let bits = bits(number);
    let (src, dst) = (Address::V4(bits as u32), Address::V4((bits >> 32) as u32 | 1));
    Row { exporter: 1, start: number / FLOWS_PER_MS, src, dst, ports: (bits as u16 | 1024, (bits >> 16) as u16 & 1023) }
}

fn few_v4(number: u64) -> Row {
    let address = |side: u64| Address::V4(bits(bits(number * 2 + side) % 100_000) as u32);
    Row { src: address(0), dst: address(1), ..flow(number) }
}

fn many_v4(number: u64) -> Row {
    flow(number)
}

fn few_v6(number: u64) -> Row {
    let address = |side: u64| v6(bits(number * 2 + side) % 30_000);
    Row { src: address(0), dst: address(1), ..flow(number) }
}

fn many_v6(number: u64) -> Row {
    Row { src: v6(number * 2), dst: v6(number * 2 + 1), ..flow(number) }
}

/// One of 4000 networks, and any host.
fn v6(number: u64) -> Address {
    let bits = bits(number);
    Address::V6(0x2001_0db8 << 96 | u128::from(bits % 4000) << 64 | u128::from(bits))
}

fn seen_once(number: u64) -> Row {
    flow(number)
}

/// Flows come when they have ended, so those of 30 seconds come together.
fn out_of_order(number: u64) -> Row {
    let flow = flow(number);
    Row { start: flow.start + 30_000 - bits(number) % 30_000, ..flow }
}

/// Each exporter tells a second's flows later than the one before it.
fn seen_thrice(number: u64) -> Row {
    let (exporter, position) = (number % 3, number / 3);
    let flow_number = position.saturating_sub(exporter * FLOWS_PER_MS * 1000);
    let flow = flow(flow_number);
    Row { exporter: exporter as u8, start: flow.start + exporter * 3, ..flow }
}

/// The answer comes half a second's flows after the request.
fn both_ways(number: u64) -> Row {
    let position = number / 2;
    if number.is_multiple_of(2) {
        return flow(position);
    }
    let flow = flow(position.saturating_sub(FLOWS_PER_MS * 500));
    Row { start: flow.start + 2, src: flow.dst, dst: flow.src, ports: (flow.ports.1, flow.ports.0), ..flow }
}

fn batch(numbers: std::ops::Range<u64>, row: fn(u64) -> Row) -> RecordBatch {
    let rows: Vec<Row> = numbers.map(row).collect();
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    let time = |row: &Row| 1_700_000_000_000 + row.start as i64;
    builder.time(Column::Start).extend(rows.iter().map(time));
    builder.time(Column::End).extend(rows.iter().map(|row| time(row) + 500));
    builder.address(Column::Exporter).extend_fixed(rows.iter().map(|row| [10, 0, 0, row.exporter]));
    for row in &rows {
        put(&mut builder, Column::SrcAddr, &row.src);
        put(&mut builder, Column::DstAddr, &row.dst);
    }
    builder.u16(Column::SrcPort).extend(rows.iter().map(|row| row.ports.0));
    builder.u16(Column::DstPort).extend(rows.iter().map(|row| row.ports.1));
    builder.u8(Column::Protocol).repeat(6, rows.len());
    builder.u16(Column::TcpFlags).repeat(0x1b, rows.len());
    builder.u64(Column::Packets).extend(rows.iter().map(|row| u64::from(row.ports.0)));
    builder.u64(Column::Bytes).extend(rows.iter().map(|row| u64::from(row.ports.0) * 700));
    builder.u32(Column::InIf).repeat(3, rows.len());
    builder.finish().record_batch().clone()
}

fn put(builder: &mut FlowBatchBuilder, column: Column, address: &Address) {
    match address {
        Address::V4(address) => builder.address(column).push(Some(&address.to_be_bytes())),
        Address::V6(address) => builder.address(column).push(Some(&address.to_be_bytes())),
    }
}

fn run(scene: &Scene) {
    let starts = (0..ROWS).step_by(BURST_ROWS as usize);
    let batches: Vec<_> = starts.map(|from| batch(from..ROWS.min(from + BURST_ROWS), scene.row)).collect();
    let (Built::Transform(mut block), context) = compliance::open(scene.kind, &scene.options) else {
        panic!("{} is no block between source and sink", scene.kind.name())
    };
    let mut out = Outlet::new();
    let (mut handed_on, mut octets_max, mut rows_max) = (0, 0, 0);
    let before = cpu_ns();
    for batch in &batches {
        block.take(0, batch.clone(), &mut out).expect("rows");
        handed_on += out.drain().map(|burst| black_box(burst).len()).sum::<usize>();
        let window = block.state();
        (octets_max, rows_max) = (octets_max.max(window.octets), rows_max.max(window.rows));
    }
    block.finish(&mut out).expect("the end");
    handed_on += out.drain().map(|burst| black_box(burst).len()).sum::<usize>();
    let spent = cpu_ns() - before;
    let per_row = spent as f64 / ROWS as f64;
    print!("{:<46} {per_row:7.1} ns/row", scene.name);
    if scene.addresses > 0 {
        print!(" {:6.1} million addresses/s", scene.addresses as f64 * 1000.0 / per_row);
    } else {
        print!(" {handed_on} of {ROWS} rows out, at most {rows_max} held in {} MiB", octets_max >> 20);
    }
    let counters = context.counters.read();
    println!("; {:?}", counters.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>());
}

/// Nanoseconds of CPU that this thread has had.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}
