//! The same random questions to the executor and to the SQL engine, and with and without pruning: the same answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_query::{Archive, QueryOptions};
use weir_sql::{
    AggregateKey, Direction, Engine, EngineOptions, FlowQuery, Measure, Order, Progress, ProgressCounts, QueryControl,
    Select, Sorting, StatisticKey, TimeWindow, WindowRule,
};

use crate::mixed::{Dice, PORTS, archive, rows};
use crate::rows::{NEW_YEAR_MS, engine as engine_of, lines};

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
            if dice.below(3) == 0 {
                columns.push(Column::Elements);
            }
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
                "srcnet proto",
                "dstport srcnet",
            ];
            let more: &[&[Measure]] = &[
                &[],
                &[],
                &[Measure::Sum(Column::BytesReverse), Measure::Or(Column::TcpFlagsReverse)],
                &[Measure::Or(Column::TcpFlags), Measure::Or(Column::TcpFlagsReverse)],
            ];
            let more = dice.pick(more).to_vec();
            let keys = dice.pick(names).split(' ').map(|name| AggregateKey::parse(name).expect("a key")).collect();
            let sorting = sorted.then(|| sorting(dice, ORDERS));
            Select::Aggregate { keys, more, sorting, limit: None }
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
    fn executor(&self, question: &FlowQuery, sorting: Option<Sorting>, threads: usize) -> Rows {
        let options = QueryOptions { threads, ..QueryOptions::default() };
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
        asked.executor(&ask(&whole), sorting, 2).check_same(&all, &name);
        let first = asked.executor(&ask(&limited), sorting, 2);
        first.check_first(&all, most, &format!("the first {most}, executor: {name}"));
        // which of several rows of one rank come first is open in SQL, but not in the executor, unless groups have no
        // order at all
        if sorting.is_some() || matches!(limited, Select::List { .. }) {
            let again = asked.executor(&ask(&limited), sorting, 3);
            assert_eq!(again.all, first.all, "the first {most}, of two and of three threads: {name}");
        }
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
    let control = QueryControl { progress: Arc::new(Progress::default()), ..QueryControl::default() };
    let answer = lines(engine.sql_on(sql, &control)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    (answer, control.progress.counts())
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
    // of a condition that names and indexes settle for almost all, every row is tested
    let sql = "EXPLAIN ANALYZE SELECT flow_id FROM flows WHERE received < to_timestamp_millis(0) AND dst_port = 3306";
    let report = asked_in_sql(&without, sql).0.join("\n");
    let tested = format!("[{} rows", rows(PIECES));
    assert!(report.contains("FilterExec") && report.contains(&tested), "{tested}: {report}");
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut pages_pruned, mut segments_pruned, mut told) = (0, 0, 0);
    for _ in 0..2 * QUESTIONS {
        let sql = format!("SELECT flow_id FROM flows WHERE {} ORDER BY flow_id", conditions(&mut dice, 2));
        let (ours, seen) = asked_in_sql(&with, &sql);
        let (plain, seen_without) = asked_in_sql(&without, &sql);
        assert!(ours == plain, "{sql}\n{} rows with pruning, {} without", ours.len(), plain.len());
        assert_eq!((seen_without.pages_pruned, seen_without.segments_pruned), (0, 0), "{sql}");
        pages_pruned += seen.pages_pruned;
        segments_pruned += seen.segments_pruned;
        told += plain.len();
    }
    assert!(pages_pruned > 200 && segments_pruned > 20, "{pages_pruned} pages and {segments_pruned} segments pruned");
    assert!(told > 10_000, "{told} rows: the questions ask for nothing");
}

/// Four flows that have together more octets than a number has room for, twice, of two hosts; one of a third host.
fn flows_that_overflow() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(5);
    for (host, bytes) in [(1, u64::MAX / 2), (1, u64::MAX / 2), (1, 7), (2, u64::MAX), (2, u64::MAX), (3, 5)] {
        builder.begin_rows(1);
        builder.time(Column::Received).repeat(NEW_YEAR_MS, 1);
        builder.address(Column::SrcAddr).push(Some(&[10, 0, 0, host]));
        builder.u64(Column::Packets).push(Some(1));
        builder.u64(Column::Bytes).push(Some(bytes));
    }
    builder.finish()
}

