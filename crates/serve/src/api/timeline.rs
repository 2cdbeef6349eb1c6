//! Rates over time.

use std::sync::Arc;

use arrow::array::RecordBatch;
use axum::extract::State;
use axum::response::Response;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_print::plot::RateChart;
use weir_query::{FlowQuery, Select};
use weir_sql::{Tally, TimeLine};

use super::extract::Params;
use super::parameters::{MeasureParam, WhichFlows, number, ranking, single_column};
use crate::access::Asker;
use crate::body::{AnswerForm, CachedAnswer};
use crate::completeness::CompletenessBody;
use crate::moment::now_ms;
use crate::problem::{Answered, Problem};
use crate::sampling::{SamplingBody, SamplingCounts};
use crate::service::{Question, Reads, Service};
use crate::why_empty::WhyEmpty;

/// Series of their own unless a request asks for another number, and the most.
const SERIES: (usize, usize) = (8, 50);
/// Points unless a request asks for another number, and the most.
const POINTS: (usize, usize) = (300, 4000);
/// The least part of a step that flows of a step that has just begun are spread over.
const SHORTEST_PART: f64 = 0.1;

/// Which flows, and how they are drawn.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TimelineParams {
    /// A series for each of the most frequent values of this field; one series of all flows without it.
    by: Option<String>,
    /// Values with a series of their own: 8, up to 50. The rest is the series `other`.
    top: Option<usize>,
    /// What is drawn per second; octets are drawn as bits.
    #[serde(default)]
    #[param(inline)]
    measure: MeasureParam,
    /// Points at most: 300, up to 4000.
    points: Option<usize>,
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

/// Rates over time. What a flow carried is spread evenly over its duration.
// only its description is used outside of tests: the end of the body is written when it is given
#[allow(dead_code)]
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
pub(crate) struct TimelineAnswer {
    /// Length of a step in milliseconds.
    step_ms: i64,
    /// When each step begins, in milliseconds since the epoch.
    times: Vec<i64>,
    /// The series; with several their sum is the whole.
    series: Vec<SeriesBody>,
    /// Unit of the values.
    unit: String,
    /// How complete the flows of the window are.
    completeness: CompletenessBody,
    /// Whether the rates are scaled by sampling.
    sampling: SamplingBody,
    /// The last delivery of the archive that the answer has.
    position: u64,
    /// Why there is nothing to draw, when there is nothing.
    why_empty: Option<WhyEmpty>,
    /// How long the question took.
    took_ms: f64,
    /// Whether the answer was there already.
    is_cached: bool,
}

/// One series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct SeriesBody {
    /// The value that its flows have, `other` or `all`.
    pub(crate) name: String,
    /// The mean rate of each step; null where it is not known.
    pub(crate) values: Vec<Option<f64>>,
}

/// What is counted of the flows of a line.
#[derive(Debug, Default)]
struct DrawnFlows {
    counts: SamplingCounts,
    rows: usize,
}

impl Tally for DrawnFlows {
    fn add(&mut self, batch: &RecordBatch) {
        self.counts.add(batch);
        self.rows += batch.num_rows();
    }

    fn join(&mut self, other: Self) {
        self.counts.join(&other.counts);
        self.rows += other.rows;
    }
}

