//! The same random questions to the executor and to the SQL engine, and with and without pruning: the same answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_flow::Column;
use weir_query::{Archive, QueryOptions};
use weir_sql::{
    AggregateKey, Direction, Engine, EngineOptions, FlowQuery, Order, Progress, ProgressCounts, Select, Sorting,
    StatisticKey, Terms, TimeWindow, WindowRule,
};

use crate::mixed::{Dice, PORTS, UNSEALED, archive, rows};
use crate::rows::{NEW_YEAR_MS, lines};

/// Deliveries of each part of the archive: 36,000 rows merged, 36,000 sealed, 6000 in the tail.
const PIECES: u64 = 12;
const QUESTIONS: usize = 150;

fn host(dice: &mut Dice) -> String {
    if dice.below(4) == 0 {
        return format!("2001:db8::{:x}", dice.skewed(220));
    }
    let host = dice.skewed(2100);
    format!("10.0.{}.{}", host >> 8, host & 255)
}

/// A test of nfdump's language.
fn test(dice: &mut Dice) -> String {
    let side = *dice.pick(&["", "src ", "dst "]);
    let compared = *dice.pick(&["", "> ", "< ", ">= ", "<= "]);
    match dice.below(16) {
        0 | 1 => format!("{side}port {compared}{}", dice.pick(PORTS)),
        2 => format!("{side}port in [{} {} {}]", dice.pick(PORTS), dice.pick(PORTS), dice.below(65536)),
        3 | 4 => format!("{side}ip {}", host(dice)),
        5 => format!("{side}ip in [{} {} 10.0.7.0/25]", host(dice), host(dice)),
        6 => format!("{side}net 10.0.{}.0/{}", dice.below(9), 20 + dice.below(9)),
        7 => format!("{side}net 2001:db8::{:x}/{}", dice.below(200) & !15, 120 + dice.below(5)),
        8 => (*dice.pick(&["proto tcp", "proto udp", "proto icmp", "ipv4", "ipv6", "any"])).to_owned(),
        9 => format!("bytes {compared}{}", dice.skewed(1_000_000)),
        10 => format!("packets {compared}{}", dice.skewed(1000)),
        11 => format!("src as {compared}{}", 64500 + dice.skewed(45)),
        12 => format!("in if {compared}{}", dice.skewed(14)),
        13 => format!("router ip 198.51.100.{}", dice.below(4)),
        14 => format!("duration {compared}{}", dice.skewed(60_000)),
        _ => (*dice.pick(&["flags S", "flags SA and not flags F"])).to_owned(),
    }
}

fn filter(dice: &mut Dice, depth: u32) -> String {
    match dice.below(if depth == 0 { 1 } else { 5 }) {
        1 => format!("not ({})", filter(dice, depth - 1)),
        2 => format!("({}) or ({})", filter(dice, depth - 1), filter(dice, depth - 1)),
        3 | 4 => format!("({}) and ({})", filter(dice, depth - 1), filter(dice, depth - 1)),
        _ => test(dice),
    }
}

/// A moment while the flows happened, or a while before or after.
fn moment(dice: &mut Dice) -> i64 {
    let span = rows(PIECES) * 4 + 60_000;
    NEW_YEAR_MS - 90_000 + dice.below(span + 60_000) as i64
}

fn window(dice: &mut Dice) -> TimeWindow {
    let rule = *dice.pick(&[WindowRule::Overlaps, WindowRule::Inside]);
    match dice.below(4) {
        0 => {
            let (a, b) = (moment(dice), moment(dice));
            TimeWindow { from_ms: Some(a.min(b)), until_ms: Some(a.max(b)), rule }
        }
        1 if dice.below(2) == 0 => TimeWindow { from_ms: Some(moment(dice)), until_ms: None, rule },
        1 => TimeWindow { from_ms: None, until_ms: Some(moment(dice)), rule },
        _ => TimeWindow::default(),
    }
}

fn sorting(dice: &mut Dice, orders: &[Order]) -> Sorting {
    let direction = *dice.pick(&[Direction::Ascending, Direction::Descending]);
    Sorting { order: *dice.pick(orders), direction }
}

/// What a list can be sorted by so that a column of it tells: `start`, `end`, `packets` and `bytes`.
const LIST_ORDERS: &[Order] = &[Order::Start, Order::End, Order::Packets, Order::Bytes];
const ORDERS: &[Order] = &[
    Order::Flows,
    Order::Packets,
    Order::Bytes,
    Order::PacketsPerSecond,
    Order::BitsPerSecond,
    Order::BytesPerPacket,
    Order::Start,
    Order::End,
    Order::Duration,
];

