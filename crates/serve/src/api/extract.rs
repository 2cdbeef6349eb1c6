//! What handlers are given; what cannot be read of a request is a problem like others.

mod words;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection, StringRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::access::Asker;
use crate::body::AnswerForm;
use crate::problem::Problem;

/// Parameters of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = Query::<T>::from_request_parts(parts, state).await;
        let Query(params) = params.map_err(|error: QueryRejection| words::of_query(&error.body_text()))?;
        Ok(Self(params))
    }
}

/// The one parameter of a path.
pub(crate) struct PathText(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathText {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = text.map_err(|error: PathRejection| match error {
            PathRejection::FailedToDeserializePathParams(_) => Problem::request("the path is no text in UTF-8"),
            error => Problem::internal(error.body_text()),
        })?;
        Ok(Self(text))
    }
}

/// The headers `If-Match` and `If-None-Match` (RFC 9110 sections 13.1.1 and 13.1.2): tags of what a change is based on, and of
/// what must not be there.
#[derive(Debug)]
pub(crate) struct IfMatch {
    pub(crate) tags: Option<String>,
    pub(crate) none_of: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self { tags: tags(parts, header::IF_MATCH), none_of: tags(parts, header::IF_NONE_MATCH) })
    }
}

/// The tags that a header lists; `None` without the header.
fn tags(parts: &Parts, name: HeaderName) -> Option<String> {
    let values = parts.headers.get_all(&name);
    // one that is no text is no tag of ours, and does not make the change an unconditional one
    let tags = || values.iter().map(|value| value.to_str().unwrap_or_default()).collect::<Vec<_>>().join(",");
    parts.headers.contains_key(name).then(tags)
}

/// A body of text.
pub(crate) struct BodyText(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for BodyText {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let text = String::from_request(request, state).await;
        let text = text.map_err(|error: StringRejection| match error {
            StringRejection::InvalidUtf8(_) => Problem::request("the body is no text in UTF-8"),
            error if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Problem::too_large("the body of the request is too large")
            }
            error => Problem::request(error.body_text()),
        })?;
        Ok(Self(text))
    }
}

/// A body of JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Json(body) =
            Json::from_request(request, state).await.map_err(|error: JsonRejection| match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => Problem::too_large("the body of the request is too large"),
                StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                    Problem::request("the body is not JSON").with_hint("send it with Content-Type: application/json")
                }
                _ => words::of_body(&error.body_text()),
            })?;
        Ok(Self(body))
    }
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
