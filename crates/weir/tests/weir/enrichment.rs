//! What files know about addresses and interfaces: kept with flows, asked for, and printed beside numbers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::{
    ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray, UInt32Array, UInt64Array, new_null_array,
};
use weir_archive::Snapshot;
use weir_flow::{Column, FlowBatchBuilder, Table, parse_address};

use crate::process::{Collector, Exporter, run, weir};

/// Databases of another writer, and what another reader finds in them.
fn golden(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/golden").join(name).display().to_string()
}

#[track_caller]
fn told(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Three flows: source and destination, and the interface that they came in by.
fn flows_csv(folder: &Path) -> String {
    let path = folder.join("flows.csv");
    let text = "exporter,src_addr,dst_addr,in_if,packets,bytes,start,end,src_as\n\
                192.0.2.1,8.8.8.8,81.2.69.160,1,1,100,2026-11-25T00:00:00Z,2026-11-25T00:00:01Z,\n\
                192.0.2.1,10.1.2.3,8.8.8.8,2,1,200,2026-11-25T00:00:00Z,2026-11-25T00:00:01Z,7\n\
                192.0.2.2,9.9.9.9,10.2.0.0,2,1,400,2026-11-25T00:00:00Z,2026-11-25T00:00:01Z,\n";
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

struct Files {
    labels: String,
    interfaces: String,
    exporters: String,
}

fn files(folder: &Path) -> Files {
    let write = |name: &str, text: &str| {
        let path: PathBuf = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    Files {
        labels: write("labels.csv", "10.0.0.0/8,inside\n10.1.2.3,printer\n"),
        interfaces: write("interfaces.csv", "192.0.2.1,1,uplink\n192.0.2.1,2,lan\n192.0.2.2,2,dmz\n"),
        exporters: write("exporters.csv", "192.0.2.1,edge\n192.0.2.2,core\n"),
    }
}

#[test]
fn routes_say_whose_addresses_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let [routes, more] =
        [("routes", "8.0.0.0/8,64500\n10.0.0.0/8,64501\n"), ("more", "8.8.0.0/16,64502\n")].map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        });
    told(&["import", "--archive", &archive, &flows_csv(folder.path()), "--routes", &routes, "--routes", &more]);
    let listed = told(&["query", "-R", &archive, "-o", "csv", "-O", "bytes:a", "--columns", "bytes,src_as,dst_as"]);
    assert_eq!(listed, "bytes,src_as,dst_as\n100,64502,\n200,7,64502\n400,,64501\n");
    // questions look into routes where the database has nothing
    let systems = "SELECT bytes, asn(src_addr) AS src, asn(dst_addr) AS dst FROM flows ORDER BY bytes";
    let asked = |database: &[&str]| {
        let sql = ["sql", "-q", "-R", &archive, "-o", "csv", systems, "--routes", &routes, "--routes", &more];
        told(&[&sql[..], database].concat())
    };
    assert_eq!(asked(&[]), "bytes,src,dst\n100,64502,\n200,64501,64502\n400,,64501\n");
    let with_database = asked(&["--asn-mmdb", &golden("asn.mmdb")]);
    // what the database has goes before (`expected.csv` beside it)
    assert_eq!(with_database, "bytes,src,dst\n100,15169,\n200,64513,15169\n400,,64512\n");
    let configuration = folder.path().join("weir.toml");
    std::fs::write(&configuration, format!("[enrichment]\nroutes = ['{routes}']\n")).expect("written");
    told(&["config", "check", &configuration.display().to_string()]);
}

