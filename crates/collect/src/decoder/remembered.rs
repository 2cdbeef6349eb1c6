//! What is known of exporters as octets, for the process after this one.

use std::net::SocketAddr;

use super::Decoder;
use crate::session::Standing;
use crate::state::StateError;
use crate::state::format::{RememberedDomain, Writer, read_part};

/// Whether what is known is another than when it was last exported.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Changes {
    /// Something came or went.
    pub changed: bool,
    /// Templates were sent again as they were.
    pub refreshed: bool,
}

impl Decoder {
    /// What a decoder needs to decode the next datagram of every exporter: templates, samplers, when exporters
    /// started.
    pub fn export_state(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        for domain in &self.domains {
            let known = domain.templates.values().filter(|known| !known.lent);
            let remembered = RememberedDomain {
                key: domain.key,
                proven: domain.standing == Standing::Proven,
                heard_ms: domain.heard_ms,
                datagrams: domain.datagrams,
                records_since_ms: domain.records_since_ms,
                system_init_ms: domain.system_init_ms,
                samplers: domain.samplers.all().collect(),
                lists: domain.learned_lists.iter().map(|(&element, &kind)| (element, kind)).collect(),
                templates: known.map(|known| (known.template.clone(), known.refreshed_ms)).collect(),
            };
            if remembered.proven || !remembered.templates.is_empty() || !remembered.samplers.is_empty() {
                writer.domain(&remembered);
            }
        }
        writer.finish()
    }

    /// Whether the state should be exported again, by what has happened since this was last asked.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.state)
    }

    /// Learns what decoders before this one have exported, any number of them one after the other. Of what two of
    /// them knew about a domain, or this one knows, the latest counts. The limits hold as ever.
    ///
    /// # Errors
    ///
    /// [`StateError`] where the octets are not such state; what comes before is learnt.
    pub fn import_state(&mut self, octets: &[u8]) -> Result<(), StateError> {
        self.import_state_of(octets, |_| true)
    }

    /// Learns what was exported of some sources: the decoders of a process each have their own.
    ///
    /// # Errors
    ///
    /// As [`import_state`](Self::import_state).
    pub fn import_state_of(
        &mut self,
        mut octets: &[u8],
        is_own: impl Fn(SocketAddr) -> bool,
    ) -> Result<(), StateError> {
        let mut remembered = Vec::new();
        let mut read = Ok(());
        while !octets.is_empty() && read.is_ok() {
            read = read_part(&mut octets)
                .map(|part| remembered.extend(part.into_iter().filter(|domain| is_own(domain.key.session.source))));
        }
        // when there are too many, those heard last are learnt
        remembered.sort_by_key(|domain| std::cmp::Reverse(domain.heard_ms));
        for domain in remembered {
            self.learn(domain);
        }
        self.state = Changes::default();
        read
    }

    fn learn(&mut self, remembered: RememberedDomain) {
        if self.index.contains_key(&remembered.key) || self.domains.len() >= self.limits.domains_max {
            return;
        }
        let Some(index) = self.find(remembered.key) else { return };
        let room = self.limits.samplers_max.saturating_sub(self.samplers_known);
        let domain = &mut self.domains[index as usize];
        domain.standing = if remembered.proven { Standing::Proven } else { Standing::New };
        domain.heard_ms = remembered.heard_ms;
        domain.datagrams = remembered.datagrams;
        domain.records_since_ms = remembered.records_since_ms;
        domain.system_init_ms = remembered.system_init_ms;
        for (sampler, interval) in remembered.samplers.into_iter().take(room) {
            let _ = domain.samplers.set(sampler, interval);
        }
        self.samplers_known += domain.samplers.len();
        // before the templates, which are read by them
        domain.learn_lists(remembered.lists);
        self.lists_learned += domain.learned_lists.len();
        if !domain.samplers.is_empty() {
            self.samplers.changed(index, &self.domains, true);
        }
        for (template, refreshed_ms) in remembered.templates {
            let id = template.id();
            // a clock that was wrong must not make templates that never expire
            if self.remember(index, template, refreshed_ms.min(remembered.heard_ms)) {
                self.template_came(index, id);
            }
        }
    }
}
