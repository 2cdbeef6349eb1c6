use weir_wire::fixed::FixedField;
use weir_wire::{netflow1, netflow5, netflow7};

use super::*;

fn compile(template: &Template, header_uptime: bool) -> Plan {
    Plan::compile(template, header_uptime, crate::list_kinds::registered)
}

fn template(fields: &[(u32, u16, u16)]) -> Template {
    let fields = fields
        .iter()
        .map(|&(enterprise, id, length)| FieldSpecifier { element: ElementId { enterprise, id }, length })
        .collect();
    Template::new(TemplateId::new(256).expect("id"), fields, 0).expect("template")
}

#[test]
fn the_v5_template_agrees_with_registry_and_wire() {
    // Cisco, "NetFlow Services and Applications"
    const OFFSETS: [(Column, usize); 18] = [
        (Column::SrcAddr, 0),
        (Column::DstAddr, 4),
        (Column::NextHop, 8),
        (Column::InIf, 12),
        (Column::OutIf, 14),
        (Column::Packets, 16),
        (Column::Bytes, 20),
        (Column::Start, 24),
        (Column::End, 28),
        (Column::SrcPort, 32),
        (Column::DstPort, 34),
        (Column::TcpFlags, 37),
        (Column::Protocol, 38),
        (Column::Tos, 39),
        (Column::SrcAs, 40),
        (Column::DstAs, 42),
        (Column::SrcMask, 44),
        (Column::DstMask, 45),
    ];
    let template = fixed_template(&netflow5::FORMAT).expect("template");
    assert_eq!(template.layout().fixed_record_len(), Some(netflow5::RECORD_LEN));
    let mut offset = 0;
    for field in template.fields() {
        if field.element.id != PADDING_OCTETS {
            let (column, _) = Column::of_element(0, field.element.id).expect("a column");
            assert!(OFFSETS.contains(&(column, offset)), "{column} {offset}");
            let known = netflow5::field::ALL.iter().find(|known| known.offset == offset).expect("a field of wire");
            assert_eq!(known.length, usize::from(field.length), "{column}");
        }
        offset += usize::from(field.length);
    }
    let plan = compile(&template, true);
    assert_eq!(plan.leftovers, []);
    assert_eq!(plan.ops.len(), 18);
}

/// Offsets of fields as the tables of wire have them, which follow Cisco's.
#[test]
fn the_v1_and_v7_templates_agree_with_wire() {
    use netflow7::field::{DST_AS, DST_MASK, ROUTER_SC, SRC_AS, SRC_MASK};
    macro_rules! names {
        ($version:ident) => {{
            use $version::field::{
                DST_ADDR, DST_PORT, FIRST, INPUT, LAST, NEXT_HOP, OCTETS, OUTPUT, PACKETS, PROTOCOL, SRC_ADDR,
                SRC_PORT, TCP_FLAGS, TOS,
            };
            [
                (SRC_ADDR, 8),
                (DST_ADDR, 12),
                (NEXT_HOP, 15),
                (INPUT, 10),
                (OUTPUT, 14),
                (PACKETS, 2),
                (OCTETS, 1),
                (FIRST, 22),
                (LAST, 21),
                (SRC_PORT, 7),
                (DST_PORT, 11),
                (PROTOCOL, 4),
                (TOS, 5),
                (TCP_FLAGS, 6),
            ]
        }};
    }
    let check = |format: &FixedFormat, names: &[(FixedField, u16)]| {
        let (template, version) = (fixed_template(format).expect("template"), format.version);
        assert_eq!(template.layout().fixed_record_len(), Some(format.record_len));
        let (mut offset, mut found) = (0, 0);
        for field in template.fields() {
            if let Some((known, _)) = names.iter().find(|(_, id)| *id == field.element.id) {
                let place = (offset, usize::from(field.length));
                assert_eq!((known.offset, known.length), place, "v{version} {}", known.name);
                found += 1;
            }
            offset += usize::from(field.length);
        }
        assert_eq!(found, names.len(), "v{version}");
        let plan = compile(&template, true);
        assert_eq!(
            plan.leftovers.iter().map(|leftover| leftover.id).collect::<Vec<_>>(),
            match version {
                7 => vec![130],
                _ => vec![],
            }
        );
    };
    check(&netflow1::FORMAT, &names!(netflow1));
    let mut names = names!(netflow7).to_vec();
    let more = [(SRC_AS, 16), (DST_AS, 17), (SRC_MASK, 9), (DST_MASK, 13), (ROUTER_SC, 130)];
    names.extend(more);
    check(&netflow7::FORMAT, &names);
}

