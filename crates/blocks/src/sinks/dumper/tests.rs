use std::fs;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{UInt16Type, UInt64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use weir_chain::{StopSignal, compliance};
use weir_flow::Column;
use weir_generate::TrafficModel;

use super::*;

fn flows() -> Vec<RecordBatch> {
    let model = TrafficModel { ipv6_permille: 400, elements: true, ..TrafficModel::new(5) };
    let flows: Vec<_> = model.flows(3000).expect("flows").map(|batch| batch.record_batch().clone()).collect();
    let whole = concat_batches(&flows[0].schema(), &flows).expect("a batch");
    vec![whole.slice(0, 700), whole.slice(700, 1), whole.slice(701, 2299)]
}

/// Parameters for a file, with others.
fn parameters(path: &Path, others: &str) -> String {
    format!("path = '{}'\n{others}", path.display())
}

/// What a dumper writes, given rows in bursts of so many.
fn dumped(others: &str, batches: &[RecordBatch], burst_rows: usize) -> (Vec<u8>, Vec<(&'static str, u64)>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows");
    let counters = compliance::sink(&KIND, &parameters(&path, others), batches, burst_rows);
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(left, std::slice::from_ref(&path));
    (fs::read(path).expect("a file"), counters)
}

fn lines_of(text: &[u8]) -> usize {
    text.split(|octet| *octet == b'\n').count() - 1
}

fn opened(parameters: &str, stop: &StopSignal) -> Result<(Box<dyn Sink>, ComponentContext), ComponentError> {
    let options = weir_chain::options::parse(parameters).expect("options");
    let context = ComponentContext { stop: stop.clone(), ..ComponentContext::default() };
    match (KIND.configure)(options).expect("a plan")(&context)? {
        Built::Sink(sink) => Ok((sink, context)),
        _ => panic!("no sink"),
    }
}

fn refused(parameters: &str) -> String {
    let options = weir_chain::options::parse(parameters).expect("options");
    let error = (KIND.configure)(options).err().expect("an error");
    format!("{}: {}", error.key, error.message)
}

#[test]
fn compliance_and_the_same_text_whatever_the_bursts() {
    for format in ["csv", "json", "ndjson"] {
        let parameters = format!("format = '{format}'");
        let (whole, counters) = dumped(&parameters, &flows(), 1 << 20);
        let lines = 3000
            + [("csv", 1), ("json", 2), ("ndjson", 0)].iter().find(|(name, _)| *name == format).expect("a format").1;
        assert_eq!(lines_of(&whole), lines);
        assert_eq!(counters, [("rows_written", 3000), ("octets_written", whole.len() as u64), ("writes_retried", 0)]);
        for burst_rows in [1, 17, 1000] {
            assert!(
                dumped(&parameters, &flows(), burst_rows) == (whole.clone(), counters.clone()),
                "{format}, {burst_rows}"
            );
        }
    }
    // Tables are as wide as the first burst needs.
    let (table, _) = dumped("format = 'table'", &flows(), 1 << 20);
    assert!(String::from_utf8(table).expect("text").starts_with("start UTC                end UTC  "));
}

#[test]
fn csv_says_what_the_rows_say() {
    let columns = "columns = ['dst_addr', 'dst_port', 'bytes', 'packets_out']";
    let (text, _) = dumped(columns, &flows(), 100);
    let text = String::from_utf8(text).expect("text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("dst_addr,dst_port,bytes,packets_out"));
    for batch in flows() {
        let column = |column: Column| batch.column_by_name(column.name()).expect("a column");
        let addresses = column(Column::DstAddr).as_binary::<i32>();
        let (ports, bytes) = (column(Column::DstPort).as_primitive::<UInt16Type>(), column(Column::Bytes));
        for row in 0..batch.num_rows() {
            let octets = addresses.value(row);
            let address = match <[u8; 4]>::try_from(octets) {
                Ok(v4) => IpAddr::from(v4),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(octets).expect("an address")),
            };
            let bytes = bytes.as_primitive::<UInt64Type>().value(row);
            assert_eq!(lines.next(), Some(format!("{address},{},{bytes},", ports.value(row)).as_str()));
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn parquet_is_read_back() {
    let expected = concat_batches(&flows()[0].schema(), &flows()).expect("a batch");
    for burst_rows in [1, 500, 1 << 20] {
        let (file, counters) = dumped("format = 'parquet'", &flows(), burst_rows);
        assert_eq!(counters[0], ("rows_written", 3000));
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes_of(&file)).expect("Parquet");
        let group = builder.metadata().row_group(0);
        assert!(group.columns().iter().all(|column| matches!(column.compression(), Compression::ZSTD(_))));
        let read: Vec<_> = builder.build().expect("a reader").map(|batch| batch.expect("a batch")).collect();
        let read = concat_batches(&read[0].schema(), &read).expect("a batch");
        assert_eq!(read.columns(), expected.columns());
        // What octets mean is kept too.
        assert_eq!(read.schema().field_with_name("src_addr").expect("a field").metadata()["weir.content"], "address");
    }
}

fn bytes_of(file: &[u8]) -> fs::File {
    use std::io::{Seek, Write};
    let mut copy = tempfile::tempfile().expect("a file");
    copy.write_all(file).and_then(|()| copy.rewind()).expect("written");
    copy
}

#[test]
fn a_file_without_rows_can_be_read() {
    assert_eq!(dumped("", &[], 1).0, b"");
    assert_eq!(dumped("columns = ['start', 'bytes']", &[], 1).0, b"start,bytes\n");
    assert_eq!(dumped("format = 'json'", &[], 1).0, b"[]\n");
    let (file, _) = dumped("format = 'parquet'\ncolumns = ['start', 'bytes']", &[], 1);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes_of(&file)).expect("Parquet");
    assert_eq!((builder.schema().fields().len(), builder.metadata().file_metadata().num_rows()), (2, 0));
    let (image, _) = dumped("format = 'plot'\nx = 'start'\ny = 'bytes'", &[], 1);
    assert!(String::from_utf8(image).expect("text").contains("no points"));
}

#[test]
fn the_limit_cuts_between_rows() {
    for burst_rows in [1, 64, 1 << 20] {
        let (text, counters) = dumped("rows_max = 701\ncolumns = 'bytes'", &flows(), burst_rows);
        let lines = lines_of(&text);
        assert_eq!((lines, counters[0]), (702, ("rows_written", 701)));
    }
}

#[test]
fn a_file_is_replaced_only_when_told() {
    let folder = tempfile::tempdir().expect("a folder");
    for format in ["csv", "parquet"] {
        let path = folder.path().join(format);
        fs::write(&path, "precious").expect("a file");
        let others = format!("format = '{format}'");
        let error = opened(&parameters(&path, &others), &StopSignal::new()).err().expect("an error").to_string();
        assert_eq!(error, format!("{} exists already\nhint: 'overwrite = true' replaces it", path.display()));
        assert_eq!(fs::read(&path).expect("a file"), b"precious");
        compliance::sink(&KIND, &parameters(&path, &format!("{others}\noverwrite = true")), &flows(), 100);
        assert!(!fs::read(&path).expect("a file").starts_with(b"precious"));
    }
}

#[test]
fn parquet_has_its_name_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.parquet");
    let (mut sink, _) = opened(&parameters(&path, "format = 'parquet'"), &StopSignal::new()).expect("a sink");
    sink.take(Burst::new(flows()[0].clone())).expect("taken");
    assert_eq!(sink.state().rows, 700);
    assert!(!path.exists() && folder.path().join("rows.parquet.part").exists());
    sink.finish().expect("finished");
    assert!(path.exists() && !folder.path().join("rows.parquet.part").exists());
    assert_eq!(sink.state().rows, 0);
}

#[test]
fn text_can_be_read_while_the_chain_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("rows.csv");
    let (mut sink, _) = opened(&parameters(&path, "columns = 'bytes'"), &StopSignal::new()).expect("a sink");
    sink.take(Burst::new(flows()[1].clone())).expect("taken");
    sink.tick().expect("a tick");
    assert_eq!(fs::read_to_string(&path).expect("a file").lines().count(), 2);
}

#[test]
fn rows_of_any_columns_are_written() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("name", Arc::new(StringArray::from(vec!["a", "b"]))),
        ("share", Arc::new(Float64Array::from(vec![0.1, 1e300]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let narrow = batch.project(&[0]).expect("a batch");
    assert_eq!(dumped("", &[batch.clone(), narrow.clone()], 1).0, b"name,share\na,0.1\nb,1e300\na,\nb,\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (mut sink, _) = opened(&parameters(&folder.path().join("rows"), ""), &StopSignal::new()).expect("a sink");
    sink.take(Burst::new(narrow)).expect("taken");
    let error = sink.take(Burst::new(batch)).expect_err("an error").to_string();
    assert!(error.starts_with("rows have a column 'share' now"), "{error}");
}

#[test]
fn a_full_disk_is_waited_for_until_the_chain_stops() {
    if !Path::new("/dev/full").exists() {
        weir_testkit::skip("dev-full", "there is no /dev/full");
        return;
    }
    for format in ["csv", "parquet"] {
        let stop = StopSignal::new();
        let others = format!("format = '{format}'");
        let (mut sink, context) = opened(&parameters(Path::new("/dev/full"), &others), &stop).expect("a sink");
        let writer = thread::spawn(move || {
            flows().into_iter().try_for_each(|batch| sink.take(Burst::new(batch)))?;
            sink.finish()
        });
        let retried = context.counters.counter("writes_retried");
        while retried.get() == 0 && !writer.is_finished() {
            thread::yield_now();
        }
        stop.set();
        let error = writer.join().expect("no panic").expect_err("an error").chain();
        assert!(retried.get() > 0);
        assert!(error.starts_with("cannot write /dev/full: No space left on device"), "{format}: {error}");
    }
}

#[test]
fn a_reader_that_goes_away_has_had_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    if !Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success()) {
        weir_testkit::skip("mkfifo", "mkfifo is not installed");
        return;
    }
    for format in ["csv", "parquet"] {
        let reader = thread::spawn({
            let path = path.clone();
            move || fs::File::open(path).and_then(|mut file| file.read(&mut [0; 1])).expect("read")
        });
        let others = format!("format = '{format}'");
        let (mut sink, _) = opened(&parameters(&path, &others), &StopSignal::new()).expect("a sink");
        let mut reader = Some(reader);
        for _ in 0..1000 {
            if sink.is_full() {
                break;
            }
            sink.take(Burst::new(flows()[2].clone())).expect("taken");
            sink.tick().expect("a tick");
            // From here on nobody reads; Parquet says little before the first row group is full.
            if format == "csv"
                && let Some(reader) = reader.take()
            {
                reader.join().expect("no panic");
            }
        }
        assert!(sink.is_full());
        sink.finish().expect("no error");
        reader.map(thread::JoinHandle::join);
    }
}

#[test]
fn parameters_must_make_sense() {
    assert_eq!(refused("path = 'a'\nx = 'start'"), "x: 'x' is for plots only");
    assert_eq!(refused("path = 'a'\nformat = 'plot'\nx = 'start'"), "y: a plot needs 'y'");
    assert_eq!(refused("path = 'a'\nformat = 'plot'\ny = 'start'"), "x: a plot needs 'x'");
    let both = "path = 'a'\nformat = 'plot'\nx = 'start'\ny = 'bytes'\ncolumns = 'bytes'";
    assert_eq!(refused(both), "columns: 'columns' is not for plots");
    assert_eq!(refused("path = 'a'\ncolumns = ['a', 'b', 'a']"), "columns: column 'a' is there twice");
}
