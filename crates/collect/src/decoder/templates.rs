//! Templates: defined, redefined, withdrawn.

use weir_flow::Counter;
use weir_wire::{Template, TemplateRecord, TemplateRecords};

use super::Decoder;
use crate::plan::Plan;
use crate::session::Known;

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
        let mut fields = 0;
        self.domains[index as usize].templates.retain(|_, known| {
            let stays = !is_meant(known);
            fields += if stays { 0 } else { known.template.fields().len() };
            stays
        });
        self.template_fields -= fields;
        self.count(index, Counter::TemplatesWithdrawn, 1);
    }

    pub(super) fn define(&mut self, index: u32, template: Template) {
        self.count(index, Counter::Templates, 1);
        let id = template.id();
        let domain = &mut self.domains[index as usize];
        let (templates, header_uptime) = (&mut domain.templates, domain.key.version != 10);
        if templates.get(&id).is_some_and(|known| known.template == template) {
            return;
        }
        let replaced = templates.get(&id).map_or(0, |known| known.template.fields().len());
        let fields = self.template_fields - replaced + template.fields().len();
        let too_many = templates.len() >= self.limits.templates_per_domain_max && replaced == 0;
        if too_many || fields > self.limits.template_fields_max {
            return self.count(index, Counter::TemplatesRefused, 1);
        }
        templates.insert(id, Known { plan: Plan::compile(&template, header_uptime), template });
        self.template_fields = fields;
        let released = self.waiting.release(index, id);
        self.released.extend(released.into_iter().map(|set| (index, id, set)));
    }
}
