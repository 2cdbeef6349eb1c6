//! What one process knew, the next one knows: templates, samplers, waiting data.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::datatypes::UInt32Type;
use weir_collect::{Collector, CollectorOptions, Decoder, Limits, Next, StateError};
use weir_flow::{Column, Counter};

use super::exporter::{Taken, TestExporter};
use super::{
    RECEIVED_MS, any_port, data, drain, ipfix_message, simple_record, simple_template, source, start, template,
};

#[test]
fn the_first_datagram_after_a_restart_is_decoded() {
    let options = template(257, &[(1, 4), (34, 4)], 1);
    let mut before = Decoder::new(Limits::default());
    let message = ipfix_message(0, |message| {
        message.template(&options).expect("fits");
        message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 0, 3, 232])).expect("fits");
        message.template(&simple_template()).expect("fits");
    });
    before.datagram(source(1), RECEIVED_MS, &message);
    let state = before.export_state();
    let mut after = Decoder::new(Limits::default());
    after.import_state(&state).expect("its own state");
    after.datagram(source(1), RECEIVED_MS + 60_000, &data(1, &[1, 2]));
    // the exporter's options template is known as well
    let told = ipfix_message(3, |message| {
        message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 0, 0, 7])).expect("fits");
        message.record(&simple_template(), |out| simple_record(out, 3, 1)).expect("fits");
    });
    after.datagram(source(1), RECEIVED_MS + 60_000, &told);
    let delivery = after.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    assert_eq!(flows.primitive::<UInt32Type>(Column::SamplingInterval).expect("column").values(), &[1000, 1000, 7]);
    let exported = Decoder::new(Limits::default()).export_state();
    assert_ne!(state, exported);
    // exported again it is the same
    let mut again = Decoder::new(Limits::default());
    again.import_state(&state).expect("state");
    assert_eq!(again.statistics().templates, 2);
}

#[test]
fn uptimes_are_read_by_what_was_told_before_the_restart() {
    // options: scope 1, systemInitTimeMilliseconds; flows: start as uptime
    let options = template(257, &[(1, 4), (160, 8)], 1);
    let flows = template(258, &[(22, 4), (1, 4)], 0);
    let mut before = Decoder::new(Limits::default());
    let init_ms = 1_699_999_000_000_u64;
    let message = ipfix_message(0, |message| {
        message.template(&options).expect("fits");
        message.template(&flows).expect("fits");
        message
            .record(&options, |out| {
                out.extend([0; 4]);
                out.extend(init_ms.to_be_bytes());
            })
            .expect("fits");
    });
    before.datagram(source(1), RECEIVED_MS, &message);
    let mut after = Decoder::new(Limits::default());
    after.import_state(&before.export_state()).expect("state");
    let message = ipfix_message(1, |message| {
        message
            .record(&flows, |out| {
                out.extend(5_000_u32.to_be_bytes());
                out.extend([0, 0, 0, 1]);
            })
            .expect("fits");
    });
    after.datagram(source(1), RECEIVED_MS, &message);
    let delivery = after.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    let start = flows.primitive::<arrow::datatypes::TimestampMillisecondType>(Column::Start).expect("column");
    assert_eq!(start.value(0), init_ms as i64 + 5_000);
}

#[test]
fn of_several_states_the_latest_counts() {
    let mut exporter = TestExporter::new([192, 0, 2, 1], 1, 1);
    let mut old = Decoder::new(Limits::default());
    old.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    let mut new = Decoder::new(Limits::default());
    let numbered = exporter.template.clone();
    exporter.template = super::exporter::template_of(256, &[(1, 8), (8, 4)]);
    new.datagram(exporter.source, RECEIVED_MS + 1, &exporter.templates());
    for states in [[old.export_state(), new.export_state()], [new.export_state(), old.export_state()]] {
        let mut decoder = Decoder::new(Limits::default());
        decoder.import_state(&states.concat()).expect("states");
        let statistics = decoder.statistics();
        assert_eq!((statistics.domains, statistics.templates), (1, 1));
        exporter.template = numbered.clone();
        decoder.datagram(exporter.source, RECEIVED_MS + 2, &exporter.templates());
        assert_eq!(decoder.statistics().total(Counter::TemplatesChanged), 1, "the new one was known");
    }
    // limits hold for what is remembered
    let mut small = Decoder::new(Limits { templates_max: 0, ..Limits::default() });
    small.import_state(&new.export_state()).expect("state");
    assert_eq!(small.statistics().templates, 0);
}

