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

/// Reads every capture. Yields how many held just as many datagrams as the index says, and complaints about others:
/// all that is missing must have been counted as cut short, or be of captures whose frames are.
pub(crate) fn check(corpus: &Path) -> (usize, Vec<String>) {
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).expect("an index");
    let (mut same, mut complaints) = (0, Vec::new());
    for entry in index.lines().filter_map(entry) {
        let Ok(file) = File::open(corpus.join(entry.path)) else { continue };
        let mut read = 0;
        let (report, result) = capture::read(file, |_| read += 1);
        let accounted = read + report.datagrams_truncated as usize;
        let incomplete = entry.has("frag4=") || entry.has("snapped=") || entry.has("short");
        if read == entry.udp {
            same += 1;
        } else if accounted < entry.udp && !incomplete || read > entry.udp {
            complaints.push(format!("{}: {read} datagrams, the index counts {}: {report:?}", entry.path, entry.udp));
        }
        let spoiled = entry.has("file_truncated=") || entry.path.ends_with("shb-option-too-long.pcapng");
        if result.is_err() != spoiled {
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
