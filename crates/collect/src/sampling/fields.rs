//! What the records of an options template say about samplers, and where they have it.

use weir_wire::{ElementId, ScopeType, Template};

use super::part::{Part, Sampler};
use super::rate::Rate;
use super::sequence::{SELECTORS_MAX, SequenceSelectors};
use crate::records::Records;

/// `selectorAlgorithm`, and its value for filters that match properties of packets (RFC 5477 section 8.2.1).
const SELECTOR_ALGORITHM: u16 = 304;
const PROPERTY_MATCH: u64 = 5;

/// What the scopes of options name, without sampler and Observation Domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeSubject {
    /// The Observation Domain as a whole.
    Whole,
    /// A part, and the field that says which.
    Part(Part, usize),
    /// What no flow can be compared with.
    Unknown,
}

/// What one scope names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Whole,
    Part(Part),
    Unknown,
}

impl Scope {
    fn of(element: ElementId, netflow9: bool) -> Self {
        let ElementId { enterprise, id } = element;
        if netflow9 {
            match ScopeType::from_id(id) {
                ScopeType::System => return Self::Whole,
                ScopeType::Interface => return Self::Part(Part::Interface),
                ScopeType::LineCard => return Self::Part(Part::LineCard),
                ScopeType::Template => return Self::Part(Part::Template),
                ScopeType::Cache => return Self::Unknown,
                // a number that RFC 3954 does not name can only be meant as that of an element
                ScopeType::Other(_) => {}
            }
        }
        match id {
            _ if enterprise != 0 => Self::Unknown,
            // selectorId and samplerId are read apart from the scope; 1 is the system of NetFlow v9, for a count of
            // octets is no scope
            1 | 48 | 302 => Self::Whole,
            _ => Part::of_element(id).map_or(Self::Unknown, Self::Part),
        }
    }
}

impl ScopeSubject {
    /// What the scopes up to this one name together, which is a part of what each of them names.
    fn within(self, field: usize, scope: Scope) -> Self {
        match (self, scope) {
            (known, Scope::Whole | Scope::Part(Part::Domain)) => known,
            (Self::Whole, Scope::Part(part)) => Self::Part(part, field),
            (Self::Part(known, _), Scope::Part(part)) if known.is_whole() => Self::Part(part, field),
            (known, Scope::Part(part)) if part.is_whole() => known,
            // interfaces are numbered over all line cards
            (Self::Part(Part::LineCard, _), Scope::Part(part)) if part.is_interface() => Self::Part(part, field),
            (Self::Part(known, _), Scope::Part(Part::LineCard)) if known.is_interface() => self,
            _ => Self::Unknown,
        }
    }
}

/// Where an options template has which values of a hash select a packet (RFC 5476 section 6.5.2.6). A hash selects as a
/// sampler would that has the share of these values as its rate (RFC 5475 section 6.2).
#[derive(Debug, Clone)]
struct HashFields {
    /// The least and the greatest value that there are.
    output: (usize, usize),
    /// The same of the values that select, of which there may be several ranges.
    selected: Box<[(usize, usize)]>,
}

impl HashFields {
    fn rate(&self, records: Records<'_>, record: usize) -> Option<Rate> {
        let values = |(least, greatest): (usize, usize)| {
            let (least, greatest) = (records.number(least, record)?, records.number(greatest, record)?);
            Some(greatest.checked_sub(least)?.saturating_add(1))
        };
        let mut selected = 0_u64;
        for range in &self.selected {
            selected = selected.saturating_add(values(*range)?);
        }
        Rate::new(selected, values(self.output)?)
    }
}

/// Where an options template has what describes samplers.
#[derive(Debug, Clone)]
pub(crate) struct SamplerFields {
    sampler: Option<usize>,
    /// All samplers that records name, or one more than a Selection Sequence may have.
    selectors: Box<[usize]>,
    algorithm: Option<usize>,
    subject: ScopeSubject,
    /// The Observation Domain that options are about.
    domain: Option<usize>,
    intervals: [Option<usize>; 2],
    packets: Option<usize>,
    space: Option<usize>,
    size: Option<usize>,
    population: Option<usize>,
    probability: Option<usize>,
    hash: Option<HashFields>,
    /// See [`SamplerFields::tells`].
    tells: bool,
}

impl SamplerFields {
    /// The fields of a template. Scopes of NetFlow v9 are no elements, but their numbers are none of those here.
    pub(crate) fn of(template: &Template, netflow9: bool) -> Self {
        let positions = |id: u16| {
            let fields = template.filled_fields();
            fields.filter(move |(_, field)| field.element == ElementId::iana(id)).map(|(number, _)| number)
        };
        let position = |id: u16| positions(id).next();
        let scopes = template.filled_fields().filter(|(field, _)| *field < template.scope_count());
        let scopes = scopes.map(|(field, specifier)| (field, Scope::of(specifier.element, netflow9)));
        // selectorId, samplerId
        let sampler = position(302).or(position(48));
        let others = positions(302).skip(1);
        let algorithm = position(SELECTOR_ALGORITHM);
        // hashOutputRangeMin and Max, hashSelectedRangeMin and Max
        let output = algorithm.and_then(|_| position(329).zip(position(330)));
        let hash = output.map(|output| HashFields { output, selected: positions(331).zip(positions(332)).collect() });
        let subject = scopes.clone().fold(ScopeSubject::Whole, |subject, (field, scope)| subject.within(field, scope));
        let is_sequence = sampler.is_some() && matches!(subject, ScopeSubject::Part(Part::SelectionSequence, _));
        // samplingInterval, samplerRandomInterval, and what else makes up a rate
        let rates = [34, 50, 305, 306, 309, 310, 311].map(position);
        Self {
            tells: is_sequence || algorithm.is_some() || rates.iter().any(Option::is_some),
            sampler,
            selectors: sampler.into_iter().chain(others).take(SELECTORS_MAX + 1).collect(),
            algorithm,
            hash,
            domain: scopes.into_iter().find(|(_, scope)| *scope == Scope::Part(Part::Domain)).map(|(field, _)| field),
            subject,
            intervals: [rates[0], rates[1]],
            packets: rates[2],
            space: rates[3],
            size: rates[4],
            population: rates[5],
            probability: rates[6],
        }
    }

