//! The columns of a segment, encoded one after another over all row groups.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::add_encoded_arrow_schema_to_metadata;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use weir_flow::Table;

use super::chunk::{Address, BufferedValue, Buffers, Chunk, ChunkEncoder, Page, PageCompressor, Values, nulls};
use super::encoding::{Effort, PAGE_ROWS, are_few, layout, properties, properties_of_nulls};
use super::gather::Gather;
use super::times::TimeRange;
use crate::index::IndexWriter;
use crate::order::hosts::Hosts;

/// Entries of lists that are encoded at once, about.
const ENTRIES_AT_ONCE: usize = if cfg!(test) { 64 } else { 4 << 20 };

/// A row group being encoded.
pub(super) struct Group {
    rows: Vec<u32>,
    pub(super) chunks: Vec<Encoded>,
}

/// An encoded column chunk.
pub(super) enum Encoded {
    Own(Chunk),
    OfLibrary(ArrowColumnChunk),
}

impl Encoded {
    pub(super) fn octets(&self) -> u64 {
        match self {
            Self::Own(chunk) => chunk.octets.len() as u64,
            Self::OfLibrary(chunk) => chunk.close().metadata.compressed_size() as u64,
        }
    }

    pub(super) fn write_to<W: Write + Send>(
        self,
        writer: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match self {
            Self::Own(chunk) => writer.append_column(&chunk.octets, chunk.close),
            Self::OfLibrary(chunk) => chunk.append_to_row_group(writer),
        }
    }
}

/// The columns of a segment while they are encoded.
pub(super) struct Encoder {
    table: Table,
    pub(super) schema: SchemaRef,
    leaves: SchemaDescriptor,
    pub(super) properties: Arc<WriterProperties>,
    press: PageCompressor,
    pub(super) groups: Vec<Group>,
    pub(super) index: IndexWriter,
}

impl Encoder {
    pub(super) fn new(
        table: Table,
        metadata: Vec<KeyValue>,
        order: &[u32],
        row_group_rows_max: usize,
        effort: Effort,
    ) -> Result<Self, ParquetError> {
        let schema = table.schema();
        let mut properties = properties(metadata);
        add_encoded_arrow_schema_to_metadata(&schema, &mut properties);
        let properties = Arc::new(properties);
        let groups = order.chunks(row_group_rows_max.max(1));
        let groups: Vec<Group> = groups.map(|rows| Group { rows: rows.to_vec(), chunks: Vec::new() }).collect();
        let index = IndexWriter::new(PAGE_ROWS, groups.iter().map(|group| group.rows.len()).collect());
        let leaves = SchemaDescriptor::new(parquet_schema(&schema)?);
        Ok(Self { table, schema, leaves, properties, press: PageCompressor::new(effort.zstd_level)?, groups, index })
    }

