//! The table of Observation Domains: found by their keys, made, evicted, forgotten.

use std::collections::{HashMap, hash_map};
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

use super::eviction_order::{Entry, EvictionOrder};
use super::ports::PortGroups;
use super::sessions::SessionDomains;
use crate::Limits;
use crate::change_limit::ChangeLimiter;
use crate::domain::{Domain, DomainKey, DomainStatus, EvictionPriority, Usefulness};
use crate::limits::CANDIDATE_OCTETS;
use crate::rate::{RefusedDatagrams, source_of};
use crate::session::{Session, Transport};
use crate::shares::{BeyondShare, Shares};

/// A source that has its share replaces as many of its domains in a second as it has, and this many at least.
const REPLACED_MIN: usize = 1_024;
const SECOND_MS: i64 = 1_000;
/// On connections one source makes so many times as many domains at once as there may be, and then a thousand in a second: hardly
/// anything is around a message there, and a sender that ends a connection and begins another has its domains made again. Of UDP any sender
/// can use up what is meant for the exporter whose address it forges, and a datagram costs it more.
const BURST_OF_ALL: usize = 2;

const _: () = assert!(size_of::<Entry<EvictionPriority>>() <= CANDIDATE_OCTETS);

/// The domains of a source that has its share: for a new one, one of its own has to give way.
#[derive(Debug, Default)]
struct OwnDomains {
    order: EvictionOrder<EvictionPriority>,
    /// When the second began in which replaced ones are counted.
    second_ms: i64,
    replaced: usize,
}

impl OwnDomains {
    /// Whether one more may be replaced now.
    fn may_replace(&mut self, now_ms: i64, domains: usize) -> bool {
        if now_ms.saturating_sub(self.second_ms).saturating_abs() >= SECOND_MS {
            (self.second_ms, self.replaced) = (now_ms, 0);
        }
        self.replaced < domains.max(REPLACED_MIN)
    }
}

/// Where a new domain goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub index: u32,
    /// Whether a domain is there that has to be forgotten first.
    pub is_taken: bool,
}

/// All domains, each with a place in the table that it keeps.
#[derive(Debug)]
pub(super) struct Domains {
    table: Vec<Domain>,
    index: HashMap<DomainKey, u32, foldhash::fast::RandomState>,
    /// The domain of the last datagram: exporters send in runs.
    last: Option<(DomainKey, u32)>,
    sessions: SessionDomains,
    /// Domains that may lend each other templates; `None` when that was not asked for.
    ports: Option<PortGroups>,
    eviction: EvictionOrder<EvictionPriority>,
    /// Domains of each source.
    shares: Shares,
    /// Sources that have their share, which are a few at a time.
    own: HashMap<IpAddr, OwnDomains, foldhash::fast::RandomState>,
    /// How many domains each source may have made on connections.
    made: ChangeLimiter,
    /// What came of sources that have their share, since that was asked last.
    beyond_share: BeyondShare,
    /// Messages of new domains of sources that have had too many made on connections, since that was asked last.
    over_rate: RefusedDatagrams,
}

impl Index<u32> for Domains {
    type Output = Domain;

    #[inline]
    fn index(&self, index: u32) -> &Domain {
        &self.table[index as usize]
    }
}

impl IndexMut<u32> for Domains {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Domain {
        &mut self.table[index as usize]
    }
}

impl Domains {
    /// None yet; this many at most.
    pub(super) fn new(domains_max: usize) -> Self {
        Self {
            table: Vec::new(),
            index: HashMap::default(),
            last: None,
            sessions: SessionDomains::default(),
            ports: None,
            eviction: EvictionOrder::default(),
            shares: Shares::of_places(domains_max),
            own: HashMap::default(),
            made: ChangeLimiter::of_burst(BURST_OF_ALL.saturating_mul(domains_max)),
            beyond_share: BeyondShare::default(),
            over_rate: RefusedDatagrams::default(),
        }
    }

    /// The place of the domain with this key.
    pub(super) fn find(&self, key: &DomainKey) -> Option<u32> {
        self.index.get(key).copied()
    }

    /// The place of the domain with this key, when the last datagram was its.
    #[inline]
    pub(super) fn find_last(&self, key: &DomainKey) -> Option<u32> {
        self.last.filter(|(last, _)| last == key).map(|(_, index)| index)
    }

    /// Notes whose datagram was the last.
    #[inline]
    pub(super) fn set_last(&mut self, key: DomainKey, index: u32) {
        self.last = Some((key, index));
    }

