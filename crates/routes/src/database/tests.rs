use std::net::IpAddr;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::database_file::{MmdbFile, Value};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn autonomous_systems(file: &Path) -> Result<PrefixMap<u32>, DatabaseError> {
    Database::open(file)?.autonomous_systems()
}

fn countries(file: &Path) -> Result<PrefixMap<String>, DatabaseError> {
    Database::open(file)?.countries()
}

/// First octets as a number, bits, and a value; the octets of IPv4 are the highest ones of the number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prefix {
    first: u128,
    bits: u8,
    value: u32,
}

/// What another implementation finds: address, autonomous system, country, and both of the `IPinfo` file.
fn expected() -> Vec<[String; 5]> {
    let text = std::fs::read_to_string(golden("expected.csv")).expect("expected values");
    let fields = |line: &str| -> Vec<String> { line.split(',').map(str::to_owned).collect() };
    text.lines().skip(1).map(|line| fields(line).try_into().expect("five fields")).collect()
}

fn text<V: ToString>(found: Option<&V>) -> String {
    found.map(V::to_string).unwrap_or_default()
}

#[test]
fn databases_of_another_writer_are_read_as_another_reader_reads_them() {
    let asn = autonomous_systems(&golden("asn.mmdb")).expect("a database");
    let geo = countries(&golden("country.mmdb")).expect("a database");
    let ipinfo_asn = autonomous_systems(&golden("ipinfo.mmdb")).expect("a database");
    let ipinfo_geo = countries(&golden("ipinfo.mmdb")).expect("a database");
    for [address, as_number, country, ipinfo_as_number, ipinfo_country] in expected() {
        let ip: IpAddr = address.parse().expect("an address");
        assert_eq!(text(asn.find(ip)), as_number, "autonomous system of {address}");
        assert_eq!(text(geo.find(ip)), country, "country of {address}");
        assert_eq!(text(ipinfo_asn.find(ip)), ipinfo_as_number, "autonomous system of {address}");
        assert_eq!(text(ipinfo_geo.find(ip)), ipinfo_country, "country of {address}");
    }
}

/// Prefixes of one family, shorter ones first and none twice.
fn prefixes(width: u8) -> impl Strategy<Value = Vec<Prefix>> {
    let pattern = prop_oneof![Just(u128::MAX), Just(0x2001_0db8 << 96), any::<u128>()];
    let prefix = (pattern, 1..=width, 0..9u32).prop_map(|(pattern, bits, value)| {
        let behind = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
        Prefix { first: pattern & !behind, bits, value }
    });
    proptest::collection::vec(prefix, 1..10).prop_map(|mut prefixes| {
        prefixes.sort_by_key(|prefix| (prefix.bits, prefix.first));
        prefixes.dedup_by_key(|prefix| (prefix.bits, prefix.first));
        prefixes
    })
}

fn as_database(v4: &[Prefix], v6: &[Prefix], ip_version: u16, record_bits: u16) -> Vec<u8> {
    let mut file = MmdbFile::new(ip_version, record_bits);
    let entry = |number| Value::Map(vec![("autonomous_system_number", Value::U32(number))]);
    let values: Vec<usize> = (0..9).map(|number| file.value(&entry(number * 70_000))).collect();
    // a shorter prefix of IPv6 must not come after a longer one of IPv4, which lies in ::/96
    let mut all: Vec<(u8, bool, &Prefix)> = v4.iter().map(|prefix| (prefix.bits + 96, true, prefix)).collect();
    all.extend(v6.iter().map(|prefix| (prefix.bits, false, prefix)));
    all.sort_by_key(|(bits, ..)| *bits);
    for (_, is_v4, prefix) in all {
        file.insert(is_v4, prefix.first, prefix.bits, values[prefix.value as usize]);
    }
    file.octets()
}

