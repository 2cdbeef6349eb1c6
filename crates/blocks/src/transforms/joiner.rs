//! The joiner: one row for each flow, of the records into which exporters cut it.
//!
//! Kögel and Scholz give the joiner two parameters, and their sentences about them are exchanged: what they describe
//! as *maxDuration* ("how long the block should wait for another record") is a time to wait, and what they describe as
//! *maxWaitingTime* ("the maximum length of the created `JoinedFlows`") is a duration. The names are right, as the
//! reason given for the second one shows, and they are used here for what they say.
//!
//! A million flows and more wait at a time, so memory decides about speed. A flow is one line of the cache in one
//! [`table`], found by hash, and the lines of many rows are fetched together. When a flow may leave is looked up in a
//! [`wheel`] of lists rather than kept in order; what leaves together is sorted then. What speaks against it is that a
//! flow leaves up to a thousandth of the time to wait later than it could; it does not join records longer.

mod kept;
mod output;
mod records;
mod table;
mod wheel;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError, Outlet, Role,
    State, TimeSpan, Transform, choices, options,
};
use weir_flow::Column;

use self::kept::Kept;
use self::output::{JOINED, Output};
use self::records::Records;
use self::table::{FlowTable, Limits};
use weir_rows::flow_columns::TimeColumn;
use weir_rows::keys::{FIVE_TUPLE, FlowKeys};

/// What chain files call `joiner`.
pub const KIND: ComponentKind<JoinerOptions> = ComponentKind {
    name: "joiner",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Joins the records of one flow, which exporters cut apart by their active, inactive and fast timeouts and when \
          their cache is full, into one row, the joined flow. \
          It needs rows sorted by the column that `time` names; the largest value seen so far is the data time. Of \
          `start` and `end` one is enough; a row with neither is counted in `rows_without_time` and dropped, and so is \
          one with an address of more than 16 octets, in `rows_without_key`. \
          Records belong to the same flow when the columns that `keys` names are equal, two nulls being equal. A flow \
          leaves when the data time is more than `max_waiting` after the largest `end` of its records. When a \
          record would make it longer than `max_duration`, from the smallest `start` to the largest `end`, the flow \
          ends at that data time and another one begins with the record. A record that comes when its own time to wait \
          is over already becomes a flow by itself, unless its flow still waits (`rows_late`). \
          A joined flow has the columns of the key, the smallest `start`, the largest `end`, the `tcp_flags` of all \
          records together, the sums of `packets`, `bytes`, `packets_reverse` and `bytes_reverse`, in `flows` the number \
          of its records (or the sum of their `flows`), and the columns that `keep` names. A sum is null when all its \
          values are. Joined flows leave in the order of the times at which they ended or waited long enough, those of \
          the same time in the order in which they began. \
          With `direction = \"bi\"` records of both directions are joined. The direction of the first record counts as \
          forward; what the others carried is in `packets_reverse` and `bytes_reverse`. \
          Records of a flow that left early, see `table_rows_max`, begin a new one.",
    configure,
};

options! {
    /// Options of `joiner`.
    pub struct JoinerOptions {
        /// Take records that are equal in these columns for one flow; add exporter when the rows come from several.
        keys: Vec<String> = FIVE_TUPLE.map(|column| column.name().to_owned()).to_vec(),
        /// Which directions of a conversation become one flow.
        direction: Direction = Direction::Uni,
        /// Read the data time from this column, by which rows are sorted.
        time: TimeColumn = TimeColumn::End,
        /// Wait this long after the end of a flow for another record; make it more than the exporter's active timeout.
        max_waiting: TimeSpan = TimeSpan::from_secs(300),
        /// Let a joined flow be at most this long; otherwise flows that last for days would leave after days.
        max_duration: TimeSpan = TimeSpan::from_secs(1800),
        /// Keep the value that the first record has in these other columns.
        keep: Vec<String> = Vec::new(),
        /// Let at most this many flows wait; a flow of IPv4 takes about 100 bytes, one of IPv6 about 140. Over the
        /// limit the quarter that has waited longest leaves early and is counted in `rows_shed`.
        table_rows_max: usize = 10_000_000 => 1..=1 << 31,
    }
}

