//! Sessions of DTLS 1.2: one socket, one thread, exporters told apart by address and port.
//!
//! A handshake is a matter of datagrams that come or do not come, so a session that waits for one keeps nobody
//! else waiting; what a handshake computes takes about a millisecond. The thread never waits for the decoder.

mod peer;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError};

use self::peer::{Peer, Progress};
use super::cookie::{Cookies, Hello};
use super::{Identity, TlsError};
use crate::burst::DATAGRAM_OCTETS_MAX;
use crate::socket::{ReceiveSocket, SocketInfo, now_ms};
use crate::stream::{DRAIN_MAX, Read, Reason, STOP_INTERVAL, Sessions, is_timeout};
use crate::{Listener, Session, Transport};

/// A socket that DTLS sessions come to.
pub(crate) struct DtlsListener {
    socket: Arc<UdpSocket>,
    identity: Identity,
    cookies: Cookies,
    pub info: SocketInfo,
    pub inode: Option<u64>,
}

impl DtlsListener {
    pub(crate) fn bind(listener: Listener, buffer_octets: usize, identity: Identity) -> Result<Self, DtlsBindError> {
        let socket = ReceiveSocket::bind(listener.address, buffer_octets, false)?;
        let inode = socket.inode();
        let (socket, info) = socket.into_parts();
        socket.set_read_timeout(Some(STOP_INTERVAL / 4))?;
        let cookies = Cookies::new().map_err(TlsError::from)?;
        Ok(Self { socket: Arc::new(socket), identity, cookies, info, inode })
    }

    /// Serves sessions until it is told to stop and the kernel holds nothing more.
    pub(crate) fn run(self, sessions: &Arc<Sessions>, queue: &Sender<Read>, queue_drops: &AtomicU64) {
        let outbox = Outbox { queue, queue_drops, ends: VecDeque::new() };
        let mut serving = Serving { listener: &self, sessions, outbox, peers: HashMap::default() };
        let mut buffer = vec![0; DATAGRAM_OCTETS_MAX];
        let (mut stopping_since, mut tended) = (None, Instant::now());
        loop {
            let received = match self.socket.recv_from(&mut buffer) {
                Ok((octets, source)) => {
                    serving.datagram(source, buffer.get(..octets).unwrap_or_default());
                    true
                }
                Err(error) if is_timeout(&error) => false,
                // what the network said about a datagram that we sent; the sessions will find out themselves
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

/// Why there is no DTLS on an address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DtlsBindError {
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

struct Serving<'l> {
    listener: &'l DtlsListener,
    sessions: &'l Arc<Sessions>,
    outbox: Outbox<'l>,
    peers: HashMap<SocketAddr, Peer, foldhash::fast::RandomState>,
}

impl Serving<'_> {
    fn datagram(&mut self, source: SocketAddr, octets: &[u8]) {
        if octets.is_empty() {
            // OpenSSL would take it for the end of the session
            return;
        }
        let hello = Hello::parse(octets);
        match self.peers.get_mut(&source) {
            // An exporter that has started again says hello from the port of a session that it has forgotten. The
            // hello of that session itself may come twice.
            Some(peer) if hello.is_none_or(|hello| peer.is_of(&hello)) => {
                let progress = peer.datagram(octets, &self.listener.identity);
                self.progressed(source, progress);
            }
            _ => {
                if let Some(hello) = hello {
                    self.hello(source, &hello, octets);
                }
            }
        }
    }

    /// An exporter says hello: it is asked for a cookie, or it has brought it.
    fn hello(&mut self, source: SocketAddr, hello: &Hello<'_>, octets: &[u8]) {
        let (listener, now_ms) = (self.listener, now_ms());
        if !listener.cookies.is_right(source, hello, now_ms) {
            if let Ok(cookie) = listener.cookies.of(source, hello, now_ms) {
                // when it is lost the exporter asks again
                let _ = listener.socket.send_to(&hello.answer(&cookie), source);
            }
            return;
        }
        self.end(source);
        let canonical = SocketAddr::new(source.ip().to_canonical(), source.port());
        let session = Session { transport: Transport::Dtls, source: canonical };
        let under_way = match self.sessions.handshake() {
            Ok(under_way) => under_way,
            Err(reason) => return self.sessions.tally.count_reason(reason),
        };
        let Some(open) = self.sessions.begin(session) else { return };
        match Peer::new(&listener.identity, &listener.socket, source, hello, open, under_way) {
            Ok(mut peer) => {
                let progress = peer.datagram(octets, &listener.identity);
                self.peers.insert(source, peer);
                self.progressed(source, progress);
            }
            Err(_) => self.sessions.tally.count_reason(Reason::NoResources),
        }
    }

    fn progressed(&mut self, source: SocketAddr, progress: Progress) {
        let Some(peer) = self.peers.get(&source) else { return };
        let session = peer.session();
        for octets in progress.datagrams {
            self.outbox.send(Read::Datagram { session, received_ms: now_ms(), octets });
        }
        if let Some(reason) = progress.failed {
            self.sessions.tally.count_reason(reason);
        }
        if progress.ended {
            self.end(source);
        }
    }

    /// Forgets a session, if there is one.
    fn end(&mut self, source: SocketAddr) {
        if let Some(peer) = self.peers.remove(&source) {
            self.outbox.ends.push_back(peer.session());
        }
    }

    /// Sends again what may have been lost, and gives up what takes too long.
    fn tend(&mut self) {
        let mut progresses = Vec::new();
        for (&source, peer) in &mut self.peers {
            let progress = peer.tend(&self.listener.identity, self.sessions);
            if progress.ended || !progress.datagrams.is_empty() {
                progresses.push((source, progress));
            }
        }
        for (source, progress) in progresses {
            self.progressed(source, progress);
        }
        self.outbox.flush_ends();
    }

    fn close(mut self) {
        let sources: Vec<_> = self.peers.keys().copied().collect();
        for source in sources {
            if let Some(peer) = self.peers.get_mut(&source) {
                peer.say_goodbye();
            }
            self.end(source);
        }
        for session in self.outbox.ends.drain(..) {
            // nothing comes any more, so waiting for room costs nothing
            let _ = self.outbox.queue.send(Read::End(session));
        }
    }
}

/// The way to the decoder, which drops datagrams when it is full, but not the ends of sessions.
struct Outbox<'l> {
    queue: &'l Sender<Read>,
    queue_drops: &'l AtomicU64,
    /// Ends that found no room.
    ends: VecDeque<Session>,
}

impl Outbox<'_> {
    fn send(&mut self, read: Read) {
        // a later session of the same exporter must not be taken for the one that ended
        if !self.flush_ends() || self.queue.try_send(read).is_err() {
            self.queue_drops.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether all ends have found room.
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
