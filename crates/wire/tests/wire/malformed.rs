//! Input that is wrong on purpose: each costs the smallest unit it spoils, and says what was wrong.

use std::path::Path;

use weir_wire::{WireError, ipfix, netflow5, netflow9};

use crate::capture::udp_payloads;
use crate::walk::Walk;

type Sets<'a> = &'a [(&'a str, u16, usize)];

/// Decodes datagrams one after the other and compares labels of problems, and the sets with their record counts.
fn check<D: AsRef<[u8]>>(what: &str, datagrams: &[D], labels: &[&str], sets: Sets<'_>) {
    let mut walk = Walk::default();
    for datagram in datagrams {
        walk.datagram(datagram.as_ref());
    }
    let found: Vec<_> = walk.problems.iter().map(|problem| problem.label()).collect();
    assert_eq!(found, labels, "{what}: {:?}", walk.problems);
    assert_eq!(walk.sets, sets, "{what}");
}

fn netflow9(sets: &[&[u8]]) -> Vec<u8> {
    [&[0, 9, 0, 1][..], &[0; netflow9::HEADER_LEN - 4], &sets.concat()].concat()
}

fn ipfix(sets: &[&[u8]]) -> Vec<u8> {
    let body = sets.concat();
    let length = (ipfix::HEADER_LEN + body.len()) as u16;
    [&[0, 10][..], &length.to_be_bytes(), &[0; ipfix::HEADER_LEN - 4], &body].concat()
}

/// A well-formed template 256 of one field of four octets, and a record for it: neighbours of the malformed.
const GOOD9: &[u8] = &[0, 0, 0, 12, 1, 0, 0, 1, 0, 1, 0, 4];
const GOOD10: &[u8] = &[0, 2, 0, 12, 1, 0, 0, 1, 0, 1, 0, 4];
const DATA: &[u8] = &[1, 0, 0, 8, 1, 2, 3, 4];
const GOOD: [(&str, u16, usize); 2] = [("templates", 0, 1), ("data", 256, 1)];

#[test]
fn sets_that_lose_the_framing() {
    for length in [0_u8, 1, 2, 3] {
        let bad = [1, 0, 0, length, 1, 2, 3, 4];
        check("v9 set length", &[netflow9(&[GOOD9, DATA, &bad])], &["set_length"], &GOOD);
        check("IPFIX set length", &[ipfix(&[GOOD10, DATA, &bad])], &["set_length"], &GOOD);
    }
    // what is there of a set that is too long is kept, record by record
    let long = [1, 0, 0, 200, 1, 2, 3, 4, 5, 6, 7];
    let kept = [GOOD[0], GOOD[1], ("data", 256, 1)];
    check("v9 overrun", &[netflow9(&[GOOD9, DATA, &long])], &["set_length"], &kept);
    check("IPFIX overrun", &[ipfix(&[GOOD10, DATA, &long])], &["set_length"], &kept);
    check("nothing there", &[ipfix(&[GOOD10, DATA, &long[..4]])], &["set_length"], &GOOD);
    check("reserved", &[ipfix(&[GOOD10, DATA, &[0, 9, 0, 200, 1]])], &["set_length"], &GOOD);
    let long = [&[0, 2, 0, 60][..], &GOOD10[4..], &GOOD10[4..9]].concat();
    check("templates", &[ipfix(&[&long])], &["set_length"], &[]);
    check("zeros to the end", &[netflow9(&[GOOD9, DATA, &[0; 2]])], &[], &GOOD);
    check("too many zeros", &[netflow9(&[GOOD9, DATA, &[0; 4]])], &["set_length"], &GOOD);
    check("octets to the end", &[ipfix(&[GOOD10, DATA, &[0, 1]])], &["trailing_octets"], &GOOD);
}

#[test]
fn templates_spoil_only_themselves() {
    let after = |bad: &[u8], set_id: u8, good: &[u8]| {
        let body = [bad, &good[4..]].concat();
        let length = (4 + body.len()) as u16;
        [&[0, set_id][..], &length.to_be_bytes(), &body].concat()
    };
    let check9 = |what, bad: &[u8], labels: &[&str]| {
        check(what, &[netflow9(&[&after(bad, 0, GOOD9), DATA])], labels, &GOOD);
    };
    check9("no fields", &[1, 1, 0, 0], &["zero_length_template"]);
    check9("empty fields", &[1, 1, 0, 2, 0, 1, 0, 0, 0, 2, 0, 0], &["zero_length_template"]);
    check9("reserved id", &[0, 255, 0, 1, 0, 1, 0, 4], &["reserved_template_id"]);
    let many = [&[1, 1, 4, 1][..], &[0, 1, 0, 4].repeat(1025)].concat();
    check9("one field too many", &many, &["too_many_fields"]);
    let long = [&[1, 1, 0, 2][..], &[0, 1, 0xff, 0xfe].repeat(2)].concat();
    check9("records of 131068 octets", &long, &["record_too_long"]);

    let check10 = |what, bad: &[u8], labels: &[&str]| {
        check(what, &[ipfix(&[&after(bad, 2, GOOD10), DATA])], labels, &GOOD);
    };
    check10("withdrawal of a reserved id", &[0, 9, 0, 0], &["reserved_template_id"]);
    check10("enterprise field of no octets", &[1, 1, 0, 1, 0x80, 1, 0, 0, 0, 0, 0, 9], &["zero_length_template"]);
}

#[test]
fn truncated_templates_end_their_set() {
    let none = [("templates", 0, 0), ("data", 256, 0)];
    let good = [("templates", 0, 1), ("data", 256, 1)];
    let two_fields_stated = [0, 0, 0, 12, 1, 0, 0, 2, 0, 1, 0, 4];
    check("v9", &[netflow9(&[&two_fields_stated, DATA])], &["template_truncated"], &none);
    let enterprise_cut = [0, 2, 0, 12, 1, 0, 0, 1, 0x80, 1, 0, 4];
    check("enterprise", &[ipfix(&[&enterprise_cut, DATA])], &["template_truncated"], &none);
    let second_cut = [0, 0, 0, 17, 1, 0, 0, 1, 0, 1, 0, 4, 1, 1, 0, 1, 9];
    check("second", &[netflow9(&[&second_cut, DATA])], &["template_truncated"], &good);
    let header_cut = [0, 3, 0, 9, 1, 1, 0, 1, 9];
    let sets = [("options templates", 0, 0), ("templates", 0, 1), ("data", 256, 1)];
    check("options header", &[ipfix(&[&header_cut, GOOD10, DATA])], &["template_truncated"], &sets);
    let zeros_then_more = [0, 0, 0, 16, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 4];
    check("zeros", &[netflow9(&[&zeros_then_more, DATA])], &["reserved_template_id"], &none);
    let zeros = [&[0, 0, 0, 20][..], &GOOD9[4..], &[0; 8]].concat();
    check("zeros at the end", &[netflow9(&[&zeros, DATA])], &[], &good);
}

#[test]
fn options_templates_need_scopes() {
    let sets = [("options templates", 0, 0), ("templates", 0, 1), ("data", 256, 1)];
    let check9 = |what, record: &[u8], label| {
        let set = [&[0, 1, 0, 4 + record.len() as u8][..], record].concat();
        check(what, &[netflow9(&[&set, GOOD9, DATA])], &[label], &sets);
    };
    check9("no scopes", &[1, 1, 0, 0, 0, 4, 0, 1, 0, 4], "scope_count");
    check9("no multiple of four", &[1, 1, 0, 2, 0, 4, 0, 1, 0, 4, 0, 0], "options_length");
    check9("nor within the set", &[1, 1, 0, 2, 0, 9, 0, 1, 0, 4, 0, 0], "template_truncated");
    check9("past the set", &[1, 1, 0, 4, 0, 4, 0, 1, 0, 4, 0, 1], "template_truncated");
    let check10 = |what, record: &[u8], label| {
        let set = [&[0, 3, 0, 4 + record.len() as u8][..], record].concat();
        check(what, &[ipfix(&[&set, GOOD10, DATA])], &[label], &sets);
    };
    check10("no scopes", &[1, 1, 0, 1, 0, 0, 0, 1, 0, 4], "scope_count");
    check10("more scopes than fields", &[1, 1, 0, 1, 0, 2, 0, 1, 0, 4], "scope_count");
}

/// `NetFlow` v9 has no enterprise bit: a type from 32768 up is a type, and no enterprise number follows.
#[test]
fn netflow9_types_keep_all_bits() {
    let set = [0, 0, 0, 16, 1, 0, 0, 2, 0x80, 5, 0, 4, 0, 1, 0, 4];
    let mut walk = Walk::default();
    walk.netflow9(&netflow9(&[&set]));
    let template = walk.templates.values().next().unwrap();
    assert_eq!(template.fields()[0].element, weir_wire::ElementId::iana(0x8005));
    assert_eq!((template.fields().len(), template.layout().fixed_record_len()), (2, Some(8)));
}

#[test]
fn headers() {
    let check = |result: Option<WireError>, expected| assert_eq!(result, Some(expected));
    check(netflow5::FORMAT.decode(&[]).err(), WireError::TruncatedHeader { need: 24, have: 0 });
    check(netflow5::FORMAT.decode(&[0, 5, 0]).err(), WireError::TruncatedHeader { need: 24, have: 3 });
    check(netflow5::FORMAT.decode(&[0, 9]).err(), WireError::WrongVersion { found: 9 });
    check(netflow9::decode(&[0, 9, 0, 0]).err(), WireError::TruncatedHeader { need: 20, have: 4 });
    check(netflow9::decode(&[0, 5]).err(), WireError::WrongVersion { found: 5 });
    check(ipfix::decode(&[0]).err(), WireError::TruncatedHeader { need: 16, have: 1 });
    check(ipfix::decode(&[0, 9, 0]).err(), WireError::WrongVersion { found: 9 });
    let mut message = ipfix(&[GOOD10]);
    message[3] = 15;
    check(ipfix::decode(&message).err(), WireError::MessageLength { stated: 15, have: 28 });
    message[3] = 29;
    let decoded = ipfix::decode(&message).unwrap();
    check(decoded.problem, WireError::MessageLength { stated: 29, have: 28 });
    assert_eq!(decoded.sets.count(), 1);
    message[3] = 16;
    let decoded = ipfix::decode(&message).unwrap();
    check(decoded.problem, WireError::TrailingOctets { octets: 12 });
    assert_eq!(decoded.sets.count(), 0);
    assert_eq!([&[0, 10, 0, 15][..], &[0, 9, 0, 16], &[0, 10, 0]].map(ipfix::message_length), [None; 3]);
    assert_eq!(ipfix::message_length(&[0, 10, 1, 0]), Some(256));
}

#[test]
fn netflow5_counts() {
    let packet = |count: u8, octets: usize| [&[0, 5, 0, count][..], &[0; 20], &vec![0; octets]].concat();
    let check = |count, octets, records, problem| {
        let datagram = packet(count, octets);
        let decoded = netflow5::FORMAT.decode(&datagram).unwrap();
        assert_eq!((decoded.len(), decoded.problem), (records, problem));
    };
    check(2, 96, 2, None);
    check(0, 0, 0, None);
    check(2, 95, 1, Some(WireError::CountMismatch { stated: 2, found: 1 }));
    check(1, 96, 1, Some(WireError::TrailingOctets { octets: 48 }));
    check(1, 52, 1, Some(WireError::TrailingOctets { octets: 4 }));
    check(255, 96, 2, Some(WireError::CountMismatch { stated: 255, found: 2 }));
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The file names state the verdict. Set 4 belongs to a draft before the RFC and is skipped.
#[test]
fn vermont_files() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("tumi8+vermont/src/tests/vermonttest/testpackets");
    let check = |name: &str, labels: &[&str], sets: Sets<'_>| {
        check(name, &[read(&folder, &format!("{name}.ipfix"))], labels, sets);
    };
    let (reserved, template) = (("reserved", 4, 0), ("templates", 0, 1));
    check("correct_data_template_with_variable_length_fixed_data", &[], &[reserved]);
    // Values of two and, its length in three octets, of four octets; then one of one octet.
    let data = [template, ("data", 998, 2), ("data", 998, 1)];
    check("correct_variable_length_template_and_data", &[], &data);
    check("correct_withdraw_all_templates", &[], &[reserved, ("templates", 0, 0)]);
    check("template_record_field_number_too_big", &["template_truncated"], &[("templates", 0, 0), template]);
    check("template_set_length_exceeds_message_boundary", &["set_length"], &[template]);
    check("two_correct_data_templates", &[], &[reserved]);
    check("two_correct_data_templates_withdrawals", &[], &[reserved]);
}

/// Verdicts of ipfixcol: a message of bad length, a template of bad field count, data without templates.
#[test]
fn ipfixcol_files() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("CESNET+ipfixcol/base/tests/ipfixcol_test/tests/ipfix_data");
    let messages = |name: &str| {
        let file = read(&folder, name);
        let mut rest = &file[..];
        let mut messages = Vec::new();
        while let Some(length) = ipfix::message_length(rest) {
            let (message, after) = rest.split_at(length.min(rest.len()));
            messages.push(message.to_vec());
            rest = after;
        }
        assert!(rest.is_empty(), "{name} is messages to the end");
        messages
    };
    let unknown = [("data", 258, 0), ("data", 264, 0), ("data", 267, 0)];
    check("data only", &messages("only-data-no-templates.ipfix"), &[], &unknown);
    let sets = [&[("templates", 0, 0)][..], &unknown].concat();
    check("field count", &messages("bad-template-field-count.ipfix"), &["template_truncated"], &sets);
    // A template was cut out of the file and the lengths were left as they were, so that the template set reaches
    // into the data.
    let labels = ["message_length", "template_truncated", "set_length"];
    let mut walk = Walk::default();
    for message in &messages("bad-length-in-set.ipfix") {
        walk.ipfix(message);
    }
    assert_eq!(walk.problems.iter().map(|problem| problem.label()).collect::<Vec<_>>(), labels);
    assert_eq!(walk.data_records, 0);

    // A converter put an options template of NetFlow v9 here as it was: four and eight octets, not fields.
    let converted = [WireError::TemplateTruncated { template: 260, need: 22, have: 20 }];
    let intact = ["01-odid0.ipfix", "01-odid4.ipfix", "02-odid0.ipfix", "02-odid4.ipfix"].map(|name| (name, &[][..]));
    for (name, problems) in intact.into_iter().chain([("enterprise-from-nfv9.ipfix", &converted[..])]) {
        let mut walk = Walk::default();
        for message in &messages(name) {
            walk.ipfix(message);
        }
        assert_eq!(walk.problems, problems, "{name}");
        assert!(walk.data_records > 20, "{name}: {} records", walk.data_records);
    }
}

