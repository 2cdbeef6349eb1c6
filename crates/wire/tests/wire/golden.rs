//! Real exports against what other implementations made of them.

use std::net::IpAddr;
use std::path::Path;

use serde_json::Value as Json;
use weir_wire::netflow5::{self, field};
use weir_wire::{Set, Spans, Template, TemplateRecord, ipfix, netflow9, value};

use crate::capture::udp_payloads;
use crate::walk::Walk;

/// What `NetGauze` (a Rust decoder of other authors) prints of each datagram of the `pmacct` captures: header,
/// sets, templates with field lengths, and every field of every record. 1:1 in order.
#[test]
fn netgauze_sees_the_same_messages() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let goldens = corpus.join("NetGauze+NetGauze/assets/pcaps/pmacct-tests");
    let (mut messages, mut values) = (0, 0);
    for folder in sorted(&goldens) {
        for golden in sorted(&folder) {
            let name = golden.file_name().unwrap().to_str().unwrap().replace("-flow.json", ".pcap");
            let capture = corpus.join("pmacct+pmacct/tests").join(folder.file_name().unwrap()).join(name);
            let (m, v) = compare(&capture, &std::fs::read_to_string(&golden).unwrap());
            messages += m;
            values += v;
        }
    }
    // As many as the golden files have lines; a comparison that skips all of them must not pass.
    assert_eq!(messages, 1075);
    assert!(values > 20_000, "only {values} values were compared");
}

