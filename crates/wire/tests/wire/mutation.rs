//! Real datagrams, cut at every octet, with every number replaced, with octets in reverse: nothing panics, nothing
//! is found where nothing is, and what precedes the damage is still read.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_wire::WireError;

use crate::capture::udp_payloads;
use crate::walk::Walk;

/// Datagrams of some exporters, which cover all protocols: fixed and variable lengths, options, enterprise elements.
/// With each datagram the walk that has read all of its exporter's, and so knows the templates.
fn exports() -> Option<Vec<(Vec<u8>, std::rc::Rc<Walk>)>> {
    let corpus = weir_testkit::corpus()?;
    let logstash = |name: &&str| {
        let path = corpus.join("logstash-plugins+logstash-codec-netflow/spec/codecs").join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let sampling = "pmacct+pmacct/tests/104-IPFIXv10-IPv6-CISCO-sampling_option/traffic-00.pcap";
    let exporters: Vec<Vec<Vec<u8>>> = vec![
        ["netflow5_test_juniper_mx80.dat"].iter().map(logstash).collect(),
        ["netflow9_test_softflowd_tpl_data.dat"].iter().map(logstash).collect(),
        ["netflow9_test_cisco_asr9k_opttpl256.dat", "netflow9_test_cisco_asr9k_data256.dat"]
            .iter()
            .map(logstash)
            .collect(),
        ["netflow9_test_field_layer2segmentid_tpl.dat", "netflow9_test_field_layer2segmentid_data.dat"]
            .iter()
            .map(logstash)
            .collect(),
        ["ipfix_test_netscaler_tpl.dat", "ipfix_test_netscaler_data.dat"].iter().map(logstash).collect(),
        ["ipfix_test_yaf_tpls_option_tpl.dat", "ipfix_test_yaf_tpl45841.dat", "ipfix_test_yaf_data45841.dat"]
            .iter()
            .map(logstash)
            .collect(),
        udp_payloads(&corpus.join(sampling)),
    ];
    let mut exports = Vec::new();
    for datagrams in exporters {
        let mut walk = Walk::default();
        for datagram in &datagrams {
            walk.datagram(datagram);
        }
        assert_eq!(walk.problems, [], "the originals are fine");
        assert!(walk.data_records > 0, "and hold data");
        let walk = std::rc::Rc::new(walk);
        exports.extend(datagrams.into_iter().map(|datagram| (datagram, walk.clone())));
    }
    Some(exports)
}

/// Reads a datagram with these templates known. Yields its data records and problems.
fn reread(walk: &Walk, datagram: &[u8]) -> (usize, Vec<WireError>) {
    let mut again = Walk { templates: walk.templates.clone(), ..Walk::default() };
    again.datagram(datagram);
    (again.data_records, again.problems)
}

#[test]
fn cut_at_every_octet() {
    let Some(exports) = exports() else { return };
    for (datagram, walk) in &exports {
        let (whole, problems) = reread(walk, datagram);
        assert_eq!(problems, [], "the original is fine");
        let mut before = 0;
        for cut in 0..datagram.len() {
            let (records, problems) = reread(walk, &datagram[..cut]);
            // More octets never yield fewer records.
            assert!(before <= records && records <= whole, "{records} of {whole} at {cut}");
            // NetFlow v9 has no length: cut between two sets, it is a shorter message.
            let unnoticed = problems.is_empty() && cut >= 2 && datagram[1] != 9;
            assert!(!unnoticed, "cut at {cut} of {}: nobody noticed", datagram.len());
            before = records;
        }
    }
}

#[test]
fn every_number_replaced() {
    let Some(exports) = exports() else { return };
    for (datagram, walk) in &exports {
        let mut bent = datagram.clone();
        for at in 0..datagram.len() - 1 {
            let original = u16::from_be_bytes([datagram[at], datagram[at + 1]]);
            for number in
                [0, 1, 3, 4, 5, 255, 256, 0x7fff, 0x8000, 0xfffe, 0xffff, original ^ 1, original.rotate_left(8)]
            {
                bent[at..at + 2].copy_from_slice(&number.to_be_bytes());
                reread_in_place(walk, &bent);
            }
            bent[at..at + 2].copy_from_slice(&original.to_be_bytes());
        }
        let reversed: Vec<_> = datagram.iter().rev().copied().collect();
        reread_in_place(walk, &[&datagram[..2], &reversed].concat());
    }
}

/// Only for its assertions.
fn reread_in_place(walk: &Walk, datagram: &[u8]) {
    let (records, _) = reread(walk, datagram);
    assert!(records <= datagram.len());
}

proptest! {
    /// Octets of no meaning at all behind a valid version.
    #[test]
    fn noise(version in prop_oneof![Just(5_u8), Just(9), Just(10)], noise in vec(any::<u8>(), 0..600)) {
        let mut walk = Walk::default();
        walk.datagram(&[&[0, version][..], &noise].concat());
    }

    /// Noise that is at least made of sets, of which some define templates for the others.
    #[test]
    fn noise_in_sets(
        version in prop_oneof![Just(9_u8), Just(10)],
        sets in vec((0_u8..6, vec(prop_oneof![0_u8..3, any::<u8>()], 0..60)), 0..12),
    ) {
        let mut body = Vec::new();
        for (kind, octets) in &sets {
            let id = if *kind < 4 { u16::from(*kind) } else { 256 + u16::from(octets.first().copied().unwrap_or(0)) };
            body.extend(id.to_be_bytes());
            body.extend((octets.len() as u16 + 4).to_be_bytes());
            body.extend(octets);
        }
        let header: &[u8] = if version == 9 { &[0; 18] } else { &[0xff; 14] };
        let mut walk = Walk::default();
        walk.datagram(&[&[0, version][..], header, &body].concat());
    }
}
