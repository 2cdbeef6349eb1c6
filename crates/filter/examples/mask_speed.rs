//! How fast masks are: nanoseconds per flow for some filters over a batch of 8192 flows, and how long a list of a
//! million addresses takes to load.
//!
//! ```sh
//! cargo run --release -p weir-filter --example mask_speed
//! ```

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Instant;

use weir_filter::{AddressSet, Predicate, Test, parse};
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

const ROWS: usize = 8192;
const ROUNDS: u32 = 2000;

/// A multiplicative hash: the same spread numbers in every run.
fn spread(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761)
}

/// One in eight addresses is IPv6 where both families are wanted.
fn flows(both_families: bool) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(ROWS);
    builder.begin_rows(ROWS);
    for (column, offset) in [(Column::SrcAddr, 0), (Column::DstAddr, ROWS)] {
        for i in offset..offset + ROWS {
            let v4 = spread(i).to_be_bytes();
            let v6 = (u128::from(spread(i)) | 0x2001_0db8 << 96).to_be_bytes();
            builder.address(column).push(Some(if both_families && i % 8 == 0 { &v6[..] } else { &v4 }));
        }
    }
    builder.u16(Column::SrcPort).extend((0..ROWS).map(|i| spread(i) as u16));
    builder.u16(Column::DstPort).extend((0..ROWS).map(|i| (spread(i) >> 8) as u16 % 1000));
    builder.u8(Column::Protocol).extend((0..ROWS).map(|i| if i % 3 == 0 { 17 } else { 6 }));
    builder.u16(Column::TcpFlags).extend((0..ROWS).map(|i| spread(i) as u16 & 63));
    builder.u64(Column::Packets).extend((0..ROWS).map(|i| u64::from(spread(i) % 1000)));
    builder.u64(Column::Bytes).extend((0..ROWS).map(|i| u64::from(spread(i) % 1_000_000)));
    builder.time(Column::Start).extend((0..ROWS).map(|i| 1_704_153_600_000 + i as i64));
    builder.time(Column::End).extend((0..ROWS).map(|i| 1_704_153_600_000 + i as i64 + i64::from(spread(i) % 5000)));
    builder.finish()
}

fn measure(name: &str, predicate: &Predicate, flows: &FlowBatch) -> std::io::Result<()> {
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        black_box(predicate.mask(black_box(flows)));
    }
    let nanoseconds = begin.elapsed().as_secs_f64() * 1e9 / (f64::from(ROUNDS) * ROWS as f64);
    let taken = predicate.mask(flows).true_count();
    writeln!(std::io::stdout(), "{nanoseconds:8.3} ns/flow  {taken:5} of {ROWS}  {name}")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (flows, mixed) = (flows(false), flows(true));
    for filter in [
        "proto tcp",
        "dst port 443",
        "bytes > 500k",
        "port in [53 80 443 8000-8999]",
        "src net 10.0.0.0/8",
        "ip in [10.0.0.0/8 172.16.0.0/12 192.168.0.0/16]",
        "flags S and not flags A",
        "pps > 100",
        "first seen > 2024-01-02T00:00:04",
        "proto tcp and dst port 443 and src net 10.0.0.0/8 and bytes > 10k",
    ] {
        measure(filter, &parse(filter).map_err(|error| error.render(filter))?, &flows)?;
    }
    for filter in ["ipv6", "src net 10.0.0.0/8", "src ip in [10.0.0.0/8 2001:db8::/64]"] {
        let predicate = parse(filter).map_err(|error| error.render(filter))?;
        measure(&format!("{filter}, both families"), &predicate, &mixed)?;
    }
    let mut list = String::new();
    for i in 0..1_000_000 {
        writeln!(list, "{}", std::net::Ipv4Addr::from_bits(spread(i * 2)))?;
    }
    let begin = Instant::now();
    let set = AddressSet::from_text_file(list.as_bytes())?;
    writeln!(std::io::stdout(), "{:8.3} s to load a million addresses", begin.elapsed().as_secs_f64())?;
    let predicate = Test::Address { column: Column::SrcAddr, set }.into();
    measure("src ip in [a million]", &predicate, &flows)?;
    measure("src ip in [a million], both families", &predicate, &mixed)?;
    Ok(())
}