#[test]
fn an_interval_of_two_numbers_fills_the_column() {
    let plan = compile(&template(&[(0, 305, 4), (0, 306, 4)]), false);
    assert_eq!(plan.ops, [Op::Interval { selected: 0, other: 1, form: IntervalForm::Space }]);
    assert!(plan.has_sampling_interval);
    assert_eq!(plan.leftovers.len(), 2, "the exact numbers are kept");
}

#[test]
fn an_interval_of_one_number_that_is_none_fills_the_column() {
    // samplingInterval and samplerRandomInterval, and samplingProbability
    let plan = compile(&template(&[(0, 34, 4), (0, 50, 4)]), false);
    assert_eq!(plan.ops, [Op::Interval { selected: 0, other: 1, form: IntervalForm::Either }]);
    assert_eq!((plan.has_sampling_interval, plan.leftovers.len()), (true, 2), "the column shows one of them");
    let plan = compile(&template(&[(0, 311, 8)]), false);
    assert_eq!((plan.probability, plan.ops.len()), (Some(0), 0));
    assert_eq!((plan.has_sampling_interval, plan.leftovers.len()), (false, 1), "an interval is rounded");
    assert_eq!(compile(&template(&[(0, 311, 2)]), false).probability, None, "no float has two octets");
    // an interval is what was meant
    let plan = compile(&template(&[(0, 311, 8), (0, 34, 4)]), false);
    assert_eq!(plan.ops, [Op::Number { column: Column::SamplingInterval, field: 1 }]);
    assert_eq!((plan.probability, plan.has_sampling_interval), (None, true));
}

#[test]
fn a_second_field_for_a_column_is_kept() {
    let plan = compile(&template(&[(0, 85, 8), (0, 1, 4), (9, 12235, VARIABLE_LENGTH)]), false);
    assert!(plan.ops.contains(&Op::Number { column: Column::Bytes, field: 1 }));
    let kept: Vec<_> = plan.leftovers.iter().map(|leftover| (leftover.enterprise, leftover.id)).collect();
    assert_eq!(kept, [(0, 85), (9, 12235)]);
}

#[test]
fn counters_after_the_observation_point_are_those_of_the_flow_where_it_has_no_others() {
    let placed = |fields: &[(u32, u16, u16)]| {
        let plan = compile(&template(fields), false);
        let columns = plan.ops.iter().map(|op| op.column()).collect::<Vec<_>>();
        (columns, plan.leftovers.iter().map(|leftover| leftover.id).collect::<Vec<_>>())
    };
    // postOctetDeltaCount and postPacketDeltaCount, and their totals
    assert_eq!(placed(&[(0, 23, 4), (0, 24, 4)]), (vec![Column::Bytes, Column::Packets], vec![]));
    assert_eq!(placed(&[(0, 171, 8), (0, 172, 8)]), (vec![Column::Bytes, Column::Packets], vec![]));
    let both = vec![Column::Packets, Column::Bytes, Column::BytesOut, Column::PacketsOut];
    assert_eq!(placed(&[(0, 1, 4), (0, 2, 4), (0, 23, 4), (0, 24, 4)]), (both, vec![]));
    // octets before it and packets after it are not of one place
    assert_eq!(placed(&[(0, 1, 4), (0, 24, 4)]), (vec![Column::Bytes, Column::PacketsOut], vec![]));
    assert_eq!(placed(&[(0, 2, 4), (0, 23, 4)]), (vec![Column::Packets, Column::BytesOut], vec![]));
    // subTemplateList and subTemplateMultiList, which may have those of the flow
    for id in [292, 293] {
        let fields = [(0, 23, 4), (0, 24, 4), (0, id, VARIABLE_LENGTH)];
        assert_eq!(placed(&fields), (vec![Column::BytesOut, Column::PacketsOut], vec![id]));
    }
    // basicList, bgpSourceCommunityList and ipHeaderPacketSection, which have none
    for id in [291, 484, 313] {
        let fields = [(0, 23, 4), (0, 24, 4), (0, id, VARIABLE_LENGTH)];
        assert_eq!(placed(&fields), (vec![Column::Bytes, Column::Packets], vec![id]));
    }
    // of packets whose addresses are there, the section is not read
    let fields = [(0, 8, 4), (0, 12, 4), (0, 23, 4), (0, 24, 4), (0, 313, VARIABLE_LENGTH)];
    let columns = vec![Column::SrcAddr, Column::DstAddr, Column::Bytes, Column::Packets];
    assert_eq!(placed(&fields), (columns, vec![313]));
}

