//! What is written is read: any template, any records, both protocols, packed into datagrams of any size.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_wire::message_builder::{FinishedMessage, MessageBuilder, TemplateKind, push_variable};
use weir_wire::{
    ElementId, FieldSpecifier, ObservationDomainId, Set, Sets, Spans, Template, TemplateId, TemplateRecord,
    VARIABLE_LENGTH, WireError, fixed, ipfix, netflow5, netflow9,
};

fn fields(enterprises: bool) -> impl Strategy<Value = Vec<FieldSpecifier>> {
    let length = prop_oneof![4 => 0_u16..=20, 1 => Just(VARIABLE_LENGTH)];
    let enterprise = prop_oneof![3 => Just(0_u32), 1 => any::<u32>()];
    let field = (enterprise, 0_u16..0x8000, length).prop_map(move |(enterprise, id, length)| {
        let enterprise = if enterprises { enterprise } else { 0 };
        FieldSpecifier { element: ElementId { enterprise, id }, length }
    });
    vec(field, 1..12)
}

fn template(enterprises: bool) -> impl Strategy<Value = Template> {
    (256_u16..=65535, fields(enterprises), 0_u16..4).prop_filter_map("empty records", |(id, fields, scopes)| {
        let scopes = scopes.min(fields.len() as u16);
        Template::new(TemplateId::new(id).ok()?, fields, scopes).ok()
    })
}

/// Values of a template's records: octets of each field.
fn records(template: &Template, seeds: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let value = |seed: u8, at: usize, length: u16| match length {
        VARIABLE_LENGTH => vec![seed; (usize::from(seed) * (at + 1)) % 300],
        length => vec![seed.wrapping_add(at as u8); usize::from(length)],
    };
    let fields = template.fields();
    seeds.iter().map(|&seed| fields.iter().enumerate().map(|(at, f)| value(seed, at, f.length)).collect()).collect()
}

fn write_record(template: &Template, record: &[Vec<u8>], out: &mut Vec<u8>) {
    for (field, value) in template.fields().iter().zip(record) {
        if field.is_variable() {
            push_variable(out, value).expect("short");
        } else {
            out.extend_from_slice(value);
        }
    }
}

/// Everything in the sets: templates, and the field octets of all records.
fn read_all(sets: Sets<'_>, known: Option<&Template>) -> (Vec<Template>, Vec<Vec<Vec<u8>>>) {
    let (mut templates, mut found) = (Vec::new(), Vec::new());
    let mut spans = Spans::default();
    for set in sets {
        match set.expect("well-formed") {
            Set::Templates(records) | Set::OptionsTemplates(records) => {
                for record in records {
                    match record.expect("well-formed") {
                        TemplateRecord::Define(template) => templates.push(template),
                        other => panic!("{other:?}"),
                    }
                }
            }
            Set::Data { template, body } => {
                let known = known.or(templates.last()).expect("a template");
                assert_eq!(known.id(), template);
                let located = known.layout().locate(body, &mut spans);
                assert_eq!(located.problem, None);
                for record in 0..located.records {
                    let octets = |field| located.field(field).octets(body, record).expect("within").to_vec();
                    found.push((0..known.fields().len()).map(octets).collect());
                }
            }
            Set::Reserved { id, .. } => panic!("set {id}"),
        }
    }
    (templates, found)
}

fn fill<'v, P>(
    mut message: MessageBuilder<'v, P>,
    template: &Template,
    records: &[Vec<Vec<u8>>],
) -> MessageBuilder<'v, P> {
    message.template(template).expect("fits");
    for record in records {
        message.record(template, |out| write_record(template, record, out)).expect("fits");
    }
    message
}

