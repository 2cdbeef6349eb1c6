//! Statistics, aggregations and time windows over the small table.

use weir_filter::{Predicate, parse};
use weir_flow::Column;
use weir_sql::{
    AggregateKey, Direction, Engine, EngineOptions, FlowQuery, Order, Select, Sorting, StatisticKey, TimeWindow,
    WindowRule,
};

use crate::rows::{NEW_YEAR_MS, lines, small_engine, small_engine_with};

fn with_engine(test: impl FnOnce(&Engine)) {
    let folder = tempfile::tempdir().expect("a folder");
    test(&small_engine(folder.path()));
}

fn asked(engine: &Engine, filter: Predicate, window: TimeWindow, select: Select) -> Vec<String> {
    lines(engine.ask(&FlowQuery { filter, window, select, scaled: false })).expect("an answer")
}

fn statistic(engine: &Engine, key: &str, per_protocol: bool, order: Order) -> Vec<String> {
    let key = StatisticKey::parse(key).expect("a key");
    let select = Select::Statistic { key, per_protocol, sorting: Sorting::usual(order), limit: Some(1) };
    asked(engine, Predicate::True, TimeWindow::default(), select)
}

/// 10.0.0.1 is the source of one flow and the destination of two.
#[test]
fn an_undirected_statistic_counts_each_side() {
    with_engine(|engine| {
        let expected = "3,19,3040,2026-01-01T00:00:00.000Z,2026-01-01T00:00:31.000Z,31000,0,784,160";
        assert_eq!(statistic(engine, "ip", false, Order::Flows), [format!("10.0.0.1,{expected}")]);
        assert_eq!(statistic(engine, "port", true, Order::Flows), [format!("22,6,{expected}")]);
        let directed =
            "2001:db8::1,1,1000,1500000,2026-01-01T00:00:20.000Z,2026-01-01T00:01:20.000Z,60000,16,200000,1500";
        assert_eq!(statistic(engine, "srcip", false, Order::Bytes), [directed]);
    });
}

#[test]
fn flows_that_agree_in_their_keys_are_one_row() {
    with_engine(|engine| {
        let keys = vec![AggregateKey::parse("proto").expect("a key")];
        let select =
            Select::Aggregate { keys, more: Vec::new(), sorting: Some(Sorting::usual(Order::Bytes)), limit: None };
        let expected = [
            "6,5,1024,1503640,2026-01-01T00:00:00.000Z,2026-01-01T00:01:20.000Z,80000,12,150364,1468",
            ",5,50,5000,,,,,,100",
            "1,1,2,168,2026-01-01T00:00:40.000Z,2026-01-01T00:00:41.000Z,1000,2,1344,84",
            "17,1,1,80,2026-01-01T00:00:05.000Z,2026-01-01T00:00:05.000Z,0,0,0,80",
        ];
        assert_eq!(asked(engine, Predicate::True, TimeWindow::default(), select), expected);
        let keys = vec![AggregateKey::parse("srcip4/24").expect("a key")];
        let sorting = Sorting { order: Order::Bytes, direction: Direction::Ascending };
        let select = Select::Aggregate { keys, more: Vec::new(), sorting: Some(sorting), limit: None };
        let expected = [
            "10.0.1.0,1,2,168,2026-01-01T00:00:40.000Z,2026-01-01T00:00:41.000Z,1000,2,1344,84",
            "10.0.0.0,3,16,1680,2026-01-01T00:00:00.000Z,2026-01-01T00:01:11.000Z,71000,0,189,105",
        ];
        let filter = parse("src net 10.0.0.0/8").expect("a filter");
        assert_eq!(asked(engine, filter, TimeWindow::default(), select), expected);
        let select = Select::Aggregate { keys: Vec::new(), more: Vec::new(), sorting: None, limit: None };
        assert_eq!(asked(engine, Predicate::True, TimeWindow::default(), select).len(), 8);
    });
}

