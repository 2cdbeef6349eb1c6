//! The Metering Process against the answers of other implementations, over the whole corpus of captures.
//!
//! First it is held against itself: every packet is accounted for, and any number of workers gives the same flows
//! (`workers.rs`). Then each program that has an answer to a capture is compared flow by flow. What differs must have one
//! of the reasons of `reason.rs`, each found by a rule in the packets; a difference without one fails the test. Beneath
//! flows, each packet's headers are compared with those that tshark finds (`packets.rs`) and tcpdump prints (`tcpdump.rs`).

mod captures;
mod metered;
mod source;
mod workers;

mod checksum;
mod conversation;
mod flows;
mod seen;

mod comparison;
mod expected;
mod explanation;
mod reason;

mod time;

mod packets;
mod tcpdump;
mod tshark;

mod arkime;
mod ipfixprobe;
mod ndpi;
mod suricata;
mod zeek;
mod zeek_cut;
mod zeek_tests;

mod program;
mod report;

use weir_testkit::pages;

use program::{ARKIME, IPFIXPROBE, NDPI, PROGRAMS, SURICATA, ZEEK};

#[test]
fn any_number_of_workers_gives_the_same_flows_and_loses_no_packet() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    workers::outcome(&corpus).check();
}

#[test]
fn zeek_agrees() {
    ZEEK.agrees();
}

#[test]
fn logs_of_zeek_that_were_cut_agree() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let outcome = zeek_cut::outcome(&corpus);
    assert!(outcome.unexplained.is_empty(), "{}", outcome.unexplained.join("\n"));
    assert!(outcome.connections > 50, "{outcome:?}");
}

#[test]
fn tshark_finds_the_same_headers() {
    let (Some(corpus), Some(tshark)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let outcome = packets::outcome(&corpus, &tshark);
    println!("{} captures, {} packets, {:?}", outcome.captures, outcome.packets, outcome.reasons);
    assert!(outcome.unexplained.is_empty(), "{}\n{}", outcome.unexplained.len(), outcome.unexplained.join("\n"));
    assert!(outcome.packets > 10_000, "only {} packets were compared", outcome.packets);
}

#[test]
fn tcpdump_prints_the_same_headers() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let outcome = tcpdump::outcome(&corpus);
    assert!(outcome.unexplained.is_empty(), "{}\n{}", outcome.unexplained.len(), outcome.unexplained.join("\n"));
    assert!(outcome.packets > 5_000, "only {} packets were compared", outcome.packets);
}

#[test]
fn arkime_agrees() {
    ARKIME.agrees();
}

#[test]
fn suricata_agrees() {
    SURICATA.agrees();
}

#[test]
fn ndpi_agrees() {
    NDPI.agrees();
}

#[test]
fn ipfixprobe_agrees() {
    IPFIXPROBE.agrees();
}

/// What the page tells of workers and of tshark takes the whole corpus, so that part is only looked at when all of it was
/// metered, and by the tshark that it was written with.
#[test]
fn the_page_is_fresh() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let found: Vec<_> = PROGRAMS.iter().map(|program| (*program, program.verdict(&corpus))).collect();
    let tshark = captures::all_are_asked_for().then(|| weir_testkit::program("tshark")).flatten();
    let page = tshark.map(|tshark| {
        let version = tshark::version(&tshark);
        let packets = (version.as_str(), packets::outcome(&corpus, &tshark));
        (report::page(&found, workers::outcome(&corpus), packets, &corpus), version)
    });
    if pages::are_written() {
        let (page, _) = page.as_ref().expect("the page is written with tshark");
        pages::check(report::PAGE, page);
    }
    let written = pages::committed(report::PAGE);
    if !written.contains(&report::corpus_line(&found)) && std::env::var_os("WEIR_CORPUS").is_some() {
        weir_testkit::skip("page-corpus", "the page was written from another corpus");
        return;
    }
    let is_fresh = match page {
        Some((page, version)) if written.contains(&version) => written == page,
        _ => written.ends_with(&report::of_programs(&found, &corpus)),
    };
    assert!(is_fresh, "{} is stale\nhint: `cargo xtask docs` writes it", report::PAGE);
}
