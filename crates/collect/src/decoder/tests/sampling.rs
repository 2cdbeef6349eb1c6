//! Which sampling interval a flow has: by what options say they are about, and by what the record says itself.

use weir_flow::Column;

use super::records::{Exporter, Field, template, u32s};
use crate::Decoder;
use crate::Limits;

fn intervals(exporter: &mut Exporter) -> Vec<Option<u32>> {
    u32s(&exporter.flows(), Column::SamplingInterval)
}

/// Intervals of records whose fields besides an address have one octet each, after options about `scope` with an octet
/// each for scope and interval.
fn by_scope(scope: u16, rates: &[[u8; 2]], fields: &[u16], records: &[&[u8]]) -> Vec<Option<u32>> {
    let mut exporter = Exporter::new();
    report(&mut exporter, 3, scope, rates);
    let fields: Vec<Field> = [(0, 8, 4)].into_iter().chain(fields.iter().map(|id| (0, *id, 1))).collect();
    let records: Vec<Vec<u8>> = records.iter().map(|record| [&[10, 0, 0, 1][..], *record].concat()).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    exporter.ipfix(3, &[&template(257, &fields, 0)], &records);
    intervals(&mut exporter)
}

/// Options of IPFIX: the scope and samplingInterval.
fn report(exporter: &mut Exporter, domain: u32, scope: u16, rates: &[[u8; 2]]) {
    let records: Vec<&[u8]> = rates.iter().map(<[u8; 2]>::as_slice).collect();
    exporter.ipfix(domain, &[&template(256, &[(0, scope, 1), (0, 34, 1)], 1)], &records);
}

#[test]
fn samplers_reported_in_another_domain() {
    let mut exporter = Exporter::new();
    let sampler = template(256, &[(0, 1, 4), (0, 48, 1), (0, 34, 4)], 1);
    let flow = template(257, &[(0, 8, 4), (0, 48, 1)], 0);
    let nameless = template(258, &[(0, 8, 4), (0, 10, 2)], 0);
    // without options nothing is known of any sampler
    exporter.netflow9(7, &nameless, &[&[10, 0, 0, 1, 0, 4]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [None]);
    // domain 0 has no flows, so that what it tells is of others
    exporter.netflow9(0, &sampler, &[&[0, 0, 0, 0, 1, 0, 0, 3, 232]]);
    exporter.netflow9(7, &nameless, &[&[10, 0, 0, 1, 0, 4]]);
    exporter.netflow9(8, &flow, &[&[10, 0, 0, 1, 1], &[10, 0, 0, 1, 2], &[10, 0, 0, 1, 0]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [Some(1000), Some(1000), None, None]);
    // another line card says otherwise of number 1: then it is not known which is meant
    exporter.netflow9(1, &sampler, &[&[0, 0, 0, 0, 1, 0, 0, 0, 10]]);
    exporter.netflow9(8, &flow, &[&[10, 0, 0, 1, 1]]);
    exporter.netflow9(7, &nameless, &[&[10, 0, 0, 1, 0, 4]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [None, None]);
    // once a domain has flows of its own, its sampler is its own as well
    exporter.netflow9(1, &nameless, &[&[10, 0, 0, 1, 0, 4]]);
    exporter.netflow9(7, &nameless, &[&[10, 0, 0, 1, 0, 4]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [Some(10), Some(1000)]);
}

#[test]
fn samplers_of_interfaces_and_intervals_of_records() {
    let mut exporter = Exporter::new();
    let sampler = template(256, &[(0, 2, 2), (0, 34, 2)], 1);
    let flow = template(257, &[(0, 8, 4), (0, 10, 2)], 0);
    exporter.netflow9(0, &sampler, &[&[0, 7, 0, 10], &[0, 8, 0, 20]]);
    exporter.netflow9(0, &flow, &[&[10, 0, 0, 1, 0, 7], &[10, 0, 0, 1, 0, 8], &[10, 0, 0, 1, 0, 9]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [Some(10), Some(20), None]);
    // one packet, then 999 left out
    let own = template(258, &[(0, 8, 4), (0, 305, 4), (0, 306, 4)], 0);
    exporter.ipfix(0, &[&own], &[&[10, 0, 0, 1, 0, 0, 0, 1, 0, 0, 3, 231]]);
    assert_eq!(u32s(&exporter.flows(), Column::SamplingInterval), [Some(1000)]);
}

#[test]
fn a_sampler_that_is_not_known_has_the_rate_of_the_system() {
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &template(400, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 10]]);
    exporter.netflow9(3, &template(401, &[(0, 1, 1), (0, 48, 1), (0, 34, 1)], 1), &[&[0, 5, 50]]);
    let flow = template(257, &[(0, 8, 4), (0, 48, 1)], 0);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1, 5], &[10, 0, 0, 1, 6], &[10, 0, 0, 1, 0]]);
    assert_eq!(intervals(&mut exporter), [Some(50), Some(10), None]);
}

