use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use arrow::array::{ArrayRef, StringArray, TimestampMillisecondArray, UInt32Array, UInt64Array};
use weir_series::{Family, FamilyRows, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions};

use super::*;
use crate::output::{Format, OutputOptions, write_answer};
use crate::stored_flows::{FlowSelection, StoredBatches, StoredFlows};
use crate::{Engine, EngineError, EngineOptions, QueryControl};

/// The begin of a block of seconds.
const FIRST: i64 = 288 * 4_000;

#[derive(Debug)]
struct NoFlows;

impl StoredFlows for NoFlows {
    fn read(&self, _selection: FlowSelection) -> StoredBatches {
        Box::new(std::iter::empty())
    }
}

/// The lines of an answer, and its warnings.
fn ask(options: &EngineOptions, statement: &str) -> Result<(Vec<String>, Vec<String>), EngineError> {
    let control = QueryControl::default();
    let engine = Engine::over_stored(Arc::new(NoFlows), options, &control)?;
    let answer = engine.sql_on(statement, &control)?;
    let output = OutputOptions { header: false, ..OutputOptions::default() };
    let mut text = Vec::new();
    write_answer(answer, Format::Csv, &output, &mut text)?;
    let lines = String::from_utf8(text).expect("text").lines().map(str::to_owned).collect();
    Ok((lines, control.progress.warnings()))
}

fn of_folder(dir: &Path) -> EngineOptions {
    EngineOptions { threads: 1, statistics: Some(dir.to_owned()), ..EngineOptions::default() }
}

/// Writes four steps in which the key a has 10 octets and b one.
fn write(dir: &Path) {
    let resolutions = vec![Resolution { step_secs: 1, keep_secs: 1_000_000 }];
    let options = StoreOptions { resolutions, ..StoreOptions::default() };
    let families = [Family::counters("total", &["bytes"])];
    let mut writer = StatisticsWriter::open(dir, &options, &families).expect("a writer");
    let family = writer.family("total").expect("the family");
    for time in FIRST..FIRST + 4 {
        let mut rows = FamilyRows::new(1);
        for (key, bytes) in [("a", 10), ("b", 1)] {
            rows.push(writer.series(family, key), &[bytes]);
        }
        writer.write_step(time, StepRows { families: vec![(family, rows)] }).expect("written");
    }
    writer.close().expect("closed");
}

#[test]
fn a_damaged_step_is_a_gap_and_a_warning() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path());
    let sums = "SELECT key, count(*), sum(bytes) FROM series WHERE step = 1 GROUP BY key ORDER BY key";
    let (whole, warnings) = ask(&of_folder(dir.path()), sums).expect("an answer");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(whole, ["a,4,40", "b,4,4"]);
    // behind the head of the file, of 16 octets, the first octet of the first step
    let path = dir.path().join(format!("1s/{}.steps", FIRST / 288));
    let mut octets = fs::read(&path).expect("steps");
    octets[16] ^= 1;
    fs::write(&path, octets).expect("written");
    let (rest, warnings) = ask(&of_folder(dir.path()), sums).expect("an answer");
    assert_eq!(rest, ["a,3,30", "b,3,3"]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].ends_with(&format!("(1 steps, the first at {FIRST} s, are not known)")), "{warnings:?}");
    let behind = sums.replace("step = 1", "step = 1 AND time >= '1970-01-14T08:00:01Z'");
    let (rest, warnings) = ask(&of_folder(dir.path()), &behind).expect("an answer");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(rest, ["a,3,30", "b,3,3"]);
}

#[test]
fn a_key_that_is_lost_is_a_warning() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path());
    lose_b(dir.path());
    let of = |key: &str| {
        let statement = format!("SELECT key, sum(bytes) FROM series WHERE step = 1 AND key = '{key}' GROUP BY key");
        ask(&of_folder(dir.path()), &statement).expect("an answer")
    };
    assert_eq!(of("a"), (vec!["a,40".to_owned()], Vec::new()));
    let (rows, warnings) = of("b");
    assert!(rows.is_empty(), "{rows:?}");
    let said = "the catalogue of keys is damaged: series by total have lost keys, and b may be among them";
    assert_eq!(warnings, [said]);
}

