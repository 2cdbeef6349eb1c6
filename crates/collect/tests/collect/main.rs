//! The Collecting Process from datagrams to deliveries: templates that come late, sequence numbers, books that
//! balance, and the live collector over loopback.

mod associations;
mod budget;
mod captured;
mod counting;
mod exporter;
mod hold;
mod hostile;
mod lifetime;
mod restart;
mod resumed;
mod transports;
mod truth;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use arrow::array::AsArray;
use arrow::datatypes::{TimestampMillisecondType, UInt16Type, UInt32Type, UInt64Type};
// that of the binary, so that times are as they are there
use mimalloc::MiMalloc as Allocator;
use weir_collect::{Collector, CollectorOptions, Decoder, Limits, Listener, Next, Senders, Session, Transport};
use weir_flow::elements::elements_of_row;
use weir_flow::{BooksBatch, Column, Counter, Delivery, FlowBatch};
use weir_wire::netflow5::field;
use weir_wire::{
    ElementId, FieldSpecifier, ObservationDomainId, Template, TemplateId, fixed, ipfix, netflow5, netflow9,
};

const RECEIVED_MS: i64 = 1_700_000_010_000;
const EXPORT_SECS: u32 = 1_700_000_000;

fn source(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn template(id: u16, fields: &[(u16, u16)], scope_count: u16) -> Template {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    Template::new(TemplateId::new(id).expect("id"), fields, scope_count).expect("template")
}

/// A template of source address, octets and start in milliseconds.
fn simple_template() -> Template {
    template(256, &[(8, 4), (1, 4), (152, 8)], 0)
}

fn simple_record(out: &mut Vec<u8>, host: u8, octets: u32) {
    out.extend([10, 0, 0, host]);
    out.extend(octets.to_be_bytes());
    out.extend((RECEIVED_MS as u64 - 500).to_be_bytes());
}

fn ipfix_message(sequence: u32, write: impl FnOnce(&mut ipfix::MessageBuilder<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    let header = ipfix::Header { length: 0, export_time_secs: EXPORT_SECS, sequence, domain: ObservationDomainId(7) };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header);
    write(&mut message);
    message.finish();
    out
}

fn templates_only(sequence: u32) -> Vec<u8> {
    ipfix_message(sequence, |message| message.template(&simple_template()).expect("fits"))
}

fn data(sequence: u32, hosts: &[u8]) -> Vec<u8> {
    ipfix_message(sequence, |message| {
        for &host in hosts {
            message.record(&simple_template(), |out| simple_record(out, host, 100)).expect("fits");
        }
    })
}

fn netflow5_packet(sequence: u32, records: u16, sampling: u16) -> Vec<u8> {
    let mut out = Vec::new();
    let header = fixed::Header {
        count: 0,
        sys_uptime_ms: 100_000,
        unix_secs: EXPORT_SECS,
        unix_nsecs: 250_000_000,
        flow_sequence: sequence,
        engine_type: 1,
        engine_id: 2,
        sampling,
    };
    let mut packet = fixed::PacketBuilder::new(&netflow5::FORMAT, &mut out, &header);
    for number in 0..records {
        let record = netflow5::FORMAT.record(&[
            (field::SRC_ADDR, 0x0a00_0001),
            (field::DST_ADDR, 0x0a00_0002),
            (field::NEXT_HOP, 0x0a00_0003),
            (field::INPUT, 4),
            (field::OUTPUT, 5),
            (field::PACKETS, 6),
            (field::OCTETS, 700),
            (field::FIRST, 90_000),
            (field::LAST, 95_000),
            (field::SRC_PORT, 1000 + u64::from(number)),
            (field::DST_PORT, 22),
            (field::TCP_FLAGS, 0x1b),
            (field::PROTOCOL, 6),
            (field::TOS, 8),
            (field::SRC_AS, 65_001),
            (field::DST_AS, 65_002),
            (field::SRC_MASK, 24),
            (field::DST_MASK, 16),
        ]);
        packet.record(&record).expect("fits");
    }
    packet.finish();
    out
}

/// Adds the counters of all lines up.
fn counts(books: Option<&BooksBatch>) -> [u64; Counter::COUNT] {
    let mut counts = [0; Counter::COUNT];
    let Some(batch) = books.map(BooksBatch::record_batch) else { return counts };
    for &counter in Counter::ALL {
        let column = batch.column_by_name(counter.name()).expect("a column").as_primitive::<UInt64Type>();
        counts[counter as usize] = column.values().iter().sum();
    }
    counts
}

fn check_counts(delivery: &Delivery, expected: &[(Counter, u64)]) {
    let found = counts(delivery.books());
    assert_eq!(weir_flow::books::balance(&found), Ok(()));
    for &counter in Counter::ALL {
        let wanted = expected.iter().find(|(known, _)| *known == counter).map_or(0, |(_, count)| *count);
        // these follow from the others, or from the clock
        let derived = [Counter::Octets, Counter::DatagramsDecoded, Counter::ClockAheadMs, Counter::ClockBehindMs];
        if !derived.contains(&counter) && !Counter::REASONS.contains(&counter) {
            assert_eq!(found[counter as usize], wanted, "{}", counter.name());
        }
    }
}

#[test]
fn a_netflow5_packet_fills_its_columns() {
    let mut decoder = Decoder::new(Limits::default());
    decoder.datagram(source(1), RECEIVED_MS, &netflow5_packet(0, 2, 0x4064));
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    assert_eq!(flows.rows(), 2);
    assert_eq!(flows.binary(Column::SrcAddr).expect("column").value(1), [10, 0, 0, 1]);
    assert_eq!(flows.binary(Column::Exporter).expect("column").value(0), [192, 0, 2, 1]);
    let ports = flows.primitive::<UInt16Type>(Column::SrcPort).expect("column");
    assert_eq!(ports.values(), &[1000, 1001]);
    let time = |column| flows.primitive::<TimestampMillisecondType>(column).expect("column").value(0);
    // RFC-style: the exporter booted at 1700000000.250 - 100 s; the flow began 90 s later
    assert_eq!((time(Column::Start), time(Column::End)), (1_699_999_990_250, 1_699_999_995_250));
    let number = |column| flows.primitive::<UInt32Type>(column).expect("column").value(1);
    assert_eq!((number(Column::SrcAs), number(Column::InIf), number(Column::ObservationDomain)), (65_001, 4, 0x102));
    assert_eq!(number(Column::SamplingInterval), 100);
    check_counts(&delivery, &[(Counter::Datagrams, 1), (Counter::RecordsStored, 2)]);
}

#[test]
fn data_before_its_template_waits() {
    let mut decoder = Decoder::new(Limits::default());
    decoder.datagram(source(1), RECEIVED_MS, &data(0, &[1, 2]));
    decoder.datagram(source(1), RECEIVED_MS + 1, &data(2, &[3]));
    // the same template of another session is not theirs (RFC 7011 section 8)
    decoder.datagram(source(2), RECEIVED_MS + 2, &templates_only(0));
    assert_eq!((decoder.rows(), decoder.statistics().sets_waiting), (0, 2));
    decoder.datagram(source(1), RECEIVED_MS + 30_000, &templates_only(3));
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    let addresses: Vec<_> = flows.binary(Column::SrcAddr).expect("column").iter().flatten().collect();
    assert_eq!(addresses, [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3]]);
    let received = flows.primitive::<TimestampMillisecondType>(Column::Received).expect("column");
    assert_eq!(received.values(), &[RECEIVED_MS, RECEIVED_MS, RECEIVED_MS + 1]);
    check_counts(
        &delivery,
        &[
            (Counter::Datagrams, 4),
            (Counter::Templates, 2),
            (Counter::SetsWaitingIn, 2),
            (Counter::SetsWaitingOut, 2),
            (Counter::RecordsStored, 3),
        ],
    );
}

