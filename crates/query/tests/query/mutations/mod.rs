//! Every kind of file in an archive, changed in every way: readers give the right answer or an error that names the file,
//! and a check finds it.
//!
//! `WEIR_MUTATIONS` is how often files of each kind are changed, `WEIR_MUTATION_SEED` the seed of the one case to run.

mod answers;
mod exceptions;
mod mutation;
mod written;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow::array::AsArray;
use weir_archive::{ArchiveOptions, Snapshot, Writer, check};
use weir_filter::Predicate;
use weir_flow::{Column, Table};
use weir_query::{FlowQuery, TimeWindow};

use crate::approximate::copy;
use crate::naive::{passing, texts, value};
use crate::summaries::Numbers;
use answers::{Found, LISTED, Outcome, questions, read, read_elements};
use exceptions::Exception;
use mutation::{Changed, Choice, Kind, Mutation, files};
use written::Written;

/// Mutations of each kind, without `WEIR_MUTATIONS`.
const MUTATIONS: u64 = 8;
/// Seeds of one kind begin here times its number.
const SEEDS: u64 = 1_000_000;

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// An archive, and what readers find in it.
struct Examined {
    written: Written,
    files: Vec<(Kind, PathBuf)>,
    questions: Vec<FlowQuery>,
    /// What is right: in all of it, and when the end of the last tail is missing.
    right: Vec<Vec<Outcome>>,
    elements: Outcome,
}

/// What was wrong in a case.
enum Wrong {
    Panicked,
    /// Another answer, without an error.
    Answer,
    /// An error that does not name the file.
    Error(String),
    /// Other elements, or a panic, or an error that does not name the file.
    Elements(String),
    /// The check found nothing.
    Check,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked => f.write_str("a panic"),
            Self::Answer => f.write_str("another answer, and no error"),
            Self::Error(text) => write!(f, "an error that does not name the file: {text}"),
            Self::Elements(text) => write!(f, "the question for elements: {text}"),
            Self::Check => f.write_str("the check found nothing"),
        }
    }
}

impl Examined {
    fn new() -> Self {
        let written = Written::new();
        let dir = &written.dir;
        let snapshot = Snapshot::open(dir).expect("a snapshot");
        let live: Vec<PathBuf> =
            Table::ALL.iter().flat_map(|table| snapshot.segments(*table)).map(weir_archive::Segment::path).collect();
        let files = files(dir, &live);
        let (host, day_ms) = host_of(&written);
        let questions = questions(&host, day_ms);
        let mut right = vec![read(dir, &questions)];
        let last = files.iter().find(|(kind, _)| *kind == Kind::LastTail).expect("a tail").1.clone();
        for octets in std::iter::once(0).chain(written.frame_ends[1].clone()) {
            let _cut = Changed::new(&last, &Mutation::Truncate { octets: octets as usize });
            right.push(read(dir, &questions));
        }
        let elements = read_elements(dir);
        assert!(elements.is_ok(), "{elements:?}");
        Self { written, files, questions, right, elements }
    }

    /// Changes a file by the numbers of a seed; `None` when that is what it was.
    fn case(&self, seed: u64) -> Option<(String, Vec<Wrong>, Option<Exception>)> {
        let numbers = &mut Numbers(seed);
        let kind = Kind::ALL[(seed / SEEDS) as usize % Kind::ALL.len()];
        let of_kind: Vec<&PathBuf> = self.files.iter().filter(|(of, _)| *of == kind).map(|(_, path)| path).collect();
        let path = of_kind[numbers.below(of_kind.len() as u64) as usize];
        let Written { dir, other, .. } = &self.written;
        let beside = of_kind.iter().filter(|other| **other != path).copied().collect();
        let choice = Choice { kind, path, beside, all: &self.files, dir, other };
        let mutation = choice.make(numbers, &fs::read(path).expect("a file"));
        let changed = Changed::new(path, &mutation);
        if !changed.is_different {
            return None;
        }
        let name = path.strip_prefix(dir).unwrap_or(path).display();
        let text = format!("WEIR_MUTATION_SEED={seed}: {kind:?}, {name}: {mutation:?}");
        let wrong = catch_unwind(AssertUnwindSafe(|| self.examine(&changed, kind)));
        let exception = Exception::of(kind, &mutation, &self.written);
        Some((text, wrong.unwrap_or_else(|_| vec![Wrong::Panicked]), exception))
    }

    fn examine(&self, changed: &Changed, kind: Kind) -> Vec<Wrong> {
        let dir = &self.written.dir;
        let names: Vec<String> = changed.paths().map(|path| path.display().to_string()).collect();
        let found = read(dir, &self.questions);
        let mut wrong = Vec::new();
        let is_named = |text: &str| names.iter().any(|name| text.contains(name));
        wrong.extend(found.iter().find_map(|outcome| match outcome {
            Err(text) if !is_named(text) => Some(Wrong::Error(text.clone())),
            _ => None,
        }));
        let all = found.iter().all(Result::is_ok);
        // Only the end of the last tail may be missing.
        let rights = if kind == Kind::LastTail { &self.right[..] } else { &self.right[..1] };
        let is_right = |right: &Vec<Outcome>| {
            if all {
                return *right == found;
            }
            // what was read before an error, and after it
            found.iter().all(|outcome| outcome.is_err() || right.contains(outcome))
        };
        match rights.iter().position(is_right) {
            Some(0) => {}
            Some(_) if is_said(dir) => {}
            _ => wrong.push(Wrong::Answer),
        }
        // How many there are follows from the frames that are left.
        if kind != Kind::LastTail {
            match catch_unwind(|| read_elements(dir)) {
                Err(_) => wrong.push(Wrong::Elements("a panic".to_owned())),
                Ok(Err(text)) if is_named(&text) => {}
                Ok(Err(text)) => wrong.push(Wrong::Elements(text)),
                Ok(found) if found == self.elements => {}
                Ok(Ok(_)) => wrong.push(Wrong::Elements("another answer".to_owned())),
            }
        }
        match check(dir, false, |_| {}) {
            Err(error) if is_named(&error.to_string()) => {}
            Err(error) => wrong.push(Wrong::Error(format!("check: {error}"))),
            Ok(report) if report.findings.is_empty() && report.leftovers.is_empty() && report.torn_octets == 0 => {
                wrong.push(Wrong::Check);
            }
            Ok(_) => {}
        }
        wrong
    }
}

