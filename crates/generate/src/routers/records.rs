//! The records of one router as batches, in the order of their export.

use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

use crate::flows::{Flows, Totals, addresses};
use crate::routers::cache::{FlowCache, Record};
use crate::routers::plan::Planner;
use crate::routers::{Router, RouterPair};

/// What one router exports. As an iterator it gives batches of [`BATCH_ROWS`](Self::BATCH_ROWS) records.
///
/// It holds the conversations of the last minutes and no more, and ends when all of them are exported.
#[derive(Debug, Clone)]
pub struct RouterRecords {
    router: Router,
    start_ms: i64,
    planner: Planner,
    /// How many conversations have not begun.
    conversations_left: u64,
    cache: FlowCache,
    /// The next millisecond to simulate, since the start of the model.
    now_ms: u64,
    /// Records that are out, some of them already in batches.
    records: Vec<Record>,
    /// How many of `records` are in batches.
    taken: usize,
    totals: Totals,
}

impl RouterRecords {
    /// Rows in a batch of the iterator.
    pub const BATCH_ROWS: usize = Flows::BATCH_ROWS;

    pub(crate) fn new(pair: &RouterPair, router: Router, conversations: u64) -> Self {
        Self {
            router,
            start_ms: pair.start_ms,
            planner: Planner::new(pair),
            conversations_left: conversations,
            cache: FlowCache::new(pair, router),
            now_ms: 0,
            records: Vec::new(),
            taken: 0,
            totals: Totals::default(),
        }
    }

    /// Sums over the records so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The next batch, of at most `rows_max` records; `None` when all are out. Which records come does not depend on
    /// how they are cut into batches.
    pub fn next_batch(&mut self, rows_max: usize) -> Option<FlowBatch> {
        let (router, start_ms) = (self.router, self.start_ms);
        let records = self.next_records(rows_max);
        (!records.is_empty()).then(|| columns(records, router, start_ms))
    }

    /// The next records, none when all are out.
    pub(crate) fn next_records(&mut self, rows_max: usize) -> &[Record] {
        self.records.drain(..std::mem::take(&mut self.taken));
        while self.records.len() < rows_max && !self.is_over() {
            self.step();
        }
        self.taken = self.records.len().min(rows_max);
        let rows = &self.records[..self.taken];
        self.totals.flows += rows.len() as u64;
        for row in rows {
            self.totals.packets += u64::from(row.packets);
            self.totals.bytes += row.bytes();
        }
        rows
    }

    fn is_over(&self) -> bool {
        self.conversations_left == 0 && self.cache.is_over()
    }

    fn step(&mut self) {
        while self.conversations_left > 0 && self.planner.start_ms() <= self.now_ms {
            self.conversations_left -= 1;
            let plan = self.planner.next();
            self.cache.begin(&plan, self.now_ms, &mut self.records);
        }
        self.cache.step(self.now_ms, &mut self.records);
        self.now_ms += 1;
    }
}

impl Iterator for RouterRecords {
    type Item = FlowBatch;

    fn next(&mut self) -> Option<FlowBatch> {
        self.next_batch(Self::BATCH_ROWS)
    }
}

impl Record {
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.packets) * u64::from(self.facts.packet_octets)
    }
}

fn columns(records: &[Record], router: Router, start_ms: i64) -> FlowBatch {
    let rows = records.len();
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    let time = |ms: u64| start_ms.saturating_add_unsigned(ms);
    builder.time(Column::Received).extend(records.iter().map(|record| time(record.received_ms)));
    builder.time(Column::Start).extend(records.iter().map(|record| time(record.start_ms)));
    builder.time(Column::End).extend(records.iter().map(|record| time(record.end_ms)));
    builder.address(Column::Exporter).repeat(&router.address().octets(), rows);
    builder.u32(Column::ObservationDomain).repeat(OBSERVATION_DOMAIN, rows);
    builder.u8(Column::ExportVersion).repeat(9, rows);
    addresses(&mut builder, Column::SrcAddr, records, |record| record.facts.key.wide, |record| record.facts.key.src);
    addresses(&mut builder, Column::DstAddr, records, |record| record.facts.key.wide, |record| record.facts.key.dst);
    builder.u16(Column::SrcPort).extend(records.iter().map(|record| record.facts.key.src_port));
    builder.u16(Column::DstPort).extend(records.iter().map(|record| record.facts.key.dst_port));
    builder.u8(Column::Protocol).extend(records.iter().map(|record| record.facts.key.protocol));
    builder.u16(Column::TcpFlags).extend(records.iter().map(|record| record.tcp_flags.into()));
    builder.u8(Column::Tos).extend(records.iter().map(|record| record.facts.tos));
    builder.u64(Column::Packets).extend(records.iter().map(|record| record.packets.into()));
    builder.u64(Column::Bytes).extend(records.iter().map(Record::bytes));
    builder.u32(Column::InIf).extend(records.iter().map(|record| record.facts.in_if));
    builder.u32(Column::OutIf).extend(records.iter().map(|record| record.facts.out_if));
    builder.u8(Column::EndReason).extend(records.iter().map(|record| record.end_reason));
    builder.finish()
}

/// The same on both routers, as it need not tell more than parts of one exporter apart.
const OBSERVATION_DOMAIN: u32 = 1;