#[test]
fn octets_of_frames_are_those_of_the_flow_where_it_has_no_others() {
    let placed = |fields: &[(u32, u16, u16)]| {
        let plan = compile(&template(fields), false);
        let bytes = plan.ops.iter().filter(|op| op.column() == Column::Bytes).copied().collect::<Vec<_>>();
        (bytes, plan.leftovers.iter().any(|leftover| leftover.id == 352))
    };
    let of_field = |field| vec![Op::Number { column: Column::Bytes, field }];
    // they are something else, which the elements say
    assert_eq!(placed(&[(0, 352, 8), (0, 2, 8)]), (of_field(0), true));
    assert_eq!(placed(&[(0, 352, 8), (0, 1, 8)]), (of_field(1), true));
    assert_eq!(placed(&[(0, 352, 8), (0, 23, 8)]), (of_field(1), true));
    // dataLinkFrameSection and basicList, which may have those of IP
    assert_eq!(placed(&[(0, 352, 8), (0, 315, VARIABLE_LENGTH)]), (vec![], true));
    assert_eq!(placed(&[(0, 352, 8), (0, 291, VARIABLE_LENGTH)]), (vec![], true));
}

#[test]
fn a_field_too_wide_for_its_column_is_written_and_kept() {
    let plan = compile(&template(&[(0, 7, 4)]), false);
    assert_eq!(plan.ops, [Op::Number { column: Column::SrcPort, field: 0 }]);
    assert_eq!(plan.leftovers.len(), 1);
}

#[test]
fn the_innermost_header_fills_the_columns() {
    // protocol and source address of a tunnel, then those of what is in it
    let plan = compile(&template(&[(0, 4, 1), (0, 27, 16), (0, 1, 8), (0, 4, 1), (0, 27, 16), (0, 1, 8)]), false);
    let column_of = |field| {
        plan.ops
            .iter()
            .find(|op| matches!(**op, Op::Number { field: f, .. } | Op::Address { field: f, .. } if f == field))
            .map(|op| op.column())
    };
    assert_eq!((column_of(3), column_of(4)), (Some(Column::Protocol), Some(Column::SrcAddr)));
    assert_eq!(column_of(2), Some(Column::Bytes));
    let kept: Vec<_> = plan.leftovers.iter().map(|leftover| leftover.field).collect();
    assert_eq!(kept, [0, 1, 5]);
}

#[test]
fn an_uptime_is_kept_where_no_header_tells_what_it_counts_from() {
    let template = template(&[(0, 22, 4)]);
    assert_eq!(compile(&template, true).leftovers.len(), 0);
    let plan = compile(&template, false);
    assert!(plan.writes(Column::Start));
    assert_eq!(plan.leftovers.len(), 1);
}

#[test]
fn forms_of_times_are_a_choice_and_one_is_none() {
    let plan = compile(&template(&[(0, 22, 4), (0, 150, 4), (0, 150, 4), (0, 152, 8)]), true);
    let time = |field, form, others| TimeField { field, form, init_time: None, others };
    assert_eq!(plan.ops, [Op::Time { column: Column::Start, time: time(3, TimeForm::Millis, Some(0)) }]);
    let others: Box<[_]> = Box::new([time(1, TimeForm::Seconds, None), time(0, TimeForm::Uptime, None)]);
    assert_eq!(plan.other_times, [others]);
    let plan = compile(&template(&[(0, 22, 4), (0, 153, 8)]), true);
    assert_eq!((plan.other_times.len(), plan.needs_uptime), (0, true));
}

#[test]
fn a_duration_is_kept_where_no_column_holds_it() {
    let kept = |fields: &[(u32, u16, u16)], header_uptime| {
        let plan = compile(&template(fields), header_uptime);
        assert!(plan.writes(Column::Start) && plan.writes(Column::End), "{fields:?}");
        plan.leftovers.iter().map(|leftover| leftover.id).collect::<Vec<_>>()
    };
    assert!(kept(&[(0, 152, 8), (0, 161, 4)], false).is_empty());
    assert!(kept(&[(0, 161, 4), (0, 21, 4)], true).is_empty());
    // microseconds, and an uptime of IPFIX, which may have no base
    assert_eq!(kept(&[(0, 152, 8), (0, 162, 4)], false), [162]);
    assert_eq!(kept(&[(0, 22, 4), (0, 161, 4)], false), [22, 161]);
    // next to a start and an end it is something else
    assert_eq!(kept(&[(0, 152, 8), (0, 153, 8), (0, 161, 4)], false), [161]);
}

#[test]
fn few_fields_of_text_are_looked_at_for_one_column() {
    let plan = compile(&template(&[(35632, 188, 8); 200]), false);
    assert_eq!(plan.texts, [TextFields { column: Column::ServerName, fields: Box::from([0, 1, 2, 3]) }]);
    let kept = plan.leftovers.iter().filter(|leftover| leftover.texts.is_none()).count();
    assert_eq!((plan.leftovers.len(), kept), (200, 196), "the others are kept as they are");
}

