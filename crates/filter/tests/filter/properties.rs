//! The mask is what a row-by-row reading of the tree's documentation gives; printed trees parse back.

use proptest::prelude::*;
use weir_filter::{
    AddressSet, Comparison, ElementNumber, NumberSet, Operand, Predicate, Prefix, Test, TextCondition, TextSet, parse,
};
use weir_flow::{Column, ColumnType};

use crate::rows::{Row, Value, batch};

fn number(row: &Row, column: Column) -> Option<u64> {
    match row.get(&column) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    }
}

fn ms(row: &Row, column: Column) -> Option<i64> {
    match row.get(&column) {
        Some(Value::Ms(ms)) => Some(*ms),
        _ => None,
    }
}

fn operand(row: &Row, operand: Operand) -> Option<u64> {
    let is_icmp = || matches!(number(row, Column::Protocol), Some(1 | 58));
    let type_code = || number(row, Column::IcmpTypeCode).or(number(row, Column::DstPort));
    let duration = || u128::try_from(i128::from(ms(row, Column::End)?) - i128::from(ms(row, Column::Start)?)).ok();
    let rate = |column, factor: u128| {
        let (duration, count) = (duration()?, u128::from(number(row, column)?));
        Some(u64::try_from((count * factor).checked_div(duration).unwrap_or(0)).unwrap_or(u64::MAX))
    };
    match operand {
        Operand::Column(column) => number(row, column),
        Operand::Flows => Some(number(row, Column::Flows).unwrap_or(1)),
        Operand::TcpFlags if number(row, Column::Protocol) == Some(6) => number(row, Column::TcpFlags),
        Operand::IcmpType if is_icmp() => number(row, Column::IcmpType).or(type_code().map(|both| both / 256)),
        Operand::IcmpCode if is_icmp() => number(row, Column::IcmpCode).or(type_code().map(|both| both % 256)),
        Operand::TcpFlags | Operand::IcmpType | Operand::IcmpCode => None,
        Operand::DurationMs => Some(u64::try_from(duration()?).expect("two i64 differ by less than 2^64")),
        Operand::PacketsPerSecond => rate(Column::Packets, 1000),
        Operand::BitsPerSecond => rate(Column::Bytes, 8000),
        Operand::BytesPerPacket => {
            let (bytes, packets) = (number(row, Column::Bytes)?, number(row, Column::Packets)?);
            Some(bytes.checked_div(packets).unwrap_or(0))
        }
        Operand::TtlSpread => number(row, Column::MaxTtl)?.checked_sub(number(row, Column::MinTtl)?),
        Operand::Element(part) => {
            let octets = part.elements.iter().find_map(|(enterprise, id)| element(row, *enterprise, *id))?;
            let bits = octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1));
            let digits: String = bits.map(|bit| if bit == 1 { '1' } else { '0' }).collect();
            let end = digits.len().saturating_sub(part.shift.into());
            let digits = &digits[end.saturating_sub(part.bits.into())..end];
            Some(if digits.is_empty() { 0 } else { u64::from_str_radix(digits, 2).expect("binary") })
        }
        Operand::MplsBottom => (70..80).filter_map(|id| element(row, 0, id)).find_map(|octets| {
            let last = octets.last()?;
            (last % 2 == 1).then(|| octets.iter().fold(0, |sum, octet| sum * 256 + u64::from(*octet)) / 16)
        }),
        Operand::RecordNumber => panic!("about files, not rows"),
    }
}

fn element(row: &Row, enterprise: u32, id: u16) -> Option<Vec<u8>> {
    let Some(Value::Elements(elements)) = row.get(&Column::Elements) else { return None };
    elements.iter().find(|known| (known.0, known.1) == (enterprise, id)).map(|(.., octets)| octets.clone())
}

fn compares<T: Ord>(left: &T, comparison: Comparison, right: &T) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::Greater => left > right,
        Comparison::Less => left < right,
        Comparison::GreaterOrEqual => left >= right,
        Comparison::LessOrEqual => left <= right,
    }
}

