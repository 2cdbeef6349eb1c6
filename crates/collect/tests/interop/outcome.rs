//! Every input, decoded once, with the verdicts of every other implementation that has something to say about it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use crate::expected::Verdict;
use crate::inputs::{self, Input};
use crate::known::{KNOWN, Known};
use crate::pmacct::{self, Folder};
use crate::rows::{self, Decoded};
use crate::walk::{self, Message};
use crate::{logstash, netgauze, order, placement, telegraf, tshark};

/// An input with everything that is known about it.
pub(crate) struct Case {
    pub input: Input,
    /// What `weir_wire` alone finds.
    pub messages: Vec<Message>,
    /// What the decoder makes of it.
    pub decoded: Decoded,
    /// Verdicts by oracle.
    pub verdicts: BTreeMap<&'static str, Verdict>,
}

/// Everything there is, `None` without a corpus.
pub(crate) fn cases() -> Option<&'static [Case]> {
    static CASES: OnceLock<Option<Vec<Case>>> = OnceLock::new();
    let cases = CASES.get_or_init(|| {
        let corpus = weir_testkit::corpus()?;
        Some(inputs::all(&corpus).into_iter().map(|input| case(&corpus, input)).collect())
    });
    cases.as_deref()
}

/// Verdicts of `pmacct` on test folders, `None` without a corpus.
pub(crate) fn pmacct() -> Option<&'static [Folder]> {
    static FOLDERS: OnceLock<Option<Vec<Folder>>> = OnceLock::new();
    FOLDERS.get_or_init(|| Some(pmacct::check(&weir_testkit::corpus()?, cases()?))).as_deref()
}

/// Verdicts of `tshark` in the order of the cases, `None` without a corpus or without the program.
pub(crate) fn tshark() -> Option<&'static [Verdict]> {
    static VERDICTS: OnceLock<Option<Vec<Verdict>>> = OnceLock::new();
    let verdicts = VERDICTS.get_or_init(|| {
        let cases = cases()?;
        Some(tshark::check(&weir_testkit::program("tshark")?, cases))
    });
    verdicts.as_deref()
}

fn case(corpus: &Path, input: Input) -> Case {
    let messages = walk::walk(&input.datagrams);
    let decoded = rows::decode(&input.datagrams);
    let mut verdicts = BTreeMap::new();
    verdicts.insert("columns", check_columns(&input, &messages, &decoded));
    verdicts.insert("order", order::check(&input, &decoded));
    if let Some(golden) = netgauze::golden(corpus, &input) {
        verdicts.insert("NetGauze", netgauze::check(&golden, &messages, &decoded));
    }
    if let Some(verdict) = logstash::check(corpus, &input, &messages, &decoded) {
        verdicts.insert("logstash", verdict);
    }
    if let Some(verdict) = telegraf::check(corpus, &input, &messages, &decoded) {
        verdicts.insert("telegraf", verdict);
    }
    Case { input, messages, decoded, verdicts }
}

/// Every record of every datagram against the flow that it became, as far as nothing waited for a template.
fn check_columns(input: &Input, messages: &[Message], decoded: &Decoded) -> Verdict {
    let mut verdict = Verdict::default();
    for ((datagram, message), rows) in input.datagrams.iter().zip(messages).zip(&decoded.rows) {
        let flows: Vec<_> = message.flows().collect();
        // Sets that had waited come out with the datagram that brings their template.
        if rows.len() > flows.len() && message.templates().count() > 0 {
            continue;
        }
        verdict.expect("flows of datagram", rows.len(), flows.len());
        for (record, row) in flows.iter().zip(rows) {
            verdict.records += 1;
            verdict.values += record.fields.len();
            for problem in placement::check(datagram, &message.header, record, row) {
                verdict.differ(format!("template {}", record.template), problem);
            }
        }
    }
    verdict
}

/// Differences of an oracle by input and field: how many, and one of them.
pub(crate) type Differences = BTreeMap<(String, String), (usize, String)>;

/// Compares the differences found with those known. Yields complaints.
pub(crate) fn complaints(oracle: &str, present: &[String], found: &Differences) -> Vec<String> {
    let known = |input: &str, field: &str| {
        KNOWN.iter().find(|known| known.oracle == oracle && known.input == input && known.field == field)
    };
    let mut complaints = Vec::new();
    for ((input, field), (times, example)) in found {
        match known(input, field) {
            Some(known) if known.times == *times => {}
            Some(Known { times: was, .. }) => {
                complaints.push(format!("{oracle}: {input}: {field}: {times} differences, known are {was}: {example}"));
            }
            None => complaints.push(format!("{oracle}: {input}: {field}: {times} differences: {example}")),
        }
    }
    for known in KNOWN.iter().filter(|known| known.oracle == oracle) {
        let key = (known.input.to_owned(), known.field.to_owned());
        if present.iter().any(|input| input == known.input) && !found.contains_key(&key) {
            complaints
                .push(format!("{oracle}: {}: {}: differs no more, remove it from the table", known.input, known.field));
        }
    }
    complaints
}

/// The differences that one oracle found.
pub(crate) fn differences(cases: &[Case], oracle: &str) -> Differences {
    let mut found = Differences::new();
    for case in cases {
        if let Some(verdict) = case.verdicts.get(oracle) {
            count(&case.input.label(), verdict, &mut found);
        }
    }
    found
}

/// Counts the differences of one verdict.
pub(crate) fn count(label: &str, verdict: &Verdict, found: &mut Differences) {
    for (field, example) in &verdict.differences {
        found.entry((label.to_owned(), field.clone())).or_insert((0, example.clone())).0 += 1;
    }
}
