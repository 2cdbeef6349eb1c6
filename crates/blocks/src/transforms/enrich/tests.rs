use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::{Field, Schema, UInt32Type};
use weir_chain::{Built, Counters, compliance};
use weir_flow::{FlowBatchBuilder, parse_address};

use super::names::{Limits, Resolver};
use super::*;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/golden").join(name)
}

fn octets(address: &str) -> Vec<u8> {
    parse_address(address).expect("an address")
}

/// Sources, destinations, what the exporter told of their autonomous systems, and interfaces.
fn flows() -> RecordBatch {
    let sources =
        [Some("8.8.8.8"), Some("10.1.2.3"), None, Some("2001:db8:1::1"), Some("::ffff:1.0.0.1"), Some("9.9.9.9")];
    let known = [None, Some(0), Some(5), Some(7), Some(0), Some(3)];
    let mut builder = FlowBatchBuilder::new(8);
    builder.begin_rows(sources.len());
    for (row, (source, known)) in sources.into_iter().zip(known).enumerate() {
        let exporter = if row == 1 { "2001:db8::ffff" } else { "192.0.2.1" };
        builder.address(Column::Exporter).push(Some(&octets(exporter)));
        builder.address(Column::SrcAddr).push(source.map(octets).as_deref());
        builder.address(Column::DstAddr).push(Some(&octets("81.2.69.160")));
        builder.u32(Column::InIf).push((row != 2).then_some(1));
        builder.u32(Column::OutIf).push(Some(row as u32));
        builder.u32(Column::SrcAs).push(known);
    }
    builder.finish().record_batch().clone()
}

fn texts_of(rows: &RecordBatch, column: &str) -> Vec<String> {
    let values: &StringArray = rows.column_by_name(column).expect("the column").as_string();
    values.iter().map(|value| value.unwrap_or("-").to_owned()).collect()
}

fn numbers_of(rows: &RecordBatch, column: &str) -> Vec<Option<u32>> {
    rows.column_by_name(column).expect("the column").as_primitive::<UInt32Type>().iter().collect()
}

fn names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}

fn run(options: &str) -> RecordBatch {
    let rows = flows();
    let outcome = compliance::transform(&KIND, options, &[vec![rows.clone(), rows.slice(2, 2)]]);
    outcome.rows.expect("rows").slice(0, rows.num_rows())
}

#[test]
fn complies_and_adds_all_columns_in_their_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let labels = folder.path().join("labels.csv");
    let text = "prefix,label\n10.0.0.0/8,inside\n10.1.2.3,\"the, printer\"\n2001:db8::/32,doc\n::/0,v6\n";
    std::fs::write(&labels, text).expect("labels");
    let interfaces = folder.path().join("interfaces.csv");
    let text = "# two routers\n192.0.2.1,1,uplink\n192.0.2.1,5,core\n2001:db8::ffff,1,customer\n";
    std::fs::write(&interfaces, text).expect("interfaces");
    let exporters = folder.path().join("exporters.csv");
    std::fs::write(&exporters, "exporter,name\n192.0.2.0/24,\x1bedge\n").expect("exporters");
    let rows = run(&format!(
        "asn_mmdb = '{}'\ngeo_mmdb = '{}'\nlabels = '{}'\ninterfaces = '{}'\nexporters = '{}'",
        golden("asn.mmdb").display(),
        golden("country.mmdb").display(),
        labels.display(),
        interfaces.display(),
        exporters.display()
    ));
    let flow_columns = ["exporter", "src_addr", "dst_addr", "in_if", "out_if", "src_as", "dst_as"];
    let places = ["src_country", "dst_country", "src_label", "dst_label"];
    let names_and_files = ["in_if_name", "out_if_name", "exporter_name", "enrichment"];
    assert_eq!(names(&rows), [&flow_columns[..], &places, &names_and_files].concat());
    let numbers = [Some(15169), Some(64513), Some(5), Some(7), Some(13335), Some(3)];
    assert_eq!(numbers_of(&rows, "src_as"), numbers);
    assert_eq!(numbers_of(&rows, "dst_as"), [None; 6]);
    assert_eq!(texts_of(&rows, "src_country"), ["US", "-", "-", "ZZ", "AU", "-"]);
    assert_eq!(texts_of(&rows, "dst_country"), ["GB"; 6]);
    assert_eq!(texts_of(&rows, "src_label"), ["-", "the, printer", "-", "doc", "-", "-"]);
    assert_eq!(texts_of(&rows, "dst_label"), ["-"; 6]);
    assert_eq!(texts_of(&rows, "in_if_name"), ["uplink", "customer", "-", "uplink", "uplink", "uplink"]);
    assert_eq!(texts_of(&rows, "out_if_name"), ["-", "customer", "-", "-", "-", "core"]);
    // a terminal must not obey what a file says
    let edge = "\u{fffd}edge";
    assert_eq!(texts_of(&rows, "exporter_name"), [edge, "-", edge, edge, edge, edge]);
    let files = &texts_of(&rows, "enrichment")[0];
    let built = "GeoLite2-ASN 2026-11-21T16:05:39Z, GeoLite2-Country 2026-11-21T16:05:39Z, labels.csv 2";
    assert!(files.starts_with(built) && files.contains(", exporters.csv 2"), "{files}");
    weir_flow::FlowBatch::try_new(rows).expect("flows");
}

