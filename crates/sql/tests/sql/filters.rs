//! A filter in a plan takes the flows that the filter's own mask takes.

use weir_filter::{AddressSet, NumberSet, Operand, Predicate, Test, parse};
use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_sql::{Engine, FlowQuery, Select, TimeWindow};

use crate::rows::{NEW_YEAR_MS, engine, lines};

/// Xorshift: the same numbers on every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// A value, or null one time in five.
    fn some<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(5) > 0).then(|| value(self))
    }

    fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len() as u64) as usize]
    }

    fn address(&mut self) -> Vec<u8> {
        let mut octets = vec![10, 0, self.below(2) as u8, self.below(6) as u8];
        if self.below(4) == 0 {
            octets.resize(16, 0);
            octets[15] = self.below(4) as u8;
        }
        octets
    }
}

/// Entries of an MPLS stack, an extended firewall event, a user: some of them, or none.
fn elements(dice: &mut Dice, column: &mut ElementsColumn) {
    for id in [70, 71] {
        if dice.below(2) == 0 {
            let entry = (15 + dice.below(3)) << 4 | dice.below(16);
            column.push(0, id, &entry.to_be_bytes()[5..]);
        }
    }
    if dice.below(3) == 0 {
        column.push(0, 33002, &[0x03, 0xe9]);
    }
    if dice.below(3) == 0 {
        column.push(0, 371, b"jane");
    }
    column.end_row();
}

/// Flows of few distinct values and many nulls, numbered by `flow_id` from `first_id` on.
fn flows(dice: &mut Dice, first_id: u64, rows: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows as usize);
    for id in first_id..first_id + rows {
        builder.begin_rows(1);
        builder.u64(Column::FlowId).push(Some(id));
        builder.time(Column::Received).push(Some(NEW_YEAR_MS));
        let start = NEW_YEAR_MS + dice.below(3) as i64 * 1000;
        builder.time(Column::Start).push(dice.some(|_| start));
        builder.time(Column::End).push(dice.some(|dice| start + dice.below(4) as i64 * 1000 - 1000));
        for column in [Column::SrcAddr, Column::DstAddr, Column::NextHop] {
            builder.address(column).push(dice.some(Dice::address).as_deref());
        }
        for column in [Column::SrcPort, Column::DstPort, Column::IcmpTypeCode] {
            builder.u16(column).push(dice.some(|dice| *dice.pick(&[0, 1, 22, 53, 80, 2048, 2049, 65535])));
        }
        builder.u8(Column::Protocol).push(dice.some(|dice| *dice.pick(&[1, 6, 17, 58])));
        builder.u8(Column::IcmpType).push((dice.below(3) == 0).then_some(8));
        builder.u16(Column::TcpFlags).push(dice.some(|dice| dice.below(64) as u16));
        builder.u64(Column::Packets).push(dice.some(|dice| dice.below(4)));
        builder.u64(Column::Bytes).push(dice.some(|dice| dice.below(4) * 500));
        builder.u64(Column::Flows).push(dice.some(|dice| dice.below(3)));
        builder.u32(Column::SrcAs).push(dice.some(|dice| *dice.pick(&[0, 64500, u32::MAX])));
        for column in [Column::MinTtl, Column::MaxTtl] {
            builder.u8(column).push(dice.some(|dice| 60 + dice.below(4) as u8));
        }
        builder.u16(Column::PortRangeStart).push(dice.some(|dice| *dice.pick(&[0, 22, 80])));
        builder.u16(Column::PortRangeEnd).push(dice.some(|dice| *dice.pick(&[53, 2048])));
        elements(dice, builder.elements());
        let mac = dice.some(|dice| [0, 0, 0, 0, 0, dice.below(2) as u8]);
        builder.address(Column::SrcMac).push(mac.as_ref().map(<[u8; 6]>::as_slice));
    }
    builder.finish()
}

const TESTS: &[&str] = &[
    "any",
    "ipv4",
    "ipv6",
    "proto tcp",
    "proto icmp",
    "port 22",
    "src port > 79",
    "dst port < 22",
    "dst port >= 2048",
    "dst port in [22 53 80]",
    "src port > 65535",
    "dst port <= 65535",
    "host 10.0.0.1",
    "src ip 10.0.1.3",
    "dst ip ::1",
    "net 10.0.0.0/23",
    "src net 10.0.0.4/30",
    "dst net ::/126",
    "src net 0.0.0.0/0",
    "next ip 10.0.0.2",
    "ip in [10.0.0.1 10.0.1.0/30 ::2]",
    "flags S",
    "flags SA",
    "flags =S",
    "flags > 20",
    "icmp-type 8",
    "icmp-code 0",
    "icmp-code 1",
    "packets > 1",
    "bytes 500",
    "bytes > 500",
    "flows > 0",
    "flows 1",
    "flows > 1",
    "duration > 1000",
    "duration 0",
    "pps > 1",
    "bps >= 4000",
    "bpp > 200",
    "bpp 0",
    "src as 0",
    "src as 4294967295",
    "src as > 64499",
    "src mac 00:00:00:00:00:01",
    "first seen > 2026-01-01T00:00:00",
    "tos 0",
    "ttl equal",
    "ttl spread > 1",
    "src port in nat pblock",
    "port in nat pblock",
    "mpls label1 16",
    "mpls any > 15",
    "mpls eos 17",
    "mpls exp2 in [1, 3-5]",
    "asa xevent 1001",
    "asa user jane",
];

