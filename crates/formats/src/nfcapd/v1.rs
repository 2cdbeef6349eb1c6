//! Records of layout 1: a common part, and extensions in the order of a map that stands before the first record
//! that needs it.

use weir_flow::Column;

use super::octets::le_u16;
use super::shape::{
    ElementRead, Field, HEADER_EXPORTER, HEADER_IS_SAMPLED_OF_1_6, Kind, RECORD_HEADER, Read, Shape, To,
};

/// Octets of a flow record of type 1, which has one octet for the exporter, before its extensions.
const COMMON_1_OCTETS: usize = 28;
/// The same of type 10, which has two.
const COMMON_10_OCTETS: usize = 32;
/// Octets of a map of extensions before their numbers.
const MAP_HEADER_OCTETS: usize = 8;

const NTOP: u32 = 35632;
const NSEL: u16 = 37;
const NEL: u16 = 46;
const MPLS: u16 = 22;
const RECEIVED: u16 = 27;
const ACCESS_LISTS: u16 = 41;

/// Flags of a flow record.
mod flag {
    pub(super) const IPV6: u16 = 1;
    pub(super) const PACKETS_64: u16 = 2;
    pub(super) const BYTES_64: u16 = 4;
    /// The counters were scaled by the sampling.
    pub(super) const IS_SAMPLED: u8 = 128;
    pub(super) const ALL_OF_SHAPE: u16 = IPV6 | PACKETS_64 | BYTES_64;
}

const fn to(column: Column) -> To {
    To::Column(column)
}

const fn element(id: u16, octets: u8) -> To {
    To::Element(0, id, octets)
}

/// Octets of each extension.
const OCTETS: &[(u16, u16)] = &[
    (4, 4),
    (5, 8),
    (6, 4),
    (7, 8),
    (8, 4),
    (9, 4),
    (10, 16),
    (11, 4),
    (12, 16),
    (13, 4),
    (14, 4),
    (15, 8),
    (16, 4),
    (17, 8),
    (18, 4),
    (19, 8),
    (20, 16),
    (21, 16),
    (MPLS, 40),
    (23, 4),
    (24, 16),
    (25, 4),
    (26, 8),
    (RECEIVED, 8),
    (NSEL, 20),
    (38, 4),
    (39, 8),
    (40, 32),
    (ACCESS_LISTS, 24),
    (42, 24),
    (43, 72),
    (45, 24),
    (NEL, 12),
    (47, 8),
    (48, 8),
];

