//! Datagrams onto the network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use weir_chain::{BlockError, Counter, Meter};
use weir_export::Datagram;

/// A socket for each address family that there are targets of.
#[derive(Debug)]
pub(super) struct Outbox {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    exported: Counter,
    unsent: Counter,
    sent: Counter,
    octets: Counter,
    failed: Counter,
}

impl Outbox {
    /// Opens sockets that can reach the targets. They are not connected: what the network says about one datagram
    /// would be reported for another one that was fine.
    pub(super) fn open(from: Option<IpAddr>, targets: &[SocketAddr], meter: &Meter) -> Result<Self, BlockError> {
        let open = |is_wanted: fn(&SocketAddr) -> bool, any: IpAddr| {
            let from = from.unwrap_or(any);
            let failed = |error| BlockError::caused(format!("cannot send from {from}"), error);
            targets.iter().any(is_wanted).then(|| UdpSocket::bind((from, 0)).map_err(failed)).transpose()
        };
        Ok(Self {
            v4: open(SocketAddr::is_ipv4, Ipv4Addr::UNSPECIFIED.into())?,
            v6: open(SocketAddr::is_ipv6, Ipv6Addr::UNSPECIFIED.into())?,
            exported: meter.counter("records_exported"),
            unsent: meter.counter("records_unsent"),
            sent: meter.counter("datagrams_sent"),
            octets: meter.counter("octets_sent"),
            failed: meter.counter("datagrams_failed"),
        })
    }

    /// Sends a datagram to all of the targets. What the system does not take is counted: nothing is sent again, as
    /// UDP has it.
    pub(super) fn send(&self, datagram: Datagram<'_>, targets: &[SocketAddr]) {
        let mut is_sent = true;
        for target in targets {
            let socket = if target.is_ipv4() { &self.v4 } else { &self.v6 };
            let Some(socket) = socket else { continue };
            match socket.send_to(datagram.octets, target) {
                Ok(octets) => {
                    self.sent.add(1);
                    self.octets.add(octets as u64);
                }
                Err(error) => {
                    if self.failed.get() == 0 {
                        tracing::warn!(%target, %error, "a datagram was not sent; from here on they are only counted");
                    }
                    self.failed.add(1);
                    is_sent = false;
                }
            }
        }
        let counter = if is_sent { &self.exported } else { &self.unsent };
        counter.add(datagram.flows.into());
    }
}