/// Whether a writer that opens the archive says that the end of the last tail is missing.
fn is_said(dir: &Path) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    copy(dir, folder.path());
    let (_writer, recovery) = Writer::open(folder.path(), ArchiveOptions::default()).expect("the archive opens");
    recovery.torn_octets > 0 || !recovery.damages.is_empty()
}

/// A host that is in segments and in the tails, and the day of the largest segment.
fn host_of(written: &Written) -> (String, i64) {
    let hosts = |batch: &weir_flow::FlowBatch| -> BTreeSet<Vec<u8>> {
        let addresses = batch.column(Column::SrcAddr).expect("addresses").as_binary::<i32>();
        addresses.iter().flatten().filter(|address| address.len() == 4).map(<[u8]>::to_vec).collect()
    };
    let last = hosts(written.flows.last().expect("flows"));
    let all: Vec<BTreeSet<Vec<u8>>> = written.flows.iter().map(hosts).collect();
    let often = |host: &Vec<u8>| all.iter().filter(|hosts| hosts.contains(host)).count();
    let host = last.into_iter().max_by_key(often).expect("a host");
    let text: Vec<String> = host.iter().map(ToString::to_string).collect();
    (text.join("."), 1_767_225_600_000 + 4 * 86_400_000)
}

/// What readers find in the whole archive is what was written to it.
fn check_against_written(examined: &Examined) {
    let Examined { written, right, questions, .. } = examined;
    assert!(right[0].iter().all(Result::is_ok), "{:?}", right[0]);
    let Ok(Found::Counts(_, rows, _)) = &right[0][0] else { panic!("counts") };
    let flows: u64 = written.flows.iter().map(|batch| batch.rows() as u64).sum();
    assert_eq!(rows[Table::Flows as usize], flows);
    let listed: Vec<Vec<Vec<String>>> = right[0]
        .iter()
        .filter_map(|outcome| match outcome {
            Ok(Found::Rows(batches)) if batches.first().is_some_and(|batch| batch.num_columns() == LISTED.len()) => {
                Some(batches.iter().flat_map(texts).collect())
            }
            _ => None,
        })
        .collect();
    for (number, question) in questions[..2].iter().enumerate() {
        let rows = passing(&written.flows, &question.filter, &question.window);
        let row = |(batch, row): &(&weir_flow::FlowBatch, usize)| -> Vec<String> {
            LISTED.iter().map(|column| value(batch, *column, *row)).collect()
        };
        let mut expected: Vec<Vec<String>> = rows.iter().map(row).collect();
        let mut found = listed[number].clone();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "question {number}");
        assert!(!found.is_empty(), "question {number}");
    }
    let totals = right[0].iter().filter_map(|outcome| match outcome {
        Ok(Found::Totals(totals)) => Some(totals.flows),
        _ => None,
    });
    let of_host = passing(&written.flows, &questions[1].filter, &TimeWindow::default()).len() as u64;
    let expected = [flows, passing(&written.flows, &Predicate::True, &questions[3].window).len() as u64, of_host];
    assert_eq!(totals.take(3).collect::<Vec<_>>(), expected);
}

#[test]
fn a_changed_file_never_changes_an_answer_without_an_error() {
    let examined = Examined::new();
    check_against_written(&examined);
    let report = check(&examined.written.dir, false, |_| {}).expect("checked");
    assert_eq!(report.findings, []);
    for kind in Kind::ALL {
        assert!(examined.files.iter().any(|(of, _)| *of == kind), "no file of the kind {kind:?}");
    }
    let mutations = asked("WEIR_MUTATIONS").unwrap_or(MUTATIONS);
    let seeds: Vec<u64> = match asked("WEIR_MUTATION_SEED") {
        Some(seed) => vec![seed],
        None => (0..Kind::ALL.len() as u64).flat_map(|kind| (0..mutations).map(move |n| kind * SEEDS + n)).collect(),
    };
    let (mut failures, mut changes) = (Vec::new(), 0);
    let mut excused = std::collections::BTreeMap::<Exception, u64>::new();
    for seed in seeds {
        let Some((text, wrong, exception)) = examined.case(seed) else { continue };
        changes += 1;
        for wrong in wrong {
            match exception {
                Some(exception) if exception.excuses(&wrong) => *excused.entry(exception).or_default() += 1,
                _ => failures.push(format!("{text}: {wrong}")),
            }
        }
    }
    println!("{changes} changes; excused: {excused:?}");
    assert!(failures.is_empty(), "{} of {changes}:\n{}", failures.len(), failures.join("\n"));
    let again = read(&examined.written.dir, &examined.questions);
    assert!(again == examined.right[0], "all files are as they were");
}