#[test]
fn a_sampler_that_is_not_known_has_the_rate_of_the_part() {
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &template(400, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 10]]);
    // template 257
    exporter.netflow9(3, &template(401, &[(0, 5, 2), (0, 34, 2)], 1), &[&[1, 1, 3, 232]]);
    let flow = |id| template(id, &[(0, 8, 4), (0, 48, 1), (0, 10, 1)], 0);
    exporter.netflow9(3, &flow(257), &[&[10, 0, 0, 1, 3, 7], &[10, 0, 0, 1, 0, 7]]);
    assert_eq!(intervals(&mut exporter), [Some(1000), None], "0 is no sampler");
    exporter.netflow9(3, &flow(258), &[&[10, 0, 0, 1, 3, 7]]);
    assert_eq!(intervals(&mut exporter), [Some(10)]);
    // interface 7, and a sampler with a number
    exporter.netflow9(3, &template(402, &[(0, 2, 1), (0, 34, 1)], 1), &[&[7, 20]]);
    exporter.netflow9(3, &template(403, &[(0, 1, 1), (0, 48, 1), (0, 34, 1)], 1), &[&[0, 5, 50]]);
    exporter.netflow9(3, &flow(258), &[&[10, 0, 0, 1, 3, 7], &[10, 0, 0, 1, 3, 8], &[10, 0, 0, 1, 5, 7]]);
    assert_eq!(intervals(&mut exporter), [Some(20), Some(10), Some(50)]);
}

/// RFC 7011 section 3.4.2.1: the scope says what options are about.
#[test]
fn rates_of_parts_are_in_force_for_records_of_those_parts() {
    let two = [[1, 10], [2, 20]];
    // observationPointId, lineCardId, portId, ingressVRFID, meteringProcessId, exportingProcessId
    for scope in [138, 141, 142, 234, 235, 143, 144] {
        let found = by_scope(scope, &two, &[scope], &[&[1], &[2], &[3]]);
        assert_eq!(found, [Some(10), Some(20), None], "{scope}");
        // a flow that does not say of which one it is
        assert_eq!(by_scope(scope, &two, &[4], &[&[6]]), [None], "{scope}");
    }
    // of a line card nothing follows for all, of the only process of an exporter everything does
    assert_eq!(by_scope(141, &[[1, 10]], &[4], &[&[6]]), [None]);
    for scope in [130, 143, 144, 211] {
        assert_eq!(by_scope(scope, &[[1, 10]], &[4], &[&[6]]), [Some(10)], "{scope}");
    }
    // applicationId: no record is compared with it
    assert_eq!(by_scope(95, &[[1, 10]], &[95], &[&[1]]), [None]);
}

#[test]
fn rates_of_templates_are_in_force_for_their_records() {
    let flow = |id| template(id, &[(0, 8, 4)], 0);
    let mut exporter = Exporter::new();
    let rates = template(400, &[(0, 145, 2), (0, 34, 2)], 1);
    // templates 256 and 257
    exporter.ipfix(3, &[&rates], &[&[1, 0, 0, 1], &[1, 1, 3, 232]]);
    for id in [256, 257, 258] {
        exporter.ipfix(3, &[&flow(id)], &[&[10, 0, 0, 1]]);
    }
    assert_eq!(intervals(&mut exporter), [Some(1), Some(1000), None]);
    // NetFlow v9: scope type 5
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &template(400, &[(0, 5, 2), (0, 34, 2)], 1), &[&[1, 0, 0, 10], &[1, 1, 3, 232]]);
    for id in [256, 257, 258] {
        exporter.netflow9(3, &flow(id), &[&[10, 0, 0, 1]]);
    }
    assert_eq!(intervals(&mut exporter), [Some(10), Some(1000), None]);
    // a template's number means nothing in another domain
    exporter.netflow9(4, &flow(256), &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
}

/// NetFlow v9: scope types 3 and 1.
#[test]
fn a_rate_of_a_line_card_makes_that_of_the_system_doubtful() {
    let flow = template(257, &[(0, 8, 4)], 0);
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &template(400, &[(0, 3, 1), (0, 34, 1)], 1), &[&[1, 10], &[2, 20]]);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
    exporter.netflow9(3, &template(401, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 10]]);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
    exporter.netflow9(3, &template(400, &[(0, 3, 1), (0, 34, 1)], 1), &[&[2, 10]]);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [Some(10)], "both line cards do as the system does");
}

