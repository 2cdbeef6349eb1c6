//! What is counted for a group of flows, and by what answers are sorted.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::expr_fn::{bit_or, max, min};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{AggregateUDF, Expr, cast, ident, lit};
use datafusion::prelude::DataFrame;
use weir_flow::schema::arrow_type;
use weir_flow::{Column, element};
use weir_query::{AggregateKey, Measure, Order, Sorting, StatisticKey};

use super::flow_count;
use crate::functions::{call, family};

/// Sorts an aggregated answer.
pub(super) fn sorted(answer: DataFrame, sorting: Sorting) -> Result<DataFrame> {
    answer.sort(vec![ident(sorting.order.column_name()).sort(sorting.is_ascending(), false)])
}

fn rate_of(name: &str, count: Column) -> Expr {
    call(name, vec![ident("start"), ident("end"), ident(count.name())])
}

/// The measure of a single flow, or of a row of an aggregated answer: both have the columns.
pub(super) fn flow_measure(order: Order) -> Expr {
    match order {
        Order::Flows => flow_count(),
        Order::Packets | Order::Bytes | Order::Start | Order::End => ident(order.column_name()),
        Order::PacketsPerSecond => rate_of(order.column_name(), Column::Packets),
        Order::BitsPerSecond => rate_of(order.column_name(), Column::Bytes),
        Order::BytesPerPacket => call(order.column_name(), vec![ident("bytes"), ident("packets")]),
        Order::Duration => call(order.column_name(), vec![ident("start"), ident("end")]),
    }
}

/// Groups flows and counts: keys, flows, packets, bytes, start, end, duration and rates, and further measures.
fn grouped(flows: DataFrame, keys: Vec<Expr>, more: &[Measure]) -> Result<DataFrame> {
    let names: Vec<String> = keys.iter().map(|key| key.schema_name().to_string()).collect();
    let sum = sum_of(&flows)?;
    let mut counts = sums(&sum);
    counts.extend([min(ident("start")).alias("start"), max(ident("end")).alias("end")]);
    counts.extend(more.iter().enumerate().map(|(number, measure)| further(*measure, &sum).alias(further_name(number))));
    let counted = flows.aggregate(keys, counts)?;
    let mut columns: Vec<Expr> = names.into_iter().map(ident).collect();
    columns.extend(["flows", "packets", "bytes", "start", "end"].map(ident));
    let rates = [Order::Duration, Order::PacketsPerSecond, Order::BitsPerSecond, Order::BytesPerPacket];
    columns.extend(rates.map(|order| flow_measure(order).alias(order.column_name())));
    columns.extend(more.iter().enumerate().map(|(number, measure)| {
        cast(ident(further_name(number)), arrow_type(measure.column().column_type())).alias(further_name(number))
    }));
    counted.select(columns)
}

/// A further measure of the flows of a group, null when no flow has its column.
fn further(measure: Measure, sum: &AggregateUDF) -> Expr {
    match measure {
        Measure::Sum(column) => sum.call(vec![ident(column.name())]),
        Measure::Or(column) => bit_or(ident(column.name())),
    }
}

/// Name of a further measure while a question is planned: there may be two of one column, and no column of flows is
/// called so.
fn further_name(number: usize) -> String {
    format!("more {number}")
}

/// The function of the question that adds up.
fn sum_of(flows: &DataFrame) -> Result<Arc<AggregateUDF>> {
    flows.task_ctx().udaf("sum")
}

/// What adds up.
fn sums(sum: &AggregateUDF) -> Vec<Expr> {
    let counts = [("flows", flow_count()), ("packets", ident("packets")), ("bytes", ident("bytes"))];
    counts.into_iter().map(|(name, count)| sum.call(vec![count]).alias(name)).collect()
}

/// The sums of all flows.
pub(super) fn totals(flows: DataFrame) -> Result<DataFrame> {
    let sum = sum_of(&flows)?;
    flows.aggregate(Vec::new(), sums(&sum))
}

/// Columns that [`grouped`] counts.
const COUNTED: [Column; 5] = [Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];

pub(super) fn statistic(flows: DataFrame, key: StatisticKey, per_protocol: bool) -> Result<DataFrame> {
    let name = key.name();
    let protocol = (per_protocol && name != Column::Protocol.name()).then(|| ident(Column::Protocol.name()));
    let mut sides = key.columns().iter().map(|side| {
        let mut columns = vec![ident(side.name()).alias(name)];
        columns.extend(protocol.clone());
        columns.extend(COUNTED.map(|column| ident(column.name())));
        flows.clone().filter(ident(side.name()).is_not_null())?.select(columns)
    });
    let Some(first) = sides.next() else { return Ok(flows) };
    let united = sides.try_fold(first?, |united, side| united.union(side?))?;
    grouped(united, std::iter::once(ident(name)).chain(protocol).collect(), &[])
}

pub(super) fn aggregate(flows: DataFrame, keys: &[AggregateKey], more: &[Measure]) -> Result<DataFrame> {
    let keys: Vec<Expr> = match keys {
        [] => AggregateKey::FIVE_TUPLE.into_iter().map(key_expr).collect(),
        keys => keys.iter().copied().map(key_expr).collect(),
    };
    grouped(flows, keys, more)
}

/// The value that flows agree in, under the name of its column.
fn key_expr(key: AggregateKey) -> Expr {
    match key {
        AggregateKey::Column(column) => ident(column.name()),
        AggregateKey::Prefix { column, v6, length } => {
            let (address, number): (_, u8) = (ident(column.name()), if v6 { 6 } else { 4 });
            let masked = call("prefix", vec![address.clone(), lit(i64::from(length))]);
            let of_family = Box::new(family(address.clone()).eq(lit(number)));
            let branches = vec![(of_family, Box::new(masked))];
            Expr::Case(Case::new(None, branches, Some(Box::new(address)))).alias(column.name())
        }
        AggregateKey::Network { column, mask } => {
            let length = cast(ident(mask.name()), arrow::datatypes::DataType::Int64);
            call("prefix", vec![ident(column.name()), length]).alias(column.name())
        }
        AggregateKey::Element { enterprise, id } => {
            let number = format!("{enterprise}/{id}");
            let name = element(enterprise, id).map_or_else(|| number.clone(), |known| known.name.clone());
            call("element", vec![ident(Column::Elements.name()), lit(number)]).alias(name)
        }
    }
}
