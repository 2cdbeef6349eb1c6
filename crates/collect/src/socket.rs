//! UDP sockets that share a port.

use std::fs;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};

use crate::burst::{Arrival, BURST_DATAGRAMS, Burst, DATAGRAM_OCTETS_MAX, SLOT_OCTETS};

/// Longest wait for a datagram before the receive thread looks whether it should stop.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);

/// What a socket is bound to and what the kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketInfo {
    /// Address and port in use.
    pub local: SocketAddr,
    /// Receive buffer asked for, in octets.
    pub buffer_octets_asked: usize,
    /// Receive buffer granted, in octets, as the kernel accounts it: payload and its own bookkeeping.
    pub buffer_octets_granted: usize,
}

impl SocketInfo {
    /// How many octets of those that were asked for the kernel granted: it doubles them, for its bookkeeping (socket(7)).
    pub fn buffer_octets_of_asked(&self) -> usize {
        self.buffer_octets_granted / 2
    }
}

/// One of the sockets that share a port.
pub(crate) struct ReceiveSocket {
    socket: UdpSocket,
    /// Number of the listener that it belongs to.
    pub(crate) listener: usize,
    pub(crate) info: SocketInfo,
}

/// Buffers for the headers of a burst and for the ends of long datagrams, made in the thread that receives because it
/// cannot move to another. Memory that no long datagram touches is never made resident.
pub(crate) struct ReceiveBuffers {
    headers: MultiHeaders<SockaddrStorage>,
    rests: Vec<u8>,
}

/// Octets of a long datagram beyond its slot.
const REST_OCTETS: usize = DATAGRAM_OCTETS_MAX - SLOT_OCTETS;

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            headers: MultiHeaders::preallocate(BURST_DATAGRAMS, None),
            rests: vec![0; REST_OCTETS * BURST_DATAGRAMS],
        }
    }
}

impl ReceiveSocket {
    /// Binds a socket, one that others may share the port with if asked for.
    pub(crate) fn bind(listen: SocketAddr, buffer_octets: usize, share: bool) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(listen), Type::DGRAM, Some(Protocol::UDP))?;
        if listen.is_ipv6() {
            // one socket for both families; IPv4 sources appear as mapped addresses and are unmapped later
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_port(share)?;
        set_buffer(&socket, buffer_octets)?;
        socket.bind(&listen.into())?;
        Self::configured(socket, buffer_octets)
    }

    /// A socket that somebody else has bound.
    pub(crate) fn of(socket: UdpSocket, buffer_octets: usize) -> io::Result<Self> {
        let socket = Socket::from(socket);
        socket.set_nonblocking(false)?;
        // a smaller one would drop what waits
        let granted = socket.recv_buffer_size()?;
        let may_be_granted = match fs::read_to_string(RECEIVE_BUFFER_MAX) {
            Ok(limit) => may_be_granted(buffer_octets, &limit),
            // not shown in some networks of containers: whoever asked for a buffer got another one than this
            Err(_) => USUAL_BUFFER + 1,
        };
        if granted < buffer_octets
            && setsockopt(&socket, sockopt::RcvBufForce, &buffer_octets).is_err()
            && granted < may_be_granted
        {
            socket.set_recv_buffer_size(buffer_octets)?;
        }
        Self::configured(socket, buffer_octets)
    }

    fn configured(socket: Socket, buffer_octets: usize) -> io::Result<Self> {
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
        let buffer_octets_granted = socket.recv_buffer_size()?;
        let socket = UdpSocket::from(socket);
        let info =
            SocketInfo { local: socket.local_addr()?, buffer_octets_asked: buffer_octets, buffer_octets_granted };
        Ok(Self { socket, listener: 0, info })
    }

    /// Waits for datagrams and puts as many as there are into the burst. Returns 0 when none came in time.
    pub(crate) fn receive(&self, buffers: &mut ReceiveBuffers, burst: &mut Burst) -> io::Result<usize> {
        let ReceiveBuffers { headers, rests } = buffers;
        let arrivals = {
            let pieces = burst.free_slots().zip(rests.chunks_exact_mut(REST_OCTETS));
            let mut slots: Vec<[IoSliceMut<'_>; 2]> =
                pieces.map(|(slot, rest)| [IoSliceMut::new(slot), IoSliceMut::new(rest)]).collect();
            let received = recvmmsg(self.socket.as_raw_fd(), headers, slots.iter_mut(), MsgFlags::MSG_WAITFORONE, None);
            let received_ms = now_ms();
            match received {
                Ok(messages) => messages
                    .map(|message| {
                        let source = message.address.as_ref().map_or(UNKNOWN_SOURCE, source_address);
                        Arrival { source, received_ms, octets: message.bytes }
                    })
                    .collect::<Vec<_>>(),
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok(0),
                Err(error) => return Err(error.into()),
            }
        };
        let count = arrivals.len();
        for (arrival, rest) in arrivals.into_iter().zip(rests.chunks_exact(REST_OCTETS)) {
            burst.arrived(arrival, &rest[..arrival.octets.saturating_sub(SLOT_OCTETS).min(REST_OCTETS)]);
        }
        Ok(count)
    }

    /// The socket itself, for another way of receiving.
    pub(crate) fn into_parts(self) -> (UdpSocket, SocketInfo) {
        (self.socket, self.info)
    }

    /// What identifies the socket in the kernel's tables.
    pub(crate) fn inode(&self) -> Option<u64> {
        let path = format!("/proc/self/fd/{}", self.socket.as_raw_fd());
        fs::metadata(path).ok().map(|metadata| metadata.ino())
    }
}

