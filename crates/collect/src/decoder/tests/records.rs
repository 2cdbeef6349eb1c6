//! What records say beyond the fields of a flow: lists, types, options, events of firewalls and translators.

use std::net::SocketAddr;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::elements::elements_of_row;
use weir_flow::options::LearnedElements;
use weir_flow::{Column, Counter, DataType, Delivery, FlowBatch, Table};
use weir_wire::{ElementId, FieldSpecifier, ObservationDomainId, Template, TemplateId, VARIABLE_LENGTH};
use weir_wire::{fixed, ipfix, netflow1, netflow7, netflow9};

use crate::{Decoder, Limits};

pub(super) const EXPORT_SECS: u32 = 1_700_000_000;
const RECEIVED_MS: i64 = 1_700_000_001_000;

/// Enterprise, element, length.
pub(super) type Field = (u32, u16, u16);

pub(super) fn template(id: u16, fields: &[Field], scopes: u16) -> Template {
    let fields = fields
        .iter()
        .map(|&(enterprise, id, length)| FieldSpecifier { element: ElementId { enterprise, id }, length })
        .collect();
    Template::new(TemplateId::new(id).expect("id"), fields, scopes).expect("template")
}

/// A decoder, and the messages of one exporter.
pub(super) struct Exporter {
    pub(super) decoder: Decoder,
    pub(super) source: SocketAddr,
    pub(super) received_ms: i64,
    sequence: u32,
}

impl Exporter {
    pub(super) fn new() -> Self {
        let source = SocketAddr::from(([192, 0, 2, 1], 2055));
        Self { decoder: Decoder::new(Limits::default()), source, received_ms: RECEIVED_MS, sequence: 0 }
    }

    fn datagram(&mut self, datagram: &[u8]) {
        self.decoder.datagram(self.source, self.received_ms, datagram);
    }

    /// A message of IPFIX: templates, then records of the last of them.
    pub(super) fn ipfix(&mut self, domain: u32, templates: &[&Template], records: &[&[u8]]) {
        let mut out = Vec::new();
        let header = ipfix::Header {
            length: 0,
            export_time_secs: EXPORT_SECS,
            sequence: self.sequence,
            domain: ObservationDomainId(domain),
        };
        let mut message = ipfix::MessageBuilder::new(&mut out, &header);
        for template in templates {
            message.template(template).expect("fits");
        }
        for record in records {
            message.record(templates[templates.len() - 1], |out| out.extend_from_slice(record)).expect("fits");
        }
        self.sequence += message.finish().data_records;
        self.datagram(&out);
    }

    pub(super) fn netflow9(&mut self, domain: u32, template: &Template, records: &[&[u8]]) {
        let mut out = Vec::new();
        let header = netflow9::Header {
            count: 0,
            sys_uptime_ms: 100_000,
            unix_secs: EXPORT_SECS,
            sequence: self.sequence,
            source_id: ObservationDomainId(domain),
        };
        let mut message = netflow9::MessageBuilder::new(&mut out, &header);
        message.template(template).expect("fits");
        for record in records {
            message.record(template, |out| out.extend_from_slice(record)).expect("fits");
        }
        message.finish();
        self.sequence += 1;
        self.datagram(&out);
    }

    pub(super) fn take(&mut self) -> Delivery {
        self.decoder.take_delivery()
    }

    pub(super) fn flows(&mut self) -> FlowBatch {
        self.take().flows.expect("flows")
    }
}

pub(super) fn u32s(flows: &FlowBatch, column: Column) -> Vec<Option<u32>> {
    match flows.primitive::<UInt32Type>(column) {
        Some(values) => values.iter().collect(),
        None => vec![None; flows.rows()],
    }
}

fn u16_of(flows: &FlowBatch, column: Column) -> Option<u16> {
    flows.primitive::<UInt16Type>(column).filter(|values| values.is_valid(0)).map(|values| values.value(0))
}

pub(super) fn options(delivery: &Delivery) -> RecordBatch {
    let others = &delivery.side_tables.others;
    let batch = others.iter().find(|batch| batch.table() == Table::ExporterOptions).expect("options");
    batch.record_batch().clone()
}

pub(super) fn texts(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    batch.column_by_name(column).expect("a column").as_string::<i32>().iter().map(|t| t.map(str::to_owned)).collect()
}

fn keys(batch: &RecordBatch) -> Vec<Option<u64>> {
    batch.column_by_name("key").expect("a column").as_primitive::<UInt64Type>().iter().collect()
}

