//! One test that every kind of component passes: what the contracts of [`Source`], [`Transform`] and [`Sink`] ask for, as far
//! as it can be seen from outside.
//!
//! It panics with what is wrong, because it is called by tests:
//!
//! ```ignore
//! compliance::transform(&KIND, "time = 'start'", &[batches]);
//! ```

mod sparse;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};

use crate::registry::Role;
use crate::{AnyKind, Built, Burst, ComponentContext, Given, Outlet, PullResult, Sink, Source, State, Transform};

/// What a run of a component came to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The rows handed on, as one batch; `None` when there was none.
    pub rows: Option<RecordBatch>,
    /// The component's own counters at the end.
    pub counters: Vec<(&'static str, u64)>,
    /// The largest state seen.
    pub state_max: State,
}

impl Outcome {
    /// Number of rows handed on.
    pub fn len(&self) -> usize {
        self.rows.as_ref().map_or(0, RecordBatch::num_rows)
    }

    /// True when no row was handed on.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of one of the component's own counters.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no counter '{name}' among {:?}", self.counters)).1
    }
}

/// Makes a component of a kind from the text of its options.
pub fn open(kind: &'static dyn AnyKind, options: &str) -> (Built, ComponentContext) {
    let table = options.parse().unwrap_or_else(|error| panic!("options are no TOML: {error}"));
    let opener = kind.configure(&Given::from_table(table, Path::new(".")));
    let opener = opener.unwrap_or_else(|error| panic!("{}: {}", kind.name(), error.message));
    let context = ComponentContext { name: kind.name().to_owned(), ..ComponentContext::default() };
    match opener(&context) {
        Ok(built) => (built, context),
        Err(error) => panic!("{}: {}", kind.name(), error.chain()),
    }
}

/// What every kind has: documentation, a table of options that a reference page can be made of, refusal of what it
/// does not know.
fn check_kind(kind: &'static dyn AnyKind, options: &str) {
    assert!(!kind.name().is_empty() && kind.name().chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'));
    assert!(kind.doc().trim_end().ends_with('.'), "{}: documentation is made of sentences", kind.name());
    assert_eq!(kind.inputs().is_empty(), kind.role() == Role::Source, "{}: only sources have no input", kind.name());
    for spec in kind.options() {
        assert!(spec.doc.trim_end().ends_with('.'), "{}: {} is documented by a sentence", kind.name(), spec.key);
        for reserved in ["type", "inputs", "thread", "burst_records", "queue_bursts"] {
            assert_ne!(spec.key, reserved, "{}: the framework has this key", kind.name());
        }
    }
    let mut table: toml::Table = options.parse().unwrap_or_else(|error| panic!("options are no TOML: {error}"));
    table.insert("nobody_knows_this".to_owned(), true.into());
    let given = Given::from_table(table, Path::new("."));
    assert!(kind.configure(&given).is_err(), "{}: an unknown key is refused", kind.name());
}

/// Runs a component over the rows of its inputs, cut and interleaved in many ways, and sees that it always hands on the
/// same rows in the same order, that it counts the same, and that it holds nothing at the end; and that a flow column
/// without any value may be missing. `inputs` are batches for each input, in the order of their indexes.
pub fn transform(kind: &'static dyn AnyKind, options: &str, inputs: &[Vec<RecordBatch>]) -> Outcome {
    assert_eq!(kind.role(), Role::Transform, "{} is no component between source and sink", kind.name());
    assert_eq!(kind.inputs().len(), inputs.len(), "{} has inputs {:?}", kind.name(), kind.inputs());
    check_kind(kind, options);
    let whole = run(kind, options, inputs, &mut Cuts::Whole);
    let cuts = [Cuts::Of(1), Cuts::Of(2), Cuts::Of(7), Cuts::Random(1), Cuts::Random(2), Cuts::Random(3)];
    for mut cut in cuts {
        let name = format!("{cut:?}");
        let other = run(kind, options, inputs, &mut cut);
        assert_eq!(other.len(), whole.len(), "{}: as many rows with {name}", kind.name());
        assert!(other.rows == whole.rows, "{}: the same rows with {name} as in whole batches", kind.name());
        assert_eq!(other.counters, whole.counters, "{}: the same counts with {name}", kind.name());
    }
    sparse::check(kind, options, inputs, &whole);
    whole
}

/// How inputs are cut into bursts and interleaved.
#[derive(Debug, Clone)]
enum Cuts {
    /// As they are, one input after the other.
    Whole,
    /// So many rows, the inputs in turn.
    Of(usize),
    /// Anyhow, from a seed.
    Random(u64),
}

impl Cuts {
    fn random(seed: &mut u64) -> usize {
        // splitmix64, so that tests need no generator of random numbers
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = *seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 33) as usize
    }

    /// The input to take from next, among `open` ones.
    fn choose(&mut self, turn: usize, open: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::Of(_) => turn % open,
            Self::Random(seed) => Self::random(seed) % open,
        }
    }

    fn rows(&mut self, left: usize) -> usize {
        match self {
            Self::Whole => left,
            Self::Of(rows) => left.min(*rows),
            Self::Random(seed) => left.min(1 + Self::random(seed) % 50),
        }
    }
}

