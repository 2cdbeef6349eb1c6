//! Malformed and unusual input whose authors say what must become of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use weir_flow::Counter;
use weir_wire::WireError;

use crate::outcome::Case;
use crate::walk::{Message, SetSeen};

/// What must become of an input: its file, the labels of all problems, templates, flows, sets reserved, sets waiting.
type Wanted = (&'static str, &'static [&'static str], u64, u64, u64, u64);

/// The names of vermont's files are their verdicts; set 4 is a "data template" of drafts before RFC 5101, which a
/// collector must skip without a complaint (RFC 7011 section 3.3.2). The index counts one in each of those files. The files of `libnetflow9` are named malformed for their templates without
/// fields; data sets beside them stay without a template.
const WANTED: &[Wanted] = &[
    ("correct_variable_length_template_and_data.ipfix", &[], 1, 3, 0, 0),
    ("correct_data_template_with_variable_length_fixed_data.ipfix", &[], 0, 0, 1, 0),
    ("correct_withdraw_all_templates.ipfix", &[], 0, 0, 1, 0),
    ("two_correct_data_templates.ipfix", &[], 0, 0, 1, 0),
    ("two_correct_data_templates_withdrawals.ipfix", &[], 0, 0, 1, 0),
    ("template_record_field_number_too_big.ipfix", &["template_truncated"], 1, 0, 0, 0),
    ("template_set_length_exceeds_message_boundary.ipfix", &["set_length"], 1, 0, 0, 0),
    ("testcases/malformed_1.pcap", &["zero_length_template"], 0, 0, 0, 3),
    ("testcases/malformed_3.pcap", &["zero_length_template"], 0, 0, 0, 1),
    ("testcases/malformed_5.pcap", &["zero_length_template"], 0, 0, 0, 1),
];

/// Checks the inputs of the table. Yields how many were there, and what is otherwise.
pub(crate) fn check(cases: &[Case]) -> (usize, Vec<String>) {
    let mut complaints = Vec::new();
    let mut present = 0;
    for &(input, problems, templates, flows, reserved, waiting) in WANTED {
        let Some(case) = cases.iter().find(|case| case.input.name.ends_with(input)) else { continue };
        present += 1;
        let statistics = &case.decoded.statistics;
        let labels: Vec<_> = statistics.problems.iter().map(|(label, _)| *label).collect();
        let total = |counter| statistics.total(counter);
        let found = (
            total(Counter::Templates),
            total(Counter::RecordsStored),
            total(Counter::SetsReserved),
            statistics.sets_waiting as u64,
        );
        if labels != problems || found != (templates, flows, reserved, waiting) {
            complaints.push(format!("{input}: {labels:?} {found:?}"));
        }
    }
    (present, complaints)
}

/// Checks the files for which ipfixcol's tests list the warnings that it prints. Yields how many warnings were
/// compared, and what is otherwise.
pub(crate) fn check_ipfixcol(corpus: &Path, cases: &[Case]) -> (usize, Vec<String>) {
    let tests = corpus.join("CESNET+ipfixcol/base/tests/ipfixcol_test/tests");
    let mut complaints = Vec::new();
    let mut warnings = 0;
    let folders = fs::read_dir(tests).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    for folder in folders.filter(|folder| folder.to_string_lossy().contains("malformed - ")) {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let config = read("startup.xml");
        let input = config.split("ipfix_data/").nth(1).and_then(|rest| rest.split('<').next());
        let case = input.and_then(|input| cases.iter().find(|case| case.input.name.ends_with(input)));
        let Some(case) = case else { continue };
        let expected = read("expected");
        warnings += expected.lines().count();
        complaints.extend(expected.lines().filter(|warning| !agrees(warning, &case.messages)).map(str::to_owned));
        let missing = |line: &str| line.contains("Data template with ID");
        if expected.lines().filter(|line| missing(line)).count() != waiting(&case.messages).len()
            && expected.lines().any(missing)
        {
            complaints.push(format!("{}: other sets wait: {:?}", case.input.name, waiting(&case.messages)));
        }
    }
    (warnings, complaints)
}

/// Whether we say about the messages what a warning of ipfixcol says.
fn agrees(warning: &str, messages: &[Message]) -> bool {
    let number = |after: &str| warning.split(after).nth(1)?.split(' ').next()?.parse::<u16>().ok();
    let any = |wanted: fn(&WireError) -> bool| messages.iter().flat_map(|message| &message.problems).any(wanted);
    if let Some(missing) = number("Data template with ID ") {
        return waiting(messages).contains(&missing);
    }
    if let Some(malformed) = number("Template ") {
        let problems = messages.iter().flat_map(|message| &message.problems);
        return problems
            .into_iter()
            .any(|problem| matches!(problem, WireError::TemplateTruncated { template, .. } if *template == malformed));
    }
    if warning.contains("Cannot parse template set") {
        return any(|problem| matches!(problem, WireError::TemplateTruncated { .. }));
    }
    warning.contains("(bad length)")
        && any(|problem| matches!(problem, WireError::SetLength { .. } | WireError::MessageLength { .. }))
}

/// Templates that data sets wait for.
fn waiting(messages: &[Message]) -> BTreeSet<u16> {
    let sets = messages.iter().flat_map(|message| &message.sets);
    let waiting = sets.filter_map(|set| match set {
        SetSeen::Data { template, waits: true, .. } => Some(*template),
        _ => None,
    });
    waiting.collect()
}