#[test]
fn netflow1_and_7() {
    let mut exporter = Exporter::new();
    let mut out = Vec::new();
    let header = fixed::Header { sys_uptime_ms: 100_000, unix_secs: EXPORT_SECS, ..fixed::Header::default() };
    let record = netflow1::FORMAT.record(&[
        (netflow1::field::SRC_ADDR, 0x0a00_0001),
        (netflow1::field::DST_PORT, 53),
        (netflow1::field::PROTOCOL, 17),
        (netflow1::field::TOS, 8),
        (netflow1::field::TCP_FLAGS, 2),
        (netflow1::field::OCTETS, 700),
        (netflow1::field::FIRST, 90_000),
        (netflow1::field::LAST, 95_000),
    ]);
    let mut packet = fixed::PacketBuilder::new(&netflow1::FORMAT, &mut out, &header);
    packet.record(&record).expect("fits");
    packet.finish();
    exporter.datagram(&out);
    let flows = exporter.flows();
    let version = |flows: &FlowBatch| flows.primitive::<UInt8Type>(Column::ExportVersion).expect("a column").value(0);
    assert_eq!(
        (version(&flows), u16_of(&flows, Column::DstPort), u16_of(&flows, Column::TcpFlags)),
        (1, Some(53), Some(2))
    );
    assert_eq!(flows.binary(Column::SrcAddr).expect("a column").value(0), [10, 0, 0, 1]);
    let start = flows.primitive::<TimestampMillisecondType>(Column::Start).expect("a column").value(0);
    assert_eq!((start, flows.sum(Column::Bytes)), (1_699_999_990_000, 700));

    let sequences = [(0_u32, 2_u16), (2, 1), (7, 1)];
    for (flow_sequence, count) in sequences {
        let mut out = Vec::new();
        let (sys_uptime_ms, unix_secs) = (100_000, EXPORT_SECS);
        let header = fixed::Header { sys_uptime_ms, unix_secs, flow_sequence, ..fixed::Header::default() };
        let mut packet = fixed::PacketBuilder::new(&netflow7::FORMAT, &mut out, &header);
        let values = [(netflow7::field::SRC_AS, 65_001), (netflow7::field::ROUTER_SC, 0x0a09_0909)];
        for _ in 0..count {
            packet.record(&netflow7::FORMAT.record(&values)).expect("fits");
        }
        packet.finish();
        exporter.datagram(&out);
    }
    let flows = exporter.flows();
    assert_eq!((flows.rows(), version(&flows)), (4, 7));
    assert_eq!(u32s(&flows, Column::SrcAs), [Some(65_001); 4]);
    let elements = elements_of_row(flows.column(Column::Elements).expect("elements"), 0);
    assert_eq!((elements[0].id, elements[0].octets), (130, [10, 9, 9, 9].as_slice()));
    let total = |counter| exporter.decoder.statistics().total(counter);
    assert_eq!((total(Counter::RecordsLost), total(Counter::SetsUndecodable)), (4, 0));
}

/// RFC 6313 section 4.5: a list of records whose Template is known, one whose Template is not, and one of values.
#[test]
fn lists_become_elements_and_columns() {
    let mut exporter = Exporter::new();
    // as YAF has it: flags of TCP in a list of records of several Templates
    let flags = template(50_000, &[(6871, 14, 1), (6871, 15, 1), (6871, 16_398, 1)], 0);
    let flow = template(256, &[(0, 8, 4), (0, 293, VARIABLE_LENGTH), (0, 291, VARIABLE_LENGTH)], 0);
    let record = [
        10, 0, 0, 1, //
        14, 3, 0xc3, 0x50, 0, 7, 2, 16, 18, 0xc3, 0x51, 0, 6, 9, 9, //
        9, 3, 0, 14, 0, 2, 0, 4, 0, 8,
    ];
    let none = [10, 0, 0, 2, 1, 3, 0];
    exporter.ipfix(0, &[&flags, &flow], &[&record, &none]);
    let flows = exporter.flows();
    assert_eq!((u16_of(&flows, Column::TcpFlags), u16_of(&flows, Column::TcpFlagsReverse)), (Some(18), Some(18)));
    assert!(flows.column(Column::TcpFlags).expect("a column").is_null(1));
    assert_eq!(u32s(&flows, Column::OutIf), [None, None], "two interfaces leave it open which is meant");
    let elements = elements_of_row(flows.column(Column::Elements).expect("elements"), 0);
    let seen: Vec<_> = elements.iter().map(|value| (value.id, value.octets.len(), value.place)).collect();
    assert_eq!(
        seen,
        [
            (293, 14, None),
            (14, 1, Some((0, 0))),
            (15, 1, Some((0, 0))),
            (16_398, 1, Some((0, 0))),
            (291, 9, None),
            (14, 2, Some((4, 0))),
            (14, 2, Some((4, 1))),
        ]
    );
    assert_eq!(exporter.decoder.statistics().total(Counter::ListsUndecodable), 1);
}

