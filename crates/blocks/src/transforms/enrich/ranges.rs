//! The longest prefix that holds an address, found in sorted ranges.
//!
//! Prefixes that lie in each other are laid flat when a table is loaded: the address space becomes ranges that do not
//! overlap, each with the value of the longest prefix there. Finding is then one binary search in a column of numbers,
//! started for IPv4 by the first 16 bits. What speaks against it is that a table is made anew as a whole when its file
//! changes; files change daily, addresses come by the million.

/// Says that no prefix holds an address.
pub(super) const NONE: u32 = u32::MAX;

/// A prefix and what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    /// The address, from the first bit on: IPv4 in the upper 32 bits. Bits behind the length are zero.
    pub(super) first: u128,
    pub(super) bits: u8,
    pub(super) value: u32,
}

/// Values of all addresses of both families.
#[derive(Debug)]
pub(super) struct Ranges {
    v4_starts: Vec<u32>,
    v4_values: Vec<u32>,
    /// For each 16 bits, the range that their first address is in; one entry more at the end.
    v4_index: Vec<u32>,
    v6_starts: Vec<u128>,
    v6_values: Vec<u32>,
}

impl Ranges {
    /// Lays prefixes flat. Of two equal prefixes the later one counts.
    pub(super) fn new(v4: Vec<Prefix>, v6: Vec<Prefix>) -> Self {
        let (v4_starts, v4_values): (Vec<_>, Vec<_>) =
            flat(v4).into_iter().map(|(start, value)| ((start >> 96) as u32, value)).unzip();
        let (v6_starts, v6_values) = flat(v6).into_iter().unzip();
        let index = |upper: u32| v4_starts.partition_point(|&start| start <= upper << 16) as u32 - 1;
        let v4_index = (0..1 << 16).map(index).chain([v4_starts.len() as u32 - 1]).collect();
        Self { v4_starts, v4_values, v4_index, v6_starts, v6_values }
    }

    /// The value of an address of 4 or 16 octets, [`NONE`] when there is none. An IPv4 address mapped into IPv6 has the
    /// value of the IPv4 address.
    #[inline]
    pub(super) fn find(&self, octets: &[u8]) -> u32 {
        if let Ok(v4) = <[u8; 4]>::try_from(octets) {
            return self.find_v4(u32::from_be_bytes(v4));
        }
        match <[u8; 16]>::try_from(octets).map(u128::from_be_bytes) {
            Ok(v6) if v6 >> 32 == 0xffff => self.find_v4(v6 as u32),
            Ok(v6) => self.v6_values[self.v6_starts.partition_point(|&start| start <= v6) - 1],
            Err(_) => NONE,
        }
    }

    #[inline]
    fn find_v4(&self, address: u32) -> u32 {
        let upper = (address >> 16) as usize;
        let (from, to) = (self.v4_index[upper] as usize, self.v4_index[upper + 1] as usize);
        let after = self.v4_starts[from..=to].partition_point(|&start| start <= address);
        self.v4_values[from + after - 1]
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        let v4 = size_of_val(&self.v4_starts[..]) + size_of_val(&self.v4_values[..]) + size_of_val(&self.v4_index[..]);
        v4 + size_of_val(&self.v6_starts[..]) + size_of_val(&self.v6_values[..])
    }
}

/// Starts of ranges with their values; the first starts at 0, and each goes on to the next.
fn flat(mut prefixes: Vec<Prefix>) -> Vec<(u128, u32)> {
    // stable, so that the later of two equal prefixes stays the later one
    prefixes.sort_by_key(|prefix| (prefix.first, prefix.bits));
    let mut ranges = vec![(0, NONE)];
    let mut open: Vec<(u128, u32)> = Vec::new();
    for prefix in prefixes {
        close(&mut ranges, &mut open, Some(prefix.first));
        let last = prefix.first | u128::MAX.checked_shr(u32::from(prefix.bits)).unwrap_or(0);
        open.push((last, prefix.value));
        begin(&mut ranges, prefix.first, prefix.value);
    }
    close(&mut ranges, &mut open, None);
    ranges.dedup_by_key(|(_, value)| *value);
    ranges
}

/// Ends the prefixes that lie wholly before an address, or all: behind each goes on what it lies in.
fn close(ranges: &mut Vec<(u128, u32)>, open: &mut Vec<(u128, u32)>, before: Option<u128>) {
    while let Some(&(last, _)) = open.last() {
        if before.is_some_and(|before| last >= before) {
            break;
        }
        open.pop();
        let around = open.last().map_or(NONE, |&(_, value)| value);
        if let Some(next) = last.checked_add(1) {
            begin(ranges, next, around);
        }
    }
}

fn begin(ranges: &mut Vec<(u128, u32)>, start: u128, value: u32) {
    match ranges.last_mut() {
        Some(last) if last.0 == start => last.1 = value,
        _ => ranges.push((start, value)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition: of all prefixes that hold the address the longest, the last one given.
    fn naive(prefixes: &[Prefix], address: u128) -> u32 {
        let holds = |prefix: &&Prefix| {
            let behind = u128::MAX.checked_shr(u32::from(prefix.bits)).unwrap_or(0);
            (address ^ prefix.first) & !behind == 0
        };
        prefixes.iter().filter(holds).max_by_key(|prefix| prefix.bits).map_or(NONE, |prefix| prefix.value)
    }

    /// Prefixes that often lie in each other: their bits come from few patterns.
    fn prefixes(width: u8) -> impl Strategy<Value = Vec<Prefix>> {
        let pattern = prop_oneof![Just(0), Just(u128::MAX), Just(0x0a01 << 112), any::<u128>()];
        let prefix = (pattern, 0..=width, 0..5u32).prop_map(|(pattern, bits, value)| {
            let behind = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
            Prefix { first: pattern & !behind, bits, value }
        });
        proptest::collection::vec(prefix, 0..12)
    }

    /// Addresses at and beside the ends of prefixes, where mistakes would be.
    fn edges(prefixes: &[Prefix]) -> Vec<u128> {
        let ends = prefixes.iter().flat_map(|prefix| {
            let last = prefix.first | u128::MAX.checked_shr(u32::from(prefix.bits)).unwrap_or(0);
            let step = 1 << 96;
            [prefix.first, last, prefix.first.wrapping_sub(1), last.wrapping_add(1), last.wrapping_add(step)]
        });
        ends.chain([0, u128::MAX]).collect()
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(v4 in prefixes(32), v6 in prefixes(128), others: Vec<u128>) {
            let ranges = Ranges::new(v4.clone(), v6.clone());
            for address in edges(&v4).into_iter().chain(others.clone()) {
                let address = address >> 96 << 96;
                prop_assert_eq!(ranges.find(&((address >> 96) as u32).to_be_bytes()), naive(&v4, address));
                let mapped = 0xffff << 32 | address >> 96;
                prop_assert_eq!(ranges.find(&mapped.to_be_bytes()), naive(&v4, address));
            }
            for address in edges(&v6).into_iter().chain(others).filter(|address| address >> 32 != 0xffff) {
                prop_assert_eq!(ranges.find(&address.to_be_bytes()), naive(&v6, address));
            }
        }
    }

    #[test]
    fn other_lengths_have_no_value() {
        let all = Prefix { first: 0, bits: 0, value: 7 };
        let ranges = Ranges::new(vec![all], vec![all]);
        assert_eq!([&[1, 2, 3, 4][..], &[0; 16]].map(|octets| ranges.find(octets)), [7, 7]);
        assert_eq!([&[][..], &[1, 2, 3, 4, 5, 6]].map(|octets| ranges.find(octets)), [NONE, NONE]);
    }
}
