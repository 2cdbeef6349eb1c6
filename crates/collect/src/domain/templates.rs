//! Templates of one Observation Domain, each with the plan by which its records are read.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use weir_wire::structured::ListContext;
use weir_wire::{ElementId, ListKind, Template, TemplateId};

use crate::list_kinds;
use crate::options_plan::OptionsPlan;
use crate::plan::{Leftover, Plan};

/// Longest time between templates that is taken for the exporter's refresh interval, and not for silence.
const REFRESH_MS_MAX: i64 = 3_600_000;
/// Most elements that are remembered to be lists because the exporter reported their type.
const LEARNED_LISTS_MAX: usize = 1_024;
/// Most IDs that are remembered to be withdrawn. Data Sets of others wait for a template, as those of an ID never heard of.
const WITHDRAWN_MAX: usize = 1_024;

/// A template with the plan that was compiled from it.
#[derive(Debug)]
pub(crate) struct CompiledTemplate {
    pub template: Template,
    /// How its records are read when they are flows. It is made when the first of them come: any sender may define templates
    /// again and again, and to compile one costs more than to receive it.
    plan: OnceCell<Box<Plan>>,
    /// How its records are read when they are options data.
    pub options: Option<Box<OptionsPlan>>,
    /// Of the elements known to be lists, how many were when it was last looked at for them.
    lists_known: usize,
    /// When it was last sent, milliseconds since the epoch.
    pub refreshed_ms: i64,
    /// Whether it was sent from another port of the exporter.
    pub borrowed: bool,
    /// Its place among the templates of its kind.
    place: usize,
}

impl CompiledTemplate {
    /// A template that has come. `version` is that of the export protocol.
    fn new(template: Template, version: u8, refreshed_ms: i64) -> Self {
        let options = template.is_options().then(|| Box::new(OptionsPlan::compile(&template, version == 9)));
        Self { plan: OnceCell::new(), options, lists_known: 0, template, refreshed_ms, borrowed: false, place: 0 }
    }

    /// One that an export protocol of this version has fixed.
    pub(crate) fn fixed(template: Template, version: u8) -> Self {
        let plan = Plan::compile(&template, version != 10, list_kinds::registered);
        Self { plan: OnceCell::from(Box::new(plan)), ..Self::new(template, version, 0) }
    }

    /// How its records are read when they are flows. It is one of these templates.
    pub(crate) fn plan(&self, templates: &DomainTemplates) -> &Plan {
        self.plan.get_or_init(|| {
            let list_kind = |element| templates.list_kind(element);
            Box::new(Plan::compile(&self.template, templates.version != 10, list_kind))
        })
    }
}

/// Templates and fields that were forgotten, or are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TemplateCount {
    pub templates: usize,
    pub fields: usize,
}

/// The templates of one Observation Domain.
#[derive(Debug)]
pub(crate) struct DomainTemplates {
    version: u8,
    compiled: HashMap<TemplateId, CompiledTemplate, foldhash::fast::RandomState>,
    /// Those of data, and those of options, in any order: all of a kind are withdrawn at once, however many others there are.
    kinds: [Vec<TemplateId>; 2],
    fields: usize,
    /// How long they are used when they are not sent again.
    lifetime_ms: i64,
    /// When one came last.
    received_ms: Option<i64>,
    /// Lists among the elements whose type the exporter reported (RFC 5610).
    learned_lists: HashMap<ElementId, ListKind, foldhash::fast::RandomState>,
    /// IDs whose template was withdrawn and that have none since.
    withdrawn: HashSet<TemplateId, foldhash::fast::RandomState>,
}

impl DomainTemplates {
    /// None yet.
    pub(crate) fn new(version: u8, lifetime_ms: i64) -> Self {
        Self {
            version,
            compiled: HashMap::default(),
            kinds: Default::default(),
            fields: 0,
            lifetime_ms,
            received_ms: None,
            learned_lists: HashMap::default(),
            withdrawn: HashSet::default(),
        }
    }