/// The flow of a record of `fields` and a `subTemplateList` with records of `listed`, of this semantic.
fn with_a_list((fields, record): (&[Field], &[u8]), semantic: u8, listed: &[Field], records: &[&[u8]]) -> FlowBatch {
    let list = [&[semantic, 1, 44][..], &records.concat()].concat();
    let record = [record, &[list.len() as u8], &list].concat();
    let fields = [fields, &[(0, 292, VARIABLE_LENGTH)]].concat();
    let mut exporter = Exporter::new();
    exporter.ipfix(0, &[&template(300, listed, 0), &template(256, &fields, 0)], &[&record]);
    exporter.flows()
}

/// A source and a destination.
const ADDRESSES: (&[Field], &[u8]) = (&[(0, 8, 4), (0, 12, 4)], &[10, 0, 0, 1, 10, 0, 0, 2]);

#[test]
fn several_values_in_lists_fill_no_column() {
    let counters = [(0, 2, 4), (0, 1, 4)];
    let sums = |records: &[&[u8]]| {
        let flows = with_a_list(ADDRESSES, 3, &counters, records);
        [Column::Packets, Column::Bytes].map(|column| flows.sum(column))
    };
    let five = [0, 0, 0, 5, 0, 0, 1, 44];
    assert_eq!(sums(&[&five]), [5, 300]);
    assert_eq!(sums(&[&five, &five]), [0, 0], "two flows of five packets are ten packets, or each five");
    // YAF has the name in each record of a list about DNS
    let name = |records: &[&[u8]]| {
        let flows = with_a_list(ADDRESSES, 3, &[(6871, 179, VARIABLE_LENGTH)], records);
        flows.text(Column::DnsName).and_then(|names| names.iter().next().flatten().map(str::to_owned))
    };
    assert_eq!(name(&[b"\x03a.b", b"\x03a.b"]).as_deref(), Some("a.b"));
    assert_eq!(name(&[b"\x03a.b", b"\x03a.c"]), None);
    // flags of the first packet and of the others are parts where they are of one flow
    let flags =
        |fields: &[Field], records: &[&[u8]]| u16_of(&with_a_list(ADDRESSES, 3, fields, records), Column::TcpFlags);
    assert_eq!(flags(&[(6871, 14, 1), (6871, 15, 1)], &[&[2, 16]]), Some(18));
    assert_eq!(flags(&[(6871, 14, 1)], &[&[2], &[16]]), None);
}

/// RFC 6313 section 4.4: none of the values is a property of the record.
#[test]
fn lists_of_what_is_not_so_fill_no_column() {
    let port = |semantic, listed: &[Field], record: &[u8]| {
        let flows = with_a_list(ADDRESSES, semantic, listed, &[record]);
        let elements = elements_of_row(flows.column(Column::Elements).expect("elements"), 0);
        assert!(elements.iter().any(|value| value.id == 11 && value.octets == [0, 80]), "it is among the elements");
        u16_of(&flows, Column::DstPort)
    };
    let ports = [(0, 11, 2)];
    assert_eq!([1, 2, 3, 4, 255].map(|semantic| port(semantic, &ports, &[0, 80])), [Some(80); 5]);
    assert_eq!(port(0, &ports, &[0, 80]), None);
    // a list of one value in the list: of all, or of none
    let lists = [(0, 291, VARIABLE_LENGTH)];
    let inner = |semantic| [7, semantic, 0, 11, 0, 2, 0, 80];
    assert_eq!(port(3, &lists, &inner(3)), Some(80));
    assert_eq!(port(3, &lists, &inner(0)), None);
    assert_eq!(port(0, &lists, &inner(3)), None);
}

#[test]
fn addresses_and_ports_are_of_one_flow() {
    let ports = [(0, 7, 2), (0, 11, 2), (0, 4, 1), (0, 2, 4)];
    let between = [0, 53, 17, 92, 6, 0, 0, 0, 9];
    let seen = |flows: &FlowBatch| {
        let found = (u16_of(flows, Column::SrcPort), u16_of(flows, Column::DstPort));
        let source = flows.binary(Column::SrcAddr).filter(|values| values.is_valid(0));
        (source.map(|values| values.value(0).to_vec()), found, flows.sum(Column::Packets))
    };
    let [record, list] = [[10_u8, 0, 0, 1], [3, 3, 3, 3]].map(|address| Some(address.to_vec()));
    let flows = with_a_list(ADDRESSES, 3, &ports, &[&between]);
    assert_eq!(seen(&flows), (record.clone(), (Some(53), Some(4444)), 9));
    let whole = [ADDRESSES.0, &ports[..]].concat();
    let other = [&[3, 3, 3, 3, 4, 4, 4, 4][..], &between[..]].concat();
    let flows = with_a_list(ADDRESSES, 3, &whole, &[&other]);
    assert_eq!(seen(&flows), (record, (None, None), 0), "the ports are of another flow");
    let flows = with_a_list((&[(0, 10, 1)], &[1]), 3, &whole, &[&other]);
    assert_eq!(seen(&flows), (list, (Some(53), Some(4444)), 9));
    // of two flows with the same ports there are no ports either, since there are no addresses
    let third = [&[5, 5, 5, 5, 4, 4, 4, 4][..], &between[..]].concat();
    let flows = with_a_list((&[(0, 10, 1)], &[1]), 3, &whole, &[&other, &third]);
    assert_eq!(seen(&flows), (None, (None, None), 0));
}

