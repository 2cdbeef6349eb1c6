//! Files of nfdump: what nfcapd writes, and `nfdump -w`.
//!
//! A file is a header, blocks of records that are compressed one by one, and the writer's statistics: behind the header
//! in layout 1 (nfdump 1.6), at the end in layout 2 (nfdump 1.7). Everything is as a little-endian machine keeps it in
//! memory. Columns are read straight from a decompressed block, see [`shape`].
//!
//! Counters that nfdump scaled by sampling stay as they are in the file, and `sampling_interval` stays null for them:
//! nothing multiplies them a second time. Second counters (`out` in nfdump) go to `packets_out` and `bytes_out`, those of
//! firewall events to `packets_reverse` and `bytes_reverse`; a file does not say when nfdump merged two directions.

mod block;
mod columns;
mod decoder;
mod exporters;
mod header;
mod octets;
mod select;
mod shape;
mod v1;
mod v2;
mod values;
mod writer;

use std::fs::File;
use std::io::{self, Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use weir_flow::{FlowBatch, TableBatch};

pub use block::BLOCK_OCTETS_MAX;
pub use decoder::BATCH_ROWS_MAX;
pub use exporters::{Exporter, Exporters};
pub use header::{Compression, Info, Statistics, Sums};
pub use select::{Selected, select};
pub use shape::{
    HEADER_EXPORTER, HEADER_EXTENSIONS, HEADER_IDENT, HEADER_IS_SAMPLED, HEADER_IS_SAMPLED_OF_1_6, HEADER_SIZE,
    RECORD_HEADER,
};
pub use writer::{Writer, WriterOptions};

use crate::FormatError;
use block::{BLOCK_HEADER_OCTETS, BlockHeader, COMPRESSED_OCTETS_MAX, Decompressor};
use decoder::Decoder;
use header::{HEADER_1_OCTETS, HEADER_2_OCTETS, Header2, MAGIC, STATISTICS_1_OCTETS, STATISTICS_2_OCTETS};
use octets::{le_u16, text};

/// What was found in a file, and what could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Damage {
    /// Blocks read.
    pub blocks: u64,
    /// Flow records read.
    pub flows: u64,
    /// Records about exporters.
    pub exporters: u64,
    /// Records about samplers.
    pub samplers: u64,
    /// Blocks that could not be decompressed, or hold more than a block can.
    pub blocks_damaged: u64,
    /// Blocks of a kind that holds no flows that we know: other data, or nfdump 1.5.
    pub blocks_unknown: u64,
    /// Records that do not fit into their block, or whose extensions do not fit into them; what follows in the block is
    /// lost with those of the first kind, and counted by what the block said it holds.
    pub records_damaged: u64,
    /// Records of a kind that we do not know.
    pub records_unknown: u64,
    /// Extensions of flow records that have no column and no element, for each record.
    pub extensions_unknown: u64,
}

impl Damage {
    /// Whether anything was damaged. What is merely unknown is not.
    pub fn is_damaged(&self) -> bool {
        self.blocks_damaged + self.records_damaged > 0
    }
}

/// Reads a file block by block. As an iterator it yields batches of flows; an error is the last item.
pub struct Reader {
    path: PathBuf,
    file: File,
    /// Octets of the file read so far.
    position: u64,
    /// Where the blocks of records end.
    end: u64,
    info: Info,
    /// The block as it is in the file.
    stored: Vec<u8>,
    decompressor: Decompressor,
    decoder: Decoder,
    /// The block that is being decoded: its compression, when there is one.
    open: Option<Open>,
    /// The file ends before it should.
    cut_short: bool,
    ended: bool,
}

/// A block that is being decoded.
#[derive(Clone, Copy)]
struct Open {
    /// Octets of it that are decompressed; `None` when they are those in the file.
    decompressed: bool,
    octets: usize,
}

