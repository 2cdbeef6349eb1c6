use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::elements_of_row;
use weir_flow::{FlowBatch, Table};
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

use super::*;
use crate::{Decoder, Limits};

const AGENT: u32 = 0xc000_0201;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex");
    digits.chunks(2).map(pair).collect()
}

fn tagged(format: u32, body: &[u8]) -> Vec<u8> {
    [words(&[format, body.len() as u32]), body.to_vec()].concat()
}

fn datagram(sequence: u32, samples: &[Vec<u8>]) -> Vec<u8> {
    [words(&[5, 1, AGENT, 3, sequence, 2000, samples.len() as u32]), samples.concat()].concat()
}

/// A sample taken on the way in at interface 17.
fn flow_sample(sequence: u32, drops: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let head = words(&[sequence, 17, 512, 5_000, drops, 17, 18, records.len() as u32]);
    tagged(1, &[head, records.concat()].concat())
}

fn raw_header(frame_length: u32, header: &[u8]) -> Vec<u8> {
    tagged(1, &[words(&[1, frame_length, 4, header.len() as u32]), header.to_vec()].concat())
}

fn decode(datagrams: &[Vec<u8>]) -> (FlowBatch, Vec<RecordBatch>, Decoder) {
    let mut decoder = Decoder::new(Limits::default());
    for payload in datagrams {
        decoder.datagram(SocketAddr::from(([198, 51, 100, 9], 40_000)), 1_000, payload);
    }
    let delivery = decoder.take_delivery();
    let others = delivery.side_tables.others.iter().map(|other| other.record_batch().clone()).collect();
    let none = || FlowBatch::from_columns(0, Vec::new()).expect("no rows");
    (delivery.flows.unwrap_or_else(none), others, decoder)
}

fn number(flows: &FlowBatch, column: Column) -> Option<u64> {
    let values = flows.column(column)?;
    if values.is_null(0) {
        return None;
    }
    Some(match column.column_type() {
        weir_flow::ColumnType::U8 => values.as_primitive::<UInt8Type>().value(0).into(),
        weir_flow::ColumnType::U16 => values.as_primitive::<UInt16Type>().value(0).into(),
        weir_flow::ColumnType::U32 => values.as_primitive::<UInt32Type>().value(0).into(),
        _ => values.as_primitive::<UInt64Type>().value(0),
    })
}

fn octets(flows: &FlowBatch, column: Column) -> Vec<u8> {
    flows.binary(column).map(|values| values.value(0).to_vec()).unwrap_or_default()
}

fn elements(flows: &FlowBatch) -> Vec<(u32, u16, Vec<u8>)> {
    let column = flows.column(Column::Elements).expect("elements");
    elements_of_row(column, 0).iter().map(|value| (value.enterprise, value.id, value.octets.to_vec())).collect()
}

/// TCP from 10.0.0.1:80 to 10.0.0.2:1025 in VLAN 7, in VXLAN 123 from 192.0.2.10 to 192.0.2.11, in VLAN 100.
const VXLAN: &str = "020000000002 020000000001 8100 0064 0800
    4500005e 00010000 40110000 c000020a c000020b 0400 12b5 004a 0000 08000000 00007b00
    020000000004 020000000003 8100 0007 0800
    45100028 00020000 3f060000 0a000001 0a000002 0050 0401 00000001 00000002 50120000 00000000";

/// A frame of 1,522 octets with its checksum and a tag has 1,500 octets of IP, however few of them are sampled.
#[test]
fn octets_of_a_packet_whose_ip_header_is_cut() {
    for sampled in [20, 28, 36] {
        let sample = flow_sample(1, 0, &[raw_header(1522, &hex(VXLAN)[..sampled])]);
        let (flows, _, _) = decode(&[datagram(1, &[sample])]);
        let found = (number(&flows, Column::Bytes), number(&flows, Column::Ethertype));
        assert_eq!(found, (Some(1500), Some(0x800)), "{sampled} octets");
    }
}