/// Cisco, Flexible `NetFlow`: `udpSourcePort` and `tcpSourcePort`.
#[test]
fn ports_of_two_transports_are_a_choice() {
    let plan = compile(&template(&[(0, 182, 2), (0, 180, 2)]), false);
    assert_eq!(plan.ops, [Op::Chosen { column: Column::SrcPort, choice: 0 }]);
    assert_eq!(plan.choices, [Choice { rule: ChoiceRule::FirstSet, fields: Box::from([1, 0]) }]);
    // one of them is no choice, and neither is the same of two headers: the innermost is meant
    let plan = compile(&template(&[(0, 182, 2), (0, 181, 2)]), false);
    let expected = [(Column::SrcPort, 0), (Column::DstPort, 1)].map(|(column, field)| Op::Number { column, field });
    assert_eq!((plan.ops, plan.choices, plan.leftovers), (expected.to_vec(), Vec::new(), Vec::new()));
    let plan = compile(&template(&[(0, 7, 2), (0, 7, 2)]), false);
    assert_eq!((plan.ops, plan.choices.len()), (vec![Op::Number { column: Column::SrcPort, field: 1 }], 0));
    // what the column may not hold is not chosen
    let plan = compile(&template(&[(0, 180, 2), (0, 182, 4)]), false);
    assert_eq!(plan.ops, [Op::Number { column: Column::SrcPort, field: 0 }]);
    let places: Vec<_> = compile(&template(&[(0, 180, 2); 200]), false).ops;
    assert_eq!(places.len(), 1);
}

#[test]
fn types_of_both_versions_of_icmp_are_a_choice_by_the_protocol() {
    let plan = compile(&template(&[(0, 4, 1), (0, 178, 1), (0, 176, 1)]), false);
    assert!(plan.ops.contains(&Op::Chosen { column: Column::IcmpType, choice: 0 }));
    let rule = ChoiceRule::IcmpVersion { protocol: 0, types: Some((2, 1)) };
    assert_eq!(plan.choices, [Choice { rule, fields: Box::from([2, 1]) }]);
    // of codes with one type there is none to go by
    let plan = compile(&template(&[(0, 4, 1), (0, 178, 1), (0, 177, 1), (0, 179, 1)]), false);
    let rule = ChoiceRule::IcmpVersion { protocol: 0, types: None };
    assert_eq!(plan.choices, [Choice { rule, fields: Box::from([2, 3]) }]);
    let plan = compile(&template(&[(0, 4, 1), (0, 178, 1)]), false);
    assert!(plan.ops.contains(&Op::Number { column: Column::IcmpType, field: 1 }));
}

#[test]
fn lengths_of_prefixes_of_both_families_are_a_choice_by_the_addresses() {
    let plan = compile(&template(&[(0, 9, 1), (0, 29, 1), (0, 12, 4), (0, 28, 16)]), false);
    let rule = ChoiceRule::Family(FamilyFields([None, Some((2, 3))]));
    assert_eq!(plan.choices, [Choice { rule, fields: Box::from([0, 1]) }]);
    let plan = compile(&template(&[(0, 9, 1), (0, 29, 1), (0, 12, 4)]), false);
    assert_eq!(plan.choices, [Choice { rule: ChoiceRule::FirstSet, fields: Box::from([0, 1]) }]);
}

#[test]
fn both_address_families_in_one_template() {
    let plan = compile(&template(&[(0, 27, 16), (0, 8, 4)]), false);
    assert_eq!(plan.ops, [Op::EitherAddress { column: Column::SrcAddr, first: 0, second: 1 }]);
    assert_eq!(
        plan.leftovers,
        [Leftover { field: 0, enterprise: 0, id: 27, other_family: Some(1), texts: None, choice: None, list: None }]
    );
}

#[test]
fn ends_of_tunnels_in_the_elements_of_ntop() {
    // nProbe User's Guide, "Flow Information Elements": 114 and 116 are IPv4 addresses, 396 and 397 IPv6
    let (src, dst) = (Column::TunnelSrcAddr, Column::TunnelDstAddr);
    for (enterprise, [src4, dst4, src6, dst6]) in [(35632, [114, 116, 396, 397]), (0, [57586, 57588, 57868, 57869])] {
        for (src_id, dst_id, octets) in [(src4, dst4, 4), (src6, dst6, 16)] {
            let plan = compile(&template(&[(enterprise, src_id, octets), (enterprise, dst_id, octets)]), false);
            let expected = [Op::Address { column: src, field: 0 }, Op::Address { column: dst, field: 1 }];
            assert_eq!((plan.ops, plan.leftovers), (expected.to_vec(), Vec::new()), "{enterprise}/{src_id}");
        }
    }
}
