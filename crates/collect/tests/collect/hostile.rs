//! Senders that mean harm: they may fill the limits, but not push out who really sends, nor cost more memory than the
//! limits say.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_collect::{Collector, CollectorOptions, Decoder, Limits, Next, Session, Transport};
use weir_flow::Counter;
use weir_wire::{FieldSpecifier, Template, TemplateId};

use super::exporter::{Taken, TestExporter, template_of};
use super::{RECEIVED_MS, any_port, counting, drain, netflow5_packet, start};

/// A small share of what a collector has by default, so that it is full soon.
fn tight() -> Limits {
    Limits {
        domains_max: 2_048,
        templates_max: 4_096,
        template_fields_max: 16_384,
        samplers_max: 1_024,
        waiting_octets_max: 1 << 20,
        ..Limits::default()
    }
}

fn fake_source(number: u32) -> SocketAddr {
    SocketAddr::from(([10, (number >> 16) as u8, (number >> 8) as u8, number as u8], 9_995))
}

/// What made-up source number `number` sends: every kind of thing that costs a collector something.
fn fake(number: u32) -> Vec<u8> {
    let mut exporter = TestExporter::new([10, 0, 0, 0], 9_995, number);
    match number % 7 {
        0 => vec![0, 10, 0xff],
        1 => exporter.templates(),
        2 => exporter.data(1 + number % 40),
        3 => netflow5_packet(number, 1, 0),
        4 => {
            // a message that is longer than it says, and a set that says it is longer than it is
            let mut lying = exporter.templates();
            lying[18] = 0xff;
            lying
        }
        5 => {
            let mut both = exporter.templates();
            both.extend(exporter.data(1));
            both
        }
        _ => {
            exporter.template = template_of(300, &[(1, 8); 12]);
            exporter.templates()
        }
    }
}

/// Adds up what a decoder says about everything that it was given.
fn check_balance(taken: &Taken, decoder: &Decoder, sent: u64) {
    let count = |counter| taken.count(counter);
    assert_eq!(count(Counter::Datagrams) + count(Counter::DatagramsRefused), sent);
    let statistics = decoder.statistics();
    let accounted = count(Counter::SetsWaitingOut) + count(Counter::SetsExpired) + statistics.sets_waiting as u64;
    assert_eq!(count(Counter::SetsWaitingIn), accounted);
    assert_eq!(count(Counter::RecordsStored), taken.flows.len() as u64);
    for &counter in Counter::ALL {
        assert_eq!(count(counter), statistics.total(counter), "{} is in the books", counter.name());
    }
}

#[test]
fn a_hundred_thousand_fakes_cost_real_exporters_nothing() {
    let limits = tight();
    let base = counting::live();
    let mut decoder = Decoder::new(limits.clone());
    let mut taken = Taken::default();
    let mut real: Vec<_> = (0..40).map(|number| TestExporter::new([192, 0, 2, number], 4739, 1 << 20)).collect();
    let (mut fakes, mut sent) = (0, 0);
    let (rounds, fakes_per_round) = (50_u32, 2_000);
    for round in 0..rounds {
        let now_ms = RECEIVED_MS + i64::from(round) * 3_000;
        for (number, exporter) in real.iter_mut().enumerate() {
            // they begin one after the other, in the middle of it
            exporter.domain = (1 << 20) + number as u32;
            if number as u32 == round % 40 {
                decoder.datagram(exporter.source, now_ms, &exporter.templates());
                sent += 1;
            }
            if number as u32 <= round {
                decoder.datagram(exporter.source, now_ms, &exporter.data(7));
                sent += 1;
            }
        }
        for _ in 0..fakes_per_round {
            decoder.datagram(fake_source(fakes), now_ms, &fake(fakes));
            (fakes, sent) = (fakes + 1, sent + 1);
            if decoder.is_full() {
                taken.all_of(&mut decoder);
            }
        }
        decoder.expire(now_ms);
        assert!(decoder.statistics().octets_kept <= limits.octets_max(), "{:?}", decoder.statistics());
        taken.all_of(&mut decoder);
    }
    assert_eq!(fakes, 100_000);
    for (number, exporter) in real.iter().enumerate() {
        let rounds = u64::from(rounds) - number as u64;
        assert_eq!(exporter.next, 7 * rounds);
        assert_eq!(taken.numbers(exporter.domain), (0..exporter.next).collect::<Vec<_>>(), "exporter {number}");
    }
    check_balance(&taken, &decoder, sent);
    assert!(taken.count(Counter::DomainsEvicted) > 50_000, "{}", taken.count(Counter::DomainsEvicted));
    let flows = (taken.flows.capacity() * size_of::<(u32, u64)>()) as isize;
    let kept = counting::live() - base - flows;
    assert!(kept <= limits.octets_max() as isize + DELIVERY_OCTETS, "{kept} of {}", limits.octets_max());
}

