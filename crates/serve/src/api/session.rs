//! The service itself, and who asks.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_flow::Table;

use super::extract::Body;
use crate::access::Asker;
use crate::audit::AuditLine;
use crate::body::json;
use crate::peer::Client;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// The service.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InfoAnswer {
    /// Version of the program.
    version: &'static str,
    /// When it began, in milliseconds since the epoch.
    started_ms: i64,
    /// Who asks; null where that is not known.
    user: Option<Asker>,
    /// Whether the service has users, so that one must sign in.
    has_users: bool,
    /// The archive; null for who is not signed in, or sees a part of the flows.
    archive: Option<ArchiveInfo>,
    /// Where this process collects.
    collecting: Vec<CollectingInfo>,
}

/// The archive, in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArchiveInfo {
    folder: String,
    flows: u64,
    /// Octets of segments.
    octets: u64,
    segments: usize,
    position: u64,
    /// The first moment of flows in segments.
    first_ms: Option<i64>,
    /// The last moment of flows in segments; now when there are flows in no segment yet.
    last_ms: Option<i64>,
}

/// Where this process collects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct CollectingInfo {
    /// As it was asked for.
    listen: String,
}

/// Says what the service is and who asks.
#[utoipa::path(
    get, path = "/info", tag = "service",
    responses((status = 200, body = InfoAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn info(
    State(service): State<Arc<Service>>,
    asker: Option<axum::Extension<Asker>>,
) -> Answered<Response> {
    let user = asker.map(|axum::Extension(asker)| asker);
    let archive = match user.as_ref().filter(|asker| asker.view.is_whole()) {
        None => None,
        Some(asker) => {
            let asked = Arc::clone(&service);
            let work = move |_: &Turn| archive(&asked);
            Some(service.questions.answer(asker, "info".to_owned(), work).await?)
        }
    };
    let is_known = user.as_ref().is_some_and(|asker| asker.view.is_whole());
    let collecting = service.options.collecting.iter().filter(|_| is_known);
    json(&InfoAnswer {
        version: env!("CARGO_PKG_VERSION"),
        started_ms: service.started_ms,
        user,
        has_users: service.access.has_users(),
        archive,
        collecting: collecting.map(|listen| CollectingInfo { listen: listen.clone() }).collect(),
    })
}

fn archive(service: &Service) -> Answered<ArchiveInfo> {
    let snapshot = service.archive.snapshot()?;
    let segments = snapshot.segments(Table::Flows);
    let times = || segments.iter().filter_map(|segment| segment.time_range_ms);
    let last_ms = times().map(|times| times.1).max();
    let has_tail = snapshot.flows_unsealed() > 0;
    Ok(ArchiveInfo {
        folder: service.archive.folder().display().to_string(),
        flows: snapshot.flows(),
        octets: Table::ALL.iter().flat_map(|table| snapshot.segments(*table)).map(|segment| segment.octets).sum(),
        segments: segments.len(),
        position: snapshot.position().get(),
        first_ms: times().map(|times| times.0).min(),
        last_ms: if has_tail { Some(crate::moment::now_ms()) } else { last_ms },
    })
}

/// A name and a password.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignInBody {
    name: String,
    password: String,
}

/// Begins a session, whose cookie the answer sets.
#[utoipa::path(
    post, path = "/session", tag = "service", request_body = SignInBody,
    responses((status = 200, body = Asker), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn sign_in(
    State(service): State<Arc<Service>>,
    axum::Extension(Client(from)): axum::Extension<Client>,
    Body(body): Body<SignInBody>,
) -> Answered<Response> {
    let signed_in = service.access.sign_in(&body.name, &body.password, from).await;
    let name: String = body.name.chars().take(64).collect();
    let outcome = if signed_in.is_ok() { "accepted" } else { "refused" };
    let status = signed_in.as_ref().err().map(|problem| problem.status);
    let written = Arc::clone(&service);
    // a disk may be slow, and connections wait for no disk
    let write = move || {
        let line = AuditLine::now("sign-in", &name, Some(from), "", outcome);
        let line = AuditLine { status, ..line };
        match status {
            None => written.listening.audit.write(&line),
            Some(_) => written.listening.audit.write_of_stranger(&line),
        }
    };
    tokio::task::spawn_blocking(write).await.map_err(|_| Problem::internal("the audit cannot be written"))?;
    let (asker, cookie) = signed_in?;
    let mut response = json(&asker)?;
    set_cookie(&mut response, &cookie)?;
    Ok(response)
}

/// Ends the session.
#[utoipa::path(
    delete, path = "/session", tag = "service",
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn sign_out(State(service): State<Arc<Service>>, headers: HeaderMap) -> Answered<Response> {
    let cookie = service.access.sign_out(&headers);
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &cookie)?;
    Ok(response)
}

fn set_cookie(response: &mut Response, cookie: &str) -> Answered<()> {
    let value = HeaderValue::from_str(cookie).map_err(|_| Problem::internal("the cookie cannot be written"))?;
    response.headers_mut().insert(header::SET_COOKIE, value);
    Ok(())
}