fn run(kind: &'static dyn AnyKind, options: &str, inputs: &[Vec<RecordBatch>], cuts: &mut Cuts) -> Outcome {
    let (Built::Transform(mut component), context) = open(kind, options) else {
        panic!("{} says that it is a component, but builds something else", kind.name())
    };
    let mut out = Outlet::new();
    let mut state_max = State::default();
    let mut waiting: Vec<(usize, Vec<RecordBatch>)> =
        inputs.iter().map(|batches| batches.iter().rev().cloned().collect()).enumerate().collect();
    let mut turn = 0;
    while !waiting.is_empty() {
        let at = cuts.choose(turn, waiting.len());
        turn += 1;
        let (input, batches) = &mut waiting[at];
        let Some(batch) = batches.pop() else {
            let input = *input;
            waiting.remove(at);
            step(kind, &mut state_max, component.as_mut(), |component| component.end(input, &mut out));
            continue;
        };
        let rows = cuts.rows(batch.num_rows());
        if rows < batch.num_rows() {
            batches.push(batch.slice(rows, batch.num_rows() - rows));
        }
        let input = *input;
        if rows > 0 {
            step(kind, &mut state_max, component.as_mut(), |component| {
                component.take(input, batch.slice(0, rows), &mut out)
            });
        }
    }
    step(kind, &mut state_max, component.as_mut(), |component| component.finish(&mut out));
    assert_eq!(component.state().rows, 0, "{}: nothing is held after finish", kind.name());
    let bursts: Vec<_> = out.drain().map(|burst| burst.rows().clone()).collect();
    Outcome { rows: together(kind, &bursts), counters: context.counters.read(), state_max }
}

fn step(
    kind: &dyn AnyKind,
    state_max: &mut State,
    component: &mut dyn Transform,
    work: impl FnOnce(&mut dyn Transform) -> Result<(), crate::ComponentError>,
) {
    if let Err(error) = work(component) {
        panic!("{}: {}", kind.name(), error.chain());
    }
    let state = component.state();
    state_max.rows = state_max.rows.max(state.rows);
    state_max.octets = state_max.octets.max(state.octets);
    assert!(state.edge_ms >= state_max.edge_ms, "{}: the edge of the state never goes back", kind.name());
    state_max.edge_ms = state.edge_ms;
}

/// All bursts as one batch. Those of one source may have different columns, and an absent one means that every value
/// is null.
fn together(kind: &dyn AnyKind, bursts: &[RecordBatch]) -> Option<RecordBatch> {
    let schema = Arc::new(united(bursts)?);
    let bursts: Vec<RecordBatch> = bursts.iter().map(|burst| widened(burst, &schema)).collect();
    match concat_batches(&schema, &bursts) {
        Ok(rows) => Some(rows),
        Err(error) => panic!("{}: bursts do not go together: {error}", kind.name()),
    }
}

