use proptest::collection::vec;
use proptest::prelude::*;

use super::record::{Gateway, SampledHeader, SampledIp, Side};
use super::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// A structure with its format and length before it.
fn tagged(format: u32, body: &[u8]) -> Vec<u8> {
    [words(&[format, body.len() as u32]), body.to_vec()].concat()
}

/// A string, padded.
fn string(text: &str) -> Vec<u8> {
    let mut octets = words(&[text.len() as u32]);
    octets.extend(text.bytes());
    octets.resize(octets.len().next_multiple_of(4), 0);
    octets
}

/// A datagram of 192.0.2.1 with these samples.
fn datagram(samples: &[Vec<u8>]) -> Vec<u8> {
    [words(&[5, 1, 0xc000_0201, 7, 1000, 2000, samples.len() as u32]), samples.concat()].concat()
}

/// A flow sample with these records.
fn flow_sample(records: &[Vec<u8>]) -> Vec<u8> {
    let head = words(&[9, 0x0000_0011, 512, 5_000, 3, 17, 0x4000_0102, records.len() as u32]);
    tagged(1, &[head, records.concat()].concat())
}

fn only_sample(datagram: &[u8]) -> Sample<'_> {
    let mut samples = decode(datagram).expect("a header").samples;
    let sample = samples.next().expect("a sample").expect("whole");
    assert_eq!(samples.next(), None);
    sample
}

/// Reads one record within one flow sample.
fn check(format: u32, body: &[u8], expected: FlowRecord<'_>) {
    let octets = datagram(&[flow_sample(&[tagged(format, body)])]);
    let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
    let record = sample.records.clone().next().expect("a record").expect("whole");
    assert_eq!(record.flow(), Ok(expected));
    if expected != FlowRecord::Unknown {
        let short = tagged(format, &body[..body.len() - body.len().min(5)]);
        let octets = datagram(&[flow_sample(&[short])]);
        let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
        let record = sample.records.clone().next().expect("a record").expect("whole");
        let octets = record.body.len() as u32;
        assert_eq!(record.flow(), Err(WireError::StructureTooShort { format, octets }));
    }
}

#[test]
fn headers_and_samples() {
    let octets = datagram(&[flow_sample(&[])]);
    let header = decode(&octets).expect("a header").header;
    assert_eq!((header.agent, header.sub_agent), ([192, 0, 2, 1].as_slice(), 7));
    assert_eq!((header.sequence, header.uptime_ms, header.samples), (1000, 2000, 1));
    let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
    assert_eq!((sample.sequence, sample.source), (9, DataSource { class: 0, index: 17 }));
    assert_eq!((sample.sampling_rate, sample.pool, sample.drops), (Some(512), 5_000, 3));
    assert_eq!((sample.input.index(), sample.output.index(), sample.output.discarded()), (Some(17), None, Some(258)));

    let expanded = words(&[9, 1, 0x0100_0000, 512, 5_000, 3, 0, 0x0200_0000, 2, 4, 0]);
    let octets = datagram(&[tagged(3, &expanded)]);
    let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
    assert_eq!((sample.source.class, sample.source.index), (1, 0x0100_0000));
    assert_eq!((sample.input.index(), sample.output), (Some(0x0200_0000), Interface { format: 2, value: 4 }));

    // what the device itself sends has come in by no interface (sFlow version 5, section 5.3)
    for (kind, fields) in [
        (1, vec![9, 17, 512, 5_000, 3, 0x3fff_ffff, 17, 0]),
        (3, vec![9, 0, 17, 512, 5_000, 3, 0, 0x3fff_ffff, 0, 17, 0]),
    ] {
        let octets = datagram(&[tagged(kind, &words(&fields))]);
        let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
        assert_eq!((sample.input.index(), sample.input.is_device(), sample.output.index()), (None, true, Some(17)));
    }

    let discarded = words(&[9, 0, 17, 3, 18, 0, 257, 0]);
    let octets = datagram(&[tagged(5, &discarded)]);
    let Sample::Discarded(sample) = only_sample(&octets) else { panic!("no discarded packet") };
    assert_eq!((sample.drop_reason, sample.sampling_rate, sample.drops), (Some(257), None, 3));
    assert_eq!((sample.input.index(), sample.output.index()), (Some(18), None));

    let octets = [words(&[5, 2]), vec![0x20; 16], words(&[0, 1, 2, 0])].concat();
    assert_eq!(decode(&octets).expect("a header").header.agent, [0x20; 16]);
    let octets = words(&[5, 0, 0, 1, 2, 0]);
    assert_eq!(decode(&octets).expect("a header").header.agent, []);
}

