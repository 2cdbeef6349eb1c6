//! Rows as records of many lines, each with one field.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_flow::Column;
use weir_formats::nfcapd::{
    HEADER_EXPORTER, HEADER_EXTENSIONS, HEADER_IDENT, HEADER_IS_SAMPLED, HEADER_IS_SAMPLED_OF_1_6, HEADER_SIZE,
    RECORD_HEADER,
};

use super::cells::push_mac;
use super::elements::RowElements;
use super::protocols::push_protocol;
use super::release::Release;
use super::rows::{Addresses, Icmp, Numbers};
use super::scale::{push_address, push_network};
use weir_print::digits::{ZonedClock, align_left, align_right, push_u64};
use weir_print::names::tcp_flags_text;
use weir_print::printer::{Flush, RowFormat};

/// Writes rows as records of many lines.
#[derive(Debug, Clone)]
pub(super) struct Records {
    pub(super) clock: ZonedClock,
    pub(super) release: Release,
    pub(super) rows: u64,
}

/// Octets of a label.
const LABEL_WIDTH: usize = 12;

/// Octets of a value; some are longer.
const VALUE_WIDTH: usize = 16;

/// Extensions of records: VLANs, and what is known of layer 2.
const VLANS: u16 = 6;
const LAYER_2: u16 = 38;

/// The first entry of the MPLS label stack (`mplsTopLabelStackSection`), and those after it.
const LABELS: std::ops::Range<u16> = 70..80;

/// Information Elements (IANA) of layer 2: `dot1qCustomerVlanId`, `postDot1qCustomerVlanId`, `ingressPhysicalInterface`,
/// `egressPhysicalInterface`; and `ipVersion`.
const LAYER_2_ELEMENTS: [(&str, u16); 4] =
    [("custID", 245), ("post custID", 255), ("ingress IfID", 252), ("egress IfID", 253)];
const IP_VERSION: u16 = 60;

/// One record being written.
struct Record<'a, 'b> {
    batch: &'a RecordBatch,
    row: usize,
    elements: RowElements<'a>,
    release: Release,
    text: &'b mut Vec<u8>,
    clock: &'b mut ZonedClock,
}

impl RowFormat for Records {
    fn begin(&mut self, _schema: &Schema, _text: &mut Vec<u8>) {}

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        let elements = batch.column_by_name(Column::Elements.name());
        for row in 0..batch.num_rows() {
            self.rows += 1;
            let elements = RowElements::of(elements, row);
            Record { batch, row, elements, release: self.release, text, clock: &mut self.clock }.push(self.rows);
            flush.when_full(text)?;
        }
        Ok(())
    }

    fn end(&mut self, _text: &mut Vec<u8>) {}
}