pub(crate) fn takes(predicate: &Predicate, row: &Row) -> bool {
    let octets = |column: &Column| match row.get(column) {
        Some(Value::Octets(octets)) => Some(octets.clone()),
        _ => None,
    };
    match predicate {
        Predicate::True => true,
        Predicate::False => false,
        Predicate::Not(part) => !takes(part, row),
        Predicate::And(parts) => parts.iter().all(|part| takes(part, row)),
        Predicate::Or(parts) => parts.iter().any(|part| takes(part, row)),
        Predicate::Test(Test::Number { operand: what, comparison, value }) => {
            operand(row, *what).is_some_and(|number| compares(&number, *comparison, value))
        }
        Predicate::Test(Test::NumberIn { operand: what, values }) => operand(row, *what)
            .is_some_and(|number| values.ranges().iter().any(|(first, last)| (*first..=*last).contains(&number))),
        Predicate::Test(Test::Address { column, set }) => octets(column).is_some_and(|octets| {
            set.prefixes().any(|prefix| {
                let address = weir_flow::address::to_ip(&octets).expect("an address");
                let cut = Prefix::new(address, prefix.length());
                cut == Some(prefix)
            })
        }),
        Predicate::Test(Test::Flags { mask, exact }) => operand(row, Operand::TcpFlags)
            .map(|flags| flags as u16)
            .is_some_and(|flags| if *exact { flags == *mask } else { flags & mask == *mask }),
        Predicate::Test(Test::Family { v6 }) => [Column::SrcAddr, Column::DstAddr]
            .iter()
            .any(|column| octets(column).is_some_and(|octets| octets.len() == if *v6 { 16 } else { 4 })),
        Predicate::Test(Test::Time { column, comparison, ms: wanted }) => {
            ms(row, *column).is_some_and(|ms| compares(&ms, *comparison, wanted))
        }
        Predicate::Test(Test::Mac { column, mac }) => octets(column).is_some_and(|octets| octets == mac),
        Predicate::Test(Test::Text { column, condition }) => {
            octets(column).is_some_and(|octets| holds(condition, &String::from_utf8(octets).expect("text")))
        }
        Predicate::Test(Test::ElementText { elements, condition }) => elements
            .iter()
            .find_map(|(enterprise, id)| element(row, *enterprise, *id))
            .is_some_and(|octets| holds(condition, &String::from_utf8(octets).expect("text"))),
        Predicate::Test(Test::PortInBlock { column }) => {
            let ends = (number(row, Column::PortRangeStart), number(row, Column::PortRangeEnd));
            matches!((ends, number(row, *column)), ((Some(first), Some(last)), Some(port)) if first <= port && port <= last)
        }
        Predicate::Test(Test::UserName(name)) => {
            element(row, 0, 371).or(element(row, 0, 40000)).is_some_and(|octets| octets == name.as_bytes())
        }
        Predicate::Test(Test::Ident(_)) => panic!("about files, not rows"),
    }
}

/// Patterns by trying all places of all signs.
fn is_like(text: &[char], pattern: &[char]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        (['%', rest @ ..], _) => (0..=text.len()).any(|taken| is_like(&text[taken..], rest)),
        (['_', rest @ ..], [_, behind @ ..]) => is_like(behind, rest),
        ([letter, rest @ ..], [first, behind @ ..]) => {
            letter.to_lowercase().eq(first.to_lowercase()) && is_like(behind, rest)
        }
        _ => false,
    }
}

fn holds(condition: &TextCondition, text: &str) -> bool {
    let letters = |text: &str| text.chars().collect::<Vec<_>>();
    match condition {
        TextCondition::OneOf(set) => set.texts().iter().any(|known| *known == text.to_lowercase()),
        TextCondition::Exactly(known) => known == text,
        TextCondition::Like(pattern) => is_like(&letters(text), &letters(pattern)),
    }
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "A", "ab", "aB.c", "b c", "\u{fc}", "\u{dc}", "aab", "it's"]).prop_map(str::to_owned)
}

