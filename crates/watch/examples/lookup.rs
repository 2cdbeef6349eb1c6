//! How long history takes: statements of watches are asked for windows of 100 flows, over histories of different lengths.
//!
//! usage: lookup ARCHIVE [--queries N] FILE...
//!
//! The windows are seconds of the fifth week of an archive that the example `history` wrote; `:history` and `:days` of the
//! statements are 1, 4, 7 … 28 days. Each statement is asked for N windows of different hours, and then for the next seconds
//! of these windows, when what was rounded to hours is kept: of other hosts, and of the hosts of before.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use weir_archive::{ArchiveHandle, HandleOptions, Snapshot};
use weir_flow::{Column, FlowBatchBuilder};
use weir_sql::standing::dialect::Parameter;
use weir_sql::standing::{StandingEngine, StandingOptions, StandingQuery, Window, WindowRows};
use weir_watch::WatchFile;

const DAY_MS: i64 = 86_400_000;
/// 2026-01-29T00:00:00Z, when the fifth week begins.
const WEEK_5_MS: i64 = 1_767_225_600_000 + 28 * DAY_MS;

/// A second of 100 flows, of hosts out of some 220,000 that are drawn as the example `history` draws them: some are the same.
fn window(start_ms: i64, seed: u64) -> WindowRows {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut builder = FlowBatchBuilder::new(100);
    builder.begin_rows(100);
    for _ in 0..100 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = ((state >> 11) % 1_000_003) as f64 / 1_000_003.0;
        let host = 0x5000_0000 + (220_000.0 * unit.powi(4)) as u32;
        builder.time(Column::Received).push(Some(start_ms));
        builder.address(Column::SrcAddr).push(Some(&host.to_be_bytes()));
        builder.address(Column::DstAddr).push(Some(&[10, 0, 0, 1]));
        builder.u64(Column::Bytes).push(Some(1_000));
    }
    let batches = vec![builder.finish().record_batch().clone()];
    WindowRows::of(Window { start_ms, end_ms: start_ms + 1_000 }, batches)
}

fn milliseconds(mut times: Vec<Duration>) -> String {
    times.sort();
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1000.0 / times.len() as f64;
    let at = |share: usize| times.get(times.len() * share / 100).map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    format!("mean {mean:.1} median {:.1} 95th {:.1} ms", at(50), at(95))
}

/// How long an answer takes; its rows are added up.
fn ask(query: &mut StandingQuery, snapshot: &Arc<Snapshot>, start_ms: i64, seed: u64, rows: &mut usize) -> Duration {
    let asked = Instant::now();
    let answer = query.answer(&[window(start_ms, seed)], Some(snapshot), Duration::from_mins(10)).expect("an answer");
    *rows += answer.iter().map(RecordBatch::num_rows).sum::<usize>();
    asked.elapsed()
}

fn main() {
    let mut words = std::env::args().skip(1);
    let archive = PathBuf::from(words.next().expect("an archive"));
    let (mut queries, mut files) = (10, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--queries" => queries = words.next().and_then(|text| text.parse().ok()).expect("a number"),
            file => files.push(PathBuf::from(file)),
        }
    }
    let handle = ArchiveHandle::open(&archive, &HandleOptions::default()).expect("an archive");
    let snapshot = Arc::new(handle.snapshot().expect("a snapshot"));
    for path in files {
        let file = WatchFile::read(&path).expect("a watch file");
        for days in (1..=28).step_by(3) {
            let engine = StandingEngine::new(&StandingOptions::default()).expect("an engine");
            let mut setup = file.setup.clone();
            setup.parameters.insert("history".to_owned(), Parameter::Span(days * DAY_MS));
            setup.parameters.insert("days".to_owned(), Parameter::Number(days.to_string()));
            let mut query = engine.prepare(&file.options.query, &setup).expect("a statement");
            let hour = |number: u64| WEEK_5_MS + (number as i64 * 17 % 160) * 3_600_000 + 1_234_000;
            let (mut rows, mut rows_then, mut rows_known) = (0, 0, 0);
            let first =
                (0..queries).map(|number| ask(&mut query, &snapshot, hour(number), number, &mut rows)).collect();
            let then = (0..queries)
                .map(|number| ask(&mut query, &snapshot, hour(number) + 1_000, number + 1_000, &mut rows_then))
                .collect();
            let known = (0..queries)
                .map(|number| ask(&mut query, &snapshot, hour(number) + 2_000, number, &mut rows_known))
                .collect();
            println!(
                "{} {days:2} days: {}; rows {rows}; next window of the hour: {}; the next with hosts of before: {}",
                file.name,
                milliseconds(first),
                milliseconds(then),
                milliseconds(known)
            );
        }
    }
}
