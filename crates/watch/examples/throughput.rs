//! How many flows a second standing questions take that are fed from memory.
//!
//! usage: throughput [--rate N] [--seconds N] [--hosts N] [--together] FILE...
//!
//! Flows are made first: `rate` for each second of `seconds` in deliveries of 32,768, whose addresses are drawn from `hosts`
//! by a power law. Then each watch takes them: cutting them into panes and answering each window that closes, on one
//! thread. With --together all watches take the same deliveries on as many threads as there are cores.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use weir_flow::{Column, FlowBatchBuilder};
use weir_sql::standing::{StandingEngine, StandingOptions, StandingQuery};
use weir_watch::WatchFile;
use weir_watch::panes::{PaneOptions, Panes};

const DELIVERY_ROWS: usize = 32_768;
const START_MS: i64 = 1_767_225_600_000;

struct Settings {
    rate: usize,
    seconds: usize,
    hosts: u64,
    together: bool,
    files: Vec<PathBuf>,
}

fn settings() -> Settings {
    let mut settings = Settings { rate: 1_650_000, seconds: 5, hosts: 220_000, together: false, files: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse::<usize>().ok()).expect("a number");
        match word.as_str() {
            "--rate" => settings.rate = number(),
            "--seconds" => settings.seconds = number(),
            "--hosts" => settings.hosts = number() as u64,
            "--together" => settings.together = true,
            file => settings.files.push(file.into()),
        }
    }
    settings
}

/// Deliveries of some seconds.
fn flows(settings: &Settings) -> Vec<RecordBatch> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let hosts = settings.hosts as f64;
    // a power law: half of the flows are of a few hosts in a hundred
    let mut host = move || {
        let unit = (next() % 1_000_003) as f64 / 1_000_003.0;
        (hosts * unit.powi(4)) as u32
    };
    let total = settings.rate * settings.seconds;
    let mut batches = Vec::new();
    let mut made = 0;
    while made < total {
        let rows = DELIVERY_ROWS.min(total - made);
        let mut builder = FlowBatchBuilder::new(rows);
        builder.begin_rows(rows);
        for row in made..made + rows {
            let received_ms = START_MS + (row * 1_000 / settings.rate) as i64;
            let (inside, outside) = (host(), host());
            let (inside, outside) = (0x0A00_0000 | (inside & 0x00FF_FFFF), 0x5000_0000 + outside);
            let (src, dst) = if row % 2 == 0 { (inside, outside) } else { (outside, inside) };
            builder.time(Column::Received).push(Some(received_ms));
            builder.time(Column::Start).push(Some(received_ms - (row % 60_000) as i64));
            builder.address(Column::SrcAddr).push(Some(&src.to_be_bytes()));
            builder.address(Column::DstAddr).push(Some(&dst.to_be_bytes()));
            builder.u16(Column::SrcPort).push(Some((row * 7 % 60_000) as u16));
            builder.u16(Column::DstPort).push(Some([443, 80, 53, 22][row % 4]));
            builder.u8(Column::Protocol).push(Some(6));
            builder.u64(Column::Packets).push(Some(1 + row as u64 % 20));
            builder.u64(Column::Bytes).push(Some(40 + row as u64 % 1_400));
        }
        batches.push(builder.finish().record_batch().clone());
        made += rows;
    }
    batches
}

struct Taken {
    elapsed: Duration,
    windows: u64,
    answer_max: Duration,
    rows: usize,
    /// Rows of open windows, at most.
    kept_max: u64,
}

/// Takes all deliveries.
fn take(query: &mut StandingQuery, batches: &[RecordBatch]) -> Taken {
    let options = PaneOptions {
        windows: query.windows().to_vec(),
        columns: query.columns().to_vec(),
        lateness_ms: 0,
        late_ms: 0,
        skew_ms: 60_000,
        rows_max: u64::MAX,
        empty_windows: false,
    };
    let mut panes = Panes::new(options).expect("a window");
    let began = Instant::now();
    let mut taken = Taken { elapsed: Duration::ZERO, windows: 0, answer_max: Duration::ZERO, rows: 0, kept_max: 0 };
    let mut closed = Vec::new();
    let mut deliveries = batches.iter();
    loop {
        match deliveries.next() {
            Some(batch) => panes.take(batch, &mut closed),
            None => panes.advance(i64::MAX / 4, &mut closed),
        }
        for window in closed.drain(..) {
            let asked = Instant::now();
            let answer = query.answer(&window.rows, None, Duration::from_mins(10)).expect("an answer");
            taken.rows += answer.iter().map(RecordBatch::num_rows).sum::<usize>();
            taken.answer_max = taken.answer_max.max(asked.elapsed());
            taken.windows += 1;
        }
        taken.kept_max = taken.kept_max.max(panes.rows_kept());
        if deliveries.len() == 0 && panes.rows_kept() == 0 {
            break;
        }
    }
    taken.elapsed = began.elapsed();
    taken
}

fn main() {
    let settings = settings();
    let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
    let mut queries: Vec<(String, Mutex<StandingQuery>)> = Vec::new();
    for path in &settings.files {
        let file = WatchFile::read(path).expect("a watch file");
        let query = engine.prepare(&file.options.query, &file.setup).expect("a statement");
        queries.push((file.name, Mutex::new(query)));
    }
    let batches = flows(&settings);
    let total = settings.rate * settings.seconds;
    let rate = |elapsed: Duration| total as f64 / elapsed.as_secs_f64();
    println!("{total} flows of {} hosts, {} a second", settings.hosts, settings.rate);
    for (name, query) in &queries {
        let taken = take(&mut query.lock().expect("a query"), &batches);
        println!(
            "{name}: {:.0} flows/s, {} windows of {} rows on average, longest answer {:.0} ms, at most {} rows kept",
            rate(taken.elapsed),
            taken.windows,
            taken.rows as u64 / taken.windows.max(1),
            taken.answer_max.as_secs_f64() * 1000.0,
            taken.kept_max
        );
    }
    if settings.together {
        let began = Instant::now();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
                scope.spawn(|| {
                    while let Some((_, query)) = queries.get(next.fetch_add(1, Ordering::Relaxed)) {
                        take(&mut query.lock().expect("a query"), &batches);
                    }
                });
            }
        });
        println!("all together: {:.0} flows/s", rate(began.elapsed()));
    }
}