    /// A column with values, whose memory goes back to `buffers`.
    pub(super) fn encode(
        &mut self,
        field: &Field,
        column: Gather<'_>,
        buffers: &mut Buffers,
        range_ms: &mut TimeRange,
    ) -> Result<(), ParquetError> {
        match column {
            Gather::U8(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::U16(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::U32(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::U64(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::Time(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::Ipv4(values) => self.encode_values(field, values, buffers, range_ms),
            Gather::Hosts(numbers, hosts) => self.encode_hosts(field, numbers, hosts),
            Gather::Octets(values) => self.encode_octets(field, &values),
            Gather::General(values) => self.encode_general(field, &values, range_ms),
        }
    }

    /// A column of numbers, times or IPv4 addresses.
    fn encode_values<T: BufferedValue>(
        &mut self,
        field: &Field,
        values: Values<T>,
        buffers: &mut Buffers,
        range_ms: &mut TimeRange,
    ) -> Result<(), ParquetError> {
        let layout = layout(field.name(), || are_few(&values));
        let mut page = Page::new();
        for group in &mut self.groups {
            let leaf = group.chunks.len();
            let mut chunk = ChunkEncoder::new(self.leaves.column(leaf), layout);
            for rows in group.rows.chunks(PAGE_ROWS) {
                page.fill(&values, rows);
                let nulls = page.nulls() > 0;
                if let Some(index) = self.index.column(self.table, field, leaf) {
                    let zone = page.range().map(|(low, high)| (low.key(), high.key()));
                    index.add_keys(zone, nulls, page.values().iter().map(|value| value.key()));
                }
                range_ms.widen(field, page.range().and_then(|(low, high)| low.time().zip(high.time())), nulls);
                chunk.add(&page, &mut self.press)?;
            }
            let chunk = chunk.finish(&mut self.press)?;
            self.index.add_places(leaf, chunk.encoding, chunk.dictionary, &chunk.pages);
            group.chunks.push(Encoded::Own(chunk));
        }
        buffers.keep(values);
        Ok(())
    }

    /// A column of addresses of both families, by their numbers.
    fn encode_hosts(&mut self, field: &Field, numbers: &[u32], hosts: &Hosts) -> Result<(), ParquetError> {
        let mut page = Page::new();
        for group in &mut self.groups {
            let leaf = group.chunks.len();
            let mut chunk = ChunkEncoder::new(self.leaves.column(leaf), layout(field.name(), || false));
            for rows in group.rows.chunks(PAGE_ROWS) {
                let numbers = rows.iter().map(|row| numbers[*row as usize]);
                page.take(numbers.clone().map(|number| Address::of(number, hosts)));
                if let Some(index) = self.index.column(self.table, field, leaf) {
                    index.add_hosts(hosts.ranges(numbers), page.nulls() > 0);
                }
                chunk.add(&page, &mut self.press)?;
            }
            let chunk = chunk.finish(&mut self.press)?;
            self.index.add_places(leaf, chunk.encoding, chunk.dictionary, &chunk.pages);
            group.chunks.push(Encoded::Own(chunk));
        }
        Ok(())
    }

    /// A column of octets or text of any length.
    fn encode_octets(&mut self, field: &Field, values: &BinaryArray) -> Result<(), ParquetError> {
        for group in &mut self.groups {
            let leaf = group.chunks.len();
            let taken = take(values, &UInt32Array::from(group.rows.clone()), None)?;
            self.index.add(self.table, field, leaf, taken.as_binary());
            let taken: &BinaryArray = taken.as_binary();
            let mut page = Page::new();
            let mut chunk = ChunkEncoder::new(self.leaves.column(leaf), layout(field.name(), || false));
            for first in (0..taken.len()).step_by(PAGE_ROWS) {
                let rows = first..taken.len().min(first + PAGE_ROWS);
                page.take(rows.map(|row| taken.is_valid(row).then(|| taken.value(row))));
                chunk.add(&page, &mut self.press)?;
            }
            let chunk = chunk.finish(&mut self.press)?;
            self.index.add_places(leaf, chunk.encoding, chunk.dictionary, &chunk.pages);
            group.chunks.push(Encoded::Own(chunk));
        }
        Ok(())
    }

    /// Any other column.
    fn encode_general(
        &mut self,
        field: &Field,
        values: &ArrayRef,
        range_ms: &mut TimeRange,
    ) -> Result<(), ParquetError> {
        let writers = writers(field, Arc::clone(&self.properties))?;
        let rows_max = rows_at_once(values);
        for (number, group) in self.groups.iter_mut().enumerate() {
            let mut writers = writers.create_column_writers(number)?;
            for rows in group.rows.chunks(rows_max) {
                let taken = take(values, &UInt32Array::from(rows.to_vec()), None)?;
                range_ms.add(field, &taken);
                write(field, &taken, &mut writers)?;
            }
            group.close(writers)?;
        }
        Ok(())
    }

    /// A column without a value.
    pub(super) fn encode_nulls(&mut self, field: &Field) -> Result<(), ParquetError> {
        self.index.add_null(self.table, field);
        if field.data_type().is_nested() || !field.is_nullable() {
            let writers = writers(field, Arc::new(properties_of_nulls()))?;
            for (number, group) in self.groups.iter_mut().enumerate() {
                let nulls = new_null_array(field.data_type(), group.rows.len());
                let mut writers = writers.create_column_writers(number)?;
                write(field, &nulls, &mut writers)?;
                group.close(writers)?;
            }
            return Ok(());
        }
        for group in &mut self.groups {
            let descriptor = self.leaves.column(group.chunks.len());
            group.chunks.push(Encoded::Own(nulls(descriptor, group.rows.len(), &mut self.press)?));
        }
        Ok(())
    }
}

impl Group {
    /// Takes what the library's writers of the leaves of a column have encoded.
    fn close(&mut self, writers: Vec<ArrowColumnWriter>) -> Result<(), ParquetError> {
        for writer in writers {
            self.chunks.push(Encoded::OfLibrary(writer.close()?));
        }
        Ok(())
    }
}

/// Encodes some rows of a column with the library's writers of its leaves.
fn write(field: &Field, values: &ArrayRef, writers: &mut [ArrowColumnWriter]) -> Result<(), ParquetError> {
    compute_leaves(field, values)?.iter().zip(writers).try_for_each(|(leaf, writer)| writer.write(leaf))
}

/// How many rows of a column the library encodes at once: beside the values it holds some 60 octets for each entry of a list.
/// A row group of ordinary rows is one piece; rows with lists of thousands of entries are several.
fn rows_at_once(values: &ArrayRef) -> usize {
    let entries = values.as_list_opt::<i32>().map_or(0, |lists| lists.values().len());
    match entries / values.len().max(1) {
        0 => usize::MAX,
        each => (ENTRIES_AT_ONCE / each).max(1),
    }
}

pub(super) fn parquet_schema(schema: &Schema) -> Result<TypePtr, ParquetError> {
    Ok(ArrowSchemaConverter::new().convert(schema)?.root_schema_ptr())
}

/// Makes the library's writers of one column: each has a compressor of its own, which takes longer to make than a
/// column of few rows to write. The library ties them to a file, but they write to memory, so the file goes nowhere.
fn writers(field: &Field, properties: Arc<WriterProperties>) -> Result<ArrowRowGroupWriterFactory, ParquetError> {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let nowhere = SerializedFileWriter::new(io::sink(), parquet_schema(&schema)?, properties)?;
    Ok(ArrowRowGroupWriterFactory::new(&nowhere, schema))
}
