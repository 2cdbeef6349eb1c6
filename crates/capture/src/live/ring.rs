//! The one door to packet sockets and the memory that the kernel writes frames into.
//!
//! A ring is memory that the kernel and this process share, cut into blocks (`TPACKET_V3`, the kernel's
//! `Documentation/networking/packet_mmap.rst`). The first words of a block say whose it is. The kernel fills a block with
//! frames, and when it is full, or after [`BLOCK_TIMEOUT_MS`], writes there that it is ours; from then on it does not
//! touch it. We read it and write that it is the kernel's again. So who may read a block has it alone: a slice
//! of it is lent only between [`Ring::block`] having seen our mark, with an ordering that makes what the kernel wrote
//! before visible, and [`Ring::release`], which needs the ring to itself and so ends the slice.
#![expect(unsafe_code, reason = "shared memory and socket options have no safe form; each use says why it may be")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{mem, ptr, slice};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::filter::Program;

/// Octets of a block of a ring: some thousand packets, and the longest that the system merges.
pub(super) const BLOCK_OCTETS: usize = 256 << 10;
/// After this time a block with packets is handed over although it is not full.
pub(super) const BLOCK_TIMEOUT_MS: u32 = 50;
/// Fewest blocks of a ring: one is read while others are filled.
const BLOCKS_MIN: usize = 4;
/// The kernel wants to know a size of frames, which means nothing in this version.
const FRAME_OCTETS: usize = 2048;
/// Where a block says whose it is: behind its version and an offset.
const STATUS_OFFSET: usize = 8;
/// All protocols, in network byte order as the kernel wants it.
const ALL_PROTOCOLS: u16 = (libc::ETH_P_ALL as u16).to_be();

/// The address of a packet socket that is not bound.
const UNBOUND: libc::sockaddr_ll = libc::sockaddr_ll {
    sll_family: libc::AF_PACKET as u16,
    sll_protocol: 0,
    sll_ifindex: 0,
    sll_hatype: 0,
    sll_pkttype: 0,
    sll_halen: 0,
    sll_addr: [0; 8],
};

/// What a socket hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Frames with their link header.
    Raw,
    /// Packets without one.
    Cooked,
}

/// A packet socket of one interface, and its ring.
pub(super) struct Ring {
    socket: OwnedFd,
    memory: NonNull<u8>,
    blocks: usize,
    /// The block that is handed over next.
    next: usize,
}