#[test]
fn a_sampled_packet_is_a_flow_of_one_packet() {
    let sample = flow_sample(1, 0, &[raw_header(116, &hex(VXLAN)), tagged(1001, &words(&[100, 3, 200, 0]))]);
    let (flows, _, _) = decode(&[datagram(1, &[sample])]);
    assert_eq!(flows.rows(), 1);
    assert_eq!(octets(&flows, Column::Exporter), [192, 0, 2, 1], "the agent's address and not the sender's");
    for (column, value) in [
        (Column::ExportVersion, 105),
        (Column::ObservationDomain, 3),
        (Column::Packets, 1),
        (Column::Bytes, 94),
        (Column::SamplingInterval, 512),
        (Column::InIf, 17),
        (Column::OutIf, 18),
        (Column::ObservationPoint, 17),
        (Column::Direction, 0),
        (Column::Protocol, 6),
        (Column::SrcPort, 80),
        (Column::DstPort, 1025),
        (Column::TcpFlags, 0x12),
        (Column::Tos, 0x10),
        (Column::MinTtl, 63),
        (Column::SrcVlan, 100),
        (Column::DstVlan, 200),
        (Column::Ethertype, 0x800),
    ] {
        assert_eq!(number(&flows, column), Some(value), "{column}");
    }
    assert_eq!(octets(&flows, Column::SrcAddr), [10, 0, 0, 1]);
    assert_eq!(octets(&flows, Column::SrcMac), [2, 0, 0, 0, 0, 1]);
    let expected = [
        (0, 352, words(&[116])),
        (0, 351, hex("01000000 0000007b")),
        (0, 8, hex("c000020a")),
        (0, 12, hex("c000020b")),
        (0, 4, vec![17]),
        (0, 5, vec![0]),
        (0, 7, hex("0400")),
        (0, 11, hex("12b5")),
        (0, 56, hex("020000000003")),
        (0, 80, hex("020000000004")),
        (0, 245, hex("0007")),
        // the datagram did not come from the agent's own address
        (0, 130, vec![198, 51, 100, 9]),
        (0, 244, vec![3]),
    ];
    assert_eq!(elements(&flows), expected);
}

#[test]
fn what_routers_know_has_columns_and_nothing_is_lost() {
    let path = words(&[1, 0xc000_0209, 64500, 64501, 64502, 1, 2, 2, 64503, 64504, 1, 0xfbf4_0001, 100]);
    let unknown = tagged(4300 << 12 | 9, &[1, 2, 3, 4]);
    let ip = tagged(3, &words(&[1400, 17, 0x0a00_0001, 0x0a00_0002, 53, 1025, 0, 8]));
    let records = [
        ip,
        tagged(1002, &words(&[1, 0xc000_0207, 24, 16])),
        tagged(1003, &path),
        tagged(1007, &words(&[1, 0xc633_6401, 1, 0xc633_6402])),
        tagged(1020, &words(&[4000, 4001])),
        unknown,
    ];
    let (flows, _, decoder) = decode(&[datagram(1, &[flow_sample(1, 0, &records)])]);
    for (column, value) in [
        (Column::Bytes, 1400),
        (Column::Protocol, 17),
        (Column::SrcPort, 53),
        (Column::SrcMask, 24),
        (Column::DstMask, 16),
        (Column::SrcAs, 64501),
        (Column::DstAs, 64504),
        (Column::PrevAs, 64502),
        (Column::NextAs, 64503),
        (Column::NatSrcPort, 4000),
        (Column::NatDstPort, 4001),
    ] {
        assert_eq!(number(&flows, column), Some(value), "{column}");
    }
    assert_eq!(number(&flows, Column::MinTtl), None);
    assert_eq!(number(&flows, Column::TcpFlags), None);
    assert_eq!(octets(&flows, Column::NextHop), [192, 0, 2, 7]);
    assert_eq!(octets(&flows, Column::BgpNextHop), [192, 0, 2, 9]);
    assert_eq!(octets(&flows, Column::NatSrcAddr), [198, 51, 100, 1]);
    let communities = [hex("03 01e3 0004"), words(&[0xfbf4_0001])].concat();
    let sender = (0, 130, vec![198, 51, 100, 9]);
    let expected = [sender, (0, 485, communities), (STRUCTURES, 1003, path), (STRUCTURES + 4300, 9, vec![1, 2, 3, 4])];
    assert_eq!(elements(&flows), expected);
    assert_eq!(decoder.statistics().total(Counter::StructuresSkipped), 1);
}

