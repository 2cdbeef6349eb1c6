//! What is learned anew without end: real exporters get all of theirs, the rest is passed over and counted, and no flow has a
//! wrong sampling interval for it.

use std::net::SocketAddr;

use weir_flow::{Column, Counter};
use weir_wire::Template;

use super::records::{Exporter, options, template, u32s};

const SECOND_MS: i64 = 1_000;

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
    let mut exporter = Exporter::new();
    let names = template(256, &[(0, 10, 2), (0, 82, 8)], 1);
    let mut listed = 0;
    // 2^18 rows at once: twice as many as one source has remembered
    for round in 0..1_024_u64 {
        report(&mut exporter, &names, 256, &round.to_be_bytes());
        listed += options(&exporter.take()).num_rows();
    }
    assert_eq!((listed, total(&exporter, Counter::OptionsUnlisted)), (1 << 18, 0));
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
    let mut exporter = Exporter::new();
    let sampler = template(256, &[(0, 302, 2), (0, 34, 4)], 1);
    let flow = template(257, &[(0, 8, 4), (0, 302, 2)], 0);
    let change = |exporter: &mut Exporter, interval: u32| report(exporter, &sampler, 128, &interval.to_be_bytes());
    let interval = |exporter: &mut Exporter| {
        exporter.ipfix(3, &[&flow], &[&[10, 0, 0, 1, 0, 5]]);
        u32s(&exporter.flows(), Column::SamplingInterval)
    };
    // 128 new ones, and 2^16 changes
    (1..=513).for_each(|interval| change(&mut exporter, interval));
    assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![Some(513)], 0));
    change(&mut exporter, 513);
    assert_eq!(interval(&mut exporter), [Some(513)], "it is no change");
    for refused in [128, 256] {
        change(&mut exporter, 514);
        assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![None], refused));
    }
    let source = std::mem::replace(&mut exporter.source, another_source());
    (1..=2).for_each(|interval| change(&mut exporter, interval));
    assert_eq!(interval(&mut exporter), [Some(2)], "another source has its own");
    exporter.source = source;
    exporter.received_ms += SECOND_MS;
    change(&mut exporter, 514);
    assert_eq!((interval(&mut exporter), total(&exporter, Counter::SamplersRefused)), (vec![Some(514)], 256));
}
