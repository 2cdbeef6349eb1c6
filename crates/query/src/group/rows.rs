//! Keys with what was counted for each, in chunks.
//!
//! A chunk never moves, so that growing copies nothing, needs no second buffer, and takes at most one chunk more than is
//! in use. Each chunk has its own reservation of memory: whoever drops it returns its bytes, and a chunk that has been
//! emptied can be filled again elsewhere. What speaks against chunks is that finding a row takes one step more.

use super::row::{GroupSums, Key, Row};
use crate::{MemoryError, Reservation};

/// Rows that there is capacity for at first.
const FIRST_ROWS: usize = 8;
/// Bytes that a chunk takes in the list of chunks, at most: the list doubles.
const CHUNK_BYTES: usize = 2 * 96;
/// Bytes that are reserved for the heap of keys at once.
const HEAP_STEP_BYTES: usize = 4 << 10;

/// Some rows.
#[derive(Debug)]
pub(crate) struct Chunk<K, S> {
    rows: Vec<Row<K, S>>,
    /// What else is measured: one number for each row and measure.
    more: Vec<Option<u64>>,
    /// Bytes that are reserved for the heap of keys and not in use.
    heap_spare_bytes: usize,
    memory: Reservation,
}

/// Rows in chunks of one size; all but the last are full.
#[derive(Debug)]
pub(crate) struct Rows<K, S> {
    chunks: Vec<Chunk<K, S>>,
    /// Empty chunks that are filled before memory is asked for.
    spare: Vec<Chunk<K, S>>,
    /// Rows of a full chunk, as a power of two.
    chunk_bits: u32,
    measures: usize,
    len: usize,
    /// Empty: chunks get theirs from it.
    memory: Reservation,
}

impl<K: Key, S: GroupSums> Rows<K, S> {
    /// No rows, in chunks of `1 << chunk_bits`, with this many further measures. Memory comes from the pool of `memory`.
    pub(crate) fn new(chunk_bits: u32, measures: usize, memory: &Reservation) -> Self {
        let memory = memory.empty();
        Self { chunks: Vec::new(), spare: Vec::new(), chunk_bits, measures, len: 0, memory }
    }

    pub(crate) fn chunk_bits(&self) -> u32 {
        self.chunk_bits
    }

