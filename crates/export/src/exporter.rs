//! The Exporting Process of one Observation Domain.

use weir_flow::{Column, FlowBatch};

use crate::clock::Clock;
use crate::columns::{Columns, Values};
use crate::config::{ConfigError, ExporterConfig, Version};
use crate::exported::{Exported, Refusal};
use crate::message::Messages;
use crate::options::OptionsData;
use crate::packet::Packets;
use crate::parts::{Parts, batch_of};
use crate::shapes::Shapes;

/// A message for the network: the payload of a datagram, or a piece of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// The message.
    pub octets: &'a [u8],
    /// Flows in it; options are not counted.
    pub flows: u32,
    /// Data Records in it: flows, and Options Data Records.
    pub records: u32,
}

impl Datagram<'_> {
    /// Whether it has templates and options only.
    pub fn is_announcement(&self) -> bool {
        self.flows == 0
    }
}

/// Why an exporter refuses options data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// It is too long or too large.
    #[error(transparent)]
    TooLarge(#[from] ConfigError),
    /// The version has no field for it.
    #[error("the version has no field for it")]
    NoField,
    /// There are [`OPTIONS_RECORDS_MAX`](ExporterConfig::OPTIONS_RECORDS_MAX) of them.
    #[error("there is too much options data already")]
    TooMany,
}

#[derive(Debug)]
enum Protocol {
    Packets(Box<Packets>),
    Messages(Box<Messages>),
}

/// Makes datagrams of flows.
///
/// ```
/// use weir_export::{Exporter, ExporterConfig, Version};
/// use weir_flow::{Column, FlowBatchBuilder};
/// let mut builder = FlowBatchBuilder::new(1);
/// builder.begin_rows(1);
/// builder.address(Column::SrcAddr).repeat(&[192, 0, 2, 1], 1);
/// let mut exporter = Exporter::new(ExporterConfig::new(Version::Ipfix))?;
/// let mut lengths = Vec::new();
/// exporter.encode(&builder.finish(), 1_700_000_000_000, &mut |datagram| lengths.push(datagram.octets.len()));
/// exporter.flush(1_700_000_000_000, &mut |datagram| lengths.push(datagram.octets.len()));
/// // header, template set of one field, data set of one record
/// assert_eq!(lengths, [16 + 4 + 4 + 4 + 4 + 4]);
/// # Ok::<(), weir_export::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    config: ExporterConfig,
    protocol: Protocol,
    /// When the exporter started by the times that it exports; set when it first encodes.
    boot_ms: Option<i64>,
    shapes: Shapes,
    exported: Exported,
}

/// Rows looked at together: their records stay in the nearest cache until they are in datagrams.
const CHUNK_ROWS: usize = 512;

impl Exporter {
    /// An exporter that has sent nothing yet.
    pub fn new(config: ExporterConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let protocol = match config.version {
            Version::V5 => Protocol::Packets(Box::new(Packets::new(&config))),
            Version::V9 | Version::Ipfix => Protocol::Messages(Box::new(Messages::new(&config))),
        };
        Ok(Self { config, protocol, boot_ms: None, shapes: Shapes::default(), exported: Exported::default() })
    }

    /// Its settings.
    pub fn config(&self) -> &ExporterConfig {
        &self.config
    }

    /// What it has done so far.
    pub fn exported(&self) -> &Exported {
        &self.exported
    }

    /// Takes flows, and hands every datagram that gets full to `sink`. `now_ms` is the time of export, in
    /// milliseconds since the epoch. What does not fill a datagram waits for more flows or for [`flush`](Self::flush).
    pub fn encode(&mut self, flows: &FlowBatch, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let columns = Columns::new(self.config.version, flows);
        self.exported.values_left_out += columns.values_left_out;
        match Parts::of(flows, self.config.version) {
            Some(parts) => self.encode_parts(flows, &parts, now_ms, sink),
            None => self.encode_columns(&columns, now_ms, sink),
        }
    }

    /// Takes flows of which some are several in NetFlow v5, a few at a time: one may be a thousand.
    fn encode_parts(&mut self, flows: &FlowBatch, parts: &Parts<'_>, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let mut parts = parts.iter();
        loop {
            let chunk: Vec<_> = parts.by_ref().take(CHUNK_ROWS).collect();
            if chunk.is_empty() {
                return;
            }
            match batch_of(flows, &chunk) {
                Some(batch) => self.encode_columns(&Columns::new(self.config.version, &batch), now_ms, sink),
                None => self.exported.refused[Refusal::Value as usize] += chunk.len() as u64,
            }
        }
    }

