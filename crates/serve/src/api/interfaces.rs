//! Interfaces of exporters: what flows through them, their names and speeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_flow::Column;
use weir_query::{AggregateKey, FlowQuery, Order, Select, Sorting};

use super::extract::Params;
use super::parameters::WhichFlows;
use super::sql::CLOSING_MAX;
use crate::access::Asker;
use crate::body::json;
use crate::live::name_of;
use crate::problem::{Answered, Problem};
use crate::service::{Question, Reads, Service};

/// Interfaces that are listed, those with most octets.
const INTERFACES_MAX: usize = 2000;
/// Names that exporters reported.
const NAMES: &str = "SELECT exporter, key, name, description FROM exporter_options \
    WHERE kind = 'interface' AND key IS NOT NULL";
/// Speeds by counters of sFlow and by SNMP.
const SPEEDS: &str = "SELECT exporter, if_index, max(if_speed) AS speed FROM interface_counters \
    WHERE if_speed > 0 GROUP BY exporter, if_index";

/// A window of time, and how its flows are counted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InterfacesParams {
    /// Its first moment.
    from: Option<String>,
    /// Its last moment.
    until: Option<String>,
    /// Whether packets and octets are scaled by the sampling interval of each flow; they are as measured without it.
    #[serde(default)]
    scaled: bool,
}

/// An interface.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct InterfaceBody {
    /// Address of the exporter.
    exporter: String,
    /// Its SNMP index.
    index: u32,
    /// Its name, by the file of names, the exporter or its SNMP agent.
    pub(super) name: Option<String>,
    /// What the exporter or its SNMP agent says about it.
    pub(super) description: Option<String>,
    /// Its speed in bits a second, by counters of sFlow or by SNMP.
    pub(super) speed_bps: Option<u64>,
    /// Whether packets and octets are scaled by sampling.
    is_scaled: bool,
    /// What came in through it in the window.
    #[serde(rename = "in")]
    received: InterfaceTraffic,
    /// What went out through it.
    #[serde(rename = "out")]
    sent: InterfaceTraffic,
}

/// What went through an interface in one direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct InterfaceTraffic {
    flows: u64,
    packets: u64,
    bytes: u64,
    /// Whether any of its flows was sampled: its interval is larger than 1.
    has_sampled: bool,
}

/// An interface, by the octets of its exporter's address and its index.
pub(super) type InterfaceKey = (Vec<u8>, u32);

/// Lists interfaces with what went through them, those with most octets first.
#[utoipa::path(
    get, path = "/interfaces", tag = "books", params(InterfacesParams),
    responses((status = 200, body = Vec<InterfaceBody>), (status = "default", body = Problem))
)]
pub(crate) async fn interfaces(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<InterfacesParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let which = WhichFlows::of(None, params.from.as_deref(), params.until.as_deref())?.scaled(params.scaled);
    let query = |column: Column| {
        let keys = [Column::Exporter, column, Column::SamplingInterval].map(AggregateKey::Column).to_vec();
        let sorting = Some(Sorting::usual(Order::Bytes));
        which.query(Select::Aggregate { keys, more: Vec::new(), sorting, limit: Some(INTERFACES_MAX) })
    };
    let (incoming, outgoing) = (query(Column::InIf), query(Column::OutIf));
    let text = which.text("interfaces");
    let work = move |question: &Question<'_>| {
        let mut found: BTreeMap<InterfaceKey, InterfaceBody> = BTreeMap::new();
        traffic(question, &incoming, &mut found, |interface| &mut interface.received)?;
        traffic(question, &outgoing, &mut found, |interface| &mut interface.sent)?;
        describe(question, &mut found, which.window.until_ms)?;
        let mut all: Vec<InterfaceBody> = found.into_values().collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.received.bytes.saturating_add(one.sent.bytes)));
        all.truncate(INTERFACES_MAX);
        question.turn.note_rows(all.len() as u64);
        json(&all)
    };
    service.ask(&asker, text, Reads::Flows(which.window), work).await
}

