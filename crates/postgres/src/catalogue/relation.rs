//! A relation of the catalogue, whose rows are in memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Int64Builder, RecordBatch, StringBuilder};
use arrow::datatypes::{Field, Schema};

/// A relation: its name, columns and rows.
pub(super) struct Relation {
    pub(super) name: &'static str,
    columns: Vec<(&'static str, Kind)>,
    rows: Vec<Vec<Cell>>,
}

/// The type of a column of the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Text,
    Bool,
}

/// A value of the catalogue.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Int(i64),
    Text(String),
    Bool(bool),
    Null,
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Relation {
    /// Columns are written as `name:type` with the types int, text and bool, parted by blanks.
    pub(super) fn new(name: &'static str, columns: &'static str, rows: Vec<Vec<Cell>>) -> Self {
        let column = |text: &'static str| match text.split_once(':') {
            Some((name, "int")) => (name, Kind::Int),
            Some((name, "bool")) => (name, Kind::Bool),
            Some((name, _)) => (name, Kind::Text),
            None => (text, Kind::Text),
        };
        Self { name, columns: columns.split_whitespace().map(column).collect(), rows }
    }

    pub(super) fn batch(&self) -> datafusion::error::Result<RecordBatch> {
        let mut arrays: Vec<(&str, ArrayRef)> = Vec::with_capacity(self.columns.len());
        for (position, (name, kind)) in self.columns.iter().enumerate() {
            arrays.push((name, self.array(position, *kind)));
        }
        let fields = arrays.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(RecordBatch::try_new(schema, arrays.into_iter().map(|(_, array)| array).collect())?)
    }

    fn array(&self, position: usize, kind: Kind) -> ArrayRef {
        let cells = self.rows.iter().map(|row| row.get(position).unwrap_or(&Cell::Null));
        match kind {
            Kind::Int => {
                let mut builder = Int64Builder::new();
                cells.for_each(|cell| {
                    builder.append_option(if let Cell::Int(value) = cell { Some(*value) } else { None });
                });
                Arc::new(builder.finish())
            }
            Kind::Text => {
                let mut builder = StringBuilder::new();
                cells.for_each(|cell| {
                    builder.append_option(if let Cell::Text(text) = cell { Some(text) } else { None });
                });
                Arc::new(builder.finish())
            }
            Kind::Bool => {
                let mut builder = BooleanBuilder::new();
                cells.for_each(|cell| {
                    builder.append_option(if let Cell::Bool(value) = cell { Some(*value) } else { None });
                });
                Arc::new(builder.finish())
            }
        }
    }
}
