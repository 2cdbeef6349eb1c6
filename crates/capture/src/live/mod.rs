//! Live interfaces: packet sockets whose frames the kernel writes into memory that it shares with us.
//!
//! A socket has a ring for each interface and thread. Threads share the packets of an interface by the hash of their
//! flows, so each flow is seen by one thread. Frames are copied out of the ring, once, so that the ring is free again
//! before they are dissected.

mod frames;
mod list;
mod ring;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weir_wire::packet::LinkType;

use self::frames::FrameCopier;
pub use self::list::{SystemInterface, list_interfaces};
use self::ring::{BLOCK_TIMEOUT_MS, Framing, Ring};
use crate::WarningHandler;
use crate::files::FRAME_OCTETS_MAX;
use crate::filter::{Filter, Program};
use crate::source::{FillOutcome, Interface, PacketBlock, PacketSource, SourceCounts, SourceError};

/// Octets from which on a block is delivered.
const ENOUGH_OCTETS: usize = 256 << 10;
/// Longest wait for packets, in milliseconds.
const WAIT_MS: u16 = 100;
/// How late a packet may be handed over after a time that was reported as now.
const LATENESS_US: i64 = 2 * 1000 * BLOCK_TIMEOUT_MS as i64;

/// Kinds of devices (`ARPHRD_`) whose frames have Ethernet headers.
const ETHERNET_TYPES: [u16; 2] = [libc::ARPHRD_ETHER, libc::ARPHRD_LOOPBACK];
/// `ARPHRD_RAWIP` of `linux/if_arp.h`, which libc does not have.
const ARPHRD_RAWIP: u16 = 519;
/// Those whose packets are IP from their first octet on.
const IP_TYPES: [u16; 5] =
    [libc::ARPHRD_NONE, ARPHRD_RAWIP, libc::ARPHRD_TUNNEL, libc::ARPHRD_TUNNEL6, libc::ARPHRD_SIT];
/// `LINKTYPE_ETHERNET`, `LINKTYPE_RAW`, `LINKTYPE_LINUX_SLL`.
const ETHERNET: u16 = 1;
const RAW: u16 = 101;
const LINUX_SLL: u16 = 113;

/// Which interfaces to capture on, and how.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// Names of interfaces.
    pub interfaces: Vec<String>,
    /// Whether to have frames that are for others too.
    pub promiscuous: bool,
    /// Most octets to capture of a frame; what a restored VLAN tag needs comes on top.
    pub snap_octets: u32,
    /// Octets of memory for the frames of one interface that were not fetched yet, shared by the threads.
    pub buffer_octets: usize,
    /// Which packets to deliver, in libpcap's language; `None` for all.
    pub filter: Option<String>,
    /// Sources to be made.
    pub threads: usize,
}

impl Default for LiveOptions {
    fn default() -> Self {
        Self {
            interfaces: Vec::new(),
            promiscuous: true,
            snap_octets: FRAME_OCTETS_MAX,
            buffer_octets: 64 << 20,
            filter: None,
            threads: 1,
        }
    }
}

/// Opens sources of the packets of live interfaces, one for each thread, which together deliver each packet once.
///
/// **Order.** Packets of one interface come in order. Those of two interfaces of a source may be apart by as long as the
/// kernel keeps packets that do not fill a block, 50 ms.
///
/// **Frames** are as on the wire: the VLAN tag that the system takes out is put back. On a loopback interface packets are
/// seen once, as they come in. Where devices have no Ethernet header, packets begin with IP or with what libpcap calls a
/// cooked header. With several threads, fragments of IPv4 come put together.
///
/// **Filter.** The kernel runs it on the frame without its outermost VLAN tag, and does not count what it does not take.
/// A filter that names VLANs, and those of devices with cooked headers, are run here on the whole frame and counted.
///
/// **Drops.** What found the ring full is counted in `kernel_drops`, how often it was full in `buffer_overruns`, after a
/// second at most.
///
/// **Failure.** An interface that goes down is reported, and read on when it is up again; one that is gone is reported, and the
/// source ends with its last interface.
pub fn open_live(options: &LiveOptions, warn: &WarningHandler) -> Result<Vec<Box<dyn PacketSource>>, SourceError> {
    let NamedInterfaces { mut filter, interfaces } = find(options)?;
    let mut sources: Vec<_> = (0..options.threads).map(|thread| Live::new(thread, warn)).collect();
    for (name, index) in interfaces {
        let opened = open_interface(name, index, options, filter.as_mut(), &mut sources);
        opened.map_err(|error| cannot_capture(name, error))?;
    }
    Ok(sources.into_iter().map(|source| Box::new(source) as Box<dyn PacketSource>).collect())
}

