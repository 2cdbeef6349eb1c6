//! IPFIX files (RFC 5655).

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use weir_capture::{MessageFile, MessageFileReport, export_ms, looks_like_messages};
use weir_collect::{Decoder, DecoderStatistics, Limits, Session};
use weir_flow::{Column, Counter, Delivery};

use super::super::{data, templates_only};

/// The messages of a file, and what the reader says of it.
fn messages(octets: &[u8]) -> (Vec<Vec<u8>>, MessageFileReport) {
    let mut file = MessageFile::new(octets);
    let mut messages = Vec::new();
    while let Some(message) = file.next_message().expect("a slice can be read") {
        messages.push(message.to_vec());
    }
    (messages, file.report())
}

/// Reads a file as `weir import` does.
fn decode(octets: &[u8]) -> (Vec<Delivery>, DecoderStatistics, MessageFileReport) {
    let mut decoder = Decoder::new(Limits::default());
    let (messages, report) = messages(octets);
    let (session, mut last_ms) = (Session::file(0), 0);
    for message in messages {
        last_ms = export_ms(&message);
        decoder.message(session, last_ms, &message);
    }
    decoder.end_session(session, last_ms);
    let mut deliveries = Vec::new();
    loop {
        let delivery = decoder.take_delivery();
        if delivery.is_empty() {
            return (deliveries, decoder.statistics(), report);
        }
        deliveries.push(delivery);
    }
}

