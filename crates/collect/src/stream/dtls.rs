//! Sessions of DTLS: one socket, one thread, exporters distinguished by address and port. The thread never waits for
//! the decoder.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError};

use weir_secure::{ClientHello, DtlsServer, DtlsSession, Progress, SessionEnd};

use super::{DRAIN_MAX, Open, Read, Reason, STOP_INTERVAL, SessionLimits, Sessions, UnderWay, is_timeout};
use crate::burst::DATAGRAM_OCTETS_MAX;
use crate::rate::{RateLimiter, RefusedDatagrams};
use crate::socket::{ReceiveSocket, SocketInfo, now_ms};
use crate::{Listener, Session, Transport};

/// A socket that DTLS sessions come to.
pub(crate) struct DtlsListener {
    socket: Arc<UdpSocket>,
    server: Arc<DtlsServer>,
    /// Its place among the listeners.
    number: usize,
    pub info: SocketInfo,
    pub inode: Option<u64>,
}

impl DtlsListener {
    /// Binds a socket for the listener of this number.
    pub(crate) fn bind(
        listener: Listener,
        number: usize,
        buffer_octets: usize,
        server: Arc<DtlsServer>,
    ) -> io::Result<Self> {
        let socket = ReceiveSocket::bind(listener.address, buffer_octets, false)?;
        let inode = socket.inode();
        let (socket, info) = socket.into_parts();
        socket.set_read_timeout(Some(STOP_INTERVAL / 4))?;
        Ok(Self { socket: Arc::new(socket), server, number, info, inode })
    }

    /// Serves sessions until it has to stop and the kernel holds nothing more.
    pub(crate) fn run(
        self,
        sessions: &Arc<Sessions>,
        queue: &Sender<Read>,
        queue_drops: &AtomicU64,
        limiter: Option<RateLimiter>,
    ) {
        let outbox = Outbox { queue, queue_drops, ends: VecDeque::new() };
        let mut serving = Serving { listener: &self, sessions, limiter, outbox, peers: HashMap::default() };
        let mut buffer = vec![0; DATAGRAM_OCTETS_MAX];
        let (mut stopping_since, mut tended) = (None, Instant::now());
        loop {
            let received = match self.socket.recv_from(&mut buffer) {
                Ok((octets, source)) => {
                    if serving.is_within_rate(source) {
                        serving.datagram(source, buffer.get(..octets).unwrap_or_default());
                    }
                    true
                }
                Err(error) if is_timeout(&error) => false,
                // an error of the network about a datagram that we sent; the sessions will find out themselves
                Err(_) => true,
            };
            if tended.elapsed() >= STOP_INTERVAL {
                serving.tend();
                tended = Instant::now();
            }
            if sessions.is_stopping() {
                let since = *stopping_since.get_or_insert_with(Instant::now);
                if !received || since.elapsed() > DRAIN_MAX {
                    return serving.close();
                }
            }
        }
    }
}

struct Serving<'l> {
    listener: &'l DtlsListener,
    sessions: &'l Arc<Sessions>,
    limiter: Option<RateLimiter>,
    outbox: Outbox<'l>,
    peers: HashMap<SocketAddr, Peer, foldhash::fast::RandomState>,
}

/// An exporter, from its hello with the right cookie on.
struct Peer {
    dtls: DtlsSession,
    open: Open,
    /// While the handshake is under way.
    under_way: Option<UnderWay>,
}

impl Peer {
    fn receive(&mut self, octets: &[u8]) -> Progress {
        let progress = self.dtls.receive(octets);
        self.handshaken(progress)
    }

    /// Sends again what may have been lost of a handshake, or reports that the exporter takes too long.
    fn tend(&mut self, limits: &SessionLimits) -> Result<Progress, Reason> {
        let waited = self.dtls.inactive_for();
        if !self.dtls.is_established() {
            if self.under_way.as_ref().is_some_and(UnderWay::is_given_up) {
                return Err(Reason::TooManyHandshakes);
            }
            if waited > limits.handshake_timeout {
                return Err(Reason::HandshakeTooSlow);
            }
            let progress = self.dtls.resend();
            return Ok(self.handshaken(progress));
        }
        if waited > limits.idle_timeout {
            self.dtls.close();
            return Err(Reason::Idle);
        }
        Ok(Progress::default())
    }

    /// A handshake that is over does not count against the limit any more.
    fn handshaken(&mut self, progress: Progress) -> Progress {
        if self.dtls.is_established() {
            self.under_way = None;
        }
        progress
    }
}

