//! The API: a file for each part of it.
//!
//! Handlers read parameters, put a question and write the answer; what a question means is in [`weir_query`] and
//! [`weir_sql`]. The description, `openapi.json`, is made of the same functions.

mod arrival;
mod extract;
mod named_files;
mod parameters;
mod question_text;

mod biflows;
mod download;
mod facets;
mod flows;
mod ranking;
mod sankey;
mod sketch;
mod sql;
mod timeline;

mod catalogue;
mod completeness;
mod dashboards;
mod exporter_books;
mod exporters;
mod interfaces;
mod inventory;
mod known_names;
mod reports;
mod series;
mod watches;
mod why;

mod ingest;
mod live;
mod reloading;
mod running;
mod session;

pub(crate) use parameters::filter_reader;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Asker;
use crate::audit::{AuditLine, beginning};
use crate::body::with_type;
use crate::pages;
use crate::peer::{Client, Peer, client};
use crate::problem::{Answered, Problem};
use crate::sending::Recipient;
use crate::service::Service;

/// Octets from which an answer is compressed.
const COMPRESSED_FROM: u64 = 1024;
/// Letters of a refused request that are written down.
const REFUSED_LETTERS_MAX: usize = 1000;
/// Browsers that were here once come back over TLS only, for a year.
const TLS_ONLY: &str = "max-age=31536000";
/// Paths of the API that need no user: to sign in, and to find out that one must.
const OPEN_PATHS: &[&str] = &["/api/v1/session", "/api/v1/info", "/api/v1/openapi.json"];
/// The one path of the API that a user who may only push flows gets to, however many other requests come.
const INGEST_PATH: &str = "/api/v1/ingest";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "weir",
        description = "Questions about network flows. Errors are application/problem+json. Times in parameters are RFC 3339, \
            milliseconds since the epoch, now, or relative such as -15m; in answers they are milliseconds since the epoch. \
            Without 'until' a time that begins relative to now ends now, and another one has no end.",
        version = "1"
    ),
    servers((url = "/api/v1")),
    components(schemas(Problem))
)]
struct Description;

fn described() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(session::info))
        .routes(routes!(session::sign_in, session::sign_out))
        .routes(routes!(flows::flows))
        .routes(routes!(download::download))
        .routes(routes!(biflows::biflows))
        .routes(routes!(ranking::rank))
        .routes(routes!(ranking::group))
        .routes(routes!(facets::facets))
        .routes(routes!(timeline::timeline))
        .routes(routes!(sketch::sketch))
        .routes(routes!(sankey::sankey))
        .routes(routes!(sql::sql))
        .routes(routes!(sql::check_statement))
        .routes(routes!(flows::estimate))
        .routes(routes!(catalogue::columns))
        .routes(routes!(catalogue::check_filter))
        .routes(routes!(catalogue::complete_filter))
        .routes(routes!(why::why))
        .routes(routes!(completeness::completeness))
        .routes(routes!(exporters::exporters))
        .routes(routes!(exporter_books::show))
        .routes(routes!(interfaces::interfaces))
        .routes(routes!(known_names::names))
        .routes(routes!(inventory::archive))
        .routes(routes!(series::list))
        .routes(routes!(series::fetch))
        .routes(routes!(watches::list))
        .routes(routes!(watches::show, watches::put, watches::delete))
        .routes(routes!(watches::pause))
        .routes(routes!(watches::resume))
        .routes(routes!(watches::check))
        .routes(routes!(watches::backtest))
        .routes(routes!(dashboards::list))
        .routes(routes!(dashboards::show, dashboards::put, dashboards::delete))
        .routes(routes!(reports::list))
        .routes(routes!(reports::acknowledge))
        .routes(routes!(running::list))
        .routes(routes!(running::cancel))
        .routes(routes!(live::live))
        .routes(routes!(live::seconds))
        .routes(routes!(reloading::reload))
        .routes(routes!(ingest::ingest))
}

