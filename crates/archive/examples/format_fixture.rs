//! Writes the archive that is committed as `tests/fixtures/format-1`, and what a reader must find in it:
//! `cargo run --release -p weir-archive --example format_fixture -- FOLDER`, a folder that does not exist yet.
//!
//! The archive has everything that format 1 knows: a day of which only a summary is left, a day merged into one segment
//! with lists of hosts and rollups, next to the segments that it supersedes, a day of sealed segments, a tail, and the
//! segments of that tail that a crash before the commit leaves. `expected.tsv` is summed up from the batches that are
//! appended; nothing in it is read back from the archive.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::{DataType, UInt8Type, UInt16Type, UInt64Type};
use weir_archive::{
    ArchiveOptions, CompactionOptions, ExpiryOptions, Snapshot, SummaryOptions, Writer, compact, expire,
};
use weir_flow::{
    BooksBatch, BooksRow, Column, Counter, Delivery, FlowBatch, OptionsKind, OptionsRow, OptionsRows, Table, TableBatch,
};
use weir_generate::TrafficModel;

type AnyError = Box<dyn Error>;

const SEED: u64 = 1;
/// 2026-01-01T00:00:00Z.
const FIRST_DAY_MS: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const EXPORTER: [u8; 4] = [192, 0, 2, 1];

/// Flows of each tail by day: those of the first two days are merged, those of the third do not fit together.
const TAILS: [&[u64]; 4] = [&[500, 500], &[600, 600, 600], &[1000, 1000], &[300]];
/// Rows of the largest merge.
const MERGED_ROWS: u64 = 1800;

/// Flows, packets and bytes by what they are summed up by.
#[derive(Default)]
struct Expected(BTreeMap<(String, String), [u64; 3]>);

impl Expected {
    fn add(&mut self, of: &str, key: &impl ToString, sums: [u64; 3]) {
        let sum = self.0.entry((of.to_owned(), key.to_string())).or_default();
        (0..3).for_each(|at| sum[at] += sums[at]);
    }

    fn add_flows(&mut self, day: usize, flows: &FlowBatch) {
        let [packets, bytes] = [Column::Packets, Column::Bytes].map(|column| flows.primitive::<UInt64Type>(column));
        let (Some(packets), Some(bytes)) = (packets, bytes) else { return };
        let protocols = flows.primitive::<UInt8Type>(Column::Protocol);
        let ports = flows.primitive::<UInt16Type>(Column::DstPort);
        let starts = flows.primitive::<arrow::datatypes::TimestampMillisecondType>(Column::Start);
        let (Some(protocols), Some(ports), Some(starts)) = (protocols, ports, starts) else { return };
        for row in 0..flows.rows() {
            let sums = [1, packets.value(row), bytes.value(row)];
            let of = |name: &str| format!("day {} {name}", day + 1);
            self.add(&of("total"), &"", sums);
            self.add(&of("protocol"), &protocols.value(row), sums);
            self.add(&of("dst_port"), &ports.value(row), sums);
            self.add(&of("minute"), &(starts.value(row).div_euclid(60_000) * 60_000), sums);
        }
    }

    fn add_table(&mut self, table: Table, batch: &RecordBatch) {
        self.add("table", &table.name(), [batch.num_rows() as u64, 0, 0]);
    }

    fn text(&self) -> String {
        let mut text = "# what\tkey\tflows or rows\tpackets\tbytes\n".to_owned();
        for ((of, key), [flows, packets, bytes]) in &self.0 {
            let _ = writeln!(text, "{of}\t{key}\t{flows}\t{packets}\t{bytes}");
        }
        text
    }
}

/// A line of the books, options and counters of a minute.
fn side_tables(time_ms: i64, records_stored: u64) -> Result<Vec<TableBatch>, AnyError> {
    let mut options = OptionsRows::default();
    let blank = OptionsRow::blank(time_ms, &EXPORTER, 7, 10);
    let interface = OptionsRow { kind: OptionsKind::Interface, key: Some(3), name: Some("eth3"), ..blank.clone() };
    options.push(&interface, [(0, 82, b"eth3".as_slice())].into_iter());
    let sampler =
        OptionsRow { kind: OptionsKind::Sampler, key: Some(records_stored), sampling_interval: Some(64), ..blank };
    options.push(&sampler, std::iter::empty());
    let mut tables: Vec<TableBatch> = options.take().into_iter().collect();
    for table in [Table::InterfaceCounters, Table::HostCounters] {
        let schema = table.schema();
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| -> ArrayRef {
            match field.data_type() {
                DataType::Timestamp(..) if !field.is_nullable() || field.name() == schema.field(0).name() => {
                    std::sync::Arc::new(TimestampMillisecondArray::from(vec![time_ms]).with_timezone("UTC"))
                }
                other => new_null_array(other, 1),
            }
        };
        let batch = RecordBatch::try_new(schema.clone(), schema.fields().iter().map(column).collect())?;
        tables.extend(TableBatch::try_new(table, batch));
    }
    Ok(tables)
}

