//! Counters for Prometheus, as `OpenMetrics`.
//!
//! Labels come from closed sets: components of the chain, counters of the books, watches that run, forwarders of the archive, and
//! exporters as far as they have places of their own. Senders of datagrams or requests add no line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use weir_chain::Progress;
use weir_flow::Counter;
use weir_forward::{KeptForwarder, KeptStatisticsForwarder};
use weir_series::{SeriesStore, StoreSize};
use weir_sql::standing::HistoryCounts;

use crate::archive::STATISTICS;
use crate::problem::Problem;
use crate::service::Service;

/// The media type of `OpenMetrics`.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A value and its labels.
type Sample<'a> = (Vec<(&'a str, String)>, f64);

/// Writes metrics one by one.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn counter(&mut self, name: &str, help: &str, unit: Option<&Unit>, samples: &[Sample<'_>]) -> std::fmt::Result {
        self.family(name, help, unit, MetricType::Counter, samples)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<&Unit>, samples: &[Sample<'_>]) -> std::fmt::Result {
        self.family(name, help, unit, MetricType::Gauge, samples)
    }

    fn family(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        samples: &[Sample<'_>],
    ) -> std::fmt::Result {
        if samples.is_empty() {
            return Ok(());
        }
        let name = format!("weir_{name}");
        let mut encoder = self.0.encode_descriptor(&name, help, unit, kind)?;
        for (labels, value) in samples {
            let is_counter = matches!(kind, MetricType::Counter);
            if labels.is_empty() {
                one(&mut encoder, is_counter, *value)?;
            } else {
                one(&mut encoder.encode_family(labels)?, is_counter, *value)?;
            }
        }
        Ok(())
    }

    fn single(&mut self, is_counter: bool, name: &str, help: &str, value: u64) -> std::fmt::Result {
        let samples = [(Vec::new(), value as f64)];
        if is_counter { self.counter(name, help, None, &samples) } else { self.gauge(name, help, None, &samples) }
    }
}

fn one(encoder: &mut MetricEncoder<'_>, is_counter: bool, value: f64) -> std::fmt::Result {
    if is_counter {
        return encoder.encode_counter::<NoLabelSet, f64, f64>(&value, None);
    }
    encoder.encode_gauge(&value)
}

/// Counters at one moment.
#[derive(Debug)]
struct Counters(Arc<Service>);

impl Collector for Counters {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let mut writer = Writer(encoder);
        self.archive(&mut writer)?;
        self.statistics(&mut writer)?;
        self.forwarding(&mut writer)?;
        self.statistics_forwarding(&mut writer)?;
        self.questions(&mut writer)?;
        self.http(&mut writer)?;
        self.wires(&mut writer)?;
        self.live(&mut writer)?;
        self.watches(&mut writer)?;
        self.chains(&mut writer)?;
        match self.0.status.progress() {
            Some(progress) => chain(&progress, &mut writer),
            None => Ok(()),
        }
    }
}

impl Counters {
    fn archive(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        // what cannot be read now is missing now; /readyz says why
        let Ok(snapshot) = self.0.archive.snapshot() else { return Ok(()) };
        let flows = snapshot.segments(weir_flow::Table::Flows);
        let octets: u64 = weir_flow::Table::ALL
            .iter()
            .flat_map(|table| snapshot.segments(*table))
            .map(|segment| segment.octets)
            .sum();
        writer.single(false, "archive_flows", "Flows of the archive", snapshot.flows())?;
        writer.single(false, "archive_flows_unsealed", "Flows in no segment yet", snapshot.flows_unsealed())?;
        writer.single(false, "archive_segments", "Segments of flows", flows.len() as u64)?;
        writer.single(false, "archive_segment_octets", "Octets of all segments", octets)?;
        let (files, octets) = snapshot.files_pending();
        writer.single(false, "archive_files_pending", "Files that count no more and wait for questions", files)?;
        writer.single(false, "archive_octets_pending", "Octets of these files, beside max_size", octets)?;
        if let Ok(commits) = weir_archive::commits_since_checkpoint(self.0.archive.folder()) {
            let help = "Commits since the checkpoint of the manifest, seldom more than 32";
            writer.single(false, "archive_commits_since_checkpoint", help, commits)?;
        }
        writer.single(true, "archive_deliveries", "Deliveries that were appended", snapshot.position().get())?;
        writer.single(true, "archive_flows_expired", "Flows that have expired", snapshot.rows_expired())?;
        writer.single(true, "archive_flows_set_aside", "Flows of damaged segments", snapshot.rows_set_aside())
    }