#[test]
fn what_waits_too_long_is_counted() {
    let limits = Limits { waiting_secs_max: 60, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    decoder.datagram(source(1), RECEIVED_MS, &data(0, &[1]));
    decoder.expire(RECEIVED_MS + 60_001);
    decoder.datagram(source(1), RECEIVED_MS + 60_002, &templates_only(1));
    let delivery = decoder.take_delivery();
    assert!(delivery.flows.is_none());
    check_counts(
        &delivery,
        &[
            (Counter::Datagrams, 2),
            (Counter::Templates, 1),
            (Counter::SetsWaitingIn, 1),
            (Counter::SetsExpired, 1),
            // how many records were in it is what the sequence numbers say
            (Counter::RecordsLost, 1),
        ],
    );
}

/// A template, a record, a withdrawal, and another template of the same ID with a record.
fn withdrawal_and_redefinition() -> [Vec<u8>; 4] {
    let withdrawal = ipfix_message(1, |message| {
        let id = TemplateId::new(256).expect("id");
        message.withdraw(weir_wire::message_builder::TemplateKind::Data, id).expect("fits");
    });
    let other = template(256, &[(12, 4)], 0);
    let redefinition = ipfix_message(1, |message| {
        message.template(&other).expect("fits");
        message.record(&other, |out| out.extend([10, 9, 9, 9])).expect("fits");
    });
    [templates_only(0), data(0, &[1]), withdrawal, redefinition]
}

#[test]
fn a_withdrawn_template_is_forgotten_and_a_new_one_takes_its_id() {
    let mut decoder = Decoder::new(Limits::default());
    let session = Session { transport: Transport::Tcp, source: source(1) };
    for message in &withdrawal_and_redefinition() {
        decoder.message(session, RECEIVED_MS, message);
    }
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    let destinations: Vec<_> = flows.binary(Column::DstAddr).expect("column").iter().collect();
    assert_eq!(destinations, [None, Some([10, 9, 9, 9].as_slice())]);
    check_counts(
        &delivery,
        &[
            (Counter::Datagrams, 4),
            (Counter::StreamMessages, 4),
            (Counter::Templates, 2),
            (Counter::TemplatesWithdrawn, 1),
            (Counter::RecordsStored, 2),
        ],
    );
}

/// RFC 7011 section 8.1: an ID that was withdrawn may be that of another template next, and data before it are not of that one.
#[test]
fn data_after_a_withdrawal_do_not_wait_for_the_next_template() {
    for session in [Session { transport: Transport::Tcp, source: source(1) }, Session::file(0)] {
        let mut decoder = Decoder::new(Limits::default());
        let [template, first, withdrawal, redefinition] = withdrawal_and_redefinition();
        let all = ipfix_message(1, |message| {
            message.withdraw_all(weir_wire::message_builder::TemplateKind::Data).expect("fits");
        });
        let messages = [&template, &first, &withdrawal, &data(1, &[2]), &template, &all, &data(2, &[3]), &redefinition];
        for message in messages {
            decoder.message(session, RECEIVED_MS, message);
        }
        let delivery = decoder.take_delivery();
        let flows = delivery.flows.as_ref().expect("flows");
        let destinations: Vec<_> = flows.binary(Column::DstAddr).expect("column").iter().collect();
        assert_eq!(destinations, [None, Some([10, 9, 9, 9].as_slice())], "{session:?}");
        let counts = counts(delivery.books());
        let count = |counter: Counter| counts[counter as usize];
        assert_eq!((count(Counter::TemplatesWithdrawn), count(Counter::RecordsStored)), (2, 2));
        let waiting = [Counter::SetsWaitingIn, Counter::SetsExpired, Counter::SetsWaitingOut];
        assert_eq!(waiting.map(count), [2, 2, 0]);
    }
}

/// RFC 7011 section 8.4: a datagram withdraws nothing. Data after it is decoded, and a new template counts as changed.
#[test]
fn a_withdrawal_in_a_datagram_is_ignored() {
    for transport in [Transport::Udp, Transport::Dtls] {
        let mut decoder = Decoder::new(Limits::default());
        let session = Session { transport, source: source(1) };
        let [template, first, withdrawal, redefinition] = withdrawal_and_redefinition();
        let all = ipfix_message(1, |message| {
            message.withdraw_all(weir_wire::message_builder::TemplateKind::Data).expect("fits");
        });
        for message in [template, first, withdrawal, all, data(1, &[2]), redefinition] {
            decoder.message(session, RECEIVED_MS, &message);
        }
        let counts = counts(decoder.take_delivery().books());
        let count = |counter: Counter| counts[counter as usize];
        assert_eq!((count(Counter::WithdrawalsIgnored), count(Counter::TemplatesWithdrawn)), (2, 0));
        assert_eq!((count(Counter::RecordsStored), count(Counter::SetsWaitingIn)), (3, 0));
        assert_eq!(count(Counter::TemplatesChanged), 1);
    }
}

/// Decodes records of one template in one IPFIX message.
fn flows_of(fields: &[(u16, u16)], record: &[u8]) -> FlowBatch {
    let template = template(256, fields, 0);
    let mut decoder = Decoder::new(Limits::default());
    let message = ipfix_message(0, |message| {
        message.template(&template).expect("fits");
        message.record(&template, |out| out.extend_from_slice(record)).expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &message);
    decoder.take_delivery().flows.expect("a flow")
}

/// The exporter has been up for 60 days, longer than an uptime of 32 bits; the flow began 5 s before the export.
#[test]
fn an_uptime_that_has_wrapped_counts_back_from_the_export() {
    let export_ms = i64::from(EXPORT_SECS) * 1000;
    let up_ms = 60 * 86_400_000_i64;
    let uptime = (up_ms - 5_000) as u32;
    // flowStartSysUpTime, systemInitTimeMilliseconds
    let record = [&uptime.to_be_bytes()[..], &((export_ms - up_ms) as u64).to_be_bytes()].concat();
    let flows = flows_of(&[(22, 4), (160, 8)], &record);
    let start = flows.primitive::<TimestampMillisecondType>(Column::Start).expect("a column").value(0);
    assert_eq!(start, export_ms - 5_000);
}

/// RFC 5477 section 8.2: samplingPacketInterval is how many packets are selected in a row.
#[test]
fn packets_selected_in_a_row_are_no_interval_beside_one() {
    let interval = |fields: &[(u16, u16)], record: &[u8]| {
        let flows = flows_of(fields, record);
        flows.primitive::<UInt32Type>(Column::SamplingInterval).and_then(|values| values.iter().next().flatten())
    };
    assert_eq!(interval(&[(34, 2), (305, 2)], &[3, 232, 0, 1]), Some(1000));
    assert_eq!(interval(&[(305, 2), (34, 2)], &[0, 1, 3, 232]), Some(1000));
    assert_eq!(interval(&[(305, 2), (306, 2)], &[0, 1, 3, 231]), Some(1000));
    assert_eq!(interval(&[(305, 2), (4, 1)], &[3, 232, 6]), Some(1000));
    assert_eq!(interval(&[(305, 2), (4, 1)], &[0, 1, 6]), None);
}

#[test]
fn gaps_are_counted_in_the_unit_of_each_protocol() {
    let mut decoder = Decoder::new(Limits::default());
    decoder.datagram(source(1), RECEIVED_MS, &netflow5_packet(0, 30, 0));
    decoder.datagram(source(1), RECEIVED_MS, &netflow5_packet(60, 30, 0));
    decoder.datagram(source(1), RECEIVED_MS, &netflow5_packet(30, 30, 0));
    let delivery = decoder.take_delivery();
    let expected = [
        (Counter::Datagrams, 3),
        (Counter::RecordsStored, 90),
        (Counter::RecordsLost, 30),
        (Counter::RecordsLate, 30),
        (Counter::DatagramsReordered, 1),
    ];
    check_counts(&delivery, &expected);
    let header = |sequence| netflow9::Header {
        count: 0,
        sys_uptime_ms: 1,
        unix_secs: EXPORT_SECS,
        sequence,
        source_id: ObservationDomainId(1),
    };
    for sequence in [10, 11, 15] {
        let mut out = Vec::new();
        let mut message = netflow9::MessageBuilder::new(&mut out, &header(sequence));
        message.template(&template(300, &[(8, 4)], 0)).expect("fits");
        message.finish();
        decoder.datagram(source(1), RECEIVED_MS, &out);
    }
    let expected = [(Counter::Datagrams, 3), (Counter::Templates, 3), (Counter::DatagramsLost, 3)];
    check_counts(&decoder.take_delivery(), &expected);
    decoder.datagram(source(3), RECEIVED_MS, &templates_only(5));
    decoder.datagram(source(3), RECEIVED_MS, &data(5, &[1, 2]));
    decoder.datagram(source(3), RECEIVED_MS, &data(10, &[1]));
    let expected =
        [(Counter::Datagrams, 3), (Counter::Templates, 1), (Counter::RecordsStored, 3), (Counter::RecordsLost, 3)];
    check_counts(&decoder.take_delivery(), &expected);
}

#[test]
fn options_report_the_sampling_interval() {
    // RFC 3954: scope 1 (system), option 34 samplingInterval
    let options = template(257, &[(1, 4), (34, 4)], 1);
    let mut decoder = Decoder::new(Limits::default());
    let message = ipfix_message(0, |message| {
        message.template(&options).expect("fits");
        message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 0, 3, 232])).expect("fits");
        message.template(&simple_template()).expect("fits");
        message.record(&simple_template(), |out| simple_record(out, 1, 1)).expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &message);
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    assert_eq!(flows.primitive::<UInt32Type>(Column::SamplingInterval).expect("column").values(), &[1000]);
    let expected =
        [(Counter::Datagrams, 1), (Counter::Templates, 2), (Counter::RecordsStored, 1), (Counter::RecordsOptions, 1)];
    check_counts(&delivery, &expected);
}