/// Draws rates over time.
#[utoipa::path(
    get, path = "/timeline", tag = "questions", params(TimelineParams),
    responses((status = 200, body = TimelineAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn timeline(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<TimelineParams>,
) -> Answered<Response> {
    let which = WhichFlows::of(params.filter.as_deref(), params.from.as_deref(), params.until.as_deref())?;
    let which = which.scaled(params.scaled);
    let top = number("top", params.top, SERIES)?;
    let points = number("points", params.points, POINTS)?;
    let (measure, window) = (params.measure, which.window);
    let by = params.by.filter(|by| !by.trim().is_empty()).map(|by| by.trim().to_owned());
    let column = by.as_deref().map(single_column).transpose()?;
    let top_query = by.as_deref().map(|by| ranking(by, measure, top)).transpose()?.map(|select| which.query(select));
    let text = which.text(&format!(
        "timeline by={} top={top} measure={} points={points}",
        by.as_deref().unwrap_or_default(),
        measure.name()
    ));
    let work = move |question: &Question<'_>| {
        let mut line = TimeLine::new(measure.rate(), which.window, TimeZone::UTC);
        if let (Some(column), Some(query)) = (column, &top_query) {
            line = line.by(column, question.answers.labels(query)?);
        }
        let query = |columns| {
            let columns = SamplingCounts::with_columns(columns);
            which.query(Select::List { columns, sorting: None, limit: None })
        };
        let checked = |columns| -> Answered<FlowQuery> {
            let query = query(columns);
            question.check(&query)?;
            Ok(query)
        };
        let (line, DrawnFlows { counts, rows }) = line.draw(question.answers, checked)?;
        let query = query(line.columns());
        let why_empty = question.why_empty(&query, rows)?;
        let notes = (&question.completeness(&query)?, &question.sampling_of(&query, &counts), why_empty.as_ref());
        body(&line.chart(String::new(), points), notes, question.position())
    };
    service.answer(&asker, AnswerForm::Json, text, Reads::Flows(window), work).await
}

/// What is known of the rate of a step that is not over: that of the part that is. Otherwise every line that reaches to now
/// would end with a fall. Without flows nothing is known before the half of it is over. Flows are never left out: those of the
/// first tenth are spread over a tenth, or one of them would be a peak, and those of a time to come, by clocks that are ahead,
/// over the whole step.
pub(super) fn known_rate(rate: f64, begin_ms: i64, step_ms: i64, now_ms: i64) -> Option<f64> {
    let over_ms = now_ms.saturating_sub(begin_ms);
    let is_known = rate > 0.0 || (over_ms > 0 && over_ms.saturating_mul(2) >= step_ms);
    let part = if (1..step_ms).contains(&over_ms) { (over_ms as f64 / step_ms as f64).max(SHORTEST_PART) } else { 1.0 };
    is_known.then_some(rate / part)
}

/// The body of a chart. A step that has not begun is not zero: nothing is known of it.
fn body(
    chart: &RateChart,
    (completeness, sampling, why_empty): (&CompletenessBody, &SamplingBody, Option<&WhyEmpty>),
    position: u64,
) -> Answered<CachedAnswer> {
    let now = now_ms();
    let times: Vec<i64> = (0..chart.steps() as i64).map(|step| chart.from_ms + step * chart.step_ms).collect();
    let series: Vec<SeriesBody> = chart
        .series
        .iter()
        .map(|series| SeriesBody {
            name: series.label.clone(),
            values: times
                .iter()
                .zip(&series.rates)
                .map(|(time, rate)| known_rate(*rate, *time, chart.step_ms, now))
                .collect(),
        })
        .collect();
    Ok(CachedAnswer::open_json(format!(
        "{{\"step_ms\":{},\"times\":{},\"series\":{},\"unit\":{},\"completeness\":{},\"sampling\":{},\"position\":{position},\"why_empty\":{}",
        chart.step_ms,
        serde_json::to_string(&times)?,
        serde_json::to_string(&series)?,
        serde_json::to_string(chart.measure.unit())?,
        serde_json::to_string(completeness)?,
        serde_json::to_string(sampling)?,
        serde_json::to_string(&why_empty)?,
    )))
}

#[cfg(test)]
mod tests {
    use weir_print::plot::{Measure, Series};

    use super::*;
    use crate::sampling::ScalingSource;

    #[test]
    fn a_step_that_has_not_begun_is_not_zero() {
        let series = vec![Series { label: "all".to_owned(), rates: vec![8.0, 0.0, 0.0] }];
        let from_ms = now_ms() - 95_000;
        let (title, zone) = (String::new(), TimeZone::UTC);
        let chart =
            RateChart { title, measure: Measure::Bits, zone, from_ms, step_ms: 60_000, series, gaps: Vec::new() };
        let sampling = SamplingBody {
            is_scaled: false,
            by: ScalingSource::None,
            has_sampled: true,
            sampled_flows: Some(1),
            unknown_flows: Some(0),
        };
        let answer = body(&chart, (&CompletenessBody::of_statement(), &sampling, None), 7).expect("a body");
        let read: TimelineAnswer = serde_json::from_slice(&answer.octets(1.0, false)).expect("a time line");
        assert_eq!(read.series[0].values, [Some(8.0), Some(0.0), None]);
        assert_eq!((read.times[1] - read.times[0], read.unit.as_str()), (60_000, "bit/s"));
        assert_eq!(read.sampling, sampling);
    }

    #[test]
    fn a_step_that_is_not_over_has_the_rate_of_its_part() {
        // 10 a second: of 60 s, 45 s, 30 s and 15 s, spread over the whole step
        let rates = [(60_000, 10.0), (45_000, 7.5), (30_000, 5.0), (15_000, 2.5)];
        let known = rates.map(|(over_ms, rate)| known_rate(rate, 1_000, 60_000, 1_000 + over_ms));
        assert_eq!(known, [Some(10.0); 4]);
        // nothing came: that is known of steps that are half over
        let known = [60_000, 30_000, 29_000, 0, -1].map(|over_ms| known_rate(0.0, 1_000, 60_000, 1_000 + over_ms));
        assert_eq!(known, [Some(0.0), Some(0.0), None, None, None]);
    }

    #[test]
    fn a_step_with_flows_is_never_unknown() {
        // of the first 3 ms as of 6 s, and by clocks that are ahead as of the whole step
        let known = [3, 0, -86_400_000].map(|over_ms| known_rate(2.0, 1_000, 60_000, 1_000 + over_ms));
        assert_eq!(known, [Some(20.0), Some(2.0), Some(2.0)]);
    }
}