impl Serving<'_> {
    /// Whether a source may send another datagram. It is asked before anything is computed, so that it bounds handshakes
    /// as well.
    fn is_within_rate(&mut self, source: SocketAddr) -> bool {
        let Some(limiter) = &mut self.limiter else { return true };
        limiter.move_to(Instant::now());
        let is_within = limiter.admits(source.ip());
        let mut over_rate = RefusedDatagrams::default();
        if !is_within {
            over_rate.add(source.ip());
        }
        self.sessions.tally.count_over_rate(&over_rate, limiter.take_forgotten());
        is_within
    }

    fn datagram(&mut self, source: SocketAddr, octets: &[u8]) {
        let hello = ClientHello::parse(octets);
        match self.peers.get_mut(&source) {
            // An exporter that has started again says hello from the port of a session that it has forgotten. The
            // hello of that session itself may come twice.
            Some(peer) if hello.is_none_or(|hello| peer.dtls.began_with(&hello)) => {
                let progress = peer.receive(octets);
                self.progressed(source, progress);
            }
            _ => {
                if let Some(hello) = hello {
                    self.hello(source, &hello, octets);
                }
            }
        }
    }

    /// An exporter says hello: it is asked for a cookie, or it has returned it.
    fn hello(&mut self, source: SocketAddr, hello: &ClientHello<'_>, octets: &[u8]) {
        let (listener, now_ms) = (self.listener, now_ms());
        if !listener.server.is_verified(source, hello, now_ms) {
            if let Some(request) = listener.server.verify_request(source, hello, now_ms) {
                // when it is lost the exporter asks again
                let _ = listener.socket.send_to(&request, source);
            }
            return;
        }
        self.end(source);
        let canonical = SocketAddr::new(source.ip().to_canonical(), source.port());
        let session = Session { transport: Transport::Dtls, source: canonical };
        let Some(open) = self.sessions.begin(session, listener.number) else { return };
        let under_way = self.sessions.handshake(session);
        match listener.server.begin(&listener.socket, source, hello) {
            Ok(dtls) => {
                let mut peer = Peer { dtls, open, under_way: Some(under_way) };
                let progress = peer.receive(octets);
                self.peers.insert(source, peer);
                self.progressed(source, progress);
            }
            Err(error) => self.sessions.tally.count_peer(error.into(), canonical),
        }
    }

    fn progressed(&mut self, source: SocketAddr, progress: Progress) {
        let Some(peer) = self.peers.get(&source) else { return };
        let session = peer.open.session;
        for octets in progress.datagrams {
            self.outbox.send(Read::Datagram { session, received_ms: now_ms(), octets });
        }
        match progress.end {
            None => return,
            Some(SessionEnd::Closed) => {}
            Some(SessionEnd::Refused(error)) => self.sessions.tally.count_peer(error.into(), session.source),
            Some(SessionEnd::Broken) => self.sessions.tally.count_peer(Reason::Broken, session.source),
        }
        self.end(source);
    }

    /// Forgets a session, if there is one.
    fn end(&mut self, source: SocketAddr) {
        if let Some(peer) = self.peers.remove(&source) {
            self.outbox.ends.push_back(peer.open.session);
        }
    }

    /// Sends again what may have been lost, and ends sessions that take too long.
    fn tend(&mut self) {
        let mut outcomes = Vec::new();
        for (&source, peer) in &mut self.peers {
            outcomes.push((source, peer.tend(&self.sessions.limits)));
        }
        for (source, outcome) in outcomes {
            match outcome {
                Ok(progress) => self.progressed(source, progress),
                Err(reason) => {
                    self.sessions.tally.count_peer(reason, source);
                    self.end(source);
                }
            }
        }
        self.outbox.flush_ends();
    }

    fn close(mut self) {
        let sources: Vec<_> = self.peers.keys().copied().collect();
        for source in sources {
            if let Some(peer) = self.peers.get_mut(&source) {
                peer.dtls.close();
            }
            self.end(source);
        }
        for session in self.outbox.ends.drain(..) {
            // nothing comes any more, so waiting for the queue costs nothing
            let _ = self.outbox.queue.send(Read::End(session));
        }
    }
}

/// The way to the decoder, which drops datagrams when it is full, but not the ends of sessions.
struct Outbox<'l> {
    queue: &'l Sender<Read>,
    queue_drops: &'l AtomicU64,
    /// Ends for which the queue was full.
    ends: VecDeque<Session>,
}

impl Outbox<'_> {
    fn send(&mut self, read: Read) {
        // a later session of the same exporter must not be taken for the one that ended
        if !self.flush_ends() || self.queue.try_send(read).is_err() {
            self.queue_drops.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether all ends are in the queue.
    fn flush_ends(&mut self) -> bool {
        while let Some(&session) = self.ends.front() {
            if let Err(TrySendError::Full(_)) = self.queue.try_send(Read::End(session)) {
                return false;
            }
            self.ends.pop_front();
        }
        true
    }
}
