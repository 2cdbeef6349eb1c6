//! What options data report about sampling.
//!
//! A sampler is identified by its own number (`selectorId`, `samplerId`), or by the interface that it is on, or,
//! without either, is the only one of its Observation Domain. The interval N is one packet in N; where an exporter
//! reports a fraction, the nearest whole number. Exporters may report samplers in another domain than that of the flows
//! (a line card, or the exporter as a whole): that is believed where there is no doubt which sampler is meant.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use weir_wire::{ElementId, ScopeType, Template, value};

use crate::records::Records;

/// Most samplers of one domain that are remembered; the oldest knowledge stays, what comes later is counted.
pub(crate) const SAMPLERS_MAX: usize = 1_024;

/// Packets selected, of packets observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub selected: u64,
    pub observed: u64,
}

impl Rate {
    /// `None` unless something is selected, of at least as much.
    pub(crate) fn new(selected: u64, observed: u64) -> Option<Self> {
        (selected > 0 && observed >= selected).then_some(Self { selected, observed })
    }

    /// One packet in this many, rounded; `None` beyond 32 bits.
    pub(crate) fn interval(self) -> Option<u32> {
        let (whole, rest) = (self.observed / self.selected, self.observed % self.selected);
        let up = u64::from(rest >= self.selected - rest);
        u32::try_from(whole + up).ok()
    }

    /// A probability (`samplingProbability`), to a millionth.
    fn of_probability(probability: f64) -> Option<Self> {
        const SELECTED: u64 = 1_000_000;
        let valid = probability > 0.0 && probability <= 1.0;
        Self::new(SELECTED, if valid { (SELECTED as f64 / probability).round() as u64 } else { 0 })
    }
}

/// Where an options template has what describes samplers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SamplerFields {
    sampler: Option<usize>,
    interface: Option<usize>,
    intervals: [Option<usize>; 2],
    packets: Option<usize>,
    space: Option<usize>,
    size: Option<usize>,
    population: Option<usize>,
    probability: Option<usize>,
}

impl SamplerFields {
    /// The fields of a template. Scopes of NetFlow v9 are no elements, but their numbers are none of those here.
    pub(crate) fn of(template: &Template, netflow9: bool) -> Self {
        let position = |id: u16| {
            let mut fields = template.filled_fields();
            fields.find(|(_, field)| field.element == ElementId::iana(id)).map(|(number, _)| number)
        };
        let mut scopes = template.filled_fields().filter(|(field, _)| *field < template.scope_count());
        let interface = scopes.find(|(_, field)| match field.element.id {
            id if netflow9 => ScopeType::from_id(id) == ScopeType::Interface,
            // ingressInterface, ingressPhysicalInterface
            id => field.element.enterprise == 0 && matches!(id, 10 | 252),
        });
        let interface = interface.map(|(field, _)| field);
        Self {
            // selectorId, samplerId
            sampler: position(302).or(position(48)),
            interface,
            // samplingInterval, samplerRandomInterval
            intervals: [position(34), position(50)],
            packets: position(305),
            space: position(306),
            size: position(309),
            population: position(310),
            probability: position(311),
        }
    }

    /// What a record is about: the sampler's number, or the interface's.
    pub(crate) fn sampler(&self, records: Records<'_>, record: usize) -> Option<u64> {
        self.sampler.and_then(|field| records.number(field, record))
    }

    fn interface(&self, records: Records<'_>, record: usize) -> Option<u64> {
        self.interface.and_then(|field| records.number(field, record))
    }

    /// The rate that a record reports: the first of the possible fields that makes sense.
    pub(crate) fn rate(&self, records: Records<'_>, record: usize) -> Option<Rate> {
        let number = |field: Option<usize>| field.and_then(|field| records.number(field, record));
        let plain = |field| number(field).and_then(|interval| Rate::new(1, interval));
        let probability = || {
            let octets = self.probability.map(|field| records.octets_of(field, record))?;
            Rate::of_probability(value::float64(octets)?)
        };
        self.intervals
            .into_iter()
            .find_map(plain)
            .or_else(|| {
                let packets = number(self.packets)?;
                Rate::new(packets, packets.saturating_add(number(self.space)?))
            })
            // Cisco IOS XR reports n out of N and in the same record an interval of 1, which means nothing then
            .or_else(|| Rate::new(number(self.size)?, number(self.population)?))
            .or_else(probability)
            // alone it is what some exporters have for an interval, which 1 cannot be
            .or_else(|| plain(self.packets).filter(|rate| rate.observed > 1))
    }
}

/// The samplers of one Observation Domain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samplers {
    by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
    by_interface: HashMap<u64, u32, foldhash::fast::RandomState>,
    any: Option<u32>,
}

/// Which sampler of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sampler {
    /// The one that is meant when none is named.
    Any,
    /// One with a number of its own.
    Numbered(u64),
    /// That of an interface.
    OfInterface(u64),
}

