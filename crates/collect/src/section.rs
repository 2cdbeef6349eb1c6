//! Records that carry a section of the packet instead of its fields, or in addition to them (RFC 7133, RFC 5477).
//!
//! Exporters of sampled packets send what a switch can: the first octets. What the other fields of the record do not
//! say is read from there.

use weir_flow::Column;
use weir_flow::FlowBatchBuilder;
use weir_wire::FieldSpecifier;
use weir_wire::packet::{self, LinkType};

use crate::observed::{self, ObservedPacket};
use crate::records::Records;

/// `layer2packetSectionData`, deprecated by the next one.
const LAYER2_SECTION: u16 = 104;
const DATA_LINK_FRAME_SECTION: u16 = 315;
const IP_HEADER_SECTION: u16 = 313;
/// `mplsLabelStackSection`, with as much of what the labels carry as fits (RFC 5477).
const MPLS_LABEL_STACK_SECTION: u16 = 316;
const DATA_LINK_FRAME_SIZE: u16 = 312;
const DATA_LINK_FRAME_TYPE: u16 = 408;
const SECTION_EXPORTED_OCTETS: u16 = 410;
/// `sectionOffset`: a section that begins elsewhere cannot be read.
const SECTION_OFFSET: u16 = 409;

/// `dataLinkFrameType` (RFC 7133 section 3.2.3).
const ETHERNET: u64 = 1;
const IEEE_802_11: u64 = 2;

/// Where the records of a template have their section, and how it is to be read. Numbers are fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    octets: usize,
    /// How it begins; of a frame the records say it.
    link: Option<LinkType>,
    frame_type: Option<usize>,
    frame_size: Option<usize>,
    exported: Option<usize>,
    offset: Option<usize>,
}

impl Section {
    /// The section of a template's records, when they have one.
    pub(crate) fn of(fields: &[FieldSpecifier]) -> Option<Self> {
        let field = |id| fields.iter().position(|field| (field.element.enterprise, field.element.id) == (0, id));
        let frame = field(DATA_LINK_FRAME_SECTION).or_else(|| field(LAYER2_SECTION)).map(|field| (field, None));
        let ip = || field(IP_HEADER_SECTION).map(|field| (field, Some(LinkType::Ip)));
        let labels = || field(MPLS_LABEL_STACK_SECTION).map(|field| (field, Some(LinkType::Mpls)));
        let (octets, link) = frame.or_else(ip).or_else(labels)?;
        Some(Self {
            octets,
            link,
            frame_type: field(DATA_LINK_FRAME_TYPE),
            frame_size: field(DATA_LINK_FRAME_SIZE),
            exported: field(SECTION_EXPORTED_OCTETS),
            offset: field(SECTION_OFFSET),
        })
    }

    fn link(self, records: Records<'_>, record: usize) -> Option<LinkType> {
        if self.link.is_some() {
            return self.link;
        }
        match self.frame_type.and_then(|field| records.number(field, record)) {
            None | Some(ETHERNET) => Some(LinkType::Ethernet),
            Some(IEEE_802_11) => Some(LinkType::Ieee80211),
            Some(_) => None,
        }
    }

    /// What the section of a record says.
    fn observed(self, records: Records<'_>, record: usize) -> ObservedPacket<'_> {
        let number = |field: Option<usize>| field.and_then(|field| records.number(field, record));
        let octets = records.octets(&records.located.field(self.octets), record);
        let Some(link) = self.link(records, record).filter(|_| number(self.offset).unwrap_or(0) == 0) else {
            return ObservedPacket::default();
        };
        // A field of fixed length is filled up when the packet is shorter.
        let exported =
            number(self.exported).map_or(octets.len(), |exported| exported.min(octets.len() as u64) as usize);
        let octets = &octets[..exported];
        let packet = packet::dissect(link, octets);
        let before = packet.link_octets(octets) as u64;
        // how much of the frame is before its labels is not known
        let size = number(self.frame_size).filter(|_| self.link != Some(LinkType::Mpls));
        let carried = size.map(|size| size.saturating_sub(before));
        ObservedPacket {
            bytes: ObservedPacket::ip_octets(&packet).or(carried),
            packet: Some(packet),
            ..ObservedPacket::default()
        }
    }
}

/// Reads the sections of all records.
pub(crate) fn read(section: Section, records: Records<'_>) -> Vec<ObservedPacket<'_>> {
    (0..records.len()).map(|record| section.observed(records, record)).collect()
}

/// Writes the columns that no field of the records has: those that are not written already.
pub(crate) fn write(rows: &[ObservedPacket<'_>], builder: &mut FlowBatchBuilder, is_written: impl Fn(Column) -> bool) {
    let counted = is_written(Column::Packets) || is_written(Column::Bytes);
    observed::write(rows, builder, &|column| is_written(column) || (column == Column::Bytes && counted));
    if !counted {
        builder.u64(Column::Packets).repeat(1, rows.len());
    }
}
