//! What is handed on: rows, and two columns about who has seen them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};
use foldhash::HashMap;
use weir_chain::{ComponentError, Outlet};

use super::flows::{Observation, Observer};
use weir_rows::by_start::RowStore;
use weir_rows::gather::Pick;

/// Rows of a burst, at most.
const BURST_ROWS_MAX: usize = 8192;

/// Texts of exporters are kept, because there are few and writing one takes as long as all else about a row.
const NAMES_MAX: usize = 4096;

const PATH: &str = "path";
const OBSERVATIONS: &str = "observations";

/// Fails when rows have columns of these names already.
pub(super) fn check(rows: &RecordBatch) -> Result<(), ComponentError> {
    match [PATH, OBSERVATIONS].iter().find(|name| rows.schema_ref().index_of(name).is_ok()) {
        Some(name) => Err(ComponentError::new(format!("input has a column '{name}' already"))),
        None => Ok(()),
    }
}

/// Rows on their way out, in their order.
#[derive(Debug, Default)]
pub(super) struct HandedOn {
    picks: Vec<Pick>,
    counts: Vec<u32>,
    /// Texts of the paths, and where each ends.
    paths: String,
    path_ends: Vec<usize>,
    observations: Vec<Observation>,
    names: HashMap<Observer, String>,
}

impl HandedOn {
    /// Where the observations of the next row go, see [`together`](Self::together).
    pub(super) fn observations(&mut self) -> &mut Vec<Observation> {
        &mut self.observations
    }

    /// A row that stands for these [`observations`](Self::observations).
    pub(super) fn together(&mut self, pick: Pick) {
        for place in 0..self.observations.len() {
            if place > 0 {
                self.paths.push(' ');
            }
            self.write(self.observations[place].observer);
        }
        self.end_row(pick, self.observations.len() as u32);
    }

    /// A row that stands for itself.
    pub(super) fn alone(&mut self, pick: Pick, observer: Observer) {
        self.write(observer);
        self.end_row(pick, 1);
    }

    fn write(&mut self, observer: Observer) {
        if self.names.len() > NAMES_MAX {
            self.names.clear();
        }
        self.paths.push_str(self.names.entry(observer).or_insert_with(|| observer.to_string()));
    }

    fn end_row(&mut self, pick: Pick, count: u32) {
        self.picks.push(pick);
        self.counts.push(count);
        self.path_ends.push(self.paths.len());
    }

    /// Puts the rows out and begins anew.
    pub(super) fn put_out(&mut self, store: &mut RowStore, out: &mut Outlet) -> Result<(), ComponentError> {
        let mut begin = 0;
        for (at, picks) in self.picks.chunks(BURST_ROWS_MAX).enumerate() {
            let rows = at * BURST_ROWS_MAX..at * BURST_ROWS_MAX + picks.len();
            let mut paths = StringBuilder::with_capacity(picks.len(), picks.len() * 16);
            for &end in &self.path_ends[rows.clone()] {
                paths.append_value(&self.paths[begin..end]);
                begin = end;
            }
            let counts = UInt32Array::from(self.counts[rows].to_vec());
            out.rows(with_columns(&store.gather(picks)?, Arc::new(paths.finish()), Arc::new(counts))?);
        }
        self.picks.clear();
        self.counts.clear();
        self.paths.clear();
        self.path_ends.clear();
        Ok(())
    }
}

fn with_columns(rows: &RecordBatch, paths: ArrayRef, counts: ArrayRef) -> Result<RecordBatch, ComponentError> {
    let mut fields = rows.schema_ref().fields().to_vec();
    fields.push(Arc::new(Field::new(PATH, DataType::Utf8, true)));
    fields.push(Arc::new(Field::new(OBSERVATIONS, DataType::UInt32, true)));
    let columns = rows.columns().iter().cloned().chain([paths, counts]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| ComponentError::caused("rows cannot be put together again", error))
}
