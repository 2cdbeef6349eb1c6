//! Where the rows of a window are while a standing question is answered about it.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use weir_archive::Snapshot;

use super::pane_rows::WindowPane;
use super::window_memory::QuestionMemory;

/// A range of time: from `start_ms` up to and without `end_ms`, milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Window {
    /// When it begins.
    pub start_ms: i64,
    /// When it ends.
    pub end_ms: i64,
}

/// The rows of one window.
#[derive(Debug, Clone, Default)]
pub struct WindowRows {
    /// The window.
    pub window: Window,
    /// Its rows by pane: columns of flows, in any order; one that is missing is null.
    pub panes: Vec<WindowPane>,
}

impl WindowRows {
    /// Of rows that no other window shares.
    pub fn of(window: Window, batches: Vec<RecordBatch>) -> Self {
        Self { window, panes: vec![WindowPane::single(batches)] }
    }

    /// The same, whose memory is counted as long as something has them.
    pub fn within(window: Window, batches: Vec<RecordBatch>, memory: Option<&QuestionMemory>) -> Self {
        Self { window, panes: vec![WindowPane::single_within(batches, memory)] }
    }

    /// Whether some of its rows were aggregated and are gone.
    pub fn has_released(&self) -> bool {
        self.panes.iter().any(WindowPane::has_released)
    }

    /// The rows, as far as they were not released.
    pub fn batches(&self) -> Vec<RecordBatch> {
        self.panes.iter().flat_map(WindowPane::rows).collect()
    }
}

/// What the plan reads in the place of a relation.
#[derive(Debug, Clone, Default)]
pub(crate) struct RelationRows {
    pub(crate) window: Window,
    pub(crate) batches: Vec<RecordBatch>,
}

/// What a slot holds: rows for each window relation of the statement, and the archive.
#[derive(Debug, Default)]
pub(crate) struct SlotContent {
    pub(crate) rows: Vec<RelationRows>,
    pub(crate) history: Option<Arc<Snapshot>>,
}

/// Where the relations of one statement find their rows. Plans hold it, so its content can change between two runs of
/// the same plan.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<SlotContent>);

impl Slot {
    pub(crate) fn held(&self) -> MutexGuard<'_, SlotContent> {
        // every step under this lock leaves whole values behind
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The window of a relation.
    pub(crate) fn window(&self, relation: usize) -> Window {
        self.held().rows.get(relation).map(|rows| rows.window).unwrap_or_default()
    }

    /// The rows of a relation.
    pub(crate) fn batches(&self, relation: usize) -> Vec<RecordBatch> {
        self.held().rows.get(relation).map(|rows| rows.batches.clone()).unwrap_or_default()
    }
}

/// A relation of a slot. Two are the same when they are the same place.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) slot: Arc<Slot>,
    pub(crate) relation: usize,
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot) && self.relation == other.relation
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.slot).hash(state);
        self.relation.hash(state);
    }
}
