//! Rows as objects of JSON, with nfdump's names.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use weir_flow::Column;
use weir_formats::nfcapd::{HEADER_EXPORTER, HEADER_IDENT, HEADER_IS_SAMPLED, HEADER_IS_SAMPLED_OF_1_6, RECORD_HEADER};

use super::cells::push_mac;
use super::elements::RowElements;
use super::release::Release;
use super::rows::{Addresses, Icmp, Numbers};
use super::scale::{push_address, push_network};
use super::tags::country_of;
use weir_print::digits::{ZonedClock, push_u64};
use weir_print::names::tcp_flags_text;
use weir_print::printer::{Flush, RowFormat};

/// Writes rows as objects: one array of them on many lines, or one object a line.
#[derive(Debug, Clone)]
pub(super) struct Objects {
    style: ObjectStyle,
    clock: ZonedClock,
    release: Release,
    rows: u64,
}

impl Objects {
    pub(super) fn new(one_a_line: bool, clock: ZonedClock, release: Release) -> Self {
        let style = match (one_a_line, release) {
            (true, _) => ObjectStyle::Line,
            (false, Release::V1_7_1) => ObjectStyle::Tabs,
            (false, Release::V1_7_8) => ObjectStyle::Blanks,
        };
        Self { style, clock, release, rows: 0 }
    }
}

/// How an object is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectStyle {
    /// All of it on one line.
    Line,
    /// A line for each field, which begins with a tab.
    Tabs,
    /// The same with two blanks.
    Blanks,
}

/// A group of fields that nfdump keeps together: written when one of them is there.
struct Group {
    columns: &'static [Column],
    push: fn(&mut Object<'_, '_>, row: usize),
}

/// Groups of 1.7.1.
static GROUPS: &[Group] = {
    use Column as C;
    &[
        Group { columns: &[], push: generic },
        Group { columns: &[C::SrcAddr, C::DstAddr], push: addresses },
        Group { columns: &[C::InIf, C::OutIf, C::SrcMask, C::DstMask, C::Direction, C::DstTos], push: routing },
        Group { columns: &[C::PacketsOut, C::BytesOut, C::PacketsReverse, C::BytesReverse, C::Flows], push: counters },
        Group { columns: &[C::SrcVlan, C::DstVlan], push: vlans },
        Group { columns: &[C::SrcAs, C::DstAs], push: systems },
        Group { columns: &[C::BgpNextHop], push: bgp_next_hop },
        Group { columns: &[C::NextHop], push: next_hop },
        Group { columns: &[C::Exporter], push: router },
        Group { columns: &[], push: labels },
        Group { columns: &[C::SrcMac, C::DstMac, C::PostSrcMac, C::PostDstMac], push: macs },
        Group { columns: &[C::NextAs, C::PrevAs], push: adjacent_systems },
        Group { columns: &[C::NatSrcAddr, C::NatDstAddr], push: translated_addresses },
        Group { columns: &[C::NatSrcPort, C::NatDstPort], push: translated_ports },
        Group { columns: &[C::IngressVrf, C::EgressVrf], push: vrfs },
        Group { columns: &[C::ObservationPoint], push: observation },
    ]
};

/// Groups of 1.7.8.
static GROUPS_CHANGED: &[Group] = {
    use Column as C;
    &[
        Group { columns: &[], push: generic_changed },
        Group { columns: &[C::SrcAddr, C::DstAddr], push: addresses_and_places },
        Group { columns: &[C::InIf, C::OutIf, C::SrcMask, C::DstMask, C::Direction, C::DstTos], push: routing_changed },
        Group { columns: &[C::PacketsOut, C::BytesOut, C::PacketsReverse, C::BytesReverse, C::Flows], push: counters },
        Group { columns: &[C::SrcVlan, C::DstVlan], push: vlans_changed },
        Group { columns: &[C::SrcAs, C::DstAs], push: systems },
        Group { columns: &[C::BgpNextHop], push: bgp_next_hop },
        Group { columns: &[C::NextHop], push: next_hop },
        Group { columns: &[C::Exporter], push: router },
        Group { columns: &[C::SrcMac, C::DstMac, C::PostSrcMac, C::PostDstMac], push: macs },
        Group { columns: &[C::NextAs, C::PrevAs], push: adjacent_systems },
        Group { columns: &[C::NatSrcAddr, C::NatDstAddr], push: translated_addresses },
        Group { columns: &[C::NatSrcPort, C::NatDstPort], push: translated_ports },
        Group { columns: &[C::ObservationPoint], push: observation },
        Group { columns: &[C::IngressVrf, C::EgressVrf], push: vrfs },
        Group { columns: &[], push: layer_2 },
        Group { columns: &[C::FlowId], push: flow_id },
        Group { columns: &[], push: sampled },
    ]
};