fn loaded(octets: &[u8]) -> Result<PrefixMap<u32>, DatabaseError> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), octets).expect("written");
    autonomous_systems(file.path())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_address_is_found_as_in_the_tree(
        v4 in prefixes(32),
        v6 in prefixes(128),
        layout in (prop_oneof![Just(4u16), Just(6)], prop_oneof![Just(24u16), Just(28), Just(32)]),
        others: Vec<u128>,
    ) {
        let (ip_version, record_bits) = layout;
        let v6 = if ip_version == 6 { v6 } else { Vec::new() };
        let octets = as_database(&v4, &v6, ip_version, record_bits);
        let map = loaded(&octets).expect("a database");
        let reader = maxminddb::Reader::from_source(octets).expect("a database");
        let near = v4.iter().chain(&v6).flat_map(|prefix| {
            let last = prefix.first | u128::MAX.checked_shr(u32::from(prefix.bits)).unwrap_or(0);
            [prefix.first, last, prefix.first.wrapping_sub(1 << 96), last.wrapping_add(1)]
        });
        for bits in near.chain(others) {
            let v4 = IpAddr::from(((bits >> 96) as u32).to_be_bytes());
            let v6 = IpAddr::from(bits.to_be_bytes());
            // the tree of IPv4 is found at ::/96 too, which is no place of addresses
            let is_v6 = ip_version == 6 && bits >> 32 != 0 && bits >> 32 != 0xffff;
            for address in [Some(v4), is_v6.then_some(v6)].into_iter().flatten() {
                let found = reader.lookup(address).expect("a lookup");
                let expected: Option<u32> = found.decode_path(&maxminddb::path!["autonomous_system_number"]).expect("a number");
                prop_assert_eq!(map.find(address).copied(), expected, "{}", address);
            }
        }
    }

    #[test]
    fn a_damaged_database_is_an_error_or_a_table_and_never_a_panic(
        place: prop::sample::Index,
        octet: u8,
        cut: prop::sample::Index,
        is_cut: bool,
    ) {
        let mut octets = std::fs::read(golden("asn.mmdb")).expect("a database");
        if is_cut {
            octets.truncate(cut.index(octets.len()));
            prop_assert!(loaded(&octets).is_err());
        } else {
            let place = place.index(octets.len());
            octets[place] = octet;
            let _ = loaded(&octets);
        }
    }
}

#[test]
fn a_prefix_of_ipv6_that_holds_the_place_of_ipv4_holds_all_of_it() {
    for bits in [1, 96] {
        let whole = Prefix { first: 0, bits, value: 3 };
        let map = loaded(&as_database(&[], &[whole], 6, 24)).expect("a database");
        assert_eq!(map.find_octets(&[1, 2, 3, 4]), Some(&210_000), "::/{bits}");
        assert_eq!(map.find("8000::".parse().expect("an address")), None);
    }
}

/// An error and its causes.
fn error_of<V: std::fmt::Debug>(result: Result<PrefixMap<V>, DatabaseError>) -> String {
    let error = result.expect_err("an error");
    let causes = std::iter::successors(std::error::Error::source(&error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[test]
fn what_is_wrong_with_a_database_is_reported() {
    let absent = error_of(autonomous_systems(Path::new("/nowhere/asn.mmdb")));
    assert_eq!(absent, "database /nowhere/asn.mmdb cannot be read: No such file or directory (os error 2)");
    let no_numbers = error_of(autonomous_systems(&golden("country.mmdb")));
    let expected = "of type 'GeoLite2-Country' has no autonomous system numbers";
    assert!(no_numbers.ends_with(expected), "{no_numbers}");
    let no_codes = error_of(countries(&golden("asn.mmdb")));
    assert!(no_codes.ends_with("of type 'GeoLite2-ASN' has no country codes"), "{no_codes}");
    let text = error_of(loaded(b"this is no database"));
    assert!(text.contains("cannot be read: invalid database"), "{text}");
}

/// A tree whose nodes lead to themselves.
#[test]
fn a_tree_without_end_is_an_error() {
    let mut file = MmdbFile::new(4, 32);
    let value = file.value(&Value::Map(vec![("autonomous_system_number", Value::U32(1))]));
    file.insert(true, 0, 2, value);
    let mut octets = file.octets();
    octets[4..8].copy_from_slice(&0u32.to_be_bytes());
    let error = error_of(loaded(&octets));
    assert!(error.contains("cycle"), "{error}");
}