/// lineCardId, and what is all of an exporter: exportingProcessId, and observationDomainId of another domain.
#[test]
fn a_whole_that_records_are_of_is_in_doubt_where_parts_contradict_it() {
    let mut exporter = Exporter::new();
    report(&mut exporter, 3, 141, &[[2, 20]]);
    report(&mut exporter, 3, 144, &[[1, 10]]);
    exporter.ipfix(3, &[&template(257, &[(0, 8, 4), (0, 144, 1)], 0)], &[&[10, 0, 0, 1, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
    let named = template(258, &[(0, 8, 4), (0, 144, 1), (0, 141, 1)], 0);
    exporter.ipfix(3, &[&named], &[&[10, 0, 0, 1, 1, 2], &[10, 0, 0, 1, 1, 3]]);
    assert_eq!(intervals(&mut exporter), [Some(20), Some(10)]);
    let mut exporter = Exporter::new();
    report(&mut exporter, 0, 149, &[[5, 10]]);
    report(&mut exporter, 0, 141, &[[2, 20]]);
    // without the line card, with it, and with a sampler that is not known
    exporter.ipfix(5, &[&template(257, &[(0, 8, 4)], 0)], &[&[10, 0, 0, 1]]);
    exporter.ipfix(5, &[&template(258, &[(0, 8, 4), (0, 141, 1)], 0)], &[&[10, 0, 0, 1, 2], &[10, 0, 0, 1, 3]]);
    exporter.ipfix(5, &[&template(259, &[(0, 8, 4), (0, 302, 1)], 0)], &[&[10, 0, 0, 1, 9]]);
    assert_eq!(intervals(&mut exporter), [None, Some(20), Some(10), None]);
}

#[test]
fn flows_have_the_rate_of_the_interface_that_they_are_measured_at() {
    let mut exporter = Exporter::new();
    exporter.netflow9(0, &template(256, &[(0, 2, 1), (0, 34, 1)], 1), &[&[1, 10], &[2, 20]]);
    // ingressInterface, egressInterface, flowDirection
    let flow = template(257, &[(0, 8, 4), (0, 10, 1), (0, 14, 1), (0, 61, 1)], 0);
    exporter.netflow9(0, &flow, &[&[10, 0, 0, 1, 1, 2, 1], &[10, 0, 0, 1, 1, 2, 0], &[10, 0, 0, 1, 1, 9, 1]]);
    assert_eq!(intervals(&mut exporter), [Some(20), Some(10), None]);
    // without a direction it is the way in
    exporter.netflow9(0, &template(258, &[(0, 8, 4), (0, 10, 1), (0, 14, 1)], 0), &[&[10, 0, 0, 1, 1, 2]]);
    assert_eq!(intervals(&mut exporter), [Some(10)]);
    // egressInterface as the scope
    let (rates, fields) = ([[1, 10], [2, 20]], [10, 14, 61]);
    let found = by_scope(14, &rates, &fields, &[&[9, 1, 1], &[9, 2, 1], &[1, 2, 1], &[1, 9, 1]]);
    assert_eq!(found, [Some(10), Some(20), Some(20), None]);
}

/// ingressVRFID and egressVRFID, which are as ingressInterface and egressInterface.
#[test]
fn flows_have_the_rate_of_the_vrf_that_they_are_measured_in() {
    let mut exporter = Exporter::new();
    report(&mut exporter, 3, 234, &[[1, 10]]);
    report(&mut exporter, 3, 235, &[[1, 20]]);
    // flowDirection
    let flow = template(257, &[(0, 8, 4), (0, 234, 1), (0, 235, 1), (0, 61, 1)], 0);
    let records = [[1, 1, 0], [1, 1, 1], [1, 9, 1], [9, 9, 0]].map(|record| [&[10_u8, 0, 0, 1][..], &record].concat());
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    exporter.ipfix(3, &[&flow], &records);
    assert_eq!(intervals(&mut exporter), [Some(10), Some(20), Some(10), None]);
    // it is not known in which one
    let flow = template(258, &[(0, 8, 4), (0, 234, 1), (0, 235, 1)], 0);
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 1, 1], &[10, 0, 0, 1, 1, 9]]);
    assert_eq!(intervals(&mut exporter), [None, Some(10)]);
}

