use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use proptest::prelude::*;

use super::*;

/// An AS number, the bits of its prefix and next hops of an address, for comparison.
fn found(table: &RouteTable, address: &str) -> Option<(u32, u8)> {
    let route = table.find(address.parse().expect("an address"))?;
    Some((route.attributes.autonomous_system, route.prefix_bits))
}

/// The table of a file with these octets.
fn loaded(suffix: &str, octets: &[u8], choice: AsChoice) -> (RouteTable, LoadReport) {
    let mut file = tempfile::Builder::new().suffix(suffix).tempfile().expect("a file");
    file.write_all(octets).expect("octets");
    let mut builder = RouteTableBuilder::new(choice);
    let report = builder.load(file.path()).expect("routes");
    (builder.build().expect("a table"), report)
}

mod longest_prefixes {
    use super::*;

    /// Addresses near the edges of prefixes are more likely to go astray than any others.
    fn key_v4() -> impl Strategy<Value = u32> {
        prop_oneof![any::<u32>(), (0_u32..8, 0_u32..32).prop_map(|(value, shift)| value << shift), Just(u32::MAX)]
    }

    fn key_v6() -> impl Strategy<Value = u128> {
        prop_oneof![any::<u128>(), (0_u128..8, 0_u32..128).prop_map(|(value, shift)| value << shift), Just(u128::MAX)]
    }

    /// What a list of all prefixes says: of those that the address is in the longest, and of equal ones the last.
    fn naive<K: trie::Key>(prefixes: &[(K, u8)], key: K) -> Option<(u32, u8)> {
        let within = |(_, (prefix, bits)): &(usize, &(K, u8))| key.masked(*bits) == prefix.masked(*bits);
        let longest = prefixes.iter().enumerate().filter(within).max_by_key(|(number, (_, bits))| (*bits, *number))?;
        Some((longest.0 as u32, longest.1.1))
    }

    fn attributes(number: usize) -> Attributes {
        Attributes { autonomous_system: number as u32, ..Attributes::default() }
    }

    proptest! {
        #[test]
        fn of_ipv4_are_those_of_a_list(
            prefixes in prop::collection::vec((key_v4(), 0_u8..=32), 0..60),
            keys in prop::collection::vec(key_v4(), 20),
        ) {
            let mut builder = RouteTableBuilder::default();
            for (number, (key, bits)) in prefixes.iter().enumerate() {
                prop_assert!(builder.insert(Ipv4Addr::from_bits(*key).into(), *bits, attributes(number)));
            }
            let table = builder.build().expect("a table");
            for key in keys.iter().chain(prefixes.iter().map(|(key, _)| key)) {
                let route = table.find_v4(Ipv4Addr::from_bits(*key));
                let route = route.map(|route| (route.attributes.autonomous_system, route.prefix_bits));
                prop_assert_eq!(route, naive(&prefixes, *key), "{:?}", Ipv4Addr::from_bits(*key));
            }
        }

        #[test]
        fn of_ipv6_are_those_of_a_list(
            prefixes in prop::collection::vec((key_v6(), 0_u8..=128), 0..60),
            keys in prop::collection::vec(key_v6(), 20),
        ) {
            let mut builder = RouteTableBuilder::default();
            for (number, (key, bits)) in prefixes.iter().enumerate() {
                prop_assert!(builder.insert(Ipv6Addr::from_bits(*key).into(), *bits, attributes(number)));
            }
            let table = builder.build().expect("a table");
            for key in keys.iter().chain(prefixes.iter().map(|(key, _)| key)) {
                let route = table.find_v6(Ipv6Addr::from_bits(*key));
                let route = route.map(|route| (route.attributes.autonomous_system, route.prefix_bits));
                prop_assert_eq!(route, naive(&prefixes, *key), "{:?}", Ipv6Addr::from_bits(*key));
            }
        }
    }

    #[test]
    fn an_empty_table_has_no_routes() {
        assert_eq!(found(&RouteTable::default(), "192.0.2.1"), None);
        assert_eq!(found(&RouteTableBuilder::default().build().expect("a table"), "2001:db8::1"), None);
    }
}

