//! Rows that wait for their partner, found by their key, leaving in the order in which they came.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::rows::Row;
use weir_rows::five_tuple::Key;
use weir_rows::keys::Seed;

/// Rows that wait. Each has a number that counts up; rows of the same key form a list, oldest first.
pub(super) struct Pending {
    seed: Seed,
    waiting: VecDeque<Waiting>,
    /// Number of the first of `waiting`.
    first: u64,
    /// For each key, number of the oldest and of the youngest row.
    lists: HashTable<List>,
    len: usize,
}

struct Waiting {
    row: Row,
    hash: u64,
    /// Number of the next row with the same key, [`NONE`] when there is none.
    next: u64,
    /// Its partner was found.
    gone: bool,
}

struct List {
    oldest: u64,
    youngest: u64,
}

const NONE: u64 = u64::MAX;

impl Pending {
    pub(super) fn new() -> Self {
        Self { seed: Seed::random(), waiting: VecDeque::new(), first: 0, lists: HashTable::new(), len: 0 }
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Octets of memory, about.
    pub(super) fn octets(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>() + self.lists.allocation_size()
    }

    /// Time of the oldest row.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.waiting.front().map(|waiting| waiting.row.time)
    }

    /// Adds a row; it is younger than all others.
    pub(super) fn put(&mut self, row: Row) {
        let hash = self.seed.hash(&row.key);
        let number = self.first + self.waiting.len() as u64;
        let Self { lists, waiting, first, .. } = self;
        let key_of = |number: u64| &waiting[(number - *first) as usize].row.key;
        let mut youngest = None;
        if let Some(list) = lists.find_mut(hash, |list| *key_of(list.oldest) == row.key) {
            youngest = Some(std::mem::replace(&mut list.youngest, number));
        } else {
            let list = List { oldest: number, youngest: number };
            lists.insert_unique(hash, list, |list| waiting[(list.oldest - *first) as usize].hash);
        }
        if let Some(youngest) = youngest {
            waiting[(youngest - *first) as usize].next = number;
        }
        waiting.push_back(Waiting { row, hash, next: NONE, gone: false });
        self.len += 1;
    }

    /// Takes out the oldest row with the key of another one.
    pub(super) fn take(&mut self, partner: &Row) -> Option<Row> {
        if self.len == 0 {
            return None;
        }
        let number = self.unlink(self.seed.hash(&partner.key), &partner.key)?;
        let waiting = &mut self.waiting[(number - self.first) as usize];
        waiting.gone = true;
        let row = waiting.row;
        self.len -= 1;
        self.drop_gone();
        Some(row)
    }

    /// Takes out the oldest row.
    pub(super) fn pop(&mut self) -> Option<Row> {
        let (row, hash) = self.waiting.front().map(|waiting| (waiting.row, waiting.hash))?;
        self.unlink(hash, &row.key);
        self.waiting.pop_front();
        self.first += 1;
        self.len -= 1;
        self.drop_gone();
        Some(row)
    }

    /// Takes the oldest row of a key out of its list, and returns its number.
    fn unlink(&mut self, hash: u64, key: &Key) -> Option<u64> {
        let Self { lists, waiting, first, .. } = self;
        let at = |number: u64| (number - *first) as usize;
        let mut entry = lists.find_entry(hash, |list| waiting[at(list.oldest)].row.key == *key).ok()?;
        let number = entry.get().oldest;
        match waiting[at(number)].next {
            NONE => drop(entry.remove()),
            next => entry.get_mut().oldest = next,
        }
        Some(number)
    }

    /// The front of the queue is always a row that waits.
    fn drop_gone(&mut self) {
        while self.waiting.front().is_some_and(|waiting| waiting.gone) {
            self.waiting.pop_front();
            self.first += 1;
        }
    }
}