/// "No crash, malformed sets rejected with an error."
#[test]
fn libnetflow9_files() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("exatel+libnetflow9");
    let check = |name: &str, labels: &[&str], sets: Sets<'_>| {
        let path = folder.join(name);
        let datagrams = if name.ends_with("pcap") { udp_payloads(&path) } else { vec![read(&folder, name)] };
        check(name, &datagrams, labels, sets);
    };
    let unknown = [("templates", 0, 0), ("data", 259, 0)];
    // A template without fields, three times with data for it.
    check("fuzz/corpus/pcap_malformed_1", &["zero_length_template"], &unknown);
    check("testcases/malformed_1.pcap", &["zero_length_template"; 3], &unknown.repeat(3));
    // Options templates whose scope fields all have length 0.
    let unknown = [("options templates", 0, 0), ("data", 259, 0)];
    check("testcases/malformed_3.pcap", &["zero_length_template"], &unknown);
    check("testcases/malformed_5.pcap", &["zero_length_template"], &unknown);
    // Cut in the header; sets that reach past the end; lengths of 0; a stray octet at the end.
    check("fuzz/corpus/320355ced694aa69924f6bb82e7b74f420303fd9", &["truncated_header"], &[]);
    check("fuzz/corpus/3d5bb81dbbdad857a70b80dad9e7c35dc3e3f295", &[], &[]);
    check("fuzz/corpus/0d396df5eec88d24de5261a8ea9262104f6e7da5", &["trailing_octets"], &[]);
    check("fuzz/corpus/3cd1db56088570b169808f13638f643bd5e3228c", &["trailing_octets"], &[]);
    check("fuzz/corpus/7f20f80ab9ea8163161802b7bbfe61c742cd86c1", &["set_length"], &[]);
    for seed in std::fs::read_dir(folder.join("fuzz/corpus")).unwrap() {
        let mut walk = Walk::default();
        let datagram = std::fs::read(seed.unwrap().path()).unwrap();
        walk.datagram(&datagram);
        assert_eq!(walk.data_records, 0, "{datagram:?}");
    }
}

/// Messages of a parser's own tests: data without templates, templates with enterprise numbers.
#[test]
fn rs_ipfix_rw_files() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("ad1217+rs-ipfix-rw/resources/tests");
    let check = |name: &str, sets: Sets<'_>| check(name, &[read(&folder, name)], &[], sets);
    check("dns_samp.bin", &[("data", 259, 0)]);
    check("parse_temp.bin", &[("templates", 0, 3)]);
    check("parse_temp_1.bin", &[("templates", 0, 4)]);
    let mut walk = Walk::default();
    walk.ipfix(&read(&folder, "parse_temp.bin"));
    walk.ipfix(&read(&folder, "parse_data.bin"));
    assert_eq!(walk.problems, []);
    assert!(walk.data_records > 0);
}