    fn statistics(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let size = StoreSize::of(&self.0.archive.folder().join(STATISTICS)).ok().flatten();
        let of_steps = |of: &weir_series::ResolutionSize| {
            (vec![("step", format!("{}s", of.resolution.step_secs))], of.octets as f64)
        };
        let octets: Vec<Sample<'_>> = size.iter().flat_map(|size| &size.resolutions).map(of_steps).collect();
        writer.gauge("statistics_octets", "Octets of statistics by their steps, beside max_size", None, &octets)
    }

    fn forwarding(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let Ok(kept) = weir_forward::forwarders(self.0.archive.folder()) else { return Ok(()) };
        let snapshot = self.0.archive.snapshot().ok();
        let last = snapshot.as_ref().map(|snapshot| snapshot.position());
        let mut rows: Vec<Sample<'_>> = Vec::new();
        let mut deliveries: Vec<Sample<'_>> = Vec::new();
        let mut waiting: Vec<Sample<'_>> = Vec::new();
        let mut lags: Vec<Sample<'_>> = Vec::new();
        for KeptForwarder { name, state } in kept {
            let Ok(state) = state else { continue };
            let counts = state.counts;
            let label = || ("forwarder", name.clone());
            let outcomes =
                [("stored", counts.rows_forwarded), ("refused", counts.rows_refused), ("lost", counts.rows_lost)];
            let of = |(word, count): (&str, u64)| (vec![label(), ("outcome", word.to_owned())], count as f64);
            rows.extend(outcomes.map(of));
            let outcomes = [("stored", counts.deliveries_forwarded), ("lost", counts.deliveries_lost)];
            deliveries.extend(outcomes.map(of));
            waiting.extend(last.map(|last| (vec![label()], state.deliveries_waiting(last) as f64)));
            let lag_ms = snapshot.as_ref().and_then(|snapshot| state.lag_ms(snapshot).ok().flatten());
            lags.extend(lag_ms.map(|lag_ms| (vec![label()], lag_ms as f64 / 1_000.0)));
        }
        let help = "Flows of the archive for a store elsewhere, by what became of them";
        writer.counter("forward_flows", help, None, &rows)?;
        let help = "Deliveries of the archive for a store elsewhere, by what became of them";
        writer.counter("forward_deliveries", help, None, &deliveries)?;
        let help = "Deliveries of the archive that a store elsewhere has not acknowledged";
        writer.gauge("forward_deliveries_waiting", help, None, &waiting)?;
        let help = "How long after the last flow that a store elsewhere has the newest one was received";
        writer.gauge("forward_lag", help, Some(&Unit::Seconds), &lags)
    }

    fn statistics_forwarding(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let statistics = self.0.archive.folder().join(STATISTICS);
        let Ok(kept) = weir_forward::statistics_forwarders(&statistics) else { return Ok(()) };
        let series = SeriesStore::open(&statistics).ok();
        let mut steps: Vec<Sample<'_>> = Vec::new();
        let mut rows: Vec<Sample<'_>> = Vec::new();
        let mut waiting: Vec<Sample<'_>> = Vec::new();
        let mut lags: Vec<Sample<'_>> = Vec::new();
        for KeptStatisticsForwarder { name, state } in kept {
            let Ok(state) = state else { continue };
            let counts = state.counts;
            let label = || ("forwarder", name.clone());
            let of = |(word, count): (&str, u64)| (vec![label(), ("outcome", word.to_owned())], count as f64);
            steps.extend([("stored", counts.steps_forwarded), ("lost", counts.steps_lost)].map(of));
            rows.extend([("stored", counts.rows_forwarded), ("refused", counts.rows_refused)].map(of));
            let lag = series.as_ref().and_then(|series| state.lag(series).ok().flatten());
            waiting.extend(lag.map(|lag| (vec![label()], lag.steps_waiting as f64)));
            lags.extend(lag.map(|lag| (vec![label()], lag.secs as f64)));
        }
        let help = "Steps of statistics for a receiver elsewhere, by what became of them";
        writer.counter("forward_statistics_steps", help, None, &steps)?;
        let help = "Rows of statistics for a receiver elsewhere, by what became of them";
        writer.counter("forward_statistics_rows", help, None, &rows)?;
        let help = "Steps of statistics that a receiver elsewhere has not acknowledged";
        writer.gauge("forward_statistics_steps_waiting", help, None, &waiting)?;
        let help = "How long after the last step that a receiver elsewhere has the newest one begins";
        writer.gauge("forward_statistics_lag", help, Some(&Unit::Seconds), &lags)
    }

