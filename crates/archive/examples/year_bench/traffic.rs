//! The generator's flows, moved to their minutes, with exporters and books.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, TimestampMillisecondArray, UInt8Array, UInt32Array, UInt64Array};
use arrow::datatypes::TimestampMillisecondType;
use weir_flow::{BooksBatch, BooksRow, Column, Counter, Delivery, FlowBatch, SideTables};
use weir_generate::{Flows, TrafficModel};

use crate::calendar::{MINUTE_MS, begin_ms};

/// Exporters, with 192.0.2.1 as the first.
const EXPORTERS: usize = 4;
/// Records of a datagram of `NetFlow` v5, its version, and the octets of header and record.
const RECORDS_PER_DATAGRAM: usize = 30;
const VERSION: u8 = 5;
const HEADER_OCTETS: u64 = 24;
const RECORD_OCTETS: u64 = 48;
/// Flows that the host is chosen from, and about how many of these are its own.
const SAMPLE: u64 = 1_000_000;
const HOST_FLOWS: u64 = 40;

/// What the generator knows of a day.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Truth {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) host_flows: u64,
    pub(crate) host_bytes: u64,
}

pub(crate) struct Traffic {
    flows: Flows,
    /// One host inside, whose flows are counted.
    pub(crate) host: [u8; 4],
}

impl Traffic {
    pub(crate) fn new(seed: u64, flows: u64) -> Result<Self, Box<dyn Error>> {
        // The clock of the model only has to run: times are moved to their minutes.
        let model = TrafficModel { received: true, flows_per_second: 1000, ..TrafficModel::new(seed) };
        Ok(Self { host: choose_host(&model)?, flows: model.flows(flows)? })
    }

    /// The flows of a minute and their books, added to the truth of their day. `None` of a minute without flows.
    pub(crate) fn minute(
        &mut self,
        day: u64,
        minute: u64,
        rows: u64,
        truth: &mut Truth,
    ) -> Result<Option<Delivery>, Box<dyn Error>> {
        let first_ms = self.flows.clock_ms();
        let Some(batch) = self.flows.next_batch(rows as usize) else { return Ok(None) };
        let rows = batch.rows();
        truth.flows += rows as u64;
        truth.packets += batch.sum(Column::Packets);
        truth.bytes += batch.sum(Column::Bytes);
        self.count_host(&batch, truth)?;
        let minute_ms = begin_ms(day, minute);
        let books = Some(books(minute_ms, rows));
        let flows = moved(&batch, first_ms, minute_ms, begin_ms(day, 0))?;
        Ok(Some(Delivery { flows: Some(flows), side_tables: SideTables { books, ..SideTables::default() } }))
    }

    fn count_host(&self, batch: &FlowBatch, truth: &mut Truth) -> Result<(), Box<dyn Error>> {
        let [src, dst] = addresses(batch)?;
        let bytes: &UInt64Array = batch.primitive(Column::Bytes).ok_or("no bytes")?;
        for (row, (src, dst)) in src.iter().zip(dst).enumerate() {
            if src == Some(&self.host) || dst == Some(&self.host) {
                truth.host_flows += 1;
                truth.host_bytes += bytes.value(row);
            }
        }
        Ok(())
    }
}

fn addresses(batch: &FlowBatch) -> Result<[&BinaryArray; 2], &'static str> {
    let column = |column| batch.binary(column).ok_or("no addresses");
    Ok([column(Column::SrcAddr)?, column(Column::DstAddr)?])
}

/// The host inside with about so many of the first flows as a needle should have.
fn choose_host(model: &TrafficModel) -> Result<[u8; 4], Box<dyn Error>> {
    let mut counts: HashMap<[u8; 4], u64> = HashMap::new();
    for batch in model.flows(SAMPLE)? {
        for addresses in addresses(&batch)? {
            let inside = addresses.iter().flatten().filter_map(|octets| <[u8; 4]>::try_from(octets).ok());
            inside.filter(|octets| octets[0] == 10).for_each(|octets| *counts.entry(octets).or_default() += 1);
        }
    }
    let best = counts.into_iter().min_by_key(|&(octets, flows)| (flows.abs_diff(HOST_FLOWS), octets));
    Ok(best.ok_or("no host inside")?.0)
}