#[test]
fn what_is_there_stays_unless_it_is_overwritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let labels = folder.path().join("labels.csv");
    std::fs::write(&labels, "8.8.8.8,new\n10.0.0.0/8,inside\n").expect("labels");
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(3);
    for (address, label, files) in
        [("8.8.8.8", Some("old"), Some("hosts.csv 2026")), ("10.1.2.3", None, None), ("9.9.9.9", Some("old"), None)]
    {
        builder.address(Column::SrcAddr).push(Some(&octets(address)));
        builder.text(Column::SrcLabel).push(label.map(str::as_bytes));
        builder.text(Column::Enrichment).push(files.map(str::as_bytes));
    }
    let before = builder.finish().record_batch().clone();
    let labelled = |more: &str| {
        let options = format!("labels = '{}'\n{more}", labels.display());
        compliance::transform(&KIND, &options, &[vec![before.clone()]]).rows.expect("rows")
    };
    let rows = labelled("");
    assert_eq!(texts_of(&rows, "src_label"), ["old", "inside", "old"]);
    let files = texts_of(&rows, "enrichment");
    assert!(files[0].starts_with("hosts.csv 2026, labels.csv 2") && files[1].starts_with("labels.csv 2"), "{files:?}");
    assert_eq!(texts_of(&labelled("overwrite = true"), "src_label"), ["new", "inside", "old"]);
    // the same files again say nothing new
    let again = compliance::transform(&KIND, &format!("labels = '{}'", labels.display()), &[vec![rows]]);
    assert_eq!(texts_of(&again.rows.expect("rows"), "enrichment"), files);
}

#[test]
fn overwriting_keeps_what_the_database_does_not_know() {
    let rows = run(&format!("asn_mmdb = '{}'\noverwrite = true", golden("asn.mmdb").display()));
    let numbers = [Some(15169), Some(64513), Some(5), Some(4_200_000_000), Some(13335), Some(3)];
    assert_eq!(numbers_of(&rows, "src_as"), numbers);
}

#[test]
fn routes_go_before_the_database_and_the_longest_prefix_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    std::fs::write(&one, "prefix,as\n8.0.0.0/8,64500\n8.8.8.0/24,64501\n1.0.0.0/24,64502\n81.0.0.0/8,0\n")
        .expect("routes");
    std::fs::write(&two, "8.8.8.0/24,64503\n8.8.0.0/16,64504\n2001:db8::/32,64505\n").expect("routes");
    let options =
        format!("routes = ['{}', '{}']\nasn_mmdb = '{}'", one.display(), two.display(), golden("asn.mmdb").display());
    let rows = run(&options);
    // what the exporter gave stays; what no route has is in the database
    let numbers = [Some(64503), Some(64513), Some(5), Some(7), Some(64502), Some(3)];
    assert_eq!(numbers_of(&rows, "src_as"), numbers);
    assert_eq!(numbers_of(&rows, "dst_as"), [None; 6], "a route without a system");
    let files = &texts_of(&rows, "enrichment")[0];
    assert!(files.starts_with("GeoLite2-ASN 2026-11-21T16:05:39Z, one 2") && files.contains(", two 2"), "{files}");
    let alone = run(&format!("routes = ['{}']\noverwrite = true", two.display()));
    let numbers = [Some(64503), Some(0), Some(5), Some(64505), Some(0), Some(3)];
    assert_eq!(numbers_of(&alone, "src_as"), numbers);
}