/// What was learned from Options Data Records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SamplersLearned {
    /// Intervals that are others than before.
    pub changes: Vec<SamplerChange>,
    /// Samplers not known before.
    pub new: usize,
    /// Those beyond the limits.
    pub refused: u64,
}

/// The interval of a sampler before, if it was known, and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SamplerChange {
    pub sampler: Sampler,
    pub before: Option<u32>,
    pub now: u32,
}

impl Samplers {
    /// Whether anything is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none() && self.by_id.is_empty() && self.by_interface.is_empty()
    }

    /// Whether interfaces have samplers of their own.
    pub(crate) fn differ_by_interface(&self) -> bool {
        !self.by_interface.is_empty()
    }

    /// The interval in force for records that name no sampler: the only one there is.
    pub(crate) fn only(&self) -> Option<u32> {
        match self.by_id.len() {
            0 => self.any,
            1 if self.by_interface.is_empty() => self.by_id.values().next().copied(),
            _ => None,
        }
    }

    /// The interval of an interface's sampler; on interfaces without one, that of all.
    pub(crate) fn of_interface(&self, interface: u64) -> Option<u32> {
        self.by_interface.get(&interface).copied().or_else(|| self.only())
    }

    /// Every sampler: which, and its interval.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Sampler, u32)> + '_ {
        let any = self.any.iter().map(|&interval| (Sampler::Any, interval));
        let by_id = self.by_id.iter().map(|(&id, &interval)| (Sampler::Numbered(id), interval));
        let by_interface = self.by_interface.iter().map(|(&id, &interval)| (Sampler::OfInterface(id), interval));
        any.chain(by_id).chain(by_interface)
    }

    /// Samplers with a number or interface of their own.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len() + self.by_interface.len()
    }

    /// Sets the interval of a sampler. Returns what it was before.
    pub(crate) fn set(&mut self, sampler: Sampler, interval: u32) -> Option<u32> {
        match sampler {
            Sampler::Any => self.any.replace(interval),
            Sampler::Numbered(id) => self.by_id.insert(id, interval),
            Sampler::OfInterface(id) => self.by_interface.insert(id, interval),
        }
    }

    /// Forgets a sampler.
    pub(crate) fn remove(&mut self, sampler: Sampler) {
        match sampler {
            Sampler::Any => self.any = None,
            Sampler::Numbered(id) => drop(self.by_id.remove(&id)),
            Sampler::OfInterface(id) => drop(self.by_interface.remove(&id)),
        }
    }

    /// The interval of a sampler. Records name sampler 0 when there was none.
    pub(crate) fn of(&self, sampler: u64) -> Option<u32> {
        self.by_id.get(&sampler).copied().or(self.any.filter(|_| sampler != 0))
    }

    /// Learns from Options Data Records. `free` is how many samplers more may be remembered.
    pub(crate) fn learn(&mut self, fields: &SamplerFields, records: Records<'_>, mut free: usize) -> SamplersLearned {
        let mut learned = SamplersLearned::default();
        for record in 0..records.len() {
            let Some(interval) = fields.rate(records, record).and_then(Rate::interval) else { continue };
            let (sampler, before) = match (fields.sampler(records, record), fields.interface(records, record)) {
                (Some(id), _) => (Sampler::Numbered(id), set_within(&mut self.by_id, free, id, interval)),
                (None, Some(id)) => (Sampler::OfInterface(id), set_within(&mut self.by_interface, free, id, interval)),
                (None, None) => (Sampler::Any, Known::Before(self.any.replace(interval))),
            };
            let before = match before {
                Known::Before(before) => before,
                Known::Not => {
                    free -= 1;
                    learned.new += 1;
                    None
                }
                Known::OverLimit => {
                    learned.refused += 1;
                    continue;
                }
            };
            match learned.changes.last_mut() {
                // as short a record as may be tells of the only sampler of a domain, and thousands fit into a set
                Some(last) if last.sampler == sampler => last.now = interval,
                _ if before == Some(interval) => {}
                _ => learned.changes.push(SamplerChange { sampler, before, now: interval }),
            }
        }
        learned
    }
}

/// What was known of a sampler before its interval was set.
enum Known {
    Before(Option<u32>),
    /// It is a new one.
    Not,
    /// It would be one too many, and was not set.
    OverLimit,
}

