//! Sets of addresses: a handful typed in a filter, or a million from a file.

use std::fmt;
use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// A block of addresses that share their first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// A set of hosts and prefixes of both families, with exact set semantics: entries may overlap in any order, and
/// `/0` takes in a whole family. An IPv4 address is never in an IPv6 prefix, not even in `::/0`.
///
/// Inside are inclusive ranges, sorted, disjoint and not adjacent: a look-up is a binary search, and equal sets are
/// equal values however they were written. Cloning shares the ranges.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressSet(Arc<Ranges>);

#[derive(Default, PartialEq, Eq)]
struct Ranges {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
    v4_index: Index,
    v6_index: Index,
    v4_probe: Option<Probe>,
}

/// A bit for each of a few IPv4 addresses, by a hash: of those that are not in the set, one in a hundred has a bit that is
/// set, and all others are known by one look. Addresses that a question was made of are often neighbours, which no
/// [`Index`] distinguishes.
#[derive(PartialEq, Eq)]
pub(crate) struct Probe(Box<[u64; PROBE_WORDS]>);

/// 8 KiB, which stay in the cache of a core.
const PROBE_WORDS: usize = 1 << 10;

/// Ranges from which a [`Probe`] pays.
const PROBE_RANGES_MIN: usize = 9;

/// Addresses up to which a [`Probe`] distinguishes most others.
const PROBE_ADDRESSES_MAX: u64 = 1 << 10;

impl Probe {
    /// `None` when there are too many addresses, or so few ranges that each is compared.
    fn new(ranges: &[(u32, u32)]) -> Option<Self> {
        let addresses = ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum::<u64>();
        if ranges.len() < PROBE_RANGES_MIN || addresses > PROBE_ADDRESSES_MAX {
            return None;
        }
        let mut words = Box::new([0; PROBE_WORDS]);
        for address in ranges.iter().flat_map(|(first, last)| *first..=*last) {
            let (word, bit) = Self::place(address);
            words[word] |= bit;
        }
        Some(Self(words))
    }

    #[inline]
    fn place(address: u32) -> (usize, u64) {
        let hash = address.wrapping_mul(0x9E37_79B1) >> 16;
        ((hash >> 6) as usize & (PROBE_WORDS - 1), 1 << (hash & 63))
    }

    /// Whether an address may be in the set.
    #[inline]
    pub(crate) fn may_contain(&self, address: u32) -> bool {
        let (word, bit) = Self::place(address);
        self.0[word] & bit != 0
    }
}

/// Where to begin to search sorted ranges: of each slice of the addresses, how many ranges begin before it. It cuts the
/// binary search of a million ranges, each step a cache miss, to a step or two.
#[derive(Default, PartialEq, Eq)]
struct Index {
    /// Empty for small sets.
    starts: Vec<u32>,
    /// Bits of an address below the number of its slice.
    shift: u32,
}

/// Ranges from which an index pays.
const INDEX_RANGES_MIN: usize = 64;

/// An index has at most two to this power slices: 16 MiB.
const INDEX_BITS_MAX: u32 = 22;

impl Index {
    /// An index of about as many slices as there are ranges; the addresses differ in their lowest `bits` bits.
    fn new<T: Copy>(ranges: &[(T, T)], bits: u32, slice: impl Fn(T, u32) -> usize) -> Self {
        if ranges.len() < INDEX_RANGES_MIN {
            return Self::default();
        }
        let shift = bits.saturating_sub((ranges.len().ilog2() + 1).min(INDEX_BITS_MAX));
        let slices = 1_usize << (bits - shift);
        let mut starts = Vec::with_capacity(slices + 1);
        for (before, (first, _)) in ranges.iter().enumerate() {
            // Every slice up to this one begins no later than this range.
            let wanted = slice(*first, shift) + 1;
            if starts.len() < wanted {
                starts.resize(wanted, before as u32);
            }
        }
        starts.resize(slices + 1, ranges.len() as u32);
        Self { starts, shift }
    }

    /// The ranges among which one may hold an address of this slice: those that begin in it, and the one before them,
    /// which may reach into it.
    #[inline]
    fn candidates<'r, T>(&self, ranges: &'r [(T, T)], slice: usize) -> &'r [(T, T)] {
        let first = (self.starts[slice] as usize).saturating_sub(1);
        &ranges[first..self.starts[slice + 1] as usize]
    }
}

