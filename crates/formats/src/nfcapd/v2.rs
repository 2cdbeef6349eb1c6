//! Records of layout 2: a header, and extensions that each have their type and length.

use weir_flow::Column;
use weir_flow::elements::ElementValue;
use weir_flow::registry::REVERSE_ENTERPRISE;

use super::octets::le_u16;
use super::shape::{
    ElementRead, Field, HEADER_EXPORTER, HEADER_EXTENSIONS, HEADER_IS_SAMPLED, HEADER_SIZE, Kind, RECORD_HEADER, Read,
    Shape, To,
};
use super::values::Values;

/// Octets of the header of a flow record: type, size, extensions, engine, exporter, flags, version.
pub(super) const HEADER_OCTETS: usize = 12;
/// Octets of the header of an extension.
pub(super) const EXTENSION_HEADER_OCTETS: usize = 4;

const GENERIC: u16 = 1;
const NSEL: u16 = 19;
const NEL: u16 = 25;
/// The event extension of early 1.7 versions, which had the VRFs in it; not a number that stands in a file.
const NEL_WITH_VRFS: u16 = 0x8000 | NEL;
const MPLS: u16 = 14;
const ACCESS_LISTS: u16 = 23;
const APPLICATION: u16 = 27;
const NTOP: u32 = 35632;
const NOKIA: u32 = 637;

const fn to(column: Column) -> To {
    To::Column(column)
}

const fn element(id: u16, octets: u8) -> To {
    To::Element(0, id, octets)
}