/// The description of the API, as JSON.
pub fn openapi() -> String {
    let mut text = described().into_openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// Everything that is answered.
pub(crate) fn router(service: &Arc<Service>) -> Router {
    let (api, _) = described().split_for_parts();
    let api = api
        .route("/openapi.json", get(|| async { with_type(openapi(), "application/json") }))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method);
    let body_max = usize::try_from(service.options.http.body_max.bytes()).unwrap_or(usize::MAX);
    Router::new()
        .nest("/api/v1", api)
        .route("/api", get(unknown))
        .route("/api/{*rest}", get(unknown))
        .route("/metrics", get(live::metrics))
        .route("/healthz", get(live::health))
        .route("/readyz", get(live::ready))
        .fallback_service(get(pages::serve).fallback(wrong_method))
        .layer(DefaultBodyLimit::max(body_max))
        .layer(middleware::from_fn_with_state(Arc::clone(service), guard))
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Problem::internal("the request panicked").into_response()
        }))
        // events must not wait for a block to be full
        .layer(
            CompressionLayer::new().compress_when(
                SizeAbove::new(COMPRESSED_FROM)
                    .and(NotForContentType::new("text/event-stream"))
                    .and(NotForContentType::IMAGES),
            ),
        )
        .with_state(Arc::clone(service))
}

async fn unknown(request: Request) -> Problem {
    Problem::not_found(format!("there is no '{}'", request.uri().path().escape_debug()))
        .with_hint("/api/v1/openapi.json describes all of the API")
}

async fn wrong_method(request: Request) -> Problem {
    Problem::method(format!("{} is not for {}", request.uri().path().escape_debug(), request.method()))
}

/// Finds out who asks, and refuses who may not; adds the headers that every answer has.
async fn guard(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let refusal = Refusal::of(&request);
    let is_counted = is_counted(request.method(), request.uri().path());
    let (mut response, asker) = match admitted(&service, request).await {
        Ok((request, asker)) => {
            let from = request.extensions().get::<Client>().copied();
            let to = from.and_then(|Client(from)| Recipient::of(asker.as_ref(), from));
            let response = next.run(request).await;
            (if is_counted { service.answers.sending.counted(response, to) } else { response }, asker)
        }
        Err(problem) => (problem.into_response(), None),
    };
    refusal.write(&service, asker, response.status()).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, pages::CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if service.listening.tls.is_some() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
    }
    service.http.count_request(response.status());
    with_problem(response)
}

/// A request that may be refused, for the audit.
struct Refusal {
    text: String,
    peer: Option<Peer>,
    is_data: bool,
}

impl Refusal {
    fn of(request: &Request) -> Self {
        let is_data = is_data(request.uri().path());
        // the audit has no lines about pages, so their text is not composed
        let text = if is_data { format!("{} {}", request.method(), request.uri()) } else { String::new() };
        Self { text, peer: request.extensions().get::<Peer>().copied(), is_data }
    }

    /// Writes the line of a refused request, in a thread that may wait for the disk.
    async fn write(self, service: &Arc<Service>, asker: Option<Asker>, status: StatusCode) {
        let is_refused = matches!(status.as_u16(), 401 | 403 | 429);
        if !is_refused || !self.is_data {
            return;
        }
        let service = Arc::clone(service);
        let write = move || {
            let text = beginning(&self.text, REFUSED_LETTERS_MAX);
            let name = asker.as_ref().map_or("", |asker| asker.name.as_str());
            let from = asker.as_ref().and_then(|asker| asker.from).or(self.peer.map(|peer| peer.0));
            let line = AuditLine::now("refused", name, from, &text, "refused");
            let line = AuditLine { status: Some(status.as_u16()), ..line };
            match asker {
                Some(_) => service.listening.audit.write(&line),
                None => service.listening.audit.write_of_stranger(&line),
            }
        };
        // a panic of it is not the request's
        let _ = tokio::task::spawn_blocking(write).await;
    }
}

/// Whether a path needs somebody who asks.
fn is_data(path: &str) -> bool {
    path.starts_with("/api/") || path == "/metrics"
}

/// Whether an answer counts among those that clients have not taken. Pages are in the binary and take no memory of their own.
/// Metrics are read when the service is in trouble. An answer to a change must not be refused, since the change is made by then.
fn is_counted(method: &Method, path: &str) -> bool {
    let is_backtest = *method == Method::POST && path.ends_with("/backtest");
    let changes = *method != Method::GET && !is_backtest;
    let is_file = path.starts_with("/api/v1/watches/") || path.starts_with("/api/v1/dashboards/");
    path.starts_with("/api/") && !(is_file && changes)
}

