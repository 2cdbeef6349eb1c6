//! Rows as records of many lines, each with one field.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use weir_flow::Column;

use super::cells::push_mac;
use super::protocols::push_protocol;
use super::rows::{Addresses, Icmp, Numbers};
use super::scale::{push_address, push_network};
use weir_print::digits::{ZonedClock, align_left, align_right, push_u64};
use weir_print::names::tcp_flags_text;
use weir_print::printer::{Flush, RowFormat};

/// Writes rows as records of many lines.
#[derive(Debug, Clone)]
pub(super) struct Records {
    pub(super) clock: ZonedClock,
    pub(super) rows: u64,
}

/// Octets of a value.
const VALUE_WIDTH: usize = 16;

/// One record being written.
struct Record<'a, 'b> {
    batch: &'a RecordBatch,
    row: usize,
    text: &'b mut Vec<u8>,
    clock: &'b mut ZonedClock,
}

impl RowFormat for Records {
    fn begin(&mut self, _schema: &Schema, _text: &mut Vec<u8>) {}

    fn batch(&mut self, batch: &RecordBatch, text: &mut Vec<u8>, flush: &mut Flush<'_>) -> std::io::Result<()> {
        for row in 0..batch.num_rows() {
            self.rows += 1;
            Record { batch, row, text, clock: &mut self.clock }.push(self.rows);
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
        self.flags();
        self.number("engine type", C::EngineType);
        self.number("engine ID", C::EngineId);
        self.time("first", C::Start);
        self.time("last", C::End);
        self.time("received at", C::Received);
        let protocol = self.get(C::Protocol).unwrap_or(0);
        let mut name = b" ".to_vec();
        push_protocol(&mut name, protocol as u8);
        self.value("proto", protocol, &String::from_utf8_lossy(&name));
        self.ports();
        self.number("src tos", C::Tos);
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
        self.pair("src vlan", C::SrcVlan, "dst vlan", C::DstVlan);
        self.pair("src as", C::SrcAs, "dst as", C::DstAs);
        self.address_if_any("bgp next hop", C::BgpNextHop);
        self.address_if_any("ip next hop", C::NextHop);
        self.address_if_any("ip exporter", C::Exporter);
        if self.has_any(&[C::SrcMac, C::DstMac, C::PostSrcMac, C::PostDstMac]) {
            self.mac("in src mac", C::SrcMac);
            self.mac("out dst mac", C::PostDstMac);
            self.mac("in dst mac", C::DstMac);
            self.mac("out src mac", C::PostSrcMac);
        }
        self.pair("bgp next as", C::NextAs, "bgp prev as", C::PrevAs);
        self.address_if_any("src xlt ip", C::NatSrcAddr);
        self.address_if_any("dst xlt ip", C::NatDstAddr);
        self.pair("src xlt port", C::NatSrcPort, "dst xlt port", C::NatDstPort);
        self.pair("ingress VRF", C::IngressVrf, "egress VRF", C::EgressVrf);
        self.pair("ip min ttl", C::MinTtl, "ip max ttl", C::MaxTtl);
    }

    fn flags(&mut self) {
        let sampled = if self.get(Column::SamplingInterval).unwrap_or(0) > 1 { "Sampled" } else { "Unsampled" };
        let version = match self.get(Column::ExportVersion) {
            None | Some(0) => "FLOW".to_owned(),
            Some(105) => "SFLOW v5".to_owned(),
            Some(version) => format!("NETFLOW v{version}"),
        };
        let flags = u8::from(sampled == "Sampled");
        self.line("Flags", |text, _| text.extend_from_slice(format!("0x{flags:02x}").as_bytes()));
        self.append(&format!(" {version}, {sampled}"));
    }

    fn ports(&mut self) {
        let icmp = Icmp::of(self.batch).get(self.row);
        let flags = if icmp.is_some() { 0 } else { self.get(Column::TcpFlags).unwrap_or(0) };
        self.line("tcp flags", |text, _| text.extend_from_slice(format!("0x{flags:02x}").as_bytes()));
        self.append(&format!(" {}", String::from_utf8_lossy(&tcp_flags_text(flags as u16))));
        if let Some((kind, code)) = icmp {
            self.line("ICMP", |text, _| text.extend_from_slice(format!("{kind:>14}.{code}").as_bytes()));
            self.append("  type.code");
        } else {
            self.number("src port", Column::SrcPort);
            self.number("dst port", Column::DstPort);
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
            let octets = Addresses::of(self.batch, column).get(self.row).filter(|_| masks != [0, 0]);
            if octets.is_some() {
                push_network(&mut network, octets, mask, 0);
            }
            network.push(b'/');
            push_u64(&mut network, mask);
            self.value(label, mask, &String::from_utf8_lossy(&network));
        }
        self.number("fwd status", C::ForwardingStatus);
        self.number("dst tos", C::DstTos);
        self.number("direction", C::Direction);
        self.line("biFlow Dir", |text, _| text.extend_from_slice(b"0x00"));
        self.append(" ");
        let reason = self.get(C::EndReason).unwrap_or(0);
        self.line("end reason", |text, _| text.extend_from_slice(format!("0x{reason:02x}").as_bytes()));
        self.append(" ");
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
        align_left(self.text, start, 12);
        self.text.extend_from_slice(b" =  ");
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
        self.clock.push(self.text, ms as i64, b' ');
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

    fn mac(&mut self, label: &str, column: Column) {
        let octets = Addresses::of(self.batch, column).get(self.row);
        self.line(label, |text, _| push_mac(text, octets));
    }
}
