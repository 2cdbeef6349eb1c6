//! How much of what is limited for all together one source may take.
//!
//! Without that, the first who fills a table keeps everybody else out of it. What speaks against it: whoever forges
//! addresses has a share for each.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::rate::source_of;

/// One source takes at most this part, unless the others leave half of it to it.
const PART: usize = 4;
/// A limit that is no larger is too small to be shared out.
const SMALL: usize = 64;

/// What came from sources that have their share of all Observation Domains.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BeyondShare {
    /// Datagrams for whose new domain none of the source had to give way.
    pub(crate) refused: u64,
    /// Domains that had to give way to others of the same source.
    pub(crate) replaced: u64,
    /// The last of these sources.
    pub(crate) last: Option<IpAddr>,
}

/// What each source has taken.
#[derive(Debug)]
pub(crate) struct Shares<Source = IpAddr> {
    each_max: usize,
    /// As long as all have less than this, any source may take more.
    common: usize,
    /// What all have taken.
    total: usize,
    taken: HashMap<Source, usize, foldhash::fast::RandomState>,
}

impl<Source: Copy + Eq + Hash> Shares<Source> {
    /// Shares of a limit.
    pub(crate) fn of(limit: usize) -> Self {
        let each_max = (limit / PART).max(limit.min(SMALL));
        Self { each_max, common: limit / 2, total: 0, taken: HashMap::default() }
    }

    /// Shares of a limit on what exporters cannot do without: a source always has half of it, and more as long as a quarter is
    /// left. Many exporters may be one source, behind a replicator or an address translation.
    pub(crate) fn of_places(limit: usize) -> Self {
        let each_max = (limit / 2).max(limit.min(SMALL));
        Self { each_max, common: limit - limit / PART, total: 0, taken: HashMap::default() }
    }

    /// How much more a source may take.
    pub(crate) fn left_to(&self, source: Source) -> usize {
        let taken = self.taken_by(source);
        self.each_max.saturating_sub(taken).max(self.common.saturating_sub(self.total))
    }

    /// How much a source has.
    pub(crate) fn taken_by(&self, source: Source) -> usize {
        self.taken.get(&source).copied().unwrap_or(0)
    }

    /// Takes that a source has so much more.
    pub(crate) fn take_for(&mut self, source: Source, count: usize) {
        if count > 0 {
            self.total += count;
            *self.taken.entry(source).or_insert(0) += count;
        }
    }

    /// Takes that a source has so much less.
    pub(crate) fn give_back_of(&mut self, source: Source, count: usize) {
        if count == 0 {
            return;
        }
        let Some(taken) = self.taken.get_mut(&source) else { return };
        let count = count.min(*taken);
        self.total -= count;
        *taken -= count;
        if *taken == 0 {
            self.taken.remove(&source);
        }
    }
}

/// Shares by addresses: one, or an IPv6 network of 64 bits, is a source.
impl Shares {
    /// How much more the source of an address may take.
    pub(crate) fn left(&self, address: IpAddr) -> usize {
        self.left_to(source_of(address))
    }

    /// Takes that the source of an address has so much more.
    pub(crate) fn take(&mut self, address: IpAddr, count: usize) {
        self.take_for(source_of(address), count);
    }

    /// Takes that the source of an address has so much less.
    pub(crate) fn give_back(&mut self, address: IpAddr, count: usize) {
        self.give_back_of(source_of(address), count);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn a_source_has_a_quarter_or_the_first_half_and_gives_it_back() {
        let mut shares = Shares::<IpAddr>::of(1_000);
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        assert_eq!(shares.left(one), 500);
        shares.take(one, 490);
        assert_eq!((shares.left(one), shares.left(other), shares.taken_by(one)), (10, 250, 490));
        shares.take(one, 10);
        assert_eq!((shares.left(one), shares.left(other)), (0, 250));
        shares.take(other, 200);
        shares.give_back(one, 260);
        assert_eq!((shares.left(one), shares.left(other)), (60, 60));
        shares.give_back(one, 10);
        shares.take(other, 40);
        assert_eq!((shares.left(one), shares.left(other)), (30, 30));
        shares.give_back(one, 1_000);
        shares.give_back(other, 1_000);
        assert!(shares.taken.is_empty() && shares.total == 0);
        assert_eq!(Shares::<IpAddr>::of(2).left(one), 2, "too small to be shared out");
    }

    #[test]
    fn a_source_has_half_of_the_places_always_and_three_quarters_when_nobody_else_has_them() {
        let mut shares = Shares::<IpAddr>::of_places(1_000);
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        assert_eq!(shares.left(one), 750);
        shares.take(one, 750);
        assert_eq!((shares.left(one), shares.left(other)), (0, 500));
        shares.take(other, 500);
        shares.give_back(one, 300);
        assert_eq!((shares.left(one), shares.left(other)), (50, 0), "half of them, whatever others have");
        assert_eq!(Shares::<IpAddr>::of_places(2).left(one), 2, "too small to be shared out");
    }

    #[test]
    fn who_has_an_ipv6_network_has_one_share() {
        let mut shares = Shares::<IpAddr>::of(1_000);
        let address = |network: u16, last: u16| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, network, 0, 0, 0, last));
        shares.take(address(1, 1), 500);
        assert_eq!((shares.left(address(1, 2)), shares.left(address(2, 1))), (0, 250));
    }
}