    fn questions(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let counts = self.0.questions.counts();
        writer.single(true, "questions_asked", "Questions that came", counts.asked)?;
        let outcomes = [
            ("answered", counts.answered),
            ("cancelled", counts.cancelled),
            ("failed", counts.failed),
            ("refused", counts.refused),
        ];
        let outcomes = outcomes.map(|(word, count)| (vec![("outcome", word.to_owned())], count as f64));
        writer.counter("questions", "Questions that ended", None, &outcomes)?;
        writer.single(true, "questions_cached", "Questions that were answered from the cache", counts.cached)?;
        let seconds = [(Vec::new(), counts.busy_us as f64 / 1e6)];
        writer.counter("questions_busy", "Time that questions took", Some(&Unit::Seconds), &seconds)?;
        writer.single(false, "questions_running", "Questions that are being answered", counts.running)?;
        writer.single(false, "questions_waiting", "Questions that wait for their turn", counts.waiting)?;
        let (used, kept) = self.0.archive.memory_octets();
        writer.single(false, "questions_memory_octets", "Memory that questions use", used)?;
        writer.single(false, "index_cache_octets", "Memory of indexes and frames that are kept", kept)?;
        writer.single(false, "answer_cache_octets", "Memory of answers that are kept", self.0.answers.cache.octets())
    }

    fn http(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let http = &self.0.http;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        writer.single(true, "http_connections", "Connections that were accepted", of(&http.connections))?;
        writer.single(true, "http_connections_refused", "Connections over the limit", of(&http.refused))?;
        writer.single(true, "http_handshake_failures", "Connections without TLS", of(&http.handshake_failures))?;
        writer.single(true, "http_connections_stalled", "Connections whose client took nothing", of(&http.stalled))?;
        let audit = self.0.listening.audit.counts();
        writer.single(true, "audit_lines", "Lines of the audit", of(&audit.lines))?;
        writer.single(true, "audit_lines_lost", "Lines of the audit that could not be written", of(&audit.lost))?;
        writer.single(true, "audit_lines_left_out", "Lines about strangers over their limit", of(&audit.left_out))?;
        writer.single(true, "reloads", "Times that the configuration was read again", self.0.reloads.done())?;
        let failed = self.0.reloads.failed();
        writer.single(true, "reload_failures", "Times that it could not be, and stayed as it was", failed)?;
        writer.single(true, "http_answers_refused", "Answers over sending_max", self.0.answers.sending.refused())?;
        let octets = self.0.answers.sending.octets();
        writer.single(false, "http_answer_octets", "Octets of large answers that clients have not taken", octets)?;
        writer.single(false, "http_connections_open", "Connections that are open", of(&http.open))?;
        let classes: Vec<Sample<'_>> = (1..)
            .zip(&http.requests)
            .map(|(class, counter): (u8, _)| (vec![("status", format!("{class}xx"))], of(counter) as f64))
            .collect();
        writer.counter("http_requests", "Requests by their status", None, &classes)
    }

    fn wires(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let wires = &self.0.wires;
        if let Some(counts) = &wires.postgres {
            for (name, help, count) in counts.all() {
                writer.single(true, &format!("postgres_{name}"), help, count)?;
            }
            writer.single(false, "postgres_connections_open", "Connections that are open", counts.open())?;
        }
        if let Some(counts) = &wires.flight {
            for (name, help, count) in counts.all() {
                writer.single(true, &format!("flight_{name}"), help, count)?;
            }
            writer.single(false, "flight_connections_open", "Connections that are open", counts.open())?;
        }
        Ok(())
    }

    fn live(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let sample = self.0.live.borrow().clone();
        let rates: Vec<Sample<'_>> = sample
            .exporters
            .iter()
            .map(|exporter| (vec![("exporter", exporter.exporter.clone())], exporter.flows_per_s))
            .collect();
        writer.gauge("exporter_flows_per_second", "Flows received in the last second", None, &rates)?;
        match sample.reports_open {
            Some(open) => writer.single(false, "reports_open", "Reports that nobody has acknowledged", open),
            None => Ok(()),
        }
    }

    fn watches(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let watches = self.0.status.watches();
        let mut samples: Vec<Sample<'_>> = Vec::new();
        for (name, counts) in &watches {
            for (event, count) in counts.all() {
                samples.push((vec![("watch", name.clone()), ("event", event.to_owned())], count as f64));
            }
        }
        writer.counter("watch_events", "What happened to a watch", None, &samples)?;
        let waiting = |name: &str, kept: &str, count: u64| {
            (vec![("watch", name.to_owned()), ("kept", kept.to_owned())], count as f64)
        };
        let waiting: Vec<Sample<'_>> = watches
            .iter()
            .flat_map(|(name, counts)| counts.waiting.all().map(|(kept, count)| waiting(name, kept, count)))
            .collect();
        writer.gauge(
            "watch_waiting",
            "Closed windows that wait for their answer, what they keep, and octets that all windows keep",
            None,
            &waiting,
        )?;
        self.history(writer)?;
        let Some(sent) = self.0.status.sent() else { return Ok(()) };
        let events: Vec<Sample<'_>> =
            sent.all().map(|(event, count)| (vec![("event", event.to_owned())], count as f64)).collect();
        writer.counter("action_events", "What became of reports for the actions of all watches", None, &events)
    }