/// Anybody can send a datagram with an exporter's address.
#[test]
fn samplers_of_another_port_change_nothing_unless_told() {
    let options = template(257, &[(1, 4), (34, 4)], 1);
    let told = ipfix_message(0, |message| {
        message.template(&options).expect("fits");
        message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 15, 66, 64])).expect("fits");
    });
    for across_ports in [false, true] {
        let mut decoder = Decoder::new(Limits::default());
        if across_ports {
            decoder = decoder.with_templates_across_ports();
        }
        decoder.datagram(source(9), RECEIVED_MS, &told);
        decoder.datagram(source(1), RECEIVED_MS, &templates_only(0));
        decoder.datagram(source(1), RECEIVED_MS, &data(0, &[1]));
        let delivery = decoder.take_delivery();
        let intervals =
            delivery.flows.as_ref().and_then(|flows| flows.primitive::<UInt32Type>(Column::SamplingInterval));
        assert_eq!(intervals.map(|intervals| intervals.value(0)), across_ports.then_some(1_000_000));
    }
}

#[test]
fn elements_without_a_column_are_kept() {
    let fields = vec![
        FieldSpecifier::iana(8, 4),
        FieldSpecifier { element: ElementId { enterprise: 9, id: 12235 }, length: weir_wire::VARIABLE_LENGTH },
        FieldSpecifier::iana(243, 2),
        FieldSpecifier { element: ElementId { enterprise: 64_999, id: 7 }, length: 3 },
    ];
    let wide = Template::new(TemplateId::new(258).expect("id"), fields, 0).expect("template");
    let mut decoder = Decoder::new(Limits::default());
    let message = ipfix_message(0, |message| {
        message.template(&wide).expect("fits");
        message
            .record(&wide, |out| {
                out.extend([10, 0, 0, 1]);
                weir_wire::message_builder::push_variable(out, b"example.net").expect("short");
                out.extend([0, 42]);
                out.extend([1, 2, 3]);
            })
            .expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &message);
    let delivery = decoder.take_delivery();
    let flows = delivery.flows.as_ref().expect("flows");
    let kept: Vec<_> = elements_of_row(flows.column(Column::Elements).expect("column"), 0)
        .iter()
        .map(|element| (element.enterprise, element.id, element.octets.to_vec()))
        .collect();
    assert_eq!(kept, [(9, 12235, b"example.net".to_vec()), (64_999, 7, vec![1, 2, 3])]);
    assert_eq!(flows.primitive::<UInt16Type>(Column::SrcVlan).expect("column").values(), &[42]);
}

#[test]
fn bad_datagrams_are_counted_and_spoil_nothing_else() {
    // half of the room is for garbage, so that it cannot keep real exporters out
    let mut decoder = Decoder::new(Limits { domains_max: 4, ..Limits::default() });
    decoder.datagram(source(1), RECEIVED_MS, &[]);
    decoder.datagram(source(1), RECEIVED_MS, &[0, 99, 1, 2]);
    decoder.datagram(source(1), RECEIVED_MS, &[0, 98, 1, 2]);
    let whole = netflow5_packet(0, 3, 0);
    decoder.datagram(source(2), RECEIVED_MS, &whole[..whole.len() - 1]);
    decoder.datagram(source(3), RECEIVED_MS, &whole);
    decoder.datagram(source(4), RECEIVED_MS, &whole);
    decoder.datagram(source(2), RECEIVED_MS, &netflow5_packet(3, 1, 0));
    let delivery = decoder.take_delivery();
    assert_eq!(delivery.rows(), 2 + 3 + 3 + 1);
    check_counts(
        &delivery,
        &[
            (Counter::Datagrams, 6),
            (Counter::DatagramsUndecodable, 2),
            (Counter::DatagramsRefused, 1),
            (Counter::DomainsEvicted, 1),
            (Counter::SetsUndecodable, 1),
            (Counter::RecordsStored, 9),
        ],
    );
    let problems = decoder.statistics().problems;
    assert_eq!(problems, [("truncated_header", 1), ("wrong_version", 2), ("count_mismatch", 1)]);
}

/// Stops a collector and takes what it still hands on.
fn drain(collector: &mut Collector) -> Vec<Delivery> {
    collector.stop();
    let mut deliveries = Vec::new();
    loop {
        match collector.next(Duration::from_secs(1)).expect("no failure") {
            Next::Delivery(delivery) => deliveries.push(delivery),
            Next::Nothing => {}
            Next::Ended => return deliveries,
        }
    }
}

fn start(options: &CollectorOptions) -> Collector {
    Collector::start(options).expect("start")
}

fn any_port() -> CollectorOptions {
    CollectorOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)))
}

