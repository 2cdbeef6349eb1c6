//! The value of a tag in each row of a batch.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use weir_flow::Column;
use weir_flow::elements::elements_of_row;
use weir_formats::nfcapd::{HEADER_EXPORTER, HEADER_IDENT, RECORD_HEADER};

use super::protocols::push_protocol;
use super::rows::{Addresses, Icmp, Numbers, Span, per_second};
use super::scale::{
    push_address, push_address_right, push_duration, push_network, push_number, push_seconds, push_text,
};
use super::tags::{Field, Port, TextField, country_of};
use weir_print::digits::{ZonedClock, align_left, align_right, push_u64, push_u64_right};
use weir_print::names::tcp_flags_text;

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Style {
    /// Comma-separated: nothing is filled up.
    pub(super) csv: bool,
    /// Numbers in full.
    pub(super) plain: bool,
    /// Octets of the field of an address.
    pub(super) address_width: usize,
    /// A Control-A before each address.
    pub(super) tagged: bool,
}

/// A field, and the columns of one batch that it is made of.
pub(super) struct Cell<'a> {
    field: Field,
    numbers: Numbers<'a>,
    /// Taken where `numbers` has none.
    other: Numbers<'a>,
    addresses: Addresses<'a>,
    icmp: Option<Icmp<'a>>,
    span: Option<Span<'a>>,
    elements: Option<&'a ArrayRef>,
    /// Countries, or what `Field::Text` has.
    texts: Option<&'a StringArray>,
}

/// What is printed for a country that is not known.
const NO_COUNTRY: &str = "..";

impl<'a> Cell<'a> {
    pub(super) fn new(field: Field, batch: &'a RecordBatch) -> Self {
        let columns = field.columns();
        let column = |at: usize| columns.get(at).copied();
        let numbers = |at: usize| column(at).map_or_else(Numbers::absent, |column| Numbers::of(batch, column));
        let first = match field {
            Field::AddressPort(_, Port::Of(_)) | Field::GeoAddressPort(_, Port::Of(_)) | Field::Network(..) => 1,
            _ => 0,
        };
        let needs_icmp = match field {
            Field::AddressPort(_, port) | Field::GeoAddressPort(_, port) | Field::Port(port) => {
                port == Port::Destination
            }
            Field::IcmpType | Field::IcmpCode => true,
            _ => false,
        };
        let needs_span =
            matches!(field, Field::Duration | Field::DurationSeconds | Field::BitsPerSecond | Field::PacketsPerSecond);
        Self {
            field,
            numbers: numbers(first),
            other: numbers(first + 1),
            addresses: column(0).map_or_else(Addresses::absent, |column| Addresses::of(batch, column)),
            icmp: needs_icmp.then(|| Icmp::of(batch)),
            span: needs_span.then(|| Span::of(batch)),
            texts: match field {
                Field::Text(text) => {
                    batch.column_by_name(text.column.name()).and_then(|texts| texts.as_string_opt::<i32>())
                }
                Field::Country(address) | Field::GeoAddress(address) | Field::GeoAddressPort(address, _) => {
                    country_of(address).and_then(|column| batch.column_by_name(column.name())?.as_string_opt::<i32>())
                }
                _ => None,
            },
            elements: columns
                .contains(&Column::Elements)
                .then(|| batch.column_by_name(Column::Elements.name()))
                .flatten(),
        }
    }

