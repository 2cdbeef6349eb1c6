//! A sink that sends flows as `NetFlow` v5, `NetFlow` v9 or IPFIX datagrams.
//!
//! Where flows go to several collectors in turn, each of them has an exporter of its own, with its own templates and
//! sequence numbers, because a collector that sees only some datagrams of an exporter would miss templates and count
//! the others as lost.

mod outbox;
mod pace;

use std::net::{IpAddr, SocketAddr};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use arrow::compute::max;
use arrow::datatypes::{SchemaRef, TimestampMillisecondType};
use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Burst, Counter, Meter, ONE_INPUT, Opener, ParameterError,
    ParameterSpec, ParameterType, Parameters, Role, Sink, Window,
};
use weir_export::{ConfigError, Exported, Exporter, ExporterConfig, Refusal, TemplateRefresh, Version};
use weir_flow::{Column, FlowBatch};

use outbox::Outbox;
use pace::Pace;

/// The kind `export`.
pub const KIND: BlockKind = BlockKind {
    name: "export",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Sends flows over UDP to collectors, as NetFlow v5, NetFlow v9 or IPFIX. It takes rows with columns of flows; \
          other columns are left out. A null goes out as an absent field in NetFlow v9 and IPFIX and as 0 in NetFlow \
          v5. A flow that the protocol cannot tell exactly is refused whole and counted by reason: \
          `records_refused_address` (an IPv6 address in NetFlow v5), `records_refused_value` (a number that is too \
          large for its field), `records_refused_time` (NetFlow v5 and v9: after the export or more than 24 days \
          before it), `records_refused_length` and `records_refused_template`. Values without a field in the protocol \
          are counted in `values_left_out`, their flows go out without them. Flows that do not fill a datagram go out \
          within about a second. Counts `records_exported`, and `records_unsent` when the system did not take their \
          datagram for every collector; `datagrams_sent`, `octets_sent` and `datagrams_failed` count each collector. \
          Whether a datagram arrived is not known to its sender.",
    parameters: PARAMETERS,
    configure,
};

const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "to",
        parameter_type: ParameterType::Texts,
        default: None,
        doc: "Addresses and ports of the collectors, such as `127.0.0.1:2055` or `[::1]:4739`.",
    },
    ParameterSpec {
        key: "distribute",
        parameter_type: ParameterType::Choice(&["all", "in-turn"]),
        default: Some("\"all\""),
        doc: "Whether every collector gets all flows, or collectors get 512 flows each in turn, from an exporter of its \
              own for each.",
    },
    ParameterSpec {
        key: "version",
        parameter_type: ParameterType::Choice(&["5", "9", "ipfix"]),
        default: Some("\"ipfix\""),
        doc: "Protocol: NetFlow v5, NetFlow v9 or IPFIX.",
    },
    ParameterSpec {
        key: "domain",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("0"),
        doc: "Observation Domain, called Source ID in NetFlow v9; in NetFlow v5 engine type * 256 + engine id.",
    },
    ParameterSpec {
        key: "from",
        parameter_type: ParameterType::Text,
        default: Some(""),
        doc: "Address to send from; collectors tell exporters apart by it. Left to the system when it is not given.",
    },
    ParameterSpec {
        key: "clock",
        parameter_type: ParameterType::Choice(&["now", "rows"]),
        default: Some("\"now\""),
        doc: "Time of export: the time it is, or the latest `start` or `end` of the flows so far, for flows of the past \
              that NetFlow v5 and v9 could not tell otherwise.",
    },
    ParameterSpec {
        key: "records_per_second",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("0"),
        doc: "Most flows in a second, also while the chain stops; 0 for no limit.",
    },
    ParameterSpec {
        key: "datagram_octets_max",
        parameter_type: ParameterType::Integer(0, ExporterConfig::OCTETS_LIMIT as u64),
        default: Some("0"),
        doc: "Longest UDP payload, 512 or more; 0 for 1464 in NetFlow v5 and 1400 in the others.",
    },
    ParameterSpec {
        key: "template_refresh_secs",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("60"),
        doc: "Templates are sent again after so many seconds of the clock.",
    },
    ParameterSpec {
        key: "template_refresh_datagrams",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("1000"),
        doc: "Templates are sent again after so many datagrams.",
    },
    ParameterSpec {
        key: "allow_remote",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether datagrams may go to another machine than this one.",
    },
];

