//! An archive as it is in use: merged segments, segments that are not merged, a tail; both families, many nulls.

use std::path::Path;

use weir_archive::{ArchiveOptions, CompactionOptions, Writer, compact};
use weir_flow::{Column, Delivery, FlowBatch, FlowBatchBuilder};

use crate::rows::NEW_YEAR_MS;

/// Xorshift: the same numbers on every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// A number below `bound`, small ones far more often.
    pub(crate) fn skewed(&mut self, bound: u64) -> u64 {
        let limit = 1 + self.below(bound);
        let limit = 1 + self.below(limit);
        self.below(limit)
    }

    pub(crate) fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below(values.len() as u64) as usize]
    }

    /// A value, or null one time in eight.
    fn some<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(8) > 0).then(|| value(self))
    }

    /// A host: of 2000 IPv4 hosts, or of 200 IPv6 hosts.
    fn address(&mut self) -> Vec<u8> {
        if self.below(5) == 0 {
            let mut octets = vec![0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            octets[15] = self.skewed(200) as u8;
            return octets;
        }
        let host = self.skewed(2000);
        vec![10, 0, (host >> 8) as u8, host as u8]
    }
}

pub(crate) const PORTS: &[u16] = &[0, 22, 25, 53, 80, 123, 443, 993, 2048, 3306, 65535];

/// Flows numbered by `flow_id` from `first_id` on, over some minutes around two days' midnight.
fn flows(dice: &mut Dice, first_id: u64, rows: u64) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows as usize);
    for id in first_id..first_id + rows {
        builder.begin_rows(1);
        // most of them of the minutes of their batch, so that times tell segments apart
        let start = NEW_YEAR_MS - 60_000 + id as i64 * 4 + dice.below(2000) as i64;
        builder.u64(Column::FlowId).push(Some(id));
        builder.time(Column::Received).push(Some(start + 5000));
        builder.address(Column::Exporter).push(Some(&[198, 51, 100, (id % 3) as u8]));
        builder.time(Column::Start).push(dice.some(|_| start));
        builder.time(Column::End).push(dice.some(|dice| start + dice.skewed(60_000) as i64));
        for column in [Column::SrcAddr, Column::DstAddr] {
            builder.address(column).push(dice.some(Dice::address).as_deref());
        }
        builder.u16(Column::SrcPort).push(dice.some(|dice| 1024 + dice.below(60_000) as u16));
        builder.u16(Column::DstPort).push(dice.some(|dice| {
            let last = dice.skewed(PORTS.len() as u64);
            PORTS[last as usize]
        }));
        builder.u8(Column::Protocol).push(dice.some(|dice| *dice.pick(&[1, 6, 6, 6, 17, 58])));
        builder.u16(Column::TcpFlags).push(dice.some(|dice| dice.below(64) as u16));
        builder.u32(Column::SrcAs).push(dice.some(|dice| 64500 + dice.skewed(40) as u32));
        builder.u32(Column::InIf).push(dice.some(|dice| dice.skewed(12) as u32));
        builder.u64(Column::Packets).push(dice.some(|dice| dice.skewed(1000)));
        builder.u64(Column::Bytes).push(dice.some(|dice| dice.skewed(1_000_000)));
        builder.u64(Column::Flows).push((dice.below(20) == 0).then_some(3));
        // some longer than an address of IPv4, a few longer than any
        builder.u8(Column::SrcMask).push(dice.some(|dice| dice.skewed(140) as u8));
        builder.u64(Column::BytesReverse).push((dice.below(3) == 0).then(|| dice.skewed(1000)));
        builder.u16(Column::TcpFlagsReverse).push((dice.below(3) == 0).then(|| 1 << dice.below(9)));
        if dice.below(50) == 0 {
            builder.elements().push(9, 12235, &[dice.below(5) as u8]);
            builder.elements().push(0, 82, b"eth0");
        }
        builder.elements().end_row();
    }
    builder.finish()
}

/// Flows of a delivery.
const PIECE: u64 = 3000;

/// Writes the archive: `pieces` deliveries merged, as many sealed, some in the tail. It is complete while the writer
/// lives.
pub(crate) fn archive(folder: &Path, pieces: u64) -> Writer {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let options = ArchiveOptions {
        segment_rows_max: 4 * PIECE as usize,
        row_group_rows_max: 10_000,
        compaction: CompactionOptions { enabled: false, ..CompactionOptions::default() },
        ..ArchiveOptions::default()
    };
    let mut append = |writer: &mut Writer, piece| {
        let batch = flows(&mut dice, piece * PIECE, PIECE);
        writer.append(Delivery::from(batch)).expect("appended");
    };
    let (mut writer, _) = Writer::open(folder, options).expect("an archive");
    (0..pieces).for_each(|piece| append(&mut writer, piece));
    writer.close().expect("sealed");
    let merged = compact(folder, &CompactionOptions::default(), |_| {}).expect("merged");
    assert!(merged.segments_written > 0, "{merged:?}");
    let (mut writer, _) = Writer::open(folder, options).expect("the archive");
    (pieces..2 * pieces).for_each(|piece| append(&mut writer, piece));
    writer.close().expect("sealed");
    let (mut writer, _) = Writer::open(folder, options).expect("the archive");
    (2 * pieces..2 * pieces + 2).for_each(|piece| append(&mut writer, piece));
    writer
}

/// Flows that [`archive`] writes.
pub(crate) fn rows(pieces: u64) -> u64 {
    (2 * pieces + 2) * PIECE
}
