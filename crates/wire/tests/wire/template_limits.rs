//! Templates at and over their limits, and the layouts they compile to.

use weir_wire::layout::SET_BODY_OCTETS_MAX;
use weir_wire::template::TEMPLATE_FIELDS_MAX;
use weir_wire::{FieldPositions, FieldSpecifier, Spans, Template, TemplateId, VARIABLE_LENGTH, WireError};

fn build(lengths: &[u16], scopes: u16) -> Result<Template, WireError> {
    let fields = lengths.iter().map(|&length| FieldSpecifier::iana(1, length)).collect();
    Template::new(TemplateId::new(300)?, fields, scopes)
}

#[test]
fn templates_are_checked_when_built() {
    let check = |lengths: &[u16], scopes, expected: Option<&str>| {
        let found = build(lengths, scopes).err().map(WireError::label);
        assert_eq!(found, expected, "{} fields, {scopes} scopes", lengths.len());
    };
    check(&[4, 4], 0, None);
    check(&[4, 4], 2, None);
    check(&[4, 4], 3, Some("scope_count"));
    check(&[], 0, Some("zero_length_template"));
    check(&[0, 0], 0, Some("zero_length_template"));
    check(&[0, 1], 0, None);
    check(&[VARIABLE_LENGTH], 0, None);
    check(&[1; TEMPLATE_FIELDS_MAX], 0, None);
    check(&[1; TEMPLATE_FIELDS_MAX + 1], 0, Some("too_many_fields"));
    check(&[65531], 0, None);
    check(&[65532], 0, Some("record_too_long"));
    check(&[65530, VARIABLE_LENGTH], 0, None);
    check(&[65531, VARIABLE_LENGTH], 0, Some("record_too_long"));
    check(&[60000; TEMPLATE_FIELDS_MAX], 0, Some("record_too_long"));
    assert_eq!(TemplateId::new(255), Err(WireError::ReservedTemplateId { id: 255 }));
    assert_eq!(TemplateId::new(256).map(TemplateId::get), Ok(256));
}

#[test]
fn fixed_layouts_are_arithmetic() {
    let template = build(&[4, 0, 2, 1], 0).unwrap();
    let layout = template.layout();
    assert_eq!((layout.fixed_record_len(), layout.min_record_len()), (Some(7), 7));
    let mut spans = Spans::default();
    let located = layout.locate(&[0; 7 * 3 + 6], &mut spans);
    assert_eq!((located.records, located.unread, located.problem), (3, 6, None));
    let FieldPositions::Fixed { offset, stride, length } = located.field(2) else { panic!() };
    assert_eq!((offset, stride, length), (4, 7, 2));
    assert_eq!(located.field(1).get(2), (18, 0));
    assert_eq!(layout.locate(&[], &mut spans).records, 0);
}

#[test]
fn variable_layouts_are_walked() {
    const V: u16 = VARIABLE_LENGTH;
    let check = |lengths: &[u16], body: &[u8], records: &[&[(usize, usize)]], unread, label: Option<&str>| {
        let template = build(lengths, 0).unwrap();
        let mut spans = Spans::default();
        let located = template.layout().locate(body, &mut spans);
        let found: Vec<Vec<_>> = (0..located.records)
            .map(|record| (0..lengths.len()).map(|field| located.field(field).get(record)).collect())
            .collect();
        assert_eq!(found, records, "{lengths:?} {body:?}");
        assert_eq!((located.unread, located.problem.map(WireError::label)), (unread, label), "{lengths:?} {body:?}");
    };
    check(&[V], &[2, 8, 9, 0, 1, 7], &[&[(1, 2)], &[(4, 0)], &[(5, 1)]], 0, None);
    check(&[2, V, 1], &[1, 1, 1, 9, 5, 2, 2, 0, 6], &[&[(0, 2), (3, 1), (4, 1)], &[(5, 2), (8, 0), (8, 1)]], 0, None);
    check(&[V, V], &[1, 9, 255, 0, 1, 8], &[&[(1, 1), (5, 1)]], 0, None);
    check(&[V, 0, V, 0], &[1, 9, 1, 8], &[&[(1, 1), (2, 0), (3, 1), (4, 0)]], 0, None);
    // Fewer octets than the shortest record are padding, whatever they hold.
    check(&[2, V, 1], &[1, 1, 0, 5, 0xff, 0xff, 0xff], &[&[(0, 2), (3, 0), (3, 1)]], 3, None);
    check(&[2, V, 1], &[1, 1, 0, 5, 1, 1, 9, 9], &[&[(0, 2), (3, 0), (3, 1)]], 4, Some("variable_length_overrun"));
    check(&[V, 4], &[3, 1, 1, 1, 4, 4], &[], 6, Some("record_truncated"));
    check(&[V, 1], &[255, 1], &[], 2, Some("record_truncated"));
    check(&[V], &[255, 0, 5, 1], &[], 4, Some("variable_length_overrun"));
    check(&[V, 1], &[], &[], 0, None);
}

#[test]
fn overruns_say_where() {
    let template = build(&[VARIABLE_LENGTH, VARIABLE_LENGTH], 0).unwrap();
    let mut spans = Spans::default();
    let located = template.layout().locate(&[0, 0, 1, 5, 9, 9], &mut spans);
    let expected = WireError::VariableLengthOverrun { record: 1, field: 1, length: 9, have: 1 };
    assert_eq!(located.problem, Some(expected));
    assert_eq!(located.field(0).get(1), (0, 0), "the spoiled record is not there");
    let template = build(&[VARIABLE_LENGTH, 4], 0).unwrap();
    let located = template.layout().locate(&[2, 1, 1, 4, 4], &mut spans);
    assert_eq!(located.problem, Some(WireError::RecordTruncated { record: 0, need: 7, have: 5 }));
}

#[test]
fn bodies_over_the_limit_are_refused() {
    for lengths in [&[1][..], &[VARIABLE_LENGTH]] {
        let template = build(lengths, 0).unwrap();
        let mut spans = Spans::default();
        let body = vec![0; SET_BODY_OCTETS_MAX + 1];
        let located = template.layout().locate(&body, &mut spans);
        assert_eq!((located.records, located.problem.map(WireError::label)), (0, Some("set_too_long")));
        assert_eq!(template.layout().locate(&body[1..], &mut spans).records, SET_BODY_OCTETS_MAX);
    }
}
