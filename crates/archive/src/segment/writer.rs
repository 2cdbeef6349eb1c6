//! Segments as Parquet files.
//!
//! Columns are encoded one after another, each over all row groups, and the encoded pieces are put together at the
//! end. So one column at a time is gathered into the order of the segment, instead of all of them, and what else is in
//! memory is already compressed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::datatypes::{Field, TimestampMillisecondType};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::check::INDEX_KEY;
use super::encoding::{PAGE_ROWS, properties, properties_of_nulls};
use super::gather::Gather;
use super::summed::Summed;
use super::{Columns, SegmentName};
use crate::ArchiveError;
use crate::index::{ChunkPlaces, HEADER_AT, HEADER_OCTETS, HOSTS, Header, IndexWriter, PageEncoding, ROLLUPS, Section};
use crate::layout::TailNumber;
use crate::order::FlowOrder;
use crate::position::Position;
use crate::rollup::Rollup;
use crate::rollup::build::rollups;
use weir_flow::{Column, Table};

/// Where the rows of a segment come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentRange {
    pub(crate) tails: (TailNumber, TailNumber),
    pub(crate) first: Position,
    pub(crate) last: Position,
}

/// Whether a segment gets lists of hosts and rollups, which take as long as a third of writing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summaries {
    /// Zone maps and lists of short columns only.
    Without,
    /// All of them.
    With,
}

/// Writes the rows `order` of `columns`, in that order, to a new file and syncs it. Tells the name that it must get.
/// `numbered` has the numbers of the rows' addresses, if they have any.
pub(crate) fn write_segment(
    path: &Path,
    columns: &Columns<'_>,
    order: &[u32],
    numbered: &FlowOrder,
    range: SegmentRange,
    row_group_rows_max: usize,
    summaries: Summaries,
) -> Result<SegmentName, ArchiveError> {
    let created = |source| ArchiveError::CreateSegment { path: path.to_owned(), source };
    let failed = |source| ArchiveError::WriteSegment { path: path.to_owned(), source };
    let file = File::create(path).map_err(created)?;
    let repeats = received_repeats(columns)?;
    let mut encoder = Encoder::new(columns, range, order, row_group_rows_max, repeats).map_err(failed)?;
    let mut range_ms = TimeRange::default();
    for field in columns.table().schema().fields() {
        let Some(pieces) = columns.pieces(field)? else {
            range_ms.lacks(field);
            encoder.encode_nulls(field).map_err(failed)?;
            continue;
        };
        let gather = Gather::new(pieces).map_err(|source| columns.failed(field, source))?;
        for group in 0..encoder.groups.len() {
            let taken = gather.rows(&encoder.groups[group].rows);
            let taken = taken.map_err(|source| columns.failed(field, source))?;
            range_ms.add(field, &taken);
            encoder.encode(group, field, &taken).map_err(failed)?;
        }
    }
    let with = summaries == Summaries::With;
    let rollups = if with { rollups(columns, order, numbered)? } else { Vec::new() };
    let header = encoder.write_to(&file, order, with.then_some(numbered), rollups).map_err(failed)?;
    file.write_all_at(&header.encode(), HEADER_AT).map_err(created)?;
    file.sync_all().map_err(created)?;
    let SegmentRange { tails, first, last } = range;
    Ok(SegmentName { tails, first, last, rows: order.len() as u64, time_range_ms: range_ms.finish() })
}

/// The range of times in a segment's name, while its columns are written.
#[derive(Debug, Default)]
struct TimeRange {
    told: Option<(i64, i64)>,
    received: Option<(i64, i64)>,
    /// Some row has no start or no end. It counts as having happened when it was received.
    is_lacking: bool,
}

impl TimeRange {
    /// A column has no value.
    fn lacks(&mut self, field: &Field) {
        self.is_lacking |= matches!(field.name().as_str(), "start" | "end");
    }

    fn add(&mut self, field: &Field, values: &ArrayRef) {
        let into = match field.name().as_str() {
            "start" | "end" | "minute" => &mut self.told,
            "received" => &mut self.received,
            _ => return,
        };
        let Some(times) = values.as_primitive_opt::<TimestampMillisecondType>() else { return };
        *into = wider(*into, arrow::compute::min(times).zip(arrow::compute::max(times)));
        if times.null_count() > 0 {
            self.lacks(field);
        }
    }

    fn finish(self) -> Option<(i64, i64)> {
        match self.told {
            Some(told) if self.is_lacking => wider(Some(told), self.received),
            told => told,
        }
    }
}

fn wider(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
        (one, other) => one.or(other),
    }
}

