//! Templates: defined, redefined, withdrawn, expired, lent.

use weir_flow::Counter;
use weir_wire::{Template, TemplateId, TemplateRecord, TemplateRecords};

use super::Decoder;
use crate::lists;
use crate::session::Known;

/// Domains looked at for templates that have expired, in one call.
const SWEEP_DOMAINS: usize = 1_024;

impl Decoder {
    pub(super) fn templates(&mut self, index: u32, records: TemplateRecords<'_>, options: bool) {
        for record in records {
            match record {
                Ok(TemplateRecord::Define(template)) => self.define(index, template),
                Ok(TemplateRecord::Withdraw(id)) => self.withdraw(index, |known| known.template.id() == id),
                // RFC 7011 section 8.1: all templates of the set's kind
                Ok(TemplateRecord::WithdrawAll) => {
                    self.withdraw(index, |known| known.template.is_options() == options);
                }
                Err(error) => self.note_in_set(index, Some(error)),
            }
        }
    }

    pub(super) fn withdraw(&mut self, index: u32, is_meant: impl Fn(&Known) -> bool) {
        self.forget_templates(index, is_meant);
        self.count(index, Counter::TemplatesWithdrawn, 1);
    }

    /// Forgets some templates of a domain. Returns how many.
    pub(super) fn forget_templates(&mut self, index: u32, is_meant: impl Fn(&Known) -> bool) -> usize {
        let domain = &mut self.domains[index as usize];
        let (templates, fields) = (domain.templates.len(), domain.template_fields);
        let mut left = 0;
        domain.templates.retain(|_, known| {
            let stays = !is_meant(known);
            left += if stays { known.template.fields().len() } else { 0 };
            stays
        });
        domain.template_fields = left;
        let forgotten = templates - domain.templates.len();
        if forgotten > 0 {
            // a map never shrinks by itself
            domain.templates.shrink_to(domain.templates.len() * 2);
            self.template_fields -= fields - left;
            self.templates -= forgotten;
            self.state.changed = true;
        }
        forgotten
    }

    pub(super) fn define(&mut self, index: u32, template: Template) {
        self.count(index, Counter::Templates, 1);
        let (id, now_ms) = (template.id(), self.now_ms);
        let domain = &mut self.domains[index as usize];
        let changed = domain.templates.get(&id).is_some_and(|known| known.template != template);
        domain.inspection.template(now_ms, changed);
        domain.template_came(now_ms);
        match domain.templates.get_mut(&id) {
            Some(known) if !changed => {
                (known.refreshed_ms, known.lent) = (now_ms, false);
                self.state.refreshed = true;
                return self.lend(index, id);
            }
            Some(_) => {
                // It takes effect at once (RFC 7011 section 8.4), and even if there is no room for the new one: its
                // records must not be read by the old.
                self.forget_templates(index, |known| known.template.id() == id);
                self.count(index, Counter::TemplatesChanged, 1);
            }
            None => {}
        }
        if self.remember(index, template, now_ms) {
            self.template_came(index, id);
            self.lend(index, id);
        } else {
            self.count(index, Counter::TemplatesRefused, 1);
        }
    }

    /// Remembers a template that the domain does not have. False when there is no room for it.
    pub(super) fn remember(&mut self, index: u32, template: Template, refreshed_ms: i64) -> bool {
        let fields = template.fields().len();
        if self.domains[index as usize].templates.len() >= self.limits.templates_per_domain_max
            || !self.make_room_for_template(index, fields)
        {
            return false;
        }
        let domain = &mut self.domains[index as usize];
        let learned = &domain.learned_lists;
        let list_kind = |element| lists::registered(element).or_else(|| learned.get(&element).copied());
        let known = Known::new(template, domain.key.version, refreshed_ms, list_kind);
        domain.templates.insert(known.template.id(), known);
        domain.template_fields += fields;
        self.templates += 1;
        self.template_fields += fields;
        self.state.changed = true;
        true
    }

    /// Whether records can be decoded. A template that was not sent again in time is forgotten here, and one that
    /// another port of the exporter has sent is taken, if that was asked for.
    #[inline]
    pub(super) fn knows(&mut self, index: u32, id: TemplateId, received_ms: i64) -> bool {
        let domain = &self.domains[index as usize];
        match domain.templates.get(&id) {
            Some(known) if !domain.has_expired(known, received_ms) => {
                self.recalling.is_empty() || {
                    // those that waited on disk come first
                    !self.recalling.contains_key(&(index, id))
                }
            }
            Some(_) => {
                self.expire_templates(index, received_ms);
                self.borrow(index, id)
            }
            None => self.borrow(index, id),
        }
    }

    fn expire_templates(&mut self, index: u32, now_ms: i64) {
        let lifetime_ms = self.domains[index as usize].template_lifetime_ms;
        let expired = self.forget_templates(index, |known| now_ms.saturating_sub(known.refreshed_ms) > lifetime_ms);
        self.count(index, Counter::TemplatesExpired, expired as u64);
    }

    /// Looks at some of the domains, and all of them in turn.
    pub(super) fn sweep_templates(&mut self, now_ms: i64) {
        for _ in 0..SWEEP_DOMAINS.min(self.domains.len()) {
            self.swept = (self.swept + 1) % self.domains.len();
            let domain = &self.domains[self.swept];
            if domain.templates.values().any(|known| domain.has_expired(known, now_ms)) {
                self.expire_templates(self.swept as u32, now_ms);
            }
        }
    }
}
