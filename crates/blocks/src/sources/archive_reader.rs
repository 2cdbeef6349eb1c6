//! Flows of weir's own archive, in the order in which they were received.
//!
//! Segments are sorted by service, for questions; a chain wants flows in the order of time. So each segment is read as
//! a whole and put into order: times first, which gives every row its rank, then the values of all columns, batch by
//! batch, into partitions by rank, and from there into bursts. A heap over sorted pieces would need less memory, but a
//! segment has as many pieces as addresses.
//!
//! Threads inside read ahead; see `ahead`. The sequence is the same whatever their number.

mod ahead;
mod column;
mod numbers;
mod partitions;
mod reader;
mod run;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use weir_archive::{ArchiveHandle, HandleOptions};
use weir_chain::{
    Built, ColumnRule, ComponentContext, ComponentError, ComponentKind, FlowColumnRule, KindWithColumns, Opener,
    OptionError, Outlet, PullResult, Role, Source, choices, options,
};
use weir_flow::Column;

use ahead::Ahead;
use reader::{Counters, RunReader, Step};
use run::{Run, StartSpan};

/// Octets of indexes that are kept between the readings of a segment.
const CACHE_OCTETS_MAX: u64 = 32 << 20;

/// Reads flows from an archive.
pub const KIND: ComponentKind<ArchiveReaderOptions> = ComponentKind {
    name: "archive-reader",
    role: Role::Source,
    inputs: &[],
    doc: "Reads the flows of a weir archive: what it holds when the chain starts, also while a collector writes to it. \
          Segments come by their UTC days and, within a day, in the order in which they were written; flows that are in \
          no segment yet come last, in pieces of about 2000000. With order = 'received' the flows of each segment or \
          piece are handed on by the time at which they were received, those of the same time as they are stored. Flows \
          of different segments are then out of order only as far as they came to the archive out of order: collecting \
          with several sockets does that by a fraction of a second, importing old captures by any time. \
          Each reader holds one segment, about 55 octets per flow with eleven columns of numbers and IPv4 addresses; \
          with order = 'stored' only what is being decoded. Counted are segments_read, and segments_damaged and \
          rows_damaged, the flows in them that were not handed on.",
    configure,
};

/// The same, with the columns that it reads.
pub const KIND_WITH_COLUMNS: KindWithColumns<ArchiveReaderOptions> =
    KindWithColumns { kind: KIND, columns: |_| ColumnRule::Kept, flow_columns };

choices! {
    /// What the flows of a segment are sorted by.
    pub enum Order {
        /// The time they were received.
        Received = "received",
        /// Their start; those without one come last.
        Start = "start",
        /// Nothing, which takes less than half the time and hardly any memory.
        Stored = "stored",
    }
}

choices! {
    /// What happens when a segment cannot be read or has vanished.
    pub enum Damaged {
        /// End with an error.
        Error = "error",
        /// Count it and go on with the next one.
        Skip = "skip",
    }
}

options! {
    /// Options of the source `archive-reader`.
    pub struct ArchiveReaderOptions {
        /// Folder of the archive.
        archive: PathBuf,
        /// Read these columns, which every burst then has, null where there is no value; without it a burst has the
        /// columns that have a value anywhere in its segment.
        columns: Option<Vec<String>>,
        /// Read only flows that start at this time or later, such as 2026-11-21T08:00:00Z; flows without a start are left
        /// out.
        from: Option<String>,
        /// Read only flows that start before this time; flows without a start are left out.
        to: Option<String>,
        /// Sort the flows of each segment.
        order: Order = Order::Received,
        /// Threads that read segments ahead, one segment each; with 0 the thread of the chain reads. The order of flows
        /// does not depend on it.
        readers: usize = 2 => 0..=64,
        /// At most this many flows in a burst.
        batch_rows: usize = 8192 => 1..=1 << 20,
        /// End after this many flows.
        rows_max: Option<u64> => 1..=1 << 62,
        /// What to do about a segment that cannot be read. Flows of it that were handed on before the damage was met stay;
        /// with an order there are none.
        damaged: Damaged = Damaged::Error,
    }
}

impl Order {
    /// The column to sort by.
    fn key(self) -> Option<Column> {
        match self {
            Self::Received => Some(Column::Received),
            Self::Start => Some(Column::Start),
            Self::Stored => None,
        }
    }
}

/// The options as the reader needs them.
#[derive(Debug)]
struct Settings {
    archive: PathBuf,
    /// In the order of the table; `None` for those that have a value.
    columns: Option<Vec<Column>>,
    span: StartSpan,
    order: Order,
    readers: usize,
    batch_rows: usize,
    rows_max: u64,
    skips_damaged: bool,
}

/// Those that are named. A name that is no column is an error of `configure`.
fn flow_columns(options: &ArchiveReaderOptions) -> FlowColumnRule {
    let Some(names) = &options.columns else { return FlowColumnRule::Unknown };
    FlowColumnRule::Only(names.iter().filter_map(|name| Column::by_name(name)).map(Column::name).collect())
}

