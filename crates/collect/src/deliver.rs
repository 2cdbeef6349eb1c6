//! From a decoder to the owner of the collector.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;
use weir_flow::Delivery;

use crate::collector::{CollectorOptions, DROPS_INTERVAL, Shared, book_drops, lock};
use crate::state::persistence::DecoderPersistence;
use crate::{Decoder, socket};

/// What a decode thread needs in addition to its decoder.
pub(crate) struct Outgoing {
    pub number: usize,
    pub deliveries: Sender<Delivery>,
    pub shared: Arc<Shared>,
    pub options: CollectorOptions,
    persistence: DecoderPersistence,
    due: Instant,
    drops_read_at: Option<Instant>,
}

impl Outgoing {
    pub(crate) fn new(
        number: usize,
        deliveries: &Sender<Delivery>,
        shared: &Arc<Shared>,
        options: &CollectorOptions,
    ) -> Self {
        let due = Instant::now() + options.delivery_interval;
        let (deliveries, shared, options) = (deliveries.clone(), Arc::clone(shared), options.clone());
        Self {
            number,
            deliveries,
            shared,
            options,
            persistence: DecoderPersistence::default(),
            due,
            drops_read_at: None,
        }
    }

    /// With what remembers the decoder's exporters from one process to the next.
    pub(crate) fn with_persistence(self, persistence: DecoderPersistence) -> Self {
        Self { persistence, ..self }
    }

    /// A decoder of the options, which knows what was remembered of its own exporters.
    pub(crate) fn decoder(&mut self, is_own: impl Fn(SocketAddr) -> bool) -> Decoder {
        let decoder = self.persistence.decoder(&self.options, is_own);
        // what is not this decoder's own need not be kept
        self.options.sequences = None;
        decoder
    }

    /// When the next delivery is due.
    pub(crate) fn due(&self, decoder: &Decoder) -> Instant {
        self.persistence.due(decoder, self.due)
    }

    /// Delivers when there is enough, or when it is time.
    pub(crate) fn deliver_when_due(&mut self, decoder: &mut Decoder) {
        self.persistence.exchange(decoder);
        let is_full = decoder.is_full() || decoder.rows() >= self.options.delivery_rows_max;
        if !is_full && Instant::now() < self.due {
            return;
        }
        decoder.expire(socket::now_ms());
        // The first decoder keeps the books on what belongs to no exporter.
        if self.number == 0 && self.drops_read_at.is_none_or(|at| at.elapsed() >= DROPS_INTERVAL) {
            book_drops(&self.shared, decoder);
            self.drops_read_at = Some(Instant::now());
        }
        self.deliver(decoder);
        self.persistence.export(decoder);
        self.due = Instant::now() + self.options.delivery_interval;
    }

    /// Delivers what is left, and stores what is known for the next process.
    pub(crate) fn finish(&mut self, decoder: &mut Decoder) {
        std::mem::take(&mut self.persistence).close(decoder, |decoder| self.deliver(decoder));
        self.deliver(decoder);
        lock(&self.shared.diagnoses).extend(decoder.diagnoses());
    }

    /// Delivers what there is.
    pub(crate) fn deliver(&self, decoder: &mut Decoder) {
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            // it is not taken only when the collector was dropped
            let _ = self.deliveries.send(delivery);
        }
        let tally = &self.shared.sessions.tally;
        let (beyond_share, over_rate) = decoder.take_refused_domains();
        tally.count_beyond_share(beyond_share);
        tally.count_domains_over_rate(&over_rate);
        tally.count_agents_not_allowed(&decoder.take_agents_not_allowed());
        if let Some(slot) = lock(&self.shared.statistics).get_mut(self.number) {
            *slot = Some(decoder.statistics());
        }
    }
}
