//! Zone maps: for each page the smallest and the largest value of a column, and whether there are nulls.

use arrow::array::{Array, BinaryArray};

use super::key::address_key;
use super::octets::{CorruptIndex, OctetReader, narrow, put_narrow, put_u64, width_of};
use super::page_set::PageSet;

/// Smallest and largest of one page; `None` when it has no value.
type Zone<T> = Option<(T, T)>;

/// Zone maps while they are collected.
#[derive(Debug)]
pub(crate) struct Zones {
    zones: Kind,
    nulls: Vec<bool>,
}

#[derive(Debug)]
enum Kind {
    Numbers(Vec<Zone<u64>>),
    Times(Vec<Zone<u64>>),
    /// By family.
    Addresses(Vec<[Zone<u128>; 2]>),
}

impl Zones {
    pub(crate) fn numbers() -> Self {
        Self { zones: Kind::Numbers(Vec::new()), nulls: Vec::new() }
    }

    pub(crate) fn times() -> Self {
        Self { zones: Kind::Times(Vec::new()), nulls: Vec::new() }
    }

    pub(crate) fn addresses() -> Self {
        Self { zones: Kind::Addresses(Vec::new()), nulls: Vec::new() }
    }

    pub(crate) fn pages(&self) -> usize {
        self.nulls.len()
    }

    /// The zone map of the next page of addresses.
    pub(crate) fn add_addresses(&mut self, values: &BinaryArray) {
        self.nulls.push(values.null_count() > 0);
        if let Kind::Addresses(zones) = &mut self.zones {
            zones.push(address_ranges(values));
        }
    }

    /// The zone map of the next page of addresses, by the keys of each family.
    pub(crate) fn add_ranges(&mut self, ranges: [Zone<u128>; 2], nulls: bool) {
        self.nulls.push(nulls);
        if let Kind::Addresses(zones) = &mut self.zones {
            zones.push(ranges);
        }
    }

    /// The zone map of the next page, by keys: of numbers, of times, of IPv4 addresses.
    pub(crate) fn add_zone(&mut self, zone: Option<(u64, u64)>, nulls: bool) {
        self.nulls.push(nulls);
        match &mut self.zones {
            Kind::Numbers(zones) | Kind::Times(zones) => zones.push(zone),
            Kind::Addresses(zones) => zones.push([zone.map(|(low, high)| (low.into(), high.into())), None]),
        }
    }

    /// The zone maps of a column without a value.
    pub(crate) fn put_nulls(out: &mut Vec<u8>, pages: usize) {
        put_bits(out, std::iter::repeat_n(true, pages));
        out.push(FAMILIES_NONE);
        put_bits(out, std::iter::repeat_n(false, pages));
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_bits(out, self.nulls.iter().copied());
        match &self.zones {
            Kind::Numbers(zones) | Kind::Times(zones) => {
                out.push(FAMILIES_NONE);
                put_zones(out, zones.iter().map(|zone| zone.map(|(low, high)| (low.into(), high.into()))));
            }
            Kind::Addresses(zones) => {
                out.push(FAMILIES_BOTH);
                for family in 0..2 {
                    put_zones(out, zones.iter().map(|zone| zone[family]));
                }
            }
        }
    }
}

const FAMILIES_NONE: u8 = 0;
const FAMILIES_BOTH: u8 = 1;

fn address_ranges(values: &BinaryArray) -> [Zone<u128>; 2] {
    let mut zones = [None; 2];
    let wider = |zone: Zone<u128>, key| {
        let (low, high): (u128, u128) = zone.unwrap_or((key, key));
        Some((low.min(key), high.max(key)))
    };
    let (mut low, mut high) = (u32::MAX, 0);
    for octets in values.iter().flatten() {
        if let Ok(short) = <[u8; 4]>::try_from(octets) {
            let short = u32::from_be_bytes(short);
            (low, high) = (low.min(short), high.max(short));
        } else if let Some(key) = address_key(octets) {
            zones[1] = wider(zones[1], key);
        }
    }
    if low <= high {
        zones[0] = Some((low.into(), high.into()));
    }
    zones
}

/// A bit for each page, unless all are alike.
fn put_bits(out: &mut Vec<u8>, bits: impl ExactSizeIterator<Item = bool> + Clone) {
    match (bits.clone().any(|bit| bit), bits.clone().all(|bit| bit)) {
        (false, _) => out.push(0),
        (_, true) => out.push(1),
        _ => {
            out.push(2);
            let at = out.len();
            out.resize(at + bits.len().div_ceil(8), 0);
            bits.enumerate().for_each(|(page, bit)| out[at + page / 8] |= u8::from(bit) << (page % 8));
        }
    }
}

