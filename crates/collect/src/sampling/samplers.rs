//! The samplers of one Observation Domain, and the intervals that are in force by them.

use std::cell::LazyCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use super::fields::SamplerFields;
use super::part::{Part, Parts, Sampler};
use super::rate::Rate;
use super::sequence::{SelectionSequence, SequenceSelectors};
use crate::records::Records;

/// Most samplers of a kind (numbered, of each kind of part, Selection Sequences, filters) of one domain that are
/// remembered; the oldest knowledge stays, what comes later is counted. Of all kinds there are no more than the limits on
/// samplers allow.
const SAMPLERS_MAX: usize = 1_024;

/// The interval of a sampler that was switched off: its flows have none. It stays among the others, whose intervals are not those
/// of its flows, and because what is removed from a map leaves memory that no limit counts.
pub(super) const OFF: u32 = 0;

type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The samplers of one Observation Domain. Intervals of those that were switched off are [`OFF`], also where they are asked
/// for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samplers {
    by_id: Map<u64, u32>,
    any: Option<u32>,
    /// Most exporters report none of these.
    of_parts: Option<Box<PartSamplers>>,
}

/// Samplers of parts of the exporter.
#[derive(Debug, Clone, Default)]
struct PartSamplers {
    intervals: Map<(Part, u64), u32>,
    /// Of each kind of part for which there are any.
    tallies: Vec<Tally>,
    sequences: Map<u64, SelectionSequence>,
    /// Selectors that were reported as filters which match properties, and whether they still are.
    filters: Map<u64, bool>,
    /// How often an interval with a number or a filter was set: intervals of sequences hold until then.
    selectors_generation: u64,
}

/// What the intervals of all parts of a kind have in common.
///
/// Numbers are all equal exactly when as many times the sum of their squares is the square of their sum (Cauchy and
/// Schwarz). So that is known of any number of parts without a look at each of them.
#[derive(Debug, Clone, Copy)]
struct Tally {
    part: Part,
    count: u32,
    sum: u64,
    squares: u128,
}

impl Tally {
    fn add(&mut self, interval: u32) {
        self.count += 1;
        self.sum += u64::from(interval);
        self.squares += u128::from(interval) * u128::from(interval);
    }

    fn remove(&mut self, interval: u32) {
        self.count -= 1;
        self.sum -= u64::from(interval);
        self.squares -= u128::from(interval) * u128::from(interval);
    }

    /// The interval of all of them, if it is the same.
    fn common(&self) -> Option<u32> {
        let sum = u128::from(self.sum);
        let is_same = self.count > 0 && u128::from(self.count) * self.squares == sum * sum;
        if is_same { u32::try_from(self.sum / u64::from(self.count)).ok() } else { None }
    }
}

impl PartSamplers {
    fn tally(&mut self, part: Part) -> &mut Tally {
        let place = self.tallies.iter().position(|tally| tally.part == part).unwrap_or_else(|| {
            self.tallies.push(Tally { part, count: 0, sum: 0, squares: 0 });
            self.tallies.len() - 1
        });
        &mut self.tallies[place]
    }

    fn set(
        &mut self,
        (part, number): (Part, u64),
        interval: u32,
        may_add: &impl Fn(usize) -> bool,
    ) -> PreviousValue<u32> {
        let count = || self.tallies.iter().find(|tally| tally.part == part).map_or(0, |tally| tally.count as usize);
        // there may be any number of other kinds
        let known = set_within(&mut self.intervals, &|_| may_add(count()), (part, number), interval);
        match known {
            PreviousValue::OverLimit => return known,
            PreviousValue::Known(Some(before)) if before == interval => return known,
            PreviousValue::Known(Some(before)) => self.tally(part).remove(before),
            PreviousValue::Known(None) | PreviousValue::New => {}
        }
        self.tally(part).add(interval);
        known
    }

    fn remove(&mut self, part: Part, number: u64) {
        if let Some(interval) = self.intervals.remove(&(part, number)) {
            self.tally(part).remove(interval);
            self.tallies.retain(|tally| tally.count > 0);
        }
    }
}