/// Room for the delivery that is being made, which the limits do not count: columns for 16,384 flows.
const DELIVERY_OCTETS: isize = 8 << 20;

/// Messages of 1,000 templates each; a million takes a minute without optimization.
const MESSAGES: u32 = if cfg!(debug_assertions) { 200 } else { 1_000 };

#[test]
fn templates_by_the_million_cost_no_more_than_the_limits_say() {
    let limits = tight();
    let mut decoder = Decoder::new(limits.clone());
    let mut taken = Taken::default();
    let mut real = TestExporter::new([192, 0, 2, 1], 4739, 1);
    decoder.datagram(real.source, RECEIVED_MS, &real.templates());
    decoder.datagram(real.source, RECEIVED_MS, &real.data(1));
    let base = counting::live();
    counting::take_most();
    let mut defined = 0_u64;
    for number in 0..MESSAGES {
        let mut attacker = TestExporter::new([10, 0, 0, 0], 1, 2 + number % 100);
        let message = attacker.message(|message| {
            for at in 0..1_000_u16 {
                // of one field, of a few, and rarely of many: each is the dearest in its way
                let fields = if at == 0 { 500 } else { 1 + usize::from(at % 3) };
                let id = TemplateId::new(256 + at + (number / 100) as u16 * 1_000).expect("id");
                let fields = vec![FieldSpecifier::iana(1, 1 + (number % 8) as u16); fields];
                let template = Template::new(id, fields, 0).expect("template");
                defined += u64::from(message.template(&template).is_ok());
            }
        });
        decoder.datagram(attacker.source, RECEIVED_MS + i64::from(number), &message);
        decoder.datagram(real.source, RECEIVED_MS + i64::from(number), &real.data(1));
        if number % 100 == 50 {
            // somebody new gets its templates known all the same
            let mut newcomer = TestExporter::new([192, 0, 3, 1], number as u16, 1_000 + number);
            decoder.datagram(newcomer.source, RECEIVED_MS + i64::from(number), &newcomer.templates());
            decoder.datagram(newcomer.source, RECEIVED_MS + i64::from(number), &newcomer.data(1));
        }
        taken.all_of(&mut decoder);
        let statistics = decoder.statistics();
        assert!(statistics.octets_kept <= limits.octets_max());
        assert!(statistics.templates <= limits.templates_max);
    }
    assert_eq!(defined, u64::from(MESSAGES) * 1_000);
    let most = counting::take_most() - base;
    assert!(most <= limits.octets_max() as isize + DELIVERY_OCTETS, "{most} of {}", limits.octets_max());
    let newcomers = u64::from(MESSAGES) / 100;
    assert_eq!(taken.count(Counter::Templates), defined + newcomers + 1);
    assert_eq!(taken.numbers(1), (0..=u64::from(MESSAGES)).collect::<Vec<_>>());
    assert_eq!(taken.flows.len() as u64, 1 + u64::from(MESSAGES) + newcomers, "the newcomers' flows");
    let statistics = decoder.statistics();
    assert!(statistics.templates >= limits.templates_max / 4, "{statistics:?}");
    // what is accounted is no less than what is taken
    let live = counting::live() - base;
    assert!(live <= statistics.octets_kept as isize + DELIVERY_OCTETS, "{live} of {}", statistics.octets_kept);
}