impl Record<'_, '_> {
    fn push(&mut self, number: u64) {
        use Column as C;
        self.text.extend_from_slice(b"\nFlow Record: \n");
        self.value("RecordCount", number, "");
        self.header();
        self.time("first", C::Start);
        self.time("last", C::End);
        self.time("received at", C::Received);
        let protocol = self.get(C::Protocol).unwrap_or(0);
        let mut name = b" ".to_vec();
        push_protocol(&mut name, protocol as u8);
        self.value("proto", protocol, &String::from_utf8_lossy(&name));
        self.ports();
        self.number("in packets", C::Packets);
        self.number("in bytes", C::Bytes);
        self.address("src addr", C::SrcAddr);
        self.address("dst addr", C::DstAddr);
        self.routing();
        let out = [C::PacketsOut, C::BytesOut, C::PacketsReverse, C::BytesReverse, C::Flows];
        if self.has_any(&out) {
            let either = |out, reverse| self.get(out).or(self.get(reverse)).unwrap_or(0);
            let (packets, bytes) = (either(C::PacketsOut, C::PacketsReverse), either(C::BytesOut, C::BytesReverse));
            self.value("out packets", packets, "");
            self.value("out bytes", bytes, "");
            self.value("aggr flows", self.get(C::Flows).unwrap_or(1), "");
        }
        // what a record has of layer 2 shares columns with these
        if self.has_extension(VLANS).unwrap_or(true) {
            self.pair("src vlan", C::SrcVlan, "dst vlan", C::DstVlan);
        }
        self.systems("src as", C::SrcAs, "dst as", C::DstAs);
        self.address_if_any("bgp next hop", C::BgpNextHop);
        self.address_if_any("ip next hop", C::NextHop);
        self.address_if_any("ip exporter", C::Exporter);
        self.labels();
        if self.has_any(&[C::SrcMac, C::DstMac, C::PostSrcMac, C::PostDstMac]) {
            self.mac("in src mac", C::SrcMac);
            self.mac("out dst mac", C::PostDstMac);
            self.mac("in dst mac", C::DstMac);
            self.mac("out src mac", C::PostSrcMac);
        }
        self.systems("bgp next as", C::NextAs, "bgp prev as", C::PrevAs);
        self.address_if_any("src xlt ip", C::NatSrcAddr);
        self.address_if_any("dst xlt ip", C::NatDstAddr);
        self.pair("src xlt port", C::NatSrcPort, "dst xlt port", C::NatDstPort);
        self.pair("ingress VRF", C::IngressVrf, "egress VRF", C::EgressVrf);
        if self.release.is_last() {
            self.layer_2();
            self.pair("ip min ttl", C::MinTtl, "ip max ttl", C::MaxTtl);
        }
    }

    /// What the header of the record says. Its extensions and its size are those in a file of 1.7; other flows have none.
    fn header(&mut self) {
        if self.release.is_last() {
            let ident = String::from_utf8_lossy(self.elements.octets(RECORD_HEADER, HEADER_IDENT).unwrap_or(b"none"))
                .into_owned();
            // no control character of a file reaches a terminal
            let ident: String = ident.chars().filter(|letter| !letter.is_control()).collect();
            self.line("Ident", |text, _| text.extend_from_slice(ident.as_bytes()));
        }
        self.flags();
        if self.elements.octets(RECORD_HEADER, HEADER_EXTENSIONS).is_some() {
            let set = self.elements.number(RECORD_HEADER, HEADER_EXTENSIONS);
            // nfdump numbers extensions from 1
            let numbers: String = (1..64_u32)
                .filter(|number| set >> *number & 1 == 1)
                .flat_map(|number| [number.to_string(), " ".to_owned()])
                .collect();
            self.value("Elements", set.count_ones().into(), &format!(": {numbers}"));
            self.value("size", self.elements.number(RECORD_HEADER, HEADER_SIZE), "");
        }
        self.number("engine type", Column::EngineType);
        self.number("engine ID", Column::EngineId);
        self.value("export sysid", self.elements.number(RECORD_HEADER, HEADER_EXPORTER), "");
    }

    fn flags(&mut self) {
        let is_of_1_6 =
            || self.elements.octets(RECORD_HEADER, HEADER_IS_SAMPLED_OF_1_6).is_some() && !self.release.is_last();
        let is_sampled = self.elements.octets(RECORD_HEADER, HEADER_IS_SAMPLED).is_some()
            || self.get(Column::SamplingInterval).unwrap_or(0) > 1
            || is_of_1_6();
        let sampled = if is_sampled { "Sampled" } else { "Unsampled" };
        let version = match self.get(Column::ExportVersion) {
            None | Some(0) => "FLOW".to_owned(),
            Some(105) => "SFLOW v5".to_owned(),
            Some(version) => format!("NETFLOW v{version}"),
        };
        let flags = if is_sampled { 2 } else { 0 };
        self.line("Flags", |text, _| text.extend_from_slice(format!("0x{flags:02x}").as_bytes()));
        self.append(&format!(" {version}, {sampled}"));
    }