fn sorted(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn compare(capture: &Path, golden: &str) -> (usize, usize) {
    let payloads = udp_payloads(capture);
    let payloads: Vec<_> = payloads.iter().filter(|p| matches!(p[..], [0, 9 | 10, ..])).collect();
    let expected: Vec<Json> = golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(payloads.len(), expected.len(), "{}", capture.display());
    let mut templates = std::collections::HashMap::new();
    let mut values = 0;
    for (number, (payload, expected)) in payloads.iter().zip(&expected).enumerate() {
        let (name, message) = expected.as_object().unwrap().iter().next().unwrap();
        let (sequence, domain, sets) = if name == "IPFIX" {
            let decoded = ipfix::decode(payload).unwrap();
            assert_eq!(decoded.problem, None);
            assert_eq!(json_time(&message["export_time"]), decoded.header.export_time_secs);
            assert_eq!(message["observation_domain_id"], decoded.header.domain.0);
            (decoded.header.sequence, decoded.header.domain, decoded.sets)
        } else {
            let decoded = netflow9::decode(payload).unwrap();
            assert_eq!(json_time(&message["unix_time"]), decoded.header.unix_secs);
            assert_eq!(message["sys_up_time"], decoded.header.sys_uptime_ms);
            assert_eq!(message["source_id"], decoded.header.source_id.0);
            (decoded.header.sequence, decoded.header.source_id, decoded.sets)
        };
        assert_eq!(message["sequence_number"], sequence);
        let sets: Vec<_> = sets.map(Result::unwrap).collect();
        let expected_sets = message["sets"].as_array().unwrap();
        assert_eq!(sets.len(), expected_sets.len(), "{} message {number}", capture.display());
        for (set, expected) in sets.into_iter().zip(expected_sets) {
            match set {
                Set::Templates(records) => {
                    let defined = defined(records);
                    check_templates(&defined, &expected["Template"]);
                    templates.extend(defined.into_iter().map(|t| ((domain, t.id()), t)));
                }
                Set::OptionsTemplates(records) => {
                    let defined = defined(records);
                    check_templates(&defined, &expected["OptionsTemplate"]);
                    templates.extend(defined.into_iter().map(|t| ((domain, t.id()), t)));
                }
                Set::Data { template, body } => {
                    assert_eq!(expected["Data"]["id"], template.get());
                    values += check_records(&templates[&(domain, template)], body, &expected["Data"]["records"]);
                }
                Set::Reserved { id, .. } => panic!("reserved set {id}"),
            }
        }
    }
    (payloads.len(), values)
}

fn defined(records: weir_wire::TemplateRecords<'_>) -> Vec<Template> {
    let define = |record| match record {
        Ok(TemplateRecord::Define(template)) => template,
        other => panic!("{other:?}"),
    };
    records.map(define).collect()
}

fn check_templates(templates: &[Template], expected: &Json) {
    let expected = expected.as_array().unwrap();
    assert_eq!(templates.len(), expected.len());
    for (template, expected) in templates.iter().zip(expected) {
        assert_eq!(expected["id"], template.id().get());
        let scopes = expected["scope_field_specifiers"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(scopes.len(), template.scope_count());
        let lengths = scopes.iter().chain(expected["field_specifiers"].as_array().unwrap()).map(|f| &f["length"]);
        assert!(lengths.eq(template.fields().iter().map(|field| field.length)), "{expected}");
    }
}

/// Compares numbers, addresses and octet strings; how enumerations are called is the other program's choice.
fn check_records(template: &Template, body: &[u8], expected: &Json) -> usize {
    let mut spans = Spans::default();
    let located = template.layout().locate(body, &mut spans);
    assert_eq!(located.problem, None);
    let expected = expected.as_array().unwrap();
    assert_eq!(located.records, expected.len(), "template {}", template.id());
    let mut compared = 0;
    for (record, expected) in expected.iter().enumerate() {
        let part = |name: &str| expected[name].as_array().unwrap().iter();
        let fields = part("scope_fields").chain(part("fields"));
        assert_eq!(fields.clone().count(), template.fields().len());
        for (field, expected) in fields.enumerate() {
            let (name, expected) = expected.as_object().unwrap().iter().next().unwrap();
            let octets = located.field(field).octets(body, record).unwrap();
            let agrees = match expected {
                Json::Number(number) if number.is_u64() => {
                    value::be_uint(octets).is_some_and(|v| Some(v) == number.as_u64())
                }
                Json::String(text) => match text.parse() {
                    Ok(IpAddr::V4(address)) => octets == address.octets(),
                    Ok(IpAddr::V6(address)) => octets == address.octets(),
                    Err(_) => continue,
                },
                Json::Array(array) if array.iter().all(Json::is_u64) => {
                    array.iter().map(|octet| octet.as_u64().unwrap() as u8).eq(octets.iter().copied())
                }
                _ => continue,
            };
            assert!(agrees, "template {} record {record} {name}: {octets:?} is not {expected}", template.id());
            compared += 1;
        }
    }
    compared
}

/// Seconds since 1970 of a time like `2023-02-28T09:47:00Z`.
fn json_time(json: &Json) -> u32 {
    let text = json.as_str().unwrap();
    let part = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap();
    let (year, month, day) = (part(0..4), part(5..7), part(8..10));
    let leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let before_month = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1];
    let days = (1970..year).map(|year| 365 + u32::from(leap(year))).sum::<u32>()
        + before_month
        + u32::from(month > 2 && leap(year))
        + day
        - 1;
    days * 86400 + part(11..13) * 3600 + part(14..16) * 60 + part(17..19)
}

/// The payloads that the logstash codec's own tests are made of: as many data records as that codec yields events.
#[test]
fn logstash_sees_as_many_events() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let payloads = corpus.join("logstash-plugins+logstash-codec-netflow/spec/codecs");
    let golden = corpus.join("_derived/logstash-codec-netflow/golden-dev.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
    let mut compared = 0;
    for case in golden.as_array().unwrap() {
        let files = case["dat_files_in_order"].as_array().unwrap().iter();
        let paths: Vec<_> = files.map(|file| payloads.join(file.as_str().unwrap())).collect();
        let size = case["assertions"].as_array().unwrap().iter().find_map(|assertion| {
            assertion.as_str()?.strip_prefix("expect(decode.size).to eq(")?.strip_suffix(')')?.parse::<usize>().ok()
        });
        let Some(size) = size.filter(|_| paths.iter().all(|path| path.is_file())) else { continue };
        let mut walk = Walk::default();
        for path in &paths {
            walk.datagram(&std::fs::read(path).unwrap());
        }
        assert_eq!(walk.data_records, size, "{} {:?}", case["context"], walk.problems);
        // Two of the files have octets after the packet, which the codec does not mind.
        let problems = walk.problems.iter().filter(|p| p.label() != "trailing_octets").count();
        assert_eq!(problems, 0, "{} {:?}", case["context"], walk.problems);
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} cases were compared");
}

/// Values of a `NetFlow` v5 datagram as the logstash codec's test states them.
#[test]
fn logstash_sees_the_same_netflow5_records() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("logstash-plugins+logstash-codec-netflow/spec/codecs");
    let datagram = std::fs::read(folder.join("netflow5.dat")).unwrap();
    let golden = corpus.join("_derived/logstash-codec-netflow/golden-dev.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(golden).unwrap()).unwrap();
    let case = golden.as_array().unwrap().iter().find(|case| case["context"] == "Netflow 5 valid 01").unwrap();
    let packet = netflow5::FORMAT.decode(&datagram).unwrap();
    let events = case["expected_events"].as_array().unwrap();
    assert_eq!(packet.len(), events.len());
    let address = |bits: u64| IpAddr::from((bits as u32).to_be_bytes()).to_string();
    for (record, event) in packet.iter().zip(events) {
        let expected = &event["netflow"];
        assert_eq!(expected["flow_records"], packet.header.count);
        assert_eq!(expected["flow_seq_num"], packet.header.flow_sequence);
        assert_eq!(expected["sampling_interval"], packet.header.sampling_interval());
        assert_eq!(expected["ipv4_src_addr"], address(field::SRC_ADDR.number(record)));
        assert_eq!(expected["ipv4_dst_addr"], address(field::DST_ADDR.number(record)));
        assert_eq!(expected["ipv4_next_hop"], address(field::NEXT_HOP.number(record)));
        assert_eq!(expected["in_pkts"], field::PACKETS.number(record));
        assert_eq!(expected["in_bytes"], field::OCTETS.number(record));
        assert_eq!(expected["l4_src_port"], field::SRC_PORT.number(record));
        assert_eq!(expected["l4_dst_port"], field::DST_PORT.number(record));
        assert_eq!(expected["tcp_flags"], field::TCP_FLAGS.number(record));
        assert_eq!(expected["protocol"], field::PROTOCOL.number(record));
        assert_eq!(expected["src_tos"], field::TOS.number(record));
        // Times are absolute there: export time minus uptime at export plus uptime at the packet.
        let millis = |uptime: u64| {
            let header = packet.header;
            i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000)
                - i64::from(header.sys_uptime_ms)
                + uptime as i64
        };
        let last = expected["last_switched"].as_str().unwrap();
        let stated = i64::from(json_time(&expected["last_switched"])) * 1000 + last[20..23].parse::<i64>().unwrap();
        // Where the difference borrows from the seconds, that codec writes Ruby's non-existent `seconds--`, which
        // leaves them as they are.
        let difference = stated - millis(field::LAST.number(record));
        assert!(difference == 0 || difference == 1000, "{difference} ms");
    }
}
