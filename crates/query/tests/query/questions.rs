//! Filters, windows and what to make of flows, over segments and tail.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::TimestampMillisecondType;
use weir_archive::{ArchiveOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatch};
use weir_generate::TrafficModel;
use weir_query::{
    Admission, AggregateKey, Archive, Direction, FlowQuery, Order, QueryOptions, Select, Sorting, StatisticKey,
    TimeWindow, WindowRule,
};

use crate::naive::{groups, groups_of, passing, texts, value};

const FLOWS: u64 = 6000;

const FILTERS: &[&str] = &[
    "any",
    "dst port 22",
    "src port 53 or proto icmp",
    "not port 443",
    "bytes > 10k and packets < 1000",
    "flags S and not flags F",
    "ipv6",
    "net 10.0.0.0/9",
    "duration > 1000",
    "src port 1 and dst port 1",
];

/// Flows in pieces, of which some lack the time of their end and others their octets.
fn flows() -> Vec<FlowBatch> {
    let mut model = TrafficModel::new(5);
    (model.ipv6_permille, model.hosts, model.received, model.flows_per_second) = (300, 1 << 10, true, 2);
    let batches: Vec<FlowBatch> = model.flows(FLOWS).expect("a model").collect();
    let pieces = batches.iter().flat_map(|batch| {
        let starts = (0..batch.rows()).step_by(250);
        starts.map(|at| batch.record_batch().slice(at, 250.min(batch.rows() - at)))
    });
    let lacking = [None, Some(Column::End), None, Some(Column::Bytes), None];
    let pieces = pieces.zip(lacking.into_iter().cycle()).map(|(piece, lacking)| {
        let piece = FlowBatch::try_new(piece).expect("flows");
        let columns = Column::ALL.iter().filter(|column| Some(**column) != lacking);
        let columns = columns.filter_map(|column| Some((*column, Arc::clone(piece.column(*column)?)))).collect();
        FlowBatch::from_columns(piece.rows(), columns).expect("the same columns")
    });
    pieces.collect()
}

fn windows(flows: &[FlowBatch]) -> Vec<TimeWindow> {
    let starts = flows.iter().filter_map(|batch| batch.primitive::<TimestampMillisecondType>(Column::Start));
    let starts: Vec<i64> = starts.flat_map(|starts| starts.iter().flatten()).collect();
    let (min, max) = starts.iter().min().zip(starts.iter().max()).expect("some times");
    let third = (max - min) / 3;
    let (from, until) = (Some(min + third), Some(max - third));
    vec![
        TimeWindow::default(),
        TimeWindow { from_ms: from, until_ms: until, rule: WindowRule::Overlaps },
        TimeWindow { from_ms: from, until_ms: None, rule: WindowRule::Inside },
    ]
}

/// An archive, and a filter and window with the rows that pass.
struct Case<'a> {
    archive: &'a Archive,
    question: FlowQuery,
    text: String,
    rows: Vec<(&'a FlowBatch, usize)>,
}

impl Case<'_> {
    fn ask(&self, select: Select) -> Vec<RecordBatch> {
        let question = FlowQuery { select, ..self.question.clone() };
        self.archive.ask(&question).expect("asked").collect::<Result<_, _>>().expect("an answer")
    }

    fn lists(&self) {
        let listed = [Column::Start, Column::SrcAddr, Column::DstPort, Column::Bytes, Column::TcpFlags];
        let row =
            |(batch, row): &(&FlowBatch, usize)| listed.iter().map(|column| value(batch, *column, *row)).collect();
        let mut expected: Vec<Vec<String>> = self.rows.iter().map(row).collect();
        expected.sort_unstable();
        let list = |sorting, limit| Select::List { columns: listed.to_vec(), sorting, limit };
        for sorting in [None, Some(Sorting::usual(Order::Start))] {
            let mut found: Vec<_> = self.ask(list(sorting, None)).iter().flat_map(texts).collect();
            assert!(sorting.is_none() || found.iter().map(|row| &row[0]).is_sorted(), "{}", self.text);
            found.sort_unstable();
            assert_eq!(found, expected, "{}, {sorting:?}", self.text);
        }
        let first = self.ask(list(None, Some(7)));
        assert_eq!(first.iter().map(RecordBatch::num_rows).sum::<usize>(), expected.len().min(7), "{}", self.text);
        let most = Sorting { order: Order::Bytes, direction: Direction::Descending };
        let mut bytes: Vec<u64> = expected.iter().filter_map(|row| row[3].parse().ok()).collect();
        bytes.sort_unstable_by(|a, b| b.cmp(a));
        bytes.truncate(9);
        let found = self.ask(list(Some(most), Some(9)));
        let found: Vec<u64> = found.iter().flat_map(texts).filter_map(|row| row[3].parse().ok()).collect();
        assert_eq!(found, bytes, "{}", self.text);
    }

    fn aggregates(&self, keys: &[AggregateKey]) {
        let expected = groups(&self.rows, &[keys.to_vec()], false);
        let select = |sorting, limit| Select::Aggregate { keys: keys.to_vec(), more: Vec::new(), sorting, limit };
        assert_eq!(groups_of(&self.ask(select(None, None)), keys.len()), expected, "{}, {keys:?}", self.text);
    }

    fn first_groups(&self, keys: &[AggregateKey]) {
        let expected = groups(&self.rows, &[keys.to_vec()], false);
        let select = |sorting, limit| Select::Aggregate { keys: keys.to_vec(), more: Vec::new(), sorting, limit };
        let found = groups_of(&self.ask(select(Some(Sorting::usual(Order::Bytes)), Some(5))), keys.len());
        let mut most: Vec<u64> = expected.values().map(|counted| counted.bytes).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.truncate(5);
        let mut told: Vec<u64> = found.values().map(|counted| counted.bytes).collect();
        told.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(told, most, "{}, {keys:?}", self.text);
        for (key, counted) in &found {
            assert_eq!(expected.get(key), Some(counted), "{}, {keys:?}", self.text);
        }
    }

    fn statistic(&self, name: &str) {
        let key = StatisticKey::parse(name).expect("a key");
        let sides: Vec<_> = key.columns().iter().map(|column| vec![AggregateKey::Column(*column)]).collect();
        let expected = groups(&self.rows, &sides, true);
        let sorting = Sorting::usual(Order::Flows);
        let select = Select::Statistic { key, per_protocol: false, sorting, limit: None };
        assert_eq!(groups_of(&self.ask(select), 1), expected, "{}, {name}", self.text);
    }
}

