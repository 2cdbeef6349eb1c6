//! What another implementation says about a record, and whether we agree: with the octets read by the registry's
//! type, and with the flow that became of them.

use std::net::IpAddr;

use weir_flow::Column;
use weir_flow::registry::{self, DataType};
use weir_wire::{ElementId, value};

use crate::placement;
use crate::rows::{Cell, Row};
use crate::walk::{Field, HeaderSeen, Record};

/// A value as another implementation prints it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    Number(u64),
    Address(IpAddr),
    /// Octets as they are.
    Octets(Vec<u8>),
    /// Text without the zeros that fill it up.
    Text(String),
    /// Milliseconds since 1970.
    Time(i64),
}

/// One field as another implementation names it.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedField {
    /// Its name there.
    pub name: String,
    /// The element, when the name is known to the registry or to a table of that implementation's names.
    pub element: ElementId,
    pub value: Expected,
}

/// How much was compared, and what was different.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    pub records: usize,
    pub values: usize,
    /// Field and what is different.
    pub differences: Vec<(String, String)>,
}

impl Verdict {
    pub(crate) fn differ(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.differences.push((field.into(), what.into()));
    }

    #[allow(clippy::needless_pass_by_value, reason = "reads like assert_eq")]
    pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(&mut self, field: &str, ours: T, theirs: T) {
        self.values += 1;
        if ours != theirs {
            self.differ(field, format!("ours {ours:?}, theirs {theirs:?}"));
        }
    }

    pub(crate) fn add(&mut self, other: Verdict) {
        self.records += other.records;
        self.values += other.values;
        self.differences.extend(other.differences);
    }
}

/// A value read by the type that the registry gives its element.
fn read(element: ElementId, octets: &[u8]) -> Option<Expected> {
    let data_type = registry::element(element.enterprise, element.id).map_or(DataType::OctetArray, |e| e.data_type);
    Some(match data_type {
        DataType::Unsigned(_) | DataType::Boolean => Expected::Number(value::be_uint(octets)?),
        DataType::Signed(_) => Expected::Number(value::be_int(octets)?.try_into().ok()?),
        DataType::Ipv4Address => Expected::Address(value::ipv4_address(octets)?.into()),
        DataType::Ipv6Address => Expected::Address(value::ipv6_address(octets)?.into()),
        DataType::Text => Expected::Text(text(octets)?),
        DataType::DateTimeSeconds => Expected::Time(i64::from(value::date_time_secs(octets)?) * 1000),
        DataType::DateTimeMilliseconds => Expected::Time(value::date_time_millis(octets)? as i64),
        DataType::DateTimeMicroseconds => ntp(value::date_time_micros(octets)?),
        DataType::DateTimeNanoseconds => ntp(value::date_time_nanos(octets)?),
        DataType::MacAddress
        | DataType::OctetArray
        | DataType::BasicList
        | DataType::SubTemplateList
        | DataType::SubTemplateMultiList
        | DataType::Float(_) => Expected::Octets(octets.to_vec()),
    })
}

/// A value read in the form that the other implementation chose, where there is a choice.
fn read_like(header: &HeaderSeen, record: &Record, field: &Field, theirs: &Expected) -> Option<Expected> {
    match (read(field.element, &field.octets)?, theirs) {
        // times as numbers in the unit of the wire, uptimes as the time that they mean
        (Expected::Time(_), Expected::Number(_)) => value::be_uint(&field.octets).map(Expected::Number),
        (Expected::Number(_), Expected::Time(_)) => placement::time_ms(header, record, field).map(Expected::Time),
        // octets of elements that are not in the registry
        (Expected::Octets(octets), Expected::Number(_)) => value::be_uint(&octets).map(Expected::Number),
        (Expected::Octets(octets), Expected::Text(_)) => text(&octets).map(Expected::Text),
        (Expected::Octets(octets), Expected::Address(_)) => weir_flow::address::to_ip(&octets).map(Expected::Address),
        (Expected::Number(_) | Expected::Text(_), Expected::Octets(_)) => Some(Expected::Octets(field.octets.clone())),
        (value, _) => Some(value),
    }
}

fn ntp((secs, nanos): (i64, u32)) -> Expected {
    Expected::Time(secs * 1000 + i64::from(nanos / 1_000_000))
}

