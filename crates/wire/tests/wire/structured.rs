//! Lists, encoded by hand as RFC 6313 section 4.5 draws them and shaped like the examples of its appendix A, and damage
//! to them.

use std::collections::HashMap;

use weir_wire::structured::{LIST_DEPTH_MAX, LIST_ENTRIES_MAX, ListContext, ListEntry, Semantic, walk};
use weir_wire::{ElementId, FieldSpecifier, ListKind, Template, TemplateId, VARIABLE_LENGTH};

/// What an exporter of the RFC's appendix has told.
#[derive(Default)]
struct Told(HashMap<TemplateId, Template>);

impl Told {
    fn template(mut self, id: u16, fields: &[(u16, u16)]) -> Self {
        let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
        let template = Template::new(TemplateId::new(id).expect("id"), fields, 0).expect("template");
        self.0.insert(template.id(), template);
        self
    }
}

impl ListContext for Told {
    fn template(&self, id: TemplateId) -> Option<&Template> {
        self.0.get(&id)
    }

    fn list_kind(&self, element: ElementId) -> Option<ListKind> {
        match element {
            ElementId { enterprise: 0, id: 291 } => Some(ListKind::Basic),
            ElementId { enterprise: 0, id: 292 } => Some(ListKind::SubTemplate),
            ElementId { enterprise: 0, id: 293 } => Some(ListKind::SubTemplateMulti),
            _ => None,
        }
    }
}

/// Element, octets, position of the list, number in it.
type Plain<'a> = (u16, &'a [u8], Option<u16>, u16);

fn plain<'a>(entries: &[ListEntry<'a>]) -> Vec<Plain<'a>> {
    entries.iter().map(|entry| (entry.element.id, entry.octets, entry.parent, entry.record)).collect()
}

fn kind_of(id: u16) -> ListKind {
    Told::default().list_kind(ElementId::iana(id)).expect("a list")
}

