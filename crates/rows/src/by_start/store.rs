//! The columns of rows that are held.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use weir_chain::ComponentError;

use crate::gather::{self, Pick};

/// Rows that are not held may stay in memory as long as they are not this many times as many as those that are.
const WASTE_MAX: usize = 4;
/// Nor is it worth while to copy because of fewer.
const WASTE_ROWS_MIN: usize = 1 << 16;

/// Batches of which some rows are held. A batch goes when none of its rows is held any more; when most of what is in
/// memory is not held, the rest is copied together.
#[derive(Debug, Default)]
pub struct RowStore {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots that may have no row that is held.
    idle: Vec<u32>,
    rows_held: usize,
    rows: usize,
    octets: usize,
}

#[derive(Debug)]
struct Slot {
    batch: RecordBatch,
    rows_held: u32,
    octets: usize,
    /// Its place among the batches that are gathered from, while that is done.
    near: Option<u32>,
}

impl RowStore {
    /// Puts a batch in, and returns what its rows are picked by. It stays until [`settle`](Self::settle) at least.
    pub fn put(&mut self, batch: RecordBatch) -> u32 {
        let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        let octets = sizes.sum();
        self.rows += batch.num_rows();
        self.octets += octets;
        let slot = Slot { batch, rows_held: 0, octets, near: None };
        let place = if let Some(place) = self.free.pop() {
            self.slots[place as usize] = slot;
            place
        } else {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        self.idle.push(place);
        place
    }

    /// Holds a row.
    #[inline]
    pub fn hold(&mut self, pick: Pick) {
        self.slots[pick.batch as usize].rows_held += 1;
        self.rows_held += 1;
    }

    /// Lets a row go that was held. It can be gathered until the next [`settle`](Self::settle).
    #[inline]
    pub fn release(&mut self, pick: Pick) {
        let slot = &mut self.slots[pick.batch as usize];
        slot.rows_held -= 1;
        self.rows_held -= 1;
        if slot.rows_held == 0 {
            self.idle.push(pick.batch);
        }
    }

    /// Rows in the order of their picks, whether they are held or not.
    pub fn gather(&mut self, picks: &[Pick]) -> Result<RecordBatch, ComponentError> {
        let (mut batches, mut used) = (Vec::new(), Vec::new());
        let mut near = Vec::with_capacity(picks.len());
        for pick in picks {
            let slot = &mut self.slots[pick.batch as usize];
            let batch = *slot.near.get_or_insert_with(|| {
                batches.push(slot.batch.clone());
                used.push(pick.batch);
                batches.len() as u32 - 1
            });
            near.push(Pick { batch, row: pick.row });
        }
        for place in used {
            self.slots[place as usize].near = None;
        }
        gather::interleave(&batches, &near)
    }

    /// Drops the batches that no row is held of. `picks` lists those of all rows that are held; they are changed when
    /// the rows are copied together.
    pub fn settle<'a>(&mut self, picks: impl FnOnce() -> Vec<&'a mut Pick>) -> Result<(), ComponentError> {
        for place in std::mem::take(&mut self.idle) {
            let slot = &mut self.slots[place as usize];
            // a place may be listed twice, and held again since
            if slot.rows_held == 0 && slot.batch.num_columns() > 0 {
                self.rows -= slot.batch.num_rows();
                self.octets -= slot.octets;
                slot.batch = RecordBatch::new_empty(Arc::new(Schema::empty()));
                self.free.push(place);
            }
        }
        if self.rows > self.rows_held * WASTE_MAX + WASTE_ROWS_MIN {
            self.copy_together(picks())?;
        }
        Ok(())
    }

    fn copy_together(&mut self, mut picks: Vec<&mut Pick>) -> Result<(), ComponentError> {
        let rows: Vec<Pick> = picks.iter().map(|pick| **pick).collect();
        let batch = self.gather(&rows)?;
        *self = Self::default();
        let place = self.put(batch);
        for (row, pick) in picks.iter_mut().enumerate() {
            **pick = Pick { batch: place, row: row as u32 };
            self.hold(**pick);
        }
        Ok(())
    }

    /// How many rows are held.
    pub fn rows_held(&self) -> usize {
        self.rows_held
    }

    /// Octets of memory, about.
    pub fn octets(&self) -> usize {
        self.octets + self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use proptest::prelude::*;
    use weir_flow::{Column, FlowBatchBuilder};

    use super::*;

    fn batch(numbers: &[u64]) -> RecordBatch {
        let mut builder = FlowBatchBuilder::new(numbers.len());
        builder.begin_rows(numbers.len());
        builder.u64(Column::Packets).extend(numbers.iter().copied());
        builder.finish().record_batch().clone()
    }

    fn numbers(rows: &RecordBatch) -> Vec<u64> {
        rows.column(0).as_primitive::<UInt64Type>().values().to_vec()
    }

    proptest! {
        /// Batches come, some of their rows are held, and later let go: what is held can always be gathered.
        #[test]
        fn what_is_held_is_there(steps in proptest::collection::vec((1..60usize, 1..5usize, 0..80usize), 1..60)) {
            let mut store = RowStore::default();
            let mut held: Vec<(u64, Pick)> = Vec::new();
            let mut next = 0;
            for (rows, each, released) in steps {
                let values: Vec<u64> = (next..next + rows as u64).collect();
                next += rows as u64;
                let place = store.put(batch(&values));
                for row in (0..rows).step_by(each) {
                    let pick = Pick { batch: place, row: row as u32 };
                    store.hold(pick);
                    held.push((values[row], pick));
                }
                for at in (0..released.min(held.len())).rev() {
                    store.release(held.swap_remove(at * 7 % held.len()).1);
                }
                store.settle(|| held.iter_mut().map(|(_, pick)| pick).collect()).expect("settled");
                prop_assert_eq!(store.rows_held(), held.len());
                let picks: Vec<Pick> = held.iter().map(|(_, pick)| *pick).collect();
                if !picks.is_empty() {
                    let expected: Vec<u64> = held.iter().map(|(number, _)| *number).collect();
                    prop_assert_eq!(numbers(&store.gather(&picks).expect("rows")), expected);
                }
            }
            for (_, pick) in held.drain(..) {
                store.release(pick);
            }
            store.settle(Vec::new).expect("settled");
            prop_assert_eq!((store.rows, store.octets, store.rows_held), (0, 0, 0));
        }
    }

    #[test]
    fn one_row_of_each_batch_does_not_keep_all_of_them() {
        let mut store = RowStore::default();
        let mut picks = Vec::new();
        for round in 0..100 {
            let place = store.put(batch(&vec![round; 10_000]));
            picks.push(Pick { batch: place, row: 9_999 });
            store.hold(picks[picks.len() - 1]);
            store.settle(|| picks.iter_mut().collect()).expect("settled");
            assert!(store.rows <= WASTE_ROWS_MIN + WASTE_MAX * picks.len());
        }
        assert_eq!(numbers(&store.gather(&picks).expect("rows")), (0..100).collect::<Vec<_>>());
    }
}