/// Fields of extensions, by their numbers.
const FIELDS: &[Field] = &[
    (GENERIC, 0, Kind::Number(8), to(Column::Start)),
    (GENERIC, 8, Kind::Number(8), to(Column::End)),
    // 16: when it was received, see `shape`
    (GENERIC, 24, Kind::Number(8), to(Column::Packets)),
    (GENERIC, 32, Kind::Number(8), to(Column::Bytes)),
    (GENERIC, 40, Kind::Number(2), to(Column::SrcPort)),
    (GENERIC, 42, Kind::Number(2), to(Column::DstPort)),
    (GENERIC, 44, Kind::Number(1), to(Column::Protocol)),
    (GENERIC, 45, Kind::Number(1), to(Column::TcpFlags)),
    (GENERIC, 46, Kind::NotZero(1), to(Column::ForwardingStatus)),
    (GENERIC, 47, Kind::Number(1), to(Column::Tos)),
    (2, 0, Kind::V4, to(Column::SrcAddr)),
    (2, 4, Kind::V4, to(Column::DstAddr)),
    (3, 0, Kind::V6, to(Column::SrcAddr)),
    (3, 16, Kind::V6, to(Column::DstAddr)),
    (4, 0, Kind::Number(4), to(Column::InIf)),
    (4, 4, Kind::Number(4), to(Column::OutIf)),
    (4, 8, Kind::Number(1), to(Column::SrcMask)),
    (4, 9, Kind::Number(1), to(Column::DstMask)),
    (4, 10, Kind::Number(1), to(Column::Direction)),
    (4, 11, Kind::Number(1), to(Column::DstTos)),
    (4, 12, Kind::NotZero(1), element(239, 1)),
    (4, 13, Kind::NotZero(1), to(Column::EndReason)),
    (5, 0, Kind::NotZero(8), to(Column::Flows)),
    (5, 8, Kind::Number(8), to(Column::PacketsOut)),
    (5, 16, Kind::Number(8), to(Column::BytesOut)),
    (6, 0, Kind::Number(4), to(Column::SrcVlan)),
    (6, 4, Kind::Number(4), to(Column::DstVlan)),
    (7, 0, Kind::Number(4), to(Column::SrcAs)),
    (7, 4, Kind::Number(4), to(Column::DstAs)),
    (8, 0, Kind::V4, to(Column::BgpNextHop)),
    (9, 0, Kind::V6, to(Column::BgpNextHop)),
    (10, 0, Kind::V4, to(Column::NextHop)),
    (11, 0, Kind::V6, to(Column::NextHop)),
    (12, 0, Kind::V4, to(Column::Exporter)),
    (13, 0, Kind::V6, to(Column::Exporter)),
    (15, 0, Kind::Mac, to(Column::SrcMac)),
    (15, 8, Kind::Mac, to(Column::PostDstMac)),
    (15, 16, Kind::Mac, to(Column::DstMac)),
    (15, 24, Kind::Mac, to(Column::PostSrcMac)),
    (16, 0, Kind::Number(4), to(Column::NextAs)),
    (16, 4, Kind::Number(4), to(Column::PrevAs)),
    // microseconds as a whole, where nProbe has seconds and microseconds apart
    (17, 0, Kind::Number(8), To::Element(NTOP, 83, 8)),
    (17, 8, Kind::Number(8), To::Element(NTOP, 85, 8)),
    (17, 16, Kind::Number(8), To::Element(NTOP, 87, 8)),
    (18, 0, Kind::Number(8), to(Column::SamplerId)),
    (NSEL, 0, Kind::Number(8), element(323, 8)),
    (NSEL, 8, Kind::Number(4), to(Column::FlowId)),
    (NSEL, 12, Kind::Number(2), element(33002, 2)),
    (NSEL, 14, Kind::Number(1), to(Column::FirewallEvent)),
    (20, 0, Kind::V4, to(Column::NatSrcAddr)),
    (20, 4, Kind::V4, to(Column::NatDstAddr)),
    (21, 0, Kind::V6, to(Column::NatSrcAddr)),
    (21, 16, Kind::V6, to(Column::NatDstAddr)),
    (22, 0, Kind::Number(2), to(Column::NatSrcPort)),
    (22, 2, Kind::Number(2), to(Column::NatDstPort)),
    (24, 0, Kind::Text(66), element(40000, 0)),
    (NEL, 0, Kind::Number(8), element(323, 8)),
    (NEL, 8, Kind::Number(4), element(283, 4)),
    (NEL, 12, Kind::Number(1), to(Column::NatEvent)),
    (NEL_WITH_VRFS, 0, Kind::Number(8), element(323, 8)),
    (NEL_WITH_VRFS, 8, Kind::Number(4), to(Column::EgressVrf)),
    (NEL_WITH_VRFS, 12, Kind::Number(4), to(Column::IngressVrf)),
    (NEL_WITH_VRFS, 16, Kind::Number(4), element(283, 4)),
    (NEL_WITH_VRFS, 20, Kind::Number(1), to(Column::NatEvent)),
    (26, 0, Kind::Number(2), to(Column::PortRangeStart)),
    (26, 2, Kind::Number(2), to(Column::PortRangeEnd)),
    (26, 4, Kind::Number(2), element(363, 2)),
    (26, 6, Kind::Number(2), element(364, 2)),
    (APPLICATION, 0, Kind::Rest, to(Column::ApplicationId)),
    (29, 0, Kind::Rest, element(314, 0)),
    (30, 0, Kind::Rest, To::Element(REVERSE_ENTERPRISE, 314, 0)),
    (33, 0, Kind::Number(8), to(Column::ObservationPoint)),
    (33, 8, Kind::Number(4), to(Column::ObservationDomain)),
    (34, 0, Kind::Number(2), element(312, 2)),
    (34, 2, Kind::Number(2), element(408, 2)),
    (35, 0, Kind::Rest, element(315, 0)),
    (36, 0, Kind::Number(4), to(Column::EgressVrf)),
    (36, 4, Kind::Number(4), to(Column::IngressVrf)),
    (38, 0, Kind::NotZero(2), to(Column::SrcVlan)),
    (38, 2, Kind::Number(2), element(245, 2)),
    (38, 4, Kind::NotZero(2), to(Column::DstVlan)),
    (38, 6, Kind::Number(2), element(255, 2)),
    (38, 8, Kind::Number(4), element(252, 4)),
    (38, 12, Kind::Number(4), element(253, 4)),
    (38, 16, Kind::Number(8), element(351, 8)),
    (38, 24, Kind::NotZero(2), to(Column::Ethertype)),
    (38, 26, Kind::Number(1), element(60, 1)),
    (39, 0, Kind::Number(8), to(Column::FlowId)),
    (40, 0, Kind::Number(2), To::Element(NOKIA, 91, 2)),
    (40, 2, Kind::Number(2), To::Element(NOKIA, 92, 2)),
    (41, 0, Kind::Rest, To::Element(NOKIA, 93, 0)),
    (42, 1, Kind::Number(1), element(197, 1)),
    (42, 2, Kind::NotZero(1), to(Column::MinTtl)),
    (42, 3, Kind::NotZero(1), to(Column::MaxTtl)),
];