#[test]
fn discarded_packets_say_why() {
    let body = [words(&[9, 0, 17, 3, 18, 0, 257, 1]), raw_header(116, &hex(VXLAN))].concat();
    let (flows, _, _) = decode(&[datagram(1, &[tagged(5, &body)])]);
    assert_eq!(number(&flows, Column::ForwardingStatus), Some(137), "RFC 7270: dropped, bad TTL");
    assert_eq!((number(&flows, Column::SamplingInterval), number(&flows, Column::OutIf)), (None, None));
    assert_eq!(number(&flows, Column::SrcPort), Some(80));
}

#[test]
fn losses_are_counted_by_datagram_by_sample_and_by_the_agents_own_count() {
    let datagrams = [
        datagram(10, &[flow_sample(100, 5, &[])]),
        datagram(11, &[flow_sample(101, 5, &[]), flow_sample(102, 7, &[])]),
        datagram(14, &[flow_sample(110, 8, &[])]),
        datagram(13, &[flow_sample(109, 8, &[])]),
        datagram(15, &[]),
    ];
    let (flows, _, decoder) = decode(&datagrams);
    let statistics = decoder.statistics();
    let total = |counter| statistics.total(counter);
    assert_eq!((flows.rows(), total(Counter::RecordsStored)), (5, 5));
    assert_eq!((total(Counter::DatagramsLost), total(Counter::DatagramsLate)), (2, 1));
    assert_eq!((total(Counter::SamplesLost), total(Counter::SamplesLate)), (7, 1));
    assert_eq!((total(Counter::SamplesDropped), total(Counter::SequenceResets)), (3, 0));
}

/// sFlow Version 5: an interface of 0 is not known, 0x3fffffff is the device itself, and the two highest bits of 2 are several.
#[test]
fn a_sample_was_taken_on_the_way_in_or_on_the_way_out() {
    let direction = |input: u32, output: u32| {
        let sample = tagged(1, &words(&[1, 17, 512, 5_000, 0, input, output, 0]));
        number(&decode(&[datagram(1, &[sample])]).0, Column::Direction)
    };
    let (unknown, device, several) = (0, 0x3fff_ffff, 2 << 30 | 2);
    for (input, output, expected) in [
        (17, 18, Some(0)),
        (18, 17, Some(1)),
        (17, unknown, Some(0)),
        (unknown, 17, Some(1)),
        (device, 17, Some(1)),
        (17, device, Some(0)),
        (17, several, Some(0)),
        (18, several, Some(1)),
        (device, several, Some(1)),
        (unknown, several, None),
        (unknown, 18, None),
        (17, 17, None),
        (18, 19, None),
    ] {
        assert_eq!(direction(input, output), expected, "{input:#x} {output:#x}");
    }
}

/// A packet that was discarded at interface 17: the interface is the source of flow samples, too.
fn discard(sequence: u32, drops: u32) -> Vec<u8> {
    tagged(5, &words(&[sequence, 0, 17, drops, 17, 0, 262, 0]))
}

