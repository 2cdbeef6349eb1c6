//! Flows of an archive by their time, in any order.

use std::sync::Arc;
use std::thread;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use crossbeam_channel::{Receiver, bounded};
use weir_archive::Snapshot;
use weir_flow::Column;
use weir_sql::{Engine, EngineError, EngineOptions};

use crate::WatchError;
use crate::open_windows::OpenWindows;

/// Rows that a piece should have.
const PIECE_ROWS: u64 = 4_000_000;
/// Rows that batches are joined to. A segment is in the order of its hosts, so that each batch of it has a few rows of every
/// window: what a statement costs for a batch would be more than what it costs for these.
const JOINED_ROWS: usize = 1 << 19;
/// How long the first piece is, the shortest, and the longest.
const WIDTH_FIRST_MS: i64 = 60_000;
const WIDTH_MIN_MS: i64 = 1_000;
const WIDTH_MAX_MS: i64 = 10 * 86_400_000;

/// The flows of an archive at one position.
pub(crate) struct Flows {
    engine: Engine,
}

impl Flows {
    pub(crate) fn at(snapshot: &Arc<Snapshot>) -> Result<Self, WatchError> {
        let engine = Engine::over(snapshot, &EngineOptions::default()).map_err(reading)?;
        Ok(Self { engine })
    }

    /// Reads columns of the flows whose time is from `from_ms` up to and without `to_ms`, in any order, as long as `take`
    /// wants more. Gives the number of rows.
    pub(crate) fn read(
        &self,
        columns: &[Column],
        time: Column,
        (from_ms, to_ms): (i64, i64),
        mut take: impl FnMut(RecordBatch) -> bool,
    ) -> Result<u64, WatchError> {
        let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name())).collect();
        let conditions = bounds(time, Some(from_ms), Some(to_ms).filter(|to_ms| *to_ms < i64::MAX));
        let text = format!("SELECT {} FROM flows WHERE {}", names.join(", "), conditions.join(" AND "));
        let mut rows = 0;
        for batch in self.engine.sql(&text).map_err(reading)? {
            let batch = batch.map_err(reading)?;
            rows += batch.num_rows() as u64;
            if !take(batch) {
                break;
            }
        }
        Ok(rows)
    }
}

/// Batches that are joined, so that there are few.
#[derive(Default)]
struct JoinedBatches {
    joined: Vec<RecordBatch>,
    waiting: Vec<RecordBatch>,
    rows_waiting: usize,
}

impl JoinedBatches {
    fn push(&mut self, batch: RecordBatch) {
        self.rows_waiting += batch.num_rows();
        self.waiting.push(batch);
        if self.rows_waiting >= JOINED_ROWS {
            self.join();
        }
    }

    fn join(&mut self) {
        self.rows_waiting = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let joined = waiting.first().map(|first| concat_batches(first.schema_ref(), &waiting));
        match joined {
            Some(Ok(joined)) => self.joined.push(joined),
            // texts that are too long for one column
            _ => self.joined.extend(waiting),
        }
    }

    fn finish(mut self) -> Vec<RecordBatch> {
        self.join();
        self.joined
    }
}

/// The flows of a piece of time.
struct Piece {
    batches: Vec<RecordBatch>,
    rows: u64,
    to_ms: i64,
}

/// Flows read in pieces of time that have about the same number of rows. The next piece is read while one is looked at.
pub(crate) struct Pieces {
    pieces: Receiver<Result<Piece, WatchError>>,
    at_ms: i64,
    end_ms: i64,
}

impl Pieces {
    /// Those from a time up to another one; at most `rows_max` rows at a time, unless they are of one second.
    pub(crate) fn between(
        flows: &Arc<Flows>,
        columns: &[Column],
        time: Column,
        (from_ms, end_ms): (i64, i64),
        rows_max: u64,
    ) -> Result<Self, WatchError> {
        let (sender, pieces) = bounded(1);
        let mut reader = PieceReader {
            flows: Arc::clone(flows),
            columns: columns.to_vec(),
            time,
            at_ms: from_ms,
            end_ms,
            width_ms: WIDTH_FIRST_MS,
            rows_max: rows_max.min(4 * PIECE_ROWS) / 2,
        };
        let read = move || {
            while reader.at_ms < reader.end_ms {
                let piece = reader.read_next();
                let is_last = piece.is_err();
                // the receiver is gone when the windows before were all that was wanted
                if sender.send(piece).is_err() || is_last {
                    break;
                }
            }
        };
        thread::Builder::new().name("watch-pieces".to_owned()).spawn(read).map_err(WatchError::Thread)?;
        Ok(Self { pieces, at_ms: from_ms, end_ms })
    }

    /// The time up to which rows were loaded.
    pub(crate) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Loads the next piece; gives its rows. `None` when there is no other.
    pub(crate) fn load(&mut self, windows: &mut OpenWindows) -> Result<Option<u64>, WatchError> {
        let piece = match self.pieces.recv() {
            Ok(piece) => piece?,
            Err(_) if self.at_ms >= self.end_ms => return Ok(None),
            Err(_) => return Err(WatchError::ReaderEnded),
        };
        piece.batches.iter().for_each(|rows| windows.load(rows));
        self.at_ms = piece.to_ms;
        Ok(Some(piece.rows))
    }
}

