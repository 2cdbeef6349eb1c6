//! Real sFlow datagrams and captures: read whole, cut at every octet, with every number replaced.

use std::path::{Path, PathBuf};

use weir_wire::packet::LinkType;

use crate::capture::{frames, udp_payloads};
use crate::sampled_walk::{Found, datagram, packet};

fn vectors(corpus: &Path) -> Vec<PathBuf> {
    let folders = ["gopacket+gopacket", "netsampler+goflow2", "mikemiles-dev+flowparser-sflow"];
    let folders = folders.map(|folder| corpus.join("_derived/inline-vectors").join(folder));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    files.filter(|file| file.to_string_lossy().contains("sflow5")).collect()
}

/// Datagrams of every kind of sample.
fn datagrams() -> Option<Vec<Vec<u8>>> {
    let corpus = weir_testkit::corpus()?;
    let mut datagrams: Vec<_> = vectors(&corpus).iter().map(|file| std::fs::read(file).expect("a file")).collect();
    let switches = udp_payloads(&corpus.join("_derived/orliin-sflow/raw-0001-0600.pcap"));
    datagrams.extend(switches.into_iter().take(3));
    datagrams
        .extend(udp_payloads(&corpus.join("the-tcpdump-group+tcpdump/tests/sflow-print-v6.pcap")).into_iter().take(2));
    Some(datagrams)
}

#[test]
fn datagrams_of_switches_are_read_whole() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let mut all = Found::default();
    for payload in udp_payloads(&corpus.join("_derived/orliin-sflow/raw-0001-0600.pcap")) {
        let found = datagram(&payload);
        all.samples += found.samples;
        all.records += found.records;
        all.ports += found.ports;
    }
    // what the corpus's index, made by another program, counts
    assert_eq!((all.samples, all.records), (3827 + 19, 2 * 3827 + 19 + 15));
    assert!(all.ports > 3_500, "{} packets have ports", all.ports);
}

#[test]
fn sflow_cut_at_every_octet_and_with_every_number_replaced() {
    let Some(datagrams) = datagrams() else { return };
    assert!(datagrams.len() > 20);
    for payload in &datagrams {
        let whole = datagram(payload);
        for cut in 0..payload.len() {
            let found = datagram(&payload[..cut]);
            assert!(found.samples <= whole.samples && found.records <= whole.records, "cut at {cut}");
        }
        let mut bent = payload.clone();
        for at in 0..payload.len().saturating_sub(3) {
            for number in [0, 1, 5, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                bent[at..at + 4].copy_from_slice(&number.to_be_bytes());
                datagram(&bent);
            }
            bent[at..at + 4].copy_from_slice(&payload[at..at + 4]);
        }
    }
}

#[test]
fn packets_of_every_tunnel_cut_at_every_octet_and_with_every_octet_replaced() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("arkime+arkime/tests/pcap");
    let names = [
        "gre-sample.pcap",
        "gre-erspan-vxlan.pcap",
        "gre-erspan.pcap",
        "gtp-iphone.pcap",
        "ipv6-gtp6.pcap",
        "mpls-basic.pcap",
        "pppoe.pcap",
        "tcpdump-geneve.pcap",
        "vxlan.pcap",
    ];
    let mut frames_read = 0;
    for path in names.iter().map(|name| folder.join(name)).filter(|path| path.is_file()) {
        for frame in frames(&path).into_iter().take(5) {
            frames_read += 1;
            for cut in 0..frame.len().min(200) {
                packet(LinkType::Ethernet, &frame[..cut]);
            }
            let mut bent = frame.clone();
            for at in 0..frame.len().min(200) {
                for octet in [0, 1, 0x45, 0x60, 0x80, 0xff] {
                    bent[at] = octet;
                    packet(LinkType::Ethernet, &bent);
                }
                bent[at] = frame[at];
            }
        }
    }
    assert!(frames_read > 10, "only {frames_read} frames");
}
