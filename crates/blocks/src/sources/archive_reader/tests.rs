//! What the reader hands on is compared with a plain reading: the library's own reader for whole files, and a stable
//! sort of row numbers.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Schema, TimestampMillisecondType};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weir_archive::{ArchiveOptions, Segment, Snapshot, Writer};
use weir_chain::{AnyKind, compliance};
use weir_flow::{Delivery, FlowBatch, FlowBatchBuilder, Table};

use super::*;

const READER: &'static dyn AnyKind = &KIND;
/// Ten minutes before a midnight of UTC.
const FIRST_MS: i64 = 1_763_682_600_000;
const SOME_COLUMNS: &str = "columns = ['bytes', 'received', 'start', 'src_addr', 'dst_addr', 'dst_port', 'icmp_code', \
                            'protocol', 'dst_mac', 'elements']";

/// Numbers that are the same everywhere (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next(count) == 0
    }
}

/// What is special about the flows of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// IPv4 only, and no value missing.
    Narrow,
    /// Both families, values missing, counters beyond 32 bits, clocks that are wrong, and elements.
    Wide,
    /// The same, and addresses that are none.
    Odd,
}

fn flows(kind: Kind, rows: usize, first_ms: i64, numbers: &mut Numbers) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows);
    for _ in 0..rows {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(first_ms + numbers.next(400) as i64));
        let start_ms = first_ms - 60_000 + numbers.next(60_000) as i64;
        let wide = kind != Kind::Narrow;
        let clock_is_wrong = wide && numbers.one_in(1000);
        let start_ms = if clock_is_wrong { numbers.next(1 << 45) as i64 } else { start_ms };
        builder.time(Column::Start).push((!(wide && numbers.one_in(10))).then_some(start_ms));
        let large = wide && numbers.one_in(1000);
        builder.u64(Column::Packets).push(Some(if large { u64::MAX } else { numbers.next(900) }));
        builder.u64(Column::Bytes).push(Some(numbers.next(9000) + if large { 1 << 32 } else { 0 }));
        builder.u16(Column::DstPort).push((!(wide && numbers.one_in(5))).then_some(numbers.next(50) as u16));
        builder.u8(Column::Protocol).push(Some([6, 17, 1][numbers.next(3) as usize]));
        builder.u32(Column::InIf).push(Some(numbers.next(8) as u32));
        builder.address(Column::SrcAddr).push(Some(&(numbers.next(1 << 20) as u32).to_be_bytes()));
        let long = [numbers.next(256) as u8; 40];
        let length = match numbers.next(1000) {
            0 if kind == Kind::Odd => 40,
            1 if kind == Kind::Odd => 0,
            2 if wide => 16,
            _ => 4,
        };
        builder.address(Column::DstAddr).push((!(wide && numbers.one_in(400))).then_some(&long[..length]));
        if wide {
            builder.address(Column::DstMac).push(Some(&long[..6]));
            builder.elements().push(9, numbers.next(9) as u16, &long[..numbers.next(5) as usize]);
            builder.elements().end_row();
        }
    }
    builder.finish()
}

/// An archive in a temporary folder: five segments on two days, and a tail with fewer columns.
struct Archive {
    dir: tempfile::TempDir,
}

impl Archive {
    fn new(kind: Kind) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let mut numbers = Numbers(kind as u64);
        let options = ArchiveOptions { segment_rows_max: 2_250, row_group_rows_max: 900, ..ArchiveOptions::default() };
        let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
        for delivery in 0..40 {
            // the kind shows from the second segment on, so that a reader has to change its mind
            let kind = if delivery < 10 { Kind::Narrow } else { kind };
            let flows = flows(kind, 250, FIRST_MS + delivery * 30_000, &mut numbers);
            writer.append(Delivery::from(flows)).expect("appended");
        }
        writer.close().expect("sealed");
        let (mut writer, _) = Writer::open(dir.path(), options).expect("an archive");
        for delivery in [44, 42, 43] {
            let flows = flows(kind, 170, FIRST_MS + delivery * 30_000, &mut numbers);
            let batch = flows.record_batch().project(&[0, 1, 2, 4]).expect("four columns");
            let flows = if delivery == 43 { flows } else { FlowBatch::try_new(batch).expect("flows") };
            writer.append(Delivery::from(flows)).expect("appended");
        }
        Self { dir }
    }

    fn parameters(&self, more: &str) -> String {
        format!("archive = '{}'\n{more}", self.dir.path().display())
    }

    fn segments(&self) -> Vec<Segment> {
        Snapshot::open(self.dir.path()).expect("a snapshot").segments(Table::Flows).to_vec()
    }

    /// Every segment and the tail, each with all columns of the table, as stored.
    fn stored(&self) -> Vec<RecordBatch> {
        let snapshot = Snapshot::open(self.dir.path()).expect("a snapshot");
        let segments = snapshot.segments(Table::Flows);
        assert_eq!(segments.len(), 6, "five tails, one of them over midnight");
        let mut stored: Vec<_> = segments.iter().map(|segment| plain(&segment.path())).collect();
        let tail = snapshot.tail(Table::Flows).expect("readable").into_iter();
        let tail: Vec<_> = tail.map(|batch| FlowBatch::try_new(batch).expect("flows").to_full()).collect();
        assert_eq!(tail.len(), 3);
        stored.push(concat_batches(tail[0].schema_ref(), &tail).expect("rows"));
        stored
    }
}