fn read_bits(reader: &mut OctetReader<'_>, pages: usize) -> Result<PageSet, CorruptIndex> {
    let mut set = PageSet::none(pages);
    match reader.u8()? {
        0 => {}
        1 => set = PageSet::all(pages),
        2 => {
            let octets = reader.take(pages.div_ceil(8))?;
            let bit = |page: &usize| octets.get(page / 8).is_some_and(|octet| octet >> (page % 8) & 1 == 1);
            (0..pages).filter(bit).for_each(|page| set.insert(page));
        }
        _ => return Err(CorruptIndex),
    }
    Ok(set)
}

/// Zones as distances from the smallest of all, in as few octets as the largest needs; numbers of more than 64 bits
/// lose their lower half, upwards where they are the largest.
fn put_zones(out: &mut Vec<u8>, zones: impl ExactSizeIterator<Item = Zone<u128>> + Clone) {
    let present = zones.clone().map(|zone| zone.is_some());
    put_bits(out, present);
    let Some(base) = zones.clone().flatten().map(|zone| zone.0).min() else { return };
    let top = zones.clone().flatten().map(|zone| zone.1).max().unwrap_or(base);
    let shift = u8::from(top - base > u128::from(u64::MAX)) * 64;
    let low = |value: u128| ((value - base) >> shift) as u64;
    let high = |value: u128| low(value); // compared after the same shift, so both ends are kept whole
    let width = width_of(high(top));
    put_u64(out, base as u64);
    put_u64(out, (base >> 64) as u64);
    out.extend([shift, width as u8]);
    for zone in zones {
        let (from, to) = zone.unwrap_or((base, base));
        put_narrow(out, low(from), width);
        put_narrow(out, high(to), width);
    }
}

/// Zone maps of one column, where they lie.
#[derive(Debug, Clone)]
pub(crate) struct ZoneMap<'a> {
    present: PageSet,
    base: u128,
    shift: u8,
    width: usize,
    octets: &'a [u8],
}

impl<'a> ZoneMap<'a> {
    pub(crate) fn read(reader: &mut OctetReader<'a>, pages: usize) -> Result<Self, CorruptIndex> {
        let present = read_bits(reader, pages)?;
        if present.is_none() {
            return Ok(Self { present, base: 0, shift: 0, width: 1, octets: &[] });
        }
        let base = u128::from(reader.u64()?) | u128::from(reader.u64()?) << 64;
        let (shift, width) = (reader.u8()?, usize::from(reader.u8()?));
        if !matches!(width, 1 | 2 | 4 | 8) || !matches!(shift, 0 | 64) {
            return Err(CorruptIndex);
        }
        let octets = reader.take(pages.checked_mul(2 * width).ok_or(CorruptIndex)?)?;
        Ok(Self { present, base, shift, width, octets })
    }

    /// Pages that may have a value from `low` to `high`.
    pub(crate) fn pages(&self, low: u128, high: u128) -> PageSet {
        let mut set = PageSet::none(self.present.pages());
        if low > high || high < self.base {
            return set;
        }
        let low = low.saturating_sub(self.base) >> self.shift;
        let high = (high - self.base) >> self.shift;
        for page in self.present.iter() {
            let zone = narrow(self.octets, 2 * page, self.width).zip(narrow(self.octets, 2 * page + 1, self.width));
            if zone.is_none_or(|(from, to)| u128::from(from) <= high && low <= u128::from(to)) {
                set.insert(page);
            }
        }
        set
    }
}

impl ZoneMap<'_> {
    /// Pages that have a value.
    pub(crate) fn present(&self) -> &PageSet {
        &self.present
    }

    /// Pages that have a value, and none outside of `low` to `high`.
    pub(crate) fn whole_pages(&self, low: u128, high: u128) -> PageSet {
        let mut set = PageSet::none(self.present.pages());
        // what was cut off may have been anything
        let cut = (1u128 << self.shift) - 1;
        let is_whole = |(from, to): (u64, u64)| {
            let from = self.base.saturating_add(u128::from(from) << self.shift);
            let to = self.base.saturating_add(u128::from(to) << self.shift | cut);
            low <= from && to <= high
        };
        for page in self.present.iter() {
            let zone = narrow(self.octets, 2 * page, self.width).zip(narrow(self.octets, 2 * page + 1, self.width));
            if zone.is_some_and(is_whole) {
                set.insert(page);
            }
        }
        set
    }
}

/// What [`Zones::put`] wrote: pages with nulls, and the zones, of numbers or by family.
pub(crate) fn read_zones<'a>(
    reader: &mut OctetReader<'a>,
    pages: usize,
) -> Result<(PageSet, Vec<ZoneMap<'a>>), CorruptIndex> {
    let nulls = read_bits(reader, pages)?;
    let count = match reader.u8()? {
        FAMILIES_NONE => 1,
        FAMILIES_BOTH => 2,
        _ => return Err(CorruptIndex),
    };
    let zones = (0..count).map(|_| ZoneMap::read(reader, pages)).collect::<Result<_, CorruptIndex>>()?;
    Ok((nulls, zones))
}