#[test]
fn rates_of_observation_domains_are_in_force_in_those() {
    let flow = template(257, &[(0, 8, 4)], 0);
    let mut exporter = Exporter::new();
    report(&mut exporter, 0, 149, &[[5, 10], [6, 20]]);
    for domain in [5, 6, 7, 0] {
        exporter.ipfix(domain, &[&flow], &[&[10, 0, 0, 1]]);
    }
    assert_eq!(intervals(&mut exporter), [Some(10), Some(20), None, None]);
    // records that name a sampler which is not known
    exporter.ipfix(5, &[&template(258, &[(0, 8, 4), (0, 302, 1)], 0)], &[&[10, 0, 0, 1, 9], &[10, 0, 0, 1, 0]]);
    assert_eq!(intervals(&mut exporter), [Some(10), None]);
    // another domain contradicts
    report(&mut exporter, 8, 149, &[[5, 30]]);
    exporter.ipfix(5, &[&flow], &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
    // a domain about itself
    report(&mut exporter, 6, 149, &[[6, 40]]);
    exporter.ipfix(6, &[&flow], &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [Some(40)]);
}

/// observationDomainId and selectorId as scopes, of an exporter that reports everything in domain 0.
#[test]
fn a_sampler_with_a_number_may_be_of_another_domain() {
    let mut exporter = Exporter::new();
    exporter.ipfix(0, &[&template(256, &[(0, 149, 1), (0, 302, 1), (0, 34, 1)], 2)], &[&[5, 7, 100]]);
    exporter.ipfix(5, &[&template(257, &[(0, 8, 4), (0, 302, 1)], 0)], &[&[10, 0, 0, 1, 7], &[10, 0, 0, 1, 8]]);
    assert_eq!(intervals(&mut exporter), [Some(100), None]);
}

/// RFC 5476 section 6.5.1, Selection Sequence Report Interpretation.
#[test]
fn selection_sequences_have_the_rates_of_their_selectors() {
    let mut exporter = Exporter::new();
    let selectors = template(400, &[(0, 302, 8), (0, 304, 2), (0, 305, 4), (0, 306, 4)], 1);
    let selector = |id: u64, space: u32| [&id.to_be_bytes()[..], &[0, 1, 0, 0, 0, 1], &space.to_be_bytes()].concat();
    let flow = template(256, &[(0, 8, 4), (0, 301, 8)], 0);
    let of = |sequence: u64| [&[10, 0, 0, 1][..], &sequence.to_be_bytes()].concat();
    exporter.ipfix(0, &[&selectors], &[&selector(7, 99)]);
    exporter.ipfix(0, &[&flow], &[&of(56)]);
    assert_eq!(intervals(&mut exporter), [Some(100)], "the only one, of an exporter that reports no sequences");
    // selectionSequenceId, observationPointId, selectorId
    let sequences = template(401, &[(0, 301, 8), (0, 138, 4), (0, 302, 8)], 1);
    let sequence = |id: u64, selector: u64| [&id.to_be_bytes()[..], &[0, 0, 0, 3], &selector.to_be_bytes()].concat();
    exporter.ipfix(0, &[&sequences], &[&sequence(55, 7)]);
    exporter.ipfix(0, &[&flow], &[&of(55), &of(56)]);
    assert_eq!(intervals(&mut exporter), [Some(100), None]);
    exporter.ipfix(0, &[&sequences], &[&sequence(56, 8)]);
    exporter.ipfix(0, &[&selectors], &[&selector(8, 9)]);
    // of two Selectors one after the other: one packet in 100, and of those one in 10
    let composite = template(402, &[(0, 301, 8), (0, 138, 4), (0, 302, 8), (0, 302, 8)], 1);
    exporter.ipfix(0, &[&composite], &[&[&sequence(57, 7)[..], &8_u64.to_be_bytes()].concat()]);
    exporter.ipfix(0, &[&flow], &[&of(55), &of(56), &of(57)]);
    assert_eq!(intervals(&mut exporter), [Some(100), Some(10), Some(1000)]);
    // the next process knows them
    let state = exporter.decoder.export_state();
    exporter.decoder = Decoder::new(Limits::default());
    exporter.decoder.import_state(&state).expect("its own state");
    exporter.ipfix(0, &[&flow], &[&of(55), &of(56), &of(57)]);
    assert_eq!(intervals(&mut exporter), [Some(100), Some(10), Some(1000)]);
}

/// Reports Selectors of several kinds. Their numbers are those of their kinds in the registry of IANA ("PSAMP
/// Parameters"), but for 9, which is a hash of kind 8 with two ranges.
fn report_selectors(exporter: &mut Exporter) {
    let mut report = |fields: &[Field], selector: u8, algorithm: u8, values: &[u8]| {
        let fields = [&[(0, 302, 1), (0, 304, 1)][..], fields].concat();
        exporter.ipfix(0, &[&template(400, &fields, 1)], &[&[&[selector, algorithm][..], values].concat()]);
    };
    // one packet, then nine left out; a millisecond, then nine left out
    report(&[(0, 305, 1), (0, 306, 1)], 1, 1, &[1, 9]);
    report(&[(0, 307, 2), (0, 308, 2)], 2, 2, &[3, 232, 35, 40]);
    // 2 of 100, and one of 4
    report(&[(0, 309, 1), (0, 310, 1)], 3, 3, &[2, 100]);
    report(&[(0, 311, 8)], 4, 4, &0.25_f64.to_be_bytes());
    // protocolIdentifier
    report(&[(0, 4, 1)], 5, 5, &[17]);
    // hashOutputRangeMin and Max, then hashSelectedRangeMin and Max: one of 16 values of 32 bits, and twice that
    let output = [0, u64::from(u32::MAX)];
    let (low, high) = ([0, 0x0fff_ffff_u64], [0x8000_0000_u64, 0x8fff_ffff]);
    let octets = |values: &[u64]| values.iter().flat_map(|value| value.to_be_bytes()).collect::<Vec<u8>>();
    let fields = [(0, 329, 8), (0, 330, 8), (0, 331, 8), (0, 332, 8), (0, 331, 8), (0, 332, 8)];
    report(&fields[..4], 6, 6, &octets(&[output, low].concat()));
    report(&fields, 9, 8, &octets(&[output, low, high].concat()));
}

/// Intervals of flows of Selection Sequences with these Selectors.
fn of_sequences(exporter: &mut Exporter, sequences: &[&[u8]]) -> Vec<Option<u32>> {
    for (number, selectors) in (1_u8..).zip(sequences) {
        // selectionSequenceId, observationPointId, selectorId for each Selector (RFC 5476 section 6.5.1)
        let mut fields: Vec<Field> = vec![(0, 301, 1), (0, 138, 1)];
        fields.extend(selectors.iter().map(|_| (0, 302, 1)));
        exporter.ipfix(0, &[&template(401, &fields, 1)], &[&[&[number, 1][..], *selectors].concat()]);
    }
    let flows: Vec<_> = (1_u8..).zip(sequences).map(|(number, _)| [10, 0, 0, 1, number]).collect();
    let flows: Vec<&[u8]> = flows.iter().map(<[u8; 5]>::as_slice).collect();
    exporter.ipfix(0, &[&template(256, &[(0, 8, 4), (0, 301, 1)], 0)], &flows);
    intervals(exporter)
}

/// RFC 5476 section 6.5.2, Selector Report Interpretation.
#[test]
fn selection_sequences_have_the_product_of_the_rates_of_their_selectors() {
    let mut exporter = Exporter::new();
    report_selectors(&mut exporter);
    let samplers = of_sequences(&mut exporter, &[&[1], &[3], &[4], &[1, 3], &[4, 1], &[1, 1], &[1, 3, 4, 6]]);
    let expected = [10, 50, 4, 500, 40, 100, 32_000].map(Some);
    assert_eq!(samplers, expected);
    // a filter takes all of what matches, and the values of a hash are as good as a sampler
    let filters = of_sequences(&mut exporter, &[&[5], &[5, 1], &[1, 5], &[5, 3, 5], &[6], &[9], &[6, 5, 1]]);
    assert_eq!(filters, [1, 10, 10, 50, 16, 8, 160].map(Some));
    // of time and not of packets, not reported, and more than are looked at
    assert_eq!(of_sequences(&mut exporter, &[&[2], &[1, 2], &[1, 7], &[5, 5, 5, 5, 1]]), [None; 4]);
    let sampler = template(402, &[(0, 302, 1), (0, 305, 4), (0, 306, 4)], 1);
    let record = |selector: u8, space: u32| [&[selector, 0, 0, 0, 1][..], &space.to_be_bytes()].concat();
    exporter.ipfix(0, &[&sampler], &[&record(7, 4), &record(8, 0xffff)]);
    assert_eq!(of_sequences(&mut exporter, &[&[1, 7], &[8, 5], &[8, 8]]), [Some(50), Some(65_536), None]);
}

/// Of many records the sequences that were looked up last are known again, by their whole numbers.
#[test]
fn each_of_many_records_has_the_rate_of_its_own_sequence() {
    let mut exporter = Exporter::new();
    let samplers = template(400, &[(0, 302, 2), (0, 34, 2)], 1);
    let sequences = template(401, &[(0, 301, 2), (0, 302, 2)], 1);
    let numbers = [1_u16, 257, 2, 513, 258, 9];
    let both = |first: u16, second: u16| [first.to_be_bytes(), second.to_be_bytes()].concat();
    for number in &numbers[..5] {
        exporter.ipfix(0, &[&samplers], &[&both(*number, 3 * number)]);
        exporter.ipfix(0, &[&sequences], &[&both(*number, *number)]);
    }
    let named = (0..300_usize).map(|record| numbers[record * record % 7 % 6]);
    let records: Vec<[u8; 2]> = named.clone().map(u16::to_be_bytes).collect();
    let records: Vec<&[u8]> = records.iter().map(<[u8; 2]>::as_slice).collect();
    exporter.ipfix(0, &[&template(256, &[(0, 301, 2)], 0)], &records);
    let expected: Vec<_> = named.map(|number| (number != 9).then_some(3 * u32::from(number))).collect();
    assert_eq!(intervals(&mut exporter), expected);
}

#[test]
fn a_selector_is_what_it_was_reported_as_last() {
    let mut exporter = Exporter::new();
    report_selectors(&mut exporter);
    assert_eq!(of_sequences(&mut exporter, &[&[5, 1]]), [Some(10)]);
    exporter.ipfix(0, &[&template(402, &[(0, 302, 1), (0, 34, 1)], 1)], &[&[5, 7]]);
    assert_eq!(of_sequences(&mut exporter, &[&[5, 1]]), [Some(70)]);
    report_selectors(&mut exporter);
    assert_eq!(of_sequences(&mut exporter, &[&[5, 1]]), [Some(10)]);
    // so the next process has it
    let state = exporter.decoder.export_state();
    exporter.decoder = Decoder::new(Limits::default());
    exporter.decoder.import_state(&state).expect("its own state");
    exporter.ipfix(0, &[&template(256, &[(0, 8, 4), (0, 301, 1)], 0)], &[&[10, 0, 0, 1, 1]]);
    assert_eq!(intervals(&mut exporter), [Some(10)]);
}

#[test]
fn the_next_process_knows_the_rates_of_parts() {
    let flow = template(257, &[(0, 8, 4), (0, 234, 1)], 0);
    let mut exporter = Exporter::new();
    report(&mut exporter, 3, 234, &[[1, 10], [2, 20]]);
    let state = exporter.decoder.export_state();
    exporter.decoder = Decoder::new(Limits::default());
    exporter.decoder.import_state(&state).expect("its own state");
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 1], &[10, 0, 0, 1, 2]]);
    assert_eq!(intervals(&mut exporter), [Some(10), Some(20)]);
}

