//! Which sampling interval is in force for a record of flows, by what the record says of its sampler and of its part of
//! the exporter.
//!
//! A template is looked at once, when it comes. Of a set it is looked up whether one interval holds for all its
//! records; only where samplers differ by what the records say is each of them looked at.

use weir_wire::value::be_uint;
use weir_wire::{ElementId, FieldSpecifier, TemplateId};

use super::part::{Part, Parts};
use super::samplers::{OFF, Samplers};
use crate::records::Records;

/// `flowDirection`, and its value for flows that are measured on their way out.
const FLOW_DIRECTION: u16 = 61;
const EGRESS: u64 = 1;

/// The fields of a template that say by which sampler its records were selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SelectionFields {
    sampler: Option<u16>,
    direction: Option<u16>,
    interfaces: Sides,
    vrfs: Sides,
    /// Parts without sides, each kind once.
    parts: Box<[(Part, u16)]>,
}

/// Fields of where packets come in and of where they go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sides {
    ingress: Option<u16>,
    egress: Option<u16>,
}

/// Kinds of parts of where packets come in and of where they go out, and the kind of either.
#[derive(Debug, Clone, Copy)]
struct SideParts {
    ingress: Part,
    egress: Part,
    either: Option<Part>,
}

const INTERFACES: SideParts =
    SideParts { ingress: Part::IngressInterface, egress: Part::EgressInterface, either: Some(Part::Interface) };
const VRFS: SideParts = SideParts { ingress: Part::IngressVrf, egress: Part::EgressVrf, either: None };

/// The samplers that count for the records of a set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownSamplers<'a> {
    /// For records that name a sampler.
    pub named: &'a Samplers,
    /// For records that name none.
    pub unnamed: &'a Samplers,
    /// What another domain of the exporter reports about all of this one.
    pub of_domain: Option<u32>,
}

impl SelectionFields {
    /// Those of a template: `sampler` is the field that names one.
    pub(crate) fn of(fields: &[FieldSpecifier], sampler: Option<usize>) -> Self {
        let mut found = [None; Part::ALL.len()];
        let mut direction = None;
        for (field, specifier) in (0_u16..).zip(fields).filter(|(_, specifier)| specifier.length > 0) {
            let ElementId { enterprise, id } = specifier.element;
            if enterprise != 0 {
                continue;
            }
            if id == FLOW_DIRECTION {
                direction.get_or_insert(field);
            }
            if let Some(part) = Part::of_element(id) {
                found[part as usize].get_or_insert(field);
            }
        }
        let sides =
            |parts: SideParts| Sides { ingress: found[parts.ingress as usize], egress: found[parts.egress as usize] };
        let others = Part::ALL.into_iter().filter(|part| part.has_flow_element() && !part.has_sides());
        let parts = others.filter_map(|part| Some((part, found[part as usize]?))).collect();
        let sampler = sampler.map(|field| field as u16);
        Self { sampler, direction, interfaces: sides(INTERFACES), vrfs: sides(VRFS), parts }
    }

    /// The kinds of parts that records say they are of.
    pub(crate) fn named(&self) -> Parts {
        // records know their template
        let mut named = self.parts.iter().fold(Parts::default(), |named, (part, _)| named.with(*part));
        named = named.with(Part::Template);
        for (sides, parts) in [(self.interfaces, INTERFACES), (self.vrfs, VRFS)] {
            let (ingress, egress) = (sides.ingress.map(|_| parts.ingress), sides.egress.map(|_| parts.egress));
            for part in [ingress, egress].into_iter().flatten() {
                named = parts.either.into_iter().fold(named.with(part), Parts::with);
            }
        }
        named
    }

    fn sequence(&self) -> Option<u16> {
        self.parts.iter().find(|(part, _)| *part == Part::SelectionSequence).map(|(_, field)| *field)
    }
}

/// The intervals in force for the records of a set.
#[derive(Debug)]
pub(crate) enum SamplingInForce<'a> {
    /// The same for all.
    OfAll(Option<u32>),
    /// That of the sampler whose number a field has, and of the parts of a record whose sampler is not known.
    BySampler { field: usize, samplers: &'a Samplers, others: ByPart<'a> },
    /// That of the parts that a record is of.
    ByPart(ByPart<'a>),
}