/// Walks a list; everything in it must be found.
fn check(told: &Told, list: u16, octets: &[u8], expected: &[Plain<'_>]) {
    let mut entries = Vec::new();
    assert_eq!(walk(ElementId::iana(list), kind_of(list), octets, told, &mut entries), 0);
    assert_eq!(plain(&entries)[0], (list, octets, None, 0));
    assert_eq!(plain(&entries)[1..], *expected);
}

/// As in appendix A.1: one flow to a multicast group leaves by interfaces 1, 4 and 8.
#[test]
fn multicast_egress_interfaces() {
    let list = [3, 0, 14, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8];
    let expected: Vec<Plain<'_>> =
        list[5..].chunks(4).enumerate().map(|(number, value)| (14, value, Some(0), number as u16)).collect();
    assert_eq!(expected.len(), 3);
    check(&Told::default(), 291, &list, &expected);
    assert_eq!(Semantic::from_octet(list[0]), Semantic::AllOf);
}

/// As in appendix A.3, a list within a list: a basicList within the records of a subTemplateList, here application and its ports.
#[test]
fn a_list_in_the_records_of_a_list() {
    let told = Told::default().template(258, &[(4, 1), (291, VARIABLE_LENGTH)]);
    // oneOrMoreOf records of Template 258: protocol 6 with ports 80 and 443, protocol 17 with none
    let list = [2, 1, 2, 6, 9, 3, 0, 11, 0, 2, 0, 80, 1, 187, 17, 5, 3, 0, 11, 0, 2];
    check(
        &told,
        292,
        &list,
        &[
            (4, &[6], Some(0), 0),
            (291, &[3, 0, 11, 0, 2, 0, 80, 1, 187], Some(0), 0),
            (11, &[0, 80], Some(2), 0),
            (11, &[1, 187], Some(2), 1),
            (4, &[17], Some(0), 1),
            (291, &[3, 0, 11, 0, 2], Some(0), 1),
        ],
    );
}

/// As in appendix A.4: records of two Templates, of which one is not known.
#[test]
fn records_of_several_templates() {
    let told = Told::default().template(256, &[(8, 4), (7, 2)]).template(257, &[(6, 1)]);
    let list = [3, 1, 0, 0, 16, 192, 0, 2, 1, 0, 80, 192, 0, 2, 2, 0, 81, 1, 1, 0, 5, 27, 1, 2, 0, 6, 9, 9];
    let mut entries = Vec::new();
    assert_eq!(walk(ElementId::iana(293), ListKind::SubTemplateMulti, &list, &told, &mut entries), 1);
    assert_eq!(
        plain(&entries)[1..],
        [
            (8, &[192, 0, 2, 1][..], Some(0), 0),
            (7, &[0, 80], Some(0), 0),
            (8, &[192, 0, 2, 2], Some(0), 1),
            (7, &[0, 81], Some(0), 1),
            (6, &[27], Some(0), 2),
        ]
    );
    assert_eq!(entries[0].octets, list, "what is not understood is kept");
}

#[test]
fn values_of_variable_length_and_of_other_enterprises() {
    let mut list = vec![4, 0x80 | 0x30, 59, 255, 255, 0, 0, 0, 9, 2, b'a', b'b', 0, 255, 1, 0];
    list.extend([b'x'; 256]);
    let mut entries = Vec::new();
    assert_eq!(walk(ElementId::iana(291), ListKind::Basic, &list, &Told::default(), &mut entries), 0);
    let element = ElementId { enterprise: 9, id: 12_347 };
    assert!(entries[1..].iter().all(|entry| entry.element == element));
    let lengths: Vec<_> = entries[1..].iter().map(|entry| entry.octets.len()).collect();
    assert_eq!(lengths, [2, 0, 256]);
}

#[test]
fn lists_without_anything_in_them() {
    check(&Told::default(), 291, &[3, 0, 8, 0, 4], &[]);
    check(&Told::default(), 291, &[3, 0, 8, 0, 0], &[]);
    // an unknown Template does no harm where it has no records
    check(&Told::default(), 292, &[3, 1, 0], &[]);
    check(&Told::default(), 293, &[3], &[]);
}

/// Neither depth nor number is without bounds.
#[test]
fn limits() {
    let told = Told::default();
    // each list holds the next one, all values of variable length
    let mut list = vec![0xff, 0, 4, 0, 1];
    for _ in 0..LIST_DEPTH_MAX + 3 {
        let mut outer = vec![0xff, 1, 35, 255, 255, list.len() as u8];
        outer.append(&mut list);
        list = outer;
    }
    let mut entries = Vec::new();
    assert_eq!(walk(ElementId::iana(291), ListKind::Basic, &list, &told, &mut entries), 1);
    assert_eq!(entries.len(), LIST_DEPTH_MAX + 1);

    let mut list = vec![0xff, 0, 4, 0, 1];
    list.extend(vec![6; LIST_ENTRIES_MAX]);
    let mut entries = Vec::new();
    assert_eq!(walk(ElementId::iana(291), ListKind::Basic, &list, &told, &mut entries), 1);
    assert_eq!(entries.len(), LIST_ENTRIES_MAX);
    entries.clear();
    assert_eq!(walk(ElementId::iana(291), ListKind::Basic, &list[..LIST_ENTRIES_MAX + 4], &told, &mut entries), 0);

    // values of no octets that yet have some
    let spoiled = [0xff, 0, 4, 0, 0, 1];
    assert_eq!(walk(ElementId::iana(291), ListKind::Basic, &spoiled, &told, &mut Vec::new()), 1);
}

/// Cut at every octet and with every octet replaced: what precedes the damage is as before, and everything found
/// lies within the list.
#[test]
fn damage_costs_what_follows_it() {
    let told =
        Told::default().template(256, &[(8, 4), (291, VARIABLE_LENGTH)]).template(257, &[(293, VARIABLE_LENGTH)]);
    let inner = [3_u8, 1, 0, 0, 18, 192, 0, 2, 1, 9, 3, 0, 11, 0, 2, 0, 80, 1, 187];
    let mut list = vec![2, 1, 1, inner.len() as u8];
    list.extend(inner);
    let mut whole = Vec::new();
    assert_eq!(walk(ElementId::iana(292), ListKind::SubTemplate, &list, &told, &mut whole), 0);
    assert_eq!(whole.len(), 6);
    for cut in 0..list.len() {
        let mut entries = Vec::new();
        let undecodable = walk(ElementId::iana(292), ListKind::SubTemplate, &list[..cut], &told, &mut entries);
        // without octets nothing is said; the outer list ends with its header, and has no records then
        assert_eq!(undecodable > 0, cut != 0 && cut != 3, "cut at {cut}");
    }
    for at in 0..list.len() {
        for value in 0..=255 {
            let mut spoiled = list.clone();
            spoiled[at] = value;
            let mut entries = Vec::new();
            walk(ElementId::iana(292), ListKind::SubTemplate, &spoiled, &told, &mut entries);
            for (position, entry) in entries.iter().enumerate() {
                let Some(parent) = entry.parent else { continue };
                assert!(usize::from(parent) < position);
                let parent = entries[usize::from(parent)];
                assert!(parent.list.is_some());
                assert!(parent.octets.as_ptr_range().start <= entry.octets.as_ptr_range().start);
                assert!(entry.octets.as_ptr_range().end <= parent.octets.as_ptr_range().end);
            }
        }
    }
}