fn condition() -> impl Strategy<Value = TextCondition> {
    prop_oneof![
        prop::collection::vec(text(), 0..6).prop_map(|texts| TextCondition::OneOf(TextSet::new(texts))),
        text().prop_map(TextCondition::Exactly),
        "[aAb.%_\u{fc}\u{dc}]{0,5}".prop_map(TextCondition::Like),
    ]
}

fn columns_of(wanted: fn(ColumnType) -> bool) -> Vec<Column> {
    let usual = |column: &Column| wanted(column.column_type()) && *column != Column::Flows;
    Column::ALL.iter().copied().filter(usual).collect()
}

fn is_number(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64)
}

fn largest(column: Column) -> u64 {
    match column.column_type() {
        _ if matches!(column, Column::SrcMask | Column::DstMask) => 128,
        ColumnType::U8 => u8::MAX.into(),
        ColumnType::U16 => u16::MAX.into(),
        ColumnType::U32 => u32::MAX.into(),
        _ => u64::MAX,
    }
}

/// Mostly small numbers, so that constants and values meet, and the edges of the type.
fn value(max: u64) -> BoxedStrategy<u64> {
    prop_oneof![6 => 0..=max.min(9), 1 => Just(max), 1 => Just(max - 1), 1 => 0..=max].boxed()
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1_704_153_600_000..1_704_153_600_009_i64, 1 => 0..4_000_000_000_000_i64]
}

fn address() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0..8_u8).prop_map(|low| vec![10, 0, 0, low]),
        (0..8_u8).prop_map(|low| {
            let mut octets = vec![0x20; 16];
            octets[15] = low;
            octets
        })
    ]
}

fn mac() -> impl Strategy<Value = [u8; 6]> {
    (0..3_u8).prop_map(|low| [0, 1, 2, 3, 4, low])
}

/// The columns that operands and tests read, so that most tests find a value.
const USUAL: &[Column] = &[
    Column::Start,
    Column::End,
    Column::SrcAddr,
    Column::DstAddr,
    Column::SrcPort,
    Column::DstPort,
    Column::Protocol,
    Column::TcpFlags,
    Column::Packets,
    Column::Bytes,
    Column::Flows,
    Column::IcmpType,
    Column::IcmpTypeCode,
    Column::IcmpCode,
    Column::InIf,
    Column::SrcMac,
    Column::MinTtl,
    Column::MaxTtl,
    Column::PortRangeStart,
    Column::PortRangeEnd,
    Column::Application,
    Column::ServerName,
    Column::Elements,
];

/// The label and the class of an entry of the MPLS stack, the extended event of a firewall.
const ELEMENTS: &[(ElementNumber, u64)] = &[
    (ElementNumber { elements: &[(0, 70)], shift: 4, bits: 20 }, 0xf_ffff),
    (ElementNumber { elements: &[(0, 71)], shift: 1, bits: 3 }, 7),
    (ElementNumber { elements: &[(0, 33002)], shift: 0, bits: 16 }, 0xffff),
];

fn elements() -> impl Strategy<Value = Vec<(u32, u16, Vec<u8>)>> {
    let number = |id: u16, width: usize| {
        let low = prop_oneof![8 => 0..160_u64, 1 => Just(u64::MAX)];
        low.prop_map(move |value| (0, id, value.to_be_bytes()[8 - width..].to_vec()))
    };
    let name =
        |id: u16| prop::sample::select(vec!["a", "b", ""]).prop_map(move |name| (0, id, name.as_bytes().to_vec()));
    let one = prop_oneof![number(70, 3), number(71, 3), number(33002, 2), name(371), name(40000)];
    prop::collection::vec(one, 0..5)
}

