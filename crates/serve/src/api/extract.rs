//! What handlers are given; what cannot be read of a request is a problem like others.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::access::Asker;
use crate::body::AnswerForm;
use crate::problem::Problem;

/// Parameters of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(params) = Query::from_request_parts(parts, state).await.map_err(|error: QueryRejection| {
            Problem::request(plain(&error.body_text(), "Failed to deserialize query string: "))
        })?;
        Ok(Self(params))
    }
}

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Json(body) = Json::from_request(request, state).await.map_err(|error: JsonRejection| {
            let text = plain(&error.body_text(), "Failed to deserialize the JSON body into the target type: ");
            match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large("the body of the request is too large"),
                StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                    Problem::request("the body is not JSON").with_hint("send it with Content-Type: application/json")
                }
                _ => Problem::request(text),
            }
        })?;
        Ok(Self(body))
    }
}

/// The words of a library without its prefix, and with a small first letter.
fn plain(text: &str, prefix: &str) -> String {
    let text = text.strip_prefix(prefix).unwrap_or(text);
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_lowercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

impl<S: Send + Sync> FromRequestParts<S> for Asker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Problem::unauthenticated("this takes a user"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AnswerForm {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self::accepted(&parts.headers))
    }
}
