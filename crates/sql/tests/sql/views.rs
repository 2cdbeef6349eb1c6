//! What a question may see: attacks on it.
//!
//! The judge of each is an archive that has nothing else. Rows are chosen by hand, and images of addresses are those that the
//! authors of Crypto-PAn and other implementations published.

use std::path::Path;
use std::sync::Arc;

use weir_archive::ArchiveHandle;
use weir_filter::{Predicate, parse};
use weir_flow::{Column, FlowBatch, FlowBatchBuilder, parse_address};
use weir_query::{Archive, QueryOptions};
use weir_sql::{
    AggregateKey, Engine, EngineOptions, FlowAnswers, FlowQuery, FlowView, Order, Pseudonyms, QueryControl, Select,
    Sorting, StatisticKey, TimeWindow,
};

use crate::rows::{NEW_YEAR_MS, lines, write_archive};

const KEY: &str = "1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202";

/// A flow: source, destination, destination port, octets, name of the server.
type Flow = (&'static str, &'static str, u16, u64, &'static str);

/// Of two tenants, and between them.
const FLOWS: &[Flow] = &[
    ("128.11.68.132", "129.118.74.4", 443, 1000, "bank.example"),
    ("129.118.74.4", "128.11.68.132", 50_000, 9000, ""),
    ("130.132.252.244", "141.223.7.43", 22, 70, ""),
    ("141.223.7.43", "130.132.252.244", 50_001, 80, ""),
    ("2001:db8::1", "2001:db8::2", 443, 5, "news.example"),
    ("128.11.68.132", "141.223.7.43", 53, 33, "secret.example"),
];

/// The same with published images, without what names hosts.
const IMAGES: &[Flow] = &[
    ("135.242.180.132", "134.136.186.123", 443, 1000, ""),
    ("134.136.186.123", "135.242.180.132", 50_000, 9000, ""),
    ("133.68.164.234", "141.167.8.160", 22, 70, ""),
    ("141.167.8.160", "133.68.164.234", 50_001, 80, ""),
    ("4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c", 443, 5, ""),
    ("135.242.180.132", "141.167.8.160", 53, 33, ""),
];

/// What the tenant of 128.11.0.0/16 sees.
const RULE: &str = "net 128.11.0.0/16";

fn of_tenant(flows: &[Flow]) -> Vec<Flow> {
    [0, 1, 5].into_iter().map(|row| flows[row]).collect()
}

fn batch(flows: &[Flow]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(flows.len());
    builder.begin_rows(flows.len());
    let octets = |text: &str| parse_address(text).expect("an address");
    for (source, destination, port, bytes, name) in flows {
        let ms = NEW_YEAR_MS + *bytes as i64;
        builder.time(Column::Received).push(Some(ms));
        builder.time(Column::Start).push(Some(ms));
        builder.time(Column::End).push(Some(ms));
        builder.address(Column::SrcAddr).push(Some(&octets(source)));
        builder.address(Column::DstAddr).push(Some(&octets(destination)));
        builder.u16(Column::DstPort).push(Some(*port));
        builder.u8(Column::Protocol).push(Some(6));
        builder.u64(Column::Packets).push(Some(1));
        builder.u64(Column::Bytes).push(Some(*bytes));
        builder.text(Column::ServerName).push(Some(name.as_bytes()));
    }
    builder.finish()
}

/// Half of the flows in a segment, half in the tail.
fn archive(folder: &Path, flows: &[Flow]) {
    let (sealed, unsealed) = flows.split_at(flows.len() / 2);
    drop(write_archive(folder, &[batch(sealed)], &[batch(unsealed)]));
}

fn options(view: FlowView) -> EngineOptions {
    EngineOptions { threads: 2, view, ..EngineOptions::default() }
}

fn rows(text: &str) -> FlowView {
    FlowView { rows: parse(text).expect("a filter"), pseudonyms: None }
}

fn pseudonyms(folder: &Path) -> Arc<Pseudonyms> {
    let path = folder.join("key");
    std::fs::write(&path, KEY).expect("written");
    Arc::new(Pseudonyms::read(&path).expect("a key"))
}

/// Statements that try to see more than they may.
const STATEMENTS: &[&str] = &[
    "SELECT count(*) FROM flows",
    "SELECT count(*), sum(bytes), min(bytes), max(bytes), min(start), max(dst_port) FROM flows",
    "SELECT count(*) FROM flows WHERE true OR src_addr = '1.1.1.1'",
    "SELECT bytes FROM flows UNION ALL SELECT bytes FROM flows ORDER BY bytes",
    "SELECT bytes FROM flows EXCEPT SELECT bytes FROM flows WHERE bytes = 33 ORDER BY bytes",
    "WITH f AS (SELECT * FROM flows) SELECT count(*) FROM f",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT count(*) FROM n, flows",
    "SELECT (SELECT count(*) FROM flows), (SELECT max(bytes) FROM flows f WHERE f.bytes > 1)",
    "SELECT count(*) FROM flows a CROSS JOIN flows b",
    "SELECT a.bytes FROM flows a JOIN flows b ON a.src_addr = b.dst_addr ORDER BY a.bytes",
    "SELECT bytes FROM flows a WHERE EXISTS (SELECT 1 FROM flows b WHERE b.src_addr = a.dst_addr) ORDER BY bytes",
    "SELECT bytes FROM flows WHERE src_addr NOT IN (SELECT dst_addr FROM flows) ORDER BY bytes",
    "SELECT count(*) FROM datafusion.public.flows",
    "SELECT count(*) FROM \"flows\" AS exporter_books",
    "SELECT dst_port, count(*) FROM flows GROUP BY ROLLUP (dst_port) ORDER BY dst_port",
    "SELECT sum(bytes) OVER () FROM flows ORDER BY bytes LIMIT 1",
    "SELECT window_start, count(*) FROM TUMBLE(flows, received, INTERVAL '1 hour') GROUP BY window_start",
    "SELECT count(*) FROM HOP(flows, received, INTERVAL '1 hour', INTERVAL '2 hours')",
    "SELECT count(*) FROM flows WHERE bytes = 70 OR bytes = 80",
    "SELECT count(*) FROM (SELECT * FROM flows WHERE bytes_scaled > 0)",
    "SELECT family(src_addr), count(*) FROM flows GROUP BY 1 ORDER BY 1",
    "SELECT src_addr, dst_addr, bytes FROM flows ORDER BY bytes",
    "SELECT DISTINCT ON (src_addr) src_addr, bytes FROM flows ORDER BY src_addr, bytes",
    "SELECT count(*) FILTER (WHERE bytes < 100) FROM flows",
];

fn answer_alike(seen: &Engine, judge: &Engine) {
    for statement in STATEMENTS {
        let expected = lines(judge.sql(statement));
        let expected = expected.unwrap_or_else(|error| panic!("{statement}: {error}"));
        assert_eq!(lines(seen.sql(statement)).expect("an answer"), expected, "{statement}");
    }
}

#[test]
fn no_statement_sees_rows_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, part] = ["whole", "part"].map(|name| folder.path().join(name));
    archive(&whole, FLOWS);
    archive(&part, &of_tenant(FLOWS));
    let judge = Engine::open(&part, &options(FlowView::default())).expect("an engine");
    let seen = Engine::open(&whole, &options(rows(RULE))).expect("an engine");
    answer_alike(&seen, &judge);
    // without filters in the scan too
    let options = EngineOptions { pruning: false, ..options(rows(RULE)) };
    answer_alike(&Engine::open(&whole, &options).expect("an engine"), &judge);
}