/// Finds out whether the interfaces are there and the filter is one, as [`open_live`] does first. Nothing is opened, which would
/// take the right to capture.
pub fn check_live(options: &LiveOptions) -> Result<(), SourceError> {
    find(options).map(drop)
}

/// The interfaces and the filter that options name.
struct NamedInterfaces<'a> {
    filter: Option<Filter>,
    /// Names of interfaces, and their numbers.
    interfaces: Vec<(&'a str, u32)>,
}

fn find(options: &LiveOptions) -> Result<NamedInterfaces<'_>, SourceError> {
    if options.interfaces.is_empty() || options.threads == 0 {
        return Err(unusable("no interface, or no thread, to capture with", None));
    }
    let filter = options.filter.as_deref().map(Filter::new).transpose()?;
    let mut interfaces = Vec::new();
    for name in &options.interfaces {
        interfaces.push((name.as_str(), if_nametoindex(name.as_str()).map_err(|_| no_interface(name))?));
    }
    Ok(NamedInterfaces { filter, interfaces })
}

enum OpenError {
    System(io::Error),
    Filter(SourceError),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Opens the rings of one interface. They are filled only when all of them share its packets, or the first ones would
/// have those of the others too.
fn open_interface(
    name: &str,
    index: u32,
    options: &LiveOptions,
    filter: Option<&mut Filter>,
    sources: &mut [Live],
) -> Result<(), OpenError> {
    let octets = options.buffer_octets / options.threads;
    let hardware_type = Ring::open(index, Framing::Raw, 0)?.hardware_type()?;
    let (framing, number) = match hardware_type {
        kind if ETHERNET_TYPES.contains(&kind) => (Framing::Raw, ETHERNET),
        kind if IP_TYPES.contains(&kind) => (Framing::Raw, RAW),
        _ => (Framing::Cooked, LINUX_SLL),
    };
    let (kernel, here) = programs(filter, framing, number, options.snap_octets).map_err(OpenError::Filter)?;
    let link = LinkType::from_dlt(number).unwrap_or(LinkType::Ethernet);
    let mut group = None;
    let mut rings = Vec::new();
    for _ in 0..options.threads {
        let ring = Ring::open(index, framing, octets)?;
        if hardware_type == libc::ARPHRD_LOOPBACK {
            ring.ignore_outgoing()?;
        }
        if options.threads > 1 {
            group = Some(ring.join(group)?);
        }
        rings.push(ring);
    }
    for (source, ring) in sources.iter_mut().zip(rings) {
        if options.promiscuous && source.is_first {
            ring.set_promiscuous(index)?;
        }
        ring.set_filter(&kernel)?;
        let interface = source.interfaces.len() as u16;
        source.interfaces.push(Interface { index, name: name.to_owned(), link });
        let copier = FrameCopier { framing, link, interface, program: here.clone() };
        source.ports.push(Port { index, name: name.to_owned(), ring, copier, is_down: false });
    }
    Ok(())
}

/// The program that the kernel runs, and the one that is run here.
fn programs(
    filter: Option<&mut Filter>,
    framing: Framing,
    number: u16,
    snap_octets: u32,
) -> Result<(Program, Option<Program>), SourceError> {
    let whole = Program::returning(snap_octets.clamp(1, FRAME_OCTETS_MAX));
    let Some(filter) = filter else { return Ok((whole, None)) };
    let program = filter.program(number, cfg!(target_endian = "big"))?;
    if framing == Framing::Cooked || filter.speaks_of_vlans() {
        return Ok((whole, Some(Program::clone(&program))));
    }
    Ok((program.with_octets(snap_octets.clamp(1, FRAME_OCTETS_MAX)), None))
}

/// One thread's share of the packets of all interfaces.
struct Live {
    ports: Vec<Port>,
    interfaces: Vec<Interface>,
    counts: SourceCounts,
    /// What happens to interfaces is reported by one of the sources.
    is_first: bool,
    warn: WarningHandler,
    /// Port to be looked at first, so that none starves.
    turn: usize,
    /// When drops were last asked for, in microseconds since the epoch.
    drops_asked_us: i64,
}

struct Port {
    index: u32,
    name: String,
    ring: Ring,
    copier: FrameCopier,
    /// Whether it went down, and nothing came since.
    is_down: bool,
}

impl Live {
    fn new(thread: usize, warn: &WarningHandler) -> Self {
        Self {
            ports: Vec::new(),
            interfaces: Vec::new(),
            counts: SourceCounts::default(),
            is_first: thread == 0,
            warn: Arc::clone(warn),
            turn: 0,
            drops_asked_us: 0,
        }
    }

