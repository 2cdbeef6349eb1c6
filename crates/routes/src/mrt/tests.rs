//! Dumps written here octet by octet as RFC 6396, RFC 8050 and RFC 4271 say.

use std::io::Write;

use crate::{AsChoice, LoadReport, RouteTable, RouteTableBuilder};

/// A record of a type and subtype.
fn record(kind: u16, subtype: u16, body: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, 1], &kind.to_be_bytes()[..], &subtype.to_be_bytes(), &(body.len() as u32).to_be_bytes(), body].concat()
}

/// Two neighbours: one of IPv4 with a number of two octets, one of IPv6 with one of four.
fn peer_index_table() -> Vec<u8> {
    let mut body = vec![192, 0, 2, 9, 0, 4];
    body.extend(b"view");
    body.extend([0, 2]);
    body.extend([0, 10, 0, 0, 1, 192, 0, 2, 1, 0xfb, 0xf4]);
    body.extend([3, 10, 0, 0, 2]);
    body.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    body.extend(4_200_000_001_u32.to_be_bytes());
    record(13, 1, &body)
}

fn attribute(kind: u8, value: &[u8]) -> Vec<u8> {
    if value.len() < 256 {
        [&[0x40, kind, value.len() as u8], value].concat()
    } else {
        [&[0x50, kind], &(value.len() as u16).to_be_bytes()[..], value].concat()
    }
}

/// A path of segments with numbers of four octets.
fn path(segments: &[(u8, &[u32])]) -> Vec<u8> {
    segments
        .iter()
        .flat_map(|(kind, numbers)| {
            let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
            [*kind, (numbers.clone().count() / 4) as u8].into_iter().chain(numbers)
        })
        .collect()
}

fn narrow_path(segments: &[(u8, &[u16])]) -> Vec<u8> {
    let segment = |(kind, numbers): &(u8, &[u16])| {
        let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        [&[*kind, (numbers.len() / 2) as u8], &numbers[..]].concat()
    };
    segments.iter().flat_map(segment).collect()
}

/// An entry of a neighbour, with a path identifier or without.
fn entry(peer: u16, id: Option<u32>, attributes: &[Vec<u8>]) -> Vec<u8> {
    let attributes = attributes.concat();
    let mut entry = [&peer.to_be_bytes()[..], &[0, 0, 0, 2]].concat();
    entry.extend(id.map(u32::to_be_bytes).into_iter().flatten());
    entry.extend((attributes.len() as u16).to_be_bytes());
    entry.extend(attributes);
    entry
}

fn rib(subtype: u16, prefix: &[u8], bits: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![0, 0, 0, 0, bits];
    body.extend(prefix);
    body.extend((entries.len() as u16).to_be_bytes());
    body.extend(entries.concat());
    record(13, subtype, &body)
}

fn loaded(dump: &[u8], choice: AsChoice) -> (RouteTable, LoadReport) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(dump).expect("octets");
    let mut builder = RouteTableBuilder::new(choice);
    let report = builder.load(file.path()).expect("a dump");
    (builder.build().expect("a table"), report)
}

/// Number, bits and next hop of an address.
fn found(table: &RouteTable, address: &str) -> Option<(u32, u8, Option<String>)> {
    let route = table.find(address.parse().expect("an address"))?;
    let hop = route.attributes.bgp_next_hop.map(|hop| hop.to_string());
    Some((route.attributes.autonomous_system, route.prefix_bits, hop))
}

const SEQUENCE: u8 = 2;
const SET: u8 = 1;

#[test]
fn the_shortest_path_is_taken() {
    let long = entry(0, None, &[attribute(2, &path(&[(SEQUENCE, &[64500, 64501, 64502])]))]);
    let hop = attribute(3, &[192, 0, 2, 77]);
    let short = entry(1, None, &[attribute(2, &path(&[(SEQUENCE, &[4_200_000_001, 64510])])), hop]);
    let dump = [peer_index_table(), rib(2, &[198, 51, 100], 24, &[long, short])].concat();
    let (table, report) = loaded(&dump, AsChoice::Origin);
    assert_eq!(found(&table, "198.51.100.9"), Some((64510, 24, Some("192.0.2.77".into()))));
    assert_eq!((report.records, report.routes, report.skipped, report.defective), (2, 1, 1, 0));
    let (table, _) = loaded(&dump, AsChoice::Peer);
    assert_eq!(found(&table, "198.51.100.9").map(|route| route.0), Some(4_200_000_001));
}

#[test]
fn next_hops_of_ipv6_are_short_or_whole() {
    let hop = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];
    let short = [&[16], &hop[..]].concat();
    let whole = [&[0, 2, 1, 16], &hop[..], &[0]].concat();
    for value in [short, whole] {
        let attributes = [attribute(2, &path(&[(SEQUENCE, &[64500])])), attribute(14, &value)];
        let dump = [peer_index_table(), rib(4, &[0x20, 1, 0xd, 0xb8], 32, &[entry(0, None, &attributes)])].concat();
        let (table, _) = loaded(&dump, AsChoice::Origin);
        assert_eq!(found(&table, "2001:db8::1"), Some((64500, 32, Some("2001:db8::5".into()))));
    }
}