/// Makes the line of the key b unreadable.
fn lose_b(dir: &Path) {
    let path = dir.join("catalogue");
    let text = fs::read_to_string(&path).expect("a catalogue");
    let line = text.lines().find(|line| line.ends_with("\tb")).expect("a line");
    fs::write(&path, text.replace(line, &format!("zz{}", &line[2..]))).expect("written");
}

/// Reads rows of a folder, of one key or of all; gives how many there are.
fn rows_of(dir: &Path, key: Option<&str>, progress: &Progress) -> usize {
    let store = Arc::new(SeriesStore::open(dir).expect("a store"));
    let keys = key.map(|key| vec![key.to_owned()]);
    let selection = SeriesSelection { step_secs: 1, families: None, keys, from_secs: FIRST, until_secs: FIRST + 4 };
    let mut rows = 0;
    let mut take = |batch: RecordBatch| {
        rows += batch.num_rows();
        true
    };
    StoredSeries::read(&store, &selection, progress, &mut take).expect("read");
    rows
}

#[test]
fn only_rows_that_are_lost_make_an_answer_less_than_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path());
    lose_b(dir.path());
    // a key that never was, and one that is lost: nobody can know which is which
    for key in ["nothing", "b"] {
        let progress = Progress::default();
        assert_eq!(rows_of(dir.path(), Some(key), &progress), 0);
        assert_eq!((progress.warnings().len(), progress.first_loss()), (1, None), "{key}");
    }
    let progress = Progress::default();
    assert_eq!(rows_of(dir.path(), None, &progress), 4, "those of the key that is left");
    assert!(progress.first_loss().is_some(), "{:?}", progress.warnings());
}

#[test]
fn a_question_that_is_stopped_reads_no_steps() {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path());
    let progress = Progress::default();
    assert_eq!(rows_of(dir.path(), None, &progress), 8);
    progress.stop();
    assert_eq!(rows_of(dir.path(), None, &progress), 0);
}

/// A store that notes what it is asked.
#[derive(Debug, Default)]
struct Elsewhere {
    asked: Mutex<Vec<SeriesSelection>>,
}

impl Elsewhere {
    fn rows() -> RecordBatch {
        let time: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![86_400_000; 2]).with_timezone("UTC"));
        RecordBatch::try_from_iter([
            ("time", time),
            ("step", Arc::new(UInt32Array::from(vec![60, 60])) as ArrayRef),
            ("by", Arc::new(StringArray::from(vec!["host", "host"])) as ArrayRef),
            ("key", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef),
            ("bytes", Arc::new(UInt64Array::from(vec![5, 7])) as ArrayRef),
        ])
        .expect("a batch")
    }
}

impl StoredSeries for Elsewhere {
    fn schema(&self) -> SchemaRef {
        Self::rows().schema()
    }

    fn step_lengths(&self) -> Option<Vec<u32>> {
        None
    }

    fn read(
        &self,
        selection: &SeriesSelection,
        progress: &Progress,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.asked.lock().expect("a list").push(selection.clone());
        progress.warn("one node is down".to_owned());
        take(Self::rows());
        Ok(())
    }
}

#[test]
fn another_store_is_asked_for_what_can_pass_and_every_condition_is_looked_at() {
    let store = Arc::new(Elsewhere::default());
    let options = EngineOptions {
        threads: 1,
        stored_series: Some(Arc::clone(&store) as Arc<dyn StoredSeries>),
        ..EngineOptions::default()
    };
    let wanted = "step = 60 AND by = 'host' AND key = 'a' AND time >= '1970-01-02T00:00:00Z'";
    let (rows, warnings) = ask(&options, &format!("SELECT sum(bytes) FROM series WHERE {wanted}")).expect("an answer");
    assert_eq!((rows, warnings), (vec!["5".to_owned()], vec!["one node is down".to_owned()]));
    let asked = store.asked.lock().expect("a list").pop().expect("a selection");
    assert_eq!((asked.step_secs, asked.from_secs), (60, 86_400));
    assert_eq!((asked.families, asked.keys), (Some(vec!["host".to_owned()]), Some(vec!["a".to_owned()])));
    let refused = ask(&options, "SELECT sum(bytes) FROM series").expect_err("no step is named");
    assert!(format!("{refused:?}").contains("must name the length of a step"), "{refused:?}");
}