/// Every template and field at its dearest, against what [`Limits::octets_max`] takes it for.
#[test]
fn what_is_kept_is_accounted_for() {
    // lengths that no column takes cost a leftover as well; variable ones a place
    let mixed: &[(u16, u16)] = &[(8, 4), (27, 16), (1, 65_535), (22, 4), (4, 16), (82, 65_535)];
    // ports of two transports and forms of a time, of which a record means one
    let ports: &[(u16, u16)] = &[(180, 2), (182, 2)];
    let times: &[(u16, u16)] = &[(152, 8), (150, 4)];
    let of_mixed =
        [(1, 1), (1, 60), (1, 513), (15, 1), (900, 2), (40, 60)].map(|(count, fields)| (count, fields, mixed));
    let of_choices = [(900, 2, ports), (900, 2, times)];
    for (templates, fields, kinds) in of_mixed.into_iter().chain(of_choices) {
        let mut decoder = Decoder::new(Limits::default());
        decoder.datagram(fake_source(0), RECEIVED_MS, &[0, 10]);
        drop(decoder.take_delivery());
        let (base, accounted) = (counting::live(), decoder.statistics().octets_kept);
        for domain in 0..(4_000 / templates / fields).max(4) {
            let mut exporter = TestExporter::new([10, 0, 0, 1], 9_995, domain as u32);
            for id in 0..templates {
                let kinds = kinds.iter().cycle().take(fields);
                let specifiers = kinds.map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
                exporter.template =
                    Template::new(TemplateId::new(256 + id as u16).expect("id"), specifiers, 0).expect("template");
                decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
            }
        }
        drop(decoder.take_delivery());
        let (live, accounted) = (counting::live() - base, decoder.statistics().octets_kept - accounted);
        println!("{templates} templates of {fields} fields, {kinds:?}: {live} octets, accounted {accounted}");
        assert!(live <= accounted as isize, "{templates} of {fields}, {kinds:?}: {live} of {accounted}");
    }
    // sets that wait, of one octet and of many
    for records in [1, 100] {
        let mut decoder = Decoder::new(Limits::default());
        let (base, accounted) = (counting::live(), decoder.statistics().octets_kept);
        for number in 0..2_000 {
            let mut exporter = TestExporter::new([10, 0, 0, 1], 9_995, number % 100);
            decoder.datagram(exporter.source, RECEIVED_MS, &exporter.data(records));
        }
        drop(decoder.take_delivery());
        let (live, accounted) = (counting::live() - base, decoder.statistics().octets_kept - accounted);
        println!("sets of {records} records: {live} octets, accounted {accounted}");
        assert!(live <= accounted as isize, "{records}: {live} of {accounted}");
    }
}

/// Of many sets of a few octets, each of another template that nobody has sent, a message keeps some. All are in the books.
#[test]
fn short_sets_of_many_templates_are_accounted_for() {
    let mut decoder = Decoder::new(Limits::default());
    let mut exporter = TestExporter::new([192, 0, 2, 1], 4739, 1);
    let template = |number: u16| template_of(256 + number, &[(1, 8)]);
    let sets = exporter.message(|message| {
        for number in 0..100_u16 {
            let octets = u64::from(number).to_be_bytes();
            message.record(&template(number), |out| out.extend(octets)).expect("fits");
        }
    });
    decoder.datagram(exporter.source, RECEIVED_MS, &sets);
    // 1,200 octets of sets
    assert_eq!(decoder.statistics().sets_waiting, 4 + 1_200 / 128);
    let templates = exporter.message(|message| {
        for number in [0, 99] {
            message.template(&template(number)).expect("fits");
        }
    });
    decoder.datagram(exporter.source, RECEIVED_MS, &templates);
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    assert_eq!(taken.numbers(1), [0], "the first of them waited");
    let counts = [Counter::SetsWaitingIn, Counter::SetsWaitingOut, Counter::SetsExpired];
    assert_eq!(counts.map(|counter| taken.count(counter)), [100, 1, 87]);
    check_balance(&taken, &decoder, 2);
}

