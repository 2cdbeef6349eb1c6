//! How each version carries each column, derived from the column table of `weir-flow` and, for NetFlow v5, the table of
//! its record in `weir-wire`.

use weir_flow::registry::{NTOP_ENTERPRISE, NTOP_NETFLOW9_BASE, REVERSE_ENTERPRISE};
use weir_flow::{Column, ColumnType};
use weir_wire::fixed::FixedField;
use weir_wire::{VARIABLE_LENGTH, netflow5};

use crate::config::Version;

/// How a version carries a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carriage {
    /// Octets of the field; [`VARIABLE_LENGTH`] when each record states them. Addresses have this many in IPv4.
    pub width: u16,
    /// Whose elements they are; 0 for those of IANA.
    pub enterprise: u32,
    /// Elements for IPv4 and IPv6, the same when the family does not matter. Meaningless in NetFlow v5.
    pub elements: [u16; 2],
}

/// Columns that a collector fills about the transport of a flow and about its times. An exporter neither sends them nor
/// counts them as left out.
pub(crate) fn is_transport(column: Column) -> bool {
    matches!(
        column,
        Column::Received | Column::Exporter | Column::ObservationDomain | Column::ExportVersion | Column::TimeFlags
    )
}

/// Whether a column of the opposite direction goes out in a record of its own: NetFlow v5 has none of both directions.
pub(crate) fn is_of_another_record(version: Version, column: Column) -> bool {
    use Column as C;
    let of_reverse =
        matches!(column, C::BytesReverse | C::PacketsReverse | C::TcpFlagsReverse | C::StartReverse | C::EndReverse);
    version == Version::V5 && of_reverse
}

/// How `version` carries `column`; `None` when it cannot.
pub(crate) fn carriage(version: Version, column: Column) -> Option<Carriage> {
    if is_transport(column) || column == Column::Elements {
        return None;
    }
    let spec = column.spec();
    let width = width(version, column)?;
    // RFC 5103 section 6.1: the opposite direction has the elements of this one, under a number of its own
    if let (Version::Ipfix, Some(reverse)) = (version, spec.reverse_elements.first()) {
        return Some(Carriage { width, enterprise: REVERSE_ENTERPRISE, elements: [*reverse; 2] });
    }
    let Some(&first) = spec.elements.first() else { return of_enterprise(version, column, width) };
    let elements = match column {
        Column::Start if version == Version::V9 => [22; 2],
        Column::End if version == Version::V9 => [21; 2],
        Column::SamplingInterval if version == Version::V9 => [34; 2],
        Column::SamplerId if version == Version::V9 => [48; 2],
        _ if differs_by_family(column) => [first, *spec.elements.get(1)?],
        _ => [first; 2],
    };
    Some(Carriage { width, enterprise: 0, elements })
}

/// How a version carries a column that IANA has no element for. `NetFlow` v9 has no enterprise numbers, and field types
/// of ntop's elements alone.
fn of_enterprise(version: Version, column: Column, width: u16) -> Option<Carriage> {
    let (enterprise, id) = match (version, column.preferred_element()?) {
        (Version::Ipfix, element) => element,
        (Version::V9, (NTOP_ENTERPRISE, id)) => (0, NTOP_NETFLOW9_BASE.checked_add(id)?),
        (Version::V9 | Version::V5, _) => return None,
    };
    Some(Carriage { width, enterprise, elements: [id; 2] })
}

/// In place of the numbers of autonomous systems that do not fit into two octets (RFC 6793 section 9).
pub(crate) const AS_TRANS: u32 = 23_456;

/// Columns of autonomous systems, which have two octets in NetFlow v5.
pub(crate) fn is_system(column: Column) -> bool {
    matches!(column, Column::SrcAs | Column::DstAs)
}

/// Whether IPv4 and IPv6 have elements of their own; they are the first two in the table then.
fn differs_by_family(column: Column) -> bool {
    column.column_type() == ColumnType::Address
        || matches!(
            column,
            Column::SrcMask | Column::DstMask | Column::IcmpType | Column::IcmpCode | Column::IcmpTypeCode
        )
}

/// The field of a record of NetFlow v5 that has one of the column's elements.
pub(crate) fn field_of_version_5(column: Column) -> Option<&'static FixedField> {
    let elements = column.spec().elements;
    netflow5::FORMAT.fields.iter().find(|field| field.element.is_some_and(|element| elements.contains(&element)))
}

fn width(version: Version, column: Column) -> Option<u16> {
    let native = match column.column_type() {
        ColumnType::U8 => 1,
        ColumnType::U16 => 2,
        ColumnType::U64 => 8,
        ColumnType::Time if version == Version::Ipfix => 8,
        ColumnType::U32 | ColumnType::Address | ColumnType::Time => 4,
        ColumnType::Mac => 6,
        ColumnType::Octets | ColumnType::Text | ColumnType::Elements => VARIABLE_LENGTH,
    };
    match version {
        Version::V5 => field_of_version_5(column).map(|field| field.length as u16),
        // RFC 3954 section 8: one octet of TCP flags. Variable lengths are not defined.
        Version::V9 if column == Column::TcpFlags => Some(1),
        Version::V9 => (native != VARIABLE_LENGTH).then_some(native),
        Version::Ipfix => Some(native),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, column: Column, expected: Option<(u16, [u16; 2])>) {
        let found = carriage(version, column).map(|carriage| (carriage.width, carriage.elements));
        assert_eq!(found, expected, "{version} {column}");
    }

    #[test]
    fn elements_of_each_version() {
        check(Version::V9, Column::Start, Some((4, [22, 22])));
        check(Version::Ipfix, Column::Start, Some((8, [152, 152])));
        check(Version::V9, Column::SrcAddr, Some((4, [8, 27])));
        check(Version::Ipfix, Column::DstMask, Some((1, [13, 30])));
        check(Version::V9, Column::TcpFlags, Some((1, [6, 6])));
        check(Version::Ipfix, Column::TcpFlags, Some((2, [6, 6])));
        check(Version::V9, Column::ApplicationId, None);
        check(Version::Ipfix, Column::ApplicationId, Some((VARIABLE_LENGTH, [95, 95])));
        check(Version::Ipfix, Column::ServerName, Some((VARIABLE_LENGTH, [808, 808])));
        check(Version::V9, Column::ServerName, None);
        check(Version::Ipfix, Column::Retransmissions, Some((4, [109, 109])));
        check(Version::V9, Column::Retransmissions, Some((4, [57581, 57581])));
        check(Version::Ipfix, Column::TcpRtt, None);
        check(Version::Ipfix, Column::Received, None);
        // responderOctets of NetFlow v9; IPFIX has the opposite of every element
        check(Version::V9, Column::BytesReverse, Some((8, [232, 232])));
        check(Version::V9, Column::TcpFlagsReverse, None);
        for (column, element) in [(Column::BytesReverse, 1), (Column::TcpFlagsReverse, 6), (Column::EndReverse, 153)] {
            let carriage = carriage(Version::Ipfix, column).expect("it is carried");
            assert_eq!((carriage.enterprise, carriage.elements), (29_305, [element; 2]));
        }
    }

    #[test]
    fn version_5_has_the_fields_of_its_record() {
        // Cisco's record: 48 octets, of which one at 36 and two at 46 are padding
        let octets: u16 = Column::ALL.iter().filter_map(|&column| carriage(Version::V5, column)).map(|c| c.width).sum();
        assert_eq!(octets, 48 - 3);
    }
}
