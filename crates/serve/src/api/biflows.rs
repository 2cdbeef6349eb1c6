//! Both directions of conversations as one row.
//!
//! Exporters that keep directions apart send two flows of a conversation. A flow and the first one against it, which begins
//! before the other has been over for [`GAP_MS`], become one row: what began first is the forward direction. Whether a flow
//! has an answer is known only when all flows of the time are looked at, so at most [`FLOWS_MAX`] are.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Schema, UInt8Type, UInt16Type, UInt64Type};
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_query::{Direction, Order, Select, Sorting};

use super::extract::Params;
use super::parameters::{WhichFlows, limit};
use crate::access::Asker;
use crate::answer::{AnswerNotes, BodyMaker, TableAnswer};
use crate::body::AnswerForm;
use crate::problem::{Answered, Problem};
use crate::service::{Question, Reads, Service};

/// Flows that are looked at.
const FLOWS_MAX: usize = 100_000;
/// How long after a flow has ended one against it may begin.
const GAP_MS: i64 = 60_000;
/// Rows unless a request asks for another number, and the most.
const ROWS: (usize, usize) = (200, 10_000);

/// What is read of flows.
const READ: [Column; 14] = [
    Column::Start,
    Column::End,
    Column::Protocol,
    Column::SrcAddr,
    Column::SrcPort,
    Column::DstAddr,
    Column::DstPort,
    Column::TcpFlags,
    Column::TcpFlagsReverse,
    Column::Packets,
    Column::PacketsReverse,
    Column::Bytes,
    Column::BytesReverse,
    Column::Exporter,
];

/// Which flows are stitched.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BiflowParams {
    /// In nfdump's language; all flows without it. It is to take both directions.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// start, bytes or packets, of both directions together, with `-` before it for the largest first; start without it.
    order: Option<String>,
    /// Rows at most: 200, up to 10,000.
    limit: Option<usize>,
    /// Rows that are left out before the first.
    offset: Option<usize>,
}

/// Lists conversations: both directions as one row, whose columns `_reverse` are null where there is one direction only.
#[utoipa::path(
    get, path = "/biflows", tag = "questions", params(BiflowParams),
    responses((status = 200, body = TableAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn biflows(
    State(service): State<Arc<Service>>,
    asker: Asker,
    form: AnswerForm,
    Params(params): Params<BiflowParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let limit = limit(params.limit, ROWS.0, ROWS.1)?;
    let order = params.order.clone().filter(|order| !order.is_empty()).unwrap_or_else(|| "start".to_owned());
    let ranking = BiflowOrder::of(&order)?;
    let offset = params.offset.unwrap_or(0);
    let text = which.text(&format!("biflows order={order} limit={limit} offset={offset}"));
    let sorting = Some(Sorting { order: Order::Start, direction: Direction::Ascending });
    let query = which.query(Select::List { columns: READ.to_vec(), sorting, limit: Some(FLOWS_MAX + 1) });
    let work = move |question: &Question<'_>| {
        let mut stitched = Stitched::default();
        let (mut left, mut is_truncated) = (FLOWS_MAX, false);
        for batch in question.ask(&query)? {
            let batch = batch?;
            is_truncated |= batch.num_rows() > left;
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            stitched.add(&batch);
        }
        let mut rows = stitched.rows;
        let found = rows.len();
        ranking.sort(&mut rows);
        is_truncated |= rows.len() > offset.saturating_add(limit);
        let shown: Vec<Biflow> = rows.into_iter().skip(offset).take(limit).collect();
        let batch = batch_of(&shown)?;
        let mut body = BodyMaker::new(batch.schema(), form, question.service.answer_octets_max());
        body.push(batch)?;
        let completeness = question.completeness(&query)?;
        body.finish(&AnswerNotes {
            totals: None,
            completeness,
            position: question.position(),
            is_truncated,
            sampling: None,
            why_empty: question.why_empty(&query, found)?,
            warnings: Vec::new(),
        })
    };
    service.answer(&asker, form, text, Reads::Flows(which.window), work).await
}

/// What conversations are sorted by.
#[derive(Debug, Clone, Copy)]
struct BiflowOrder {
    by: Column,
    is_descending: bool,
}

impl BiflowOrder {
    fn of(text: &str) -> Answered<Self> {
        let (name, is_descending) = text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let by = match name {
            "start" => Column::Start,
            "bytes" => Column::Bytes,
            "packets" => Column::Packets,
            name => {
                let detail = format!("conversations cannot be sorted by '{}'", name.escape_debug());
                return Err(Problem::request(detail).with_hint("start, bytes or packets, with - for the largest first"));
            }
        };
        Ok(Self { by, is_descending })
    }

    fn sort(self, rows: &mut [Biflow]) {
        let key = |row: &Biflow| match self.by {
            Column::Bytes => i128::from(row.bytes.unwrap_or(0)) + i128::from(row.bytes_reverse.unwrap_or(0)),
            Column::Packets => i128::from(row.packets.unwrap_or(0)) + i128::from(row.packets_reverse.unwrap_or(0)),
            _ => i128::from(row.start.unwrap_or(i64::MIN)),
        };
        rows.sort_by_key(|row| if self.is_descending { -key(row) } else { key(row) });
    }
}

/// Addresses, ports and protocol of one direction.
type Tuple = (Option<u8>, Vec<u8>, Option<u16>, Vec<u8>, Option<u16>);

/// A conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Biflow {
    start: Option<i64>,
    end: Option<i64>,
    tuple: Tuple,
    tcp_flags: Option<u16>,
    tcp_flags_reverse: Option<u16>,
    packets: Option<u64>,
    packets_reverse: Option<u64>,
    bytes: Option<u64>,
    bytes_reverse: Option<u64>,
    exporter: Vec<u8>,
}