/// Whoever has domains made on connections without end has a thousand in a second, after twice as many as there may be.
#[test]
fn a_source_has_so_many_domains_made_on_connections_and_more_later() {
    let mut decoder = Decoder::new(Limits { domains_max: 256, ..Limits::default() }).with_own_clock();
    let mut next = 0;
    let mut send = |decoder: &mut Decoder, transport: Transport, host: u8, messages: u32, at_ms: i64| {
        let before = decoder.statistics().total(Counter::DatagramsRefused);
        for _ in 0..messages {
            let mut exporter = TestExporter::new([192, 0, 2, host], 4739, next);
            let session = Session { transport, source: exporter.source };
            decoder.message(session, RECEIVED_MS + at_ms, &exporter.templates());
            next += 1;
        }
        decoder.statistics().total(Counter::DatagramsRefused) - before
    };
    assert_eq!(send(&mut decoder, Transport::Tcp, 1, 2 * 256, 0), 0);
    assert_eq!(send(&mut decoder, Transport::Tcp, 1, 100, 0), 100);
    let session = Session { transport: Transport::Tcp, source: TestExporter::new([192, 0, 2, 1], 4739, 0).source };
    decoder.end_session(session, RECEIVED_MS);
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    assert_eq!(send(&mut decoder, Transport::Tls, 1, 100, 0), 100, "another connection of it as well");
    assert_eq!(send(&mut decoder, Transport::Sctp, 1, 100, 0), 100, "and an association");
    assert_eq!(send(&mut decoder, Transport::Tcp, 2, 50, 0), 0, "another source has its own");
    assert_eq!(send(&mut decoder, Transport::Udp, 1, 50, 0), 0, "and datagrams do not count");
    assert_eq!(send(&mut decoder, Transport::Tcp, 1, 60, 50), 10, "50 more after 50 ms");
    taken.all_of(&mut decoder);
    check_balance(&taken, &decoder, 2 * 256 + 100 + 100 + 100 + 50 + 50 + 60);
}

/// Messages that are refused because no domain gives way use up nothing: when the exporter connects again, its domains are made.
#[test]
fn domains_that_were_not_made_do_not_count_as_made() {
    let mut decoder = Decoder::new(Limits { domains_max: 64, ..Limits::default() }).with_own_clock();
    let source = SocketAddr::from(([192, 0, 2, 1], 4739));
    let session = Session { transport: Transport::Tcp, source };
    let mut exporters: Vec<_> = (0..64).map(|domain| TestExporter::new([192, 0, 2, 1], 4739, domain)).collect();
    // all of them are protected
    for exporter in &mut exporters {
        decoder.message(session, RECEIVED_MS, &exporter.templates());
    }
    for second in 0..90 {
        for exporter in &mut exporters {
            decoder.message(session, RECEIVED_MS + second * 1_000, &exporter.data(1));
        }
    }
    let refused = |decoder: &Decoder| decoder.statistics().total(Counter::DatagramsRefused);
    assert_eq!(refused(&decoder), 0);
    let now_ms = RECEIVED_MS + 90_000;
    for domain in 1_000..2_000 {
        decoder.message(session, now_ms, &TestExporter::new([192, 0, 2, 1], 4739, domain).templates());
    }
    assert_eq!(refused(&decoder), 1_000, "nobody gives way");
    decoder.end_session(session, now_ms);
    Taken::default().all_of(&mut decoder);
    for domain in 0..64 {
        decoder.message(session, now_ms, &TestExporter::new([192, 0, 2, 1], 4739, domain).templates());
    }
    assert_eq!((refused(&decoder), decoder.statistics().domains), (1_000, 64));
}

#[test]
fn when_all_have_proven_themselves_the_new_one_is_refused() {
    let mut decoder = Decoder::new(Limits { domains_max: 3, domain_idle_secs: 600, ..Limits::default() });
    let packet = |sequence| netflow5_packet(sequence, 1, 0);
    let address = |number| SocketAddr::from(([192, 0, 2, number], 2055));
    for at in 0..8 {
        (0..3).for_each(|number| decoder.datagram(address(number), RECEIVED_MS + at * 10_000, &packet(at as u32)));
    }
    decoder.datagram(address(9), RECEIVED_MS + 80_000, &packet(0));
    let total = |decoder: &Decoder, counter| decoder.statistics().total(counter);
    assert_eq!(total(&decoder, Counter::DatagramsRefused), 1);
    // until one of them has been silent
    (0..2).for_each(|number| decoder.datagram(address(number), RECEIVED_MS + 700_000, &packet(8)));
    decoder.datagram(address(9), RECEIVED_MS + 700_000, &packet(1));
    assert_eq!((total(&decoder, Counter::DomainsEvicted), total(&decoder, Counter::DatagramsRefused)), (1, 1));
    let mut taken = Taken::default();
    taken.all_of(&mut decoder);
    assert_eq!(taken.count(Counter::RecordsStored), 3 * 8 + 2 + 1);
}