impl<'a> SamplingInForce<'a> {
    /// For records of a template.
    pub(crate) fn of(fields: &'a SelectionFields, template: TemplateId, known: KnownSamplers<'a>) -> Self {
        let KnownSamplers { named, unnamed, of_domain } = known;
        let parts = fields.named();
        let of_this_domain = |samplers: &Samplers, whole: Option<u32>| match of_domain {
            Some(interval) => of_domain.filter(|_| !samplers.contradict(interval, parts)),
            None => whole,
        };
        if let Some(field) = fields.sampler {
            if named.is_empty() && of_domain.is_none() {
                return Self::OfAll(None);
            }
            let others = ByPart {
                fields,
                samplers: named,
                known: named.parts(),
                sequence: fields.sequence().filter(|_| named.has_sequences()),
                of_template: named.of_part(Part::Template, template.get().into()),
                others: of_this_domain(named, named.whole(parts)),
            };
            return Self::BySampler { field: field.into(), samplers: named, others };
        }
        if unnamed.is_empty() {
            return Self::OfAll(in_force(of_domain));
        }
        let of_template = unnamed.of_part(Part::Template, template.get().into());
        let others = of_this_domain(unnamed, unnamed.unnamed(parts));
        let sequence = fields.sequence().filter(|_| unnamed.has_sequences());
        let known = unnamed.parts();
        if sequence.is_none() && parts.and(known).without(Part::Template).is_empty() {
            return Self::OfAll(in_force(of_template.or(others)));
        }
        Self::ByPart(ByPart { fields, samplers: unnamed, known, sequence, of_template, others })
    }

    /// Whether no record has any.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::OfAll(None))
    }

    /// Those of all records, one after the other.
    pub(crate) fn of_records(&self, records: Records<'_>, mut take: impl FnMut(Option<u32>)) {
        if let Self::ByPart(ByPart { sequence: Some(field), samplers, .. }) = self {
            // a record may be as small as this field
            let positions = records.located.field((*field).into());
            let sequences = (0..records.len()).map(|record| be_uint(records.octets(&positions, record)));
            if records.len() < SEQUENCE_PLACES / 4 {
                return sequences.for_each(|number| take(in_force(number.and_then(|it| samplers.of_sequence(it)))));
            }
            let mut recent = RecentSequences::of(samplers);
            return sequences.for_each(|number| take(in_force(number.and_then(|it| recent.interval(it)))));
        }
        (0..records.len()).for_each(|record| take(self.of_record(records, record)));
    }

    /// That of one record; records name sampler 0 when there was none.
    pub(crate) fn of_record(&self, records: Records<'_>, record: usize) -> Option<u32> {
        in_force(match *self {
            Self::OfAll(interval) => interval,
            Self::BySampler { field, samplers, ref others } => {
                let sampler = records.number(field, record)?;
                let interval = samplers.numbered(sampler);
                if sampler == 0 { interval } else { interval.or_else(|| others.of_record(records, record)) }
            }
            Self::ByPart(ref by_part) => by_part.of_record(records, record),
        })
    }
}

/// Places of [`RecentSequences`].
const SEQUENCE_PLACES: usize = 256;

/// Intervals of the Selection Sequences that records have named last, each in the place of its lowest octet: a set may have a record
/// for each of its octets, and there are no more of their numbers than places.
struct RecentSequences<'a> {
    samplers: &'a Samplers,
    found: [Option<(u64, Option<u32>)>; SEQUENCE_PLACES],
}

impl<'a> RecentSequences<'a> {
    fn of(samplers: &'a Samplers) -> Self {
        Self { samplers, found: [None; SEQUENCE_PLACES] }
    }

    fn interval(&mut self, sequence: u64) -> Option<u32> {
        let place = &mut self.found[usize::from(sequence as u8)];
        match *place {
            Some((number, interval)) if number == sequence => interval,
            _ => {
                let interval = self.samplers.of_sequence(sequence);
                *place = Some((sequence, interval));
                interval
            }
        }
    }
}