/// What is remembered of the samplers of a domain from one process to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredSamplers {
    pub intervals: Vec<(Sampler, u32)>,
    /// Selection Sequences, and the Selectors of each.
    pub sequences: Vec<(u64, SequenceSelectors)>,
    /// Selectors that match properties.
    pub filters: Vec<u64>,
}

/// What may be learned of samplers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AllowedSamplers {
    /// How many samplers more.
    pub new: usize,
    /// How many others of those that are known. Beyond that an interval that changes is not known any more.
    pub changes: usize,
}

/// What was learned from Options Data Records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SamplersLearned {
    /// Intervals that are others than before.
    pub changes: Vec<SamplerChange>,
    /// Whether a Selection Sequence is another than before, or other Selectors match properties.
    pub sequences_changed: bool,
    /// Samplers not known before.
    pub new: usize,
    /// Intervals that are others than those known before.
    pub changed: usize,
    /// Those beyond the limits.
    pub refused: u64,
    /// Rates of what no flow can be compared with.
    pub unmatched: u64,
    /// Whether the first record has a rate, new or not; `None` where nobody has looked.
    pub first_has_rate: Option<bool>,
}

impl SamplersLearned {
    /// Takes that an interval was set.
    fn note_interval(&mut self, sampler: Sampler, before: Option<u32>, now: u32) {
        match self.changes.last_mut() {
            // as short a record as may be is about the only sampler of a domain, and thousands fit into a set
            Some(last) if last.sampler == sampler => last.now = now,
            _ if before == Some(now) => {}
            _ => self.changes.push(SamplerChange { sampler, before, now }),
        }
    }

    /// Takes that something besides an interval was set: a Selection Sequence, or that a Selector matches properties.
    fn note<V: PartialEq>(&mut self, before: &PreviousValue<V>, now: &V) {
        match before {
            PreviousValue::Known(before) => self.sequences_changed |= before.as_ref() != Some(now),
            PreviousValue::New => {
                self.new += 1;
                self.sequences_changed = true;
            }
            PreviousValue::OverLimit => self.refused += 1,
        }
    }
}

/// The interval of a sampler before, if it was known, and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SamplerChange {
    pub sampler: Sampler,
    pub before: Option<u32>,
    pub now: u32,
}

