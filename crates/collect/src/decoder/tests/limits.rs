//! What is learned anew without end: real exporters get all of theirs, the rest is passed over and counted, and no flow has a
//! wrong sampling interval for it.

use std::net::SocketAddr;

use weir_flow::{Column, Counter};
use weir_wire::Template;

use super::records::{Exporter, options, template, u32s};
use crate::{Decoder, Limits, Session, Transport};

const SECOND_MS: i64 = 1_000;

/// An exporter whose messages are received while they are decoded.
fn live(limits: Limits) -> Exporter {
    let mut exporter = Exporter::new();
    exporter.decoder = Decoder::new(limits).with_own_clock();
    exporter
}

fn total(exporter: &Exporter, counter: Counter) -> u64 {
    exporter.decoder.statistics().total(counter)
}

fn another_source() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 2055))
}

/// Options of so many things, whose number has two octets: all have this value.
fn report(exporter: &mut Exporter, template: &Template, things: u16, value: &[u8]) {
    let records: Vec<Vec<u8>> = (0..things).map(|id| [&id.to_be_bytes()[..], value].concat()).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    exporter.ipfix(3, &[template], &records);
}

#[test]
fn rows_of_options_that_change_without_end_are_passed_over_and_written_later() {
    let mut exporter = live(Limits::default());
    let names = template(256, &[(0, 10, 2), (0, 82, 8)], 1);
    let mut listed = 0;
    // 2^18 rows at once: twice as many as one source has remembered
    for round in 0..1_024_u64 {
        report(&mut exporter, &names, 256, &round.to_be_bytes());
        listed += options(&exporter.take()).num_rows();
    }
    assert_eq!((listed, total(&exporter, Counter::OptionsUnlisted)), (1 << 18, 0));
    report(&mut exporter, &names, 256, &1_023_u64.to_be_bytes());
    assert_eq!(total(&exporter, Counter::OptionsUnlisted), 0, "they are neither new nor changed");
    report(&mut exporter, &names, 256, &[7; 8]);
    assert_eq!(total(&exporter, Counter::OptionsUnlisted), 256);
    let source = std::mem::replace(&mut exporter.source, another_source());
    report(&mut exporter, &names, 256, &[7; 8]);
    assert_eq!(options(&exporter.take()).num_rows(), 256, "another source has its own");
    exporter.source = source;
    exporter.received_ms += SECOND_MS;
    report(&mut exporter, &names, 256, &[7; 8]);
    assert_eq!(options(&exporter.take()).num_rows(), 256, "those that were passed over");
    assert_eq!(total(&exporter, Counter::OptionsUnlisted), 256);
}

#[test]
fn samplers_that_change_without_end_have_no_interval_until_later() {
    let mut exporter = live(Limits { samplers_max: 1_024, ..Limits::default() });
    let sampler = template(256, &[(0, 302, 2), (0, 34, 4)], 1);
    let flow = template(257, &[(0, 8, 4), (0, 302, 2)], 0);
    let change = |exporter: &mut Exporter, interval: u32| report(exporter, &sampler, 128, &interval.to_be_bytes());
    let interval = |exporter: &mut Exporter| {
        exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 0, 5]]);
        u32s(&exporter.flows(), Column::SamplingInterval)
    };
    // 128 new ones, and 1,024 changes
    (1..=9).for_each(|interval| change(&mut exporter, interval));
    assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![Some(9)], 0));
    change(&mut exporter, 9);
    assert_eq!(interval(&mut exporter), [Some(9)], "it is no change");
    for refused in [128, 256] {
        change(&mut exporter, 10);
        assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![None], refused));
    }
    let source = std::mem::replace(&mut exporter.source, another_source());
    (1..=2).for_each(|interval| change(&mut exporter, interval));
    assert_eq!(interval(&mut exporter), [Some(2)], "another source has its own");
    exporter.source = source;
    exporter.received_ms += SECOND_MS;
    change(&mut exporter, 10);
    assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![Some(10)], 256));
}

/// A set that has waited has the time at which it was received, and is limited by that of the message that has it decoded.
#[test]
fn sets_that_have_waited_give_no_time_back() {
    let mut exporter = live(Limits::default());
    let names = template(256, &[(0, 10, 2), (0, 82, 8)], 1);
    let waiting = template(257, &[(0, 10, 2), (0, 82, 8)], 1);
    // a set of one record of Template 257, which waits for it: domain 3
    let set = [&[1_u8, 1, 0, 14][..], &[1; 10]].concat();
    let message = [&[0_u8, 10, 0, 30][..], &[0; 8], &3_u32.to_be_bytes(), &set].concat();
    exporter.decoder.datagram(exporter.source, exporter.received_ms - 1_000 * SECOND_MS, &message);
    for round in 0..1_024_u64 {
        report(&mut exporter, &names, 256, &round.to_be_bytes());
        drop(exporter.take());
    }
    exporter.ipfix(3, &[&waiting], &[]);
    let count = |counter| total(&exporter, counter);
    assert_eq!((count(Counter::SetsWaitingOut), count(Counter::OptionsUnlisted)), (1, 1));
    report(&mut exporter, &names, 256, &[7; 8]);
    assert_eq!(total(&exporter, Counter::OptionsUnlisted), 1 + 256);
}

