//! Exporters, by the books.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_collect::doctor::{Finding, examine_books};
use weir_flow::Counter;
use weir_flow::books::{BooksSums, ExporterSums};
use weir_query::TimeWindow;

use super::extract::Params;
use super::question_text::span;
use crate::access::Asker;
use crate::body::json;
use crate::completeness::CompletenessBody;
use crate::live::name_of;
use crate::moment::{now_ms, window};
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// Exporters that are listed.
const EXPORTERS_MAX: usize = 10_000;

/// A window of time.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WindowParams {
    /// Its first moment.
    pub(super) from: Option<String>,
    /// Its last moment.
    pub(super) until: Option<String>,
}

/// An Observation Domain of an exporter in a window of time, in one version of the export protocol.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExporterBooks {
    /// Its address; null for what is not known per exporter.
    exporter: Option<String>,
    /// Its Observation Domain.
    domain: Option<u32>,
    /// Version of the export protocol: 5, 9, 10 for IPFIX, 105 for sFlow; null where it is not known.
    version: Option<u8>,
    /// When the last record came that the books of the window have, in milliseconds since the epoch. Books are by the minute: it
    /// came at this time or before it, and at `last_seen_from_ms` or after. Never after now.
    last_seen_ms: Option<i64>,
    /// When the minute begins that the last record came in, in milliseconds since the epoch; the day in UTC, where the books
    /// are by the day.
    last_seen_from_ms: Option<i64>,
    /// Flows that it sent.
    flows: u64,
    /// Datagrams that it sent.
    datagrams: u64,
    /// Records that did not come.
    lost_records: u64,
    /// Datagrams that did not come.
    lost_datagrams: u64,
    /// How complete its flows are.
    completeness: CompletenessBody,
    /// What is wrong, the worst first.
    advice: Vec<Advice>,
}

/// What is wrong with an exporter, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Advice {
    /// What it is, by its name in `weir doctor`.
    finding: &'static str,
    /// error, warning or hint.
    severity: &'static str,
    /// The numbers that show it.
    evidence: String,
    /// What to do about it.
    remedy: &'static str,
}

impl Advice {
    fn of(finding: Finding) -> Self {
        Self {
            finding: finding.kind.name(),
            severity: finding.severity.name(),
            evidence: finding.evidence,
            remedy: finding.kind.remedy(),
        }
    }
}

/// Exporters of books, those with an address first.
pub(super) fn of_books(sums: &BooksSums) -> Vec<ExporterBooks> {
    let mut exporters = sums.exporters();
    // they are in the order of addresses, domains and versions
    exporters.sort_by_key(|sums| sums.address.is_none());
    exporters.truncate(EXPORTERS_MAX);
    let now_ms = now_ms();
    exporters.iter().map(|sums| of_sums(sums, now_ms)).collect()
}

fn of_sums(sums: &ExporterSums, now_ms: i64) -> ExporterBooks {
    let of = |counter: Counter| sums.counts[counter as usize];
    let completeness = CompletenessBody::of(&sums.completeness());
    let mut findings = examine_books(sums);
    findings.sort_by_key(|finding| finding.severity);
    ExporterBooks {
        exporter: sums.address.as_deref().map(name_of),
        domain: sums.domain,
        version: sums.version,
        // of a minute that is not over, the part that is; clocks may have been set back
        last_seen_ms: sums.last_ms.map(|(_, end_ms)| end_ms.min(now_ms)),
        last_seen_from_ms: sums.last_ms.map(|(begin_ms, _)| begin_ms.min(now_ms)),
        flows: of(Counter::RecordsStored),
        datagrams: of(Counter::Datagrams),
        lost_records: completeness.lost_records,
        lost_datagrams: completeness.lost_datagrams,
        completeness,
        advice: findings.into_iter().map(Advice::of).collect(),
    }
}

/// The milliseconds that a window is about; its end is not included.
pub(super) fn window_range(window: &TimeWindow) -> (i64, i64) {
    (window.from_ms.unwrap_or(i64::MIN), window.until_ms.map_or(i64::MAX, |until| until.saturating_add(1)))
}

/// Lists exporters with their books and what is wrong with them.
#[utoipa::path(
    get, path = "/exporters", tag = "books", params(WindowParams),
    responses((status = 200, body = Vec<ExporterBooks>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn exporters(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<WindowParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let window = window(params.from.as_deref(), params.until.as_deref())?;
    let asked = Arc::clone(&service);
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let (start_ms, end_ms) = window_range(&window);
        json(&of_books(&asked.archive.snapshot()?.books(start_ms, end_ms)?))
    };
    let text = format!("exporters {}", span(window.from_ms, window.until_ms));
    service.questions.answer(&asker, text, work).await
}

#[cfg(test)]
mod tests {
    use weir_flow::books::Counts;

    use super::*;

    #[test]
    fn nobody_was_seen_after_now() {
        let counts: Counts = [0; Counter::COUNT];
        let seen = |last_ms, now_ms| {
            let sums = ExporterSums { address: None, domain: None, version: None, counts, last_ms };
            let books = of_sums(&sums, now_ms);
            (books.last_seen_from_ms, books.last_seen_ms)
        };
        let minute = Some((60_000, 120_000));
        assert_eq!(seen(minute, 150_000), (Some(60_000), Some(120_000)), "a minute that is over");
        assert_eq!(seen(minute, 67_000), (Some(60_000), Some(67_000)), "a minute that is not");
        assert_eq!(seen(minute, 50_000), (Some(50_000), Some(50_000)), "a clock that was set back");
        assert_eq!(seen(None, 150_000), (None, None));
    }
}
