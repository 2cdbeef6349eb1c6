//! Where every field of a record has to be in the flow that it became: in the column of its element, or among the
//! elements without a column. This states the rule a second time, from the table of columns alone.

use std::collections::BTreeMap;

use weir_flow::registry::{self, DataType};
use weir_flow::{Column, ColumnType};
use weir_wire::{ElementId, value};

use crate::inputs::Datagram;
use crate::rows::{Cell, Row};
use crate::walk::{Field, HeaderSeen, Record};

/// Columns that tell about the datagram and not about the record.
const OF_THE_DATAGRAM: [Column; 8] = [
    Column::Received,
    Column::Exporter,
    Column::ObservationDomain,
    Column::ExportVersion,
    Column::EngineType,
    Column::EngineId,
    Column::SamplingInterval,
    Column::TimeFlags,
];

/// Compares a flow with the record that it came from. Yields what is wrong.
pub(crate) fn check(datagram: &Datagram, header: &HeaderSeen, record: &Record, row: &Row) -> Vec<String> {
    let mut problems = of_the_datagram(datagram, header, row);
    let (cells, elements) = expected(header, record);
    for (column, wanted) in &cells {
        if row.cells.get(column) != Some(wanted) {
            problems.push(format!("{column} is {:?}, not {wanted:?}", row.cells.get(column)));
        }
    }
    let flags = time_flags(datagram, header, record, row);
    if row.cells.get(&Column::TimeFlags) != flags.as_ref() {
        problems.push(format!("time_flags is {:?}, not {flags:?}", row.cells.get(&Column::TimeFlags)));
    }
    for (column, found) in &row.cells {
        let in_list = in_a_list(*column, row).as_ref() == Some(found);
        let is_named = *column == Column::Application && has_application_number(record);
        if !cells.contains_key(column) && !OF_THE_DATAGRAM.contains(column) && !in_list && !is_named {
            problems.push(format!("{column} is {found:?} and nothing says so: {:?}", row.nested));
        }
    }
    let mut found = row.elements.clone();
    found.sort();
    if found != elements {
        problems.push(format!("elements are {found:?}, not {elements:?}"));
    }
    problems
}

fn of_the_datagram(datagram: &Datagram, header: &HeaderSeen, row: &Row) -> Vec<String> {
    let exporter = weir_flow::address::with_octets(datagram.source.ip(), <[u8]>::to_vec);
    let mut wanted = vec![
        (Column::Received, Cell::Time(datagram.received_ms)),
        (Column::Exporter, Cell::Octets(exporter)),
        (Column::ObservationDomain, Cell::Number(header.domain.into())),
        (Column::ExportVersion, Cell::Number(header.version.into())),
    ];
    if header.version == 5 && header.sampling_interval > 0 {
        wanted.push((Column::SamplingInterval, Cell::Number(header.sampling_interval.into())));
    }
    let wrong = wanted.into_iter().filter(|(column, cell)| row.cells.get(column) != Some(cell));
    wrong.map(|(column, cell)| format!("{column} is {:?}, not {cell:?}", row.cells.get(&column))).collect()
}

/// Whether a record has the number of an application, which stands for a name: applicationId, or the label of YAF.
fn has_application_number(record: &Record) -> bool {
    record.fields.iter().any(|field| matches!((field.element.enterprise, field.element.id), (0, 95) | (6871, 33)))
}

/// YAF tells the flags of the first packet and of the others apart, and those of the other direction with bit 14 set.
fn yaf_flags(enterprise: u32, id: u16) -> Option<Column> {
    match (enterprise, id) {
        (6871, 14 | 15) => Some(Column::TcpFlags),
        (6871, 16_398 | 16_399) => Some(Column::TcpFlagsReverse),
        _ => None,
    }
}