#[test]
fn nothing_but_flows_is_seen_through_a_view() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), FLOWS);
    let journal = Some(folder.path().join("watch"));
    let options = EngineOptions { reports: journal, ..options(rows(RULE)) };
    let seen = Engine::open(folder.path(), &options).expect("an engine");
    assert_eq!(lines(seen.sql("SHOW TABLES")).expect("an answer").len(), 1);
    let of_flows = ["exporter_books", "exporter_options", "exporter_sequences", "interface_counters", "host_counters"];
    for table in of_flows.into_iter().chain(["reports", "series"]) {
        let error = lines(seen.sql(&format!("SELECT count(*) FROM {table}"))).expect_err(table).to_string();
        assert!(error.contains(table), "{error}");
    }
    for statement in [
        "EXPLAIN SELECT count(*) FROM flows",
        "EXPLAIN ANALYZE SELECT count(*) FROM flows",
        "EXPLAIN VERBOSE SELECT count(*) FROM flows",
        "EXPLAIN FORMAT TREE SELECT count(*) FROM flows",
        "SELECT * FROM '/etc/passwd'",
        "SELECT if_name(exporter, in_if) FROM exporter_options",
        "CREATE VIEW mine AS SELECT * FROM flows",
        "SET datafusion.catalog.information_schema = false",
    ] {
        lines(seen.sql(statement)).expect_err(statement);
    }
}

/// Questions of the nfdump kind.
fn questions() -> Vec<FlowQuery> {
    let sorting = Some(Sorting::usual(Order::Bytes));
    let statistic = |key: &str| Select::Statistic {
        key: StatisticKey::parse(key).expect("a key"),
        per_protocol: false,
        sorting: Sorting::usual(Order::Bytes),
        limit: Some(10),
    };
    let aggregate = |keys: &[&str]| Select::Aggregate {
        keys: keys.iter().map(|key| AggregateKey::parse(key).expect("a key")).collect(),
        more: Vec::new(),
        sorting,
        limit: None,
    };
    let list = Select::List { columns: vec![Column::SrcAddr, Column::Bytes], sorting, limit: Some(100) };
    let selects = [
        list,
        statistic("srcip"),
        statistic("ip"),
        statistic("dstport"),
        aggregate(&["proto"]),
        aggregate(&["srcip4/16", "dstport"]),
    ];
    let filters = ["any", "port 22", "not port 22", "dst port 443 or bytes < 100", "ipv6"];
    let ask = |filter: &str, select: &Select, scaled: bool| FlowQuery {
        filter: parse(filter).expect("a filter"),
        window: TimeWindow::default(),
        select: select.clone(),
        scaled,
    };
    let all = filters.iter().flat_map(|filter| selects.iter().map(move |select| (filter, select)));
    all.flat_map(|(filter, select)| [false, true].map(|scaled| ask(filter, select, scaled))).collect()
}