/// Text up to its first zero.
pub(crate) fn text(octets: &[u8]) -> Option<String> {
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    String::from_utf8(octets[..end].to_vec()).ok()
}

/// Compares one record: every field that the other implementation prints with a field of the record, and, for a
/// flow, with what the flow's columns say. Fields of the record that it does not print are not looked at.
pub(crate) fn compare(header: &HeaderSeen, record: &Record, row: Option<&Row>, theirs: &[ExpectedField]) -> Verdict {
    let mut verdict = Verdict { records: 1, ..Verdict::default() };
    let mut used = vec![false; record.fields.len()];
    for expected in theirs {
        verdict.values += 1;
        // An element may occur more than once, and then the n-th of theirs is the n-th of ours.
        let position =
            record.fields.iter().enumerate().position(|(position, field)| {
                !used[position] && field.element == expected.element && !field.scope_type
            });
        let Some(position) = position else {
            verdict.differ(&expected.name, format!("they have {:?}, we have no such field", expected.value));
            continue;
        };
        used[position] = true;
        let field = &record.fields[position];
        let ours = read_like(header, record, field, &expected.value);
        if ours.as_ref() != Some(&expected.value) {
            verdict.differ(&expected.name, format!("ours {ours:?}, theirs {:?}", expected.value));
        } else if let Some(row) = row
            && let Err(problem) = in_flow(header, record, row, field, &expected.value)
        {
            verdict.differ(&expected.name, problem);
        }
    }
    verdict
}

/// Whether the flow says what the other implementation says of this field.
fn in_flow(header: &HeaderSeen, record: &Record, row: &Row, field: &Field, theirs: &Expected) -> Result<(), String> {
    let ElementId { enterprise, id } = field.element;
    let kept = (enterprise, id, field.octets.clone());
    if row.elements.contains(&kept) || field.octets.is_empty() || (enterprise, id) == (0, 210) {
        return Ok(());
    }
    let Some((column, _)) = Column::of_element(enterprise, id) else {
        // The time of an event is its start and its end.
        let time = placement::time_ms(header, record, field).map(Cell::Time);
        if (322..=325).contains(&id)
            && [Column::Start, Column::End].iter().any(|column| row.cells.get(column) == time.as_ref())
        {
            return Ok(());
        }
        return Err(format!("{enterprise}/{id} has no column and is not among the elements"));
    };
    let counter = placement::COUNTERS_OUT.iter().find(|(counter_out, _)| *counter_out == column);
    let found = row.cells.get(&column).or_else(|| counter.and_then(|(_, counter)| row.cells.get(counter)));
    let agrees = match (found, theirs) {
        (Some(Cell::Number(ours)), Expected::Number(theirs)) => {
            ours == theirs || *theirs == 0 && placement::is_chosen(record, column)
        }
        (Some(Cell::Octets(ours)), Expected::Address(theirs)) => {
            weir_flow::address::to_ip(ours) == Some(*theirs) || other_family_is_set(record, column, field)
        }
        (Some(Cell::Octets(ours)), Expected::Octets(theirs)) => ours == theirs,
        (Some(Cell::Octets(ours)), Expected::Text(theirs)) => ours == theirs.as_bytes(),
        // Times in another unit, or uptimes, are compared with what they mean.
        (Some(Cell::Time(ours)), Expected::Number(_) | Expected::Time(_)) => {
            placement::time_ms(header, record, field) == Some(*ours)
                || placement::time_meant(column, record, field) != field
        }
        (Some(Cell::Octets(ours)), Expected::Number(theirs)) => value::be_uint(ours) == Some(*theirs),
        _ => false,
    };
    if agrees { Ok(()) } else { Err(format!("{column} is {found:?}, theirs {theirs:?}")) }
}

/// Whether this is the address of zeros in a record that has an address of the other family for the same column.
fn other_family_is_set(record: &Record, column: Column, field: &Field) -> bool {
    let zeros = field.octets.iter().all(|octet| *octet == 0);
    zeros
        && record.fields.iter().any(|other| {
            other.length != field.length
                && Column::of_element(other.element.enterprise, other.element.id).map(|(column, _)| column)
                    == Some(column)
        })
}
