//! What applications show, in columns, against what tshark says of the same captures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{UInt16Type, UInt32Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{Column, FlowBatch};
use weir_meter::{Measures, MeterOptions, Timeouts};

use crate::tunnels::meter;

/// Captures of nDPI.
const CAPTURES: [&str; 6] =
    ["instagram.pcap", "signal.pcap", "dropbox.pcap", "whatsapp_login_call.pcap", "firefox.pcap", "ultrasurf.pcap"];

/// Columns, and the fields of tshark that say the same.
const FIELDS: [(Column, &str); 5] = [
    (Column::ServerName, "tls.handshake.extensions_server_name"),
    (Column::Ja3, "tls.handshake.ja3"),
    (Column::DnsName, "dns.qry.name"),
    (Column::HttpHost, "http.host"),
    (Column::UserAgent, "http.user_agent"),
];

/// Biflows that no timeout cuts.
fn options() -> MeterOptions {
    let never = i64::from(u32::MAX) * 1_000_000;
    let timeouts = Timeouts { active_us: never, idle_us: never, closed_us: never, ..MeterOptions::default().timeouts };
    let measures = Measures { application: true, tcp: true, ..Measures::default() };
    MeterOptions { is_biflow: true, timeouts, measures, ..MeterOptions::default() }
}

/// Of each stream the first value of a field.
fn of_tshark(program: &Path, capture: &Path, field: &str) -> BTreeSet<String> {
    let fields = ["tcp.stream", "udp.stream", "frame.protocols", field];
    let mut command = Command::new(program);
    command.args(["-n", "-r"]).arg(capture).args(["-T", "fields", "-E", "occurrence=f", "-Y", field]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    let mut values = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<_> = line.split('\t').collect();
        let [tcp, udp, protocols, value] = cells[..] else { panic!("{line}") };
        // that one names hosts and no domain; of QUIC there is no JA3 here
        let is_other = ["nbns", "quic", "icmp"].iter().any(|name| protocols.contains(name)) && field != FIELDS[0].1;
        if !value.is_empty() && !is_other {
            values.entry((tcp.to_owned(), udp.to_owned())).or_insert_with(|| value.to_owned());
        }
    }
    values.into_values().collect()
}

fn of_weir(flows: &[FlowBatch], column: Column) -> BTreeSet<String> {
    let texts = flows.iter().filter_map(|batch| batch.text(column));
    let texts = texts.flat_map(|texts| texts.iter().flatten().map(str::to_owned).collect::<Vec<_>>());
    // tshark has names of the root otherwise
    texts.map(|text| if text == "." { "<Root>".to_owned() } else { text }).collect()
}

#[test]
fn columns_have_what_tshark_sees() {
    let (Some(corpus), Some(program)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let folder = corpus.join("ntop+nDPI/tests/cfgs/default/pcap");
    let (mut values, mut complaints) = (0, Vec::new());
    for name in CAPTURES {
        let capture = folder.join(name);
        let flows = meter(&capture, &options(), 1);
        for (column, field) in FIELDS {
            let (theirs, ours) = (of_tshark(&program, &capture, field), of_weir(&flows, column));
            values += theirs.len();
            if theirs != ours {
                let (lacking, extra) = (theirs.difference(&ours), ours.difference(&theirs));
                complaints.push(format!(
                    "{name} {column}: theirs {:?}, ours {:?}",
                    lacking.collect::<Vec<_>>(),
                    extra.collect::<Vec<_>>()
                ));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(values > 30, "{values} values");
}

/// Ports and round trip time of each connection whose handshake is there, in microseconds.
fn round_trips(program: &Path, capture: &Path) -> BTreeMap<(u16, u16), u32> {
    let mut command = Command::new(program);
    command.args(["-n", "-r"]).arg(capture).args(["-T", "fields", "-E", "occurrence=f"]);
    // the segment of the client that ends the handshake
    command.args(["-Y", "tcp.analysis.initial_rtt && tcp.flags.syn == 0 && tcp.seq == 1 && tcp.ack == 1"]);
    command.args(["tcp.srcport", "tcp.dstport", "tcp.analysis.initial_rtt"].iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark runs");
    let mut found = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<_> = line.split('\t').collect();
        let [src, dst, secs] = cells[..] else { panic!("{line}") };
        let us = (secs.parse::<f64>().expect("seconds") * 1e6).round() as u32;
        found.entry((src.parse().expect("port"), dst.parse().expect("port"))).or_insert(us);
    }
    found
}

#[test]
fn round_trips_are_those_of_tshark() {
    let (Some(corpus), Some(program)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let folder = corpus.join("ntop+nDPI/tests/cfgs/default/pcap");
    let mut compared = 0;
    for name in CAPTURES {
        let capture = folder.join(name);
        let theirs = round_trips(&program, &capture);
        for batch in meter(&capture, &options(), 2) {
            let ports = [Column::SrcPort, Column::DstPort].map(|column| batch.primitive::<UInt16Type>(column).cloned());
            let [Some(src), Some(dst)] = ports else { continue };
            let Some(ours) = batch.primitive::<UInt32Type>(Column::TcpRtt) else { continue };
            for row in (0..batch.rows()).filter(|row| ours.is_valid(*row)) {
                let Some(theirs) = theirs.get(&(src.value(row), dst.value(row))) else { continue };
                assert!(ours.value(row).abs_diff(*theirs) <= 1, "{name}: {} and not {theirs}", ours.value(row));
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared} compared");
}

#[test]
fn what_has_a_column_is_no_element_as_well() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let capture = corpus.join("ntop+nDPI/tests/cfgs/default/pcap/instagram.pcap");
    let mut elements = 0;
    for batch in meter(&capture, &options(), 4) {
        let Some(lists) = batch.column(Column::Elements) else { continue };
        for value in (0..batch.rows()).flat_map(|row| elements_of_row(lists, row)) {
            assert_eq!(Column::of_element(value.enterprise, value.id), None, "{}/{}", value.enterprise, value.id);
            elements += 1;
        }
        assert!(batch.column(Column::Application).expect("names").as_string::<i32>().iter().flatten().count() > 0);
    }
    assert!(elements > 10, "{elements} elements");
}
