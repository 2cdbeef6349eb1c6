//! Datagrams on their way from a socket to their decoders: a burst at a time, in memory that is used again and again.
//!
//! Export datagrams are shorter than the usual MTU, so each gets a slot of [`SLOT_OCTETS`] and a burst fits into the
//! processor's caches; a buffer for the longest datagram in each slot would be thirty times as much. What does not fit
//! into its slot is received into memory of the receive thread, and copied.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Datagrams of a burst at most; also those asked of the kernel in one call.
pub(crate) const BURST_DATAGRAMS: usize = 64;
/// Octets of a datagram that need no copy.
pub(crate) const SLOT_OCTETS: usize = 2_048;
/// Longest UDP payload, and then some.
pub(crate) const DATAGRAM_OCTETS_MAX: usize = 65_536;

/// Where one datagram of a burst came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub source: SocketAddr,
    pub received_ms: i64,
    pub octets: usize,
}

/// Up to [`BURST_DATAGRAMS`] datagrams.
#[derive(Debug)]
pub(crate) struct Burst {
    /// Number of the listener that they came to.
    pub listener: usize,
    memory: Box<[u8]>,
    arrivals: Vec<Arrival>,
    /// The datagrams that are longer than a slot, with their numbers, ascending.
    long: Vec<(usize, Box<[u8]>)>,
}

impl Burst {
    pub(crate) fn new() -> Self {
        Self {
            listener: 0,
            memory: vec![0; SLOT_OCTETS * BURST_DATAGRAMS].into_boxed_slice(),
            arrivals: Vec::with_capacity(BURST_DATAGRAMS),
            long: Vec::new(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.arrivals.clear();
        self.long.clear();
    }

    /// The slots that hold no datagram yet, in order.
    pub(crate) fn free_slots(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(SLOT_OCTETS).skip(self.arrivals.len())
    }

    /// Declares the next free slot filled. `rest` is what did not fit into it.
    pub(crate) fn arrived(&mut self, arrival: Arrival, rest: &[u8]) {
        let number = self.arrivals.len();
        if !rest.is_empty()
            && let Some(slot) = self.memory.chunks_exact(SLOT_OCTETS).nth(number)
        {
            self.long.push((number, [slot, rest].concat().into_boxed_slice()));
        }
        self.arrivals.push(arrival);
    }

    /// Whether no more fits into it.
    pub(crate) fn is_full(&self) -> bool {
        self.arrivals.len() >= BURST_DATAGRAMS
    }

    /// Octets of memory that it takes.
    pub(crate) fn octets(&self) -> usize {
        self.memory.len() + self.long.iter().map(|(_, octets)| octets.len()).sum::<usize>()
    }

    /// The datagrams in order of arrival.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        let mut long = self.long.iter().peekable();
        let slots = self.memory.chunks_exact(SLOT_OCTETS);
        self.arrivals.iter().zip(slots).enumerate().map(move |(number, (arrival, slot))| {
            match long.next_if(|(at, _)| *at == number) {
                Some((_, octets)) => (arrival, &**octets),
                None => (arrival, &slot[..arrival.octets.min(SLOT_OCTETS)]),
            }
        })
    }
}

/// Bursts to be used again. The last one that came back goes out first: its memory is still in the caches.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Burst>>);

impl Pool {
    pub(crate) fn take(&self) -> Burst {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_else(Burst::new)
    }

    /// Gives back one share of a burst; with the last share the burst can be used again.
    pub(crate) fn give_back(&self, burst: Arc<Burst>) {
        if let Some(mut burst) = Arc::into_inner(burst) {
            burst.clear();
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(burst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_datagrams_keep_their_place() {
        let mut burst = Burst::new();
        let arrival = |octets| Arrival { source: SocketAddr::from(([192, 0, 2, 1], 1)), received_ms: 0, octets };
        for (octet, octets) in [(1, 10), (2, SLOT_OCTETS + 3), (3, SLOT_OCTETS), (4, SLOT_OCTETS + 1)] {
            let slot = burst.free_slots().next().expect("a slot");
            slot[..octets.min(SLOT_OCTETS)].fill(octet);
            burst.arrived(arrival(octets), &vec![octet; octets.saturating_sub(SLOT_OCTETS)]);
        }
        let found: Vec<_> = burst.datagrams().map(|(_, octets)| (octets[0], octets.len())).collect();
        assert_eq!(found, [(1, 10), (2, SLOT_OCTETS + 3), (3, SLOT_OCTETS), (4, SLOT_OCTETS + 1)]);
        assert!(burst.datagrams().all(|(_, octets)| octets.iter().all(|octet| *octet == octets[0])));
    }

    #[test]
    fn a_burst_comes_back_with_its_last_share() {
        let pool = Pool::default();
        let burst = Arc::new(pool.take());
        let share = Arc::clone(&burst);
        pool.give_back(burst);
        assert_eq!(pool.0.lock().expect("unlocked").len(), 0);
        pool.give_back(share);
        assert_eq!(pool.0.lock().expect("unlocked").len(), 1);
    }
}