#[test]
fn a_window_takes_flows_by_its_rule() {
    with_engine(|engine| {
        let sorting = Some(Sorting { order: Order::Bytes, direction: Direction::Ascending });
        let select = Select::List { columns: vec![Column::Bytes], sorting, limit: None };
        let at = |seconds: i64| Some(NEW_YEAR_MS + seconds * 1000);
        let window = TimeWindow { from_ms: at(40), until_ms: at(60), rule: WindowRule::Overlaps };
        assert_eq!(asked(engine, Predicate::True, window, select.clone()), ["40", "168", "5000", "1500000"]);
        let window = TimeWindow { rule: WindowRule::Inside, ..window };
        assert_eq!(asked(engine, Predicate::True, window, select.clone()), ["40"]);
        let window = TimeWindow { from_ms: at(61), ..TimeWindow::default() };
        assert_eq!(asked(engine, Predicate::True, window, select), ["600", "1500000"]);
    });
}

/// Durations: 10 s, 0, 60 s, 1 s, 1 s, unknown, unknown, 1 s.
#[test]
fn lists_are_sorted_and_cut() {
    with_engine(|engine| {
        let list = |order, limit| {
            let sorting = Some(Sorting::usual(order));
            let select = Select::List { columns: vec![Column::Bytes], sorting, limit: Some(limit) };
            asked(engine, Predicate::True, TimeWindow::default(), select)
        };
        assert_eq!(list(Order::Duration, 2), ["1500000", "1000"]);
        assert_eq!(list(Order::Start, 3), ["1000", "80", "1500000"]);
        assert_eq!(list(Order::Flows, 1), ["5000"]);
        assert_eq!(list(Order::BitsPerSecond, 2), ["1500000", "2000"]);
    });
}

/// Every key of the tables can be asked for.
#[test]
fn every_key_has_an_answer() {
    with_engine(|engine| {
        for key in StatisticKey::all() {
            statistic(engine, key.nfdump_name(), true, Order::Bytes);
        }
        for text in
            ["srcip6/64", "dstip4/16", "srcnet", "dstnet", "router", "insrcmac", "xsrcip", "element tlsCipherSuite"]
        {
            let keys = vec![AggregateKey::parse(text).expect("a key")];
            let select = Select::Aggregate { keys, more: Vec::new(), sorting: None, limit: None };
            asked(engine, Predicate::True, TimeWindow::default(), select);
        }
        assert!(AggregateKey::parse("srcip4/33").is_err());
        assert!(AggregateKey::parse("srcip4").is_err());
        assert!(StatisticKey::parse("srcipp").is_err());
    });
}

/// A dropped answer stops its question: the engine goes on to answer others, and goes away without waiting.
#[test]
fn a_dropped_answer_is_cancelled() {
    with_engine(|engine| {
        let endless = "SELECT count(*) FROM generate_series(1, 1000000000000) a";
        drop(engine.sql(endless).expect("an answer"));
        assert_eq!(lines(engine.sql("SELECT count(*) FROM flows")).expect("an answer"), ["8"]);
    });
}

/// Too little memory for the question: it writes to the folder it was given and answers all the same, or says that
/// it cannot.
#[test]
fn questions_keep_within_their_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let spill = tempfile::tempdir().expect("a folder");
    let options = EngineOptions {
        threads: 2,
        memory_octets_max: 12 << 20,
        spill_folder: Some(spill.path().to_owned()),
        ..EngineOptions::default()
    };
    let engine = small_engine_with(folder.path(), &options);
    let sorted =
        "SELECT v, lpad(CAST(v AS VARCHAR), 60, 'x') AS t FROM generate_series(1, 400000) AS s(v) ORDER BY t DESC";
    let answer = lines(engine.sql(&format!("SELECT max(v), count(*), count(DISTINCT t) FROM ({sorted} LIMIT 300000)")));
    match answer {
        Ok(answer) => assert_eq!(answer, ["400000,300000,300000"]),
        Err(error) => assert!(error.to_string().starts_with("not enough memory"), "{error}"),
    }
    let options = EngineOptions { memory_octets_max: 1, ..options };
    let engine = small_engine_with(folder.path(), &options);
    let error = lines(engine.sql(sorted)).expect_err("one octet is not enough");
    assert!(error.to_string().contains("hint: raise the memory limit"), "{error}");
}