fn answers(folder: &Path, view: FlowView) -> FlowAnswers {
    let snapshot = ArchiveHandle::open(folder, &weir_archive::HandleOptions::default()).expect("an archive");
    let snapshot = Arc::new(snapshot.snapshot().expect("a snapshot"));
    let archive = Archive::over(snapshot, QueryOptions::default());
    FlowAnswers::new(archive, options(view), QueryControl::default(), false)
}

/// The lines of an answer, by whichever way it was found.
fn asked(answers: &FlowAnswers, question: &FlowQuery) -> Vec<String> {
    use weir_sql::output::{Format, OutputOptions};
    let options = OutputOptions { header: false, ..OutputOptions::default() };
    let mut text = Vec::new();
    answers.write(question, Format::Csv, &options, &mut text).expect("an answer");
    let mut direct = Vec::new();
    answers.write(question, Format::Json, &options, &mut direct).expect("an answer");
    let asked: usize = answers.ask(question).expect("an answer").map(|batch| batch.expect("rows").num_rows()).sum();
    let mut lines: Vec<String> = String::from_utf8(text).expect("text").lines().map(str::to_owned).collect();
    assert_eq!(asked, lines.len());
    lines.sort();
    lines
}

fn ask_alike(seen: &FlowAnswers, judge: &FlowAnswers, questions: &[FlowQuery]) {
    for question in questions {
        assert_eq!(asked(seen, question), asked(judge, question), "{question:?}");
        let totals = |answers: &FlowAnswers| answers.totals(question).expect("totals");
        assert_eq!(totals(seen), totals(judge), "{question:?}");
        assert_eq!(seen.labels(question).expect("labels").len(), judge.labels(question).expect("labels").len());
    }
}

#[test]
fn no_question_sees_rows_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, part] = ["whole", "part"].map(|name| folder.path().join(name));
    archive(&whole, FLOWS);
    archive(&part, &of_tenant(FLOWS));
    ask_alike(&answers(&whole, rows(RULE)), &answers(&part, FlowView::default()), &questions());
}

#[test]
fn addresses_are_the_published_images_and_lead_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, images] = ["whole", "images"].map(|name| folder.path().join(name));
    archive(&whole, FLOWS);
    archive(&images, IMAGES);
    let pseudonyms = pseudonyms(folder.path());
    let view = FlowView { rows: Predicate::True, pseudonyms: Some(Arc::clone(&pseudonyms)) };
    let (seen, judge) = (options(view.clone()), options(FlowView::default()));
    let (seen, judge) = (Engine::open(&whole, &seen).expect("seen"), Engine::open(&images, &judge).expect("judge"));
    answer_alike(&seen, &judge);
    for condition in [
        "src_addr = '135.242.180.132'",
        "src_addr = '128.11.68.132'",
        "src_addr << '135.242.0.0/16'",
        "src_addr << '4401:2bc::/32'",
        "src_addr IN ('135.242.180.132', '141.167.8.160')",
        "dst_addr BETWEEN '134.0.0.0' AND '135.255.255.255'",
        "NOT src_addr = '135.242.180.132'",
        "server_name = 'bank.example'",
        "server_name IS NULL",
        "server_name IS NOT NULL AND bytes > 0",
        "src_mac IS NOT NULL OR server_name LIKE '%example'",
    ] {
        let statement =
            format!("SELECT src_addr, dst_addr, server_name, bytes FROM flows WHERE {condition} ORDER BY bytes");
        assert_eq!(
            lines(seen.sql(&statement)).expect(condition),
            lines(judge.sql(&statement)).expect(condition),
            "{condition}"
        );
    }
    let filters = [
        "host 135.242.180.132",
        "host 128.11.68.132",
        "net 135.242.0.0/16",
        "not net 135.242.0.0/16",
        "src ip in [135.242.180.132 4401:2bc::/32]",
        "sni bank.example",
        "not sni bank.example",
        "sni like '%example'",
    ];
    let mut questions = questions();
    let first = questions[0].clone();
    questions.extend(filters.map(|text| FlowQuery { filter: parse(text).expect(text), ..first.clone() }));
    let judge = answers(&images, FlowView::default());
    ask_alike(&answers(&whole, view), &judge, &questions);
    // both at once: the rule names addresses as they are kept
    let both = FlowView { rows: parse(RULE).expect("a filter"), pseudonyms: Some(pseudonyms) };
    let part = folder.path().join("part");
    archive(&part, &of_tenant(IMAGES));
    ask_alike(&answers(&whole, both), &answers(&part, FlowView::default()), &questions);
}