    /// A place for one more domain, if the table is not full.
    pub(super) fn vacancy(&mut self, domains_max: usize) -> Option<u32> {
        let end = self.table.len();
        self.sessions.take_vacant().or_else(|| (end < domains_max).then_some(end as u32))
    }

    /// Puts a domain into a place that is vacant or the next one.
    pub(super) fn insert(&mut self, index: u32, domain: Domain) {
        let (key, sender) = (domain.key, domain.sender);
        self.shares.take_for(sender, 1);
        let heard_ms = domain.activity.heard_ms;
        let least = EvictionPriority { usefulness: Usefulness::Nothing, datagrams_log: 0, heard_ms };
        self.eviction.add(least, index, self.table.len());
        if let Some(own) = self.own.get_mut(&sender) {
            own.order.add(least, index, self.shares.taken_by(sender));
        }
        match self.table.get_mut(index as usize) {
            Some(place) => *place = domain,
            None => self.table.push(domain),
        }
        self.index.insert(key, index);
        self.sessions.insert(key.session, index);
        if let Some(ports) = &mut self.ports {
            ports.insert(key, index);
        }
    }

    /// Forgets the key of a domain, whose place may be used again.
    pub(super) fn remove(&mut self, index: u32) {
        self.last = None;
        let (key, sender) = (self[index].key, self[index].sender);
        self.shares.give_back_of(sender, 1);
        // the key may be that of a later session's domain already
        if let hash_map::Entry::Occupied(entry) = self.index.entry(key)
            && *entry.get() == index
        {
            entry.remove();
        }
        if self[index].activity.status != DomainStatus::Ended {
            self.sessions.remove(key.session, index);
        }
        if let Some(ports) = &mut self.ports {
            ports.remove(key, index);
        }
    }

    /// Whether a source has all the domains that it may have.
    pub(super) fn has_share(&self, source: IpAddr) -> bool {
        self.shares.left_to(source) == 0
    }

    /// Whether a source may have one more domain made of a session of this kind now.
    pub(super) fn may_make(&mut self, transport: Transport, source: IpAddr, limited_ms: Option<i64>) -> bool {
        let may = !transport.is_connection() || self.made.left_to(source, limited_ms) > 0;
        if !may {
            self.over_rate.add(source);
        }
        may
    }

    /// Takes that a source has had a domain made of a session of this kind.
    pub(super) fn note_made(&mut self, transport: Transport, source: IpAddr, limited_ms: Option<i64>) {
        if transport.is_connection() {
            self.made.take_for(source, 1, limited_ms);
        }
    }

    /// The place for a new domain of a source: a free one, or that of the domain that is worth least. `None` when nobody gives way.
    pub(super) fn next_place(&mut self, source: IpAddr, now_ms: i64, limits: &Limits) -> Option<Place> {
        let taken = if self.has_share(source) {
            // whoever has a share does not push out the domains of others
            self.next_evicted_of(source, now_ms, limits)
        } else if let Some(index) = self.vacancy(limits.domains_max) {
            return Some(Place { index, is_taken: false });
        } else {
            self.next_evicted(now_ms, limits)
        };
        taken.map(|index| Place { index, is_taken: true })
    }

    /// The domain that is to give its place to another one.
    fn next_evicted(&mut self, now_ms: i64, limits: &Limits) -> Option<u32> {
        self.eviction.next(&self.table, now_ms, |domain| domain.eviction_priority(now_ms, limits))
    }

    /// The domain of a source that has its share, that is to give its place to another one of that source. `None` also when the
    /// source has replaced as many within the last second as it has: looking a domain up costs little, and making one does not.
    fn next_evicted_of(&mut self, source: IpAddr, now_ms: i64, limits: &Limits) -> Option<u32> {
        let evicted = self.next_own(source, now_ms, limits);
        match evicted {
            Some(_) => self.beyond_share.replaced += 1,
            None => self.beyond_share.refused += 1,
        }
        self.beyond_share.last = Some(source);
        evicted
    }

    fn next_own(&mut self, source: IpAddr, now_ms: i64, limits: &Limits) -> Option<u32> {
        let taken = self.shares.taken_by(source);
        if taken == 0 {
            // where there is no place at all, each forged address would have an entry
            return None;
        }
        let own = match self.own.entry(source) {
            hash_map::Entry::Occupied(own) => own.into_mut(),
            hash_map::Entry::Vacant(_) => {
                let shares = &self.shares;
                self.own.retain(|other, _| shares.left_to(*other) == 0);
                self.own.entry(source).or_default()
            }
        };
        if !own.may_replace(now_ms, taken) {
            return None;
        }
        let priority = |domain: &Domain| {
            let is_its = domain.sender == source;
            if is_its { domain.eviction_priority(now_ms, limits) } else { None }
        };
        let evicted = own.order.next(&self.table, now_ms, priority)?;
        own.replaced += 1;
        Some(evicted)
    }