    /// Appends the value in a row, which is the `count`th of all rows.
    #[inline]
    pub(super) fn push(&self, row: usize, count: u64, style: Style, clock: &mut ZonedClock, text: &mut Vec<u8>) {
        let width = |width: usize| if style.csv { 0 } else { width };
        let number = || self.numbers.or_zero(row);
        match self.field {
            Field::Time(_) => push_time(text, self.numbers.get(row), clock),
            Field::TimeSeconds(_) => {
                push_time(text, self.numbers.get(row), clock);
                text.truncate(text.len() - 4);
            }
            Field::Duration if style.csv => push_seconds(text, self.span_ms(row), 0),
            Field::Duration if !style.plain => push_duration(text, self.span_ms(row)),
            Field::Duration | Field::DurationSeconds => push_seconds(text, self.span_ms(row), width(16)),
            Field::ProtocolName => push_protocol(text, number() as u8),
            Field::Protocol | Field::AdjacentAs(_) if style.csv => push_u64(text, number()),
            Field::Protocol => push_left(text, 5, |text| {
                if style.plain { push_u64(text, number()) } else { push_protocol(text, number() as u8) }
            }),
            Field::Address(_) => self.push_address(row, style, text),
            Field::AddressPort(_, port) => {
                self.push_address(row, style, text);
                self.push_port_of_address(row, port, text);
            }
            Field::Port(port) => self.push_port(row, port, width(6), text),
            Field::Number(_, of) => push_u64_right(text, number(), width(of)),
            Field::AdjacentAs(_) => {
                text.push(b' ');
                push_u64_right(text, number(), 6);
            }
            Field::Counter(_) => {
                let number = self.numbers.get(row).unwrap_or_else(|| self.other.or_zero(row));
                push_number(text, number, style.plain || style.csv, width(8));
            }
            Field::Flows => push_u64_right(text, self.numbers.get(row).unwrap_or(1), width(5)),
            Field::FlagsOrNumber if style.plain && !style.csv => push_u64_right(text, self.tcp_flags(row), 8),
            Field::Flags | Field::FlagsOrNumber => self.push_flags(row, text),
            _ => self.push_rare(row, count, style, clock, text),
        }
    }

    /// What is asked for less often, apart so that the usual fields are a short piece of code.
    fn push_rare(&self, row: usize, count: u64, style: Style, clock: &mut ZonedClock, text: &mut Vec<u8>) {
        let width = |width: usize| if style.csv { 0 } else { width };
        let number = || self.numbers.or_zero(row);
        match self.field {
            Field::Count => push_u64_right(text, count, width(5)),
            Field::Version => push_version(text, number(), style.csv),
            Field::TimeRaw(_) => push_seconds(text, number(), width(14)),
            Field::TimeUtc(_) => match self.numbers.get(row) {
                Some(ms) if ms != 0 => clock.push_utc(text, ms as i64, b' '),
                _ => text.extend_from_slice(NO_TIME),
            },
            Field::Country(_) => text.extend_from_slice(self.country(row).as_bytes()),
            Field::GeoAddress(_) => self.push_placed_address(row, style, text),
            Field::GeoAddressPort(_, port) => {
                self.push_placed_address(row, style, text);
                self.push_port_of_address(row, port, text);
            }
            Field::Network(..) => {
                if style.tagged {
                    text.push(TAG);
                }
                push_network(text, self.addresses.get(row), number(), width(style.address_width));
                text.push(b'/');
                push_left(text, width(2), |text| push_u64(text, number()));
            }
            Field::IcmpType => push_u64_right(text, self.icmp(row).map_or(0, |(kind, _)| kind), width(6)),
            Field::IcmpCode => push_u64_right(text, self.icmp(row).map_or(0, |(_, code)| code), width(6)),
            Field::BitsPerSecond => self.push_rate(row, number().saturating_mul(8), style, text),
            Field::PacketsPerSecond => self.push_rate(row, number(), style, text),
            Field::BytesPerPacket => {
                let bytes = self.other.or_zero(row);
                push_u64_right(text, bytes.checked_div(number()).unwrap_or(0), width(6));
            }
            Field::Direction => push_right(text, width(3), |text| text.push(if number() == 0 { b'I' } else { b'E' })),
            Field::Mac(_) => push_mac(text, self.addresses.get(row)),
            Field::Hex(_, digits) => push_hex(text, number(), self.numbers.get(row).is_none(), digits, style.csv),
            Field::Engine => self.push_pair(row, b'/', width(3), text),
            Field::Application(none) => push_application(text, self.addresses.get(row), none, style.csv),
            Field::ExporterNumber => push_u64_right(text, self.header(row, HEADER_EXPORTER), width(6)),
            Field::Ident => {
                let ident = self.element_of(row, RECORD_HEADER, HEADER_IDENT).unwrap_or_else(|| b"none".to_vec());
                push_left(text, width(12), |text| text.extend_from_slice(&ident));
            }
            Field::HexRight(_, of) => {
                text.extend_from_slice(b"0x");
                push_right(text, width(of), |text| text.extend_from_slice(format!("{:x}", number()).as_bytes()));
            }
            Field::Ttls(b' ', of) => {
                push_u64_right(text, number(), of);
                push_u64_right(text, self.other.or_zero(row), of + 1);
            }
            Field::Ttls(between, of) => self.push_pair(row, between, width(of), text),
            Field::Event(of, none) => push_event(text, self.numbers.get(row), self.other.get(row), none, width(of)),
            Field::FurtherEvent(of, none) => self.push_further_event(row, none, width(of), text),
            Field::Label(depth) => self.push_label(row, depth, width(8), text),
            Field::Labels => self.push_labels(row, width(8), text),
            Field::AccessList(id, is_hex) => push_access_list(text, self.element(row, id), is_hex, style.csv),
            Field::AddressWords(_) => push_words(text, self.addresses.get(row)),
            Field::BlockSize => {
                let size = self.numbers.get(row).zip(self.other.get(row));
                push_u64_right(text, size.map_or(0, |(start, end)| (end + 1).saturating_sub(start)), width(7));
            }
            Field::Family(none) => push_u64(text, self.addresses.get(row).map_or(none, family)),
            Field::Text(of) => self.push_text_field(row, of, style, text),
            Field::NewLine => text.push(b'\n'),
            Field::Empty(lines, csv) => text.extend_from_slice(if style.csv { csv } else { lines }.as_bytes()),
            _ => {}
        }
    }

