//! Components small enough to see through: numbers in, numbers out.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use weir_chain::registry::ONE_INPUT;
use weir_chain::{
    AnyKind, Built, Burst, Chain, ComponentError, ComponentKind, NoOptions, Outlet, PullResult, Registry, Role,
    Setting, Sink, Source, Transform, choices, options,
};

pub(crate) fn rows(values: Vec<u64>) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("number", DataType::UInt64, true)]));
    RecordBatch::try_new(schema, vec![Arc::new(UInt64Array::from(values))]).expect("one column")
}

fn values(rows: &RecordBatch) -> &[u64] {
    rows.column(0).as_primitive::<UInt64Type>().values()
}

/// What sinks took, by the name that they were given.
static TAKEN: Mutex<Option<HashMap<String, Taken>>> = Mutex::new(None);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub values: Vec<u64>,
    pub finished: bool,
    pub bursts: usize,
}

pub(crate) fn taken(into: &str) -> Taken {
    TAKEN.lock().expect("not poisoned").get_or_insert_default().get(into).cloned().unwrap_or_default()
}

fn note(into: &str, note: impl FnOnce(&mut Taken)) {
    let mut taken = TAKEN.lock().expect("not poisoned");
    note(taken.get_or_insert_default().entry(into.to_owned()).or_default());
}

options! {
    /// Options of [`NUMBERS`].
    pub(crate) struct NumbersOptions {
        /// For tests.
        count: u64 = 10_000,
        /// For tests.
        first: u64 = 0,
        /// For tests.
        step: u64 = 1 => 1..=1_000_000,
        /// For tests.
        fail_after: u64 = 1_000_000_000_000,
        /// For tests.
        endless: bool = false,
    }
}

choices! {
    /// How [`PASS`] fails.
    pub(crate) enum Failure {
        /// For tests.
        Error = "error",
        /// For tests.
        Panic = "panic",
    }
}

options! {
    /// Options of [`PASS`].
    pub(crate) struct PassOptions {
        /// For tests.
        fail_after: u64 = 1_000_000_000_000,
        /// For tests.
        how: Failure = Failure::Error,
        /// For tests.
        hold: bool = false,
    }
}

options! {
    /// Options of [`NOTE`].
    pub(crate) struct NoteOptions {
        /// For tests.
        into: String,
        /// For tests.
        rows_max: u64 = 1_000_000_000_000,
        /// For tests.
        fail_after: u64 = 1_000_000_000_000,
    }
}

/// Numbers from `first` on, in steps; `fail_after` numbers it fails, and `endless` ends only when stopped.
pub(crate) const NUMBERS: ComponentKind<NumbersOptions> = ComponentKind {
    name: "numbers",
    role: Role::Source,
    inputs: &[],
    doc: "Numbers.",
    configure: |options| {
        let numbers = Numbers {
            next: options.first,
            step: options.step,
            left: options.count,
            until_failure: options.fail_after,
            endless: options.endless,
            stopped: AtomicBool::new(false),
        };
        Ok(Box::new(|_| Ok(Built::Source(Box::new(numbers)))))
    },
};

struct Numbers {
    next: u64,
    step: u64,
    left: u64,
    until_failure: u64,
    endless: bool,
    stopped: AtomicBool,
}

impl Source for Numbers {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        if self.left == 0 || self.stopped.load(Ordering::Relaxed) {
            return Ok(PullResult::Ended);
        }
        if self.until_failure == 0 {
            return Err(ComponentError::new("the numbers are damaged"));
        }
        let count = self.left.min(100).min(self.until_failure);
        out.rows(rows((0..count).map(|number| self.next + number * self.step).collect()));
        self.next += count * self.step;
        self.until_failure -= count;
        if !self.endless {
            self.left -= count;
        }
        Ok(PullResult::More)
    }

    fn stop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Passes numbers on; after `fail_after` of them it fails or panics. `hold` keeps them all until the end.
pub(crate) const PASS: ComponentKind<PassOptions> = ComponentKind {
    name: "pass",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Passes on.",
    configure: |options| {
        let pass = Pass {
            until_failure: options.fail_after,
            panics: options.how == Failure::Panic,
            hold: options.hold,
            held: Vec::new(),
        };
        Ok(Box::new(|_| Ok(Built::Transform(Box::new(pass)))))
    },
};