/// Conversations so far, in the order of their first flows.
#[derive(Debug, Default)]
struct Stitched {
    rows: Vec<Biflow>,
    /// Rows without the opposite direction, by their tuple.
    open: HashMap<Tuple, VecDeque<usize>>,
}

impl Stitched {
    /// Adds flows, which come in the order of their starts.
    fn add(&mut self, batch: &RecordBatch) {
        let columns = Columns::of(batch);
        for row in 0..batch.num_rows() {
            self.add_flow(columns.flow(row));
        }
    }

    fn add_flow(&mut self, flow: Biflow) {
        // what an exporter has stitched already stays as it is
        let is_whole = flow.bytes_reverse.is_some() || flow.packets_reverse.is_some();
        let (protocol, source, source_port, destination, destination_port) = flow.tuple.clone();
        let against = (protocol, destination, destination_port, source, source_port);
        if !is_whole && let Some(open) = self.open.get_mut(&against) {
            let starts = flow.start.unwrap_or(i64::MAX);
            let is_near = |row: &usize| {
                let end = self.rows.get(*row).and_then(|row| row.end.or(row.start));
                end.is_some_and(|end| end.saturating_add(GAP_MS) >= starts)
            };
            // what is over for long has no answer any more, as flows come in the order of their starts
            while let Some(row) = open.pop_front() {
                if is_near(&row) {
                    return self.rows[row].answer(&flow);
                }
            }
        }
        if !is_whole {
            self.open.entry(flow.tuple.clone()).or_default().push_back(self.rows.len());
        }
        self.rows.push(flow);
    }
}

impl Biflow {
    fn answer(&mut self, flow: &Self) {
        self.end = self.end.max(flow.end);
        (self.packets_reverse, self.bytes_reverse) = (flow.packets, flow.bytes);
        self.tcp_flags_reverse = flow.tcp_flags;
    }
}

/// The columns of a batch, each where it is there.
struct Columns<'a>(&'a RecordBatch);

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        Self(batch)
    }

    fn column(&self, column: Column) -> Option<&'a ArrayRef> {
        self.0.column_by_name(column.name())
    }

    fn address(&self, column: Column, row: usize) -> Vec<u8> {
        let values = self.column(column).and_then(|values| values.as_binary_opt::<i32>());
        values.filter(|values| values.is_valid(row)).map(|values| values.value(row).to_vec()).unwrap_or_default()
    }

    fn number<T: arrow::datatypes::ArrowPrimitiveType>(&self, column: Column, row: usize) -> Option<T::Native> {
        let values = self.column(column)?.as_primitive_opt::<T>()?;
        values.is_valid(row).then(|| values.value(row))
    }

    fn flow(&self, row: usize) -> Biflow {
        let time = |column| self.number::<arrow::datatypes::TimestampMillisecondType>(column, row);
        let (count, port) =
            (|column| self.number::<UInt64Type>(column, row), |column| self.number::<UInt16Type>(column, row));
        Biflow {
            start: time(Column::Start),
            end: time(Column::End),
            tuple: (
                self.number::<UInt8Type>(Column::Protocol, row),
                self.address(Column::SrcAddr, row),
                port(Column::SrcPort),
                self.address(Column::DstAddr, row),
                port(Column::DstPort),
            ),
            tcp_flags: port(Column::TcpFlags),
            tcp_flags_reverse: port(Column::TcpFlagsReverse),
            packets: count(Column::Packets),
            packets_reverse: count(Column::PacketsReverse),
            bytes: count(Column::Bytes),
            bytes_reverse: count(Column::BytesReverse),
            exporter: self.address(Column::Exporter, row),
        }
    }
}

