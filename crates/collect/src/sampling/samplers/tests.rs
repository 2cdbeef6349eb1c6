use proptest::prelude::*;
use weir_wire::{ElementId, FieldSpecifier, Spans, Template, TemplateId};

use super::*;

/// The domain that reports.
const DOMAIN: u32 = 3;

fn learn(samplers: &mut Samplers, scopes: u16, fields: &[(u16, u16)], body: &[u8], netflow9: bool) -> SamplersLearned {
    let specifiers =
        fields.iter().map(|&(id, length)| FieldSpecifier { element: ElementId::iana(id), length }).collect();
    let template = Template::new(TemplateId::new(256).expect("id"), specifiers, scopes).expect("template");
    let mut spans = Spans::default();
    let located = template.layout().locate(body, &mut spans);
    let fields = SamplerFields::of(&template, netflow9);
    let allowed = || AllowedSamplers { new: usize::MAX, changes: usize::MAX };
    samplers.learn(&fields, Records { body, located: &located }, DOMAIN, allowed)
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
    let of_interface = |samplers: &Samplers, number| samplers.of_part(Part::Interface, number);
    assert_eq!((of_interface(&samplers, 7), of_interface(&samplers, 8)), (Some(10), Some(20)));
    assert_eq!((of_interface(&samplers, 9), samplers.only()), (None, None));
    // number 2 is an interface there and packetDeltaCount here
    let mut samplers = Samplers::default();
    let learned = learn(&mut samplers, 1, &[(2, 2), (34, 2)], &[0, 7, 0, 10], false);
    assert_eq!((learned.unmatched, samplers.is_empty()), (1, true));
    learn(&mut samplers, 1, &[(302, 1), (34, 2)], &[5, 0, 50], false);
    assert_eq!((samplers.numbered(5), samplers.numbered(6)), (Some(50), None));
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
    assert_eq!((learned.new, samplers.numbered(1), samplers.numbered(2)), (2, Some(30), Some(10)));
}

#[test]
fn scopes_say_which_sampler_is_meant() {
    // samplerId or selectorId, the scopes, and of what the rate is
    let check = |netflow9, scopes: &[u16], values: &[u8], expected: Option<Sampler>| {
        let fields: Vec<_> = scopes.iter().map(|id| (*id, 1)).chain([(34, 1)]).collect();
        let (mut samplers, body) = (Samplers::default(), [values, &[10]].concat());
        let learned = learn(&mut samplers, scopes.len() as u16, &fields, &body, netflow9);
        let found: Vec<_> = samplers.all().map(|(sampler, _)| sampler).collect();
        assert_eq!(found, Vec::from_iter(expected), "{scopes:?}");
        assert_eq!(learned.unmatched, u64::from(expected.is_none()), "{scopes:?}");
    };
    let of = |part, number| Some(Sampler::Of(part, number));
    // RFC 3954 section 6.1: system, interface, line card, cache, template
    check(true, &[1], &[0], Some(Sampler::Any));
    check(true, &[1, 2], &[0, 7], of(Part::Interface, 7));
    check(true, &[3], &[7], of(Part::LineCard, 7));
    check(true, &[4], &[7], None);
    check(true, &[5], &[7], of(Part::Template, 7));
    check(true, &[1, 2, 3, 4, 5], &[1, 2, 3, 4, 5], None);
    // RFC 7011 section 3.4.2.1: of scopes each is a part of what the ones before it name
    check(false, &[144], &[7], of(Part::ExportingProcess, 7));
    check(false, &[144, 10], &[7, 8], of(Part::IngressInterface, 8));
    check(false, &[141, 253], &[7, 8], of(Part::EgressInterface, 8));
    check(false, &[141, 302], &[7, 8], Some(Sampler::Numbered(8)));
    check(false, &[10, 14], &[7, 8], None);
    check(false, &[130], &[7], of(Part::Exporter, 7));
    check(false, &[145], &[7], of(Part::Template, 7));
    check(false, &[95], &[7], None);
    // its own domain, none, and another
    check(false, &[149], &[DOMAIN as u8], Some(Sampler::Any));
    check(false, &[149], &[0], Some(Sampler::Any));
    check(false, &[149], &[7], of(Part::Domain, 7));
    check(false, &[144, 149], &[1, 7], of(Part::Domain, 7));
    check(false, &[149, 145], &[7, 8], None);
    check(false, &[149, 302], &[7, 8], Some(Sampler::Numbered(8)));
    check(false, &[149, 302], &[DOMAIN as u8, 8], Some(Sampler::Numbered(8)));
}