proptest! {
    #[test]
    fn ipfix_messages(template in template(true), seeds in vec(any::<u8>(), 0..8), sequence: u32, domain: u32) {
        let records = records(&template, &seeds);
        let mut out = vec![1, 2, 3];
        let header = ipfix::Header { sequence, domain: ObservationDomainId(domain), ..Default::default() };
        let FinishedMessage { octets, data_records, .. } =
            fill(ipfix::MessageBuilder::new(&mut out, &header), &template, &records).finish();
        prop_assert_eq!(data_records as usize, records.len());
        prop_assert_eq!(out.len(), 3 + octets);
        prop_assert_eq!(ipfix::message_length(&out[3..]), Some(octets));
        let message = ipfix::decode(&out[3..]).expect("a message");
        prop_assert_eq!(message.problem, None);
        prop_assert_eq!(message.header, ipfix::Header { length: octets as u16, ..header });
        prop_assert_eq!(read_all(message.sets, None), (vec![template], records));
    }

    #[test]
    fn netflow9_messages(template in template(false), seeds in vec(any::<u8>(), 0..8), sequence: u32) {
        let records = records(&template, &seeds);
        let mut out = Vec::new();
        let header = netflow9::Header { sequence, sys_uptime_ms: 77, unix_secs: 99, ..Default::default() };
        fill(netflow9::MessageBuilder::new(&mut out, &header), &template, &records).finish();
        let message = netflow9::decode(&out).expect("a message");
        prop_assert_eq!(message.header, netflow9::Header { count: 1 + records.len() as u16, ..header });
        prop_assert_eq!(read_all(message.sets, None), (vec![template], records));
    }

    /// Records packed into as many datagrams as needed arrive complete and in order, and no datagram is too long.
    #[test]
    fn packed_datagrams(template in template(true), seeds in vec(any::<u8>(), 0..40), mtu in 4000_usize..9000) {
        let records = records(&template, &seeds);
        let mut datagrams = Vec::new();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let mut out = Vec::new();
            let mut message = ipfix::MessageBuilder::new(&mut out, &ipfix::Header::default()).within(mtu);
            while let Some((record, later)) = rest.split_first() {
                let room = message.remaining(mtu);
                match message.record(&template, |out| write_record(&template, record, out)) {
                    Ok(()) => rest = later,
                    Err(WireError::MessageFull { need, .. }) => {
                        prop_assert!(need as usize > mtu);
                        let mut octets = Vec::new();
                        write_record(&template, record, &mut octets);
                        prop_assert!(octets.len() + 4 + 3 > room, "{} octets fit into {room}", octets.len());
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            let finished = message.finish();
            prop_assert!(finished.octets <= mtu && finished.data_records > 0);
            datagrams.push(out);
        }
        let mut arrived = Vec::new();
        for datagram in &datagrams {
            let message = ipfix::decode(datagram).expect("a message");
            prop_assert_eq!(message.problem, None);
            arrived.extend(read_all(message.sets, Some(&template)).1);
        }
        prop_assert_eq!(arrived, records);
    }

    #[test]
    fn netflow5_packets(seeds in vec(any::<[u8; 32]>(), 0..=30), flow_sequence: u32, sampling: u16) {
        let record = |seed: &[u8; 32]| {
            let mut octets = [0; netflow5::RECORD_LEN];
            octets[..32].copy_from_slice(seed);
            octets[32..].copy_from_slice(&seed[..16]);
            let values: Vec<_> = netflow5::field::ALL.iter().map(|field| (*field, field.number(&octets))).collect();
            netflow5::FORMAT.record(&values)
        };
        let records: Vec<_> = seeds.iter().map(record).collect();
        let mut out = Vec::new();
        let header = fixed::Header { flow_sequence, sampling, engine_id: 3, ..Default::default() };
        let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &header);
        for record in &records {
            packet.record(record).expect("fits");
        }
        prop_assert_eq!(packet.remaining(usize::MAX), 30 - records.len());
        prop_assert_eq!(usize::from(packet.finish()), records.len());
        let packet = netflow5::FORMAT.decode(&out).expect("a packet");
        prop_assert_eq!(packet.header, fixed::Header { count: records.len() as u16, ..header });
        prop_assert_eq!(packet.iter().collect::<Vec<_>>(), records);
        prop_assert_eq!(packet.problem, None);
    }
}

#[test]
fn what_does_not_fit_is_taken_back() {
    let element = FieldSpecifier::iana(1, 4);
    let template = Template::new(TemplateId::new(256).unwrap(), vec![element], 0).unwrap();
    let other = Template::new(TemplateId::new(257).unwrap(), vec![element], 0).unwrap();
    let private = FieldSpecifier { element: ElementId { enterprise: 9, id: 1 }, length: 4 };
    let private = Template::new(TemplateId::new(258).unwrap(), vec![private], 0).unwrap();
    let mut out = Vec::new();
    let mut message = netflow9::MessageBuilder::new(&mut out, &netflow9::Header::default()).within(36);
    let four = |out: &mut Vec<u8>| out.extend([1, 2, 3, 4]);
    message.record(&template, four).unwrap();
    assert_eq!(message.template(&private), Err(WireError::Inexpressible { enterprise: 9, id: 1 }));
    assert_eq!(message.record(&other, four), Ok(()), "a set of its own, filling the message");
    assert_eq!(message.remaining(1500), 0);
    assert_eq!(message.record(&other, four), Err(WireError::MessageFull { need: 40, limit: 36 }));
    assert_eq!(message.template(&other), Err(WireError::MessageFull { need: 48, limit: 36 }));
    let finished = message.finish();
    assert_eq!((finished.octets, finished.data_records, out.len()), (36, 2, 36));
    assert_eq!(out[20..], [1, 0, 0, 8, 1, 2, 3, 4, 1, 1, 0, 8, 1, 2, 3, 4]);
}

#[test]
fn records_that_are_none_are_refused() {
    let template = Template::new(TemplateId::new(256).unwrap(), vec![FieldSpecifier::iana(1, 4)], 0).unwrap();
    let mut out = Vec::new();
    let mut message = ipfix::MessageBuilder::new(&mut out, &ipfix::Header::default());
    let mismatch = |written, expected| Err(WireError::RecordMismatch { written, expected });
    assert_eq!(message.record(&template, |out| out.push(1)), mismatch(1, 1));
    assert_eq!(message.record(&template, |out| out.extend([0; 8])), mismatch(8, 1));
    assert_eq!(message.record(&template, |_| ()), mismatch(0, 1));
    assert_eq!(message.records(&template, |out| out.extend([0; 8])), Ok(2));
    assert!(message.records(&template, |out| out.extend([0; 7])).is_err());
    assert_eq!(message.finish().octets, 16 + 4 + 8);
}

#[test]
fn short_records_are_not_padded() {
    let template = Template::new(TemplateId::new(256).unwrap(), vec![FieldSpecifier::iana(4, 1)], 0).unwrap();
    let mut out = Vec::new();
    let mut message = ipfix::MessageBuilder::new(&mut out, &ipfix::Header::default());
    message.record(&template, |out| out.push(6)).unwrap();
    message.withdraw(TemplateKind::Data, template.id()).unwrap();
    message.withdraw_all(TemplateKind::Options).unwrap();
    message.finish();
    let expected = [1, 0, 0, 5, 6, 0, 2, 0, 11, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 8, 0, 3, 0, 0];
    assert_eq!(out[16..], expected);
}

#[test]
fn a_packet_holds_thirty_records() {
    let mut out = Vec::new();
    let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &fixed::Header::default());
    for _ in 0..30 {
        packet.record(&[0; netflow5::RECORD_LEN]).unwrap();
    }
    assert_eq!(packet.record(&[0; netflow5::RECORD_LEN]), Err(WireError::CountFull { limit: 30 }));
    assert_eq!(packet.remaining(1500), 0);
    assert_eq!((packet.finish(), out.len()), (30, 24 + 30 * 48));
}