/// Conversations as a table of [`READ`].
fn batch_of(rows: &[Biflow]) -> Answered<RecordBatch> {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    let some = |octets: &'_ [u8]| !octets.is_empty();
    for row in rows {
        let (protocol, source, source_port, destination, destination_port) = &row.tuple;
        builder.time(Column::Start).push(row.start);
        builder.time(Column::End).push(row.end);
        builder.u8(Column::Protocol).push(*protocol);
        for (column, octets) in
            [(Column::SrcAddr, source), (Column::DstAddr, destination), (Column::Exporter, &row.exporter)]
        {
            builder.address(column).push(Some(octets.as_slice()).filter(|octets| some(octets)));
        }
        builder.u16(Column::SrcPort).push(*source_port);
        builder.u16(Column::DstPort).push(*destination_port);
        builder.u16(Column::TcpFlags).push(row.tcp_flags);
        builder.u16(Column::TcpFlagsReverse).push(row.tcp_flags_reverse);
        builder.u64(Column::Packets).push(row.packets);
        builder.u64(Column::PacketsReverse).push(row.packets_reverse);
        builder.u64(Column::Bytes).push(row.bytes);
        builder.u64(Column::BytesReverse).push(row.bytes_reverse);
    }
    let flows: FlowBatch = builder.finish();
    let full = flows.to_full();
    let fields = READ.map(|column| Arc::new(weir_flow::schema::field(column)));
    let columns = READ.iter().filter_map(|column| full.column_by_name(column.name()).cloned()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns)
        .map_err(|error| Problem::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(start: i64, source: (u8, u16), destination: (u8, u16), bytes: u64) -> Biflow {
        Biflow {
            start: Some(start),
            end: Some(start + 10),
            tuple: (
                Some(6),
                vec![10, 0, 0, source.0],
                Some(source.1),
                vec![10, 0, 0, destination.0],
                Some(destination.1),
            ),
            bytes: Some(bytes),
            packets: Some(1),
            ..Biflow::default()
        }
    }

    fn stitched(flows: impl IntoIterator<Item = Biflow>) -> Vec<(i64, Option<u64>, Option<u64>)> {
        let mut stitched = Stitched::default();
        flows.into_iter().for_each(|flow| stitched.add_flow(flow));
        stitched.rows.iter().map(|row| (row.start.expect("a start"), row.bytes, row.bytes_reverse)).collect()
    }

    #[test]
    fn a_flow_and_its_answer_are_one_row() {
        let (client, server) = ((1, 50_000), (2, 80));
        let rows = stitched([flow(0, client, server, 10), flow(5, server, client, 1000), flow(7, client, (3, 80), 7)]);
        assert_eq!(rows, [(0, Some(10), Some(1000)), (7, Some(7), None)]);
    }

    #[test]
    fn each_flow_answers_once_and_not_what_is_long_over() {
        let (client, server) = ((1, 50_000), (2, 80));
        let rows = stitched([
            flow(0, client, server, 1),
            flow(1, client, server, 2),
            flow(2, server, client, 10),
            flow(3, server, client, 20),
            flow(4, server, client, 30),
        ]);
        assert_eq!(rows, [(0, Some(1), Some(10)), (1, Some(2), Some(20)), (4, Some(30), None)]);
        let late = GAP_MS + 11;
        assert_eq!(stitched([flow(0, client, server, 1), flow(late, server, client, 2)]).len(), 2);
        assert_eq!(stitched([flow(0, client, server, 1), flow(late - 1, server, client, 2)]).len(), 1);
    }

    #[test]
    fn what_an_exporter_has_stitched_stays_as_it_is() {
        let (client, server) = ((1, 50_000), (2, 80));
        let whole = Biflow { bytes_reverse: Some(5), ..flow(0, client, server, 1) };
        let rows = stitched([whole, flow(1, server, client, 2)]);
        assert_eq!(rows, [(0, Some(1), Some(5)), (1, Some(2), None)]);
    }

    #[test]
    fn the_table_has_the_columns_in_their_order() {
        let batch = batch_of(&[flow(0, (1, 1), (2, 2), 9)]).expect("a batch");
        let names: Vec<&str> = batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, READ.map(Column::name));
        assert_eq!(Columns::of(&batch).flow(0), flow(0, (1, 1), (2, 2), 9));
    }
}
