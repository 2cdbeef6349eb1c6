//! The page `docs/reference/interop.md`, written from what the tests found.

use std::collections::BTreeMap;
use std::fmt::Write;

use weir_flow::Counter;

use crate::expected::Verdict;
use crate::known::{KNOWN, Known};
use crate::outcome::Case;
use crate::pmacct::Folder;
use crate::sflow;

/// Everything that the page tells of.
pub(crate) struct Findings<'a> {
    pub cases: &'a [Case],
    /// In the order of the cases.
    pub tshark: &'a [Verdict],
    pub pmacct: &'a [Folder],
    /// sFlow, and what `tshark` says of it in the same order.
    pub sflow: &'a [sflow::Case],
    pub sflow_tshark: &'a [Verdict],
}

/// The page.
pub(crate) const PAGE: &str = "docs/reference/interop.md";

/// The line that names the corpus that a page was written from.
pub(crate) fn fingerprint(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with("Corpus: "))
}

/// Oracles in the order of the page: name and what it is.
const ORACLES: [(&str, &str); 8] = [
    ("NetGauze", "Rust decoder; every header, set, template and field, by IANA name"),
    ("logstash", "Ruby codec of logstash; events of its own tests"),
    ("telegraf", "Go input of telegraf, built on goflow2; outputs of its own tests"),
    ("pmacct", "C collector; packets and octets summed up per address, port, protocol and interface"),
    ("tshark", "Wireshark's dissector; addresses, ports, protocol, counters, interfaces, AS numbers of every record"),
    ("tshark on sFlow", "samples, headers of the sampled packets, counters of interfaces"),
    ("telegraf on sFlow", "the same by telegraf's own tests"),
    ("columns", "the decoder against `weir_wire` alone: every field in its column or among the elements"),
];

/// The page.
pub(crate) fn page(findings: &Findings<'_>) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, findings);
    page
}

fn write_page(out: &mut String, findings: &Findings<'_>) -> std::fmt::Result {
    let cases = findings.cases;
    let datagrams: usize = cases.iter().map(|case| case.input.datagrams.len()).sum();
    let datagrams = datagrams + findings.sflow.iter().map(|case| case.datagrams.len()).sum::<usize>();
    let statistics = cases.iter().map(|case| &case.decoded.statistics);
    let statistics = statistics.chain(findings.sflow.iter().map(|case| &case.statistics));
    let octets: u64 = statistics.map(|statistics| statistics.total(Counter::Octets)).sum();
    writeln!(out, "# What other decoders say\n")?;
    writeln!(
        out,
        "Written by `cargo xtask docs` (`cargo test -p weir-collect --test interop`) from the corpus of captures and \
         payloads of other\nprojects; the same test fails when this page is stale, when an answer differs that is not \
         listed here, and when a\nlisted difference no longer occurs. Names of tests and files are those of the \
         projects.\n"
    )?;
    writeln!(out, "Corpus: {} inputs, {datagrams} datagrams read, {octets} octets\n", cases.len())?;
    write_oracles(out, findings)?;
    write_inputs(out, findings)?;
    write_sflow(out, findings)?;
    write_known(out, findings)?;
    write_not_read(out, cases)?;
    write_malformed(out, cases)
}

fn write_oracles(out: &mut String, findings: &Findings<'_>) -> std::fmt::Result {
    writeln!(out, "## Totals\n")?;
    writeln!(out, "| answers of | what they are | inputs | records | values compared | differing, all explained |")?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: |")?;
    for (oracle, what) in ORACLES {
        let verdicts = verdicts(findings, oracle);
        let sum = |number: fn(&Verdict) -> usize| verdicts.iter().map(|verdict| number(verdict)).sum::<usize>();
        let (records, values) = (sum(|verdict| verdict.records), sum(|verdict| verdict.values));
        let differences = sum(|verdict| verdict.differences.len());
        let inputs = verdicts.iter().filter(|verdict| verdict.values > 0).count();
        writeln!(out, "| {oracle} | {what} | {inputs} | {records} | {values} | {differences} |")?;
    }
    let statistics = || {
        let sflow = findings.sflow.iter().map(|case| &case.statistics);
        findings.cases.iter().map(|case| &case.decoded.statistics).chain(sflow)
    };
    let total = |counter| statistics().map(|statistics| statistics.total(counter)).sum::<u64>();
    writeln!(out, "\n| counter of the books | over all inputs |\n| --- | ---: |")?;
    for &counter in Counter::ALL.iter().filter(|counter| total(**counter) > 0) {
        writeln!(out, "| {} | {} |", counter.name(), total(counter))?;
    }
    writeln!(
        out,
        "\nEvery input was also decoded backwards, data before templates, with the same flows in the end. Of every \
         input the longest\ndatagram with templates and the longest without were cut at every octet and overwritten \
         word by word (a hundred words of\neach), without a panic and with books that balance.\n"
    )
}

fn verdicts<'a>(findings: &'a Findings<'_>, oracle: &str) -> Vec<&'a Verdict> {
    match oracle {
        "tshark" => findings.tshark.iter().collect(),
        "tshark on sFlow" => findings.sflow_tshark.iter().collect(),
        "telegraf on sFlow" => findings.sflow.iter().filter_map(|case| case.telegraf.as_ref()).collect(),
        "pmacct" => findings.pmacct.iter().map(|folder| &folder.verdict).collect(),
        _ => findings.cases.iter().filter_map(|case| case.verdicts.get(oracle)).collect(),
    }
}

