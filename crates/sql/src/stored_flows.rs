//! Flows that are kept elsewhere, as the table `flows`.
//!
//! The store reads what it can find by the time of reception and by comparisons of columns with constants; everything else is done
//! by the engine, which looks at every condition once more. So an answer is that of an archive with the same flows.

use std::error::Error;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use weir_flow::{Column, FlowBatch, Table};

use crate::scan::padded;

/// Batches of flows as they are read.
pub type StoredBatches = Box<dyn Iterator<Item = std::result::Result<FlowBatch, Box<dyn Error + Send + Sync>>> + Send>;

/// A store of flows that is no archive.
pub trait StoredFlows: Debug + Send + Sync {
    /// Reads flows. Those that cannot be in the selection may be left out, and others given. Batches may block until they
    /// are there; reading ends when they are dropped.
    fn read(&self, selection: FlowSelection) -> StoredBatches;
}

/// Which flows are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSelection {
    /// When they were received, in milliseconds since the epoch; the end is not included.
    pub received_ms: Range<i64>,
    /// Columns that are looked at, at least.
    pub columns: Vec<Column>,
    /// Comparisons that all of them pass.
    pub comparisons: Vec<FlowComparison>,
    /// Bounds on when they began or ended that also flows without that time pass, by when they were received: those of windows.
    pub windows: Vec<WindowBound>,
}

/// A bound on when a flow began or ended, or was received when that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowBound {
    /// The column: `start` or `end`.
    pub column: Column,
    /// How it is compared.
    pub operator: Comparison,
    /// With which time, in milliseconds since the epoch.
    pub time_ms: i64,
}

/// A comparison of a column with a constant. Rows without a value do not pass.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowComparison {
    /// The column.
    pub column: Column,
    /// How it is compared.
    pub operator: Comparison,
    /// With what.
    pub value: ComparedValue,
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// It is the constant.
    Equal,
    /// It is smaller.
    Less,
    /// It is not larger.
    LessOrEqual,
    /// It is larger.
    Greater,
    /// It is not smaller.
    GreaterOrEqual,
}

/// What a column is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComparedValue {
    /// A number.
    Number(u64),
    /// An address or other octets.
    Octets(Vec<u8>),
}

/// The table `flows` over a store.
#[derive(Debug)]
pub(crate) struct StoredTable {
    store: Arc<dyn StoredFlows>,
    schema: SchemaRef,
}

impl StoredTable {
    pub(crate) fn new(store: Arc<dyn StoredFlows>) -> Self {
        Self { store, schema: Table::Flows.schema() }
    }
}

/// A condition on a column, when it is a comparison with a constant.
fn comparison(filter: &Expr) -> Option<(Column, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { return None };
    let (column, operator, literal) = match (&**left, &**right) {
        (Expr::Column(column), literal) => (column, *op, literal),
        (literal, Expr::Column(column)) => (column, op.swap()?, literal),
        _ => return None,
    };
    let Expr::Literal(value, _) = literal else { return None };
    Column::by_name(&column.name).map(|column| (column, operator, value))
}

/// The times of reception that a comparison takes.
fn received(operator: Operator, value: &ScalarValue) -> Option<Range<i64>> {
    let ScalarValue::TimestampMillisecond(Some(ms), _) = *value else { return None };
    Some(match operator {
        Operator::Eq => ms..ms.saturating_add(1),
        Operator::Lt => i64::MIN..ms,
        Operator::LtEq => i64::MIN..ms.saturating_add(1),
        Operator::Gt => ms.saturating_add(1)..i64::MAX,
        Operator::GtEq => ms..i64::MAX,
        _ => return None,
    })
}

/// A bound of a window: `column >= time OR column IS NULL AND received >= time`.
fn window_bound(filter: &Expr) -> Option<WindowBound> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) = filter else { return None };
    [(left, right), (right, left)].into_iter().find_map(|(test, rest)| {
        let (column, operator, value) = comparison(test)?;
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) = &**rest else { return None };
        let is_null = |expr: &Expr| {
            let Expr::IsNull(expr) = expr else { return false };
            matches!(&**expr, Expr::Column(other) if other.name == column.name())
        };
        let same = |expr: &Expr| comparison(expr) == Some((Column::Received, operator, value));
        let is_window = is_null(left) && same(right) || is_null(right) && same(left);
        let ScalarValue::TimestampMillisecond(Some(time_ms), _) = *value else { return None };
        let is_time = matches!(column, Column::Start | Column::End);
        (is_window && is_time).then_some(WindowBound { column, operator: compared(operator)?, time_ms })
    })
}

