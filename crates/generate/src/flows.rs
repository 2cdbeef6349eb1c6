//! Flows as batches.

use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

use crate::conversation::Conversations;
use crate::model::TrafficModel;
use crate::network::Zone;
use crate::row::Row;
use crate::scenes::{PlantedScene, Planter};

/// Sums over flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of flows.
    pub flows: u64,
    /// Sum of their packets.
    pub packets: u64,
    /// Sum of their octets.
    pub bytes: u64,
}

/// A stretch of a model's traffic. As an iterator it gives batches of [`BATCH_ROWS`](Self::BATCH_ROWS) flows.
///
/// ```
/// use weir_generate::TrafficModel;
/// let mut flows = TrafficModel::new(7).flows(10_000)?;
/// assert_eq!(flows.by_ref().map(|batch| batch.rows()).sum::<usize>(), 10_000);
/// assert_eq!(flows.totals().flows, 10_000);
/// # Ok::<(), weir_generate::ModelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Flows {
    model: TrafficModel,
    conversations: Conversations,
    planter: Planter,
    count: u64,
    /// Flows of the model so far, without those of scenes: they move the clock.
    counted: u64,
    /// By how much silence has moved the clock, in milliseconds.
    silent_ms: i64,
    totals: Totals,
    /// The flow back of a conversation whose other flow was the last of a batch.
    back: Option<Row>,
    rows: Vec<Row>,
    /// What the clock said before each of the rows.
    clocks_ms: Vec<i64>,
}

impl Flows {
    /// Rows in a batch of the iterator.
    pub const BATCH_ROWS: usize = 4096;

    pub(crate) fn new(model: TrafficModel, count: u64) -> Self {
        let conversations = Conversations::new(&model);
        let planter = Planter::new(&model.scenes, model.seed, &Zone::inside(model.hosts / 8));
        Self {
            model,
            conversations,
            planter,
            count,
            counted: 0,
            silent_ms: 0,
            totals: Totals::default(),
            back: None,
            rows: Vec::new(),
            clocks_ms: Vec::new(),
        }
    }

    /// The model they follow.
    pub fn model(&self) -> &TrafficModel {
        &self.model
    }

    /// What is planted, and how far it is.
    pub fn planted(&self) -> Vec<PlantedScene> {
        self.planter.scenes_at(self.clock_ms())
    }

    /// Sums over the flows so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The simulated clock after the flows so far, milliseconds since the epoch. No flow so far ends later.
    pub fn clock_ms(&self) -> i64 {
        let elapsed_ms = u128::from(self.counted) * 1000 / u128::from(self.model.flows_per_second);
        let elapsed_ms = i64::try_from(elapsed_ms).unwrap_or(i64::MAX);
        self.model.start_ms.saturating_add(elapsed_ms).saturating_add(self.silent_ms)
    }

    /// The next batch, of at most `rows_max` flows; `None` when all are out. Which flows come does not depend on how
    /// they are cut into batches. With scenes a batch is of at most a second, and of one side of a silence: its flows are
    /// received together.
    pub fn next_batch(&mut self, rows_max: usize) -> Option<FlowBatch> {
        let left = usize::try_from(self.count - self.counted).unwrap_or(usize::MAX);
        let mut rows = left.min(rows_max);
        if rows == 0 {
            return None;
        }
        if !self.planter.is_empty() {
            rows = rows.min(self.model.flows_per_second as usize);
        }
        let first = self.totals.flows;
        self.rows.clear();
        self.clocks_ms.clear();
        while self.rows.len() < rows {
            let clock_ms = self.clock_ms();
            if self.planter.is_silent(clock_ms) {
                if !self.rows.is_empty() {
                    break;
                }
                self.silent_ms = self.silent_ms.saturating_add(self.planter.take_silence_ms(clock_ms));
                continue;
            }
            let mut row = self.next_row(clock_ms);
            self.planter.sample(&mut row, clock_ms);
            self.add(row);
            self.clocks_ms.push(clock_ms);
        }
        Some(self.columns(first))
    }

    /// The next flow: of a scene whose time has come, or of the model.
    fn next_row(&mut self, clock_ms: i64) -> Row {
        if let Some(planted) = self.planter.next_row(clock_ms) {
            return planted;
        }
        self.counted += 1;
        if let Some(back) = self.back.take() {
            return back;
        }
        let (row, back) = self.conversations.next(clock_ms);
        self.back = back;
        row
    }

    fn add(&mut self, mut row: Row) {
        if self.model.numbered {
            row.bytes = self.totals.flows & 0xffff_ffff;
        }
        self.totals.flows += 1;
        self.totals.packets += row.packets;
        self.totals.bytes = self.totals.bytes.wrapping_add(row.bytes);
        self.rows.push(row);
    }