/// What the interval of the sampler that was found says of flows: nothing, where it was switched off.
fn in_force(interval: Option<u32>) -> Option<u32> {
    interval.filter(|interval| *interval != OFF)
}

/// Looks intervals up by the parts that records say they are of.
#[derive(Debug)]
pub(crate) struct ByPart<'a> {
    fields: &'a SelectionFields,
    samplers: &'a Samplers,
    /// The kinds of parts that have samplers.
    known: Parts,
    /// The field that names the Selection Sequence, where the exporter describes those.
    sequence: Option<u16>,
    of_template: Option<u32>,
    /// Of records whose parts have no sampler.
    others: Option<u32>,
}

impl ByPart<'_> {
    fn of_record(&self, records: Records<'_>, record: usize) -> Option<u32> {
        let samplers = self.samplers;
        if let Some(field) = self.sequence {
            // it names the sampler, known or not
            let sequence = records.number(field.into(), record)?;
            return samplers.of_sequence(sequence);
        }
        let mut narrow = RateEvidence::Nothing.and(self.of_template);
        let SelectionFields { interfaces, vrfs, .. } = *self.fields;
        self.of_sides(records, record, (interfaces, INTERFACES), &mut narrow);
        self.of_sides(records, record, (vrfs, VRFS), &mut narrow);
        let mut whole = RateEvidence::Nothing;
        for &(part, field) in self.fields.parts.iter().filter(|(part, _)| self.known.has(*part)) {
            let number = Part::number(records.octets_of(field.into(), record));
            let interval = number.and_then(|number| samplers.of_part(part, number));
            match interval {
                Some(_) if part.is_narrow() => narrow = narrow.and(interval),
                Some(_) => whole = whole.and(interval),
                None if part.is_narrow() => {}
                // that of another process is not that of this one
                None => whole = RateEvidence::Doubt,
            }
        }
        match (narrow, whole) {
            (RateEvidence::Interval(interval), _) => Some(interval),
            // the record may be of a part with another rate, which it does not say
            (RateEvidence::Nothing, RateEvidence::Interval(interval)) => {
                Some(interval).filter(|_| !samplers.contradict(interval, self.fields.named()))
            }
            (RateEvidence::Doubt, _) | (RateEvidence::Nothing, RateEvidence::Doubt) => None,
            (RateEvidence::Nothing, RateEvidence::Nothing) => self.others,
        }
    }

    /// Flows are measured where they come in, unless they say that it is where they go out. Some exporters have samplers
    /// of the interface that packets came in by for those as well. The same holds for the VRFs of the two.
    fn of_sides(
        &self,
        records: Records<'_>,
        record: usize,
        (sides, parts): (Sides, SideParts),
        evidence: &mut RateEvidence,
    ) {
        let number = |field: Option<u16>| field.and_then(|field| records.number(field.into(), record));
        let of = |part: Part, field: Option<u16>| {
            let number = number(field.filter(|_| self.known.has(part)))?;
            self.samplers.of_part(part, number)
        };
        let either = |field| parts.either.and_then(|part| of(part, field));
        let ingress = || of(parts.ingress, sides.ingress);
        let egress = || of(parts.egress, sides.egress);
        let on_the_way_in = || ingress().or_else(|| either(sides.ingress));
        let on_the_way_out = || egress().or_else(|| either(sides.egress));
        *evidence = match number(self.fields.direction) {
            Some(EGRESS) => evidence.and(on_the_way_out().or_else(ingress)),
            Some(_) => evidence.and(on_the_way_in().or_else(egress)),
            None => evidence.and(on_the_way_in()).and(egress()),
        };
    }
}

/// What samplers of several parts say of one record: two that differ leave it open which is in force.
#[derive(Debug, Clone, Copy)]
enum RateEvidence {
    Nothing,
    Interval(u32),
    Doubt,
}

impl RateEvidence {
    fn and(self, interval: Option<u32>) -> Self {
        match (self, interval) {
            (known, None) => known,
            (Self::Nothing, Some(interval)) => Self::Interval(interval),
            (Self::Interval(known), Some(interval)) if known == interval => self,
            (Self::Interval(_) | Self::Doubt, Some(_)) => Self::Doubt,
        }
    }
}
