//! Measures appending and sealing with synthetic flows like those of a `NetFlow` v5 exporter.
//!
//! `cargo run --release -p weir-archive --example seal_bench -- [flows] [folder]`
//!
//! Flows are heavy-tailed: about a million addresses and the service ports follow Zipf's law (0.9 % to port 22), sizes
//! are log-normal, 30 flows arrive per millisecond. Times per row are of one thread; the seal thread works beside the
//! appending one.

mod traffic;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use weir_archive::{ArchiveOptions, Segment, Snapshot, Writer};
use weir_flow::{Delivery, Table};

use traffic::Traffic;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    // independent flows, or those of the generator so many to a simulated second
    let rows_wanted: usize = arguments.next().map_or(Ok(20_000_000), |text| text.parse())?;
    let folder = arguments.next().map_or_else(|| std::env::temp_dir().join("weir-seal-bench"), PathBuf::from);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let (mut writer, _) =
        Writer::open(&folder, ArchiveOptions { summaries_when_sealing: true, ..ArchiveOptions::default() })?;
    let mut traffic = Traffic::new();
    let mut appending = Duration::ZERO;
    let mut rows = 0;
    while rows < rows_wanted {
        let batch = traffic.batch();
        rows += batch.rows();
        let began = Instant::now();
        writer.append(Delivery::from(batch))?;
        appending += began.elapsed();
    }
    writer.rotate();
    while writer.statistics().backlog_tails > 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let sealing_cpu = cpu_time_of_thread("archive-seal");
    let statistics = writer.close()?.statistics;
    let per_row = |what: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        println!(
            "{what:<28} {:>8.2} M rows/s {:>8.0} ns/row",
            rows as f64 / seconds / 1e6,
            seconds * 1e9 / rows as f64
        );
    };
    println!("{rows} flows, {} segments, peak memory {} MB", statistics.segments_sealed, peak_memory_mb());
    per_row("append", appending);
    per_row("seal: read and check", statistics.seal_read_time);
    per_row("seal: order", statistics.seal_order_time);
    per_row("seal: gather, encode, write", statistics.seal_write_time);
    let sealing = statistics.seal_read_time + statistics.seal_order_time + statistics.seal_write_time;
    per_row("seal: all", sealing);
    per_row("seal: all, processor time", sealing_cpu);
    print_columns(&folder, rows)
}

fn print_columns(folder: &Path, rows: usize) -> Result<(), Box<dyn Error>> {
    let snapshot = Snapshot::open(folder)?;
    let segments = snapshot.segments(Table::Flows);
    let mut octets: BTreeMap<String, i64> = BTreeMap::new();
    for segment in segments {
        let reader = SerializedFileReader::new(File::open(segment.path())?)?;
        for column in reader.metadata().row_groups().iter().flat_map(RowGroupMetaData::columns) {
            *octets.entry(column.column_path().string()).or_default() += column.compressed_size();
        }
    }
    let pages: i64 = octets.values().sum();
    let all: u64 = segments.iter().map(|segment: &Segment| segment.octets).sum();
    println!(
        "{:.2} octets per row, of these {:.2} index and footer",
        all as f64 / rows as f64,
        (all as f64 - pages as f64) / rows as f64
    );
    let mut octets: Vec<_> = octets.into_iter().collect();
    octets.sort_by_key(|(_, octets)| -octets);
    for (column, octets) in octets {
        println!("{column:<28} {:>8.3}", octets as f64 / rows as f64);
    }
    Ok(())
}

fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Processor time of the thread with this name, by which a busy machine does not spoil the measurement.
fn cpu_time_of_thread(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let read = |task: &Path, file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
    let nanoseconds = tasks
        .map(|task| task.path())
        .filter(|task| read(task, "comm").trim() == name)
        .map(|task| read(&task, "schedstat").split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0));
    Duration::from_nanos(nanoseconds.sum())
}