// What is in force.
impl Samplers {
    /// Whether nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_none() && self.len() == 0
    }

    /// Samplers with a number or part of their own, Selection Sequences and filters.
    pub(crate) fn len(&self) -> usize {
        let of_parts = self.of_parts.as_deref();
        let of_parts = of_parts.map_or(0, |parts| parts.intervals.len() + parts.sequences.len() + parts.filters.len());
        self.by_id.len() + of_parts
    }

    fn tallies(&self) -> &[Tally] {
        match self.of_parts.as_deref() {
            Some(parts) => &parts.tallies,
            None => &[],
        }
    }

    /// The kinds of parts that have samplers.
    pub(crate) fn parts(&self) -> Parts {
        self.tallies().iter().fold(Parts::default(), |parts, tally| parts.with(tally.part))
    }

    /// How many samplers are of narrow parts, see [`Part::is_narrow`], of other kinds than these.
    pub(crate) fn narrow_besides(&self, parts: Parts) -> u64 {
        let others = self.tallies().iter().filter(|tally| tally.part.is_narrow() && !parts.has(tally.part));
        others.map(|tally| u64::from(tally.count)).sum()
    }

    /// The interval of the Observation Domain as a whole, for records that say of which of these kinds of parts they
    /// are. There is none where samplers of the whole, or of a part that the records may be of, contradict one another.
    pub(crate) fn whole(&self, named: Parts) -> Option<u32> {
        let of_wholes = self.tallies().iter().filter(|tally| tally.part.is_whole()).map(Tally::common);
        let mut wholes = self.any.map(Some).into_iter().chain(of_wholes);
        let interval = wholes.next()??;
        let is_certain = wholes.all(|other| other == Some(interval)) && !self.contradict(interval, named);
        is_certain.then_some(interval)
    }

    /// Whether samplers of narrow parts, see [`Part::is_narrow`], of other kinds than these have another interval: records
    /// may be of such a part and do not say so.
    pub(crate) fn contradict(&self, interval: u32, named: Parts) -> bool {
        let contradicts =
            |tally: &Tally| tally.part.is_narrow() && !named.has(tally.part) && tally.common() != Some(interval);
        self.tallies().iter().any(contradicts)
    }

    /// The interval in force for records that name no sampler, and none of the parts that have one: that of the whole, or
    /// of the only sampler there is.
    pub(crate) fn unnamed(&self, named: Parts) -> Option<u32> {
        match self.by_id.len() {
            0 => self.whole(named),
            1 if !self.tallies().iter().any(|tally| tally.part.is_narrow()) => self.by_id.values().next().copied(),
            _ => None,
        }
    }

    /// The one interval of the Observation Domain, if it has just one for what has none of its own.
    pub(crate) fn only(&self) -> Option<u32> {
        self.unnamed(self.parts()).filter(|interval| *interval != OFF)
    }

    /// The interval of the sampler with a number.
    pub(crate) fn numbered(&self, id: u64) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The interval of the sampler of a part.
    pub(crate) fn of_part(&self, part: Part, number: u64) -> Option<u32> {
        self.of_parts.as_deref().and_then(|parts| parts.intervals.get(&(part, number)).copied())
    }

    /// Whether the exporter reports of which Selectors its Selection Sequences consist.
    pub(crate) fn has_sequences(&self) -> bool {
        self.of_parts.as_deref().is_some_and(|parts| !parts.sequences.is_empty())
    }

    /// The interval of a Selection Sequence: the product of those of its Selectors, or else the one that it was reported with.
    pub(crate) fn of_sequence(&self, sequence: u64) -> Option<u32> {
        let parts = self.of_parts.as_deref()?;
        let interval = |selector: u64| match parts.filters.get(&selector) {
            Some(true) => Some(1),
            _ => self.numbered(selector),
        };
        let known = parts.sequences.get(&sequence);
        let product = known.and_then(|known| known.interval(parts.selectors_generation, interval));
        product.or_else(|| self.of_part(Part::SelectionSequence, sequence))
    }
}