#[test]
fn the_whole_is_in_doubt_where_parts_contradict_it() {
    let all = |samplers: &[(Sampler, u32)]| {
        let mut known = Samplers::default();
        for &(sampler, interval) in samplers {
            assert_eq!(known.set(sampler, interval), None);
        }
        known
    };
    let of = Sampler::Of;
    let (none, cards) = (Parts::default(), Parts::default().with(Part::LineCard));
    let known = all(&[(Sampler::Any, 10), (of(Part::LineCard, 1), 20), (of(Part::LineCard, 2), 10)]);
    assert_eq!((known.whole(none), known.whole(cards)), (None, Some(10)));
    let known = all(&[(Sampler::Any, 10), (of(Part::LineCard, 1), 10), (of(Part::LineCard, 2), 10)]);
    assert_eq!(known.whole(none), Some(10));
    assert_eq!((known.narrow_besides(none), known.narrow_besides(cards)), (2, 0));
    let processes = |intervals: [u32; 2]| {
        all(&[(of(Part::ExportingProcess, 1), intervals[0]), (of(Part::ExportingProcess, 2), intervals[1])])
    };
    assert_eq!((processes([10, 20]).whole(none), processes([10, 10]).whole(none)), (None, Some(10)));
    // what is said of another domain is not said of this one
    assert_eq!(all(&[(Sampler::Any, 10), (of(Part::Domain, 7), 20)]).whole(none), Some(10));
    assert_eq!(all(&[(of(Part::Domain, 7), 20)]).only(), None);
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
        SamplersLearned { changes: vec![change], changed: 1, first_has_rate: Some(true), ..SamplersLearned::default() }
    );
    let learned = learn(&mut samplers, 1, &[(302, 2), (34, 2)], &[0, 1, 0, 5], false);
    assert_eq!(learned, SamplersLearned { first_has_rate: Some(true), ..SamplersLearned::default() });
    assert_eq!(samplers.numbered(1), Some(5));
    // templates, and Selection Sequences
    let learned = learn(&mut samplers, 1, &[(145, 2), (34, 2)], &body, false);
    assert_eq!((learned.new, learned.refused), (1_024, 6));
    let learned = learn(&mut samplers, 1, &[(301, 2), (302, 2)], &body, false);
    assert_eq!((learned.new, learned.refused, samplers.len()), (1_024, 6, 3 * 1_024));
    // each kind of part for itself: ingressInterface, egressInterface
    for (scope, kinds) in [(10, 4), (14, 5)] {
        let learned = learn(&mut samplers, 1, &[(scope, 2), (34, 2)], &body, false);
        assert_eq!((learned.new, learned.refused, samplers.len()), (1_024, 6, kinds * 1_024), "{scope}");
    }
    // known ones change also where no new one is taken
    let learned = learn(&mut samplers, 1, &[(14, 2), (34, 2)], &[0, 1, 0, 5], false);
    assert_eq!((learned.changes.len(), learned.refused), (1, 0));
    assert_eq!(samplers.of_part(Part::EgressInterface, 1), Some(5));
}

#[test]
fn filters_beyond_the_limit_are_counted() {
    // selectorAlgorithm: property match filtering
    let fields = [(302, 2), (304, 2)];
    let mut samplers = Samplers::default();
    let body: Vec<u8> = (0..1_030_u16).flat_map(|id| [id.to_be_bytes(), [0, 5]].concat()).collect();
    let learned = learn(&mut samplers, 1, &fields, &body, false);
    assert_eq!((learned.new, learned.refused, learned.sequences_changed), (1_024, 6, true));
    assert_eq!((samplers.len(), samplers.only()), (1_024, None), "a filter is no sampler of the whole");
    let nothing = SamplersLearned { first_has_rate: Some(false), ..SamplersLearned::default() };
    assert_eq!(learn(&mut samplers, 1, &fields, &body[..4], false), nothing);
    // one that has a rate is a filter no more, and keeps its place
    let learned = learn(&mut samplers, 1, &[(302, 2), (34, 2)], &[0, 1, 0, 9], false);
    assert_eq!((learned.new, learned.sequences_changed, samplers.len()), (1, true, 1_025));
    let learned = learn(&mut samplers, 1, &fields, &[0, 1, 0, 5], false);
    assert_eq!((learned.new, learned.sequences_changed, samplers.len()), (0, true, 1_025));
    // one that selects by time has no rate, and is no filter
    let learned = learn(&mut samplers, 1, &fields, &[0, 1, 0, 2], false);
    assert_eq!((learned.new, learned.sequences_changed, samplers.len()), (0, true, 1_025));
    assert_eq!(learn(&mut samplers, 1, &fields, &[0, 1, 0, 2], false), nothing);
}

#[test]
fn a_sequence_has_as_many_selectors_as_are_looked_at() {
    let numbers = |count: u64| (0..count).collect::<SequenceSelectors>().numbers().to_vec();
    assert_eq!(numbers(4), [0, 1, 2, 3]);
    assert_eq!((numbers(0).len(), numbers(5).len()), (0, 0));
}

