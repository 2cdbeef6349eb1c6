//! The frames in a block of a ring.
//!
//! What the kernel took out of a frame is put back in: the outermost VLAN tag, and for devices whose link headers are
//! not worth having a header as libpcap makes it (`LINKTYPE_LINUX_SLL`).

use std::mem::offset_of;

use libc::{tpacket_block_desc, tpacket_hdr_v1, tpacket_hdr_variant1, tpacket3_hdr};
use weir_wire::packet::LinkType;

use super::ring::Framing;
use crate::filter::Program;
use crate::source::{PacketBlock, PacketMeta};

/// Octets of the two addresses of Ethernet, behind which tags are.
const ETHERNET_ADDRESSES_OCTETS: usize = 12;
/// Octets of a header of `LINKTYPE_LINUX_SLL`, and what of it is before the protocol.
const COOKED_OCTETS: usize = 16;
const COOKED_BEFORE_PROTOCOL_OCTETS: usize = 14;
/// The TPID of tags whose own the kernel does not report (IEEE 802.1Q C-TAG).
const TPID_CUSTOMER: u16 = 0x8100;

const BLOCK_HEADER: usize = offset_of!(tpacket_block_desc, hdr);
const PACKETS: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, num_pkts);
const FIRST: usize = BLOCK_HEADER + offset_of!(tpacket_hdr_v1, offset_to_first_pkt);
const TAG: usize = offset_of!(tpacket3_hdr, hv1);
/// The address of a frame (`sockaddr_ll`) is behind its header.
const ADDRESS: usize = size_of::<tpacket3_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);

/// Copies the frames of an interface out of its ring.
#[derive(Debug, Clone)]
pub(super) struct FrameCopier {
    pub(super) framing: Framing,
    pub(super) link: LinkType,
    /// Position of the interface in the list of the source.
    pub(super) interface: u16,
    /// The filter, where the kernel could not run it.
    pub(super) program: Option<Program>,
}

impl FrameCopier {
    /// Copies the frames of a block of a ring, and returns how many the filter did not take.
    pub(super) fn copy(&self, ring_block: &[u8], into: &mut PacketBlock) -> u64 {
        let mut filtered = 0;
        let mut at = u32_at(ring_block, FIRST) as usize;
        for _ in 0..u32_at(ring_block, PACKETS) {
            let Some(frame) = ring_block.get(at..) else { break };
            filtered += u64::from(!self.copy_frame(frame, into));
            match u32_at(frame, offset_of!(tpacket3_hdr, tp_next_offset)) {
                0 => break,
                octets => at += octets as usize,
            }
        }
        filtered
    }

    /// Copies one frame, unless the filter does not take it.
    fn copy_frame(&self, header: &[u8], into: &mut PacketBlock) -> bool {
        let begin = match self.framing {
            Framing::Raw => offset_of!(tpacket3_hdr, tp_mac),
            Framing::Cooked => offset_of!(tpacket3_hdr, tp_net),
        };
        let begin = usize::from(u16_at(header, begin));
        let captured = u32_at(header, offset_of!(tpacket3_hdr, tp_snaplen)) as usize;
        let frame = header.get(begin..begin + captured).unwrap_or_default();
        let length = u32_at(header, offset_of!(tpacket3_hdr, tp_len));

        let octets = into.octets_mut();
        let offset = octets.len();
        match (self.framing, tag(header)) {
            (Framing::Raw, None) => octets.extend_from_slice(frame),
            (Framing::Raw, Some(tag)) => {
                let (addresses, rest) = frame.split_at(frame.len().min(ETHERNET_ADDRESSES_OCTETS));
                octets.extend_from_slice(addresses);
                octets.extend_from_slice(&tag);
                octets.extend_from_slice(rest);
            }
            (Framing::Cooked, tag) => {
                let cooked = cooked(header);
                octets.extend_from_slice(&cooked[..COOKED_BEFORE_PROTOCOL_OCTETS]);
                octets.extend_from_slice(tag.as_ref().map_or(&[], |tag| &tag[..]));
                octets.extend_from_slice(&cooked[COOKED_BEFORE_PROTOCOL_OCTETS..]);
                octets.extend_from_slice(frame);
            }
        }
        let captured = octets.len() - offset;
        let length = length + (captured - frame.len()) as u32;
        if self.program.as_ref().is_some_and(|program| !program.takes(&octets[offset..], length)) {
            octets.truncate(offset);
            return false;
        }
        let secs = i64::from(u32_at(header, offset_of!(tpacket3_hdr, tp_sec)));
        let nanos = i64::from(u32_at(header, offset_of!(tpacket3_hdr, tp_nsec)));
        into.push_meta(PacketMeta {
            time_us: secs * 1_000_000 + nanos / 1000,
            offset: offset as u32,
            captured: captured as u32,
            length: length.max(captured as u32),
            interface: self.interface,
            link: self.link,
        });
        true
    }
}

/// The VLAN tag that the kernel took out of a frame: TPID and TCI.
fn tag(header: &[u8]) -> Option<[u8; 4]> {
    let status = u32_at(header, offset_of!(tpacket3_hdr, tp_status));
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = match status & libc::TP_STATUS_VLAN_TPID_VALID {
        0 => TPID_CUSTOMER,
        _ => u16_at(header, TAG + offset_of!(tpacket_hdr_variant1, tp_vlan_tpid)),
    };
    let tci = u32_at(header, TAG + offset_of!(tpacket_hdr_variant1, tp_vlan_tci)) as u16;
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    Some([a, b, c, d])
}

/// A header of `LINKTYPE_LINUX_SLL`: how it was sent, kind of device, length of address, address, protocol.
fn cooked(header: &[u8]) -> [u8; COOKED_OCTETS] {
    let address = header.get(ADDRESS..).unwrap_or_default();
    let mut cooked = [0; COOKED_OCTETS];
    cooked[1] = address.get(offset_of!(libc::sockaddr_ll, sll_pkttype)).copied().unwrap_or_default();
    cooked[2..4].copy_from_slice(&u16_at(address, offset_of!(libc::sockaddr_ll, sll_hatype)).to_be_bytes());
    cooked[5] = address.get(offset_of!(libc::sockaddr_ll, sll_halen)).copied().unwrap_or_default();
    if let Some(link_address) =
        address.get(offset_of!(libc::sockaddr_ll, sll_addr)..).and_then(|rest| rest.first_chunk())
    {
        cooked[6..14].copy_from_slice(link_address as &[u8; 8]);
    }
    // in network byte order already
    cooked[14..].copy_from_slice(&u16_at(address, offset_of!(libc::sockaddr_ll, sll_protocol)).to_ne_bytes());
    cooked
}

/// A number as this machine has it; 0 behind the end.
fn u32_at(octets: &[u8], at: usize) -> u32 {
    octets.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u32::from_ne_bytes(*number))
}

fn u16_at(octets: &[u8], at: usize) -> u16 {
    octets.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u16::from_ne_bytes(*number))
}
