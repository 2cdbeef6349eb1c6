//! Packet filters: what tcpdump takes, we take.

use std::fs;
use std::path::Path;
use std::process::Command;

use weir_capture::FileOptions;

use crate::captures::{Read, captures, read};

/// Expressions of all that the language has: addresses, nets, ports, protocols, lengths, tags, arithmetic.
const EXPRESSIONS: [&str; 40] = [
    "ip",
    "ip6",
    "arp or rarp",
    "not ip",
    "tcp",
    "udp",
    "icmp or icmp6",
    "sctp",
    "tcp port 80",
    "port 53",
    "src port 53",
    "dst portrange 1024-65535",
    "udp and not port 53",
    "host 10.0.0.1 or host 192.168.1.1",
    "src net 10.0.0.0/8",
    "net 192.168.0.0/16 and tcp",
    "dst host 255.255.255.255",
    "ip6 net fe80::/10",
    "ip6 host ff02::1",
    "less 100",
    "greater 1000",
    "len > 60 and len <= 590",
    "ip proto 47",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x1fff != 0",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[13] == 2",
    "tcp[((tcp[12] & 0xf0) >> 2):4] = 0x47455420",
    "icmp[icmptype] = icmp-echo",
    "ip[8] < 64",
    "ip[2:2] % 4 == 1 or ip[2:2] * 3 > 4000",
    "udp[4:2] / 8 == 12 or udp[4:2] ^ 5 = 20",
    "ip multicast or ip6 multicast",
    "(tcp or udp) and (port 443 or port 80 or port 53)",
    "ip and (tcp port 22 or udp port 161 or ip proto 50)",
    "vlan",
    "vlan and ip",
    "mpls",
    "pppoes and ip",
    "ether broadcast",
];

/// One expression in so many is tried on a capture.
const EXPRESSIONS_STEP: usize = 8;

/// A pcap file that tcpdump wrote of what it took: octets of each packet.
fn tcpdump(program: &Path, capture: &Path, expression: &str, into: &Path) -> Option<Vec<Vec<u8>>> {
    let mut command = Command::new(program);
    let output = command.arg("-r").arg(capture).arg("-w").arg(into).arg(expression).output().unwrap();
    if !output.status.success() {
        return None;
    }
    let octets = fs::read(into).unwrap();
    let mut rest = octets.get(24..)?;
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<16>() {
        let captured = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
        frames.push(after.get(..captured)?.to_vec());
        rest = &after[captured..];
    }
    Some(frames)
}

fn ours(capture: &Path, expression: &str) -> Read {
    let filter = Some(expression.to_owned());
    read(&FileOptions { paths: vec![capture.to_owned()], filter, ..FileOptions::default() })
}

#[test]
fn tcpdump_takes_the_same_packets() {
    let (Some(corpus), Some(program)) = (weir_testkit::corpus(), weir_testkit::program("tcpdump")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("taken.pcap");
    let (mut taken, mut filtered, mut compared) = (0, 0, 0);
    let mut different = Vec::new();
    for (at, capture) in captures(&corpus).iter().enumerate() {
        // a few expressions for each capture, and all of them over the captures
        for expression in EXPRESSIONS.iter().skip(at % EXPRESSIONS_STEP).step_by(EXPRESSIONS_STEP) {
            let ours = ours(capture, expression);
            // tcpdump knows links that we do not, and refuses files with two of them
            let Some(theirs) = tcpdump(&program, capture, expression, &into) else { continue };
            if ours.counts.frames_unknown_link + ours.counts.files_failed > 0 {
                continue;
            }
            // tcpdump cuts frames to the snap length that the file states, whatever is in it
            let is_same = ours.packets.len() == theirs.len()
                && ours.packets.iter().zip(&theirs).all(|(ours, theirs)| ours.3.starts_with(theirs));
            if !is_same {
                let (name, many, of_tcpdump) = (capture.display(), ours.packets.len(), theirs.len());
                different.push(format!("{name} '{expression}': {many} of ours, {of_tcpdump} of tcpdump"));
            }
            taken += theirs.len() as u64;
            filtered += ours.counts.frames_filtered;
            compared += 1;
        }
    }
    println!("{compared} comparisons, {taken} packets taken, {filtered} not");
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 50 && taken > 100 && filtered > 100);
}
