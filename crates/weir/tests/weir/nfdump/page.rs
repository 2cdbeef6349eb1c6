//! The reference page about the outcome.

use std::fmt::Write;

use weir_print::nfdump::{named_formats, tags};
use weir_query::{AggregateKey, StatisticKey};

use super::files::reference;
use super::{Expected, Line, VERSION};

#[derive(Default)]
pub(super) struct Page {
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

impl Page {
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

    /// What is offered, from the tables that the program itself reads.
    fn offered(text: &mut String) {
        let statistics = listed(StatisticKey::all().map(StatisticKey::nfdump_name).chain(["record"]));
        let keys = listed(AggregateKey::names());
        let _ = write!(
            text,
            "## What is offered\n\nOptions: [`weir nfdump --help`](cli.md#weir-nfdump).\n\n\
             Statistics of `-s`, each also with `:p`: {statistics}.\n\n\
             Keys of `-A`: {keys}.\n\n\
             Orders of `-s`: `flows` `packets` `bytes` `pps` `bps` `bpp`, what came in and went out together; with `i` in \
             front (`ipkg` `ibyte` `ipps` `ibps` `ibpp`)\nwhat came in, with `o` what went out. `-O` takes `tstart`, `tend` \
             and `duration` too. Of an archive and of groups of `-A` only what came in\nis sorted by.\n\n\
             Formats: {}, `fmt:…`, `csv:…`, names of the file of `-C`; with `6` at the end for IPv6 in full.\n\n",
            listed(named_formats()),
        );
        let (empty, full): (Vec<_>, Vec<_>) = tags().partition(|(_, _, is_empty)| *is_empty);
        let of = |tags: &[(&str, &str, bool)]| {
            tags.iter().map(|(name, ..)| format!("`%{name}`")).collect::<Vec<_>>().join(" ")
        };
        let _ = write!(
            text,
            "Tags: {}.\n\nTags that print what nfdump prints of a record without that field: {}.\n\n",
            of(&full),
            of(&empty)
        );
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# nfdump {VERSION} and `weir nfdump`\n\nThe command lines of `crates/weir/tests/data/nfdump-1.7.txt` were given to \
             both programs over the same files: `rich` by a\nreal nfcapd, with MPLS, translations and a firewall's events; \
             `v1`, `large` and `empty` by nfdump 1.6; `gen` by `weir nfdump -w`.\nOf {} command lines, {} have the same output \
             octet for octet, but for the time taken, the octets read, and the order of rows\nthat tie; those that nfdump \
             refuses are refused. This page is written by the test that asks.\n\n",
            self.all, self.same,
        );
        Self::offered(&mut text);
        text.push_str("## Different, and why\n\n| why | command lines |\n|---|---|\n");
        for (reason, lines) in &self.differences {
            let lines: Vec<_> = lines.iter().map(|line| format!("`{}`", line.replace('|', "\\|"))).collect();
            let _ = writeln!(text, "| {reason} | {} |", lines.join("<br>"));
        }
        text.push_str("\n## Alike\n");
        for (section, lines) in &self.sections {
            let _ = write!(text, "\n### {section}: {}\n\n```text\n{}\n```\n", lines.len(), lines.join("\n"));
        }
        text
    }

    pub(super) fn check(&self) {
        let text = self.text();
        weir_testkit::pages::check("docs/reference/nfdump.md", &text);
    }
}
