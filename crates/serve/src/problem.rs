//! Why a request has no answer, as `application/problem+json` (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_archive::ArchiveError;
use weir_chain::OptionError;
use weir_filter::ParseError;
pub(crate) use weir_flow::with_causes;
use weir_query::QueryError;
use weir_sql::{EngineError, Mistake};
use weir_watch::{JournalError, WatchError};

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem it is, one of a closed set: `urn:weir:` and a word such as `filter`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// Status of HTTP.
    pub status: u16,
    /// What is wrong with this request.
    pub detail: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Where in the filter or the statement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<TextPlace>>,
    /// After how many seconds it may be asked again, where that is known.
    #[serde(skip)]
    pub(crate) retry_after_s: Option<u32>,
}

/// A part of a filter or of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TextPlace {
    /// Octets before it.
    pub from: usize,
    /// Octets before its end.
    pub to: usize,
}

/// The answer of a handler that may fail.
pub(crate) type Answered<T> = Result<T, Problem>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident, $word:literal, $status:ident, $title:literal;)*) => {
        impl Problem {
            $(
                $(#[$doc])*
                pub fn $name(detail: impl Into<String>) -> Self {
                    Self::new($word, $title, StatusCode::$status, detail.into())
                }
            )*
        }
    };
}

kinds! {
    /// A parameter or a body is wrong.
    request, "request", BAD_REQUEST, "the request is wrong";
    /// A filter is wrong.
    filter, "filter", BAD_REQUEST, "the filter is wrong";
    /// A statement of SQL is wrong.
    statement, "statement", BAD_REQUEST, "the statement is wrong";
    /// It is not known who asks.
    unauthenticated, "unauthenticated", UNAUTHORIZED, "it is not known who asks";
    /// Who asks may not do that.
    forbidden, "forbidden", FORBIDDEN, "that is not allowed";
    /// There is no such thing.
    not_found, "not-found", NOT_FOUND, "there is no such thing";
    /// It is there, and cannot be asked that way.
    method, "method", METHOD_NOT_ALLOWED, "the method is not allowed here";
    /// Somebody else has changed it.
    changed, "changed", PRECONDITION_FAILED, "somebody else has changed it";
    /// The body or the answer is too large.
    too_large, "too-large", PAYLOAD_TOO_LARGE, "that is too large";
    /// The body is in a coding that is not decoded here.
    coding, "content-coding", UNSUPPORTED_MEDIA_TYPE, "the coding of the body is not supported";
    /// Too many questions at once.
    too_many, "too-many-questions", TOO_MANY_REQUESTS, "too many questions at once";
    /// Too many requests in too little time.
    limited, "rate-limit", TOO_MANY_REQUESTS, "too many requests in too little time";
    /// Nothing can be answered now.
    unavailable, "unavailable", SERVICE_UNAVAILABLE, "nothing can be answered now";
    /// The question needs more memory than it may have.
    memory, "memory", SERVICE_UNAVAILABLE, "not enough memory";
    /// The question ran too long.
    time, "time-limit", GATEWAY_TIMEOUT, "the question ran too long";
    /// The question was cancelled.
    cancelled, "cancelled", CONFLICT, "the question was cancelled";
    /// The archive cannot be read.
    archive, "archive", INTERNAL_SERVER_ERROR, "the archive cannot be read";
    /// A defect.
    internal, "internal", INTERNAL_SERVER_ERROR, "the service failed";
}

impl Problem {
    fn new(word: &str, title: &str, status: StatusCode, detail: String) -> Self {
        let (detail, hint) = match detail.split_once("\nhint: ") {
            Some((detail, hint)) => (detail.to_owned(), Some(hint.to_owned())),
            None => (detail, None),
        };
        let kind = format!("urn:weir:{word}");
        Self { kind, title: title.to_owned(), status: status.as_u16(), detail, hint, place: None, retry_after_s: None }
    }