/// Fields of extensions, by their numbers.
const FIELDS: &[Field] = &[
    (4, 0, Kind::Number(2), to(Column::InIf)),
    (4, 2, Kind::Number(2), to(Column::OutIf)),
    (5, 0, Kind::Number(4), to(Column::InIf)),
    (5, 4, Kind::Number(4), to(Column::OutIf)),
    (6, 0, Kind::Number(2), to(Column::SrcAs)),
    (6, 2, Kind::Number(2), to(Column::DstAs)),
    (7, 0, Kind::Number(4), to(Column::SrcAs)),
    (7, 4, Kind::Number(4), to(Column::DstAs)),
    (8, 0, Kind::Number(1), to(Column::DstTos)),
    (8, 1, Kind::Number(1), to(Column::Direction)),
    (8, 2, Kind::Number(1), to(Column::SrcMask)),
    (8, 3, Kind::Number(1), to(Column::DstMask)),
    (9, 0, Kind::V4, to(Column::NextHop)),
    (10, 0, Kind::V6, to(Column::NextHop)),
    (11, 0, Kind::V4, to(Column::BgpNextHop)),
    (12, 0, Kind::V6, to(Column::BgpNextHop)),
    (13, 0, Kind::Number(2), to(Column::SrcVlan)),
    (13, 2, Kind::Number(2), to(Column::DstVlan)),
    (14, 0, Kind::Number(4), to(Column::PacketsOut)),
    (15, 0, Kind::Number(8), to(Column::PacketsOut)),
    (16, 0, Kind::Number(4), to(Column::BytesOut)),
    (17, 0, Kind::Number(8), to(Column::BytesOut)),
    (18, 0, Kind::NotZero(4), to(Column::Flows)),
    (19, 0, Kind::NotZero(8), to(Column::Flows)),
    (20, 0, Kind::Mac, to(Column::SrcMac)),
    (20, 8, Kind::Mac, to(Column::PostDstMac)),
    (21, 0, Kind::Mac, to(Column::DstMac)),
    (21, 8, Kind::Mac, to(Column::PostSrcMac)),
    (23, 0, Kind::V4, to(Column::Exporter)),
    (24, 0, Kind::V6, to(Column::Exporter)),
    (25, 2, Kind::Number(1), to(Column::EngineType)),
    (25, 3, Kind::Number(1), to(Column::EngineId)),
    (26, 0, Kind::Number(4), to(Column::NextAs)),
    (26, 4, Kind::Number(4), to(Column::PrevAs)),
    (NSEL, 0, Kind::Number(8), element(323, 8)),
    (NSEL, 8, Kind::Number(4), to(Column::FlowId)),
    // 12: type and code of ICMP, which stand in the place of the port as well
    (NSEL, 14, Kind::Number(1), to(Column::FirewallEvent)),
    (NSEL, 16, Kind::Number(2), element(33002, 2)),
    (38, 0, Kind::Number(2), to(Column::NatSrcPort)),
    (38, 2, Kind::Number(2), to(Column::NatDstPort)),
    (39, 0, Kind::V4, to(Column::NatSrcAddr)),
    (39, 4, Kind::V4, to(Column::NatDstAddr)),
    (40, 0, Kind::V6, to(Column::NatSrcAddr)),
    (40, 16, Kind::V6, to(Column::NatDstAddr)),
    (42, 0, Kind::Text(24), element(40000, 0)),
    (43, 0, Kind::Text(72), element(40000, 0)),
    // microseconds as a whole, where nProbe has seconds and microseconds apart
    (45, 0, Kind::Number(8), To::Element(NTOP, 83, 8)),
    (45, 8, Kind::Number(8), To::Element(NTOP, 85, 8)),
    (45, 16, Kind::Number(8), To::Element(NTOP, 87, 8)),
    (NEL, 0, Kind::Number(1), to(Column::NatEvent)),
    (NEL, 4, Kind::Number(4), to(Column::EgressVrf)),
    (NEL, 8, Kind::Number(4), to(Column::IngressVrf)),
    (47, 0, Kind::V4, to(Column::NatSrcAddr)),
    (47, 4, Kind::V4, to(Column::NatDstAddr)),
    (48, 0, Kind::Number(2), to(Column::PortRangeStart)),
    (48, 2, Kind::Number(2), to(Column::PortRangeEnd)),
    (48, 4, Kind::Number(2), element(363, 2)),
    (48, 6, Kind::Number(2), element(364, 2)),
];

/// A map of extensions: its number, and those of the extensions in their order.
pub(super) fn map(record: &[u8]) -> Option<(u16, Vec<u16>)> {
    let extensions = record.get(MAP_HEADER_OCTETS..)?.chunks_exact(2).map(|octets| le_u16(octets, 0));
    Some((le_u16(record, 4), extensions.take_while(|extension| *extension != 0).collect()))
}

/// The number of the map that a flow record needs.
pub(super) fn map_of(record: &[u8]) -> u16 {
    le_u16(record, 6)
}

/// The flags of a flow record that decide where something stands.
pub(super) fn flags_of(record: &[u8], kind: u16) -> u16 {
    let flags = if kind == 1 { u16::from(record.get(4).copied().unwrap_or(0)) } else { le_u16(record, 4) };
    flags & flag::ALL_OF_SHAPE
}