/// The octets that a version of the state has for a domain of IPFIX, 3, of 192.0.2.1 port 2055, with these samplers.
fn state_of_version(version: u8, samplers: &[&[u8]]) -> Vec<u8> {
    let body = [
        // one domain: transport, family, address, port, version, Observation Domain
        &[0, 0, 0, 1, 0, 4, 192, 0, 2, 1, 8, 7, 10, 0, 0, 0, 3][..],
        // not protected, when it was heard, datagrams; no time of records, and none of a start
        &[0],
        &1_700_000_000_000_i64.to_be_bytes(),
        &[0, 0, 0, 9, 0, 0],
        &samplers.concat(),
        // no lists, no templates
        &[0; 8],
    ]
    .concat();
    let header = [&b"weirstat"[..], &[0, 0, 0, version], &(body.len() as u64).to_be_bytes()].concat();
    [header, crc32c::crc32c(&body).to_be_bytes().to_vec(), body].concat()
}

/// Kind, number and interval of a sampler in the state.
fn sampler_of_state(kind: u8, number: u64, interval: u32) -> Vec<u8> {
    [&[kind][..], &number.to_be_bytes(), &interval.to_be_bytes()].concat()
}

#[test]
fn of_the_second_version_of_the_state_sequences_of_one_selector_are_taken() {
    let state = state_of_version(
        2,
        &[
            &[0, 0, 0, 2],
            &sampler_of_state(1, 7, 100),
            &sampler_of_state(1, 8, 10),
            // sequence 1 of Selector 7, and 2 of several
            &[0, 0, 0, 2],
            &1_u64.to_be_bytes(),
            &[1],
            &7_u64.to_be_bytes(),
            &2_u64.to_be_bytes(),
            &[0],
        ],
    );
    let mut exporter = Exporter::new();
    exporter.decoder.import_state(&state).expect("a state of the second version");
    let flow = template(256, &[(0, 8, 4), (0, 301, 1)], 0);
    let flows: [&[u8]; 2] = [&[10, 0, 0, 1, 1], &[10, 0, 0, 1, 2]];
    exporter.ipfix(3, &[&flow], &flows);
    assert_eq!(intervals(&mut exporter), [Some(100), None]);
    exporter.ipfix(3, &[&template(401, &[(0, 301, 1), (0, 302, 1), (0, 302, 1)], 1)], &[&[2, 7, 8]]);
    exporter.ipfix(3, &[&flow], &flows);
    assert_eq!(intervals(&mut exporter), [Some(100), Some(1000)]);
}