async fn admitted(service: &Arc<Service>, mut request: Request) -> Answered<(Request, Option<Asker>)> {
    service.access.check_origin(request.method(), request.headers())?;
    let peer = request.extensions().get::<Peer>().copied();
    let Peer(peer) = peer.ok_or_else(|| Problem::internal("it is not known where the request comes from"))?;
    let from = client(request.headers(), peer, &service.listening.proxies);
    request.extensions_mut().insert(Client(from));
    // watched before it is known who asks: there may be other users by the time that a hash or the body is there
    let mut users = service.access.watch_users();
    let mut asker = asker_of(service, request.uri().path(), request.headers(), from).await?;
    let mut request = with_body(service, request).await?;
    while asker.is_some() && users.has_changed().unwrap_or(false) {
        users.mark_unchanged();
        asker = asker_of(service, request.uri().path(), request.headers(), from).await?;
    }
    if let Some(asker) = asker.clone() {
        request.extensions_mut().insert(asker);
    }
    Ok((request, asker))
}

/// Who asks for a path, as users are now; refuses who may not. `None` where nobody has to say it.
async fn asker_of(service: &Service, path: &str, headers: &HeaderMap, from: IpAddr) -> Answered<Option<Asker>> {
    if !is_data(path) {
        return Ok(None);
    }
    let Some(asker) = service.access.asker(headers, from).await? else {
        if OPEN_PATHS.contains(&path) {
            return Ok(None);
        }
        return Err(Problem::unauthenticated("this takes a user")
            .with_hint("sign in with POST /api/v1/session, or send a token: Authorization: Bearer NAME:TOKEN"));
    };
    if path == INGEST_PATH {
        asker.needs_ingest()?;
    } else {
        asker.needs_more_than_ingest()?;
    }
    Ok(Some(asker))
}

/// The same request with its body, which may be larger and take longer where flows are pushed.
async fn with_body(service: &Service, mut request: Request) -> Answered<Request> {
    let http = &service.options.http;
    let is_ingest = request.uri().path() == INGEST_PATH;
    let Some(ingesting) = service.ingesting.as_ref().filter(|_| is_ingest) else {
        let octets_max = usize::try_from(http.body_max.bytes()).unwrap_or(usize::MAX);
        return arrival::whole(request, octets_max, http.header_timeout.duration()).await;
    };
    // the place is that of the request, from before its body is there
    let place = ingesting.place()?;
    request.extensions_mut().insert(place);
    let whole = arrival::whole(request, ingesting.octets_max, ingesting.time_max).await;
    whole.inspect_err(|_| ingesting.intake.count_bad())
}

/// What a layer refused in its own words becomes a problem like the others.
fn with_problem(response: Response) -> Response {
    match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE if !is_problem(&response) => {
            Problem::too_large("the body of the request is too large").into_response()
        }
        _ => response,
    }
}

fn is_problem(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/problem+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `WEIR_WRITE_DOCS=1` writes the file.
    #[test]
    fn the_description_is_committed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
            std::fs::write(path, openapi()).expect("written");
        }
        let committed = std::fs::read_to_string(path).expect("openapi.json");
        assert!(committed == openapi(), "openapi.json is stale: WEIR_WRITE_DOCS=1 writes it");
    }
    /// What is refused because others do not read would look as if it had not been done.
    #[test]
    fn answers_to_changes_are_not_refused_for_those_that_wait() {
        let of = |method: &str, path: &str| is_counted(&method.parse().expect("a method"), path);
        for (method, path) in [
            ("GET", "/metrics"),
            ("GET", "/"),
            ("PUT", "/api/v1/watches/scan"),
            ("PUT", "/api/v1/watches/backtest"),
            ("DELETE", "/api/v1/watches/scan"),
            ("POST", "/api/v1/watches/scan/pause"),
            ("PUT", "/api/v1/dashboards/border"),
        ] {
            assert!(!of(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("GET", "/api/v1/flows"),
            ("POST", "/api/v1/sql"),
            ("GET", "/api/v1/watches/scan"),
            ("POST", "/api/v1/watches/scan/backtest"),
            ("GET", "/api/v1/openapi.json"),
        ] {
            assert!(of(method, path), "{method} {path}");
        }
    }
}
