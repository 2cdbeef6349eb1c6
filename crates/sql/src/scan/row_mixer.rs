//! Rows in an order that says nothing about addresses.
//!
//! Flows lie in a segment by their addresses as they are kept, and images keep prefixes: where the images of two neighbours part,
//! their order would tell which of the two addresses has a 1. So pages come in random order, and their rows are gathered and
//! mixed before they are given on. Half of them wait for those of the next pages: neither where a page began can be seen, nor
//! are the last rows those of one page alone. What speaks against it is that a row is copied twice, on average, and that it still
//! comes near others of its page: who asks again and again may find out which flows share one.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;
use arrow::error::ArrowError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use rand::seq::SliceRandom;

use crate::limits::octets_of_batch;

/// Rows that are mixed with each other, unless another limit is reached first.
const ROWS: usize = 1 << 15;
/// Batches that are: one for each page with wanted flows, which may have few of them.
const BATCHES: usize = 64;
/// The part of the memory of operators that all partitions may take for it together.
const MEMORY_PART: usize = 4;

/// The rows of one partition that wait to be mixed with others.
pub(super) struct RowMixer {
    gathered: Vec<RecordBatch>,
    rows: usize,
    batch_rows: usize,
    octets_max: usize,
    /// Of what is gathered, and of its copy while it is mixed. It grows without being refused, or questions could be made to mix
    /// fewer rows: operators that write to disk do so earlier.
    memory: MemoryReservation,
}

impl RowMixer {
    /// That of one partition of so many.
    pub(super) fn new(context: &TaskContext, partition: usize, partitions: usize) -> Self {
        let octets_max = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(octets) => octets / MEMORY_PART / partitions.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let memory = MemoryConsumer::new(format!("mixed rows[{partition}]")).register(context.memory_pool());
        let batch_rows = context.session_config().batch_size().max(1);
        Self { gathered: Vec::new(), rows: 0, batch_rows, octets_max, memory }
    }

    /// Takes rows, which have at least one column.
    pub(super) fn add(&mut self, batch: RecordBatch) {
        self.memory.grow(2 * octets_of_batch(&batch));
        self.rows += batch.num_rows();
        self.gathered.push(batch);
    }

    /// Half of the rows, drawn at random, once there are enough.
    pub(super) fn half(&mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        let is_large = self.gathered.len() > 1 && self.memory.size() >= self.octets_max;
        if is_large || self.rows >= ROWS || self.gathered.len() >= BATCHES {
            self.take(self.rows.div_ceil(2))
        } else {
            Ok(Vec::new())
        }
    }

    /// All rows that are left.
    pub(super) fn rest(mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        self.take(self.rows)
    }

    fn take(&mut self, rows: usize) -> Result<Vec<RecordBatch>, ArrowError> {
        let gathered: Vec<&RecordBatch> = self.gathered.iter().collect();
        let numbered = gathered.iter().enumerate();
        let places = numbered.flat_map(|(batch, rows)| (0..rows.num_rows()).map(move |row| (batch, row)));
        let mut places: Vec<(usize, usize)> = places.collect();
        places.shuffle(&mut rand::rng());
        let (taken, kept) = places.split_at(rows.min(places.len()));
        let taken = taken.chunks(self.batch_rows).map(|places| interleave_record_batch(&gathered, places));
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        let kept = if kept.is_empty() { None } else { Some(interleave_record_batch(&gathered, kept)?) };
        self.gathered.clear();
        self.rows = 0;
        self.memory.free();
        if let Some(kept) = kept {
            self.add(kept);
        }
        Ok(taken)
    }
}
