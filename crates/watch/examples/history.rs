//! Writes an archive of five weeks of flows, and measures how fast it takes them in batches of different sizes.
//!
//! usage: history FOLDER [--flows N] [--batch N]
//!
//! The weeks have the proportions of the trace of Reiss et al. (2006): 49.3, 17.8, 22.3, 11.4 and 20.3 million records.
//! Batches of more than 8,000,000 flows, which no frame takes, are appended in parts of so many.
//! `received` runs through the five weeks up to 2026-02-05; hosts are drawn by a power law from some 220,000.

use std::path::Path;
use std::time::Instant;

use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};

const WEEK_MS: f64 = 604_800_000.0;
const WEEKS: [f64; 5] = [49.3, 17.8, 22.3, 11.4, 20.3];
/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

/// Most flows that are made at once.
const PART_ROWS_MAX: usize = 8_000_000;

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn host(&mut self) -> u32 {
        let unit = (self.next() % 1_000_003) as f64 / 1_000_003.0;
        (220_000.0 * unit.powi(4)) as u32
    }
}

/// When a flow of this number was received.
fn received_ms(number: usize, total: usize) -> i64 {
    let sum: f64 = WEEKS.iter().sum();
    let mut left = number as f64 / total as f64 * sum;
    for (week, flows) in WEEKS.iter().enumerate() {
        if left < *flows {
            return START_MS + ((week as f64 + left / flows) * WEEK_MS) as i64;
        }
        left -= flows;
    }
    START_MS + (WEEKS.len() as f64 * WEEK_MS) as i64 - 1
}

fn batch(from: usize, rows: usize, total: usize, random: &mut Random) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    builder.address(Column::Exporter).repeat(&[192, 0, 2, 1], rows);
    for number in from..from + rows {
        let received_ms = received_ms(number, total);
        let (inside, outside) = (0x0A00_0000 | random.host(), 0x5000_0000 + random.host());
        let (src, dst) = if number % 2 == 0 { (inside, outside) } else { (outside, inside) };
        let duration_ms = (random.next() % 60_000) as i64;
        builder.time(Column::Received).push(Some(received_ms));
        builder.time(Column::Start).push(Some(received_ms - duration_ms));
        builder.time(Column::End).push(Some(received_ms));
        builder.address(Column::SrcAddr).push(Some(&src.to_be_bytes()));
        builder.address(Column::DstAddr).push(Some(&dst.to_be_bytes()));
        builder.u16(Column::SrcPort).push(Some((random.next() % 60_000) as u16));
        builder.u16(Column::DstPort).push(Some([443, 80, 53, 22][number % 4]));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(1 + random.next() % 20));
        builder.u64(Column::Bytes).push(Some(40 + random.next() % 1_400));
    }
    builder.finish()
}

/// Appends a delivery as the sink of a chain does: in halves where it is too large for one frame.
fn append(writer: &mut Writer, delivery: &Delivery) {
    match writer.append(delivery.clone()) {
        Err(error) if error.is_too_large() => {
            for half in &delivery.halves().expect("rows") {
                append(writer, half);
            }
        }
        done => drop(done.expect("appended")),
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let folder = words.next().expect("a folder");
    let (mut total, mut batch_rows) = (121_100_000, 32_768);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|text| text.parse().ok()).expect("a number");
        match word.as_str() {
            "--flows" => total = number,
            "--batch" => batch_rows = number,
            other => panic!("what is {other}?"),
        }
    }
    let mut random = Random(7);
    let (mut writer, _) = Writer::open(Path::new(&folder), ArchiveOptions::default()).expect("an archive");
    let (began, mut making) = (Instant::now(), std::time::Duration::ZERO);
    let mut number = 0;
    while number < total {
        let made = Instant::now();
        let rows = batch_rows.min(PART_ROWS_MAX).min(batch_rows - number % batch_rows).min(total - number);
        let flows = batch(number, rows, total, &mut random);
        making += made.elapsed();
        append(&mut writer, &Delivery::from(flows));
        number += rows;
    }
    writer.close().expect("sealed");
    let elapsed = began.elapsed();
    println!(
        "{total} flows in batches of {batch_rows}: {:.1} s, {:.1} of them making flows; {:.0} flows/s, {:.0} without the making",
        elapsed.as_secs_f64(),
        making.as_secs_f64(),
        total as f64 / elapsed.as_secs_f64(),
        total as f64 / elapsed.saturating_sub(making).as_secs_f64()
    );
}