    /// The template with this ID, expired or not.
    #[inline]
    pub(crate) fn get(&self, id: TemplateId) -> Option<&CompiledTemplate> {
        self.compiled.get(&id)
    }

    /// Whether there is a template with this ID, expired or not.
    pub(crate) fn has(&self, id: TemplateId) -> bool {
        self.compiled.contains_key(&id)
    }

    /// The template with this ID, if it was sent again in time.
    #[inline]
    pub(crate) fn current(&self, id: TemplateId, now_ms: i64) -> Option<&CompiledTemplate> {
        self.compiled.get(&id).filter(|compiled| !self.is_expired(compiled, now_ms))
    }

    #[inline]
    fn is_expired(&self, compiled: &CompiledTemplate, now_ms: i64) -> bool {
        now_ms.saturating_sub(compiled.refreshed_ms) > self.lifetime_ms
    }

    /// Those of options, or those of data.
    pub(crate) fn ids_of_kind(&self, options: bool) -> Vec<TemplateId> {
        self.kinds[usize::from(options)].clone()
    }

    /// Notes that the template with this ID was withdrawn, where messages come in order: no template to come is that of its next
    /// records (RFC 7011 section 8.1). Returns whether one ID more is remembered.
    pub(crate) fn note_withdrawn(&mut self, id: TemplateId) -> bool {
        self.withdrawn.len() < WITHDRAWN_MAX && self.withdrawn.insert(id)
    }

    /// Notes that a template with this ID is to come. Returns whether one ID less is remembered.
    pub(crate) fn note_expected(&mut self, id: TemplateId) -> bool {
        self.withdrawn.remove(&id)
    }

    /// IDs that are remembered to be withdrawn.
    pub(crate) fn withdrawn(&self) -> usize {
        self.withdrawn.len()
    }

    /// Whether records with this ID have no template and wait for none.
    pub(crate) fn is_withdrawn(&self, id: TemplateId) -> bool {
        self.withdrawn.contains(&id)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &CompiledTemplate> {
        self.compiled.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.compiled.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.compiled.is_empty()
    }

    /// Fields of all of them.
    pub(crate) fn fields(&self) -> usize {
        self.fields
    }

    /// Adds a template with an ID that none has and that was noted to be expected.
    pub(crate) fn insert(&mut self, template: Template, refreshed_ms: i64) {
        self.fields += template.fields().len();
        let mut compiled = CompiledTemplate::new(template, self.version, refreshed_ms);
        compiled.lists_known = self.learned_lists.len();
        let kind = &mut self.kinds[usize::from(compiled.template.is_options())];
        compiled.place = kind.len();
        kind.push(compiled.template.id());
        self.compiled.insert(compiled.template.id(), compiled);
    }

    /// Forgets one template.
    pub(crate) fn remove_one(&mut self, id: TemplateId) -> TemplateCount {
        let Some(removed) = self.compiled.remove(&id) else { return TemplateCount::default() };
        let kind = &mut self.kinds[usize::from(removed.template.is_options())];
        kind.swap_remove(removed.place);
        if let Some(moved) = kind.get(removed.place).and_then(|moved| self.compiled.get_mut(moved)) {
            moved.place = removed.place;
        }
        let fields = removed.template.fields().len();
        self.fields -= fields;
        TemplateCount { templates: 1, fields }
    }

    /// Forgets some templates.
    pub(crate) fn remove(&mut self, is_meant: impl Fn(&CompiledTemplate) -> bool) -> TemplateCount {
        let before = TemplateCount { templates: self.compiled.len(), fields: self.fields };
        let mut left = 0;
        let kinds = &mut self.kinds;
        kinds.iter_mut().for_each(Vec::clear);
        self.compiled.retain(|id, compiled| {
            let stays = !is_meant(compiled);
            if stays {
                left += compiled.template.fields().len();
                let kind = &mut kinds[usize::from(compiled.template.is_options())];
                compiled.place = kind.len();
                kind.push(*id);
            }
            stays
        });
        self.fields = left;
        let templates = before.templates - self.compiled.len();
        if templates > 0 {
            // a map never shrinks by itself
            self.compiled.shrink_to(self.compiled.len() * 2);
            self.kinds.iter_mut().for_each(|kind| kind.shrink_to(kind.len() * 2));
        }
        TemplateCount { templates, fields: before.fields - left }
    }

    /// Forgets those that were not sent again in time.
    pub(crate) fn remove_expired(&mut self, now_ms: i64) -> TemplateCount {
        let lifetime_ms = self.lifetime_ms;
        self.remove(|compiled| now_ms.saturating_sub(compiled.refreshed_ms) > lifetime_ms)
    }

    /// Whether any was not sent again in time.
    pub(crate) fn any_expired(&self, now_ms: i64) -> bool {
        self.compiled.values().any(|compiled| self.is_expired(compiled, now_ms))
    }

    /// Notes that a template came again as it was.
    pub(crate) fn refresh(&mut self, id: TemplateId, now_ms: i64) {
        if let Some(compiled) = self.compiled.get_mut(&id) {
            (compiled.refreshed_ms, compiled.borrowed) = (now_ms, false);
        }
    }

    /// Notes that a template is that of another port.
    pub(crate) fn set_borrowed(&mut self, id: TemplateId) {
        if let Some(compiled) = self.compiled.get_mut(&id) {
            compiled.borrowed = true;
        }
    }

    /// Notes that a template came. An exporter that sends its templates more seldom than the limit expects is given
    /// three times as long as it takes, for that is what RFC 7011 section 10.3.7 asks for.
    pub(crate) fn note_arrival(&mut self, now_ms: i64) {
        let before_ms = self.received_ms.replace(now_ms).unwrap_or(now_ms);
        let interval_ms = now_ms.saturating_sub(before_ms);
        if interval_ms <= REFRESH_MS_MAX {
            self.lifetime_ms = self.lifetime_ms.max(3 * interval_ms);
        }
    }

    /// Elements known to be lists because the exporter reported their type.
    pub(crate) fn learned_lists(&self) -> impl ExactSizeIterator<Item = (ElementId, ListKind)> + '_ {
        self.learned_lists.iter().map(|(element, kind)| (*element, *kind))
    }

