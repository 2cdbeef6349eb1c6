//! Statements of SQL.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_sql::Engine;

use super::extract::Body;
use super::parameters::limit;
use crate::access::Asker;
use crate::answer::{AnswerNotes, BodyMaker, TableAnswer};
use crate::body::{AnswerForm, CachedAnswer, json};
use crate::completeness::CompletenessBody;
use crate::problem::{Answered, Problem};
use crate::service::{CLOSING_MAX, Question, Reads, Service};
use crate::users::Role;

/// Rows unless a request asks for another number, and the most.
const ROWS: (usize, usize) = (10_000, 1_000_000);

/// A statement.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlBody {
    /// One statement that reads: SELECT, EXPLAIN, SHOW or DESCRIBE.
    statement: String,
    /// Rows at most: 10,000, up to 1,000,000.
    limit: Option<usize>,
}

/// Answers a statement.
#[utoipa::path(
    post, path = "/sql", tag = "questions", request_body = SqlBody,
    responses((status = 200, body = TableAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn sql(
    State(service): State<Arc<Service>>,
    asker: Asker,
    form: AnswerForm,
    Body(body): Body<SqlBody>,
) -> Answered<Response> {
    asker.needs(Role::Analyst)?;
    let limit = limit(body.limit, ROWS.0, ROWS.1)?;
    let statement = body.statement;
    let text = format!("sql limit={limit} statement={statement}");
    let work = move |question: &Question<'_>| {
        let engine = question.service.archive.engine(question.snapshot, &question.turn.control, question.view)?;
        let answer = answer(question, &engine, &statement, limit, form);
        question.turn.note_busy(engine.close(CLOSING_MAX));
        answer
    };
    service.answer(&asker, form, text, Reads::Anything, work).await
}

/// A statement that is being written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatementBody {
    /// The text so far.
    statement: String,
}

/// Whether a text is a statement that can be answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatementCheck {
    /// Whether it is.
    ok: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
}

/// Checks a statement: it is planned, and reads nothing.
#[utoipa::path(
    post, path = "/sql/check", tag = "questions", request_body = StatementBody,
    responses((status = 200, body = StatementCheck), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn check_statement(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Body(body): Body<StatementBody>,
) -> Answered<Response> {
    asker.needs(Role::Analyst)?;
    let work = move |question: &Question<'_>| {
        let engine = question.service.archive.engine(question.snapshot, &question.turn.control, question.view)?;
        let planned = engine.describe_on(&body.statement, &[], &question.turn.control);
        question.turn.note_busy(engine.close(CLOSING_MAX));
        let error = planned.err().map(|error| Problem::of_statement(&error, &body.statement));
        // that there is no memory or no time, or that who asks has left, says nothing about the statement
        match error {
            Some(problem) if problem.status_code() != StatusCode::BAD_REQUEST => Err(problem),
            error => Ok(StatementCheck { ok: error.is_none(), error }),
        }
    };
    json(&service.ask(&asker, "sql check".to_owned(), Reads::NoFlows, work).await?)
}

fn answer(
    question: &Question<'_>,
    engine: &Engine,
    statement: &str,
    limit: usize,
    form: AnswerForm,
) -> Answered<CachedAnswer> {
    let wrong = |error| Problem::of_statement(&error, statement);
    let answer = engine.sql_on(statement, &question.turn.control).map_err(wrong)?;
    let mut body = BodyMaker::new(Arc::clone(answer.schema()), form, question.service.answer_octets_max());
    let (mut left, mut is_truncated) = (limit, false);
    let mut rows = 0;
    for batch in answer {
        let batch = batch.map_err(wrong)?;
        rows += batch.num_rows();
        if batch.num_rows() > left {
            is_truncated = true;
            body.push(batch.slice(0, left))?;
            break;
        }
        left -= batch.num_rows();
        body.push(batch)?;
    }
    let completeness = CompletenessBody::of_statement();
    body.finish(&AnswerNotes {
        totals: None,
        completeness,
        position: question.position(),
        is_truncated,
        sampling: None,
        why_empty: question.why_no_rows(rows),
        warnings: question.turn.control.progress.warnings(),
    })
}