#[test]
fn damaged_state_is_refused_wherever_the_damage_is() {
    let mut exporter = TestExporter::new([192, 0, 2, 1], 1, 1);
    let mut decoder = Decoder::new(Limits::default());
    decoder.datagram(exporter.source, RECEIVED_MS, &exporter.templates());
    let state = decoder.export_state();
    for at in 0..state.len() {
        let mut damaged = state.clone();
        damaged[at] ^= 0x10;
        assert!(Decoder::new(Limits::default()).import_state(&damaged).is_err(), "octet {at}");
        let cut = Decoder::new(Limits::default()).import_state(&state[..at]);
        assert_eq!(cut.is_err(), at > 0, "cut at {at}");
    }
    let error = Decoder::new(Limits::default()).import_state(b"something else").expect_err("foreign");
    assert_eq!(error, StateError::Foreign);
    // what comes before the damage is learnt
    let mut after = Decoder::new(Limits::default());
    assert!(after.import_state(&[&state[..], b"rest"].concat()).is_err());
    assert_eq!(after.statistics().templates, 1);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let path = entry.expect("entry").path();
        let to = to.join(path.file_name().expect("name"));
        if path.is_dir() { copy(&path, &to) } else { drop(fs::copy(&path, &to)) }
    }
}

fn options(folder: &Path) -> CollectorOptions {
    CollectorOptions { state: Some(folder.to_owned()), ..any_port() }
}

fn wait_until(collector: &mut Collector, taken: &mut Taken, mut done: impl FnMut(&Collector, &Taken) -> bool) {
    let until = Instant::now() + Duration::from_mins(2);
    while !done(collector, taken) {
        assert!(Instant::now() < until, "nothing came");
        if let Next::Delivery(delivery) = collector.next(Duration::from_millis(20)).expect("no failure") {
            taken.add(&delivery);
        }
    }
}

fn waiting_in(collector: &Collector) -> u64 {
    collector.statistics().iter().map(|decoder| decoder.total(Counter::SetsWaitingIn)).sum()
}

#[test]
fn a_collector_that_was_stopped_is_followed_by_one_that_knows() {
    let folder = tempfile::tempdir().expect("folder");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let other = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let (mut known, mut late) = (TestExporter::new([127, 0, 0, 1], 0, 1), TestExporter::new([127, 0, 0, 1], 0, 2));
    let mut collector = start(&options(folder.path()));
    assert_eq!(collector.notices(), [] as [String; 0]);
    let target = collector.sockets()[0].local;
    sender.send_to(&known.templates(), target).expect("send");
    // data of the other waits for a template that comes to the process after
    for _ in 0..20 {
        other.send_to(&late.data(5), target).expect("send");
    }
    wait_until(&mut collector, &mut Taken::default(), |collector, _| waiting_in(collector) == 20);
    drain(&mut collector);
    drop(collector);
    // what lies in the folder now is what a killed process leaves, if it had its ten seconds
    let after = tempfile::tempdir().expect("folder");
    copy(folder.path(), after.path());
    let mut collector = start(&CollectorOptions { sockets: 2, ..options(after.path()) });
    let target = collector.sockets()[0].local;
    sender.send_to(&known.data(3), target).expect("send");
    other.send_to(&late.templates(), target).expect("send");
    let mut taken = Taken::default();
    wait_until(&mut collector, &mut taken, |_, taken| taken.flows.len() >= 103);
    for delivery in drain(&mut collector) {
        taken.add(&delivery);
    }
    assert_eq!(taken.numbers(1), [0, 1, 2]);
    assert_eq!(taken.numbers(2), (0..100).collect::<Vec<_>>());
    assert_eq!((taken.count(Counter::SetsWaitingIn), taken.count(Counter::SetsWaitingOut)), (0, 20));
}

#[test]
fn a_collector_that_is_killed_leaves_what_it_knew_ten_seconds_ago() {
    let folder = tempfile::tempdir().expect("folder");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let mut exporter = TestExporter::new([127, 0, 0, 1], 0, 1);
    let mut collector = start(&options(folder.path()));
    sender.send_to(&exporter.templates(), collector.sockets()[0].local).expect("send");
    let state = folder.path().join("exporters.state");
    wait_until(&mut collector, &mut Taken::default(), |_, _| state.exists());
    // while the first still runs, with its lock and files open
    let copied = tempfile::tempdir().expect("folder");
    copy(folder.path(), copied.path());
    let mut after = start(&options(copied.path()));
    sender.send_to(&exporter.data(3), after.sockets()[0].local).expect("send");
    let mut taken = Taken::default();
    wait_until(&mut after, &mut taken, |_, taken| !taken.flows.is_empty());
    assert_eq!((taken.numbers(1), taken.count(Counter::SetsWaitingIn)), (vec![0, 1, 2], 0));
    assert!(Collector::start(&options(folder.path())).is_err(), "two collectors cannot have one folder");
}