choices! {
    /// Which directions of a conversation become one flow.
    pub enum Direction {
        /// Each direction is a flow of its own.
        Uni = "uni",
        /// Both directions together are one flow.
        Bi = "bi",
    }
}

#[expect(clippy::needless_pass_by_value, reason = "what every kind has")]
fn configure(options: JoinerOptions) -> Result<Opener, OptionError> {
    let key = columns("keys", &options.keys)?;
    let keys = FlowKeys::new(&key)?;
    let is_bi = options.direction == Direction::Bi;
    if key.is_empty() {
        return Err(OptionError::new("keys", "'keys' names no column"));
    }
    if let Some(missing) = FIVE_TUPLE[..4].iter().find(|column| is_bi && !key.contains(column)) {
        return Err(OptionError::new("keys", format!("'direction' is \"bi\", but 'keys' has no '{missing}'")));
    }
    let keep = columns("keep", &options.keep)?;
    if let Some(known) = keep.iter().find(|column| key.contains(column) || JOINED.contains(column)) {
        return Err(OptionError::new("keep", format!("a joined flow has '{known}' already")));
    }
    let kept = Kept::new(&keep)?;
    let limits = Limits {
        time: options.time.column(),
        duration_ms: options.max_duration.millis(),
        waiting_ms: options.max_waiting.millis(),
        rows_max: options.table_rows_max,
    };
    Ok(Box::new(move |context| {
        Ok(Built::Transform(Box::new(Joiner {
            is_bi,
            with_received: limits.time == Column::Received,
            table: FlowTable::new(limits, keys.words(), kept),
            keys,
            records: Records::default(),
            output: Output::default(),
            counters: Counters::new(context),
        })))
    }))
}

/// Columns of flows by their names, each once.
fn columns(key: &str, names: &[String]) -> Result<Vec<Column>, OptionError> {
    let mut columns = Vec::new();
    for name in names {
        let column =
            Column::by_name(name).ok_or_else(|| OptionError::new(key, format!("'{name}' is not a column of flows")))?;
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    Ok(columns)
}

struct Counters {
    late: Counter,
    shed: Counter,
    without_time: Counter,
    without_key: Counter,
}

impl Counters {
    fn new(context: &ComponentContext) -> Self {
        Self {
            late: context.counters.counter("rows_late"),
            shed: context.counters.counter("rows_shed"),
            without_time: context.counters.counter("rows_without_time"),
            without_key: context.counters.counter("rows_without_key"),
        }
    }
}

struct Joiner {
    is_bi: bool,
    with_received: bool,
    keys: FlowKeys,
    records: Records,
    table: FlowTable,
    output: Output,
    counters: Counters,
}

/// Rows of a burst that is handed on.
const BURST_ROWS: usize = 8192;

impl Joiner {
    fn count(&mut self) {
        self.counters.late.add(std::mem::take(&mut self.table.rows_late));
        self.counters.shed.add(std::mem::take(&mut self.table.rows_shed));
        let refused = self.keys.keys().iter().filter(|key| key.is_refused()).count();
        self.counters.without_key.add(refused as u64);
        let rows = self.records.rows.iter().zip(self.keys.keys());
        let timeless = rows.filter(|(record, key)| !record.has_time() && !key.is_refused()).count();
        self.counters.without_time.add(timeless as u64);
    }

    fn hand_on(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        for places in self.table.ready.chunks(BURST_ROWS) {
            out.rows(self.output.batch(&self.table, &self.keys, places, self.is_bi)?);
        }
        self.table.release();
        Ok(())
    }
}

impl Transform for Joiner {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        if self.is_bi {
            self.keys.encode_normalised(&rows)?;
        } else {
            self.keys.encode(&rows)?;
        }
        self.records.fill(&rows, self.with_received)?;
        self.table.kept.read(&rows)?;
        let mut from = 0;
        while from < rows.num_rows() {
            from = self.table.join(&self.keys, &self.records, from, BURST_ROWS);
            self.hand_on(out)?;
        }
        self.count();
        Ok(())
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.table.close_all();
        self.hand_on(out)
    }

    fn state(&self) -> State {
        State { rows: self.table.len() as u64, octets: self.table.octets() as u64, edge_ms: self.table.start_ms() }
    }
}

#[cfg(test)]
mod tests;
