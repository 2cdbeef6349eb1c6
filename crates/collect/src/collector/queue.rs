//! The queue between sockets and a decoder, bounded in bursts and in octets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::burst::Burst;

/// Octets of the bursts that wait for a decoder, from which on there is no room: datagrams may be forty times as long as
/// usual ones.
const QUEUE_OCTETS_MAX: usize = 64 << 20;

/// Where sockets put bursts.
#[derive(Debug, Clone)]
pub(super) struct BurstSender {
    bursts: Sender<Arc<Burst>>,
    octets: Arc<AtomicUsize>,
}

/// Where a decoder takes them.
#[derive(Debug)]
pub(super) struct BurstReceiver {
    bursts: Receiver<Arc<Burst>>,
    octets: Arc<AtomicUsize>,
}

/// A queue of at most so many bursts.
pub(super) fn burst_queue(bursts_max: usize) -> (BurstSender, BurstReceiver) {
    let (sender, receiver) = bounded(bursts_max.max(1));
    let octets = Arc::<AtomicUsize>::default();
    (BurstSender { bursts: sender, octets: Arc::clone(&octets) }, BurstReceiver { bursts: receiver, octets })
}

impl BurstSender {
    /// Whether a burst can be put into the queue without waiting.
    pub(super) fn has_room(&self) -> bool {
        !self.bursts.is_full() && self.octets.load(Ordering::Relaxed) < QUEUE_OCTETS_MAX
    }

    /// Puts a burst into the queue, waiting for a place. Returns it when the decoder has ended.
    pub(super) fn send(&self, burst: Arc<Burst>) -> Result<(), Arc<Burst>> {
        let octets = burst.octets();
        self.octets.fetch_add(octets, Ordering::Relaxed);
        self.bursts.send(burst).map_err(|unsent| {
            self.octets.fetch_sub(octets, Ordering::Relaxed);
            unsent.0
        })
    }
}

impl BurstReceiver {
    /// The next burst, waiting for it until then.
    pub(super) fn recv_deadline(&self, deadline: Instant) -> Result<Arc<Burst>, RecvTimeoutError> {
        let burst = self.bursts.recv_deadline(deadline)?;
        self.octets.fetch_sub(burst.octets(), Ordering::Relaxed);
        Ok(burst)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;
    use crate::burst::{Arrival, BURST_DATAGRAMS, SLOT_OCTETS};

    #[test]
    fn long_datagrams_fill_a_queue_before_it_has_many_bursts() {
        let (sender, receiver) = burst_queue(1_000);
        let arrival = Arrival { source: SocketAddr::from(([192, 0, 2, 1], 1)), received_ms: 0, octets: 60_000 };
        let mut sent = 0;
        while sender.has_room() {
            let mut burst = Burst::new();
            (0..BURST_DATAGRAMS).for_each(|_| burst.arrived(arrival, &vec![0; 60_000 - SLOT_OCTETS]));
            assert!(burst.is_full());
            sender.send(Arc::new(burst)).expect("taken");
            sent += 1;
        }
        assert!((10..20).contains(&sent), "{sent}");
        receiver.recv_deadline(Instant::now() + Duration::from_secs(1)).expect("a burst");
        assert!(sender.has_room());
    }
}
