use weir_archive::Position;
use weir_flow::FlowBatchBuilder;

use super::*;

fn at(epoch: u32, position: u64) -> FollowPosition {
    FollowPosition { epoch, position: Position::new(position) }
}

fn flows(ports: &[u16], with_null_column: bool) -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(ports.len());
    flows.begin_rows(ports.len());
    flows.time(Column::Received).repeat(1_772_323_200_000, ports.len());
    flows.address(Column::SrcAddr).repeat(&[192, 0, 2, 1], ports.len());
    flows.u16(Column::DstPort).extend(ports.iter().copied());
    if with_null_column {
        for _ in ports {
            flows.u64(Column::Bytes).push(None);
        }
    }
    for port in ports {
        if *port == 80 {
            flows.elements().push(0, 352, &[1, 2, 3]);
        }
        flows.elements().end_row();
    }
    flows.finish()
}

fn sorted(mut keys: Vec<i64>) -> Vec<i64> {
    keys.sort_unstable();
    keys
}

#[test]
fn keys_do_not_change() {
    // what is stored in clusters has them: when this fails, rows that are there are not overwritten any more
    let keys = row_keys(at(3, 17), &flows(&[53, 80, 53], false));
    // by the same steps in Python, whose numbers do not overflow
    assert_eq!(keys, [5285007224031243298, 2358333719717929440, -6997764149431417134]);
}

#[test]
fn keys_depend_neither_on_order_nor_on_columns_without_values() {
    let keys = row_keys(at(1, 1), &flows(&[53, 80, 53, 443, 53], false));
    let other = row_keys(at(1, 1), &flows(&[443, 53, 53, 53, 80], true));
    assert_eq!(sorted(keys.clone()), sorted(other));
    let mut distinct = sorted(keys);
    distinct.dedup();
    assert_eq!(distinct.len(), 5, "equal rows are numbered");
}

#[test]
fn other_deliveries_have_other_keys() {
    let flows = flows(&[53, 80, 443], false);
    let mut keys: Vec<_> = [at(1, 1), at(1, 2), at(2, 1)].iter().flat_map(|at| row_keys(*at, &flows)).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 9);
}
