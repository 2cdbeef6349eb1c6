//! The most frequent values of several columns at once, of the same flows.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use weir_print::JsonRows;
use weir_query::Select;
use weir_sql::{FlowAnswer, Totals};

use super::extract::Params;
use super::parameters::{MeasureParam, WhichFlows, limit, names, ranking};
use super::ranking::{add_shares, with_shares};
use crate::access::Asker;
use crate::answer::{ColumnBody, TotalsBody};
use crate::body::{AnswerForm, CachedAnswer};
use crate::completeness::CompletenessBody;
use crate::problem::{Answered, Problem};
use crate::sampling::{Overview, SamplingBody};
use crate::service::{Question, Reads, Service};
use crate::why_empty::WhyEmpty;

/// Values of each column unless a request asks for another number, and the most.
const VALUES: (usize, usize) = (10, 1000);
/// Columns at most.
const COLUMNS_MAX: usize = 16;

/// Which flows, and which of their columns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FacetParams {
    /// 1 to 16 fields between commas, each as `by` of a ranking: srcip, dstport, proto, or any column.
    columns: String,
    /// What the largest have most of.
    #[serde(default)]
    #[param(inline)]
    measure: MeasureParam,
    /// Values of each column at most: 10, up to 1000.
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

/// The most frequent values of columns.
// only its description is used outside of tests: the body is written piece by piece
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct FacetsAnswer {
    /// A ranking for each column, in the order of the request.
    facets: Vec<FacetBody>,
    /// What all flows carried.
    totals: TotalsBody,
    /// Whether packets and octets are scaled by sampling.
    sampling: SamplingBody,
    /// How complete the flows of the window are.
    completeness: CompletenessBody,
    /// The last delivery of the archive that the answer has.
    position: u64,
    /// Why there are no flows, when there are none.
    why_empty: Option<WhyEmpty>,
    /// How long the question took.
    took_ms: f64,
    /// Whether the answer was there already.
    is_cached: bool,
}

/// The most frequent values of a column.
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct FacetBody {
    /// The field, as the request names it.
    by: String,
    /// Columns of the rows.
    columns: Vec<ColumnBody>,
    /// Values with what their flows carried, and the shares of it.
    rows: Vec<Vec<serde_json::Value>>,
    /// Whether there may be more values.
    is_truncated: bool,
}

/// Ranks the values of several columns for the same flows, which are read once where a filter takes them.
#[utoipa::path(
    get, path = "/facets", tag = "questions", params(FacetParams),
    responses((status = 200, body = FacetsAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn facets(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<FacetParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let which = which.scaled(params.scaled);
    let limit = limit(params.limit, VALUES.0, VALUES.1)?;
    let columns: Vec<String> = names(&params.columns).map(str::to_owned).collect();
    if !(1..=COLUMNS_MAX).contains(&columns.len()) {
        let detail = format!("'columns' has {} columns, and 1 to {COLUMNS_MAX} are possible", columns.len());
        return Err(Problem::request(detail));
    }
    let measure = params.measure;
    let selects = columns.iter().map(|name| ranking(name, measure, limit)).collect::<Answered<Vec<Select>>>()?;
    let query = which.query(Select::List { columns: Vec::new(), sorting: None, limit: None });
    let text = which.text(&format!("facets columns={} measure={} limit={limit}", columns.join(","), measure.name()));
    let work = move |question: &Question<'_>| {
        let (mut names, mut octets_left) = (columns.iter(), question.service.answer_octets_max());
        let mut rows = 0;
        let take = |totals: &Totals, answer: FlowAnswer| -> Answered<String> {
            let name = names.next().map_or("", String::as_str);
            let (text, count) = facet((name, answer), totals, (limit, query.scaled), &mut octets_left)?;
            rows += count;
            Ok(text)
        };
        let (Overview { totals, sampling }, facets) = question.overview_with(&query, &selects, take)?;
        // flows that have none of these values are flows
        let why_empty = if totals.flows == 0 { question.why_empty(&query, rows)? } else { None };
        Ok(CachedAnswer::open_json(format!(
            "{{\"facets\":[{}],\"totals\":{},\"sampling\":{},\"completeness\":{},\"position\":{},\"why_empty\":{}",
            facets.join(","),
            serde_json::to_string(&TotalsBody::from(totals))?,
            serde_json::to_string(&sampling)?,
            serde_json::to_string(&question.completeness(&query)?)?,
            question.position(),
            serde_json::to_string(&why_empty)?
        )))
    };
    service.answer(&asker, AnswerForm::Json, text, Reads::Flows(which.window), work).await
}

/// One of the facets as an object of JSON, and how many values it has.
fn facet(
    (name, answer): (&str, FlowAnswer),
    totals: &Totals,
    (limit, is_scaled): (usize, bool),
    octets_left: &mut usize,
) -> Answered<(String, usize)> {
    let schema = with_shares(answer.schema());
    let columns = ColumnBody::of_schema(&schema, is_scaled);
    let (mut rows, mut count) = (JsonRows::default(), 0);
    for batch in answer {
        let batch = batch?;
        count += batch.num_rows();
        rows.push(&add_shares(&batch, &schema, totals)?);
    }
    let left = octets_left.checked_sub(rows.octets());
    *octets_left = left.ok_or_else(|| {
        Problem::too_large("the answer is larger than it may be").with_hint("ask for fewer values or columns")
    })?;
    let text = format!(
        "{{\"by\":{},\"columns\":{},\"rows\":{},\"is_truncated\":{}}}",
        serde_json::to_string(name)?,
        serde_json::to_string(&columns)?,
        rows.finish(),
        count == limit
    );
    Ok((text, count))
}