/// The columns of all groups.
pub(super) fn columns() -> Vec<Column> {
    use Column as C;
    let generic = [
        C::Received,
        C::Start,
        C::End,
        C::ExportVersion,
        C::SrcPort,
        C::DstPort,
        C::Protocol,
        C::TcpFlags,
        C::Tos,
        C::Packets,
        C::Bytes,
        C::IcmpType,
        C::IcmpCode,
        C::IcmpTypeCode,
        C::ForwardingStatus,
        C::SamplingInterval,
        C::FirewallEvent,
        C::NatEvent,
        C::ObservationDomain,
        C::FlowId,
        C::Ethertype,
        C::Elements,
    ];
    let mut columns: Vec<_> = GROUPS.iter().flat_map(|group| group.columns).copied().chain(generic).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// One object being written.
struct Object<'a, 'b> {
    batch: &'a Columns<'a>,
    text: &'b mut Vec<u8>,
    clock: &'b mut ZonedClock,
    style: ObjectStyle,
    is_first: bool,
    /// Number of the row.
    count: u64,
    elements: RowElements<'a>,
}

struct Columns<'a> {
    numbers: Vec<Numbers<'a>>,
    addresses: Vec<Addresses<'a>>,
    icmp: Icmp<'a>,
    elements: Option<&'a ArrayRef>,
    /// Of the source, and of the destination.
    countries: [Option<&'a StringArray>; 2],
    groups: Vec<&'static Group>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, groups: &'static [Group]) -> Self {
        let is_there = |group: &&Group| {
            group.columns.is_empty() || group.columns.iter().any(|column| batch.column_by_name(column.name()).is_some())
        };
        Self {
            numbers: Column::ALL.iter().map(|column| Numbers::of(batch, *column)).collect(),
            addresses: Column::ALL.iter().map(|column| Addresses::of(batch, *column)).collect(),
            icmp: Icmp::of(batch),
            elements: batch.column_by_name(Column::Elements.name()),
            countries: [Column::SrcCountry, Column::DstCountry]
                .map(|column| batch.column_by_name(column.name())?.as_string_opt::<i32>()),
            groups: groups.iter().filter(is_there).collect(),
        }
    }

    fn has_any(&self, columns: &[Column], row: usize) -> bool {
        columns.is_empty()
            || columns.iter().any(|column| {
                self.numbers[*column as usize].get(row).is_some() || self.addresses[*column as usize].get(row).is_some()
            })
    }
}

impl RowFormat for Objects {
    fn begin(&mut self, _schema: &Schema, text: &mut Vec<u8>) {
        if self.style != ObjectStyle::Line {
            text.extend_from_slice(b"[\n");
        }
    }

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let columns = Columns::of(batch, if self.release.is_last() { GROUPS_CHANGED } else { GROUPS });
        for row in 0..batch.num_rows() {
            let (open, close): (&[u8], &[u8]) = match (self.style, self.rows) {
                (ObjectStyle::Line, _) => (b"{", b"}\n"),
                (ObjectStyle::Tabs, 0) => (b"{\n", b"\n}"),
                (ObjectStyle::Tabs, _) => (b",\n{\n", b"\n}"),
                (ObjectStyle::Blanks, 0) => (b" {\n", b"\n }"),
                (ObjectStyle::Blanks, _) => (b",\n {\n", b"\n }"),
            };
            text.extend_from_slice(open);
            let (style, clock, count) = (self.style, &mut self.clock, self.rows + 1);
            let elements = RowElements::of(columns.elements, row);
            let mut object = Object { batch: &columns, text, clock, style, is_first: true, count, elements };
            for group in columns.groups.iter().filter(|group| columns.has_any(group.columns, row)) {
                (group.push)(&mut object, row);
            }
            if style == ObjectStyle::Tabs {
                object.text("label", "<none>");
            }
            text.extend_from_slice(close);
            self.rows += 1;
            flush.when_full(text)?;
        }
        Ok(())
    }

    fn end(&mut self, text: &mut Vec<u8>) {
        match self.style {
            ObjectStyle::Line => {}
            ObjectStyle::Blanks if self.rows > 0 => text.extend_from_slice(b"\n]\n"),
            _ => text.extend_from_slice(b"]\n"),
        }
    }
}

