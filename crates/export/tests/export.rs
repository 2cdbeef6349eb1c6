//! Flows through the exporter and back through the decoders of `weir-wire`.

mod decoded;

use std::collections::BTreeMap;

use decoded::{Cell, Received, row_of};
use proptest::prelude::*;
use weir_export::{
    Exporter, ExporterConfig, Interface, Refusal, Sampling, SamplingAnnouncement, TemplateRefresh, Version,
};
use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder};

const NOW_MS: i64 = 1_700_000_000_789;

/// Encodes everything at once.
fn export(config: ExporterConfig, batches: &[FlowBatch]) -> (Exporter, Vec<Vec<u8>>) {
    let mut exporter = Exporter::new(config).expect("settings");
    let mut datagrams = Vec::new();
    let mut flows = 0;
    let mut sink = |datagram: weir_export::Datagram<'_>| {
        flows += u64::from(datagram.flows);
        datagrams.push(datagram.octets.to_vec());
    };
    for batch in batches {
        exporter.encode(batch, NOW_MS, &mut sink);
    }
    exporter.flush(NOW_MS, &mut sink);
    assert_eq!(flows, exporter.exported().flows, "a flush leaves nothing behind");
    assert_eq!(datagrams.len() as u64, exporter.exported().datagrams);
    assert!(datagrams.iter().all(|datagram| datagram.len() <= exporter.config().datagram_octets_max));
    (exporter, datagrams)
}

/// `rows` flows, one in `wide_every` with IPv6 addresses; packets are numbered from 1.
fn batch(rows: usize, wide_every: usize) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    for row in 0..rows {
        let wide = (row + 1) % wide_every == 0;
        let length = if wide { 16 } else { 4 };
        for column in [Column::SrcAddr, Column::DstAddr, Column::NextHop] {
            let octets = [(row as u8).wrapping_add(column as u8); 16];
            builder.address(column).push(Some(&octets[..length]));
        }
        builder.time(Column::Start).push(Some(NOW_MS - 5_000 - row as i64));
        builder.time(Column::End).push(Some(NOW_MS - row as i64));
        builder.u64(Column::Packets).push(Some(row as u64 + 1));
        builder.u64(Column::Bytes).push(Some(row as u64 * 40));
        builder.u16(Column::SrcPort).push(Some(row as u16));
        builder.u16(Column::TcpFlags).push(Some(0x1b));
        builder.u8(Column::SrcMask).push(Some(24));
        builder.u32(Column::InIf).push(Some(7));
    }
    builder.finish()
}

fn numbered(rows: Vec<BTreeMap<Column, Cell>>) -> BTreeMap<u64, BTreeMap<Column, Cell>> {
    let number = |row: &BTreeMap<Column, Cell>| match row[&Column::Packets] {
        Cell::Number(number) => number,
        _ => panic!("packets are a number"),
    };
    let count = rows.len();
    let numbered: BTreeMap<_, _> = rows.into_iter().map(|row| (number(&row), row)).collect();
    assert_eq!(numbered.len(), count, "a flow came twice");
    numbered
}

fn expected(batches: &[FlowBatch]) -> BTreeMap<u64, BTreeMap<Column, Cell>> {
    numbered(batches.iter().flat_map(|batch| (0..batch.rows()).map(|row| row_of(batch, row))).collect())
}

#[test]
fn version_5_packs_thirty_flows_and_counts_them() {
    let flows = batch(100, 10);
    let (exporter, datagrams) = export(ExporterConfig::new(Version::V5), std::slice::from_ref(&flows));
    let lengths: Vec<_> = datagrams.iter().map(Vec::len).collect();
    assert_eq!(lengths, [1464, 1464, 1464], "90 of the 100 flows are IPv4");
    assert_eq!(exporter.exported().refused_for(Refusal::Address), 10);
    let received = Received::of(&datagrams);
    assert_eq!(received.sequences, [0, 30, 60]);
    let mut expected = expected(&[flows]);
    expected.retain(|_, row| row[&Column::SrcAddr].octets() == 4);
    assert_eq!(exporter.exported().packets, expected.keys().sum::<u64>());
    let rows = received.rows.into_iter().map(|mut row| {
        // What the batch did not have is zero in the fixed record.
        let absent = row.extract_if(.., |column, _| !expected[&1].contains_key(column));
        absent.for_each(|(column, cell)| assert!(cell.is_zero(), "{column} {cell:?}"));
        row
    });
    assert_eq!(numbered(rows.collect()), expected);
}