/// "sFlow Dropped Packet Notification Structures": numbers and drops are those of the discarded packets of the source.
#[test]
fn discarded_packets_have_numbers_and_drops_of_their_own() {
    let follow = |discards: [(u32, u32); 3]| {
        let datagrams: Vec<Vec<u8>> = (0..)
            .zip(discards)
            .map(|(at, (number, drops))| {
                let samples = [flow_sample(12_000 + 2 * at, 5, &[]), discard(number, drops)];
                datagram(1 + at, &[&samples[..], &[flow_sample(12_001 + 2 * at, 5, &[])]].concat())
            })
            .collect();
        let (flows, _, decoder) = decode(&datagrams);
        let statistics = decoder.statistics();
        let counters = [Counter::SamplesLost, Counter::SamplesLate, Counter::SamplesDropped];
        assert_eq!(flows.rows(), 9);
        counters.map(|counter| statistics.total(counter))
    };
    assert_eq!(follow([(13_000, 40), (13_001, 40), (13_002, 40)]), [0, 0, 0]);
    assert_eq!(follow([(1, 0), (2, 0), (3, 0)]), [0, 0, 0]);
    // two of them did not come, and the agent could not report seven more
    assert_eq!(follow([(13_000, 40), (13_003, 44), (13_004, 47)]), [2, 0, 7]);
}

#[test]
fn a_source_that_reports_discarded_packets_counts_twice() {
    let mut decoder = Decoder::new(Limits { sources_max: 1, ..Limits::default() });
    let samples = [flow_sample(1, 0, &[]), discard(1, 0), flow_sample(2, 0, &[])];
    decoder.datagram(SocketAddr::from(([198, 51, 100, 9], 1)), 1_000, &datagram(1, &samples));
    assert_eq!((decoder.rows(), decoder.statistics().total(Counter::SourcesRefused)), (3, 1));
}

/// Counters samples 103 to 108 are missing, and 109 comes late; all flow samples are there.
#[test]
fn lost_counters_samples_leave_the_flows_complete() {
    let numbers = [100, 101, 102, 110, 109];
    let datagrams: Vec<Vec<u8>> = (1..)
        .zip(numbers)
        .map(|(own, number)| datagram(own, &[flow_sample(own, 0, &[]), tagged(2, &words(&[number, 7, 0]))]))
        .collect();
    let (flows, _, decoder) = decode(&datagrams);
    let statistics = decoder.statistics();
    let total = |counter| statistics.total(counter);
    assert_eq!((flows.rows(), total(Counter::RecordsStored)), (5, 5));
    assert_eq!((total(Counter::CounterSamplesLost), total(Counter::CounterSamplesLate)), (7, 1));
    assert_eq!((total(Counter::SamplesLost), total(Counter::SamplesLate)), (0, 0));
    let mut sums = weir_flow::BooksSums::default();
    sums.add_counts((None, None, None), &statistics.totals);
    assert_eq!(sums.completeness().to_string(), "complete");
}

#[test]
fn relays_do_not_make_two_agents_of_one() {
    let mut decoder = Decoder::new(Limits::default());
    for (sequence, relay) in [(1, 1), (2, 2), (3, 1)] {
        let source = SocketAddr::from(([198, 51, 100, relay], 40_000));
        decoder.datagram(source, 1_000, &datagram(sequence, &[flow_sample(sequence, 0, &[])]));
    }
    let statistics = decoder.statistics();
    assert_eq!((statistics.domains, statistics.total(Counter::DatagramsLost)), (1, 0));
}

#[test]
fn sources_are_bounded() {
    let mut decoder = Decoder::new(Limits { sources_max: 2, ..Limits::default() });
    let sample = |source: u32| tagged(1, &words(&[1, source, 1, 0, 0, 0, 0, 0]));
    let samples: Vec<_> = (1..=4).map(sample).collect();
    decoder.datagram(SocketAddr::from(([198, 51, 100, 9], 1)), 1_000, &datagram(1, &samples));
    assert_eq!(decoder.rows(), 4);
    assert_eq!(decoder.statistics().total(Counter::SourcesRefused), 2);
}

#[test]
fn a_sender_has_one_share_of_the_sources_whatever_agents_it_names() {
    let mut decoder = Decoder::new(Limits { sources_max: 400, ..Limits::default() });
    let sample = |source: u32| tagged(1, &words(&[1, source, 1, 0, 0, 0, 0, 0]));
    let samples: Vec<_> = (1..=60).map(sample).collect();
    let send = |decoder: &mut Decoder, sender: u8, agent: u8| {
        let mut octets = datagram(1, &samples);
        // the address of the agent
        octets[11] = agent;
        decoder.datagram(SocketAddr::from(([198, 51, 100, sender], 1)), 1_000, &octets);
        decoder.statistics().total(Counter::SourcesRefused)
    };
    let refused = [1, 2, 3, 4].map(|agent| send(&mut decoder, 1, agent));
    assert_eq!(refused, [0, 0, 0, 40], "half of all, for nobody else has any");
    assert_eq!(send(&mut decoder, 2, 5), 40, "another sender has its own");
}

