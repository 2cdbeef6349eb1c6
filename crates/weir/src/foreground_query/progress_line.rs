//! Progress as one line on standard error, drawn again and again and gone when the query is done.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_sql::{Progress, ProgressCounts};

/// A query that is answered sooner shows nothing.
const FIRST_AFTER: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(100);
/// Cells of the bar.
const BAR_CELLS: usize = 20;
/// What a line may be long where the width is not known of the terminal.
const USUAL_WIDTH: usize = 80;
/// Back to the beginning of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The line, or nothing.
#[derive(Debug)]
pub(crate) struct ProgressLine(Option<Drawn>);

#[derive(Debug)]
struct Drawn {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ProgressLine {
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn start(progress: Arc<Progress>) -> io::Result<Self> {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let watched = Arc::clone(&over);
        let thread =
            thread::Builder::new().name("weir-progress".to_owned()).spawn(move || draw(&progress, &watched))?;
        Ok(Self(Some(Drawn { over, thread: Mutex::new(Some(thread)) })))
    }

    /// Takes the line away. Once this returns, nothing is written any more.
    pub(crate) fn stop(&self) {
        let Some(drawn) = &self.0 else { return };
        *drawn.over.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        drawn.over.1.notify_all();
        let thread = drawn.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // a thread that panicked draws no more either
            let _ = thread.join();
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.stop();
    }
}

fn draw(progress: &Progress, over: &(Mutex<bool>, Condvar)) {
    let began = Instant::now();
    let mut wait = FIRST_AFTER;
    let mut is_drawn = false;
    loop {
        let guard = over.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _) =
            over.1.wait_timeout_while(guard, wait, |is_over| !*is_over).unwrap_or_else(PoisonError::into_inner);
        if *guard {
            break;
        }
        drop(guard);
        wait = EVERY;
        let seen = progress.counts();
        if seen.rows_all == 0 {
            continue;
        }
        let line = line(&seen, began.elapsed(), width());
        is_drawn = true;
        // Where standard error has gone, nobody misses it.
        let _ = write!(io::stderr(), "{CLEAR}{line}");
    }
    if is_drawn {
        let _ = write!(io::stderr(), "{CLEAR}");
    }
}

/// Columns of the terminal.
fn width() -> usize {
    super::terminal::width().unwrap_or(USUAL_WIDTH)
}

/// What is drawn: bar, rows, segments, what is left.
fn line(seen: &ProgressCounts, taken: Duration, width: usize) -> String {
    let fraction = seen.fraction().unwrap_or(0.0);
    let filled = (fraction * BAR_CELLS as f64).floor() as usize;
    let mut line = format!("{}{} {:>3.0} %", "█".repeat(filled), "░".repeat(BAR_CELLS - filled), fraction * 100.0);
    let settled = seen.rows_done + seen.rows_pruned;
    // writing to a text does not fail
    let _ = write!(line, "  {} of {} rows", count(settled), count(seen.rows_all));
    let done = seen.segments_done + seen.segments_pruned;
    let _ = write!(line, ", {done}/{} segments", seen.segments_all);
    if seen.segments_pruned > 0 {
        let _ = write!(line, " ({} pruned)", seen.segments_pruned);
    }
    if let Some(left) = left(seen, taken) {
        let _ = write!(line, ", {} left", clock(left));
    }
    // The last cell stays free: some terminals wrap when it is written.
    line.chars().take(width.saturating_sub(1)).collect()
}

/// How long the rest will take, when what is read goes on at the pace so far. Pruned rows took no time.
fn left(seen: &ProgressCounts, taken: Duration) -> Option<Duration> {
    let to_read = seen.rows_all.saturating_sub(seen.rows_pruned);
    let rest = to_read.saturating_sub(seen.rows_done);
    (seen.rows_done > 0).then(|| taken.mul_f64(rest as f64 / seen.rows_done as f64))
}

fn clock(span: Duration) -> String {
    let seconds = span.as_secs_f64().ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => format!("{} k", number / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} M", number as f64 / 1e6),
        _ => format!("{:.2} G", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: ProgressCounts = ProgressCounts {
        segments_all: 50,
        segments_done: 10,
        segments_pruned: 25,
        segments_summed: 0,
        summaries_damaged: 0,
        keys_looked_up: 0,
        rankings_open: 0,
        rows_all: 100_000_000,
        rows_done: 20_000_000,
        rows_pruned: 50_000_000,
        pages_all: 0,
        pages_pruned: 0,
        octets_all: 0,
        octets_read: 0,
        summaries_read: 0,
        rows_unsummed: 0,
        rows_saturated: 0,
    };

    #[test]
    fn a_line_tells_rows_segments_and_what_is_left() {
        let expected = "██████████████░░░░░░  70 %  70.0 M of 100.0 M rows, 35/50 segments (25 pruned), 3 s left";
        assert_eq!(line(&SEEN, Duration::from_secs(2), 200), expected);
    }

    #[test]
    fn a_line_fits_the_terminal() {
        assert_eq!(line(&SEEN, Duration::from_secs(2), 30).chars().count(), 29);
    }

    #[test]
    fn spans_are_short() {
        let text = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!([text(9), text(65), text(7500)], ["9 s", "1:05 min", "2:05 h"]);
    }
}
