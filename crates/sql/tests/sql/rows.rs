//! Archives made for tests: half of the rows in a segment, half in the tail.

use std::path::Path;

use weir_archive::{ArchiveOptions, CompactionOptions, Writer};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder, parse_address};
use weir_sql::{Answer, Engine, EngineError, EngineOptions};

/// 2026-01-01T00:00:00Z.
pub(crate) const NEW_YEAR_MS: i64 = 1_767_225_600_000;

/// A flow of the small table; times in seconds after [`NEW_YEAR_MS`].
#[derive(Default)]
struct Flow {
    received: i64,
    start: Option<i64>,
    end: Option<i64>,
    source: Option<(&'static str, Option<u16>)>,
    destination: Option<(&'static str, Option<u16>)>,
    protocol: Option<u8>,
    tcp_flags: Option<u16>,
    packets: u64,
    bytes: u64,
}

fn common(builder: &mut FlowBatchBuilder, flows: &[Flow], exporter: &str) {
    let ms = |seconds: i64| NEW_YEAR_MS + seconds * 1000;
    let octets = |text: &str| parse_address(text).expect("an address");
    builder.begin_rows(flows.len());
    builder.address(Column::Exporter).repeat(&octets(exporter), flows.len());
    for flow in flows {
        builder.time(Column::Received).push(Some(ms(flow.received)));
        builder.time(Column::Start).push(flow.start.map(ms));
        builder.time(Column::End).push(flow.end.map(ms));
        builder.address(Column::SrcAddr).push(flow.source.map(|(text, _)| octets(text)).as_deref());
        builder.address(Column::DstAddr).push(flow.destination.map(|(text, _)| octets(text)).as_deref());
        builder.u16(Column::SrcPort).push(flow.source.and_then(|(_, port)| port));
        builder.u16(Column::DstPort).push(flow.destination.and_then(|(_, port)| port));
        builder.u8(Column::Protocol).push(flow.protocol);
        builder.u16(Column::TcpFlags).push(flow.tcp_flags);
        builder.u64(Column::Packets).push(Some(flow.packets));
        builder.u64(Column::Bytes).push(Some(flow.bytes));
    }
}

fn flow(
    times: (i64, Option<i64>),
    source: (&'static str, Option<u16>),
    destination: (&'static str, Option<u16>),
    protocol: (u8, Option<u16>),
    counts: (u64, u64),
) -> Flow {
    Flow {
        received: times.0,
        start: Some(times.0),
        end: times.1,
        source: Some(source),
        destination: Some(destination),
        protocol: Some(protocol.0),
        tcp_flags: protocol.1,
        packets: counts.0,
        bytes: counts.1,
    }
}

/// The rows in the segment.
pub(crate) fn sealed() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(8);
    let flows = [
        flow((0, Some(10)), ("10.0.0.1", Some(40000)), ("192.0.2.10", Some(22)), (6, Some(0x1b)), (10, 1000)),
        flow((5, Some(5)), ("10.0.0.2", Some(50000)), ("192.0.2.53", Some(53)), (17, None), (1, 80)),
        flow(
            (20, Some(80)),
            ("2001:db8::1", Some(443)),
            ("2001:db8::2", Some(51000)),
            (6, Some(0x12)),
            (1000, 1_500_000),
        ),
        flow((30, Some(31)), ("192.0.2.10", Some(22)), ("10.0.0.1", Some(40000)), (6, Some(0x1b)), (8, 2000)),
    ];
    common(&mut builder, &flows, "198.51.100.1");
    builder.finish()
}

/// The rows in the tail. The octets of `32.1.13.184` are those that `2001:db8::1` begins with.
fn unsealed() -> Vec<FlowBatch> {
    let mut builder = FlowBatchBuilder::new(8);
    let ping = flow((40, Some(41)), ("10.0.1.7", None), ("203.0.113.5", None), (1, None), (2, 168));
    common(&mut builder, &[ping], "198.51.100.2");
    builder.u8(Column::IcmpType).push(Some(8));
    builder.u8(Column::IcmpCode).push(Some(0));
    let syn = flow((50, None), ("32.1.13.184", Some(1000)), ("10.0.0.1", Some(22)), (6, Some(2)), (1, 40));
    common(&mut builder, &[syn], "198.51.100.2");
    let first = builder.finish();
    common(&mut builder, &[Flow { received: 60, packets: 50, bytes: 5000, ..Flow::default() }], "198.51.100.2");
    builder.u64(Column::Flows).push(Some(5));
    let web = flow((70, Some(71)), ("10.0.0.2", Some(50001)), ("192.0.2.80", Some(80)), (6, Some(0x1b)), (5, 600));
    common(&mut builder, &[web], "198.51.100.2");
    builder.elements().push(9, 12235, b"example");
    builder.elements().push(0, 82, b"eth0");
    builder.elements().end_row();
    vec![first, builder.finish()]
}

/// Writes an archive: each batch of `segments` as a segment of its own, those of `tail` into the tail. The tail stays in
/// the archive when the writer is dropped.
pub(crate) fn write_archive(folder: &Path, segments: &[FlowBatch], tail: &[FlowBatch]) -> Writer {
    let options = ArchiveOptions {
        compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let open = || Writer::open(folder, options).expect("an archive").0;
    let append = |writer: &mut Writer, batch: &FlowBatch| {
        writer.append(Delivery::from(batch.clone())).expect("appended");
    };
    for batch in segments {
        let mut writer = open();
        append(&mut writer, batch);
        writer.close().expect("sealed");
    }
    let mut writer = open();
    for batch in tail {
        append(&mut writer, batch);
    }
    writer
}

/// An engine over a new archive in `folder`.
pub(crate) fn engine_with(
    folder: &Path,
    segments: &[FlowBatch],
    tail: &[FlowBatch],
    options: &EngineOptions,
) -> Result<Engine, EngineError> {
    let _writer = write_archive(folder, segments, tail);
    Engine::open(folder, options)
}

/// As [`engine_with`], of two threads.
pub(crate) fn engine(folder: &Path, segments: &[FlowBatch], tail: &[FlowBatch]) -> Engine {
    let options = EngineOptions { threads: 2, ..EngineOptions::default() };
    engine_with(folder, segments, tail, &options).expect("an engine")
}

/// An engine over the small table, in an archive in `folder`.
pub(crate) fn small_engine(folder: &Path) -> Engine {
    small_engine_with(folder, &EngineOptions { threads: 2, ..EngineOptions::default() })
}

/// As [`small_engine`], within other limits.
pub(crate) fn small_engine_with(folder: &Path, options: &EngineOptions) -> Engine {
    try_small_engine(folder, options).expect("an engine")
}

/// As [`small_engine_with`], where the options may be wrong.
pub(crate) fn try_small_engine(folder: &Path, options: &EngineOptions) -> Result<Engine, EngineError> {
    let archive = tempfile::tempdir_in(folder).expect("a folder").keep();
    engine_with(&archive, &[sealed()], &unsealed(), options)
}

/// The lines of an answer as CSV without header.
pub(crate) fn lines(answer: Result<Answer, EngineError>) -> Result<Vec<String>, EngineError> {
    use weir_sql::output::{Format, OutputOptions, write_answer};
    let options = OutputOptions { header: false, ..OutputOptions::default() };
    let mut text = Vec::new();
    write_answer(answer?, Format::Csv, &options, &mut text)?;
    Ok(String::from_utf8(text).expect("text").lines().map(str::to_owned).collect())
}