/// The only value for a column among what is in lists; of several that one name, or the flags that YAF has in parts.
pub(crate) fn in_a_list(column: Column, row: &Row) -> Option<Cell> {
    let of_column = |(enterprise, id): (u32, u16)| {
        yaf_flags(enterprise, id) == Some(column)
            || Column::of_element(enterprise, id).map(|(column, _)| column) == Some(column)
    };
    let values: Vec<_> = row.nested.iter().filter(|(enterprise, id, _)| of_column((*enterprise, *id))).collect();
    let are_parts = values.iter().all(|(enterprise, id, _)| yaf_flags(*enterprise, *id).is_some());
    match (column.column_type(), &values[..]) {
        (_, []) => None,
        (ColumnType::Text, [(.., octets), others @ ..]) => {
            let only = others.iter().all(|(.., other)| other == octets);
            only.then(|| text_of(column, octets)).flatten().map(|(text, _)| Cell::Octets(text))
        }
        (_, [_, _, ..]) if !are_parts => None,
        (ColumnType::Address | ColumnType::Mac | ColumnType::Octets, [(.., octets), ..]) => {
            Some(Cell::Octets(octets.clone()))
        }
        // YAF's flags of the first packet and of the others
        _ => Some(Cell::Number(values.iter().filter_map(|(.., octets)| value::be_uint(octets)).fold(0, |a, b| a | b))),
    }
}

/// What is wrong with the times of a flow, by the sentence that documents the column.
fn time_flags(datagram: &Datagram, header: &HeaderSeen, record: &Record, row: &Row) -> Option<Cell> {
    let time = |column| match row.cells.get(&column) {
        Some(Cell::Time(ms)) => Some(*ms),
        _ => None,
    };
    let (start, end) = (time(Column::Start), time(Column::End));
    let (ahead, behind) = (datagram.received_ms + 300_000, datagram.received_ms - 86_400_000);
    let uptimes =
        || record.fields.iter().filter(|field| field.element.enterprise == 0 && matches!(field.element.id, 21 | 22));
    let used = |field: &Field| {
        let column = if field.element.id == 22 { Column::Start } else { Column::End };
        let better = column.spec().elements.iter().any(|id| !matches!(id, 21 | 22) && record.iana(*id).is_some());
        !better && field.length > 0
    };
    let base = header.uptime_ms.is_some() || record.system_init_ms.is_some() || record.iana(160).is_some();
    let mut flags = 0;
    let mut set = |bit, condition| flags |= if condition { bit } else { 0 };
    set(1, header.export_ms < 946_684_800_000);
    set(2, header.export_ms >= 946_684_800_000 && header.export_ms > ahead);
    set(4, header.export_ms >= 946_684_800_000 && header.export_ms < behind);
    set(8, start.zip(end).is_some_and(|(start, end)| end < start));
    set(16, [start, end].into_iter().flatten().any(|time| time > ahead));
    set(32, end.is_some_and(|end| end < behind));
    set(64, !base && uptimes().any(used));
    set(128, uptimes().any(|field| used(field) && value::be_uint(&field.octets).is_some_and(|v| v >= 946_684_800_000)));
    (flags != 0).then_some(Cell::Number(flags))
}

type Elements = Vec<(u32, u16, Vec<u8>)>;

