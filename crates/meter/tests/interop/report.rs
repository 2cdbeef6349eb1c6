//! The page `docs/reference/metering-interop.md`, written from what the tests found.

use std::collections::BTreeMap;
use std::fmt::{Result, Write};
use std::path::Path;

use crate::comparison::Verdict;
use crate::packets;
use crate::program::Program;
use crate::reason::Reason;
use crate::tcpdump;
use crate::workers;
use crate::zeek;
use crate::zeek_cut;
use crate::zeek_tests::Fate;

/// The page.
pub(crate) const PAGE: &str = "docs/reference/metering-interop.md";

/// The page.
pub(crate) fn page(
    found: &[(&Program, &Verdict)],
    workers: &workers::Outcome,
    packets: (&str, &packets::Outcome),
    corpus: &Path,
) -> String {
    let mut page = String::new();
    // writing to a string cannot fail
    let _ = write_head(&mut page, found, workers).and_then(|()| write_packets(&mut page, packets));
    page + &of_programs(found, corpus)
}

/// The part of the page that tells of other programs, which stands at its end.
pub(crate) fn of_programs(found: &[(&Program, &Verdict)], corpus: &Path) -> String {
    let mut part = String::new();
    let _ = write_programs(&mut part, found)
        .and_then(|()| write_reasons(&mut part, found))
        .and_then(|()| write_tcpdump(&mut part, &tcpdump::outcome(corpus)))
        .and_then(|()| write_zeek(&mut part, &zeek::fates(corpus), &zeek_cut::outcome(corpus)));
    part
}

fn write_packets(out: &mut String, (version, found): (&str, &packets::Outcome)) -> Result {
    writeln!(
        out,
        "\n## Packet by packet\n\n\
         Of every packet the outermost and the innermost headers are held against those that {version} finds: addresses,\n\
         protocol, length, type of service, TTL, fragment, ports, TCP flags, type and code of ICMP, VLANs. {} captures were\n\
         compared; {} tshark cannot read, or finds no packet in.\n\n\
         | link | packets | agree |\n| --- | ---: | ---: |",
        found.captures, found.unread
    )?;
    for (link, (packets, agreeing)) in &found.links {
        writeln!(out, "| {link} | {packets} | {agreeing} |")?;
    }
    writeln!(out, "\n| around the innermost IP header | packets | agree |\n| --- | ---: | ---: |")?;
    for (names, (packets, agreeing)) in &found.encapsulations {
        writeln!(out, "| {names} | {packets} | {agreeing} |")?;
    }
    writeln!(out, "\n| tshark | packets |\n| --- | ---: |")?;
    for (rule, packets) in &found.reasons {
        writeln!(out, "| {} | {packets} |", rule.about())?;
    }
    Ok(())
}

fn write_tcpdump(out: &mut String, found: &tcpdump::Outcome) -> Result {
    writeln!(
        out,
        "\n## What tcpdump prints\n\n\
         The texts that tcpdump's tests expect tell the headers of each packet, {} texts of {} packets. The first that is\n\
         printed is the outermost, the last one the innermost; what errors quote does not count.\n\n\
         | value | compared |\n| --- | ---: |",
        found.texts, found.packets
    )?;
    for (what, count) in &found.values {
        writeln!(out, "| {what} | {count} |")?;
    }
    writeln!(out, "\n| tcpdump | headers |\n| --- | ---: |")?;
    for (reason, count) in &found.reasons {
        writeln!(out, "| {reason} | {count} |")?;
    }
    writeln!(out, "\n| texts that are not compared | texts |\n| --- | ---: |")?;
    for (reason, count) in &found.left_out {
        writeln!(out, "| {reason} | {count} |")?;
    }
    Ok(())
}

/// What became of Zeek's baselines, and what the cut ones say.
fn write_zeek(out: &mut String, fates: &[Fate], cut: &zeek_cut::Outcome) -> Result {
    let mut counts = BTreeMap::<Fate, usize>::new();
    for fate in fates {
        *counts.entry(*fate).or_default() += 1;
    }
    writeln!(
        out,
        "\n## Zeek's baselines\n\n\
         Every table of connections of Zeek's tests, {} of them, has one of these fates.\n\n\
         | the baseline is | baselines |\n| --- | ---: |",
        fates.len()
    )?;
    for (fate, count) in counts {
        writeln!(out, "| {} | {count} |", fate.about())?;
    }
    writeln!(
        out,
        "\nOf {} logs tests have left some columns only. Each of their {} connections is one of the {} flows by all that is left\n\
         of it, and each flow is one of the connections.\n\n| column | compared |\n| --- | ---: |",
        cut.logs, cut.connections, cut.flows
    )?;
    for (column, count) in &cut.columns {
        writeln!(out, "| {column} | {count} |")?;
    }
    writeln!(out, "\n| Zeek | connections and flows without the other |\n| --- | ---: |")?;
    for (reason, count) in &cut.reasons {
        writeln!(out, "| {reason} | {count} |")?;
    }
    Ok(())
}