#[test]
fn what_is_kept_is_filtered_ranked_grouped_and_selected() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let Files { labels, interfaces, exporters } = files(folder.path());
    let (country, asn) = (golden("country.mmdb"), golden("asn.mmdb"));
    let kept = ["--labels", &labels, "--interfaces", &interfaces, "--exporters", &exporters];
    let kept = [&kept[..], &["--geo-mmdb", &country, "--asn-mmdb", &asn]].concat();
    told(&[&["import", "--archive", &archive, &flows_csv(folder.path())], &kept[..]].concat());

    let columns = "bytes,src_country,dst_country,src_label,in_if_name,exporter_name,src_as";
    let listed = told(&["query", "-R", &archive, "-o", "csv", "-O", "bytes:a", "--columns", columns]);
    let expected = "bytes,src_country,dst_country,src_label,in_if_name,exporter_name,src_as\n\
                    100,US,GB,,uplink,edge,15169\n\
                    200,,US,printer,lan,edge,7\n\
                    400,,,,dmz,core,\n";
    assert_eq!(listed, expected);
    for (filter, bytes) in [
        ("country US", "100 200"),
        ("src geo US", "100"),
        ("label printer", "200"),
        ("dst label inside", "400"),
        ("in if name like 'l%' or router name core", "200 400"),
    ] {
        let found = told(&["query", "-q", "-R", &archive, "-o", "csv", "-O", "bytes:a", "--columns", "bytes", filter]);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>().join(" "), bytes, "{filter}");
    }
    let ranked = told(&["query", "-q", "-R", &archive, "-o", "csv", "-s", "geo/bytes"]);
    let places: Vec<_> = ranked.lines().map(|line| line.split(',').next().unwrap_or_default()).collect();
    assert_eq!(places, ["US", "GB"], "{ranked}");
    let grouped = told(&["query", "-q", "-R", &archive, "-o", "csv", "-A", "exporter_name", "-O", "bytes"]);
    assert!(grouped.starts_with("core,1,1,400,") && grouped.contains("\nedge,2,2,300,"), "{grouped}");
    let versions = told(&["sql", "-q", "-R", &archive, "-o", "csv", "SELECT DISTINCT enrichment FROM flows"]);
    let built = "\"GeoLite2-ASN 2026-11-21T16:05:39Z, GeoLite2-Country 2026-11-21T16:05:39Z, labels.csv 20";
    let of_one = versions.lines().nth(1).is_some_and(|line| line.starts_with(built)) && versions.lines().count() == 2;
    assert!(of_one, "{versions}");
}