fn cell(column: Column) -> BoxedStrategy<Option<Value>> {
    let value = match column.column_type() {
        ColumnType::Time => time().prop_map(Value::Ms).boxed(),
        ColumnType::Address => address().prop_map(Value::Octets).boxed(),
        ColumnType::Elements => elements().prop_map(Value::Elements).boxed(),
        ColumnType::Text => text().prop_map(|text| Value::Octets(text.into())).boxed(),
        ColumnType::Mac => mac().prop_map(|mac| Value::Octets(mac.to_vec())).boxed(),
        _ if column == Column::Protocol => {
            prop_oneof![Just(1), Just(6), Just(17), Just(58)].prop_map(Value::Number).boxed()
        }
        _ => value(largest(column)).prop_map(Value::Number).boxed(),
    };
    prop::option::weighted(0.8, value).boxed()
}

fn row() -> impl Strategy<Value = Row> {
    let cells: Vec<_> = USUAL.iter().map(|column| cell(*column).prop_map(|value| (*column, value))).collect();
    cells.prop_map(|cells| cells.into_iter().filter_map(|(column, value)| Some((column, value?))).collect())
}

/// Rows that may all lack some columns.
fn rows() -> impl Strategy<Value = Vec<Row>> {
    (prop::collection::vec(row(), 0..70), prop::collection::vec(any::<bool>(), USUAL.len())).prop_map(
        |(mut rows, kept)| {
            for row in &mut rows {
                row.retain(|column, _| {
                    USUAL
                        .iter()
                        .zip(&kept)
                        .any(|(usual, kept)| usual == column && (*kept || *column == Column::Protocol))
                });
            }
            rows
        },
    )
}

fn operands() -> impl Strategy<Value = (Operand, u64)> {
    let computed = vec![
        (Operand::Flows, u64::MAX),
        (Operand::TcpFlags, 65535),
        (Operand::IcmpType, 255),
        (Operand::IcmpCode, 255),
        (Operand::DurationMs, u64::MAX),
        (Operand::PacketsPerSecond, u64::MAX),
        (Operand::BitsPerSecond, u64::MAX),
        (Operand::BytesPerPacket, u64::MAX),
        (Operand::TtlSpread, 255),
        (Operand::MplsBottom, 0xf_ffff),
    ];
    let elements: Vec<_> = ELEMENTS.iter().map(|(number, max)| (Operand::Element(*number), *max)).collect();
    let usual: Vec<Column> =
        USUAL.iter().copied().filter(|c| is_number(c.column_type()) && *c != Column::Flows).collect();
    let of = |column: Column| (Operand::Column(column), largest(column));
    prop_oneof![
        4 => prop::sample::select(computed),
        1 => prop::sample::select(elements),
        4 => prop::sample::select(usual).prop_map(of),
        1 => prop::sample::select(columns_of(is_number)).prop_map(of),
    ]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    prop::sample::select(vec![Equal, Greater, Less, GreaterOrEqual, LessOrEqual])
}

fn set() -> impl Strategy<Value = AddressSet> {
    let prefix = (address(), 0..=128_u8).prop_map(|(octets, length)| {
        let address = weir_flow::address::to_ip(&octets).expect("an address");
        let length = if length > 100 { 128 } else { length };
        Prefix::new(address, if address.is_ipv4() { length.min(32) } else { length }).expect("it fits")
    });
    prop::collection::vec(prefix, 0..4).prop_map(|prefixes| prefixes.into_iter().collect())
}