/// All rows of a segment, read the plain way.
fn plain(path: &Path) -> RecordBatch {
    let file = File::open(path).expect("a segment");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
    let batches: Vec<_> = reader.map(|batch| batch.expect("rows")).collect();
    let rows = concat_batches(batches[0].schema_ref(), &batches).expect("rows");
    FlowBatch::try_new(rows).expect("flows").to_full()
}

/// The rows of a run that start in the window, sorted by a time; those without it come last.
fn naive(stored: &[RecordBatch], order: Order, span: StartSpan) -> RecordBatch {
    let times = |batch: &RecordBatch, column: Column| {
        batch.column(column as usize).as_primitive::<TimestampMillisecondType>().clone()
    };
    let sorted = stored.iter().map(|batch| {
        let starts = times(batch, Column::Start);
        let mut rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
        if span != StartSpan::default() {
            rows.retain(|&row| {
                let row = row as usize;
                let start = starts.value(row);
                let after = span.from_ms.is_none_or(|from| start >= from);
                starts.is_valid(row) && after && span.to_ms.is_none_or(|to| start < to)
            });
        }
        if let Some(key) = order.key() {
            let times = times(batch, key);
            rows.sort_by_key(|&row| {
                (times.is_null(row as usize), times.is_valid(row as usize).then(|| times.value(row as usize)))
            });
        }
        take_record_batch(batch, &UInt32Array::from(rows)).expect("rows")
    });
    let sorted: Vec<_> = sorted.collect();
    concat_batches(sorted[0].schema_ref(), &sorted).expect("rows")
}