impl<'a> Object<'a, '_> {
    fn key(&mut self, key: &str) {
        let (between, after): (&[u8], &[u8]) = match (self.style, self.is_first) {
            (ObjectStyle::Line, true) => (b"\"", b"\":"),
            (ObjectStyle::Line, false) => (b",\"", b"\":"),
            (ObjectStyle::Tabs, true) => (b"\t\"", b"\" : "),
            (ObjectStyle::Tabs, false) => (b",\n\t\"", b"\" : "),
            (ObjectStyle::Blanks, true) => (b"  \"", b"\" : "),
            (ObjectStyle::Blanks, false) => (b",\n  \"", b"\" : "),
        };
        self.is_first = false;
        self.text.extend_from_slice(between);
        self.text.extend_from_slice(key.as_bytes());
        self.text.extend_from_slice(after);
    }

    fn value(&mut self, key: &str, value: u64) {
        self.key(key);
        push_u64(self.text, value);
    }

    /// A value that needs no escapes.
    fn quoted(&mut self, key: &str, push: impl FnOnce(&mut Vec<u8>, &mut ZonedClock)) {
        self.key(key);
        self.text.push(b'"');
        push(self.text, self.clock);
        self.text.push(b'"');
    }

    fn text(&mut self, key: &str, value: &str) {
        self.quoted(key, |text, _| text.extend_from_slice(value.as_bytes()));
    }

    /// The country of an address.
    fn country(&self, address: Column, row: usize) -> Option<&'a str> {
        let column = country_of(address)?;
        let countries = self.batch.countries[usize::from(column == Column::DstCountry)]?;
        countries.is_valid(row).then(|| countries.value(row))
    }

    fn number(&mut self, key: &str, column: Column, row: usize) {
        self.value(key, self.get(column, row));
    }

    fn get(&self, column: Column, row: usize) -> u64 {
        self.batch.numbers[column as usize].or_zero(row)
    }

    fn octets(&self, column: Column, row: usize) -> Option<&[u8]> {
        self.batch.addresses[column as usize].get(row)
    }

    fn is_v6(&self, column: Column, row: usize) -> bool {
        self.octets(column, row).is_some_and(|octets| octets.len() == 16)
    }

    /// Whether the counters were scaled, by the header of the record or else by the interval.
    fn is_sampled(&self, row: usize) -> bool {
        self.elements.octets(RECORD_HEADER, HEADER_IS_SAMPLED).is_some() || self.get(Column::SamplingInterval, row) > 1
    }

    fn time(&mut self, key: &str, column: Column, row: usize) {
        let ms = self.get(column, row) as i64;
        self.quoted(key, |text, clock| clock.push(text, ms, b'T'));
    }

    fn address(&mut self, v4: &str, v6: &str, column: Column, row: usize) {
        let key = if self.is_v6(column, row) { v6 } else { v4 };
        let octets = self.batch.addresses[column as usize].get(row);
        self.quoted(key, |text, _| push_address(text, octets));
    }

    fn mac(&mut self, key: &str, column: Column, row: usize) {
        let octets = self.batch.addresses[column as usize].get(row);
        self.quoted(key, |text, _| push_mac(text, octets));
    }
}

fn type_of(object: &Object<'_, '_>, row: usize) -> &'static str {
    let is_event = [Column::FirewallEvent, Column::NatEvent].iter().any(|column| object.get(*column, row) != 0);
    if is_event { "EVENT" } else { "FLOW" }
}

fn generic(object: &mut Object<'_, '_>, row: usize) {
    object.text("type", type_of(object, row));
    let is_sampled =
        object.is_sampled(row) || object.elements.octets(RECORD_HEADER, HEADER_IS_SAMPLED_OF_1_6).is_some();
    object.value("sampled", u64::from(is_sampled));
    object.value("export_sysid", object.elements.number(RECORD_HEADER, HEADER_EXPORTER));
    flow(object, row, false);
}

fn generic_changed(object: &mut Object<'_, '_>, row: usize) {
    object.value("cnt", object.count);
    object.text("type", type_of(object, row));
    let ident = object.elements.octets(RECORD_HEADER, HEADER_IDENT).unwrap_or(b"none");
    let ident = String::from_utf8_lossy(ident).into_owned();
    object.quoted("ident", |text, _| push_escaped(text, &ident));
    object.value("export_sysid", object.elements.number(RECORD_HEADER, HEADER_EXPORTER));
    flow(object, row, true);
}