/// Columns and elements that a record has to become.
fn expected(header: &HeaderSeen, record: &Record) -> (BTreeMap<Column, Cell>, Elements) {
    let (mut cells, mut elements) = (BTreeMap::new(), Vec::new());
    let winners = winners(record);
    let event = event_time(header, record, &mut cells);
    for (position, field) in record.fields.iter().enumerate() {
        let padding = field.element.enterprise == 0 && field.element.id == 210;
        if padding || field.length == 0 {
            continue;
        }
        if let Some(column) = text_column(field) {
            let (shown, needs_no_place) = place_text(column, record, position);
            cells.extend(shown.map(|text| (column, Cell::Octets(text))));
            if !needs_no_place {
                elements.push((field.element.enterprise, field.element.id, field.octets.clone()));
            }
            continue;
        }
        let winner = winners.iter().find(|(_, fields)| fields.contains(&position));
        let kept = match winner {
            Some((column, fields)) if CHOICES.contains(column) && fields.len() > 1 => {
                let meant = meant(*column, fields, record);
                let number = meant.and_then(|meant| value::be_uint(&record.fields[meant].octets));
                cells.extend(number.map(|number| (*column, Cell::Number(number))));
                meant == Some(position) || !is_set(field)
            }
            Some((column, fields)) if fields.len() == 2 => {
                let both = [&record.fields[fields[0]], &record.fields[fields[1]]];
                place_either(*column, both, (record, field), &mut cells)
            }
            Some((column, _)) => match cell(*column, header, record, time_meant(*column, record, field)) {
                Some(cell) => {
                    cells.insert(*column, cell);
                    keeps_all(*column, header, record, field)
                }
                None => false,
            },
            None => event == Some(position) && matches!(field.element.id, 322 | 323),
        };
        if !kept {
            elements.push((field.element.enterprise, field.element.id, field.octets.clone()));
        }
    }
    for column in [Column::TcpFlags, Column::TcpFlagsReverse] {
        let fields = record.fields.iter();
        let parts = fields.filter(|field| yaf_flags(field.element.enterprise, field.element.id) == Some(column));
        let bits: Vec<_> = parts.filter_map(|field| value::be_uint(&field.octets)).collect();
        if bits.len() == 2 && !cells.contains_key(&column) {
            cells.insert(column, Cell::Number(bits[0] | bits[1]));
        }
    }
    if let Some(octets) = frame_octets(record, &winners) {
        cells.insert(Column::Bytes, Cell::Number(octets));
    }
    let of_icmp = matches!(cells.get(&Column::Protocol), Some(Cell::Number(1 | 58)));
    let of_ipv6 = cells.get(&Column::Protocol) == Some(&Cell::Number(58));
    let icmp_of_ipv6 = record.iana(139).filter(|_| of_ipv6).and_then(|field| value::be_uint(&field.octets));
    let of_column = match cells.get(&Column::IcmpTypeCode) {
        Some(&Cell::Number(both)) => Some(both),
        _ => None,
    };
    if let Some(both) = of_column.and(icmp_of_ipv6).or(of_column)
        && (of_icmp || !winners.contains_key(&Column::Protocol))
    {
        for (column, part) in [(Column::IcmpType, both / 256), (Column::IcmpCode, both % 256)] {
            if !winners.contains_key(&column) {
                cells.insert(column, Cell::Number(part));
            }
        }
    }
    elements.sort();
    (cells, elements)
}

fn text_column(field: &Field) -> Option<Column> {
    let (column, _) = Column::of_element(field.element.enterprise, field.element.id)?;
    (column.column_type() == ColumnType::Text && field.length > 0).then_some(column)
}

/// The octets of a field without what fills it up.
fn said(field: &Field) -> &[u8] {
    let octets = &field.octets[..];
    &octets[..octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1)]
}

/// A text as its column has it, and whether that is all of it.
fn text_of(column: Column, octets: &[u8]) -> Option<(Vec<u8>, bool)> {
    if column == Column::Ja3 && octets.len() == 16 {
        let digits = octets.iter().fold(String::new(), |digits, octet| digits + &format!("{octet:02x}"));
        return Some((digits.into_bytes(), true));
    }
    let octets = String::from_utf8_lossy(octets).into_owned();
    let octets = octets.trim_end_matches('\0');
    let text: String = octets.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect();
    (!text.is_empty()).then(|| (text.clone().into_bytes(), text == octets && !text.contains('\u{fffd}')))
}

/// What a column of text gets of a field, and whether the field needs no place among the elements: the first of the
/// preferred element that says anything is shown, and others that say the same are not repeated.
fn place_text(column: Column, record: &Record, position: usize) -> (Option<Vec<u8>>, bool) {
    let fields = record.fields.iter().enumerate().filter(|(_, field)| text_column(field) == Some(column));
    let rank = |field: &Field| Column::of_element(field.element.enterprise, field.element.id).map(|found| found.1);
    let shown = fields.filter(|(_, field)| !said(field).is_empty()).min_by_key(|(at, field)| (rank(field), *at));
    let Some((at, shown)) = shown else { return (None, true) };
    let field = &record.fields[position];
    let octets = if column == Column::Ja3 && shown.octets.len() == 16 { &shown.octets[..] } else { said(shown) };
    let Some((text, is_whole)) = text_of(column, octets) else { return (None, true) };
    ((at == position).then_some(text), said(field).is_empty() || said(field) == said(shown) && is_whole)
}

/// Columns that exporters have several fields for and fill with zeros but for one.
const CHOICES: [Column; 8] = [
    Column::SrcPort,
    Column::DstPort,
    Column::IcmpType,
    Column::IcmpCode,
    Column::SrcMask,
    Column::DstMask,
    Column::SrcVlan,
    Column::DstVlan,
];