/// Bursts, each with all columns of the table, and the counters.
type Outcome = (Vec<RecordBatch>, Vec<(&'static str, u64)>);

/// Reads to the end.
fn read(parameters: &str) -> Result<Outcome, ComponentError> {
    read_while(parameters, || ())
}

/// Reads to the end what lay in the archive before something happened to it.
fn read_while(parameters: &str, happens: impl FnOnce()) -> Result<Outcome, ComponentError> {
    let (Built::Source(mut source), context) = compliance::open(READER, parameters) else { panic!("a source") };
    happens();
    let (mut bursts, mut out) = (Vec::new(), Outlet::new());
    loop {
        let pulled = source.pull(&mut out)?;
        bursts.extend(out.drain().map(|burst| FlowBatch::try_new(burst.rows().clone()).expect("flows").to_full()));
        if pulled == PullResult::Ended {
            return Ok((bursts, context.counters.read()));
        }
    }
}

fn together(bursts: &[RecordBatch]) -> RecordBatch {
    concat_batches(&Table::Flows.schema(), bursts).expect("rows")
}

fn assert_same(found: &RecordBatch, expected: &RecordBatch, what: &str) {
    assert_eq!(found.num_rows(), expected.num_rows(), "{what}");
    for column in Column::ALL {
        let (found, expected) = (found.column(*column as usize), expected.column(*column as usize));
        assert!(found == expected, "{what}: column {column}");
    }
}

#[test]
fn complies() {
    let archive = Archive::new(Kind::Wide);
    for parameters in ["", "order = 'stored'\nreaders = 0", "order = 'start'\nreaders = 3"] {
        let parameters = archive.parameters(&format!("{SOME_COLUMNS}\n{parameters}"));
        let outcome = compliance::source(READER, &parameters);
        assert_eq!((outcome.len(), outcome.counter("segments_read")), (10_000 + 510, 6));
        let rows = outcome.rows.expect("rows");
        let names: Vec<_> = rows.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        let all = SOME_COLUMNS.matches('\'').count() / 2;
        assert_eq!((names.len(), names[0].as_str(), names[all - 1].as_str()), (all, "received", "elements"));
    }
}

#[test]
fn rows_are_those_of_a_plain_reading() {
    for kind in [Kind::Narrow, Kind::Wide, Kind::Odd] {
        let archive = Archive::new(kind);
        let stored = archive.stored();
        for (order, name) in [(Order::Received, "received"), (Order::Start, "start"), (Order::Stored, "stored")] {
            let expected = naive(&stored, order, StartSpan::default());
            for (readers, batch_rows) in [(0, 8192), (1, 300), (3, 777)] {
                let what = format!("order = '{name}'\nreaders = {readers}\nbatch_rows = {batch_rows}");
                let (bursts, _) = read(&archive.parameters(&what)).expect("no damage");
                assert!(bursts.iter().all(|burst| burst.num_rows() <= batch_rows), "{what}");
                assert_same(&together(&bursts), &expected, &format!("{kind:?} {what}"));
            }
        }
    }
}

#[test]
fn a_reader_ends_after_so_many_rows() {
    let archive = Archive::new(Kind::Narrow);
    let expected = naive(&archive.stored(), Order::Received, StartSpan::default());
    for (rows_max, readers) in [(1, 0), (300, 0), (2_500, 1), (2_501, 3), (1 << 40, 2)] {
        let parameters = archive.parameters(&format!("batch_rows = 300\nreaders = {readers}\nrows_max = {rows_max}"));
        let (bursts, _) = read(&parameters).expect("no damage");
        let expected = expected.slice(0, expected.num_rows().min(rows_max));
        assert_same(&together(&bursts), &expected, &format!("the first {rows_max}"));
    }
}

#[test]
fn a_window_chooses_by_start() {
    let archive = Archive::new(Kind::Wide);
    let stored = archive.stored();
    let day = StartSpan { from_ms: Some(1_763_683_000_000), to_ms: Some(1_763_683_500_000) };
    let times = "from = '2025-11-20T23:56:40Z'\nto = '2025-11-21T01:05:00+01:00'";
    let since = "from = '2025-11-20T23:56:40Z'";
    let before = "to = '2025-11-21T00:05:00Z'";
    for (text, span) in
        [(times, day), (since, StartSpan { to_ms: None, ..day }), (before, StartSpan { from_ms: None, ..day })]
    {
        for (order, name) in [(Order::Received, "received"), (Order::Start, "start"), (Order::Stored, "stored")] {
            let expected = naive(&stored, order, span);
            assert!((2_500..10_000).contains(&expected.num_rows()), "a choice: {}", expected.num_rows());
            let (bursts, counters) =
                read(&archive.parameters(&format!("{text}\norder = '{name}'"))).expect("no damage");
            assert!(counters[0].1 < 6, "some segments are not opened: {counters:?}");
            assert_same(&together(&bursts), &expected, &format!("{name} {text}"));
        }
    }
    // no name of a segment allows a start in that year, and the tail has none
    let (bursts, counters) = read(&archive.parameters("from = '9999-01-01T00:00:00Z'")).expect("no damage");
    assert_eq!((bursts.len(), counters[0]), (0, ("segments_read", 0)));
}

/// The segment that tests damage: no reader has opened it while the first rows wait to be taken.
const DAMAGED: usize = 4;
/// Bursts so small that a reader with its queue full is still in its first segment.
const SMALL_BURSTS: &str = "batch_rows = 10";

fn rows_of(archive: &Archive) -> u64 {
    Snapshot::open(archive.dir.path()).expect("a snapshot").flows()
}

#[test]
fn a_segment_that_is_damaged_is_an_error_or_skipped() {
    type Damage = fn(&Segment);
    let truncate: Damage = |segment| {
        let file = OpenOptions::new().write(true).open(segment.path()).expect("the segment");
        file.set_len(segment.octets / 2).expect("cut");
    };
    let vanish: Damage = |segment| fs::remove_file(segment.path()).expect("removed");
    let empty: Damage = |segment| drop(File::create(segment.path()).expect("emptied"));
    let other_rows: Damage = |segment| write_numbers(&segment.path(), "in_if", 3);
    let other_type: Damage = |segment| write_numbers(&segment.path(), "protocol", segment.rows);
    for damage in [truncate, vanish, empty, other_rows, other_type] {
        for (readers, mode) in [(0, "error"), (2, "error"), (0, "skip"), (2, "skip")] {
            let archive = Archive::new(Kind::Narrow);
            let (segments, whole) = (archive.segments(), rows_of(&archive));
            let segment = &segments[DAMAGED];
            let parameters = archive.parameters(&format!("readers = {readers}\ndamaged = '{mode}'\n{SMALL_BURSTS}"));
            match read_while(&parameters, || damage(segment)) {
                Err(error) => {
                    assert_eq!(mode, "error", "{}", error.chain());
                    assert!(error.chain().contains(&segment.path().display().to_string()), "{}", error.chain());
                }
                Ok((bursts, counters)) => {
                    assert_eq!(mode, "skip");
                    assert_eq!(together(&bursts).num_rows() as u64, whole - segment.rows);
                    assert_eq!(
                        counters,
                        [("segments_read", 5), ("segments_damaged", 1), ("rows_damaged", segment.rows)]
                    );
                }
            }
        }
    }
}

/// Replaces a file by one with a single column of numbers.
fn write_numbers(path: &Path, column: &str, rows: u64) {
    let schema = Arc::new(Schema::new(vec![Field::new(column, arrow::datatypes::DataType::UInt32, true)]));
    let numbers = UInt32Array::from(vec![6; rows as usize]);
    let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).expect("rows");
    let mut writer = ArrowWriter::try_new(File::create(path).expect("a file"), schema, None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
}

#[test]
fn octets_that_changed_cost_no_more_than_their_segment() {
    let archive = Archive::new(Kind::Wide);
    let (segments, whole) = (archive.segments(), rows_of(&archive));
    let segment = &segments[DAMAGED];
    let octets = fs::read(segment.path()).expect("the segment");
    let mut numbers = Numbers(1);
    for round in 0..120 {
        let mut changed = octets.clone();
        for _ in 0..=numbers.next(10) {
            // every other time in the footer, which tells lengths and types
            let reach = if round % 2 == 0 { octets.len() as u64 } else { 20_000 };
            let place = octets.len() - 1 - numbers.next(reach.min(octets.len() as u64)) as usize;
            changed[place] = numbers.next(256) as u8;
        }
        let order = ["received", "stored"][numbers.next(2) as usize];
        let parameters =
            archive.parameters(&format!("readers = 0\ndamaged = 'skip'\nbatch_rows = 400\norder = '{order}'"));
        let write = || fs::write(segment.path(), &changed).expect("written");
        let (bursts, counters) = read_while(&parameters, write).expect("skipped");
        let rows = together(&bursts).num_rows() as u64;
        assert_eq!(rows + counters[2].1, whole, "round {round}");
        assert!(rows >= whole - segment.rows, "round {round}");
    }
}

#[test]
fn a_reader_that_is_stopped_ends_at_once() {
    let archive = Archive::new(Kind::Narrow);
    for readers in [0, 1, 3] {
        let parameters = archive.parameters(&format!("readers = {readers}\n{SMALL_BURSTS}"));
        let (Built::Source(mut source), _) = compliance::open(READER, &parameters) else { panic!("a source") };
        let mut out = Outlet::new();
        while out.drain().count() == 0 {
            assert_ne!(source.pull(&mut out).expect("no damage"), PullResult::Ended);
        }
        source.stop();
        assert_eq!(source.pull(&mut out).expect("no damage"), PullResult::Ended);
    }
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for (text, key, message) in [
        ("columns = ['colour']", "columns", "'colour' is not a column of flows"),
        ("from = 'yesterday'", "from", "'yesterday' is not a time with its zone"),
        ("to = '2025-11-20T10:00:00'", "to", "'2025-11-20T10:00:00' is not a time with its zone"),
        ("from = '2025-11-20T10:00:00Z'\nto = '2025-11-20T10:00:00Z'", "to", "'to' is not after 'from'"),
    ] {
        let options = weir_chain::options::parse(&format!("archive = 'somewhere'\n{text}")).expect("known keys");
        let Err(error) = configure(options) else { panic!("{text} is refused") };
        assert_eq!((error.key.as_str(), error.message.as_str()), (key, message));
    }
}

#[test]
fn a_folder_that_is_no_archive_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let options = weir_chain::options::parse(&format!("archive = '{}'", dir.path().display())).expect("options");
    let opener = configure(options).expect("configured");
    let Err(error) = opener(&ComponentContext::default()) else { panic!("no archive") };
    assert!(error.chain().contains("is not a weir archive"), "{}", error.chain());
}
