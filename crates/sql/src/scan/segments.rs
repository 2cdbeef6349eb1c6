//! Which segments a scan must open at all.
//!
//! The name of a segment has the range of its times, and its folder the day it was received on. An archive of a year
//! has a hundred thousand segments; a question about an hour of it opens a dozen.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, TimestampMillisecondArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::view::SegmentFile;

/// What is known of segments before they are opened.
struct Known<'a>(&'a [Arc<SegmentFile>]);

impl Known<'_> {
    /// One end of the range of a column of times, per segment.
    fn bounds(&self, column: &Column, end: impl Fn((i64, i64)) -> i64) -> Option<ArrayRef> {
        let range = match column.name() {
            "start" | "end" | "minute" => SegmentFile::time_range_ms,
            "received" => SegmentFile::received_range_ms,
            _ => return None,
        };
        let bounds: TimestampMillisecondArray = self.0.iter().map(|segment| range(segment).map(&end)).collect();
        Some(Arc::new(bounds.with_timezone("UTC")))
    }
}

impl PruningStatistics for Known<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |range| range.0)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, |range| range.1)
    }

    fn num_containers(&self) -> usize {
        self.0.len()
    }

    fn null_counts(&self, _column: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows: UInt64Array = self.0.iter().map(|segment| Some(segment.rows())).collect();
        Some(Arc::new(rows))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// The segments that may hold a row for which the predicate is true.
pub(super) fn with_possible_rows(
    segments: &[Arc<SegmentFile>],
    predicate: Option<&Arc<dyn PhysicalExpr>>,
    schema: &SchemaRef,
) -> Result<Vec<Arc<SegmentFile>>> {
    let Some(predicate) = predicate else { return Ok(segments.to_vec()) };
    let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(Arc::clone(predicate));
    let Some(pruning) = pruning else { return Ok(segments.to_vec()) };
    let is_possible = pruning.prune(&Known(segments))?;
    let possible = segments.iter().zip(is_possible).filter(|(_, is_possible)| *is_possible);
    Ok(possible.map(|(segment, _)| Arc::clone(segment)).collect())
}

#[cfg(test)]
mod tests {
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, ident, lit};
    use datafusion::prelude::SessionContext;
    use weir_flow::Table;

    use super::*;

    fn time(ms: i64) -> Expr {
        Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None)
    }

    fn possible(filter: &Expr) -> Vec<u64> {
        let day_ms = 86_400_000;
        let segments: Vec<_> = (1..=3)
            .map(|day| {
                let path = format!("flows/date=1970-01-0{day}/{day}.parquet");
                let range = Some(((day - 1) * day_ms, day * day_ms));
                Arc::new(SegmentFile::new(path, 0, day as u64).with_time_range_ms(range))
            })
            .chain([Arc::new(SegmentFile::new("flows/4.parquet", 0, 4))])
            .collect();
        let schema = Table::Flows.schema();
        let columns = DFSchema::try_from(Arc::clone(&schema)).expect("a schema");
        let filter = SessionContext::new().create_physical_expr(filter.clone(), &columns).expect("an expression");
        let found = with_possible_rows(&segments, Some(&filter), &schema).expect("segments");
        found.iter().map(|segment| segment.rows()).collect()
    }

    /// The fourth segment has no times and is always possible.
    #[test]
    fn segments_of_other_times_stay_closed() {
        assert_eq!(possible(&ident("start").gt(time(86_400_000))), [2, 3, 4]);
        assert_eq!(possible(&ident("end").lt(time(1000))), [1, 4]);
        assert_eq!(possible(&ident("received").gt_eq(time(86_400_000))), [2, 3, 4]);
        assert_eq!(possible(&ident("dst_port").eq(lit(22_u16))), [1, 2, 3, 4]);
        let without_end = ident("end").is_null().and(ident("received").lt(time(1000)));
        assert_eq!(possible(&ident("end").lt(time(1000)).or(without_end)), [1, 4]);
    }
}
