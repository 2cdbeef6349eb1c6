//! How many packets a second are metered, from a capture file to batches of flows.
//!
//! `cargo run --release -p weir-meter --example meter_rate -- FILE [WORKERS [ROUNDS [application]]]`
//!
//! Read a file twice to have it in the page cache. Processor time is told beside the time that passes, since the
//! machine may do something else meanwhile.

#![expect(clippy::print_stderr, reason = "whoever runs it looks on")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use weir_capture::{FileOptions, WarningHandler, open_files};
use weir_meter::{Measures, MeterOptions, Metering, Step};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Processor time of this process so far, seconds.
fn processor_secs() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: meter_rate FILE [WORKERS [ROUNDS [application]]]");
        return ExitCode::FAILURE;
    };
    let mut number = |default: usize| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (workers, rounds) = (number(1), number(3));
    let measures = Measures { application: arguments.next().is_some(), ..Measures::default() };
    for _ in 0..rounds {
        let tell: WarningHandler = Arc::new(|line: &str| eprintln!("{line}"));
        let Ok(source) =
            open_files(&FileOptions { paths: vec![PathBuf::from(&file)], ..FileOptions::default() }, &tell)
        else {
            return ExitCode::FAILURE;
        };
        let (begun, before) = (Instant::now(), processor_secs());
        let (metering, made) =
            Metering::new(&MeterOptions { measures, ..MeterOptions::default() }, vec![source], workers);
        let run = |mut worker: weir_meter::Worker| {
            let mut flows = 0;
            while worker.step(&mut |batch| flows += batch.rows()) != Step::Ended {}
            flows
        };
        let threads: Vec<_> = made.into_iter().map(|worker| thread::spawn(move || run(worker))).collect();
        let flows: usize = threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum();
        let (took, used) = (begun.elapsed().as_secs_f64(), processor_secs() - before);
        let counts = metering.counts();
        println!(
            "{workers} workers: {} packets, {flows} flows, {:.2} M packets/s, {:.2} M a processor second; {} not flows, {} evicted, balances: {}",
            counts.packets,
            counts.packets as f64 / took / 1e6,
            counts.packets as f64 / used.max(0.01) / 1e6,
            counts.not_flows_total(),
            counts.flows_evicted,
            counts.balances(),
        );
    }
    ExitCode::SUCCESS
}
