//! The relay: what was received, sent on to other collectors as it came.
//!
//! Decoders copy what they have decoded into a bounded queue, and a thread of its own sends it. What does not fit is
//! dropped and counted, so a relay that does not keep up delays nothing else. It sends datagrams whatever the transport
//! was: the other collectors see plain UDP.
//!
//! Collectors distinguish exporters by their addresses, which a relay hides. With [`RelayOptions::keep_source`]
//! datagrams are sent under the address and port of the exporter, through a raw socket, for which the system asks a
//! privilege. What speaks against it: networks that check sources drop such datagrams, and no error ever comes back.

pub(crate) mod network;
mod raw;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_flow::Counter;

pub use network::{AgentRule, Network, NetworkError};

use self::raw::RawSocket;
use crate::stream::{Reason, Tally};

/// What to relay, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOptions {
    /// The other collectors, each as `host:port`. Names are looked up once, at the start.
    pub targets: Vec<String>,
    /// Whether datagrams are sent under the address of the exporter where the families agree; else under ours.
    pub keep_source: bool,
    /// Networks of exporters to relay; empty for all.
    pub sources: Vec<Network>,
    /// Bursts of up to 64 datagrams that may wait to be sent; what comes when they all wait is dropped and counted under
    /// `relay_drops`.
    pub queue_bursts_max: usize,
    /// Octets of memory that they may take, or those of one burst where it alone takes more; the same happens to what comes then.
    pub queue_octets_max: usize,
}

impl RelayOptions {
    /// Relays everything to these collectors, under our own address.
    pub fn new(targets: Vec<String>) -> Self {
        let (sources, queue_octets_max) = (Vec::new(), 64 << 20);
        Self { targets, keep_source: false, sources, queue_bursts_max: 256, queue_octets_max }
    }
}

/// Why nothing can be relayed.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// A target has no address.
    #[error("cannot relay to '{}'\nhint: write host:port, such as 192.0.2.1:2055", target.escape_debug())]
    Target {
        /// The target.
        target: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A name without an address.
    #[error("'{}' has no address to relay to", target.escape_debug())]
    NoAddress {
        /// The target.
        target: String,
    },
    /// There is no socket to send by.
    #[error("cannot open a socket to relay by")]
    Socket(#[source] io::Error),
    /// The thread of the relay could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The privilege for raw sockets is missing.
    #[error(
        "cannot keep the source addresses of what is relayed\nhint: that takes CAP_NET_RAW (setcap cap_net_raw+ep weir, or AmbientCapabilities=CAP_NET_RAW); without it the relay can send under its own address"
    )]
    Raw(#[source] io::Error),
}

/// Longest message of a stream that is relayed: what fits an Ethernet frame behind headers of IPv6 and UDP. Datagrams
/// are relayed whatever their length, as they came.
const MESSAGE_OCTETS_MAX: usize = 1452;

/// Datagrams on their way to the relay's thread.
#[derive(Debug, Default)]
struct Burst {
    octets: Vec<u8>,
    /// Source and length of each.
    datagrams: Vec<(SocketAddr, usize)>,
}

impl Burst {
    /// Octets of memory that it takes.
    fn octets_kept(&self) -> usize {
        self.octets.capacity() + self.datagrams.capacity() * size_of::<(SocketAddr, usize)>()
    }
}

/// The way into the relay, for any number of decoders. The relay ends when the last is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    queue: Sender<Burst>,
    /// Octets that wait to be sent.
    queued_octets: Arc<AtomicUsize>,
    queue_octets_max: usize,
    sources: Vec<Network>,
    tally: Arc<Tally>,
}

impl Relay {
    /// Finds out whether the names of all collectors are known.
    pub(crate) fn check(options: &RelayOptions) -> Result<(), RelayError> {
        options.targets.iter().try_for_each(|target| address_of(target).map(drop))
    }

    /// Opens the sockets and starts the thread.
    pub(crate) fn start(options: &RelayOptions, tally: &Arc<Tally>) -> Result<(Arc<Self>, JoinHandle<()>), RelayError> {
        let (queue, bursts) = bounded(options.queue_bursts_max.max(1));
        let targets = options.targets.iter().map(|target| Target::open(target, options.keep_source));
        let targets = targets.collect::<Result<_, _>>()?;
        let queued_octets = Arc::<AtomicUsize>::default();
        let outlet = Outlet { targets, bursts, queued_octets: Arc::clone(&queued_octets), tally: Arc::clone(tally) };
        let thread = thread::Builder::new().name("weir-relay".to_owned());
        let thread = thread.spawn(move || outlet.run()).map_err(RelayError::Thread)?;
        let (sources, tally) = (options.sources.clone(), Arc::clone(tally));
        let queue_octets_max = options.queue_octets_max;
        Ok((Arc::new(Self { queue, queued_octets, queue_octets_max, sources, tally }), thread))
    }

