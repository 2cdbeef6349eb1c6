//! Memory that rows of windows take, of all standing questions together.
//!
//! A delivery is kept by every question that reads it, and its columns are the same memory for all of them. So what is counted
//! are buffers, each by its address and once, for as long as a window has it. What speaks against counting rows is that one has
//! ten octets or two hundred; what speaks against buffers is a table with an entry for each of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayData, RecordBatch};
use arrow::buffer::Buffer;

/// Octets that a row is taken to have before it is loaded.
const LOADED_ROW_OCTETS: u64 = 128;
/// Rows that may be loaded at once however little memory there is.
const LOADED_ROWS_MIN: u64 = 1 << 16;

/// Memory that windows of all standing questions may take.
#[derive(Debug)]
pub struct WindowMemory {
    octets_max: u64,
    questions: AtomicU64,
    kept: Mutex<KeptBuffers>,
}

impl WindowMemory {
    /// Limit in octets.
    pub fn new(octets_max: u64) -> Arc<Self> {
        Arc::new(Self { octets_max, questions: AtomicU64::new(0), kept: Mutex::default() })
    }

    fn kept(&self) -> MutexGuard<'_, KeptBuffers> {
        // every step under this lock leaves whole values behind
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of another question.
    pub fn question(self: &Arc<Self>) -> QuestionMemory {
        QuestionMemory { of_all: Arc::clone(self), number: self.questions.fetch_add(1, Ordering::Relaxed) }
    }

    /// Octets that windows may keep.
    pub fn octets_max(&self) -> u64 {
        self.octets_max
    }

    /// Octets that windows keep. What several of them keep counts once.
    pub fn octets(&self) -> u64 {
        self.kept().octets
    }

    /// Whether windows keep more than they may.
    pub fn is_exceeded(&self) -> bool {
        self.octets() > self.octets_max
    }

    /// Whether half of it is taken, so that what can be aggregated should be.
    pub fn is_scarce(&self) -> bool {
        self.octets() > self.octets_max / 2
    }
}

/// The memory of the windows of one standing question.
#[derive(Debug, Clone)]
pub struct QuestionMemory {
    of_all: Arc<WindowMemory>,
    number: u64,
}

impl QuestionMemory {
    /// That of all questions.
    pub fn of_all(&self) -> &WindowMemory {
        &self.of_all
    }

    /// Octets that its windows keep, those among them that other questions keep, too.
    pub fn octets(&self) -> u64 {
        self.of_all.kept().of_question(self.number)
    }

    /// Rows of the past that may be loaded at once where so many questions load some at the same time.
    pub fn loaded_rows_max(&self, questions: u64) -> u64 {
        (self.of_all.octets_max / questions.max(1) / LOADED_ROW_OCTETS).max(LOADED_ROWS_MIN)
    }

    /// Whether no other question keeps more.
    pub fn keeps_most(&self) -> bool {
        let kept = self.of_all.kept();
        let own = kept.of_question(self.number);
        kept.by_question.values().all(|of| *of <= own)
    }

    /// Whether its windows may keep these rows, too: there is memory left, or another question keeps as much as this one would
    /// then, and that one has to give way. Whether it can, it does not say: a quarter more is taken by others at most.
    pub fn has_room(&self, rows: &RecordBatch) -> bool {
        self.octets_left_after(rows).is_some()
    }

    /// Octets that it may keep in addition to these rows, by the same rule; `None` when the rows themselves do not fit.
    pub fn octets_left_after(&self, rows: &RecordBatch) -> Option<u64> {
        let kept = self.of_all.kept();
        let (more, more_own) = kept.more(self.number, rows);
        let own = kept.of_question(self.number).saturating_add(more_own);
        let most_of_others =
            kept.by_question.iter().filter(|(number, _)| **number != self.number).map(|(_, of)| *of).max();
        let (octets, octets_max) = (kept.octets.saturating_add(more), self.of_all.octets_max);
        let below_limit = octets_max.checked_sub(octets);
        let above_limit = octets_max.saturating_add(octets_max / 4).checked_sub(octets);
        let below_others = most_of_others.and_then(|most| most.checked_sub(own));
        below_limit.max(above_limit.zip(below_others).map(|(above, below)| above.min(below)))
    }

    /// Memory beside rows, of which it has none yet.
    pub fn state(&self) -> StateMemory {
        StateMemory { memory: self.clone(), octets: 0 }
    }