#[test]
fn the_collector_delivers_what_was_sent() {
    let mut collector = start(&CollectorOptions { sockets: 2, ..any_port() });
    let target = collector.sockets()[0].local;
    let senders: Vec<_> = (0..4).map(|_| UdpSocket::bind("127.0.0.1:0").expect("bind")).collect();
    for number in 0..50 {
        for sender in &senders {
            sender.send_to(&netflow5_packet(number * 30, 30, 0), target).expect("send");
        }
    }
    let deliveries = drain(&mut collector);
    let rows: usize = deliveries.iter().map(Delivery::rows).sum();
    let octets: u64 =
        deliveries.iter().filter_map(|d| d.flows.as_ref()).map(|f: &FlowBatch| f.sum(Column::Bytes)).sum();
    assert_eq!((rows, octets), (4 * 50 * 30, 4 * 50 * 30 * 700));
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    // one exporter's datagrams come by both sockets and may change places: what seemed lost came late
    assert_eq!((total(Counter::Datagrams), total(Counter::RecordsLost)), (200, total(Counter::RecordsLate)));
    assert_eq!(total(Counter::QueueDrops) + total(Counter::KernelDrops), 0);
    let again = collector.next(Duration::ZERO).expect("no failure");
    assert!(matches!(again, Next::Ended), "{again:?}");
}

