//! Templates: how long they live, what a change does, and when another port may lend them.

use weir_collect::{Decoder, Limits, Session, Transport};
use weir_flow::Counter;

use super::RECEIVED_MS;
use super::exporter::{NUMBERED, Taken, TestExporter, template_of};

const DAY_MS: i64 = 86_400_000;

fn after(transport: Transport, lifetime_secs: u32, age_ms: i64) -> (Taken, usize) {
    let mut decoder = Decoder::new(Limits { template_lifetime_secs: lifetime_secs, ..Limits::default() });
    let mut exporter = TestExporter::new([192, 0, 2, 1], 4739, 1);
    let session = Session { transport, source: exporter.source };
    decoder.message(session, RECEIVED_MS, &exporter.templates());
    decoder.message(session, RECEIVED_MS + age_ms, &exporter.data(2));
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    (taken, decoder.statistics().templates)
}

#[test]
fn templates_expire_where_datagrams_may_be_lost() {
    for (transport, lifetime_secs, age_ms, lives) in [
        (Transport::Udp, 1_800, 1_800_000, true),
        (Transport::Udp, 1_800, 1_800_001, false),
        (Transport::Dtls, 1_800, 1_800_001, false),
        (Transport::Udp, 0, 400 * DAY_MS, true),
        (Transport::Tcp, 1_800, 400 * DAY_MS, true),
        (Transport::Sctp, 1_800, 400 * DAY_MS, true),
        (Transport::Tls, 1_800, 400 * DAY_MS, true),
        (Transport::File, 1_800, 400 * DAY_MS, true),
    ] {
        let (taken, templates) = after(transport, lifetime_secs, age_ms);
        let found = (taken.flows.len(), taken.count(Counter::TemplatesExpired), templates);
        let expected = if lives { (2, 0, 1) } else { (0, 1, 0) };
        assert_eq!(found, expected, "{transport:?} {lifetime_secs} {age_ms}");
    }
}

#[test]
fn a_refresh_keeps_a_template_and_a_late_one_brings_what_waited() {
    let mut decoder = Decoder::new(Limits::default());
    let (mut exporter, mut taken) = (TestExporter::new([192, 0, 2, 1], 4739, 1), Taken::default());
    for at in 0..10 {
        decoder.datagram(exporter.source, RECEIVED_MS + at * 1_700_000, &exporter.templates());
        decoder.datagram(exporter.source, RECEIVED_MS + at * 1_700_000 + 1_699_999, &exporter.data(1));
    }
    // three times as long as it takes, which is longer than the limit
    let now_ms = RECEIVED_MS + 9 * 1_700_000 + 3 * 1_700_000 + 1;
    decoder.expire(now_ms - 1);
    assert_eq!(decoder.statistics().total(Counter::TemplatesExpired), 0);
    // found without data
    decoder.expire(now_ms);
    assert_eq!(decoder.statistics().total(Counter::TemplatesExpired), 1);
    decoder.datagram(exporter.source, now_ms, &exporter.data(1));
    decoder.datagram(exporter.source, now_ms + 1, &exporter.templates());
    taken.all_of(&mut decoder);
    assert_eq!(taken.numbers(1), (0..11).collect::<Vec<_>>());
    assert_eq!((taken.count(Counter::SetsWaitingIn), taken.count(Counter::SetsWaitingOut)), (1, 1));
    assert_eq!(taken.count(Counter::TemplatesChanged), 0);
}

#[test]
fn a_template_with_other_fields_takes_effect_at_once() {
    let mut exporter = TestExporter::new([192, 0, 2, 1], 4739, 1);
    let wide = template_of(256, &[(8, 4), (1, 8), (2, 8), (4, 1)]);
    for fields_max in [100, 3] {
        let mut decoder = Decoder::new(Limits { template_fields_max: fields_max, ..Limits::default() });
        decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
        decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(1));
        let message = exporter.message(|message| {
            message.template(&wide).expect("fits");
            message
                .record(&wide, |out| {
                    out.extend([0; 4]);
                    out.extend(77_u64.to_be_bytes());
                    out.extend([0; 9]);
                })
                .expect("fits");
        });
        decoder.datagram(exporter.source, RECEIVED_MS, &message);
        let mut taken = Taken::default();
        taken.all_of(&mut decoder);
        assert_eq!(taken.count(Counter::TemplatesChanged), 1);
        // also when there is no room for the new one: its records are not read by the old
        let fits = fields_max == 100;
        assert_eq!(taken.flows.last().map(|(_, number)| *number == 77), Some(fits));
        assert_eq!(taken.flows.len(), if fits { 2 } else { 1 });
        assert_eq!(taken.count(Counter::TemplatesRefused), u64::from(!fits));
    }
}

