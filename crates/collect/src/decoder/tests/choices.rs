//! Records that have a number in several fields, of which one is meant and the others are zeros.

use arrow::datatypes::{UInt8Type, UInt16Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, ColumnType, FlowBatch};

use super::records::{Exporter, Field, template};

/// The flows of records of one template.
fn flows(fields: &[Field], records: &[&[u8]]) -> FlowBatch {
    let mut exporter = Exporter::new();
    exporter.ipfix(0, &[&template(256, fields, 0)], records);
    exporter.flows()
}

/// A column of 8 or 16 bits.
fn numbers(flows: &FlowBatch, column: Column) -> Vec<Option<u16>> {
    match column.column_type() {
        ColumnType::U8 => {
            flows.primitive::<UInt8Type>(column).expect("a column").iter().map(|value| value.map(u16::from)).collect()
        }
        _ => flows.primitive::<UInt16Type>(column).expect("a column").iter().collect(),
    }
}

/// Elements of each flow that have no column.
fn left(flows: &FlowBatch) -> Vec<Vec<u16>> {
    let Some(elements) = flows.column(Column::Elements) else { return vec![Vec::new(); flows.rows()] };
    (0..flows.rows()).map(|row| elements_of_row(elements, row).iter().map(|value| value.id).collect()).collect()
}

/// `udpSourcePort`, `udpDestinationPort`, `tcpSourcePort`, `tcpDestinationPort` in one template.
#[test]
fn ports_are_those_of_the_transport_that_has_some() {
    let fields = [(0, 4, 1), (0, 180, 2), (0, 181, 2), (0, 182, 2), (0, 183, 2)];
    let record = |protocol: u8, ports: [u16; 4]| [&[protocol][..], &ports.map(u16::to_be_bytes).concat()[..]].concat();
    let records = [
        record(6, [0, 0, 50_000, 443]),
        record(17, [5353, 53, 0, 0]),
        record(1, [0; 4]),
        record(6, [1, 0, 50_000, 443]),
    ];
    let flows = flows(&fields, &records.each_ref().map(Vec::as_slice));
    assert_eq!(numbers(&flows, Column::SrcPort), [Some(50_000), Some(5353), Some(0), Some(1)]);
    assert_eq!(numbers(&flows, Column::DstPort), [Some(443), Some(53), Some(0), Some(443)]);
    assert_eq!(left(&flows), [vec![], vec![], vec![], vec![182]], "what is said and not shown is kept");
}

/// `icmpTypeIPv4`, `icmpCodeIPv4`, `icmpTypeIPv6`, `icmpCodeIPv6` in one template.
#[test]
fn icmp_is_of_the_version_that_the_protocol_says() {
    let icmp = [(0, 176, 1), (0, 177, 1), (0, 178, 1), (0, 179, 1)];
    let fields: Vec<Field> = [(0, 4, 1)].into_iter().chain(icmp).collect();
    let records: [&[u8]; 4] = [&[58, 0, 0, 128, 0], &[1, 3, 1, 0, 0], &[6, 0, 0, 0, 0], &[58, 3, 1, 0, 0]];
    let of_protocol = flows(&fields, &records);
    assert_eq!(numbers(&of_protocol, Column::IcmpType), [Some(128), Some(3), None, Some(0)], "0 of TCP is no type");
    assert_eq!(numbers(&of_protocol, Column::IcmpCode), [Some(0), Some(1), None, Some(0)]);
    assert_eq!(left(&of_protocol), [vec![], vec![], vec![], vec![176, 177]], "what is said and not shown is kept");
    // without a protocol the one that is set
    let records: [&[u8]; 3] = [&[0, 0, 128, 0], &[3, 1, 0, 0], &[0; 4]];
    let set = flows(&icmp, &records);
    assert_eq!(numbers(&set, Column::IcmpType), [Some(128), Some(3), Some(0)]);
    assert_eq!(numbers(&set, Column::IcmpCode), [Some(0), Some(1), Some(0)]);
}