/// What a socket of no privileges is granted at most, where the kernel says so.
const RECEIVE_BUFFER_MAX: &str = "/proc/sys/net/core/rmem_max";

/// What a socket has that nobody asked a buffer for (socket(7)).
const USUAL_BUFFER: usize = 212_992;

/// What the plain call for a buffer grants, of a limit as the kernel writes it: twice as much, for its bookkeeping (socket(7)).
fn may_be_granted(octets: usize, limit: &str) -> usize {
    octets.min(limit.trim().parse().unwrap_or(0)).saturating_mul(2)
}

/// Asks for a receive buffer.
fn set_buffer(socket: &Socket, octets: usize) -> io::Result<()> {
    // The privileged call ignores the system's limit; without the privilege the plain one takes what it gets.
    if setsockopt(socket, sockopt::RcvBufForce, &octets).is_err() {
        socket.set_recv_buffer_size(octets)?;
    }
    Ok(())
}

/// Source of a datagram whose sender the kernel does not name.
const UNKNOWN_SOURCE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

fn source_address(address: &SockaddrStorage) -> SocketAddr {
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(v4), _) => SocketAddr::from((v4.ip(), v4.port())),
        (None, Some(v6)) => SocketAddr::from((v6.ip().to_canonical(), v6.port())),
        (None, None) => UNKNOWN_SOURCE,
    }
}

/// Milliseconds since the epoch by the system's clock.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Datagrams that the kernel dropped on the sockets with these inodes since they were opened.
///
/// Read from the kernel's table because `SO_RXQ_OVFL` reports a drop only along with a later datagram, which may
/// never come.
pub(crate) fn kernel_drops(inodes: &[u64]) -> u64 {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|table| drops_in_table(&table, inodes))
        .sum()
}

/// Columns as in the kernel's `udp4_seq_show`: the tenth is the inode, the last the drops.
fn drops_in_table(table: &str, inodes: &[u64]) -> u64 {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let inode: u64 = fields.get(9)?.parse().ok()?;
            let drops: u64 = fields.last()?.parse().ok()?;
            inodes.contains(&inode).then_some(drops)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_the_kernels_table() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                     10: 0100007F:0807 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 12\n\
                     11: 0100007F:0808 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 5\n";
        assert_eq!(drops_in_table(table, &[4711]), 12);
        assert_eq!(drops_in_table(table, &[4711, 4712]), 17);
        assert_eq!(drops_in_table(table, &[1]), 0);
    }

    /// A buffer that whoever opened the socket was granted is larger than what the plain call grants.
    #[test]
    fn the_plain_call_grants_no_more_than_the_kernel_says() {
        assert_eq!(may_be_granted(64 << 20, "212992\n"), 425_984);
        assert_eq!(may_be_granted(100_000, "212992\n"), 200_000);
        assert_eq!(may_be_granted(64 << 20, ""), 0);
    }

    #[test]
    fn datagrams_arrive_with_their_source() {
        let socket = ReceiveSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1 << 20, false).expect("bind");
        let sender = UdpSocket::bind("127.0.0.1:0").expect("sender");
        let long = "long".repeat(10_000);
        for text in ["one", &long, "three"] {
            sender.send_to(text.as_bytes(), socket.info.local).expect("send");
        }
        let (mut buffers, mut burst) = (ReceiveBuffers::new(), Burst::new());
        while burst.datagrams().count() < 3 {
            socket.receive(&mut buffers, &mut burst).expect("receive");
        }
        let payloads: Vec<_> = burst.datagrams().map(|(_, payload)| payload.to_vec()).collect();
        assert_eq!(payloads, [b"one".to_vec(), long.into_bytes(), b"three".to_vec()]);
        let source = sender.local_addr().expect("address");
        assert!(burst.datagrams().all(|(arrival, _)| arrival.source == source));
        assert!(socket.inode().is_some());
    }
}