/// Type and code in one element (32, 139) are those of the elements that have each (176 to 179).
#[test]
fn icmp_has_one_type_and_one_code() {
    let seen = |fields: &[Field], records: &[&[u8]]| -> Vec<Option<(u8, u8)>> {
        let mut exporter = Exporter::new();
        exporter.netflow9(0, &template(256, fields, 0), records);
        let flows = exporter.flows();
        let column = |column| flows.primitive::<UInt8Type>(column).into_iter().flatten().collect::<Vec<_>>();
        let both = column(Column::IcmpType).into_iter().zip(column(Column::IcmpCode));
        both.map(|(kind, code)| kind.zip(code)).collect()
    };
    let both = [(0, 8, 4), (0, 4, 1), (0, 32, 2)];
    let records: [&[u8]; 3] = [&[10, 0, 0, 1, 1, 3, 1], &[10, 0, 0, 1, 6, 0, 0], &[10, 0, 0, 1, 58, 129, 0]];
    assert_eq!(seen(&both, &records), [Some((3, 1)), None, Some((129, 0))], "0 of TCP is no type");
    assert_eq!(seen(&[(0, 10, 1), (0, 139, 2)], &[&[0, 1, 4]]), [Some((1, 4))]);
    // an element for each version of ICMP, in either order: the other one is 0
    for (first, second) in [(32, 139), (139, 32)] {
        let fields = [(0, 4, 1), (0, first, 2), (0, second, 2)];
        let record = |protocol: u8, of_ipv4: [u8; 2], of_ipv6: [u8; 2]| {
            let values = if first == 32 { [of_ipv4, of_ipv6] } else { [of_ipv6, of_ipv4] };
            [&[protocol][..], &values.concat()[..]].concat()
        };
        let records = [record(58, [0, 0], [129, 0]), record(1, [3, 1], [0, 0]), record(6, [0, 0], [0, 0])];
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        assert_eq!(seen(&fields, &records), [Some((129, 0)), Some((3, 1)), None], "{first}");
    }
    let apart = [(0, 4, 1), (0, 32, 2), (0, 176, 1), (0, 177, 1)];
    assert_eq!(seen(&apart, &[&[1, 0, 0, 3, 1]]), [Some((3, 1))]);
    // where the port alone has both, as in NetFlow v5, who looks for them reads the port
    assert!(seen(&[(0, 4, 1), (0, 11, 2)], &[&[1, 3, 1]]).is_empty());
}

/// RFC 5610 section 3: an exporter says that an element of its own is a list, and what another is called.
#[test]
fn types_reported_by_the_exporter() {
    let mut exporter = Exporter::new();
    let flow = template(256, &[(0, 8, 4), (35_566, 7, VARIABLE_LENGTH)], 0);
    let record = [10, 0, 0, 1, 7, 255, 0, 11, 0, 2, 0, 80];
    exporter.ipfix(0, &[&flow], &[&record]);
    let nested = |flows: &FlowBatch| {
        let elements = elements_of_row(flows.column(Column::Elements).expect("elements"), 0);
        elements.iter().filter(|value| value.place.is_some()).count()
    };
    assert_eq!(nested(&exporter.flows()), 0);
    let fields = [(0, 346, 4), (0, 303, 2), (0, 339, 1), (0, 344, 1), (0, 341, VARIABLE_LENGTH)];
    let types = template(257, &fields, 2);
    let reported = |id: u8, data_type: u8, name: &str| {
        let mut record = vec![0, 0, 0x8a, 0xee, 0, id, data_type, 0, name.len() as u8];
        record.extend(name.as_bytes());
        record
    };
    exporter.ipfix(0, &[&types], &[&reported(7, 20, "portsSeen"), &reported(8, 3, "initialTCPSequenceNumber")]);
    exporter.ipfix(0, &[&flow], &[&record]);
    let delivery = exporter.take();
    assert_eq!(nested(delivery.flows.as_ref().expect("flows")), 1);
    assert_eq!(u16_of(delivery.flows.as_ref().expect("flows"), Column::DstPort), Some(80));
    let rows = options(&delivery);
    assert_eq!(texts(&rows, "kind"), vec![Some("type".to_owned()); 2]);
    assert_eq!(keys(&rows), [Some(7), Some(8)]);
    let mut learned = LearnedElements::default();
    learned.learn(&rows);
    let element = learned.element(&[192, 0, 2, 1], 35_566, 8).expect("learned");
    assert_eq!((element.name.as_str(), element.data_type), ("initialTCPSequenceNumber", DataType::Unsigned(4)));
}

