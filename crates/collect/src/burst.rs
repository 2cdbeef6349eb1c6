//! Datagrams on their way from a socket to its decoder: a burst at a time, in memory that is used again and again.

use std::net::SocketAddr;

/// Datagrams of a burst at most; also those asked of the kernel in one call.
pub(crate) const BURST_DATAGRAMS: usize = 64;
/// Longest UDP payload, rounded up to cache lines. Memory that no datagram touches is never made resident.
const SLOT_OCTETS: usize = 65_536 + 192;

/// Where one datagram of a burst lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub source: SocketAddr,
    pub received_ms: i64,
    pub octets: usize,
}

/// Up to [`BURST_DATAGRAMS`] datagrams.
#[derive(Debug)]
pub(crate) struct Burst {
    memory: Vec<u8>,
    arrivals: Vec<Arrival>,
}

impl Burst {
    pub(crate) fn new() -> Self {
        Self { memory: vec![0; SLOT_OCTETS * BURST_DATAGRAMS], arrivals: Vec::with_capacity(BURST_DATAGRAMS) }
    }

    pub(crate) fn clear(&mut self) {
        self.arrivals.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.arrivals.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.arrivals.len() == BURST_DATAGRAMS
    }

    /// The slots that hold no datagram yet, in order.
    pub(crate) fn free_slots(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(SLOT_OCTETS).skip(self.arrivals.len())
    }

    /// Declares the next free slot filled.
    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        self.arrivals.push(arrival);
    }

    /// The datagrams in order of arrival.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        let slots = self.memory.chunks_exact(SLOT_OCTETS);
        self.arrivals.iter().zip(slots).map(|(arrival, slot)| (arrival, &slot[..arrival.octets.min(SLOT_OCTETS)]))
    }
}
