//! Single flows, and what a question may cost.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_filter::Predicate;
use weir_flow::Column;
use weir_query::{Estimate, EstimateLimits, FilteredEstimate, Select};

use super::extract::Params;
use super::parameters::{WhichFlows, column, limit, names, sorting};
use crate::access::Asker;
use crate::answer::{AnswerNotes, BodyMaker, TableAnswer};
use crate::body::{AnswerForm, json};
use crate::problem::{Answered, Problem};
use crate::service::{Question, Reads, Service};

/// Rows unless a request asks for another number, and the most.
const ROWS: (usize, usize) = (200, 10_000);
/// Rows that may be left out before the first.
const OFFSET_MAX: usize = 1_000_000;

/// Columns of a plain list.
const COLUMNS: &[Column] = &[
    Column::Start,
    Column::End,
    Column::Protocol,
    Column::SrcAddr,
    Column::SrcPort,
    Column::DstAddr,
    Column::DstPort,
    Column::TcpFlags,
    Column::Packets,
    Column::Bytes,
    Column::Exporter,
    Column::SamplingInterval,
];

/// Which flows, and what of them.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FlowsParams {
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// Columns between commas; `*` for all.
    columns: Option<String>,
    /// What they are sorted by, with `-` before it for the largest first; without it they come as they are found.
    order: Option<String>,
    /// Rows at most: 200, up to 10,000.
    limit: Option<usize>,
    /// Rows that are left out before the first.
    offset: Option<usize>,
    /// Whether the totals of all flows that pass are added, which may take longer.
    totals: Option<bool>,
}

/// Lists flows, with packets and octets as they were received: the column `sampling_interval` has what they are to be multiplied
/// with.
#[utoipa::path(
    get, path = "/flows", tag = "questions", params(FlowsParams),
    responses((status = 200, body = TableAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn flows(
    State(service): State<Arc<Service>>,
    asker: Asker,
    form: AnswerForm,
    Params(params): Params<FlowsParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let columns = match params.columns.as_deref().map(str::trim) {
        None | Some("") => COLUMNS.to_vec(),
        Some("*") => Column::ALL.iter().copied().filter(|column| asker.view.check(*column).is_ok()).collect(),
        Some(list) => names(list).map(column).collect::<Answered<Vec<_>>>()?,
    };
    let sorting = params.order.as_deref().filter(|order| !order.is_empty()).map(sorting).transpose()?;
    let limit = limit(params.limit, ROWS.0, ROWS.1)?;
    let offset = params.offset.unwrap_or(0);
    if offset > OFFSET_MAX {
        return Err(Problem::request(format!("'offset' is {offset}, and {OFFSET_MAX} is the most"))
            .with_hint("narrow the question by time or by a filter"));
    }
    let has_totals = params.totals.unwrap_or(false);
    let text = which.text(&format!(
        "flows columns={} order={} limit={limit} offset={offset} totals={has_totals}",
        columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(","),
        params.order.as_deref().unwrap_or_default()
    ));
    // one more row says whether there are more
    let query = which.query(Select::List { columns, sorting, limit: Some(offset + limit + 1) });
    let work = move |question: &Question<'_>| {
        let overview = if has_totals { Some(question.overview(&query)?) } else { None };
        let answer = question.ask(&query)?;
        let mut body = BodyMaker::new(Arc::clone(answer.schema()), form, question.service.answer_octets_max());
        let (mut skipped, mut left, mut is_truncated) = (offset, limit, false);
        let mut found = 0;
        for batch in answer {
            let batch = batch?;
            found += batch.num_rows();
            let before = skipped.min(batch.num_rows());
            skipped -= before;
            let rows = (batch.num_rows() - before).min(left);
            is_truncated |= batch.num_rows() - before > left;
            left -= rows;
            body.push(batch.slice(before, rows))?;
        }
        let completeness = question.completeness(&query)?;
        body.finish(&AnswerNotes {
            totals: overview.map(|overview| overview.totals.into()),
            completeness,
            position: question.position(),
            is_truncated,
            sampling: overview.map(|overview| overview.sampling),
            why_empty: question.why_empty(&query, found)?,
            warnings: Vec::new(),
        })
    };
    service.answer(&asker, form, text, Reads::Flows(which.window), work).await
}

/// Which flows a question is about.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EstimateParams {
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
}

/// What a question may have to read at most.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EstimateBody {
    /// Segments that may have flows of the window.
    segments: u64,
    /// Octets of these.
    octets: u64,
    /// Flows of these, and flows in no segment yet.
    rows_max: u64,
    /// Segments of which the filter leaves some page, by their indexes; those that were not looked at are among them. Without a
    /// filter this and the numbers below are those above.
    filtered_segments: u64,
    /// Octets of the pages that the filter leaves, of all columns. It is no upper bound: a page counts as many octets as its rows
    /// have on average in the segment.
    filtered_octets: u64,
    /// Flows of these pages, and flows in no segment yet that may pass.
    filtered_rows_max: u64,
    /// Segments that were not looked at, because the estimate had read 1,000 indexes or taken 250 ms, or because their index is
    /// damaged. They count as a whole.
    segments_unchecked: u64,
}

/// Says what a question may have to read, before it is asked: upper bounds by the times of segments, and, with a filter, what the
/// indexes of segments know about it. No flows are read for it.
#[utoipa::path(
    get, path = "/estimate", tag = "questions", params(EstimateParams),
    responses((status = 200, body = EstimateBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn estimate(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<EstimateParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let asked = Arc::clone(&service);
    let (text, view) = (which.text("estimate"), Arc::clone(&asker.view));
    let work = move |turn: &crate::questions::Turn| {
        let snapshot = asked.archive.snapshot()?;
        let answers = asked.archive.answers(&snapshot, &turn.control, &view);
        let archive = answers.archive().ok_or_else(|| Problem::internal("there is no archive"))?;
        let Estimate { segments, octets, rows_max } = archive.estimate(&which.window);
        let filtered = if which.filter == Predicate::True {
            FilteredEstimate { segments, octets, rows_max, segments_unchecked: 0, rows_unchecked: 0 }
        } else {
            // indexes are read
            let _admitted = turn.enter_quick()?;
            archive.estimate_filtered(&which.window, &which.filter, EstimateLimits::default())?
        };
        json(&EstimateBody {
            segments,
            octets,
            rows_max,
            filtered_segments: filtered.segments,
            filtered_octets: filtered.octets,
            filtered_rows_max: filtered.rows_max,
            segments_unchecked: filtered.segments_unchecked,
        })
    };
    service.questions.answer(&asker, text, work).await
}
