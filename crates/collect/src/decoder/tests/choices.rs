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
    let records: [&[u8]; 4] = [&[58, 0, 0, 128, 0], &[1, 3, 1, 0, 0], &[6, 0, 0, 0, 0], &[58, 3, 1, 128, 0]];
    let of_protocol = flows(&fields, &records);
    assert_eq!(numbers(&of_protocol, Column::IcmpType), [Some(128), Some(3), None, Some(128)], "0 of TCP is no type");
    assert_eq!(numbers(&of_protocol, Column::IcmpCode), [Some(0), Some(1), None, Some(0)]);
    assert_eq!(left(&of_protocol), [vec![], vec![], vec![], vec![176, 177]], "what is said and not shown is kept");
    // IANA, "ICMPv6 Parameters": 0 is reserved, so the type is that in the fields of ICMP, and so is the code
    let records: [&[u8]; 4] = [&[58, 128, 0, 0, 0], &[58, 3, 1, 0, 0], &[58, 1, 0, 0, 4], &[58, 0, 0, 0, 4]];
    let in_the_other = flows(&fields, &records);
    assert_eq!(numbers(&in_the_other, Column::IcmpType), [128, 3, 1, 0].map(Some));
    assert_eq!(numbers(&in_the_other, Column::IcmpCode), [0, 1, 0, 4].map(Some));
    assert_eq!(left(&in_the_other), [vec![], vec![], vec![179], vec![]]);
    // and 0 of ICMP is the echo reply
    let echo_reply = flows(&fields, &[&[1, 0, 0, 128, 0]]);
    assert_eq!((numbers(&echo_reply, Column::IcmpType), left(&echo_reply)), (vec![Some(0)], vec![vec![178]]));
    // without a protocol the one that is set
    let records: [&[u8]; 3] = [&[0, 0, 128, 0], &[3, 1, 0, 0], &[0; 4]];
    let set = flows(&icmp, &records);
    assert_eq!(numbers(&set, Column::IcmpType), [Some(128), Some(3), Some(0)]);
    assert_eq!(numbers(&set, Column::IcmpCode), [Some(0), Some(1), Some(0)]);
}

/// Addresses, lengths of prefixes and next hops of both families in one template.
#[test]
fn prefixes_and_next_hops_are_of_the_family_of_the_flow() {
    let addresses = [(0, 8, 4), (0, 12, 4), (0, 27, 16), (0, 28, 16), (0, 15, 4), (0, 62, 16)];
    let masks = [(0, 9, 1), (0, 13, 1), (0, 29, 1), (0, 30, 1)];
    let fields: Vec<Field> = addresses.into_iter().chain(masks).collect();
    let (v4, no_v4): (&[u8], &[u8]) = (&[10, 0, 0, 1], &[0; 4]);
    let (v6, no_v6): (&[u8], &[u8]) = (&[0x20; 16], &[0; 16]);
    let record = |addresses: [&[u8]; 6], masks: [u8; 4]| [&addresses.concat()[..], &masks].concat();
    let records = [
        record([v4, v4, no_v6, no_v6, no_v4, no_v6], [24, 25, 0, 0]),
        record([no_v4, no_v4, v6, v6, no_v4, no_v6], [0, 0, 48, 64]),
        // a default route has no length, whatever is in the other fields
        record([no_v4, no_v4, v6, v6, v4, no_v6], [24, 25, 0, 0]),
        // one from `::`
        record([no_v4, no_v4, no_v6, v6, no_v4, no_v6], [0, 0, 48, 64]),
        // packets in a tunnel, of which the columns have the later pair
        record([v4, v4, v6, v6, v4, v6], [24, 25, 48, 64]),
    ];
    let flows = flows(&fields, &records.each_ref().map(Vec::as_slice));
    assert_eq!(numbers(&flows, Column::SrcMask), [24, 48, 0, 48, 48].map(Some));
    assert_eq!(numbers(&flows, Column::DstMask), [25, 64, 0, 64, 64].map(Some));
    let octets = |column| {
        let values = flows.binary(column).expect("a column");
        (0..flows.rows()).map(|row| values.value(row)).collect::<Vec<_>>()
    };
    assert_eq!(octets(Column::NextHop), [no_v4, no_v6, v4, no_v6, v6]);
    assert_eq!(octets(Column::SrcAddr), [v4, v6, v6, no_v6, v6]);
    let of_tunnel = vec![8, 12, 15, 9, 13];
    assert_eq!(left(&flows), [vec![], vec![], vec![9, 13], vec![], of_tunnel], "what is said and not shown is kept");
}

/// Elements 9 and 29 of flows of one family.
#[test]
fn without_addresses_of_both_families_the_length_that_is_set_is_meant() {
    let flows = flows(&[(0, 27, 16), (0, 9, 1), (0, 29, 1)], &[&[[0x20_u8; 16].as_slice(), &[0, 48]].concat()]);
    assert_eq!(numbers(&flows, Column::SrcMask), [Some(48)]);
    assert_eq!(left(&flows), [Vec::<u16>::new()]);
}

/// `vlanId` and `dot1qVlanId`, `postVlanId` and `postDot1qVlanId`.
#[test]
fn vlans_are_those_that_are_set() {
    let fields = [(0, 58, 2), (0, 243, 2), (0, 59, 2), (0, 254, 2)];
    let record = |vlans: [u16; 4]| vlans.map(u16::to_be_bytes).concat();
    let records = [record([0, 100, 0, 200]), record([7, 0, 8, 0]), record([0; 4]), record([7, 7, 8, 9])];
    let flows = flows(&fields, &records.each_ref().map(Vec::as_slice));
    assert_eq!(numbers(&flows, Column::SrcVlan), [100, 7, 0, 7].map(Some));
    assert_eq!(numbers(&flows, Column::DstVlan), [200, 8, 0, 8].map(Some));
    assert_eq!(left(&flows), [vec![], vec![], vec![], vec![243, 254]], "what is said and not shown is kept");
}
