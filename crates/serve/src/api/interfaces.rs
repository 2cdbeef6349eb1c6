//! Interfaces of exporters: what flows through them, their names and speeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt32Type, UInt64Type};
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_flow::{Column, Table};
use weir_query::{AggregateKey, FlowQuery, Order, Select, Sorting};
use weir_sql::Engine;

use super::extract::Params;
use super::parameters::WhichFlows;
use crate::access::Asker;
use crate::body::json;
use crate::live::name_of;
use crate::moment::now_ms;
use crate::problem::{Answered, Problem};
use crate::service::{CLOSING_MAX, Question, Reads, Service};

/// Interfaces that are listed, those with most octets.
const INTERFACES_MAX: usize = 2000;
/// Names that exporters reported.
const NAMES: &str = "SELECT exporter, key, name, description, scope FROM exporter_options \
    WHERE kind = 'interface' AND key IS NOT NULL";
/// How the scope of names by SNMP begins. Such a row has all that the agent says, others what their record has.
const SNMP_SCOPE: &str = "snmp interface ";
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Days before a time in which the newest speed is looked for, in turn: the first has those of agents that are heard all the time.
const SPEED_DAYS: [(i64, i64); 2] = [(1, 0), (7, 1)];

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
    /// Its speed in bits a second, by counters of sFlow or by SNMP: the newest of the 7 days before the end of the window, or
    /// before the newest counters of any exporter up to it.
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
    responses((status = 200, body = Vec<InterfaceBody>), (status = "default", body = Problem, content_type = "application/problem+json"))
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

/// The question for the newest speeds of a time, by counters of sFlow and by SNMP; `None` for times that cannot be written.
fn speeds_statement(after_ms: i64, until_ms: i64) -> Option<String> {
    let after = Timestamp::from_millisecond(after_ms).ok()?;
    let until = Timestamp::from_millisecond(until_ms).ok()?;
    Some(format!(
        "SELECT exporter, if_index, last_value(if_speed ORDER BY received) AS speed FROM interface_counters \
         WHERE if_speed > 0 AND received > '{after}' AND received <= '{until}' GROUP BY exporter, if_index"
    ))
}

/// The newest moment up to a time, and up to now, at which there may be counters, so that an archive of old captures has
/// speeds, too. Counters of the future, by a clock that was wrong, would hide those of all others.
fn newest_counters_ms(question: &Question<'_>, at_ms: Option<i64>) -> Answered<Option<i64>> {
    let now_ms = now_ms();
    let at_ms = at_ms.map_or(now_ms, |at_ms| at_ms.min(now_ms));
    let days = question.snapshot.segments(Table::InterfaceCounters).iter().map(|segment| segment.day);
    let first_moments = days.map(|day| day.saturating_mul(DAY_MS)).filter(|first_ms| *first_ms <= at_ms);
    let mut newest = first_moments.map(|first_ms| first_ms.saturating_add(DAY_MS - 1).min(at_ms)).max();
    for rows in question.snapshot.tail(Table::InterfaceCounters)? {
        let times =
            rows.column_by_name("received").and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>());
        let times = times.into_iter().flat_map(|times| times.values().iter().copied());
        newest = newest.max(times.filter(|ms| *ms <= at_ms).max());
    }
    Ok(newest)
}

fn describe_by_exporters(
    question: &Question<'_>,
    found: &mut BTreeMap<InterfaceKey, InterfaceBody>,
    at_ms: Option<i64>,
) -> Answered<()> {
    let engine = question.service.archive.engine(question.snapshot, &question.turn.control, question.view)?;
    for statement in names_statements(at_ms) {
        each(question, &engine, found, &statement, name)?;
    }
    if let Some(newest_ms) = newest_counters_ms(question, at_ms)? {
        for (first, last) in SPEED_DAYS {
            let moment = |days: i64| newest_ms.saturating_sub(days * DAY_MS);
            let is_missing = found.values().any(|body| body.speed_bps.is_none());
            if let (true, Some(statement)) = (is_missing, speeds_statement(moment(first), moment(last))) {
                each(question, &engine, found, &statement, speed)?;
            }
        }
    }
    question.turn.note_busy(engine.close(CLOSING_MAX));
    Ok(())
}

/// Tells the interfaces that are found what the rows of an answer say of them.
fn each(
    question: &Question<'_>,
    engine: &Engine,
    found: &mut BTreeMap<InterfaceKey, InterfaceBody>,
    statement: &str,
    tell: fn(&mut InterfaceBody, &RecordBatch, usize),
) -> Answered<()> {
    for batch in engine.sql_on(statement, &question.turn.control)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if let Some(body) = key(&batch, 0, 1, row).and_then(|key| found.get_mut(&key)) {
                tell(body, &batch, row);
            }
        }
    }
    Ok(())
}

/// Takes a name. What an agent no longer says by SNMP is gone; a record that has no description leaves that of another.
fn name(body: &mut InterfaceBody, batch: &RecordBatch, row: usize) {
    let (name, description) = (text(batch, "name", row), text(batch, "description", row));
    let is_all = text(batch, "scope", row).is_some_and(|scope| scope.starts_with(SNMP_SCOPE));
    body.name = name.or(body.name.take().filter(|_| !is_all));
    body.description = description.or(body.description.take().filter(|_| !is_all));
}

/// Takes a speed where none is known.
fn speed(body: &mut InterfaceBody, batch: &RecordBatch, row: usize) {
    let speeds = batch.column_by_name("speed").and_then(|values| values.as_primitive_opt::<UInt64Type>());
    let speed = speeds.filter(|speeds| speeds.is_valid(row)).map(|speeds| speeds.value(row));
    body.speed_bps = body.speed_bps.or(speed);
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

#[cfg(test)]
mod tests {
    use weir_flow::{OptionsKind, OptionsRow, OptionsRows};

    use super::*;

    /// What is known after a row of a record, and then one of an agent.
    fn described(record: Option<&str>, agent: Option<&str>) -> [Option<String>; 2] {
        let mut rows = OptionsRows::default();
        for (scope, description) in
            [("interface 7", record), ("snmp interface 7", Some("to Berlin")), ("snmp interface 7", agent)]
        {
            let kind = OptionsKind::Interface;
            let row = OptionsRow {
                kind,
                scope,
                key: Some(7),
                name: Some("lo"),
                description,
                ..OptionsRow::blank(0, &[192, 0, 2, 1], 0, 10)
            };
            rows.push(&row, std::iter::empty());
        }
        let rows = rows.take().expect("rows");
        let mut body = InterfaceBody::default();
        (0..3).for_each(|row| name(&mut body, rows.record_batch(), row));
        [body.name, body.description]
    }

    #[test]
    fn a_description_that_an_agent_no_longer_has_is_gone() {
        let named = |description: Option<&str>| [Some("lo".to_owned()), description.map(str::to_owned)];
        assert_eq!(described(None, Some("to Kiel")), named(Some("to Kiel")));
        assert_eq!(described(Some("ours"), None), named(None));
    }

    #[test]
    fn speeds_are_those_of_a_time() {
        let statement = speeds_statement(0, DAY_MS).expect("times");
        let within = "received > '1970-01-01T00:00:00Z' AND received <= '1970-01-02T00:00:00Z'";
        assert!(statement.contains(within), "{statement}");
        assert_eq!(speeds_statement(i64::MIN, i64::MAX), None);
    }
}