#[test]
fn of_the_first_version_of_the_state_only_samplers_with_numbers_are_taken() {
    // that of all, one with a number, and that of an interface
    let (all, numbered, of_interface) =
        (sampler_of_state(0, 0, 100), sampler_of_state(1, 5, 50), sampler_of_state(2, 1, 20));
    let state = state_of_version(1, &[&[0, 0, 0, 3], &all, &numbered, &of_interface]);
    let mut exporter = Exporter::new();
    exporter.decoder.import_state(&state).expect("a state of the first version");
    // what was stored as that of all came with exportingProcessId as its scope
    report(&mut exporter, 3, 144, &[[1, 10]]);
    let flow = template(257, &[(0, 8, 4), (0, 302, 1)], 0);
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 5], &[10, 0, 0, 1, 9]]);
    assert_eq!(intervals(&mut exporter), [Some(50), Some(10)]);
}

/// A record's own fields, with the meanings that they have in options (RFC 5477 section 8.2).
#[test]
fn records_report_their_rates_in_several_fields() {
    let interval = |fields: &[Field], record: &[u8]| {
        let mut exporter = Exporter::new();
        exporter.ipfix(0, &[&template(256, fields, 0)], &[record]);
        intervals(&mut exporter)[0]
    };
    // samplingInterval, samplerRandomInterval
    assert_eq!(interval(&[(0, 34, 1), (0, 50, 1)], &[0, 70]), Some(70));
    assert_eq!(interval(&[(0, 34, 1), (0, 50, 1)], &[5, 70]), Some(5));
    assert_eq!(interval(&[(0, 50, 1), (0, 34, 1)], &[70, 0]), Some(70));
    // samplingProbability: float64, and float32 by reduced-size encoding
    assert_eq!(interval(&[(0, 311, 8)], &0.01_f64.to_be_bytes()), Some(100));
    assert_eq!(interval(&[(0, 311, 4)], &0.5_f32.to_be_bytes()), Some(2));
    assert_eq!(interval(&[(0, 311, 8)], &1.5_f64.to_be_bytes()), None);
    assert_eq!(interval(&[(0, 34, 1), (0, 311, 4)], &[&[9][..], &0.5_f32.to_be_bytes()].concat()), Some(9));
}