    /// The rows as columns; `first` is the number of the first of them.
    fn columns(&self, first: u64) -> FlowBatch {
        let rows = &self.rows;
        let mut builder = FlowBatchBuilder::new(rows.len());
        builder.begin_rows(rows.len());
        if self.model.received {
            // each by itself: a batch of a slow model is minutes long
            builder.time(Column::Received).extend(self.clocks_ms.iter().copied());
        }
        builder.time(Column::Start).extend(rows.iter().map(|row| row.start_ms));
        builder.time(Column::End).extend(rows.iter().map(|row| row.end_ms));
        addresses(&mut builder, Column::SrcAddr, rows, Row::is_wide, |row| row.src.octets);
        addresses(&mut builder, Column::DstAddr, rows, Row::is_wide, |row| row.dst.octets);
        addresses(&mut builder, Column::NextHop, rows, Row::is_wide, |row| router(row.dst.router, row.wide));
        builder.u16(Column::SrcPort).extend(rows.iter().map(|row| row.src_port));
        builder.u16(Column::DstPort).extend(rows.iter().map(|row| row.dst_port));
        builder.u8(Column::Protocol).extend(rows.iter().map(|row| row.protocol));
        builder.u16(Column::TcpFlags).extend(rows.iter().map(|row| row.tcp_flags.into()));
        builder.u8(Column::Tos).extend(rows.iter().map(|row| row.tos));
        builder.u64(Column::Packets).extend(rows.iter().map(|row| row.packets));
        builder.u64(Column::Bytes).extend(rows.iter().map(|row| row.bytes));
        builder.u32(Column::InIf).extend(rows.iter().map(|row| row.src.interface));
        builder.u32(Column::OutIf).extend(rows.iter().map(|row| row.dst.interface));
        builder.u32(Column::SrcAs).extend(rows.iter().map(|row| row.src.system));
        builder.u32(Column::DstAs).extend(rows.iter().map(|row| row.dst.system));
        builder.u8(Column::SrcMask).extend(rows.iter().map(|row| row.src.mask));
        builder.u8(Column::DstMask).extend(rows.iter().map(|row| row.dst.mask));
        if self.planter.has_sampling() {
            let target = builder.u32(Column::SamplingInterval);
            for row in rows {
                target.push(row.sampling_interval);
            }
        }
        if self.model.elements {
            elements(&mut builder, rows, first);
        }
        builder.finish()
    }
}

impl Iterator for Flows {
    type Item = FlowBatch;

    fn next(&mut self) -> Option<FlowBatch> {
        self.next_batch(Self::BATCH_ROWS)
    }
}

/// Fills a column of addresses, of which some are IPv6 (`is_wide`) and the others stand in the first four octets.
pub(crate) fn addresses<R>(
    builder: &mut FlowBatchBuilder,
    column: Column,
    rows: &[R],
    is_wide: impl Fn(&R) -> bool,
    octets: impl Fn(&R) -> [u8; 16],
) {
    let target = builder.address(column);
    if rows.iter().any(&is_wide) {
        for row in rows {
            target.push(Some(&octets(row)[..if is_wide(row) { 16 } else { 4 }]));
        }
    } else {
        target.extend_fixed(rows.iter().map(|row| {
            let [a, b, c, d, ..] = octets(row);
            [a, b, c, d]
        }));
    }
}

/// The address of a router: in 10.255.255.0/24 or `fd00::/64`.
fn router(number: u8, wide: bool) -> [u8; 16] {
    let mut octets = [0; 16];
    if wide {
        (octets[0], octets[15]) = (0xfd, number);
    } else {
        octets[..4].copy_from_slice(&[10, 255, 255, number]);
    }
    octets
}

/// The enterprise number that RFC 5612 sets aside for examples.
const EXAMPLE_ENTERPRISE: u32 = 32473;

/// Number of httpRequestHost in IANA's registry.
const HTTP_REQUEST_HOST: u16 = 460;

fn elements(builder: &mut FlowBatchBuilder, rows: &[Row], first: u64) {
    let target = builder.elements();
    for (row, number) in rows.iter().zip(first..) {
        target.push(EXAMPLE_ENTERPRISE, 1, &number.to_be_bytes());
        if row.is_web() {
            // Names of different lengths, from the name space for examples (RFC 2606).
            let server = if row.dst_port < 32_768 { &row.dst } else { &row.src };
            let number = u16::from_be_bytes([server.octets[1], server.octets[3]]);
            target.push(0, HTTP_REQUEST_HOST, format!("www{number}.example").as_bytes());
        }
        target.end_row();
    }
}
