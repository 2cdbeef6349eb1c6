//! The answers of ipfixprobe: outputs of its plugins, comma-separated, the names of columns in a line of their own.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weir_meter::application::{Application, Details, Protocol};

use crate::flows::{self, Key};

/// What came of the comparison.
#[derive(Default)]
pub(crate) struct Verdict {
    /// Values compared, by plugin.
    pub(crate) by_plugin: Vec<(&'static str, usize)>,
    pub(crate) values: usize,
    pub(crate) differences: Vec<String>,
}

/// A row by the names of its columns.
type Row = HashMap<String, String>;

/// A plugin: name of its output, of its capture, and what it says of a flow beside what is told here.
type Plugin = (&'static str, &'static str, fn(&Row, &Application) -> Vec<(String, String)>);

const PLUGINS: [Plugin; 9] = [
    ("tls", "tls", tls),
    ("dns", "dns", dns),
    ("ntp", "ntp", |_, flow| protocol(flow, &[Protocol::Ntp])),
    ("mqtt", "mqtt", |_, flow| protocol(flow, &[Protocol::Mqtt])),
    ("sip", "sip", sip),
    ("rtsp", "rtsp", rtsp),
    ("netbios", "netbios", netbios),
    ("dnssd", "dnssd", |_, flow| protocol(flow, &[Protocol::Mdns])),
    ("ssdp", "ssdp", |_, flow| protocol(flow, &[Protocol::Ssdp])),
];

/// Compares every plugin's output.
pub(crate) fn compare(corpus: &Path) -> Verdict {
    let folder = corpus.join("CESNET+ipfixprobe/tests/functional");
    let mut verdict = Verdict::default();
    for (plugin, capture, expected) in PLUGINS {
        let (flows, _) = flows::flows(&folder.join("inputs").join(format!("{capture}.pcap")));
        let found: HashMap<Key, &Application> = flows.iter().map(|flow| (flow.key, &flow.application)).collect();
        let before = verdict.values;
        let rows = rows(&folder.join("outputs").join(plugin));
        for row in &rows {
            let Some(application) = key(row).and_then(|key| found.get(&key)) else { continue };
            for (expected, found) in expected(row, application) {
                verdict.values += 1;
                if expected != found && !told_by_another_row(plugin, &rows, row, &found) {
                    verdict.differences.push(format!("{plugin}: {found}, expected {expected}, of {row:?}"));
                }
            }
        }
        verdict.by_plugin.push((plugin, verdict.values - before));
    }
    verdict
}

/// The `NetBIOS` plugin tells each question in a row of its own; only the first one of a flow is told here.
fn told_by_another_row(plugin: &str, rows: &[Row], row: &Row, found: &str) -> bool {
    let name = |row: &Row| row.get("NB_NAME").map(|name| name.trim().to_lowercase());
    plugin == "netbios" && rows.iter().any(|other| key(other) == key(row) && name(other).as_deref() == Some(found))
}

fn rows(path: &Path) -> Vec<Row> {
    let text = String::from_utf8_lossy(&std::fs::read(path).expect("an output")).into_owned();
    let header = text.lines().find(|line| line.starts_with("ipaddr ")).expect("names of columns");
    let names: Vec<&str> = header.split(',').filter_map(|column| column.split(' ').nth(1)).collect();
    let lines = text.lines().filter(|line| *line != header && !line.is_empty());
    lines.map(|line| names.iter().map(|name| (*name).to_owned()).zip(fields(line)).collect()).collect()
}

/// Fields, some of which stand in quotes.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        match character {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    fields
}

fn key(row: &Row) -> Option<Key> {
    let end = |address: &str, port: &str| {
        let address: IpAddr = row.get(address)?.parse().ok()?;
        Some(SocketAddr::new(address, row.get(port)?.parse().ok()?))
    };
    Some(flows::key(row.get("PROTOCOL")?.parse().ok()?, end("SRC_IP", "SRC_PORT")?, end("DST_IP", "DST_PORT")?))
}

fn protocol(flow: &Application, expected: &[Protocol]) -> Vec<(String, String)> {
    let fits = flow.protocol.is_some_and(|protocol| expected.contains(&protocol));
    vec![(expected[0].name().to_owned(), if fits { expected[0].name() } else { flow.name().unwrap_or("") }.to_owned())]
}