#[test]
fn version_5_header_tells_engine_and_sampling() {
    let sampling = Some(Sampling { interval: 100, announcement: SamplingAnnouncement::Exporter });
    let config = ExporterConfig { domain: 0x0203, sampling, ..ExporterConfig::new(Version::V5) };
    let (_, datagrams) = export(config, &[batch(1, 2)]);
    let packet = weir_wire::netflow5::FORMAT.decode(&datagrams[0]).expect("a packet");
    let header = packet.header;
    assert_eq!((header.engine_type, header.engine_id), (2, 3));
    assert_eq!((header.sampling_mode(), header.sampling_interval()), (1, 100));
    assert_eq!((header.unix_secs, header.unix_nsecs), (1_700_000_000, 789_000_000));
    assert_eq!(packet.problem, None);
}

#[test]
fn templates_come_before_data_and_sequences_count() {
    for (version, step) in [(Version::V9, "messages"), (Version::Ipfix, "records")] {
        let batches = [batch(1000, 5)];
        let (exporter, datagrams) = export(ExporterConfig::new(version), &batches);
        let received = Received::of(&datagrams);
        assert_eq!(received.sets_before_template, 0);
        assert_eq!(exporter.exported().templates, 2, "one for each family");
        assert_eq!(numbered(received.rows), expected(&batches), "{version}");
        let mut expected = 0;
        for (sequence, records) in received.sequences.iter().zip(&received.records) {
            assert_eq!(*sequence, expected, "{version}");
            expected += if step == "records" { *records } else { 1 };
        }
        let wasted = datagrams[..datagrams.len() - 1].iter().filter(|datagram| datagram.len() < 1300).count();
        assert_eq!(wasted, 0, "all but the last datagram are full");
    }
}

#[test]
fn templates_are_sent_again() {
    let config = ExporterConfig {
        template_refresh: TemplateRefresh { datagrams: 10, secs: 3600 },
        ..ExporterConfig::new(Version::V9)
    };
    let (exporter, datagrams) = export(config, &[batch(1000, 5)]);
    assert_eq!(exporter.exported().templates, 2 * datagrams.len().div_ceil(10) as u64);
    let mut exporter = Exporter::new(ExporterConfig::new(Version::Ipfix)).expect("settings");
    for second in 0..121 {
        let mut ignore = |_: weir_export::Datagram<'_>| ();
        exporter.encode(&batch(1, 2), NOW_MS + second * 1000, &mut ignore);
        exporter.flush(NOW_MS + second * 1000, &mut ignore);
    }
    assert_eq!(exporter.exported().templates, 3, "at 0, 60 and 120 seconds");
}

#[test]
fn a_refresh_longer_than_a_datagram_leaves_room_for_data() {
    let names = (0..40).map(|index| Interface { index, name: "x".repeat(32), description: "y".repeat(64) });
    let config = ExporterConfig {
        interfaces: names.collect(),
        template_refresh: TemplateRefresh { datagrams: 1, secs: 1 },
        datagram_octets_max: 512,
        ..ExporterConfig::new(Version::V9)
    };
    let batches = [batch(50, 100)];
    let (exporter, datagrams) = export(config, &batches);
    assert_eq!(numbered(Received::of(&datagrams).rows), expected(&batches));
    assert!(exporter.exported().options_records >= 80 && exporter.exported().options_records % 40 == 0);
}

#[test]
fn data_can_be_sent_before_its_template() {
    for version in [Version::V9, Version::Ipfix] {
        let config = ExporterConfig { templates_after_datagrams: 3, ..ExporterConfig::new(version) };
        let (_, datagrams) = export(config, &[batch(200, 300)]);
        let received = Received::of(&datagrams);
        assert_eq!(received.sets_before_template, 3, "{version}");
        assert!(!received.rows.is_empty(), "{version}");
    }
}