mod lines {
    use super::*;

    const LINES: &[u8] = b"prefix,asn,next_hop\n\
        # a comment\n\
        192.0.2.0/24,64500,198.51.100.1,203.0.113.9\n\
        \n\
        192.0.2.128/25 AS64501\n\
        198.51.100.0\t24\t64502_64503\n\
        203.0.113.0\t24\t64504,64505\n\
        2001:db8::/32 , 4200000000 # of a documentation\n\
        192.0.2.0/33,1\n\
        192.0.2.0/x,1\n\
        192.0.2.300/24,1\n\
        192.0.2.0/24\n";

    #[test]
    fn of_each_form_are_read_and_bad_ones_told() {
        let (table, report) = loaded(".csv", LINES, AsChoice::Origin);
        assert_eq!(found(&table, "192.0.2.1"), Some((64500, 24)));
        assert_eq!(found(&table, "192.0.2.200"), Some((64501, 25)));
        assert_eq!(found(&table, "198.51.100.7"), Some((64502, 24)));
        assert_eq!(found(&table, "203.0.113.7"), Some((0, 24)), "a set tells no origin");
        assert_eq!(found(&table, "2001:db8::7"), Some((4_200_000_000, 32)));
        assert_eq!(found(&table, "::ffff:192.0.2.1"), Some((64500, 24)));
        assert_eq!((report.routes, report.skipped, report.defective), (5, 3, 4));
        let places: Vec<_> = report.defects.iter().map(|defect| (defect.place, defect.what)).collect();
        let expected = [
            (9, "prefix is longer than its address"),
            (10, "length of the prefix is no number"),
            (11, "prefix is no address"),
            (12, "autonomous system is missing"),
        ];
        assert_eq!(places, expected);
    }

    #[test]
    fn next_hops_are_kept() {
        let (table, _) = loaded(".csv", LINES, AsChoice::Origin);
        let route = table.find("192.0.2.1".parse().expect("an address")).expect("a route");
        let expected: [IpAddr; 2] = ["198.51.100.1", "203.0.113.9"].map(|hop| hop.parse().expect("an address"));
        assert_eq!([route.attributes.next_hop, route.attributes.bgp_next_hop], expected.map(Some));
    }

    #[test]
    fn files_are_decompressed() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(LINES).expect("octets");
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
        bzip2.write_all(LINES).expect("octets");
        let zstd = zstd::encode_all(LINES, 0).expect("octets");
        for octets in [gzip.finish().expect("octets"), bzip2.finish().expect("octets"), zstd] {
            assert_eq!(loaded("", &octets, AsChoice::Origin).1.routes, 5);
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_in_memory() {
        let octets = [&vec![b'1'; 100_000][..], b"\n192.0.2.0/24,7\n"].concat();
        let (table, report) = loaded("", &octets, AsChoice::Origin);
        assert_eq!((found(&table, "192.0.2.1"), report.defective, report.records), (Some((7, 24)), 1, 2));
    }
}

/// The databases that `blocks` has, written by another program, with what another one finds in them.
#[test]
fn databases_tell_what_others_find_in_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../blocks/src/enrich/golden");
    let expected = std::fs::read_to_string(folder.join("expected.csv")).expect("answers");
    let header: Vec<&str> = expected.lines().next().expect("names").split(',').collect();
    let mut builder = RouteTableBuilder::default();
    builder.load(&folder.join("asn.mmdb")).expect("a database");
    let table = builder.build().expect("a table");
    let column = header.iter().position(|name| *name == "asn").expect("the column of numbers");
    let mut compared = 0;
    for line in expected.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = found(&table, fields[0]).map(|(number, _)| number.to_string());
        assert_eq!(number.unwrap_or_default(), fields[column], "{line}");
        compared += 1;
    }
    assert!(compared > 10, "only {compared} addresses");
}

#[test]
fn a_database_of_something_else_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../blocks/src/enrich/golden");
    let error = RouteTableBuilder::default().load(&folder.join("country.mmdb"));
    assert!(matches!(error, Err(RoutingError::NoNumbers { .. })), "{error:?}");
}
