//! Writes flows as a file of layout 2, which nfdump 1.7 reads.
//!
//! A record gets the extensions that its flow has values for. Columns for which the layout has no place, times of the
//! opposite direction and elements other than those that [`super`] reads, are left out.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use weir_flow::{Column, FlowBatch};

use super::block::BLOCK_HEADER_OCTETS;
use super::header::{Compression, HEADER_2_OCTETS, MAGIC, Statistics, Sums};
use super::values::Values;
use super::{IDENT, STATISTICS, v2};
use crate::FormatError;

/// Octets of a block at which it is written; a record is shorter than what is left of nfdump's buffer.
const BLOCK_OCTETS: usize = 1 << 20;
/// What stands for the program that made the file: nfdump itself, since no other number says better what it is.
const CREATOR_NFDUMP: u32 = 4;
/// The version of the layout's first program.
const NFDUMP_VERSION: u32 = 0x0107_0100;
/// Exporters that get a number of their own; the flows of others keep their address and lose their domain.
const EXPORTERS_MAX: usize = u16::MAX as usize;
/// Octets of the name that `-i` gives.
const IDENT_OCTETS_MAX: usize = 127;

/// How a file is written.
#[derive(Debug, Clone, Default)]
pub struct WriterOptions {
    /// Compression of the blocks.
    pub compression: Compression,
    /// Who the flows are of; cut after 127 octets.
    pub ident: String,
}

/// An exporter as a record has it.
type ExporterKey = (Vec<u8>, u32, u8);

/// Writes a file.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    options: WriterOptions,
    block: Vec<u8>,
    records: u32,
    blocks: u32,
    octets: u64,
    exporters: HashMap<ExporterKey, u16>,
    statistics: Statistics,
}

impl Writer {
    /// Makes a file, or empties the one that is there.
    pub fn create(path: impl AsRef<Path>, options: WriterOptions) -> Result<Self, FormatError> {
        let path = path.as_ref().to_owned();
        let file = File::create(&path).map_err(|error| FormatError::write(&path, error))?;
        let mut writer = Self {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            options,
            block: Vec::with_capacity(BLOCK_OCTETS),
            records: 0,
            blocks: 0,
            octets: 0,
            exporters: HashMap::new(),
            statistics: Statistics { first_ms: u64::MAX, ..Statistics::default() },
        };
        // until it is finished, the file says that it has no blocks
        let header = writer.header(0);
        writer.put(&header)?;
        Ok(writer)
    }