/// What the header says besides what has a column, and which extensions follow it: those are the same in all records of a
/// shape.
pub(super) fn header(record: &[u8]) -> [(u32, u16, ElementRead); 4] {
    let numbers = extensions(record).flatten().map(|(number, ..)| number).filter(|number| *number < 64);
    let set = numbers.fold(0_u64, |set, number| set | 1 << number);
    [
        (RECORD_HEADER, HEADER_EXPORTER, ElementRead::Number(8, 2, 2)),
        (RECORD_HEADER, HEADER_IS_SAMPLED, ElementRead::Bit(10, 2)),
        (RECORD_HEADER, HEADER_SIZE, ElementRead::Number(2, 2, 2)),
        (RECORD_HEADER, HEADER_EXTENSIONS, ElementRead::Fixed(set)),
    ]
}

/// Walks the extensions of a record: type, offset of the content, its length. `None` when one reaches past the end.
pub(super) fn extensions(record: &[u8]) -> impl Iterator<Item = Option<(u16, usize, usize)>> + '_ {
    let count = le_u16(record, 4);
    let mut at = HEADER_OCTETS;
    (0..count).map_while(move |_| {
        if at > record.len() {
            return None;
        }
        let (kind, length) = (le_u16(record, at), usize::from(le_u16(record, at + 2)));
        let content = at + EXTENSION_HEADER_OCTETS;
        if length < EXTENSION_HEADER_OCTETS || at + length > record.len() {
            at = usize::MAX;
            return Some(None);
        }
        at += length;
        Some(Some((kind, content, length - EXTENSION_HEADER_OCTETS)))
    })
}

/// The shape of a record, `None` when its extensions do not fit into it.
pub(super) fn shape(record: &[u8]) -> Option<Shape> {
    let mut shape = Shape { octets_min: HEADER_OCTETS, ..Shape::default() };
    let (mut event, mut generic) = (false, None);
    for extension in extensions(record) {
        let (mut kind, at, length) = extension?;
        event |= kind == NSEL;
        match kind {
            GENERIC if length >= 24 => generic = Some(at as u16),
            NEL if length >= 24 => kind = NEL_WITH_VRFS,
            MPLS if length >= 40 => {
                shape.labels(at as u16);
                continue;
            }
            ACCESS_LISTS if length >= 24 => {
                shape.access_lists(at as u16);
                continue;
            }
            _ => {}
        }
        shape.extension(FIELDS, kind, at, length);
    }
    if let Some(at) = generic {
        // files that do not say when a flow was received: not before its end
        shape.set(Column::Received, Read::Either(at + 16, at + 8));
    }
    if event {
        // what a firewall counts apart is the responder's
        shape.rename(Column::BytesOut, Column::BytesReverse);
        shape.rename(Column::PacketsOut, Column::PacketsReverse);
    }
    shape.set(Column::EngineType, Read::Number(6, 1));
    shape.set(Column::EngineId, Read::Number(7, 1));
    shape.set(Column::ExportVersion, Read::Version(11));
    if !shape.has(Column::Exporter) {
        shape.set(Column::Exporter, Read::ExporterAddress(8, 2));
    }
    if !shape.has(Column::ObservationDomain) {
        shape.set(Column::ObservationDomain, Read::ExporterDomain(8, 2));
    }
    Some(shape)
}