    /// Copies what the kernel has handed over, from one port after the other.
    fn copy(&mut self, block: &mut PacketBlock) {
        let ports = self.ports.len();
        for _ in 0..ports {
            self.turn = (self.turn + 1) % ports;
            let Some(port) = self.ports.get_mut(self.turn) else { return };
            while let Some(ring_block) = port.ring.block() {
                if block.octets().len() >= ENOUGH_OCTETS {
                    return;
                }
                port.is_down = false;
                self.counts.frames_filtered += port.copier.copy(ring_block, block);
                port.ring.release();
            }
        }
    }

    /// Waits until an interface has something, and looks after those that have an error.
    fn wait(&mut self) -> Result<(), SourceError> {
        let mut waiting: Vec<_> =
            self.ports.iter().map(|port| PollFd::new(port.ring.as_fd(), PollFlags::POLLIN)).collect();
        match poll(&mut waiting, PollTimeout::from(WAIT_MS)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => (),
            Err(error) => {
                return Err(SourceError::Io { what: "cannot wait for packets".to_owned(), source: error.into() });
            }
        }
        let has_error = |port: &PollFd<'_>| port.revents().is_some_and(|events| events.contains(PollFlags::POLLERR));
        let has_error: Vec<_> = waiting.iter().map(has_error).collect();
        let warn = self.is_first.then_some(&self.warn);
        for (port, _) in self.ports.iter_mut().zip(has_error).filter(|(_, has_error)| *has_error) {
            port.take_error(warn);
        }
        let counts = &mut self.counts;
        self.ports.retain(|port| !port.is_down || port.is_still_there(warn, counts));
        Ok(())
    }

    /// Adds up what was dropped, once a second, or when there is nothing else to do.
    fn ask_drops(&mut self, now_us: i64, is_idle: bool) {
        if is_idle || now_us.abs_diff(self.drops_asked_us) >= 1_000_000 {
            self.drops_asked_us = now_us;
            for port in &self.ports {
                port.add_drops(&mut self.counts);
            }
        }
    }
}

impl Port {
    /// Reports what happened to the interface.
    fn take_error(&mut self, warn: Option<&WarningHandler>) {
        let Err(error) = self.ring.take_error() else { return };
        self.is_down = true;
        if let Some(warn) = warn {
            warn(&format!("interface {}: {error}; it is read on when it is up again", self.name));
        }
    }

    /// Whether an interface that went down may come back. It goes down before it is gone.
    fn is_still_there(&self, warn: Option<&WarningHandler>, counts: &mut SourceCounts) -> bool {
        // nix 0.31 gives an empty name instead of the error
        if if_indextoname(self.index).is_ok_and(|name| !name.is_empty()) {
            return true;
        }
        if let Some(warn) = warn {
            warn(&format!("interface {}: it is gone", self.name));
        }
        self.add_drops(counts);
        false
    }

    /// Adds up what was dropped; of an interface that is gone nothing more is known.
    fn add_drops(&self, counts: &mut SourceCounts) {
        let (drops, overruns) = self.ring.take_drops().unwrap_or_default();
        counts.kernel_drops += drops;
        counts.buffer_overruns += overruns;
    }
}

impl PacketSource for Live {
    fn fill(&mut self, block: &mut PacketBlock) -> Result<FillOutcome, SourceError> {
        block.clear();
        if self.ports.is_empty() {
            return Ok(FillOutcome::Ended);
        }
        self.copy(block);
        if block.packets().is_empty() {
            self.wait()?;
            self.copy(block);
        }
        let clock_us = now_us();
        let is_empty = block.packets().is_empty();
        self.ask_drops(clock_us, is_empty);
        Ok(if is_empty { FillOutcome::Nothing { clock_us: clock_us - LATENESS_US } } else { FillOutcome::Packets })
    }

    fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    fn counts(&self) -> SourceCounts {
        self.counts
    }
}

fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

fn unusable(what: &str, hint: Option<&str>) -> SourceError {
    SourceError::Unusable { what: what.to_owned(), hint: hint.map(str::to_owned) }
}

fn no_interface(name: &str) -> SourceError {
    let names: Vec<_> = list_interfaces().unwrap_or_default().into_iter().map(|interface| interface.name).collect();
    unusable(&format!("there is no interface '{name}'"), Some(&format!("there are {}", names.join(", "))))
}

fn cannot_capture(name: &str, error: OpenError) -> SourceError {
    let what = format!("cannot capture on interface '{name}'");
    match error {
        OpenError::Filter(error) => error,
        OpenError::System(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let hint = "run it as root, or give it the right to: setcap cap_net_raw+ep PROGRAM";
            unusable(&format!("{what}: {error}"), Some(hint))
        }
        OpenError::System(source) => SourceError::Io { what, source },
    }
}