/// Sets the interval of a sampler, of which `free` more may be remembered.
fn set_within(
    samplers: &mut HashMap<u64, u32, foldhash::fast::RandomState>,
    free: usize,
    id: u64,
    interval: u32,
) -> Known {
    let has_capacity = samplers.len() < SAMPLERS_MAX && free > 0;
    match samplers.entry(id) {
        Entry::Occupied(mut known) => Known::Before(Some(known.insert(interval))),
        Entry::Vacant(place) if has_capacity => {
            place.insert(interval);
            Known::Not
        }
        Entry::Vacant(_) => Known::OverLimit,
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::{ElementId, FieldSpecifier, Spans, TemplateId};

    use super::*;

    fn learn(
        samplers: &mut Samplers,
        scopes: u16,
        fields: &[(u16, u16)],
        body: &[u8],
        netflow9: bool,
    ) -> SamplersLearned {
        let specifiers =
            fields.iter().map(|&(id, length)| FieldSpecifier { element: ElementId::iana(id), length }).collect();
        let template = Template::new(TemplateId::new(256).expect("id"), specifiers, scopes).expect("template");
        let mut spans = Spans::default();
        let located = template.layout().locate(body, &mut spans);
        samplers.learn(&SamplerFields::of(&template, netflow9), Records { body, located: &located }, usize::MAX)
    }

    fn only(fields: &[(u16, u16)], body: &[u8]) -> Option<u32> {
        let mut samplers = Samplers::default();
        learn(&mut samplers, 0, fields, body, false);
        samplers.only()
    }

    #[test]
    fn every_field_that_reports_an_interval() {
        assert_eq!(only(&[(34, 4)], &[0, 0, 3, 232]), Some(1000));
        assert_eq!(only(&[(48, 1), (49, 1), (50, 2)], &[3, 2, 0, 100]), Some(100));
        assert_eq!(only(&[(305, 4), (306, 4)], &[0, 0, 0, 1, 0, 0, 3, 231]), Some(1000));
        assert_eq!(only(&[(309, 2), (310, 2)], &[0, 2, 0, 200]), Some(100));
        // 0.001 as float64
        assert_eq!(only(&[(311, 8)], &0.001_f64.to_be_bytes()), Some(1000));
        assert_eq!(only(&[(305, 4)], &[0, 0, 0, 64]), Some(64));
        // no interval, and a fraction
        assert_eq!(only(&[(34, 4)], &[0; 4]), None);
        assert_eq!(only(&[(309, 1), (310, 1)], &[2, 3]), Some(2));
        assert_eq!(only(&[(309, 1), (310, 1)], &[4, 5]), Some(1));
        assert_eq!(only(&[(311, 8)], &0.0_f64.to_be_bytes()), None);
    }

    #[test]
    fn samplers_of_interfaces_and_of_numbers() {
        let mut samplers = Samplers::default();
        // scope interface of NetFlow v9
        learn(&mut samplers, 1, &[(2, 2), (34, 2)], &[0, 7, 0, 10, 0, 8, 0, 20], true);
        assert_eq!((samplers.of_interface(7), samplers.of_interface(8)), (Some(10), Some(20)));
        assert_eq!((samplers.of_interface(9), samplers.only()), (None, None));
        // number 2 is an interface there and packetDeltaCount here
        let mut samplers = Samplers::default();
        learn(&mut samplers, 1, &[(2, 2), (34, 2)], &[0, 7, 0, 10], false);
        assert_eq!(samplers.only(), Some(10));
        learn(&mut samplers, 1, &[(302, 1), (34, 2)], &[5, 0, 50], false);
        assert_eq!((samplers.of(5), samplers.of(6), samplers.of(0)), (Some(50), Some(10), None));
    }

    #[test]
    fn a_sampler_that_changes_from_record_to_record_changes_once() {
        let mut samplers = Samplers::default();
        let learned = learn(&mut samplers, 0, &[(34, 1)], &[5, 6, 7], false);
        assert_eq!(learned.changes, [SamplerChange { sampler: Sampler::Any, before: None, now: 7 }]);
        let fields = [(302, 1), (34, 1)];
        let learned = learn(&mut samplers, 1, &fields, &[1, 10, 1, 20, 2, 10, 1, 30], false);
        let change = |id, before, now| SamplerChange { sampler: Sampler::Numbered(id), before, now };
        assert_eq!(learned.changes, [change(1, None, 20), change(2, None, 10), change(1, Some(20), 30)]);
        assert_eq!((learned.new, samplers.of(1), samplers.of(2)), (2, Some(30), Some(10)));
    }

    #[test]
    fn samplers_beyond_the_limit_are_counted() {
        let mut samplers = Samplers::default();
        let body: Vec<u8> = (0..1_030_u16).flat_map(|id| [id.to_be_bytes(), [0, 9]].concat()).collect();
        let learned = learn(&mut samplers, 1, &[(302, 2), (34, 2)], &body, false);
        assert_eq!((learned.changes.len(), learned.new, learned.refused), (1_024, 1_024, 6));
        let change = SamplerChange { sampler: Sampler::Numbered(1), before: Some(9), now: 5 };
        assert_eq!(
            learn(&mut samplers, 1, &[(302, 2), (34, 2)], &[0, 1, 0, 5], false),
            SamplersLearned { changes: vec![change], new: 0, refused: 0 }
        );
        assert_eq!(learn(&mut samplers, 1, &[(302, 2), (34, 2)], &[0, 1, 0, 5], false), SamplersLearned::default());
        assert_eq!(samplers.of(1), Some(5));
    }
}