    /// Counts rows that one of its windows keeps.
    pub fn add(&self, rows: &RecordBatch) {
        let mut kept = self.of_all.kept();
        for_each_buffer(rows, |buffer| kept.add(self.number, buffer));
    }

    /// Counts them no more. They must be there until then: other buffers may have their addresses afterwards.
    pub fn remove(&self, rows: &RecordBatch) {
        let mut kept = self.of_all.kept();
        for_each_buffer(rows, |buffer| kept.remove(self.number, buffer));
    }
}

/// Memory that one standing question keeps beside rows of its windows, until this is dropped.
#[derive(Debug)]
pub struct StateMemory {
    memory: QuestionMemory,
    octets: u64,
}

impl StateMemory {
    /// Counts this number of octets instead of those that were counted before.
    pub fn set(&mut self, octets: u64) {
        if octets != self.octets {
            self.memory.of_all.kept().replace(self.memory.number, self.octets, octets);
            self.octets = octets;
        }
    }
}

impl Drop for StateMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Buffers that windows keep, and octets that questions keep beside them.
#[derive(Debug, Default)]
struct KeptBuffers {
    /// Of all of them.
    octets: u64,
    /// By their address.
    buffers: HashMap<usize, KeptBuffer>,
    /// Octets by number of the question.
    by_question: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct KeptBuffer {
    octets: u64,
    /// The questions that keep it, and how often each of them does.
    uses: Vec<(u64, u64)>,
}

impl KeptBuffers {
    fn of_question(&self, question: u64) -> u64 {
        self.by_question.get(&question).copied().unwrap_or(0)
    }

    /// Octets that rows would add to those of all questions, and to those of one.
    fn more(&self, question: u64, rows: &RecordBatch) -> (u64, u64) {
        let (mut of_all, mut own, mut seen) = (0, 0, Vec::new());
        for_each_buffer(rows, |buffer| {
            let address = address(buffer);
            if seen.contains(&address) {
                return;
            }
            seen.push(address);
            let octets = octets(buffer);
            let kept = self.buffers.get(&address);
            let is_own = kept.is_some_and(|kept| kept.uses.iter().any(|(number, _)| *number == question));
            of_all += if kept.is_none() { octets } else { 0 };
            own += if is_own { 0 } else { octets };
        });
        (of_all, own)
    }

    fn add(&mut self, question: u64, buffer: &Buffer) {
        let octets = octets(buffer);
        if octets == 0 {
            // buffers without memory share an address that is none
            return;
        }
        let kept = self.buffers.entry(address(buffer)).or_insert_with(|| KeptBuffer { octets, uses: Vec::new() });
        if kept.uses.is_empty() {
            self.octets += kept.octets;
        }
        if let Some((_, times)) = kept.uses.iter_mut().find(|(number, _)| *number == question) {
            *times += 1;
        } else {
            kept.uses.push((question, 1));
            *self.by_question.entry(question).or_default() += kept.octets;
        }
    }

    fn remove(&mut self, question: u64, buffer: &Buffer) {
        let address = address(buffer);
        let Some(kept) = self.buffers.get_mut(&address) else { return };
        let Some((_, times)) = kept.uses.iter_mut().find(|(number, _)| *number == question) else { return };
        *times -= 1;
        if *times > 0 {
            return;
        }
        kept.uses.retain(|(number, _)| *number != question);
        let (octets, is_gone) = (kept.octets, kept.uses.is_empty());
        if is_gone {
            self.buffers.remove(&address);
            self.octets -= octets;
        }
        self.set_of_question(question, self.of_question(question).saturating_sub(octets));
    }

    /// Counts octets of a question in the place of others that no buffer has.
    fn replace(&mut self, question: u64, before: u64, after: u64) {
        self.octets = self.octets.saturating_sub(before).saturating_add(after);
        let of_question = self.of_question(question).saturating_sub(before).saturating_add(after);
        self.set_of_question(question, of_question);
    }