/// Extensions that are written: number, octets of the content, and the column without which it is not.
const WRITTEN: &[(u16, u16, Option<Column>)] = &[
    (2, 8, None),
    (3, 32, None),
    (4, 16, None),
    (5, 24, None),
    (6, 8, None),
    (7, 8, None),
    (8, 4, None),
    (9, 16, None),
    (10, 4, None),
    (11, 16, None),
    (12, 4, None),
    (13, 16, None),
    (15, 32, None),
    (16, 8, None),
    (17, 24, None),
    (18, 16, None),
    (NSEL, 16, Some(Column::FirewallEvent)),
    (20, 8, None),
    (21, 32, None),
    (22, 4, None),
    (24, 68, None),
    (NEL, 16, Some(Column::NatEvent)),
    (26, 8, None),
    (33, 16, Some(Column::ObservationPoint)),
    (36, 8, None),
    (38, 32, Some(Column::Ethertype)),
    (39, 8, Some(Column::FlowId)),
    (42, 4, None),
];

/// The number of a flow record.
pub(super) const FLOW: u16 = 11;

/// Appends the extensions that a flow has values for; returns how many.
pub(super) fn write_extensions(block: &mut Vec<u8>, values: &Values<'_>, row: usize) -> u16 {
    let elements = values.elements(row);
    let flow = Flow { values, row, elements: &elements };
    let mut written = 1;
    begin_extension(block, GENERIC, 48);
    let begin = block.len();
    block.resize(begin + 48, 0);
    flow.fill(GENERIC, &mut block[begin..]);
    flow.fill_generic(&mut block[begin..]);
    let nsel = values.number(Column::FirewallEvent, row).is_some();
    for (extension, octets, needed) in WRITTEN {
        let needed = needed.is_none_or(|column| values.number(column, row).is_some());
        // a firewall's flow has its number among what is told of the event
        if !needed || (*extension == 39 && nsel) {
            continue;
        }
        let begin = block.len();
        begin_extension(block, *extension, *octets);
        let content = block.len();
        block.resize(content + usize::from(*octets), 0);
        if flow.fill(*extension, &mut block[content..]) {
            written += 1;
        } else {
            block.truncate(begin);
        }
    }
    written + flow.labels(block) + flow.access_lists(block) + flow.application(block)
}

fn begin_extension(block: &mut Vec<u8>, extension: u16, octets: u16) {
    block.extend_from_slice(&extension.to_le_bytes());
    block.extend_from_slice(&(octets + EXTENSION_HEADER_OCTETS as u16).to_le_bytes());
}

/// Octets of an IPv6 address as two words of 64 bits.
pub(super) fn halves_reversed(address: &[u8]) -> [u8; 16] {
    let mut octets = [0; 16];
    for (place, octet) in octets.iter_mut().zip(address) {
        *place = *octet;
    }
    octets[..8].reverse();
    octets[8..].reverse();
    octets
}

/// A flow that is written.
struct Flow<'a> {
    values: &'a Values<'a>,
    row: usize,
    elements: &'a [ElementValue<'a>],
}

