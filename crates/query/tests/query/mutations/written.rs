//! An archive with every kind of file, and what was written to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, TimestampMillisecondArray, new_null_array};
use arrow::datatypes::DataType;
use weir_archive::{
    ArchiveOptions, CompactionOptions, ExpiryOptions, ExportSelection, SealRetries, Snapshot, SummaryOptions, Writer,
    compact, expire, export, import,
};
use weir_flow::{
    BooksBatch, BooksRow, Counter, Delivery, FlowBatch, OptionsKind, OptionsRow, OptionsRows, Table, TableBatch,
};
use weir_generate::TrafficModel;

/// 2026-01-01T00:00:00Z.
const FIRST_DAY_MS: i64 = 1_767_225_600_000;
const DAY_MS: i64 = 86_400_000;
const EXPORTER: [u8; 4] = [192, 0, 2, 1];
/// Deliveries in the last tail.
pub(crate) const LAST_DELIVERIES: usize = 4;

/// An archive that a test changes, and another one of the same history with other flows.
pub(crate) struct Written {
    _folder: tempfile::TempDir,
    pub(crate) dir: PathBuf,
    pub(crate) other: PathBuf,
    /// The flows that have not expired, in the order in which they were appended; one batch a delivery.
    pub(crate) flows: Vec<FlowBatch>,
    /// Where the frames of the tail before the last one and of the last one end.
    pub(crate) frame_ends: [Vec<u64>; 2],
    /// Keeps the files that were merged.
    _readers: [Snapshot; 2],
}

impl Written {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [dir, other, source] = ["archive", "other", "source"].map(|name| folder.path().join(name));
        let mut made = Making { dir: source.clone(), seed: 1, ..Making::default() };
        made.session(2, &[&[150]], |_| {});
        let exported = folder.path().join("export");
        export(&source, &exported, &ExportSelection::default()).expect("exported");
        let imported = made.flows;
        let (reader, flows, frame_ends) = make(&dir, 10, &exported, &imported);
        let (other_reader, ..) = make(&other, 60, &exported, &imported);
        Self { _folder: folder, dir, other, flows, frame_ends, _readers: [reader, other_reader] }
    }
}

/// Days 1 and 2 as tails of their own, of which day 1 is merged and expires; day 3 is imported; of day 4 there are many
/// small tails, merged while a reader holds them; day 5 is sealed, and of day 6 there are two tails.
fn make(dir: &Path, seed: u64, exported: &Path, imported: &[FlowBatch]) -> (Snapshot, Vec<FlowBatch>, [Vec<u64>; 2]) {
    let mut made = Making { dir: dir.to_owned(), seed, ..Making::default() };
    made.session(0, &[&[150], &[150]], |_| {});
    merge(dir);
    made.flows.clear();
    made.session(1, &[&[100, 120]], |_| {});
    let expiry = ExpiryOptions {
        age_max: Some(Duration::ZERO),
        summaries: SummaryOptions { age_max: Duration::MAX, octets_max: None },
        ..ExpiryOptions::default()
    };
    assert_eq!(expire(dir, &expiry, false).expect("expired").summaries_written, 1);
    import(dir, exported).expect("imported");
    made.flows.extend(imported.iter().cloned());
    made.session(3, &[[25].as_slice(); 24], |_| {});
    let reader = Snapshot::open(dir).expect("a snapshot");
    merge(dir);
    made.elements = true;
    made.session(4, &[&[400]], |_| {});
    made.elements = false;
    // A file where segments are made: nothing can be sealed.
    let tmp = dir.join("tmp");
    made.unsealed = true;
    made.session(5, &[&[40, 30], &[30; LAST_DELIVERIES]], |dir| {
        fs::remove_dir(dir.join("tmp")).expect("removed");
        fs::write(dir.join("tmp"), "").expect("written");
    });
    fs::remove_file(&tmp).expect("removed");
    fs::create_dir(&tmp).expect("made");
    (reader, made.flows, made.frame_ends)
}

fn merge(dir: &Path) {
    let options = CompactionOptions { fan_in: 2, ..CompactionOptions::default() };
    compact(dir, &options, |merge| assert!(merge.result.is_ok(), "{merge:?}")).expect("merged");
}