    /// The country, two letters.
    fn country(&self, row: usize) -> &str {
        self.texts.filter(|countries| countries.is_valid(row)).map_or(NO_COUNTRY, |countries| countries.value(row))
    }

    /// A text that came over the network, or what stands for none.
    fn push_text_field(&self, row: usize, of: TextField, style: Style, text: &mut Vec<u8>) {
        match self.texts.filter(|texts| texts.is_valid(row)) {
            Some(texts) if style.csv => push_text(text, texts, row, true),
            Some(texts) => {
                text.extend_from_slice(of.before.as_bytes());
                push_right(text, of.width, |text| push_text(text, texts, row, false));
            }
            None => text.extend_from_slice(if style.csv { of.none_csv } else { of.none }.as_bytes()),
        }
    }

    /// An address with its country.
    fn push_placed_address(&self, row: usize, style: Style, text: &mut Vec<u8>) {
        self.push_address(row, style, text);
        text.push(b'(');
        text.extend_from_slice(self.country(row).as_bytes());
        text.push(b')');
    }

    /// Both numbers of a field.
    fn push_pair(&self, row: usize, between: u8, width: usize, text: &mut Vec<u8>) {
        push_u64_right(text, self.numbers.or_zero(row), width);
        text.push(between);
        push_left(text, width, |text| push_u64(text, self.other.or_zero(row)));
    }

    #[inline]
    fn span_ms(&self, row: usize) -> u64 {
        self.span.as_ref().map_or(0, |span| span.ms_of_flow(row))
    }

    /// The octets of an element that has no column of its own.
    fn element(&self, row: usize, id: u16) -> Option<Vec<u8>> {
        self.element_of(row, 0, id)
    }

    fn element_of(&self, row: usize, enterprise: u32, id: u16) -> Option<Vec<u8>> {
        let mut entries = elements_of_row(self.elements?, row).into_iter();
        let found = entries.find(|entry| (entry.enterprise, entry.id) == (enterprise, id));
        found.map(|entry| entry.octets.to_vec())
    }

    /// A number of the record's header.
    fn header(&self, row: usize, id: u16) -> u64 {
        self.element_of(row, RECORD_HEADER, id).map_or(0, big_endian)
    }

    fn push_labels(&self, row: usize, width: usize, text: &mut Vec<u8>) {
        for depth in 0..LABELS {
            self.push_label(row, depth, width, text);
            text.push(b' ');
        }
    }

    fn push_label(&self, row: usize, depth: u16, width: usize, text: &mut Vec<u8>) {
        let label = self.element(row, MPLS_FIRST + depth).map_or(0, big_endian);
        push_u64_right(text, label >> 4, width);
        // writing to a vector does not fail
        let _ = write!(text, "-{}-{}", label >> 1 & 7, label & 1);
    }

    fn push_further_event(&self, row: usize, none: &str, width: usize, text: &mut Vec<u8>) {
        let name = match self.element(row, FURTHER_EVENT).map_or(0, big_endian) {
            1001 => "I-ACL",
            1002 => "E-ACL",
            1003 => "Adap",
            1004 => "No Syn",
            _ => none,
        };
        push_right(text, width, |text| text.extend_from_slice(name.as_bytes()));
    }

