//! A time line made of a small part of the flows: soon, and not exact.
//!
//! A page draws it while the exact answer is on its way. A part of the flows is drawn evenly ([`drawn`]), as large as [`size`]
//! says, and each stands for those that were not. What speaks against it is that what is rare or short has too much or nothing: it
//! is no answer, and says so.

mod drawn;
mod size;

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use weir_flow::Column;
use weir_query::Select;

use super::extract::Params;
use super::parameters::{MeasureParam, WhichFlows, limit, ranking, single_column};
use super::timeline::SeriesBody;
use crate::access::Asker;
use crate::body::{AnswerForm, CachedAnswer};
use crate::completeness::CompletenessBody;
use crate::moment::now_ms;
use crate::problem::{Answered, Problem};
use crate::sampling::{SamplingBody, SamplingCounts};
use crate::service::{Question, Service};
use crate::why_empty::WhyEmpty;

/// Steps of a sketch, at most.
const STEPS: usize = 48;
/// Series of their own unless a request asks for another number, and the most.
const SERIES: (usize, usize) = (8, 50);
/// Which flows, and how they are drawn.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SketchParams {
    /// A series for each of the most frequent values of this field; one series of all flows without it.
    by: Option<String>,
    /// Values with a series of their own: 8, up to 50. The rest is the series `other`.
    top: Option<usize>,
    /// What is drawn per second; octets are drawn as bits.
    #[serde(default)]
    #[param(inline)]
    measure: MeasureParam,
    /// In nfdump's language; all flows without it.
    filter: Option<String>,
    /// Flows that were active at this time or later. A sketch needs it.
    from: Option<String>,
    /// Flows that were active at this time or before.
    until: Option<String>,
    /// Whether packets and octets are scaled by the sampling interval of each flow, for the filter too; they are as measured
    /// without it.
    #[serde(default)]
    scaled: bool,
}

/// Rates over time, of a part of the flows.
// only its description is used outside of tests: the end of the body is written when it is given
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct SketchAnswer {
    /// Length of a step in milliseconds; 0 when there are none.
    step_ms: i64,
    /// When each step begins, in milliseconds since the epoch. Empty when nothing was found in what was read, or, for users who see
    /// a part of the flows, too little to draw.
    times: Vec<i64>,
    /// The series; with several their sum is the whole.
    series: Vec<SeriesBody>,
    /// Unit of the values.
    unit: String,
    /// The share of the flows that was read; 1 when it is the time line. For users who see a part of the flows it is 1/32, however
    /// many flows there are: that there is a picture says that there are at least some 6.5 million of all.
    share: f64,
    /// How complete the flows of the window are.
    completeness: CompletenessBody,
    /// Whether the rates are scaled by sampling, and whether any flow that was read was sampled.
    sampling: SamplingBody,
    /// The last delivery of the archive that the answer has.
    position: u64,
    /// Why there is nothing to draw, when nothing was found in what was read, or too little.
    why_empty: Option<WhyEmpty>,
    /// How long the question took.
    took_ms: f64,
    /// Whether the answer was there already.
    is_cached: bool,
}

/// Draws rates over time from a small part of the flows, for who waits for the exact answer.
#[utoipa::path(
    get, path = "/sketch", tag = "questions", params(SketchParams),
    responses((status = 200, body = SketchAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn sketch(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<SketchParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let which = which.scaled(params.scaled);
    let top = limit(params.top, SERIES.0, SERIES.1)?;
    if which.window.from_ms.is_none() {
        return Err(Problem::request("a sketch needs 'from'").with_hint("such as from=-30d"));
    }
    let by = params.by.as_deref().map(str::trim).filter(|by| !by.is_empty()).map(By::of).transpose()?;
    let (measure, window) = (params.measure, which.window);
    let name = by.as_ref().map_or("", |by| &by.name);
    let text = which.text(&format!("sketch by={name} top={top} measure={}", measure.name()));
    let wish = Wish { which, by, top, measure };
    let reads = size::reads(window, &asker.view);
    let work = move |question: &Question<'_>| {
        let all = wish.which.query(list(&[]));
        question.check(&all)?;
        if let Some(by) = &wish.by {
            question.check(&wish.which.query(ranking(&by.name, measure, top)?))?;
        }
        let picture = drawn::picture(question, &wish, size::size(question, &wish)?)?;
        let why_empty = match picture.share {
            1.0 => question.why_empty(&all, picture.rows)?,
            _ if picture.is_too_little && picture.rows > 0 => Some(WhyEmpty::too_little()),
            _ => question.why_empty_parts(&all, picture.rows)?,
        };
        let sampling = question.sampling_of_some(&all, &picture.counts);
        body(&picture, measure, (&question.completeness(&all)?, &sampling, why_empty.as_ref()), question.position())
    };
    service.answer(&asker, AnswerForm::Json, text, reads, work).await
}

/// What flows are told apart by.
struct By {
    name: String,
    column: Column,
}

impl By {
    fn of(name: &str) -> Answered<Self> {
        Ok(Self { name: name.to_owned(), column: single_column(name)? })
    }
}

/// What is to be drawn.
struct Wish {
    which: WhichFlows,
    by: Option<By>,
    top: usize,
    measure: MeasureParam,
}

/// What was drawn.
struct Picture {
    step_ms: i64,
    /// When each step begins.
    times: Vec<i64>,
    series: Vec<SeriesBody>,
    /// How much of it was read.
    share: f64,
    /// Flows that were read and passed.
    rows: usize,
    counts: SamplingCounts,
    /// Whether these were too few to draw anything.
    is_too_little: bool,
}

fn list(columns: &[Column]) -> Select {
    Select::List { columns: columns.to_vec(), sorting: None, limit: None }
}

/// The body of a sketch. A step that has not begun is not zero: nothing is known of it.
fn body(
    picture: &Picture,
    measure: MeasureParam,
    (completeness, sampling, why_empty): (&CompletenessBody, &SamplingBody, Option<&WhyEmpty>),
    position: u64,
) -> Answered<CachedAnswer> {
    let now = now_ms();
    let known = |series: &SeriesBody| SeriesBody {
        name: series.name.clone(),
        values: picture.times.iter().zip(&series.values).map(|(time, rate)| rate.filter(|_| *time < now)).collect(),
    };
    Ok(CachedAnswer::open_json(format!(
        "{{\"step_ms\":{},\"times\":{},\"series\":{},\"unit\":{},\"share\":{},\"completeness\":{},\"sampling\":{},\"position\":{position},\"why_empty\":{}",
        picture.step_ms,
        serde_json::to_string(&picture.times)?,
        serde_json::to_string(&picture.series.iter().map(known).collect::<Vec<_>>())?,
        serde_json::to_string(measure.rate().unit())?,
        picture.share,
        serde_json::to_string(completeness)?,
        serde_json::to_string(sampling)?,
        serde_json::to_string(&why_empty)?,
    )))
}