/// Why a file is not a list of addresses.
#[derive(Debug, thiserror::Error)]
pub enum AddressFileError {
    /// The file could not be read.
    #[error("cannot read line {line} of the address list")]
    Read {
        /// Line number, from 1.
        line: usize,
        /// What went wrong.
        #[source]
        source: std::io::Error,
    },
    /// A line is neither an address, a prefix, a comment nor blank.
    #[error("line {line} of the address list is neither an address nor a prefix: '{text}'")]
    NotAnAddress {
        /// Line number, from 1.
        line: usize,
        /// The line, printable, at most 64 characters.
        text: String,
    },
}

impl Prefix {
    /// The prefix of `length` bits that holds the address; `None` when the address has fewer bits.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) => {
                let host_bits = 32_u32.checked_sub(length.into())?;
                Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)).into()
            }
            IpAddr::V6(v6) => {
                let host_bits = 128_u32.checked_sub(length.into())?;
                Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0)).into()
            }
        };
        Some(Self { address, length })
    }

    /// Reads `ADDRESS` or `ADDRESS/LENGTH`. Bits beyond the length are cleared.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        match length {
            Some(length) if length.bytes().all(|digit| digit.is_ascii_digit()) => {
                Self::new(address, length.parse().ok()?)
            }
            Some(_) => None,
            None => Self::new(address, if address.is_ipv4() { 32 } else { 128 }),
        }
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Number of leading bits that are fixed.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether it holds a single address.
    pub fn is_host(self) -> bool {
        self.length == if self.address.is_ipv4() { 32 } else { 128 }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() { self.address.fmt(f) } else { write!(f, "{}/{}", self.address, self.length) }
    }
}

impl FromIterator<Prefix> for AddressSet {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            match prefix.address {
                IpAddr::V4(first) => {
                    let first = first.to_bits();
                    v4.push((first, first | u32::MAX.checked_shr(prefix.length.into()).unwrap_or(0)));
                }
                IpAddr::V6(first) => {
                    let first = first.to_bits();
                    v6.push((first, first | u128::MAX.checked_shr(prefix.length.into()).unwrap_or(0)));
                }
            }
        }
        Self::from_ranges(v4, v6)
    }
}

macro_rules! merge {
    ($ranges:ident) => {{
        $ranges.retain(|(first, last)| first <= last);
        $ranges.sort_unstable();
        // The last range kept so far swallows every range that begins within it or right behind it.
        $ranges.dedup_by(|next, kept| {
            let touches = next.0 <= kept.1.saturating_add(1);
            if touches {
                kept.1 = kept.1.max(next.1);
            }
            touches
        });
        $ranges.shrink_to_fit();
    }};
}

fn lies_in<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after > 0 && address <= ranges[after - 1].1
}

impl AddressSet {
    /// The union of inclusive ranges. A range that ends before it begins is empty.
    pub fn from_ranges(mut v4: Vec<(u32, u32)>, mut v6: Vec<(u128, u128)>) -> Self {
        merge!(v4);
        merge!(v6);
        let v4_index = Index::new(&v4, 32, |address, shift| (address >> shift) as usize);
        // Most sets of IPv6 share their first bits, which would distinguish nothing: slices are counted from the first address.
        let base = v6.first().map_or(0, |(first, _)| *first);
        let bits = v6.last().map_or(0, |(first, _)| 128 - (first - base).leading_zeros());
        let v6_index = Index::new(&v6, bits, |address, shift| ((address - base) >> shift) as usize);
        let v4_probe = Probe::new(&v4);
        Self(Arc::new(Ranges { v4, v6, v4_index, v6_index, v4_probe }))
    }

    /// Reads one address or prefix per line; `#` begins a comment, blank lines are skipped. Nothing is resolved.
    pub fn from_text_file(mut reader: impl BufRead) -> Result<Self, AddressFileError> {
        let mut prefixes = Vec::new();
        let mut buffer = String::new();
        for line in 1.. {
            buffer.clear();
            match reader.read_line(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(source) => return Err(AddressFileError::Read { line, source }),
            }
            let text = buffer.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let Some(prefix) = Prefix::parse(text) else {
                let text = text.chars().take(64).filter(|c| !c.is_control()).collect();
                return Err(AddressFileError::NotAnAddress { line, text });
            };
            prefixes.push(prefix);
        }
        Ok(prefixes.into_iter().collect())
    }