/// Where the number of the exporter is, and its octets.
const fn exporter_of(kind: u16) -> (u16, u8) {
    if kind == 1 { (5, 1) } else { (28, 2) }
}

/// What the header of a record of type `kind` says besides what has a column.
pub(super) const fn header(kind: u16) -> [(u32, u16, ElementRead); 2] {
    let (at, octets) = exporter_of(kind);
    [
        (RECORD_HEADER, HEADER_EXPORTER, ElementRead::Number(at, octets, 2)),
        (RECORD_HEADER, HEADER_IS_SAMPLED_OF_1_6, ElementRead::Bit(4, flag::IS_SAMPLED)),
    ]
}

/// The shape of flow records of type `kind` (1 or 10) with these flags and extensions.
pub(super) fn shape(kind: u16, flags: u16, extensions: &[u16]) -> Shape {
    let mut shape = Shape::default();
    let (mut at, exporter) = (if kind == 1 { COMMON_1_OCTETS } else { COMMON_10_OCTETS }, exporter_of(kind));
    shape.set(Column::Start, Read::SecsMs(12, 8));
    shape.set(Column::End, Read::SecsMs(16, 10));
    shape.set(Column::ForwardingStatus, Read::NotZero(20, 1));
    shape.set(Column::TcpFlags, Read::Number(21, 1));
    shape.set(Column::Protocol, Read::Number(22, 1));
    shape.set(Column::Tos, Read::Number(23, 1));
    shape.set(Column::SrcPort, Read::Number(24, 2));
    shape.set(Column::DstPort, Read::Number(26, 2));
    let wide = |bit: u16| flags & bit != 0;
    let mut take = |octets: u16| {
        let begin = at as u16;
        at += usize::from(octets);
        begin
    };
    let address = if wide(flag::IPV6) { Read::V6 } else { Read::V4 };
    let address_octets = if wide(flag::IPV6) { 16 } else { 4 };
    shape.set(Column::SrcAddr, address(take(address_octets)));
    shape.set(Column::DstAddr, address(take(address_octets)));
    for (column, bit) in [(Column::Packets, flag::PACKETS_64), (Column::Bytes, flag::BYTES_64)] {
        let octets = if wide(bit) { 8 } else { 4 };
        shape.set(column, Read::Number(take(octets.into()), octets));
    }
    shape.octets_min = at;
    let received = shape.extensions_of_map(extensions, at);
    // files that do not say when a flow was received: not before its end
    shape.set(Column::Received, received.map_or(Read::SecsMs(16, 10), |at| Read::NotZero(at, 8)));
    if extensions.contains(&NSEL) {
        // what a firewall counts apart is the responder's
        shape.rename(Column::BytesOut, Column::BytesReverse);
        shape.rename(Column::PacketsOut, Column::PacketsReverse);
    }
    if !shape.has(Column::Exporter) {
        shape.set(Column::Exporter, Read::ExporterAddress(exporter.0, exporter.1));
    }
    shape.set(Column::ObservationDomain, Read::ExporterDomain(exporter.0, exporter.1));
    shape.set(Column::ExportVersion, Read::ExporterVersion(exporter.0, exporter.1));
    shape
}

impl Shape {
    /// Takes up the extensions of a map, from `at` on; returns where it stands when the flow was received.
    fn extensions_of_map(&mut self, extensions: &[u16], mut at: usize) -> Option<u16> {
        let mut received = None;
        for extension in extensions {
            let Some((_, octets)) = OCTETS.iter().find(|(known, _)| known == extension) else {
                // its length is not known, and so where the next one begins
                self.extensions_unknown += 1;
                break;
            };
            match *extension {
                RECEIVED => received = Some(at as u16),
                MPLS => self.labels(at as u16),
                ACCESS_LISTS => self.access_lists(at as u16),
                other => self.extension(FIELDS, other, at, usize::from(*octets)),
            }
            at += usize::from(*octets);
            self.octets_min = at;
        }
        received
    }
}