/// Reads pieces.
struct PieceReader {
    flows: Arc<Flows>,
    columns: Vec<Column>,
    time: Column,
    at_ms: i64,
    end_ms: i64,
    width_ms: i64,
    /// Rows from which a piece is too large.
    rows_max: u64,
}

impl PieceReader {
    /// The next piece. How wide it is follows from those before; when it turns out to be too large, a quiet time has ended
    /// within it, and half of it is read.
    fn read_next(&mut self) -> Result<Piece, WatchError> {
        loop {
            let to_ms = self.at_ms.saturating_add(self.width_ms).min(self.end_ms);
            let can_be_cut = self.width_ms > WIDTH_MIN_MS;
            let (mut batches, mut found) = (JoinedBatches::default(), 0);
            let rows = self.flows.read(&self.columns, self.time, (self.at_ms, to_ms), |batch| {
                found += batch.num_rows() as u64;
                batches.push(batch);
                found <= self.rows_max || !can_be_cut
            })?;
            if rows > self.rows_max && can_be_cut {
                self.width_ms = (self.width_ms / 2).max(WIDTH_MIN_MS);
                continue;
            }
            self.at_ms = to_ms;
            if rows == 0 && self.width_ms >= WIDTH_MAX_MS {
                self.skip_quiet_time()?;
                return Ok(Piece { batches: Vec::new(), rows, to_ms: self.at_ms });
            }
            let wanted = PIECE_ROWS.min(self.rows_max);
            self.width_ms = match rows {
                rows if rows > 2 * wanted => (self.width_ms / 2).max(WIDTH_MIN_MS),
                rows if rows < wanted / 4 => (self.width_ms * 4).min(WIDTH_MAX_MS),
                rows if rows < wanted / 2 => (self.width_ms * 2).min(WIDTH_MAX_MS),
                _ => self.width_ms,
            };
            return Ok(Piece { batches: batches.finish(), rows, to_ms });
        }
    }

    /// Goes on with the first flow that there is, or at the end. Between a flow of an exporter whose clock is wrong and the others
    /// may be thousands of years. Shorter quiet times are read through.
    fn skip_quiet_time(&mut self) -> Result<(), WatchError> {
        self.at_ms = first_from((self.at_ms, self.end_ms), |within| {
            let extent = self.flows.extent_within(self.time, within)?;
            Ok(extent.map(|(first_ms, _)| first_ms))
        })?;
        self.width_ms = WIDTH_FIRST_MS;
        Ok(())
    }
}

/// The time of the first flow from a time on, or the end; `look` gives that of the first one from a time up to and without
/// another one. It looks four times as far each time: to look up to the end at once is to read the times of all later flows,
/// after every quiet time.
fn first_from(
    (mut at_ms, end_ms): (i64, i64),
    mut look: impl FnMut((i64, i64)) -> Result<Option<i64>, WatchError>,
) -> Result<i64, WatchError> {
    let mut span_ms = WIDTH_MAX_MS;
    while at_ms < end_ms {
        span_ms = span_ms.saturating_mul(4);
        let to_ms = at_ms.saturating_add(span_ms).min(end_ms);
        if let Some(first_ms) = look((at_ms, to_ms))? {
            return Ok(first_ms);
        }
        at_ms = to_ms;
    }
    Ok(at_ms)
}

fn reading(source: EngineError) -> WatchError {
    WatchError::Statement { name: "flows".to_owned(), source: Box::new(source) }
}

impl Flows {
    /// The last time that a flow of windows can have: `skew_ms` after the last reception. `None` where windows go by reception.
    pub(crate) fn last_time(&self, time: Column, skew_ms: i64) -> Result<Option<i64>, WatchError> {
        if time == Column::Received {
            return Ok(None);
        }
        let received = self.extent_of(Column::Received, "")?;
        Ok(received.map(|(_, last_ms)| last_ms.saturating_add(skew_ms)))
    }

    /// The first and the last time of flows, without those after the [last](Self::last_time) that windows can have.
    pub(crate) fn extent(&self, time: Column, last_ms: Option<i64>) -> Result<Option<(i64, i64)>, WatchError> {
        // a flow without reception is in a window, whatever its time
        let within = last_ms.map(|last_ms| {
            let (time, received) = (time.name(), Column::Received.name());
            format!(" WHERE \"{time}\" <= {} OR \"{received}\" IS NULL", timestamp(last_ms))
        });
        self.extent_of(time, &within.unwrap_or_default())
    }

    /// How many flows have a time from one up to and without another one.
    pub(crate) fn count_within(&self, time: Column, (from_ms, to_ms): (i64, Option<i64>)) -> Result<u64, WatchError> {
        if to_ms.is_some_and(|to_ms| to_ms <= from_ms) {
            return Ok(0);
        }
        self.count(&bounds(time, Some(from_ms), to_ms))
    }

