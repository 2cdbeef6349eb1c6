//! The UDP half of the collector: its sockets, and the threads that receive and decode.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use weir_flow::Counter;

use super::queue::{BurstReceiver, BurstSender};
use super::{CollectError, CollectorOptions, Shared, lock};
use crate::burst::{BURST_DATAGRAMS, Burst};
use crate::deliver::Outgoing;
use crate::relay::Relay;
use crate::relay::network::is_allowed;
use crate::socket::{self, ReceiveBuffers, ReceiveSocket};
use crate::{Listener, Transport};

/// How long a receive thread lets datagrams gather in the kernel when it has found few.
const GATHER: Duration = Duration::from_millis(1);
/// Longest time that stopping goes on reading what the kernel still holds.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// The sockets of all UDP listeners.
pub(super) fn bind_all(options: &CollectorOptions) -> Result<Vec<ReceiveSocket>, CollectError> {
    let mut sockets = Vec::new();
    for listen in options.listeners.iter().filter(|listen| listen.transport == Transport::Udp) {
        sockets.extend(bind_listener(*listen, options)?);
    }
    Ok(sockets)
}

/// The sockets of one UDP listener.
fn bind_listener(listen: Listener, options: &CollectorOptions) -> Result<Vec<ReceiveSocket>, CollectError> {
    let bind = |address| {
        let share = options.sockets > 1;
        ReceiveSocket::bind(address, options.buffer_octets, share)
            .map_err(|source| CollectError::Bind { listen, source })
    };
    if listen.address.port() != 0 {
        // Sockets that share a port would share it with another collector as well, and split its exporters with it.
        drop(UdpSocket::bind(listen.address).map_err(|source| CollectError::Bind { listen, source })?);
    }
    let first = bind(listen.address)?;
    // the others share whatever port the first one got
    let shared = SocketAddr::new(listen.address.ip(), first.info.local.port());
    let mut sockets = vec![first];
    for _ in 1..options.sockets.max(1) {
        sockets.push(bind(shared)?);
    }
    // The kernel sends all datagrams of one exporter to the same socket, so that they are decoded in their order.
    Ok(sockets)
}

/// The receive thread: from the socket into the queues. While a decoder has no room, a burst is filled further, and what
/// does not fit into it stays in the buffer of the kernel: that is the larger one, and what is dropped there is counted
/// exactly. What speaks against it is that a decoder which cannot keep up holds up the others of the socket; but what
/// holds it up for long, a disk, holds up all of them.
pub(super) struct ReceiveThread {
    pub(super) socket: ReceiveSocket,
    /// One for each decoder.
    pub(super) queues: Vec<BurstSender>,
    pub(super) shared: Arc<Shared>,
}

impl ReceiveThread {
    pub(super) fn run(self) -> ReceiveSocket {
        let mut buffers = ReceiveBuffers::new();
        let mut drain_until = None;
        let mut burst = self.shared.pool.take();
        loop {
            let received = match self.receive(&mut buffers, &mut burst) {
                Ok(received) => received,
                Err(error) => {
                    *lock(&self.shared.failure) = Some(CollectError::Receive(error));
                    return self.socket;
                }
            };
            let is_stopped = self.shared.stop.load(Ordering::Acquire);
            if !is_stopped && !self.has_room_for(&burst) {
                thread::sleep(GATHER);
                continue;
            }
            // after a stop nothing comes any more, so waiting for the queue costs nothing then
            self.hand_on(std::mem::replace(&mut burst, self.shared.pool.take()));
            if is_stopped {
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
                if received == Some(0) || Instant::now() >= until {
                    return self.socket;
                }
            } else if received.is_some_and(|received| (1..BURST_DATAGRAMS / 2).contains(&received)) {
                thread::sleep(GATHER);
            }
        }
    }

    /// Receives datagrams, or `None` when no more fit into the burst.
    fn receive(&self, buffers: &mut ReceiveBuffers, burst: &mut Burst) -> io::Result<Option<usize>> {
        if burst.is_full() { Ok(None) } else { self.socket.receive(buffers, burst).map(Some) }
    }

    /// How many datagrams of a burst are for each decoder.
    fn shares<'b>(&'b self, burst: &'b Burst) -> impl Iterator<Item = (&'b BurstSender, usize)> {
        self.queues.iter().enumerate().map(move |(number, queue)| {
            (queue, burst.datagrams().filter(|(arrival, _)| self.owner(arrival.source) == number).count())
        })
    }

    fn has_room_for(&self, burst: &Burst) -> bool {
        self.queues.iter().all(BurstSender::has_room)
            || self.shares(burst).all(|(queue, datagrams)| datagrams == 0 || queue.has_room())
    }

    /// Gives the burst to every decoder that has datagrams in it.
    fn hand_on(&self, burst: Burst) {
        let burst = Arc::new(burst);
        for (queue, datagrams) in self.shares(&burst).filter(|(_, datagrams)| *datagrams > 0) {
            // only a decoder that has ended does not take it
            if let Err(unsent) = queue.send(Arc::clone(&burst)) {
                self.shared.queue_drops.fetch_add(datagrams as u64, Ordering::Relaxed);
                self.shared.pool.give_back(unsent);
            }
        }
        self.shared.pool.give_back(burst);
    }

    fn owner(&self, source: SocketAddr) -> usize {
        self.shared.owner(source, self.queues.len())
    }
}

pub(super) struct DecodeThread {
    /// How many decoders share the exporters.
    pub(super) decoders: usize,
    pub(super) bursts: BurstReceiver,
    pub(super) outgoing: Outgoing,
    pub(super) relay: Option<Arc<Relay>>,
}

impl DecodeThread {
    pub(super) fn run(mut self) {
        let (shared, decoders, number) = (Arc::clone(&self.outgoing.shared), self.decoders, self.outgoing.number);
        let mut decoder = self.outgoing.decoder(|source| shared.owner(source, decoders) == number);
        loop {
            match self.bursts.recv_deadline(self.outgoing.due(&decoder)) {
                Ok(burst) => {
                    let (allowed, mut not_allowed) = (shared.sessions.allowed.networks(), 0);
                    let allows = |source: SocketAddr| is_allowed(&allowed, source.ip().to_canonical());
                    for (arrival, payload) in burst.datagrams() {
                        if !self.owns(arrival.source) {
                            continue;
                        }
                        if !allows(arrival.source) {
                            not_allowed += 1;
                            continue;
                        }
                        decoder.datagram(arrival.source, arrival.received_ms, payload);
                        if decoder.is_full() {
                            self.outgoing.deliver(&mut decoder);
                        }
                    }
                    if not_allowed > 0 {
                        decoder.count_unassigned(socket::now_ms(), Counter::DatagramsNotAllowed, not_allowed);
                    }
                    if let Some(relay) = &self.relay {
                        let own = burst.datagrams();
                        let own = own.filter(|(arrival, _)| self.owns(arrival.source) && allows(arrival.source));
                        relay.datagrams(own.map(|(arrival, payload)| (arrival.source, payload)));
                    }
                    self.outgoing.shared.pool.give_back(burst);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.outgoing.deliver_when_due(&mut decoder);
        }
        self.outgoing.finish(&mut decoder);
    }

    /// Whether this is the decoder of what comes from an address.
    fn owns(&self, source: SocketAddr) -> bool {
        self.outgoing.shared.owner(source, self.decoders) == self.outgoing.number
    }
}
