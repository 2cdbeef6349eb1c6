//! Groups, found by their keys.
//!
//! An index of eight bytes a slot says where the row of a key is. Half of a slot is the hash, so that other keys are
//! hardly ever compared and the index grows without looking at a row. Rows are looked up in blocks: all slots of a block
//! are read first, then all rows that they name, and only then is anything counted. Reads of one step do not wait for
//! each other, so the processor has many of them under way at once, without an instruction that only some have.

use std::hint::black_box;

use super::measures;
use super::row::{GroupSums, Key};
use super::rows::Rows;
use crate::{Measure, MemoryError, Reservation};

/// Parts that keys are dealt to by their hash, so that each part is grouped by itself.
pub(crate) const PARTS: usize = 256;

/// Rows that are looked up together.
pub(crate) const BLOCK_ROWS: usize = 256;

/// Groups whose rows and slots stay near the processor anyway.
const NEAR_GROUPS: usize = 1 << 12;

/// Slots that there are at first.
const FIRST_SLOTS: usize = 64;

/// The part that a key of this hash belongs to. The index uses the other half of the hash.
pub(crate) fn part_of(hash: u64) -> usize {
    hash as usize % PARTS
}

/// Where the rows of keys are: an open-addressed table with linear probing.
struct Index {
    /// The upper half of the hash, and the number of the row plus one; 0 for an empty slot.
    slots: Vec<u64>,
    /// 32 less the bits of the number of slots: the place of a key is that of the first bits of its half of the hash.
    shift: u32,
    used: usize,
    memory: Reservation,
}

impl Index {
    fn new(memory: &Reservation) -> Self {
        Self { slots: Vec::new(), shift: 32, used: 0, memory: memory.empty() }
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        ((hash >> 32) >> self.shift) as usize
    }

    /// The row of a key, or the empty slot where it belongs. There is one while [`Self::is_full`] is false.
    #[inline]
    fn find(&self, hash: u64, is_row: impl Fn(usize) -> bool) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return Err(place);
            }
            if slot >> 32 == hash >> 32 {
                let row = (slot as u32 - 1) as usize;
                if is_row(row) {
                    return Ok(row);
                }
            }
            place = (place + 1) & mask;
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        3 * self.used >= 2 * self.slots.len()
    }

    fn insert(&mut self, place: usize, hash: u64, row: usize) {
        self.slots[place] = (hash >> 32 << 32) | (row as u64 + 1);
        self.used += 1;
    }

    /// Doubles the slots.
    #[cold]
    fn grow(&mut self, slots: usize, may_exceed: bool) -> Result<(), MemoryError> {
        let mut memory = self.memory.empty();
        let bytes = slots * size_of::<u64>();
        if may_exceed {
            memory.grow(bytes);
        } else {
            memory.try_grow(bytes)?;
        }
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.shift = 32 - slots.trailing_zeros();
        let mask = slots - 1;
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut place = self.place(slot);
            while self.slots[place] != 0 {
                place = (place + 1) & mask;
            }
            self.slots[place] = slot;
        }
        self.memory = memory;
        Ok(())
    }
}

/// Groups, found by their keys.
pub(crate) struct Groups<K, S> {
    index: Index,
    /// Whether memory may be taken beyond the limit, because as much is returned soon.
    may_exceed: bool,
    rows: Rows<K, S>,
}

impl<K: Key, S: GroupSums> Groups<K, S> {
    pub(crate) fn new(chunk_bits: u32, measures: usize, memory: &Reservation) -> Self {
        Self { index: Index::new(memory), may_exceed: false, rows: Rows::new(chunk_bits, measures, memory) }
    }

    /// For this many groups at most, beyond the limit of memory if necessary: the caller returns as much meanwhile.
    pub(crate) fn beyond(groups: usize, chunk_bits: u32, measures: usize, memory: &Reservation) -> Self {
        let mut made = Self { may_exceed: true, ..Self::new(chunk_bits, measures, memory) };
        let slots = (groups + groups / 2).next_power_of_two().max(FIRST_SLOTS);
        // taking memory beyond the limit does not fail
        let _ = made.index.grow(slots, true);
        made
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn rows_mut(&mut self) -> &mut Rows<K, S> {
        &mut self.rows
    }

    pub(crate) fn into_rows(self) -> Rows<K, S> {
        self.rows
    }

    /// Takes all groups out.
    pub(crate) fn take_rows(&mut self) -> Rows<K, S> {
        let empty = Rows::new(self.rows.chunk_bits(), self.rows.measures(), &self.index.memory);
        self.index = Index::new(&self.index.memory);
        std::mem::replace(&mut self.rows, empty)
    }

    /// Reads where the groups of these hashes and keys are likely to be, at most [`BLOCK_ROWS`], so that they are near
    /// when they are counted.
    pub(crate) fn fetch<'a>(&self, keys: impl Iterator<Item = (u64, &'a K)> + Clone)
    where
        K: 'a,
    {
        if self.rows.len() < NEAR_GROUPS {
            return;
        }
        let mut likely = [0_u32; BLOCK_ROWS];
        let mut count = 0;
        for (likely, (hash, _)) in likely.iter_mut().zip(keys.clone()) {
            *likely = self.index.slots[self.index.place(hash)] as u32;
            count += 1;
        }
        let mut read = 0;
        for (row, (_, key)) in likely[..count].iter().zip(keys).filter(|(row, _)| **row > 0) {
            let row = self.rows.row(*row as usize - 1);
            read ^= row.sums.touch() ^ u64::from(row.key == *key);
        }
        black_box(read);
    }

    /// Counts for a key.
    #[inline]
    pub(crate) fn add(
        &mut self,
        hash: u64,
        key: &K,
        sums: &S,
        more: &[Option<u64>],
        measures: &[Measure],
    ) -> Result<(), MemoryError> {
        if self.index.is_full() {
            self.index.grow((2 * self.index.slots.len()).max(FIRST_SLOTS), self.may_exceed)?;
        }
        match self.index.find(hash, |row| self.rows.row(row).key == *key) {
            Ok(row) => {
                self.rows.row_mut(row).sums.add(sums);
                if !measures.is_empty() && measures::join(measures, self.rows.more_mut(row), more) {
                    self.rows.row_mut(row).sums.saturate();
                }
            }
            Err(place) => {
                let row = self.rows.len();
                if self.may_exceed {
                    self.rows.push(key.clone(), *sums, more);
                } else {
                    self.rows.try_push(key.clone(), *sums, more)?;
                }
                self.index.insert(place, hash, row);
            }
        }
        Ok(())
    }
}