    /// The same with what to do about it, unless that is known already.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: self.hint.or_else(|| Some(hint.into())), ..self }
    }

    /// The same for who may ask again after this time.
    pub(crate) fn after(self, wait: std::time::Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u32;
        Self { retry_after_s: Some(seconds), ..self }.with_hint(format!("ask again in {seconds} s"))
    }

    /// A filter that cannot be read.
    pub fn of_filter(error: &ParseError) -> Self {
        let place = TextPlace { from: error.span.start, to: error.span.end };
        Self { hint: error.hint.clone(), place: Some(Box::new(place)), ..Self::filter(error.message.clone()) }
    }

    /// A statement that has no answer; places are octets of `statement`.
    pub fn of_statement(error: &EngineError, statement: &str) -> Self {
        match error {
            EngineError::Mistake(mistake) => Self::of_mistake(mistake, statement),
            error => Self::of_engine(error),
        }
    }

    fn of_mistake(mistake: &Mistake, statement: &str) -> Self {
        let place = mistake.place.as_ref().and_then(|place| {
            let mut lines = statement.split_inclusive('\n');
            let before: usize = lines.by_ref().take(place.line.checked_sub(1)?).map(str::len).sum();
            let line = lines.next().unwrap_or_default();
            let octets = |letters: usize| line.chars().take(letters).map(char::len_utf8).sum::<usize>();
            let (first, end) = (octets(place.column.checked_sub(1)?), octets(place.column - 1 + place.width));
            Some(TextPlace { from: before + first, to: before + end })
        });
        Self { hint: mistake.hint.clone(), place: place.map(Box::new), ..Self::statement(mistake.message.clone()) }
    }

    fn of_engine(error: &EngineError) -> Self {
        let text = with_causes(error);
        let problem = match error {
            EngineError::Query(QueryError::Cancelled) | EngineError::Cancelled { .. } => Self::cancelled(text),
            EngineError::Query(QueryError::Memory(_)) | EngineError::Memory(_) => {
                return Self::memory(text).with_hint("narrow the question by time or by a filter");
            }
            EngineError::Query(QueryError::NeedsEngine(_) | QueryError::NotApproximate(_))
            | EngineError::Mistake(_) => Self::request(text),
            EngineError::Plan(_) => Self::statement(text),
            EngineError::TimeLimit { .. } => Self::time(text),
            EngineError::Archive(ArchiveError::RemovedSegment { .. })
            | EngineError::Query(QueryError::Archive(ArchiveError::RemovedSegment { .. })) => Self::unavailable(text),
            EngineError::Archive(_) | EngineError::Query(_) | EngineError::Unreadable(_) => Self::archive(text),
            _ => Self::internal(text),
        };
        match error.hint() {
            Some(hint) => problem.with_hint(hint),
            None => problem,
        }
    }

    /// Writes it to whoever asked.
    pub(crate) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        Self::of_engine(&error)
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        Self::of_engine(&EngineError::Query(error))
    }
}

impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Self {
        Self::of_engine(&EngineError::Query(QueryError::Archive(error)))
    }
}

impl From<OptionError> for Problem {
    fn from(error: OptionError) -> Self {
        Self { hint: error.hint, ..Self::request(error.message) }
    }
}

impl From<JournalError> for Problem {
    fn from(error: JournalError) -> Self {
        Self::internal(with_causes(&error))
    }
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::File { error, .. } => error.into(),
            WatchError::Statement { name, source } => {
                let problem = Self::of_engine(&source);
                Self { detail: format!("watch '{name}': {}", problem.detail), ..problem }
            }
            WatchError::TwoOfName { .. } => Self::request(error.to_string()),
            error => Self::internal(with_causes(&error)),
        }
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(format!("the answer cannot be written: {error}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // a struct of texts and numbers can be written
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (self.status_code(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self.status_code() {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(self.retry_after_s.unwrap_or(1)));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"weir\""));
            }
            // RFC 9110 section 15.5.16: what would be read
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            }
            _ => {}
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use weir_sql::Place;

    use super::*;

    #[test]
    fn a_hint_is_apart_from_what_is_wrong() {
        let problem = Problem::request("'x' is not a time\nhint: such as now, -15m or 2026-01-01T00:00:00Z");
        assert_eq!((problem.status, problem.kind.as_str()), (400, "urn:weir:request"));
        assert_eq!(problem.detail, "'x' is not a time");
        assert_eq!(problem.hint.as_deref(), Some("such as now, -15m or 2026-01-01T00:00:00Z"));
    }

    #[test]
    fn the_place_of_a_filter_is_in_octets() {
        let error = weir_filter::parse("proto tcp and src prot 80").expect_err("wrong");
        let place = Problem::of_filter(&error).place.expect("a place");
        assert_eq!((place.from, place.to), (18, 22));
    }

    #[test]
    fn the_place_of_a_statement_is_in_octets() {
        let statement = "SELECT\n'ä', colum FROM flows";
        let place = Place { line: 2, column: 6, width: 5, text: String::new() };
        let mistake = Mistake { message: "no column 'colum'".to_owned(), place: Some(place), hint: None };
        let found = Problem::of_mistake(&mistake, statement).place.expect("a place");
        assert_eq!(&statement[found.from..found.to], "colum");
    }
}
