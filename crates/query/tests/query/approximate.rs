//! Approximate answers about flows that have expired against exact ones about the same flows where they are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use weir_archive::{ArchiveOptions, ExpiryOptions, SummaryOptions, Writer, expire};
use weir_filter::Predicate;
use weir_flow::{Column, Delivery, FlowBatchBuilder};
use weir_query::{
    AggregateKey, Archive, Direction, ERROR_COLUMNS, FlowQuery, Order, Progress, ProgressCounts, QueryError,
    QueryOptions, Select, Sorting, StatisticKey, TimeWindow, Totals, WindowRule,
};

use crate::naive::texts;
use crate::summaries::{KEYS, NOW_MS, Numbers, Written, window, write_flows};

/// Flows, packets, bytes.
type Amounts = [u64; 3];

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("created");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).expect("copied") }
    }
}

/// All flows but those of the newest part expire.
fn expire_all(dir: &Path) {
    let summaries = SummaryOptions { age_max: Duration::MAX, octets_max: None };
    let options = ExpiryOptions { age_max: Some(Duration::ZERO), summaries, ..ExpiryOptions::default() };
    assert!(!expire(dir, &options, false).expect("expired").segments.is_empty());
}

/// The same flows twice: all kept, and all but the newest expired.
struct Both {
    _folder: tempfile::TempDir,
    kept: std::path::PathBuf,
    expired: std::path::PathBuf,
}

impl Both {
    fn new(numbers: &mut Numbers) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [kept, expired] = ["kept", "expired"].map(|name| folder.path().join(name));
        let writer = write_flows(numbers, &kept, Written::AllCounted);
        if let Some(writer) = writer {
            writer.close().expect("sealed");
        }
        copy(&kept, &expired);
        expire_all(&expired);
        Self { _folder: folder, kept, expired }
    }
}

fn open(folder: &Path, approximate: bool) -> (Archive, Arc<Progress>) {
    let progress = Arc::new(Progress::default());
    let options = QueryOptions {
        threads: 2,
        summaries: approximate,
        approximate,
        progress: Arc::clone(&progress),
        ..QueryOptions::default()
    };
    (Archive::open(folder, options).expect("the archive"), progress)
}

/// An answer.
#[derive(Debug)]
struct Told {
    /// Keys in their order, what is told of them, and how much that may be too small.
    rows: Vec<(String, Amounts, Amounts)>,
    /// What a key has at most that is not told.
    absent: Amounts,
    seen: ProgressCounts,
}

fn ask(folder: &Path, question: &FlowQuery, approximate: bool) -> Result<Told, QueryError> {
    let (archive, progress) = open(folder, approximate);
    let answer = archive.ask(question)?;
    assert_eq!(answer.unlisted_max().is_some(), approximate);
    let absent = answer.unlisted_max().unwrap_or_default();
    let batches = answer.collect::<Result<Vec<RecordBatch>, _>>()?;
    let mut rows = Vec::new();
    for batch in &batches {
        let amounts = |names: [&str; 3], row: usize| {
            let value =
                |name| batch.column_by_name(name).map_or(0, |values| values.as_primitive::<UInt64Type>().value(row));
            names.map(value)
        };
        for (row, text) in texts(batch).into_iter().enumerate() {
            rows.push((text[0].clone(), amounts(["flows", "packets", "bytes"], row), amounts(ERROR_COLUMNS, row)));
        }
    }
    Ok(Told { rows, absent, seen: progress.counts() })
}

fn question(select: Select, window: TimeWindow) -> FlowQuery {
    FlowQuery { filter: Predicate::True, window, select, scaled: false }
}

fn select(numbers: &mut Numbers, limit: Option<usize>) -> Select {
    let order = numbers.pick(&[Order::Flows, Order::Packets, Order::Bytes]);
    let sorting = Sorting { order, direction: Direction::Descending };
    if numbers.below(4) == 0 {
        let column = numbers.pick(&[Column::SrcAddr, Column::DstPort, Column::DstAs, Column::Exporter]);
        let keys = vec![AggregateKey::Column(column)];
        return Select::Aggregate { keys, more: Vec::new(), sorting: Some(sorting), limit };
    }
    let names: Vec<&str> = KEYS.iter().copied().filter(|name| *name != "flags").collect();
    let key = StatisticKey::parse(numbers.pick(&names)).expect("a key");
    Select::Statistic { key, per_protocol: false, sorting, limit }
}

fn unlimited(select: &Select) -> Select {
    let mut all = select.clone();
    if let Select::Statistic { limit, .. } | Select::Aggregate { limit, .. } = &mut all {
        *limit = None;
    }
    all
}

