use proptest::prelude::*;
use weir_flow::FlowBatchBuilder;

use super::*;

type Row = (u8, u16, u16, Vec<u8>, Vec<u8>, i64);

fn batch(rows: &[Row]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    for (protocol, src_port, dst_port, src, dst, start) in rows {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(1_763_683_200_000));
        builder.time(Column::Start).push(Some(*start));
        builder.address(Column::SrcAddr).push(Some(src));
        builder.address(Column::DstAddr).push(Some(dst));
        builder.u16(Column::SrcPort).push(Some(*src_port));
        builder.u16(Column::DstPort).push(Some(*dst_port));
        builder.u8(Column::Protocol).push(Some(*protocol));
    }
    builder.finish()
}

/// Rows without a time of their own were received at the start of a day.
fn ordered<const N: usize>(batches: [FlowBatch; N]) -> Vec<u32> {
    let rows = batches.iter().map(FlowBatch::rows).sum();
    by_service(rows, 1_763_683_200_000, batches.into_iter().map(Ok::<_, std::convert::Infallible>)).expect("no error")
}

/// The order as the module's documentation tells it, compared field by field.
fn plain_key(row: &Row, number: usize) -> (u8, u16, bool, usize, Vec<u8>, i64, usize) {
    let (protocol, src_port, dst_port, src, dst, start) = row;
    let side = dst_port < src_port;
    let address = if side { dst } else { src };
    (*protocol, *src_port.min(dst_port), side, address.len(), address.clone(), *start, number)
}

fn address() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..3, any::<bool>()).prop_map(|(last, high)| vec![if high { 192 } else { 10 }, 0, 0, last]),
        (0u8..3, any::<bool>()).prop_map(|(last, high)| {
            let mut octets = vec![0x20; 16];
            octets[if high { 0 } else { 15 }] = last;
            octets
        }),
    ]
}

proptest! {
    #[test]
    fn packed_keys_order_like_their_fields(
        rows in proptest::collection::vec(
            (0u8..3, 0u16..4, 0u16..4, address(), address(), 1_763_683_190_000i64..1_763_683_190_003), 0..60),
        cut in 0usize..60,
    ) {
        let cut = cut.min(rows.len());
        let order = ordered([batch(&rows[..cut]), batch(&rows[cut..])]);
        let mut expected: Vec<usize> = (0..rows.len()).collect();
        expected.sort_by_key(|&number| plain_key(&rows[number], number));
        prop_assert_eq!(order.iter().map(|&row| row as usize).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn one_flow_of_1970_leaves_the_others_in_order() {
    let row = |start| (6, 80, 1024, vec![10, 0, 0, 1], vec![10, 0, 0, 2], start);
    let rows = [row(1_763_683_200_005), row(0), row(i64::MAX), row(1_763_683_200_001), row(i64::MIN)];
    assert_eq!(ordered([batch(&rows)]), [1, 4, 3, 0, 2]);
}

#[test]
fn rows_without_columns_keep_their_order() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    builder.time(Column::Received).repeat(5, 3);
    assert_eq!(ordered([builder.finish()]), [0, 1, 2]);
}
