//! Questions that run.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::extract::PathText;
use crate::access::Asker;
use crate::body::json;
use crate::problem::{Answered, Problem};
use crate::questions::RunningQuestion;
use crate::service::Service;
use crate::users::Role;

/// Lists the questions that run or wait: all of them for an admin, one's own for others.
#[utoipa::path(
    get, path = "/questions", tag = "service",
    responses((status = 200, body = Vec<RunningQuestion>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    let mut questions = service.questions.list();
    questions.retain(|question| asker.role == Role::Admin || question.user == asker.name);
    if !asker.view.is_whole() {
        // what is read to find some flows are others too
        for question in &mut questions {
            (question.rows_read, question.octets_read, question.rows_all) = (0, 0, 0);
        }
    }
    json(&questions)
}

/// Cancels a question: an admin any, others their own.
#[utoipa::path(
    delete, path = "/questions/{id}", tag = "service",
    params(("id" = u64, Path, description = "The number of the question")),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(id): PathText,
) -> Answered<StatusCode> {
    let number = id.parse().map_err(|_| Problem::not_found(format!("no question '{}' runs", id.escape_debug())))?;
    service.questions.cancel(number, |user| asker.role == Role::Admin || user == asker.name)?;
    Ok(StatusCode::NO_CONTENT)
}
