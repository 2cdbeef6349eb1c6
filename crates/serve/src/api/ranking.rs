//! Values and groups that account for most.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_query::{FlowQuery, Select};
use weir_sql::Totals;

use super::extract::Params;
use super::parameters::{MeasureParam, WhichFlows, keys, limit, ranking};
use crate::access::Asker;
use crate::answer::{AnswerNotes, BodyMaker, TableAnswer};
use crate::body::{AnswerForm, CachedAnswer};
use crate::problem::{Answered, Problem};
use crate::sampling::Overview;
use crate::service::{Question, Reads, Service};

/// Rows of a ranking unless a request asks for another number, and the most.
const RANKED: (usize, usize) = (10, 10_000);
/// Rows of groups unless a request asks for another number, and the most.
const GROUPED: (usize, usize) = (200, 10_000);
/// Counters whose shares are added.
const SHARED: [&str; 3] = ["flows", "packets", "bytes"];

/// Which flows, and by what they are ranked or grouped.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RankParams {
    /// A field: nfdump's name of a statistic such as srcip, dstport, proto, srcas, inif or router, or any column. Of groups
    /// several, between commas.
    by: String,
    /// What the largest have most of.
    #[serde(default)]
    #[param(inline)]
    measure: MeasureParam,
    /// Rows at most: 10 of a ranking, 200 of groups, up to 10,000.
    limit: Option<usize>,
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// Whether packets and octets are scaled by the sampling interval of each flow, for the filter too; they are as measured
    /// without it.
    #[serde(default)]
    scaled: bool,
}

impl RankParams {
    fn which(&self) -> Answered<WhichFlows> {
        let which = WhichFlows::of(self.filter.as_deref(), self.from.as_deref(), self.until.as_deref())?;
        Ok(which.scaled(self.scaled))
    }

    fn text(&self, name: &str, limit: usize) -> String {
        format!("{name} by={} measure={} limit={limit}", self.by, self.measure.name())
    }
}

/// Ranks the values of a field. A field with two sides, such as ip or port, counts a flow for each of them.
#[utoipa::path(
    get, path = "/rank", tag = "questions", params(RankParams),
    responses((status = 200, body = TableAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn rank(
    State(service): State<Arc<Service>>,
    asker: Asker,
    form: AnswerForm,
    Params(params): Params<RankParams>,
) -> Answered<Response> {
    let which = params.which()?;
    let limit = limit(params.limit, RANKED.0, RANKED.1)?;
    let query = which.query(ranking(params.by.trim(), params.measure, limit)?);
    let text = which.text(&params.text("rank", limit));
    service.answer(&asker, form, text, Reads::Flows(which.window), move |question| ranked(question, &query, form)).await
}

/// Groups flows by several columns.
#[utoipa::path(
    get, path = "/group", tag = "questions", params(RankParams),
    responses((status = 200, body = TableAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn group(
    State(service): State<Arc<Service>>,
    asker: Asker,
    form: AnswerForm,
    Params(params): Params<RankParams>,
) -> Answered<Response> {
    let which = params.which()?;
    let limit = limit(params.limit, GROUPED.0, GROUPED.1)?;
    let (keys, sorting) = (keys(&params.by)?, Some(params.measure.sorting()));
    let query = which.query(Select::Aggregate { keys, more: Vec::new(), sorting, limit: Some(limit) });
    let text = which.text(&params.text("group", limit));
    service.answer(&asker, form, text, Reads::Flows(which.window), move |question| ranked(question, &query, form)).await
}

/// The rows, each with its share of all flows.
fn ranked(question: &Question<'_>, query: &FlowQuery, form: AnswerForm) -> Answered<CachedAnswer> {
    let Overview { totals, sampling } = question.overview(query)?;
    let answer = question.ask(query)?;
    let schema = with_shares(answer.schema());
    let mut body = BodyMaker::new(Arc::clone(&schema), form, question.service.answer_octets_max());
    let limit = match &query.select {
        Select::Statistic { limit, .. } | Select::Aggregate { limit, .. } | Select::List { limit, .. } => *limit,
    };
    let mut rows = 0;
    for batch in answer {
        let batch = batch?;
        rows += batch.num_rows();
        body.push(add_shares(&batch, &schema, &totals)?)?;
    }
    let notes = AnswerNotes {
        totals: Some(totals.into()),
        completeness: question.completeness(query)?,
        position: question.position(),
        is_truncated: limit == Some(rows),
        sampling: Some(sampling),
        why_empty: question.why_empty(query, rows)?,
        warnings: Vec::new(),
    };
    body.finish(&notes)
}

/// The columns of an answer, and those of shares.
pub(super) fn with_shares(schema: &SchemaRef) -> SchemaRef {
    let shares = SHARED.map(|name| Arc::new(Field::new(format!("{name}_share"), DataType::Float64, true)));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain(shares).collect::<Vec<_>>()))
}

/// A batch with the shares of its rows, whose columns are those of `schema`.
pub(super) fn add_shares(batch: &RecordBatch, schema: &SchemaRef, totals: &Totals) -> Answered<RecordBatch> {
    let share = |name: &str| -> ArrayRef {
        let total = match name {
            "flows" => totals.flows,
            "packets" => totals.packets,
            _ => totals.bytes,
        };
        let counts = batch.column_by_name(name).and_then(|counts| counts.as_primitive_opt::<UInt64Type>());
        let of = |row: usize| {
            let counts = counts.filter(|counts| counts.is_valid(row) && total > 0)?;
            Some(counts.value(row) as f64 / total as f64)
        };
        Arc::new((0..batch.num_rows()).map(of).collect::<Float64Array>())
    };
    let columns = batch.columns().iter().cloned().chain(SHARED.map(share)).collect();
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(|error| Problem::internal(error.to_string()))
}