    /// What came since the last call from sources that have their share.
    pub(super) fn take_beyond_share(&mut self) -> BeyondShare {
        std::mem::take(&mut self.beyond_share)
    }

    /// What came since the last call from sources that have had too many domains made on connections.
    pub(super) fn take_over_rate(&mut self) -> RefusedDatagrams {
        std::mem::take(&mut self.over_rate)
    }

    /// Charges a domain to its exporter, which sends itself, whoever has sent in its name before.
    pub(super) fn charge_exporter(&mut self, index: u32) {
        let domain = &mut self.table[index as usize];
        let own = source_of(domain.key.session.source.ip());
        if domain.sender != own {
            self.shares.give_back_of(std::mem::replace(&mut domain.sender, own), 1);
            self.shares.take_for(own, 1);
        }
    }

    /// Ends a session: its domains are no longer found. Returns their places, which are not vacant yet.
    pub(super) fn end_session(&mut self, session: Session) -> Vec<u32> {
        let ended = self.sessions.end(session);
        for &index in &ended {
            let domain = &mut self.table[index as usize];
            domain.activity.status = DomainStatus::Ended;
            self.index.remove(&domain.key);
        }
        self.last = None;
        ended
    }

    /// Whether places of ended sessions are not vacant yet.
    pub(super) fn has_ended(&self) -> bool {
        self.sessions.has_ended()
    }

    /// Makes the places of ended sessions vacant. Returns them.
    pub(super) fn vacate(&mut self) -> Vec<u32> {
        self.sessions.vacate()
    }

    /// From now on, domains that differ by their ports only can be found by [`Domains::other_ports`].
    pub(super) fn group_by_port(&mut self) {
        let mut ports = PortGroups::default();
        self.table.iter().zip(0..).for_each(|(domain, index)| ports.insert(domain.key, index));
        self.ports = Some(ports);
    }

    /// Domains that differ from this one by their ports only.
    pub(super) fn other_ports(&self, index: u32) -> Vec<u32> {
        self.ports.as_ref().map_or_else(Vec::new, |ports| ports.others(self[index].key, index))
    }

    /// The table. Places that are vacant hold what was there before.
    pub(super) fn table(&self) -> &[Domain] {
        &self.table
    }

    /// Domains that can be found.
    pub(super) fn known(&self) -> usize {
        self.index.len()
    }

