//! Records of blocks into batches.

use std::collections::HashMap;

use weir_flow::{FlowBatch, FlowBatchBuilder};

use super::columns::{Records, Row};
use super::exporters::{Exporters, ReportedOptions, kind};
use super::octets::le_u16;
use super::shape::Shape;
use super::{Damage, v1, v2};

/// Flows in a batch at most.
pub const BATCH_ROWS_MAX: usize = 16_384;
/// Shapes known at a time; when there are more, as where extensions have any length, they are forgotten between batches.
const SHAPES_MAX: usize = 1024;
/// Octets of the header of every record: type and size.
const RECORD_HEADER_OCTETS: usize = 4;

/// Flow records by their number.
const FLOW_1: u16 = 1;
const MAP: u16 = 2;
const FLOW_1_WIDE: u16 = 10;

/// What a record came to.
enum Taken {
    /// It is done with.
    Yes,
    /// It changes how the records before it are read: they must become a batch first.
    BatchFirst,
}

/// The key of the record before, and its shape.
#[derive(Default)]
struct LastRecord {
    key: Vec<u8>,
    shape: u16,
}

/// Decodes the records of blocks.
pub(super) struct Decoder {
    layout: u16,
    /// What the header of a record says is added to its elements, with this ident.
    headers: Option<String>,
    pub(super) exporters: Exporters,
    pub(super) told: ReportedOptions,
    pub(super) damage: Damage,
    /// When the file was closed: rows beside the flows have no time of their own.
    told_ms: i64,
    /// Maps of extensions of layout 1.
    maps: HashMap<u16, Vec<u16>>,
    shapes: Vec<Shape>,
    /// Shapes by what makes them: types and lengths of extensions, or type, flags and map.
    by_key: HashMap<Box<[u8]>, u16>,
    last: LastRecord,
    key: Vec<u8>,
    rows: Vec<Row>,
    builder: FlowBatchBuilder,
    /// Where the next record of the block begins.
    at: usize,
    /// Records that the block should still have.
    records_left: u32,
}

impl Decoder {
    pub(super) fn new(layout: u16, told_ms: i64, headers: Option<String>) -> Self {
        Self {
            layout,
            headers,
            exporters: Exporters::default(),
            told: ReportedOptions::default(),
            damage: Damage::default(),
            told_ms,
            maps: HashMap::new(),
            shapes: Vec::new(),
            by_key: HashMap::new(),
            last: LastRecord::default(),
            key: Vec::new(),
            rows: Vec::with_capacity(BATCH_ROWS_MAX),
            builder: FlowBatchBuilder::new(BATCH_ROWS_MAX),
            at: 0,
            records_left: 0,
        }
    }

    /// Begins a block that should have `records` records.
    pub(super) fn begin_block(&mut self, records: u32) {
        self.at = 0;
        self.records_left = records;
    }

    /// The next flows of the block, `None` when there are no more.
    pub(super) fn next_batch(&mut self, block: &[u8]) -> Option<FlowBatch> {
        self.rows.clear();
        while self.rows.len() < BATCH_ROWS_MAX && self.at < block.len() {
            let rest = &block[self.at..];
            let size = usize::from(le_u16(rest, 2));
            let Some(record) = rest.get(..size).filter(|record| record.len() >= RECORD_HEADER_OCTETS) else {
                // where the next record begins is not known
                self.damage.records_damaged += u64::from(self.records_left.max(1));
                self.records_left = 0;
                self.at = block.len();
                break;
            };
            match self.record(record) {
                Taken::Yes => {
                    self.at += size;
                    self.records_left = self.records_left.saturating_sub(1);
                }
                Taken::BatchFirst => break,
            }
        }
        if self.at >= block.len() {
            // a block that is cut short
            self.damage.records_damaged += u64::from(std::mem::take(&mut self.records_left));
        }
        if self.rows.is_empty() {
            return None;
        }
        self.damage.flows += self.rows.len() as u64;
        let records = Records {
            block,
            rows: &self.rows,
            shapes: &self.shapes,
            exporters: &self.exporters,
            ident: self.headers.as_deref(),
        };
        Some(records.batch(&mut self.builder))
    }

    /// Takes a record that begins at `self.at`.
    fn record(&mut self, record: &[u8]) -> Taken {
        match (self.layout, le_u16(record, 0)) {
            (2, v2::FLOW) | (1, FLOW_1 | FLOW_1_WIDE) => return self.flow(record),
            (1, MAP) => return self.map(record),
            (_, kind::EXPORTER) => return self.exporter(record),
            (_, kind::EXPORTER_STATISTICS) => {}
            (_, kind::SAMPLER_1 | kind::SAMPLER_2) => {
                self.damage.samplers += 1;
                let good = self.told.sampler(record, &self.exporters, self.told_ms);
                self.damage.records_damaged += u64::from(!good);
            }
            (2, kind::APPLICATIONS | kind::INTERFACES | kind::VRFS) => {
                let good = self.told.names(record, &self.exporters, self.told_ms);
                self.damage.records_damaged += u64::from(!good);
            }
            _ => self.damage.records_unknown += 1,
        }
        Taken::Yes
    }

