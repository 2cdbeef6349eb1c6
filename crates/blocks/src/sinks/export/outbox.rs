//! Datagrams to a collector.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use weir_chain::ComponentError;
use weir_export::{Datagram, TemplateRefresh, TransportSession, Version};

use super::announcements::Announcements;
use super::counters::ExportCounters;
use super::target::Target;

/// A socket for each address family that there are targets of, shared by their outboxes: to its collectors, an exporter
/// is one port.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    v4: Option<Arc<UdpSocket>>,
    v6: Option<Arc<UdpSocket>>,
}

impl Sockets {
    /// The socket that reaches a target. It is not connected: an error of one datagram would be reported for
    /// another one that was fine.
    pub(super) fn towards(&mut self, to: SocketAddr, from: Option<IpAddr>) -> Result<Arc<UdpSocket>, ComponentError> {
        let (slot, any) = match to {
            SocketAddr::V4(_) => (&mut self.v4, IpAddr::from(Ipv4Addr::UNSPECIFIED)),
            SocketAddr::V6(_) => (&mut self.v6, Ipv6Addr::UNSPECIFIED.into()),
        };
        if let Some(socket) = slot {
            return Ok(Arc::clone(socket));
        }
        let from = from.unwrap_or(any);
        let socket = UdpSocket::bind((from, 0))
            .map_err(|error| ComponentError::caused(format!("cannot send from {from}"), error))?;
        Ok(Arc::clone(slot.insert(Arc::new(socket))))
    }
}

/// What one collector gets over UDP.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: Arc<UdpSocket>,
    target: Target,
    address: SocketAddr,
    session: TransportSession,
    refresh: TemplateRefresh,
    /// Number of announcements sent since the last refresh, and the time of the refresh.
    announced: u64,
    refreshed_ms: Option<i64>,
    datagrams_since_refresh: u32,
    counters: ExportCounters,
    datagram: Vec<u8>,
}

impl Outbox {
    pub(super) fn new(
        socket: Arc<UdpSocket>,
        (target, address): (Target, SocketAddr),
        version: Version,
        refresh: TemplateRefresh,
        counters: ExportCounters,
    ) -> Self {
        Self {
            socket,
            target,
            address,
            session: TransportSession::new(version),
            refresh,
            announced: 0,
            refreshed_ms: None,
            datagrams_since_refresh: 0,
            counters,
            datagram: Vec::new(),
        }
    }

    /// Sends flows, and before them the announcements that the collector needs. Datagrams that the system does not take are
    /// counted and not sent again, as is usual for UDP.
    pub(super) fn send(&mut self, message: Datagram<'_>, announcements: &Announcements, announced: u64, now_ms: i64) {
        let is_due = self.refreshed_ms.is_none_or(|refreshed_ms| {
            self.datagrams_since_refresh >= self.refresh.datagrams
                || now_ms.saturating_sub(refreshed_ms) >= i64::from(self.refresh.secs) * 1000
        });
        if is_due {
            (self.announced, self.datagrams_since_refresh, self.refreshed_ms) = (0, 0, Some(now_ms));
        }
        if self.announced < announced {
            self.announce(announcements);
        }
        let is_sent = self.put(message);
        self.datagrams_since_refresh = self.datagrams_since_refresh.saturating_add(1);
        let counter = if is_sent { &self.counters.exported } else { &self.counters.unsent };
        counter.add(message.flows.into());
    }

    /// Sends the announcements that were not sent yet.
    pub(super) fn announce(&mut self, announcements: &Announcements) {
        let (messages, count) = announcements.after(self.announced);
        // what did not go out is tried again with the next flows
        if messages.iter().all(|message| self.put(message.datagram())) {
            self.announced = count;
        }
    }

    fn put(&mut self, message: Datagram<'_>) -> bool {
        self.session.number(message, &mut self.datagram);
        match self.socket.send_to(&self.datagram, self.address) {
            Ok(octets) => {
                self.counters.datagrams.add(1);
                self.counters.octets.add(octets as u64);
                true
            }
            Err(error) => {
                self.failed(&error);
                false
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        if self.counters.datagrams_failed.get() == 0 {
            let target = &self.target;
            tracing::warn!(%target, %error, "a datagram was not sent; from here on they are only counted");
        }
        self.counters.datagrams_failed.add(1);
    }
}