/// Sums never begin again at zero: they stay at the largest number, in SQL, in groups, and of one group alone.
#[test]
fn sums_stay_at_the_largest_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_of(folder.path(), &[flows_that_overflow()], &[flows_that_overflow()]);
    let answer = |sql: &str| lines(engine.sql(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let largest = u64::MAX.to_string();
    let by_host = [format!("10.0.0.1,{largest}"), format!("10.0.0.2,{largest}"), "10.0.0.3,10".to_owned()];
    assert_eq!(answer("SELECT src_addr, sum(bytes) FROM flows GROUP BY src_addr ORDER BY src_addr"), by_host);
    assert_eq!(answer("SELECT sum(bytes) FROM flows"), std::slice::from_ref(&largest));
    assert_eq!(answer("SELECT sum(DISTINCT bytes), count(DISTINCT packets) FROM flows"), [format!("{largest},1")]);
    assert_eq!(answer("SELECT sum(CAST(packets AS BIGINT) * 9223372036854775807) FROM flows"), [i64::MAX.to_string()]);
    // a window that leaves the large ones behind is exact again
    let sliding = "SELECT sum(bytes) OVER (ORDER BY src_addr, bytes ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM flows ORDER BY s LIMIT 2";
    assert_eq!(answer(sliding), ["7", "10"]);
    assert_eq!(answer("SELECT sum(bytes) FROM flows WHERE bytes = 5 AND src_port = 7"), [""]);
    let select = Select::Statistic {
        key: StatisticKey::parse("srcip").expect("a key"),
        per_protocol: false,
        sorting: Sorting::usual(Order::Bytes),
        limit: Some(1),
    };
    let filter = weir_filter::parse("src ip 10.0.0.2").expect("a filter");
    let question = FlowQuery { filter, window: TimeWindow::default(), select, scaled: false };
    let control = QueryControl::default();
    let ranked = lines(engine.ask_on(&question, &control)).expect("an answer");
    assert!(ranked[0].starts_with(&format!("10.0.0.2,4,4,{largest},")), "{ranked:?}");
    assert!(control.progress.saturation().is_set());
    let control = QueryControl::default();
    assert_eq!(engine.totals_on(&question, &control).expect("totals").bytes, u64::MAX);
    assert!(control.progress.saturation().is_set());
}

/// Numbers that count once, in frames that slide: expected are those of Python's `sum(set(frame))`, held between the ends.
#[test]
fn sums_of_distinct_numbers_are_exact_in_frames_that_slide() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_of(folder.path(), &[flows_that_overflow()], &[flows_that_overflow()]);
    let asked = |sql: &str| {
        let control = QueryControl::default();
        let rows = lines(engine.sql_on(sql, &control)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        (rows, control.progress.saturation().is_set())
    };
    let frame = "OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s";
    let sums = |x: &str, values: &str| {
        asked(&format!(
            "SELECT s FROM (SELECT i, sum(DISTINCT {x}) {frame} FROM (VALUES {values}) AS t(i, x)) ORDER BY i"
        ))
    };
    let (most, but_one) = ("9223372036854775807", "9223372036854775806");
    let values = format!("(1, {but_one}), (2, {but_one}), (3, 1), (4, NULL), (5, NULL)");
    let expected = [but_one, but_one, most, "1", ""].map(str::to_owned).to_vec();
    assert_eq!(sums("x", &values), (expected, false));
    let values = format!("(1, {most}), (2, 2), (3, 2), (4, -5)");
    let expected = [most, most, "2", "-3"].map(str::to_owned).to_vec();
    assert_eq!(sums("x", &values), (expected, true));
    // python3: 9223372036854775807 + 2
    let expected = [most, "9223372036854775809", "2", "-3"].map(str::to_owned).to_vec();
    assert_eq!(sums("CAST(x AS DECIMAL(20, 0))", &values), (expected, false));
    // counters have no sign
    let counters = "SELECT DISTINCT s FROM (SELECT sum(DISTINCT bytes) OVER (ORDER BY bytes ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s \
                    FROM flows WHERE bytes < 8) ORDER BY s";
    assert_eq!(asked(counters), (["5", "7", "12"].map(str::to_owned).to_vec(), false));
}

/// Sums of decimals stay at the largest number of 38 digits.
#[test]
fn sums_of_decimals_stay_at_the_largest_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_of(folder.path(), &[flows_that_overflow()], &[flows_that_overflow()]);
    let answer = |sql: &str| lines(engine.sql(sql)).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let (largest, smallest) = ("9".repeat(38), format!("-{}", "9".repeat(38)));
    let product = "CAST(bytes AS DECIMAL(38, 0)) * 5000000000000000000";
    assert_eq!(
        answer(&format!("SELECT sum({product}), sum(-1 * {product}) FROM flows")),
        [format!("{largest},{smallest}")]
    );
    // python3: 10 * 5 * 10**18; those of the others are 1.8e38 and 3.7e38
    let by_host =
        [format!("10.0.0.1,{largest}"), format!("10.0.0.2,{largest}"), "10.0.0.3,50000000000000000000".to_owned()];
    let grouped = format!("SELECT src_addr, sum({product}) FROM flows GROUP BY src_addr ORDER BY src_addr");
    assert_eq!(answer(&grouped), by_host);
    // python3: 5 * 10**18 * (2**64 - 1 + 2**63 - 1)
    let distinct = format!("SELECT sum(DISTINCT {product}), count(DISTINCT packets) FROM flows WHERE bytes > 8");
    assert_eq!(answer(&distinct), [format!("{largest},1")]);
    let one_after_another = format!(
        "SELECT sum({product}) OVER (ORDER BY bytes DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM flows ORDER BY s LIMIT 1"
    );
    assert_eq!(answer(&one_after_another), ["50000000000000000000"]);
}

