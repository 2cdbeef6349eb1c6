//! What happens now: events, metrics, and whether the service is well.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::Stream;
use futures::stream::unfold;
use tokio::sync::watch;

use crate::access::Asker;
use crate::body::{json, with_type};
use crate::live::{LiveSample, LiveSecond};
use crate::metrics;
use crate::moment::now_ms;
use crate::peer::Client;
use crate::problem::{Answered, Problem};
use crate::service::Service;

/// How often it is logged at most why the service is not ready, and when it was last.
const TOLD_EVERY_S: i64 = 60;
static TOLD_S: AtomicI64 = AtomicI64::new(0);

/// Sends the rates of each second as server-sent events, each a `LiveSample` of JSON.
#[utoipa::path(
    get, path = "/live", tag = "service",
    responses(
        (status = 200, body = LiveSample, content_type = "text/event-stream"),
        (status = "default", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn live(
    State(service): State<Arc<Service>>,
    axum::Extension(Client(from)): axum::Extension<Client>,
    headers: HeaderMap,
) -> Answered<Response> {
    // watched before it is asked once more who asks: there may be other users since the request came
    let users = service.access.watch_users();
    let asker = service.access.asker(&headers, from).await?;
    let asker = asker.ok_or_else(|| Problem::unauthenticated("this takes a user"))?;
    asker.needs_more_than_ingest()?;
    asker.needs_all_flows()?;
    let session = service.access.session(&headers);
    let asked = Arc::clone(&service);
    let is_let_in = move || session.as_ref().is_none_or(|session| asked.access.has_session(session));
    let events = events(service.live.clone(), users, service.ending.clone(), is_let_in);
    let mut response = Sse::new(events).keep_alive(KeepAlive::default()).into_response();
    let headers = response.headers_mut();
    headers.insert(axum::http::header::CACHE_CONTROL, axum::http::HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Lists the seconds of the last five minutes that the process has rates of, the oldest first: those before a stream began.
#[utoipa::path(
    get, path = "/live/seconds", tag = "service",
    responses((status = 200, body = Vec<LiveSecond>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn seconds(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    asker.needs_all_flows()?;
    json(&service.live_history.seconds())
}

/// The latest sample, and each that follows, until the service ends. Also ends when the list of users changes, so that a
/// removed user receives nothing more and the client must sign in again. Before each sample, the session is checked.
fn events<F: Fn() -> bool>(
    mut samples: watch::Receiver<LiveSample>,
    users: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    is_let_in: F,
) -> impl Stream<Item = Result<Event, Infallible>> + use<F> {
    // before the first second nothing is known
    if samples.borrow().time_ms > 0 {
        samples.mark_changed();
    }
    unfold((samples, users, ending, is_let_in), |(mut samples, mut users, mut ending, is_let_in)| async move {
        tokio::select! {
            // in this order: a sample must not be sent after the right to see it has ended
            biased;
            _ = users.changed() => return None,
            _ = ending.wait_for(|ending| *ending) => return None,
            changed = samples.changed() => changed.ok()?,
        }
        if !is_let_in() {
            return None;
        }
        let sample = samples.borrow_and_update().clone();
        // numbers and texts can be written
        let event = Event::default().json_data(&sample).unwrap_or_default();
        Some((Ok(event), (samples, users, ending, is_let_in)))
    })
}

/// Counters as `OpenMetrics`.
pub(crate) async fn metrics(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    asker.needs_all_flows()?;
    let asked = Arc::clone(&service);
    let text = tokio::task::spawn_blocking(move || metrics::text(&asked)).await;
    let text = text.map_err(|_| Problem::internal("the metrics cannot be written"))??;
    Ok(with_type(text, metrics::MEDIA_TYPE))
}

/// Whether the process answers.
pub(crate) async fn health() -> &'static str {
    "it answers\n"
}

/// Whether questions can be answered, and flows be collected where that is asked for.
pub(crate) async fn ready(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    let asked = Arc::clone(&service);
    let snapshot = tokio::task::spawn_blocking(move || asked.archive.snapshot().map(drop)).await;
    let not_ready = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"));
    match snapshot {
        Ok(Ok(())) => {
            let progress = service.status.progress();
            let ended = progress.iter().flat_map(|progress| &progress.components).find(|component| component.ended);
            match ended {
                Some(component) if service.status.is_collecting() => not_ready(format!("{} has ended", component.name)),
                _ => match service.listening.audit.failure() {
                    Some(_) if service.options.audit.required => not_ready("the audit cannot be written".to_owned()),
                    Some(_) => (StatusCode::OK, "ready; the audit cannot be written\n".to_owned()),
                    None => (StatusCode::OK, "ready\n".to_owned()),
                },
            }
        }
        Ok(Err(error)) => {
            // anybody may ask this, as often as they like, and paths are not for anybody
            let now_s = now_ms() / 1_000;
            if now_s - TOLD_S.load(Ordering::Relaxed) >= TOLD_EVERY_S {
                TOLD_S.store(now_s, Ordering::Relaxed);
                tracing::warn!("not ready: {}", crate::problem::with_causes(&error));
            }
            not_ready("the archive cannot be read, and the log says why".to_owned())
        }
        Err(_) => not_ready("the archive cannot be read".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::{FutureExt, StreamExt};

    use super::*;

    fn sample(time_ms: i64) -> LiveSample {
        LiveSample { time_ms, ..LiveSample::default() }
    }

    #[test]
    fn no_sample_is_sent_once_there_are_other_users() {
        // which of several that are ready comes first is no matter of luck
        for _ in 0..64 {
            let (give, samples) = watch::channel(sample(1));
            let (replaced, users) = watch::channel(0_u64);
            let (_end, ending) = watch::channel(false);
            let mut events = Box::pin(events(samples, users, ending, || true));
            assert!(matches!(events.next().now_or_never(), Some(Some(Ok(_)))), "the one that is there");
            assert!(events.next().now_or_never().is_none(), "the next one is not there yet");
            give.send_replace(sample(2));
            replaced.send_modify(|times| *times += 1);
            assert!(matches!(events.next().now_or_never(), Some(None)), "it has ended");
        }
    }
    #[test]
    fn no_sample_is_sent_once_a_session_has_ended() {
        let (give, samples) = watch::channel(sample(1));
        let (_replaced, users) = watch::channel(0_u64);
        let (_end, ending) = watch::channel(false);
        let is_let_in = Cell::new(true);
        let mut events = Box::pin(events(samples, users, ending, || is_let_in.get()));
        assert!(matches!(events.next().now_or_never(), Some(Some(Ok(_)))), "the one that is there");
        is_let_in.set(false);
        give.send_replace(sample(2));
        assert!(matches!(events.next().now_or_never(), Some(None)), "it has ended");
    }
}
