//! Everything that the books counted of one exporter.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;
use weir_flow::Counter;
use weir_flow::books::ExporterSums;

use super::completeness::CounterBody;
use super::exporters::{WindowParams, window_range};
use super::extract::{Params, PathText};
use super::question_text::span;
use crate::access::Asker;
use crate::body::json;
use crate::live::name_of;
use crate::moment::window;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// What was counted of an Observation Domain of an exporter in one version of the export protocol.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DomainBooks {
    /// The Observation Domain; null where a datagram did not get that far.
    domain: Option<u32>,
    /// Version of the export protocol: 5, 9, 10 for IPFIX, 105 for sFlow; null where it is not known.
    version: Option<u8>,
    /// Milliseconds by which the exporter's clock was ahead of ours, as a mean over datagrams; negative when it was behind.
    clock_ahead_ms: Option<i64>,
    /// What is not zero.
    counters: Vec<CounterBody>,
}

impl DomainBooks {
    fn of(sums: &ExporterSums) -> Self {
        let of = |counter: Counter| sums.counts[counter as usize];
        let datagrams = i64::try_from(of(Counter::DatagramsDecoded)).ok().filter(|count| *count > 0);
        let ahead = of(Counter::ClockAheadMs).cast_signed().saturating_sub(of(Counter::ClockBehindMs).cast_signed());
        let counted = Counter::ALL.iter().filter(|counter| of(**counter) > 0);
        Self {
            domain: sums.domain,
            version: sums.version,
            clock_ahead_ms: datagrams.map(|datagrams| ahead / datagrams),
            counters: counted.map(|counter| CounterBody::of(*counter, of(*counter))).collect(),
        }
    }
}

/// Shows all counters of an exporter, for each of its Observation Domains and versions of the export protocol.
#[utoipa::path(
    get, path = "/exporters/{address}", tag = "books",
    params(("address" = String, Path, description = "The address of the exporter"), WindowParams),
    responses((status = 200, body = Vec<DomainBooks>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn show(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(address): PathText,
    Params(params): Params<WindowParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let wanted: IpAddr = address.parse().map_err(|_| {
        Problem::request(format!("'{}' is not an address", address.escape_debug()))
            .with_hint("/api/v1/exporters lists exporters")
    })?;
    let window = window(params.from.as_deref(), params.until.as_deref())?;
    let asked = Arc::clone(&service);
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let (start_ms, end_ms) = window_range(&window);
        let all = asked.archive.snapshot()?.books(start_ms, end_ms)?.exporters();
        let name = wanted.to_string();
        let own = all.iter().filter(|sums| sums.address.as_deref().is_some_and(|address| name_of(address) == name));
        json(&own.map(DomainBooks::of).collect::<Vec<_>>())
    };
    let text = format!("exporter {wanted} {}", span(window.from_ms, window.until_ms));
    service.questions.answer(&asker, text, work).await
}

#[cfg(test)]
mod tests {
    use weir_flow::books::Counts;

    use super::*;

    #[test]
    fn a_clock_is_a_mean_over_datagrams() {
        let mut counts: Counts = [0; Counter::COUNT];
        counts[Counter::DatagramsDecoded as usize] = 10;
        counts[Counter::ClockBehindMs as usize] = 4_480;
        counts[Counter::Templates as usize] = 3;
        let sums = ExporterSums { address: None, domain: Some(7), version: Some(10), counts, last_ms: None };
        let books = DomainBooks::of(&sums);
        assert_eq!((books.domain, books.version, books.clock_ahead_ms), (Some(7), Some(10), Some(-448)));
        assert_eq!(books.counters.len(), 3);
        let nothing = ExporterSums { counts: [0; Counter::COUNT], ..sums };
        assert_eq!(DomainBooks::of(&nothing).clock_ahead_ms, None);
    }
}
