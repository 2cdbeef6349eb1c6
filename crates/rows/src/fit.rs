//! Rows brought to one set of columns, for files that have one.
//!
//! The columns are chosen when the first rows come. After that the file decides: a column that rows do not have is null
//! in them, and one that the file does not have is an error, because a file that silently lacks what came later would
//! be believed. Whoever knows which columns are of use names them, and then all others are left out.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use weir_chain::ComponentError;
use weir_flow::{Column, Table};

/// Brings rows to the columns of the first ones, or to those that were named.
#[derive(Debug, Default)]
pub struct Fit {
    wanted: Vec<String>,
    schema: Option<SchemaRef>,
    /// The columns of the last rows, and where in them each column of the file is.
    last: Option<(SchemaRef, Vec<Option<usize>>)>,
}

impl Fit {
    /// `wanted` are the names of the columns; none for those of the first rows, `*` for all of flows.
    pub fn new(wanted: Vec<String>) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Whether columns were named.
    pub fn is_told(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The columns as far as they are known before the first rows: those of flows among the wanted ones.
    pub fn columns_of_flows(&self) -> SchemaRef {
        let flows = Table::Flows.schema();
        if self.wanted.is_empty() || self.wanted == ["*"] {
            return flows;
        }
        let fields = self.wanted.iter().filter_map(|name| flows.field_with_name(name).ok());
        Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
    }

    /// The same rows with the columns of the file.
    pub fn rows(&mut self, rows: &RecordBatch) -> Result<RecordBatch, ComponentError> {
        let schema = match &self.schema {
            Some(schema) => Arc::clone(schema),
            None => Arc::clone(self.schema.insert(self.choose(rows)?)),
        };
        if !matches!(&self.last, Some((last, _)) if Arc::ptr_eq(last, rows.schema_ref())) {
            self.last = Some((rows.schema(), self.positions(&schema, rows.schema_ref())?));
        }
        let positions = self.last.iter().flat_map(|(_, positions)| positions);
        let columns = schema.fields().iter().zip(positions).map(|(field, position)| match position {
            Some(position) => Arc::clone(rows.column(*position)),
            None => new_null_array(field.data_type(), rows.num_rows()),
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| ComponentError::caused("rows do not have the columns of the file", error))
    }

    fn choose(&self, rows: &RecordBatch) -> Result<SchemaRef, ComponentError> {
        if self.wanted == ["*"] {
            return Ok(Table::Flows.schema());
        }
        let fields: Vec<FieldRef> = if self.wanted.is_empty() {
            rows.schema_ref().fields().iter().cloned().collect()
        } else {
            self.wanted.iter().map(|name| field(name, rows)).collect::<Result<_, _>>()?
        };
        // Later rows may have nulls where the first ones had none.
        let fields = fields.into_iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
        Ok(Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    fn positions(&self, schema: &Schema, found: &Schema) -> Result<Vec<Option<usize>>, ComponentError> {
        if self.wanted.is_empty()
            && let Some(new) = found.fields().iter().find(|field| schema.index_of(field.name()).is_err())
        {
            return Err(ComponentError::new(format!(
                "rows have a column '{}' now that the first ones did not have\n\
                 hint: name the columns to write in 'columns'; \"*\" means all columns of flows",
                new.name()
            )));
        }
        let position = |field: &FieldRef| {
            let Ok(position) = found.index_of(field.name()) else { return Ok(None) };
            match found.field(position).data_type() {
                DataType::Null => Ok(None),
                found if found == field.data_type() => Ok(Some(position)),
                found => Err(ComponentError::new(format!(
                    "column '{}' has type {found} now, and type {} in the file",
                    field.name(),
                    field.data_type()
                ))),
            }
        };
        schema.fields().iter().map(position).collect()
    }
}

/// A column that was asked for: of the rows, or of flows, which leave out columns without a value.
fn field(name: &str, rows: &RecordBatch) -> Result<FieldRef, ComponentError> {
    if let Ok(position) = rows.schema_ref().index_of(name) {
        return Ok(Arc::clone(&rows.schema_ref().fields()[position]));
    }
    match Column::by_name(name) {
        Some(column) => Ok(Arc::new(weir_flow::schema::field(column))),
        None => Err(ComponentError::missing_column(name, rows)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, Int64Array, StringArray};

    use super::*;

    fn rows(columns: &[(&str, ArrayRef)]) -> RecordBatch {
        RecordBatch::try_from_iter(columns.iter().map(|(name, values)| (*name, Arc::clone(values)))).expect("a batch")
    }

    fn numbers(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn missing_columns_are_null_and_new_ones_an_error() {
        let mut fit = Fit::new(Vec::new());
        let first = rows(&[("a", numbers(&[1])), ("b", numbers(&[2]))]);
        assert_eq!(fit.rows(&first).expect("rows").columns(), first.columns());
        let narrow = fit.rows(&rows(&[("b", numbers(&[3, 4]))])).expect("rows");
        assert_eq!((narrow.column(0).null_count(), narrow.column(1)), (2, &numbers(&[3, 4])));
        let turned = fit.rows(&rows(&[("b", numbers(&[6])), ("a", numbers(&[5]))])).expect("rows");
        assert_eq!(turned.columns(), [numbers(&[5]), numbers(&[6])]);
        let error = fit.rows(&rows(&[("a", numbers(&[1])), ("c", numbers(&[1]))])).expect_err("an error").to_string();
        assert!(error.starts_with("rows have a column 'c' now that the first ones did not have\nhint: "), "{error}");
    }

    #[test]
    fn a_column_keeps_its_type() {
        let mut fit = Fit::new(Vec::new());
        fit.rows(&rows(&[("a", numbers(&[1]))])).expect("rows");
        let error = fit.rows(&rows(&[("a", Arc::new(StringArray::from(vec!["1"])))])).expect_err("an error");
        assert_eq!(error.to_string(), "column 'a' has type Utf8 now, and type Int64 in the file");
    }

    #[test]
    fn named_columns_are_all_that_is_kept() {
        let mut fit = Fit::new(vec!["b".to_owned(), "src_port".to_owned()]);
        assert_eq!(fit.columns_of_flows().fields().len(), 1);
        let wide = rows(&[("a", numbers(&[1])), ("b", numbers(&[2]))]);
        let fitted = fit.rows(&wide).expect("rows");
        let names: Vec<_> = fitted.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!((names, fitted.column(1).null_count()), (vec!["b".to_owned(), "src_port".to_owned()], 1));
        let error = Fit::new(vec!["nothing".to_owned()]).rows(&wide).expect_err("an error");
        assert_eq!(error.to_string(), "input has no column 'nothing'; it has a, b");
        assert_eq!(Fit::new(vec!["*".to_owned()]).rows(&wide).expect("rows").num_columns(), Column::COUNT);
    }
}
