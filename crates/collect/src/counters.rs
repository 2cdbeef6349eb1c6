//! Rows of the tables of counters.

use arrow::array::{
    ArrayRef, BinaryBuilder, Float32Builder, RecordBatch, StringBuilder, TimestampMillisecondBuilder, UInt32Builder,
    UInt64Builder,
};
use std::net::IpAddr;
use std::sync::Arc;

use weir_flow::counters::{CounterColumn, CounterKind, counter_columns};
use weir_flow::{Table, TableBatch};
use weir_wire::sflow::counters::{HostDescription, number};
use weir_wire::sflow::{DataSource, Record};

/// Where the counters of a sample come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleOrigin<'a> {
    pub received_ms: i64,
    pub exporter: &'a [u8],
    pub sub_agent: u32,
    pub source: DataSource,
    pub uptime_ms: u32,
    /// Who sent it, when that is not the exporter.
    pub sender: Option<IpAddr>,
}

/// Gathers rows of one table.
#[derive(Debug)]
pub(crate) struct CounterRows {
    table: Table,
    received: TimestampMillisecondBuilder,
    exporter: BinaryBuilder,
    /// Sub-agent, class and index of the source, uptime.
    numbers: [UInt32Builder; 4],
    sender: BinaryBuilder,
    host: HostColumns,
    counters: Vec<(&'static CounterColumn, CounterBuilder)>,
}

#[derive(Debug, Default)]
struct HostColumns {
    name: StringBuilder,
    uuid: BinaryBuilder,
    machine_type: UInt32Builder,
    os_name: UInt32Builder,
    os_release: StringBuilder,
}

#[derive(Debug)]
enum CounterBuilder {
    U32(UInt32Builder),
    U64(UInt64Builder),
    F32(Float32Builder),
}

impl CounterRows {
    /// No rows of this table yet.
    pub(crate) fn new(table: Table) -> Self {
        let counters = counter_columns(table).iter().map(|column| {
            let builder = match column.kind {
                CounterKind::U32 => CounterBuilder::U32(UInt32Builder::new()),
                CounterKind::U64 => CounterBuilder::U64(UInt64Builder::new()),
                CounterKind::F32 => CounterBuilder::F32(Float32Builder::new()),
            };
            (column, builder)
        });
        Self {
            table,
            received: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            exporter: BinaryBuilder::new(),
            numbers: Default::default(),
            sender: BinaryBuilder::new(),
            host: HostColumns::default(),
            counters: counters.collect(),
        }
    }

    /// Rows gathered.
    pub(crate) fn rows(&self) -> usize {
        self.numbers[0].values_slice().len()
    }

    /// Whether a record has columns in this table.
    pub(crate) fn has_columns_of(&self, record: &Record<'_>) -> bool {
        let described = self.table == Table::HostCounters && record.format.0 == HOST_DESCRIPTION;
        described || self.counters.iter().any(|(column, _)| column.format == record.format.0)
    }

    /// Adds the counters of a sample as a row. A structure that comes twice is taken once, the first.
    pub(crate) fn push(&mut self, origin: &SampleOrigin<'_>, records: &[Record<'_>]) {
        self.received.append_value(origin.received_ms);
        self.exporter.append_value(origin.exporter);
        let numbers = [origin.sub_agent, origin.source.class, origin.source.index, origin.uptime_ms];
        for (builder, number) in self.numbers.iter_mut().zip(numbers) {
            builder.append_value(number);
        }
        match origin.sender {
            Some(sender) => weir_flow::address::with_octets(sender, |octets| self.sender.append_value(octets)),
            None => self.sender.append_null(),
        }
        if self.table == Table::HostCounters {
            let described = records.iter().find(|record| record.format.0 == HOST_DESCRIPTION);
            self.host.push(described.and_then(|record| record.host_description().ok()));
        }
        let (mut format, mut body) = (0, None);
        for (column, builder) in &mut self.counters {
            if column.format != format {
                format = column.format;
                body = records.iter().find(|record| record.format.0 == format).map(|record| record.body);
            }
            let value = body.and_then(|body| number(body, column.offset, column.kind.octets()));
            match builder {
                CounterBuilder::U32(builder) => builder.append_option(value.map(|value| value as u32)),
                CounterBuilder::U64(builder) => builder.append_option(value),
                CounterBuilder::F32(builder) => {
                    let value = value.map(|value| f32::from_bits(value as u32));
                    // an agent that does not know says -1 here
                    builder.append_option(value.filter(|value| value.is_finite() && *value >= 0.0));
                }
            }
        }
    }

    /// Hands the rows out.
    pub(crate) fn finish(&mut self) -> Option<TableBatch> {
        if self.rows() == 0 {
            return None;
        }
        let mut columns: Vec<ArrayRef> = vec![Arc::new(self.received.finish()), Arc::new(self.exporter.finish())];
        columns.extend(self.numbers.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        columns.push(Arc::new(self.sender.finish()));
        if self.table == Table::HostCounters {
            columns.extend(self.host.finish());
        }
        columns.extend(self.counters.iter_mut().map(|(_, builder)| -> ArrayRef {
            match builder {
                CounterBuilder::U32(builder) => Arc::new(builder.finish()),
                CounterBuilder::U64(builder) => Arc::new(builder.finish()),
                CounterBuilder::F32(builder) => Arc::new(builder.finish()),
            }
        }));
        match RecordBatch::try_new(self.table.schema(), columns) {
            Ok(batch) => TableBatch::try_new(self.table, batch),
            Err(error) => unreachable!("columns are built in the order of the schema: {error}"),
        }
    }
}

/// Format of `host_descr`.
const HOST_DESCRIPTION: u32 = 2000;

impl HostColumns {
    fn push(&mut self, host: Option<HostDescription<'_>>) {
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        self.name.append_option(host.map(|host| text(host.hostname)));
        self.uuid.append_option(host.map(|host| host.uuid).filter(|uuid| uuid.iter().any(|octet| *octet > 0)));
        self.machine_type.append_option(host.map(|host| host.machine_type));
        self.os_name.append_option(host.map(|host| host.os_name));
        self.os_release.append_option(host.map(|host| text(host.os_release)));
    }

    fn finish(&mut self) -> [ArrayRef; 5] {
        [
            Arc::new(self.name.finish()),
            Arc::new(self.uuid.finish()),
            Arc::new(self.machine_type.finish()),
            Arc::new(self.os_name.finish()),
            Arc::new(self.os_release.finish()),
        ]
    }
}