/// Whether a record has several fields for a column, of which it is decided by record which is meant.
pub(crate) fn is_chosen(record: &Record, column: Column) -> bool {
    CHOICES.contains(&column) && winners(record).get(&column).is_some_and(|fields| fields.len() > 1)
}

fn is_set(field: &Field) -> bool {
    field.octets.iter().any(|octet| *octet != 0)
}

/// The field with the time of a column of times: in place of one that is 0, the best of those that are set. Of other
/// columns the field itself.
pub(crate) fn time_meant<'r>(column: Column, record: &'r Record, field: &'r Field) -> &'r Field {
    if column.column_type() != ColumnType::Time || is_set(field) {
        return field;
    }
    let rank = |field: &Field| {
        let (of_element, rank) = Column::of_element(field.element.enterprise, field.element.id)?;
        (of_element == column && fits(column, field) && is_set(field)).then_some(rank)
    };
    let set = record.fields.iter().filter_map(|field| Some((rank(field)?, field)));
    set.min_by_key(|(rank, _)| *rank).map_or(field, |(_, field)| field)
}

/// Whether a flow is of IPv6, in a record with addresses of both families: by the source, or by the destination where
/// the source is not set.
fn is_ipv6(record: &Record) -> Option<bool> {
    let winners = winners(record);
    let pairs = [Column::SrcAddr, Column::DstAddr].map(|column| winners.get(&column).filter(|pair| pair.len() == 2));
    let mut pairs = pairs.into_iter().flatten().peekable();
    pairs.peek()?;
    let set = pairs.find_map(|pair| pair.iter().rev().find(|position| is_set(&record.fields[**position])));
    Some(set.is_some_and(|&position| record.fields[position].length == 16))
}

/// Of the fields of a choice the one that a record means: that of the version of ICMP by the protocol, if there is one,
/// and that of the family of the addresses; else the first that is set, or the first.
fn meant(column: Column, fields: &[usize], record: &Record) -> Option<usize> {
    let protocol = winners(record).get(&Column::Protocol).map(|fields| &record.fields[fields[0]]);
    match (column, protocol) {
        (Column::IcmpType | Column::IcmpCode, Some(protocol)) => match value::be_uint(&protocol.octets)? {
            1 => Some(fields[0]),
            58 => Some(fields[usize::from(!has_icmpv6_as_icmp(record))]),
            _ => None,
        },
        (Column::SrcMask | Column::DstMask, _) if is_ipv6(record).is_some() => {
            Some(fields[usize::from(is_ipv6(record) == Some(true))])
        }
        _ => {
            let set = fields.iter().find(|position| is_set(&record.fields[**position]));
            set.or(fields.first()).copied()
        }
    }
}

/// Whether a record of ICMPv6 has its type in the field of ICMP: its own is there and says 0, which is no type.
fn has_icmpv6_as_icmp(record: &Record) -> bool {
    record.iana(176).is_some_and(is_set) && record.iana(178).is_some_and(|of_ipv6| !is_set(of_ipv6))
}

/// Addresses of both families for one column: the one that is set, the innermost when both are, that of the flow's
/// family when none is. Yields whether `field` needs no place among the elements.
fn place_either(
    column: Column,
    both: [&Field; 2],
    (record, field): (&Record, &Field),
    cells: &mut BTreeMap<Column, Cell>,
) -> bool {
    let length = if is_ipv6(record) == Some(true) { 16 } else { 4 };
    let zeros = if both[0].length == length { both[0] } else { both[1] };
    let chosen = both.into_iter().rev().find(|field| is_set(field)).unwrap_or(zeros);
    cells.insert(column, Cell::Octets(chosen.octets.clone()));
    field == chosen || !is_set(field)
}

/// Columns of what headers of packets say; of a tunnel's packets the inner ones are meant, which stand last.
const INNERMOST: [Column; 7] = [
    Column::SrcAddr,
    Column::DstAddr,
    Column::SrcPort,
    Column::DstPort,
    Column::Protocol,
    Column::TcpFlags,
    Column::Tos,
];