#[test]
fn options_tell_sampling_and_interfaces() {
    let sampler = SamplingAnnouncement::Sampler(5);
    for (version, announcement, sampling_fields) in [
        (Version::V9, SamplingAnnouncement::Exporter, vec![(1, 77), (34, 1000), (35, 1)]),
        (Version::V9, sampler, vec![(1, 77), (48, 5), (49, 1), (50, 1000)]),
        (Version::Ipfix, SamplingAnnouncement::Exporter, vec![(149, 77), (34, 1000), (35, 1)]),
        (Version::Ipfix, sampler, vec![(302, 5), (304, 1), (305, 1), (306, 999)]),
    ] {
        let interfaces = vec![Interface { index: 9, name: "eth9".into(), description: "uplink".into() }];
        let sampling = Some(Sampling { interval: 1000, announcement });
        let config = ExporterConfig { domain: 77, interfaces, sampling, ..ExporterConfig::new(version) };
        let (exporter, datagrams) = export(config, &[batch(3, 100)]);
        let received = Received::of(&datagrams);
        assert_eq!((received.records[0], exporter.exported().options_records), (5, 2), "IPFIX counts options as well");
        let numbers = received.options[0].iter().map(|(id, octets)| (*id, number(octets)));
        assert_eq!(numbers.collect::<Vec<_>>(), sampling_fields);
        let texts = received.options[1].iter().skip(1).map(|(id, octets)| (*id, octets.trim_ascii_end()));
        let texts = texts.map(|(id, octets)| (id, String::from_utf8_lossy(octets).trim_end_matches('\0').to_owned()));
        assert_eq!(texts.collect::<Vec<_>>(), [(82, "eth9".to_owned()), (83, "uplink".to_owned())]);
        let sampler = (announcement == sampler).then_some(&Cell::Number(5));
        assert!(received.rows.iter().all(|row| row.get(&Column::SamplerId) == sampler));
    }
}