fn configure(options: ArchiveReaderOptions) -> Result<Opener, OptionError> {
    let settings = Settings {
        columns: options.columns.map(columns).transpose()?,
        span: span(options.from.as_deref(), options.to.as_deref())?,
        archive: options.archive,
        order: options.order,
        readers: options.readers,
        batch_rows: options.batch_rows,
        rows_max: options.rows_max.unwrap_or(u64::MAX),
        skips_damaged: options.damaged == Damaged::Skip,
    };
    Ok(Box::new(move |context| Ok(Built::Source(Box::new(ArchiveReader::open(settings, context)?)))))
}

fn columns(names: Vec<String>) -> Result<Vec<Column>, OptionError> {
    let mut columns = Vec::new();
    for name in names {
        let unknown = || {
            let names: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
            OptionError::new("columns", format!("'{name}' is not a column of flows"))
                .with_hint(format!("columns are: {}", names.join(", ")))
        };
        columns.push(Column::by_name(&name).ok_or_else(unknown)?);
    }
    columns.sort_unstable();
    columns.dedup();
    Ok(columns)
}

fn span(from: Option<&str>, to: Option<&str>) -> Result<StartSpan, OptionError> {
    let from_ms = from.map(|text| moment("from", text)).transpose()?;
    let to_ms = to.map(|text| moment("to", text)).transpose()?;
    if from_ms.zip(to_ms).is_some_and(|(from_ms, to_ms)| to_ms <= from_ms) {
        return Err(OptionError::new("to", "'to' is not after 'from'"));
    }
    Ok(StartSpan { from_ms, to_ms })
}

fn moment(key: &str, text: &str) -> Result<i64, OptionError> {
    let Ok(moment) = text.parse::<Timestamp>() else {
        let message = format!("'{text}' is not a time with its zone");
        return Err(OptionError::new(key, message).with_hint("write it like 2026-11-21T08:00:00Z"));
    };
    Ok(moment.as_millisecond())
}

/// Where rows are read.
enum Reading {
    /// In the thread that calls.
    Here {
        runs: std::vec::IntoIter<Run>,
        run: Option<Run>,
        reader: Box<RunReader>,
    },
    /// In threads.
    Ahead(Ahead),
    Ended,
}

struct ArchiveReader {
    reading: Reading,
    /// Rows that may still be handed on.
    rows_left: u64,
}

impl ArchiveReader {
    fn open(settings: Settings, context: &ComponentContext) -> Result<Self, ComponentError> {
        // indexes are looked at as often as a segment is read
        let cached = HandleOptions { cache_octets_max: CACHE_OCTETS_MAX };
        let snapshot = ArchiveHandle::open(&settings.archive, &cached).and_then(|handle| handle.snapshot());
        let snapshot = snapshot.map_err(|error| {
            let hint = error.hint();
            let error = ComponentError::caused(format!("cannot open archive '{}'", settings.archive.display()), error);
            match hint {
                Some(hint) => ComponentError::new(format!("{}\nhint: {hint}", error.chain())),
                None => error,
            }
        })?;
        let runs = Run::of(&Arc::new(snapshot), settings.span);
        let counters = Counters {
            segments_read: context.counters.counter("segments_read"),
            segments_damaged: context.counters.counter("segments_damaged"),
            rows_damaged: context.counters.counter("rows_damaged"),
        };
        let readers = settings.readers.min(runs.len());
        let rows_left = settings.rows_max;
        let settings = Arc::new(settings);
        let reader = || RunReader::new(Arc::clone(&settings), counters.clone());
        let reading = if readers == 0 {
            Reading::Here { runs: runs.into_iter(), run: None, reader: Box::new(reader()) }
        } else {
            Reading::Ahead(Ahead::start(runs, (0..readers).map(|_| reader()).collect())?)
        };
        Ok(Self { reading, rows_left })
    }

    /// The next step; `None` when there is nothing left.
    fn step(&mut self) -> Result<Option<Step>, ComponentError> {
        match &mut self.reading {
            Reading::Ended => Ok(None),
            Reading::Ahead(ahead) => ahead.step(),
            Reading::Here { runs, run, reader } => {
                if run.is_none() {
                    *run = runs.next();
                }
                let Some(current) = run else { return Ok(None) };
                let step = reader.step(current)?;
                if matches!(step, Step::Done) {
                    *run = None;
                }
                Ok(Some(step))
            }
        }
    }
}

impl Source for ArchiveReader {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let is_ahead = matches!(self.reading, Reading::Ahead(_));
        match self.step()? {
            Some(Step::Rows(rows)) => {
                let count = self.rows_left.min(rows.num_rows() as u64);
                self.rows_left -= count;
                out.rows(rows.slice(0, count as usize));
                if self.rows_left == 0 {
                    self.reading = Reading::Ended;
                }
            }
            Some(Step::Busy) if is_ahead => return Ok(PullResult::Nothing),
            Some(Step::Busy | Step::Done) => {}
            None => {
                self.reading = Reading::Ended;
                return Ok(PullResult::Ended);
            }
        }
        Ok(PullResult::More)
    }

    fn stop(&mut self) {
        self.reading = Reading::Ended;
    }
}

#[cfg(test)]
mod tests;
