//! Packets as flows: rows whose columns come from a packet's headers.
//!
//! sFlow tells of single packets by their first octets, and so do records of IPFIX that carry a section of a frame. Both
//! become rows here. A row holds what is known in borrowed form until the rows of a datagram are together; then one
//! column after another is written, and columns that no row has cost nothing.

use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, FlowBatchBuilder};
use weir_wire::packet::{Headers, Ip, Packet, TunnelKind};

/// What is known of one packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observed<'a> {
    /// Its headers.
    pub packet: Option<Packet<'a>>,
    /// Octets of the packet from its IP header on, or of what its link carries when it is no IP.
    pub bytes: Option<u64>,
    /// Octets of the frame.
    pub frame_octets: Option<u32>,
    pub in_if: Option<u32>,
    pub out_if: Option<u32>,
    pub sampling_interval: Option<u32>,
    pub observation_point: Option<u64>,
    pub direction: Option<u8>,
    pub forwarding_status: Option<u8>,
    pub src_vlan: Option<u16>,
    pub dst_vlan: Option<u16>,
    pub next_hop: &'a [u8],
    pub src_mask: Option<u8>,
    pub dst_mask: Option<u8>,
    pub bgp_next_hop: &'a [u8],
    pub src_as: Option<u32>,
    pub dst_as: Option<u32>,
    pub prev_as: Option<u32>,
    pub next_as: Option<u32>,
    pub nat_src_addr: &'a [u8],
    pub nat_dst_addr: &'a [u8],
    pub nat_src_port: Option<u16>,
    pub nat_dst_port: Option<u16>,
}

impl<'a> Observed<'a> {
    /// Headers that the columns take: the innermost.
    fn headers(&self) -> Option<&Headers<'a>> {
        self.packet.as_ref().map(Packet::innermost)
    }

    fn ip(&self) -> Option<&Ip<'a>> {
        self.headers()?.ip.as_ref()
    }

    fn ttl(&self) -> Option<u8> {
        self.ip().map(|ip| ip.ttl).filter(|ttl| *ttl > 0)
    }

    /// The VLAN that the packet came in by: the agent's word, or else its outermost tag.
    fn vlan(&self) -> Option<u16> {
        self.src_vlan.or_else(|| self.packet.as_ref()?.outer.vlan(0))
    }

    /// Octets of the IP packet as it was on the link: those of the tunnel when there is one.
    pub(crate) fn ip_octets(packet: &Packet<'_>) -> Option<u64> {
        let outermost = packet.outer.ip.or(packet.innermost().ip)?;
        (outermost.total_length > 0).then_some(outermost.total_length.into())
    }
}