    fn ports(&mut self) {
        let icmp = Icmp::of(self.batch).get(self.row);
        let flags = if icmp.is_some() { 0 } else { self.get(Column::TcpFlags).unwrap_or(0) };
        self.line("tcp flags", |text, _| text.extend_from_slice(format!("0x{flags:02x}").as_bytes()));
        self.append(&format!(" {}", String::from_utf8_lossy(&tcp_flags_text(flags as u16))));
        if let Some((kind, code)) = icmp {
            self.line("ICMP", |text, _| text.extend_from_slice(format!("{kind:>14}.{code:<2}").as_bytes()));
            self.append(" type.code");
        } else {
            self.number("src port", Column::SrcPort);
            self.number("dst port", Column::DstPort);
            self.number("src tos", Column::Tos);
            if self.release.is_last() {
                self.number("fwd status", Column::ForwardingStatus);
            }
        }
    }

    fn routing(&mut self) {
        use Column as C;
        if !self.has_any(&[C::InIf, C::OutIf, C::SrcMask, C::DstMask, C::Direction, C::DstTos]) {
            return;
        }
        self.number("input", C::InIf);
        self.number("output", C::OutIf);
        let masks = [C::SrcMask, C::DstMask].map(|column| self.get(column).unwrap_or(0));
        for (label, column, mask) in [("src mask", C::SrcAddr, masks[0]), ("dst mask", C::DstAddr, masks[1])] {
            let mut network = b" ".to_vec();
            let octets = Addresses::of(self.batch, column).get(self.row).filter(|_| mask != 0);
            if octets.is_some() {
                push_network(&mut network, octets, mask, 0);
            }
            network.push(b'/');
            push_u64(&mut network, mask);
            self.value(label, mask, &String::from_utf8_lossy(&network));
        }
        if self.release.is_last() {
            self.number("dst tos", C::DstTos);
        } else {
            self.number("fwd status", C::ForwardingStatus);
            // 1.7.1 prints the TOS of the source for both
            self.number("dst tos", C::Tos);
        }
        self.number("direction", C::Direction);
        self.line("biFlow Dir", |text, _| text.extend_from_slice(b"0x00"));
        self.append(" ");
        let reason = self.get(C::EndReason).unwrap_or(0);
        self.line("end reason", |text, _| text.extend_from_slice(format!("0x{reason:02x}").as_bytes()));
        self.append(&format!(" {}", end_reason(reason)));
    }

    /// The entries of the MPLS label stack: label, traffic class, bottom.
    fn labels(&mut self) {
        for (id, number) in LABELS.zip(1..) {
            let entry = self.elements.number(0, id);
            if entry != 0 {
                let label = format!("MPLS Lbl {number:>2}");
                let text = format!("{}-{}-{}", entry >> 4, entry >> 1 & 7, entry & 1);
                self.line(&label, |line, _| line.extend_from_slice(text.as_bytes()));
            }
        }
    }

    fn layer_2(&mut self) {
        if !self.has_extension(LAYER_2).unwrap_or_default() {
            return;
        }
        self.number("vlanID", Column::SrcVlan);
        self.number("post vlanID", Column::DstVlan);
        for (label, id) in LAYER_2_ELEMENTS {
            self.value(label, self.elements.number(0, id), "");
        }
        let ethertype = self.get(Column::Ethertype).unwrap_or(0);
        self.line("ethertype", |text, _| text.extend_from_slice(format!("0x{ethertype:04x}").as_bytes()));
        self.value("IP version", self.elements.number(0, IP_VERSION), "");
    }

    /// Whether the record in the file has an extension; `None` when that is not known.
    fn has_extension(&self, number: u16) -> Option<bool> {
        self.elements.octets(RECORD_HEADER, HEADER_EXTENSIONS)?;
        Some(self.elements.number(RECORD_HEADER, HEADER_EXTENSIONS) >> number & 1 == 1)
    }

