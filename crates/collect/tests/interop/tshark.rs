//! Wireshark's dissector as a second oracle: for every datagram the addresses, ports, protocols, counters, interfaces
//! and autonomous systems of its records, in order.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use weir_wire::value::be_uint;

use crate::expected::Verdict;
use crate::inputs::Datagram;
use crate::outcome::Case;
use crate::walk::{Message, Record};

/// Fields of the dissector, and the elements whose values it prints under each.
const FIELDS: &[(&str, &[u16])] = &[
    ("cflow.srcaddr", &[8]),
    ("cflow.dstaddr", &[12]),
    ("cflow.srcaddrv6", &[27]),
    ("cflow.dstaddrv6", &[28]),
    ("cflow.srcport", &[7, 180, 182]),
    ("cflow.dstport", &[11, 181, 183]),
    ("cflow.protocol", &[4]),
    ("cflow.octets", &[1]),
    ("cflow.packets", &[2]),
    ("cflow.inputint", &[10]),
    ("cflow.outputint", &[14]),
    ("cflow.srcas", &[16]),
    ("cflow.dstas", &[17]),
];

/// The port that the dissector is told to expect exports on.
const PORT: u16 = 2055;

/// Compares every datagram of every case; the verdicts are in the order of the cases.
pub(crate) fn check(tshark: &Path, cases: &[Case]) -> Vec<Verdict> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("exports.pcap");
    std::fs::write(&path, pcap(cases.iter().map(|case| &case.input.datagrams[..]), PORT)).expect("a file");
    let mut command = Command::new(tshark);
    command.args(["-n", "-d", &format!("udp.port=={PORT},cflow"), "-T", "fields", "-r"]).arg(&path);
    command.args(FIELDS.iter().flat_map(|(field, _)| ["-e", field]));
    let output = command.output().expect("tshark runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8_lossy(&output.stdout);
    let mut lines = output.lines();
    let mut verdict = |case: &Case| {
        let mut verdict = Verdict::default();
        for message in &case.messages {
            check_message(message, lines.next().expect("a line for each datagram"), &mut verdict);
        }
        verdict
    };
    cases.iter().map(&mut verdict).collect()
}

fn check_message(message: &Message, line: &str, verdict: &mut Verdict) {
    verdict.records += message.records().count();
    let mut differences = Vec::new();
    let mut only_missing = true;
    for ((name, elements), theirs) in FIELDS.iter().zip(line.split('\t')) {
        let ours: Vec<_> = message.records().flat_map(|record| values(record, elements)).collect();
        let theirs: Vec<_> = theirs.split(',').filter(|value| !value.is_empty()).map(str::to_owned).collect();
        verdict.values += ours.len();
        if ours != theirs {
            only_missing &= ours.starts_with(&theirs) || theirs.starts_with(&ours);
            differences.push((*name, format!("ours {ours:?}, theirs {theirs:?}")));
        }
    }
    // Records that one of us does not see are one difference and not one for each field.
    match differences.pop() {
        Some((_, example)) if only_missing && differences.len() > 3 => verdict.differ("records", example),
        last => differences.into_iter().chain(last).for_each(|(name, example)| verdict.differ(name, example)),
    }
}

/// The values of these elements as the dissector prints them.
fn values(record: &Record, elements: &[u16]) -> Vec<String> {
    let wanted = |element: weir_wire::ElementId| element.enterprise == 0 && elements.contains(&element.id);
    let fields = record.fields.iter().filter(|field| wanted(field.element) && !field.scope_type);
    let print = |octets: &[u8]| match (elements[0], weir_flow::address::to_ip(octets)) {
        (8 | 12 | 27 | 28, Some(address)) => address.to_string(),
        _ => be_uint(octets).map(|value| value.to_string()).unwrap_or_default(),
    };
    fields.map(|field| print(&field.octets)).collect()
}

/// All datagrams as one capture, each exporter under an address of its own, since templates are kept by exporter.
pub(crate) fn pcap<'a>(cases: impl Iterator<Item = &'a [Datagram]>, port: u16) -> Vec<u8> {
    let mut out = Vec::new();
    // magic number of microseconds, version 2.4, no offset, longest frame, Ethernet
    for word in [0xa1b2_c3d4_u32, 0x0002_0004, 0, 0, 0x0004_0000, 1] {
        out.extend(word.to_be_bytes());
    }
    for (case_number, datagrams) in cases.enumerate() {
        let mut sources: Vec<SocketAddr> = Vec::new();
        for datagram in datagrams {
            let number = sources.iter().position(|known| *known == datagram.source).unwrap_or_else(|| {
                sources.push(datagram.source);
                sources.len() - 1
            });
            let [_, _, high, low] = (case_number as u32).to_be_bytes();
            let frame = frame([10, high, low, number as u8], port, &datagram.payload);
            let secs = (datagram.received_ms / 1000) as u32;
            for word in [secs, (datagram.received_ms % 1000 * 1000) as u32, frame.len() as u32, frame.len() as u32] {
                out.extend(word.to_be_bytes());
            }
            out.write_all(&frame).expect("a vector grows");
        }
    }
    out
}

/// Ethernet, IPv4 and UDP around a payload, without checksums.
fn frame(source: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
    let udp_len = 8 + payload.len() as u16;
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + udp_len).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source);
    frame.extend([192, 0, 2, 2]);
    frame.extend([4001_u16, port, udp_len, 0].iter().flat_map(|word| word.to_be_bytes()));
    frame.extend(payload);
    frame
}
