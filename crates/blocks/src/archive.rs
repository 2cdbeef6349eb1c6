//! Flows into weir's own archive.
//!
//! A burst becomes one delivery: its flows and its lines of the books are one frame of the tail, kept or refused
//! together. What a block before may leave out is put right here, because an archive cannot: the time of reception, by
//! which segments are laid out in days, and the order of the columns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use weir_archive::{ArchiveError, ArchiveOptions, Recovery, Writer};
use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Burst, Counter, ONE_INPUT, Opener, ParameterError, ParameterSpec,
    ParameterType, Parameters, Role, Sink, StopSignal,
};
use weir_flow::schema::arrow_type;
use weir_flow::{Column, Delivery, FlowBatch};

/// Keeps flows in an archive.
pub const KIND: BlockKind = BlockKind {
    name: "archive",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Keeps flows, and the books that come with them, in a weir archive, which is made when it is not there. It needs \
          no certain columns; a column that is not one of flows is an error unless extra_columns says otherwise. A burst \
          is kept as one frame, all of it or nothing; it can be read at once. While the disk is full the sink waits and \
          tries again every half second, until there is room or the chain is stopped; then it fails, and the flows that \
          it could not keep are counted in rows_refused. The end of the chain seals the archive. Counted are \
          rows_stored, rows_durable (those that survive a crash of the machine), rows_refused, write_failures (attempts \
          that failed), seal_failures, segments_sealed and octets_sealed.",
    parameters: &[
        ParameterSpec {
            key: "archive",
            parameter_type: ParameterType::Path,
            default: None,
            doc: "Folder of the archive.",
        },
        ParameterSpec {
            key: "received",
            parameter_type: ParameterType::Choice(&["end", "now", "error"]),
            default: Some("\"end\""),
            doc: "What a flow gets as its time of reception when it has none: its end (its start when it has no end, the \
                  time now when it has neither), the time now, or an error that ends the chain. A time that is there is \
                  kept.",
        },
        ParameterSpec {
            key: "extra_columns",
            parameter_type: ParameterType::Choice(&["error", "drop"]),
            default: Some("\"error\""),
            doc: "What to do about columns that are not columns of flows.",
        },
        ParameterSpec {
            key: "commit_interval_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("1"),
            doc: "Longest time that flows stay unsynced.",
        },
        ParameterSpec {
            key: "seal_interval_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("300"),
            doc: "Longest time before the tail is sealed into a segment.",
        },
        ParameterSpec {
            key: "segment_rows_max",
            parameter_type: ParameterType::Integer(1, 1 << 30),
            default: Some("2000000"),
            doc: "Flows after which the tail is sealed into a segment.",
        },
    ],
    configure,
};

/// Pause before the archive is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How soon a pause is ended when the chain is stopped.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// What a flow without a time of reception gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MissingReceived {
    End,
    Now,
    Error,
}

#[expect(clippy::unnecessary_wraps, reason = "the signature is that of every kind")]
fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let path = parameters.path("archive").unwrap_or_default();
    let options = ArchiveOptions {
        commit_interval: parameters.duration("commit_interval_secs"),
        seal_interval: parameters.duration("seal_interval_secs"),
        segment_rows_max: parameters.integer("segment_rows_max") as usize,
        ..ArchiveOptions::default()
    };
    let missing_received = match parameters.text("received") {
        "now" => MissingReceived::Now,
        "error" => MissingReceived::Error,
        _ => MissingReceived::End,
    };
    let drops_extra = parameters.text("extra_columns") == "drop";
    Ok(Box::new(move |context| {
        let (writer, recovery) = Writer::open(&path, options).map_err(|error| cannot("open", &path, error))?;
        tell_recovery(&recovery, context);
        let counters = Counters::new(context);
        let archive =
            Archive { writer: Some(writer), path, missing_received, drops_extra, stop: context.stop.clone(), counters };
        Ok(Built::Sink(Box::new(archive)))
    }))
}

fn cannot(action: &str, path: &Path, error: ArchiveError) -> BlockError {
    BlockError::caused(format!("cannot {action} archive '{}'", path.display()), error)
}

/// Tells what opening the archive found, when there is something to tell.
fn tell_recovery(recovery: &Recovery, context: &BlockContext) {
    if recovery.tails > 0 || recovery.torn_octets > 0 {
        context.notes.add(format!(
            "recovered: {} tails with {} flows to seal, {} octets of an unfinished write cut",
            recovery.tails, recovery.rows, recovery.torn_octets
        ));
    }
    for damage in &recovery.damages {
        context.notes.add(format!(
            "warning: a damaged tail was set aside: {} ({} octets and {} whole flows behind the damage are not read)",
            damage.path.display(),
            damage.octets_lost,
            damage.rows_behind
        ));
    }
}

struct Counters {
    rows_stored: Counter,
    rows_durable: Counter,
    rows_refused: Counter,
    write_failures: Counter,
    seal_failures: Counter,
    segments_sealed: Counter,
    octets_sealed: Counter,
}

impl Counters {
    fn new(context: &BlockContext) -> Self {
        let counter = |name| context.meter.counter(name);
        Self {
            rows_stored: counter("rows_stored"),
            rows_durable: counter("rows_durable"),
            rows_refused: counter("rows_refused"),
            write_failures: counter("write_failures"),
            seal_failures: counter("seal_failures"),
            segments_sealed: counter("segments_sealed"),
            octets_sealed: counter("octets_sealed"),
        }
    }

    /// Brings the counters up to what the writer says of itself.
    fn update(&self, statistics: &weir_archive::Statistics) {
        for (counter, value) in [
            (&self.rows_durable, statistics.rows_durable),
            (&self.seal_failures, statistics.seal_failures),
            (&self.segments_sealed, statistics.segments_sealed),
            (&self.octets_sealed, statistics.octets_sealed),
        ] {
            counter.add(value.saturating_sub(counter.get()));
        }
    }
}

