//! One batch of a tail, read column by column.
//!
//! A stream of a frame is two messages of Arrow's IPC format: the schema, and the batch with the places of its
//! buffers. Only these are read at first; each column is read when it is asked for. Sealing needs one column at a time,
//! and a whole tail in memory would be most of what a collector takes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::root_as_message;
use weir_flow::Table;

use crate::frame::{unpack, unpacked_schema};

/// Octets before the metadata of a message: a marker and the length of the metadata.
const PREFIX_OCTETS: usize = 8;
const MARKER: [u8; 4] = [0xff; 4];

/// Where the columns of a batch lie in its file.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The schema as it is in the file, and as it was before the columns were packed.
    packed: Schema,
    schema: SchemaRef,
    rows: usize,
    /// Offset of the batch's body in the file.
    body_at: u64,
    /// Rows and nulls of every array, children after their parents.
    nodes: Vec<(usize, usize)>,
    /// Offset within the body, and octets, of every buffer.
    buffers: Vec<(u64, usize)>,
}

/// Reads `octets` octets at `at`.
pub(crate) fn read_at(file: &File, at: u64, octets: usize) -> io::Result<Buffer> {
    let mut buffer = MutableBuffer::from_len_zeroed(octets);
    file.read_exact_at(buffer.as_slice_mut(), at)?;
    Ok(buffer.into())
}

fn bad(what: &str) -> ArrowError {
    ArrowError::IpcError(what.to_owned())
}

/// The metadata of the message at `at`, and where its body begins.
fn metadata(file: &File, at: u64) -> Result<(Buffer, u64), ArrowError> {
    let prefix = read_at(file, at, PREFIX_OCTETS)?;
    let length = prefix.strip_prefix(&MARKER).and_then(|length| length.first_chunk().copied());
    let length = u32::from_le_bytes(length.ok_or_else(|| bad("message without its marker"))?) as usize;
    let metadata_at = at + PREFIX_OCTETS as u64;
    Ok((read_at(file, metadata_at, length)?, metadata_at + length as u64))
}

impl Stream {
    /// Reads where everything lies.
    pub(crate) fn open(file: &File, at: u64, table: Table) -> Result<Self, ArrowError> {
        let (first, schema_end) = metadata(file, at)?;
        let message = root_as_message(&first).map_err(|error| bad(&error.to_string()))?;
        let schema = fb_to_schema(message.header_as_schema().ok_or_else(|| bad("stream without a schema"))?);
        let (second, body_at) = metadata(file, schema_end + message.bodyLength().max(0) as u64)?;
        let message = root_as_message(&second).map_err(|error| bad(&error.to_string()))?;
        let batch = message.header_as_record_batch().ok_or_else(|| bad("stream without a batch"))?;
        if batch.compression().is_some() {
            return Err(bad("batch is compressed"));
        }
        let nodes = batch.nodes().into_iter().flatten();
        let buffers = batch.buffers().into_iter().flatten();
        Ok(Self {
            schema: unpacked_schema(table, &schema),
            packed: schema,
            rows: batch.length() as usize,
            body_at,
            nodes: nodes.map(|node| (node.length() as usize, node.null_count() as usize)).collect(),
            buffers: buffers.map(|buffer| (buffer.offset() as u64, buffer.length() as usize)).collect(),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads a column; `None` when the batch does not have it.
    pub(crate) fn column(&self, file: &File, name: &str) -> Result<Option<ArrayRef>, ArrowError> {
        let Some((index, field)) = self.packed.column_with_name(name) else { return Ok(None) };
        let (mut node, mut buffer) = (0, 0);
        for before in &self.packed.fields()[..index] {
            let parts = Parts::of(before.data_type())?;
            (node, buffer) = (node + parts.nodes, buffer + parts.buffers);
        }
        let parts = Parts::of(field.data_type())?;
        let missing = || bad("batch with fewer buffers than its schema needs");
        let nodes = self.nodes.get(node..node + parts.nodes).ok_or_else(missing)?;
        let places = self.buffers.get(buffer..buffer + parts.buffers).ok_or_else(missing)?;
        let original = self.schema.field(index).data_type();
        let (Some(first), Some(last)) = (places.first(), places.last()) else {
            // a column of which one value is kept has no buffers
            let array = make_array(build(field.data_type(), &mut nodes.iter(), &mut std::iter::empty())?);
            return unpack(field, &array, original).map(Some);
        };
        let octets = (last.0 + last.1 as u64).checked_sub(first.0).ok_or_else(missing)?;
        let octets = read_at(file, self.body_at + first.0, octets as usize)?;
        let mut buffers = Vec::with_capacity(places.len());
        for (at, length) in places {
            let at = at.checked_sub(first.0).ok_or_else(missing)? as usize;
            if at.checked_add(*length).is_none_or(|end| end > octets.len()) {
                return Err(missing());
            }
            buffers.push(octets.slice_with_length(at, *length));
        }
        let array = make_array(build(field.data_type(), &mut nodes.iter(), &mut buffers.into_iter())?);
        unpack(field, &array, original).map(Some)
    }
}

/// Nodes and buffers that a type takes, its children included.
struct Parts {
    nodes: usize,
    buffers: usize,
}

impl Parts {
    fn of(data_type: &DataType) -> Result<Self, ArrowError> {
        let layout = arrow::array::layout(data_type);
        let mut parts = Self { nodes: 1, buffers: layout.buffers.len() + usize::from(layout.can_contain_null_mask) };
        for child in children(data_type)? {
            let of_child = Self::of(child)?;
            parts = Self { nodes: parts.nodes + of_child.nodes, buffers: parts.buffers + of_child.buffers };
        }
        Ok(parts)
    }
}

fn children(data_type: &DataType) -> Result<Vec<&DataType>, ArrowError> {
    match data_type {
        DataType::List(item) => Ok(vec![item.data_type()]),
        DataType::Struct(fields) => Ok(fields.iter().map(|field| field.data_type()).collect()),
        other if other.is_primitive() => Ok(Vec::new()),
        DataType::Null | DataType::Boolean | DataType::Binary | DataType::FixedSizeBinary(_) | DataType::Utf8 => {
            Ok(Vec::new())
        }
        other => Err(bad(&format!("columns of type {other} are not kept in tails"))),
    }
}

fn build<'a>(
    data_type: &DataType,
    nodes: &mut impl Iterator<Item = &'a (usize, usize)>,
    buffers: &mut impl Iterator<Item = Buffer>,
) -> Result<ArrayData, ArrowError> {
    let missing = || bad("batch with fewer buffers than its schema needs");
    let &(rows, nulls) = nodes.next().ok_or_else(missing)?;
    let layout = arrow::array::layout(data_type);
    let validity = if layout.can_contain_null_mask { Some(buffers.next().ok_or_else(missing)?) } else { None };
    let mut builder = ArrayData::builder(data_type.clone()).len(rows).null_bit_buffer(validity.filter(|_| nulls > 0));
    for _ in &layout.buffers {
        builder = builder.add_buffer(buffers.next().ok_or_else(missing)?);
    }
    for child in children(data_type)? {
        builder = builder.add_child_data(build(child, nodes, buffers)?);
    }
    builder.build()
}