struct Pass {
    until_failure: u64,
    panics: bool,
    hold: bool,
    held: Vec<RecordBatch>,
}

impl Transform for Pass {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        if rows.num_rows() as u64 > self.until_failure {
            assert!(!self.panics, "the component is broken");
            return Err(ComponentError::caused("cannot go on", std::io::Error::other("no more paper")));
        }
        self.until_failure -= rows.num_rows() as u64;
        if self.hold {
            self.held.push(rows);
        } else {
            out.rows(rows);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.held.drain(..).for_each(|rows| out.rows(rows));
        Ok(())
    }
}

/// Two inputs of ascending numbers into one, like the merge of a correlator; counts the most it had to keep.
pub(crate) const MERGE: ComponentKind<NoOptions> = ComponentKind {
    name: "merge",
    role: Role::Transform,
    inputs: &["left", "right"],
    doc: "Merges.",
    configure: |_| {
        Ok(Box::new(|context| {
            let kept_max = context.counters.counter("kept_max");
            Ok(Built::Transform(Box::new(Merge { kept: Default::default(), ended: [false; 2], most: 0, kept_max })))
        }))
    },
};

struct Merge {
    kept: [VecDeque<u64>; 2],
    ended: [bool; 2],
    most: u64,
    kept_max: weir_chain::Counter,
}

impl Merge {
    fn go_on(&mut self, out: &mut Outlet) {
        let kept = self.kept.iter().map(VecDeque::len).sum::<usize>() as u64;
        if kept > self.most {
            self.kept_max.add(kept - self.most);
            self.most = kept;
        }
        let mut merged = Vec::new();
        loop {
            let next = match [self.kept[0].front(), self.kept[1].front()] {
                [Some(left), Some(right)] => usize::from(right < left),
                [Some(_), None] if self.ended[1] => 0,
                [None, Some(_)] if self.ended[0] => 1,
                _ => break,
            };
            merged.extend(self.kept[next].pop_front());
        }
        if !merged.is_empty() {
            out.rows(rows(merged));
        }
    }
}

impl Transform for Merge {
    fn take(&mut self, input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        self.kept[input].extend(values(&rows));
        self.go_on(out);
        Ok(())
    }

    fn end(&mut self, input: usize, out: &mut Outlet) -> Result<(), ComponentError> {
        self.ended[input] = true;
        self.go_on(out);
        Ok(())
    }

    fn wanted(&self) -> Option<usize> {
        (0..2).find(|&input| self.kept[input].is_empty() && !self.ended[input])
    }
}

/// Notes what it takes under the name `into`; full after `rows_max` numbers.
pub(crate) const NOTE: ComponentKind<NoteOptions> = ComponentKind {
    name: "note",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Notes.",
    configure: |options| {
        let note = Note { into: options.into, left: options.rows_max, until_failure: options.fail_after };
        Ok(Box::new(|_| {
            if note.into.is_empty() {
                return Err(ComponentError::new("there is nowhere to note"));
            }
            Ok(Built::Sink(Box::new(note)))
        }))
    },
};

struct Note {
    into: String,
    left: u64,
    until_failure: u64,
}

impl Sink for Note {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        if (burst.len() as u64) > self.until_failure {
            return Err(ComponentError::new("the disk is full"));
        }
        self.until_failure -= burst.len() as u64;
        let values = values(burst.rows());
        let count = values.len().min(self.left as usize);
        self.left -= count as u64;
        note(&self.into, |taken| {
            taken.values.extend(&values[..count]);
            taken.bursts += 1;
        });
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        note(&self.into, |taken| taken.finished = true);
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    for kind in [&NUMBERS as &dyn AnyKind, &PASS, &MERGE, &NOTE] {
        registry.add(kind);
    }
    registry
}

pub(crate) fn parse(text: &str) -> Result<Chain, String> {
    parse_with(text, &[])
}

pub(crate) fn parse_with(text: &str, settings: &[&str]) -> Result<Chain, String> {
    let settings: Vec<_> = settings.iter().map(|text| Setting::parse(text).expect("a setting")).collect();
    Chain::parse(text, std::path::Path::new("."), &registry(), &settings)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}