/// What to make of flows, unlimited.
fn select(dice: &mut Dice) -> Select {
    let sorted = dice.below(3) > 0;
    match dice.below(3) {
        0 => {
            let mut columns = vec![Column::FlowId, Column::SrcAddr, Column::DstAddr, Column::DstPort, Column::Protocol];
            columns.extend([Column::Start, Column::End, Column::Packets, Column::Bytes, Column::Flows]);
            Select::List { columns, sorting: sorted.then(|| sorting(dice, LIST_ORDERS)), limit: None }
        }
        1 => {
            let name = dice.pick(&["srcip", "dstip", "ip", "dstport", "port", "proto", "srcas", "if", "router"]);
            let key = StatisticKey::parse(name).expect("a key");
            let per_protocol = dice.below(3) == 0;
            Select::Statistic { key, per_protocol, sorting: sorting(dice, ORDERS), limit: None }
        }
        _ => {
            let names: &[&str] = &[
                "proto srcip dstip srcport dstport",
                "srcip",
                "dstport proto",
                "srcip4/24 dstip6/124",
                "router inif srcas",
            ];
            let keys = dice.pick(names).split(' ').map(|name| AggregateKey::parse(name).expect("a key")).collect();
            let sorting = sorted.then(|| sorting(dice, ORDERS));
            Select::Aggregate { keys, more: Vec::new(), sorting, limit: None }
        }
    }
}

fn with_limit(select: &Select, most: usize) -> (Select, Option<Sorting>) {
    let mut select = select.clone();
    let sorting = match &mut select {
        Select::List { limit, sorting, .. } | Select::Aggregate { limit, sorting, .. } => {
            *limit = Some(most);
            *sorting
        }
        Select::Statistic { limit, sorting, .. } => {
            *limit = Some(most);
            Some(*sorting)
        }
    };
    (select, sorting)
}

/// An answer: its rows as text, and the values that it is sorted by.
struct Rows {
    all: Vec<String>,
    sorted_by: Vec<String>,
}

impl Rows {
    fn of(batches: &[RecordBatch], sorting: Option<Sorting>) -> Self {
        use arrow::util::display::array_value_to_string as text;
        let (mut all, mut sorted_by) = (Vec::new(), Vec::new());
        for batch in batches {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|values| text(values, row).expect("printable"));
                all.push(cells.collect::<Vec<_>>().join(","));
                if let Some(sorting) = sorting {
                    let values = batch.column_by_name(sorting.order.column_name()).expect("the order");
                    sorted_by.push(text(values, row).expect("printable"));
                }
            }
        }
        Self { all, sorted_by }
    }

    /// How often each row is there.
    fn counted(&self) -> BTreeMap<&str, usize> {
        let mut counted = BTreeMap::new();
        for row in &self.all {
            *counted.entry(row.as_str()).or_default() += 1;
        }
        counted
    }

    #[track_caller]
    fn check_same(&self, other: &Self, question: &str) {
        let (ours, theirs) = (self.counted(), other.counted());
        let differing = ours.iter().find(|(row, count)| theirs.get(*row) != Some(*count));
        let missing = theirs.iter().find(|(row, _)| !ours.contains_key(*row));
        assert!(
            differing.is_none() && missing.is_none(),
            "{question}\n{} and {} rows, {differing:?}, {missing:?}",
            self.all.len(),
            other.all.len()
        );
        assert_eq!(self.sorted_by, other.sorted_by, "{question}");
    }

    /// With a limit, which of several rows of one rank are told is open; all else is not.
    #[track_caller]
    fn check_first(&self, of: &Self, most: usize, question: &str) {
        assert_eq!(self.all.len(), of.all.len().min(most), "{question}");
        assert_eq!(self.sorted_by, of.sorted_by[..of.sorted_by.len().min(most)], "{question}");
        let whole = of.counted();
        for (row, count) in self.counted() {
            assert!(whole.get(row) >= Some(&count), "{question}: {row} is not of the whole answer");
        }
    }
}

struct Asked<'a> {
    folder: &'a Path,
    engine: Engine,
}

impl Asked<'_> {
    fn executor(&self, question: &FlowQuery, sorting: Option<Sorting>) -> Rows {
        let options = QueryOptions { threads: 2, ..QueryOptions::default() };
        let archive = Archive::open(self.folder, options).expect("the archive");
        let batches: Result<Vec<_>, _> = archive.ask(question).expect("asked").collect();
        Rows::of(&batches.expect("an answer"), sorting)
    }

    fn engine(&self, question: &FlowQuery, sorting: Option<Sorting>) -> Rows {
        let batches: Result<Vec<_>, _> = self.engine.ask(question).expect("asked").collect();
        Rows::of(&batches.expect("an answer"), sorting)
    }
}

