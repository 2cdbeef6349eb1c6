use std::fmt::Write as _;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;

fn set(entries: &[&str]) -> AddressSet {
    entries.iter().map(|entry| Prefix::parse(entry).expect("a prefix")).collect()
}

fn holds(set: &AddressSet, address: &str) -> bool {
    weir_flow::address::with_octets(address.parse().expect("an address"), |octets| set.contains(octets))
}

#[test]
fn the_wider_of_two_entries_stays_in_any_order() {
    for entries in [["10.0.0.1", "10.0.0.0/8"], ["10.0.0.0/8", "10.0.0.1"]] {
        let set = set(&entries);
        assert!(holds(&set, "10.255.255.255") && holds(&set, "10.0.0.0"), "{entries:?}");
        assert!(!holds(&set, "11.0.0.0") && !holds(&set, "9.255.255.255"));
        assert_eq!(set.ranges_v4(), [(0x0a00_0000, 0x0aff_ffff)]);
    }
}

#[test]
fn a_prefix_of_no_bits_takes_a_family() {
    let v4 = set(&["1.2.3.4/0"]);
    assert!(holds(&v4, "0.0.0.0") && holds(&v4, "255.255.255.255") && !holds(&v4, "::"));
    let v6 = set(&["2001:db8::/0"]);
    assert!(holds(&v6, "::") && holds(&v6, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") && !holds(&v6, "1.2.3.4"));
    assert_eq!(v6.prefixes().map(|prefix| prefix.to_string()).collect::<Vec<_>>(), ["::/0"]);
    assert!(!v6.contains(&[0; 5]) && !v6.contains(&[]));
}

#[test]
fn neighbours_merge_into_the_fewest_prefixes() {
    let set = set(&["10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/32", "2001:db8::/33", "2001:db8:8000::/33"]);
    let prefixes: Vec<String> = set.prefixes().map(|prefix| prefix.to_string()).collect();
    assert_eq!(prefixes, ["10.0.0.0/24", "10.0.1.0", "2001:db8::/32"]);
}

#[test]
fn prefixes_that_are_none() {
    for text in ["", "10.0.0.1/33", "::/129", "10.0.0.1/", "10.0.0.1/-1", "10.0.0.1/+8", "10.0.0.1/8/8", "host", "10.0"]
    {
        assert_eq!(Prefix::parse(text), None, "{text}");
    }
}

#[test]
fn a_file_is_read_line_by_line() {
    let text = "# list\n192.0.2.1\n\n  198.51.100.0/24 # with a comment\r\n2001:db8::/32";
    let set = AddressSet::from_text_file(text.as_bytes()).expect("a list");
    assert!(holds(&set, "192.0.2.1") && holds(&set, "198.51.100.200") && holds(&set, "2001:db8::1"));
    let error = AddressSet::from_text_file("192.0.2.1\nexample.net\n".as_bytes()).expect_err("a name");
    assert_eq!(error.to_string(), "line 2 of the address list is neither an address nor a prefix: 'example.net'");
    let error = AddressSet::from_text_file(b"\xff\xfe".as_slice()).expect_err("not text");
    assert!(matches!(error, AddressFileError::Read { line: 1, .. }));
}

#[test]
fn a_million_addresses() {
    let mut text = String::new();
    // Steps of a number prime to 2^32: a million different addresses, no two of them neighbours.
    for i in 0..1_000_000_u32 {
        let _ = writeln!(text, "{}", Ipv4Addr::from_bits(i.wrapping_mul(2_654_435_761)));
    }
    let set = AddressSet::from_text_file(text.as_bytes()).expect("a list");
    assert_eq!(set.ranges_v4().len(), 1_000_000);
    for i in (0..1_000_000_u32).step_by(997) {
        let address = i.wrapping_mul(2_654_435_761);
        assert!(set.contains_v4(address));
        assert_eq!(set.contains_v4(address.wrapping_add(1)), lies_in(set.ranges_v4(), address.wrapping_add(1)));
    }
}

/// Prefixes in a corner of each family, so that they meet often.
fn prefix() -> impl Strategy<Value = Prefix> {
    let v4 = (0..1024_u32, 20..=32_u8)
        .prop_map(|(low, length)| Prefix::new(Ipv4Addr::from_bits(0xffff_fc00 | low).into(), length));
    let v6 =
        (0..1024_u128, 116..=128_u8).prop_map(|(low, length)| Prefix::new(Ipv6Addr::from_bits(low).into(), length));
    prop_oneof![v4, v6].prop_map(|prefix| prefix.expect("the lengths fit"))
}

proptest! {
    #[test]
    fn a_set_is_what_a_list_would_be(prefixes in prop::collection::vec(prefix(), 0..20), low in 0..2048_u32) {
        let set: AddressSet = prefixes.iter().copied().collect();
        let v4 = Ipv4Addr::from_bits(0xffff_f800 | low);
        let v6 = Ipv6Addr::from_bits(low.into());
        let in_list = |address: IpAddr| prefixes.iter().any(|p| Prefix::new(address, p.length()).is_some_and(|cut| {
            cut.address() == p.address() && address.is_ipv4() == p.address().is_ipv4()
        }));
        prop_assert_eq!(set.contains(&v4.octets()), in_list(v4.into()));
        prop_assert_eq!(set.contains(&v6.octets()), in_list(v6.into()));
        prop_assert_eq!(set.prefixes().collect::<AddressSet>(), set);
    }

    #[test]
    fn the_index_changes_nothing(seeds in prop::collection::vec(any::<(u32, u16)>(), 1500..1600), probes in prop::collection::vec(any::<u32>(), 50)) {
        let ranges: Vec<(u32, u32)> = seeds.iter().map(|(first, more)| (*first, first.saturating_add((*more).into()))).collect();
        let set = AddressSet::from_ranges(ranges.clone(), vec![]);
        let edges = ranges.iter().take(50).flat_map(|(first, last)| [first.wrapping_sub(1), *first, *last, last.wrapping_add(1)]);
        for address in probes.into_iter().chain(edges) {
            let in_list = ranges.iter().any(|(first, last)| (*first..=*last).contains(&address));
            prop_assert_eq!(set.contains_v4(address), in_list, "{}", address);
        }
    }

    #[test]
    fn nor_does_that_of_ipv6(
        seeds in prop::collection::vec((0..3_u8, any::<u64>(), any::<u8>()), 60..300),
        probes in prop::collection::vec(any::<u128>(), 20),
    ) {
        // Crowded at both ends of some networks, with others far away.
        let place = |(network, low, _): &(u8, u64, u8)| match network {
            0 => u128::from(low % 4096) + (0x2001_0db8 << 96),
            1 => u128::from(*low) + (0x2a00_0001 << 96),
            _ => u128::from(*low) << 64,
        };
        let ranges: Vec<(u128, u128)> = seeds.iter().map(|seed| (place(seed), place(seed).saturating_add(seed.2.into()))).collect();
        let set = AddressSet::from_ranges(vec![], ranges.clone());
        let edges = ranges.iter().flat_map(|(first, last)| [first.wrapping_sub(1), *first, *last, last.wrapping_add(1)]);
        for address in probes.into_iter().chain(edges) {
            let in_list = ranges.iter().any(|(first, last)| (*first..=*last).contains(&address));
            prop_assert_eq!(set.contains(&address.to_be_bytes()), in_list, "{:x}", address);
        }
    }
}

/// Many neighbours: a hash excludes most other addresses.
#[test]
fn sets_of_neighbours_hold_what_they_were_made_of() {
    for count in [9_u32, 100, 1_023, 1_024, 1_025] {
        let own = |number: u32| 0x0A00_0000 + number * 3;
        let ranges = (0..count).map(|number| (own(number), own(number))).collect();
        let set = AddressSet::from_ranges(ranges, Vec::new());
        assert_eq!(set.v4_probe().is_some(), count <= 1_024);
        for number in 0..count * 3 + 50 {
            let address = 0x0A00_0000 + number;
            assert_eq!(
                set.contains(&address.to_be_bytes()),
                number % 3 == 0 && number < count * 3,
                "{count}: {number}"
            );
        }
    }
    let ruled_out =
        |set: &AddressSet| (0..100_000).filter(|address| !set.v4_probe().expect("one").may_contain(*address)).count();
    let hundred = AddressSet::from_ranges(
        (0..100).map(|number| (0x5000_0000 + number * 7, 0x5000_0000 + number * 7)).collect(),
        Vec::new(),
    );
    assert!(ruled_out(&hundred) > 99_000);
}
