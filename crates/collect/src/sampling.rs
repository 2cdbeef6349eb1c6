//! What options data tell about sampling.
//!
//! A sampler is told by its own identifier (`selectorId`, `samplerId`) or, without one, is the only one of its
//! Observation Domain. The interval is one packet in so many.

use std::collections::HashMap;

use weir_wire::Template;

use crate::columns::Records;

/// Most samplers of one domain that are remembered; the oldest knowledge stays.
const SAMPLERS_MAX: usize = 1_024;

/// The samplers of one Observation Domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samplers {
    by_id: HashMap<u64, u32>,
    any: Option<u32>,
}

impl Samplers {
    /// Whether anything is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none() && self.by_id.is_empty()
    }

    /// The interval in force for records that name no sampler: the only one there is.
    pub(crate) fn only(&self) -> Option<u32> {
        match self.by_id.len() {
            0 => self.any,
            1 => self.by_id.values().next().copied(),
            _ => None,
        }
    }

    /// The interval of a sampler.
    pub(crate) fn of(&self, sampler: u64) -> Option<u32> {
        self.by_id.get(&sampler).copied().or(self.any)
    }

    /// Learns from options data records.
    pub(crate) fn learn(&mut self, template: &Template, records: Records<'_>) {
        let field_of = |ids: &[u16]| {
            template.fields().iter().position(|field| field.element.enterprise == 0 && ids.contains(&field.element.id))
        };
        // 302 selectorId, 48 samplerId; 34 samplingInterval, 50 samplerRandomInterval, 305 samplingPacketInterval,
        // 306 samplingPacketSpace, 309 samplingSize, 310 samplingPopulation
        let (sampler, plain, packets, space) =
            (field_of(&[302, 48]), field_of(&[34, 50]), field_of(&[305]), field_of(&[306]));
        let (size, population) = (field_of(&[309]), field_of(&[310]));
        for record in 0..records.len() {
            let value = |field: Option<usize>| field.and_then(|field| records.number(field, record));
            let interval = value(plain)
                .or_else(|| one_in(value(packets)?, value(packets)?.saturating_add(value(space)?)))
                // Cisco IOS XR tells n out of N and in the same record an interval of 1, which means nothing then
                .or_else(|| one_in(value(size)?, value(population)?))
                .or_else(|| value(packets));
            let Some(interval) = interval.and_then(|interval| u32::try_from(interval).ok()).filter(|i| *i > 0) else {
                continue;
            };
            match value(sampler) {
                Some(id) if self.by_id.len() < SAMPLERS_MAX || self.by_id.contains_key(&id) => {
                    self.by_id.insert(id, interval);
                }
                Some(_) => {}
                None => self.any = Some(interval),
            }
        }
    }
}

/// `selected` packets out of `of` make one in `of / selected`.
fn one_in(selected: u64, of: u64) -> Option<u64> {
    of.checked_div(selected)
}
