//! How complete the flows of a window are.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use weir_flow::Counter;

use super::exporters::{ExporterBooks, WindowParams, of_books, window_range};
use super::extract::Params;
use super::question_text::span;
use crate::access::Asker;
use crate::body::json;
use crate::completeness::CompletenessBody;
use crate::moment::window;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// How complete flows are, together and of each exporter.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompletenessAnswer {
    #[serde(flatten)]
    all: CompletenessBody,
    /// The same of each exporter.
    exporters: Vec<ExporterBooks>,
    /// What was counted in the window, of all exporters together; what is zero is left out.
    counters: Vec<CounterBody>,
}

/// A counter of the books.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CounterBody {
    name: &'static str,
    count: u64,
    description: &'static str,
}

impl CounterBody {
    pub(super) fn of(counter: Counter, count: u64) -> Self {
        Self { name: counter.name(), count, description: counter.doc() }
    }
}

/// Says how complete the flows of a window are, by the books.
#[utoipa::path(
    get, path = "/completeness", tag = "books", params(WindowParams),
    responses((status = 200, body = CompletenessAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn completeness(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<WindowParams>,
) -> Answered<Response> {
    let window = window(params.from.as_deref(), params.until.as_deref())?;
    let asked = Arc::clone(&service);
    let is_whole = asker.view.is_whole();
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let (start_ms, end_ms) = window_range(&window);
        let sums = asked.archive.snapshot()?.books(start_ms, end_ms)?;
        let all = CompletenessBody::of(&sums.completeness());
        if !is_whole {
            // the books are about all flows
            let (exporters, counters) = (Vec::new(), Vec::new());
            return json(&CompletenessAnswer { all: all.without_counts(), exporters, counters });
        }
        let totals = sums.totals();
        let counted = Counter::ALL.iter().filter(|counter| totals[**counter as usize] > 0);
        let counters = counted.map(|counter| CounterBody::of(*counter, totals[*counter as usize]));
        json(&CompletenessAnswer { all, exporters: of_books(&sums), counters: counters.collect() })
    };
    let text = format!("completeness {}", span(window.from_ms, window.until_ms));
    service.questions.answer(&asker, text, work).await
}