fn books(time_ms: i64, records_stored: u64) -> BooksBatch {
    let mut counts = [0; Counter::COUNT];
    counts[Counter::Datagrams as usize] = records_stored.div_ceil(20);
    counts[Counter::DatagramsDecoded as usize] = records_stored.div_ceil(20);
    counts[Counter::RecordsStored as usize] = records_stored;
    BooksBatch::from_rows(&[BooksRow {
        minute_ms: time_ms.div_euclid(60_000) * 60_000,
        exporter: Some(EXPORTER.to_vec()),
        observation_domain: Some(7),
        export_version: Some(10),
        counts,
    }])
}

/// Appends the flows of a tail in deliveries, the side tables with the first.
fn append(writer: &mut Writer, day: usize, tail: usize, flows: u64, expected: &mut Expected) -> Result<(), AnyError> {
    let start_ms = FIRST_DAY_MS + day as i64 * DAY_MS + (10 + tail as i64) * 3_600_000;
    let model = TrafficModel {
        hosts: TrafficModel::HOSTS_MIN,
        ipv6_permille: 200,
        start_ms,
        flows_per_second: 2,
        elements: true,
        received: true,
        ..TrafficModel::new(SEED + 10 * day as u64 + tail as u64)
    };
    let mut flows_left = model.flows(flows)?;
    let mut is_first = true;
    while let Some(batch) = flows_left.next_batch(200) {
        expected.add_flows(day, &batch);
        let mut delivery = Delivery::from(batch);
        if std::mem::take(&mut is_first) {
            delivery.side_tables.books = Some(books(start_ms, flows));
            delivery.side_tables.others = side_tables(start_ms, flows)?;
            expected.add("records_stored", &"", [flows, 0, 0]);
        }
        delivery.side_tables.batches().for_each(|(table, batch)| expected.add_table(table, batch));
        writer.append(delivery)?;
    }
    Ok(())
}

fn options() -> ArchiveOptions {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    ArchiveOptions { compaction, row_group_rows_max: 1 << 14, ..ArchiveOptions::default() }
}

fn merge(archive: &Path) -> Result<(), AnyError> {
    let options = CompactionOptions { segment_rows_max: MERGED_ROWS, ..CompactionOptions::default() };
    let mut failure = None;
    compact(archive, &options, |merge| failure = merge.result.err())?;
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// Lets the flows of the first day expire, and nothing else.
fn expire_first_day(archive: &Path) -> Result<(), AnyError> {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed()?;
    let age_max = since_epoch.saturating_sub(Duration::from_millis((FIRST_DAY_MS + DAY_MS) as u64));
    let summaries = SummaryOptions { age_max: Duration::MAX, octets_max: None };
    let options =
        ExpiryOptions { age_max: Some(age_max), low_water_percent: 100, summaries, ..ExpiryOptions::default() };
    let expired = expire(archive, &options, false)?;
    if expired.segments.len() != 1 || expired.summaries_written != 1 || expired.waiting_for_readers {
        return Err(format!("not one segment has expired: {expired:?}").into());
    }
    Ok(())
}

fn main() -> Result<(), AnyError> {
    let folder = std::env::args().nth(1).ok_or("a folder")?;
    let folder = Path::new(&folder);
    fs::create_dir(folder)?;
    let archive = folder.join("archive");
    let mut expected = Expected::default();
    let (last, sealed) = TAILS.split_last().ok_or("days")?;
    for (day, tails) in sealed.iter().enumerate() {
        for (tail, flows) in tails.iter().enumerate() {
            let (mut writer, _) = Writer::open(&archive, options())?;
            append(&mut writer, day, tail, *flows, &mut expected)?;
            writer.close()?;
        }
        if day == 0 {
            merge(&archive)?;
        }
    }
    expire_first_day(&archive)?;
    // what a crash between placing segments and removing their tail leaves
    let (mut writer, _) = Writer::open(&archive, options())?;
    append(&mut writer, sealed.len(), 0, last[0], &mut expected)?;
    drop(writer);
    let tails =
        fs::read_dir(archive.join("tail"))?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, AnyError>>()?;
    let [tail] = &tails[..] else { return Err("not one tail".into()) };
    let octets = fs::read(tail)?;
    Writer::open(&archive, options())?.0.close()?;
    fs::write(tail, octets)?;
    // a reader from before the merge, so that the segments merged stay in their places
    let reader = Snapshot::open(&archive)?;
    merge(&archive)?;
    drop(reader);
    fs::write(folder.join("expected.tsv"), expected.text())?;
    Ok(())
}
