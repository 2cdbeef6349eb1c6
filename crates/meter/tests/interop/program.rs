//! The programs that are compared with, and what came of it.

use std::path::Path;
use std::sync::OnceLock;

use crate::comparison::Verdict;
use crate::expected::Answer;
use crate::{arkime, ipfixprobe, ndpi, suricata, zeek};

/// A program that has answers in the corpus.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// What of its answers is compared.
    pub(crate) about: &'static str,
    pub(crate) answers: fn(&Path) -> Vec<Answer>,
    /// Fewest records to be compared.
    pub(crate) records_min: usize,
    pub(crate) verdict: OnceLock<Verdict>,
}

pub(crate) static ZEEK: Program = Program {
    name: "Zeek",
    about: "`conn.log` of its tests: packets, IP octets, duration, SYN, FIN and RST, who began",
    answers: zeek::answers,
    records_min: 400,
    verdict: OnceLock::new(),
};
pub(crate) static ARKIME: Program = Program {
    name: "Arkime",
    about: "sessions of its tests: packets, octets of frames, first and last packet, TCP flags, who began",
    answers: arkime::answers,
    records_min: 350,
    verdict: OnceLock::new(),
};
pub(crate) static SURICATA: Program = Program {
    name: "Suricata",
    about: "flow and netflow events of its tests: packets, octets of frames, times, TCP flags, who began",
    answers: suricata::answers,
    records_min: 40,
    verdict: OnceLock::new(),
};
pub(crate) static NDPI: Program = Program {
    name: "nDPI",
    about: "flows of its tests: packets, octets of frames, duration",
    answers: ndpi::answers,
    records_min: 5000,
    verdict: OnceLock::new(),
};
pub(crate) static IPFIXPROBE: Program = Program {
    name: "ipfixprobe",
    about: "outputs of its plugins: packets, IP octets, first and last packet, TCP flags, who began",
    answers: ipfixprobe::answers,
    records_min: 300,
    verdict: OnceLock::new(),
};

/// All of them, in the order of the page.
pub(crate) static PROGRAMS: [&Program; 5] = [&ZEEK, &ARKIME, &SURICATA, &NDPI, &IPFIXPROBE];

impl Program {
    /// What came of comparing it; made once.
    pub(crate) fn verdict(&self, corpus: &Path) -> &Verdict {
        self.verdict.get_or_init(|| {
            let mut verdict = Verdict::default();
            for answer in &(self.answers)(corpus) {
                verdict.compare(answer);
            }
            verdict
        })
    }

    /// Fails when it differs without a reason, or when too little was compared.
    pub(crate) fn agrees(&self) {
        let Some(corpus) = weir_testkit::corpus() else { return };
        let verdict = self.verdict(&corpus);
        let (records, agreeing) = (verdict.records, verdict.agreeing);
        println!(
            "{}: {} answers, {records} records, {agreeing} conversations agree, {} differ, {} are untold, {:?}, {:?}",
            self.name, verdict.answers, verdict.differing, verdict.untold, verdict.values, verdict.reasons
        );
        assert!(verdict.unexplained.is_empty(), "{}\n{}", verdict.unexplained.len(), verdict.unexplained.join("\n"));
        assert!(records >= self.records_min, "only {records} records were compared");
    }
}