fn number(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

#[test]
fn uptime_wraps() {
    // 49.7 days after its start the exporter counts again from 0, while the flow goes on
    let config = ExporterConfig { uptime_ms: u32::MAX - 8_000, ..ExporterConfig::new(Version::V9) };
    let (mut exporter, mut datagrams) = (Exporter::new(config).expect("settings"), Vec::new());
    let mut sink = |datagram: weir_export::Datagram<'_>| datagrams.push(datagram.octets.to_vec());
    exporter.announce(NOW_MS - 10_000, &mut sink);
    let batches = [batch(3, 100)];
    exporter.encode(&batches[0], NOW_MS, &mut sink);
    exporter.flush(NOW_MS, &mut sink);
    let uptime = |datagram: &Vec<u8>| u32::from_be_bytes(datagram[4..8].try_into().expect("four octets"));
    assert!(datagrams.last().map(uptime).is_some_and(|uptime| uptime < 3_000));
    assert_eq!(numbered(Received::of(&datagrams).rows), expected(&batches));
}

/// Collectors that take uptimes as they are would read such flows 49.7 days late.
#[test]
fn what_was_before_the_exporter_began_is_refused() {
    let config = ExporterConfig { uptime_ms: 5_001, ..ExporterConfig::new(Version::V9) };
    // they began 5.000, 5.001 and 5.002 seconds ago
    let (exporter, _) = export(config, &[batch(3, 100)]);
    assert_eq!((exporter.exported().flows, exporter.exported().refused_for(Refusal::Time)), (2, 1));
}

#[test]
fn what_cannot_be_told_is_refused_and_counted() {
    fn check(version: Version, reason: Option<Refusal>, fill: impl FnOnce(&mut FlowBatchBuilder)) {
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        builder.u8(Column::Tos).push(Some(0));
        fill(&mut builder);
        let (exporter, _) = export(ExporterConfig::new(version), &[builder.finish()]);
        let refused = Refusal::ALL.iter().copied().find(|&reason| exporter.exported().refused_for(reason) == 1);
        assert_eq!((refused, exporter.exported().flows), (reason, u64::from(reason.is_none())), "{version}");
    }
    let future = |builder: &mut FlowBatchBuilder| builder.time(Column::End).push(Some(NOW_MS + 1));
    check(Version::V5, Some(Refusal::Time), future);
    check(Version::V9, Some(Refusal::Time), future);
    check(Version::Ipfix, None, future);
    let old = |builder: &mut FlowBatchBuilder| builder.time(Column::Start).push(Some(NOW_MS - (1 << 31)));
    check(Version::V9, Some(Refusal::Time), old);
    let flags = |builder: &mut FlowBatchBuilder| builder.u16(Column::TcpFlags).push(Some(0x100));
    check(Version::V5, Some(Refusal::Value), flags);
    check(Version::V9, Some(Refusal::Value), flags);
    check(Version::Ipfix, None, flags);
    let many = |builder: &mut FlowBatchBuilder| builder.u64(Column::Packets).push(Some(u64::MAX));
    check(Version::V5, Some(Refusal::Value), many);
    check(Version::V9, None, many);
    check(Version::V5, Some(Refusal::Value), |builder| builder.u32(Column::InIf).push(Some(65536)));
    let odd = |builder: &mut FlowBatchBuilder| builder.address(Column::SrcAddr).push(Some(&[1, 2, 3]));
    check(Version::V5, Some(Refusal::Address), odd);
    check(Version::Ipfix, Some(Refusal::Address), odd);
    check(Version::Ipfix, Some(Refusal::Length), |builder| {
        builder.elements().push(0, 460, &[b'a'; 1400]);
        builder.elements().end_row();
    });
    check(Version::V9, None, |builder| builder.address(Column::SrcMac).push(Some(&[1; 6])));
}

/// RFC 5103 section 3: a biflow is the two flows of opposite directions, the keys of one being those of the other exchanged.
#[test]
fn a_biflow_is_two_flows_of_version_5() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    for row in 0..3 {
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, 1]));
        builder.address(Column::DstAddr).push(Some(&[10, 0, 0, 2]));
        builder.address(Column::NextHop).push(Some(&[10, 0, 0, 9]));
        // an echo request has type and code in the destination port
        let (protocol, ports) = if row == 2 { (1, [0, 8 << 8]) } else { (6, [40_000, 443]) };
        builder.u8(Column::Protocol).push(Some(protocol));
        builder.u16(Column::SrcPort).push(Some(ports[0]));
        builder.u16(Column::DstPort).push(Some(ports[1]));
        builder.u32(Column::InIf).push(Some(1));
        builder.u32(Column::OutIf).push(Some(2));
        builder.u32(Column::SrcAs).push(Some(64_500));
        builder.u8(Column::DstMask).push(Some(24));
        builder.time(Column::Start).push(Some(NOW_MS - 900));
        builder.time(Column::End).push(Some(NOW_MS - 100));
        builder.u64(Column::Packets).push(Some(5 + 10 * row));
        builder.u64(Column::Bytes).push(Some(218));
        // the second was not answered, and the third has no times of its own
        builder.u64(Column::PacketsReverse).push(Some([4, 0, 3][row as usize]));
        builder.u64(Column::BytesReverse).push(Some([181, 0, 84][row as usize]));
        builder.time(Column::StartReverse).push((row == 0).then_some(NOW_MS - 800));
        builder.time(Column::EndReverse).push((row == 0).then_some(NOW_MS - 200));
        builder.u16(Column::TcpFlagsReverse).push((row == 0).then_some(0x12));
    }
    let (exporter, datagrams) = export(ExporterConfig::new(Version::V5), &[builder.finish()]);
    let exported = exporter.exported();
    assert_eq!((exported.flows, exported.refused_total(), exported.values_left_out), (5, 0, 0));
    assert_eq!((exported.packets, exported.bytes), (5 + 15 + 25 + 4 + 3, 3 * 218 + 181 + 84));
    let rows = numbered(Received::of(&datagrams).rows);
    assert_eq!(rows.keys().copied().collect::<Vec<_>>(), [3, 4, 5, 15, 25]);
    let numbers = |packets: u64, columns: &[Column]| -> Vec<u64> {
        columns.iter().map(|column| rows[&packets][column].number()).collect()
    };
    for (packets, hosts) in [(5, [1, 2]), (4, [2, 1]), (3, [2, 1])] {
        let host = |column: Column| rows[&packets][&column].as_octets()[3];
        assert_eq!([Column::SrcAddr, Column::DstAddr].map(host), hosts);
    }
    let ends = [Column::SrcPort, Column::DstPort, Column::InIf, Column::OutIf, Column::SrcAs, Column::DstAs];
    assert_eq!(numbers(5, &ends), [40_000, 443, 1, 2, 64_500, 0]);
    assert_eq!(numbers(4, &ends), [443, 40_000, 2, 1, 0, 64_500]);
    let others = [Column::Bytes, Column::TcpFlags, Column::SrcMask, Column::DstMask, Column::Protocol];
    assert_eq!(numbers(4, &others), [181, 0x12, 24, 0, 6]);
    assert!(rows[&4][&Column::NextHop].is_zero(), "which way it goes back is not known");
    let times = [Column::Start, Column::End];
    assert_eq!(numbers(4, &times), [800, 200].map(|age| (NOW_MS - age) as u64));
    assert_eq!(numbers(3, &times), [900, 100].map(|age| (NOW_MS - age) as u64));
    // RFC 792: the answer has type 0
    assert_eq!(numbers(3, &[Column::SrcPort, Column::DstPort, Column::Protocol]), [0, 0, 1]);
}