#[test]
fn another_port_lends_its_template_only_when_asked_for() {
    let mut templates = TestExporter::new([192, 0, 2, 1], 1, 7);
    let mut data = TestExporter::new([192, 0, 2, 1], 2, 7);
    let mut stranger = TestExporter::new([192, 0, 2, 2], 2, 7);
    for asked in [false, true] {
        let mut decoder = Decoder::new(Limits::default());
        if asked {
            decoder = decoder.with_templates_across_ports();
        }
        (data.next, stranger.next) = (0, 0);
        decoder.datagram(data.source, RECEIVED_MS, &data.data(2));
        decoder.datagram(stranger.source, RECEIVED_MS, &stranger.data(2));
        decoder.datagram(templates.source, RECEIVED_MS, &templates.templates());
        decoder.datagram(data.source, RECEIVED_MS, &data.data(2));
        let mut taken = Taken::default();
        taken.all_of(&mut decoder);
        let expected: Vec<u64> = if asked { (0..4).collect() } else { Vec::new() };
        assert_eq!(taken.numbers(7), expected);
        if !asked {
            continue;
        }
        // the lender changes it: what was lent is no longer good
        let numbered = std::mem::replace(&mut templates.template, template_of(256, &[(1, 8), (8, 4)]));
        decoder.datagram(templates.source, RECEIVED_MS, &templates.templates());
        data.template = templates.template.clone();
        let message = data.message(|message| {
            message.record(&templates.template, |out| out.extend([0, 0, 0, 0, 0, 0, 0, 99, 1, 1, 1, 1])).expect("fits");
        });
        decoder.datagram(data.source, RECEIVED_MS, &message);
        taken.all_of(&mut decoder);
        assert_eq!(taken.numbers(7).last(), Some(&99));
        (templates.template, data.template) = (numbered.clone(), numbered);
    }
}

#[test]
fn nothing_is_lent_when_two_ports_disagree() {
    let mut decoder = Decoder::new(Limits::default()).with_templates_across_ports();
    let mut one = TestExporter::new([192, 0, 2, 1], 1, 7);
    let mut two = TestExporter::new([192, 0, 2, 1], 2, 7);
    let mut data = TestExporter::new([192, 0, 2, 1], 3, 7);
    two.template = template_of(256, &[NUMBERED[1], NUMBERED[0]]);
    decoder.datagram(one.source, RECEIVED_MS, &one.templates());
    decoder.datagram(two.source, RECEIVED_MS, &two.templates());
    decoder.datagram(data.source, RECEIVED_MS, &data.data(2));
    assert_eq!(decoder.statistics().sets_waiting, 1);
    // its own template settles it
    decoder.datagram(data.source, RECEIVED_MS, &data.templates());
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    assert_eq!(taken.numbers(7), [0, 1]);
}

#[test]
fn a_data_set_that_overruns_its_datagram_keeps_its_whole_records() {
    let mut decoder = Decoder::new(Limits::default());
    let mut exporter = TestExporter::new([192, 0, 2, 1], 4739, 1);
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    let whole = exporter.data(10);
    // nine records and a half arrive
    decoder.datagram(exporter.source, RECEIVED_MS, &whole[..whole.len() - 6]);
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    assert_eq!(taken.numbers(1), (0..9).collect::<Vec<_>>());
    // the message and its set are too long
    assert_eq!(taken.count(Counter::SetsUndecodable), 2);
}

#[test]
fn samplers_beyond_the_limit_are_counted() {
    let options = super::template(257, &[(1, 4), (48, 4), (34, 4)], 1);
    let mut decoder = Decoder::new(Limits { samplers_max: 10, ..Limits::default() });
    for port in 0..3 {
        let message = super::ipfix_message(0, |message| {
            message.template(&options).expect("fits");
            for sampler in 0..6_u8 {
                message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 0, 0, sampler, 0, 0, 0, 9])).expect("fits");
            }
        });
        decoder.datagram(super::source(port), RECEIVED_MS, &message);
    }
    // six, then four of six, then none
    assert_eq!(decoder.statistics().total(Counter::SamplersRefused), 2 + 6);
}

#[test]
fn a_clock_that_jumps_makes_nothing_old() {
    let now_ms =
        || i64::try_from(std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis()).expect("before 292 million");
    for has_own_clock in [true, false] {
        let mut decoder = Decoder::new(Limits::default());
        if has_own_clock {
            decoder = decoder.with_own_clock();
        }
        let mut known = TestExporter::new([192, 0, 2, 1], 4739, 1);
        let mut waiting = TestExporter::new([192, 0, 2, 2], 4739, 1);
        decoder.datagram(known.source, now_ms(), &known.templates());
        let late = waiting.templates();
        decoder.datagram(waiting.source, now_ms(), &waiting.data(3));
        // for some seconds the system's clock is wrong
        let wrong_ms = now_ms() + 400 * DAY_MS;
        decoder.expire(wrong_ms);
        decoder.datagram(known.source, wrong_ms, &known.data(2));
        decoder.datagram(waiting.source, now_ms(), &late);
        let mut taken = Taken::default();
        taken.all_of(&mut decoder);
        let expected = if has_own_clock { (5, 0, 0) } else { (0, 1, 1) };
        let counts = (taken.count(Counter::TemplatesExpired), taken.count(Counter::SetsExpired));
        assert_eq!((taken.flows.len(), counts.0, counts.1), expected, "own clock: {has_own_clock}");
    }
}
