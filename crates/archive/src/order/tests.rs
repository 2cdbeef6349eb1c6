use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::BinaryArray;
use proptest::prelude::*;

use super::*;

/// Rows of pages as the module's documentation tells them: every half is made by sorting all of it.
fn pages_of_boxes(mut rows: Vec<Key>, boundaries: &[usize], at: usize, depth: usize, pages: &mut Vec<Vec<Key>>) {
    let Some(&middle) = boundaries.get(boundaries.len() / 2) else {
        pages.push(rows);
        return;
    };
    rows.sort_by_key(|key| {
        let [service, other] = key.addresses;
        if depth.is_multiple_of(2) { (service, other, key.row) } else { (other, service, key.row) }
    });
    let after = rows.split_off(middle - at);
    let (left, right) = boundaries.split_at(boundaries.len() / 2);
    pages_of_boxes(rows, left, at, depth + 1, pages);
    pages_of_boxes(after, &right[1..], middle, depth + 1, pages);
}

fn rows_of(keys: &[Key]) -> BTreeSet<u32> {
    keys.iter().map(|key| key.row).collect()
}

/// Octets that are an address of IPv4, of IPv6 or none, with few values of each.
fn octets() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(0u8..3, 4),
        (proptest::collection::vec(0u8..2, 3), 0u8..2, 0u8..3).prop_map(|(first, sixth, last)| [
            &first[..],
            &[0, 0, sixth],
            &[0; 9],
            &[last]
        ]
        .concat()),
        proptest::collection::vec(0u8..3, 0..6),
    ]
}

proptest! {
    #[test]
    fn services_are_cut_into_boxes_of_whole_pages(
        rows in proptest::collection::vec((0u32..4, 0u32..9, 0u32..9), 0..200),
        page_rows in 1usize..20,
    ) {
        let keys = rows.iter().zip(0..).map(|(&(class, service, other), row)| Key { class, addresses: [service, other], row });
        let all: Vec<Key> = keys.clone().collect();
        let networks: Vec<u32> = (0..9).map(|host| host / 4).collect();
        let classes = all.iter().map(|key| key.class).collect();
        let hosts = [0, 1].map(|side| all.iter().map(|key| key.addresses[side ^ (key.class & 1) as usize]).collect());
        let sorted: Vec<Key> =
            sort(classes, &hosts, &networks, page_rows).into_iter().map(|row| all[row as usize]).collect();
        prop_assert_eq!(rows_of(&sorted), (0..rows.len() as u32).collect::<BTreeSet<_>>());
        let mut at = 0;
        for class in 0..4 {
            let service: Vec<Key> = keys.clone().filter(|key| key.class == class).collect();
            let end = at + service.len();
            let boundaries: Vec<usize> = (at + 1..end).filter(|row| row % page_rows == 0).collect();
            let mut pages = Vec::new();
            pages_of_boxes(service, &boundaries, at, 0, &mut pages);
            for page in pages {
                // the ends of a service share pages with others, and are ordered together with them
                let first = at / page_rows * page_rows;
                let found = &sorted[first..(first + page_rows).min(sorted.len())];
                prop_assert!(rows_of(&page).is_subset(&rows_of(found)));
                at += page.len();
            }
        }
        for page in sorted.chunks(page_rows) {
            let order = |key: &Key| {
                let [src, dst] = if key.class & 1 == 1 { [key.addresses[1], key.addresses[0]] } else { key.addresses };
                (src / 4, dst, key.row)
            };
            prop_assert!(page.is_sorted_by_key(order));
        }
    }

    #[test]
    fn numbers_of_hosts_order_like_their_addresses(
        addresses in proptest::collection::vec(proptest::option::of(octets()), 0..60),
    ) {
        let values: ArrayRef = Arc::new(addresses.iter().collect::<BinaryArray>());
        let mut collector = HostCollector::new();
        let mut numbers = Vec::new();
        collector.add(&values, |number| numbers.push(number));
        let (hosts, ranks) = collector.finish();
        let rank = |row: usize| ranks[numbers[row] as usize];
        let family = |address: &Option<Vec<u8>>| address.as_ref().map(|octets| match octets.len() {
            4 => 0,
            16 => 1,
            _ => 2,
        });
        for (a, one) in addresses.iter().enumerate() {
            prop_assert!((rank(a) as usize) < hosts.numbers());
            for (b, other) in addresses.iter().enumerate() {
                prop_assert_eq!(rank(a).cmp(&rank(b)), (family(one), one).cmp(&(family(other), other)));
            }
        }
        prop_assert_eq!(hosts.networks().len(), hosts.numbers());
        prop_assert!(hosts.networks().is_sorted());
    }
}
