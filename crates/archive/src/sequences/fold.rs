//! Rows of the table `exporter_sequences` of which one goes on where another ends, as one row.
//!
//! Such a row has where the first one begins, `sequence_first` and `since`, and all else of the last one but `sequence_units`, which are added up.
//! Rows are left in the order of their last datagrams.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, UInt64Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow::error::ArrowError;

/// The columns by which rows are found to go on from one another.
#[derive(Debug)]
pub(crate) struct SequenceColumns {
    columns: [ArrayRef; 8],
}

impl SequenceColumns {
    /// Their names, in the order in which they are to be given.
    pub(crate) const NAMES: [&str; 8] = [
        "received",
        "exporter",
        "exporter_port",
        "observation_domain",
        "export_version",
        "sequence_unit",
        "sequence_next",
        "sequence_first",
    ];

    /// Takes the columns; `None` where there are no rows. The last one may have no value in any row.
    pub(crate) fn new(columns: [Option<ArrayRef>; 8]) -> Option<Self> {
        let [Some(received), Some(exporter), Some(port), Some(domain), Some(version), Some(unit), Some(next), first] =
            columns
        else {
            return None;
        };
        let first = first.unwrap_or_else(|| new_null_array(next.data_type(), next.len()));
        Some(Self { columns: [received, exporter, port, domain, version, unit, next, first] })
    }
}

/// Which rows become one.
#[derive(Debug)]
pub(crate) struct SequenceFold {
    /// Of each row that is left, the first and the last of those that it was made of.
    rows: Vec<(u32, u32)>,
    /// The row that is left of each row.
    row_of: Vec<u32>,
}

impl SequenceFold {
    pub(crate) fn new(columns: Option<&SequenceColumns>) -> Self {
        let Some(SequenceColumns { columns }) = columns else { return Self { rows: Vec::new(), row_of: Vec::new() } };
        let [received, exporters, ports, domains, versions, units, nexts, firsts] = columns;
        let received = received.as_primitive::<TimestampMillisecondType>();
        let (exporters, units) = (exporters.as_binary::<i32>(), units.as_string::<i32>());
        let (ports, versions) = (ports.as_primitive::<UInt16Type>(), versions.as_primitive::<UInt8Type>());
        let [domains, firsts, nexts] = [domains, firsts, nexts].map(AsArray::as_primitive::<UInt32Type>);
        let (mut rows, mut row_of): (Vec<(u32, u32)>, Vec<u32>) = (Vec::new(), Vec::new());
        // by who sends, the row that was left last, and where it ends
        let mut last: HashMap<(&[u8], u16, u32, u8), usize> = HashMap::new();
        for row in 0..received.len() {
            let key = (exporters.value(row), ports.value(row), domains.value(row), versions.value(row));
            let goes_on = last.get(&key).copied().filter(|at| {
                let before = rows[*at].1 as usize;
                firsts.is_valid(row)
                    && firsts.value(row) == nexts.value(before)
                    && units.value(row) == units.value(before)
            });
            let at = if let Some(at) = goes_on {
                rows[at].1 = row as u32;
                at
            } else {
                last.insert(key, rows.len());
                rows.push((row as u32, row as u32));
                rows.len() - 1
            };
            row_of.push(at as u32);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| received.value(rows[*at].1 as usize));
        let mut places = vec![0; rows.len()];
        order.iter().zip(0..).for_each(|(at, place)| places[*at] = place);
        for at in &mut row_of {
            *at = places[*at as usize];
        }
        Self { rows: order.into_iter().map(|at| rows[at]).collect(), row_of }
    }

    /// Rows that are left.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// A column of the rows that are left, of the column of all rows.
    pub(crate) fn column(&self, field: &Field, of_all: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if field.name() == "sequence_units" {
            let mut sums = vec![0_u64; self.rows.len()];
            for (place, units) in self.row_of.iter().zip(of_all.as_primitive::<UInt64Type>().values()) {
                let sum = &mut sums[*place as usize];
                *sum = sum.saturating_add(*units);
            }
            return Ok(Arc::new(UInt64Array::from(sums)));
        }
        let is_of_first = matches!(field.name().as_str(), "sequence_first" | "since");
        let rows = self.rows.iter().map(|(first, last)| if is_of_first { *first } else { *last });
        take(of_all, &UInt32Array::from_iter_values(rows), None)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::RecordBatch;
    use weir_flow::sequences::{read_sequence_rows, sequence_rows};
    use weir_flow::{SequenceKey, SequenceRow, Table};

    use super::*;

    fn row(port: u16, [since_ms, received_ms]: [i64; 2], first: Option<u32>, next: u32) -> SequenceRow {
        let key = SequenceKey {
            exporter: vec![192, 0, 2, 1],
            exporter_port: port,
            observation_domain: 1,
            export_version: 10,
        };
        SequenceRow {
            key,
            received_ms,
            since_ms,
            unit: "data records".to_owned(),
            first,
            next,
            units: 10,
            is_least: false,
            exported_ms: received_ms - 5,
            uptime_ms: None,
        }
    }

    fn folded(rows: &[SequenceRow]) -> Vec<SequenceRow> {
        let batch = sequence_rows(rows).expect("rows");
        let (batch, schema) = (batch.record_batch(), Table::ExporterSequences.schema());
        let names = SequenceColumns::NAMES;
        let columns = SequenceColumns::new(names.map(|name| batch.column_by_name(name).cloned()));
        let fold = SequenceFold::new(columns.as_ref());
        let columns = schema.fields().iter().zip(batch.columns());
        let columns = columns.map(|(field, column)| fold.column(field, column).expect("taken")).collect();
        read_sequence_rows(&RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns in order"))
    }

    #[test]
    fn rows_of_one_exporter_that_go_on_become_one() {
        let rows = [
            row(1, [10, 20], None, 100),
            row(2, [11, 21], Some(100), 7),
            row(1, [30, 40], Some(100), 200),
            row(2, [31, 41], None, 9),
            row(1, [50, 60], Some(200), 300),
            row(1, [70, 80], Some(350), 400),
        ];
        let expected = [
            row(2, [11, 21], Some(100), 7),
            row(2, [31, 41], None, 9),
            SequenceRow { units: 30, ..row(1, [10, 60], None, 300) },
            row(1, [70, 80], Some(350), 400),
        ];
        assert_eq!(folded(&rows), expected);
    }
}
