//! The words of keys that do not fit into 128 bits.

/// Some words for each of many rows or places of a table; rows that were never written have zeros.
#[derive(Debug, Clone)]
pub struct WideWords {
    words: usize,
    values: Vec<u64>,
}

/// More words than a key of all columns of flows has.
const ZEROS: [u64; 256] = [0; 256];

impl WideWords {
    /// No rows yet; `words` words for each, 256 at most.
    pub fn new(words: usize) -> Self {
        Self { words: words.min(ZEROS.len()), values: Vec::new() }
    }

    /// True when no row was written.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Octets of memory.
    pub fn octets(&self) -> usize {
        self.values.capacity() * size_of::<u64>()
    }

    /// The words of a row.
    #[inline]
    pub fn of(&self, row: usize) -> &[u64] {
        let from = row * self.words;
        self.values.get(from..from + self.words).unwrap_or(&ZEROS[..self.words])
    }

    /// The words of a row, to be written.
    #[inline]
    pub fn of_mut(&mut self, row: usize) -> &mut [u64] {
        let from = row * self.words;
        if self.values.len() < from + self.words {
            self.values.resize(from + self.words, 0);
        }
        &mut self.values[from..from + self.words]
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}