/// Writes the sessions of an archive.
#[derive(Default)]
struct Making {
    dir: PathBuf,
    seed: u64,
    elements: bool,
    /// Whether the tails stay as they are.
    unsealed: bool,
    flows: Vec<FlowBatch>,
    frame_ends: [Vec<u64>; 2],
}

impl Making {
    /// Appends these tails of flows by delivery, as a program that runs once does.
    fn session(&mut self, day: i64, tails: &[&[usize]], opened: impl Fn(&Path)) {
        let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
        let options = ArchiveOptions {
            summaries_when_sealing: true,
            row_group_rows_max: 256,
            compaction,
            seal_retries: SealRetries { interval: Duration::from_hours(1), failures_max: u32::MAX },
            ..ArchiveOptions::default()
        };
        let (mut writer, _) = Writer::open(&self.dir, options).expect("an archive");
        opened(&self.dir);
        for (number, deliveries) in tails.iter().enumerate() {
            self.frame_ends = [std::mem::take(&mut self.frame_ends[1]), Vec::new()];
            self.tail(&mut writer, FIRST_DAY_MS + day * DAY_MS + number as i64 * 600_000, deliveries);
            if number + 1 < tails.len() {
                writer.rotate();
            }
        }
        if !self.unsealed {
            writer.close().expect("sealed");
        }
    }

    fn tail(&mut self, writer: &mut Writer, start_ms: i64, deliveries: &[usize]) {
        self.seed += 1;
        let model = TrafficModel {
            hosts: TrafficModel::HOSTS_MIN,
            ipv6_permille: 200,
            start_ms,
            flows_per_second: 2,
            elements: self.elements,
            received: true,
            ..TrafficModel::new(self.seed)
        };
        let mut flows = model.flows(deliveries.iter().sum::<usize>() as u64).expect("a model");
        for (number, rows) in deliveries.iter().enumerate() {
            let batch = flows.next_batch(*rows).expect("flows");
            self.flows.push(batch.clone());
            let mut delivery = Delivery::from(batch);
            let time_ms = start_ms + number as i64 * 60_000;
            delivery.side_tables.books = Some(books(time_ms, *rows as u64));
            delivery.side_tables.others = side_tables(time_ms, *rows as u64);
            writer.append(delivery).expect("appended");
            let tails =
                fs::read_dir(self.dir.join("tail")).expect("tails").map(|entry| entry.expect("an entry").path());
            let last = tails.max().expect("a tail");
            self.frame_ends[1].push(fs::metadata(last).map_or(0, |metadata| metadata.len()));
        }
    }
}

fn books(minute_ms: i64, records_stored: u64) -> BooksBatch {
    let mut counts = [0; Counter::COUNT];
    counts[Counter::Datagrams as usize] = records_stored.div_ceil(20);
    counts[Counter::DatagramsDecoded as usize] = records_stored.div_ceil(20);
    counts[Counter::RecordsStored as usize] = records_stored;
    let exporter = Some(EXPORTER.to_vec());
    BooksBatch::from_rows(&[BooksRow {
        minute_ms,
        exporter,
        observation_domain: Some(7),
        export_version: Some(10),
        counts,
    }])
}

/// Options of an exporter and counters of a minute.
fn side_tables(time_ms: i64, key: u64) -> Vec<TableBatch> {
    let mut options = OptionsRows::default();
    let blank = OptionsRow::blank(time_ms, &EXPORTER, 7, 10);
    let interface = OptionsRow { kind: OptionsKind::Interface, key: Some(3), name: Some("eth3"), ..blank.clone() };
    options.push(&interface, [(0, 82, b"eth3".as_slice())].into_iter());
    let sampler = OptionsRow { kind: OptionsKind::Sampler, key: Some(key), sampling_interval: Some(64), ..blank };
    options.push(&sampler, std::iter::empty());
    let mut tables: Vec<TableBatch> = options.take().into_iter().collect();
    for table in [Table::InterfaceCounters, Table::HostCounters] {
        let schema = table.schema();
        let column = |field: &Arc<arrow::datatypes::Field>| -> ArrayRef {
            match field.data_type() {
                DataType::Timestamp(..) if field.name() == schema.field(0).name() => {
                    Arc::new(TimestampMillisecondArray::from(vec![time_ms]).with_timezone("UTC"))
                }
                other => new_null_array(other, 1),
            }
        };
        let columns = schema.fields().iter().map(column).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).expect("a row");
        tables.extend(TableBatch::try_new(table, batch));
    }
    tables
}
