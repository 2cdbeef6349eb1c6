//! Every capture of the corpus, whatever is in it: how many UDP datagrams there are, by an index that another
//! program made, and whether the file is whole.

use std::fs::{self, File};
use std::path::Path;

use weir_collect::capture;

/// What the index says of a capture.
struct Entry<'a> {
    path: &'a str,
    udp: usize,
    features: Vec<&'a str>,
}

impl Entry<'_> {
    fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|found| found.starts_with(feature))
    }
}

/// Captures whose links the program that made the index does not dissect: how many datagrams are in them, and where.
/// tshark finds the same.
const FOUND_BEHIND: [(&str, usize, &str); 9] = [
    ("OISF+suricata-verify/tests/decode-nsh-type2/input.pcap", 1, "a Network Service Header"),
    ("mtottenh+pcapsql/fuzz/corpus/fuzz_pcap_reader/nflog.pcap", 16, "messages of netfilter"),
    ("ntop+nDPI/tests/cfgs/default/pcap/someip_sd_sample.pcap", 6, "Per-Packet Information"),
    ("seladb+PcapPlusPlus/Tests/Packet++Test/PacketExamples/nflogPacket.pcap", 1, "messages of netfilter"),
    ("the-tcpdump-group+tcpdump/tests/macsec-short-longer.pcap", 1, "MACsec without encryption"),
    ("the-tcpdump-group+tcpdump/tests/macsec-short-valid.pcap", 1, "MACsec without encryption"),
    ("the-tcpdump-group+tcpdump/tests/nsh.pcap", 1, "a Network Service Header"),
    ("zeek+zeek/testing/btest/Traces/cisco-fabric-path.pcap", 16, "FabricPath"),
    ("zeek+zeek/testing/btest/Traces/radiotap.pcap", 3, "radiotap"),
];

/// Captures that are refused, as tshark or libpcap refuse them: how many datagrams come before the error, and why.
const REFUSED: [(&str, usize, &str); 6] = [
    ("gopacket+gopacket/pcapgo/tests/be/test901.pcapng", 1, "its second section is of version 2.0"),
    ("gopacket+gopacket/pcapgo/tests/le/test901.pcapng", 1, "its second section is of version 2.0"),
    (
        "the-tcpdump-group+libpcap/tests/linktype-reserved-field-not-zero.pcap",
        0,
        "reserved bits of its link type are set",
    ),
    ("the-tcpdump-group+libpcap/tests/pcapng-invalid-vers-1.pcapng", 0, "its section is of version 0.1"),
    ("the-tcpdump-group+libpcap/tests/pcapng-invalid-vers-2.pcapng", 0, "its section is of version 1.1"),
    ("the-tcpdump-group+libpcap/tests/shb-option-too-long.pcapng", 0, "the lengths of a block differ"),
];

/// A capture with a datagram whose IP header says that it is shorter than an IP header: no datagram to us.
const NOT_IP: &str = "the-tcpdump-group+tcpdump/tests/ipv4_invalid_hdr_length.pcap";

/// Reads every capture. Yields how many held just as many datagrams as the index says, and complaints about others:
/// all that is missing must have been counted as cut short, or be of captures whose frames are.
pub(crate) fn check(corpus: &Path) -> (usize, Vec<String>) {
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).expect("an index");
    let (mut same, mut complaints) = (0, Vec::new());
    for entry in index.lines().filter_map(entry) {
        let Ok(file) = File::open(corpus.join(entry.path)) else { continue };
        let mut read = 0;
        let (report, result) = capture::read(file, |_| read += 1);
        if let Some((_, before, why)) = REFUSED.iter().find(|(path, ..)| *path == entry.path) {
            if result.is_ok() || read != *before {
                complaints.push(format!("{}: {read} datagrams, {result:?}, though {why}", entry.path));
            }
            continue;
        }
        let behind = FOUND_BEHIND.iter().find(|(path, ..)| *path == entry.path).map_or(0, |(_, count, _)| *count);
        let expected = if entry.path == NOT_IP { 0 } else { entry.udp + behind };
        let accounted = read + report.datagrams_truncated as usize;
        let incomplete = entry.has("frag4=") || entry.has("snapped=") || entry.has("short");
        if read == expected {
            same += 1;
        } else if accounted < expected && !incomplete || read > expected {
            complaints.push(format!("{}: {read} datagrams, not {expected}: {report:?}", entry.path));
        }
        if result.is_err() != entry.has("file_truncated=") {
            complaints.push(format!("{}: {result:?}", entry.path));
        }
    }
    (same, complaints)
}

fn entry(line: &str) -> Option<Entry<'_>> {
    let [path, _, format, _, features] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
    let features: Vec<_> = features.split(' ').collect();
    let udp = features.iter().find_map(|feature| feature.strip_prefix("udp=")?.parse().ok()).unwrap_or(0);
    format.starts_with("pcap").then_some(Entry { path, udp, features })
}
