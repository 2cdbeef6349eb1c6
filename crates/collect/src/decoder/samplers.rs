//! Samplers that an exporter reports in another Observation Domain than that of its flows.
//!
//! Domains of one transport session share them: address and port identify one of UDP (RFC 7011 section 10.3.1). Where it was
//! asked for, all ports of an address do; unasked, one datagram from any port of a forged address would change what the
//! exporter's flows are scaled by.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::domain::{Domain, DomainKey};
use crate::sampling::part::Part;
use crate::sampling::{KnownSamplers, Sampler, SamplerChange, Samplers};
use crate::session::{Session, Transport};

/// Most domains of an exporter whose samplers are looked at for its others.
const DOMAINS_MAX: usize = 64;

/// Samplers about which the domains of one exporter agree.
#[derive(Debug, Default)]
pub(super) struct SharedSamplers {
    /// Domains that reported samplers.
    domains: Vec<u32>,
    /// For records that name a sampler: what no domain contradicts.
    named: Agreement,
    /// For records that name none: what domains without flows of their own report, which is about others then.
    unnamed: Agreement,
}

impl SharedSamplers {
    /// What counts for a domain that knows of no sampler itself.
    pub(super) fn known_to(&self, domain: u32) -> KnownSamplers<'_> {
        let (named, unnamed) = (&self.named.agreed, &self.unnamed.agreed);
        KnownSamplers { named, unnamed, of_domain: named.of_part(Part::Domain, domain.into()) }
    }
}

/// What several domains report. A sampler's number may mean one thing here and another there, and then nothing.
///
/// It is kept change by change: an exporter with many domains and samplers sends changes all the time, and one that
/// means ill sends nothing else.
#[derive(Debug, Default)]
struct Agreement {
    /// How many domains report which intervals.
    votes: HashMap<Sampler, Vec<(u32, u32)>, foldhash::fast::RandomState>,
    agreed: Samplers,
}

impl Agreement {
    /// Takes that a domain reports an interval, and no longer the one before.
    fn change(&mut self, sampler: Sampler, before: Option<u32>, now: Option<u32>) {
        if let Sampler::Of(part, _) = sampler
            && part.is_of_one_domain()
        {
            return;
        }
        let votes = self.votes.entry(sampler).or_default();
        if let Some(before) = before
            && let Some(place) = votes.iter().position(|(interval, _)| *interval == before)
        {
            votes[place].1 -= 1;
            if votes[place].1 == 0 {
                votes.swap_remove(place);
            }
        }
        if let Some(now) = now {
            match votes.iter_mut().find(|(interval, _)| *interval == now) {
                Some((_, count)) => *count += 1,
                None => votes.push((now, 1)),
            }
        }
        match votes[..] {
            [(interval, _)] => drop(self.agreed.set(sampler, interval)),
            [] => {
                self.votes.remove(&sampler);
                self.agreed.remove(sampler);
            }
            [..] => self.agreed.remove(sampler),
        }
    }

    fn add_all(&mut self, samplers: &Samplers) {
        samplers.all().for_each(|(sampler, interval)| self.change(sampler, None, Some(interval)));
    }

    fn remove_all(&mut self, samplers: &Samplers) {
        samplers.all().for_each(|(sampler, interval)| self.change(sampler, Some(interval), None));
    }
}

/// Samplers known beyond single domains, by session and version.
#[derive(Debug, Default)]
pub(super) struct ExporterSamplers {
    exporters: HashMap<Exporter, SharedSamplers, foldhash::fast::RandomState>,
    across_ports: bool,
}

/// A session and a version; without the port where all ports of an address are one exporter.
type Exporter = (Transport, IpAddr, Option<u16>, u8);

impl ExporterSamplers {
    /// Takes all ports of an address for one exporter.
    pub(super) fn share_across_ports(&mut self) {
        self.across_ports = true;
    }

    fn exporter_of(&self, key: DomainKey) -> Exporter {
        let Session { transport, source } = key.session;
        (transport, source.ip().to_canonical(), (!self.across_ports).then_some(source.port()), key.version)
    }

    /// What holds for a domain that knows of no sampler itself.
    pub(super) fn of(&self, key: DomainKey) -> Option<&SharedSamplers> {
        if self.exporters.is_empty() { None } else { self.exporters.get(&self.exporter_of(key)) }
    }