    #[inline]
    fn icmp(&self, row: usize) -> Option<(u64, u64)> {
        self.icmp.as_ref().and_then(|icmp| icmp.get(row))
    }

    #[inline]
    fn push_address(&self, row: usize, style: Style, text: &mut Vec<u8>) {
        if style.csv {
            return push_address(text, self.addresses.get(row));
        }
        if style.tagged {
            text.push(TAG);
        }
        push_address_right(text, self.addresses.get(row), style.address_width);
    }

    #[inline]
    fn push_port_of_address(&self, row: usize, port: Port, text: &mut Vec<u8>) {
        text.push(if self.addresses.get(row).is_some_and(|octets| octets.len() == 16) { b'.' } else { b':' });
        push_left(text, 5, |text| self.push_port(row, port, 0, text));
    }

    #[inline]
    fn push_port(&self, row: usize, port: Port, width: usize, text: &mut Vec<u8>) {
        match (port, &self.icmp) {
            (Port::Destination, Some(icmp)) => match icmp.get(row) {
                Some((kind, code)) => push_right(text, width, |text| {
                    push_u64(text, kind);
                    text.push(b'.');
                    push_u64(text, code);
                }),
                None => push_u64_right(text, icmp.dst_port(row), width),
            },
            _ => push_u64_right(text, self.numbers.or_zero(row), width),
        }
    }

    #[inline]
    fn push_flags(&self, row: usize, text: &mut Vec<u8>) {
        text.extend_from_slice(&tcp_flags_text(self.tcp_flags(row) as u16));
    }

    #[inline]
    fn tcp_flags(&self, row: usize) -> u64 {
        let is_tcp = self.other.get(row) == Some(6);
        if is_tcp { self.numbers.or_zero(row) } else { 0 }
    }

    fn push_rate(&self, row: usize, amount: u64, style: Style, text: &mut Vec<u8>) {
        let rate = per_second(amount, self.span_ms(row));
        push_number(text, rate, style.plain || style.csv, if style.csv { 0 } else { 8 });
    }
}

/// What hooks of `NfSen` look for before an address.
pub(super) const TAG: u8 = 1;

/// Labels of a flow at most.
const LABELS: u16 = 10;

/// The element of the topmost label; those below follow.
const MPLS_FIRST: u16 = 70;

/// What a firewall of Cisco adds to its event (`NF_F_FW_EXT_EVENT`).
const FURTHER_EVENT: u16 = 33002;

fn big_endian(octets: Vec<u8>) -> u64 {
    octets.into_iter().fold(0, |number, octet| number << 8 | u64::from(octet))
}

/// Three numbers of four octets each.
fn push_access_list(text: &mut Vec<u8>, octets: Option<Vec<u8>>, is_hex: bool, csv: bool) {
    let octets = octets.unwrap_or_default();
    let part = |at: usize| octets.get(at..at + 4).map_or(0, |octets| big_endian(octets.to_vec()));
    let parts = [part(0), part(4), part(8)];
    // writing to a vector does not fail
    let _ = match (csv, is_hex) {
        (true, _) if parts == [0; 3] => write!(text, "0x0"),
        (true, _) => write!(text, "0x{:x} 0x{:x} 0x{:x}", parts[0], parts[1], parts[2]),
        (false, true) => {
            let [a, b, c] = parts.map(|part| format!("0x{part:x}"));
            write!(text, "{a:<10} {b:<10} {c:<10}")
        }
        (false, false) => write!(text, "{:>10} {:>10} {:>10}", parts[0], parts[1], parts[2]),
    };
}

/// The number that Linux has for the family of an address.
fn family(octets: &[u8]) -> u64 {
    if octets.len() == 16 { 10 } else { 2 }
}

/// An address of IPv4 is the last of the four words.
fn push_words(text: &mut Vec<u8>, octets: Option<&[u8]>) {
    let mut words = [0; 16];
    let octets = octets.unwrap_or_default();
    if let Some(place) = words.len().checked_sub(octets.len()).and_then(|at| words.get_mut(at..)) {
        place.copy_from_slice(octets);
    }
    for (position, word) in words.chunks_exact(4).enumerate() {
        if position > 0 {
            text.push(b'|');
        }
        push_u64(text, big_endian(word.to_vec()));
    }
}

const NO_TIME: &[u8] = b"0000-00-00 00:00:00.000";