/// Resident memory of this process, in octets.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    4_096 * statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages")
}

#[test]
fn a_hostile_sender_on_the_wire_costs_real_exporters_nothing() {
    let options = CollectorOptions { limits: tight(), ..any_port() };
    let before = resident();
    let mut collector: Collector = start(&options);
    let target = collector.sockets()[0].local;
    let socket = |_| UdpSocket::bind("127.0.0.1:0").expect("bind");
    let senders: Vec<_> = (0..10).map(socket).collect();
    let mut real: Vec<_> = (0..10).map(|number| TestExporter::new([127, 0, 0, 1], 0, (1 << 20) + number)).collect();
    let attackers: Vec<_> = (0..50).map(socket).collect();
    let (mut taken, mut sent, until) = (Taken::default(), 0_u64, Instant::now() + Duration::from_secs(3));
    let mut fakes = 0;
    while Instant::now() < until {
        for (exporter, sender) in real.iter_mut().zip(&senders) {
            if exporter.next == 0 {
                sender.send_to(&exporter.templates(), target).expect("send");
                sent += 1;
            }
            sender.send_to(&exporter.data(5), target).expect("send");
            sent += 1;
        }
        for attacker in &attackers {
            attacker.send_to(&fake(fakes), target).expect("send");
            (fakes, sent) = (fakes + 1, sent + 1);
        }
        // no more on its way than the socket buffer holds
        loop {
            let next = collector.next(Duration::from_millis(1)).expect("no failure");
            if let Next::Delivery(delivery) = &next {
                taken.add(delivery);
            }
            let seen = collector.statistics();
            let seen = seen.iter().map(|d| d.total(Counter::Datagrams) + d.total(Counter::DatagramsRefused));
            if seen.sum::<u64>() + 300 >= sent || Instant::now() >= until {
                break;
            }
        }
    }
    for delivery in drain(&mut collector) {
        taken.add(&delivery);
    }
    let dropped = taken.count(Counter::KernelDrops) + taken.count(Counter::QueueDrops);
    assert_eq!(dropped, 0, "of {sent}");
    for exporter in &real {
        assert_eq!(taken.numbers(exporter.domain), (0..exporter.next).collect::<Vec<_>>());
        assert!(exporter.next > 0);
    }
    assert_eq!(taken.count(Counter::Datagrams) + taken.count(Counter::DatagramsRefused), sent);
    let grown = resident().saturating_sub(before);
    // beside the limits: bursts, socket buffers, deliveries, and what other tests do meanwhile
    assert!(grown < options.limits.octets_max() + (512 << 20), "{grown} octets more than before");
}

/// Whoever sends from one address has a share of all domains, and the others keep theirs: what they have sent once is known,
/// whatever the flood sends, and a new one finds a place.
#[test]
fn one_source_does_not_take_the_domains_of_others() {
    let mut decoder = Decoder::new(Limits { domains_max: 256, ..Limits::default() });
    let (mut taken, mut flood_sent) = (Taken::default(), 0_u64);
    // one that has sent little, and is silent while the flood comes
    let mut quiet = TestExporter::new([192, 0, 2, 1], 4739, 1 << 20);
    decoder.datagram(quiet.source, RECEIVED_MS, &quiet.templates());
    decoder.datagram(quiet.source, RECEIVED_MS, &quiet.data(1));
    for number in 0..2_000 {
        let mut flood = TestExporter::new([10, 0, 0, 1], 9_995, number);
        for message in [flood.templates(), flood.data(1), flood.data(1), flood.data(1)] {
            decoder.datagram(flood.source, RECEIVED_MS + 1, &message);
            flood_sent += 1;
        }
        taken.all_of(&mut decoder);
    }
    assert_eq!(decoder.statistics().domains, 1 + 191, "three quarters, less what the other has");
    assert_eq!(taken.count(Counter::Datagrams) + taken.count(Counter::DatagramsRefused), flood_sent + 2);
    // what was lost before it shows, as only one who is known can tell
    let _ = quiet.data(5);
    decoder.datagram(quiet.source, RECEIVED_MS + 2, &quiet.data(1));
    let mut newcomer = TestExporter::new([192, 0, 2, 2], 4739, 1 << 21);
    decoder.datagram(newcomer.source, RECEIVED_MS + 2, &newcomer.templates());
    decoder.datagram(newcomer.source, RECEIVED_MS + 2, &newcomer.data(2));
    taken.all_of(&mut decoder);
    assert_eq!((taken.numbers(1 << 20), taken.numbers(1 << 21)), (vec![0, 6], vec![0, 1]));
    assert_eq!(taken.count(Counter::RecordsLost), 5);
    assert_eq!(decoder.statistics().domains, 2 + 191);
}

