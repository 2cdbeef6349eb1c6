//! The table of Observation Domains: found by their keys, made, evicted, forgotten.

use std::collections::HashMap;
use std::ops::{Index, IndexMut};

use super::eviction::EvictionSearch;
use super::ports::PortGroups;
use super::sessions::SessionDomains;
use crate::Limits;
use crate::domain::{Domain, DomainKey, DomainStatus};
use crate::session::Session;

/// All domains, each with a place in the table that it keeps.
#[derive(Debug, Default)]
pub(super) struct Domains {
    table: Vec<Domain>,
    index: HashMap<DomainKey, u32, foldhash::fast::RandomState>,
    /// The domain of the last datagram: exporters send in runs.
    last: Option<(DomainKey, u32)>,
    sessions: SessionDomains,
    /// Domains that may lend each other templates; `None` when that was not asked for.
    ports: Option<PortGroups>,
    eviction: EvictionSearch,
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
        let key = domain.key;
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
        let key = self[index].key;
        // the key may be that of a later session's domain already
        if self.index.get(&key) == Some(&index) {
            self.index.remove(&key);
        }
        self.sessions.remove(key.session, index);
        if let Some(ports) = &mut self.ports {
            ports.remove(key, index);
        }
    }

    /// The domain that is to give its place to another one.
    pub(super) fn next_evicted(&mut self, now_ms: i64, limits: &Limits) -> Option<u32> {
        self.eviction.next(&self.table, now_ms, None, |domain| domain.eviction_priority(now_ms, limits))
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
    use crate::session::Transport;

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
        let mut domains = Domains::default();
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
        let mut domains = Domains::default();
        let index = add(&mut domains, 1);
        domains.set_last(key(1), index);
        assert_eq!((domains.find_last(&key(1)), domains.find_last(&key(2))), (Some(index), None));
        domains.remove(index);
        assert_eq!((domains.find_last(&key(1)), domains.find(&key(1))), (None, None));
    }
}