#[test]
fn a_file_without_routes_or_with_half_of_them_is_an_error_and_the_old_one_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("routes");
    std::fs::write(&file, "8.8.8.0/24,64500\nwhat\n").expect("routes");
    let options = format!("routes = ['{}']\nreload = '1ms'", file.display());
    let (Built::Transform(mut block), context) = compliance::open(&KIND, &options) else { panic!("a transform") };
    let system = |block: &mut dyn Transform| {
        let mut out = Outlet::new();
        block.take(0, flows().slice(0, 1), &mut out).expect("rows");
        let burst = out.drain().next().expect("a burst");
        numbers_of(burst.rows(), "src_as")[0]
    };
    assert_eq!(system(block.as_mut()), Some(64500));
    std::fs::write(&file, "what is this").expect("no routes");
    tick_until(block.as_mut(), &context.counters, "reloads_failed", 1);
    assert_eq!(system(block.as_mut()), Some(64500));
    std::fs::write(&file, "8.8.0.0/16,64501\n").expect("routes");
    tick_until(block.as_mut(), &context.counters, "files_reloaded", 1);
    assert_eq!(system(block.as_mut()), Some(64501));
    // RFC 6396, sections 2 and 4.2: a TABLE_DUMP record of IPv4 with 8.8.8.0/24 and the path 64510, by the peer 192.0.2.1
    let header: [u8; 12] = [0, 0, 0, 1, 0, 12, 0, 1, 0, 0, 0, 29];
    let route: [u8; 29] =
        [0, 0, 0, 0, 8, 8, 8, 0, 24, 1, 0, 0, 0, 1, 192, 0, 2, 1, 0xfb, 0xf0, 0, 7, 0x40, 2, 4, 2, 1, 0xfb, 0xfe];
    let dump = [&header[..], &route].concat();
    std::fs::write(&file, &dump).expect("a dump");
    tick_until(block.as_mut(), &context.counters, "files_reloaded", 2);
    assert_eq!(system(block.as_mut()), Some(64510));
    let other: Vec<u8> = [&header[..], &route[..28], &[0xff]].concat();
    std::fs::write(&file, [&other[..], &dump[..20]].concat()).expect("a dump that ends within a record");
    tick_until(block.as_mut(), &context.counters, "reloads_failed", 2);
    assert_eq!(system(block.as_mut()), Some(64510));
}

#[test]
fn what_is_not_there_is_null() {
    let mut builder = FlowBatchBuilder::new(2);
    builder.begin_rows(2);
    builder.u64(Column::Packets).repeat(1, 2);
    let rows = builder.finish().record_batch().clone();
    let options = format!("geo_mmdb = '{}'\nasn_mmdb = '{0}'", golden("ipinfo.mmdb").display());
    let rows = compliance::transform(&KIND, &options, &[vec![rows]]).rows.expect("rows");
    assert_eq!(names(&rows), ["packets", "src_as", "dst_as", "src_country", "dst_country", "enrichment"]);
    assert_eq!(rows.column(1).null_count() + rows.column(3).null_count(), 4);
}

fn block(options: &str) -> Box<dyn Transform> {
    match compliance::open(&KIND, options).0 {
        Built::Transform(block) => block,
        _ => panic!("a transform"),
    }
}

#[test]
fn a_column_of_another_type_is_an_error() {
    let options = format!("geo_mmdb = '{}'", golden("country.mmdb").display());
    let column = |name| {
        let values: ArrayRef = Arc::new(UInt8Array::from(vec![1]));
        let schema = Arc::new(Schema::new(vec![Field::new(name, DataType::UInt8, true)]));
        RecordBatch::try_new(schema, vec![values]).expect("rows")
    };
    let error = block(&options).take(0, column("dst_country"), &mut Outlet::new()).expect_err("an error");
    assert_eq!(error.to_string(), "column 'dst_country' has type UInt8, but Utf8 is needed");
    let error = block(&options).take(0, column("src_addr"), &mut Outlet::new()).expect_err("an error");
    assert_eq!(error.to_string(), "column 'src_addr' has type UInt8, but Binary is needed");
}

#[test]
fn something_must_be_added() {
    let error = (KIND.configure)(EnrichOptions::default()).err().expect("an error");
    assert_eq!(error.message, "nothing is to be added");
}

/// Ticks until something has come of it.
fn tick_until(block: &mut dyn Transform, meter: &Counters, counter: &'static str, count: u64) {
    while meter.counter(counter).get() < count {
        block.tick(&mut Outlet::new()).expect("a tick");
        std::thread::yield_now();
    }
}

