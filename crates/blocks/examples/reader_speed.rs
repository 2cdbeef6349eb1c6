//! Measures how fast flows are read from an archive.
//!
//! `cargo run --release -p weir-blocks --example reader_speed -- [flows] [folder] [case]`
//!
//! Without a folder an archive of generated flows is made in a temporary one and removed again; with a folder the
//! archive there is read, and made first when it is not there. A case such as eleven/received/0 is measured alone. Every
//! figure is the best of three runs. Processor time is that of the whole process, threads included.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use weir_archive::{ArchiveOptions, Writer};
use weir_blocks::sources::archive_reader;
use weir_chain::{AnyKind, Built, ComponentError, Outlet, PullResult, compliance};
use weir_flow::{Delivery, FlowBatch};
use weir_generate::TrafficModel;

const READER: &'static dyn AnyKind = &archive_reader::KIND;

/// Flows of a datagram, which have the same time of reception.
const DATAGRAM_ROWS: usize = 30;
const DATAGRAMS_PER_DELIVERY: usize = 273;

const ELEVEN: &str = "'received', 'start', 'end', 'src_addr', 'dst_addr', 'src_port', 'dst_port', 'protocol', \
                      'packets', 'bytes', 'tcp_flags'";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let flows: u64 = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let folder = arguments.next().map(PathBuf::from);
    let only = arguments.next();
    let archive = folder.clone().unwrap_or_else(|| std::env::temp_dir().join("weir-reader-speed"));
    if !archive.join("weir-archive").exists() {
        write(&archive, flows)?;
    }
    println!("columns/order/readers      wall ns/flow  processor ns/flow  million flows/s");
    for (name, columns) in [("eleven", ELEVEN), ("packets,bytes", "'packets', 'bytes'"), ("packets", "'packets'")] {
        for order in ["received", "start", "stored"] {
            for readers in [0, 1, 2] {
                let case = format!("{name}/{order}/{readers}");
                if only.as_ref().is_none_or(|only| *only == case) {
                    measure(
                        &case,
                        &format!(
                            "archive = '{}'\ncolumns = [{columns}]\norder = '{order}'\nreaders = {readers}",
                            archive.display()
                        ),
                    )?;
                }
            }
        }
    }
    println!("peak memory {} MB", peak_memory_mb());
    if folder.is_none() {
        std::fs::remove_dir_all(&archive)?;
    }
    Ok(())
}

/// Reads three times and prints the best of each figure.
fn measure(case: &str, parameters: &str) -> Result<(), ComponentError> {
    let (mut best_wall, mut best_processor, mut rows) = (Duration::MAX, Duration::MAX, 0);
    for _ in 0..3 {
        let (began, processor) = (Instant::now(), processor_time());
        rows = read(parameters)?;
        best_wall = best_wall.min(began.elapsed());
        best_processor = best_processor.min(processor_time().saturating_sub(processor));
    }
    let nanoseconds = |time: Duration| time.as_secs_f64() * 1e9 / rows as f64;
    let (wall, processor) = (nanoseconds(best_wall), nanoseconds(best_processor));
    println!("{case:<26} {wall:>12.1} {processor:>18.1} {:>16.1}", 1e3 / wall);
    Ok(())
}

/// Reads all rows and counts them.
fn read(parameters: &str) -> Result<usize, ComponentError> {
    let (Built::Source(mut source), _) = compliance::open(READER, parameters) else {
        return Err(ComponentError::new("no source"));
    };
    let (mut rows, mut out) = (0, Outlet::new());
    loop {
        let pulled = source.pull(&mut out)?;
        rows += out.drain().map(|burst| burst.len()).sum::<usize>();
        if pulled == PullResult::Ended {
            return Ok(rows);
        }
    }
}

fn write(archive: &Path, flows: u64) -> Result<(), Box<dyn Error>> {
    let model = TrafficModel { received: true, ..TrafficModel::new(7) };
    let mut flows = model.flows(flows)?;
    let (mut writer, _) = Writer::open(archive, ArchiveOptions::default())?;
    loop {
        let datagrams = (0..DATAGRAMS_PER_DELIVERY).map_while(|_| flows.next_batch(DATAGRAM_ROWS));
        let datagrams: Vec<RecordBatch> = datagrams.map(|flows| flows.record_batch().clone()).collect();
        let Some(first) = datagrams.first() else { break };
        let delivery = FlowBatch::try_new(concat_batches(first.schema_ref(), &datagrams)?)?;
        writer.append(Delivery::from(delivery))?;
    }
    writer.close()?;
    Ok(())
}

/// Time that all threads together have run, those that have ended included. The kernel counts it in hundredths of a
/// second.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

fn peak_memory_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