    pub(crate) fn measures(&self) -> usize {
        self.measures
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A row. Panics when there are fewer.
    #[inline]
    pub(crate) fn row(&self, row: usize) -> &Row<K, S> {
        &self.chunks[row >> self.chunk_bits].rows[row & ((1 << self.chunk_bits) - 1)]
    }

    #[inline]
    pub(crate) fn row_mut(&mut self, row: usize) -> &mut Row<K, S> {
        &mut self.chunks[row >> self.chunk_bits].rows[row & ((1 << self.chunk_bits) - 1)]
    }

    /// The further measures of a row.
    pub(crate) fn more(&self, row: usize) -> &[Option<u64>] {
        let at = (row & ((1 << self.chunk_bits) - 1)) * self.measures;
        &self.chunks[row >> self.chunk_bits].more[at..at + self.measures]
    }

    pub(crate) fn more_mut(&mut self, row: usize) -> &mut [Option<u64>] {
        let at = (row & ((1 << self.chunk_bits) - 1)) * self.measures;
        &mut self.chunks[row >> self.chunk_bits].more[at..at + self.measures]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row<K, S>> {
        self.chunks.iter().flat_map(|chunk| &chunk.rows)
    }

    /// Appends a row, if there is memory for it.
    #[inline]
    pub(crate) fn try_push(&mut self, key: K, sums: S, more: &[Option<u64>]) -> Result<(), MemoryError> {
        if self.chunks.last().is_none_or(|chunk| chunk.rows.len() == chunk.rows.capacity()) {
            self.grow(Reservation::try_grow)?;
        }
        let heap_bytes = key.heap_bytes();
        let Some(chunk) = self.chunks.last_mut() else { return Ok(()) };
        if heap_bytes > chunk.heap_spare_bytes {
            let step = heap_bytes.max(HEAP_STEP_BYTES);
            chunk.memory.try_grow(step)?;
            chunk.heap_spare_bytes += step;
        }
        chunk.heap_spare_bytes -= heap_bytes;
        chunk.rows.push(Row { key, sums });
        chunk.more.extend_from_slice(more);
        self.len += 1;
        Ok(())
    }

    /// Appends a row even beyond the limit: where as much is returned soon, or rows are few.
    pub(crate) fn push(&mut self, key: K, sums: S, more: &[Option<u64>]) {
        if self.chunks.last().is_none_or(|chunk| chunk.rows.len() == chunk.rows.capacity()) {
            let beyond = |memory: &mut Reservation, bytes| {
                memory.grow(bytes);
                Ok(())
            };
            // taking memory beyond the limit does not fail
            let _ = self.grow(beyond);
        }
        let heap_bytes = key.heap_bytes();
        let Some(chunk) = self.chunks.last_mut() else { return };
        if heap_bytes > chunk.heap_spare_bytes {
            let step = heap_bytes.max(HEAP_STEP_BYTES);
            chunk.memory.grow(step);
            chunk.heap_spare_bytes += step;
        }
        chunk.heap_spare_bytes -= heap_bytes;
        chunk.rows.push(Row { key, sums });
        chunk.more.extend_from_slice(more);
        self.len += 1;
    }

    /// Makes the last chunk larger, or adds one.
    #[cold]
    fn grow(
        &mut self,
        reserve: impl Fn(&mut Reservation, usize) -> Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let full = 1_usize << self.chunk_bits;
        let row_bytes = self.row_bytes();
        let measures = self.measures;
        if let Some(chunk) = self.chunks.last_mut().filter(|chunk| chunk.rows.len() < full) {
            let more = chunk.rows.len().min(full - chunk.rows.len());
            reserve(&mut chunk.memory, more * row_bytes)?;
            chunk.rows.reserve_exact(more);
            chunk.more.reserve_exact(more * measures);
            return Ok(());
        }
        if let Some(chunk) = self.spare.pop() {
            self.chunks.push(chunk);
            return Ok(());
        }
        let rows = if self.chunks.is_empty() { FIRST_ROWS.min(full) } else { full };
        let mut memory = self.memory.empty();
        reserve(&mut memory, rows * row_bytes + CHUNK_BYTES)?;
        let (rows, more) = (Vec::with_capacity(rows), Vec::with_capacity(rows * measures));
        self.chunks.push(Chunk { rows, more, heap_spare_bytes: 0, memory });
        Ok(())
    }

    fn row_bytes(&self) -> usize {
        size_of::<Row<K, S>>() + self.measures * size_of::<Option<u64>>()
    }

    /// Gives an empty chunk to be filled again; one of another size is dropped.
    pub(crate) fn reuse(&mut self, mut chunk: Chunk<K, S>) {
        let full = 1 << self.chunk_bits;
        if chunk.rows.capacity() == full && chunk.more.capacity() == full * self.measures {
            chunk.rows.clear();
            chunk.more.clear();
            // the keys have taken their heap with them
            chunk.memory.shrink(chunk.memory.bytes().saturating_sub(full * self.row_bytes() + CHUNK_BYTES));
            chunk.heap_spare_bytes = 0;
            self.spare.push(chunk);
        }
    }

    /// Returns the memory of empty chunks.
    pub(crate) fn drop_spare(&mut self) {
        self.spare = Vec::new();
    }

    pub(crate) fn into_chunks(self) -> impl Iterator<Item = Chunk<K, S>> {
        self.chunks.into_iter()
    }

    pub(crate) fn into_rows(self) -> impl Iterator<Item = Row<K, S>> {
        self.chunks.into_iter().flat_map(|chunk| chunk.rows)
    }
}

impl<K, S> Chunk<K, S> {
    pub(crate) fn rows(&self) -> &[Row<K, S>] {
        &self.rows
    }

    /// Takes the rows out, and the further measures of all of them.
    pub(crate) fn drain(&mut self) -> (std::vec::Drain<'_, Row<K, S>>, &[Option<u64>]) {
        (self.rows.drain(..), &self.more)
    }
}