/// A row group being encoded.
struct Group {
    rows: UInt32Array,
    /// Writers of the leaf columns still to come.
    writers: std::vec::IntoIter<ArrowColumnWriter>,
    /// The same for columns without a value.
    null_writers: std::vec::IntoIter<ArrowColumnWriter>,
    chunks: Vec<ArrowColumnChunk>,
}

struct Encoder {
    table: Table,
    schema: arrow::datatypes::SchemaRef,
    properties: Arc<WriterProperties>,
    groups: Vec<Group>,
    index: IndexWriter,
}

impl Encoder {
    fn new(
        columns: &Columns<'_>,
        range: SegmentRange,
        order: &[u32],
        row_group_rows_max: usize,
        received_repeats: bool,
    ) -> Result<Self, ParquetError> {
        let schema = columns.table().schema();
        let mut properties = properties(columns.table(), key_values(columns, range), received_repeats);
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let properties = Arc::new(properties);
        let with_values = factory(&schema, Arc::clone(&properties))?;
        let of_nulls = factory(&schema, Arc::new(properties_of_nulls()))?;
        let groups = order.chunks(row_group_rows_max.max(1)).enumerate().map(|(index, rows)| {
            Ok(Group {
                rows: UInt32Array::from(rows.to_vec()),
                writers: with_values.create_column_writers(index)?.into_iter(),
                null_writers: of_nulls.create_column_writers(index)?.into_iter(),
                chunks: Vec::new(),
            })
        });
        let groups = groups.collect::<Result<Vec<Group>, ParquetError>>()?;
        let index = IndexWriter::new(PAGE_ROWS, groups.iter().map(|group| group.rows.len()).collect());
        Ok(Self { table: columns.table(), schema, properties, groups, index })
    }

    fn encode_nulls(&mut self, field: &Field) -> Result<(), ParquetError> {
        self.index.add_null(self.table, field);
        for group in &mut self.groups {
            let nulls = new_null_array(field.data_type(), group.rows.len());
            group.encode(field, &nulls, true)?;
        }
        Ok(())
    }

    fn encode(&mut self, group: usize, field: &Field, values: &ArrayRef) -> Result<(), ParquetError> {
        let group = &mut self.groups[group];
        let leaf = group.chunks.len();
        self.index.add(self.table, field, leaf, values);
        group.encode(field, values, false)?;
        if let [chunk] = &group.chunks[leaf..] {
            let (encoding, dictionary, pages) = places(chunk.close());
            self.index.add_places(leaf, encoding, dictionary, &pages);
        }
        Ok(())
    }

    /// Writes everything but the header, which must stand where zeros are now.
    fn write_to(
        self,
        file: &File,
        order: &[u32],
        numbered: Option<&FlowOrder>,
        rollups: Vec<(Rollup, Vec<u8>)>,
    ) -> Result<Header, ParquetError> {
        let Self { schema, properties, groups, mut index, .. } = self;
        let mut writer = SerializedFileWriter::new(Summed::new(file), parquet_schema(&schema)?, properties)?;
        let mut at = 0;
        let mut parts = vec![HEADER_AT, HEADER_OCTETS as u64];
        writer.write_all(&[0; HEADER_OCTETS])?;
        let chunk_octets = |chunk: &ArrowColumnChunk| chunk.close().metadata.compressed_size() as u64;
        parts.extend(groups.iter().flat_map(|group| group.chunks.iter().map(chunk_octets)));
        for octets in &parts {
            writer.inner_mut().expect(*octets);
        }
        for group in groups {
            let mut row_group = writer.next_row_group()?;
            for chunk in group.chunks {
                chunk.append_to_row_group(&mut row_group)?;
            }
            row_group.close()?;
        }
        writer.flush()?;
        let sums = writer.inner_mut().take_sums();
        for (number, (octets, crc)) in parts.into_iter().zip(sums).enumerate() {
            if number > 1 {
                index.add_chunk(ChunkPlaces { offset: at, octets, crc });
            }
            at += octets;
        }
        let hosts = numbered.map_or_else(Vec::new, |numbered| index.host_blocks(order, numbered));
        let mut section = |kind, octets: &[u8]| {
            let section = Section { kind, offset: at, octets: octets.len() as u64, crc: crc32c::crc32c(octets) };
            at += section.octets;
            writer.inner_mut().expect(section.octets);
            writer.write_all(octets).map(|()| section)
        };
        let hosts = section(HOSTS, &hosts)?;
        index.add_section(hosts);
        for (rollup, octets) in rollups {
            index.add_section(section(ROLLUPS + rollup as u8, &octets)?);
        }
        let index = section(0, &index.finish())?;
        let place = format!("{} {} {:08x}", index.offset, index.octets, index.crc);
        writer.append_key_value_metadata(KeyValue::new(INDEX_KEY.to_owned(), place));
        writer.finish()?;
        writer.flush()?;
        Ok(Header { index, footer_crc: writer.inner().rest() })
    }
}

