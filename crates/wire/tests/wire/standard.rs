//! The examples that the standards print, both ways.

use weir_wire::message_builder::push_variable;
use weir_wire::{
    ElementId, FieldSpecifier, ObservationDomainId, Set, Spans, Template, TemplateId, TemplateRecord, fixed, ipfix,
    netflow5, netflow9, value,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(octet).collect()
}

fn template(id: u16, scopes: u16, fields: &[(u16, u16)]) -> Template {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    Template::new(TemplateId::new(id).unwrap(), fields, scopes).unwrap()
}

/// RFC 7011 appendix A: a message of a template set, a data set, an options template set and its data.
const RFC7011_A: &str = "
    000a 0098 00000000 00000000 00000001
    0002 001c 0100 0005 0008 0004 000c 0004 000f 0004 0002 0004 0001 0004
    0100 0040
        c000020c c00002fe c0000201 00001391 00518c81
        c000021b c0000217 c0000202 000002ec 0005ef46
        c0000238 c0000241 c0000203 00000005 00001986
    0003 0018 0102 0003 0001 008d 0004 0029 0002 002a 0002 0000
    0102 0014 00000001 0159 27d9 00000002 02b2 4fb2";

#[test]
fn rfc7011_appendix_a_is_read() {
    let message = hex(RFC7011_A);
    assert_eq!(message.len(), 152);
    let decoded = ipfix::decode(&message).unwrap();
    assert_eq!((decoded.header.length, decoded.problem), (152, None));
    assert_eq!(decoded.header.domain, ObservationDomainId(1));
    let sets: Vec<_> = decoded.sets.map(Result::unwrap).collect();
    let [Set::Templates(flows), Set::Data { body, .. }, Set::OptionsTemplates(options), Set::Data { body: cards, .. }] =
        &sets[..]
    else {
        panic!("{sets:?}")
    };
    let flows: Vec<_> = flows.clone().collect();
    let expected = template(256, 0, &[(8, 4), (12, 4), (15, 4), (2, 4), (1, 4)]);
    assert_eq!(flows, [Ok(TemplateRecord::Define(expected.clone()))]);
    let options: Vec<_> = options.clone().collect();
    let expected_options = template(258, 1, &[(141, 4), (41, 2), (42, 2)]);
    assert_eq!(options, [Ok(TemplateRecord::Define(expected_options.clone()))]);

    let mut spans = Spans::default();
    let located = expected.layout().locate(body, &mut spans);
    assert_eq!((located.records, located.unread, located.problem), (3, 0, None));
    let column = |field: usize| -> Vec<u64> {
        let octets = (0..3).map(|record| located.field(field).octets(body, record).unwrap());
        octets.map(|octets| value::be_uint(octets).unwrap()).collect()
    };
    assert_eq!(column(3), [5009, 748, 5]);
    assert_eq!(column(4), [5_344_385, 388_934, 6534]);
    let located = expected_options.layout().locate(cards, &mut spans);
    assert_eq!(located.records, 2);
    assert_eq!(located.field(1).octets(cards, 0), Some(&345_u16.to_be_bytes()[..]));
    assert_eq!(located.field(2).octets(cards, 1), Some(&20402_u16.to_be_bytes()[..]));
}

#[test]
fn rfc7011_appendix_a_is_written() {
    let expected = hex(RFC7011_A);
    let mut out = Vec::new();
    let header = ipfix::Header { domain: ObservationDomainId(1), ..Default::default() };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header);
    let flows = template(256, 0, &[(8, 4), (12, 4), (15, 4), (2, 4), (1, 4)]);
    let cards = template(258, 1, &[(141, 4), (41, 2), (42, 2)]);
    message.template(&flows).unwrap();
    for record in expected[48..108].chunks(20) {
        message.record(&flows, |out| out.extend_from_slice(record)).unwrap();
    }
    message.template(&cards).unwrap();
    assert_eq!(message.records(&cards, |out| out.extend_from_slice(&expected[136..])), Ok(2));
    let finished = message.finish();
    assert_eq!((finished.octets, finished.template_records, finished.data_records), (152, 2, 5));
    assert_eq!(out, expected);
}