fn write_inputs(out: &mut String, findings: &Findings<'_>) -> std::fmt::Result {
    writeln!(out, "## Inputs\n")?;
    writeln!(
        out,
        "Waiting are data sets whose template is in none of the files. The last column says who else has an answer, \
         how many of\nits values were compared, and how many differ.\n"
    )?;
    let mut project = "";
    for (case, tshark) in findings.cases.iter().zip(findings.tshark) {
        if case.input.datagrams.is_empty() {
            continue;
        }
        if project != case.input.project {
            project = &case.input.project;
            writeln!(out, "\n### {}\n", project.replacen('+', "/", 1))?;
            writeln!(
                out,
                "| input | protocols | domains | datagrams | templates | flows | options | waiting | answers |"
            )?;
            writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")?;
        }
        let statistics = &case.decoded.statistics;
        let total = |counter| statistics.total(counter);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            case.input.name,
            protocols(case),
            statistics.domains,
            total(Counter::Datagrams),
            total(Counter::Templates),
            total(Counter::RecordsStored),
            total(Counter::RecordsOptions),
            statistics.sets_waiting,
            answers(case, tshark, findings.pmacct),
        )?;
    }
    writeln!(out)
}

fn write_sflow(out: &mut String, findings: &Findings<'_>) -> std::fmt::Result {
    writeln!(out, "## sFlow\n")?;
    writeln!(
        out,
        "A flow is a flow sample. Skipped are structures of formats that are not known; problems are samples and \
         records that\nare not whole.\n"
    )?;
    writeln!(out, "| input | agents | datagrams | flows | counters samples | skipped | problems | answers |")?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")?;
    for (case, tshark) in findings.sflow.iter().zip(findings.sflow_tshark) {
        let total = |counter| case.statistics.total(counter);
        let mut answers = format!("tshark {}", tshark.values);
        if let Some(telegraf) = &case.telegraf {
            write!(answers, ", telegraf {}", telegraf.values)?;
        }
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {answers} |",
            case.label(),
            case.statistics.domains,
            total(Counter::Datagrams),
            total(Counter::RecordsStored),
            total(Counter::CountersStored),
            total(Counter::StructuresSkipped),
            total(Counter::SetsUndecodable),
        )?;
    }
    writeln!(out)
}

fn protocols(case: &Case) -> String {
    let mut versions = BTreeMap::new();
    for datagram in &case.input.datagrams {
        *versions.entry(datagram.version()).or_insert(0) += 1;
    }
    let name = |version| match version {
        10 => "IPFIX".to_owned(),
        version => format!("v{version}"),
    };
    versions.keys().map(|version| name(*version)).collect::<Vec<_>>().join(", ")
}

fn answers(case: &Case, tshark: &Verdict, pmacct: &[Folder]) -> String {
    let mut answers = Vec::new();
    let mut add = |name: &str, verdict: &Verdict| match (verdict.values, verdict.differences.len()) {
        (0, 0) => {}
        (values, 0) => answers.push(format!("{name} {values}")),
        (values, differences) => answers.push(format!("{name} {values} ({differences} differ)")),
    };
    for (oracle, _) in ORACLES.iter().filter(|(oracle, _)| *oracle != "columns") {
        if let Some(verdict) = case.verdicts.get(oracle) {
            add(oracle, verdict);
        }
    }
    if let Some(folder) = pmacct.iter().find(|folder| case.input.label().starts_with(&format!("{}/", folder.label))) {
        add("pmacct", &folder.verdict);
    }
    add("tshark", tshark);
    answers.join(", ")
}

fn write_known(out: &mut String, findings: &Findings<'_>) -> std::fmt::Result {
    writeln!(out, "## Differences, and why they stand\n")?;
    let present = |known: &&Known| {
        findings.cases.iter().any(|case| case.input.label() == known.input)
            || findings.sflow.iter().any(|case| case.label() == known.input)
            || findings.pmacct.iter().any(|folder| folder.label == known.input)
    };
    writeln!(out, "| answers of | input | field | times | reason |\n| --- | --- | --- | ---: | --- |")?;
    for known in KNOWN.iter().filter(present) {
        let Known { oracle, input, field, times, reason } = known;
        writeln!(out, "| {oracle} | {input} | {field} | {times} | {reason} |")?;
    }
    writeln!(out)
}

fn write_not_read(out: &mut String, cases: &[Case]) -> std::fmt::Result {
    writeln!(out, "## Not read yet\n")?;
    writeln!(out, "| input | protocol | datagrams |\n| --- | --- | ---: |")?;
    for case in cases {
        for (protocol, datagrams) in &case.input.not_read {
            writeln!(out, "| {} | {protocol} | {datagrams} |", case.input.label())?;
        }
    }
    writeln!(out)
}

fn write_malformed(out: &mut String, cases: &[Case]) -> std::fmt::Result {
    writeln!(out, "## Malformed inputs\n")?;
    writeln!(
        out,
        "Inputs in which something is wrong by the standards, what it is, and what could be read all the same.\n"
    )?;
    writeln!(out, "| input | problems | datagrams given up | sets given up in part | flows | options |")?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: |")?;
    for case in cases {
        let statistics = &case.decoded.statistics;
        if statistics.problems.is_empty() {
            continue;
        }
        let problems: Vec<_> = statistics.problems.iter().map(|(label, times)| format!("{label} {times}")).collect();
        let total = |counter| statistics.total(counter);
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            case.input.label(),
            problems.join(", "),
            total(Counter::DatagramsUndecodable),
            total(Counter::SetsUndecodable),
            total(Counter::RecordsStored),
            total(Counter::RecordsOptions),
        )?;
    }
    Ok(())
}