    /// Learns that elements are lists. Plans take it up when they are used, see [`update_plan`](Self::update_plan).
    /// Returns how many were not known before.
    pub(crate) fn learn_lists(&mut self, lists: impl IntoIterator<Item = (ElementId, ListKind)>) -> usize {
        let before = self.learned_lists.len();
        for (element, kind) in lists {
            if self.learned_lists.len() < LEARNED_LISTS_MAX {
                self.learned_lists.insert(element, kind);
            }
        }
        self.learned_lists.len() - before
    }

    /// Has the plan of a template made anew when elements were learned to be lists since it was made, and a set of so many octets has
    /// a record. One element that is learned so costs each template at most once, and nothing those whose records do not come.
    #[inline]
    pub(crate) fn update_plan(&mut self, id: TemplateId, octets: usize) {
        if !self.learned_lists.is_empty() {
            self.update_plan_by_lists(id, octets);
        }
    }

    fn update_plan_by_lists(&mut self, id: TemplateId, octets: usize) {
        let learned = &self.learned_lists;
        let Some(compiled) = self.compiled.get_mut(&id).filter(|compiled| compiled.lists_known < learned.len()) else {
            return;
        };
        // a field may be empty, and looking at it is not free
        let fields = compiled.template.fields().len();
        if octets < compiled.template.layout().min_record_len().max(fields) {
            return;
        }
        compiled.lists_known = learned.len();
        let is_new = |leftover: &Leftover| leftover.list.is_none() && learned.contains_key(&leftover.element());
        if compiled.plan.get().is_some_and(|plan| plan.leftovers.iter().any(is_new)) {
            compiled.plan = OnceCell::new();
        }
    }
}

impl ListContext for DomainTemplates {
    fn template(&self, id: TemplateId) -> Option<&Template> {
        self.compiled.get(&id).map(|compiled| &compiled.template)
    }

