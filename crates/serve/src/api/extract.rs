//! What handlers are given; what cannot be read of a request is a problem like others.

mod words;

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
        let params = Query::<T>::from_request_parts(parts, state).await;
        let Query(params) = params.map_err(|error: QueryRejection| words::of_query(&error.body_text()))?;
        Ok(Self(params))
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