    /// How many flows lack a time, of those received from one time up to and without another one.
    pub(crate) fn count_without(
        &self,
        time: Column,
        (from_ms, to_ms): (Option<i64>, Option<i64>),
    ) -> Result<u64, WatchError> {
        let mut conditions = bounds(Column::Received, from_ms, to_ms);
        conditions.push(format!("\"{}\" IS NULL", time.name()));
        self.count(&conditions)
    }

    fn count(&self, conditions: &[String]) -> Result<u64, WatchError> {
        let text = format!("SELECT count(*) AS found FROM flows WHERE {}", conditions.join(" AND "));
        let mut found = 0;
        for batch in self.engine.sql(&text).map_err(reading)? {
            let batch = batch.map_err(reading)?;
            let counts = batch.column_by_name("found").and_then(|column| column.as_primitive_opt::<Int64Type>());
            found += counts.into_iter().flatten().flatten().map(i64::unsigned_abs).sum::<u64>();
        }
        Ok(found)
    }

    /// The same of flows from one time up to and without another one; `None` when no flow is there.
    pub(crate) fn extent_within(
        &self,
        time: Column,
        (from_ms, to_ms): (i64, i64),
    ) -> Result<Option<(i64, i64)>, WatchError> {
        let name = time.name();
        let within = format!(" WHERE \"{name}\" >= {} AND \"{name}\" < {}", timestamp(from_ms), timestamp(to_ms));
        self.extent_of(time, &within)
    }

    fn extent_of(&self, time: Column, within: &str) -> Result<Option<(i64, i64)>, WatchError> {
        let time = time.name();
        let text = format!("SELECT min(\"{time}\") AS first, max(\"{time}\") AS last FROM flows{within}");
        let mut extent = None;
        for batch in self.engine.sql(&text).map_err(reading)? {
            let batch = batch.map_err(reading)?;
            let value = |name: &str| {
                let times = batch.column_by_name(name)?.as_primitive_opt::<TimestampMillisecondType>()?;
                (!times.is_empty() && times.is_valid(0)).then(|| times.value(0))
            };
            extent = value("first").zip(value("last")).or(extent);
        }
        Ok(extent)
    }
}

/// Conditions that a time is from one up to and without another one, where these are given.
fn bounds(time: Column, from_ms: Option<i64>, to_ms: Option<i64>) -> Vec<String> {
    let time = time.name();
    let from = from_ms.map(|from_ms| format!("\"{time}\" >= {}", timestamp(from_ms)));
    let to = to_ms.map(|to_ms| format!("\"{time}\" < {}", timestamp(to_ms)));
    from.into_iter().chain(to).collect()
}

fn timestamp(ms: i64) -> String {
    format!("arrow_cast({ms}, 'Timestamp(ms, \"UTC\")')")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, UInt64Array};

    use super::*;

    #[test]
    fn small_batches_are_joined_in_their_order() {
        let batch = |from: u64, rows: u64| {
            let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(from..from + rows));
            RecordBatch::try_from_iter([("bytes", numbers)]).expect("a batch")
        };
        let mut batches = JoinedBatches::default();
        let rows = 3 * JOINED_ROWS as u64 / 2;
        (0..rows).step_by(1_000).for_each(|from| batches.push(batch(from, 1_000.min(rows - from))));
        let joined = batches.finish();
        assert_eq!(joined.len(), 2);
        let numbers = joined.iter().flat_map(|batch| {
            let column = batch.column(0).as_primitive::<arrow::datatypes::UInt64Type>();
            column.values().to_vec()
        });
        assert!(numbers.eq(0..rows));
        assert!(JoinedBatches::default().finish().is_empty());
    }

    /// Flows after quiet times of which each is followed by another one, up to the end of what a backtest looks at.
    #[test]
    fn a_flow_is_looked_for_near_the_quiet_time() {
        const DAY_MS: i64 = 86_400_000;
        const END_MS: i64 = 8_000 * 365 * DAY_MS;
        let looked = |first_ms: Option<i64>| {
            let mut spans = Vec::new();
            let found = first_from((0, END_MS), |(from_ms, to_ms)| {
                spans.push((from_ms, to_ms));
                Ok(first_ms.filter(|first_ms| (from_ms..to_ms).contains(first_ms)))
            });
            (found.expect("looked"), spans)
        };
        for days in [1, 30, 100, 1_000, 100_000] {
            let (found_ms, spans) = looked(Some(days * DAY_MS));
            assert_eq!(found_ms, days * DAY_MS);
            let to_ms = spans.last().expect("a span").1;
            assert!(to_ms <= 40 * DAY_MS || to_ms <= 8 * days * DAY_MS, "{days} days: up to {to_ms}");
        }
        let (found_ms, spans) = looked(None);
        assert_eq!(found_ms, END_MS);
        assert!(spans.len() < 12 && spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{spans:?}");
        // nothing is looked for behind the end
        assert_eq!(first_from((5, 5), |_| panic!("it has looked")).expect("looked"), 5);
    }
}