/// The label of a flow from 8.8.8.0/24.
fn label(block: &mut dyn Transform) -> String {
    let mut out = Outlet::new();
    block.take(0, flows().slice(0, 1), &mut out).expect("rows");
    let burst = out.drain().next().expect("a burst");
    texts_of(burst.rows(), "src_label").remove(0)
}

/// As SIGHUP does, however seldom they are looked at otherwise.
#[test]
fn files_are_read_again_when_that_is_asked_for() {
    for reload in ["0s", "1h"] {
        let folder = tempfile::tempdir().expect("a folder");
        let labels = folder.path().join("labels.csv");
        std::fs::write(&labels, "8.8.8.0/24,before\n").expect("labels");
        let options = format!("labels = '{}'\nreload = '{reload}'", labels.display());
        let (Built::Transform(mut block), context) = compliance::open(&KIND, &options) else { panic!("a transform") };
        std::fs::write(&labels, "8.8.8.0/24,much later\n").expect("labels");
        block.tick(&mut Outlet::new()).expect("a tick");
        assert_eq!(label(block.as_mut()), "before", "{reload}");
        context.reload.ask();
        tick_until(block.as_mut(), &context.counters, "files_reloaded", 1);
        assert_eq!(label(block.as_mut()), "much later", "{reload}");
    }
}

#[test]
fn a_changed_file_is_read_again_and_a_broken_one_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let labels = folder.path().join("labels.csv");
    std::fs::write(&labels, "8.8.8.0/24,before\n").expect("labels");
    let options = format!("labels = '{}'\nreload = '1ms'", labels.display());
    let (Built::Transform(mut block), context) = compliance::open(&KIND, &options) else { panic!("a transform") };
    assert_eq!(label(block.as_mut()), "before");
    std::fs::write(&labels, "8.8.8.0/24,much later\n").expect("labels");
    tick_until(block.as_mut(), &context.counters, "files_reloaded", 1);
    assert_eq!(label(block.as_mut()), "much later");
    std::fs::write(&labels, "8.8.8.0/24,broken,line\n").expect("labels");
    tick_until(block.as_mut(), &context.counters, "reloads_failed", 1);
    assert_eq!(label(block.as_mut()), "much later");
    std::fs::remove_file(&labels).expect("removed");
    tick_until(block.as_mut(), &context.counters, "reloads_failed", 2);
    std::fs::write(&labels, "8.8.8.0/24,again\n").expect("labels");
    tick_until(block.as_mut(), &context.counters, "files_reloaded", 2);
    assert_eq!(label(block.as_mut()), "again");
}

#[test]
fn names_come_when_they_are_known() {
    let meter = Counters::new();
    let limits = Limits {
        threads: 1,
        entries_max: 100,
        questions_max: 100,
        ttl: Duration::from_mins(1),
        negative_ttl: Duration::from_mins(1),
    };
    let resolver: Resolver =
        Arc::new(|address| (address == IpAddr::from([8, 8, 8, 8])).then(|| "dns.example".to_owned()));
    let names = Names::start(limits, &resolver, &meter).expect("a thread");
    let made = plan::made(&EnrichOptions { reverse_dns: true, ..EnrichOptions::default() }).collect();
    let mut block =
        Enrich { tables: Tables::default(), made, overwrite: false, names: Some(names), reload: None, plan: None };
    let mut out = Outlet::new();
    block.take(0, flows(), &mut out).expect("rows");
    assert_eq!(block.state().rows, 6, "five sources and a destination are asked for");
    (0..6).for_each(|_| block.names.as_mut().expect("names").wait());
    block.take(0, flows(), &mut out).expect("rows");
    let bursts: Vec<_> = out.drain().map(|burst| burst.rows().clone()).collect();
    assert_eq!(texts_of(&bursts[0], "src_name"), ["-"; 6]);
    assert_eq!(texts_of(&bursts[1], "src_name"), ["dns.example", "-", "-", "-", "-", "-"]);
    assert_eq!(texts_of(&bursts[1], "dst_name"), ["-"; 6]);
    assert_eq!(meter.counter("name_hits").get(), 1);
    assert_eq!(meter.counter("name_lookups_without_name").get(), 5);
    block.finish(&mut out).expect("the end");
    assert_eq!(block.state().rows, 0);
}
