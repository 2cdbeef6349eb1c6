use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_chain::compliance;
use weir_export::{ExporterConfig, Version};
use weir_flow::Column;
use weir_generate::{Stream, TrafficModel, write_pcap};

use super::*;

const READER: &BlockKind = &KIND;

/// Writes `count` numbered flows, exported to a port, into a capture.
fn capture(path: &Path, version: Version, count: u64, port: u16) {
    let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(count).expect("a model");
    let stream = Stream { source: None, config: ExporterConfig::new(version) };
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    let sent = write_pcap(path, &mut flows, &[stream], target).expect("written");
    assert_eq!(sent.flows, count);
}

fn numbers(rows: &RecordBatch) -> Vec<u64> {
    let position = rows.schema().index_of(Column::Bytes.name()).expect("a column");
    rows.column(position).as_primitive::<UInt64Type>().values().to_vec()
}

fn parameters(files: &[&Path], more: &str) -> String {
    let files: Vec<_> = files.iter().map(|path| format!("'{}'", path.display())).collect();
    format!("files = [{}]\n{more}", files.join(", "))
}

#[test]
fn complies() {
    let dir = tempfile::tempdir().expect("a folder");
    let (first, second) = (dir.path().join("1.pcap"), dir.path().join("2.pcap"));
    capture(&first, Version::V9, 40_000, 2055);
    capture(&second, Version::V9, 500, 2055);
    let outcome = compliance::source(READER, &parameters(&[&first, &second], ""));
    let expected: Vec<u64> = (0..40_000).chain(0..500).collect();
    assert_eq!(numbers(&outcome.rows.expect("rows")), expected, "in the order of the files");
}

#[test]
fn what_is_not_exported_flows_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    let (ours, others) = (dir.path().join("ours"), dir.path().join("others"));
    capture(&ours, Version::Ipfix, 300, 4739);
    capture(&others, Version::V5, 200, 9995);
    let octets: u64 = [&ours, &others].iter().map(|path| fs::metadata(path).expect("a file").len()).sum();
    let (Built::Source(mut source), context) = compliance::open(READER, &parameters(&[&others, &ours], "port = 4739"))
    else {
        panic!("a source")
    };
    let (mut found, mut books, mut out) = (Vec::new(), 0, Outlet::new());
    while source.pull(&mut out).expect("no failure") != Pulled::Ended {
        for burst in out.drain() {
            found.extend(numbers(burst.rows()));
            books += burst.books().map_or(0, |books| books.record_batch().num_rows());
        }
    }
    assert_eq!(found, (0..300).collect::<Vec<_>>());
    assert!(books > 0, "books come with the flows");
    let counter = |name| context.meter.counter(name).get();
    assert_eq!((counter("files_read"), counter("octets_read")), (2, octets));
    assert_eq!(counter("frames"), counter("datagrams") + counter("datagrams_skipped"));
    assert!(counter("datagrams_skipped") >= 200 / 30);
    assert_eq!((counter("records_stored"), counter("frames_other"), counter("files_damaged")), (300, 0, 0));
}

#[test]
fn a_file_that_is_cut_short_is_read_as_far_as_it_goes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (cut, whole) = (dir.path().join("cut"), dir.path().join("whole"));
    capture(&cut, Version::V5, 3_000, 2055);
    capture(&whole, Version::V5, 30, 2055);
    let octets = fs::read(&cut).expect("a capture");
    fs::write(&cut, &octets[..octets.len() / 2]).expect("cut");
    let outcome = compliance::source(READER, &parameters(&[&cut, &whole], ""));
    let found = numbers(&outcome.rows.clone().expect("rows"));
    let (of_cut, of_whole) = found.split_at(found.len() - 30);
    assert!((1_000..2_000).contains(&of_cut.len()), "{}", of_cut.len());
    assert_eq!(of_cut, (0..of_cut.len() as u64).collect::<Vec<_>>());
    assert_eq!(of_whole, (0..30).collect::<Vec<_>>());
    assert_eq!((outcome.counter("files_damaged"), outcome.counter("files_read")), (1, 1));
}

#[test]
fn a_file_that_is_no_capture_is_an_error_or_skipped() {
    let dir = tempfile::tempdir().expect("a folder");
    let (whole, letter, absent) = (dir.path().join("whole"), dir.path().join("letter"), dir.path().join("absent"));
    capture(&whole, Version::V5, 30, 2055);
    fs::write(&letter, "dear reader, this is a letter and no capture of anything").expect("written");
    for (bad, why) in [(&letter, "not a pcap or pcapng file"), (&absent, "No such file")] {
        let files = [&whole, bad, &whole];
        let files: Vec<&Path> = files.iter().map(|path| path.as_path()).collect();
        let (Built::Source(mut source), _) = compliance::open(READER, &parameters(&files, "")) else {
            panic!("a source")
        };
        let (mut rows, mut out) = (0, Outlet::new());
        let error = loop {
            match source.pull(&mut out) {
                Ok(Pulled::Ended) => panic!("it is an error"),
                Ok(_) => rows += out.drain().map(|burst| burst.len()).sum::<usize>(),
                Err(error) => break error.chain(),
            }
        };
        assert_eq!(rows, 30, "flows of the file before come first");
        assert!(error.contains(&bad.display().to_string()) && error.contains(why), "{error}");
        let outcome = compliance::source(READER, &parameters(&files, "unreadable = 'skip'"));
        assert_eq!((outcome.len(), outcome.counter("files_unreadable"), outcome.counter("files_read")), (60, 1, 2));
    }
}
