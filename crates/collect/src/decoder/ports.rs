//! Domains that differ by the port of their exporter only, and may lend each other templates.
//!
//! Templates belong to a transport session (RFC 7011 section 8), and address and port identify one of UDP. Some
//! exporters send templates and data from different ports, and a translator of addresses may give each datagram its
//! own; their data would wait for ever. Where that was asked for, a domain takes a template from the same domain of
//! the same address on another port. It is not done unasked: two exporters behind one address may use the same
//! numbers for different templates, and flows read by the wrong one look right. For the same reason nothing is taken
//! when two ports disagree, and what a domain has received itself always goes first.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::domain::DomainKey;
use crate::session::Transport;

/// Most ports of a domain; with more of them, nothing is lent.
const PORTS_MAX: usize = 64;

/// All of a domain's key but the port.
type Group = (Transport, IpAddr, u8, u32);

/// Places of the domains of UDP, in groups that differ by their ports only.
#[derive(Debug, Default)]
pub(super) struct PortGroups {
    groups: HashMap<Group, Vec<u32>>,
}

fn group_of(key: DomainKey) -> Group {
    (key.session.transport, key.session.source.ip(), key.version, key.domain)
}

impl PortGroups {
    pub(super) fn insert(&mut self, key: DomainKey, index: u32) {
        self.groups.entry(group_of(key)).or_default().push(index);
    }

    pub(super) fn remove(&mut self, key: DomainKey, index: u32) {
        let group = group_of(key);
        if let Some(members) = self.groups.get_mut(&group) {
            members.retain(|member| *member != index);
            if members.is_empty() {
                self.groups.remove(&group);
            }
        }
    }

    /// The other ports of a domain of UDP, if there are not too many.
    pub(super) fn others(&self, key: DomainKey, index: u32) -> Vec<u32> {
        if key.session.transport != Transport::Udp {
            return Vec::new();
        }
        let members = self.groups.get(&group_of(key)).filter(|members| members.len() <= PORTS_MAX);
        members.into_iter().flatten().copied().filter(|member| *member != index).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::session::Session;

    fn key(transport: Transport, port: u16, domain: u32) -> DomainKey {
        let source = SocketAddr::from(([192, 0, 2, 1], port));
        DomainKey { session: Session { transport, source }, version: 9, domain }
    }

    #[test]
    fn only_ports_of_the_same_domain_belong_together() {
        let mut groups = PortGroups::default();
        for (index, port, domain) in [(0, 1, 7), (1, 2, 7), (2, 3, 8)] {
            groups.insert(key(Transport::Udp, port, domain), index);
        }
        groups.insert(key(Transport::Tcp, 4, 7), 3);
        assert_eq!(groups.others(key(Transport::Udp, 1, 7), 0), [1]);
        assert_eq!(groups.others(key(Transport::Udp, 3, 8), 2), [0; 0]);
        groups.insert(key(Transport::Tcp, 5, 7), 4);
        assert_eq!(groups.others(key(Transport::Tcp, 4, 7), 3), [0; 0]);
        groups.remove(key(Transport::Udp, 2, 7), 1);
        assert_eq!(groups.others(key(Transport::Udp, 1, 7), 0), [0; 0]);
    }

    #[test]
    fn nothing_is_lent_among_too_many_ports() {
        let mut groups = PortGroups::default();
        (0..PORTS_MAX as u16).for_each(|port| groups.insert(key(Transport::Udp, port, 7), port.into()));
        assert_eq!(groups.others(key(Transport::Udp, 0, 7), 0).len(), PORTS_MAX - 1);
        groups.insert(key(Transport::Udp, 999, 7), 999);
        assert!(groups.others(key(Transport::Udp, 0, 7), 0).is_empty());
    }
}