#[test]
fn records_of_flows() {
    let mac = [2, 0, 0, 0, 0, 1];
    let header = [words(&[1, 1518, 4, 6]), mac.to_vec(), vec![0; 2]].concat();
    check(1, &header, FlowRecord::Header(SampledHeader { protocol: 1, frame_length: 1518, stripped: 4, header: &mac }));
    let ip = words(&[1400, 6, 0xc000_0201, 0xc000_0202, 80, 1025, 18, 8]);
    let read = SampledIp {
        length: 1400,
        protocol: 6,
        source: &[192, 0, 2, 1],
        destination: &[192, 0, 2, 2],
        source_port: 80,
        destination_port: 1025,
        tcp_flags: 18,
        tos: 8,
    };
    check(3, &ip, FlowRecord::Ip(read));
    check(1023, &ip, FlowRecord::IpTunnel(Side::Egress, read));
    check(1024, &ip, FlowRecord::IpTunnel(Side::Ingress, read));
    let switch =
        FlowRecord::Switch { source_vlan: 10, source_priority: 1, destination_vlan: 20, destination_priority: 2 };
    check(1001, &words(&[10, 1, 20, 2]), switch);
    let next_hop: &[u8] = &[192, 0, 2, 9];
    let router = FlowRecord::Router { next_hop, source_mask: 24, destination_mask: 16 };
    check(1002, &words(&[1, 0xc000_0209, 24, 16]), router);
    let path = words(&[1, 0xc000_0209, 64500, 64501, 64502, 2, 2, 2, 64503, 64504, 1, 1, 64505, 1, 0xfbf4_0001, 100]);
    let gateway = Gateway {
        next_hop,
        router_as: 64500,
        source_as: 64501,
        source_peer_as: 64502,
        segments: 2,
        first_as: Some(64503),
        last_as: Some(64505),
        communities: &[0xfb, 0xf4, 0, 1],
        local_preference: 100,
    };
    check(1003, &path, FlowRecord::Gateway(gateway));
    let user = [words(&[106]), string("ann"), words(&[106]), string("bob")].concat();
    check(1004, &user[..user.len()], FlowRecord::User { source: b"ann", destination: b"bob" });
    let url = [words(&[2]), string("/index"), string("example.org")].concat();
    check(1005, &url, FlowRecord::Url { direction: 2, url: b"/index", host: b"example.org" });
    let mpls = words(&[1, 0xc000_0209, 1, 0x0001_0140, 0]);
    check(1006, &mpls, FlowRecord::Mpls { next_hop, input: &[0, 1, 1, 0x40], output: &[] });
    check(1007, &words(&[1, 0xc000_0209, 0]), FlowRecord::Nat { source: next_hop, destination: &[] });
    check(1020, &words(&[1, 2]), FlowRecord::NatPorts { source: 1, destination: 2 });
    let path = [string("lsp"), words(&[5, 6])].concat();
    check(1008, &path, FlowRecord::MplsPath { name: b"lsp", id: 5, class_of_service: 6 });
    check(1011, &words(&[24]), FlowRecord::MplsLdpFec(24));
    check(1012, &words(&[1, 0x8100_0064]), FlowRecord::VlanTunnel(&[0x81, 0, 0, 100]));
    check(1030, &words(&[4711]), FlowRecord::Vni(Side::Ingress, 4711));
    let acl = [words(&[3]), string("edge"), words(&[1])].concat();
    check(1037, &acl, FlowRecord::Acl { number: 3, name: b"edge", direction: 1 });
    check(1038, &string("ip_rcv"), FlowRecord::Function(b"ip_rcv"));
    check(4_300 << 12 | 1, &[1, 2, 3, 4], FlowRecord::Unknown);
}

#[test]
fn only_the_smallest_unit_is_lost() {
    let good = flow_sample(&[tagged(1036, &words(&[1]))]);
    let results = |octets: &[u8]| -> Vec<Result<(), WireError>> {
        decode(octets).expect("a header").samples.map(|sample| sample.map(|_| ())).collect()
    };
    let short = tagged(1, &words(&[1, 2]));
    let found = results(&datagram(&[short, good.clone()]));
    assert_eq!(found, [Err(WireError::StructureTooShort { format: 1, octets: 8 }), Ok(())]);
    let found = results(&datagram(&[good.clone(), words(&[1, 4000])]));
    assert_eq!(found, [Ok(()), Err(WireError::SampleTruncated { sample: 1, need: 4008, have: 8 })]);
    let found = results(&datagram(&[good.clone(), vec![]]));
    assert_eq!(found, [Ok(()), Err(WireError::SampleCount { stated: 2, found: 1 })]);
    let found = results(&[datagram(&[good]), vec![0; 4]].concat());
    assert_eq!(found, [Ok(()), Err(WireError::TrailingOctets { octets: 4 })]);

    let records = [tagged(1036, &words(&[1])), words(&[1, u32::MAX]), words(&[0])];
    let octets = datagram(&[flow_sample(&records)]);
    let Sample::Flow(sample) = only_sample(&octets) else { panic!("no flow sample") };
    let found: Vec<_> = sample.records.clone().map(|record| record.map(|record| record.format.0)).collect();
    let lost = WireError::SampleRecordTruncated { record: 1, need: u32::MAX, have: 12 };
    assert_eq!(found, [Ok(1036), Err(lost)]);

    assert_eq!(decode(&words(&[4, 1])).map(|_| ()), Err(WireError::WrongVersion { found: 4 }));
    assert_eq!(decode(&words(&[5, 3, 0, 0, 0, 0, 0])).map(|_| ()), Err(WireError::AddressType { found: 3 }));
    assert_eq!(decode(&[0, 0, 0, 5, 0]).map(|_| ()), Err(WireError::TruncatedHeader { need: 28, have: 5 }));
}