fn test() -> impl Strategy<Value = Test> {
    let number = (operands(), comparison()).prop_flat_map(|((operand, max), comparison)| {
        value(max).prop_map(move |value| Test::Number { operand, comparison, value })
    });
    let number_in = operands().prop_flat_map(|(operand, max)| {
        prop::collection::vec((value(max), value(max)), 0..5)
            .prop_map(move |ranges| Test::NumberIn { operand, values: NumberSet::from_ranges(ranges) })
    });
    let sides = vec![Column::SrcAddr, Column::DstAddr];
    let addresses = prop_oneof![3 => prop::sample::select(sides), 1 => prop::sample::select(columns_of(|t| t == ColumnType::Address))];
    prop_oneof![
        4 => number,
        2 => number_in,
        2 => (addresses, set()).prop_map(|(column, set)| Test::Address { column, set }),
        1 => (1..256_u16, any::<bool>()).prop_map(|(mask, exact)| Test::Flags { mask, exact }),
        1 => (0..3_u32).prop_map(|bit| Test::Flags { mask: 1 << bit, exact: false }),
        1 => any::<bool>().prop_map(|v6| Test::Family { v6 }),
        3 => (prop::sample::select(columns_of(|t| t == ColumnType::Text)), condition())
            .prop_map(|(column, condition)| Test::Text { column, condition }),
        1 => prop::sample::select(vec![Column::SrcPort, Column::DstPort]).prop_map(|column| Test::PortInBlock { column }),
        1 => prop::sample::select(vec!["a", "b c"]).prop_map(|name| Test::UserName(name.to_owned())),
        1 => (prop::sample::select(columns_of(|t| t == ColumnType::Time)), comparison(), time())
            .prop_map(|(column, comparison, ms)| Test::Time { column, comparison, ms }),
        1 => (prop::sample::select(columns_of(|t| t == ColumnType::Mac)), mac()).prop_map(|(column, mac)| Test::Mac { column, mac }),
    ]
}

fn predicate() -> impl Strategy<Value = Predicate> {
    let leaf =
        prop_oneof![20 => test().prop_map(Predicate::Test), 1 => Just(Predicate::True), 1 => Just(Predicate::False)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Predicate::not),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Predicate::and),
            prop::collection::vec(inner, 0..4).prop_map(Predicate::or),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn the_mask_is_the_naive_answer(predicate in predicate(), rows in rows()) {
        let expected: Vec<bool> = rows.iter().map(|row| takes(&predicate, row)).collect();
        let mask: Vec<bool> = predicate.mask(&batch(&rows)).values().iter().collect();
        prop_assert_eq!(mask, expected, "{}", predicate);
    }

    #[test]
    fn printed_predicates_parse_back(predicate in predicate()) {
        let text = predicate.to_string();
        prop_assert_eq!(parse(&text).map_err(|error| error.render(&text)), Ok(predicate), "{}", text);
    }

    #[test]
    fn any_text_is_a_filter_or_an_error_within_it(text in "(src |port |ip |in |\\[|\\]|\\(|\\)|[0-9]{1,3}|10\\.0\\.0\\.1|/| and |not |=|flags |2024-|'|ä|.){0,12}") {
        match parse(&text) {
            Ok(predicate) => prop_assert_eq!(parse(&predicate.to_string()), Ok(predicate)),
            Err(error) => {
                prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                prop_assert!(text.is_char_boundary(error.span.start) && text.is_char_boundary(error.span.end));
                prop_assert!(error.render(&text).contains('^'));
            }
        }
    }
}

/// Sets of more ranges than are compared one by one, over batches of one family and of both.
#[test]
fn a_hundred_hosts_are_found_among_their_neighbours() {
    let own: Vec<(u32, u32)> = (0..100).map(|number| (0x5000_0000 + number * 13, 0x5000_0000 + number * 13)).collect();
    let test = Test::Address { column: Column::SrcAddr, set: AddressSet::from_ranges(own, Vec::new()) };
    for has_v6 in [false, true] {
        let mut builder = weir_flow::FlowBatchBuilder::new(5_000);
        builder.begin_rows(5_000);
        for row in 0..5_000_u32 {
            let v4 = (0x5000_0000 + row).to_be_bytes();
            let octets = if has_v6 && row % 5 == 4 { &[0x50; 16][..] } else { &v4[..] };
            builder.address(Column::SrcAddr).push(Some(octets));
        }
        let mask = Predicate::Test(test.clone()).mask(&builder.finish());
        for row in 0..5_000 {
            let expected = row % 13 == 0 && row < 1_300 && !(has_v6 && row % 5 == 4);
            assert_eq!(mask.value(row), expected, "{row} {has_v6}");
        }
    }
}