    #[cfg(test)]
    pub(super) fn sessions(&self) -> &SessionDomains {
        &self.sessions
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn key(port: u16) -> DomainKey {
        let source = SocketAddr::from(([192, 0, 2, 1], port));
        DomainKey { session: Session { transport: Transport::Tcp, source }, version: 10, domain: 0 }
    }

    fn add(domains: &mut Domains, port: u16) -> u32 {
        let index = domains.vacancy(2).expect("a place");
        domains.insert(index, Domain::new(key(port), &Limits::default()));
        index
    }

    #[test]
    fn a_session_that_begins_again_before_its_place_is_vacant_has_another_place() {
        let mut domains = Domains::new(2);
        assert_eq!(add(&mut domains, 1), 0);
        assert_eq!(domains.end_session(key(1).session), [0]);
        assert_eq!(domains.find(&key(1)), None);
        assert_eq!(add(&mut domains, 1), 1);
        assert_eq!(domains.vacancy(2), None);
        domains.vacate();
        domains.remove(0);
        assert_eq!(domains.find(&key(1)), Some(1), "the key is that of the later session");
        assert_eq!(add(&mut domains, 2), 0);
        assert_eq!((domains.known(), domains.table().len()), (2, 2));
    }

    #[test]
    fn the_last_domain_is_found_until_it_is_forgotten() {
        let mut domains = Domains::new(2);
        let index = add(&mut domains, 1);
        domains.set_last(key(1), index);
        assert_eq!((domains.find_last(&key(1)), domains.find_last(&key(2))), (Some(index), None));
        domains.remove(index);
        assert_eq!((domains.find_last(&key(1)), domains.find(&key(1))), (None, None));
    }

    #[test]
    fn an_exporter_that_sends_itself_is_charged_for_its_domain() {
        let mut domains = Domains::new(1_000);
        let [own, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        domains.insert(0, Domain { sender: other, ..Domain::new(key(1), &Limits::default()) });
        let taken = |domains: &Domains| [own, other].map(|source| domains.shares.taken_by(source));
        assert_eq!(taken(&domains), [0, 1]);
        (0..2).for_each(|_| domains.charge_exporter(0));
        assert_eq!(taken(&domains), [1, 0]);
        domains.remove(0);
        assert_eq!(taken(&domains), [0, 0]);
    }

    #[test]
    fn a_source_that_has_its_share_replaces_its_own_and_no_more_in_a_second_than_it_has() {
        let limits = Limits::default();
        let mut domains = Domains::new(6_000);
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let new = |number: u32, sender: IpAddr| {
            let session = Session { transport: Transport::Udp, source: SocketAddr::new(sender, 4_739) };
            Domain::new(DomainKey { session, version: 10, domain: number }, &limits)
        };
        domains.insert(0, new(0, other));
        (1..4_500).for_each(|number| domains.insert(number, new(number, one)));
        assert!(domains.has_share(one) && !domains.has_share(other));
        let mut replace = |now_ms: i64| {
            let mut replaced = 0;
            while let Some(index) = domains.next_evicted_of(one, now_ms, &limits) {
                assert_eq!(domains[index].sender, one);
                domains.remove(index);
                domains.insert(index, new(10_000 + index, one));
                replaced += 1;
            }
            replaced
        };
        assert_eq!([0, 999, 1_000].map(&mut replace), [4_499, 0, 4_499]);
        let beyond = domains.take_beyond_share();
        assert_eq!((beyond.refused, beyond.last), (3, Some(one)), "each round ends with one");
        assert_eq!(beyond.replaced, 2 * 4_499);
        assert_eq!(domains.take_beyond_share(), BeyondShare::default());
    }

    /// A source that has its share is known before it sends so much that something is refused.
    #[test]
    fn a_source_whose_domains_replace_one_another_is_known() {
        let limits = Limits::default();
        let mut domains = Domains::new(1);
        let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 4_739)));
        let index = domains.vacancy(1).expect("a place");
        domains.insert(index, Domain::new(DomainKey { session, version: 10, domain: 0 }, &limits));
        let source = domains[index].sender;
        assert_eq!(domains.next_evicted_of(source, 0, &limits), Some(index));
        assert_eq!(domains.take_beyond_share(), BeyondShare { refused: 0, replaced: 1, last: Some(source) });
    }

    #[test]
    fn where_there_is_no_place_nothing_is_kept_of_who_wants_one() {
        let limits = Limits { domains_max: 0, ..Limits::default() };
        let mut domains = Domains::new(0);
        for last in 0..=255 {
            assert!(domains.next_place(IpAddr::from([192, 0, 2, last]), 0, &limits).is_none());
        }
        assert_eq!((domains.own.len(), domains.take_beyond_share().refused), (0, 256));
    }

    /// Orders of eviction that nobody asks for do not grow with each domain that is replaced.
    #[test]
    fn a_million_replaced_domains_leave_the_orders_of_eviction_bounded() {
        const DOMAINS: u32 = 2_000;
        let limits = Limits::default();
        let mut domains = Domains::new(DOMAINS as usize);
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let new = |number: u32, sender: IpAddr| {
            let session = Session { transport: Transport::Udp, source: SocketAddr::new(sender, 4_739) };
            Domain::new(DomainKey { session, version: 10, domain: number }, &limits)
        };
        (0..DOMAINS).for_each(|number| domains.insert(number, new(number, if number < 1_000 { one } else { other })));
        // both orders are kept from here on
        let index = domains.next_evicted(0, &limits).expect("one that may go");
        domains.remove(index);
        domains.insert(index, new(index, one));
        let entries = |domains: &Domains| [domains.eviction.entries(), domains.own[&one].order.entries()];
        let is_bounded = |domains: &Domains| {
            let [(all, room), (own, own_room)] = entries(domains);
            all <= 4_000 && room < 8_000 && own <= 2_000 && own_room < 4_000
        };
        let mut number = DOMAINS;
        for now_ms in (0..).step_by(1_000).take(1_000) {
            for _ in 0..1_000 {
                let index = domains.next_evicted_of(one, now_ms, &limits).expect("one of its own");
                domains.remove(index);
                domains.insert(index, new(number, one));
                number += 1;
            }
            assert!(is_bounded(&domains), "{:?}", entries(&domains));
        }
        // below its share, its order is not asked for either
        for _ in 0..100_000 {
            let index = domains.find(&new(number - 1, one).key).expect("the newest");
            domains.remove(index);
            domains.insert(index, new(number, one));
            number += 1;
        }
        assert!(is_bounded(&domains), "{:?}", entries(&domains));
        assert!(domains.next_evicted(0, &limits).is_some() && domains.next_evicted_of(one, 0, &limits).is_some());
    }
}