fn predicate(dice: &mut Dice, depth: u32) -> Predicate {
    match dice.below(if depth == 0 { 1 } else { 4 }) {
        1 => Predicate::not(predicate(dice, depth - 1)),
        2 => Predicate::and([predicate(dice, depth - 1), predicate(dice, depth - 1)]),
        3 => Predicate::or([predicate(dice, depth - 1), predicate(dice, depth - 1)]),
        _ if dice.below(12) == 0 => large_set(dice),
        _ => {
            let text = dice.pick(TESTS);
            parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
        }
    }
}

/// Sets of many ranges.
fn large_set(dice: &mut Dice) -> Predicate {
    let shift = dice.below(3) as u32;
    if dice.below(2) == 0 {
        let ranges = (0..40).map(|n| (n * 100 + 22 + u64::from(shift), n * 100 + 53)).collect();
        return Test::NumberIn { operand: Operand::Column(Column::DstPort), values: NumberSet::from_ranges(ranges) }
            .into();
    }
    let v4 = (0..200).map(|n| (0x0a00_0000 + n * 4 + shift, 0x0a00_0000 + n * 4 + shift)).collect();
    let v6 = (0..30).map(|n| (n * 3, n * 3 + 1)).collect();
    Test::Address { column: Column::SrcAddr, set: AddressSet::from_ranges(v4, v6) }.into()
}

fn passing(engine: &Engine, filter: &Predicate) -> Vec<u64> {
    let select = Select::List { columns: vec![Column::FlowId], sorting: None, limit: None };
    let query = FlowQuery { filter: filter.clone(), window: TimeWindow::default(), select, scaled: false };
    let found = lines(engine.ask(&query)).unwrap_or_else(|error| panic!("{filter}: {error} {error:?}"));
    let mut found: Vec<u64> = found.iter().map(|line| line.parse().expect("a number")).collect();
    found.sort_unstable();
    found
}

#[test]
fn filters_in_plans_take_what_their_masks_take() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (sealed, tail) = (flows(&mut dice, 0, 700), flows(&mut dice, 700, 300));
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), std::slice::from_ref(&sealed), std::slice::from_ref(&tail));
    let singles = TESTS.iter().map(|text| parse(text).unwrap_or_else(|error| panic!("{text}: {error}")));
    let negated = singles.clone().map(Predicate::not);
    let random: Vec<_> = (0..400).map(|_| predicate(&mut dice, 3)).collect();
    // Two sets of one column are two sets.
    let sets: Vec<_> = (0..40).map(|_| Predicate::or([large_set(&mut dice), large_set(&mut dice)])).collect();
    let mut taken = 0;
    for filter in singles.chain(negated).chain(random).chain(sets) {
        let masks = [filter.mask(&sealed), filter.mask(&tail)];
        let bits = masks.iter().flat_map(|mask| mask.iter().map(|bit| bit == Some(true)));
        let expected: Vec<u64> = (0..).zip(bits).filter(|(_, bit)| *bit).map(|(id, _)| id).collect();
        taken += expected.len();
        assert_eq!(passing(&engine, &filter), expected, "{filter}");
    }
    assert!(taken > 10_000, "the filters take next to nothing: {taken}");
}

/// In segments, too, whose indexes know the case of these letters.
#[test]
fn texts_are_found_whatever_the_case_of_letters_beyond_ascii() {
    let names = ["\u{c9}.example", "\u{e9}.EXAMPLE", "e.example", "\u{41f}\u{43e}\u{447}\u{442}\u{430}.example"];
    let mut builder = FlowBatchBuilder::new(names.len());
    for (id, name) in (0..).zip(names) {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(NEW_YEAR_MS));
        builder.u64(Column::FlowId).push(Some(id));
        builder.text(Column::ServerName).push(Some(name.as_bytes()));
    }
    let flows = builder.finish();
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine(folder.path(), std::slice::from_ref(&flows), &[]);
    let cases: [(&str, &[u64]); 6] = [
        ("sni '\u{e9}.example'", &[0, 1]),
        ("sni '\u{c9}.EXAMPLE'", &[0, 1]),
        ("sni in ['\u{41f}\u{41e}\u{427}\u{422}\u{410}.example', 'E.example']", &[2, 3]),
        ("sni like '\u{43f}%'", &[3]),
        ("sni exactly '\u{e9}.EXAMPLE'", &[1]),
        ("not sni '\u{e9}.example'", &[2, 3]),
    ];
    for (filter, expected) in cases {
        let predicate = parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
        assert_eq!(passing(&engine, &predicate), expected, "{filter}");
    }
}