#[test]
fn additional_paths_have_a_number_before_their_attributes() {
    let one = entry(0, Some(1), &[attribute(2, &path(&[(SEQUENCE, &[64500, 64501])]))]);
    let other = entry(0, Some(2), &[attribute(2, &path(&[(SEQUENCE, &[64502])]))]);
    let dump = [peer_index_table(), rib(8, &[192, 0, 2], 24, &[one, other])].concat();
    assert_eq!(found(&loaded(&dump, AsChoice::Origin).0, "192.0.2.1").map(|route| route.0), Some(64502));
}

#[test]
fn sets_and_empty_paths_tell_origins_by_rule() {
    let check = |segments: &[(u8, &[u32])], origin, peer| {
        let dump = [peer_index_table(), rib(2, &[192, 0, 2], 24, &[entry(1, None, &[attribute(2, &path(segments))])])];
        let dump = dump.concat();
        for (choice, expected) in [(AsChoice::Origin, origin), (AsChoice::Peer, peer)] {
            let route = found(&loaded(&dump, choice).0, "192.0.2.1").map(|route| route.0);
            assert_eq!(route, Some(expected), "{segments:?} {choice:?}");
        }
    };
    check(&[(SEQUENCE, &[1, 2, 3])], 3, 1);
    check(&[(SEQUENCE, &[1, 2]), (SET, &[3, 4])], 0, 1);
    check(&[(SEQUENCE, &[1, 2]), (SET, &[3])], 3, 1);
    // AS_CONFED_SEQUENCE
    check(&[(3, &[65001]), (SEQUENCE, &[1, 2])], 2, 1);
    check(&[], 4_200_000_001, 4_200_000_001);
}

#[test]
fn paths_of_two_octets_are_completed_by_the_wide_one() {
    let table_dump = |attributes: &[Vec<u8>]| {
        let attributes = attributes.concat();
        let mut body = vec![0, 0, 0, 1, 203, 0, 113, 0, 24, 1, 0, 0, 0, 2, 192, 0, 2, 1, 0xfb, 0xf4];
        body.extend((attributes.len() as u16).to_be_bytes());
        body.extend(attributes);
        record(12, 1, &body)
    };
    let narrow = attribute(2, &narrow_path(&[(SEQUENCE, &[64500, 23456, 23456])]));
    let wide = attribute(17, &path(&[(SEQUENCE, &[4_200_000_002, 4_200_000_003])]));
    let dump = table_dump(&[narrow.clone(), wide]);
    assert_eq!(found(&loaded(&dump, AsChoice::Origin).0, "203.0.113.1").map(|route| route.0), Some(4_200_000_003));
    assert_eq!(found(&loaded(&dump, AsChoice::Peer).0, "203.0.113.1").map(|route| route.0), Some(64500));
    let longer = attribute(17, &path(&[(SEQUENCE, &[1, 2, 3, 4])]));
    let dump = table_dump(&[narrow, longer]);
    assert_eq!(found(&loaded(&dump, AsChoice::Origin).0, "203.0.113.1").map(|route| route.0), Some(23456));
}

#[test]
fn damage_costs_the_record() {
    let good = |third| rib(2, &[192, 0, third], 24, &[entry(0, None, &[attribute(2, &path(&[(SEQUENCE, &[7])]))])]);
    let unknown_peer = rib(2, &[192, 0, 8], 24, &[entry(9, None, &[])]);
    let long_prefix = rib(2, &[192, 0, 8, 0, 0], 40, &[]);
    let long_attribute = rib(2, &[192, 0, 8], 24, &[entry(0, None, &[vec![0x40, 2, 200, 1]])]);
    let bad_path = rib(2, &[192, 0, 8], 24, &[entry(0, None, &[attribute(2, &[2, 200, 1])])]);
    let update = record(16, 4, &[1, 2, 3]);
    let parts = [peer_index_table(), good(1), unknown_peer, long_prefix, long_attribute, bad_path, update, good(2)];
    let (table, report) = loaded(&parts.concat(), AsChoice::Origin);
    assert_eq!((report.routes, report.skipped, report.defective), (2, 2, 4));
    assert_eq!(found(&table, "192.0.2.1").map(|route| route.0), Some(7));
    assert_eq!(found(&table, "192.0.8.1"), None);
    let what: Vec<_> = report.defects.iter().map(|defect| defect.what).collect();
    let expected = [
        "neighbour is not in the table",
        "prefix is longer than its address",
        "attribute is longer than its record",
        "path contradicts itself",
    ];
    assert_eq!(what, expected);
    let places: Vec<_> = report.defects.iter().map(|defect| defect.place as usize).collect();
    let lengths: Vec<_> = parts.iter().map(Vec::len).collect();
    assert_eq!(places[0], lengths[0] + lengths[1]);
}

#[test]
fn a_dump_may_end_anywhere() {
    let attributes = [attribute(2, &path(&[(SEQUENCE, &[7])])), attribute(3, &[192, 0, 2, 1])];
    let dump = [peer_index_table(), rib(2, &[192, 0, 1], 24, &[entry(0, None, &attributes)])].concat();
    for end in 12..dump.len() {
        let (_, report) = loaded(&dump[..end], AsChoice::Origin);
        assert_eq!(report.routes, 0, "{end} octets");
        assert_eq!(report.defective, u64::from(end != peer_index_table().len()), "{end} octets");
    }
    // Each length may be wrong.
    for place in 12..dump.len() {
        let mut damaged = dump.clone();
        damaged[place] ^= 0xff;
        loaded(&damaged, AsChoice::Origin);
    }
}
