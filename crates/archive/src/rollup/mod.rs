//! Sums by host, port and so on, kept with each segment, so that the common questions need no flows.
//!
//! For each [`Rollup`] a segment has a table with a row for each key: flows, packets, bytes, first start and last end.
//! Sums over segments are those over all their flows, always: a segment in which a flow lacks packets, bytes, start
//! or end has no rollups, so a caller that gets `None` reads the flows themselves.
//!
//! Full tables of hosts would cost a sixth of the whole segment, and nearly all of their rows would be about hosts with
//! a handful of flows. Tables of more than some thousand keys therefore have only the keys that are heavy by flows, by
//! packets or by bytes, and tell how much any other key can have at most ([`OmittedKeys`]). So the first of a ranking
//! can be told exactly as long as the last of them has more than the rests of all segments together allow anyone else;
//! when that is not so, or a key must be looked up that is in the rest, the flows have to be read.

pub(crate) mod build;
mod pack;
mod table;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, RecordBatch, TimestampMillisecondArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};

use crate::ArchiveError;
use crate::index::{ROLLUPS, Section, SegmentIndex};
use crate::segment::Segment;
use pack::{PackedRollup, RollupKeys};
use table::Sum;

pub use table::{OmittedKeys, Rollup, RollupTable};

impl Segment {
    /// The segment's sums by one kind of key; `None` when it has none.
    pub fn rollup(&self, rollup: Rollup) -> Result<Option<RollupTable>, ArchiveError> {
        self.index()?.map_or(Ok(None), |index| index.rollup(rollup))
    }
}

impl SegmentIndex {
    /// The segment's sums by one kind of key; `None` when it has none.
    pub fn rollup(&self, rollup: Rollup) -> Result<Option<RollupTable>, ArchiveError> {
        read_rollup(&self.sections, &self.file, &self.path, rollup)
    }

    /// The same as the file has them, once their checksum is right.
    pub(crate) fn rollup_octets(&self, rollup: Rollup) -> Result<Option<Vec<u8>>, ArchiveError> {
        read_octets(&self.sections, &self.file, &self.path, rollup)
    }
}

/// The sums by one kind of key from a file that has these sections.
pub(crate) fn read_rollup(
    sections: &[Section],
    file: &File,
    path: &Path,
    rollup: Rollup,
) -> Result<Option<RollupTable>, ArchiveError> {
    let Some(octets) = read_octets(sections, file, path, rollup)? else { return Ok(None) };
    let damaged = || ArchiveError::DamagedSegment { path: path.to_owned(), part: part_of(rollup) };
    let packed = PackedRollup::read(&octets).map_err(|_| damaged())?;
    let rows = rows(rollup, &packed).map_err(|_| damaged())?;
    Ok(Some(RollupTable { rows, rest: packed.rest }))
}

fn read_octets(
    sections: &[Section],
    file: &File,
    path: &Path,
    rollup: Rollup,
) -> Result<Option<Vec<u8>>, ArchiveError> {
    let kind = ROLLUPS + rollup as u8;
    let section = sections.iter().find(|section| section.kind == kind);
    section.map(|section| section.read(file, path, &part_of(rollup))).transpose()
}

/// What errors call the sums by one kind of key.
fn part_of(rollup: Rollup) -> String {
    format!("rollup by {}", rollup.name())
}

fn rows(rollup: Rollup, packed: &PackedRollup) -> Result<RecordBatch, arrow::error::ArrowError> {
    let key = rollup.key_field();
    let numbers =
        |of: fn(&Sum) -> u64| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(packed.sums.iter().map(of))) };
    let times = |of: fn(&Sum) -> i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(packed.sums.iter().map(of)).with_timezone("UTC"))
    };
    let columns = vec![
        keys(&packed.keys, key.data_type())?,
        numbers(|sum| sum.flows),
        numbers(|sum| sum.packets),
        numbers(|sum| sum.bytes),
        times(|sum| sum.start_ms),
        times(|sum| sum.end_ms),
    ];
    let mut fields = vec![key];
    for (name, column) in ["flows", "packets", "bytes", "start", "end"].into_iter().zip(&columns[1..]) {
        fields.push(Field::new(name, column.data_type().clone(), false));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn keys(keys: &RollupKeys, data_type: &DataType) -> Result<ArrayRef, arrow::error::ArrowError> {
    let nulls = usize::from(keys.has_null);
    if *data_type == DataType::Binary {
        let mut builder = BinaryBuilder::new();
        (0..nulls).for_each(|_| builder.append_null());
        keys.short.iter().for_each(|key| builder.append_value((*key as u32).to_be_bytes()));
        keys.long.iter().for_each(|key| builder.append_value(key.to_be_bytes()));
        return Ok(Arc::new(builder.finish()));
    }
    let values = std::iter::repeat_n(None, nulls).chain(keys.short.iter().map(|key| Some(*key as u64)));
    let values: ArrayRef = Arc::new(values.collect::<UInt64Array>());
    match data_type {
        DataType::Timestamp(..) => {
            let minutes = values.as_primitive::<arrow::datatypes::UInt64Type>();
            let times = minutes.iter().map(|key| Some(build::minute_ms(key?)));
            let times = times.collect::<TimestampMillisecondArray>().with_timezone("UTC");
            Ok(Arc::new(times))
        }
        _ => cast(&values, data_type),
    }
}
