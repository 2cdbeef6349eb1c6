//! Keys whose sessions are open, by name and by when they are looked at.
//!
//! Whoever sends flows chooses the keys, so this table counts as memory as the rows do: what a key takes is known before it is
//! added, and is an upper bound of what the tables have reserved for it.

use std::collections::{BTreeMap, HashMap};

use weir_sql::standing::{QuestionMemory, Run, SessionKind, StateMemory};

/// Places without a key that may stay next to those with one; beyond that, their memory is freed.
const FREE_PLACES_MAX: usize = 4_096;
/// Rows that a key has space for at first; it is doubled then.
const ROWS_MIN: usize = 4;
/// What an allocation takes beside what is in it.
const ALLOCATION_OCTETS: usize = 16;
/// A time at which keys are looked at, with a list of one of them, which has space for four.
const TIME_OCTETS: usize = size_of::<(i64, Vec<usize>)>() + ALLOCATION_OCTETS + 4 * size_of::<usize>();
/// A key in the tables that have one entry for each. These are doubled when they are full.
const PLACE_OCTETS: usize =
    2 * (size_of::<OpenKey>() + size_of::<(Box<[u8]>, usize)>() + 1 + size_of::<usize>()) + TIME_OCTETS;

/// A row that is kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptRow {
    pub(super) time_ms: i64,
    pub(super) batch: u64,
    pub(super) row: u32,
}

/// What is known of a key.
#[derive(Debug, Default)]
pub(super) struct OpenKey {
    name: Box<[u8]>,
    /// Rows of sessions that were not given.
    pub(super) rows: Vec<KeptRow>,
    is_sorted: bool,
    /// The time of the first of them, if there is one.
    first_ms: Option<i64>,
    /// The run of the session that was given last: it may go on.
    pub(super) before: Option<Run>,
    /// When it is looked at next: not after its first session ends.
    look_at_ms: i64,
}

impl OpenKey {
    pub(super) fn sort(&mut self) {
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.rows.sort_by_key(|row| row.time_ms);
        }
    }

    fn push(&mut self, row: KeptRow) {
        self.is_sorted &= self.rows.last().is_none_or(|last| last.time_ms <= row.time_ms);
        self.first_ms = Some(self.first_ms.map_or(row.time_ms, |first_ms| first_ms.min(row.time_ms)));
        if self.rows.len() == self.rows.capacity() {
            self.rows.reserve_exact(self.more_rows());
        }
        self.rows.push(row);
    }

    /// For how many rows there will be space in addition when one more comes.
    fn more_rows(&self) -> usize {
        if self.rows.len() < self.rows.capacity() { 0 } else { self.rows.len().max(ROWS_MIN) }
    }

    /// When its first session ends, or its last one cannot go on.
    fn next_end_ms(&mut self, kind: SessionKind) -> i64 {
        self.sort();
        self.first_ms = self.rows.first().map(|row| row.time_ms);
        match kind.first(self.before, self.rows.iter().map(|row| row.time_ms)) {
            Some(session) => session.end_ms,
            None => self.before.map_or(i64::MIN, |run| run.last_ms.saturating_add(kind.gap_ms)),
        }
    }

    fn is_open(&self) -> bool {
        !self.rows.is_empty() || self.before.is_some()
    }

    fn octets(&self) -> usize {
        named_octets(&self.name) + self.rows.capacity() * size_of::<KeptRow>()
    }
}

/// What the name of a key takes, which two tables have, and its list of rows without any.
fn named_octets(name: &[u8]) -> usize {
    2 * name.len() + 3 * ALLOCATION_OCTETS
}

/// Keys whose sessions are open.
#[derive(Debug, Default)]
pub(super) struct OpenKeys {
    places: HashMap<Box<[u8]>, usize>,
    keys: Vec<OpenKey>,
    free: Vec<usize>,
    /// Places of keys by when they are looked at. What a key does not have as its time is left over, and skipped.
    schedule: BTreeMap<i64, Vec<usize>>,
    /// Places in it, those that are left over among them.
    scheduled: usize,
    /// Octets of the names of keys, and of their lists of rows.
    octets_of_keys: usize,
    /// What it takes of the memory of all watches; it is not counted without.
    memory: Option<StateMemory>,
}