/// An answer that has such a sum in it comes with a warning, and no other one does, in whatever order they are asked.
#[test]
fn sums_that_do_not_fit_are_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = engine_of(folder.path(), &[flows_that_overflow()], &[flows_that_overflow()]);
    let asked = |sql: &str| {
        let control = QueryControl::default();
        let rows = lines(engine.sql_on(sql, &control)).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let warnings = control.progress.warnings();
        assert!(warnings.len() <= 1 && control.progress.first_loss().is_none(), "{sql}: {warnings:?}");
        let is_said = warnings.iter().any(|warning| warning.starts_with("a sum does not fit into 64 bits"));
        assert_eq!(is_said, !warnings.is_empty(), "{sql}: {warnings:?}");
        (rows, is_said)
    };
    for (sql, is_too_large) in [
        ("SELECT sum(bytes) FROM flows", true),
        ("SELECT sum(bytes) FROM flows WHERE src_addr = '10.0.0.3'", false),
        ("SELECT src_addr, sum(bytes) FROM flows GROUP BY src_addr", true),
        ("SELECT src_addr, sum(bytes) FROM flows WHERE src_addr = '10.0.0.3' GROUP BY src_addr", false),
        // it is in the answer as a number that another one is compared with
        ("SELECT 1 FROM flows WHERE bytes < (SELECT sum(bytes) FROM flows) LIMIT 1", true),
        ("SELECT sum(DISTINCT bytes), count(DISTINCT packets) FROM flows", true),
        // the largest number is there as a value, and fits
        ("SELECT sum(DISTINCT bytes), count(DISTINCT packets) FROM flows WHERE src_addr = '10.0.0.2'", false),
        ("SELECT max(bytes), sum(packets) FROM flows", false),
        ("SELECT sum(bytes) FROM (SELECT bytes FROM flows WHERE src_addr = '10.0.0.2' LIMIT 1)", false),
        ("SELECT sum(CAST(packets AS BIGINT) * 9223372036854775807) FROM flows", true),
        ("SELECT sum(CAST(packets AS BIGINT) * -9223372036854775807), src_addr FROM flows GROUP BY src_addr", true),
        ("SELECT sum(bytes) OVER (ORDER BY bytes ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM flows", true),
        (
            "SELECT sum(bytes) OVER (ORDER BY bytes ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM flows WHERE bytes < 8",
            false,
        ),
        ("SELECT sum(CAST(bytes AS DOUBLE)) FROM flows", false),
        ("SELECT sum(CAST(bytes AS DECIMAL(38, 0)) * 5000000000000000000) FROM flows", true),
        (
            "SELECT src_addr, sum(CAST(bytes AS DECIMAL(38, 0)) * 5000000000000000000) FROM flows GROUP BY src_addr",
            true,
        ),
        ("SELECT sum(CAST(bytes AS DECIMAL(38, 0)) * 500000000000000000) FROM flows", false),
    ] {
        assert_eq!(asked(sql).1, is_too_large, "{sql}");
    }
    // python3: 2 * (2 * ((2**64 - 1) // 2) + 7 + 2 * (2**64 - 1) + 5)
    let exact = asked("SELECT sum(CAST(bytes AS DECIMAL(38, 0))) FROM flows");
    assert_eq!(exact, (vec!["110680464442257309712".to_owned()], false));
}