#[test]
fn what_is_told_is_too_small_by_its_error_at_most() {
    // rows that are exact, rows that are not, keys that are not told
    let (mut exact, mut bounded, mut missing) = (0, 0, 0);
    for seed in 200..216 {
        let numbers = &mut Numbers(seed);
        let both = Both::new(numbers);
        for number in 0..40 {
            let window = window(numbers);
            let limit = numbers.pick(&[Some(1), Some(3), Some(10), None]);
            let question = question(select(numbers, limit), window);
            let truth = ask(&both.kept, &FlowQuery { select: unlimited(&question.select), ..question.clone() }, false)
                .expect("asked");
            let truth: BTreeMap<String, Amounts> = truth.rows.into_iter().map(|(key, told, _)| (key, told)).collect();
            let Told { rows: told, absent, seen } = ask(&both.expired, &question, true).expect("an approximate answer");
            assert_eq!(seen.rows_unsummed, 0);
            let context = || format!("archive {seed}, question {number}: {question:?}");
            for (key, told, error) in &told {
                let all = truth.get(key).copied().unwrap_or_default();
                for of in 0..3 {
                    assert!(told[of] <= all[of], "{key}: {told:?} of {all:?}, {}", context());
                    assert!(all[of] <= told[of] + error[of], "{key}: {told:?} + {error:?} of {all:?}, {}", context());
                }
                exact += u64::from(*error == [0; 3]);
                bounded += u64::from(*error != [0; 3]);
            }
            assert!(told.len() <= limit.unwrap_or(usize::MAX));
            let is_missing = |key: &String| limit.is_none() && !told.iter().any(|(other, _, _)| other == key);
            for (key, all) in truth.iter().filter(|(key, _)| is_missing(key)) {
                assert!((0..3).all(|of| all[of] <= absent[of]), "{key}: {all:?} but {absent:?}, {}", context());
                missing += 1;
            }
            // where nothing is uncertain the answer is that of the flows
            if absent == [0; 3] && told.iter().all(|(_, _, error)| *error == [0; 3]) {
                let expected = ask(&both.kept, &question, false).expect("asked");
                assert_eq!(told, expected.rows, "{}", context());
            }
        }
    }
    assert!(exact > 400 && bounded > 400 && missing > 50, "{exact} exact, {bounded} bounded, {missing} missing");
}

fn checked(told: &Totals, all: &Totals, context: &str) {
    let bytes = |totals: &Totals| totals.bytes.unwrap_or(0);
    let packets = |totals: &Totals| totals.packets.unwrap_or(0);
    for (told, error, all) in [
        (told.flows, told.flows_error_max, all.flows),
        (packets(told), told.packets_error_max, packets(all)),
        (bytes(told), told.bytes_error_max, bytes(all)),
    ] {
        assert!(told <= all && all <= told + error, "{told} + {error} of {all}, {context}");
    }
}

#[test]
fn totals_are_exact_where_the_window_takes_all_of_a_summary() {
    let (mut exact, mut cut) = (0, 0);
    for seed in 300..312 {
        let numbers = &mut Numbers(seed);
        let both = Both::new(numbers);
        for number in 0..12 {
            let window = if number == 0 { TimeWindow::default() } else { window(numbers) };
            let context = format!("archive {seed}, {window:?}");
            let [kept, expired] = [(&both.kept, false), (&both.expired, true)].map(|(folder, approximate)| {
                let (archive, _) = open(folder, approximate);
                let totals = archive.totals(&Predicate::True, &window).expect("totals");
                (totals, archive.minutes(&Predicate::True, &window).expect("minutes"))
            });
            checked(&expired.0, &kept.0, &context);
            for minute in kept.1.keys().chain(expired.1.keys()) {
                let of = |minutes: &BTreeMap<Option<i64>, Totals>| minutes.get(minute).copied().unwrap_or_default();
                checked(&of(&expired.1), &of(&kept.1), &context);
            }
            let (archive, _) = open(&both.expired, false);
            let rows_kept = archive.totals(&Predicate::True, &window).expect("totals").rows.expect("rows");
            let rows_expired = archive.rows_expired(&window).expect("listed");
            assert!(kept.0.rows.is_some_and(|rows| rows <= rows_kept + rows_expired), "{context}");
            let is_exact = expired.0.flows_error_max == 0;
            if number == 0 {
                assert!(is_exact);
                assert_eq!(expired, kept, "{context}");
                assert_eq!(kept.0.rows, Some(rows_kept + rows_expired));
            }
            exact += u64::from(is_exact);
            cut += u64::from(!is_exact);
        }
    }
    assert!(exact > 20 && cut > 20, "{exact} exact, {cut} cut");
}

const MINUTE_MS: i64 = 60_000;

