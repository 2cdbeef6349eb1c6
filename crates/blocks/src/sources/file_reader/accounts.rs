//! Lines of the books for flows that no datagram brought.

use std::collections::HashMap;

use arrow::array::Array;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt32Type};
use weir_flow::{BooksBatch, BooksRow, Column, Counter, FlowBatch};

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;

/// Minute, exporter, Observation Domain, version.
type Account = (i64, Option<Vec<u8>>, Option<u32>, Option<u8>);

/// Counts flows by exporter, domain, version and minute.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    counts: HashMap<Account, u64>,
}

impl Accounts {
    /// The lines that account for these flows.
    pub(super) fn of(&mut self, flows: &FlowBatch) -> BooksBatch {
        self.counts.clear();
        let received = flows.primitive::<TimestampMillisecondType>(Column::Received);
        let exporters = flows.binary(Column::Exporter);
        let domains = flows.primitive::<UInt32Type>(Column::ObservationDomain);
        let versions = flows.primitive::<UInt8Type>(Column::ExportVersion);
        let minute = |row| received.map_or(0, |times| times.value(row).div_euclid(MINUTE_MS) * MINUTE_MS);
        let exporter = |row| exporters.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        let domain = |row| domains.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        let version = |row| versions.filter(|values| values.is_valid(row)).map(|values| values.value(row));
        let account = |row| (minute(row), exporter(row), domain(row), version(row));
        // rows of one account mostly stand together
        let mut begin = 0;
        for row in 1..=flows.rows() {
            if row < flows.rows() && account(row) == account(begin) {
                continue;
            }
            let (minute, exporter, domain, version) = account(begin);
            *self.counts.entry((minute, exporter.map(<[u8]>::to_vec), domain, version)).or_default() +=
                (row - begin) as u64;
            begin = row;
        }
        let rows: Vec<_> = self.counts.iter().map(|(account, flows)| line(account, *flows)).collect();
        BooksBatch::from_rows(&rows)
    }
}

fn line((minute_ms, exporter, observation_domain, export_version): &Account, flows: u64) -> BooksRow {
    let mut counts = [0; Counter::COUNT];
    counts[Counter::RecordsStored as usize] = flows;
    BooksRow {
        minute_ms: *minute_ms,
        exporter: exporter.clone(),
        observation_domain: *observation_domain,
        export_version: *export_version,
        counts,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_flow::FlowBatchBuilder;

    use super::*;

    #[test]
    fn what_is_stored_is_accounted_for() {
        let mut builder = FlowBatchBuilder::new(8);
        builder.begin_rows(6);
        builder.time(Column::Received).extend([0, 59_999, 60_000, 1, 60_001, 60_002].into_iter());
        builder.address(Column::Exporter).extend_fixed([[1; 4], [1; 4], [1; 4], [1; 4], [2; 4], [1; 4]].into_iter());
        let books = Accounts::default().of(&builder.finish());
        let batch = books.record_batch();
        let stored = batch.column_by_name("records_stored").expect("a column").as_primitive::<UInt64Type>();
        let mut stored: Vec<_> = stored.values().to_vec();
        stored.sort_unstable();
        assert_eq!(stored, [1, 2, 3]);
    }
}
