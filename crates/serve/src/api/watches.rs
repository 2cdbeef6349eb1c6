//! Watches: their files, what they did, and what they would have reported.
//!
//! Files are changed in one folder, and whoever runs the watches notices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_watch::{Backtest, RunnerOptions, WatchFile, plan, watches};

use super::extract::{Body, BodyText, IfMatch, PathText};
use super::named_files::{NamedFiles, tag, with_tag};
use super::question_text::span;
use crate::access::Asker;
use crate::body::json;
use crate::moment::{check_order, moment, now_ms};
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;
use crate::users::Role;

/// Reports of a backtest that are given.
const REPORTS_MAX: usize = 1000;

/// A watch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WatchBody {
    name: String,
    title: String,
    severity: &'static str,
    /// Whether it does not run, because of a pause or because its file says so.
    paused: bool,
    /// What is wrong with the file, if anything.
    error: Option<Problem>,
    /// The file; empty when it cannot be read.
    text: String,
    /// The tag of the file, which the header `If-Match` of a change names: it is refused with 412 when the file is another one
    /// by then. Empty when it cannot be read.
    etag: String,
    /// What it did since this process began, where this process runs it.
    #[schema(value_type = Option<Object>)]
    counts: Option<BTreeMap<&'static str, u64>>,
}

