//! Bodies of answers, and how they are sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use crate::Problem;

/// The media type of an Arrow IPC stream.
pub(crate) const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

/// The part of a body, as a divisor, that its vector may have spare: less is not worth a copy.
const SPARE_PART: usize = 8;

/// In which form an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AnswerForm {
    /// An object of JSON.
    Json,
    /// An Arrow IPC stream, with `completeness`, `position`, `sampling` and `warnings` in the metadata of its schema.
    Arrow,
}

impl AnswerForm {
    /// What the client accepts; JSON unless it asks for the other.
    pub(crate) fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if accept.contains(ARROW_STREAM) { Self::Arrow } else { Self::Json }
    }
}

/// The body of an answer. Its octets are shared: those that are kept and those that are sent are the same.
#[derive(Debug, Clone)]
pub(crate) struct CachedAnswer {
    body: Bytes,
    /// Octets that it takes.
    capacity: usize,
    media_type: &'static str,
    /// Whether it is an object of JSON whose last members and end are left to the moment when it is given.
    is_open: bool,
    rows: u64,
}

impl CachedAnswer {
    /// An object of JSON without its end.
    pub(crate) fn open_json(body: String) -> Self {
        Self { is_open: true, ..Self::whole(body.into_bytes(), "application/json") }
    }

    /// A whole body. A vector that grew while it was written has up to twice the octets that are sent, which is what
    /// [`Sending`](crate::sending::Sending) counts; so what is spare is given back where it is much.
    pub(crate) fn whole(mut body: Vec<u8>, media_type: &'static str) -> Self {
        if body.capacity() > body.len() + body.len() / SPARE_PART {
            body.shrink_to_fit();
        }
        let capacity = body.capacity();
        Self { body: body.into(), capacity, media_type, is_open: false, rows: 0 }
    }

    /// The same, which has so many rows.
    pub(crate) fn with_rows(self, rows: u64) -> Self {
        Self { rows, ..self }
    }

    /// Rows of a table; 0 of what is none.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The response.
    pub(crate) fn response(&self, took_ms: f64, is_cached: bool) -> Response {
        let end = if self.is_open { json_end(took_ms, is_cached).into() } else { Bytes::new() };
        with_type(Body::new(EndedBody { octets: self.body.clone(), end }), self.media_type)
    }

    /// The whole body, for who reads it back.
    #[cfg(test)]
    pub(crate) fn octets(&self, took_ms: f64, is_cached: bool) -> Bytes {
        let end = if self.is_open { json_end(took_ms, is_cached) } else { String::new() };
        [&self.body[..], end.as_bytes()].concat().into()
    }

    /// Octets that it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }
}

/// What is left to the moment when an object of JSON is given.
fn json_end(took_ms: f64, is_cached: bool) -> String {
    format!(",\"took_ms\":{took_ms:.3},\"is_cached\":{is_cached}}}")
}

/// Octets that are shared, and a few of its own behind them.
struct EndedBody {
    octets: Bytes,
    end: Bytes,
}

impl HttpBody for EndedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let next = if this.octets.is_empty() { &mut this.end } else { &mut this.octets };
        let octets = std::mem::take(next);
        Poll::Ready((!octets.is_empty()).then(|| Ok(Frame::data(octets))))
    }

    fn is_end_stream(&self) -> bool {
        self.octets.is_empty() && self.end.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact((self.octets.len() + self.end.len()) as u64)
    }
}

/// Answers with JSON that is not cached.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<Response, Problem> {
    Ok(with_type(serde_json::to_vec(value)?, "application/json"))
}

/// Answers with octets of a media type that are not cached.
pub(crate) fn with_type(octets: impl IntoResponse, media_type: &'static str) -> Response {
    let mut response = octets.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_given_again_is_not_copied() {
        let answer = CachedAnswer::open_json(format!("{{\"rows\":\"{}\"", "x".repeat(100_000)));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        for is_cached in [false, true] {
            let response = answer.response(1.5, is_cached);
            let whole = answer.octets(1.5, is_cached);
            assert_eq!(response.body().size_hint().exact(), Some(whole.len() as u64));
            let mut body = response.into_body();
            let first = runtime.block_on(std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)));
            let first = first.expect("a frame").expect("no error").into_data().expect("octets");
            assert_eq!(first.as_ptr(), answer.body.as_ptr());
            let rest = runtime.block_on(axum::body::to_bytes(body, usize::MAX)).expect("the end");
            assert_eq!([first, rest].concat(), whole);
        }
    }
    #[test]
    fn an_answer_takes_little_more_memory_than_is_sent() {
        for (octets, reserved) in [(1000, 2000), (100_000, 180_000), (100_000, 105_000)] {
            let mut body = Vec::with_capacity(reserved);
            body.resize(octets, b'x');
            let answer = CachedAnswer::whole(body, "text/plain");
            assert!(answer.capacity() <= octets + octets / 8, "{octets} of {reserved}: {}", answer.capacity());
            assert_eq!(answer.body.len(), octets);
        }
    }
}
