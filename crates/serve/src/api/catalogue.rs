//! What may be asked for: columns, and words of filters.

use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_flow::Column;

use super::extract::Params;
use super::parameters::filter_reader;
use crate::answer::ColumnBody;
use crate::body::json;
use crate::problem::{Answered, Problem, TextPlace};

/// A column of flows, and the words that ask for it in a filter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ColumnInfo {
    #[serde(flatten)]
    column: ColumnBody,
    /// Words of filters that test the column.
    filter_words: Vec<String>,
}

/// Lists the columns of flows.
#[utoipa::path(
    get, path = "/columns", tag = "catalogue",
    responses((status = 200, body = Vec<ColumnInfo>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn columns() -> Answered<Response> {
    let words = weir_filter::words();
    let info = |column: &Column| ColumnInfo {
        column: ColumnBody::of_column(*column),
        filter_words: words.iter().filter(|word| word.columns.contains(column)).map(|word| word.text.clone()).collect(),
    };
    json(&Column::ALL.iter().map(info).collect::<Vec<_>>())
}

/// A filter.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilterParams {
    /// In nfdump's language.
    filter: String,
}

/// Whether a text is a filter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilterCheck {
    /// Whether it is.
    ok: bool,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FilterMistake>,
}

/// What is wrong with a filter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilterMistake {
    /// What is wrong.
    message: String,
    /// What to do about it.
    hint: Option<String>,
    #[serde(flatten)]
    place: TextPlace,
}

/// Checks a filter.
#[utoipa::path(
    get, path = "/filter/check", tag = "catalogue", params(FilterParams),
    responses((status = 200, body = FilterCheck), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn check_filter(Params(params): Params<FilterParams>) -> Answered<Response> {
    let parsed = match params.filter.trim() {
        "" => None,
        _ => filter_reader().parse(&params.filter).err(),
    };
    let error = parsed.map(|error| FilterMistake {
        message: error.message,
        hint: error.hint,
        place: TextPlace { from: error.span.start, to: error.span.end },
    });
    json(&FilterCheck { ok: error.is_none(), error })
}

/// A filter that is being written.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CompleteParams {
    /// The text so far.
    filter: String,
    /// Octets before the place where the next letter goes; the end without it.
    at: Option<usize>,
}

/// What may be written next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Completion {
    /// What takes the place of the word that is being written.
    text: String,
    /// How it is shown.
    label: String,
    /// What it means.
    description: String,
}

/// Lists the words that may stand where a filter is being written.
#[utoipa::path(
    get, path = "/filter/complete", tag = "catalogue", params(CompleteParams),
    responses((status = 200, body = Vec<Completion>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn complete_filter(Params(params): Params<CompleteParams>) -> Answered<Response> {
    let at = params.at.unwrap_or(params.filter.len()).min(params.filter.len());
    let found = weir_filter::complete(&params.filter, at);
    let completion =
        |word: weir_filter::FilterWord| Completion { label: word.text.clone(), text: word.text, description: word.doc };
    json(&found.into_iter().map(completion).collect::<Vec<_>>())
}