#[test]
fn the_interval_of_a_sequence_follows_what_is_known_of_its_selectors() {
    let mut samplers = Samplers::default();
    let mut after = |fields: &[(u16, u16)], body: &[u8]| {
        learn(&mut samplers, 1, fields, body, false);
        samplers.of_sequence(9)
    };
    // selectionSequenceId and selectorId; samplingInterval; selectorAlgorithm: 5 matches properties, 2 selects by time
    let (sequence, interval, algorithm) = ([(301, 1), (302, 1), (302, 1)], [(302, 1), (34, 1)], [(302, 1), (304, 1)]);
    assert_eq!(after(&sequence, &[9, 1, 2]), None);
    assert_eq!((after(&interval, &[1, 10]), after(&interval, &[2, 5])), (None, Some(50)));
    assert_eq!(after(&interval, &[2, 7]), Some(70));
    assert_eq!((after(&algorithm, &[2, 5]), after(&algorithm, &[2, 2])), (Some(10), Some(70)));
    assert_eq!(after(&sequence, &[9, 1, 1]), Some(100));
    samplers.remove(Sampler::Numbered(1));
    assert_eq!(samplers.of_sequence(9), None);
}

#[test]
fn an_interval_that_changes_when_no_more_may_is_not_known_until_one_may() {
    let template = Template::new(
        TemplateId::new(256).expect("id"),
        [(302, 1), (34, 1)].map(|(id, length)| FieldSpecifier::iana(id, length)).into(),
        1,
    );
    let template = template.expect("template");
    let fields = SamplerFields::of(&template, false);
    let (mut samplers, mut spans) = (Samplers::default(), Spans::default());
    let mut learn = |body: &[u8], changes| {
        let located = template.layout().locate(body, &mut spans);
        let allowed = || AllowedSamplers { new: usize::MAX, changes };
        let learned = samplers.learn(&fields, Records { body, located: &located }, DOMAIN, allowed);
        let known = [1, 2].map(|id| samplers.numbered(id));
        (known, learned.changed, learned.refused, learned.changes.len())
    };
    assert_eq!(learn(&[1, 10, 2, 20], 0), ([Some(10), Some(20)], 0, 0, 2), "new ones are no changes");
    assert_eq!(learn(&[1, 10, 2, 20], 0), ([Some(10), Some(20)], 0, 0, 0));
    assert_eq!(learn(&[1, 11, 2, 21], 1), ([Some(11), Some(OFF)], 1, 1, 2));
    assert_eq!(learn(&[1, 11, 2, 22], 0), ([Some(11), Some(OFF)], 0, 1, 0));
    assert_eq!(learn(&[1, 11, 2, 22], 1), ([Some(11), Some(22)], 1, 0, 1));
}

fn interval() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![1, 2, 3, u32::MAX])
}

proptest! {
    #[test]
    fn the_interval_of_all_parts_is_known_without_a_look_at_each(
        steps in prop::collection::vec((0_u64..4, prop::option::of(interval())), 0..40),
    ) {
        let mut samplers = Samplers::default();
        for (number, interval) in steps {
            match interval {
                Some(interval) => drop(samplers.set(Sampler::Of(Part::Exporter, number), interval)),
                None => samplers.remove(Sampler::Of(Part::Exporter, number)),
            }
            let mut intervals: Vec<u32> = samplers.all().map(|(_, interval)| interval).collect();
            intervals.dedup();
            let common = if let [interval] = intervals[..] { Some(interval) } else { None };
            prop_assert_eq!(samplers.whole(Parts::default()), common);
        }
    }
}

/// Records about the whole of a domain: the last one that has an interval counts, and a later one by which sampling is off.
#[test]
fn of_records_about_the_same_the_last_one_counts() {
    let after = |before: Option<u32>, records: &[u8]| {
        let mut samplers = Samplers::default();
        if let Some(interval) = before {
            let _ = samplers.set(Sampler::Any, interval);
        }
        // a scope without octets
        let learned = learn(&mut samplers, 1, &[(1, 0), (34, 1)], records, false);
        (samplers.any, learned.changes.len())
    };
    assert_eq!(after(None, &[100, 50, 20]), (Some(20), 1));
    assert_eq!(after(Some(20), &[100, 50, 20]), (Some(20), 0));
    assert_eq!(after(None, &[100, 0]), (Some(OFF), 1), "it is known to be off");
    assert_eq!(after(None, &[0, 0]), (None, 0), "what was never known is not");
    assert_eq!(after(Some(7), &[0, 0]), (Some(OFF), 1));
    assert_eq!(after(Some(7), &[0, 30, 0, 40]), (Some(40), 1));
    assert_eq!(after(Some(7), &[]), (Some(7), 0));
}
