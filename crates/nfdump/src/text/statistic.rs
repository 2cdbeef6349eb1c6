//! Rankings of the values of one field.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use weir_flow::Column;

use super::Options;
use super::cells::{TAG, push_mac};
use super::footer::Totals;
use super::protocols::push_protocol;
use super::release::Release;
use super::rows::{Addresses, Numbers, Span, per_second};
use super::scale::{push_address, push_address_right, push_duration, push_number, push_seconds, push_text};
use weir_print::digits::{ZonedClock, align_left, align_right, push_u64, push_u64_right};
use weir_print::names::tcp_flags_text;

/// What a ranking is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    /// nfdump's name of the statistic, such as `srcip`.
    pub statistic: String,
    /// Name of the column of the values.
    pub column: String,
    /// The values are addresses.
    pub of_addresses: bool,
    /// One row per value and protocol.
    pub per_protocol: bool,
    /// nfdump's name of the order, such as `bytes`.
    pub order: String,
    /// Rows printed at most; all when there is no limit.
    pub limit: Option<usize>,
}

/// nfdump's headings of the values.
static HEADINGS: &[(&str, &str)] = &[
    ("srcip", "Src IP Addr"),
    ("dstip", "Dst IP Addr"),
    ("ip", "IP Addr"),
    ("nhip", "Nexthop IP"),
    ("nhbip", "Nexthop BGP IP"),
    ("router", "Router IP"),
    ("srcport", "Src Port"),
    ("dstport", "Dst Port"),
    ("port", "Port"),
    ("proto", "Protocol"),
    ("flags", "TCP Flags"),
    ("tos", "Tos"),
    ("srctos", "Tos"),
    ("dsttos", "Dst Tos"),
    ("dir", "Dir"),
    ("srcas", "Src AS"),
    ("dstas", "Dst AS"),
    ("as", "AS"),
    ("prevas", "Prev AS"),
    ("nextas", "Next AS"),
    ("inif", "Input If"),
    ("outif", "Output If"),
    ("if", "In/Out If"),
    ("srcmask", "Src Mask"),
    ("dstmask", "Dst Mask"),
    ("mask", "Mask"),
    ("srcvlan", "Src Vlan"),
    ("dstvlan", "Dst Vlan"),
    ("vlan", "Vlan"),
    ("insrcmac", "In Src Mac"),
    ("outdstmac", "Out Dst Mac"),
    ("indstmac", "In Dst Mac"),
    ("outsrcmac", "Out Src Mac"),
    ("srcmac", "Src Mac"),
    ("dstmac", "Dst Mac"),
    ("inmac", "In Mac"),
    ("outmac", "Out Mac"),
    ("mac", "Mac"),
    ("ethertype", "Ethertype"),
    ("odid", "obs domainID"),
    ("opid", " obs PointID"),
    ("ivrf", " I-vrf-ID"),
    ("evrf", " E-vrf-ID"),
    ("minttl", "Min TTL"),
    ("maxttl", "Max TTL"),
    ("event", " Event"),
    ("nat", "NAT Event"),
    ("natsrcip", "X-Src IP Addr"),
    ("natdstip", "X-Dst IP Addr"),
    ("natip", "X-IP Addr"),
    ("natsrcport", " X-Src Port"),
    ("natdstport", " X-Dst Port"),
    ("natport", " X-Port"),
    ("srcgeo", "Src Geo"),
    ("dstgeo", "Dst Geo"),
    ("geo", "Geo"),
];

/// Those that 1.7.8 has changed.
static HEADINGS_CHANGED: &[(&str, &str)] = &[
    ("ip", "    IP Addr"),
    ("flags", "TCPflags"),
    ("srctos", "Src Tos"),
    ("if", "Interface"),
    ("mac", "Mac Addr"),
    ("odid", "Obs DomainID"),
    ("opid", "Obs PointID"),
    ("ivrf", "I-vrf ID"),
    ("evrf", "E-vrf ID"),
    ("minttl", "minTTL"),
    ("maxttl", "maxTTL"),
    ("natsrcport", "X-Src Port"),
    ("natdstport", "X-Dst Port"),
    ("natport", "X-Port"),
];