    fn encode_columns(&mut self, columns: &Columns<'_>, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let clock = self.clock(now_ms);
        let mut first = 0;
        while first < columns.rows {
            let end = columns.rows.min(first + CHUNK_ROWS);
            self.shapes.classify(self.config.version, columns, first..end, clock);
            match &mut self.protocol {
                Protocol::Packets(packets) => packets.add(columns, &self.shapes, first, clock.boot_ms),
                Protocol::Messages(messages) => messages.add(columns, &mut self.shapes, first, clock.boot_ms),
            }
            self.count(columns, first);
            self.emit(clock, false, sink);
            first = end;
        }
    }

    /// Adds options data: it is sent before the next flows, and again whenever templates are. Adding what is known
    /// already costs nothing. Yields whether it replaces other data about the same thing: of messages that were handed
    /// out apart, some are out of date then.
    ///
    /// # Errors
    ///
    /// When it does not fit into the version, and is not sent.
    pub fn add_options(&mut self, data: &OptionsData) -> Result<bool, OptionsError> {
        data.check(self.config.version)?;
        match (&mut self.protocol, data) {
            (Protocol::Messages(messages), _) => messages.add_options(data),
            (Protocol::Packets(packets), OptionsData::Selector(selector)) => {
                packets.set_sampling(selector.interval);
                Ok(false)
            }
            (Protocol::Packets(_), OptionsData::Interface(_)) => Err(OptionsError::NoField),
        }
    }

    /// Hands out what is to be announced, without waiting for flows, when that is handed out
    /// [apart](ExporterConfig::announces_apart).
    pub fn announce(&mut self, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let clock = self.clock(now_ms);
        if let Protocol::Messages(messages) = &mut self.protocol
            && self.config.announces_apart
        {
            messages.announce(clock, &mut self.exported, sink);
        }
    }

    /// Hands out all templates and options from the first on, when they are handed out
    /// [apart](ExporterConfig::announces_apart). NetFlow v5 has none.
    pub fn announce_anew(&mut self, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let clock = self.clock(now_ms);
        if let Protocol::Messages(messages) = &mut self.protocol {
            messages.announce_anew(clock, &mut self.exported, sink);
        }
    }

    /// Hands out everything that waits.
    pub fn flush(&mut self, now_ms: i64, sink: &mut impl FnMut(Datagram<'_>)) {
        let clock = self.clock(now_ms);
        self.emit(clock, true, sink);
    }

    fn clock(&mut self, now_ms: i64) -> Clock {
        let boot_ms = *self.boot_ms.get_or_insert(now_ms.saturating_sub(self.config.uptime_ms.into()));
        Clock { now_ms, boot_ms }
    }

    fn emit(&mut self, clock: Clock, all: bool, sink: &mut impl FnMut(Datagram<'_>)) {
        match &mut self.protocol {
            Protocol::Packets(packets) => packets.emit(clock, all, &mut self.exported, sink),
            Protocol::Messages(messages) => messages.emit(clock, all, &mut self.exported, sink),
        }
    }

    /// Books the rows just looked at, the first of them being `first`.
    fn count(&mut self, columns: &Columns<'_>, first: usize) {
        let refused = self.shapes.refused.iter().flatten();
        let mut refusals = 0;
        for &reason in refused {
            self.exported.refused[reason as usize] += 1;
            refusals += 1;
        }
        self.exported.flows += self.shapes.refused.len() as u64 - refusals;
        self.exported.packets = self.exported.packets.wrapping_add(self.sum(columns, Column::Packets, first));
        self.exported.bytes = self.exported.bytes.wrapping_add(self.sum(columns, Column::Bytes, first));
    }

    /// Sum over the rows that were accepted, modulo 2^64: counters come from elsewhere and may be anything.
    fn sum(&self, columns: &Columns<'_>, column: Column, first: usize) -> u64 {
        let Some((Values::U64(values), nulls)) = columns.get(column).map(|carried| (carried.values, carried.nulls))
        else {
            return 0;
        };
        let accepted =
            |refused: &Option<Refusal>, row: usize| refused.is_none() && nulls.is_none_or(|nulls| nulls.is_valid(row));
        let rows = self.shapes.refused.iter().zip(first..);
        rows.filter(|(refused, row)| accepted(refused, *row)).fold(0, |sum, (_, row)| sum.wrapping_add(values[row]))
    }
}