    /// Whether records may say anything about samplers, besides which one they are about.
    pub(crate) fn tells(&self) -> bool {
        self.tells
    }

    /// The records that tell anything. Where all of them are about the whole of the Observation Domain, the last one that has an
    /// interval says what is in force, and a later one that sampling is off; records may be as short as an octet.
    pub(super) fn telling(&self, records: Records<'_>) -> impl Iterator<Item = usize> + use<> {
        let is_of_whole = self.sampler.is_none()
            && self.algorithm.is_none()
            && self.domain.is_none()
            && self.subject == ScopeSubject::Whole;
        let has_interval = |record: &usize| self.rate(records, *record).is_some_and(|rate| rate.interval().is_some());
        let tells = |record: &usize| has_interval(record) || self.is_off(records, *record);
        let (mut before, mut first, mut count) = (None, 0, records.len());
        if is_of_whole {
            let last = (0..records.len()).rev().find(tells);
            (first, count) = last.map_or((0, 0), |last| (last, 1));
            if last.is_some_and(|last| !has_interval(&last)) {
                before = (0..first).rev().find(has_interval);
            }
        }
        before.into_iter().chain((first..records.len()).take(count))
    }

    /// The number of the sampler that a record names.
    pub(crate) fn sampler(&self, records: Records<'_>, record: usize) -> Option<u64> {
        self.sampler.and_then(|field| records.number(field, record))
    }

    /// Which sampler a record of this Observation Domain is about; `None` where no flow can be compared with its scope.
    /// A sampler's number holds whatever else the scope names, another Observation Domain included.
    pub(super) fn subject(&self, records: Records<'_>, record: usize, own_domain: u32) -> Option<Sampler> {
        // 0 is no domain (RFC 7011 section 3.1)
        let domain = self.domain.and_then(|field| records.number(field, record)).filter(|domain| *domain != 0);
        let other = domain.filter(|domain| *domain != u64::from(own_domain));
        if let Some(id) = self.sampler(records, record) {
            return Some(Sampler::Numbered(id));
        }
        match (other, self.subject) {
            (None, ScopeSubject::Whole) => Some(Sampler::Any),
            (None, ScopeSubject::Part(part, field)) => {
                Part::number(records.octets_of(field, record)).map(|number| Sampler::Of(part, number))
            }
            (Some(domain), ScopeSubject::Whole) => Some(Sampler::Of(Part::Domain, domain)),
            (Some(domain), ScopeSubject::Part(part, _)) if part.is_whole() => Some(Sampler::Of(Part::Domain, domain)),
            (Some(_), _) | (None, ScopeSubject::Unknown) => None,
        }
    }

    /// The Selection Sequence that a record describes, and its Selectors (RFC 5476 section 6.5.1).
    pub(super) fn sequence(&self, records: Records<'_>, record: usize) -> Option<(u64, SequenceSelectors)> {
        let ScopeSubject::Part(Part::SelectionSequence, field) = self.subject else { return None };
        self.sampler?;
        let selectors = self.selectors.iter().map(|selector| records.number(*selector, record));
        Some((records.number(field, record)?, selectors.collect::<Option<SequenceSelectors>>()?))
    }

    /// The Selector that a record describes, and whether it matches properties of packets (RFC 5476 section 6.5.2.5):
    /// such a filter selects a part of them, of which it takes all.
    pub(super) fn filter(&self, records: Records<'_>, record: usize) -> Option<(u64, bool)> {
        let algorithm = records.number(self.algorithm?, record)?;
        Some((self.sampler(records, record)?, algorithm == PROPERTY_MATCH))
    }

    /// Whether a record that reports no rate says that nothing is sampled: its fields for a rate are all 0, as exporters have
    /// them once sampling is switched off.
    pub(super) fn is_off(&self, records: Records<'_>, record: usize) -> bool {
        let [plain, random] = self.intervals;
        let fields = [plain, random, self.packets, self.space, self.size, self.population];
        let mut values = fields.into_iter().flatten().map(|field| records.number(field, record)).peekable();
        values.peek().is_some() && values.all(|value| value == Some(0))
    }

    /// The rate that a record reports: the first of the possible fields that makes sense.
    pub(crate) fn rate(&self, records: Records<'_>, record: usize) -> Option<Rate> {
        if !self.tells {
            return None;
        }
        let number = |field: Option<usize>| field.and_then(|field| records.number(field, record));
        let plain = |field| number(field).and_then(|interval| Rate::new(1, interval));
        let probability = || Rate::of_field(self.probability?, records, record);
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
            .or_else(|| self.hash.as_ref()?.rate(records, record))
            // alone it is what some exporters have for an interval, which 1 cannot be
            .or_else(|| plain(self.packets).filter(|rate| rate.observed > 1))
    }
}