/// RFC 7011 section 3.2 figure G and appendix A.2.2: an element with an enterprise number among others.
#[test]
fn enterprise_elements() {
    let message = hex("000a 0034 00000000 00000000 00000000
        0002 0024 0101 0004 0008 0004 000c 0004 8010 0004 00007ed9 0002 0004
        0001 0004 0000 0000");
    let mut sets = ipfix::decode(&message).unwrap().sets;
    let Some(Ok(Set::Templates(mut records))) = sets.next() else { panic!() };
    let Some(Ok(TemplateRecord::Define(template))) = records.next() else { panic!() };
    assert_eq!(template.fields()[2].element, ElementId { enterprise: 32473, id: 16 });
    assert_eq!(template.fields()[3].element, ElementId::iana(2));
    assert_eq!(template.fields()[2].element.to_string(), "32473/16");
}

/// RFC 7011 section 8.1: withdrawals of one template, of all templates, of all options templates.
#[test]
fn withdrawals() {
    let expected = hex("000a 0028 00000000 00000000 00000000
        0002 0008 0100 0000
        0002 0008 0002 0000
        0003 0008 0003 0000");
    let withdrawals = [
        TemplateRecord::Withdraw(TemplateId::new(256).unwrap()),
        TemplateRecord::WithdrawAll,
        TemplateRecord::WithdrawAll,
    ];
    let found: Vec<_> = ipfix::decode(&expected)
        .unwrap()
        .sets
        .flat_map(|set| match set {
            Ok(Set::Templates(records) | Set::OptionsTemplates(records)) => records.collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        })
        .map(Result::unwrap)
        .collect();
    assert_eq!(found, withdrawals);
}

/// RFC 3954 sections 5.2 and 6.1 as its section 8 prints them: options lengths count octets, and are padded.
#[test]
fn netflow9_options_template() {
    let message = hex("0009 0001 00000001 00000002 00000003 00000004
        0001 0018 0101 0004 0008 0001 0004 0029 0002 002a 0002 0000 0101 000c 01020304 0029 002a");
    // The set's length of 24 includes the two octets of padding.
    let message = [&message[..44], &message[44..]].concat();
    let decoded = netflow9::decode(&message).unwrap();
    assert_eq!(decoded.header.source_id, ObservationDomainId(4));
    let sets: Vec<_> = decoded.sets.map(Result::unwrap).collect();
    let [Set::OptionsTemplates(records), Set::Data { template: id, body }] = &sets[..] else { panic!("{sets:?}") };
    let expected = template(257, 1, &[(1, 4), (41, 2), (42, 2)]);
    assert_eq!(records.clone().collect::<Vec<_>>(), [Ok(TemplateRecord::Define(expected.clone()))]);
    assert_eq!((id.get(), body.len()), (257, 8));
    assert_eq!(weir_wire::ScopeType::from_id(expected.fields()[0].element.id), weir_wire::ScopeType::System);

    let mut out = Vec::new();
    let header = netflow9::Header {
        sys_uptime_ms: 1,
        unix_secs: 2,
        sequence: 3,
        source_id: ObservationDomainId(4),
        ..Default::default()
    };
    let mut written = netflow9::MessageBuilder::new(&mut out, &header);
    written.template(&expected).unwrap();
    written.record(&expected, |out| out.extend_from_slice(body)).unwrap();
    assert_eq!(written.finish().octets, message.len());
    assert_eq!(out[2..4], [0, 2], "templates and data records both count");
    assert_eq!(out[4..], message[4..]);
}

/// RFC 7011 section 7, figures R and S.
#[test]
fn variable_lengths() {
    let check = |octets: usize, expected: &[u8]| {
        let mut out = Vec::new();
        push_variable(&mut out, &vec![7; octets]).unwrap();
        assert_eq!(&out[..expected.len()], expected);
        assert_eq!(out.len(), expected.len() + octets);
        assert_eq!(value::variable_length(&out), Some((expected.len(), octets as u16)));
    };
    check(0, &[0]);
    check(5, &[5]);
    check(254, &[254]);
    check(255, &[255, 0, 255]);
    check(1000, &[255, 3, 232]);
    check(65535, &[255, 255, 255]);
    let error = push_variable(&mut Vec::new(), &vec![0; 65536]).unwrap_err();
    assert_eq!(error.label(), "value_too_long");
    for cut in [&[][..], &[255], &[255, 3]] {
        assert_eq!(value::variable_length(cut), None);
    }
    // The long form is allowed for short values too.
    assert_eq!(value::variable_length(&[255, 0, 1, 9]), Some((3, 1)));
}

/// Cisco's NetFlow Export Datagram Format, tables of version 5: fields do not overlap and fill the record but for
/// the paddings at 36 and 46.
#[test]
fn netflow5_fields_tile_the_record() {
    let mut covered = [0; netflow5::RECORD_LEN];
    for field in netflow5::field::ALL {
        covered[field.offset..field.offset + field.length].iter_mut().for_each(|count| *count += 1);
    }
    let gaps: Vec<_> = (0..covered.len()).filter(|&at| covered[at] != 1).collect();
    assert_eq!(gaps, [36, 46, 47]);
    let sampled = fixed::Header { sampling: 0x4064, ..Default::default() };
    assert_eq!((sampled.sampling_mode(), sampled.sampling_interval()), (1, 100));
}