// SAFETY: the memory belongs to the ring alone, like that of a `Box`, and the calls on the socket may be made by any
// thread.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of about this many octets that gets nothing yet: it is bound to the interface, and its filter takes nothing.
    pub(super) fn open(interface: u32, framing: Framing, octets: usize) -> io::Result<Self> {
        let kind = if framing == Framing::Raw { SockType::Raw } else { SockType::Datagram };
        // of protocol 0, which means that it gets nothing before it is bound
        let socket = socket(AddressFamily::Packet, kind, SockFlag::SOCK_CLOEXEC, None)?;
        set_option(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V3 as libc::c_int),
        )?;
        let blocks = (octets / BLOCK_OCTETS).max(BLOCKS_MIN);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_OCTETS as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_OCTETS as u32,
            tp_frame_nr: (BLOCK_OCTETS / FRAME_OCTETS * blocks) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let memory = map(&socket, blocks * BLOCK_OCTETS)?;
        let ring = Self { socket, memory, blocks, next: 0 };
        ring.set_filter(&Program::returning(0))?;
        bind(&ring.socket, interface)?;
        Ok(ring)
    }

    /// What kind of device the interface is (`ARPHRD_`).
    pub(super) fn hardware_type(&self) -> io::Result<u16> {
        let mut address = UNBOUND;
        let mut octets = mem::size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel writes no more octets of the address than it is given.
        checked(unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut octets) })?;
        Ok(address.sll_hatype)
    }

    /// Replaces the filter at once: it takes a frame if it returns more than 0, and that many octets of it.
    pub(super) fn set_filter(&self, program: &Program) -> io::Result<()> {
        let instructions = program.instructions().iter();
        let mut instructions: Vec<_> = instructions
            .map(|one| libc::sock_filter { code: one.code, jt: one.jump_true, jf: one.jump_false, k: one.constant })
            .collect();
        let program = libc::sock_fprog { len: instructions.len() as u16, filter: instructions.as_mut_ptr() };
        // the kernel copies the instructions before the call returns
        set_option(&self.socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Has the interface hand over frames for others too, as long as the ring is open.
    pub(super) fn set_promiscuous(&self, interface: u32) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_option(&self.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// Has only what comes in handed over, not what goes out.
    pub(super) fn ignore_outgoing(&self) -> io::Result<()> {
        set_option(&self.socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
    }

    /// Shares the packets of the interface with other rings, each flow going to one of them. Without a group a new one
    /// is made; returns the group. Fragments of IPv4 are put together first, or the later ones would go astray.
    pub(super) fn join(&self, group: Option<u16>) -> io::Result<u16> {
        let is_new = if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_DEFRAG | is_new;
        let argument = u32::from(group.unwrap_or(0)) | (kind << 16);
        set_option(&self.socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &argument)?;
        let answer: u32 = option(&self.socket, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
        Ok(answer as u16)
    }

    /// Frames dropped since this was last asked because the ring was full, and how often it became full.
    pub(super) fn take_drops(&self) -> io::Result<(u64, u64)> {
        let answer: libc::tpacket_stats_v3 = option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        Ok((answer.tp_drops.into(), answer.tp_freeze_q_cnt.into()))
    }

    /// What went wrong on the interface since this was last asked.
    pub(super) fn take_error(&self) -> io::Result<()> {
        match option::<libc::c_int>(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// The octets of the next block, if the kernel has handed it over.
    pub(super) fn block(&self) -> Option<&[u8]> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the block is in the memory of the ring; the kernel has handed it over and leaves it alone until
        // `release`, which cannot be called while the slice is in use.
        Some(unsafe { slice::from_raw_parts(self.start_of_block().as_ptr(), BLOCK_OCTETS) })
    }

    /// Gives the block back and goes on to the next.
    pub(super) fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
    }

    fn start_of_block(&self) -> NonNull<u8> {
        // SAFETY: `next` is less than `blocks`, so this is within the memory of the ring.
        unsafe { self.memory.add(self.next * BLOCK_OCTETS) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: the word is within the block and is aligned, since blocks are whole pages. It is only ever read and
        // written as a whole, here and by the kernel.
        unsafe { AtomicU32::from_ptr(self.start_of_block().add(STATUS_OFFSET).cast().as_ptr()) }
    }
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and no slice of it outlives the ring.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK_OCTETS) };
    }
}

fn map(socket: &OwnedFd, octets: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
    let memory = unsafe { libc::mmap(ptr::null_mut(), octets, protection, libc::MAP_SHARED, socket.as_raw_fd(), 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll { sll_protocol: ALL_PROTOCOLS, sll_ifindex: interface as libc::c_int, ..UNBOUND };
    let octets = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of a packet socket, of that length, and is only read.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), octets) })
}

/// Sets a socket option whose value is a number or a structure of the kernel.
fn set_option<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let octets = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for reads of its own size, and the kernel does not write to it.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, ptr::from_ref(value).cast(), octets) })
}

/// Asks for a socket option whose value is a number or a structure of numbers.
fn option<T: Copy>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    let mut value = mem::MaybeUninit::<T>::zeroed();
    let mut octets = mem::size_of::<T>() as libc::socklen_t;
    let place = value.as_mut_ptr().cast();
    // SAFETY: the kernel writes no more octets than it is given.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, place, &raw mut octets) })?;
    // SAFETY: all octets were 0 or written by the kernel, and any octets make a number.
    Ok(unsafe { value.assume_init() })
}

fn checked(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