/// Captures and files are read faster than they were recorded, and begin in mid-connection.
#[test]
fn what_was_recorded_before_is_not_limited() {
    let limits = Limits { domains_max: 256, samplers_max: 1_024, ..Limits::default() };
    let mut exporter = Exporter::new();
    exporter.decoder = Decoder::new(limits);
    let sampler = template(256, &[(0, 302, 2), (0, 34, 4)], 1);
    (1..=20_u32).for_each(|interval| report(&mut exporter, &sampler, 128, &interval.to_be_bytes()));
    assert_eq!(total(&exporter, Counter::SamplersRefused), 0);
    let session = Session { transport: Transport::Tcp, source: exporter.source };
    for domain in 0..1_000_u32 {
        // a message without sets: version, length, export time, sequence, domain
        let message = [&[0_u8, 10, 0, 16][..], &[0; 8], &domain.to_be_bytes()].concat();
        exporter.decoder.message(session, exporter.received_ms, &message);
    }
    assert_eq!(total(&exporter, Counter::DatagramsRefused), 0);
    // four sets of an octet, of a Template each
    let sets: Vec<u8> = (1..5).flat_map(|template| [1, template, 0, 5, 7]).collect();
    let message = [&[0_u8, 10, 0, 36][..], &[0; 8], &7_u32.to_be_bytes(), &sets].concat();
    exporter.decoder.message(session, exporter.received_ms, &message);
    assert_eq!(exporter.decoder.statistics().sets_waiting, 4);
    let mut live = live(Limits::default());
    live.decoder.message(session, live.received_ms, &message);
    assert_eq!(live.decoder.statistics().sets_waiting, 1, "where what came before is known");
    let association = Session { transport: Transport::Sctp, source: exporter.source };
    live.decoder.message(association, live.received_ms, &message);
    assert_eq!(live.decoder.statistics().sets_waiting, 1 + 4, "the Templates may come on another stream");
}

/// Records may be as short as an octet, and each of them costs more than it has.
#[test]
fn of_many_short_records_a_part_is_read_and_the_others_are_counted() {
    let mut exporter = live(Limits::default());
    // samplers of interfaces; a number and an interval have three octets as a rule
    let [short, usual] = [(256, 1), (257, 2)].map(|(id, octets)| template(id, &[(0, 10, octets), (0, 34, 1)], 1));
    let shorts: Vec<[u8; 2]> = (0..600_u16).map(|number| [(number % 200) as u8, 5]).collect();
    let usuals: Vec<[u8; 3]> = (0..400_u16).map(|number| [(number >> 8) as u8, number as u8, 5]).collect();
    // what comes again takes no row, so that after a few times the others have one
    let mut unlisted = |domain, template: &Template, records: &[&[u8]]| {
        let mut before = 0;
        for _ in 0..4 {
            before = total(&exporter, Counter::OptionsUnlisted);
            exporter.ipfix(domain, &[template], records);
            drop(exporter.take());
        }
        total(&exporter, Counter::OptionsUnlisted) - before
    };
    let left_out = unlisted(3, &short, &shorts.iter().map(<[u8; 2]>::as_slice).collect::<Vec<_>>());
    // of 1,200 octets and what is around them one record for each three is read, and 64 more
    assert!((115..=125).contains(&left_out), "{left_out} of 600");
    assert_eq!(unlisted(4, &usual, &usuals.iter().map(<[u8; 3]>::as_slice).collect::<Vec<_>>()), 0);
    assert_eq!(total(&exporter, Counter::RecordsOptions), 4 * 600 + 4 * 400);
}

/// Sets that have waited are many of one message.
#[test]
fn sets_of_short_options_that_have_waited_have_few_rows_each() {
    let mut exporter = live(Limits::default());
    let selectors = template(256, &[(0, 302, 1)], 1);
    // 100 sets of 8 records of an octet, each of another selector, in a message of 1,216 octets
    let sets = (0..100_u8).flat_map(|set| {
        let records = (0..8).map(move |record| set.wrapping_mul(8).wrapping_add(record));
        [1, 0, 0, 12].into_iter().chain(records)
    });
    let sets: Vec<u8> = sets.collect();
    let header = [&[0_u8, 10][..], &(16 + sets.len() as u16).to_be_bytes(), &[0; 8], &3_u32.to_be_bytes()].concat();
    exporter.decoder.datagram(exporter.source, exporter.received_ms, &[header, sets].concat());
    assert_eq!(exporter.decoder.statistics().sets_waiting, 100);
    exporter.ipfix(3, &[&selectors], &[]);
    let rows = options(&exporter.take()).num_rows();
    assert!(rows <= 200, "{rows} rows, two of each set");
    assert_eq!(total(&exporter, Counter::RecordsOptions), 800);
}

#[test]
fn templates_that_change_without_end_are_refused_until_later() {
    let mut exporter = live(Limits { templates_max: 1_024, ..Limits::default() });
    let define = |exporter: &mut Exporter, round: u16| {
        let templates: Vec<Template> =
            (0..256).map(|id| template(256 + id, &[(0, 8, 4), (0, 1 + round % 2, 4)], 0)).collect();
        exporter.ipfix(3, &templates.iter().collect::<Vec<_>>(), &[]);
    };
    // 256 new ones, and changes: twice 1,024
    (0..8).for_each(|round| define(&mut exporter, round));
    assert_eq!(total(&exporter, Counter::TemplatesRefused), 0);
    define(&mut exporter, 7);
    assert_eq!(total(&exporter, Counter::TemplatesRefused), 0, "they come again as they were");
    let flow = template(600, &[(0, 8, 4), (0, 7, 2)], 0);
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 0, 80]]);
    assert_eq!((total(&exporter, Counter::TemplatesRefused), exporter.decoder.rows()), (1, 0));
    let source = std::mem::replace(&mut exporter.source, another_source());
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 0, 80]]);
    assert_eq!(exporter.decoder.rows(), 1, "another source has its own");
    exporter.source = source;
    exporter.received_ms += SECOND_MS;
    exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 0, 80]]);
    assert_eq!(exporter.decoder.rows(), 3, "with the record that has waited");
    assert_eq!(total(&exporter, Counter::TemplatesRefused), 1);
}