#[test]
fn a_flow_over_32_bits_is_several_of_version_5() {
    let (octets, packets) = (4_587_450_000_u64, 70_001_u64);
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    for (bytes, counted) in [(octets, packets), (u64::from(u32::MAX), 1), (u64::MAX, 1)] {
        builder.time(Column::Start).push(Some(NOW_MS - 7_000));
        builder.time(Column::End).push(Some(NOW_MS - 50));
        builder.u64(Column::Bytes).push(Some(bytes));
        builder.u64(Column::Packets).push(Some(counted));
        builder.u64(Column::BytesReverse).push((bytes == octets).then_some(1 << 33));
    }
    let (exporter, datagrams) = export(ExporterConfig::new(Version::V5), &[builder.finish()]);
    let exported = exporter.exported();
    // two of the first, three of what came back, which is more than twice the largest counter
    assert_eq!((exported.flows, exported.refused_for(Refusal::Value), exported.refused_total()), (2 + 3 + 1, 1, 1));
    let rows = Received::of(&datagrams).rows;
    let counters = rows.iter().map(|row| [Column::Bytes, Column::Packets].map(|column| row[&column].number()));
    let counters: Vec<_> = counters.collect();
    let sum = |rows: &[[u64; 2]]| rows.iter().fold([0; 2], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
    assert_eq!([sum(&counters[..2]), sum(&counters[2..5])], [[octets, packets], [1 << 33, 0]]);
    assert_eq!(counters[5], [u64::from(u32::MAX), 1]);
    assert!(counters[..2].iter().all(|[_, packets]| *packets >= 35_000), "packets go with their octets");
    let is_timed = |row: &BTreeMap<Column, Cell>| {
        [Column::Start, Column::End].map(|column| row[&column].number() as i64) == [NOW_MS - 7_000, NOW_MS - 50]
    };
    assert!(rows.iter().all(is_timed));
}

/// RFC 6793 section 9: 23456 is of nobody, and says that the number has four octets.
#[test]
fn wide_systems_have_a_stand_in_in_version_5() {
    let systems = [Some(65_535), Some(65_536), None, Some(4_200_000_000)];
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(4);
    builder.u64(Column::Packets).extend([1, 2, 3, 4].into_iter());
    for system in systems {
        builder.u32(Column::SrcAs).push(system);
        builder.u32(Column::DstAs).push(system);
    }
    let (exporter, datagrams) = export(ExporterConfig::new(Version::V5), &[builder.finish()]);
    assert_eq!((exporter.exported().flows, exporter.exported().refused_total()), (4, 0));
    // Cisco's record: the numbers are at 40 and 42 of its 48 octets, behind a header of 24
    let told = |row: usize| &datagrams[0][24 + 48 * row + 40..][..4];
    let expected = [[0xff; 4], [0x5b, 0xa0, 0x5b, 0xa0], [0; 4], [0x5b, 0xa0, 0x5b, 0xa0]];
    assert_eq!([0, 1, 2, 3].map(told), expected.each_ref().map(|octets| &octets[..]));
}

#[test]
fn templates_are_limited_and_values_left_out_are_counted() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    (0..3).for_each(|row| builder.u16(Column::SrcPort).push((row != 1).then_some(row)));
    builder.u64(Column::Packets).extend([1, 2, 3].into_iter());
    builder.address(Column::ApplicationId).push(Some(&[1, 2]));
    builder.address(Column::ApplicationId).push(None);
    builder.address(Column::ApplicationId).push(Some(&[3]));
    let flows = builder.finish();
    let config = ExporterConfig { templates_max: 1, ..ExporterConfig::new(Version::V9) };
    let (exporter, datagrams) = export(config, &[flows]);
    assert_eq!(exporter.exported().refused_for(Refusal::Template), 1);
    assert_eq!(exporter.exported().values_left_out, 2);
    assert_eq!(numbered(Received::of(&datagrams).rows).into_keys().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn settings_are_checked() {
    let sampled = |interval| Some(Sampling { interval, announcement: SamplingAnnouncement::Exporter });
    let v5 = ExporterConfig::new(Version::V5);
    let name = Interface { index: 1, name: "n".repeat(33), description: String::new() };
    for (wrong, message) in [
        (ExporterConfig { datagram_octets_max: 100, ..v5.clone() }, "datagrams of 100 octets"),
        (ExporterConfig { templates_max: 0, ..v5.clone() }, "0 templates"),
        (ExporterConfig { domain: 65536, ..v5.clone() }, "observation domain 65536"),
        (ExporterConfig { sampling: sampled(16384), ..v5.clone() }, "sampling interval 16384"),
        (ExporterConfig { sampling: sampled(0), version: Version::V9, ..v5.clone() }, "sampling interval 0"),
        (ExporterConfig { interfaces: vec![name], ..v5.clone() }, "interface 1: 33 octets"),
        (
            ExporterConfig { template_refresh: TemplateRefresh { datagrams: 0, secs: 1 }, ..v5 },
            "template refresh after 0 datagrams",
        ),
    ] {
        let error = wrong.check().expect_err(message).to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

/// Columns in which a collector tells where a flow came from and what it makes of it.
fn is_not_sent(column: Column) -> bool {
    let of_collector =
        [Column::Received, Column::Exporter, Column::ObservationDomain, Column::ExportVersion, Column::TimeFlags];
    // names that a collector looks up have no element
    let of_enrichment = [
        Column::SrcLabel,
        Column::DstLabel,
        Column::InIfName,
        Column::OutIfName,
        Column::ExporterName,
        Column::SrcName,
        Column::DstName,
        Column::Enrichment,
    ];
    // no element fits the round trip of a handshake
    of_collector.contains(&column) || of_enrichment.contains(&column) || column == Column::TcpRtt
}

/// Columns that only IPFIX has an element for, the reverse of another one.
fn is_of_reverse(column: Column) -> bool {
    column.spec().elements.is_empty() && !column.spec().reverse_elements.is_empty()
}

/// Columns of a flow, and its elements: enterprise, number, octets.
type Cells = (BTreeMap<Column, Cell>, Vec<(u32, u16, Vec<u8>)>);

/// Values of one flow, as numbers or octets that fit the column.
fn cells() -> impl Strategy<Value = Cells> {
    let columns = Column::ALL.iter().copied();
    let columns = columns.filter(|&c| !is_not_sent(c) && !matches!(c, Column::Elements | Column::Packets));
    let cell = |column: Column| match column.column_type() {
        ColumnType::U8 => (0..=255_u64).prop_map(Cell::Number).boxed(),
        ColumnType::U16 if column == Column::TcpFlags => (0..=255_u64).prop_map(Cell::Number).boxed(),
        ColumnType::U16 => (0..=65535_u64).prop_map(Cell::Number).boxed(),
        ColumnType::U32 => any::<u32>().prop_map(|number| Cell::Number(number.into())).boxed(),
        ColumnType::Time => (0..i64::from(i32::MAX)).prop_map(|age| Cell::Number((NOW_MS - age) as u64)).boxed(),
        ColumnType::Address => prop_oneof![any::<[u8; 4]>().prop_map(Vec::from), any::<[u8; 16]>().prop_map(Vec::from)]
            .prop_map(Cell::Octets)
            .boxed(),
        ColumnType::Mac => any::<[u8; 6]>().prop_map(|octets| Cell::Octets(octets.into())).boxed(),
        ColumnType::Text => "[ -~\u{a1}-\u{ff}]{1,300}".prop_map(|text| Cell::Octets(text.into())).boxed(),
        ColumnType::Octets => prop::collection::vec(any::<u8>(), 0..300).prop_map(Cell::Octets).boxed(),
        _ => any::<u64>().prop_map(Cell::Number).boxed(),
    };
    let options: Vec<_> =
        columns.map(|column| proptest::option::of(cell(column).prop_map(move |cell| (column, cell)))).collect();
    let element = prop_oneof![
        any::<u16>().prop_map(|number| (0, 457, number.to_be_bytes().to_vec())),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(|octets| (0, 459, octets)),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|octets| (9, 12235, octets)),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|octets| (54321, 7, octets)),
    ];
    (options, prop::collection::vec(element, 0..3))
        .prop_map(|(cells, elements)| (cells.into_iter().flatten().collect(), elements))
}

fn batch_of(rows: &[Cells]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    builder.begin_rows(rows.len());
    for (packets, (cells, elements)) in (1..).zip(rows) {
        for &column in Column::ALL {
            let number = cells.get(&column).map(Cell::number);
            match column.column_type() {
                _ if is_not_sent(column) => {}
                _ if column == Column::Packets => builder.u64(column).push(Some(packets)),
                ColumnType::U8 => builder.u8(column).push(number.map(|number| number as u8)),
                ColumnType::U16 => builder.u16(column).push(number.map(|number| number as u16)),
                ColumnType::U32 => builder.u32(column).push(number.map(|number| number as u32)),
                ColumnType::U64 => builder.u64(column).push(number),
                ColumnType::Time => builder.time(column).push(number.map(|number| number as i64)),
                ColumnType::Elements => {
                    for (enterprise, id, octets) in elements {
                        builder.elements().push(*enterprise, *id, octets);
                    }
                    builder.elements().end_row();
                }
                ColumnType::Text => builder.text(column).push(cells.get(&column).map(Cell::as_octets)),
                _ => builder.address(column).push(cells.get(&column).map(Cell::as_octets)),
            }
        }
    }
    builder.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_flow_accepted_comes_back_equal(rows in prop::collection::vec(cells(), 1..40)) {
        let flows = batch_of(&rows);
        for version in [Version::V9, Version::Ipfix] {
            let config = ExporterConfig { templates_max: 256, ..ExporterConfig::new(version) };
            let (exporter, datagrams) = export(config, std::slice::from_ref(&flows));
            let mut expected = expected(std::slice::from_ref(&flows));
            if version == Version::V9 {
                for row in expected.values_mut() {
                    row.retain(|&column, _| {
                        let variable = [ColumnType::Text, ColumnType::Octets, ColumnType::Elements];
                        !is_of_reverse(column) && !variable.contains(&column.column_type())
                    });
                }
            }
            // A record that is too long for a datagram is all that can be refused.
            prop_assert_eq!(exporter.exported().refused_total(), exporter.exported().refused_for(Refusal::Length));
            let received = numbered(Received::of(&datagrams).rows);
            prop_assert_eq!(received.len() as u64, exporter.exported().flows);
            for (number, row) in received {
                prop_assert_eq!(&row, &expected[&number]);
            }
        }
    }
}