/// Writes the columns of rows, but those that the caller has `taken`. The group of rows must have been begun.
pub(crate) fn write(rows: &[Observed<'_>], builder: &mut FlowBatchBuilder, taken: &impl Fn(Column) -> bool) {
    macro_rules! numbers {
        ($($kind:ident $column:ident $value:expr;)*) => {$(
            let value = $value;
            let some = rows.iter().filter(|row| value(row).is_some()).count();
            if some > 0 && !taken(Column::$column) {
                let target = builder.$kind(Column::$column);
                if some == rows.len() {
                    target.extend(rows.iter().map(|row| value(row).unwrap_or_default()));
                } else {
                    rows.iter().map(value).for_each(|value| target.push(value));
                }
            }
        )*};
    }
    macro_rules! octets {
        ($($column:ident $value:expr;)*) => {$(
            let value: for<'r> fn(&'r Observed<'_>) -> &'r [u8] = $value;
            let some = rows.iter().filter(|row| !value(row).is_empty()).count();
            if some > 0 && !taken(Column::$column) {
                let target = builder.address(Column::$column);
                if some == rows.len() {
                    target.extend(rows.iter().map(value));
                } else {
                    rows.iter().map(value).for_each(|v| target.push(Some(v).filter(|octets| !octets.is_empty())));
                }
            }
        )*};
    }
    octets! {
        SrcAddr |row| row.ip().map_or(&[], |ip| ip.source);
        DstAddr |row| row.ip().map_or(&[], |ip| ip.destination);
        NextHop |row| row.next_hop;
        BgpNextHop |row| row.bgp_next_hop;
        NatSrcAddr |row| row.nat_src_addr;
        NatDstAddr |row| row.nat_dst_addr;
        SrcMac |row| row.packet.as_ref().and_then(|packet| packet.outer.macs).map_or(&[], |macs| macs.source);
        DstMac |row| row.packet.as_ref().and_then(|packet| packet.outer.macs).map_or(&[], |macs| macs.destination);
    }
    numbers! {
        u16 SrcPort |row: &Observed<'_>| Some(row.headers()?.ports?.0);
        u16 DstPort |row: &Observed<'_>| Some(row.headers()?.ports?.1);
        u8 Protocol |row: &Observed<'_>| Some(row.ip()?.protocol);
        u16 TcpFlags |row: &Observed<'_>| row.headers()?.tcp_flags;
        u8 Tos |row: &Observed<'_>| Some(row.ip()?.tos);
        u64 Bytes |row: &Observed<'_>| row.bytes;
        u32 InIf |row: &Observed<'_>| row.in_if;
        u32 OutIf |row: &Observed<'_>| row.out_if;
        u32 SrcAs |row: &Observed<'_>| row.src_as;
        u32 DstAs |row: &Observed<'_>| row.dst_as;
        u8 SrcMask |row: &Observed<'_>| row.src_mask;
        u8 DstMask |row: &Observed<'_>| row.dst_mask;
        u32 SamplingInterval |row: &Observed<'_>| row.sampling_interval;
        u8 MinTtl Observed::ttl;
        u8 MaxTtl Observed::ttl;
        u8 IcmpType |row: &Observed<'_>| Some(row.headers()?.icmp?.0);
        u8 IcmpCode |row: &Observed<'_>| Some(row.headers()?.icmp?.1);
        u8 Direction |row: &Observed<'_>| row.direction;
        u8 ForwardingStatus |row: &Observed<'_>| row.forwarding_status;
        u32 PrevAs |row: &Observed<'_>| row.prev_as;
        u32 NextAs |row: &Observed<'_>| row.next_as;
        u16 SrcVlan Observed::vlan;
        u16 DstVlan |row: &Observed<'_>| row.dst_vlan;
        u16 NatSrcPort |row: &Observed<'_>| row.nat_src_port;
        u16 NatDstPort |row: &Observed<'_>| row.nat_dst_port;
        u16 Ethertype |row: &Observed<'_>| row.headers()?.ethertype.or(row.packet.as_ref()?.outer.ethertype);
        u64 ObservationPoint |row: &Observed<'_>| row.observation_point;
    }
}

/// Elements of IANA that have no column.
mod element {
    pub(super) const TOS: u16 = 5;
    pub(super) const PROTOCOL: u16 = 4;
    pub(super) const SRC_PORT: u16 = 7;
    pub(super) const DST_PORT: u16 = 11;
    pub(super) const FLOW_LABEL: u16 = 31;
    pub(super) const FRAGMENT_IDENTIFICATION: u16 = 54;
    pub(super) const SRC_MAC: u16 = 56;
    pub(super) const DST_MAC: u16 = 80;
    pub(super) const MPLS_TOP: u16 = 70;
    pub(super) const FRAGMENT_OFFSET: u16 = 88;
    pub(super) const FRAGMENT_FLAGS: u16 = 197;
    pub(super) const DOT1Q_VLAN: u16 = 243;
    pub(super) const DOT1Q_CUSTOMER_VLAN: u16 = 245;
    pub(super) const GRE_KEY: u16 = 296;
    pub(super) const LAYER2_SEGMENT: u16 = 351;
    pub(super) const LAYER2_OCTETS: u16 = 352;
    pub(super) const SERVICE_INSTANCE: u16 = 412;
    pub(super) const GTP_TEID: u16 = 507;
}

/// Labels that have an element each (`mplsTopLabelStackSection` to `mplsLabelStackSection10`).
const LABELS_MAX: usize = 10;

/// Adds what the headers say beyond the columns: the outer headers of a tunnel, further tags, labels, fragments. Where
/// headers come twice, these are the tunnel's (RFC 7011 section 8), but link addresses, of which the columns have the
/// tunnel's.
pub(crate) fn push_elements(row: &Observed<'_>, target: &mut ElementsColumn) {
    if let Some(octets) = row.frame_octets {
        target.push(0, element::LAYER2_OCTETS, &octets.to_be_bytes());
    }
    let Some(packet) = &row.packet else { return };
    push_tags(row, &packet.outer, target);
    push_labels(packet.outer.labels, target);
    if packet.tunnels > 0 {
        push_tunnel(packet, target);
    }
    let Some(ip) = packet.innermost().ip else { return };
    if ip.flow_label > 0 {
        target.push(0, element::FLOW_LABEL, &ip.flow_label.to_be_bytes());
    }
    if let Some(fragment) = ip.fragment {
        target.push(0, element::FRAGMENT_IDENTIFICATION, &fragment.identification.to_be_bytes());
        // the header's field counts units of eight octets
        target.push(0, element::FRAGMENT_OFFSET, &(fragment.offset / 8).to_be_bytes());
        target.push(0, element::FRAGMENT_FLAGS, &[if fragment.more { 0x20 } else { 0 }]);
    }
}

fn push_tags(row: &Observed<'_>, outer: &Headers<'_>, target: &mut ElementsColumn) {
    let count = outer.vlan_tags.len() / 4;
    for (number, vlan) in (0..count).filter_map(|number| Some((number, outer.vlan(number)?))) {
        match number {
            0 if row.vlan() == Some(vlan) => {}
            0 => target.push(0, element::DOT1Q_VLAN, &vlan.to_be_bytes()),
            _ => target.push(0, element::DOT1Q_CUSTOMER_VLAN, &vlan.to_be_bytes()),
        }
    }
}

/// Label, class and bottom of stack: three octets of each entry (RFC 7012, `mplsTopLabelStackSection`).
pub(crate) fn push_labels(labels: &[u8], target: &mut ElementsColumn) {
    for (id, entry) in (element::MPLS_TOP..).zip(labels.as_chunks::<4>().0.iter().take(LABELS_MAX)) {
        target.push(0, id, &entry[..3]);
    }
}

fn push_tunnel(packet: &Packet<'_>, target: &mut ElementsColumn) {
    if let Some((tunnel, id)) = packet.tunnel.and_then(|tunnel| Some((tunnel.kind, tunnel.id?))) {
        match tunnel {
            // RFC 7133: the first octet is the kind, of which Geneve has none
            TunnelKind::Vxlan => target.push(0, element::LAYER2_SEGMENT, &(1 << 56 | u64::from(id)).to_be_bytes()),
            TunnelKind::Geneve => target.push(0, element::LAYER2_SEGMENT, &u64::from(id).to_be_bytes()),
            TunnelKind::Gre => target.push(0, element::GRE_KEY, &id.to_be_bytes()),
            TunnelKind::Gtp => target.push(0, element::GTP_TEID, &id.to_be_bytes()),
            TunnelKind::Pbb => target.push(0, element::SERVICE_INSTANCE, &id.to_be_bytes()),
            _ => {}
        }
    }
    let (Some(inner), outer) = (packet.inner(), &packet.outer) else { return };
    if let Some(ip) = &outer.ip {
        let (source, destination) = if ip.source.len() == 4 { (8, 12) } else { (27, 28) };
        target.push(0, source, ip.source);
        target.push(0, destination, ip.destination);
        target.push(0, element::PROTOCOL, &[ip.protocol]);
        target.push(0, element::TOS, &[ip.tos]);
    }
    if let Some((source, destination)) = outer.ports {
        target.push(0, element::SRC_PORT, &source.to_be_bytes());
        target.push(0, element::DST_PORT, &destination.to_be_bytes());
    }
    if let Some(macs) = inner.macs {
        target.push(0, element::SRC_MAC, macs.source);
        target.push(0, element::DST_MAC, macs.destination);
    }
    if let Some(vlan) = inner.vlan(0) {
        target.push(0, element::DOT1Q_CUSTOMER_VLAN, &vlan.to_be_bytes());
    }
}
