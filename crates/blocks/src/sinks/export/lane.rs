//! An exporter and the collectors that get all of its messages.

use std::sync::Arc;
use std::time::Instant;

use weir_chain::{ComponentError, Counter, Counters};
use weir_export::{Datagram, Exported, Exporter, ExporterConfig, OptionsData, Refusal};
use weir_flow::FlowBatch;

use super::announcements::{Announcements, Message};
use super::link::Link;
use super::outbox::Outbox;
use super::stopping::Stopping;

/// Counters of refused flows, in the order of [`Refusal::ALL`].
pub(super) const REFUSED: [&str; Refusal::COUNT] = [
    "records_refused_address",
    "records_refused_value",
    "records_refused_time",
    "records_refused_length",
    "records_refused_template",
];

/// How a collector is reached.
#[derive(Debug)]
pub(super) enum Collector {
    Datagrams(Box<Outbox>),
    Connection(Link),
}

#[derive(Debug)]
pub(super) struct Lane {
    exporter: Exporter,
    post: Post,
    /// Whether some of what was announced is out of date.
    is_corrected: bool,
    /// What the counters have.
    counted: Exported,
    refused: [Counter; Refusal::COUNT],
    left_out: Counter,
}

/// Where messages of an exporter go.
#[derive(Debug)]
struct Post {
    announcements: Arc<Announcements>,
    announced: u64,
    /// Whether something was announced since the last flush; flows need not follow it.
    is_unsent: bool,
    collectors: Vec<Collector>,
    /// Flows in messages handed out.
    handed_out: u64,
}

impl Lane {
    /// `collectors` makes the collectors of this exporter, given its announcements.
    pub(super) fn new(
        config: &ExporterConfig,
        meter: &Counters,
        collectors: impl FnOnce(&Arc<Announcements>) -> Result<Vec<Collector>, ComponentError>,
    ) -> Result<Self, ComponentError> {
        let exporter = Exporter::new(config.clone());
        let announcements = Arc::default();
        let collectors = collectors(&announcements)?;
        Ok(Self {
            exporter: exporter.map_err(|error| ComponentError::caused("cannot set up an exporter", error))?,
            post: Post { announcements, announced: 0, is_unsent: false, collectors, handed_out: 0 },
            is_corrected: false,
            counted: Exported::default(),
            refused: REFUSED.map(|name| meter.counter(name)),
            left_out: meter.counter("values_left_out"),
        })
    }

    /// Adds options data, to be sent before the next flows. False when it does not fit into the protocol.
    pub(super) fn add_options(&mut self, data: &OptionsData) -> bool {
        let outcome = self.exporter.add_options(data);
        self.is_corrected |= matches!(outcome, Ok(true));
        outcome.is_ok()
    }

    pub(super) fn encode(&mut self, flows: &FlowBatch, now_ms: i64) {
        self.announce(now_ms);
        let post = &mut self.post;
        self.exporter.encode(flows, now_ms, &mut |message| post.take(message, now_ms));
        self.count();
    }

    /// Sends everything that waits for a message to be full, and what is announced even without flows.
    pub(super) fn flush(&mut self, now_ms: i64) {
        self.announce(now_ms);
        let post = &mut self.post;
        self.exporter.flush(now_ms, &mut |message| post.take(message, now_ms));
        if std::mem::take(&mut post.is_unsent) {
            post.announce();
        }
    }

    /// Announces what was added. Later sessions do not get announcements that a new one replaces.
    fn announce(&mut self, now_ms: i64) {
        let post = &mut self.post;
        let known = post.announced;
        self.exporter.announce(now_ms, &mut |message| post.take(message, now_ms));
        if std::mem::take(&mut self.is_corrected) {
            let mut messages = Vec::new();
            self.exporter.announce_anew(now_ms, &mut |message| messages.push(Message::new(message, 0)));
            post.announcements.replace(messages, known);
        }
    }

    fn count(&mut self) {
        let now = *self.exporter.exported();
        for (counter, &reason) in self.refused.iter().zip(Refusal::ALL) {
            counter.add(now.refused_for(reason) - self.counted.refused_for(reason));
        }
        self.left_out.add(now.values_left_out - self.counted.values_left_out);
        self.counted = now;
    }

    /// Flows that wait for their message to be full.
    pub(super) fn waiting(&self) -> u64 {
        self.exporter.exported().flows - self.post.handed_out
    }

    /// Flows and octets that wait for their connection.
    pub(super) fn queued(&self) -> (u64, usize) {
        self.post.links().map(Link::waiting).fold((0, 0), |sum, link| (sum.0 + link.0, sum.1 + link.1))
    }

    /// Ends the input; connections have until the deadline.
    pub(super) fn close(&self, deadline: Instant) {
        self.post.links().for_each(|link| link.close(deadline));
    }

    /// Waits until connections have sent everything or their time is over.
    pub(super) fn wait(&self, stopping: &Stopping) {
        self.post.links().for_each(|link| link.wait(stopping));
    }
}

impl Post {
    fn links(&self) -> impl Iterator<Item = &Link> {
        self.collectors.iter().filter_map(|collector| match collector {
            Collector::Connection(link) => Some(link),
            Collector::Datagrams(_) => None,
        })
    }

    fn take(&mut self, message: Datagram<'_>, now_ms: i64) {
        if message.is_announcement() {
            self.announced = self.announcements.push(message);
            self.is_unsent = true;
            return;
        }
        self.handed_out += u64::from(message.flows);
        // made once for all queues, and not at all without one
        let mut shared = None;
        let mut full = Vec::new();
        for collector in &mut self.collectors {
            match collector {
                Collector::Datagrams(outbox) => outbox.send(message, &self.announcements, self.announced, now_ms),
                Collector::Connection(link) => {
                    let message = shared.get_or_insert_with(|| Arc::new(Message::new(message, self.announced)));
                    if !link.offer(message) {
                        full.push(&*link);
                    }
                }
            }
        }
        // a full queue does not delay the others
        if let Some(message) = &shared {
            for link in full {
                link.put(message);
            }
        }
    }

    /// Sends the announcements to collectors without waiting for flows.
    fn announce(&mut self) {
        for collector in &mut self.collectors {
            match collector {
                Collector::Datagrams(outbox) => outbox.announce(&self.announcements),
                Collector::Connection(link) => link.wake(),
            }
        }
    }
}