impl Flow<'_> {
    fn element(&self, enterprise: u32, id: u16) -> Option<&[u8]> {
        let found = self.elements.iter().find(|value| (value.enterprise, value.id) == (enterprise, id));
        found.map(|value| value.octets)
    }

    /// The value of a field as the layout has it, `None` when the flow has none.
    fn value(&self, kind: Kind, to: To) -> Option<[u8; 16]> {
        let number = |number: u64| {
            let mut octets = [0; 16];
            octets[..8].copy_from_slice(&number.to_le_bytes());
            octets
        };
        match (kind, to) {
            (Kind::Number(_) | Kind::NotZero(_), To::Column(column)) => self.number(column).map(number),
            (Kind::Number(_) | Kind::NotZero(_), To::Element(enterprise, id, _)) => {
                let octets = self.element(enterprise, id)?;
                Some(number(octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet))))
            }
            (Kind::V4, To::Column(column)) => match *self.values.octets(column, self.row)? {
                [a, b, c, d] => Some(number(u32::from_be_bytes([a, b, c, d]).into())),
                _ => None,
            },
            (Kind::V6, To::Column(column)) => {
                self.values.octets(column, self.row).filter(|octets| octets.len() == 16).map(halves_reversed)
            }
            (Kind::Mac, To::Column(column)) => {
                let octets = self.values.octets(column, self.row)?;
                Some(number(octets.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet))))
            }
            _ => None,
        }
    }

    fn number(&self, column: Column) -> Option<u64> {
        let of = |column| self.values.number(column, self.row);
        match column {
            // the layout has one place for what is counted apart
            Column::PacketsOut => of(column).or_else(|| of(Column::PacketsReverse)),
            Column::BytesOut => of(column).or_else(|| of(Column::BytesReverse)),
            _ => of(column),
        }
    }

    /// Fills the content of an extension; false when the flow has nothing for it.
    fn fill(&self, extension: u16, content: &mut [u8]) -> bool {
        let mut any = false;
        for (_, at, kind, to) in FIELDS.iter().filter(|field| field.0 == extension) {
            let (at, octets) = (usize::from(*at), usize::from(kind.octets()));
            if let (Kind::Text(length), To::Element(enterprise, id, _)) = (kind, to) {
                if let Some(text) = self.element(*enterprise, *id) {
                    let length = text.len().min(usize::from(*length) - 1);
                    content[at..at + length].copy_from_slice(&text[..length]);
                    any = true;
                }
            } else if let Some(value) = self.value(*kind, *to) {
                content[at..at + octets].copy_from_slice(&value[..octets]);
                any = true;
            }
        }
        any
    }

    /// What the table does not say: when the flow was received, and where ICMP has type and code.
    fn fill_generic(&self, content: &mut [u8]) {
        let of = |column| self.values.number(column, self.row);
        content[16..24].copy_from_slice(&of(Column::Received).unwrap_or(0).to_le_bytes());
        if matches!(of(Column::Protocol), Some(1 | 58)) {
            let apart = of(Column::IcmpType).map(|kind| kind << 8 | of(Column::IcmpCode).unwrap_or(0));
            let port = apart.or_else(|| of(Column::IcmpTypeCode)).or_else(|| of(Column::DstPort));
            content[42..44].copy_from_slice(&(port.unwrap_or(0) as u16).to_le_bytes());
        }
    }

    fn labels(&self, block: &mut Vec<u8>) -> u16 {
        if !self.elements.iter().any(|value| value.enterprise == 0 && (70..80).contains(&value.id)) {
            return 0;
        }
        begin_extension(block, MPLS, 40);
        for id in 70..80 {
            let label = self.element(0, id).unwrap_or_default();
            let label = label.iter().fold(0, |sum: u32, octet| sum << 8 | u32::from(*octet));
            block.extend_from_slice(&label.to_le_bytes());
        }
        1
    }

    fn access_lists(&self, block: &mut Vec<u8>) -> u16 {
        let lists = [33000, 33001].map(|id| self.element(0, id));
        if lists.iter().all(Option::is_none) {
            return 0;
        }
        begin_extension(block, ACCESS_LISTS, 24);
        for list in lists {
            let mut octets = [0; 12];
            let list = list.unwrap_or_default();
            octets.iter_mut().zip(list).for_each(|(place, octet)| *place = *octet);
            block.extend_from_slice(&octets);
        }
        1
    }

    fn application(&self, block: &mut Vec<u8>) -> u16 {
        let Some(octets) = self.values.octets(Column::ApplicationId, self.row) else { return 0 };
        let octets = &octets[..octets.len().min(255)];
        begin_extension(block, APPLICATION, octets.len() as u16);
        block.extend_from_slice(octets);
        1
    }
}