fn read(corpus: &Path, name: &str) -> Vec<u8> {
    let path = corpus.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The values of a field in every flow, as tshark has them.
fn tshark(file: &Path, field: &str) -> Option<Vec<String>> {
    let program = weir_testkit::program("tshark")?;
    let output =
        Command::new(program).args(["-T", "fields", "-e", field, "-r"]).arg(file).output().expect("tshark runs");
    let text = String::from_utf8(output.stdout).expect("text");
    Some(
        text.split(|c: char| c == ',' || c.is_whitespace())
            .filter(|value| !value.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn files_are_read_as_tshark_reads_them() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let base = "CESNET+ipfixcol/base/tests/ipfixcol_test/tests/ipfix_data";
    for name in [
        "CESNET+ipfixcol2/doc/data/ipfix/example_flows.ipfix".to_owned(),
        format!("{base}/01-odid0.ipfix"),
        format!("{base}/01-odid4.ipfix"),
        format!("{base}/02-odid0.ipfix"),
        format!("{base}/02-odid4.ipfix"),
        format!("{base}/enterprise-from-nfv9.ipfix"),
    ] {
        let (deliveries, seen, report) = decode(&read(&corpus, &name));
        assert_eq!((report.messages_damaged, report.octets_skipped), (0, 0), "{name}");
        let Some(octets) = tshark(&corpus.join(&name), "cflow.octets") else { return };
        let expected: u64 = octets.iter().map(|octets| octets.parse::<u64>().expect("a number")).sum();
        let found: u64 = deliveries
            .iter()
            .filter_map(|delivery| delivery.flows.as_ref())
            .map(|flows| flows.sum(Column::Bytes))
            .sum();
        assert!(expected > 0 && seen.total(Counter::RecordsStored) > 0, "{name}");
        assert_eq!(found, expected, "{name}");
        let frames = tshark(&corpus.join(&name), "cflow.exporttime").unwrap_or_default().len();
        let frames =
            if frames == 0 { tshark(&corpus.join(&name), "frame.number").unwrap_or_default().len() } else { frames };
        assert_eq!(report.messages, frames as u64, "{name}");
    }
}

#[test]
fn damaged_files_get_the_verdict_of_their_names() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let base = "CESNET+ipfixcol/base/tests/ipfixcol_test/tests/ipfix_data";
    let vermont = "tumi8+vermont/src/tests/vermonttest/testpackets";
    for (name, is_bad) in [
        (format!("{base}/bad-length-in-set.ipfix"), true),
        (format!("{base}/bad-template-field-count.ipfix"), true),
        (format!("{vermont}/template_record_field_number_too_big.ipfix"), true),
        (format!("{vermont}/template_set_length_exceeds_message_boundary.ipfix"), true),
        (format!("{vermont}/correct_withdraw_all_templates.ipfix"), false),
        (format!("{vermont}/two_correct_data_templates_withdrawals.ipfix"), false),
    ] {
        let (_, seen, report) = decode(&read(&corpus, &name));
        assert!(report.messages > 0, "{name}");
        let bad = seen.total(Counter::SetsUndecodable) + seen.total(Counter::DatagramsUndecodable);
        assert_eq!(bad + report.messages_damaged > 0, is_bad, "{name}: {:?} {report:?}", seen.problems);
    }
    // what ipfixcol says of this one: templates 258, 264 and 267 are not found
    let (_, seen, _) = decode(&read(&corpus, &format!("{base}/only-data-no-templates.ipfix")));
    let counted = [Counter::SetsWaitingIn, Counter::SetsExpired, Counter::RecordsStored];
    assert_eq!(counted.map(|counter| seen.total(counter)), [3, 3, 0]);
    // messages of another collector's tests, one after the other: none is lost whatever comes before it
    let base = "ad1217+rs-ipfix-rw/resources/tests";
    let parts = ["parse_temp", "parse_data", "parse_temp_1", "dns_samp"]
        .map(|name| read(&corpus, &format!("{base}/{name}.bin")));
    let alone: usize = parts.iter().map(|part| messages(part).0.len()).sum();
    assert_eq!(messages(&parts.concat()).0.len(), alone);
}

#[test]
fn magic_tells_messages_from_captures() {
    assert!(looks_like_messages(&templates_only(0)));
    for other in [&[0xd4, 0xc3, 0xb2, 0xa1][..], &[0x0a, 0x0d, 0x0d, 0x0a], &[0, 9, 0, 20], &[0, 10, 0], &[]] {
        assert!(!looks_like_messages(other), "{other:02x?}");
    }
}

#[test]
fn a_length_that_lies_costs_no_other_message() {
    let hosts: Vec<u8> = (0..60).collect();
    let good = [templates_only(0), data(0, &hosts), data(60, &[1]), data(61, &[2, 3])];
    for stated in [0u16, 15, 16, 40, 900, 1000, 5000, 65_535] {
        let mut file = good.clone();
        let right = file[1].len();
        assert_ne!(right, usize::from(stated));
        file[1][2..4].copy_from_slice(&stated.to_be_bytes());
        let (found, report) = messages(&file.concat());
        for whole in [&good[0], &good[2], &good[3]] {
            assert_eq!(found.iter().filter(|message| *message == whole).count(), 1, "{stated}");
        }
        assert!(report.messages_damaged + report.octets_skipped > 0, "{stated}: {report:?}");
        assert_eq!(report.octets, file.concat().len() as u64);
    }
}

#[test]
fn a_file_that_is_cut_short_is_read_as_far_as_it_goes() {
    let whole = [templates_only(0), data(0, &[1, 2, 3])].concat();
    let first = templates_only(0).len();
    for cut in first + 4..whole.len() {
        let (found, report) = messages(&whole[..cut]);
        assert_eq!((found.len(), report.messages_damaged), (2, 1), "{cut}");
        assert_eq!(found[1], whole[first..cut]);
        assert_eq!(report.cut_short_at, Some(first as u64), "{cut}");
    }
    // within the length there is no message, and without the version no sign of one
    for (cut, expected) in [(2, Some(first as u64)), (3, Some(first as u64)), (1, None), (0, None)] {
        let (found, report) = messages(&whole[..first + cut]);
        assert_eq!((found.len(), report.messages_damaged), (1, 0), "{cut}");
        assert_eq!((report.cut_short_at, report.octets_skipped), (expected, cut as u64));
    }
    assert_eq!(messages(&whole).1.cut_short_at, None);
}

/// The length of a set of 162 records and what follows it read as the version and the length of a message, behind which
/// another one begins by chance.
#[test]
fn a_message_within_a_message_is_none() {
    let large = data(0, &[7; 162]);
    assert_eq!(large[17..21], [0, 10, 0x24, 10], "version 10, of 9,226 octets");
    let mut file = [&large[..], &[0x11; 46]].concat();
    file.resize(17 + 9_226, 0x11);
    file.extend(data(0, &[1]).repeat(2));
    let (found, report) = messages(&file);
    assert_eq!((found.len(), report.messages_damaged), (3, 0));
    assert_eq!(found[0], large);
    assert_eq!(report.octets_skipped, 17 + 9_226 - large.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever lies between messages, each of them is handed on; a file far longer than the reader's window.
    #[test]
    fn garbage_between_messages_costs_none(
        pieces in proptest::collection::vec((1usize..200, proptest::collection::vec(any::<u8>(), 0..50)), 1..40),
        repeat in 1usize..60,
    ) {
        let mut part = Vec::new();
        for (records, garbage) in &pieces {
            let hosts: Vec<u8> = (0..*records).map(|host| host as u8).collect();
            // two, because garbage may look like the beginning of one
            part.extend(data(0, &hosts).repeat(2));
            // nothing in it is a version of IPFIX
            part.extend(garbage.iter().map(|octet| octet | 0x10));
        }
        let (file, expected) = (part.repeat(repeat), 2 * pieces.len() * repeat);
        let (found, report) = messages(&file);
        prop_assert_eq!(found.len(), expected);
        prop_assert_eq!(report.messages_damaged, 0);
        let octets: usize = found.iter().map(Vec::len).sum();
        prop_assert_eq!(octets as u64 + report.octets_skipped, file.len() as u64);
    }

    #[test]
    fn any_octets_are_read_to_their_end(octets in proptest::collection::vec(prop_oneof![Just(0u8), Just(10), Just(2), any::<u8>()], 0..3000)) {
        let (found, report) = messages(&octets);
        let handed: usize = found.iter().map(Vec::len).sum();
        prop_assert_eq!(handed as u64 + report.octets_skipped, octets.len() as u64);
    }
}