    /// Takes what a domain has reported about samplers, of which it knows some: what has changed, or all when it is new
    /// here, as one is for which there was no place before. Returns whether there is a place for it.
    pub(super) fn report(&mut self, index: u32, domain: &Domain, changes: &[SamplerChange]) -> bool {
        let exporter = self.exporter_of(domain.key);
        let shared = self.exporters.entry(exporter).or_default();
        if !shared.domains.contains(&index) {
            if shared.domains.len() >= DOMAINS_MAX {
                return false;
            }
            shared.domains.push(index);
            shared.named.add_all(&domain.samplers);
            if !domain.carries_flows {
                shared.unnamed.add_all(&domain.samplers);
            }
            return true;
        }
        for SamplerChange { sampler, before, now } in changes {
            shared.named.change(*sampler, *before, Some(*now));
            if !domain.carries_flows {
                shared.unnamed.change(*sampler, *before, Some(*now));
            }
        }
        true
    }

    /// Takes that the first flows of a domain have come.
    pub(super) fn flows_began(&mut self, index: u32, domain: &Domain) {
        let exporter = self.exporter_of(domain.key);
        let shared = self.exporters.get_mut(&exporter).filter(|shared| shared.domains.contains(&index));
        if let Some(shared) = shared {
            shared.unnamed.remove_all(&domain.samplers);
        }
    }

    /// Forgets a domain.
    pub(super) fn forget(&mut self, index: u32, domain: &Domain) {
        let exporter = self.exporter_of(domain.key);
        let Some(shared) = self.exporters.get_mut(&exporter) else { return };
        let Some(place) = shared.domains.iter().position(|known| *known == index) else { return };
        shared.domains.swap_remove(place);
        if shared.domains.is_empty() {
            self.exporters.remove(&exporter);
            return;
        }
        shared.named.remove_all(&domain.samplers);
        if !domain.carries_flows {
            shared.unnamed.remove_all(&domain.samplers);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sampler() -> impl Strategy<Value = Sampler> {
        let part = prop::sample::select(vec![Part::Interface, Part::EgressInterface, Part::ExportingProcess]);
        prop_oneof![
            Just(Sampler::Any),
            (0u64..3).prop_map(Sampler::Numbered),
            (part, 0u64..3).prop_map(|(part, number)| Sampler::Of(part, number)),
        ]
    }

    /// What all agree about, found by looking at all.
    fn agreed(domains: &[Samplers]) -> Vec<(Sampler, u32)> {
        let all: Vec<(Sampler, u32)> = domains.iter().flat_map(Samplers::all).collect();
        let is_agreed = |(sampler, interval): &(Sampler, u32)| {
            all.iter().filter(|(other, _)| other == sampler).all(|(_, other)| other == interval)
        };
        all.iter().filter(|one| is_agreed(one)).copied().collect()
    }

    fn sorted(mut all: Vec<(Sampler, u32)>) -> Vec<String> {
        all.dedup();
        let mut texts: Vec<String> = all.iter().map(|one| format!("{one:?}")).collect();
        texts.sort();
        texts.dedup();
        texts
    }

    proptest! {
        #[test]
        fn what_is_kept_change_by_change_is_what_all_agree_about(
            steps in prop::collection::vec((0usize..3, sampler(), 1u32..4, prop::bool::weighted(0.1)), 0..60),
        ) {
            let (mut domains, mut agreement) = (vec![Samplers::default(); 3], Agreement::default());
            for (domain, sampler, interval, is_forgotten) in steps {
                if is_forgotten {
                    agreement.remove_all(&domains[domain]);
                    domains[domain] = Samplers::default();
                } else {
                    let before = domains[domain].set(sampler, interval);
                    agreement.change(sampler, before, Some(interval));
                }
                prop_assert_eq!(sorted(agreement.agreed.all().collect()), sorted(agreed(&domains)));
                let reported: usize = domains.iter().map(|samplers| samplers.all().count()).sum();
                let votes: u32 = agreement.votes.values().flatten().map(|(_, count)| count).sum();
                prop_assert_eq!(votes as usize, reported);
            }
        }
    }
}