impl Reader {
    /// Opens a file and reads what it says about itself.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        Self::open_with(path.as_ref(), false)
    }

    /// The same; what the header of a record says and no column has is added to the elements of its flow, under
    /// [`RECORD_HEADER`].
    pub fn open_with_headers(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        Self::open_with(path.as_ref(), true)
    }

    fn open_with(path: &Path, headers: bool) -> Result<Self, FormatError> {
        let path = path.to_owned();
        let failed = |error| FormatError::open(&path, error);
        let mut file = File::open(&path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut start = [0; HEADER_1_OCTETS + STATISTICS_1_OCTETS];
        let found = read_up_to(&mut file, &mut start).map_err(|error| FormatError::read(&path, error))?;
        let start = &start[..found];
        let not_this = || FormatError::NotThis { path: path.clone(), expected: "an nfcapd file" };
        let unsupported = |what: String| FormatError::Unsupported { path: path.clone(), what };
        let cut_short = || FormatError::CutShort { path: path.clone(), octet: length };
        match le_u16(start, 0) {
            MAGIC if start.len() >= 4 => {}
            magic if magic.swap_bytes() == MAGIC => {
                return Err(unsupported("a file of a big-endian machine".to_owned()));
            }
            _ => return Err(not_this()),
        }
        let mut decompressor = Decompressor::new();
        let mut cut = false;
        let (info, begin, end) = match le_u16(start, 2) {
            1 => {
                let statistics = start.get(HEADER_1_OCTETS..HEADER_1_OCTETS + STATISTICS_1_OCTETS);
                let statistics = statistics.ok_or_else(cut_short)?;
                (Info::of_layout_1(start, statistics), HEADER_1_OCTETS + STATISTICS_1_OCTETS, length)
            }
            2 => {
                let header = start.get(..HEADER_2_OCTETS).ok_or_else(cut_short)?;
                let (mut info, rest) = Info::of_layout_2(header);
                if rest.encryption != 0 {
                    return Err(unsupported("an encrypted file".to_owned()));
                }
                info.compression = Compression::of_number(rest.compression)
                    .ok_or_else(|| unsupported(format!("compression {}", rest.compression)))?;
                cut = rest.appendix_at > length;
                let end = if rest.appendix_at == 0 { length } else { rest.appendix_at.min(length) };
                appendix(&mut file, &rest, length, &mut info, &mut decompressor);
                (info, HEADER_2_OCTETS, end)
            }
            other => return Err(unsupported(format!("layout {other} of nfcapd files"))),
        };
        file.seek(SeekFrom::Start(begin as u64)).map_err(|error| FormatError::read(&path, error))?;
        let last_ms = info.statistics.map_or(0, |statistics| statistics.last_ms as i64);
        let decoder = Decoder::new(info.layout, last_ms, headers.then(|| info.ident.clone()));
        Ok(Self {
            path,
            file,
            position: begin as u64,
            end,
            info,
            stored: Vec::new(),
            decompressor,
            decoder,
            open: None,
            cut_short: cut,
            ended: false,
        })
    }

    /// What the file says about itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What was found so far, and what could not be read.
    pub fn damage(&self) -> Damage {
        self.decoder.damage
    }

    /// The exporters found so far, by their numbers in the file.
    pub fn exporters(&self) -> &Exporters {
        &self.decoder.exporters
    }

    /// Rows for `exporter_options` that were found since this was last asked: samplers, and names of interfaces, VRFs
    /// and applications.
    pub fn take_options(&mut self) -> Option<TableBatch> {
        self.decoder.told.take()
    }

    /// Octets of the file read so far.
    pub fn octets_read(&self) -> u64 {
        self.position
    }

    /// Reads the next block that holds records; false at the end.
    fn next_block(&mut self) -> Result<bool, FormatError> {
        while self.position < self.end {
            let cut_short = FormatError::CutShort { path: self.path.clone(), octet: self.end };
            let mut header = [0; BLOCK_HEADER_OCTETS];
            let failed = |error| FormatError::read(&self.path, error);
            if read_up_to(&mut self.file, &mut header).map_err(failed)? < BLOCK_HEADER_OCTETS {
                return Err(cut_short);
            }
            let header = BlockHeader::of(&header);
            let octets = u64::from(header.octets);
            let begin = self.position + BLOCK_HEADER_OCTETS as u64;
            let left = self.end.saturating_sub(begin);
            if octets > COMPRESSED_OCTETS_MAX as u64 {
                let (path, octet, what) =
                    (self.path.clone(), self.position, "a block is longer than any writer makes it");
                return Err(FormatError::Damaged { path, octet, what });
            }
            // what is there of a block that is cut short is still read
            let there = octets.min(left) as usize;
            self.stored.resize(there, 0);
            if read_up_to(&mut self.file, &mut self.stored).map_err(failed)? < there {
                return Err(cut_short);
            }
            self.position = begin + there as u64;
            let compression = header.compression(self.info.layout, self.info.compression);
            let whole = there as u64 == octets;
            self.cut_short |= !whole;
            if self.begin_block(header, compression, whole) {
                return Ok(true);
            }
        }
        if self.cut_short || self.decoder.damage.blocks < u64::from(self.info.blocks) {
            return Err(FormatError::CutShort { path: self.path.clone(), octet: self.end });
        }
        Ok(false)
    }

    /// Takes up a block; false when there is nothing to decode in it.
    fn begin_block(&mut self, header: BlockHeader, compression: Compression, whole: bool) -> bool {
        let damage = &mut self.decoder.damage;
        damage.blocks += 1;
        let known = matches!((self.info.layout, header.kind), (1, 2) | (2, 3));
        if !known {
            damage.blocks_unknown += 1;
            return false;
        }
        let plain = compression == Compression::None;
        let octets = match plain {
            true => Some(self.stored.len()).filter(|octets| *octets <= BLOCK_OCTETS_MAX),
            false if whole => self.decompressor.decompress(compression, &self.stored),
            false => None,
        };
        let Some(octets) = octets else {
            damage.blocks_damaged += 1;
            return false;
        };
        self.decoder.begin_block(header.records);
        self.open = Some(Open { decompressed: !plain, octets });
        true
    }

    fn next_batch(&mut self) -> Result<Option<FlowBatch>, FormatError> {
        loop {
            if let Some(open) = self.open {
                let block = if open.decompressed { self.decompressor.output() } else { &self.stored[..] };
                if let Some(batch) = self.decoder.next_batch(block.get(..open.octets).unwrap_or_default()) {
                    return Ok(Some(batch));
                }
                self.open = None;
            }
            if !self.next_block()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<FlowBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.next_batch() {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                self.ended = true;
                None
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

/// Reads until the place is full or the file ends; returns how many octets were read.
fn read_up_to(file: &mut File, place: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < place.len() {
        match file.read(&mut place[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// Records of the appendix of layout 2.
const IDENT: u16 = 0x8001;
const STATISTICS: u16 = 0x8002;

/// Reads ident and statistics from the appendix. What is not there or damaged stays untold: flows come first.
fn appendix(file: &mut File, header: &Header2, length: u64, info: &mut Info, decompressor: &mut Decompressor) {
    let mut at = header.appendix_at;
    if at < HEADER_2_OCTETS as u64 {
        return;
    }
    for _ in 0..header.appendix_blocks {
        let mut head = [0; BLOCK_HEADER_OCTETS];
        if at >= length || file.seek(SeekFrom::Start(at)).is_err() {
            return;
        }
        if read_up_to(file, &mut head).is_ok_and(|read| read < BLOCK_HEADER_OCTETS) {
            return;
        }
        let head = BlockHeader::of(&head);
        let octets = u64::from(head.octets).min(length - at);
        if octets > COMPRESSED_OCTETS_MAX as u64 {
            return;
        }
        let mut stored = vec![0; octets as usize];
        if read_up_to(file, &mut stored).is_err() {
            return;
        }
        at += BLOCK_HEADER_OCTETS as u64 + octets;
        let compression = head.compression(2, info.compression);
        if compression == Compression::None {
            appendix_records(&stored, info);
        } else if let Some(octets) = decompressor.decompress(compression, &stored) {
            appendix_records(decompressor.output().get(..octets).unwrap_or_default(), info);
        }
    }
}

fn appendix_records(mut block: &[u8], info: &mut Info) {
    while block.len() >= 4 {
        let (kind, size) = (le_u16(block, 0), usize::from(le_u16(block, 2)));
        let Some((record, rest)) = block.split_at_checked(size.max(4)) else { return };
        match kind {
            IDENT => info.ident = text(&record[4..]),
            STATISTICS if record.len() >= 4 + STATISTICS_2_OCTETS => {
                info.statistics = Some(Statistics::of_layout_2(&record[4..]));
            }
            _ => {}
        }
        block = rest;
    }
}
