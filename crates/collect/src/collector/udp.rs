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
use crate::inherited;
use crate::rate::{RateLimiter, RefusedDatagrams};
use crate::relay::Relay;
use crate::relay::network::is_allowed;
use crate::socket::{self, ReceiveBuffers, ReceiveSocket};
use crate::{Decoder, Listener, Transport};

/// How long a receive thread lets datagrams gather in the kernel when it has found few.
const GATHER: Duration = Duration::from_millis(1);
/// Longest time that stopping goes on reading what the kernel still holds.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// The sockets of all UDP listeners.
pub(super) fn bind_all(options: &CollectorOptions) -> Result<Vec<ReceiveSocket>, CollectError> {
    let mut sockets = Vec::new();
    let numbered = options.listeners.iter().enumerate();
    for (number, listen) in numbered.filter(|(_, listen)| listen.transport == Transport::Udp) {
        for mut socket in bind_listener(*listen, options)? {
            socket.listener = number;
            sockets.push(socket);
        }
    }
    Ok(sockets)
}

/// What is to be said when a listener has not as many sockets as asked for: they were open before this process.
pub(super) fn notice(sockets: &[ReceiveSocket], asked: usize) -> Option<String> {
    let of = |socket: &ReceiveSocket| sockets.iter().filter(|other| other.info.local == socket.info.local).count();
    let few = sockets.iter().find(|socket| asked > 1 && of(socket) != asked)?;
    Some(format!(
        "{} has {} of {asked} sockets: they were opened by whoever started weir, and 'sockets' adds none to them",
        few.info.local,
        of(few)
    ))
}

/// The sockets of one UDP listener.
fn bind_listener(listen: Listener, options: &CollectorOptions) -> Result<Vec<ReceiveSocket>, CollectError> {
    let bind = |address| {
        let share = options.sockets > 1;
        ReceiveSocket::bind(address, options.buffer_octets, share)
            .map_err(|source| CollectError::Bind { listen, source })
    };
    let inherited = inherited::take(listen.address);
    if !inherited.is_empty() {
        let of = |socket| {
            ReceiveSocket::of(socket, options.buffer_octets).map_err(|source| CollectError::Bind { listen, source })
        };
        return inherited.into_iter().map(of).collect();
    }
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
        let mut burst = self.empty_burst();
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
            self.hand_on(std::mem::replace(&mut burst, self.empty_burst()));
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

    fn empty_burst(&self) -> Burst {
        let mut burst = self.shared.pool.take();
        burst.listener = self.socket.listener;
        burst
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
        let mut limiter = shared.rate_limiter();
        loop {
            match self.bursts.recv_deadline(self.outgoing.due(&decoder)) {
                Ok(burst) => {
                    let admitted = self.admit(&burst, limiter.as_mut(), &mut decoder);
                    let own = || burst.datagrams().enumerate().filter(|(number, _)| admitted & 1 << number != 0);
                    for (_, (arrival, payload)) in own() {
                        decoder.datagram(arrival.source, arrival.received_ms, payload);
                        if decoder.is_full() {
                            self.outgoing.deliver(&mut decoder);
                        }
                    }
                    if let Some(relay) = &self.relay {
                        relay.datagrams(own().map(|(_, (arrival, payload))| (arrival.source, payload)));
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

    /// The datagrams of a burst that are to be decoded here, a bit each; counts those of senders that are not allowed or send
    /// too much.
    fn admit(&self, burst: &Burst, mut limiter: Option<&mut RateLimiter>, decoder: &mut Decoder) -> u64 {
        const { assert!(BURST_DATAGRAMS <= u64::BITS as usize) };
        let sessions = &self.outgoing.shared.sessions;
        let networks = sessions.allowed.networks(burst.listener);
        let mut admitted = 0_u64;
        let (mut not_allowed, mut over_rate) = (RefusedDatagrams::default(), RefusedDatagrams::default());
        if let Some(limiter) = &mut limiter {
            limiter.move_to(Instant::now());
        }
        for (number, (arrival, _)) in
            burst.datagrams().enumerate().filter(|(_, (arrival, _))| self.owns(arrival.source))
        {
            let address = arrival.source.ip();
            if !is_allowed(&networks, address.to_canonical()) {
                not_allowed.add(address);
            } else if limiter.as_mut().is_some_and(|limiter| !limiter.admits(address)) {
                over_rate.add(address);
            } else {
                admitted |= 1 << number;
            }
        }
        if not_allowed.datagrams > 0 {
            decoder.count_unassigned(socket::now_ms(), Counter::DatagramsNotAllowed, not_allowed.datagrams);
        }
        sessions.tally.count_not_allowed(&not_allowed);
        if let Some(limiter) = limiter {
            sessions.tally.count_over_rate(&over_rate, limiter.take_forgotten());
        }
        admitted
    }

    /// Whether this is the decoder of what comes from an address.
    fn owns(&self, source: SocketAddr) -> bool {
        self.outgoing.shared.owner(source, self.decoders) == self.outgoing.number
    }
}
