//! Parquet files that a program sends, columns by our names.
//!
//! The library that reads Parquet believes a file: it reserves what a footer and the headers of pages claim, and a value that a file
//! has once can be meant a billion times. So all numbers of a file are looked at before it is (`check`), by a reader of
//! Thrift that knows the structures of Parquet and nothing else (`thrift`, `layout`): what it does not know is an error, and so is
//! a number that has more bits than its field, which the library cuts off, so that both read the same. What is decoded then takes
//! no more than a stated number of octets, whatever the file says.
//!
//! What speaks against it: files are read more narrowly than [`columnar`](crate::columnar) reads them. There are flat columns only,
//! plain or with a dictionary, compressed with zstd or not at all. Each other way is one more to claim what is not there.
//!
//! Columns have the rules of an [Arrow stream](crate::arrow_stream).

mod check;
mod layout;
mod thrift;

use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;
use weir_flow::FlowBatch;

use crate::arrow_stream::{StreamError, batch, columns};
use crate::panics;

/// Rows in a batch.
const BATCH_ROWS: usize = 16_384;

/// Reads a whole file. Flows without a time of reception get `received_ms`, milliseconds since the epoch. A file whose values take
/// more than `octets_max` once they are columns of flows is refused before any is decoded; texts with control characters, which are
/// replaced, may take three times as much.
pub fn read<B: ChunkReader + AsRef<[u8]> + 'static>(
    body: B,
    received_ms: i64,
    octets_max: usize,
) -> Result<Vec<FlowBatch>, StreamError> {
    check::check(body.as_ref(), octets_max)?;
    decode(body, received_ms)
}

/// Reads a file whose numbers are right.
fn decode(file: impl ChunkReader + 'static, received_ms: i64) -> Result<Vec<FlowBatch>, StreamError> {
    match panics::caught(|| batches(file, received_ms)) {
        Ok(read) => read,
        // the library panics on some files that are damaged
        Err(message) => Err(StreamError::Parquet(message)),
    }
}

fn batches(file: impl ChunkReader + 'static, received_ms: i64) -> Result<Vec<FlowBatch>, StreamError> {
    let damaged = |error: &dyn std::error::Error| StreamError::Parquet(error.to_string());
    // types are those of Parquet: what Arrow notes beside them could make them nested, or be untrue
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder =
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options).map_err(|error| damaged(&error))?;
    // a file without rows has columns as well
    columns(builder.schema())?;
    let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(|error| damaged(&error))?;
    let mut flows = Vec::new();
    for rows in batches {
        let batch = batch(&rows.map_err(|error| damaged(&error))?, received_ms)?;
        if batch.rows() > 0 {
            flows.push(batch);
        }
    }
    Ok(flows)
}

#[cfg(test)]
mod tests;
