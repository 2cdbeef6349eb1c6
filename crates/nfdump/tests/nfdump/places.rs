//! Countries of addresses by `-G`. What is expected is what another reader finds in the database
//! (`crates/routes/golden/expected.csv`).

use std::path::Path;
use std::process::Output;

use weir_flow::{Column, FlowBatchBuilder, parse_address};
use weir_formats::nfcapd::{Writer, WriterOptions};

use super::{weir_as, words};

/// Sources and destinations: US, none; GB, AU; ZZ, DE.
const FLOWS: [(&str, &str); 3] = [("8.8.8.8", "9.9.9.9"), ("81.2.69.160", "1.0.0.1"), ("2001:db8::1", "2a02:8000::1")];

fn write_flows(path: &Path) {
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(FLOWS.len());
    for (number, (source, destination)) in FLOWS.into_iter().enumerate() {
        builder.time(Column::Start).push(Some(1_700_000_000_000));
        builder.time(Column::End).push(Some(1_700_000_001_000));
        builder.address(Column::SrcAddr).push(parse_address(source).as_deref());
        builder.address(Column::DstAddr).push(parse_address(destination).as_deref());
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(1));
        builder.u64(Column::Bytes).push(Some(100 * (number as u64 + 1)));
    }
    let mut writer = Writer::create(path, WriterOptions::default()).expect("a file");
    writer.write(&builder.finish()).expect("written");
    writer.finish().expect("written");
}

fn ask(folder: &Path, arguments: &str) -> Output {
    let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/golden/country.mmdb");
    let arguments = words(&arguments.replace("DATABASE", &database.display().to_string()));
    weir_as("1.7.8").args(arguments).current_dir(folder).env("TZ", "UTC").env_remove("NFCONF").output().expect("runs")
}

#[track_caller]
fn check(folder: &Path, arguments: &str, expected: &str) {
    let output = ask(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{arguments}");
}

#[test]
fn countries_are_printed_filtered_ranked_and_grouped() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_flows(&folder.join("nfcapd"));
    check(folder, "-r nfcapd -G DATABASE -q -N -o 'csv:%sa,%sc,%da,%dc' 'src geo US'", "8.8.8.8,US,9.9.9.9,..\n");
    check(
        folder,
        "-r nfcapd -G DATABASE -q -o 'fmt:%sc %dc %byt' 'geo AU or geo de'",
        "GB AU      200\nZZ DE      300\n",
    );
    check(folder, "-r nfcapd -G none -q -o 'fmt:%sc %dc' -c 1", ".. ..\n");
    let text = |arguments: &str| String::from_utf8_lossy(&ask(folder, arguments).stdout).into_owned();
    // with places nfdump prints them where no format is named
    let usual = text("-r nfcapd -G DATABASE -q -c 1");
    assert!(usual.contains("8.8.8.8(US):0") && usual.contains("9.9.9.9(..):0"), "{usual}");
    let ranked = text("-r nfcapd -G DATABASE -s geo/bytes -N -q");
    let mut places: Vec<_> = ranked.lines().filter_map(|line| line.split_whitespace().nth(4)).collect();
    places.sort_unstable();
    assert_eq!(places, ["AU", "DE", "GB", "US", "ZZ"], "{ranked}");
    let grouped = text("-r nfcapd -G DATABASE -A srcgeo -q -O bytes");
    assert_eq!(
        grouped.lines().map(|line| line.split_whitespace().nth(3)).collect::<Vec<_>>(),
        [Some("ZZ"), Some("GB"), Some("US")],
        "{grouped}"
    );
}

#[test]
fn a_file_that_is_no_database_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    write_flows(&folder.path().join("nfcapd"));
    std::fs::write(folder.path().join("geo.nf"), "nfdump's own").expect("written");
    let output = ask(folder.path(), "-r nfcapd -G geo.nf");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("geo.nf cannot be read"), "{said}");
}
