//! A sink that sends flows as `NetFlow` v5, `NetFlow` v9 or IPFIX, in datagrams and over connections.
//!
//! ```text
//! flows ─▶ exporter ─▶ messages ─▶ outbox ─▶ UDP
//!              └─▶ announcements ─▶ link ─▶ a thread ─▶ TCP, TLS, SCTP
//! ```
//!
//! An exporter hands out templates and options apart from flows, and each collector gets them when it needs them: at the
//! beginning of a session, and over UDP again and again. Sequence numbers are those of the session. So one exporter serves
//! any number of collectors, however often each of them closes its session and begins another.
//!
//! Where flows go to several collectors in turn, each of them has an exporter of its own, because a collector that sees
//! only some messages of an exporter would count the others as lost.

mod announcements;
mod configuration;
mod counters;
mod lane;
mod link;
pub mod options;
mod options_selection;
mod outbox;
mod pace;
mod stopping;
mod stream;
pub mod target;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::compute::max;
use arrow::datatypes::{SchemaRef, TimestampMillisecondType};
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, ONE_INPUT, Opener, OptionError, Role, Sink, State,
};
use weir_flow::{Column, FlowBatch};

use announcements::Announcements;
use configuration::Configuration;
use counters::ExportCounters;
use lane::{Collector, Lane};
use link::Link;
pub use options::ExportOptions;
use options_selection::OptionsSelection;
use outbox::{Outbox, Sockets};
use pace::Pace;
use stopping::Stopping;
use target::Target;

/// The kind `export`.
pub const KIND: ComponentKind<ExportOptions> = ComponentKind {
    name: "export",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Sends flows to collectors: NetFlow v5, NetFlow v9 and IPFIX over UDP, IPFIX also over TCP, TLS and SCTP. It \
          takes rows with columns of flows; other columns are left out. A null goes out as an absent field in NetFlow v9 \
          and IPFIX and as 0 in NetFlow v5. A flow that the protocol cannot tell exactly is refused whole and counted by \
          reason: `records_refused_address` (an IPv6 address in NetFlow v5), `records_refused_value` (a number that is \
          too large for its field), `records_refused_time` (NetFlow v5 and v9: after the export, more than 24 days \
          before it, or before the exporter began), `records_refused_length` and `records_refused_template`. In NetFlow \
          v5 a biflow goes out as a flow for each direction, and a flow over 4294967295 octets or packets as several \
          (up to 1024) that add up to it; each counts. Values without a field in the protocol \
          are counted in `values_left_out`, their flows go out without them. Rows of `exporter_options` beside the flows \
          are told as well, those of interfaces and samplers of the first exporter whose rows come, NetFlow v5 only the \
          sampling interval: `options_told`; the others are counted in `options_left_out`. \
          All that follows is counted for each collector, so that a flow for two of them counts twice. \
          `records_exported` are flows that the system has taken, `records_unsent` those that it has not; of datagrams \
          there are `datagrams_sent` and `datagrams_failed`, and whether one arrived is not known to its sender. \
          Messages for a connection (`messages_sent` when they were written) wait in a queue while there is none and \
          while the collector reads slowly; when it is full, what comes is not sent. Connections are made again for ever, \
          after 0.25 to 15 seconds: `connections_made`, `connections_failed` (attempts that came to nothing) and \
          `connections_lost`. Flows that were written into a connection within the stall timeout and 5 seconds before it \
          was lost are counted in `records_uncertain` besides: whether they arrived is not known, and they are not sent \
          again. What a collector's system has acknowledged and the collector never reads counts as exported. \
          `octets_sent` are those of datagrams and messages.",
    configure,
};

/// Flows that a collector gets in one turn when they are distributed round-robin.
const TURN_ROWS: u64 = 512;
/// About how often [`Sink::tick`] is called.
const TICK: Duration = Duration::from_secs(1);

fn configure(options: ExportOptions) -> Result<Opener, OptionError> {
    let configuration = Configuration::of(options)?;
    Ok(Box::new(move |context: &ComponentContext| Ok(Built::Sink(Box::new(Export::open(&configuration, context)?)))))
}

#[derive(Debug)]
struct Export {
    lanes: Vec<Lane>,
    options_selection: OptionsSelection,
    pace: Option<Pace>,
    /// Rows taken so far.
    rows: u64,
    is_clock_of_rows: bool,
    /// The latest time of the rows so far.
    clock_ms: Option<i64>,
    /// The columns of the last rows, and where in them those of flows are.
    columns: Option<(SchemaRef, Vec<usize>)>,
    queue_timeout: Duration,
    finish_timeout: Duration,
    stopping: Arc<Stopping>,
    /// Since when flows may wait for their message to be full.
    waiting_since: Option<Instant>,
}