    fn get(&self, column: Column) -> Option<u64> {
        Numbers::of(self.batch, column).get(self.row)
    }

    fn has_any(&self, columns: &[Column]) -> bool {
        columns
            .iter()
            .any(|column| self.get(*column).is_some() || Addresses::of(self.batch, *column).get(self.row).is_some())
    }

    /// A line with a value at the right of its place.
    fn line(&mut self, label: &str, push: impl FnOnce(&mut Vec<u8>, &mut ZonedClock)) {
        self.text.extend_from_slice(b"  ");
        let start = self.text.len();
        self.text.extend_from_slice(label.as_bytes());
        align_left(self.text, start, LABEL_WIDTH);
        self.text.extend_from_slice(if self.release.is_last() { b" =   " } else { b" =  " });
        let start = self.text.len();
        push(self.text, self.clock);
        align_right(self.text, start, VALUE_WIDTH);
        self.text.push(b'\n');
    }

    /// Puts text before the end of the line just written.
    fn append(&mut self, text: &str) {
        self.text.pop();
        // writing to a vector does not fail
        let _ = writeln!(self.text, "{text}");
    }

    fn value(&mut self, label: &str, value: u64, after: &str) {
        self.line(label, |text, _| push_u64(text, value));
        if !after.is_empty() {
            self.append(after);
        }
    }

    fn number(&mut self, label: &str, column: Column) {
        self.value(label, self.get(column).unwrap_or(0), "");
    }

    fn pair(&mut self, first_label: &str, first: Column, second_label: &str, second: Column) {
        if self.has_any(&[first, second]) {
            self.number(first_label, first);
            self.number(second_label, second);
        }
    }

    fn time(&mut self, label: &str, column: Column) {
        let ms = self.get(column).unwrap_or(0);
        self.value(label, ms, "");
        self.text.pop();
        self.text.extend_from_slice(b" [");
        if ms < 1000 {
            self.text.extend_from_slice(format!("<unknown>.{ms:03}").as_bytes());
        } else {
            self.clock.push(self.text, ms as i64, b' ');
        }
        self.text.extend_from_slice(b"]\n");
    }

    fn address(&mut self, label: &str, column: Column) {
        let octets = Addresses::of(self.batch, column).get(self.row);
        self.line(label, |text, _| push_address(text, octets));
    }

    fn address_if_any(&mut self, label: &str, column: Column) {
        if Addresses::of(self.batch, column).get(self.row).is_some() {
            self.address(label, column);
        }
    }

    /// Numbers of systems have their place, and longer ones go beyond it.
    fn systems(&mut self, first_label: &str, first: Column, second_label: &str, second: Column) {
        if self.has_any(&[first, second]) {
            for (label, column) in [(first_label, first), (second_label, second)] {
                let number = self.get(column).unwrap_or(0);
                // five places behind eleven blanks before, however long the number is
                let blanks = if self.release.is_last() { 0 } else { 11 };
                self.line(label, |text, _| text.extend_from_slice(format!("{:blanks$}{number:>5}", "").as_bytes()));
            }
        }
    }

    /// An address of a MAC is longer than the place of a value, and begins a blank before it.
    fn mac(&mut self, label: &str, column: Column) {
        let octets = Addresses::of(self.batch, column).get(self.row);
        let start = self.text.len();
        self.line(label, |text, _| push_mac(text, octets));
        let blank = start + "  ".len() + LABEL_WIDTH + " =".len();
        self.text.remove(blank);
    }
}

/// Why a flow ended (RFC 5102, `flowEndReason`), as nfdump calls it.
fn end_reason(reason: u64) -> &'static str {
    match reason {
        0 => "",
        1 => "idle timeout",
        2 => "active timeout",
        3 => "end of Flow detected",
        4 => "forced end",
        5 => "lack of resources",
        _ => "undef",
    }
}