/// Lists the watches of the folder.
#[utoipa::path(
    get, path = "/watches", tag = "watches",
    responses((status = 200, body = Vec<WatchBody>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    asker.needs_all_flows()?;
    let asked = Arc::clone(&service);
    let work = move |_: &Turn| {
        let Some(folder) = &asked.options.watches else { return json::<[(); 0]>(&[]) };
        let body = |(name, text)| body(&asked, folder, name, text);
        json(&files(folder).all()?.into_iter().map(body).collect::<Vec<_>>())
    };
    service.questions.answer(&asker, "watches".to_owned(), work).await
}

/// Shows a watch.
#[utoipa::path(
    get, path = "/watches/{name}", tag = "watches", params(("name" = String, Path, description = "The name of the watch")),
    responses((status = 200, body = WatchBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn show(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let asked = Arc::clone(&service);
    let text = format!("watch {name}");
    let work = move |_: &Turn| {
        let folder = folder(&asked)?;
        let text = files(&folder).read(&name)?;
        answer(&asked, &folder, name, text)
    };
    service.questions.answer(&asker, text, work).await
}

/// Makes or changes a watch. The body is the text of the file, which is checked first.
#[utoipa::path(
    put, path = "/watches/{name}", tag = "watches", request_body(content = String, content_type = "application/toml"),
    params(
        ("name" = String, Path, description = "The name of the watch"),
        ("If-Match" = Option<String>, Header, description = "The `etag` of the file that the change is based on"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new watch: it is refused when there is one of the name"),
    ),
    responses((status = 200, body = WatchBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
    based_on: IfMatch,
    BodyText(text): BodyText,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    asker.needs(Role::Admin)?;
    let asked = Arc::clone(&service);
    let line = format!("watch put {name}");
    let work = move |turn: &Turn| {
        let folder = folder(&asked)?;
        plan(WatchFile::parse(&text, &name, &folder)?)?;
        files(&folder).of_turn(turn).write(&name, &text, &based_on)?;
        // what was written, whatever somebody else has made of it since
        answer(&asked, &folder, name, text)
    };
    service.questions.answer(&asker, line, work).await
}

/// Removes a watch. Its reports are kept.
#[utoipa::path(
    delete, path = "/watches/{name}", tag = "watches",
    params(
        ("name" = String, Path, description = "The name of the watch"),
        ("If-Match" = Option<String>, Header, description = "The `etag` of the file that is meant"),
    ),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn delete(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
    based_on: IfMatch,
) -> Answered<StatusCode> {
    asker.needs_all_flows()?;
    asker.needs(Role::Admin)?;
    let asked = Arc::clone(&service);
    let line = format!("watch delete {name}");
    let work = move |turn: &Turn| {
        files(&folder(&asked)?).of_turn(turn).remove(&name, &based_on)?;
        // another watch of the name begins without it
        watches::resume(&asked.journal(), &name)?;
        Ok(())
    };
    service.questions.answer(&asker, line, work).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a watch: windows that end meanwhile are skipped for good. `weir watch pause` does the same.
#[utoipa::path(
    post, path = "/watches/{name}/pause", tag = "watches",
    params(("name" = String, Path, description = "The name of the watch")),
    responses((status = 200, body = WatchBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn pause(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
) -> Answered<Response> {
    set_pause(service, asker, name, true).await
}

/// Ends the pause of a watch, which goes on with its next whole window. One whose file says `paused = true` stays paused.
#[utoipa::path(
    post, path = "/watches/{name}/resume", tag = "watches",
    params(("name" = String, Path, description = "The name of the watch")),
    responses((status = 200, body = WatchBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn resume(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
) -> Answered<Response> {
    set_pause(service, asker, name, false).await
}

async fn set_pause(service: Arc<Service>, asker: Asker, name: String, is_paused: bool) -> Answered<Response> {
    asker.needs_all_flows()?;
    asker.needs(Role::Admin)?;
    let asked = Arc::clone(&service);
    let line = format!("watch {} {name}", if is_paused { "pause" } else { "resume" });
    let work = move |_: &Turn| {
        let folder = folder(&asked)?;
        // a name that is none leads to no file
        let text = files(&folder).read(&name)?;
        if is_paused {
            watches::pause(&asked.journal(), &name, now_ms())?;
        } else {
            watches::resume(&asked.journal(), &name)?;
        }
        answer(&asked, &folder, name, text)
    };
    service.questions.answer(&asker, line, work).await
}

/// The text of a watch file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckBody {
    /// The text.
    text: String,
    /// The name that the file would have.
    name: Option<String>,
}

/// Whether a watch can run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WatchCheck {
    /// Whether it can.
    ok: bool,
    /// What is wrong with it.
    error: Option<Problem>,
    /// Its windows, columns and plan, in words.
    plan: Option<String>,
}

/// Checks the text of a watch file without keeping it.
#[utoipa::path(
    post, path = "/watches/check", tag = "watches", request_body = CheckBody,
    responses((status = 200, body = WatchCheck), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn check(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Body(body): Body<CheckBody>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let work = move |_: &Turn| {
        let planned = parsed(&body.text, body.name.as_deref()).and_then(|file| {
            let statement = file.options.query.clone();
            plan(file).map_err(|error| of_watch(error, &statement))
        });
        json(&match planned {
            Ok(plan) => WatchCheck { ok: true, error: None, plan: Some(plan) },
            Err(problem) => WatchCheck { ok: false, error: Some(problem), plan: None },
        })
    };
    service.questions.answer(&asker, "watch check".to_owned(), work).await
}

/// The time of a backtest.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BacktestBody {
    /// Windows that end after this time.
    #[schema(value_type = Option<String>)]
    from: Option<TimeValue>,
    /// Windows that end at this time or before.
    #[schema(value_type = Option<String>)]
    until: Option<TimeValue>,
    /// The text of the file, in place of that of the folder.
    text: Option<String>,
}

/// A time as text or as milliseconds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum TimeValue {
    Text(String),
    Number(i64),
}

impl TimeValue {
    fn ms(&self) -> Answered<i64> {
        match self {
            Self::Text(text) => moment(text, now_ms()),
            Self::Number(ms) => Ok(*ms),
        }
    }
}

/// When a watch would have reported.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BacktestAnswer {
    /// Windows that closed.
    windows: u64,
    /// Those that were not asked, because the archive has less of the past than `history_min`.
    windows_without_past: u64,
    /// Those whose answer failed.
    windows_failed: u64,
    /// Why the first of them did.
    failure: Option<String>,
    /// Flows that were read.
    rows: u64,
    /// Reports that repeated a key too soon.
    suppressed: u64,
    /// Flows that were left out because a window had too many.
    rows_shed: u64,
    /// Flows that were left out because they are dated after their reception by more than `skew`.
    rows_future: u64,
    /// Flows that were left out because they lack the time that windows go by; with bounds, of those received between them.
    rows_without_time: u64,
    /// The first and the last end of windows, in milliseconds since the epoch.
    first_ms: Option<i64>,
    last_ms: Option<i64>,
    /// Reports that it would have made.
    reports: usize,
    /// Windows with reports: their ends and how many there are.
    firings: Vec<FiringBody>,
    /// The first of the reports.
    #[schema(value_type = Vec<Object>)]
    first_reports: Vec<serde_json::Value>,
    /// How long it took.
    took_ms: f64,
}

/// A window with reports.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FiringBody {
    window_end: i64,
    reports: usize,
}

/// Shows when a watch would have reported, on the flows of the archive.
#[utoipa::path(
    post, path = "/watches/{name}/backtest", tag = "watches", request_body = BacktestBody,
    params(("name" = String, Path, description = "The name of the watch")),
    responses((status = 200, body = BacktestAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn backtest(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
    Body(body): Body<BacktestBody>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    asker.needs(Role::Analyst)?;
    let from = body.from.as_ref().map(TimeValue::ms).transpose()?;
    let until = body.until.as_ref().map(TimeValue::ms).transpose()?;
    check_order(from, until)?;
    let asked = Arc::clone(&service);
    let line = format!("watch backtest {name} {}", span(from, until));
    let work = move |turn: &Turn| {
        let _admitted = turn.enter(u64::MAX)?;
        let text = match body.text {
            Some(text) => text,
            None => files(&folder(&asked)?).read(&name)?,
        };
        let file = parsed(&text, Some(&name))?;
        let statement = file.options.query.clone();
        let wrong = |error| of_watch(error, &statement);
        let mut options = RunnerOptions::new(asked.archive.folder());
        options.standing.memory_octets_max = asked.archive.engine_octets_max();
        options.standing.corrections = asked.archive.corrections();
        let mut backtest = Backtest::new(file, &options).map_err(wrong)?;
        let progress = Arc::clone(&turn.control.progress);
        let outcome = backtest.run_until(from, until, |_, _| (), || progress.is_stopped()).map_err(wrong)?;
        let firing = |firing: &weir_watch::Firing| FiringBody {
            window_end: firing.window_end_ms,
            reports: firing.reports.len(),
        };
        let reports = outcome.firings.iter().flat_map(|firing| &firing.reports);
        json(&BacktestAnswer {
            windows: outcome.windows,
            windows_without_past: outcome.windows_without_past,
            windows_failed: outcome.windows_failed,
            failure: outcome.failure.clone(),
            rows: outcome.rows,
            suppressed: outcome.suppressed,
            rows_shed: outcome.rows_shed,
            rows_future: outcome.rows_future,
            rows_without_time: outcome.rows_without_time,
            first_ms: outcome.range_ms.map(|range| range.0),
            last_ms: outcome.range_ms.map(|range| range.1),
            reports: outcome.reports(),
            firings: outcome.firings.iter().map(firing).collect(),
            first_reports: reports.take(REPORTS_MAX).map(weir_watch::Report::json).collect(),
            took_ms: turn.took_ms(),
        })
    };
    service.questions.answer(&asker, line, work).await
}

/// A watch file whose name is not important yet. Actions that write files are not followed here: nothing is run.
fn parsed(text: &str, name: Option<&str>) -> Answered<WatchFile> {
    Ok(WatchFile::parse(text, name.unwrap_or("unnamed"), Path::new(""))?)
}

fn of_watch(error: weir_watch::WatchError, statement: &str) -> Problem {
    match &error {
        weir_watch::WatchError::Statement { source, .. } => Problem::of_statement(source, statement),
        _ => error.into(),
    }
}

fn folder(service: &Service) -> Answered<PathBuf> {
    service.options.watches.clone().ok_or_else(|| {
        Problem::not_found("the service has no folder of watches").with_hint("weir serve --watch FOLDER names one")
    })
}

fn files(folder: &Path) -> NamedFiles {
    NamedFiles::new(folder.to_owned(), "watch")
}

fn answer(service: &Service, folder: &Path, name: String, text: String) -> Answered<Response> {
    let body = body(service, folder, name, Ok(text));
    Ok(with_tag(json(&body)?, &body.etag))
}

/// A watch by the text of its file, or by why there is none.
fn body(service: &Service, folder: &Path, name: String, text: Answered<String>) -> WatchBody {
    let counts = service.status.watches().into_iter().find(|(watch, _)| *watch == name);
    let counts = counts.map(|(_, counts)| counts.all().chain(counts.waiting.all()).collect());
    let file = text.as_ref().map_err(Problem::clone);
    let file = file.and_then(|text| WatchFile::parse(text, &name, folder).map_err(Problem::from));
    let reports = file.as_ref().map(|file| &file.options.reports).ok();
    WatchBody {
        title: reports.map(|reports| reports.title.clone()).unwrap_or_default(),
        severity: reports.map_or("", |reports| reports.severity.word()),
        paused: file.as_ref().is_ok_and(|file| file.options.paused) || watches::is_paused(&service.journal(), &name),
        error: file.err(),
        etag: text.as_deref().map(tag).unwrap_or_default(),
        text: text.unwrap_or_default(),
        counts,
        name,
    }
}