/// A probability that is none, and one of a length that no float has, say nothing: options do.
#[test]
fn options_are_in_force_for_records_whose_probability_says_nothing() {
    let interval = |length: u16, probability: &[u8]| {
        let mut exporter = Exporter::new();
        exporter.netflow9(0, &template(256, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 100]]);
        exporter.netflow9(
            0,
            &template(257, &[(0, 8, 4), (0, 311, length)], 0),
            &[&[&[10, 0, 0, 1][..], probability].concat()],
        );
        intervals(&mut exporter)[0]
    };
    for probability in [0.0, f64::NAN, 1.5, -0.5] {
        assert_eq!(interval(8, &probability.to_be_bytes()), Some(100), "{probability}");
    }
    assert_eq!(interval(4, &0.0_f32.to_be_bytes()), Some(100));
    assert_eq!(interval(2, &[1, 2]), Some(100));
    assert_eq!(interval(8, &0.5_f64.to_be_bytes()), Some(2));
    assert_eq!(interval(8, &1e-12_f64.to_be_bytes()), None, "it says something, which the column cannot hold");
}

/// Fields of exporters that have their rate in options, and in every record a field for it that says nothing: 0, or a
/// `samplingPacketInterval` of 1.
#[test]
fn options_are_in_force_for_records_whose_interval_says_nothing() {
    let interval = |fields: &[Field], record: &[u8]| {
        let mut exporter = Exporter::new();
        exporter.netflow9(0, &template(256, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 100]]);
        let fields: Vec<Field> = [(0, 8, 4)].into_iter().chain(fields.iter().copied()).collect();
        let record = [&[10, 0, 0, 1][..], record].concat();
        exporter.netflow9(0, &template(257, &fields, 0), &[&record]);
        intervals(&mut exporter)[0]
    };
    // samplingInterval, samplerRandomInterval, and both
    assert_eq!(interval(&[(0, 34, 4)], &[0; 4]), Some(100));
    assert_eq!(interval(&[(0, 50, 1)], &[0]), Some(100));
    assert_eq!(interval(&[(0, 34, 1), (0, 50, 1)], &[0, 0]), Some(100));
    // samplingPacketInterval alone, and next to samplingPacketSpace; samplingSize of samplingPopulation
    assert_eq!([interval(&[(0, 305, 1)], &[0]), interval(&[(0, 305, 1)], &[1])], [Some(100); 2]);
    assert_eq!(interval(&[(0, 305, 1), (0, 306, 1)], &[0, 0]), Some(100));
    assert_eq!(interval(&[(0, 309, 1), (0, 310, 1)], &[0, 0]), Some(100));
    // what they say themselves holds: also that every packet is selected
    assert_eq!(interval(&[(0, 34, 4)], &[0, 0, 0, 7]), Some(7));
    assert_eq!(interval(&[(0, 34, 1)], &[1]), Some(1));
    assert_eq!(interval(&[(0, 305, 1)], &[7]), Some(7));
    assert_eq!(interval(&[(0, 305, 1), (0, 306, 1)], &[1, 0]), Some(1));
    assert_eq!(interval(&[(0, 34, 8)], &[0, 0, 0, 1, 0, 0, 0, 0]), None, "it says what the column cannot hold");
}