struct Archive {
    /// `None` once it is closed.
    writer: Option<Writer>,
    path: PathBuf,
    missing_received: MissingReceived,
    drops_extra: bool,
    stop: StopSignal,
    counters: Counters,
}

impl Sink for Archive {
    fn take(&mut self, burst: Burst) -> Result<(), BlockError> {
        let (rows, books) = burst.into_parts();
        let count = rows.num_rows() as u64;
        let flows = if count > 0 { Some(self.flows(&rows)) } else { None };
        let kept = flows.transpose().and_then(|flows| self.append(&Delivery { flows, books }));
        match kept {
            Ok(()) => self.counters.rows_stored.add(count),
            Err(_) => self.counters.rows_refused.add(count),
        }
        kept
    }

    fn finish(&mut self) -> Result<(), BlockError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let durability = writer.durability();
        let closed = writer.close();
        let rows_durable = &self.counters.rows_durable;
        rows_durable.add(durability.rows_durable().saturating_sub(rows_durable.get()));
        self.counters.update(&closed.map_err(|error| cannot("close", &self.path, error))?.statistics);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), BlockError> {
        if let Some(writer) = &self.writer {
            self.counters.update(&writer.statistics());
        }
        Ok(())
    }
}

impl Archive {
    /// Appends a delivery, again and again while a failure may pass.
    fn append(&mut self, delivery: &Delivery) -> Result<(), BlockError> {
        let Some(writer) = &mut self.writer else {
            return Err(BlockError::new(format!("archive '{}' is closed", self.path.display())));
        };
        let mut failed_before = false;
        loop {
            // asked before the attempt, so that there is one more after the chain was stopped
            let is_last = self.stop.is_set();
            // columns are shared, so a copy to try again with costs nothing
            let Err(error) = writer.append(delivery.clone()) else {
                if failed_before {
                    tracing::info!("archive '{}' takes flows again", self.path.display());
                }
                return Ok(());
            };
            self.counters.write_failures.add(1);
            let may_pass = error.may_pass();
            let error = cannot("write to", &self.path, error);
            if is_last || !may_pass {
                return Err(error);
            }
            if !failed_before {
                tracing::warn!("{}; trying again", error.chain());
            }
            failed_before = true;
            pause(&self.stop);
        }
    }

    /// The rows as flows: their columns in the order of the table, all of them with a time of reception.
    fn flows(&self, rows: &RecordBatch) -> Result<FlowBatch, BlockError> {
        let flows = match FlowBatch::try_new(rows.clone()) {
            Ok(flows) => flows,
            Err(_) => self.arranged(rows)?,
        };
        match flows.column(Column::Received) {
            Some(received) if received.null_count() == 0 => Ok(flows),
            _ => self.received(&flows),
        }
    }

    /// Brings columns into the order of the table, without those that are not columns of flows if that is allowed.
    fn arranged(&self, rows: &RecordBatch) -> Result<FlowBatch, BlockError> {
        let mut columns: Vec<(Column, usize)> = Vec::new();
        for (position, field) in rows.schema_ref().fields().iter().enumerate() {
            match Column::by_name(field.name()) {
                Some(column) => columns.push((column, position)),
                None if self.drops_extra => {}
                None => {
                    return Err(BlockError::new(format!(
                        "column '{}' is not a column of flows\nhint: extra_columns = 'drop' leaves it out",
                        field.name()
                    )));
                }
            }
        }
        columns.sort_unstable();
        let positions: Vec<usize> = columns.into_iter().map(|(_, position)| position).collect();
        let rows = rows.project(&positions).map_err(|error| BlockError::caused("cannot arrange columns", error))?;
        FlowBatch::try_new(rows).map_err(|error| BlockError::caused("cannot keep these columns", error))
    }

    /// The flows with a time of reception where they have none.
    fn received(&self, flows: &FlowBatch) -> Result<FlowBatch, BlockError> {
        let times = |column| {
            let times = flows.column(column).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>());
            move |row: usize| times.filter(|times| times.is_valid(row)).map(|times| times.value(row))
        };
        let (received, end, start) = (times(Column::Received), times(Column::End), times(Column::Start));
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        let fill = |row| match self.missing_received {
            MissingReceived::End => Some(end(row).or_else(|| start(row)).unwrap_or(now_ms)),
            MissingReceived::Now => Some(now_ms),
            MissingReceived::Error => None,
        };
        let filled: Option<Vec<i64>> = (0..flows.rows()).map(|row| received(row).or_else(|| fill(row))).collect();
        let Some(filled) = filled else {
            return Err(BlockError::new(
                "flows without a time of reception cannot be kept\nhint: received = 'end' takes the time of their end",
            ));
        };
        let filled = TimestampMillisecondArray::from(filled).with_data_type(arrow_type(Column::Received.column_type()));
        let others = Column::ALL.iter().filter(|column| **column != Column::Received);
        let others = others.filter_map(|&column| Some((column, Arc::clone(flows.column(column)?))));
        // `received` is the first column of the table
        let columns = std::iter::once((Column::Received, Arc::new(filled) as ArrayRef)).chain(others).collect();
        FlowBatch::from_columns(flows.rows(), columns)
            .map_err(|error| BlockError::caused("cannot add the time of reception", error))
    }
}

/// Waits before the next attempt, or until the chain is stopped.
fn pause(stop: &StopSignal) {
    let until = Instant::now() + RETRY;
    while !stop.is_set() && Instant::now() < until {
        thread::sleep(STOP_LOOK);
    }
}

#[cfg(test)]
mod tests;