#[test]
fn options_are_written_when_they_are_new() {
    let mut exporter = Exporter::new();
    // Cisco: scope interface, name and description filled up with zeros
    let names = template(256, &[(0, 2, 4), (0, 82, 4), (0, 83, 8)], 1);
    let reported = |name: &str| [&[0, 0, 0, 7], name.as_bytes(), b"uplink\0\0"].concat();
    exporter.netflow9(3, &names, &[&reported("Gi0/")]);
    let rows = options(&exporter.take());
    assert_eq!(texts(&rows, "kind"), [Some("interface".to_owned())]);
    assert_eq!(texts(&rows, "scope"), [Some("interface=7".to_owned())]);
    assert_eq!((keys(&rows), texts(&rows, "name")), (vec![Some(7)], vec![Some("Gi0/".to_owned())]));
    assert_eq!(texts(&rows, "description"), [Some("uplink".to_owned())]);
    let elements = elements_of_row(rows.column_by_name("elements").expect("a column"), 0);
    assert_eq!(elements.iter().map(|value| value.id).collect::<Vec<_>>(), [82, 83], "a scope type is no element");
    // the same again says nothing, another name does, and so does the same after an hour
    for (wait_ms, name, rows) in [(60_000, "Gi0/", 0), (60_000, "Gi1/", 1), (60_000, "Gi1/", 0), (3_600_000, "Gi1/", 1)]
    {
        exporter.received_ms += wait_ms;
        exporter.netflow9(3, &names, &[&reported(name)]);
        let others = exporter.take().side_tables.others;
        assert_eq!(others.iter().map(|batch| batch.record_batch().num_rows()).sum::<usize>(), rows, "{name}");
    }
}

/// The first record says whether all of a set are samplers or interfaces.
#[test]
fn interfaces_of_which_some_are_sampled_have_their_names() {
    let names = template(256, &[(0, 10, 4), (0, 82, 4), (0, 34, 4)], 1);
    let reported = |id: u8, name: &str, interval: u8| [&[0, 0, 0, id], name.as_bytes(), &[0, 0, 0, interval]].concat();
    let (plain, sampled) = (reported(1, "eth0", 0), reported(2, "eth1", 100));
    for (records, kind) in [([&plain[..], &sampled], "interface"), ([&sampled[..], &plain], "sampler")] {
        let mut exporter = Exporter::new();
        exporter.ipfix(0, &[&names], &records);
        assert_eq!(texts(&options(&exporter.take()), "kind"), vec![Some(kind.to_owned()); 2]);
    }
}

/// Values of scopes as their types have them (RFC 7012 section 3.1); an applicationId is octets, however many it has.
#[test]
fn scopes_are_written_by_their_types() {
    let mut exporter = Exporter::new();
    let numbers: [Field; 3] = [(0, 80, 6), (0, 144, 4), (64_999, 99, 2)];
    let fields = [&[(0, 95, 4), (0, 130, 4), (0, 82, 4)][..], &numbers, &[(0, 335, 6), (0, 41, 1)]].concat();
    let numbers = [2_u8, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 9];
    let record = [&[13, 0, 0, 50, 192, 0, 2, 1][..], b"eth0", &numbers, b"a =\"\\b", &[5]];
    exporter.ipfix(0, &[&template(300, &fields, 7)], &[&record.concat()]);
    let expected = "applicationId=0x0d000032 exporterIPv4Address=192.0.2.1 interfaceName=eth0 \
                    destinationMacAddress=02:00:00:00:00:01 exportingProcessId=7 64999/99=9 \
                    selectorName=\"a =\\\"\\\\b\"";
    assert_eq!(texts(&options(&exporter.take()), "scope"), [Some(expected.to_owned())]);
}