#[test]
fn a_chain_that_enriches_in_front_of_an_archive_passes_its_check_and_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let Files { labels, .. } = files(folder.path());
    let chain = format!(
        "[components.source]\ntype = \"generator\"\nrecords = 500\n\
         [components.names]\ntype = \"enrich\"\ninputs = [\"source\"]\nlabels = \"{labels}\"\ngeo_mmdb = \"{}\"\n\
         [components.archive]\ntype = \"archive\"\ninputs = [\"names\"]\narchive = \"{archive}\"\n",
        golden("country.mmdb")
    );
    for command in ["check", "run"] {
        let mut child = weir();
        child.args(["chain", command, "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("weir starts");
        child.stdin.take().expect("standard input").write_all(chain.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let counted = "SELECT count(*) AS n, count(*) FILTER (WHERE enrichment LIKE '%labels.csv%') AS enriched FROM flows";
    assert_eq!(told(&["sql", "-q", "-R", &archive, "-o", "csv", counted]), "n,enriched\n500,500\n");
}

#[test]
fn a_collector_keeps_names_and_its_books_balance() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let Files { labels, .. } = files(folder.path());
    let collector = Collector::start(&archive, &["--labels", &labels]);
    let mut exporter = Exporter::new(0);
    for _ in 0..3 {
        exporter.send(collector.address);
    }
    // what accounts for flows is in the frame of the flows: a kill keeps both or neither
    let until = Instant::now() + Duration::from_mins(2);
    let snapshot = loop {
        let snapshot = Snapshot::open(&archive).expect("an archive");
        if snapshot.flows() == 90 {
            break snapshot;
        }
        assert!(Instant::now() < until, "{} flows", snapshot.flows());
        std::thread::sleep(Duration::from_millis(10));
    };
    for frame in snapshot.tail_frames().iter().filter(|frame| frame.flows() > 0) {
        let sequences = frame.read(Table::ExporterSequences).expect("readable");
        assert!(!sequences.is_empty(), "a frame of {} flows has no sequence numbers", frame.flows());
    }
    drop(snapshot);
    collector.stop();
    let archive = archive.display().to_string();
    let books = run(&["books", "-R", &archive]);
    assert!(books.status.success(), "{}", String::from_utf8_lossy(&books.stderr));
    let labelled = "SELECT count(*) AS n FROM flows WHERE src_label = 'inside'";
    assert_eq!(told(&["sql", "-q", "-R", &archive, "-o", "csv", labelled]), "n\n90\n");
}

#[test]
fn tables_have_names_beside_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let Files { interfaces, exporters, .. } = files(folder.path());
    told(&["import", "--archive", &archive, &flows_csv(folder.path())]);
    let words = |arguments: &[&str]| {
        let table = told(&[&["query", "-R", &archive, "--bars", "never"], arguments].concat());
        let line = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        table.lines().map(line).collect::<Vec<_>>()
    };
    let named = ["--interfaces", &interfaces, "--exporters", &exporters];
    let ranked = words(&[&["-s", "inif/bytes"], &named[..]].concat());
    assert_eq!(ranked[1..], ["2 dmz, lan 2", "1 uplink 1 1"], "interface 2 is another one at each exporter");
    let grouped = words(&[&["-A", "router,inif", "-O", "bytes"], &named[..]].concat());
    assert_eq!(grouped[1..], ["192.0.2.2 core 2 dmz", "192.0.2.1 edge 2 lan", "192.0.2.1 edge 1 uplink"]);
    let numeric = words(&[&["-s", "inif/bytes", "--numeric"], &named[..]].concat());
    assert_eq!(numeric[1..], ["2 2 2 600", "1 1 1 100"]);
    let csv = told(&[&["query", "-R", &archive, "-o", "csv", "-s", "inif/bytes"], &named[..]].concat());
    assert!(csv.starts_with("in_if,flows,"), "{csv}");
    let systems = told(&["query", "-R", &archive, "-s", "srcas", "--asn-mmdb", &golden("asn.mmdb"), "--bars", "never"]);
    assert!(!systems.contains("GOOGLE"), "the one number is 7, which the database does not name: {systems}");
}

#[test]
fn names_that_exporters_report_are_printed_without_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    // 2025-11-24T16:00:00Z
    for time in [Column::Received, Column::Start, Column::End] {
        builder.time(time).push(Some(1_764_000_000_000));
    }
    builder.address(Column::Exporter).push(parse_address("192.0.2.1").as_deref());
    builder.u32(Column::InIf).push(Some(7));
    builder.u64(Column::Bytes).push(Some(100));
    let mut options = weir_flow::OptionsRows::default();
    let router = [192, 0, 2, 1];
    for (received_ms, name) in [(1_764_000_000_000, "old"), (1_764_000_001_000, "xe-0/0/7")] {
        let row = weir_flow::OptionsRow {
            kind: weir_flow::OptionsKind::Interface,
            key: Some(7),
            name: Some(name),
            ..weir_flow::OptionsRow::blank(received_ms, &router, 0, 9)
        };
        options.push(&row, std::iter::empty());
    }
    let others = options.take().into_iter().collect();
    let side_tables = weir_flow::SideTables { others, ..weir_flow::SideTables::default() };
    let delivery = weir_flow::Delivery { flows: Some(builder.finish()), side_tables };
    let (mut writer, _) = weir_archive::Writer::open(&archive, weir_archive::ArchiveOptions::default()).expect("open");
    writer.append(delivery).expect("appended");
    let folder = archive.display().to_string();
    let table = |what: &str| {
        // of all times, and of the time when it had another name
        for (more, name) in [(&[][..], "xe-0/0/7"), (&["--until", "2025-11-24T16:00:00.500Z"][..], "old")] {
            let table = told(&[&["query", "-R", &folder, "-s", "inif", "--bars", "never"], more].concat());
            let row: Vec<_> =
                table.lines().nth(1).unwrap_or_default().split_whitespace().take(2).map(str::to_owned).collect();
            assert_eq!(row, ["7", name], "{what}: {table}");
        }
        let names = "SELECT if_name(exporter, in_if) AS newest, if_name(exporter, in_if, received) AS of_then, \
                     if_name(exporter, in_if, received + INTERVAL '1' SECOND) AS later, \
                     if_name(exporter, in_if, received - INTERVAL '1' DAY) AS earlier FROM flows";
        let printed = told(&["sql", "-q", "-R", &folder, "-o", "csv", names]);
        assert_eq!(printed, "newest,of_then,later,earlier\nxe-0/0/7,old,xe-0/0/7,old\n", "{what}");
    };
    table("in the tail");
    writer.close().expect("closed");
    table("in a segment");
    let service = super::service::Service::start(&["--archive", &folder]);
    for (until, name) in [("", "xe-0/0/7"), ("&until=2025-11-24T16:00:00.500Z", "old")] {
        let listed = service.get(&format!("/interfaces?from=2025-11-24T00:00:00Z{until}"));
        assert_eq!(listed[0]["name"], name, "{listed}");
    }
    let known = |at: &str| {
        let body = format!("{{\"values\": {{\"in_if\": [\"192.0.2.1/7\"]}}{at}}}");
        let answer = service.ask("POST", "/api/v1/names", &["Content-Type: application/json"], &body).json();
        answer["in_if"]["192.0.2.1/7"]["label"].clone()
    };
    assert_eq!(known(""), "xe-0/0/7");
    assert_eq!(known(", \"at\": \"2025-11-24T16:00:00.500Z\""), "old");
}