/// How the pages of a chunk are encoded, octets of its dictionary page, and of each data page.
fn places(close: &ColumnCloseResult) -> (PageEncoding, u32, Vec<u32>) {
    let pages: Vec<u32> = close
        .offset_index
        .iter()
        .flat_map(parquet::file::page_index::offset_index::OffsetIndexMetaData::page_locations)
        .map(|page| page.compressed_page_size as u32)
        .collect();
    let dictionary =
        (close.metadata.compressed_size() as u64).saturating_sub(pages.iter().map(|octets| u64::from(*octets)).sum());
    let mut encodings = close.metadata.encodings().filter(|encoding| *encoding != Encoding::RLE);
    let has_dictionary = close.metadata.dictionary_page_offset().is_some();
    let encoding = match (has_dictionary, encodings.next(), encodings.next()) {
        (true, Some(Encoding::PLAIN), Some(Encoding::RLE_DICTIONARY)) if encodings.next().is_none() => {
            PageEncoding::Dictionary
        }
        (false, Some(Encoding::PLAIN), None) => PageEncoding::Plain,
        (false, Some(Encoding::DELTA_BINARY_PACKED), None) => PageEncoding::DeltaBinaryPacked,
        (false, Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), None) => PageEncoding::DeltaLengthByteArray,
        (false, Some(Encoding::DELTA_BYTE_ARRAY), None) => PageEncoding::DeltaByteArray,
        (false, Some(Encoding::BYTE_STREAM_SPLIT), None) => PageEncoding::ByteStreamSplit,
        _ => PageEncoding::Mixed,
    };
    (encoding, dictionary as u32, pages)
}

impl Group {
    fn encode(&mut self, field: &Field, values: &ArrayRef, null: bool) -> Result<(), ParquetError> {
        for leaf in compute_leaves(field, values)? {
            let writers = (self.writers.next(), self.null_writers.next());
            let (Some(with_values), Some(of_nulls)) = writers else {
                return Err(ParquetError::General("more leaf columns than the schema has".to_owned()));
            };
            let mut writer = if null { of_nulls } else { with_values };
            writer.write(&leaf)?;
            self.chunks.push(writer.close()?);
        }
        Ok(())
    }
}

/// Rows that share each time of reception, on average, from which on the times are few.
const ROWS_PER_TIME: usize = 200;

/// Whether many rows share each time of reception. Rows come in the order of reception, or nearly, so counting changes
/// counts times.
fn received_repeats(columns: &Columns<'_>) -> Result<bool, ArchiveError> {
    if columns.table() != Table::Flows {
        return Ok(false);
    }
    let (mut rows, mut changes) = (0, 0);
    for piece in columns.pieces(Table::Flows.schema().field(Column::Received as usize))?.unwrap_or_default() {
        let Some(times) = piece.as_primitive_opt::<TimestampMillisecondType>() else { continue };
        rows += times.len();
        changes += 1 + times.values().windows(2).filter(|pair| pair[0] != pair[1]).count();
    }
    Ok(changes * ROWS_PER_TIME < rows)
}

fn parquet_schema(schema: &arrow::datatypes::Schema) -> Result<parquet::schema::types::TypePtr, ParquetError> {
    Ok(ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr())
}

/// Makes column writers. The library ties them to a file, but they write to memory, so the file goes nowhere.
fn factory(
    schema: &arrow::datatypes::SchemaRef,
    properties: Arc<WriterProperties>,
) -> Result<ArrowRowGroupWriterFactory, ParquetError> {
    let nowhere = SerializedFileWriter::new(io::sink(), parquet_schema(schema)?, properties)?;
    Ok(ArrowRowGroupWriterFactory::new(&nowhere, Arc::clone(schema)))
}

fn key_values(columns: &Columns<'_>, range: SegmentRange) -> Vec<KeyValue> {
    let order = if columns.table() == weir_flow::Table::Flows {
        "protocol, smaller port, side of it, boxes of addresses"
    } else {
        "as received"
    };
    [
        ("weir.table", columns.table().name().to_owned()),
        ("weir.tail.first", range.tails.0.to_string()),
        ("weir.tail.last", range.tails.1.to_string()),
        ("weir.position.first", range.first.to_string()),
        ("weir.position.last", range.last.to_string()),
        ("weir.order", order.to_owned()),
    ]
    .map(|(key, value)| KeyValue::new(key.to_owned(), value))
    .to_vec()
}
