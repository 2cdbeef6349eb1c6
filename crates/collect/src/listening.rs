//! The listeners for sessions: bound, then started.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::bounded;
use weir_secure::{DtlsServer, TlsError, TlsServer, TlsServerOptions};

use crate::collector::{CollectError, CollectorOptions, spawn};
use crate::deliver::Outgoing;
use crate::relay::Relay;
use crate::socket::ReceiveSocket;
use crate::stream::{self, Acceptor, DtlsListener, Sessions};
use crate::{Listener, Transport};

/// A listener in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerInfo {
    /// What carries the messages there.
    pub transport: Transport,
    /// Address and port in use.
    pub local: SocketAddr,
}

/// Listeners for sessions that have their ports.
pub(crate) struct Listening {
    acceptors: Vec<Acceptor>,
    dtls: Vec<DtlsListener>,
    /// Those of the listeners of TLS and DTLS.
    pub servers: SecureServers,
}

/// What sessions of TLS and DTLS are begun with, while the listeners are at work.
#[derive(Debug, Default)]
pub(crate) struct SecureServers {
    tls: Vec<TlsServer>,
    dtls: Vec<Arc<DtlsServer>>,
}

impl SecureServers {
    /// Has them read the files of certificates again; all of them, or none when the files cannot be used.
    pub(crate) fn reload(&self, options: &TlsServerOptions) -> Result<(), TlsError> {
        if !self.tls.is_empty() {
            TlsServer::new(options)?;
        }
        if !self.dtls.is_empty() {
            DtlsServer::new(options)?;
        }
        self.tls.iter().try_for_each(|server| server.reload(options))?;
        self.dtls.iter().try_for_each(|server| server.reload(options))
    }
}

/// Binds the listeners of all transports but plain UDP.
pub(crate) fn bind(options: &CollectorOptions) -> Result<Listening, CollectError> {
    let mut listening = Listening { acceptors: Vec::new(), dtls: Vec::new(), servers: SecureServers::default() };
    let numbered = options.listeners.iter().enumerate();
    for (number, &listen) in numbered.filter(|(_, listen)| listen.transport != Transport::Udp) {
        let cannot = |source| bind_error(listen, source);
        match secure_server(listen, options)? {
            Some(SecureServer::Dtls(server)) => {
                listening.servers.dtls.push(Arc::clone(&server));
                listening.dtls.push(DtlsListener::bind(listen, number, options.buffer_octets, server).map_err(cannot)?);
            }
            Some(SecureServer::Tls(server)) => {
                listening.servers.tls.push(server.clone());
                listening.acceptors.push(Acceptor::bind(listen, number, Some(server)).map_err(cannot)?);
            }
            None => listening.acceptors.push(Acceptor::bind(listen, number, None).map_err(cannot)?),
        }
    }
    Ok(listening)
}

/// Finds out whether the files of certificates can be used, without listening.
pub(crate) fn check(options: &CollectorOptions) -> Result<(), CollectError> {
    options.listeners.iter().try_for_each(|&listen| secure_server(listen, options).map(drop))
}

/// What sessions of a listener are begun with.
enum SecureServer {
    Tls(TlsServer),
    Dtls(Arc<DtlsServer>),
}

/// Reads the files of certificates for a listener; `None` where its transport needs none.
fn secure_server(listen: Listener, options: &CollectorOptions) -> Result<Option<SecureServer>, CollectError> {
    let tls = || options.tls.as_ref().ok_or(CollectError::NoCertificate { listen });
    Ok(match listen.transport {
        Transport::Dtls => Some(SecureServer::Dtls(Arc::new(DtlsServer::new(tls()?)?))),
        Transport::Tls => Some(SecureServer::Tls(TlsServer::new(tls()?)?)),
        _ => None,
    })
}

fn bind_error(listen: Listener, source: io::Error) -> CollectError {
    match source.raw_os_error().map(nix::errno::Errno::from_raw) {
        Some(nix::errno::Errno::EPROTONOSUPPORT | nix::errno::Errno::ESOCKTNOSUPPORT)
            if listen.transport == Transport::Sctp =>
        {
            CollectError::NoSctp { listen }
        }
        _ => CollectError::Bind { listen, source },
    }
}

impl Listening {
    pub(crate) fn is_empty(&self) -> bool {
        self.acceptors.is_empty() && self.dtls.is_empty()
    }

    /// What is to be said when connections have less than their limit.
    pub(crate) fn notice(&self, sessions: &Sessions) -> Option<String> {
        let descriptors = (!self.acceptors.is_empty()).then_some(sessions.descriptors);
        descriptors.and_then(|descriptors| descriptors.notice(sessions.limits.connections_max))
    }

    /// What identifies the sockets whose drops the kernel counts.
    pub(crate) fn inodes(&self) -> impl Iterator<Item = u64> {
        self.dtls.iter().filter_map(|listener| listener.inode)
    }

    /// All listeners as the options have them, those of UDP included.
    pub(crate) fn in_order_of(&self, listeners: &[Listener], sockets: &[ReceiveSocket]) -> Vec<ListenerInfo> {
        let mut acceptors = self.acceptors.iter().map(|acceptor| acceptor.local);
        let mut dtls = self.dtls.iter().map(|listener| listener.info.local);
        // those of one listener follow each other and have one address
        let mut udp: Vec<SocketAddr> = sockets.iter().map(|socket| socket.info.local).collect();
        udp.dedup();
        let mut udp = udp.into_iter();
        let info = |listener: &Listener| {
            let local = match listener.transport {
                Transport::Udp => udp.next(),
                Transport::Dtls => dtls.next(),
                _ => acceptors.next(),
            };
            ListenerInfo { transport: listener.transport, local: local.unwrap_or(listener.address) }
        };
        listeners.iter().map(info).collect()
    }

    /// Starts the threads that listen, and the one that decodes what all sessions send.
    pub(crate) fn start(
        self,
        outgoing: Outgoing,
        relay: Option<Arc<Relay>>,
        acceptors: &mut Vec<JoinHandle<()>>,
        decoders: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), CollectError> {
        let shared = Arc::clone(&outgoing.shared);
        let (queue, reads) = bounded(shared.sessions.limits.queue_reads_max.max(1));
        for acceptor in self.acceptors {
            let (sessions, queue) = (Arc::clone(&shared.sessions), queue.clone());
            acceptors.push(spawn("weir-accept", move || acceptor.run(&sessions, &queue))?);
        }
        for listener in self.dtls {
            let (shared, queue) = (Arc::clone(&shared), queue.clone());
            let limiter = shared.rate_limiter();
            let work = move || listener.run(&shared.sessions, &queue, &shared.queue_drops, limiter);
            acceptors.push(spawn("weir-dtls", work)?);
        }
        drop(queue);
        decoders.push(spawn("weir-decode", move || stream::decode(&reads, outgoing, relay.as_deref()))?);
        Ok(())
    }
}
