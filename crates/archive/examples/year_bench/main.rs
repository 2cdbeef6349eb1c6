//! Writes an archive of a year with flows by the hours of the day and the days of the week, and the truth about it.
//!
//! ```sh
//! cargo run --release -p weir-archive --example year_bench -- FOLDER \
//!     [--days 365] [--flows 500000000] [--seed 1] [--segments-per-day 30] [--merged-days 0]
//! ```
//!
//! The archive is FOLDER/archive, written through the writer of a collector, a delivery a minute, and sealed
//! `--segments-per-day` times a day; nothing is merged but the first `--merged-days` days. Days are those of 2025, and
//! `received`, `start` and `end` of a flow all are in its day. FOLDER/truth.csv has, for each day, what the generator
//! counted: `day,flows,packets,bytes,host_flows,host_bytes`; FOLDER/host.txt has the host. Everything is determined by
//! the arguments.

mod calendar;
mod traffic;

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_archive::{ArchiveOptions, CompactionOptions, Writer, compact};

use calendar::{Calendar, date_of, minutes_of};
use traffic::{Traffic, Truth};

/// Tails that wait for being sealed at most: the writer is not to run away from the disk.
const BACKLOG_TAILS_MAX: u64 = 4;

/// What the command line asks for.
struct Request {
    folder: PathBuf,
    days: u64,
    flows: u64,
    seed: u64,
    segments_per_day: u64,
    merged_days: u64,
}

impl Request {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut folder = None;
        let (mut days, mut flows, mut seed, mut segments_per_day, mut merged_days) = (365, 500_000_000, 1, 30, 0);
        while let Some(word) = words.next() {
            let target = match word.as_str() {
                "--days" => &mut days,
                "--flows" => &mut flows,
                "--seed" => &mut seed,
                "--segments-per-day" => &mut segments_per_day,
                "--merged-days" => &mut merged_days,
                name if name.starts_with("--") => return Err(format!("unknown option {name}").into()),
                _ if folder.is_some() => return Err(format!("more than one folder: {word}").into()),
                _ => {
                    folder = Some(PathBuf::from(word));
                    continue;
                }
            };
            let value = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            *target = value.parse().map_err(|_| format!("{word}: '{value}' is not a number"))?;
        }
        if !(1..=3650).contains(&days) || !(1..=1440).contains(&segments_per_day) || merged_days > days || flows == 0 {
            return Err("1 to 3650 days, 1 to 1440 segments a day, merged days among these, at least one flow".into());
        }
        let folder = folder.ok_or("a folder is needed")?;
        Ok(Self { folder, days, flows, seed, segments_per_day, merged_days })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let request = Request::parse(std::env::args().skip(1))?;
    let archive = request.folder.join("archive");
    if archive.exists() {
        return Err(format!("{} is there already", archive.display()).into());
    }
    fs::create_dir_all(&request.folder)?;
    let began = Instant::now();
    let mut traffic = Traffic::new(request.seed, request.flows)?;
    let [a, b, c, d] = traffic.host;
    fs::write(request.folder.join("host.txt"), format!("{a}.{b}.{c}.{d}\n"))?;
    // whole or not there
    let truth_path = request.folder.join("truth.csv");
    let mut truth = BufWriter::new(File::create(truth_path.with_extension("new"))?);
    writeln!(truth, "day,flows,packets,bytes,host_flows,host_bytes")?;
    if request.merged_days > 0 {
        write_days(&request, &archive, 0..request.merged_days, &mut traffic, &mut truth)?;
        let merged = compact(&archive, &CompactionOptions::default(), |_| ())?;
        println!("merged {} segments into {}", merged.segments_merged, merged.segments_written);
    }
    write_days(&request, &archive, request.merged_days..request.days, &mut traffic, &mut truth)?;
    truth.flush()?;
    fs::rename(truth_path.with_extension("new"), truth_path)?;
    let seconds = began.elapsed().as_secs_f64();
    println!("{} flows in {seconds:.0} s, {:.2} M/s", request.flows, request.flows as f64 / seconds / 1e6);
    Ok(())
}

/// Writes some days, which are sealed when it returns.
fn write_days(
    request: &Request,
    archive: &Path,
    days: Range<u64>,
    traffic: &mut Traffic,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    let options = ArchiveOptions {
        seal_interval: Duration::from_hours(24),
        segment_rows_max: 8_000_000,
        compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let (mut writer, _) = Writer::open(archive, options)?;
    let calendar = Calendar::new(request.days, request.flows);
    for day in days {
        let mut truth = Truth::default();
        for part in 0..request.segments_per_day {
            for minute in minutes_of(part, request.segments_per_day) {
                let rows = calendar.flows_of(day, minute);
                if let Some(delivery) = traffic.minute(day, minute, rows, &mut truth)? {
                    writer.append(delivery)?;
                }
            }
            writer.rotate();
            wait_for_sealing(&writer)?;
        }
        let Truth { flows, packets, bytes, host_flows, host_bytes } = truth;
        writeln!(out, "{},{flows},{packets},{bytes},{host_flows},{host_bytes}", date_of(day))?;
        if (day + 1) % 30 == 0 {
            println!("{} days, {} segments", day + 1, writer.statistics().segments_sealed);
        }
    }
    let statistics = writer.close()?.statistics;
    let all = statistics.seal_read_time + statistics.seal_order_time + statistics.seal_write_time;
    println!(
        "{} segments of all tables, {} octets, {:.0} s of sealing",
        statistics.segments_sealed,
        statistics.octets_sealed,
        all.as_secs_f64()
    );
    Ok(())
}

fn wait_for_sealing(writer: &Writer) -> Result<(), Box<dyn Error>> {
    while writer.statistics().backlog_tails >= BACKLOG_TAILS_MAX {
        if let Some(failure) = writer.take_seal_failure() {
            return Err(format!("sealing fails: {failure:?}").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