    fn set_of_question(&mut self, question: u64, octets: u64) {
        if octets > 0 {
            self.by_question.insert(question, octets);
        } else {
            self.by_question.remove(&question);
        }
    }
}

/// Where the memory of a buffer begins, of which it may be a part.
fn address(buffer: &Buffer) -> usize {
    buffer.data_ptr().addr().get()
}

/// Octets of the memory of a buffer.
fn octets(buffer: &Buffer) -> u64 {
    buffer.capacity().max(buffer.len()) as u64
}

fn for_each_buffer(rows: &RecordBatch, mut with: impl FnMut(&Buffer)) {
    for column in rows.columns() {
        for_each_of(&column.to_data(), &mut with);
    }
}

fn for_each_of(data: &ArrayData, with: &mut impl FnMut(&Buffer)) {
    for buffer in data.buffers() {
        with(buffer);
    }
    if let Some(nulls) = data.nulls() {
        with(nulls.buffer());
    }
    for child in data.child_data() {
        for_each_of(child, with);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, UInt64Array};

    use super::*;

    /// Rows of 1,000 octets for each column.
    fn rows(columns: &[&ArrayRef]) -> RecordBatch {
        let named = columns.iter().enumerate().map(|(number, column)| (number.to_string(), Arc::clone(column)));
        RecordBatch::try_from_iter(named).expect("columns of a length")
    }

    fn column() -> ArrayRef {
        Arc::new(UInt64Array::from(vec![7_u64; 125]))
    }

    #[test]
    fn what_several_keep_counts_once() {
        let memory = WindowMemory::new(10_000);
        let (one, other) = (memory.question(), memory.question());
        let (a, b) = (column(), column());
        let both = rows(&[&a, &b]);
        let part = both.slice(10, 5);
        one.add(&both);
        // a part of a buffer keeps all of it
        one.add(&part);
        other.add(&rows(&[&b]));
        assert_eq!((memory.octets(), one.octets(), other.octets()), (2_000, 2_000, 1_000));
        one.remove(&both);
        assert_eq!((memory.octets(), one.octets(), other.octets()), (2_000, 2_000, 1_000));
        one.remove(&part);
        assert_eq!((memory.octets(), one.octets(), other.octets()), (1_000, 0, 1_000));
        other.remove(&rows(&[&b]));
        assert_eq!((memory.octets(), other.octets()), (0, 0));
        assert!(memory.kept().buffers.is_empty() && memory.kept().by_question.is_empty());
    }

    #[test]
    fn whoever_keeps_most_has_no_room_when_there_is_none_left() {
        let memory = WindowMemory::new(3_500);
        let (most, little) = (memory.question(), memory.question());
        let columns: Vec<ArrayRef> = (0..6).map(|_| column()).collect();
        let kept = |number: usize| rows(&[&columns[number]]);
        for number in 0..3 {
            assert!(most.has_room(&kept(number)));
            most.add(&kept(number));
        }
        assert!(!most.has_room(&kept(3)) && !memory.is_exceeded() && memory.is_scarce());
        // what another one keeps takes none
        little.add(&kept(0));
        assert!(little.has_room(&kept(4)) && most.keeps_most() && !little.keeps_most());
        little.add(&kept(4));
        assert!(memory.is_exceeded() && memory.octets() == 4_000);
        // no more than a quarter above the limit, also of who has less: the other one may not be able to give way
        assert!(!little.has_room(&kept(5)) && !most.has_room(&kept(3)));
        most.remove(&kept(1));
        most.remove(&kept(2));
        assert!(!memory.is_exceeded() && memory.octets() == 2_000 && most.has_room(&kept(1)));
    }

    /// Beside rows a question has tables whose size it knows, such as that of open sessions.
    #[test]
    fn what_is_kept_beside_rows_counts_as_they_do() {
        let memory = WindowMemory::new(3_500);
        let (most, little) = (memory.question(), memory.question());
        let columns: Vec<ArrayRef> = (0..4).map(|_| column()).collect();
        let kept = |number: usize| rows(&[&columns[number]]);
        most.add(&kept(0));
        let mut keys = most.state();
        assert_eq!((most.octets_left_after(&kept(0)), most.octets_left_after(&kept(1))), (Some(2_500), Some(1_500)));
        keys.set(1_800);
        assert_eq!((memory.octets(), most.octets()), (2_800, 2_800));
        assert_eq!((most.octets_left_after(&kept(0)), most.octets_left_after(&kept(1))), (Some(700), None));
        // others may keep as much, up to a quarter above the limit
        assert_eq!(little.octets_left_after(&kept(1)), Some(575));
        little.add(&kept(1));
        assert!(memory.is_exceeded() && most.keeps_most() && little.octets_left_after(&kept(2)).is_none());
        keys.set(100);
        assert_eq!((memory.octets(), most.octets(), most.octets_left_after(&kept(0))), (2_100, 1_100, Some(1_400)));
        drop(keys);
        most.remove(&kept(0));
        little.remove(&kept(1));
        assert!(memory.octets() == 0 && memory.kept().by_question.is_empty());
    }
}
