//! Bodies of answers, and how they are sent.

use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::Problem;

/// The media type of an Arrow IPC stream.
pub(crate) const ARROW_STREAM: &str = "application/vnd.apache.arrow.stream";

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

/// The body of an answer.
#[derive(Debug, Clone)]
pub(crate) struct CachedAnswer {
    body: Arc<Vec<u8>>,
    media_type: &'static str,
    /// Whether it is an object of JSON whose last members and end are left to the moment when it is given.
    is_open: bool,
    rows: u64,
}

impl CachedAnswer {
    /// An object of JSON without its end.
    pub(crate) fn open_json(body: String) -> Self {
        Self { body: Arc::new(body.into_bytes()), media_type: "application/json", is_open: true, rows: 0 }
    }

    /// A whole body.
    pub(crate) fn whole(body: Vec<u8>, media_type: &'static str) -> Self {
        Self { body: Arc::new(body), media_type, is_open: false, rows: 0 }
    }

    /// The same, which has so many rows.
    pub(crate) fn with_rows(self, rows: u64) -> Self {
        Self { rows, ..self }
    }

    /// Rows of a table; 0 of what is none.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The whole body.
    pub(crate) fn octets(&self, took_ms: f64, is_cached: bool) -> Bytes {
        let mut body = Vec::with_capacity(self.body.len() + 64);
        body.extend_from_slice(&self.body);
        if self.is_open {
            let end = format!(",\"took_ms\":{took_ms:.3},\"is_cached\":{is_cached}}}");
            body.extend_from_slice(end.as_bytes());
        }
        body.into()
    }

    /// The response.
    pub(crate) fn response(&self, took_ms: f64, is_cached: bool) -> Response {
        with_type(self.octets(took_ms, is_cached), self.media_type)
    }
}

impl CachedAnswer {
    /// Octets that it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.body.capacity()
    }
}

/// Answers with JSON; nobody keeps it.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<Response, Problem> {
    Ok(with_type(serde_json::to_vec(value)?, "application/json"))
}

/// Answers with octets of a media type; nobody keeps them.
pub(crate) fn with_type(octets: impl IntoResponse, media_type: &'static str) -> Response {
    let mut response = octets.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
