//! Measures merging: `cargo run --release -p weir-archive --example merge_bench -- FOLDER`, an archive whose segments
//! are merged into as few as possible. Prints octets per row by column, time and memory.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::Path;

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use weir_archive::{CompactionOptions, Snapshot, compact};
use weir_flow::Table;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder")?;
    let options = CompactionOptions {
        segment_rows_max: u64::MAX,
        segment_octets_max: u64::MAX,
        fan_in: 2,
        ..CompactionOptions::default()
    };
    let done =
        compact(Path::new(&folder), &options, |merge| println!("{:?}", merge.result.map(|segment| segment.rows)))?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("");
    println!("{} rows in {:?}; {} to {} octets; {peak}", done.rows, done.time, done.octets_before, done.octets_after);
    let (mut octets, mut rows, mut all) = (BTreeMap::<String, i64>::new(), 0, 0);
    for segment in Snapshot::open(Path::new(&folder))?.segments(Table::Flows) {
        (rows, all) = (rows + segment.rows, all + segment.octets);
        let reader = SerializedFileReader::new(File::open(segment.path())?)?;
        for column in reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns) {
            *octets.entry(column.column_path().string()).or_default() += column.compressed_size();
        }
    }
    let pages: i64 = octets.values().sum();
    println!("{:.2} octets per row, {:.2} in columns", all as f64 / rows as f64, pages as f64 / rows as f64);
    let mut octets: Vec<_> = octets.into_iter().collect();
    octets.sort_by_key(|(_, octets)| -octets);
    for (column, octets) in octets.iter().take(24) {
        println!("{column:<28} {:>8.3}", *octets as f64 / rows as f64);
    }
    Ok(())
}
