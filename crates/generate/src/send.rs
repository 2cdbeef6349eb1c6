//! Flows onto the network.

use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use weir_export::{Datagram, Exporter};

use crate::flows::Flows;
use crate::pace::Pace;
use crate::sent::{SendError, Sent, Stream};

/// Where to, how fast and how long.
#[derive(Debug, Clone, Copy)]
pub struct SendPlan<'a> {
    /// The collector. Whether it may be on another machine is for the caller to decide.
    pub target: SocketAddr,
    /// Flows in a second, evenly; `None` for as fast as the machine can. 0 is the same as `None`.
    pub flows_per_second: Option<u32>,
    /// It ends after so long even if there are flows left, give or take what is sent in 50 ms.
    pub duration_max: Duration,
    /// It ends soon after this becomes true.
    pub stop: Option<&'a AtomicBool>,
}

impl SendPlan<'_> {
    /// As fast as possible to a port of this machine, for at most an hour.
    pub fn to_loopback(port: u16) -> Self {
        Self {
            target: (Ipv4Addr::LOCALHOST, port).into(),
            flows_per_second: None,
            duration_max: Duration::from_hours(1),
            stop: None,
        }
    }

    /// Flows made at a time, so that limits are looked at every 50 ms.
    fn batch_rows(&self) -> usize {
        self.flows_per_second
            .filter(|&rate| rate > 0)
            .map_or(Flows::BATCH_ROWS, |rate| (rate as usize / 20).clamp(1, Flows::BATCH_ROWS))
    }

    /// Datagrams handed to the kernel at once: what is sent in 5 ms, so that a rate is even.
    fn burst_datagrams(&self) -> usize {
        /// About as many as fit into a datagram.
        const FLOWS_IN_DATAGRAM: usize = 24;
        self.flows_per_second
            .filter(|&rate| rate > 0)
            .map_or(BURST_DATAGRAMS_MAX, |rate| (rate as usize / 200 / FLOWS_IN_DATAGRAM).clamp(1, BURST_DATAGRAMS_MAX))
    }

    fn is_over(&self, pace: &Pace) -> bool {
        pace.elapsed() >= self.duration_max || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Most datagrams handed to the kernel at once.
const BURST_DATAGRAMS_MAX: usize = 64;

/// Sends flows until there are none left, or until the plan says so. Batches go to the exporters in turn; each has a
/// socket of its own. The time of export is the simulated clock of the flows, so datagrams are the same every time.
pub fn send(flows: &mut Flows, streams: &[Stream], plan: &SendPlan<'_>) -> Result<Sent, SendError> {
    let mut exporters = streams
        .iter()
        .map(|stream| Ok((Exporter::new(stream.config.clone())?, Outbox::new(stream, plan)?)))
        .collect::<Result<Vec<_>, SendError>>()?;
    if exporters.is_empty() {
        return Err(SendError::NoStream);
    }
    let (mut sent, pace, mut turn) = (Sent::default(), Pace::new(plan.flows_per_second), 0);
    while !plan.is_over(&pace)
        && let Some(batch) = flows.next_batch(plan.batch_rows())
    {
        let (exporter, outbox) = &mut exporters[turn];
        exporter.encode(&batch, flows.clock_ms(), &mut |datagram| outbox.add(datagram, &pace, &mut sent));
        turn = (turn + 1) % streams.len();
    }
    for (exporter, outbox) in &mut exporters {
        exporter.flush(flows.clock_ms(), &mut |datagram| outbox.add(datagram, &pace, &mut sent));
        outbox.send(&pace, &mut sent);
    }
    sent.add_exported(exporters.iter().map(|(exporter, _)| exporter));
    sent.duration = pace.elapsed();
    Ok(sent)
}

/// Datagrams of one exporter on their way to the kernel.
struct Outbox {
    socket: UdpSocket,
    headers: MultiHeaders<SockaddrStorage>,
    targets: Vec<Option<SockaddrStorage>>,
    octets: Vec<u8>,
    /// Where each datagram ends in `octets`, and how many flows it has.
    ends: Vec<(usize, u32)>,
    burst_datagrams: usize,
}

impl Outbox {
    fn new(stream: &Stream, plan: &SendPlan<'_>) -> Result<Self, SendError> {
        let any = if plan.target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let address: IpAddr = stream.source.unwrap_or(any);
        // Not connected: the refusal of one datagram would be reported for another one that was fine.
        let socket = UdpSocket::bind((address, 0)).map_err(|source| SendError::Bind { address, source })?;
        Ok(Self {
            socket,
            headers: MultiHeaders::preallocate(BURST_DATAGRAMS_MAX, None),
            targets: vec![Some(plan.target.into()); BURST_DATAGRAMS_MAX],
            octets: Vec::new(),
            ends: Vec::new(),
            burst_datagrams: plan.burst_datagrams(),
        })
    }

    fn add(&mut self, datagram: Datagram<'_>, pace: &Pace, sent: &mut Sent) {
        self.octets.extend_from_slice(datagram.octets);
        self.ends.push((self.octets.len(), datagram.flows));
        if self.ends.len() >= self.burst_datagrams {
            self.send(pace, sent);
        }
    }

    /// Hands everything to the kernel, which takes what its buffer has room for and blocks until it has taken all.
    fn send(&mut self, pace: &Pace, sent: &mut Sent) {
        pace.wait(sent.flows + sent.flows_refused);
        let mut start = 0;
        let slices: Vec<_> = self
            .ends
            .iter()
            .map(|&(end, _)| [IoSlice::new(&self.octets[std::mem::replace(&mut start, end)..end])])
            .collect();
        let mut first = 0;
        while first < slices.len() {
            let left = slices[first..].iter();
            let (descriptor, targets) = (self.socket.as_raw_fd(), &self.targets);
            let taken = match sendmmsg(descriptor, &mut self.headers, left, targets, [], MsgFlags::empty()) {
                Ok(results) => results.count(),
                Err(Errno::EINTR) => continue,
                Err(_) => 0,
            };
            for (slice, (_, flows)) in slices[first..].iter().zip(&self.ends[first..]).take(taken) {
                sent.datagrams += 1;
                sent.octets += slice[0].len() as u64;
                sent.flows += u64::from(*flows);
            }
            first += taken;
            if taken == 0 {
                // The kernel says why for the first one only; the others may be fine.
                sent.datagrams_refused += 1;
                sent.flows_refused += u64::from(self.ends[first].1);
                first += 1;
            }
        }
        self.octets.clear();
        self.ends.clear();
    }
}
