//! How much memory questions may use, and how it is kept.
//!
//! `DataFusion` counts what operators hold: groups, rows that are sorted, one side of a join. That is the pool. It does not
//! count what is on its way between them, and what a function makes is there before anybody can count it:
//! `repeat('x', 2000000000)` is two gigabytes in one step. So what is on its way is bounded instead: a function whose
//! result can be larger than its arguments is asked for the size first ([`functions`]), a batch is looked at when it
//! leaves an operator that makes rows wider or more ([`batches`]), and so are its rows before they are repeated. What
//! speaks against bounds: a question that would fit is refused when a single batch of it would not.

pub(crate) mod batches;
pub(crate) mod functions;
mod width;

use datafusion::error::DataFusionError;

pub(crate) use width::octets_of_batch;

/// Smallest allowance of a batch, in octets: flows with all their columns have some 700 octets each.
const BATCH_OCTETS_MIN: usize = 8 << 20;
/// Smallest allowance of a value that is repeated for each row of a batch, in octets.
const VALUE_OCTETS_MIN: usize = 4 << 10;
/// Batches that may be on their way in each thread.
const BATCHES_PER_THREAD: usize = 8;

/// How the memory of questions is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryShares {
    /// What operators may hold, in octets. They hold up to twice what they count while they hand it over: groups and
    /// the batches made of them, batches and the one that they are joined to.
    pub(crate) pool: usize,
    /// What one batch may have, in octets.
    pub(crate) batch: usize,
    /// What one value may have that is repeated for each row of a batch, in octets. One such batch is made before it is
    /// looked at, so each thread may have as much as all its other batches together.
    pub(crate) value: usize,
}

impl MemoryShares {
    pub(crate) fn of(memory_octets_max: usize, threads: usize, batch_rows: usize) -> Self {
        let pool = memory_octets_max / 2;
        let batch = (memory_octets_max / 4 / (threads.max(1) * BATCHES_PER_THREAD)).max(BATCH_OCTETS_MIN);
        let value = memory_octets_max / 4 / threads.max(1) / batch_rows.max(1);
        Self { pool, batch, value: value.max(VALUE_OCTETS_MIN) }
    }
}

/// What is refused: `what` would have `octets`, of which `octets_max` are allowed.
fn too_large(what: &str, octets: u128, octets_max: usize) -> DataFusionError {
    DataFusionError::ResourcesExhausted(format!("{what} of {octets} octets, and at most {octets_max} are allowed"))
}
