//! Parts that act together: sessions that end, and the bound over all accounts of sequence numbers.

use std::net::SocketAddr;

use weir_flow::Counter;
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

use crate::decoder::diagnoses;
use crate::inspection::Diagnosis;
use crate::limits::UNSETTLED_MAX;
use crate::session::{Session, Transport};
use crate::{Decoder, Limits};

fn connection(port: u16) -> Session {
    Session { transport: Transport::Tcp, source: SocketAddr::from(([192, 0, 2, 1], port)) }
}

fn message(domain: u32, with_template: bool, records: u8) -> Vec<u8> {
    let template = Template::new(TemplateId::new(256).expect("id"), vec![FieldSpecifier::iana(8, 4)], 0);
    let (template, mut out) = (template.expect("a template"), Vec::new());
    let header = ipfix::Header { domain: ObservationDomainId(domain), ..ipfix::Header::default() };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header);
    if with_template {
        message.template(&template).expect("fits");
    }
    for host in 0..records {
        message.record(&template, |out| out.extend([10, 0, 0, host])).expect("fits");
    }
    message.finish();
    out
}

#[test]
fn templates_end_with_their_session_and_only_theirs() {
    let mut decoder = Decoder::new(Limits::default());
    for port in [1, 2] {
        decoder.message(connection(port), 0, &message(1, true, 1));
        decoder.message(connection(port), 0, &message(2, true, 1));
    }
    decoder.end_session(connection(1), 0);
    // before the places are vacant, and after
    for round in 0..2 {
        for port in [1, 2] {
            decoder.message(connection(port), 0, &message(1, false, 1));
        }
        assert_eq!(decoder.take_delivery().rows(), if round == 0 { 5 } else { 1 });
    }
    assert_eq!(decoder.statistics().sets_waiting, 2);
    decoder.end_session(connection(1), 0);
    let seen = decoder.statistics();
    assert_eq!((seen.sets_waiting, seen.total(Counter::SetsExpired)), (0, 2));
    let delivery = decoder.take_delivery();
    assert!(delivery.books().is_some(), "what the session's end counted is in the books");
}

#[test]
fn places_are_used_again() {
    let mut decoder = Decoder::new(Limits { domains_max: 4, template_fields_max: 4, ..Limits::default() });
    for port in 0..1000 {
        decoder.message(connection(port), 0, &message(0, true, 1));
        decoder.message(connection(port), 0, &message(1, true, 1));
        decoder.end_session(connection(port), 0);
        decoder.take_delivery();
    }
    let seen = decoder.statistics();
    assert_eq!((seen.total(Counter::RecordsStored), seen.total(Counter::DatagramsRefused)), (2000, 0));
    let (domains, templates) = (&decoder.exporters.domains, decoder.exporters.templates.known());
    assert_eq!((seen.total(Counter::TemplatesRefused), domains.table().len(), templates.fields), (0, 2, 0));
    assert_eq!((domains.sessions().counts().0, domains.known()), (0, 0));
}

#[test]
fn domains_are_diagnosed_when_their_session_ends_and_not_later() {
    let mut decoder = Decoder::new(Limits::default());
    for port in [1, 2] {
        for domain in 0..3 {
            // the Data Set of the last one waits for a Template
            decoder.message(connection(port), 0, &message(domain, domain < 2, 1));
        }
    }
    let (ended, left_out) = diagnoses::end_session(&mut decoder, connection(1), 0, 5);
    let of = |diagnosis: &Diagnosis| {
        let counts = [Counter::RecordsStored, Counter::SetsExpired].map(|counter| diagnosis.total(counter));
        (diagnosis.session, diagnosis.domain, counts)
    };
    let expected = [(0, [1, 0]), (1, [1, 0]), (2, [0, 1])].map(|(domain, counts)| (connection(1), domain, counts));
    assert_eq!((ended.iter().map(of).collect::<Vec<_>>(), left_out), (expected.to_vec(), 0));
    // before their places are vacant, and after
    for _ in 0..2 {
        let open = diagnoses::of_open_sessions(&decoder);
        let of_other = |diagnosis: &Diagnosis| diagnosis.session == connection(2);
        assert!(open.len() == 3 && open.iter().all(of_other));
        assert_eq!(diagnoses::end_session(&mut decoder, connection(1), 0, 5), (vec![], 0));
        decoder.take_delivery();
    }
    let (ended, left_out) = diagnoses::end_session(&mut decoder, connection(2), 0, 1);
    assert_eq!((ended.len(), left_out), (1, 2));
}

#[test]
fn sets_that_no_longer_wait_are_decoded_after_the_end() {
    let mut decoder = Decoder::new(Limits::default());
    let records = 250;
    for _ in 0..1000 {
        decoder.message(connection(1), 0, &message(0, false, records));
    }
    decoder.message(connection(1), 0, &message(0, true, 0));
    decoder.end_session(connection(1), 0);
    let mut rows = 0;
    loop {
        let delivery = decoder.take_delivery();
        if delivery.is_empty() {
            break;
        }
        rows += delivery.rows();
    }
    assert_eq!(rows, 1000 * usize::from(records));
    let vacant = decoder.exporters.domains.sessions().counts().1;
    assert_eq!((decoder.exporters.templates.known().fields, vacant), (0, 1));
}

/// A message of a domain with one Data Set, whose Template is not known.
fn data(domain: u32, sequence: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let header = ipfix::Header { domain: ObservationDomainId(domain), sequence, ..ipfix::Header::default() };
    ipfix::MessageBuilder::new(&mut out, &header).finish();
    out[2..4].copy_from_slice(&24_u16.to_be_bytes());
    out.extend([1, 0, 0, 8, 0, 0, 0, 0]);
    out
}

#[test]
fn accounts_that_are_not_settled_are_bounded_over_all_domains() {
    let mut decoder = Decoder::new(Limits { waiting_octets_max: 0, ..Limits::default() });
    let source = SocketAddr::from(([192, 0, 2, 1], 4739));
    let mut most = 0;
    for datagram in 0..UNSETTLED_MAX as u32 {
        decoder.datagram(source, 0, &data(datagram % 3_000, datagram * 10));
        let unsettled = decoder.exporters.sequences.unsettled();
        most = most.max(unsettled);
        assert!(unsettled <= UNSETTLED_MAX, "{unsettled}");
    }
    assert!(most + 5_000 > UNSETTLED_MAX, "the bound was never met: {most}");
    let domains = decoder.exporters.domains.table().iter();
    let counted: usize = domains.map(|domain| domain.sequence.unsettled()).sum();
    assert_eq!(decoder.exporters.sequences.unsettled(), counted);
}

/// The account of sequence numbers counts the records of each message, and not those of sets that it releases.
#[test]
fn sets_that_waited_are_not_counted_as_records_of_the_message_that_releases_them() {
    let mut decoder = Decoder::new(Limits::default());
    for (sequence, with_template, records) in
        [(0, false, 4), (4, false, 4), (8, true, 2), (10, false, 1), (20, false, 3)]
    {
        let mut message = message(0, with_template, records);
        message[8..12].copy_from_slice(&u32::to_be_bytes(sequence));
        decoder.message(connection(1), 0, &message);
    }
    let seen = decoder.statistics();
    assert_eq!((seen.total(Counter::RecordsStored), seen.total(Counter::SetsWaitingOut)), (14, 3));
    assert_eq!((seen.total(Counter::RecordsLost), seen.total(Counter::RecordsLate)), (9, 0));
}
