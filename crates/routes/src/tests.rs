use std::collections::HashMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use proptest::prelude::*;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::prefix_table::FEW_PREFIXES;
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

    /// What is found of addresses that are looked up together.
    fn found_together(table: &RouteTable, addresses: impl Iterator<Item = IpAddr>) -> Vec<Option<(u32, u8)>> {
        let mut lookups = Lookups::default();
        // what was asked before must not be seen
        lookups.find(table, [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into_iter());
        lookups.find(table, addresses);
        let told = |route: Option<Route>| route.map(|route| (route.attributes.autonomous_system, route.prefix_bits));
        lookups.routes(table).map(told).collect()
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
            let expected: Vec<_> = keys.iter().map(|key| naive(&prefixes, *key)).collect();
            let addresses = keys.iter().map(|key| Ipv4Addr::from_bits(*key).into());
            prop_assert_eq!(found_together(&table, addresses), expected);
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
            let expected: Vec<_> = keys.iter().map(|key| naive(&prefixes, *key)).collect();
            let addresses = keys.iter().map(|key| Ipv6Addr::from_bits(*key).into());
            prop_assert_eq!(found_together(&table, addresses), expected);
        }
    }

    /// Prefixes of a large table, so close together that many lie in others, and with some that everything lies in.
    fn many<K: trie::Key>(bits_max: u8, key: impl Fn(&mut Xoshiro256PlusPlus) -> K) -> Vec<(K, u8)> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut prefixes = vec![(key(&mut random), 0), (key(&mut random), 2)];
        prefixes.extend(
            (0..3 * FEW_PREFIXES).map(|_| (key(&mut random), 3 + (random.next_u32() % 126) as u8 % (bits_max - 2))),
        );
        prefixes
    }

    /// The same as [`naive`], from a table for each length.
    fn by_length<K: trie::Key + std::hash::Hash>(
        prefixes: &[(K, u8)],
        bits_max: u8,
    ) -> impl Fn(K) -> Option<(u32, u8)> + use<K> {
        let last: HashMap<(u8, K), usize> =
            prefixes.iter().enumerate().map(|(number, (key, bits))| ((*bits, key.masked(*bits)), number)).collect();
        move |key| (0..=bits_max).rev().find_map(|bits| Some((*last.get(&(bits, key.masked(bits)))? as u32, bits)))
    }

    /// Large tables have wide tops, and addresses of both families come mixed.
    #[test]
    fn of_large_tables_are_those_of_a_list() {
        let near = |random: &mut Xoshiro256PlusPlus| random.next_u32() & random.next_u32() & 0x0fff_3f3f | 0x0a00_0000;
        let wide = |random: &mut Xoshiro256PlusPlus| {
            let high = if random.next_u32().is_multiple_of(8) { random.next_u64() } else { 0x2001_0db8 << 32 };
            let low = u128::from(random.next_u64() & random.next_u64());
            u128::from(high | u64::from(random.next_u32() & random.next_u32())) << 64 | low
        };
        let (v4, v6) = (many(32, near), many(128, wide));
        let mut builder = RouteTableBuilder::default();
        for (number, (key, bits)) in v4.iter().enumerate() {
            assert!(builder.insert(Ipv4Addr::from_bits(*key).into(), *bits, attributes(number)));
        }
        for (number, (key, bits)) in v6.iter().enumerate() {
            assert!(builder.insert(Ipv6Addr::from_bits(*key).into(), *bits, attributes(number)));
        }
        let table = builder.build().expect("a table");
        assert!(table.prefixes().iter().all(|prefixes| *prefixes > FEW_PREFIXES), "{:?}", table.prefixes());
        let (expected_v4, expected_v6) = (by_length(&v4, 32), by_length(&v6, 128));
        let few = by_length(&v6[..100], 128);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(12);
        let (mut addresses, mut expected) = (Vec::<IpAddr>::new(), Vec::new());
        for number in 0..20_000 {
            if random.next_u32().is_multiple_of(3) {
                let key = if number % 2 == 0 { wide(&mut random) } else { v6[number % v6.len()].0 };
                addresses.push(Ipv6Addr::from_bits(key).into());
                expected.push(expected_v6(key));
                assert_eq!(naive(&v6[..100], key), few(key), "one list says what the other one says");
            } else {
                let key = if number % 2 == 0 { near(&mut random) } else { v4[number % v4.len()].0 };
                addresses.push(Ipv4Addr::from_bits(key).into());
                expected.push(expected_v4(key));
            }
        }
        let lengths: std::collections::BTreeSet<_> = expected.iter().flatten().map(|(_, bits)| bits).collect();
        assert!(lengths.len() > 60, "{lengths:?}");
        assert_eq!(found_together(&table, addresses.iter().copied()), expected);
        for (address, expected) in addresses.iter().zip(expected) {
            assert_eq!(found(&table, &address.to_string()), expected, "{address}");
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
    fn of_each_form_are_read_and_bad_ones_reported() {
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

    /// The lines of pmacct's own example, and an IPv6 one.
    #[test]
    fn of_pmacct_have_the_prefix_last() {
        const LINES: &[u8] = b"!\n! <origin AS number>','<Network>'/'<numeric mask> examples\n!\n\
            65500,192.168.1.0/24\n64512_65501,192.168.2.0/25\n10.0.0.3,64513_65502,192.168.4.0/23\n\
            2001:db8::1, 65503, 2001:db8::/32\n1_2_3,192.0.2.0/24\nhere,65504,192.0.2.0/24\n";
        let (table, report) = loaded("", LINES, AsChoice::Origin);
        assert_eq!((report.routes, report.defective), (4, 2), "{report:?}");
        assert_eq!(found(&table, "192.168.1.7"), Some((65500, 24)));
        assert_eq!(found(&table, "192.168.2.7"), Some((65501, 25)));
        assert_eq!(found(&table, "2001:db8::7"), Some((65503, 32)));
        let hop = table.find("192.168.5.1".parse().expect("an address")).expect("a route").attributes.bgp_next_hop;
        assert_eq!(hop, Some(Ipv4Addr::new(10, 0, 0, 3).into()));
        let (table, _) = loaded("", LINES, AsChoice::Peer);
        assert_eq!(
            ["192.168.1.7", "192.168.2.7", "192.168.4.7"].map(|address| found(&table, address)),
            [Some((65500, 24)), Some((64512, 25)), Some((64513, 23))]
        );
    }

    #[test]
    fn what_comes_before_the_end_of_a_broken_download_is_taken() {
        let lines: Vec<u8> = (0..40_000_u32)
            .flat_map(|number| format!("10.{}.{}.0/24,{}\n", number >> 8, number & 255, 7 * number).into_bytes())
            .collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&lines).expect("octets");
        let octets = gzip.finish().expect("octets");
        let (table, report) = loaded("", &octets[..octets.len() / 2], AsChoice::Origin);
        assert!(report.is_cut && report.routes > 1_000 && report.routes < 30_000, "{report:?}");
        assert_eq!(found(&table, "10.0.5.1"), Some((35, 24)));
        assert!(!loaded("", &octets, AsChoice::Origin).1.is_cut);
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_in_memory() {
        let octets = [&vec![b'1'; 100_000][..], b"\n192.0.2.0/24,7\n"].concat();
        let (table, report) = loaded("", &octets, AsChoice::Origin);
        assert_eq!((found(&table, "192.0.2.1"), report.defective, report.records), (Some((7, 24)), 1, 2));
    }
}

/// Databases written by another program, with what another one finds in them.
#[test]
fn databases_have_what_others_find_in_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
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

/// A database is one whatever its name is.
#[test]
fn databases_are_recognized_by_their_content() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let octets = std::fs::read(folder.join("asn.mmdb")).expect("a database");
    let (table, report) = loaded(".dat", &octets, AsChoice::Origin);
    let mut builder = RouteTableBuilder::default();
    assert_eq!(builder.load(&folder.join("asn.mmdb")).expect("a database"), report);
    assert_eq!(builder.build().expect("a table").prefixes(), table.prefixes());
}

#[test]
fn more_prefixes_than_a_table_holds_are_an_error() {
    let mut builder = RouteTableBuilder::default();
    builder.prefixes.prefixes_max = 2;
    for bits in 1..3 {
        assert!(builder.insert(Ipv4Addr::UNSPECIFIED.into(), bits, Attributes::default()));
    }
    assert!(builder.insert(Ipv6Addr::UNSPECIFIED.into(), 1, Attributes::default()));
    assert!(matches!(builder.build(), Err(RoutingError::TooMany(_))));
}

#[test]
fn a_table_is_replaced_for_all_who_share_it() {
    let table = |system| loaded("", format!("192.0.2.0/24,{system}\n").as_bytes(), AsChoice::Origin).0;
    let routes = SharedRouteTable::new(table(1));
    let (other, before) = (routes.clone(), routes.current());
    other.replace(table(2));
    assert_eq!(found(&before, "192.0.2.1"), Some((1, 24)), "who has a table keeps it");
    assert_eq!(found(&routes.current(), "192.0.2.1"), Some((2, 24)));
    assert_eq!(routes, other);
    assert_ne!(routes, SharedRouteTable::new(table(2)));
}

#[test]
fn a_database_of_something_else_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden");
    let error = RouteTableBuilder::default().load(&folder.join("country.mmdb"));
    assert!(matches!(error, Err(RoutingError::Database(DatabaseError::NoValues { .. }))), "{error:?}");
}