    fn list_kind(&self, element: ElementId) -> Option<ListKind> {
        list_kinds::registered(element).or_else(|| self.learned_lists.get(&element).copied())
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::FieldSpecifier;

    use super::*;

    fn template(id: u16, fields: u16) -> Template {
        let fields = (0..fields).map(|element| FieldSpecifier::iana(element + 1, 4)).collect();
        Template::new(TemplateId::new(id).expect("id"), fields, 0).expect("a template")
    }

    fn id(id: u16) -> TemplateId {
        TemplateId::new(id).expect("id")
    }

    #[test]
    fn fields_are_counted_in_and_out() {
        let mut templates = DomainTemplates::new(10, 1_000);
        for number in 1..=4 {
            templates.insert(template(255 + number, number), i64::from(number));
        }
        assert_eq!((templates.len(), templates.fields()), (4, 10));
        let removed = templates.remove(|compiled| compiled.template.id() == id(257));
        assert_eq!(removed, TemplateCount { templates: 1, fields: 2 });
        assert_eq!(templates.remove_expired(1_002), TemplateCount { templates: 1, fields: 1 });
        assert_eq!((templates.len(), templates.fields()), (2, 7));
        assert_eq!(templates.remove(|_| false), TemplateCount::default());
    }

    #[test]
    fn those_of_a_kind_are_found_whatever_was_forgotten() {
        let mut templates = DomainTemplates::new(10, 1_000);
        let options = |number: u16| {
            let fields = vec![FieldSpecifier::iana(10, 4), FieldSpecifier::iana(82, 4)];
            Template::new(id(number), fields, 1).expect("a template")
        };
        let of_kinds = |templates: &DomainTemplates| {
            [false, true].map(|options| {
                let mut ids: Vec<u16> = templates.ids_of_kind(options).iter().map(|id| id.get()).collect();
                ids.sort_unstable();
                ids
            })
        };
        (300..306).for_each(|number| templates.insert(template(number, 1), 0));
        (400..403).for_each(|number| templates.insert(options(number), 0));
        for forgotten in [301, 305, 400] {
            templates.remove_one(id(forgotten));
        }
        assert_eq!(of_kinds(&templates), [vec![300, 302, 303, 304], vec![401, 402]]);
        templates.remove(|compiled| [302, 401].contains(&compiled.template.id().get()));
        templates.insert(template(307, 1), 0);
        templates.remove_one(id(300));
        assert_eq!(of_kinds(&templates), [vec![303, 304, 307], vec![402]]);
    }

    #[test]
    fn a_template_lives_for_three_refresh_intervals() {
        let mut templates = DomainTemplates::new(10, 1_000);
        templates.insert(template(256, 1), 0);
        assert!(templates.current(id(256), 1_000).is_some());
        assert!(templates.current(id(256), 1_001).is_none() && templates.has(id(256)) && templates.any_expired(1_001));
        for at_ms in [0, 10_000] {
            templates.note_arrival(at_ms);
        }
        assert!(templates.current(id(256), 30_000).is_some() && templates.current(id(256), 30_001).is_none());
        // silence is no refresh interval
        templates.note_arrival(10_001 + REFRESH_MS_MAX);
        templates.refresh(id(256), 40_000);
        assert!(templates.current(id(256), 70_000).is_some() && templates.current(id(256), 70_001).is_none());
    }

    #[test]
    fn learned_lists_are_bounded_and_counted_once() {
        let mut templates = DomainTemplates::new(10, i64::MAX);
        let element = |id: u16| ElementId { enterprise: 35_566, id };
        let lists = |count: u16| (0..count).map(move |id| (element(id), ListKind::Basic));
        assert_eq!((templates.learn_lists(lists(3)), templates.learn_lists(lists(5))), (3, 2));
        assert_eq!(templates.list_kind(element(4)), Some(ListKind::Basic));
        assert_eq!(templates.learn_lists(lists(2_000)), LEARNED_LISTS_MAX - 5);
    }
}