#[test]
fn counters_have_tables_of_their_own() {
    let generic = words(&[7, 6, 0, 1_000_000_000, 1, 3, 1, 2, 10, u32::MAX, 12, 0, 0, 0, 0, 4096, 20, 21, 22, 0, 0, 2]);
    let host = [words(&[1]), b"r\0\0\0".to_vec(), vec![9; 16], words(&[3, 2, 0])].concat();
    let load = [0.5_f32.to_bits(), 1.5_f32.to_bits(), (-1.0_f32).to_bits()];
    let cpu = [words(&load), words(&[0; 14])].concat();
    let interface = tagged(2, &[words(&[1, 7, 1]), tagged(1, &generic)].concat());
    let machine = tagged(
        4,
        &[words(&[1, 2, 1, 3]), tagged(2000, &host), tagged(2003, &cpu), tagged(4300 << 12 | 1, &[])].concat(),
    );
    let (flows, tables, decoder) = decode(&[datagram(1, &[interface, machine])]);
    assert_eq!(flows.rows(), 0);
    let [interfaces, hosts] = &tables[..] else { panic!("{} tables", tables.len()) };
    assert_eq!(interfaces.schema(), Table::InterfaceCounters.schema());
    let u64s = |name: &str| interfaces.column_by_name(name).expect(name).as_primitive::<UInt64Type>().clone();
    let u32s = |name: &str| interfaces.column_by_name(name).expect(name).as_primitive::<UInt32Type>().clone();
    assert_eq!((u64s("if_speed").value(0), u64s("in_octets").value(0)), (1_000_000_000, 1 << 32 | 2));
    assert_eq!((u32s("if_index").value(0), u32s("in_unicast").value(0)), (7, 10));
    assert!(u32s("in_multicast").is_null(0), "all ones are unknown");
    assert_eq!((u64s("out_octets").value(0), u32s("promiscuous").value(0)), (4096, 2));
    assert!(u32s("ethernet_fcs_errors").is_null(0));
    let loads = |name: &str| hosts.column_by_name(name).expect(name).as_primitive::<arrow::datatypes::Float32Type>();
    assert_eq!((loads("load_1m").value(0), loads("load_5m").value(0)), (0.5, 1.5));
    assert!(loads("load_15m").is_null(0));
    assert_eq!(hosts.column_by_name("host_name").expect("names").as_string::<i32>().value(0), "r");
    let statistics = decoder.statistics();
    assert_eq!(statistics.total(Counter::CountersStored), 2);
    assert_eq!(statistics.total(Counter::StructuresSkipped), 1);
}

