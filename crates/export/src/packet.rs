//! Filling packets of NetFlow v5.

use weir_wire::fixed::{Header, PacketBuilder};
use weir_wire::netflow5::{FORMAT, HEADER_LEN, RECORD_LEN};

use crate::clock::Clock;
use crate::columns::Columns;
use crate::config::ExporterConfig;
use crate::exported::Exported;
use crate::exporter::Datagram;
use crate::records::Plan;
use crate::shapes::Shapes;
use crate::stage::Stage;

/// Records waiting for a packet, and what goes into the next header.
#[derive(Debug)]
pub(crate) struct Packets {
    plan: Plan,
    stage: Stage,
    rows: Vec<u32>,
    datagram: Vec<u8>,
    records_max: usize,
    /// Flows sent before.
    sequence: u32,
    /// The header without what changes.
    header: Header,
}

impl Packets {
    pub(crate) fn new(config: &ExporterConfig) -> Self {
        let fitting = (config.datagram_octets_max - HEADER_LEN) / RECORD_LEN;
        let sampling = config.sampling.map_or(0, |sampling| sampling_field(sampling.interval));
        Self {
            plan: Plan::of_version_5(),
            stage: Stage::new(Some(RECORD_LEN)),
            rows: Vec::new(),
            datagram: Vec::new(),
            records_max: fitting.min(FORMAT.packet_records_max.into()),
            sequence: 0,
            header: Header {
                engine_type: (config.domain >> 8) as u8,
                engine_id: config.domain as u8,
                sampling,
                ..Header::default()
            },
        }
    }

    /// Sets the sampling interval of headers from the next packet on.
    pub(crate) fn set_sampling(&mut self, interval: u32) {
        self.header.sampling = sampling_field(interval);
    }

    /// Puts the rows that were not refused into the stage, the first of them being `first`.
    pub(crate) fn add(&mut self, columns: &Columns<'_>, shapes: &Shapes, first: usize, boot_ms: i64) {
        self.rows.clear();
        let rows = shapes.refused.iter().zip(first as u32..);
        self.rows.extend(rows.filter(|(refused, _)| refused.is_none()).map(|(_, row)| row));
        self.plan.write(columns, &self.rows, boot_ms, &mut self.stage);
    }

    /// Hands out full packets; with `all` also the last one.
    pub(crate) fn emit(
        &mut self,
        clock: Clock,
        all: bool,
        exported: &mut Exported,
        sink: &mut impl FnMut(Datagram<'_>),
    ) {
        loop {
            let (records, octets) = self.stage.fitting(self.records_max * RECORD_LEN);
            if records == 0 || (records < self.records_max && !all) {
                return;
            }
            self.datagram.clear();
            let header = Header {
                sys_uptime_ms: clock.uptime_at(clock.now_ms),
                unix_secs: clock.now_ms.div_euclid(1000) as u32,
                unix_nsecs: clock.now_ms.rem_euclid(1000) as u32 * 1_000_000,
                flow_sequence: self.sequence,
                ..self.header
            };
            let mut packet = PacketBuilder::new(&FORMAT, &mut self.datagram, &header);
            for record in self.stage.front(octets).chunks_exact(RECORD_LEN) {
                // There are at most as many as a packet takes, so none is refused.
                let _ = packet.record(record);
            }
            let count = packet.finish();
            self.stage.consume(records, octets);
            self.sequence = self.sequence.wrapping_add(count.into());
            exported.datagrams += 1;
            exported.octets += self.datagram.len() as u64;
            sink(Datagram { octets: &self.datagram, flows: count.into(), records: count.into() });
        }
    }
}

/// 1 in the two highest bits: one packet in every interval.
const fn sampling_field(interval: u32) -> u16 {
    (1 << 14) | interval as u16
}