#[inline]
fn push_time(text: &mut Vec<u8>, ms: Option<u64>, clock: &mut ZonedClock) {
    match ms {
        Some(ms) if ms != 0 => clock.push(text, ms as i64, b' '),
        _ => text.extend_from_slice(NO_TIME),
    }
}

#[inline]
fn push_left(text: &mut Vec<u8>, width: usize, push: impl FnOnce(&mut Vec<u8>)) {
    let start = text.len();
    push(text);
    align_left(text, start, width);
}

#[inline]
fn push_right(text: &mut Vec<u8>, width: usize, push: impl FnOnce(&mut Vec<u8>)) {
    let start = text.len();
    push(text);
    align_right(text, start, width);
}

fn push_version(text: &mut Vec<u8>, version: u64, csv: bool) {
    let (prefix, version): (&[u8], u64) = match (version, csv) {
        (0, false) => return text.extend_from_slice(b"FLO"),
        (0, true) => return text.extend_from_slice(b"flow"),
        (105, false) => (b"Sv", 5),
        (105, true) => (b"sflowV", 5),
        (_, false) => (b"Nv", version),
        (_, true) => (b"netflowV", version),
    };
    text.extend_from_slice(prefix);
    push_u64(text, version);
}

pub(super) fn push_mac(text: &mut Vec<u8>, octets: Option<&[u8]>) {
    let octets = octets.filter(|octets| octets.len() == 6).unwrap_or(&[0; 6]);
    for (position, octet) in octets.iter().enumerate() {
        if position > 0 {
            text.push(b':');
        }
        weir_print::digits::push_hex(text, &[*octet]);
    }
}

fn push_hex(text: &mut Vec<u8>, number: u64, is_absent: bool, digits: usize, csv: bool) {
    let hex = match (csv, is_absent) {
        (true, true) => "0x00".to_owned(),
        (true, false) => format!("0x{number:x}"),
        (false, _) => format!("0x{number:0digits$x}"),
    };
    text.extend_from_slice(hex.as_bytes());
}

/// Engine and selector, with the enterprise between them where the engine is one of an enterprise (RFC 6759).
fn push_application(text: &mut Vec<u8>, octets: Option<&[u8]>, none: &str, csv: bool) {
    const OF_ENTERPRISE: u8 = 20;
    let Some((&engine, selector)) = octets.and_then(<[u8]>::split_first) else {
        return text.extend_from_slice(if csv { "0..0..0" } else { none }.as_bytes());
    };
    let number = |octets: &[u8]| octets.iter().fold(0_u64, |number, octet| number << 8 | u64::from(*octet));
    push_u64_right(text, engine.into(), if csv { 0 } else { 2 });
    let selector = match selector.split_at_checked(4) {
        Some((enterprise, selector)) if engine == OF_ENTERPRISE => {
            text.extend_from_slice(b"..");
            push_u64(text, number(enterprise));
            selector
        }
        _ => selector,
    };
    text.extend_from_slice(b"..");
    push_u64(text, number(selector));
}

static FIREWALL_EVENTS: &[&str] = &["IGNORE", "CREATE", "DELETE", "DENIED", "ALERT", "UPDATE"];

static NAT_EVENTS: &[&str] = &[
    "INVALID", "ADD", "DELETE", "EXHAUST", "ADD44", "DEL44", "ADD64", "DEL64", "ADD44BIB", "DEL44BIB", "ADD64BIB",
    "DEL64BIB", "PEXHAUST", "QUOTAEXH", "ADDADDR", "DELADDR", "ADDPBLK", "DELPBLK", "THRESHLD",
];

fn push_event(text: &mut Vec<u8>, firewall: Option<u64>, nat: Option<u64>, none: &str, width: usize) {
    let (number, names) = match (firewall, nat) {
        (Some(event), _) => (event, FIREWALL_EVENTS),
        (None, event) => (event.unwrap_or(0), NAT_EVENTS),
    };
    push_right(text, width, |text| match names.get(number as usize) {
        _ if number == 0 && firewall.is_none() => text.extend_from_slice(none.as_bytes()),
        Some(name) => text.extend_from_slice(name.as_bytes()),
        None => push_u64(text, number),
    });
}

/// The columns of which an answer needs the values for these fields, each once.
pub(super) fn columns_of(fields: impl Iterator<Item = Field>) -> Vec<Column> {
    let mut columns: Vec<Column> = fields.flat_map(Field::columns).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}