/// Flows of a day, of which some started on the day before, and a question about most of the day.
#[test]
fn a_window_that_cuts_a_little_off_leaves_narrow_bounds() {
    let folder = tempfile::tempdir().expect("a folder");
    for part in 0..2 {
        let options = ArchiveOptions { summaries_when_sealing: true, ..ArchiveOptions::default() };
        let (mut writer, _) = Writer::open(folder.path(), options).expect("an archive");
        let mut builder = FlowBatchBuilder::new(1450);
        for minute in -10..1440 {
            let start = NOW_MS + minute * MINUTE_MS + 1000;
            builder.begin_rows(1);
            builder.time(Column::Received).push(Some(NOW_MS + minute.max(0) * MINUTE_MS + part * 24 * 60 * MINUTE_MS));
            builder.time(Column::Start).push(Some(start + part * 24 * 60 * MINUTE_MS));
            builder.time(Column::End).push(Some(start + 2 * MINUTE_MS + part * 24 * 60 * MINUTE_MS));
            builder.u64(Column::Packets).push(Some(1));
            builder.u64(Column::Bytes).push(Some(100));
            builder.u8(Column::Protocol).push(Some(if minute % 2 == 0 { 6 } else { 17 }));
        }
        writer.append(Delivery::from(builder.finish())).expect("appended");
        writer.close().expect("sealed");
    }
    expire_all(folder.path());
    let key = StatisticKey::parse("proto").expect("a key");
    let select = Select::Statistic { key, per_protocol: false, sorting: Sorting::usual(Order::Flows), limit: Some(9) };
    let window =
        TimeWindow { from_ms: Some(NOW_MS), until_ms: Some(NOW_MS + 1000 * MINUTE_MS), rule: WindowRule::Overlaps };
    let told = ask(folder.path(), &question(select, window), true).expect("asked");
    // Of the 1450 flows that expired those of 1000 minutes are certainly of the window, so that at most 450 of the 725 of
    // each protocol are not; 501 are. The flows that are kept are those of the next day.
    let each = |key: &str| (key.to_owned(), [275, 275, 27_500], [450, 450, 45_000]);
    assert_eq!((told.rows, told.absent), (vec![each("6"), each("17")], [0; 3]));
}

#[test]
fn questions_that_summaries_cannot_answer_are_errors() {
    let numbers = &mut Numbers(400);
    let both = Both::new(numbers);
    let sorting = Sorting::usual(Order::Bytes);
    let statistic = |key: &str, per_protocol, sorting| {
        let key = StatisticKey::parse(key).expect("a key");
        Select::Statistic { key, per_protocol, sorting, limit: Some(3) }
    };
    let list = Select::List { columns: Vec::new(), sorting: None, limit: None };
    let columns = |columns: &[Column]| Select::Aggregate {
        keys: columns.iter().map(|column| AggregateKey::Column(*column)).collect(),
        more: Vec::new(),
        sorting: Some(sorting),
        limit: None,
    };
    let window = TimeWindow::default();
    let mut wrong: Vec<FlowQuery> = [
        list,
        statistic("flags", false, sorting),
        statistic("srcip", true, sorting),
        columns(&[Column::SrcAddr, Column::DstAddr]),
    ]
    .map(|select| question(select, window))
    .into();
    let good = question(statistic("srcip", false, sorting), window);
    wrong.push(FlowQuery { scaled: true, ..good.clone() });
    wrong.push(FlowQuery { filter: Predicate::not(Predicate::True), ..good.clone() });
    for question in wrong {
        let error = ask(&both.expired, &question, true).expect_err("no answer");
        assert!(matches!(error, QueryError::NotApproximate(_)), "{error:?}, {question:?}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--approximate")), "{error}");
        ask(&both.expired, &FlowQuery { scaled: false, ..question }, false).expect("the flows that are kept answer");
    }
    let (archive, _) = open(&both.expired, true);
    let totals = archive.totals(&Predicate::not(Predicate::True), &window);
    assert!(matches!(totals, Err(QueryError::NotApproximate(_))), "{totals:?}");
    ask(&both.expired, &good, true).expect("answered");
}

#[test]
fn a_flipped_bit_in_a_summary_is_an_error_or_harmless() {
    let both = Both::new(&mut Numbers(401));
    let key = StatisticKey::parse("srcip").expect("a key");
    let select = Select::Statistic { key, per_protocol: false, sorting: Sorting::usual(Order::Bytes), limit: Some(5) };
    let question = question(select, TimeWindow::default());
    let expected = ask(&both.expired, &question, true).expect("asked").rows;
    let path = open(&both.expired, true).0.snapshot().summaries().expect("listed")[0].path().clone();
    let whole = fs::read(&path).expect("a summary");
    let (mut refused, mut harmless) = (0, 0);
    for at in (0..whole.len()).step_by(11) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).expect("damaged");
        match ask(&both.expired, &question, true) {
            Ok(told) => {
                assert_eq!(told.rows, expected, "octet {at}");
                harmless += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains(".rollups' is damaged"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10 && harmless > 10, "{refused} refused, {harmless} harmless");
}