/// An agent of sFlow is whatever a datagram says: its domains are part of the share of who sends them.
#[test]
fn whoever_speaks_for_agents_of_sflow_has_one_share() {
    let mut decoder = Decoder::new(Limits { domains_max: 256, ..Limits::default() });
    let datagram = |agent: u32, sequence: u32| -> Vec<u8> {
        // version, family and address of the agent, sub-agent, sequence, uptime, samples
        [5, 1, agent, 0, sequence, 1_000, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
    };
    for number in 0..1_000 {
        decoder.datagram(fake_source(1), RECEIVED_MS, &datagram(0x0a01_0000 + number, 1));
    }
    assert_eq!(decoder.statistics().domains, 192);
    // 10.1.3.231 is the last of them
    let agent = SocketAddr::from(([10, 1, 3, 231], 6_343));
    decoder.datagram(agent, RECEIVED_MS, &datagram(0x0a01_03e7, 2));
    assert_eq!(decoder.statistics().domains, 192);
    for number in 1_000..2_000 {
        decoder.datagram(fake_source(1), RECEIVED_MS, &datagram(0x0a01_0000 + number, 1));
    }
    let before = decoder.statistics().total(Counter::DatagramsLost);
    decoder.datagram(agent, RECEIVED_MS, &datagram(0x0a01_03e7, 6));
    assert_eq!(decoder.statistics().total(Counter::DatagramsLost) - before, 3, "it is known");
}

/// Where one source has all domains that it may have, the log says which: the books do not.
#[test]
fn the_log_names_a_source_that_has_its_share_of_the_domains() {
    let limits = Limits { domains_max: 0, ..Limits::default() };
    let mut collector = start(&CollectorOptions { limits, ..any_port() });
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    sender.send_to(&netflow5_packet(0, 1, 0), collector.sockets()[0].local).expect("send");
    let until = Instant::now() + Duration::from_secs(30);
    let notice = loop {
        drop(collector.next(Duration::from_millis(10)).expect("no failure"));
        if let Some(notice) = collector.take_notice() {
            break notice;
        }
        assert!(Instant::now() < until, "no source is named");
    };
    assert!(notice.starts_with("127.0.0.1 sends of more Observation Domains"), "{notice}");
    assert!(notice.contains("datagrams of new ones are refused"), "{notice}");
    assert!(collector.take_notice().is_none(), "once");
    drop(drain(&mut collector));
}

/// Many exporters may have one address: behind a replicator or an address translation. Once they have sent records for a while
/// none has to give way, and there are places for more than half of all while others do not want them.
#[test]
fn exporters_behind_one_address_have_the_places_that_others_leave() {
    let mut decoder = Decoder::new(Limits { domains_max: 1_024, ..Limits::default() });
    let address = |port: u16| SocketAddr::from(([192, 0, 2, 1], port));
    for round in 0..8 {
        // 40,000 of 65,536, on the scale of this table
        for port in 1..=625 {
            decoder.datagram(address(port), RECEIVED_MS + i64::from(round) * 10_000, &netflow5_packet(round, 1, 0));
        }
        drop(decoder.take_delivery());
    }
    let seen = decoder.statistics();
    let counts = [Counter::RecordsStored, Counter::DatagramsRefused, Counter::DomainsEvicted];
    assert_eq!(counts.map(|counter| seen.total(counter)), [8 * 625, 0, 0]);
    let mut next = Decoder::new(Limits { domains_max: 1_024, ..Limits::default() });
    next.import_state(&decoder.export_state()).expect("state");
    assert_eq!(next.statistics().domains, 625, "and after a restart");
}