#[test]
fn an_interval_of_0_stays_where_options_report_none() {
    let mut exporter = Exporter::new();
    let flow = template(257, &[(0, 8, 4), (0, 34, 1)], 0);
    exporter.netflow9(0, &flow, &[&[10, 0, 0, 1, 0]]);
    assert_eq!(intervals(&mut exporter), [Some(0)]);
    // of interfaces only one has a sampler, and each record is looked at
    exporter.netflow9(0, &template(256, &[(0, 2, 2), (0, 34, 2)], 1), &[&[0, 7, 0, 10]]);
    let flow = template(258, &[(0, 10, 2), (0, 34, 1)], 0);
    exporter.netflow9(0, &flow, &[&[0, 7, 0], &[0, 7, 5], &[0, 8, 0]]);
    assert_eq!(intervals(&mut exporter), [Some(10), Some(5), Some(0)]);
}

/// A rate of 0 is that of an exporter whose sampling was switched off.
#[test]
fn a_sampler_that_is_switched_off_has_no_rate() {
    // samplingInterval and samplingAlgorithm of the system, of NetFlow v9
    let rates = template(256, &[(0, 1, 1), (0, 34, 1), (0, 35, 1)], 1);
    let flow = template(257, &[(0, 8, 4)], 0);
    let mut exporter = Exporter::new();
    for (rate, expected) in [(100, Some(100)), (0, None), (50, Some(50)), (0, None)] {
        exporter.netflow9(3, &rates, &[&[0, rate, u8::from(rate > 0)]]);
        exporter.netflow9(3, &flow, &[&[10, 0, 0, 1]]);
        assert_eq!(intervals(&mut exporter), [expected], "{rate}");
    }
    // that is so in the process after this one as well
    let state = exporter.decoder.export_state();
    let mut exporter = Exporter::new();
    exporter.decoder.import_state(&state).expect("a state");
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1]]);
    assert_eq!(intervals(&mut exporter), [None]);
    // samplerId and samplerRandomInterval: the other one goes on
    let rates = template(256, &[(0, 1, 1), (0, 48, 1), (0, 50, 1)], 1);
    let flow = template(257, &[(0, 8, 4), (0, 48, 1)], 0);
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &rates, &[&[0, 5, 100], &[0, 6, 10]]);
    exporter.netflow9(3, &rates, &[&[0, 5, 0]]);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1, 5], &[10, 0, 0, 1, 6]]);
    assert_eq!(intervals(&mut exporter), [None, Some(10)]);
}

/// A part that is not sampled does not have the rate of the whole, and what never had a rate is not switched off by a 0.
#[test]
fn a_part_that_is_switched_off_has_no_rate_of_the_whole() {
    let mut exporter = Exporter::new();
    exporter.netflow9(3, &template(400, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 10]]);
    let interfaces = template(401, &[(0, 2, 1), (0, 34, 1)], 1);
    exporter.netflow9(3, &interfaces, &[&[7, 100], &[8, 20], &[9, 0]]);
    exporter.netflow9(3, &interfaces, &[&[7, 0]]);
    let flow = template(257, &[(0, 8, 4), (0, 10, 1)], 0);
    exporter.netflow9(3, &flow, &[&[10, 0, 0, 1, 7], &[10, 0, 0, 1, 8], &[10, 0, 0, 1, 9]]);
    assert_eq!(intervals(&mut exporter), [None, Some(20), Some(10)]);
}

/// samplingPacketInterval and Space, samplingSize and Population (RFC 5477 section 8.2).
#[test]
fn only_fields_that_are_all_zero_switch_a_sampler_off() {
    let interval = |fields: &[Field], record: &[u8]| {
        let mut exporter = Exporter::new();
        exporter.netflow9(3, &template(400, &[(0, 1, 1), (0, 34, 1)], 1), &[&[0, 100]]);
        let fields: Vec<Field> = [(0, 1, 1)].into_iter().chain(fields.iter().copied()).collect();
        exporter.netflow9(3, &template(401, &fields, 1), &[&[&[0][..], record].concat()]);
        exporter.netflow9(3, &template(257, &[(0, 8, 4)], 0), &[&[10, 0, 0, 1]]);
        intervals(&mut exporter)[0]
    };
    assert_eq!(interval(&[(0, 305, 1), (0, 306, 1)], &[0, 0]), None);
    assert_eq!(interval(&[(0, 309, 1), (0, 310, 1)], &[0, 0]), None);
    assert_eq!(interval(&[(0, 305, 1), (0, 306, 1)], &[0, 9]), Some(100));
    assert_eq!(interval(&[(0, 34, 1), (0, 50, 1)], &[0, 20]), Some(20));
    // activeTimeout: no field for a rate
    assert_eq!(interval(&[(0, 36, 1)], &[0]), Some(100));
}