    /// Whether the address, 4 or 16 octets in network order, is in the set. Octets of any other number never are.
    #[inline]
    pub fn contains(&self, octets: &[u8]) -> bool {
        if let Ok(v4) = <[u8; 4]>::try_from(octets) {
            return self.contains_v4(u32::from_be_bytes(v4));
        }
        <[u8; 16]>::try_from(octets).is_ok_and(|v6| self.contains_v6(u128::from_be_bytes(v6)))
    }

    #[inline]
    pub(crate) fn contains_v4(&self, address: u32) -> bool {
        let Ranges { v4, v4_index, v4_probe, .. } = &*self.0;
        if v4_probe.as_ref().is_some_and(|probe| !probe.may_contain(address)) {
            return false;
        }
        if v4_index.starts.is_empty() {
            return lies_in(v4, address);
        }
        lies_in(v4_index.candidates(v4, (address >> v4_index.shift) as usize), address)
    }

    /// The hash of the IPv4 addresses, where there are few.
    pub(crate) fn v4_probe(&self) -> Option<&Probe> {
        self.0.v4_probe.as_ref()
    }

    fn contains_v6(&self, address: u128) -> bool {
        let Ranges { v6, v6_index, .. } = &*self.0;
        let Some(offset) = v6.first().and_then(|(base, _)| address.checked_sub(*base)) else { return false };
        if v6_index.starts.is_empty() {
            return lies_in(v6, address);
        }
        // Behind the first address of the last range there is no other.
        let last = v6_index.starts.len() as u128 - 2;
        lies_in(v6_index.candidates(v6, (offset >> v6_index.shift).min(last) as usize), address)
    }

    /// IPv4 addresses as inclusive ranges: sorted, disjoint, not adjacent.
    pub fn ranges_v4(&self) -> &[(u32, u32)] {
        &self.0.v4
    }

    /// IPv6 addresses as inclusive ranges: sorted, disjoint, not adjacent.
    pub fn ranges_v6(&self) -> &[(u128, u128)] {
        &self.0.v6
    }

    /// Whether no address is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.v4.is_empty() && self.0.v6.is_empty()
    }

    /// The fewest prefixes that hold the set and nothing else, IPv4 first, in order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        let v4 = self.0.v4.iter().flat_map(|&(first, last)| {
            Blocks { next: Some(first.into()), last: last.into() }.map(|(start, bits)| Prefix {
                address: Ipv4Addr::from_bits(start as u32).into(),
                length: 32 - bits as u8,
            })
        });
        let v6 = self.0.v6.iter().flat_map(|&(first, last)| {
            Blocks { next: Some(first), last }
                .map(|(start, bits)| Prefix { address: Ipv6Addr::from_bits(start).into(), length: 128 - bits as u8 })
        });
        v4.chain(v6)
    }
}

/// Cuts an inclusive range into aligned blocks: (start, number of free bits).
struct Blocks {
    next: Option<u128>,
    last: u128,
}

impl Iterator for Blocks {
    type Item = (u128, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next?;
        // As many free bits as the alignment of the start and the length of the range allow; the length itself may
        // be 2^128, so the number of addresses minus one is compared.
        let mut bits = start.trailing_zeros();
        let span = |bits: u32| if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
        while span(bits) > self.last - start {
            bits -= 1;
        }
        let end = start + span(bits);
        self.next = if end < self.last { Some(end + 1) } else { None };
        Some((start, bits))
    }
}

impl fmt::Debug for AddressSet {
    /// At most eight prefixes: a set may hold a million.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        list.entries(self.prefixes().take(8).map(|prefix| prefix.to_string()));
        if self.0.v4.len() + self.0.v6.len() > 8 { list.finish_non_exhaustive() } else { list.finish() }
    }
}

#[cfg(test)]
#[path = "address_set/tests.rs"]
mod tests;
