//! Packets as flows: rows whose columns come from a packet's headers.
//!
//! sFlow reports single packets by their first octets, and so do records of IPFIX that carry a section of a frame. Both
//! become rows here. A row holds what is known in borrowed form until the rows of a datagram are together; then one
//! column after another is written, and columns that no row has cost nothing.

use arrow::datatypes::ArrowPrimitiveType;
use weir_flow::builder::NumberColumn;
use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, FlowBatchBuilder};
use weir_wire::packet::{Headers, Ip, Macs, Packet, TunnelKind};

/// What is known of one packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ObservedPacket<'a> {
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
    pub route: Route<'a>,
    pub translation: Translation<'a>,
}

/// How a router has forwarded a packet. Addresses that are not known are empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Route<'a> {
    pub next_hop: &'a [u8],
    pub bgp_next_hop: &'a [u8],
    pub src_mask: Option<u8>,
    pub dst_mask: Option<u8>,
    pub src_as: Option<u32>,
    pub dst_as: Option<u32>,
    pub prev_as: Option<u32>,
    pub next_as: Option<u32>,
}

/// Addresses and ports after translation. Addresses that are not known are empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Translation<'a> {
    pub src_addr: &'a [u8],
    pub dst_addr: &'a [u8],
    pub src_port: Option<u16>,
    pub dst_port: Option<u16>,
}

impl<'a> ObservedPacket<'a> {
    /// Headers that the columns take: the innermost.
    fn headers(&self) -> Option<&Headers<'a>> {
        self.packet.as_ref().map(Packet::innermost)
    }

    fn ip(&self) -> Option<&Ip<'a>> {
        self.headers()?.ip.as_ref()
    }

    /// Link addresses: the outermost.
    fn macs(&self) -> Option<Macs<'a>> {
        self.packet.as_ref()?.outer.macs
    }

    fn ethertype(&self) -> Option<u16> {
        self.headers()?.ethertype.or(self.packet.as_ref()?.outer.ethertype)
    }

    fn ttl(&self) -> Option<u8> {
        self.ip().map(|ip| ip.ttl).filter(|ttl| *ttl > 0)
    }

    /// The VLAN that the packet came in by: as the agent reports it, or else its outermost tag.
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
pub(crate) fn write(rows: &[ObservedPacket<'_>], builder: &mut FlowBatchBuilder, taken: &impl Fn(Column) -> bool) {
    let mut columns = ColumnWriter { rows, builder, taken };
    columns.write_link();
    columns.write_network();
    columns.write_forwarding();
    columns.write_route();
    columns.write_translation();
}

/// Writes one column after another. Columns that no row has, and those that are taken, are left out.
struct ColumnWriter<'w, 'a, F> {
    rows: &'w [ObservedPacket<'a>],
    builder: &'w mut FlowBatchBuilder,
    taken: &'w F,
}

/// Each column and its value: what a packet has is listed here and nowhere else.
impl<F: Fn(Column) -> bool> ColumnWriter<'_, '_, F> {
    fn write_link(&mut self) {
        self.octets(Column::SrcMac, |row| row.macs().map_or(&[], |macs| macs.source));
        self.octets(Column::DstMac, |row| row.macs().map_or(&[], |macs| macs.destination));
        self.u16(Column::SrcVlan, ObservedPacket::vlan);
        self.u16(Column::DstVlan, |row| row.dst_vlan);
        self.u16(Column::Ethertype, ObservedPacket::ethertype);
    }

    fn write_network(&mut self) {
        self.octets(Column::SrcAddr, |row| row.ip().map_or(&[], |ip| ip.source));
        self.octets(Column::DstAddr, |row| row.ip().map_or(&[], |ip| ip.destination));
        self.u16(Column::SrcPort, |row| Some(row.headers()?.ports?.0));
        self.u16(Column::DstPort, |row| Some(row.headers()?.ports?.1));
        self.u8(Column::Protocol, |row| Some(row.ip()?.protocol));
        self.u16(Column::TcpFlags, |row| row.headers()?.tcp_flags);
        self.u8(Column::Tos, |row| Some(row.ip()?.tos));
        self.u8(Column::MinTtl, ObservedPacket::ttl);
        self.u8(Column::MaxTtl, ObservedPacket::ttl);
        self.u8(Column::IcmpType, |row| Some(row.headers()?.icmp?.0));
        self.u8(Column::IcmpCode, |row| Some(row.headers()?.icmp?.1));
        self.u64(Column::Bytes, |row| row.bytes);
    }