/// How a store is asked to compare.
fn compared(operator: Operator) -> Option<Comparison> {
    Some(match operator {
        Operator::Eq => Comparison::Equal,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// What a store is asked to compare.
fn pushed(column: Column, operator: Operator, value: &ScalarValue) -> Option<FlowComparison> {
    let operator = compared(operator)?;
    let value = match value {
        // a store compares unsigned numbers; no flow is from before 1970
        ScalarValue::TimestampMillisecond(Some(ms), _) => ComparedValue::Number(u64::try_from(*ms).ok()?),
        ScalarValue::UInt8(Some(number)) => ComparedValue::Number(u64::from(*number)),
        ScalarValue::UInt16(Some(number)) => ComparedValue::Number(u64::from(*number)),
        ScalarValue::UInt32(Some(number)) => ComparedValue::Number(u64::from(*number)),
        ScalarValue::UInt64(Some(number)) => ComparedValue::Number(*number),
        ScalarValue::Binary(Some(octets)) => ComparedValue::Octets(octets.clone()),
        _ => return None,
    };
    Some(FlowComparison { column, operator, value })
}

/// What a question wants, by its conditions.
fn selection(filters: &[Expr], columns: Vec<Column>) -> FlowSelection {
    let mut selection = FlowSelection {
        received_ms: i64::MIN..i64::MAX,
        columns,
        comparisons: Vec::new(),
        windows: filters.iter().filter_map(window_bound).collect(),
    };
    for (column, operator, value) in filters.iter().filter_map(comparison) {
        if column == Column::Received {
            if let Some(more) = received(operator, value) {
                let known = &mut selection.received_ms;
                *known = known.start.max(more.start)..known.end.min(more.end);
            }
        } else {
            selection.comparisons.extend(pushed(column, operator, value));
        }
    }
    selection
}

#[async_trait]
impl TableProvider for StoredTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let decide = |filter: &&Expr| {
            let is_used = comparison(filter).is_some() || window_bound(filter).is_some();
            if is_used { TableProviderFilterPushDown::Inexact } else { TableProviderFilterPushDown::Unsupported }
        };
        Ok(filters.iter().map(decide).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let every: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&every);
        let columns = projection.iter().map(|position| Column::ALL[*position]).collect();
        let schema = Arc::new(self.schema.project(projection)?);
        let store = Arc::clone(&self.store);
        let part = StoredPart { store, selection: selection(filters, columns), schema: Arc::clone(&schema) };
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![Arc::new(part)], None, None, false, None)?))
    }
}

/// Reads a selection when it runs.
#[derive(Debug)]
struct StoredPart {
    store: Arc<dyn StoredFlows>,
    selection: FlowSelection,
    schema: SchemaRef,
}

impl PartitionStream for StoredPart {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (store, selection, schema) = (Arc::clone(&self.store), self.selection.clone(), Arc::clone(&self.schema));
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), 2);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            for batch in store.read(selection) {
                let batch = batch.map_err(DataFusionError::External);
                let rows = batch.and_then(|batch| Ok(padded(batch.record_batch(), &schema)?));
                let is_last = rows.is_err();
                // the question has ended
                if sender.blocking_send(rows).is_err() || is_last {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    #[test]
    fn conditions_become_a_range_of_time_and_comparisons() {
        let ms = |ms| Expr::Literal(ScalarValue::TimestampMillisecond(Some(ms), Some("UTC".into())), None);
        let filters = [
            col("received").gt_eq(ms(5)),
            ms(90).gt(col("received")),
            col("dst_port").eq(lit(443_u16)),
            lit(9_u64).lt_eq(col("bytes")),
            col("src_addr").eq(lit(ScalarValue::Binary(Some(vec![192, 0, 2, 1])))),
            col("dst_port").not_eq(lit(80_u16)),
            col("bytes").eq(col("packets")),
            col("start").lt(ms(70)),
            col("end").gt_eq(ms(7)).or(col("end").is_null().and(col("received").gt_eq(ms(7)))),
            // another time, so no window
            col("end").gt_eq(ms(8)).or(col("end").is_null().and(col("received").gt_eq(ms(9)))),
        ];
        let found = selection(&filters, vec![Column::Bytes]);
        assert_eq!(found.received_ms, 5..90);
        let compared = |column, operator, value| FlowComparison { column, operator, value };
        assert_eq!(
            found.comparisons,
            [
                compared(Column::DstPort, Comparison::Equal, ComparedValue::Number(443)),
                compared(Column::Bytes, Comparison::GreaterOrEqual, ComparedValue::Number(9)),
                compared(Column::SrcAddr, Comparison::Equal, ComparedValue::Octets(vec![192, 0, 2, 1])),
                compared(Column::Start, Comparison::Less, ComparedValue::Number(70)),
            ]
        );
        let window = WindowBound { column: Column::End, operator: Comparison::GreaterOrEqual, time_ms: 7 };
        assert_eq!(found.windows, [window]);
    }
}