/// The heading of a statistic.
fn heading_of(statistic: &str, release: Release) -> &str {
    let changed = HEADINGS_CHANGED.iter().filter(|_| release.is_last());
    changed.chain(HEADINGS).find(|(name, _)| *name == statistic).map_or(statistic, |(_, heading)| *heading)
}

/// Octets of a value; of an address of IPv6 in full.
const VALUE_WIDTHS: [usize; 2] = [17, 39];

/// Appends a ranking as a table for people.
pub(super) fn push_table(
    text: &mut Vec<u8>,
    ranking: &Ranking,
    batches: &[RecordBatch],
    totals: &Totals,
    options: &Options,
) {
    let heading = heading_of(&ranking.statistic, options.release);
    let width = VALUE_WIDTHS[usize::from(options.long_ipv6 && ranking.of_addresses)];
    if !options.quiet {
        let limit = ranking.limit.map_or_else(String::new, |limit| format!(" {limit}"));
        // writing to a vector does not fail
        let _ = writeln!(text, "Top{limit} {heading} ordered by {}:", ranking.order);
        let before = match options.release {
            Release::V1_7_1 => "Date first seen                 Duration Proto",
            Release::V1_7_8 => "Date first seen             Duration     Proto",
        };
        let _ = writeln!(
            text,
            "{before} {heading:>width$}    Flows(%)     Packets(%)       Bytes(%)         pps      bps   bpp",
        );
    }
    let mut clock = ZonedClock::new(options.zone.clone());
    for batch in batches {
        let columns = Columns::of(batch, ranking);
        for row in 0..batch.num_rows() {
            columns.push_line(row, width, totals, options, &mut clock, text);
        }
    }
    if !options.release.is_last() {
        text.push(b'\n');
    }
}

/// Appends a ranking as comma-separated values.
pub(super) fn push_csv(
    text: &mut Vec<u8>,
    ranking: &Ranking,
    batches: &[RecordBatch],
    totals: &Totals,
    options: &Options,
) {
    if !options.quiet {
        // Orders of nfdump that have a name of their own for packets and bytes of one direction.
        let way = match ranking.order.as_str() {
            "flows" => "i",
            order if order.starts_with('i') => "i",
            order if order.starts_with('o') => "o",
            _ => "",
        };
        // writing to a vector does not fail
        let _ =
            writeln!(text, "ts,te,td,pr,val,fl,flP,{way}pkt,{way}pktP,{way}byt,{way}bytP,{way}pps,{way}bps,{way}bpp");
    }
    let mut clock = ZonedClock::new(options.zone.clone());
    for batch in batches {
        let columns = Columns::of(batch, ranking);
        for row in 0..batch.num_rows() {
            columns.push_values(row, totals, options, &mut clock, text);
        }
    }
    if !options.release.is_last() {
        text.push(b'\n');
    }
}

/// Appends a ranking as objects of JSON, one a line, as 1.7.8 has them; 1.7.1 has none.
pub(super) fn push_json(
    text: &mut Vec<u8>,
    ranking: &Ranking,
    batches: &[RecordBatch],
    _totals: &Totals,
    options: &Options,
) {
    let mut clock = ZonedClock::new(options.zone.clone());
    for batch in batches {
        let columns = Columns::of(batch, ranking);
        for row in 0..batch.num_rows() {
            columns.push_object(row, &ranking.statistic, &mut clock, text);
        }
    }
}

/// How values that are no texts and no addresses are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
    Number,
    /// They are no numbers where they are null: addresses, MAC addresses.
    Octets,
    Hexadecimal,
    /// Written as letters by 1.7.8.
    Flags,
}

impl ValueForm {
    fn of(values: Option<&ArrayRef>, statistic: &str) -> Self {
        match statistic {
            _ if values.is_some_and(|values| *values.data_type() == DataType::Binary) => Self::Octets,
            "odid" | "opid" | "ethertype" => Self::Hexadecimal,
            "flags" => Self::Flags,
            _ => Self::Number,
        }
    }
}

