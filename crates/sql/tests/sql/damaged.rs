//! Segments that are not what was written: an answer that lacks their rows is no answer.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_flow::{BooksBatch, BooksRow, Counter, Delivery, SideTables};
use weir_sql::{Engine, EngineError, EngineOptions};

use crate::rows::{NEW_YEAR_MS, lines, sealed, write_archive};

/// The segments of a table.
pub(crate) fn segments(folder: &Path, table: &str) -> Vec<PathBuf> {
    let days = fs::read_dir(folder.join(table)).expect("a table").flatten();
    let mut files: Vec<PathBuf> =
        days.filter_map(|day| fs::read_dir(day.path()).ok()).flatten().flatten().map(|file| file.path()).collect();
    files.sort();
    files
}

fn cut(file: &Path, octets: u64) {
    OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(octets)).expect("cut");
}

fn engine(folder: &Path) -> Engine {
    Engine::open(folder, &EngineOptions { threads: 2, ..EngineOptions::default() }).expect("an engine")
}

/// Every question about a table fails whose segment was cut, and names the file; where what it reads is all there, the
/// answer is that of the whole segment.
fn check_cut(folder: &Path, table: &str, column: &str) {
    let files = segments(folder, table);
    let whole = fs::read(&files[1]).expect("a segment");
    let name = files[1].file_name().and_then(|name| name.to_str()).expect("a name");
    let asked = [
        format!("SELECT sum({column}) FROM {table}"),
        format!("SELECT count(*) FROM {table} WHERE {column} > 0"),
        format!("SELECT * FROM {table}"),
    ];
    let answers = asked.each_ref().map(|sql| lines(engine(folder).sql(sql)).expect("an answer"));
    let length = whole.len() as u64;
    for octets in [0, 7, 12, length / 2, length - 1] {
        cut(&files[1], octets);
        let engine = engine(folder);
        for (sql, expected) in asked.iter().zip(&answers) {
            match lines(engine.sql(sql)) {
                Ok(answer) => assert!(octets > 12 && answer == *expected, "{sql}, {octets} octets: {answer:?}"),
                Err(error) => assert!(error.to_string().contains(name), "{sql}, {octets} octets: {error}"),
            }
        }
        fs::write(&files[1], &whole).expect("written");
    }
    cut(&files[1], 0);
    let error = lines(engine(folder).sql(&format!("SELECT count(*) FROM {table}"))).expect_err("an empty segment");
    assert!(matches!(&error, EngineError::Unreadable(text) if text.contains(name)), "{error}");
    fs::write(&files[1], &whole).expect("written");
}

#[test]
fn a_segment_that_was_cut_is_never_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    write_archive(folder.path(), &[sealed(), sealed(), sealed()], &[]).close().expect("closed");
    check_cut(folder.path(), "flows", "bytes");
}

/// Flows with a row of the books.
fn books(number: u64) -> Delivery {
    let mut counts = [0; Counter::COUNT];
    counts[Counter::RecordsStored as usize] = 1 + number;
    let row =
        BooksRow { minute_ms: NEW_YEAR_MS, exporter: None, observation_domain: None, export_version: None, counts };
    let side_tables = SideTables { books: Some(BooksBatch::from_rows(&[row])), ..SideTables::default() };
    Delivery { flows: Some(sealed()), side_tables }
}

#[test]
fn a_segment_of_the_books_that_was_cut_is_never_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..3 {
        let options = ArchiveOptions {
            compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
            ..ArchiveOptions::default()
        };
        let (mut writer, _) = Writer::open(folder.path(), options).expect("an archive");
        writer.append(books(number)).expect("appended");
        writer.close().expect("sealed");
    }
    check_cut(folder.path(), "exporter_books", "records_stored");
}