/// Flows that a collector gets at a time when they are sent in turn.
const TURN_ROWS: u64 = 512;

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let targets = targets(parameters)?;
    let config = config(parameters)?;
    let from = source(parameters, &targets)?;
    let is_in_turn = parameters.text("distribute") == "in-turn";
    let is_clock_of_rows = parameters.text("clock") == "rows";
    let per_second = parameters.integer("records_per_second") as u32;
    Ok(Box::new(move |context: &BlockContext| {
        let groups: Vec<Vec<SocketAddr>> =
            if is_in_turn { targets.iter().map(|target| vec![*target]).collect() } else { vec![targets.clone()] };
        let lanes = groups.into_iter().map(|targets| Lane::new(&config, targets, &context.meter));
        Ok(Built::Sink(Box::new(Export {
            lanes: lanes.collect::<Result<_, _>>()?,
            outbox: Outbox::open(from, &targets, &context.meter)?,
            pace: Pace::new(per_second),
            rows: 0,
            is_clock_of_rows,
            clock_ms: None,
            columns: None,
        })))
    }))
}

fn targets(parameters: &Parameters) -> Result<Vec<SocketAddr>, ParameterError> {
    let wrong = |text: &str| {
        let error = ParameterError::new("to", format!("'{text}' is no address with a port"));
        error.with_hint("write 127.0.0.1:2055, or [::1]:2055 for IPv6")
    };
    let texts = parameters.texts("to");
    let target = |text: &String| text.parse().ok().filter(|target: &SocketAddr| target.port() > 0);
    let targets: Vec<SocketAddr> =
        texts.iter().map(|text| target(text).ok_or_else(|| wrong(text))).collect::<Result<_, _>>()?;
    if targets.is_empty() {
        return Err(ParameterError::new("to", "at least one address is needed"));
    }
    let is_remote = |target: &&SocketAddr| !target.ip().to_canonical().is_loopback();
    if let Some(remote) = targets.iter().find(is_remote).filter(|_| !parameters.boolean("allow_remote")) {
        let error = ParameterError::new("to", format!("{remote} is not on this machine"));
        return Err(error.with_hint("'allow_remote = true' sends there all the same"));
    }
    Ok(targets)
}

/// The address to send from, which must be able to reach all targets.
fn source(parameters: &Parameters, targets: &[SocketAddr]) -> Result<Option<IpAddr>, ParameterError> {
    let text = parameters.text("from");
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |what: String| ParameterError::new("from", what);
    let from: IpAddr = text.parse().map_err(|_| wrong(format!("'{text}' is no address")))?;
    match targets.iter().find(|target| target.is_ipv4() != from.is_ipv4()) {
        Some(target) => Err(wrong(format!("nothing can be sent from {from} to {target}"))),
        None => Ok(Some(from)),
    }
}

fn config(parameters: &Parameters) -> Result<ExporterConfig, ParameterError> {
    let version = match parameters.text("version") {
        "5" => Version::V5,
        "9" => Version::V9,
        _ => Version::Ipfix,
    };
    let mut config = ExporterConfig {
        domain: parameters.integer("domain") as u32,
        template_refresh: TemplateRefresh {
            datagrams: parameters.integer("template_refresh_datagrams") as u32,
            secs: parameters.integer("template_refresh_secs") as u32,
        },
        ..ExporterConfig::new(version)
    };
    if let octets @ 1.. = parameters.integer("datagram_octets_max") {
        config.datagram_octets_max = octets as usize;
    }
    let key = |error: &ConfigError| match error {
        ConfigError::DatagramOctets { .. } => "datagram_octets_max",
        ConfigError::Domain { .. } => "domain",
        _ => "version",
    };
    config.check().map_err(|error| ParameterError::new(key(&error), error.to_string()))?;
    Ok(config)
}

/// Counters of refused flows, in the order of [`Refusal::ALL`].
const REFUSED: [&str; Refusal::COUNT] = [
    "records_refused_address",
    "records_refused_value",
    "records_refused_time",
    "records_refused_length",
    "records_refused_template",
];

/// An exporter and the collectors that get all of its datagrams.
#[derive(Debug)]
struct Lane {
    exporter: Exporter,
    targets: Vec<SocketAddr>,
    /// What the counters know.
    counted: Exported,
    refused: [Counter; Refusal::COUNT],
    left_out: Counter,
    /// Flows in datagrams handed out.
    handed_out: u64,
}

impl Lane {
    fn new(config: &ExporterConfig, targets: Vec<SocketAddr>, meter: &Meter) -> Result<Self, BlockError> {
        let exporter = Exporter::new(config.clone());
        Ok(Self {
            exporter: exporter.map_err(|error| BlockError::caused("cannot set up an exporter", error))?,
            targets,
            counted: Exported::default(),
            refused: REFUSED.map(|name| meter.counter(name)),
            left_out: meter.counter("values_left_out"),
            handed_out: 0,
        })
    }

