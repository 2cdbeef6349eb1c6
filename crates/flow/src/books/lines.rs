//! Lines of the books for flows that are known one by one: those that a filter behind the collector dropped, and those that no
//! datagram brought.

use std::collections::BTreeMap;

use arrow::array::Array;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt32Type};

use super::{BooksRow, Counter};
use crate::{Column, FlowBatch};

const MINUTE_MS: i64 = 60_000;

/// The lines that account for flows which a filter dropped, under `records_filtered`. They are to be sent on with the
/// lines that came with the flows, and say minute and exporter as those do.
pub fn filtered_rows(dropped: &FlowBatch) -> Vec<BooksRow> {
    rows_of(dropped, Counter::RecordsFiltered)
}

/// The lines that account for flows which could not be written, under `records_not_stored`.
pub fn not_stored_rows(left_out: &FlowBatch) -> Vec<BooksRow> {
    rows_of(left_out, Counter::RecordsNotStored)
}

/// The lines that account for flows of packets and files, under `records_stored`.
pub fn stored_rows(flows: &FlowBatch) -> Vec<BooksRow> {
    rows_of(flows, Counter::RecordsStored)
}

/// Counts flows by minute, exporter, Observation Domain and version.
fn rows_of(flows: &FlowBatch, counter: Counter) -> Vec<BooksRow> {
    let received = flows.primitive::<TimestampMillisecondType>(Column::Received);
    let exporter = flows.binary(Column::Exporter);
    let domain = flows.primitive::<UInt32Type>(Column::ObservationDomain);
    let version = flows.primitive::<UInt8Type>(Column::ExportVersion);
    let key = |row| {
        let received_ms = received.filter(|values| values.is_valid(row)).map_or(0, |values| values.value(row));
        (
            received_ms.saturating_sub(received_ms.rem_euclid(MINUTE_MS)),
            exporter.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
            domain.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
            version.filter(|values| values.is_valid(row)).map(|values| values.value(row)),
        )
    };
    let mut counted = BTreeMap::new();
    // rows of one key are mostly neighbours
    let mut begin = 0;
    for row in 1..=flows.rows() {
        if row == flows.rows() || key(row) != key(begin) {
            *counted.entry(key(begin)).or_insert(0) += (row - begin) as u64;
            begin = row;
        }
    }
    let rows = counted.into_iter().map(|((minute_ms, exporter, observation_domain, export_version), flows)| {
        let mut counts = [0; Counter::COUNT];
        counts[counter as usize] = flows;
        BooksRow { minute_ms, exporter: exporter.map(<[u8]>::to_vec), observation_domain, export_version, counts }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowBatchBuilder;

    #[test]
    fn dropped_flows_are_counted_by_exporter_and_minute() {
        let mut builder = FlowBatchBuilder::new(8);
        for (received_ms, exporter, domain) in [(60_001, 1, 7), (119_999, 1, 7), (120_000, 1, 7), (60_000, 2, 7)] {
            builder.begin_rows(1);
            builder.time(Column::Received).repeat(received_ms, 1);
            builder.address(Column::Exporter).repeat(&[192, 0, 2, exporter], 1);
            builder.u32(Column::ObservationDomain).repeat(domain, 1);
        }
        let rows = filtered_rows(&builder.finish());
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                assert_eq!((row.observation_domain, row.export_version), (Some(7), None));
                let last = row.exporter.as_deref().and_then(<[u8]>::last).copied();
                (row.minute_ms, last, row.counts[Counter::RecordsFiltered as usize])
            })
            .collect();
        assert_eq!(told, [(60_000, Some(1), 2), (60_000, Some(2), 1), (120_000, Some(1), 1)]);
    }

    #[test]
    fn what_is_stored_is_accounted_for() {
        let mut builder = FlowBatchBuilder::new(8);
        builder.begin_rows(6);
        builder.time(Column::Received).extend([0, 59_999, 60_000, 1, 60_001, 60_002].into_iter());
        builder.address(Column::Exporter).extend_fixed([[1; 4], [1; 4], [1; 4], [1; 4], [2; 4], [1; 4]].into_iter());
        let rows = stored_rows(&builder.finish());
        let stored: Vec<_> = rows.iter().map(|row| row.counts[Counter::RecordsStored as usize]).collect();
        assert_eq!(stored, [3, 2, 1]);
        assert!(stored_rows(&FlowBatchBuilder::new(1).finish()).is_empty());
    }
}
