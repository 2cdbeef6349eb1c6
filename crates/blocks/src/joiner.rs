//! Joins what exporters tell of one flow in several records.
//!
//! A router exports a flow apart when it lasts longer than the active timeout, pauses longer than the inactive timeout,
//! has few packets at the fast timeout, or when its cache is cleared. The joiner of Kögel and Scholz puts these records
//! together again: the JoinedFlow.
//!
//! Flows lie in one flat table, found by their hash; each is in one bucket of a ring by the time when it may leave. A
//! record that prolongs a flow does not move it: it is moved when its bucket comes up, at most once for each time it was
//! prolonged. A bucket leaves as a whole, sorted, when the data time has passed it. What speaks against buckets is that
//! flows leave up to a thousandth of the waiting time late.

mod output;
mod table;

use arrow::array::RecordBatch;
use arrow::datatypes::{TimestampMillisecondType, UInt16Type, UInt64Type};
use weir_chain::{
    Block, BlockContext, BlockError, BlockKind, Built, Counter, ONE_INPUT, Opener, Outlet, ParameterError,
    ParameterSpec, ParameterType, Parameters, Role, Window,
};
use weir_flow::Column;

use crate::five_tuple::{Key, Keys, turned};
use crate::flow_columns::{number, numbers, octets, value};
use crate::keys::Seed;
use output::Shape;
use table::{Record, Table};

/// Joins records of the same flow.
pub const KIND: BlockKind = BlockKind {
    name: "joiner",
    role: Role::Block,
    inputs: ONE_INPUT,
    doc: "Joins the records that an exporter told of one flow, because of active, inactive or fast timeouts or because \
          its cache was cleared, into one row: the JoinedFlow of Kögel and Scholz (2010). Records are of one flow when \
          source and destination address, ports and protocol are equal and the next one ends no later than \
          max_waiting_secs after the one before. Its input should be sorted by end: the data time is the largest end \
          seen so far, and a flow is handed on when the data time has passed its own end by max_waiting_secs (in the \
          paper: how long the block waits for another record). A flow never lasts longer than max_duration_secs: a \
          record that would stretch it beyond begins a new one. It hands on start (the smallest), end (the largest), the \
          key, tcp_flags (all combined), packets, bytes (the sums; null counts as 0), flows (how many records were \
          joined, or the flows they stand for), in the order of their ends. Records without an end are counted in \
          rows_without_time and dropped; a missing start is taken as the end. A record that comes later than its flow \
          could wait is a flow of its own, counted in rows_late. Over flows_max the flows that would leave first leave \
          early, counted in flows_shed, and what comes of them later begins anew.",
    parameters: &[
        ParameterSpec {
            key: "max_waiting_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("300"),
            doc: "How long a flow waits for another record, from its end on.",
        },
        ParameterSpec {
            key: "max_duration_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("86400"),
            doc: "How long a flow may last.",
        },
        ParameterSpec {
            key: "direction",
            parameter_type: ParameterType::Choice(&["uni", "bi"]),
            default: Some("\"uni\""),
            doc: "With bi the records of both directions become one flow, in the direction of the one that came first; \
                  what came in the other is in packets_reverse and bytes_reverse.",
        },
        ParameterSpec {
            key: "exporters",
            parameter_type: ParameterType::Choice(&["together", "apart"]),
            default: Some("\"together\""),
            doc: "With apart the exporter is part of the key, and handed on.",
        },
        ParameterSpec {
            key: "flows_max",
            parameter_type: ParameterType::Integer(1, 1 << 31),
            default: Some("4000000"),
            doc: "Flows that may wait, about 110 octets each.",
        },
    ],
    configure,
};

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let waiting_ms = parameters.millis("max_waiting_secs");
    let duration_ms = parameters.millis("max_duration_secs");
    let shape =
        Shape { both_ways: parameters.text("direction") == "bi", exporters: parameters.text("exporters") == "apart" };
    let flows_max = parameters.integer("flows_max") as usize;
    Ok(Box::new(move |context| {
        Ok(Built::Block(Box::new(Joiner {
            shape,
            flows_max,
            seed: Seed::random(),
            table: Table::new(waiting_ms, duration_ms, shape),
            records: Vec::new(),
            counters: Counters::new(context),
        })))
    }))
}

