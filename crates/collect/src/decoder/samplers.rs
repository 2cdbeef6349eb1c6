//! Samplers that an exporter reports in another Observation Domain than that of its flows.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::domain::{Domain, DomainKey};
use crate::sampling::Samplers;

/// Most domains of an exporter whose samplers are looked at for its others.
const DOMAINS_MAX: usize = 64;

/// Samplers about which the domains of one exporter agree.
#[derive(Debug, Default)]
pub(super) struct SharedSamplers {
    /// Domains that reported samplers.
    domains: Vec<u32>,
    /// For records that name a sampler: what no domain contradicts.
    pub named: Samplers,
    /// For records that name none: what domains without flows of their own report, which is about others then.
    pub unnamed: Samplers,
}

/// Samplers known beyond single domains, by exporter and version.
#[derive(Debug, Default)]
pub(super) struct ExporterSamplers(HashMap<(IpAddr, u8), SharedSamplers, foldhash::fast::RandomState>);

fn exporter_of(key: DomainKey) -> (IpAddr, u8) {
    (key.session.source.ip().to_canonical(), key.version)
}

impl ExporterSamplers {
    /// What holds for a domain that knows of no sampler itself.
    pub(super) fn of(&self, key: DomainKey) -> Option<&SharedSamplers> {
        if self.0.is_empty() { None } else { self.0.get(&exporter_of(key)) }
    }

    /// Takes that a domain has reported samplers, or that the first flows of a domain have come.
    pub(super) fn update(&mut self, index: u32, domains: &[Domain], has_samplers: bool) {
        let Some(domain) = domains.get(index as usize) else { return };
        let exporter = exporter_of(domain.key);
        let shared = if has_samplers { Some(self.0.entry(exporter).or_default()) } else { self.0.get_mut(&exporter) };
        let Some(shared) = shared else { return };
        if has_samplers && !shared.domains.contains(&index) && shared.domains.len() < DOMAINS_MAX {
            shared.domains.push(index);
        }
        shared.update(domains);
    }

    /// Forgets a domain.
    pub(super) fn forget(&mut self, index: u32, key: DomainKey, domains: &[Domain]) {
        let exporter = exporter_of(key);
        let Some(shared) = self.0.get_mut(&exporter) else { return };
        let before = shared.domains.len();
        shared.domains.retain(|domain| *domain != index);
        if shared.domains.is_empty() {
            self.0.remove(&exporter);
        } else if shared.domains.len() < before {
            shared.update(domains);
        }
    }
}

impl SharedSamplers {
    fn update(&mut self, domains: &[Domain]) {
        let reporting = self.domains.iter().filter_map(|&index| domains.get(index as usize));
        let without_flows = reporting.clone().filter(|domain| !domain.carries_flows);
        let (named, unnamed) = (
            Samplers::agreed(reporting.map(|domain| &domain.samplers)),
            Samplers::agreed(without_flows.map(|domain| &domain.samplers)),
        );
        (self.named, self.unnamed) = (named, unnamed);
    }
}