/// The columns of a ranking that it is written from.
struct Columns<'a> {
    numbers: Numbers<'a>,
    addresses: Addresses<'a>,
    /// Values that are texts.
    texts: Option<&'a StringArray>,
    /// Marked for the hooks of `NfSen`, when they are asked for.
    is_address: bool,
    form: ValueForm,
    protocol: Option<Numbers<'a>>,
    start: Numbers<'a>,
    end: Numbers<'a>,
    span: Span<'a>,
    flows: Numbers<'a>,
    packets: Numbers<'a>,
    bytes: Numbers<'a>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch, ranking: &Ranking) -> Self {
        let values = batch.column_by_name(&ranking.column);
        let has_protocol = ranking.per_protocol || ranking.column == Column::Protocol.name();
        Self {
            numbers: values.map_or_else(Numbers::absent, Numbers::new),
            addresses: values.map_or_else(Addresses::absent, Addresses::new),
            texts: values.and_then(|values| values.as_string_opt::<i32>()),
            is_address: ranking.of_addresses,
            form: ValueForm::of(values, &ranking.statistic),
            protocol: has_protocol.then(|| Numbers::of(batch, Column::Protocol)),
            start: Numbers::of(batch, Column::Start),
            end: Numbers::of(batch, Column::End),
            span: Span::of(batch),
            flows: Numbers::of(batch, Column::Flows),
            packets: Numbers::of(batch, Column::Packets),
            bytes: Numbers::of(batch, Column::Bytes),
        }
    }

    fn push_value(&self, row: usize, width: usize, text: &mut Vec<u8>) {
        if let Some(texts) = self.texts {
            return push_text(text, texts, row, width == 0);
        }
        match self.addresses.get(row) {
            Some(octets) if octets.len() == 6 => push_mac(text, Some(octets)),
            Some(octets) if width == 0 || octets.len() == 4 => push_address(text, Some(octets)),
            // nfdump cuts addresses as in lines, in a field that is one octet wider
            Some(octets) => push_address_right(text, Some(octets), if width == VALUE_WIDTHS[0] { 16 } else { width }),
            None if self.form == ValueForm::Octets => push_address(text, None),
            None if self.form == ValueForm::Hexadecimal => {
                text.extend_from_slice(format!("{:#x}", self.numbers.or_zero(row)).as_bytes());
            }
            None => push_u64(text, self.numbers.or_zero(row)),
        }
    }

    fn push_protocol(&self, row: usize, plain: bool, text: &mut Vec<u8>) {
        match &self.protocol {
            None => text.extend_from_slice(b"any"),
            Some(protocol) if plain => push_u64(text, protocol.or_zero(row)),
            Some(protocol) => push_protocol(text, protocol.or_zero(row) as u8),
        }
    }

    fn push_line(
        &self,
        row: usize,
        width: usize,
        totals: &Totals,
        options: &Options,
        clock: &mut ZonedClock,
        text: &mut Vec<u8>,
    ) {
        clock.push(text, self.start.or_zero(row) as i64, b' ');
        text.push(b' ');
        let duration_ms = self.span.ms(row);
        match (options.plain_numbers, self.start.or_zero(row)) {
            _ if width == VALUE_WIDTHS[1] && !options.release.is_last() => push_seconds(text, duration_ms, 9),
            // 1.7.8 has no duration without a start here, and one since 1970 elsewhere
            (true, 0) if options.release.is_last() => push_seconds(text, 0, 16),
            (true, _) => push_seconds(text, duration_ms, 16),
            (false, _) => push_duration(text, duration_ms),
        }
        text.push(b' ');
        let start = text.len();
        self.push_protocol(row, options.plain_numbers, text);
        align_left(text, start, 5);
        text.push(b' ');
        if options.tag_addresses && self.is_address {
            text.push(TAG);
        }
        let start = text.len();
        if self.form == ValueForm::Flags && options.release.is_last() && !options.plain_numbers {
            text.extend_from_slice(&tcp_flags_text(self.numbers.or_zero(row) as u16));
        } else {
            self.push_value(row, width, text);
        }
        align_right(text, start, width);
        let [flows, packets, bytes] = self.counts(row);
        for (count, total) in [(flows, totals.flows), (packets, totals.packets), (bytes, totals.bytes)] {
            text.push(b' ');
            push_number(text, count, options.plain_numbers, 8);
            // writing to a vector does not fail
            let _ = write!(text, "({:4.1})", share(count, total));
        }
        text.push(b' ');
        push_number(text, per_second(packets, duration_ms), options.plain_numbers, 8);
        text.push(b' ');
        push_number(text, per_second(bytes.saturating_mul(8), duration_ms), options.plain_numbers, 8);
        text.push(b' ');
        push_u64_right(text, bytes.checked_div(packets).unwrap_or(0), 5);
        text.push(b'\n');
    }

    /// As 1.7.1 has it between commas: a number is filled up, a name is not.
    fn push_protocol_value(&self, row: usize, plain: bool, text: &mut Vec<u8>) {
        let start = text.len();
        self.push_protocol(row, plain, text);
        if text.get(start..).is_some_and(|octets| octets.iter().all(u8::is_ascii_digit)) {
            align_left(text, start, 5);
        }
    }

    fn push_values(&self, row: usize, totals: &Totals, options: &Options, clock: &mut ZonedClock, text: &mut Vec<u8>) {
        for time in [&self.start, &self.end] {
            clock.push(text, time.or_zero(row) as i64, b' ');
            // whole seconds here
            text.truncate(text.len() - 4);
            text.push(b',');
        }
        let duration_ms = self.span.ms(row);
        push_seconds(text, duration_ms, 0);
        text.push(b',');
        if options.release.is_last() {
            self.push_protocol(row, false, text);
        } else {
            self.push_protocol_value(row, options.plain_numbers, text);
        }
        text.push(b',');
        self.push_value(row, 0, text);
        let [flows, packets, bytes] = self.counts(row);
        for (count, total) in [(flows, totals.flows), (packets, totals.packets), (bytes, totals.bytes)] {
            // writing to a vector does not fail
            let _ = write!(text, ",{count},{:.1}", share(count, total));
        }
        let (pps, bps) = (per_second(packets, duration_ms), per_second(bytes.saturating_mul(8), duration_ms));
        let _ = writeln!(text, ",{pps},{bps},{}", bytes.checked_div(packets).unwrap_or(0));
    }

    fn push_object(&self, row: usize, statistic: &str, clock: &mut ZonedClock, text: &mut Vec<u8>) {
        for (key, time) in [("{ \"first\" : \"", &self.start), ("\", \"last\" : \"", &self.end)] {
            text.extend_from_slice(key.as_bytes());
            clock.push(text, time.or_zero(row) as i64, b'T');
        }
        let protocol = self.protocol.as_ref().map_or(0, |protocol| protocol.or_zero(row));
        // writing to a vector does not fail
        let _ = write!(text, "\", \"proto\" : {protocol}, \"{statistic}\" : \"");
        self.push_value(row, 0, text);
        let ([flows, packets, bytes], duration_ms) = (self.counts(row), self.span.ms(row));
        let (pps, bps) = (per_second(packets, duration_ms), per_second(bytes.saturating_mul(8), duration_ms));
        let bpp = bytes.checked_div(packets).unwrap_or(0);
        let _ = writeln!(
            text,
            "\", \"flows\" : {flows}, \"packets\" : {packets}, \"bytes\" : {bytes}, \"pps\" : {pps}, \"bps\" : {bps}, \"bpp\" : {bpp}}}"
        );
    }

    fn counts(&self, row: usize) -> [u64; 3] {
        [&self.flows, &self.packets, &self.bytes].map(|counter| counter.or_zero(row))
    }
}

fn share(count: u64, total: u64) -> f64 {
    if total == 0 { 0.0 } else { count as f64 * 100.0 / total as f64 }
}
