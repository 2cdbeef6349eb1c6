//! Templates that another port of the exporter has sent.
//!
//! Templates belong to a transport session (RFC 7011 section 8), and one of UDP is told by address and port. Some
//! exporters send templates and data from different ports, and a translator of addresses may give each datagram its
//! own; their data would wait for ever. Where that was asked for, a domain takes a template from the same domain of
//! the same address on another port. It is not done unasked: two exporters behind one address may use the same
//! numbers for different templates, and flows read by the wrong one look right. For the same reason nothing is taken
//! when two ports disagree, and what a domain has got itself always goes first.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_wire::TemplateId;

use super::Decoder;
use crate::session::{DomainKey, Transport};
use crate::spool::SetKey;

/// Most ports of a domain; with more of them, nothing is lent.
const PORTS_MAX: usize = 64;

/// Places of the domains that differ by their ports only.
#[derive(Debug, Default)]
pub(super) struct Ports {
    groups: HashMap<(Transport, IpAddr, u8, u32), Vec<u32>>,
}

fn group_of(key: DomainKey) -> (Transport, IpAddr, u8, u32) {
    (key.session.transport, key.session.source.ip(), key.version, key.domain)
}

impl Ports {
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

    /// The other ports, if there are not too many.
    fn others(&self, key: DomainKey, index: u32) -> Vec<u32> {
        let members = self.groups.get(&group_of(key)).filter(|members| members.len() <= PORTS_MAX);
        members.into_iter().flatten().copied().filter(|member| *member != index).collect()
    }
}

impl Decoder {
    /// Lets domains of UDP take templates that the same domain has sent from another port.
    #[must_use]
    pub fn with_templates_across_ports(mut self) -> Self {
        let mut ports = Ports::default();
        self.domains.iter().zip(0..).for_each(|(domain, index)| ports.insert(domain.key, index));
        self.ports = Some(ports);
        self
    }

    fn other_ports(&self, index: u32) -> Vec<u32> {
        let key = self.domains[index as usize].key;
        let ports = self.ports.as_ref().filter(|_| key.session.transport == Transport::Udp);
        ports.map(|ports| ports.others(key, index)).unwrap_or_default()
    }

    /// Takes a template from another port. False when none has it, when two disagree, or when sets on disk come first.
    #[cold]
    pub(super) fn borrow(&mut self, index: u32, id: TemplateId) -> bool {
        let others = self.other_ports(index);
        let mut own = others.iter().filter_map(|&other| {
            let domain = &self.domains[other as usize];
            domain.templates.get(&id).filter(|known| !known.lent && !domain.has_expired(known, self.now_ms))
        });
        let Some(first) = own.next() else { return false };
        let (template, mut refreshed_ms) = (first.template.clone(), first.refreshed_ms);
        for known in own {
            if known.template != template {
                return false;
            }
            refreshed_ms = refreshed_ms.max(known.refreshed_ms);
        }
        if !self.remember(index, template, refreshed_ms) {
            return false;
        }
        if let Some(known) = self.domains[index as usize].templates.get_mut(&id) {
            known.lent = true;
        }
        self.template_came(index, id);
        !self.recalling.contains_key(&(index, id))
    }

    /// Tells the other ports of a template that has just come.
    pub(super) fn lend(&mut self, index: u32, id: TemplateId) {
        for other in self.other_ports(index) {
            let lent = self.domains[other as usize].templates.get(&id).map(|known| known.lent);
            let key = SetKey { domain: self.domains[other as usize].key, template: id };
            let waits = self.waiting.has(other, id) || self.spooled.contains_key(&key);
            if lent == Some(true) {
                self.forget_templates(other, |known| known.template.id() == id);
            }
            if lent == Some(true) || (lent.is_none() && waits) {
                self.borrow(other, id);
            }
        }
    }
}