#[test]
fn the_executor_answers_as_the_engine_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let _tail = archive(folder.path(), PIECES);
    let engine = Engine::open(folder.path(), &EngineOptions { threads: 2, ..EngineOptions::default() });
    let asked = Asked { folder: folder.path(), engine: engine.expect("an engine") };
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let (mut answered, mut told) = (0, 0);
    for _ in 0..QUESTIONS {
        let text = filter(&mut dice, 2);
        let filter = weir_filter::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (window, whole) = (window(&mut dice), select(&mut dice));
        let most = [1, 10, 100][dice.below(3) as usize];
        let (limited, sorting) = with_limit(&whole, most);
        let ask = |select: &Select| FlowQuery { filter: filter.clone(), window, select: select.clone(), scaled: false };
        let name = format!("{text}\n{window:?}\n{whole:?}");
        let all = asked.engine(&ask(&whole), sorting);
        asked.executor(&ask(&whole), sorting).check_same(&all, &name);
        asked.executor(&ask(&limited), sorting).check_first(&all, most, &format!("the first {most}, executor: {name}"));
        asked.engine(&ask(&limited), sorting).check_first(&all, most, &format!("the first {most}, engine: {name}"));
        answered += usize::from(!all.all.is_empty());
        told += all.all.len();
    }
    assert!(answered > QUESTIONS / 2 && told > 10_000, "{answered} questions with {told} rows: they ask for nothing");
}

/// A condition of SQL.
fn condition(dice: &mut Dice) -> String {
    let address = *dice.pick(&["src_addr", "dst_addr"]);
    let compared = *dice.pick(&["=", "<>", "<", "<=", ">", ">="]);
    let column = *dice.pick(&["dst_port", "src_port", "protocol", "src_as", "in_if", "bytes", "packets"]);
    let number = match column {
        "dst_port" => u64::from(*dice.pick(PORTS)),
        "protocol" => *dice.pick(&[1, 6, 17, 58, 99]),
        "src_as" => 64500 + dice.skewed(45),
        _ => dice.skewed(2000),
    };
    let time = *dice.pick(&["start", "\"end\"", "received"]);
    match dice.below(11) {
        0 | 1 => format!("{column} {compared} {number}"),
        2 => format!("{column} BETWEEN {number} AND {}", number + dice.skewed(100)),
        3 => format!("{column} IN ({number}, {}, 7)", dice.below(100)),
        4 => format!("{column} IS {}NULL", dice.pick(&["", "NOT "])),
        5 => format!("{address} {compared} '{}'", host(dice)),
        6 => format!("{address} IN ('{}', '{}')", host(dice), host(dice)),
        7 => format!("cidr({address}, '10.0.{}.0/{}')", dice.below(9), 20 + dice.below(9)),
        8 => format!("family({address}) = {}", dice.pick(&[4, 6])),
        9 => format!("{address} IS NULL OR exporter = '198.51.100.{}'", dice.below(4)),
        _ => format!("{time} {compared} to_timestamp_millis({})", moment(dice)),
    }
}

fn conditions(dice: &mut Dice, depth: u32) -> String {
    match dice.below(if depth == 0 { 1 } else { 5 }) {
        1 => format!("NOT ({})", conditions(dice, depth - 1)),
        2 => format!("({}) OR ({})", conditions(dice, depth - 1), conditions(dice, depth - 1)),
        3 | 4 => format!("({}) AND ({})", conditions(dice, depth - 1), conditions(dice, depth - 1)),
        _ => condition(dice),
    }
}

fn asked_in_sql(engine: &Engine, sql: &str) -> (Vec<String>, ProgressCounts) {
    let terms = Terms { progress: Arc::new(Progress::default()), ..Terms::default() };
    let answer = lines(engine.sql_on(sql, &terms)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (answer, terms.progress.counts())
}

#[test]
fn pruning_changes_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let _tail = archive(folder.path(), PIECES);
    let open = |pruning| {
        let options = EngineOptions { threads: 2, pruning, ..EngineOptions::default() };
        Engine::open(folder.path(), &options).expect("an engine")
    };
    let (with, without) = (open(true), open(false));
    // of a condition that names, indexes and statistics settle for almost all, every row is tested
    let sql = "EXPLAIN ANALYZE SELECT flow_id FROM flows WHERE received < to_timestamp_millis(0) AND dst_port = 3306";
    let report = asked_in_sql(&without, sql).0.join("\n");
    let tested = format!("0 of {}  that were tested in segments", rows(PIECES) - UNSEALED);
    assert!(report.contains(&tested), "{tested}: {report}");
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut pages_pruned, mut segments_pruned, mut told) = (0, 0, 0);
    for _ in 0..2 * QUESTIONS {
        let sql = format!("SELECT flow_id FROM flows WHERE {} ORDER BY flow_id", conditions(&mut dice, 2));
        let (ours, seen) = asked_in_sql(&with, &sql);
        let (plain, seen_without) = asked_in_sql(&without, &sql);
        assert!(ours == plain, "{sql}\n{} rows with pruning, {} without", ours.len(), plain.len());
        assert_eq!(seen_without.pages_all, 0, "no index is asked: {sql}");
        pages_pruned += seen.pages_pruned;
        segments_pruned += seen.segments_pruned;
        told += plain.len();
    }
    assert!(pages_pruned > 200 && segments_pruned > 20, "{pages_pruned} pages and {segments_pruned} segments pruned");
    assert!(told > 10_000, "{told} rows: the questions ask for nothing");
}
