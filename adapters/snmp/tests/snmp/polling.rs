//! The source as a test runs it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_chain::{Built, ComponentContext, Outlet, PullResult, Source, compliance};
use weir_flow::Table;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What an interface is called.
type NameAndDescription = (Option<String>, Option<String>);

/// A source, and what it has handed on.
pub(crate) struct Polling {
    source: Box<dyn Source>,
    context: ComponentContext,
    /// Files that it reads.
    pub(crate) folder: Option<tempfile::TempDir>,
    /// Names and descriptions by exporter and index, the newest.
    pub(crate) names: BTreeMap<(Vec<u8>, u64), NameAndDescription>,
    /// Exporter and index of each row of names, in the order in which they were written.
    pub(crate) written: Vec<(Vec<u8>, u64)>,
    /// Rows of `interface_counters`, batch by batch.
    pub(crate) counters: Vec<RecordBatch>,
}

impl Polling {
    /// Begins with options as a chain file has them.
    pub(crate) fn begin(options: &str) -> Self {
        let (Built::Source(source), context) = compliance::open(&weir_snmp::source::KIND, options) else {
            panic!("it is a source")
        };
        Self { source, context, folder: None, names: BTreeMap::new(), written: Vec::new(), counters: Vec::new() }
    }

    pub(crate) fn counter(&self, name: &'static str) -> u64 {
        self.context.counters.counter(name).get()
    }

    /// Takes what comes until something is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < end, "{what} does not happen: {:?}", self.context.counters.read());
            self.pull();
        }
    }

    fn pull(&mut self) {
        let mut out = Outlet::new();
        assert_ne!(self.source.pull(&mut out).expect("no error"), PullResult::Ended);
        for burst in out.drain() {
            assert_eq!(burst.len(), 0, "it has no flows");
            for (table, rows) in burst.side_tables().batches() {
                match table {
                    Table::ExporterOptions => self.take_names(rows),
                    Table::InterfaceCounters => self.counters.push(rows.clone()),
                    other => panic!("no rows of {} are known here", other.name()),
                }
            }
        }
    }

    fn take_names(&mut self, rows: &RecordBatch) {
        let column = |name: &str| rows.column_by_name(name).expect("the column");
        let exporters = column("exporter").as_binary::<i32>();
        let keys = column("key").as_primitive::<UInt64Type>();
        for row in 0..rows.num_rows() {
            let text = |name: &str| {
                let texts = column(name).as_string::<i32>();
                texts.is_valid(row).then(|| texts.value(row).to_owned())
            };
            let key = (exporters.value(row).to_vec(), keys.value(row));
            self.written.push(key.clone());
            self.names.insert(key, (text("name"), text("description")));
        }
    }

    /// Names by index, of all exporters.
    pub(crate) fn names_by_index(&self) -> BTreeMap<u64, String> {
        self.names.iter().filter_map(|((_, index), (name, _))| Some((*index, name.clone()?))).collect()
    }

    /// A number of an interface in the newest rows of counters.
    pub(crate) fn newest(&self, index: u32, name: &str) -> Option<u64> {
        let rows = self.counters.last()?;
        let indexes = rows.column_by_name("if_index")?.as_primitive::<UInt32Type>();
        let row = indexes.values().iter().position(|value| *value == index)?;
        let column = rows.column_by_name(name)?;
        if let Some(wide) = column.as_primitive_opt::<UInt64Type>() {
            return wide.is_valid(row).then(|| wide.value(row));
        }
        let narrow = column.as_primitive::<UInt32Type>();
        narrow.is_valid(row).then(|| narrow.value(row).into())
    }

    /// Stops it, and finds out how long that takes.
    pub(crate) fn stop(mut self) -> Duration {
        let began = Instant::now();
        self.source.stop();
        let mut out = Outlet::new();
        while self.source.pull(&mut out).expect("no error") != PullResult::Ended {}
        drop(self);
        began.elapsed()
    }
}