/// A sample of a structure that has no table, one without any, and one that has a row.
#[test]
fn counters_without_a_row_are_not_stored() {
    let host = [words(&[1]), b"r\0\0\0".to_vec(), vec![9; 16], words(&[3, 2, 0])].concat();
    let unknown = tagged(2, &[words(&[1, 7, 1]), tagged(4300 << 12 | 1, &[])].concat());
    let none = tagged(2, &words(&[2, 7, 0]));
    let known = tagged(2, &[words(&[3, 7, 1]), tagged(2000, &host)].concat());
    let (_, tables, decoder) = decode(&[datagram(1, &[unknown, none, known])]);
    assert_eq!(tables.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let statistics = decoder.statistics();
    let counts = [Counter::CountersStored, Counter::StructuresSkipped].map(|counter| statistics.total(counter));
    assert_eq!(counts, [1, 1]);
}

/// As flows do, counters have the sender of a datagram that names another agent.
#[test]
fn counters_have_their_sender() {
    let speed = words(&[7, 6, 0, 1_000_000_000, 1, 3, 1, 2, 10, 11, 12, 0, 0, 0, 0, 4096, 20, 21, 22, 0, 0, 2]);
    let host = [words(&[1]), b"r\0\0\0".to_vec(), vec![9; 16], words(&[3, 2, 0])].concat();
    let sample = tagged(2, &[words(&[1, 7, 2]), tagged(1, &speed), tagged(2000, &host)].concat());
    for (source, expected) in [([198, 51, 100, 9], Some(&[198, 51, 100, 9][..])), ([192, 0, 2, 1], None)] {
        let mut decoder = Decoder::new(Limits::default());
        decoder.datagram(SocketAddr::from((source, 40_000)), 1_000, &datagram(1, std::slice::from_ref(&sample)));
        let others = decoder.take_delivery().side_tables.others;
        assert_eq!(others.len(), 2);
        for rows in &others {
            let senders = rows.record_batch().column_by_name("sender").expect("a column").as_binary::<i32>();
            assert_eq!(senders.iter().collect::<Vec<_>>(), [expected], "{}", rows.table().name());
            let exporters = rows.record_batch().column_by_name("exporter").expect("a column").as_binary::<i32>();
            assert_eq!(exporters.value(0), [192, 0, 2, 1]);
        }
    }
}

/// The flow of an IPFIX record of these fields.
fn ipfix_flow(fields: &[(u16, u16)], record: &[u8]) -> FlowBatch {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    let template = Template::new(TemplateId::new(300).expect("id"), fields, 0).expect("template");
    let mut message = Vec::new();
    let header = ipfix::Header { length: 0, export_time_secs: 1, sequence: 0, domain: ObservationDomainId(1) };
    let mut builder = ipfix::MessageBuilder::new(&mut message, &header);
    builder.template(&template).expect("fits");
    builder.record(&template, |out| out.extend(record)).expect("fits");
    builder.finish();
    decode(&[message]).0
}

#[test]
fn sections_of_frames_in_ipfix_fill_the_columns() {
    let frame = hex(VXLAN);
    let record = [words(&[5]), vec![0, 1, 0, 112, frame.len() as u8], frame.clone()].concat();
    let flows = ipfix_flow(&[(10, 4), (408, 2), (312, 2), (315, 65535)], &record);
    assert_eq!((number(&flows, Column::InIf), number(&flows, Column::ExportVersion)), (Some(5), Some(10)));
    assert_eq!((number(&flows, Column::SrcPort), number(&flows, Column::Bytes)), (Some(80), Some(94)));
    assert_eq!((number(&flows, Column::Packets), octets(&flows, Column::DstAddr)), (Some(1), vec![10, 0, 0, 2]));
    let kept = elements(&flows);
    assert!(kept.contains(&(0, 315, frame)) && kept.contains(&(0, 312, vec![0, 112])), "{kept:?}");
    assert!(kept.contains(&(0, 8, hex("c000020a"))), "the tunnel's address");
}

#[test]
fn a_section_is_read_as_far_as_it_was_exported() {
    // link header, tag and IP header of a packet in a field that is longer
    let record = [vec![0, 38], hex(VXLAN)].concat();
    let length = record.len() as u16 - 2;
    let flows = ipfix_flow(&[(410, 2), (315, length)], &record);
    assert_eq!(octets(&flows, Column::SrcAddr), [192, 0, 2, 10]);
    assert_eq!((number(&flows, Column::Protocol), number(&flows, Column::SrcPort)), (Some(17), None));
    // a record that has addresses of its own is taken at its word
    let flows = ipfix_flow(&[(8, 4), (315, length)], &[vec![203, 0, 113, 1], hex(VXLAN)].concat());
    assert_eq!(octets(&flows, Column::SrcAddr), [203, 0, 113, 1]);
    assert_eq!(number(&flows, Column::Protocol), None);
}

/// RFC 5477: mplsLabelStackSection has octets of what the labels carry, too. The frame has a link header before them.
#[test]
fn a_section_of_labels_is_read_through_them() {
    let ip = hex(VXLAN).split_off(72);
    // labels 100 and 200, the second at the bottom of the stack
    let labels = hex("00064040 000c8140");
    let record = [words(&[5]), vec![0, 66, (labels.len() + ip.len()) as u8], labels.clone(), ip].concat();
    let flows = ipfix_flow(&[(10, 4), (312, 2), (316, 65535)], &record);
    assert_eq!(octets(&flows, Column::SrcAddr), [10, 0, 0, 1]);
    assert_eq!(octets(&flows, Column::DstAddr), [10, 0, 0, 2]);
    let numbers = [Column::Protocol, Column::SrcPort, Column::DstPort, Column::Bytes, Column::Packets, Column::InIf];
    assert_eq!(numbers.map(|column| number(&flows, column)), [6, 80, 1025, 40, 1, 5].map(Some));
    let kept = elements(&flows);
    // label, class and bottom of the stack are three octets of each entry
    assert!(kept.contains(&(0, 70, hex("000640"))) && kept.contains(&(0, 71, hex("000c81"))), "{kept:?}");
    // labels without anything behind them say nothing of the packet, and nothing of its length
    let flows = ipfix_flow(&[(10, 4), (312, 2), (316, 8)], &[words(&[5]), vec![0, 66], labels].concat());
    assert_eq!((octets(&flows, Column::SrcAddr), number(&flows, Column::Bytes)), (Vec::new(), None));
    assert_eq!(number(&flows, Column::Packets), Some(1));
}

/// Anybody can name any agent in a datagram.
#[test]
fn who_may_speak_for_an_agent_can_be_bound() {
    let payload = datagram(1, &[flow_sample(1, 0, &[raw_header(64, &[0; 64])])]);
    let agent = SocketAddr::from(([192, 0, 2, 1], 6343));
    let [relay, stranger] = [9, 10].map(|last| SocketAddr::from(([198, 51, 100, last], 6343)));
    let rule = || "192.0.2.0/24=198.51.100.9".parse().expect("a rule");
    for (rules, allowed) in [(None, 3), (Some(vec![rule()]), 2), (Some(Vec::new()), 1)] {
        let mut decoder = Decoder::new(Limits::default());
        if let Some(rules) = rules {
            decoder = decoder.with_agent_rules(rules);
        }
        for (sequence, source) in (1_u32..).zip([agent, relay, stranger]) {
            let mut payload = payload.clone();
            payload[16..20].copy_from_slice(&sequence.to_be_bytes());
            decoder.datagram(source, 1_000, &payload);
        }
        let statistics = decoder.statistics();
        let found = [Counter::DatagramsDecoded, Counter::DatagramsNotAllowed].map(|counter| statistics.total(counter));
        assert_eq!(found, [allowed, 3 - allowed]);
        let refused = decoder.take_agents_not_allowed();
        let last = (allowed < 3).then(|| stranger.ip());
        assert_eq!((refused.datagrams, refused.last), (3 - allowed, last), "who is named in the log");
        assert_eq!(decoder.take_agents_not_allowed().datagrams, 0);
    }
    for wrong in ["192.0.2.0/24", "192.0.2.0/24=", "a=b"] {
        assert!(wrong.parse::<crate::AgentRule>().is_err(), "{wrong}");
    }
}

/// Some agents append octets to the last sample: nothing is missing, and only the kind of error is counted.
#[test]
fn octets_behind_the_last_sample_are_noted_and_no_loss() {
    let mut longer = datagram(1, &[flow_sample(1, 0, &[raw_header(64, &[0; 64])])]);
    longer.extend([0x5a; 9]);
    let (flows, _, decoder) = decode(&[longer]);
    let statistics = decoder.statistics();
    assert_eq!(flows.rows(), 1);
    let counted = [Counter::SetsUndecodable, Counter::ErrorsLength, Counter::DatagramsUndecodable];
    assert_eq!(counted.map(|counter| statistics.total(counter)), [0; 3]);
    assert_eq!(statistics.problems, [("trailing_octets", 1)]);
}