fn write_head(out: &mut String, found: &[(&Program, &Verdict)], workers: &workers::Outcome) -> Result {
    writeln!(
        out,
        "# What other programs meter\n\n\
         Written by `cargo xtask docs` (`cargo test -p weir-meter --test interop`) from the corpus of captures and \
         answers of\nother projects. The same test fails when a difference has none of the reasons below, and when this \
         page is stale.\n\n{}\n",
        corpus_line(found)
    )?;
    write_itself(out, workers)
}

/// Names the corpus that a page was written from.
pub(crate) fn corpus_line(found: &[(&Program, &Verdict)]) -> String {
    let answers: usize = found.iter().map(|(_, verdict)| verdict.answers).sum();
    let records: usize = found.iter().map(|(_, verdict)| verdict.records).sum();
    format!("Corpus: {answers} answers with {records} records")
}

fn write_itself(out: &mut String, workers: &workers::Outcome) -> Result {
    writeln!(
        out,
        "## Against itself\n\n\
         Every capture, malformed ones too, is metered as uniflows and biflows, with {} sets of timeouts, by one, two and four\n\
         workers, in blocks as the reader makes them and in blocks of five packets. All give the same flows, in all columns but\n\
         `received`. Each packet stands in a flow or under its reason for being in none, and the rows add up to the counts.\n\n\
         | captures | with flows | packets | flows, over all ways | in none: not IP | cut off | malformed | too deep |\n\
         | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        workers::TIMEOUTS_MS.len()
    )?;
    let [not_ip, truncated, malformed, too_deep] = workers.not_flows;
    writeln!(
        out,
        "| {} | {} | {} | {} | {not_ip} | {truncated} | {malformed} | {too_deep} |",
        workers.captures, workers.captures_with_flows, workers.packets, workers.flows
    )
}

fn write_programs(out: &mut String, found: &[(&Program, &Verdict)]) -> Result {
    writeln!(
        out,
        "\n## Against other programs\n\n\
         A conversation is all that has one five-tuple. It agrees when there are as many flows as the program has records, with\n\
         the same packets and octets of both directions, and when everything else that the record tells is the same. Where a\n\
         program counts the octets of frames, these are added up from the frames of the packets that are in the flows. Untold are\n\
         conversations that the program has no record of, since it counts none of their packets.\n\
         The flows of each capture are also held against its packets, counted one by one without a flow cache.\n\n\
         | program | what is compared | answers | captures | records | packets | conversations | agree | differ | untold |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )?;
    for (program, verdict) in found {
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            program.name,
            program.about,
            verdict.answers,
            verdict.captures.len(),
            verdict.records,
            verdict.packets,
            verdict.agreeing + verdict.differing,
            verdict.agreeing,
            verdict.differing,
            verdict.untold
        )?;
    }
    writeln!(out, "\n| program | value of a record that agrees | compared | differ |\n| --- | --- | ---: | ---: |")?;
    for (program, verdict) in found {
        for (what, (compared, differing)) in &verdict.values {
            writeln!(out, "| {} | {what} | {compared} | {differing} |", program.name)?;
        }
    }
    Ok(())
}

fn write_reasons(out: &mut String, found: &[(&Program, &Verdict)]) -> Result {
    let mut counts = BTreeMap::<Reason, BTreeMap<&str, usize>>::new();
    for (program, verdict) in found {
        for (reason, times) in &verdict.reasons {
            *counts.entry(*reason).or_default().entry(program.name).or_default() += times;
        }
    }
    writeln!(
        out,
        "\n## Differences\n\n\
         Each reason is a rule that the packets of the conversation must meet. Several may come together.\n\n\
         | the other program | conversations |\n| --- | --- |"
    )?;
    for reason in Reason::ALL {
        let Some(programs) = counts.get(reason) else { continue };
        let programs: Vec<_> = programs.iter().map(|(name, times)| format!("{name} {times}")).collect();
        writeln!(out, "| {} | {} |", reason.about(), programs.join(", "))?;
    }
    Ok(())
}