    /// Chains that run beside the service.
    fn chains(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let chains = self.0.status.chains();
        let (mut events, mut rows_in, mut rows_out) = (Vec::new(), Vec::new(), Vec::new());
        for progress in &chains {
            for component in &progress.components {
                let label = || vec![("chain", progress.chain.clone()), ("component", component.name.clone())];
                rows_in.push((label(), component.rows_in as f64));
                rows_out.push((label(), component.rows_out as f64));
                for (event, count) in &component.counters {
                    let mut labels = label();
                    labels.push(("event", (*event).to_owned()));
                    events.push((labels, *count as f64));
                }
            }
        }
        writer.counter("chain_rows_in", "Rows that came into a component of a chain", None, &rows_in)?;
        writer.counter("chain_rows_out", "Rows that went out of a component of a chain", None, &rows_out)?;
        writer.counter("chain_events", "Counters of a component of a chain", None, &events)
    }

    fn history(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let Some(counts) = self.0.status.history() else { return Ok(()) };
        let HistoryCounts { rows_octets, answers_octets, scans_kept, scans_too_large } = counts;
        let labelled = |name: &'static str, value: &str, count: u64| (vec![(name, value.to_owned())], count as f64);
        let octets = [labelled("kept", "rows", rows_octets), labelled("kept", "answers", answers_octets)];
        writer.gauge("watch_history_octets", "Memory of history that is kept for windows to come", None, &octets)?;
        let scans = [labelled("event", "kept", scans_kept), labelled("event", "too_large", scans_too_large)];
        let help = "Scans of history for hosts, answered with rows that are kept or too large for that";
        writer.counter("watch_history_scans", help, None, &scans)
    }
}

/// The chain that collects: the books, other counters of its components, and its queues.
fn chain(progress: &Progress, writer: &mut Writer<'_>) -> std::fmt::Result {
    if let Some(collector) = progress.component("collector") {
        for counter in Counter::ALL {
            let help = counter.doc().trim_end_matches('.');
            writer.single(true, &format!("books_{}", counter.name()), help, collector.counter(counter.name()))?;
        }
    }
    let is_book = |name: &str| Counter::ALL.iter().any(|counter| counter.name() == name);
    let (mut events, mut rows_in, mut rows_out, mut discarded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for component in &progress.components {
        let label = || vec![("component", component.name.clone())];
        rows_in.push((label(), component.rows_in as f64));
        rows_out.push((label(), component.rows_out as f64));
        discarded.push((label(), component.rows_discarded as f64));
        // the books above are those of the collector
        let has_own_books = matches!(component.kind, "meter" | "ingest");
        for (event, count) in component.counters.iter().filter(|(name, _)| has_own_books || !is_book(name)) {
            let labels = vec![("component", component.name.clone()), ("event", (*event).to_owned())];
            events.push((labels, *count as f64));
        }
    }
    writer.counter("component_rows_in", "Rows that came into a component", None, &rows_in)?;
    writer.counter("component_rows_out", "Rows that went out of a component", None, &rows_out)?;
    writer.counter("component_rows_discarded", "Rows that came after its end", None, &discarded)?;
    writer.counter("component_events", "Counters of a component", None, &events)?;
    let (mut held, mut full) = (Vec::new(), Vec::new());
    for queue in &progress.queues {
        let name = |index: usize| progress.components.get(index).map_or_else(String::new, |one| one.name.clone());
        let labels = vec![("from", name(queue.from)), ("to", name(queue.to))];
        held.push((labels.clone(), queue.held as f64));
        full.push((labels, queue.full.as_secs_f64()));
    }
    writer.gauge("queue_bursts", "Bursts in a queue", None, &held)?;
    writer.counter("queue_full", "Time that a thread waited because a queue was full", Some(&Unit::Seconds), &full)
}

/// All metrics as text.
pub(crate) fn text(service: &Arc<Service>) -> Result<String, Problem> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Counters(Arc::clone(service))));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| Problem::internal("the metrics cannot be written"))?;
    Ok(text)
}
