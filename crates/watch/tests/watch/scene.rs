//! Archives made for tests.

use std::path::Path;

use arrow::array::RecordBatch;
use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, parse_address};
use weir_sql::output::{Format, OutputOptions};
use weir_sql::{Engine, EngineOptions};
use weir_watch::WatchFile;

/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// A flow.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) received_ms: i64,
    pub(crate) start_ms: i64,
    pub(crate) src: String,
    pub(crate) dst: String,
    pub(crate) ports: (u16, u16),
    pub(crate) protocol: u8,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) sampling_interval: Option<u32>,
    pub(crate) in_if: Option<u32>,
    pub(crate) tcp_flags: Option<u16>,
}

impl Flow {
    pub(crate) fn new(received_ms: i64, src: &str, dst: &str) -> Self {
        let (src, dst) = (src.to_owned(), dst.to_owned());
        Self {
            received_ms,
            start_ms: received_ms - 1_000,
            src,
            dst,
            ports: (40_000, 443),
            protocol: 6,
            packets: 10,
            bytes: 1_000,
            sampling_interval: None,
            in_if: None,
            tcp_flags: None,
        }
    }
}

/// Numbers that look random (xorshift), the same for a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// Flows between a few hosts, received over some time; some have gaps between them.
pub(crate) fn traffic(seed: u64, count: usize, from_ms: i64, span_ms: i64) -> Vec<Flow> {
    let mut random = Random::new(seed);
    let mut flows: Vec<_> = (0..count)
        .map(|_| {
            let mut received_ms = from_ms + random.below(span_ms as u64) as i64;
            // a quarter of each hundred seconds is silent
            if received_ms / 25_000 % 4 == 3 {
                received_ms -= 25_000;
            }
            let host = |random: &mut Random| format!("10.0.{}.{}", random.below(3), 1 + random.below(9));
            let (src, dst) = (host(&mut random), format!("192.0.2.{}", 1 + random.below(12)));
            let (src, dst) = if random.below(2) == 0 { (src, dst) } else { (dst, src) };
            Flow {
                start_ms: received_ms - random.below(20_000) as i64,
                ports: (1_024 + random.below(5) as u16, [22, 53, 80, 443][random.below(4) as usize]),
                protocol: [6, 17][random.below(2) as usize],
                packets: 1 + random.below(20),
                bytes: 40 + random.below(100_000),
                ..Flow::new(received_ms, &src, &dst)
            }
        })
        .collect();
    flows.sort_by_key(|flow| flow.received_ms);
    flows
}

pub(crate) fn batch(flows: &[Flow]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(flows.len());
    let octets = |text: &str| parse_address(text).expect("an address");
    builder.begin_rows(flows.len());
    builder.address(Column::Exporter).repeat(&octets("198.51.100.1"), flows.len());
    for flow in flows {
        builder.time(Column::Received).push(Some(flow.received_ms));
        builder.time(Column::Start).push(Some(flow.start_ms));
        builder.time(Column::End).push(Some(flow.received_ms));
        builder.address(Column::SrcAddr).push(Some(&octets(&flow.src)));
        builder.address(Column::DstAddr).push(Some(&octets(&flow.dst)));
        builder.u16(Column::SrcPort).push(Some(flow.ports.0));
        builder.u16(Column::DstPort).push(Some(flow.ports.1));
        builder.u8(Column::Protocol).push(Some(flow.protocol));
        builder.u64(Column::Packets).push(Some(flow.packets));
        builder.u64(Column::Bytes).push(Some(flow.bytes));
        builder.u32(Column::SamplingInterval).push(flow.sampling_interval);
        builder.u32(Column::InIf).push(flow.in_if);
        builder.u16(Column::TcpFlags).push(flow.tcp_flags);
    }
    builder.finish()
}

pub(crate) fn writer(folder: &Path) -> Writer {
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    Writer::open(folder, ArchiveOptions { compaction, ..ArchiveOptions::default() }).expect("an archive").0
}

/// Writes an archive of a segment and a tail; the tail stays.
pub(crate) fn archive(folder: &Path, flows: &[Flow]) {
    let (sealed, unsealed) = flows.split_at(flows.len() / 2);
    let append = |writer: &mut Writer, flows: &[Flow]| {
        for part in flows.chunks(500) {
            writer.append(Delivery::from(batch(part))).expect("appended");
        }
    };
    let mut first = writer(folder);
    append(&mut first, sealed);
    first.close().expect("sealed");
    let mut second = writer(folder);
    append(&mut second, unsealed);
}

/// A watch with a statement and options, whose days are those of UTC.
pub(crate) fn watch(name: &str, query: &str, rest: &str) -> WatchFile {
    let text = format!("query = '''{query}'''\nzone = 'UTC'\n{rest}");
    WatchFile::parse(&text, name, Path::new("")).unwrap_or_else(|error| panic!("{error:?}: {query}"))
}

/// The rows of batches as lines of CSV, sorted.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let Some(first) = batches.first() else { return Vec::new() };
    let options = OutputOptions { header: false, ..OutputOptions::default() };
    let mut text = Vec::new();
    let rows = batches.iter().cloned().map(Ok::<_, std::convert::Infallible>);
    weir_print::write_batches(rows, &first.schema(), Format::Csv, &options, &mut text).expect("text");
    let mut lines: Vec<_> = String::from_utf8(text).expect("text").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// The answer of plain SQL over an archive, sorted.
pub(crate) fn plain(folder: &Path, statement: &str) -> Vec<String> {
    lines(&plain_batches(folder, statement, &EngineOptions::default()))
}

/// The answer of plain SQL over an archive, by an engine of these options.
pub(crate) fn plain_batches(folder: &Path, statement: &str, options: &EngineOptions) -> Vec<RecordBatch> {
    let engine = Engine::open(folder, options).expect("an engine");
    let answer = engine.sql(statement).unwrap_or_else(|error| panic!("{error}\n{statement}"));
    answer.collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| panic!("{error}\n{statement}"))
}

/// A time in SQL.
pub(crate) fn time(ms: i64) -> String {
    format!("arrow_cast({ms}, 'Timestamp(ms, \"UTC\")')")
}