impl Export {
    fn open(configuration: &Configuration, context: &ComponentContext) -> Result<Self, ComponentError> {
        let (counters, tls) = (ExportCounters::new(&context.counters), configuration.tls_client()?);
        let stopping = Arc::new(Stopping::new(context.stop.clone(), configuration.stop_timeout));
        let mut sockets = Sockets::default();
        let mut collector = |target: &Target, announcements: &Arc<Announcements>| {
            let counters = counters.clone();
            if target.is_connection() {
                let dialling = configuration.dialling(target, tls.as_ref())?;
                let patience = (configuration.queue_limits, Arc::clone(&stopping));
                let link = Link::start(dialling, Arc::clone(announcements), patience, counters);
                return link.map(Collector::Connection);
            }
            let address = configuration.address(target)?;
            let socket = sockets.towards(address, configuration.from)?;
            let exporter = &configuration.exporter;
            let place = (target.clone(), address);
            let outbox = Outbox::new(socket, place, exporter.version, exporter.template_refresh, counters);
            Ok(Collector::Datagrams(Box::new(outbox)))
        };
        let each = if configuration.is_in_turn { 1 } else { configuration.targets.len() };
        let lanes = configuration.targets.chunks(each).map(|targets| {
            Lane::new(&configuration.exporter, &context.counters, |announcements| {
                targets.iter().map(|target| collector(target, announcements)).collect()
            })
        });
        Ok(Self {
            lanes: lanes.collect::<Result<_, ComponentError>>()?,
            options_selection: OptionsSelection::new(&context.counters),
            pace: configuration.records_per_second.map(Pace::new),
            rows: 0,
            is_clock_of_rows: configuration.is_clock_of_rows,
            clock_ms: None,
            columns: None,
            queue_timeout: configuration.queue_timeout,
            finish_timeout: configuration.finish_timeout,
            stopping: Arc::clone(&stopping),
            waiting_since: None,
        })
    }

    /// The columns of flows, in their order.
    fn flows(&mut self, rows: &RecordBatch) -> Result<RecordBatch, ComponentError> {
        if !matches!(&self.columns, Some((schema, _)) if std::sync::Arc::ptr_eq(schema, rows.schema_ref())) {
            let position = |column: &Column| rows.schema_ref().index_of(column.name()).ok();
            let positions: Vec<usize> = Column::ALL.iter().filter_map(position).collect();
            if positions.is_empty() {
                return Err(ComponentError::new("rows have no column of flows"));
            }
            self.columns = Some((rows.schema(), positions));
        }
        let positions = self.columns.as_ref().map_or(&[][..], |(_, positions)| positions);
        rows.project(positions).map_err(|error| ComponentError::caused("rows are no flows", error))
    }

    /// Time of export of flows that come next.
    fn now_ms(&mut self, flows: Option<&FlowBatch>) -> i64 {
        if self.is_clock_of_rows {
            // of a biflow the opposite direction may end later, and NetFlow v5 has it as a flow of its own
            let columns = [Column::Start, Column::End, Column::StartReverse, Column::EndReverse];
            let times = columns.map(|column| {
                let times = flows.and_then(|flows| flows.primitive::<TimestampMillisecondType>(column));
                times.and_then(max)
            });
            self.clock_ms = times.into_iter().flatten().chain(self.clock_ms).max();
        }
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        self.clock_ms.unwrap_or_else(now)
    }

    fn flush(&mut self) {
        self.waiting_since = None;
        let now_ms = self.now_ms(None);
        for lane in &mut self.lanes {
            lane.flush(now_ms);
        }
    }

    /// How many of the rows that are left go together, and to which lane.
    fn next(&self, left: usize) -> (usize, usize) {
        let piece = left.min(self.pace.as_ref().map_or(usize::MAX, Pace::piece));
        if self.lanes.len() == 1 {
            return (piece, 0);
        }
        let lane = self.rows / TURN_ROWS % self.lanes.len() as u64;
        let turn = TURN_ROWS - self.rows % TURN_ROWS;
        (piece.min(turn as usize), lane as usize)
    }

    fn rows(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        let rows = self.flows(rows)?;
        let mut from = 0;
        while from < rows.num_rows() {
            let (count, lane) = self.next(rows.num_rows() - from);
            let flows = FlowBatch::try_new(rows.slice(from, count));
            let flows = flows.map_err(|error| ComponentError::caused("rows are no flows", error))?;
            if let Some(pace) = &mut self.pace {
                std::thread::sleep(pace.wait(Instant::now(), count));
            }
            let now_ms = self.now_ms(Some(&flows));
            self.lanes[lane].encode(&flows, now_ms);
            self.rows += count as u64;
            from += count;
        }
        Ok(())
    }
}

impl Sink for Export {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        // Options Data next to the flows explains them
        let lanes = &mut self.lanes;
        self.options_selection.take(burst.side_tables(), |data| {
            let mut is_exported = true;
            for lane in &mut *lanes {
                is_exported &= lane.add_options(data);
            }
            is_exported
        });
        // A burst may have books alone, and then no columns.
        if burst.rows().num_rows() > 0 {
            self.rows(burst.rows())?;
        }
        if self.queue_timeout.is_zero() {
            self.flush();
        } else {
            self.waiting_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        self.flush();
        // all at the same time, so that none waits for another
        let deadline = Instant::now() + self.finish_timeout;
        self.lanes.iter().for_each(|lane| lane.close(deadline));
        // flows on their way when the chain was stopped have taken their time, and what waits has some of its own
        let stopping = self.stopping.anew();
        self.lanes.iter().for_each(|lane| lane.wait(&stopping));
        Ok(())
    }

    fn tick(&mut self) -> Result<(), ComponentError> {
        // at the next tick it would be too late
        if self.waiting_since.is_some_and(|since| since.elapsed() + TICK > self.queue_timeout) {
            self.flush();
        }
        Ok(())
    }

    fn state(&self) -> State {
        let queued = self.lanes.iter().map(Lane::queued).fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
        let rows = self.lanes.iter().map(Lane::waiting).sum::<u64>() + queued.0;
        State { rows, octets: queued.1 as u64, ..State::default() }
    }
}

#[cfg(test)]
mod tests;