#[test]
fn options_of_every_kind() {
    let mut exporter = Exporter::new();
    let check = |exporter: &mut Exporter, fields: &[Field], record: &[u8], kind: &str, key: Option<u64>| {
        exporter.ipfix(0, &[&template(300, fields, 1)], &[record]);
        let rows = options(&exporter.take());
        assert_eq!((texts(&rows, "kind"), keys(&rows)), (vec![Some(kind.to_owned())], vec![key]), "{fields:?}");
        rows
    };
    let rows = check(&mut exporter, &[(0, 234, 4), (0, 236, 3)], &[0, 0, 0, 9, b'r', b'e', b'd'], "vrf", Some(9));
    assert_eq!(texts(&rows, "name"), [Some("red".to_owned())]);
    // NBAR (RFC 6759): engine 13, selector 1
    let rows =
        check(&mut exporter, &[(0, 95, 4), (0, 96, 4)], &[13, 0, 0, 1, b'h', b't', b't', b'p'], "application", None);
    let octets = rows.column_by_name("key_octets").expect("a column").as_binary::<i32>();
    assert_eq!((octets.value(0), texts(&rows, "name")), ([13, 0, 0, 1].as_slice(), vec![Some("http".to_owned())]));
    let rows = check(&mut exporter, &[(0, 302, 2), (0, 309, 1), (0, 310, 2)], &[0, 5, 2, 0, 3], "sampler", Some(5));
    let number = |name: &str| rows.column_by_name(name).expect("a column").as_primitive::<UInt64Type>().value(0);
    let interval = rows.column_by_name("sampling_interval").expect("a column").as_primitive::<UInt32Type>();
    assert_eq!((interval.value(0), number("packets_selected"), number("packets_observed")), (2, 2, 3));
    check(&mut exporter, &[(0, 144, 4), (0, 41, 8)], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9], "system", None);
    check(&mut exporter, &[(0, 346, 4), (0, 41, 4)], &[0, 0, 0, 1, 0, 0, 0, 9], "other", None);
}