/// Appends a text of a file inside a string of JSON.
fn push_escaped(text: &mut Vec<u8>, value: &str) {
    for letter in value.chars() {
        let mut octets = [0; 4];
        match letter {
            '"' | '\\' => text.extend_from_slice(&[b'\\', letter as u8]),
            control if control.is_control() => {
                text.extend_from_slice(format!("\\u{:04x}", u32::from(control)).as_bytes());
            }
            other => text.extend_from_slice(other.encode_utf8(&mut octets).as_bytes()),
        }
    }
}

/// Times, counters, protocol and ports; the forwarding status comes with the ports in 1.7.8.
fn flow(object: &mut Object<'_, '_>, row: usize, has_status: bool) {
    object.time("first", Column::Start, row);
    object.time("last", Column::End, row);
    object.time("received", Column::Received, row);
    object.number("in_packets", Column::Packets, row);
    object.number("in_bytes", Column::Bytes, row);
    object.number("proto", Column::Protocol, row);
    if let Some((kind, code)) = object.batch.icmp.get(row) {
        object.value("icmp_type", kind);
        object.value("icmp_code", code);
    } else {
        let flags = tcp_flags_text(object.get(Column::TcpFlags, row) as u16);
        object.quoted("tcp_flags", |text, _| text.extend_from_slice(&flags));
        object.number("src_port", Column::SrcPort, row);
        object.number("dst_port", Column::DstPort, row);
        if has_status {
            object.number("fwd_status", Column::ForwardingStatus, row);
        }
    }
    object.number("src_tos", Column::Tos, row);
}

fn addresses(object: &mut Object<'_, '_>, row: usize) {
    object.address("src4_addr", "src6_addr", Column::SrcAddr, row);
    object.address("dst4_addr", "dst6_addr", Column::DstAddr, row);
}

fn addresses_and_places(object: &mut Object<'_, '_>, row: usize) {
    addresses(object, row);
    for (v4, v6, column) in [("src4_geo", "src6_geo", Column::SrcAddr), ("dst4_geo", "dst6_geo", Column::DstAddr)] {
        let country = object.country(column, row).unwrap_or_default();
        object.text(if object.is_v6(column, row) { v6 } else { v4 }, country);
    }
}

fn routing(object: &mut Object<'_, '_>, row: usize) {
    interfaces(object, row);
    object.number("fwd_status", Column::ForwardingStatus, row);
    object.number("direction", Column::Direction, row);
    object.number("dst_tos", Column::DstTos, row);
}

fn routing_changed(object: &mut Object<'_, '_>, row: usize) {
    interfaces(object, row);
    object.number("direction", Column::Direction, row);
    object.number("dst_tos", Column::DstTos, row);
}

fn interfaces(object: &mut Object<'_, '_>, row: usize) {
    object.number("input_snmp", Column::InIf, row);
    object.number("output_snmp", Column::OutIf, row);
    object.number("src_mask", Column::SrcMask, row);
    object.number("dst_mask", Column::DstMask, row);
    let masks = [Column::SrcMask, Column::DstMask].map(|column| object.get(column, row));
    for (key, column, mask) in [("src_net", Column::SrcAddr, masks[0]), ("dst_net", Column::DstAddr, masks[1])] {
        let octets = object.batch.addresses[column as usize].get(row).filter(|_| masks != [0, 0]);
        object.quoted(key, |text, _| {
            if octets.is_some() {
                push_network(text, octets, mask, 0);
            }
        });
    }
}

fn counters(object: &mut Object<'_, '_>, row: usize) {
    for (key, columns) in [
        ("out_packets", [Column::PacketsOut, Column::PacketsReverse]),
        ("out_bytes", [Column::BytesOut, Column::BytesReverse]),
    ] {
        let value = columns.iter().find_map(|column| object.batch.numbers[*column as usize].get(row));
        object.value(key, value.unwrap_or(0));
    }
    let flows = object.batch.numbers[Column::Flows as usize].get(row).unwrap_or(1);
    object.value("aggr_flows", flows);
}

fn vlans(object: &mut Object<'_, '_>, row: usize) {
    object.number("src_vlan", Column::SrcVlan, row);
    object.number("dst_vlan", Column::DstVlan, row);
}

/// What a record of layer 2 has shares columns with these.
fn vlans_changed(object: &mut Object<'_, '_>, row: usize) {
    if !has_layer_2(object) {
        vlans(object, row);
    }
}