// What is learned.
impl Samplers {
    /// Every sampler: which, and its interval.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Sampler, u32)> + '_ {
        let any = self.any.iter().map(|&interval| (Sampler::Any, interval));
        let by_id = self.by_id.iter().map(|(&id, &interval)| (Sampler::Numbered(id), interval));
        let of_parts = self.of_parts.iter().flat_map(|parts| parts.intervals.iter());
        any.chain(by_id).chain(of_parts.map(|(&(part, number), &interval)| (Sampler::Of(part, number), interval)))
    }

    /// What is to be remembered.
    pub(crate) fn stored(&self) -> StoredSamplers {
        let sequences = self.of_parts.iter().flat_map(|parts| parts.sequences.iter());
        let filters = self.of_parts.iter().flat_map(|parts| parts.filters.iter());
        StoredSamplers {
            intervals: self.all().collect(),
            sequences: sequences.map(|(&number, sequence)| (number, sequence.selectors())).collect(),
            filters: filters.filter(|(_, matches)| **matches).map(|(&selector, _)| selector).collect(),
        }
    }

    /// Sets the interval of a sampler. Returns what it was before.
    pub(crate) fn set(&mut self, sampler: Sampler, interval: u32) -> Option<u32> {
        match self.set_within(sampler, interval, &|_| true) {
            PreviousValue::Known(before) => before,
            PreviousValue::New | PreviousValue::OverLimit => None,
        }
    }

    /// Forgets a sampler.
    pub(crate) fn remove(&mut self, sampler: Sampler) {
        match sampler {
            Sampler::Any => self.any = None,
            Sampler::Numbered(id) => {
                self.by_id.remove(&id);
                self.end_selectors_generation();
            }
            Sampler::Of(part, number) => {
                if let Some(parts) = &mut self.of_parts {
                    parts.remove(part, number);
                }
            }
        }
    }

    /// Sets the interval of a sampler. `may_add` is asked for a new one, with how many of its kind there are.
    fn set_within(&mut self, sampler: Sampler, interval: u32, may_add: &impl Fn(usize) -> bool) -> PreviousValue<u32> {
        match sampler {
            Sampler::Any => PreviousValue::Known(self.any.replace(interval)),
            Sampler::Numbered(id) => {
                self.end_selectors_generation();
                set_within(&mut self.by_id, may_add, id, interval)
            }
            Sampler::Of(..) if self.of_parts.is_none() && !may_add(0) => PreviousValue::OverLimit,
            Sampler::Of(part, number) => self.of_parts.get_or_insert_default().set((part, number), interval, may_add),
        }
    }

    /// Takes that a Selector is not what it was: the intervals of sequences are to be computed again.
    fn end_selectors_generation(&mut self) {
        if let Some(parts) = &mut self.of_parts {
            parts.selectors_generation += 1;
        }
    }

    /// Sets of which Selectors a Selection Sequence consists. `may_add` is asked for a new one, with how many there are.
    fn set_sequence(
        &mut self,
        sequence: u64,
        selectors: SequenceSelectors,
        may_add: &impl Fn(usize) -> bool,
    ) -> PreviousValue<SequenceSelectors> {
        if self.of_parts.is_none() && !may_add(0) {
            return PreviousValue::OverLimit;
        }
        let sequences = &mut self.of_parts.get_or_insert_default().sequences;
        set_within(sequences, may_add, sequence, SelectionSequence::new(selectors)).map(|known| known.selectors())
    }

    /// Sets that a Selector matches properties. `may_add` is asked for a new one, with how many there are.
    fn set_filter(&mut self, selector: u64, may_add: &impl Fn(usize) -> bool) -> PreviousValue<bool> {
        if self.of_parts.is_none() && !may_add(0) {
            return PreviousValue::OverLimit;
        }
        self.end_selectors_generation();
        set_within(&mut self.of_parts.get_or_insert_default().filters, may_add, selector, true)
    }

    /// Takes that a Selector does not match properties. Returns whether it did before.
    fn end_filter(&mut self, selector: u64) -> bool {
        self.end_selectors_generation();
        let filters = self.of_parts.as_deref_mut().map(|parts| &mut parts.filters);
        filters.and_then(|filters| filters.get_mut(&selector)).is_some_and(std::mem::take)
    }

    /// What is known of a sampler, which may be [`OFF`].
    fn known(&self, sampler: Sampler) -> Option<u32> {
        match sampler {
            Sampler::Any => self.any,
            Sampler::Numbered(id) => self.numbered(id),
            Sampler::Of(part, number) => self.of_part(part, number),
        }
    }

    /// Takes that a sampler was switched off. One of which no interval was known stays unknown.
    fn switch_off(&mut self, sampler: Sampler, learned: &mut SamplersLearned) {
        if self.known(sampler).is_some() {
            learned.note_interval(sampler, self.set(sampler, OFF), OFF);
        }
    }

    /// Takes that an interval was set which is another than before, as too many are. It is not known then, for what was known
    /// is wrong, until it is reported again when there are fewer.
    fn pass_over_change(&mut self, sampler: Sampler, before: u32, learned: &mut SamplersLearned) {
        if let Sampler::Numbered(selector) = sampler {
            learned.sequences_changed |= self.end_filter(selector);
        }
        let _ = self.set(sampler, OFF);
        if before != OFF {
            learned.note_interval(sampler, Some(before), OFF);
        }
        learned.refused += 1;
    }

    /// Learns from Options Data Records of this Observation Domain. `allowed` is asked when something is new or another than before,
    /// which most of what comes is not.
    pub(crate) fn learn(
        &mut self,
        fields: &SamplerFields,
        records: Records<'_>,
        domain: u32,
        allowed: impl FnOnce() -> AllowedSamplers,
    ) -> SamplersLearned {
        let allowed = LazyCell::new(allowed);
        let may_add = |new: usize| {
            let allowed = &allowed;
            move |count: usize| count < SAMPLERS_MAX && allowed.new > new
        };
        let mut learned = SamplersLearned::default();
        for record in fields.telling(records) {
            if let Some((sequence, selectors)) = fields.sequence(records, record) {
                learned.note(&self.set_sequence(sequence, selectors, &may_add(learned.new)), &selectors);
            }
            let rate = fields.rate(records, record);
            if record == 0 {
                learned.first_has_rate = Some(rate.is_some());
            }
            let Some(interval) = rate.and_then(Rate::interval) else {
                match fields.filter(records, record) {
                    Some((selector, true)) => {
                        learned.note(&self.set_filter(selector, &may_add(learned.new)), &true);
                        continue;
                    }
                    Some((selector, false)) => learned.sequences_changed |= self.end_filter(selector),
                    None => {}
                }
                if fields.is_off(records, record)
                    && let Some(sampler) = fields.subject(records, record, domain)
                {
                    self.switch_off(sampler, &mut learned);
                }
                continue;
            };
            let Some(sampler) = fields.subject(records, record, domain) else {
                learned.unmatched += 1;
                continue;
            };
            let before = match self.set_within(sampler, interval, &may_add(learned.new)) {
                PreviousValue::Known(Some(before)) if before != interval => {
                    if learned.changed >= allowed.changes {
                        self.pass_over_change(sampler, before, &mut learned);
                        continue;
                    }
                    learned.changed += 1;
                    Some(before)
                }
                PreviousValue::Known(before) => before,
                PreviousValue::New => {
                    learned.new += 1;
                    None
                }
                PreviousValue::OverLimit => {
                    learned.refused += 1;
                    continue;
                }
            };
            if let Sampler::Numbered(selector) = sampler {
                learned.sequences_changed |= self.end_filter(selector);
            }
            learned.note_interval(sampler, before, interval);
        }
        learned
    }

    /// Sets Selection Sequences that were known before.
    pub(crate) fn restore_sequences(&mut self, sequences: impl Iterator<Item = (u64, SequenceSelectors)>) {
        for (sequence, selectors) in sequences {
            let _ = self.set_sequence(sequence, selectors, &|_| true);
        }
    }

    /// Sets Selectors that matched properties before.
    pub(crate) fn restore_filters(&mut self, selectors: impl Iterator<Item = u64>) {
        for selector in selectors {
            let _ = self.set_filter(selector, &|_| true);
        }
    }
}

/// What was known of a sampler before it was set.
enum PreviousValue<V> {
    Known(Option<V>),
    /// It is a new one.
    New,
    /// It would be one too many, and was not set.
    OverLimit,
}

impl<V> PreviousValue<V> {
    fn map<U>(self, of_value: impl FnOnce(V) -> U) -> PreviousValue<U> {
        match self {
            Self::Known(before) => PreviousValue::Known(before.map(of_value)),
            Self::New => PreviousValue::New,
            Self::OverLimit => PreviousValue::OverLimit,
        }
    }
}

/// Sets what is known of a sampler. `may_add` is asked for a new one, with how many there are.
fn set_within<K: Eq + Hash, V>(
    samplers: &mut Map<K, V>,
    may_add: &impl Fn(usize) -> bool,
    key: K,
    value: V,
) -> PreviousValue<V> {
    let count = samplers.len();
    match samplers.entry(key) {
        Entry::Occupied(mut known) => PreviousValue::Known(Some(known.insert(value))),
        Entry::Vacant(place) if may_add(count) => {
            place.insert(value);
            PreviousValue::New
        }
        Entry::Vacant(_) => PreviousValue::OverLimit,
    }
}

#[cfg(test)]
mod tests;