    /// Takes datagrams as they were received, those of a burst together.
    pub(crate) fn datagrams<'a>(&self, datagrams: impl Iterator<Item = (SocketAddr, &'a [u8])>) {
        self.take(datagrams, usize::MAX);
    }

    /// Takes messages of a stream.
    pub(crate) fn messages<'a>(&self, messages: impl Iterator<Item = (SocketAddr, &'a [u8])>) {
        self.take(messages, MESSAGE_OCTETS_MAX);
    }

    fn take<'a>(&self, datagrams: impl Iterator<Item = (SocketAddr, &'a [u8])>, octets_max: usize) {
        let mut burst = Burst::default();
        for (source, octets) in datagrams {
            if !self.sources.is_empty() && !self.sources.iter().any(|network| network.contains(source.ip())) {
                continue;
            }
            if octets.len() > octets_max {
                self.tally.count_reason(Reason::RelayTooLong);
                continue;
            }
            burst.octets.extend_from_slice(octets);
            burst.datagrams.push((source, octets.len()));
        }
        if burst.datagrams.is_empty() {
            return;
        }
        let (octets, datagrams) = (burst.octets_kept(), burst.datagrams.len() as u64);
        let before = self.queued_octets.fetch_add(octets, Ordering::Relaxed);
        let has_room = before == 0 || before.saturating_add(octets) <= self.queue_octets_max;
        if !has_room || self.queue.try_send(burst).is_err() {
            self.queued_octets.fetch_sub(octets, Ordering::Relaxed);
            self.tally.count(Counter::RelayDrops, datagrams);
        }
    }
}

/// The sending end, for the relay's thread.
struct Outlet {
    targets: Vec<Target>,
    bursts: Receiver<Burst>,
    queued_octets: Arc<AtomicUsize>,
    tally: Arc<Tally>,
}

impl Outlet {
    /// Sends until nothing can come any more.
    fn run(mut self) {
        for burst in &self.bursts {
            let mut rest = burst.octets.as_slice();
            for &(source, length) in &burst.datagrams {
                let Some((octets, after)) = rest.split_at_checked(length) else { break };
                rest = after;
                for target in &mut self.targets {
                    match target.send(source, octets) {
                        Ok(()) => self.tally.count(Counter::DatagramsRelayed, 1),
                        Err(_) => self.tally.count_reason(Reason::RelayNotSent),
                    }
                }
            }
            self.queued_octets.fetch_sub(burst.octets_kept(), Ordering::Relaxed);
        }
    }
}

/// One of the other collectors.
struct Target {
    address: SocketAddr,
    plain: UdpSocket,
    raw: Option<RawSocket>,
}

/// Looks the name of a collector up.
fn address_of(target: &str) -> Result<SocketAddr, RelayError> {
    let failed = |source| RelayError::Target { target: target.to_owned(), source };
    let address = target.to_socket_addrs().map_err(failed)?.next();
    address.ok_or_else(|| RelayError::NoAddress { target: target.to_owned() })
}

impl Target {
    fn open(target: &str, keep_source: bool) -> Result<Self, RelayError> {
        let address = address_of(target)?;
        let any = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let plain = UdpSocket::bind((any, 0)).map_err(RelayError::Socket)?;
        // a full socket buffer loses the datagram rather than the time
        plain.set_nonblocking(true).map_err(RelayError::Socket)?;
        let raw = if keep_source { Some(RawSocket::open(address).map_err(RelayError::Raw)?) } else { None };
        Ok(Self { address, plain, raw })
    }

    fn send(&mut self, source: SocketAddr, octets: &[u8]) -> io::Result<()> {
        match &mut self.raw {
            Some(raw) if source.is_ipv4() == self.address.is_ipv4() => raw.send(source, octets),
            _ => self.plain.send_to(octets, self.address).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However few bursts wait, they take no more memory than that, and what was sent makes room again.
    #[test]
    fn octets_that_wait_are_bounded() {
        let (queue, bursts) = bounded(256);
        let (queued_octets, tally) = (Arc::<AtomicUsize>::default(), Arc::<Tally>::default());
        let relay = Relay {
            queue,
            queued_octets: Arc::clone(&queued_octets),
            queue_octets_max: 200_000,
            sources: Vec::new(),
            tally: Arc::clone(&tally),
        };
        let (source, long) = (SocketAddr::from(([192, 0, 2, 1], 4739)), vec![1; 65_000]);
        let take = |count: usize| {
            for _ in 0..count {
                relay.datagrams([(source, long.as_slice())].into_iter());
            }
            tally.not_booked().find(|(counter, _)| *counter == Counter::RelayDrops).map(|(_, count)| count)
        };
        assert_eq!(take(5), Some(2), "three have room");
        assert!(queued_octets.load(Ordering::Relaxed) <= 200_000);
        let outlet = Outlet {
            targets: Vec::new(),
            bursts: bursts.clone(),
            queued_octets: Arc::clone(&queued_octets),
            tally: Arc::clone(&tally),
        };
        drop(relay);
        outlet.run();
        assert_eq!(queued_octets.load(Ordering::Relaxed), 0);
        assert!(bursts.is_empty());
    }

    #[test]
    fn a_burst_that_is_longer_than_the_queue_is_taken_alone() {
        let (queue, bursts) = bounded(256);
        let tally = Arc::<Tally>::default();
        let relay = Relay {
            queue,
            queued_octets: Arc::default(),
            queue_octets_max: 1_000,
            sources: Vec::new(),
            tally: Arc::clone(&tally),
        };
        let (source, long) = (SocketAddr::from(([192, 0, 2, 1], 4739)), vec![1; 65_000]);
        for _ in 0..2 {
            relay.datagrams([(source, long.as_slice())].into_iter());
        }
        assert_eq!(bursts.len(), 1);
        let dropped = tally.not_booked().find(|(counter, _)| *counter == Counter::RelayDrops);
        assert_eq!(dropped, Some((Counter::RelayDrops, 1)));
    }
}
