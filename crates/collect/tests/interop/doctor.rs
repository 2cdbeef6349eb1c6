//! No false alarms: the captures of pmacct and `NetGauze` are of routers without fault.
//!
//! Datagrams were picked from longer captures and their times of reception rewritten, so that some are missing, some
//! are out of order, and the clocks of exporters are months off. That is what may be found, and nothing else.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use weir_collect::Limits;
use weir_collect::doctor::{FindingKind, examine_capture};

const OF_THE_PICKING: [FindingKind; 8] = [
    FindingKind::Loss,
    FindingKind::Reordered,
    FindingKind::ClockOff,
    FindingKind::ClockJumps,
    FindingKind::FutureFlows,
    FindingKind::LongFlows,
    // the sampler's options were not picked, as tshark confirms
    FindingKind::SamplingUnknown,
    FindingKind::LossLittle,
];

/// Examines the captures. Yields how many had exports, and what was found beyond.
pub(crate) fn check(corpus: &Path) -> (usize, Vec<String>) {
    let (mut examined, mut complaints) = (0, Vec::new());
    for path in ["pmacct+pmacct", "NetGauze+NetGauze"].iter().flat_map(|project| captures(&corpus.join(project))) {
        let (report, outcome) = examine_capture(File::open(&path).expect("a file"), Limits::default());
        if outcome.is_err() || report.exporters.is_empty() {
            continue;
        }
        examined += 1;
        let others = report.findings.iter().filter(|finding| !OF_THE_PICKING.contains(&finding.kind));
        complaints.extend(others.map(|finding| format!("{}: {finding:?}", path.display())));
    }
    (examined, complaints)
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(captures(&path));
        } else if path.extension().is_some_and(|extension| extension == "pcap") {
            found.push(path);
        }
    }
    found
}
