//! Flows of an archive by their time, in any order.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use weir_archive::Snapshot;
use weir_flow::Column;
use weir_sql::{Engine, EngineError, EngineOptions};

use crate::WatchError;
use crate::panes::Panes;

/// Rows that a piece should have.
const PIECE_ROWS: u64 = 4_000_000;
const DAY_MS: i64 = 86_400_000;

/// The flows of an archive at one position.
pub(crate) struct Flows {
    engine: Engine,
}

impl Flows {
    pub(crate) fn at(snapshot: &Arc<Snapshot>) -> Result<Self, WatchError> {
        let engine = Engine::over(snapshot, &EngineOptions::default()).map_err(reading)?;
        Ok(Self { engine })
    }

    /// Reads columns of the flows whose time is from `from_ms` up to and without `to_ms`, in any order.
    pub(crate) fn read(
        &self,
        columns: &[Column],
        time: Column,
        from_ms: i64,
        to_ms: i64,
        mut take: impl FnMut(&RecordBatch),
    ) -> Result<u64, WatchError> {
        let names: Vec<_> = columns.iter().map(|column| format!("\"{}\"", column.name())).collect();
        let (names, time) = (names.join(", "), time.name());
        let mut conditions = vec![format!("\"{time}\" >= {}", timestamp(from_ms))];
        if to_ms < i64::MAX {
            conditions.push(format!("\"{time}\" < {}", timestamp(to_ms)));
        }
        let text = format!("SELECT {names} FROM flows WHERE {}", conditions.join(" AND "));
        let mut rows = 0;
        for batch in self.engine.sql(&text).map_err(reading)? {
            let batch = batch.map_err(reading)?;
            rows += batch.num_rows() as u64;
            take(&batch);
        }
        Ok(rows)
    }
}

/// Flows read in pieces of time that have about the same number of rows.
pub(crate) struct Pieces<'a> {
    flows: &'a Flows,
    columns: Vec<Column>,
    time: Column,
    at_ms: i64,
    width_ms: i64,
}

impl<'a> Pieces<'a> {
    /// From a time on. The first piece is a minute.
    pub(crate) fn from(flows: &'a Flows, columns: &[Column], time: Column, at_ms: i64) -> Self {
        Self { flows, columns: columns.to_vec(), time, at_ms, width_ms: 60_000 }
    }

    /// The time up to which rows were read.
    pub(crate) fn at_ms(&self) -> i64 {
        self.at_ms
    }

    /// Loads the next piece, which ends at `end_ms` at the latest; gives its rows.
    pub(crate) fn load(&mut self, panes: &mut Panes, end_ms: i64) -> Result<u64, WatchError> {
        let rows_max = panes.rows_max().min(4 * PIECE_ROWS) / 2;
        // a quiet time may end within what would be read at once
        let mut to_ms = self.at_ms.saturating_add(self.width_ms).min(end_ms);
        while self.width_ms > 1_000 && self.flows.count(self.time, self.at_ms, to_ms)? > rows_max {
            self.width_ms = (self.width_ms / 2).max(1_000);
            to_ms = self.at_ms.saturating_add(self.width_ms).min(end_ms);
        }
        let rows = self.flows.read(&self.columns, self.time, self.at_ms, to_ms, |rows| panes.load(rows))?;
        self.at_ms = to_ms;
        self.width_ms = match rows {
            rows if rows > 2 * PIECE_ROWS => (self.width_ms / 2).max(1_000),
            rows if rows < PIECE_ROWS / 4 => (self.width_ms * 4).min(10 * DAY_MS),
            rows if rows < PIECE_ROWS / 2 => (self.width_ms * 2).min(10 * DAY_MS),
            _ => self.width_ms,
        };
        Ok(rows)
    }
}

fn reading(source: EngineError) -> WatchError {
    WatchError::Statement { name: "flows".to_owned(), source: Box::new(source) }
}

impl Flows {
    /// How many flows there are whose time is from `from_ms` up to and without `to_ms`.
    fn count(&self, time: Column, from_ms: i64, to_ms: i64) -> Result<u64, WatchError> {
        let (time, from, to) = (time.name(), timestamp(from_ms), timestamp(to_ms));
        let text = format!("SELECT count(*) AS flows FROM flows WHERE \"{time}\" >= {from} AND \"{time}\" < {to}");
        let mut count = 0;
        for batch in self.engine.sql(&text).map_err(reading)? {
            let batch = batch.map_err(reading)?;
            let flows = batch.column_by_name("flows").and_then(|flows| flows.as_primitive_opt::<Int64Type>());
            count += flows.and_then(arrow::compute::sum).unwrap_or(0);
        }
        Ok(count.unsigned_abs())
    }

    /// The first and the last time of flows.
    pub(crate) fn extent(&self, time: Column) -> Result<Option<(i64, i64)>, WatchError> {
        let time = time.name();
        let text = format!("SELECT min(\"{time}\") AS first, max(\"{time}\") AS last FROM flows");
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

fn timestamp(ms: i64) -> String {
    format!("arrow_cast({ms}, 'Timestamp(ms, \"UTC\")')")
}
