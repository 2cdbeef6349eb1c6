//! Files of flow-tools: exports of version 5 and 7, in either byte order, with zlib or without.
//!
//! A file is a header of typed values and then records of one length, each with the header of the datagram that it came
//! in: so times are worked out as for a datagram. Aggregated files (version 8) have no flows and are refused.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use weir_flow::{Column, FlowBatch, FlowBatchBuilder};

use crate::FormatError;

/// The first two octets of every file.
pub(crate) const MAGIC: [u8; 2] = [0xcf, 0x10];
/// Octets of the header at most; nothing but a damaged file has more.
const HEADER_OCTETS_MAX: usize = 64 << 10;
/// Flows in a batch.
const BATCH_ROWS: usize = 16_384;
/// The flag for zlib in the header.
const FLAG_ZLIB: u32 = 2;

/// Types of values in the header.
const EXPORT_VERSION: u16 = 2;
const FLAGS: u16 = 8;

/// Integers in the byte order of the file.
#[derive(Debug, Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn u16(self, octets: &[u8], at: usize) -> u16 {
        let Some(&[a, b]) = octets.get(at..at + 2) else { return 0 };
        if self.big { u16::from_be_bytes([a, b]) } else { u16::from_le_bytes([a, b]) }
    }

    fn u32(self, octets: &[u8], at: usize) -> u32 {
        let Some(&[a, b, c, d]) = octets.get(at..at + 4) else { return 0 };
        if self.big { u32::from_be_bytes([a, b, c, d]) } else { u32::from_le_bytes([a, b, c, d]) }
    }
}

/// Reads a file. As an iterator it yields batches of flows; an error is the last item.
pub struct Reader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    order: Order,
    version: u8,
    record_octets: usize,
    builder: FlowBatchBuilder,
    octets: Vec<u8>,
    flows: u64,
    /// What is wrong with the rest of the file, once the flows before it have been handed on.
    failed: Option<FormatError>,
    ended: bool,
}

impl Reader {
    /// Opens a file and reads its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FormatError> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| FormatError::open(&path, error))?;
        let mut input = BufReader::with_capacity(1 << 16, file);
        let (order, version, flags) = header(&mut input, &path)?;
        let record_octets = match version {
            5 => 64,
            7 => 68,
            other => {
                let what = format!("a flow-tools file of export version {other}");
                return Err(FormatError::Unsupported { path, what });
            }
        };
        let input: Box<dyn Read + Send> = match flags & FLAG_ZLIB {
            0 => Box::new(input),
            _ => Box::new(flate2::bufread::ZlibDecoder::new(input)),
        };
        Ok(Self {
            path,
            input,
            order,
            version: version as u8,
            record_octets,
            builder: FlowBatchBuilder::new(BATCH_ROWS),
            octets: Vec::new(),
            flows: 0,
            failed: None,
            ended: false,
        })
    }

    /// Flows read so far.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Reads as many records as a batch has; fewer only at the end, which is returned as well.
    fn fill(&mut self) -> (usize, Result<bool, FormatError>) {
        self.octets.resize(BATCH_ROWS * self.record_octets, 0);
        let mut length = 0;
        while length < self.octets.len() {
            match self.input.read(&mut self.octets[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // an empty file is not even compressed
                Err(_) if length == 0 && self.flows == 0 => break,
                Err(error) => return (length / self.record_octets, Err(FormatError::read(&self.path, error))),
            }
        }
        let rows = length / self.record_octets;
        let more = length == self.octets.len();
        if length % self.record_octets != 0 {
            let octet = (self.flows + rows as u64) * self.record_octets as u64;
            return (rows, Err(FormatError::CutShort { path: self.path.clone(), octet }));
        }
        (rows, Ok(more))
    }

    fn batch(&mut self, rows: usize) -> FlowBatch {
        let records = || self.octets.chunks_exact(self.record_octets).take(rows);
        let (order, builder) = (self.order, &mut self.builder);
        builder.begin_rows(rows);
        // when the datagram came, which is also what the clock of the exporter said
        let came_ms =
            |record: &[u8]| i64::from(order.u32(record, 0)) * 1000 + i64::from(order.u32(record, 4) / 1_000_000);
        // the clock of the flow is the exporter's uptime, which goes round after 49 days
        let time_ms = |record: &[u8], at: usize| {
            came_ms(record) - i64::from(order.u32(record, 8).wrapping_sub(order.u32(record, at)) as i32)
        };
        builder.time(Column::Received).extend(records().map(came_ms));
        builder.time(Column::Start).extend(records().map(|record| time_ms(record, 40)));
        builder.time(Column::End).extend(records().map(|record| time_ms(record, 44)));
        for (column, at) in
            [(Column::Exporter, 12), (Column::SrcAddr, 16), (Column::DstAddr, 20), (Column::NextHop, 24)]
        {
            builder.address(column).extend_fixed(records().map(|record| order.u32(record, at).to_be_bytes()));
        }
        for (column, at) in [(Column::Packets, 32), (Column::Bytes, 36)] {
            builder.u64(column).extend(records().map(|record| order.u32(record, at).into()));
        }
        for (column, at) in [(Column::InIf, 28), (Column::OutIf, 30), (Column::SrcAs, 60), (Column::DstAs, 62)] {
            builder.u32(column).extend(records().map(|record| order.u16(record, at).into()));
        }
        for (column, at) in [(Column::SrcPort, 48), (Column::DstPort, 50)] {
            builder.u16(column).extend(records().map(|record| order.u16(record, at)));
        }
        builder.u16(Column::TcpFlags).extend(records().map(|record| record[54].into()));
        let octets = [
            (Column::Protocol, 52),
            (Column::Tos, 53),
            (Column::EngineType, 56),
            (Column::EngineId, 57),
            (Column::SrcMask, 58),
            (Column::DstMask, 59),
        ];
        for (column, at) in octets {
            builder.u8(column).extend(records().map(|record| record[at]));
        }
        let domain = |record: &[u8]| u32::from(record[56]) << 8 | u32::from(record[57]);
        builder.u32(Column::ObservationDomain).extend(records().map(domain));
        builder.u8(Column::ExportVersion).repeat(self.version, rows);
        builder.finish()
    }
}

