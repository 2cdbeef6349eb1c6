//! Networks by the masks that flows have, of which some are longer than the address.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, UInt8Array};
use arrow::datatypes::UInt64Type;
use weir_filter::Predicate;
use weir_flow::{AddressText, Column, FlowBatch, parse_address};
use weir_query::{AggregateKey, FlowQuery, Order, QueryError, QueryOptions, Select, Sorting, TimeWindow, ask_batches};

#[test]
fn a_mask_longer_than_the_address_leaves_it_as_it_is() {
    let rows = [
        ("10.1.2.3", Some(24)),
        ("10.1.2.9", Some(24)),
        ("10.1.2.3", Some(32)),
        ("10.1.2.3", Some(33)),
        ("10.1.2.3", Some(200)),
        ("10.1.2.3", None),
        ("2001:db8::7", Some(129)),
    ];
    let addresses: Vec<Vec<u8>> = rows.iter().map(|row| parse_address(row.0).expect("an address")).collect();
    let addresses: Vec<&[u8]> = addresses.iter().map(Vec::as_slice).collect();
    let masks: UInt8Array = rows.iter().map(|row| row.1).collect();
    let columns: Vec<(Column, ArrayRef)> =
        vec![(Column::SrcAddr, Arc::new(BinaryArray::from_vec(addresses))), (Column::SrcMask, Arc::new(masks))];
    let flows = FlowBatch::from_columns(rows.len(), columns).expect("flows");
    let keys = vec![AggregateKey::Network { column: Column::SrcAddr, mask: Column::SrcMask }];
    let sorting = Some(Sorting::usual(Order::Flows));
    let select = Select::Aggregate { keys, more: Vec::new(), sorting, limit: None };
    let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
    let answer = ask_batches(&question, [Ok::<_, QueryError>(flows)], &QueryOptions::default()).expect("asked");
    let mut found = Vec::new();
    for batch in answer {
        let batch = batch.expect("read");
        let networks = batch.column(0).as_binary::<i32>();
        let flows = batch.column_by_name("flows").expect("a column").as_primitive::<UInt64Type>().clone();
        let text = |octets: Option<&[u8]>| octets.map(|octets| AddressText(octets).to_string());
        found.extend(networks.iter().zip(flows.iter()).map(|(octets, flows)| (text(octets), flows.unwrap_or(0))));
    }
    found.sort_unstable();
    let expected = [(None, 1), (Some("10.1.2.0"), 2), (Some("10.1.2.3"), 3), (Some("2001:db8::7"), 1)];
    assert_eq!(found, expected.map(|(network, flows)| (network.map(str::to_owned), flows)));
}