    /// Writes all flows of a batch.
    pub fn write(&mut self, flows: &FlowBatch) -> Result<(), FormatError> {
        let values = Values::new(flows);
        for row in 0..flows.rows() {
            let exporter = self.exporter(&values, row);
            record(&mut self.block, &values, row, exporter);
            self.records += 1;
            self.count(&values, row);
            if self.block.len() + usize::from(u16::MAX) > BLOCK_OCTETS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes what is left and what the file says about itself. Without this, nfdump finds no flows in the file.
    pub fn finish(mut self) -> Result<Statistics, FormatError> {
        self.flush()?;
        if self.statistics.total.flows == 0 {
            self.statistics.first_ms = 0;
        }
        let appendix_at = self.octets;
        let (blocks, mut appendix) = (self.blocks, Vec::new());
        let ident = self.options.ident.as_bytes();
        let ident = if ident.is_empty() { b"none" } else { &ident[..ident.len().min(IDENT_OCTETS_MAX)] };
        put_record(&mut appendix, IDENT, &[ident, &[0]].concat());
        put_record(&mut appendix, STATISTICS, &self.statistics.to_layout_2());
        (self.block, self.records) = (appendix, 2);
        self.flush()?;
        self.blocks = blocks;
        let header = self.header(appendix_at);
        let failed = |error| FormatError::write(&self.path, error);
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        self.file.write_all(&header).and_then(|()| self.file.flush()).map_err(failed)?;
        Ok(self.statistics)
    }

    fn put(&mut self, octets: &[u8]) -> Result<(), FormatError> {
        self.octets += octets.len() as u64;
        self.file.write_all(octets).map_err(|error| FormatError::write(&self.path, error))
    }

    fn header(&self, appendix_at: u64) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER_2_OCTETS);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&2_u16.to_le_bytes());
        header.extend_from_slice(&NFDUMP_VERSION.to_le_bytes());
        header.extend_from_slice(&jiff::Timestamp::now().as_second().to_le_bytes());
        header.extend_from_slice(&[self.options.compression.number(), 0]);
        header.extend_from_slice(&u16::from(appendix_at > 0).to_le_bytes());
        header.extend_from_slice(&CREATOR_NFDUMP.to_le_bytes());
        header.extend_from_slice(&appendix_at.to_le_bytes());
        header.extend_from_slice(&(BLOCK_OCTETS as u32).to_le_bytes());
        header.extend_from_slice(&self.blocks.to_le_bytes());
        header
    }

    /// Writes the block that is open, when there is something in it.
    fn flush(&mut self) -> Result<(), FormatError> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::take(&mut self.block);
        let failed = |what: String| FormatError::write(&self.path, std::io::Error::other(what));
        let stored = match self.options.compression {
            Compression::None => None,
            Compression::Lz4 => Some(lz4_flex::block::compress(&block)),
            Compression::Lzo => Some(lzokay_native::compress(&block).map_err(|error| failed(error.to_string()))?),
            Compression::Zstd => Some(zstd::bulk::compress(&block, 0).map_err(|error| failed(error.to_string()))?),
            Compression::Bzip2 => {
                let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
                encoder.write_all(&block).map_err(|error| failed(error.to_string()))?;
                Some(encoder.finish().map_err(|error| failed(error.to_string()))?)
            }
        };
        let stored = stored.as_ref().unwrap_or(&block);
        let mut header = Vec::with_capacity(BLOCK_HEADER_OCTETS);
        header.extend_from_slice(&self.records.to_le_bytes());
        header.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        header.extend_from_slice(&3_u16.to_le_bytes());
        header.extend_from_slice(&0_u16.to_le_bytes());
        self.put(&header)?;
        self.put(stored)?;
        self.blocks += 1;
        self.records = 0;
        self.block = block;
        self.block.clear();
        Ok(())
    }

    /// The number of a row's exporter, 0 when there is none; a new one is written first.
    fn exporter(&mut self, values: &Values<'_>, row: usize) -> u16 {
        let Some(address) = values.octets(Column::Exporter, row) else { return 0 };
        let domain = values.number(Column::ObservationDomain, row).unwrap_or(0) as u32;
        let version = values.number(Column::ExportVersion, row).unwrap_or(0) as u8;
        let key = (address.to_vec(), domain, version);
        if let Some(number) = self.exporters.get(&key) {
            return *number;
        }
        if self.exporters.len() >= EXPORTERS_MAX {
            return 0;
        }
        let number = self.exporters.len() as u16 + 1;
        let mut content = Vec::with_capacity(28);
        let version = if version == weir_flow::EXPORT_VERSION_SFLOW5 { 9999 } else { u32::from(version) };
        content.extend_from_slice(&version.to_le_bytes());
        let family: u16 = if let [a, b, c, d] = *address {
            content.extend_from_slice(&[0; 8]);
            content.extend_from_slice(&[d, c, b, a]);
            content.extend_from_slice(&[0; 4]);
            2
        } else {
            content.extend(v2::halves_reversed(address));
            10
        };
        content.extend_from_slice(&family.to_le_bytes());
        content.extend_from_slice(&number.to_le_bytes());
        content.extend_from_slice(&domain.to_le_bytes());
        put_record(&mut self.block, super::exporters::kind::EXPORTER, &content);
        self.records += 1;
        self.exporters.insert(key, number);
        number
    }

    fn count(&mut self, values: &Values<'_>, row: usize) {
        let of = |column| values.number(column, row).unwrap_or(0);
        let statistics = &mut self.statistics;
        let class = match of(Column::Protocol) {
            6 => &mut statistics.tcp,
            17 => &mut statistics.udp,
            1 | 58 => &mut statistics.icmp,
            _ => &mut statistics.other,
        };
        for Sums { flows, packets, bytes } in [class, &mut statistics.total] {
            *flows += 1;
            *packets = packets.saturating_add(of(Column::Packets));
            *bytes = bytes.saturating_add(of(Column::Bytes));
        }
        statistics.first_ms = statistics.first_ms.min(of(Column::Start));
        statistics.last_ms = statistics.last_ms.max(of(Column::End));
    }
}

fn put_record(block: &mut Vec<u8>, kind: u16, content: &[u8]) {
    block.extend_from_slice(&kind.to_le_bytes());
    block.extend_from_slice(&(content.len() as u16 + 4).to_le_bytes());
    block.extend_from_slice(content);
}

/// Appends the record of a flow.
fn record(block: &mut Vec<u8>, values: &Values<'_>, row: usize, exporter: u16) {
    let begin = block.len();
    let byte = |column| values.number(column, row).unwrap_or(0) as u8;
    let event = values.number(Column::FirewallEvent, row).or_else(|| values.number(Column::NatEvent, row));
    let version = match byte(Column::ExportVersion) {
        weir_flow::EXPORT_VERSION_SFLOW5 => 0x85,
        other => other,
    };
    block.extend_from_slice(&v2::FLOW.to_le_bytes());
    block.extend_from_slice(&[0; 4]);
    block.extend_from_slice(&[byte(Column::EngineType), byte(Column::EngineId)]);
    block.extend_from_slice(&exporter.to_le_bytes());
    block.extend_from_slice(&[u8::from(event.is_some()), version]);
    let extensions = v2::write_extensions(block, values, row);
    let size = (block.len() - begin) as u16;
    block[begin + 2..begin + 4].copy_from_slice(&size.to_le_bytes());
    block[begin + 4..begin + 6].copy_from_slice(&extensions.to_le_bytes());
}