struct Joiner {
    shape: Shape,
    flows_max: usize,
    seed: Seed,
    table: Table,
    /// The records of one batch.
    records: Vec<Record>,
    counters: Counters,
}

struct Counters {
    without_time: Counter,
    late: Counter,
    shed: Counter,
}

impl Counters {
    fn new(context: &BlockContext) -> Self {
        Self {
            without_time: context.meter.counter("rows_without_time"),
            late: context.meter.counter("rows_late"),
            shed: context.meter.counter("flows_shed"),
        }
    }
}

/// Records whose places in the table are read ahead, so that their memory comes in parallel.
const AHEAD: usize = 16;

impl Joiner {
    /// Reads the columns of a batch into records.
    fn read(&mut self, rows: &RecordBatch) -> Result<(), BlockError> {
        let start = numbers::<TimestampMillisecondType>(rows, Column::Start)?;
        let end = numbers::<TimestampMillisecondType>(rows, Column::End)?;
        let packets = numbers::<UInt64Type>(rows, Column::Packets)?;
        let bytes = numbers::<UInt64Type>(rows, Column::Bytes)?;
        let flows = numbers::<UInt64Type>(rows, Column::Flows)?;
        let tcp_flags = numbers::<UInt16Type>(rows, Column::TcpFlags)?;
        let exporters = if self.shape.exporters { octets(rows, Column::Exporter)? } else { None };
        let keys = Keys::new(rows)?;
        self.records.clear();
        self.records.reserve(rows.num_rows());
        let mut without_time = 0;
        for row in 0..rows.num_rows() {
            let Some(end_ms) = number(end, row) else {
                without_time += 1;
                continue;
            };
            let (key, is_turned) = self.normal(keys.key(row));
            let exporter = self.shape.exporters.then(|| exporter_words(value(exporters, row))).unwrap_or_default();
            self.records.push(Record {
                hash: self.hash(&key, exporter),
                key,
                exporter,
                is_turned,
                start_ms: number(start, row).unwrap_or(end_ms).min(end_ms),
                end_ms,
                packets: number(packets, row).unwrap_or(0),
                bytes: number(bytes, row).unwrap_or(0),
                flows: number(flows, row).unwrap_or(1),
                tcp_flags: number(tcp_flags, row).unwrap_or(0),
            });
        }
        self.counters.without_time.add(without_time);
        Ok(())
    }

    #[inline]
    fn hash(&self, key: &Key, exporter: [u64; 3]) -> u64 {
        if self.shape.exporters {
            let [a, b, c, d, e] = *key;
            let [f, g, h] = exporter;
            self.seed.hash(&[a, b, c, d, e, f, g, h])
        } else {
            self.seed.hash(key)
        }
    }

    /// The key by which a flow is known, and whether that is the one of the other direction.
    #[inline]
    fn normal(&self, key: Key) -> (Key, bool) {
        if !self.shape.both_ways {
            return (key, false);
        }
        let other = turned(&key);
        if other < key { (other, true) } else { (key, false) }
    }
}

/// The address of an exporter: its octets, and how many they are; one more than that, so that null is different.
fn exporter_words(octets: Option<&[u8]>) -> [u64; 3] {
    let Some(octets) = octets else { return [0; 3] };
    let mut padded = [0; 16];
    let len = octets.len().min(16);
    padded[..len].copy_from_slice(&octets[..len]);
    let number = u128::from_be_bytes(padded);
    [(number >> 64) as u64, number as u64, len as u64 + 1]
}

impl Block for Joiner {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), BlockError> {
        self.read(&rows)?;
        let (mut late, mut shed) = (0, 0);
        for group in self.records.chunks(AHEAD) {
            group.iter().for_each(|record| self.table.touch(record.hash));
            for record in group {
                self.table.advance(record.end_ms);
                late += u64::from(self.table.join(record));
                while self.table.len() > self.flows_max {
                    shed += self.table.shed();
                }
            }
        }
        self.counters.late.add(late);
        self.counters.shed.add(shed);
        self.table.hand_on(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), BlockError> {
        self.table.empty();
        self.table.hand_on(out);
        Ok(())
    }

    fn window(&self) -> Window {
        Window {
            rows: self.table.len() as u64,
            octets: (self.table.octets() + self.records.capacity() * size_of::<Record>()) as u64,
            edge_ms: self.table.edge_ms(),
        }
    }
}

#[cfg(test)]
mod tests;