/// The batch with its flows received evenly over the minute. They keep their durations and the time between their end
/// and their export, but all of each is after the begin of its day: so a day is the same by any of the three times.
fn moved(batch: &FlowBatch, first_ms: i64, minute_ms: i64, day_ms: i64) -> Result<FlowBatch, Box<dyn Error>> {
    let rows = batch.rows();
    let received = |row: usize| minute_ms + row as i64 * MINUTE_MS / rows as i64;
    let time = |column| batch.primitive::<TimestampMillisecondType>(column).ok_or("no time");
    let times = |column| -> Result<ArrayRef, &'static str> {
        let move_to = |(row, &time): (usize, &i64)| (time - first_ms - row as i64 + received(row)).max(day_ms + 1);
        let moved = time(column)?.values().iter().enumerate().map(move_to);
        Ok(Arc::new(TimestampMillisecondArray::from_iter_values(moved).with_timezone("UTC")))
    };
    let arrival = TimestampMillisecondArray::from_iter_values((0..rows).map(received)).with_timezone("UTC");
    let number = |row: usize| (row / RECORDS_PER_DATAGRAM % EXPORTERS) as u8;
    let exporters: BinaryArray = (0..rows).map(|row| Some([192, 0, 2, 1 + number(row)])).collect();
    let mut columns: Vec<(Column, ArrayRef)> = vec![
        (Column::Received, Arc::new(arrival)),
        (Column::Start, times(Column::Start)?),
        (Column::End, times(Column::End)?),
        (Column::Exporter, Arc::new(exporters)),
        (Column::ObservationDomain, Arc::new(UInt32Array::from(vec![0; rows]))),
        (Column::ExportVersion, Arc::new(UInt8Array::from(vec![VERSION; rows]))),
    ];
    let others = Column::ALL.iter().filter(|column| **column > Column::ExportVersion);
    columns.extend(others.filter_map(|&column| Some((column, Arc::clone(batch.column(column)?)))));
    Ok(FlowBatch::from_columns(rows, columns)?)
}

/// The lines that account for a minute's flows: one for each exporter that has any.
fn books(minute_ms: i64, rows: usize) -> BooksBatch {
    let datagrams = |exporter: usize| {
        let of_minute = rows.div_ceil(RECORDS_PER_DATAGRAM);
        (of_minute + EXPORTERS - 1 - exporter) / EXPORTERS
    };
    let lines = (0..EXPORTERS).filter(|&exporter| datagrams(exporter) > 0).map(|exporter| {
        let mut counts = [0; Counter::COUNT];
        let last = (rows - 1) / RECORDS_PER_DATAGRAM;
        // only the last datagram is not full
        let missing = if last % EXPORTERS == exporter { (last + 1) * RECORDS_PER_DATAGRAM - rows } else { 0 };
        let datagrams = datagrams(exporter);
        let records = (datagrams * RECORDS_PER_DATAGRAM - missing) as u64;
        for counter in [Counter::Datagrams, Counter::DatagramsDecoded] {
            counts[counter as usize] = datagrams as u64;
        }
        counts[Counter::Octets as usize] = datagrams as u64 * HEADER_OCTETS + records * RECORD_OCTETS;
        counts[Counter::RecordsStored as usize] = records;
        BooksRow {
            minute_ms,
            exporter: Some(vec![192, 0, 2, 1 + exporter as u8]),
            observation_domain: Some(0),
            export_version: Some(VERSION),
            counts,
        }
    });
    BooksBatch::from_rows(&lines.collect::<Vec<_>>())
}