#[test]
fn counters_are_found_by_their_place() {
    let host = [string("router"), vec![7; 16], words(&[3, 2]), string("6.1.0")].concat();
    let interface: Vec<u8> = (0..88).collect();
    let body = [words(&[1, 0x0000_0005, 2]), tagged(1, &interface), tagged(2000, &host)].concat();
    let octets = datagram(&[tagged(2, &body)]);
    let Sample::Counters(sample) = only_sample(&octets) else { panic!("no counters") };
    let records: Vec<_> = sample.records.clone().map(|record| record.expect("whole")).collect();
    assert_eq!(counters::number(records[0].body, 8, 8), Some(0x0809_0a0b_0c0d_0e0f));
    assert_eq!(counters::number(records[0].body, 84, 4), Some(0x5455_5657));
    assert_eq!((counters::number(records[0].body, 85, 4), counters::number(&[0xff; 4], 0, 4)), (None, None));
    let host = records[1].host_description().expect("a host");
    assert_eq!((host.hostname, host.os_release, host.os_name), (b"router".as_slice(), b"6.1.0".as_slice(), 2));
    assert!(records.iter().all(|record| record.check_counters().is_ok()));
    let short = Record { format: Format::standard(2), body: &[0; 48] };
    assert_eq!(short.check_counters(), Err(WireError::StructureTooShort { format: 2, octets: 48 }));
}

/// Reads everything. Yields samples, records and problems.
fn walk(datagram: &[u8]) -> (usize, usize, usize) {
    let Ok(datagram) = decode(datagram) else { return (0, 0, 1) };
    let (mut samples, mut records, mut problems) = (0, 0, 0);
    for sample in datagram.samples {
        let (flow, found) = match sample {
            Ok(Sample::Flow(sample) | Sample::Discarded(sample)) => (true, sample.records),
            Ok(Sample::Counters(sample)) => (false, sample.records),
            Ok(Sample::Unknown { .. }) => (false, Records::new(0, &[])),
            Err(_) => {
                problems += 1;
                continue;
            }
        };
        samples += 1;
        for record in found {
            let Ok(record) = record else {
                problems += 1;
                continue;
            };
            records += 1;
            let spoiled = if flow { record.flow().is_err() } else { record.check_counters().is_err() };
            problems += usize::from(spoiled);
            let _ = record.host_description();
            if let Ok(FlowRecord::Header(header)) = record.flow()
                && let Some(link) = header.link_type()
            {
                crate::packet::dissect(link, header.header);
            }
        }
    }
    (samples, records, problems)
}

#[test]
fn a_cut_datagram_is_read_as_far_as_it_goes() {
    let octets = datagram(&[
        flow_sample(&[tagged(1001, &words(&[1, 2, 3, 4])), tagged(1036, &words(&[1]))]),
        tagged(2, &[words(&[1, 5, 1]), tagged(2, &[0; 52])].concat()),
    ]);
    let (samples, records, problems) = walk(&octets);
    assert_eq!((samples, records, problems), (2, 3, 0));
    let mut before = 0;
    for cut in 0..octets.len() {
        let (samples, records, problems) = walk(&octets[..cut]);
        assert!(before <= samples && samples <= 2 && records <= 3);
        assert!(problems > 0, "cut at {cut}: nobody noticed");
        before = samples;
    }
}

proptest! {
    #[test]
    fn noise(noise in vec(prop_oneof![Just(0_u32), 1_u32..6, 1001_u32..1040, any::<u32>()], 0..100)) {
        walk(&[words(&[5, 1]), words(&noise)].concat());
    }

    /// Records of every kind with numbers replaced.
    #[test]
    fn bent(kinds in vec((0_u32..2110, vec(prop_oneof![0_u32..5, any::<u32>()], 0..20)), 0..8)) {
        let records: Vec<_> = kinds.iter().map(|(format, body)| tagged(*format, &words(body))).collect();
        let octets = datagram(&[flow_sample(&records)]);
        let (samples, found, _) = walk(&octets);
        prop_assert_eq!((samples, found), (1, records.len()));
    }
}