    fn exporter(&mut self, record: &[u8]) -> Taken {
        let Some((number, exporter)) = Exporters::read(record) else {
            self.damage.records_damaged += 1;
            return Taken::Yes;
        };
        let known = self.exporters.get(number.into());
        if known != Some(&exporter) {
            if !self.rows.is_empty() {
                return Taken::BatchFirst;
            }
            self.exporters.set(number, exporter);
        }
        self.damage.exporters += 1;
        Taken::Yes
    }

    fn map(&mut self, record: &[u8]) -> Taken {
        let Some((number, extensions)) = v1::map(record) else {
            self.damage.records_damaged += 1;
            return Taken::Yes;
        };
        if self.maps.get(&number) != Some(&extensions) {
            if !self.rows.is_empty() {
                return Taken::BatchFirst;
            }
            self.forget_shapes();
            self.maps.insert(number, extensions);
        }
        Taken::Yes
    }

    fn forget_shapes(&mut self) {
        self.shapes.clear();
        self.by_key.clear();
        self.last.key.clear();
    }

    fn flow(&mut self, record: &[u8]) -> Taken {
        if !self.is_last_shape(record) {
            if !self.build_key(record) {
                self.damage.records_damaged += 1;
                return Taken::Yes;
            }
            match self.by_key.get(self.key.as_slice()) {
                Some(&shape) => self.last.shape = shape,
                None if self.shapes.len() >= SHAPES_MAX && !self.rows.is_empty() => return Taken::BatchFirst,
                None => {
                    if self.shapes.len() >= SHAPES_MAX {
                        self.forget_shapes();
                    }
                    let Some(shape) = self.shape(record) else {
                        self.damage.records_damaged += 1;
                        return Taken::Yes;
                    };
                    self.last.shape = self.shapes.len() as u16;
                    self.by_key.insert(self.key.as_slice().into(), self.last.shape);
                    self.shapes.push(shape);
                }
            }
            std::mem::swap(&mut self.last.key, &mut self.key);
        }
        let shape = &self.shapes[usize::from(self.last.shape)];
        if record.len() < shape.octets_min {
            self.damage.records_damaged += 1;
            return Taken::Yes;
        }
        self.damage.extensions_unknown += shape.extensions_unknown;
        self.rows.push(Row { at: self.at as u32, octets: record.len() as u16, shape: self.last.shape });
        Taken::Yes
    }

    /// Whether a record has the shape of the one before it.
    fn is_last_shape(&self, record: &[u8]) -> bool {
        if self.last.key.is_empty() {
            return false;
        }
        if self.layout == 1 {
            return self.last.key == key_1(record);
        }
        let mut headers = self.last.key.chunks_exact(4);
        if usize::from(le_u16(record, 4)) != headers.len() {
            return false;
        }
        let mut at = v2::HEADER_OCTETS;
        headers.all(|header| {
            let same = record.get(at..at + 4) == Some(header);
            at += usize::from(le_u16(header, 2));
            same
        })
    }

    /// False when the extensions do not fit into the record.
    fn build_key(&mut self, record: &[u8]) -> bool {
        self.key.clear();
        if self.layout == 1 {
            self.key.extend_from_slice(&key_1(record));
            return true;
        }
        for extension in v2::extensions(record) {
            let Some((kind, _, length)) = extension else { return false };
            self.key.extend_from_slice(&kind.to_le_bytes());
            self.key.extend_from_slice(&((length + v2::EXTENSION_HEADER_OCTETS) as u16).to_le_bytes());
        }
        true
    }

    fn shape(&self, record: &[u8]) -> Option<Shape> {
        let kind = le_u16(record, 0);
        let mut shape = if self.layout == 1 {
            let extensions = self.maps.get(&v1::map_of(record))?;
            v1::shape(kind, v1::flags_of(record, kind), extensions)
        } else {
            v2::shape(record)?
        };
        if self.headers.is_some() {
            match self.layout {
                1 => shape.elements.extend(v1::header(kind)),
                _ => shape.elements.extend(v2::header(record)),
            }
        }
        Some(shape)
    }
}

/// What makes the shape of a flow record of layout 1.
fn key_1(record: &[u8]) -> [u8; 6] {
    let kind = le_u16(record, 0);
    let mut key = [0; 6];
    let words = [kind, v1::flags_of(record, kind), v1::map_of(record)];
    for (place, word) in key.chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    key
}