/// The pair of a column, when it has a value, and of what is told here.
fn pair(row: &Row, column: &str, found: Option<impl ToString>) -> Option<(String, String)> {
    let expected = row.get(column).filter(|value| !value.is_empty() && *value != "0")?;
    Some((expected.to_lowercase(), found.map(|found| found.to_string().to_lowercase()).unwrap_or_default()))
}

fn tls(row: &Row, flow: &Application) -> Vec<(String, String)> {
    let Details::Tls(details) = &flow.details else { return protocol(flow, &[Protocol::Tls]) };
    let ja3 = details.ja3.map(|octets| flows::digits(&octets));
    let pairs = [
        pair(row, "TLS_SNI", details.server_name.as_deref()),
        pair(row, "TLS_JA3", ja3),
        pair(row, "TLS_JA4", details.ja4.as_deref()).map(|(told, found)| (without_grease(row, &told), found)),
        pair(row, "TLS_ALPN", details.alpn_selected.as_deref()),
        // Without a `ServerHello` ipfixprobe tells the field that says TLS 1.2 ever since.
        details.server_version.and_then(|version| pair(row, "TLS_VERSION", Some(version))),
    ];
    pairs.into_iter().flatten().collect()
}

/// JA4 as ipfixprobe writes it counts the extensions of GREASE too, against the rules of JA4; the row lists their types,
/// so that they can be taken off.
fn without_grease(row: &Row, ja4: &str) -> String {
    let types = row.get("TLS_EXT_TYPE").map(String::as_str).unwrap_or_default();
    let types = types.trim_matches(['[', ']']).split('|').filter_map(|kind| kind.parse::<u16>().ok());
    let grease = types.filter(|kind| kind & 0x0f0f == 0x0a0a && kind >> 8 == kind & 0xff).count();
    match (ja4.get(..6), ja4.get(6..8).and_then(|count| count.parse::<usize>().ok()), ja4.get(8..)) {
        (Some(head), Some(count), Some(tail)) => format!("{head}{:02}{tail}", count - grease),
        _ => ja4.to_owned(),
    }
}

fn dns(row: &Row, flow: &Application) -> Vec<(String, String)> {
    let Details::Dns(details) = &flow.details else { return protocol(flow, &[Protocol::Dns]) };
    // ipfixprobe tells each message of a flow; only the first question is told here.
    if row.get("DNS_ID").map(String::as_str) != details.id.map(|id| id.to_string()).as_deref() {
        return Vec::new();
    }
    let response = row.get("DNS_ANSWERS").is_some_and(|answers| answers != "0");
    let pairs = [
        pair(row, "DNS_NAME", details.name.as_deref()),
        pair(row, "DNS_QTYPE", details.query_type),
        pair(row, "DNS_RCODE", details.response_code),
        if response { pair(row, "DNS_ANSWERS", details.answers) } else { None },
    ];
    pairs.into_iter().flatten().collect()
}

fn sip(row: &Row, flow: &Application) -> Vec<(String, String)> {
    let Details::Request(details) = &flow.details else { return protocol(flow, &[Protocol::Sip]) };
    pair(row, "SIP_USER_AGENT", details.user_agent.as_deref()).into_iter().collect()
}

fn rtsp(row: &Row, flow: &Application) -> Vec<(String, String)> {
    let Details::Request(details) = &flow.details else { return protocol(flow, &[Protocol::Rtsp]) };
    let pairs = [
        pair(row, "RTSP_REQUEST_METHOD", details.method.as_deref()),
        pair(row, "RTSP_REQUEST_AGENT", details.user_agent.as_deref()),
        pair(row, "RTSP_SERVER", details.server.as_deref()),
        pair(row, "RTSP_RESPONSE_STATUS_CODE", details.status),
    ];
    pairs.into_iter().flatten().collect()
}

fn netbios(row: &Row, flow: &Application) -> Vec<(String, String)> {
    let Details::Dns(details) = &flow.details else { return protocol(flow, &[Protocol::NetbiosNs]) };
    pair(row, "NB_NAME", details.name.as_deref())
        .map(|(name, told)| (name.trim().to_owned(), told))
        .into_iter()
        .collect()
}