    fn write_forwarding(&mut self) {
        self.u32(Column::InIf, |row| row.in_if);
        self.u32(Column::OutIf, |row| row.out_if);
        self.u8(Column::Direction, |row| row.direction);
        self.u8(Column::ForwardingStatus, |row| row.forwarding_status);
        self.u32(Column::SamplingInterval, |row| row.sampling_interval);
        self.u64(Column::ObservationPoint, |row| row.observation_point);
    }

    fn write_route(&mut self) {
        self.octets(Column::NextHop, |row| row.route.next_hop);
        self.octets(Column::BgpNextHop, |row| row.route.bgp_next_hop);
        self.u8(Column::SrcMask, |row| row.route.src_mask);
        self.u8(Column::DstMask, |row| row.route.dst_mask);
        self.u32(Column::SrcAs, |row| row.route.src_as);
        self.u32(Column::DstAs, |row| row.route.dst_as);
        self.u32(Column::PrevAs, |row| row.route.prev_as);
        self.u32(Column::NextAs, |row| row.route.next_as);
    }

    fn write_translation(&mut self) {
        self.octets(Column::NatSrcAddr, |row| row.translation.src_addr);
        self.octets(Column::NatDstAddr, |row| row.translation.dst_addr);
        self.u16(Column::NatSrcPort, |row| row.translation.src_port);
        self.u16(Column::NatDstPort, |row| row.translation.dst_port);
    }
}

/// A column of numbers of the builder.
type Target<T> = for<'b> fn(&'b mut FlowBatchBuilder, Column) -> &'b mut NumberColumn<T>;

impl<'a, F: Fn(Column) -> bool> ColumnWriter<'_, 'a, F> {
    #[inline]
    fn u8(&mut self, column: Column, value: impl Fn(&ObservedPacket<'a>) -> Option<u8>) {
        self.number(FlowBatchBuilder::u8, column, value);
    }

    #[inline]
    fn u16(&mut self, column: Column, value: impl Fn(&ObservedPacket<'a>) -> Option<u16>) {
        self.number(FlowBatchBuilder::u16, column, value);
    }

    #[inline]
    fn u32(&mut self, column: Column, value: impl Fn(&ObservedPacket<'a>) -> Option<u32>) {
        self.number(FlowBatchBuilder::u32, column, value);
    }

    #[inline]
    fn u64(&mut self, column: Column, value: impl Fn(&ObservedPacket<'a>) -> Option<u64>) {
        self.number(FlowBatchBuilder::u64, column, value);
    }

    #[inline]
    fn number<T: ArrowPrimitiveType>(
        &mut self,
        target: Target<T>,
        column: Column,
        value: impl Fn(&ObservedPacket<'a>) -> Option<T::Native>,
    ) {
        let set = self.rows.iter().filter(|row| value(row).is_some()).count();
        if set == 0 || (self.taken)(column) {
            return;
        }
        let target = target(self.builder, column);
        if set == self.rows.len() {
            target.extend(self.rows.iter().map(|row| value(row).unwrap_or_default()));
        } else {
            self.rows.iter().for_each(|row| target.push(value(row)));
        }
    }

    /// A column of octets; empty ones are not set.
    #[inline]
    fn octets(&mut self, column: Column, value: impl for<'r> Fn(&'r ObservedPacket<'a>) -> &'r [u8]) {
        let set = self.rows.iter().filter(|row| !value(row).is_empty()).count();
        if set == 0 || (self.taken)(column) {
            return;
        }
        let target = self.builder.address(column);
        if set == self.rows.len() {
            target.extend(self.rows.iter().map(&value));
        } else {
            self.rows.iter().for_each(|row| target.push(Some(value(row)).filter(|octets| !octets.is_empty())));
        }
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

/// Adds what the headers hold beyond the columns: the outer headers of a tunnel, further tags, labels, fragments. Where
/// headers come twice, these are the tunnel's (RFC 7011 section 8), but link addresses, of which the columns have the
/// tunnel's.
pub(crate) fn push_elements(row: &ObservedPacket<'_>, target: &mut ElementsColumn) {
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

fn push_tags(row: &ObservedPacket<'_>, outer: &Headers<'_>, target: &mut ElementsColumn) {
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