/// Counters after the Observation Point, and those that they are where a record has none of these, nor may have them in a
/// list or a section of a packet.
pub(crate) const COUNTERS_OUT: [(Column, Column); 2] =
    [(Column::BytesOut, Column::Bytes), (Column::PacketsOut, Column::Packets)];

/// Octets of frames in a record that has no others, nor a list or a section of a packet that may have them.
fn frame_octets(record: &Record, winners: &BTreeMap<Column, Vec<usize>>) -> Option<u64> {
    let has_column = |column: &Column| winners.contains_key(column);
    let has_others = has_column(&Column::Bytes) || has_nested(record, has_column);
    record.iana(352).filter(|_| !has_others).and_then(|field| value::be_uint(&field.octets))
}

/// Whether a record has a list, or a section of a packet whose addresses it does not have: the counters of the flow may
/// be in there.
fn has_nested(record: &Record, has_column: impl Fn(&Column) -> bool) -> bool {
    let has_any = |ids: &[u16]| ids.iter().any(|id| record.iana(*id).is_some());
    let has_addresses = has_column(&Column::SrcAddr) || has_column(&Column::DstAddr);
    has_any(&[291, 292, 293]) || has_any(&[104, 313, 315, 316]) && !has_addresses
}

/// Which fields fill which column: the one whose element stands first in the table of columns, and of an address
/// the other family as well.
fn winners(record: &Record) -> BTreeMap<Column, Vec<usize>> {
    let mut claims: BTreeMap<Column, Vec<(usize, usize)>> = BTreeMap::new();
    for (position, field) in record.fields.iter().enumerate() {
        let Some((column, rank)) = Column::of_element(field.element.enterprise, field.element.id) else { continue };
        if fits(column, field) {
            claims.entry(column).or_default().push((rank, position));
        }
    }
    let has_column = |column: &Column| claims.contains_key(column);
    // a list of records may have those of the flow
    let has_records = [292, 293].iter().any(|id| record.iana(*id).is_some());
    if !COUNTERS_OUT.iter().any(|(_, counter)| has_column(counter)) && !has_records {
        for (counter_out, counter) in COUNTERS_OUT {
            if let Some(of_out) = claims.remove(&counter_out) {
                claims.insert(counter, of_out);
            }
        }
    }
    let winner = |(column, claims): (Column, Vec<(usize, usize)>)| {
        let best = |claims: &mut dyn Iterator<Item = &(usize, usize)>| {
            let by_rank = claims.fold(None, |best: Option<(usize, usize)>, &claim| match best {
                Some(best) if best.0 < claim.0 => Some(best),
                Some(best) if best.0 == claim.0 && !INNERMOST.contains(&column) => Some(best),
                _ => Some(claim),
            });
            by_rank.map(|(_, position)| position)
        };
        let length = |position: usize| record.fields[position].length;
        let mut fields: Vec<usize> = best(&mut claims.iter()).into_iter().collect();
        if column.column_type() == ColumnType::Address {
            let other = best(&mut claims.iter().filter(|claim| length(claim.1) != length(fields[0])));
            fields.extend(other);
            fields.sort_unstable();
        }
        if CHOICES.contains(&column) {
            let mut ranks: Vec<usize> = claims.iter().map(|claim| claim.0).collect();
            ranks.sort_unstable();
            ranks.dedup();
            let all = ranks.iter().filter_map(|rank| best(&mut claims.iter().filter(|claim| claim.0 == *rank)));
            let all: Vec<usize> = all.collect();
            let widest = all.iter().map(|&position| record.fields[position].length).max().unwrap_or(0);
            if widest <= (limit(column).count_ones() / 8) as u16 {
                fields = all;
            }
        }
        (column, fields)
    };
    claims.into_iter().map(winner).collect()
}

fn fits(column: Column, field: &Field) -> bool {
    match column.column_type() {
        ColumnType::Address => {
            let v6 = registry::element(0, field.element.id).map(|e| e.data_type) == Some(DataType::Ipv6Address);
            field.length == if v6 { 16 } else { 4 }
        }
        ColumnType::Mac => field.length == 6,
        ColumnType::Octets => field.length > 0,
        _ => field.length == 65535 || (1..=8).contains(&field.length),
    }
}