impl OpenKeys {
    /// Without keys, and within the memory of all watches.
    pub(super) fn within(memory: Option<&QuestionMemory>) -> Self {
        Self { memory: memory.map(QuestionMemory::state), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place_of(&self, name: &[u8]) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The time of the first row of the key in a place.
    pub(super) fn first_ms(&self, place: usize) -> Option<i64> {
        self.keys.get(place)?.first_ms
    }

    /// The rows that are kept of all keys.
    pub(super) fn rows(&self) -> impl Iterator<Item = &KeptRow> {
        self.keys.iter().flat_map(|key| &key.rows)
    }

    /// The same, in the same order.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut KeptRow> {
        self.keys.iter_mut().flat_map(|key| &mut key.rows)
    }

    /// Octets that a row will take in addition of the key of a name, which has this place, if any. Its session ends here at the
    /// earliest.
    pub(super) fn more_octets(&self, place: Option<usize>, name: &[u8], end_ms: i64) -> u64 {
        let more = if let Some(key) = place.and_then(|place| self.keys.get(place)) {
            let left_over = if end_ms < key.look_at_ms { TIME_OCTETS } else { 0 };
            key.more_rows() * size_of::<KeptRow>() + left_over
        } else {
            let place = if self.free.is_empty() { PLACE_OCTETS } else { 0 };
            place + named_octets(name) + ROWS_MIN * size_of::<KeptRow>()
        };
        more as u64
    }

    /// Adds a row to the key of a name, which has this place; without, the key is new.
    pub(super) fn push(&mut self, place: Option<usize>, name: &[u8], row: KeptRow, end_ms: i64) {
        let place = place.unwrap_or_else(|| self.open(name));
        let Some(key) = self.keys.get_mut(place) else { return };
        let before = key.octets();
        key.push(row);
        self.octets_of_keys += key.octets() - before;
        if end_ms < key.look_at_ms {
            key.look_at_ms = end_ms;
            self.schedule(end_ms, place);
        }
    }

    fn open(&mut self, name: &[u8]) -> usize {
        let key = OpenKey { name: name.into(), is_sorted: true, look_at_ms: i64::MAX, ..OpenKey::default() };
        self.octets_of_keys += key.octets();
        let place = self.free.pop().unwrap_or_else(|| {
            self.keys.push(OpenKey::default());
            self.keys.len() - 1
        });
        if let Some(free) = self.keys.get_mut(place) {
            *free = key;
        }
        self.places.insert(name.into(), place);
        place
    }

    fn schedule(&mut self, at_ms: i64, place: usize) {
        self.schedule.entry(at_ms).or_default().push(place);
        self.scheduled += 1;
    }

    /// When a key is looked at next.
    pub(super) fn next_look_ms(&self) -> Option<i64> {
        self.schedule.keys().next().copied()
    }

    /// Takes the places of keys that may be looked at next, and when, if that is at this time or before.
    pub(super) fn pop_due(&mut self, through_ms: i64) -> Option<(i64, Vec<usize>)> {
        let first = self.schedule.first_entry().filter(|entry| *entry.key() <= through_ms)?;
        let (at_ms, places) = first.remove_entry();
        self.scheduled -= places.len();
        Some((at_ms, places))
    }

    /// The key in a place, if it is looked at then.
    pub(super) fn due_mut(&mut self, place: usize, at_ms: i64) -> Option<&mut OpenKey> {
        self.keys.get_mut(place).filter(|key| key.look_at_ms == at_ms)
    }

    /// Puts a key where it must be looked at next, or drops it when there is nothing to look at.
    pub(super) fn reschedule(&mut self, place: usize, kind: SessionKind) {
        let Some(key) = self.keys.get_mut(place) else { return };
        if !key.is_open() {
            let key = std::mem::take(key);
            if self.places.remove(&key.name).is_some() {
                self.octets_of_keys -= key.octets();
                self.free.push(place);
            }
            return;
        }
        key.look_at_ms = key.next_end_ms(kind);
        let at_ms = key.look_at_ms;
        self.schedule(at_ms, place);
    }

    /// Drops the rows of this time and later, which it gives.
    pub(super) fn drop_from(&mut self, time_ms: i64, kind: SessionKind) -> Vec<KeptRow> {
        let mut gone = Vec::new();
        for key in &mut self.keys {
            gone.extend(key.rows.extract_if(.., |row| row.time_ms >= time_ms));
            key.before = key.before.filter(|run| run.last_ms < time_ms);
        }
        self.schedule.clear();
        self.scheduled = 0;
        let mut places: Vec<usize> = self.places.values().copied().collect();
        places.sort_unstable();
        for place in places {
            self.reschedule(place, kind);
        }
        gone
    }

    /// Frees the memory of places without a key, if there are many.
    pub(super) fn free_places(&mut self) {
        if self.free.len() <= self.places.len() + FREE_PLACES_MAX {
            return;
        }
        self.keys.retain(OpenKey::is_open);
        self.keys.shrink_to_fit();
        self.places.shrink_to_fit();
        self.free = Vec::new();
        self.schedule.clear();
        self.scheduled = self.keys.len();
        for (place, key) in self.keys.iter().enumerate() {
            self.schedule.entry(key.look_at_ms).or_default().push(place);
            if let Some(known) = self.places.get_mut(&key.name) {
                *known = place;
            }
        }
    }

    /// Octets of all keys and of the tables that they are in.
    fn octets(&self) -> u64 {
        let left_over = self.scheduled.saturating_sub(self.places.len()) * TIME_OCTETS;
        (self.keys.len() * PLACE_OCTETS + self.octets_of_keys + left_over) as u64
    }

    /// Counts what it takes now.
    pub(super) fn count_memory(&mut self) {
        let octets = self.octets();
        if let Some(memory) = &mut self.memory {
            memory.set(octets);
        }
    }
}

#[cfg(test)]
mod tests;
