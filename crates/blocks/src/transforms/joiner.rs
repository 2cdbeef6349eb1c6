//! The joiner: one row for each flow, of the records into which exporters cut it.
//!
//! Kögel and Scholz give the joiner two parameters, and their sentences about them are exchanged: what they describe
//! as *maxDuration* ("how long the block should wait for another record") is a time to wait, and what they describe as
//! *maxWaitingTime* ("the maximum length of the created `JoinedFlows`") is a duration. The names are right, as the
//! reason given for the second one tells, and they are used here for what they say.
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
    Built, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, Outlet, ParameterError,
    ParameterSpec, ParameterType, Parameters, Role, State, Transform,
};
use weir_flow::Column;

use self::kept::Kept;
use self::output::{JOINED, Output};
use self::records::Records;
use self::table::{FlowTable, Limits};
use weir_rows::keys::{FIVE_TUPLE, FlowKeys};

/// What chain files call `joiner`.
pub const KIND: ComponentKind = ComponentKind {
    name: "joiner",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Joins the records of one flow, which exporters cut apart by their active, inactive and fast timeouts and when \
          their cache is full, into one row, the joined flow. \
          It needs rows sorted by the column that `time` names; the largest value seen so far is the data time. Of \
          `start` and `end` one is enough; a row with neither is counted in `rows_without_time` and dropped, and so is \
          one with an address of more than 16 octets, in `rows_without_key`. \
          Records belong to the same flow when the columns that `by` names are equal, two nulls being equal. A flow \
          leaves when the data time is more than `max_waiting_secs` after the largest `end` of its records. When a \
          record would make it longer than `max_duration_secs`, from the smallest `start` to the largest `end`, the flow \
          ends at that data time and another one begins with the record. A record that comes when its own time to wait \
          is over already becomes a flow by itself, unless its flow still waits (`rows_late`). \
          A joined flow has the columns of the key, the smallest `start`, the largest `end`, the `tcp_flags` of all \
          records together, the sums of `packets`, `bytes`, `packets_reverse` and `bytes_reverse`, in `flows` the number \
          of its records (or the sum of their `flows`), and the columns that `keep` names. A sum is null when all its \
          values are. Joined flows leave in the order of the times at which they ended or waited long enough, those of \
          the same time in the order in which they began. \
          With `direction = \"bi\"` records of both directions are joined. The direction of the first record counts as \
          forward; what the others carried is in `packets_reverse` and `bytes_reverse`. \
          When more flows than `table_rows_max` wait, the quarter that has waited longest leaves early (`rows_shed`); \
          records that come after that begin new flows.",
    parameters: &[
        ParameterSpec {
            key: "by",
            parameter_type: ParameterType::Texts,
            default: Some("[\"src_addr\", \"dst_addr\", \"src_port\", \"dst_port\", \"protocol\"]"),
            doc: "The columns that are the same in all records of a flow; add \"exporter\" when the rows come from \
                  several.",
        },
        ParameterSpec {
            key: "direction",
            parameter_type: ParameterType::Choice(&["uni", "bi"]),
            default: Some("\"uni\""),
            doc: "Whether a flow is one direction of a conversation or both.",
        },
        ParameterSpec {
            key: "time",
            parameter_type: ParameterType::Choice(&["start", "end", "received"]),
            default: Some("\"end\""),
            doc: "The column of time by which rows are sorted.",
        },
        ParameterSpec {
            key: "max_waiting_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("300"),
            doc: "How long after its end a flow waits for another record; it should be more than the exporter's active \
                  timeout.",
        },
        ParameterSpec {
            key: "max_duration_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("1800"),
            doc: "How long a joined flow may be; without this, flows that last for days would leave after days.",
        },
        ParameterSpec {
            key: "keep",
            parameter_type: ParameterType::Texts,
            default: Some("[]"),
            doc: "Other columns, of which a joined flow has the value of its first record.",
        },
        ParameterSpec {
            key: "table_rows_max",
            parameter_type: ParameterType::Integer(1, 1 << 31),
            default: Some("10000000"),
            doc: "How many flows may wait; a flow of IPv4 takes about 100 octets, one of IPv6 about 140.",
        },
        ParameterSpec {
            key: "when_full",
            parameter_type: ParameterType::Choice(&["shed"]),
            default: Some("\"shed\""),
            doc: "What happens to flows over the limit: those that have waited longest leave early.",
        },
    ],
    configure,
};

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let by = columns("by", &parameters.texts("by"))?;
    let keys = FlowKeys::new(&by)?;
    let is_bi = parameters.text("direction") == "bi";
    if by.is_empty() {
        return Err(ParameterError::new("by", "'by' names no column"));
    }
    if let Some(missing) = FIVE_TUPLE[..4].iter().find(|column| is_bi && !by.contains(column)) {
        return Err(ParameterError::new("by", format!("'direction' is \"bi\", but 'by' has no '{missing}'")));
    }
    let keep = columns("keep", &parameters.texts("keep"))?;
    if let Some(known) = keep.iter().find(|column| by.contains(column) || JOINED.contains(column)) {
        return Err(ParameterError::new("keep", format!("a joined flow has '{known}' already")));
    }
    let kept = Kept::new(&keep)?;
    let limits = Limits {
        time: Column::by_name(parameters.text("time")).unwrap_or(Column::End),
        duration_ms: parameters.millis("max_duration_secs"),
        waiting_ms: parameters.millis("max_waiting_secs"),
        rows_max: parameters.integer("table_rows_max") as usize,
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
fn columns(key: &str, names: &[String]) -> Result<Vec<Column>, ParameterError> {
    let mut columns = Vec::new();
    for name in names {
        let column = Column::by_name(name)
            .ok_or_else(|| ParameterError::new(key, format!("'{name}' is not a column of flows")))?;
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