/// Cisco's firewall (NSEL): addresses and ports after translation and the event under numbers of NetFlow v9 alone, and
/// a user's name.
#[test]
fn events_of_a_firewall() {
    let mut exporter = Exporter::new();
    let fields = [
        (0, 148, 4),
        (0, 8, 4),
        (0, 40_001, 4),
        (0, 40_003, 2),
        (0, 40_005, 1),
        (0, 33_002, 2),
        (0, 323, 8),
        (0, 231, 4),
        (0, 232, 4),
        (0, 298, 4),
        (0, 299, 4),
        (0, 33_000, 12),
        (0, 40_000, 20),
    ];
    let mut record = vec![0, 0, 0, 1, 10, 0, 0, 1, 203, 0, 113, 7, 0xfa, 0, 2, 7, 226];
    record.extend((RECEIVED_MS as u64).to_be_bytes());
    for counter in [900_u32, 800, 9, 8] {
        record.extend(counter.to_be_bytes());
    }
    record.extend([1; 12]);
    record.extend(b"alice\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    exporter.netflow9(0, &template(256, &fields, 0), &[&record]);
    let flows = exporter.flows();
    assert_eq!(flows.binary(Column::NatSrcAddr).expect("a column").value(0), [203, 0, 113, 7]);
    assert_eq!(u16_of(&flows, Column::NatSrcPort), Some(64_000));
    assert_eq!(flows.primitive::<UInt8Type>(Column::FirewallEvent).expect("a column").value(0), 2);
    let sums = [Column::Bytes, Column::BytesReverse, Column::Packets, Column::PacketsReverse];
    assert_eq!(sums.map(|column| flows.sum(column)), [900, 800, 9, 8]);
    let elements = elements_of_row(flows.column(Column::Elements).expect("elements"), 0);
    let names: Vec<_> = elements
        .iter()
        .map(|value| weir_flow::element(value.enterprise, value.id).map_or("", |element| element.name.as_str()))
        .collect();
    assert_eq!(names, ["firewallExtendedEvent", "ingressAclId", "aaaUsername"]);
}

/// RFC 5103 section 4: both directions in one record, times and flags of the reverse included; and a block of ports.
#[test]
fn both_directions_and_blocks_of_ports() {
    const REVERSE: u32 = weir_flow::registry::REVERSE_ENTERPRISE;
    let mut exporter = Exporter::new();
    let fields = [
        (0, 1, 4),
        (REVERSE, 1, 4),
        (0, 2, 4),
        (REVERSE, 2, 4),
        (0, 6, 1),
        (REVERSE, 6, 1),
        (REVERSE, 152, 8),
        (REVERSE, 153, 8),
        (0, 361, 2),
        (0, 362, 2),
    ];
    let mut record = vec![0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0x1b, 0x12];
    record.extend((RECEIVED_MS as u64 - 900).to_be_bytes());
    record.extend((RECEIVED_MS as u64 - 100).to_be_bytes());
    record.extend([4, 0, 7, 255]);
    exporter.ipfix(0, &[&template(256, &fields, 0)], &[&record]);
    let flows = exporter.flows();
    let sums = [Column::Bytes, Column::BytesReverse, Column::Packets, Column::PacketsReverse];
    assert_eq!(sums.map(|column| flows.sum(column)), [512, 256, 5, 4]);
    assert_eq!((u16_of(&flows, Column::TcpFlags), u16_of(&flows, Column::TcpFlagsReverse)), (Some(0x1b), Some(0x12)));
    let time = |column| flows.primitive::<TimestampMillisecondType>(column).expect("a column").value(0);
    assert_eq!((time(Column::StartReverse), time(Column::EndReverse)), (RECEIVED_MS - 900, RECEIVED_MS - 100));
    let ports = (u16_of(&flows, Column::PortRangeStart), u16_of(&flows, Column::PortRangeEnd));
    assert_eq!(ports, (Some(1024), Some(2047)));
    assert!(flows.column(Column::Elements).is_none(), "all of it has a column");
}

#[test]
fn times_that_cannot_be_are_marked_and_kept() {
    let mut exporter = Exporter::new();
    let flow = template(256, &[(0, 152, 8), (0, 153, 8)], 0);
    let record = |start_ms: i64, end_ms: i64| [start_ms.to_be_bytes(), end_ms.to_be_bytes()].concat();
    exporter.ipfix(0, &[&flow], &[&record(RECEIVED_MS - 20, RECEIVED_MS - 10)]);
    assert!(exporter.flows().column(Column::TimeFlags).is_none(), "nothing is wrong");
    let records = [record(RECEIVED_MS, RECEIVED_MS), record(RECEIVED_MS, RECEIVED_MS - 1), record(0, 0)];
    exporter.ipfix(0, &[], &[]);
    exporter.ipfix(0, &[&flow], &records.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let flows = exporter.flows();
    let flags: Vec<_> = flows.primitive::<UInt16Type>(Column::TimeFlags).expect("a column").iter().collect();
    assert_eq!(flags, [None, Some(8), Some(32)]);
    let starts = flows.primitive::<TimestampMillisecondType>(Column::Start).expect("a column");
    assert_eq!(starts.values().to_vec(), [RECEIVED_MS, RECEIVED_MS, 0]);
    // an uptime in IPFIX whose exporter has not said when it started
    exporter.ipfix(0, &[&template(257, &[(0, 22, 4), (0, 21, 4)], 0)], &[&[0; 8]]);
    assert_eq!(u16_of(&exporter.flows(), Column::TimeFlags), Some(64));
    // 64 bits in the fields for uptimes: since 1970 for one exporter, an uptime for another
    let wide = template(258, &[(0, 22, 8), (0, 21, 8)], 0);
    exporter.netflow9(0, &wide, &[&record(RECEIVED_MS - 20, RECEIVED_MS - 10), &record(90_000, 95_000)]);
    let flows = exporter.flows();
    let flags: Vec<_> = flows.primitive::<UInt16Type>(Column::TimeFlags).expect("a column").iter().collect();
    assert_eq!(flags, [Some(128), None]);
    let ends = flows.primitive::<TimestampMillisecondType>(Column::End).expect("a column");
    assert_eq!(ends.values().to_vec(), [RECEIVED_MS - 10, i64::from(EXPORT_SECS) * 1000 - 5_000]);
}

fn text_of(flows: &FlowBatch, column: Column) -> Vec<Option<String>> {
    match flows.text(column) {
        Some(values) => values.iter().map(|text| text.map(str::to_owned)).collect(),
        None => vec![None; flows.rows()],
    }
}

fn some(texts: &[Option<&str>]) -> Vec<Option<String>> {
    texts.iter().map(|text| text.map(str::to_owned)).collect()
}

fn left(flows: &FlowBatch, row: usize) -> Vec<(u32, u16, Vec<u8>)> {
    let Some(elements) = flows.column(Column::Elements) else { return Vec::new() };
    elements_of_row(elements, row).iter().map(|value| (value.enterprise, value.id, value.octets.to_vec())).collect()
}

/// A record of fields of variable length.
fn variable(fields: &[&[u8]]) -> Vec<u8> {
    fields.iter().flat_map(|field| [&[field.len() as u8], *field].concat()).collect()
}

/// Elements of `ipfix-elements.hpp` of ipfixprobe: names of servers of TLS and QUIC, JA3 as 16 octets.
#[test]
fn texts_of_ipfixprobe() {
    let mut exporter = Exporter::new();
    let field = |enterprise, id| (enterprise, id, VARIABLE_LENGTH);
    let flow = template(256, &[field(8057, 890), field(8057, 808), field(39499, 357), field(0, 96)], 0);
    let digest: Vec<u8> = (0xa0..0xb0).collect();
    let records = [
        variable(&[b"", b"tls.example", &digest, b"tls"]),
        variable(&[b"quic.example", b"", b"", b""]),
        variable(&[b"quic.example", b"other.example", b"A0A1", b"qu\x1bic"]),
        variable(&[b"quic.example", b"quic.example", b"", b""]),
    ];
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    exporter.ipfix(0, &[&flow], &records);
    let flows = exporter.flows();
    let names = [Some("tls.example"), Some("quic.example"), Some("other.example"), Some("quic.example")];
    assert_eq!(text_of(&flows, Column::ServerName), some(&names), "that of TLS is preferred");
    let ja3 = [Some("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"), None, Some("A0A1"), None];
    assert_eq!(text_of(&flows, Column::Ja3), some(&ja3));
    assert_eq!(text_of(&flows, Column::Application), some(&[Some("tls"), None, Some("qu\u{fffd}ic"), None]));
    // what the columns do not show is kept, and nothing else
    assert_eq!([left(&flows, 0), left(&flows, 1), left(&flows, 3)], [const { Vec::new() }; 3]);
    assert_eq!(left(&flows, 2), [(8057, 890, b"quic.example".to_vec()), (0, 96, b"qu\x1bic".to_vec())]);
}

/// Palo Alto Networks' App-ID in `NetFlow` v9, 32 octets, and nProbe's elements there.
#[test]
fn texts_of_version_9() {
    let mut exporter = Exporter::new();
    let flow = template(300, &[(0, 8, 4), (0, 56701, 32), (0, 57660, 16), (0, 57581, 4)], 0);
    let mut record = vec![10, 0, 0, 1];
    record.extend_from_slice(b"web-browsing");
    record.resize(4 + 32, 0);
    record.extend_from_slice(b"www.example.org\0");
    record.extend_from_slice(&[0, 0, 0, 7]);
    exporter.netflow9(1, &flow, &[&record]);
    let flows = exporter.flows();
    assert_eq!(text_of(&flows, Column::Application), some(&[Some("web-browsing")]));
    assert_eq!(text_of(&flows, Column::ServerName), some(&[Some("www.example.org")]));
    assert_eq!(u32s(&flows, Column::Retransmissions), [Some(7)]);
    assert_eq!(left(&flows, 0), []);
}

/// yaf has what it found in packets in lists (RFC 6313): one question and its answer have one name, two hosts are two.
#[test]
fn texts_in_lists() {
    let mut exporter = Exporter::new();
    let dns = template(50_000, &[(6871, 179, VARIABLE_LENGTH)], 0);
    let http = template(50_001, &[(6871, 117, VARIABLE_LENGTH)], 0);
    let flow = template(256, &[(0, 8, 4), (0, 292, VARIABLE_LENGTH), (0, 292, VARIABLE_LENGTH)], 0);
    let mut record = vec![10, 0, 0, 1];
    let name = variable(&[b"a.example", b"a.example"]);
    record.extend_from_slice(&variable(&[&[&[3, 0xc3, 0x50], &name[..]].concat()]));
    let hosts = variable(&[b"b.example", b"c.example"]);
    record.extend_from_slice(&variable(&[&[&[3, 0xc3, 0x51], &hosts[..]].concat()]));
    exporter.ipfix(0, &[&dns, &http, &flow], &[&record]);
    let flows = exporter.flows();
    assert_eq!(text_of(&flows, Column::DnsName), some(&[Some("a.example")]));
    assert_eq!(text_of(&flows, Column::HttpHost), some(&[None]));
}

/// yaf exports names as the packets have them, with the root's empty label: `a.example.`. RFC 1035 section 5.1 has the backslash.
#[test]
fn names_of_dns_are_without_the_last_dot() {
    let mut exporter = Exporter::new();
    let flow = template(256, &[(0, 8, 4), (8057, 2, VARIABLE_LENGTH), (6871, 179, VARIABLE_LENGTH)], 0);
    let records = [
        variable(&[b"", b"a.example."]),
        variable(&[b"", b"a.example"]),
        variable(&[b"", b"a.example.\0\0"]),
        variable(&[b"", b"."]),
        variable(&[b"", br"a.b\."]),
        variable(&[b"", br"a.b\\."]),
        variable(&[b"a.example", b"a.example."]),
        variable(&[b"a.example.", b"b.example."]),
    ];
    let records = records.map(|record| [&[10, 0, 0, 1][..], &record].concat());
    exporter.ipfix(0, &[&flow], &records.each_ref().map(Vec::as_slice));
    let flows = exporter.flows();
    let name = Some("a.example");
    let expected = [name, name, name, Some("."), Some(r"a.b\."), Some(r"a.b\\"), name, name];
    assert_eq!(text_of(&flows, Column::DnsName), some(&expected));
    // a dot is nothing that is lost
    assert_eq!([0, 2, 6].map(|row| left(&flows, row)), [const { Vec::new() }; 3]);
    assert_eq!(left(&flows, 7), [(6871, 179, b"b.example.".to_vec())]);
}