    fn encode(&mut self, flows: &FlowBatch, now_ms: i64, outbox: &mut Outbox) {
        let (targets, handed_out) = (&self.targets, &mut self.handed_out);
        self.exporter.encode(flows, now_ms, &mut |datagram| {
            *handed_out += u64::from(datagram.flows);
            outbox.send(datagram, targets);
        });
        self.count();
    }

    fn flush(&mut self, now_ms: i64, outbox: &mut Outbox) {
        let (targets, handed_out) = (&self.targets, &mut self.handed_out);
        self.exporter.flush(now_ms, &mut |datagram| {
            *handed_out += u64::from(datagram.flows);
            outbox.send(datagram, targets);
        });
    }

    fn count(&mut self) {
        let now = *self.exporter.exported();
        for (counter, &reason) in self.refused.iter().zip(Refusal::ALL) {
            counter.add(now.refused_for(reason) - self.counted.refused_for(reason));
        }
        self.left_out.add(now.values_left_out - self.counted.values_left_out);
        self.counted = now;
    }

    /// Flows that wait for their datagram to be full.
    fn waiting(&self) -> u64 {
        self.exporter.exported().flows - self.handed_out
    }
}

#[derive(Debug)]
struct Export {
    lanes: Vec<Lane>,
    outbox: Outbox,
    pace: Option<Pace>,
    /// Rows taken so far.
    rows: u64,
    is_clock_of_rows: bool,
    /// The latest time of the rows so far.
    clock_ms: Option<i64>,
    /// The columns of the last rows, and where in them those of flows are.
    columns: Option<(SchemaRef, Vec<usize>)>,
}

impl Export {
    /// The columns of flows, in their order.
    fn flows(&mut self, rows: &RecordBatch) -> Result<RecordBatch, BlockError> {
        if !matches!(&self.columns, Some((schema, _)) if std::sync::Arc::ptr_eq(schema, rows.schema_ref())) {
            let position = |column: &Column| rows.schema_ref().index_of(column.name()).ok();
            let positions: Vec<usize> = Column::ALL.iter().filter_map(position).collect();
            if positions.is_empty() {
                return Err(BlockError::new("rows have no column of flows"));
            }
            self.columns = Some((rows.schema(), positions));
        }
        let positions = self.columns.as_ref().map_or(&[][..], |(_, positions)| positions);
        rows.project(positions).map_err(|error| BlockError::caused("rows are no flows", error))
    }

    /// Time of export of flows that come next.
    fn now_ms(&mut self, flows: Option<&FlowBatch>) -> i64 {
        if self.is_clock_of_rows {
            let times = [Column::Start, Column::End].map(|column| {
                let times = flows.and_then(|flows| flows.primitive::<TimestampMillisecondType>(column));
                times.and_then(max)
            });
            self.clock_ms = times.into_iter().flatten().chain(self.clock_ms).max();
        }
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        self.clock_ms.unwrap_or_else(now)
    }

    fn flush(&mut self) {
        let now_ms = self.now_ms(None);
        for lane in &mut self.lanes {
            lane.flush(now_ms, &mut self.outbox);
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
}

impl Sink for Export {
    fn take(&mut self, burst: Burst) -> Result<(), BlockError> {
        // A burst may have books alone, and then no columns.
        if burst.rows().num_rows() == 0 {
            return Ok(());
        }
        let rows = self.flows(burst.rows())?;
        let mut from = 0;
        while from < rows.num_rows() {
            let (count, lane) = self.next(rows.num_rows() - from);
            let flows = FlowBatch::try_new(rows.slice(from, count));
            let flows = flows.map_err(|error| BlockError::caused("rows are no flows", error))?;
            if let Some(pace) = &mut self.pace {
                std::thread::sleep(pace.wait(Instant::now(), count));
            }
            let now_ms = self.now_ms(Some(&flows));
            self.lanes[lane].encode(&flows, now_ms, &mut self.outbox);
            self.rows += count as u64;
            from += count;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), BlockError> {
        self.flush();
        Ok(())
    }

    fn tick(&mut self) -> Result<(), BlockError> {
        self.flush();
        Ok(())
    }

    fn window(&self) -> Window {
        Window { rows: self.lanes.iter().map(Lane::waiting).sum(), ..Window::default() }
    }
}

#[cfg(test)]
mod tests;