fn every_case(options: &ArchiveOptions, asking: &QueryOptions, look: impl Fn(&Case<'_>)) {
    let folder = tempfile::tempdir().expect("a folder");
    let flows = flows();
    let (mut writer, _) = Writer::open(folder.path(), *options).expect("an archive");
    for batch in &flows {
        writer.append(Delivery::from(batch.clone())).expect("appended");
    }
    let archive = Archive::open(folder.path(), asking.clone()).expect("the archive");
    assert_eq!(archive.snapshot().flows(), FLOWS);
    for window in windows(&flows) {
        for text in FILTERS {
            let filter = weir_filter::parse(text).expect("a filter");
            let rows = passing(&flows, &filter, &window);
            let select = Select::List { columns: Vec::new(), sorting: None, limit: None };
            let question = FlowQuery { filter, window, select, scaled: false };
            let case = Case { archive: &archive, question, text: format!("{text}, {window:?}"), rows };
            look(&case);
        }
    }
}

fn every_question(case: &Case<'_>) {
    let columns = |columns: &[Column]| columns.iter().copied().map(AggregateKey::Column).collect::<Vec<_>>();
    let prefixes = vec![
        AggregateKey::Prefix { column: Column::DstAddr, v6: false, length: 12 },
        AggregateKey::Prefix { column: Column::SrcAddr, v6: true, length: 40 },
    ];
    let keys = [
        AggregateKey::FIVE_TUPLE.to_vec(),
        columns(&[Column::SrcAddr]),
        columns(&[Column::Protocol, Column::DstPort]),
        columns(&[Column::SrcAddr, Column::DstAddr, Column::Start, Column::Exporter]),
        prefixes,
    ];
    case.lists();
    for keys in keys {
        case.aggregates(&keys);
        case.first_groups(&keys);
    }
    for name in ["srcip", "ip", "port", "proto"] {
        case.statistic(name);
    }
}

#[test]
fn answers_are_those_of_counting_row_by_row() {
    let options = ArchiveOptions {
        segment_rows_max: 1700,
        row_group_rows_max: 1024,
        summaries_when_sealing: true,
        ..ArchiveOptions::default()
    };
    every_case(&options, &QueryOptions { threads: 3, ..QueryOptions::default() }, every_question);
}

/// Several groupings of the flows that a filter takes are counted in one pass, and are what each is for itself.
#[test]
fn several_groupings_are_counted_in_one_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    let mut model = TrafficModel::new(9);
    (model.hosts, model.received) = (1 << 10, true);
    let mut flows = 0;
    for batch in model.flows(20_000).expect("a model") {
        flows += batch.rows() as u64;
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    let sorting = Sorting::usual(Order::Bytes);
    let by = |columns: &[Column], limit| {
        let keys = columns.iter().map(|column| AggregateKey::Column(*column)).collect();
        Select::Aggregate { keys, more: Vec::new(), sorting: Some(sorting), limit }
    };
    let key = StatisticKey::parse("ip").expect("a key");
    let selects = [
        by(&[Column::Protocol], Some(3)),
        by(&[Column::SrcAddr], Some(5)),
        by(&[Column::DstPort, Column::Protocol], None),
        Select::Statistic { key, per_protocol: false, sorting, limit: Some(4) },
    ];
    let open = || {
        let options = QueryOptions::default();
        let progress = Arc::clone(&options.progress);
        (Archive::open(folder.path(), options).expect("an archive"), progress)
    };
    for text in ["bytes > 100", "any"] {
        let (filter, window) = (weir_filter::parse(text).expect("a filter"), TimeWindow::default());
        let question =
            |select: &Select| FlowQuery { filter: filter.clone(), window, select: select.clone(), scaled: false };
        let (archive, progress) = open();
        let mut found = Vec::new();
        for answer in archive.ask_several(&question(&selects[0]), &selects).expect("answers") {
            found.push(answer.flat_map(|batch| texts(&batch.expect("a batch"))).collect::<Vec<_>>());
        }
        let read = progress.counts().rows_done;
        assert!(text == "any" || (read > 0 && read <= flows), "{read} of {flows} rows were read");
        for (found, select) in found.iter().zip(&selects) {
            let answer = open().0.ask(&question(select)).expect("an answer");
            let alone: Vec<_> = answer.flat_map(|batch| texts(&batch.expect("a batch"))).collect();
            assert_eq!(found, &alone, "{text}: {select:?}");
        }
        assert_eq!(found.len(), selects.len());
    }
}

/// A few groups of many flows are counted in one pass, and are what they are when all groups are asked for.
#[test]
fn few_groups_are_counted_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    let mut model = TrafficModel::new(8);
    (model.hosts, model.received) = (1 << 12, true);
    let mut flows = 0;
    for batch in model.flows(120_000).expect("a model") {
        flows += batch.rows() as u64;
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    let ask = |columns: &[Column], limit: Option<usize>| {
        let options = QueryOptions::default();
        let progress = Arc::clone(&options.progress);
        let keys = columns.iter().map(|column| AggregateKey::Column(*column)).collect();
        let sorting = Some(Sorting::usual(Order::Bytes));
        let select = Select::Aggregate { keys, more: Vec::new(), sorting, limit };
        let (filter, window) = (weir_filter::parse("any").expect("a filter"), TimeWindow::default());
        let question = FlowQuery { filter, window, select, scaled: false };
        let archive = Archive::open(folder.path(), options).expect("an archive");
        let answer = archive.ask(&question).expect("an answer");
        let rows: Vec<_> = answer.flat_map(|batch| texts(&batch.expect("a batch"))).collect();
        (rows, progress.counts().rows_done)
    };
    // the last hardly repeat
    let tuple = [Column::SrcAddr, Column::DstAddr, Column::SrcPort, Column::DstPort, Column::Start];
    let cases: [(&[Column], u64); 3] = [(&[Column::Protocol], 1), (&[Column::SrcAddr], 2), (&tuple, 2)];
    for (columns, passes) in cases {
        let (first, read) = ask(columns, Some(3));
        let (all, _) = ask(columns, None);
        assert_eq!(first, all[..3], "{columns:?}");
        assert!(read > (passes - 1) * flows && read <= passes * flows, "{columns:?}: {read} rows were read");
    }
}

/// Several questions have one turn together: with one turn for all, the second waited for the first for ever.
#[test]
fn several_questions_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut writer, _) = Writer::open(folder.path(), ArchiveOptions::default()).expect("an archive");
    for batch in flows() {
        writer.append(Delivery::from(batch)).expect("appended");
    }
    writer.close().expect("sealed");
    let by = |column: Column| {
        let (keys, sorting) = (vec![AggregateKey::Column(column)], Some(Sorting::usual(Order::Bytes)));
        Select::Aggregate { keys, more: Vec::new(), sorting, limit: None }
    };
    let list = Select::List { columns: vec![Column::Bytes], sorting: None, limit: None };
    // in one pass, each for itself since there is no filter, and each for itself since a list is among them
    let cases = [("bytes > 100", by(Column::DstPort)), ("any", by(Column::DstPort)), ("bytes > 100", list)];
    for (text, last) in cases {
        let selects = [by(Column::Protocol), by(Column::SrcPort), last];
        let admission = Admission::new(1);
        let options = QueryOptions { admission: Some(admission.clone()), ..QueryOptions::default() };
        let progress = Arc::clone(&options.progress);
        let archive = Archive::open(folder.path(), options).expect("an archive");
        let (filter, window) = (weir_filter::parse(text).expect("a filter"), TimeWindow::default());
        let question = FlowQuery { filter, window, select: selects[0].clone(), scaled: false };
        let (told, answered) = std::sync::mpsc::channel();
        let asked = selects.clone();
        let asking = std::thread::spawn(move || told.send(archive.ask_several(&question, &asked)));
        let Ok(answers) = answered.recv_timeout(std::time::Duration::from_mins(1)) else {
            progress.stop();
            panic!("{text}: it waits for itself");
        };
        asking.join().expect("ended").expect("told");
        let answers = answers.expect("answers");
        assert_eq!((answers.len(), admission.counts()), (selects.len(), (1, 0)), "{text}");
        for answer in answers {
            let rows: usize = answer.map(|batch| batch.expect("a batch").num_rows()).sum();
            assert!(rows > 0, "{text}");
        }
        assert_eq!(admission.counts(), (0, 0), "{text}: the turn ends with the answers");
    }
}
