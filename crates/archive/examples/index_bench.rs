//! What the index of a segment costs and saves.
//!
//! `cargo run --release -p weir-archive --example index_bench -- [folder]`, on an archive as `seal_bench` leaves it.
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

use weir_archive::{SegmentIndex, Snapshot};
use weir_flow::{Column, FlowBatch, Table};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder")?;
    let snapshot = Snapshot::open(Path::new(&folder))?;
    for segment in snapshot.segments(Table::Flows) {
        let began = Instant::now();
        for _ in 0..100 {
            std::hint::black_box(segment.index()?);
        }
        let Some(index) = segment.index()? else { continue };
        println!(
            "{} rows, {} pages, {} octets; open {:?}",
            segment.rows,
            index.pages(),
            segment.octets,
            began.elapsed() / 100
        );
        let began = Instant::now();
        segment.check()?;
        println!("check {:?}", began.elapsed());
        hosts(&index, &segment.read()?)?;
        for (what, column, value) in [
            ("dst_port 22", Column::DstPort, 22),
            ("src_port 22", Column::SrcPort, 22),
            ("dst_port 8080", Column::DstPort, 8080),
            ("dst_port 51234", Column::DstPort, 51234),
            ("src_as 1234", Column::SrcAs, 1234),
            ("protocol 1", Column::Protocol, 1),
            ("in_if 3", Column::InIf, 3),
        ] {
            let began = Instant::now();
            println!("{what}: {} pages, {:?}", index.pages_of_numbers(column, value, value)?.count(), began.elapsed());
        }
    }
    Ok(())
}

fn hosts(index: &SegmentIndex, batches: &[arrow::array::RecordBatch]) -> Result<(), Box<dyn Error>> {
    let mut counts: HashMap<Vec<u8>, u32> = HashMap::new();
    for batch in batches {
        let batch = FlowBatch::try_new(batch.clone())?;
        for column in [Column::SrcAddr, Column::DstAddr] {
            batch
                .binary(column)
                .into_iter()
                .flatten()
                .flatten()
                .for_each(|host| *counts.entry(host.to_vec()).or_default() += 1);
        }
    }
    let mut hosts: Vec<_> = counts.into_iter().collect();
    hosts.sort_unstable_by_key(|(host, count)| (u32::MAX - count, host.clone()));
    let the = hosts.iter().position(|host| host.1 < 5726).unwrap_or(0);
    for rank in [0, 10, the, 1000, 10_000, 100_000] {
        let Some((host, count)) = hosts.get(rank) else { continue };
        let began = Instant::now();
        let mut pages = index.pages_of_addresses(Column::SrcAddr, host, host)?;
        pages.or(&index.pages_of_addresses(Column::DstAddr, host, host)?);
        println!("host of rank {rank} with {count} flows: {} pages, {:?}", pages.count(), began.elapsed());
    }
    Ok(())
}