#[test]
fn the_doctor_listens() {
    let mut collector = start(&any_port());
    let target = collector.sockets()[0].local;
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    for number in [0, 1, 2, 4, 5] {
        sender.send_to(&netflow5_packet(number * 30, 30, 0), target).expect("send");
    }
    sender.send_to(b"GET / HTTP/1.1", target).expect("send");
    let report = weir_collect::doctor::examine_live(&mut collector, Duration::ZERO).expect("a report");
    let exporters: Vec<_> = report.exporters.iter().map(|e| (e.version, e.records, e.missing)).collect();
    assert_eq!(exporters, [(5, 150, Some(30)), (b'E', 0, Some(0))]);
    let found: Vec<_> = report.findings.iter().map(|finding| finding.kind.name()).collect();
    assert_eq!(found, ["loss", "foreign", "clock_off"]);
}

/// However many sockets share a port, the datagrams of one exporter are decoded in the order in which they came.
#[test]
fn several_sockets_keep_the_order_of_each_exporter() {
    let mut collector = start(&CollectorOptions { sockets: 4, ..any_port() });
    let target = collector.sockets()[0].local;
    let senders: Vec<_> = (0..6).map(|_| UdpSocket::bind("127.0.0.1:0").expect("bind")).collect();
    let each = 2_000;
    for number in 0..each {
        for sender in &senders {
            sender.send_to(&netflow5_packet(number * 2, 2, 0), target).expect("send");
        }
        // no more on its way than the socket buffers hold
        if number % 16 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let stored: usize = drain(&mut collector).iter().map(Delivery::rows).sum();
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    assert_eq!(stored, 2 * each as usize * senders.len());
    let wrong = [Counter::RecordsLost, Counter::RecordsLate, Counter::DatagramsReordered, Counter::SequenceResets];
    assert_eq!(wrong.map(total), [0; 4]);
}

/// What others send is counted and not decoded.
#[test]
fn only_those_who_are_allowed_are_heard() {
    let allowed = vec!["127.0.0.2".parse().expect("a network"), "192.0.2.0/24".parse().expect("a network")];
    let senders = Senders { allowed, ..Senders::default() };
    let mut collector = start(&CollectorOptions { senders, ..any_port() });
    for (host, number) in [(1, 0), (2, 0), (3, 0), (2, 1), (1, 1)] {
        let sender = UdpSocket::bind(SocketAddr::from(([127, 0, 0, host], 0))).expect("bind");
        sender.send_to(&netflow5_packet(number, 1, 0), collector.sockets()[0].local).expect("send");
    }
    let deliveries = drain(&mut collector);
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    assert_eq!((total(Counter::Datagrams), total(Counter::DatagramsNotAllowed)), (2, 3));
    let booked: u64 = deliveries.iter().map(|d| counts(d.books())[Counter::DatagramsNotAllowed as usize]).sum();
    assert_eq!((booked, deliveries.iter().map(Delivery::rows).sum::<usize>()), (3, 2));
    let notice = collector.take_notice().expect("it is said");
    assert!(notice.starts_with("datagrams of 127.0.0.") && notice.contains("not among the senders"), "{notice}");
    assert!(collector.take_notice().is_none(), "once");
}

/// One source that sends too much has its rate and no more, counted and named, and others notice nothing of it, however
/// many decoders there are.
#[test]
fn a_source_has_no_more_than_its_rate() {
    for (any, real) in [("127.0.0.1:0", Some("127.0.0.2")), ("[::1]:0", None)] {
        let senders = Senders { rate_per_source: NonZeroU32::new(20), ..Senders::default() };
        let any: SocketAddr = any.parse().expect("an address");
        let mut collector = start(&CollectorOptions { senders, sockets: 3, ..CollectorOptions::new(any) });
        let target = collector.sockets()[0].local;
        let send = |host: IpAddr, datagrams: u32| {
            let sender = UdpSocket::bind((host, 0)).expect("bind");
            for number in 0..datagrams {
                sender.send_to(&netflow5_packet(number, 1, 0), target).expect("send");
            }
            u64::from(datagrams)
        };
        let flood = send(any.ip(), 600);
        let others = real.map_or(0, |real| send(real.parse().expect("an address"), 100));
        let deliveries = drain(&mut collector);
        let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
        let (came, over) = (total(Counter::Datagrams), total(Counter::DatagramsOverRate));
        assert_eq!(came + over, flood + others);
        // ten seconds of the rate at once, and what the time of the test brings in
        assert!((200..400).contains(&(came - others)), "{came}");
        let booked: u64 = deliveries.iter().map(|d| counts(d.books())[Counter::DatagramsOverRate as usize]).sum();
        assert_eq!(booked, over);
        let notice = collector.take_notice().expect("it is said");
        assert!(notice.starts_with(&format!("datagrams of {} dropped", any.ip())), "{notice}");
        assert!(collector.take_notice().is_none(), "once");
    }
}

/// Nobody takes deliveries for a while, at a low rate: what waits in the kernel is not given up.
#[test]
fn a_stall_loses_nothing() {
    let options = CollectorOptions { queue_bursts_max: 2, queue_deliveries_max: 1, delivery_rows_max: 1, ..any_port() };
    let mut collector = start(&options);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let sent = 600;
    for number in 0..sent {
        sender.send_to(&netflow5_packet(number, 1, 0), collector.sockets()[0].local).expect("send");
        std::thread::sleep(Duration::from_millis(2));
    }
    let stored: usize = drain(&mut collector).iter().map(Delivery::rows).sum();
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    assert_eq!((stored, total(Counter::QueueDrops), total(Counter::KernelDrops)), (sent as usize, 0, 0));
}

/// The same for a second of 50,000 records/s, which the queue has no place for: they wait in the buffer of the kernel.
#[test]
fn a_stall_at_a_high_rate_loses_nothing() {
    const RECORDS: u16 = 30;
    const DATAGRAMS: u32 = 1_667;
    /// What the kernel counts for one of them: a piece of memory of 2,048 octets, and 256 that describe it.
    const COUNTED_OCTETS: usize = 2_304;
    let options = CollectorOptions { queue_bursts_max: 2, queue_deliveries_max: 1, delivery_rows_max: 1, ..any_port() };
    let mut collector = start(&options);
    let socket = collector.sockets()[0];
    // a quarter may be taken by datagrams that were read already
    if socket.buffer_octets_granted / 4 * 3 < DATAGRAMS as usize * COUNTED_OCTETS {
        return weir_testkit::skip("receive-buffer", "net.core.rmem_max is less than 2600000");
    }
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let begun = Instant::now();
    for number in 0..DATAGRAMS {
        let datagram = netflow5_packet(number * u32::from(RECORDS), RECORDS, 0);
        sender.send_to(&datagram, socket.local).expect("send");
        let due = Duration::from_micros(u64::from(number) * 600);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let stored: usize = drain(&mut collector).iter().map(Delivery::rows).sum();
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    let lost = [Counter::RecordsLost, Counter::QueueDrops, Counter::KernelDrops].map(total);
    assert_eq!((stored, lost), (DATAGRAMS as usize * usize::from(RECORDS), [0; 3]));
}

#[test]
fn what_queues_have_no_room_for_is_stored_or_counted() {
    let options = CollectorOptions { queue_bursts_max: 1, queue_deliveries_max: 1, delivery_rows_max: 1, ..any_port() };
    // nobody takes deliveries while datagrams come
    let mut collector = start(&options);
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bind");
    let sent = 1_000;
    for number in 0..sent {
        sender.send_to(&netflow5_packet(number * 30, 30, 0), collector.sockets()[0].local).expect("send");
        // a pause now and then lets the receive thread meet full queues rather than one full socket buffer
        if number % 50 == 0 {
            std::thread::yield_now();
        }
    }
    let deliveries = drain(&mut collector);
    let total = |counter| collector.statistics().iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    let accounted = total(Counter::Datagrams) + total(Counter::QueueDrops) + total(Counter::KernelDrops);
    assert_eq!(accounted, u64::from(sent));
    let stored = deliveries.iter().map(Delivery::rows).sum::<usize>() as u64;
    assert_eq!(stored, total(Counter::RecordsStored));
    let booked: u64 = deliveries.iter().map(|d| counts(d.books())[Counter::QueueDrops as usize]).sum();
    assert_eq!(booked, total(Counter::QueueDrops), "drops are in the books");
}

#[test]
fn sets_that_waited_come_in_deliveries_of_a_bounded_size() {
    // one-octet records: the widest gap between what waits and what comes of it
    let narrow = template(256, &[(4, 1)], 0);
    let mut decoder = Decoder::new(Limits::default());
    let (mut sent, mut sequence) = (0, 0);
    for _ in 0..40 {
        let datagram = ipfix_message(sequence, |message| {
            let records = message.records(&narrow, |out| out.extend(std::iter::repeat_n(6, 60_000))).expect("fits");
            (sent, sequence) = (sent + u64::from(records), sequence + records);
        });
        decoder.datagram(source(1), RECEIVED_MS, &datagram);
    }
    decoder.datagram(source(1), RECEIVED_MS, &ipfix_message(0, |message| message.template(&narrow).expect("fits")));
    let (mut rows, mut booked) = (0, 0);
    loop {
        let delivery = decoder.take_delivery();
        if delivery.is_empty() {
            break;
        }
        assert!(delivery.rows() <= 65_536 + 60_000, "{} flows in one delivery", delivery.rows());
        rows += delivery.rows() as u64;
        booked += counts(delivery.books())[Counter::RecordsStored as usize];
    }
    assert_eq!((rows, booked), (sent, sent));
    assert_eq!(decoder.statistics().sets_waiting, 0);
}

#[test]
fn templates_are_bounded_over_all_exporters() {
    let limits = Limits { template_fields_max: 5, ..Limits::default() };
    let mut decoder = Decoder::new(limits.clone());
    decoder.datagram(source(1), RECEIVED_MS, &templates_only(0));
    decoder.datagram(source(2), RECEIVED_MS, &templates_only(0));
    let seen = decoder.statistics();
    // who has sent nothing but templates gives way
    assert_eq!((seen.total(Counter::TemplatesEvicted), seen.total(Counter::TemplatesRefused)), (1, 0));
    let mut decoder = Decoder::new(limits);
    decoder.datagram(source(1), RECEIVED_MS, &templates_only(0));
    decoder.datagram(source(1), RECEIVED_MS, &data(0, &[1]));
    decoder.datagram(source(2), RECEIVED_MS, &templates_only(0));
    let seen = decoder.statistics();
    assert_eq!((seen.total(Counter::TemplatesEvicted), seen.total(Counter::TemplatesRefused)), (0, 1));
}

#[test]
fn withdrawing_all_templates_leaves_the_other_kind() {
    let options = template(257, &[(1, 4), (34, 4)], 1);
    let mut decoder = Decoder::new(Limits::default());
    let both = ipfix_message(0, |message| {
        message.template(&options).expect("fits");
        message.template(&simple_template()).expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &both);
    let withdrawal = ipfix_message(0, |message| {
        message.withdraw_all(weir_wire::message_builder::TemplateKind::Data).expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &withdrawal);
    let told = ipfix_message(0, |message| {
        message.record(&options, |out| out.extend([0, 0, 0, 0, 0, 0, 3, 232])).expect("fits");
    });
    decoder.datagram(source(1), RECEIVED_MS, &told);
    assert_eq!(decoder.statistics().total(Counter::RecordsOptions), 1);
}

#[test]
fn a_port_is_not_shared_with_another_collector() {
    let options = CollectorOptions { sockets: 2, ..any_port() };
    let first = start(&options);
    let taken = CollectorOptions { listeners: vec![Listener::udp(first.sockets()[0].local)], ..options };
    assert!(Collector::start(&taken).is_err());
    drop(first);
    assert!(Collector::start(&taken).is_ok(), "a collector that was dropped has closed its sockets");
}