/// Rows of counters of interface 7 of 192.0.2.1: when they were received, and the speed.
fn speeds(rows: &[(i64, u64)]) -> weir_flow::TableBatch {
    let schema = Table::InterfaceCounters.schema();
    let count = rows.len();
    let columns = schema.fields().iter().map(|field| -> ArrayRef {
        match field.name().as_str() {
            "received" => {
                let times = rows.iter().map(|(received_ms, _)| *received_ms);
                Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
            }
            "exporter" => Arc::new(BinaryArray::from(vec![&[192, 0, 2, 1][..]; count])),
            "if_index" => Arc::new(UInt32Array::from(vec![7; count])),
            "if_speed" => Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(_, speed)| *speed))),
            _ => new_null_array(field.data_type(), count),
        }
    });
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("columns of the table");
    weir_flow::TableBatch::try_new(Table::InterfaceCounters, batch).expect("rows of the table")
}

/// A service over an archive of these counters.
fn service_of(archive: &Path, rows: &[(i64, u64)]) -> super::service::Service {
    let side_tables = weir_flow::SideTables { others: vec![speeds(rows)], ..weir_flow::SideTables::default() };
    let (mut writer, _) = weir_archive::Writer::open(archive, weir_archive::ArchiveOptions::default()).expect("open");
    writer.append(weir_flow::Delivery { flows: None, side_tables }).expect("appended");
    writer.close().expect("closed");
    super::service::Service::start(&["--archive", &archive.display().to_string()])
}

/// The speed of the interface, and `at` of the request.
fn known_speed(service: &super::service::Service, at: &str) -> Option<u64> {
    let body = format!("{{\"values\": {{\"in_if\": [\"192.0.2.1/7\"]}}{at}}}");
    let answer = service.ask("POST", "/api/v1/names", &["Content-Type: application/json"], &body).json();
    answer["in_if"]["192.0.2.1/7"]["speed"].as_u64()
}

/// A clock that is wrong has counters of next month, which say nothing of the speed.
#[test]
fn counters_of_the_future_hide_no_speed() {
    let folder = tempfile::tempdir().expect("a folder");
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after the epoch").as_millis() as i64;
    let day_ms = 86_400_000;
    let rows = [(now_ms - day_ms, 1_000_000_000), (now_ms + 30 * day_ms, 0)];
    let service = service_of(&folder.path().join("archive"), &rows);
    assert_eq!(known_speed(&service, ""), Some(1_000_000_000));
    assert_eq!(known_speed(&service, ", \"at\": \"2200-01-01T00:00:00Z\""), Some(1_000_000_000));
}

#[test]
fn a_speed_is_the_newest_of_the_time_that_is_asked_about() {
    let folder = tempfile::tempdir().expect("a folder");
    // 2025-11-24T16:00:00Z; a link of 10 Gbit/s that has 1 Gbit/s three days later
    let (begin_ms, day_ms) = (1_764_000_000_000, 86_400_000);
    let rows = [(begin_ms, 10_000_000_000), (begin_ms + 3 * day_ms, 1_000_000_000)];
    let service = service_of(&folder.path().join("archive"), &rows);
    let known = |at: &str| known_speed(&service, at);
    assert_eq!(known(""), Some(1_000_000_000));
    let at = |day: u32, month: u32| known(&format!(", \"at\": \"2025-{month}-{day:02}T17:00:00Z\""));
    // within a day of the first, two days after it, after the second, and long after both
    assert_eq!([at(24, 11), at(26, 11), at(27, 11)], [10_000_000_000, 10_000_000_000, 1_000_000_000].map(Some));
    assert_eq!([at(23, 11), at(31, 12)], [None, Some(1_000_000_000)]);
}
