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
