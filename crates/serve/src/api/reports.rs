//! Reports of watches.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};
use weir_chain::TimeSpan;
use weir_watch::reports::{KeptReport, read};
use weir_watch::{KeyError, check_key};

use super::extract::{Body, Params};
use super::parameters::limit;
use super::question_text::given;
use crate::access::Asker;
use crate::body::json;
use crate::moment::{moment, now_ms};
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;
use crate::users::Role;

/// Reports unless a request asks for another number, and the most.
const REPORTS: (usize, usize) = (200, 10_000);
/// How long a report is acknowledged unless a request says otherwise.
const ACKNOWLEDGED: TimeSpan = TimeSpan::from_secs(86_400);

/// Which reports.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReportsParams {
    /// Those of windows that end after this time.
    since: Option<String>,
    /// Those of this watch.
    watch: Option<String>,
    /// Reports at most: 200, up to 10,000.
    limit: Option<usize>,
}

/// A report.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReportBody {
    /// Its name: the same when the same window is asked again.
    id: String,
    /// The watch.
    watch: String,
    /// Values of the key columns.
    key: String,
    /// The window, in milliseconds since the epoch.
    window_start: Option<i64>,
    /// Its end.
    window_end: i64,
    /// How serious it is: info, notice, warning or critical.
    severity: String,
    /// What the watch finds, in one line.
    title: String,
    /// Rows that were found; the first of them are in `rows`.
    rows_found: u64,
    /// What was found, as objects.
    #[schema(value_type = Vec<Object>)]
    rows: Vec<Map<String, Value>>,
    /// Whether the key is acknowledged.
    acknowledged: bool,
    /// Commands to run next.
    next_commands: Vec<String>,
}

impl ReportBody {
    fn of(report: &KeptReport) -> Self {
        let text = |name: &str| report.text(name).to_owned();
        let start = report.text("window_start").parse::<jiff::Timestamp>().ok();
        let evidence = report.members.get("evidence").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Self {
            id: text("id"),
            watch: text("watch"),
            key: text("key"),
            window_start: start.map(jiff::Timestamp::as_millisecond),
            window_end: report.window_end_ms,
            severity: text("severity"),
            title: text("title"),
            rows_found: report.members.get("rows").and_then(Value::as_u64).unwrap_or_default(),
            rows: evidence.iter().filter_map(|row| row.as_object().cloned()).collect(),
            acknowledged: report.is_acknowledged,
            next_commands: Some(text("next")).filter(|next| !next.is_empty()).into_iter().collect(),
        }
    }
}

/// Lists reports, the newest first.
#[utoipa::path(
    get, path = "/reports", tag = "watches", params(ReportsParams),
    responses((status = 200, body = Vec<ReportBody>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<ReportsParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let limit = limit(params.limit, REPORTS.0, REPORTS.1)?;
    let since = params.since.as_deref().filter(|since| !since.is_empty());
    let since_ms = since.map(|since| moment(since, now_ms())).transpose()?.unwrap_or(i64::MIN);
    let asked = Arc::clone(&service);
    let work = move |_: &Turn| {
        let reports = read(&asked.journal(), params.watch.as_deref(), since_ms, limit)?;
        json(&reports.iter().map(ReportBody::of).collect::<Vec<_>>())
    };
    service.questions.answer(&asker, format!("reports since={since_ms} limit={limit}"), work).await
}

/// Which reports are acknowledged.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckBody {
    /// The watch.
    watch: String,
    /// The key as its reports have it; all of the watch without it.
    key: Option<String>,
    /// For how long from now on, such as `7d`; a day without it.
    #[serde(rename = "for")]
    length: Option<String>,
}

fn wrong_key(error: KeyError) -> Problem {
    let hint = error.hint();
    let problem = match error {
        KeyError::Journal(error) => return error.into(),
        error => Problem::request(error.to_string()),
    };
    match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// Acknowledges the reports of a watch, of one key or of all: none is made until the time is over.
#[utoipa::path(
    post, path = "/reports/ack", tag = "watches", request_body = AckBody,
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn acknowledge(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Body(body): Body<AckBody>,
) -> Answered<axum::http::StatusCode> {
    asker.needs_all_flows()?;
    asker.needs(Role::Analyst)?;
    let length = match &body.length {
        Some(length) => length.parse::<TimeSpan>().map_err(|error| Problem::request(error.to_string()))?,
        None => ACKNOWLEDGED,
    };
    let until_ms = now_ms().saturating_add(length.millis());
    let asked = Arc::clone(&service);
    let text = format!("acknowledge watch={}{} until={until_ms}", body.watch, given("key", body.key.as_deref()));
    let work = move |turn: &Turn| {
        // reports are read back to find the watch, and the key
        let _admitted = turn.enter_quick()?;
        let journal = asked.journal();
        // a report is in the journal before the state of its watch
        let has_reports = || Ok::<_, Problem>(!read(&journal, Some(&body.watch), i64::MIN, 1)?.is_empty());
        if !weir_watch::journal::has_run(&journal, &body.watch) && !has_reports()? {
            let name = body.watch.escape_debug();
            return Err(Problem::not_found(format!("no watch '{name}' has run on this archive")));
        }
        let key = body.key.as_ref().map(|key| check_key(&journal, &body.watch, key)).transpose();
        let key = key.map_err(wrong_key)?;
        Ok(weir_watch::acknowledge(&journal, &body.watch, key.as_deref(), until_ms)?)
    };
    service.questions.answer(&asker, text, work).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}