/// Largest number that a column holds.
fn limit(column: Column) -> u64 {
    match column.column_type() {
        ColumnType::U8 => u8::MAX.into(),
        ColumnType::U16 => u16::MAX.into(),
        ColumnType::U32 => u32::MAX.into(),
        _ => u64::MAX,
    }
}

fn cell(column: Column, header: &HeaderSeen, record: &Record, field: &Field) -> Option<Cell> {
    match column.column_type() {
        ColumnType::Address | ColumnType::Mac | ColumnType::Octets => Some(Cell::Octets(field.octets.clone())),
        ColumnType::Time => time_ms(header, record, field).map(|ms| Cell::Time(before_end(header, record, field, ms))),
        _ => value::be_uint(&field.octets).filter(|value| *value <= limit(column)).map(Cell::Number),
    }
}

/// Whether the column can hold whatever the field can say; if not, the field is also kept among the elements.
fn keeps_all(column: Column, header: &HeaderSeen, record: &Record, field: &Field) -> bool {
    match column.column_type() {
        ColumnType::U8 => field.length <= 1,
        ColumnType::U16 => field.length <= 2,
        ColumnType::U32 => field.length <= 4,
        ColumnType::U64 => field.length <= 8,
        ColumnType::Time => match field.element.id {
            150..=153 => true,
            21 | 22 => header.version != 10 && record.iana(160).is_none(),
            _ => false,
        },
        _ => true,
    }
}

/// A start by an uptime that comes out after the end and after the export is once around the counter before.
fn before_end(header: &HeaderSeen, record: &Record, field: &Field, start_ms: i64) -> i64 {
    let counts = |field: &&Field| value::be_uint(&field.octets).is_some_and(|uptime| uptime < 946_684_800_000);
    let is_start = field.element == ElementId::iana(22) && counts(&field);
    let end = record.iana(21).filter(counts).filter(|_| is_start);
    match end.and_then(|end| time_ms(header, record, end)) {
        Some(end_ms) if start_ms > end_ms && start_ms > header.export_ms + 300_000 => start_ms - (1 << 32),
        _ => start_ms,
    }
}

/// A time as milliseconds since 1970, by the registry's type of the element.
pub(crate) fn time_ms(header: &HeaderSeen, record: &Record, field: &Field) -> Option<i64> {
    let number = || value::be_uint(&field.octets);
    let ntp = |(secs, nanos): (i64, u32)| secs * 1000 + i64::from(nanos / 1_000_000);
    match field.element.id {
        21 | 22 => {
            if let Some(init) = record.iana(160).and_then(|init| value::be_uint(&init.octets)) {
                return Some(init as i64 + number()? as i64);
            }
            let derived = || Some((header.export_ms - record.system_init_ms?) as u32);
            let uptime_ms = header.uptime_ms.or_else(derived)?;
            Some(header.export_ms - i64::from(uptime_ms.wrapping_sub(number()? as u32) as i32))
        }
        150 | 151 | 322 => Some(number()? as i64 * 1000),
        152 | 153 | 323 => Some(i64::try_from(number()?).unwrap_or(i64::MAX)),
        // RFC 5905 section 6: an NTP timestamp of 0 is no time
        154..=157 | 324 | 325 => value::date_time_nanos(&field.octets).filter(|_| number() != Some(0)).map(ntp),
        158 | 159 => Some(header.export_ms - (number()? / 1000) as i64),
        _ => None,
    }
}

/// The only time of an event is its start and its end. Yields which field it is, if it went to a column.
fn event_time(header: &HeaderSeen, record: &Record, cells: &mut BTreeMap<Column, Cell>) -> Option<usize> {
    let is_event = |field: &Field| field.element.enterprise == 0 && (322..=325).contains(&field.element.id);
    let position = record.fields.iter().position(is_event)?;
    let time = time_ms(header, record, &record.fields[position])?;
    let claimed = |column: Column| column.spec().elements.iter().any(|id| record.iana(*id).is_some());
    let columns: Vec<_> = [Column::Start, Column::End].into_iter().filter(|column| !claimed(*column)).collect();
    cells.extend(columns.iter().map(|column| (*column, Cell::Time(time))));
    (!columns.is_empty()).then_some(position)
}