impl Iterator for Reader {
    type Item = Result<FlowBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if let Some(error) = self.failed.take() {
            self.ended = true;
            return Some(Err(error));
        }
        let (rows, more) = self.fill();
        if rows > 0 {
            let batch = self.batch(rows);
            self.flows += rows as u64;
            // the flows first
            self.failed = more.err();
            return Some(Ok(batch));
        }
        self.ended = true;
        more.err().map(Err)
    }
}

/// Reads the header: byte order, export version, flags.
fn header(input: &mut impl Read, path: &Path) -> Result<(Order, u16, u32), FormatError> {
    let cut_short = |octet| FormatError::CutShort { path: path.to_owned(), octet };
    let mut start = [0; 8];
    input.read_exact(&mut start).map_err(|_| cut_short(0))?;
    let [a, b, order, stream, ..] = start;
    let order = match ([a, b], order) {
        (MAGIC, 1) => Order { big: false },
        (MAGIC, 2) => Order { big: true },
        _ => return Err(FormatError::NotThis { path: path.to_owned(), expected: "a flow-tools file" }),
    };
    let length = order.u32(&start, 4) as usize;
    if stream != 3 {
        let what = format!("a flow-tools file of stream version {stream}");
        return Err(FormatError::Unsupported { path: path.to_owned(), what });
    }
    if !(8..=HEADER_OCTETS_MAX).contains(&length) {
        let what = "the length of the header makes no sense";
        return Err(FormatError::Damaged { path: path.to_owned(), octet: 4, what });
    }
    let mut values = vec![0; length - 8];
    input.read_exact(&mut values).map_err(|_| cut_short(8))?;
    let (mut version, mut flags, mut rest) = (0, 0, values.as_slice());
    while rest.len() >= 4 {
        let (kind, octets) = (order.u16(rest, 0), usize::from(order.u16(rest, 2)));
        let Some((value, next)) = rest[4..].split_at_checked(octets) else { break };
        match kind {
            EXPORT_VERSION => version = order.u16(value, 0),
            FLAGS => flags = order.u32(value, 0),
            _ => {}
        }
        rest = next;
    }
    Ok((order, version, flags))
}