/// Adds what went through interfaces in one direction.
fn traffic(
    question: &Question<'_>,
    query: &FlowQuery,
    found: &mut BTreeMap<InterfaceKey, InterfaceBody>,
    direction: impl Fn(&mut InterfaceBody) -> &mut InterfaceTraffic,
) -> Answered<()> {
    for batch in question.ask(query)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let Some((exporter, index)) = key(&batch, 0, 1, row) else { continue };
            let count = |name: &str| {
                let counts = batch.column_by_name(name).and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
                counts.filter(|counts| counts.is_valid(row)).map_or(0, |counts| counts.value(row))
            };
            let intervals = batch.column_by_name(Column::SamplingInterval.name());
            let intervals = intervals.and_then(|intervals| intervals.as_primitive_opt::<UInt32Type>());
            let body = found.entry((exporter.clone(), index)).or_insert_with(|| InterfaceBody {
                exporter: name_of(&exporter),
                index,
                is_scaled: query.scaled,
                ..InterfaceBody::default()
            });
            // a row for each sampling interval
            let traffic = direction(body);
            traffic.flows = traffic.flows.saturating_add(count("flows"));
            traffic.packets = traffic.packets.saturating_add(count("packets"));
            traffic.bytes = traffic.bytes.saturating_add(count("bytes"));
            traffic.has_sampled |= intervals.is_some_and(|values| values.is_valid(row) && values.value(row) > 1);
        }
    }
    Ok(())
}

/// Adds names and speeds: those that exporters report, where all flows are seen, and those of the file of names. Names are those of
/// a time, or the newest ones.
pub(super) fn describe(
    question: &Question<'_>,
    found: &mut BTreeMap<InterfaceKey, InterfaceBody>,
    at_ms: Option<i64>,
) -> Answered<()> {
    if question.view.is_whole() {
        describe_by_exporters(question, found, at_ms)?;
    }
    let enrichment = question.service.archive.enrichment();
    for ((exporter, index), body) in found {
        if let Some(name) = enrichment.interface(exporter, *index, at_ms) {
            body.name = Some(name);
        }
    }
    Ok(())
}

/// The question for names, in the order in which later rows count more: those that came after the time, the last of them first, and then
/// those up to it.
fn names_statements(at_ms: Option<i64>) -> Vec<String> {
    match at_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()) {
        None => vec![format!("{NAMES} ORDER BY received")],
        Some(at) => vec![
            format!("{NAMES} AND received > '{at}' ORDER BY received DESC"),
            format!("{NAMES} AND received <= '{at}' ORDER BY received"),
        ],
    }
}

fn describe_by_exporters(
    question: &Question<'_>,
    found: &mut BTreeMap<InterfaceKey, InterfaceBody>,
    at_ms: Option<i64>,
) -> Answered<()> {
    let engine = question.service.archive.engine(question.snapshot, &question.turn.control, question.view)?;
    let mut each = |statement: &str, tell: &dyn Fn(&mut InterfaceBody, &RecordBatch, usize)| -> Answered<()> {
        for batch in engine.sql_on(statement, &question.turn.control)? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                if let Some(body) = key(&batch, 0, 1, row).and_then(|key| found.get_mut(&key)) {
                    tell(body, &batch, row);
                }
            }
        }
        Ok(())
    };
    for statement in names_statements(at_ms) {
        each(&statement, &|body, batch, row| {
            body.name = text(batch, "name", row).or(body.name.take());
            body.description = text(batch, "description", row).or(body.description.take());
        })?;
    }
    each(SPEEDS, &|body, batch, row| {
        let speeds = batch.column_by_name("speed").and_then(|values| values.as_primitive_opt::<UInt64Type>());
        body.speed_bps = speeds.filter(|speeds| speeds.is_valid(row)).map(|speeds| speeds.value(row));
    })?;
    engine.close(CLOSING_MAX);
    Ok(())
}

/// Exporter and index of a row.
fn key(batch: &RecordBatch, exporter: usize, index: usize, row: usize) -> Option<InterfaceKey> {
    let exporters = batch.column(exporter).as_binary_opt::<i32>().filter(|values| values.is_valid(row))?;
    let indexes = batch.column(index);
    let index = if let Some(indexes) = indexes.as_primitive_opt::<UInt32Type>() {
        indexes.is_valid(row).then(|| indexes.value(row))
    } else {
        let indexes = indexes.as_primitive_opt::<UInt64Type>().filter(|values| values.is_valid(row))?;
        u32::try_from(indexes.value(row)).ok()
    };
    Some((exporters.value(row).to_vec(), index?))
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> Option<String> {
    let texts = batch.column_by_name(name).filter(|texts| texts.is_valid(row))?;
    let text = match texts.as_string_view_opt() {
        Some(texts) => texts.value(row),
        None => texts.as_string_opt::<i32>()?.value(row),
    };
    Some(text).filter(|text| !text.is_empty()).map(str::to_owned)
}