/// Several decoders share the file. That one of them has learnt something must not cost what is known of the exporters of
/// the others, whenever the process is killed.
#[test]
fn the_exporters_of_all_decoders_are_known_after_a_kill() {
    let bind = |host: u8| UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("bind");
    let senders: Vec<_> = (1..=8).map(bind).collect();
    let mut exporters: Vec<_> = (1..=8).map(|host| TestExporter::new([127, 0, 0, host], 0, host.into())).collect();
    let with_decoders = |path: &Path| CollectorOptions { sockets: 4, ..options(path) };
    let first = tempfile::tempdir().expect("folder");
    let mut collector = start(&with_decoders(first.path()));
    for (sender, exporter) in senders.iter().zip(&mut exporters) {
        sender.send_to(&exporter.templates(), collector.sockets()[0].local).expect("send");
    }
    let templates =
        |collector: &Collector| collector.statistics().iter().map(|decoder| decoder.templates).sum::<usize>();
    wait_until(&mut collector, &mut Taken::default(), |collector, _| templates(collector) == 8);
    drain(&mut collector);
    drop(collector);
    // the next process is killed as soon as it has written the file, for the news of one exporter
    let state = first.path().join("exporters.state");
    let before = fs::read(&state).expect("state");
    let mut collector = start(&with_decoders(first.path()));
    let news = ipfix_message(0, |message| message.template(&template(300, &[(8, 4)], 0)).expect("fits"));
    senders[0].send_to(&news, collector.sockets()[0].local).expect("send");
    wait_until(&mut collector, &mut Taken::default(), |_, _| fs::read(&state).expect("state") != before);
    let killed = tempfile::tempdir().expect("folder");
    copy(first.path(), killed.path());
    let mut after = start(&with_decoders(killed.path()));
    for (sender, exporter) in senders.iter().zip(&mut exporters) {
        sender.send_to(&exporter.data(1), after.sockets()[0].local).expect("send");
    }
    let mut taken = Taken::default();
    wait_until(&mut after, &mut taken, |collector, taken| taken.flows.len() as u64 + waiting_in(collector) >= 8);
    assert_eq!(waiting_in(&after), 0, "data of exporters that were known does not wait");
    drain(&mut collector);
}

#[test]
fn a_state_file_of_somebody_else_is_set_aside() {
    let folder = tempfile::tempdir().expect("folder");
    fs::write(folder.path().join("exporters.state"), b"not ours").expect("written");
    let collector = start(&options(folder.path()));
    let notices = collector.notices().join("\n");
    assert!(notices.contains("not the state of a collector; renamed to"), "{notices}");
    let aside = fs::read(folder.path().join("exporters.state.damaged")).expect("set aside");
    assert_eq!(aside, b"not ours");
}

#[test]
fn a_state_file_that_cannot_be_written_is_counted_and_told_once() {
    let folder = tempfile::tempdir().expect("folder");
    // As on a full disk, the new file cannot be made.
    fs::create_dir(folder.path().join("exporters.state.new")).expect("in the way");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let mut exporter = TestExporter::new([127, 0, 0, 1], 0, 1);
    let mut collector = start(&options(folder.path()));
    assert_eq!((collector.notices(), collector.take_notice()), (&[] as &[String], None));
    sender.send_to(&exporter.templates(), collector.sockets()[0].local).expect("send");
    let unwritten = |collector: &Collector| {
        let decoders = collector.statistics();
        let problems = decoders.iter().flat_map(|decoder| decoder.problems.clone());
        problems.filter(|(label, _)| *label == "state_unwritten").map(|(_, count)| count).sum::<u64>()
    };
    wait_until(&mut collector, &mut Taken::default(), |collector, _| unwritten(collector) > 0);
    let notice = collector.take_notice().expect("a notice");
    assert!(notice.contains("exporters.state") && notice.contains("hint: free space"), "{notice}");
    assert_eq!(collector.take_notice(), None, "told once");
    assert_eq!(drain(&mut collector).len(), 0, "and the collector goes on");
}