/// The version of IP is an element of every record of layer 2 that nfcapd writes.
fn has_layer_2(object: &Object<'_, '_>) -> bool {
    object.elements.octets(0, IP_VERSION).is_some()
}

/// Information Elements (IANA): `ipVersion`, `dot1qCustomerVlanId`, `postDot1qCustomerVlanId`,
/// `ingressPhysicalInterface`, `egressPhysicalInterface`.
const IP_VERSION: u16 = 60;
const CUSTOMER_VLANS: [u16; 2] = [245, 255];
const PHYSICAL_INTERFACES: [u16; 2] = [252, 253];

fn layer_2(object: &mut Object<'_, '_>, row: usize) {
    if !has_layer_2(object) {
        return;
    }
    object.number("vlanID", Column::SrcVlan, row);
    object.number("post_vlanID", Column::DstVlan, row);
    for (key, id) in ["cust_vlanID", "post_cust_vlanID"].into_iter().zip(CUSTOMER_VLANS) {
        object.value(key, object.elements.number(0, id));
    }
    for (key, id) in ["phys_ingress", "phys_egress"].into_iter().zip(PHYSICAL_INTERFACES) {
        object.value(key, object.elements.number(0, id));
    }
    object.number("ethertype", Column::Ethertype, row);
    object.value("ip_version", object.elements.number(0, IP_VERSION));
}

/// The first entry of the MPLS label stack (`mplsTopLabelStackSection`), and how many there are: label, traffic class, bottom.
const LABEL_FIRST: u16 = 70;
const LABELS: u16 = 10;

/// All entries when a record has one.
fn labels(object: &mut Object<'_, '_>, _row: usize) {
    let ids = LABEL_FIRST..LABEL_FIRST + LABELS;
    if ids.clone().all(|id| object.elements.octets(0, id).is_none()) {
        return;
    }
    for (id, number) in ids.zip(1..) {
        let entry = object.elements.number(0, id);
        let text = format!("{}-{}-{}", entry >> 4, entry >> 1 & 7, entry & 1);
        object.text(&format!("mpls_{number}"), &text);
    }
}

fn flow_id(object: &mut Object<'_, '_>, row: usize) {
    object.number("flowID", Column::FlowId, row);
}

fn sampled(object: &mut Object<'_, '_>, row: usize) {
    object.value("sampled", u64::from(object.is_sampled(row)));
}

fn systems(object: &mut Object<'_, '_>, row: usize) {
    object.number("src_as", Column::SrcAs, row);
    object.number("dst_as", Column::DstAs, row);
}

fn bgp_next_hop(object: &mut Object<'_, '_>, row: usize) {
    object.address("bgp4_next_hop", "bgp6_next_hop", Column::BgpNextHop, row);
}

fn next_hop(object: &mut Object<'_, '_>, row: usize) {
    object.address("ip4_next_hop", "ip6_next_hop", Column::NextHop, row);
}

fn router(object: &mut Object<'_, '_>, row: usize) {
    object.address("ip4_router", "ip6_router", Column::Exporter, row);
}

fn macs(object: &mut Object<'_, '_>, row: usize) {
    object.mac("in_src_mac", Column::SrcMac, row);
    object.mac("out_dst_mac", Column::PostDstMac, row);
    object.mac("in_dst_mac", Column::DstMac, row);
    object.mac("out_src_mac", Column::PostSrcMac, row);
}

fn adjacent_systems(object: &mut Object<'_, '_>, row: usize) {
    object.number("next_as", Column::NextAs, row);
    object.number("prev_as", Column::PrevAs, row);
}

fn translated_addresses(object: &mut Object<'_, '_>, row: usize) {
    object.address("src4_xlt_ip", "src6_xlt_ip", Column::NatSrcAddr, row);
    object.address("dst4_xlt_ip", "dst6_xlt_ip", Column::NatDstAddr, row);
}

fn translated_ports(object: &mut Object<'_, '_>, row: usize) {
    object.number("src_xlt_port", Column::NatSrcPort, row);
    object.number("dst_xlt_port", Column::NatDstPort, row);
}

fn vrfs(object: &mut Object<'_, '_>, row: usize) {
    object.number("ingress_vrf", Column::IngressVrf, row);
    object.number("egress_vrf", Column::EgressVrf, row);
}

fn observation(object: &mut Object<'_, '_>, row: usize) {
    object.number("observationDomainID", Column::ObservationDomain, row);
    object.number("observationPointID", Column::ObservationPoint, row);
}
