//! The reference page about the outcome.

use std::fmt::Write;

use weir_nfdump::text::{Release, named_formats, tags};
use weir_query::{AggregateKey, StatisticKey};

use super::{Expected, Line};

/// How one release compares.
pub(super) struct Comparison {
    release: &'static str,
    sections: Vec<(&'static str, Vec<&'static str>)>,
    /// Reason, and the lines that differ for it.
    differences: Vec<(&'static str, Vec<&'static str>)>,
    same: usize,
    all: usize,
}

/// Adds a line under its heading.
fn file_under<'a>(headings: &mut Vec<(&'a str, Vec<&'a str>)>, heading: &'a str, line: &'a str) {
    match headings.iter_mut().find(|(known, _)| *known == heading) {
        Some((_, lines)) => lines.push(line),
        None => headings.push((heading, vec![line])),
    }
}

fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ")
}

impl Comparison {
    pub(super) fn of(release: &'static str) -> Self {
        Self { release, sections: Vec::new(), differences: Vec::new(), same: 0, all: 0 }
    }

    pub(super) fn add(&mut self, line: &Line) {
        self.all += 1;
        match line.expected {
            Expected::Same => {
                self.same += 1;
                file_under(&mut self.sections, line.section, line.text);
            }
            Expected::Differs(reason) => file_under(&mut self.differences, reason, line.text),
        }
    }

    fn push(&self, text: &mut String) {
        let release = self.release;
        let _ = write!(text, "\n## {release}: different, and why\n\n| why | command lines |\n|---|---|\n");
        for (reason, lines) in &self.differences {
            let lines: Vec<_> = lines.iter().map(|line| format!("`{}`", line.replace('|', "\\|"))).collect();
            let _ = writeln!(text, "| {reason} | {} |", lines.join("<br>"));
        }
        let _ = writeln!(text, "\n## {release}: alike");
        for (section, lines) in &self.sections {
            let _ = write!(text, "\n### {release}, {section}: {}\n\n```text\n{}\n```\n", lines.len(), lines.join("\n"));
        }
    }
}

/// What is offered, from the tables that the program itself reads.
fn push_offered(text: &mut String) {
    let statistics = listed(StatisticKey::all().map(StatisticKey::nfdump_name).chain(["record"]));
    let keys = listed(AggregateKey::names());
    let _ = write!(
        text,
        "## What is offered\n\nOptions: [`weir nfdump --help`](cli.md#weir-nfdump).\n\n\
         Statistics of `-s`, each also with `:p`: {statistics}.\n\n\
         Keys of `-A`: {keys}.\n\n\
         Orders of `-s`: `flows` `packets` `bytes` `pps` `bps` `bpp`, what came in and went out together; with `i` in \
         front (`ipkg` `ibyte` `ipps` `ibps` `ibpp`)\nwhat came in, with `o` what went out. `-O` takes `ipackets` `opackets` \
         `ibytes` `obytes`, `tstart`, `tend` and `duration` too. Of an\narchive and of groups of `-A` only what came in is \
         sorted by.\n\n"
    );
    for release in [Release::V1_7_8, Release::V1_7_1] {
        let _ = write!(
            text,
            "Formats as {}: {}, `fmt:…`, `csv:…`, names of the file of `-C`; with `6` at the end for IPv6 in full.\n\n",
            release.number(),
            listed(named_formats(release)),
        );
    }
    let (empty, full): (Vec<_>, Vec<_>) = tags(Release::V1_7_1).partition(|(_, _, is_empty)| *is_empty);
    let of =
        |tags: &[(&str, &str, bool)]| tags.iter().map(|(name, ..)| format!("`%{name}`")).collect::<Vec<_>>().join(" ");
    let _ = write!(
        text,
        "Tags: {}.\n\nTags that print what nfdump prints of a record without that field: {}.\n",
        of(&full),
        of(&empty)
    );
}

/// What the layouts of both have that is not the same; each row is written out of the tables and of the captured outputs.
const LAYOUTS: &str = "\
| | `--as 1.7.1` | `--as 1.7.8` |
|---|---|---|
| heading of lines | `Duration` in the middle of its field | at its left |
| `%tos` | 3 octets | 4 octets |
| `-N` | numbers, durations and protocols | flags as well |
| rankings | a blank line after each | none |
| below an answer | `Total flows processed`, times in seconds | `Total records processed`, times in milliseconds, a duration |
| `nsel` | begins with the time of the event | begins with the start of the flow |
| `csv` | 48 columns, a summary at the end | 10 columns and nothing else |
| `csv` with `-A` | the same 48 columns | the keys and counters |
| `-A` with a format by name | yes | an error |
| `json` | tabs, `label`; no `cnt`, `ident`, places or layer 2 | blanks, `cnt` and `ident` first, `sampled` last |
| `-s` with `json` | that of 1.7.8, as 1.7.1 has none | an object a line |
| `pipe`, `nel` | yes | an error |
| `-t` | flows on the edge are inside | they are not |
| records without the field of `-s` | count as 0 | are left out |
";

fn text(comparisons: &[Comparison]) -> String {
    let mut text = "# nfdump 1.7.1 and 1.7.8, and `weir nfdump`\n\nCommand lines were given to nfdump and to `weir nfdump --as` that \
         release, over the same files. nfdump 1.7.1 is asked when\nthe test runs: the command lines are in \
         `crates/nfdump/tests/data/nfdump-1.7.txt`, the files are `rich` by a real nfcapd, with MPLS,\ntranslations and a \
         firewall's events; `v1`, `large` and `empty` by nfdump 1.6; `gen` by `weir nfdump -w`. Of nfdump 1.7.8 there are \
         captured\noutputs, over files of nfcapd 1.7.8: `rich` with flows of many exporters, `gen` of softflowd; where weir \
         differs is in `nfdump-1.7.8.txt`.\nThe same means octet for octet, but for the time taken, the octets read, and the \
         order of rows that tie; what nfdump refuses is\nrefused. This page is written by the test that asks.\n\n| release | \
         command lines | the same |\n|---|---:|---:|\n".to_owned();
    for Comparison { release, same, all, .. } in comparisons {
        let _ = writeln!(text, "| {release} | {all} | {same} |");
    }
    let _ = write!(
        text,
        "\n## Layouts\n\nA layout is that of one release, from the first octet to the last.\n\n{LAYOUTS}\n"
    );
    push_offered(&mut text);
    for comparison in comparisons {
        comparison.push(&mut text);
    }
    text
}

pub(super) fn check(comparisons: &[Comparison]) {
    weir_testkit::pages::check("docs/reference/nfdump.md", &text(comparisons));
}