/// The columns of all bursts in the order in which they appear; `None` when there is no burst.
fn united(bursts: &[RecordBatch]) -> Option<Schema> {
    let first = bursts.first()?.schema_ref();
    if bursts.iter().all(|burst| burst.schema_ref() == first) {
        return Some(first.as_ref().clone());
    }
    let mut fields: Vec<Field> = Vec::new();
    for field in bursts.iter().flat_map(|burst| burst.schema_ref().fields()) {
        if fields.iter().all(|known| known.name() != field.name()) {
            fields.push(field.as_ref().clone().with_nullable(true));
        }
    }
    Some(Schema::new(fields))
}

fn widened(burst: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let column = |field: &FieldRef| {
        let found = burst.column_by_name(field.name()).map(Arc::clone);
        found.unwrap_or_else(|| new_null_array(field.data_type(), burst.num_rows()))
    };
    let columns = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(burst.num_rows()));
    match RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options) {
        Ok(wide) => wide,
        Err(error) => panic!("columns of one name differ from burst to burst: {error}"),
    }
}

/// Reads a source to its end, twice, and sees that it gives the same rows, and that it ends when it is stopped. Rows
/// are those of one run.
pub fn source(kind: &'static dyn AnyKind, options: &str) -> Outcome {
    assert_eq!(kind.role(), Role::Source, "{} is no source", kind.name());
    check_kind(kind, options);
    let (first, second) = (read(kind, options), read(kind, options));
    assert!(first.rows == second.rows, "{}: the same rows when read again", kind.name());
    let (mut source, _) = open_source(kind, options);
    source.stop();
    let mut out = Outlet::new();
    for _ in 0..10_000 {
        match source.pull(&mut out) {
            Ok(PullResult::Ended) => return first,
            Ok(_) => {}
            Err(error) => panic!("{}: {}", kind.name(), error.chain()),
        }
    }
    panic!("{}: does not end after stop", kind.name())
}

fn open_source(kind: &'static dyn AnyKind, options: &str) -> (Box<dyn Source>, ComponentContext) {
    match open(kind, options) {
        (Built::Source(source), context) => (source, context),
        _ => panic!("{} says that it is a source, but builds something else", kind.name()),
    }
}

fn read(kind: &'static dyn AnyKind, options: &str) -> Outcome {
    let (mut source, context) = open_source(kind, options);
    let mut out = Outlet::new();
    let mut bursts = Vec::new();
    loop {
        let pulled = source.pull(&mut out);
        bursts.extend(out.drain().map(|burst| burst.rows().clone()));
        match pulled {
            Ok(PullResult::Ended) => break,
            Ok(_) => {}
            Err(error) => panic!("{}: {}", kind.name(), error.chain()),
        }
    }
    Outcome { rows: together(kind, &bursts), counters: context.counters.read(), state_max: State::default() }
}

/// Gives a sink rows in bursts of `burst_rows`, lets it finish, and returns its counters. What it has written is
/// compared by the caller, with any two sizes of bursts.
pub fn sink(
    kind: &'static dyn AnyKind,
    options: &str,
    batches: &[RecordBatch],
    burst_rows: usize,
) -> Vec<(&'static str, u64)> {
    assert_eq!(kind.role(), Role::Sink, "{} is no sink", kind.name());
    check_kind(kind, options);
    let (Built::Sink(mut sink), context) = open(kind, options) else {
        panic!("{} says that it is a sink, but builds something else", kind.name())
    };
    for batch in batches {
        let mut from = 0;
        while from < batch.num_rows() && !sink.is_full() {
            let rows = burst_rows.clamp(1, batch.num_rows() - from);
            give(kind, sink.as_mut(), batch.slice(from, rows));
            from += rows;
        }
    }
    if let Err(error) = sink.finish() {
        panic!("{}: {}", kind.name(), error.chain());
    }
    context.counters.read()
}

fn give(kind: &dyn AnyKind, sink: &mut dyn Sink, rows: RecordBatch) {
    if let Err(error) = sink.take(Burst::new(rows)) {
        panic!("{}: {}", kind.name(), error.chain());
    }
}
