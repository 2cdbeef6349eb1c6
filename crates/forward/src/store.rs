//! What a store is.

use std::sync::Arc;
use std::time::Duration;

use weir_archive::FollowPosition;
use weir_flow::FlowBatch;

/// A delivery on its way to a store.
#[derive(Debug, Clone)]
pub struct ForwardDelivery {
    /// Its position in the archive.
    pub position: FollowPosition,
    /// Its flows, at least one.
    pub flows: FlowBatch,
    /// Number of the archive that it comes from.
    pub origin: i64,
    /// The key of each row within the origin, see [`identity`](crate::identity).
    pub row_keys: Arc<[i64]>,
}

/// What became of the rows of a delivery. All are in one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredRows {
    /// The store has them.
    pub stored: u64,
    /// The store can never take them; it has logged why.
    pub refused: u64,
}

impl std::ops::AddAssign for StoredRows {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.refused += other.refused;
    }
}

/// Why a delivery could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store is away, slow or overloaded: the delivery is tried again, for as long as it takes.
    #[error("{0}")]
    Unavailable(String),
    /// Trying again is of no use: a wrong password, tables of another version.
    #[error("{0}")]
    Refused(String),
}

/// How storing a delivery ended.
#[derive(Debug)]
pub struct ForwardOutcome {
    /// Its position.
    pub position: FollowPosition,
    /// What became of it. After an error none, some or all of its rows may have been stored.
    pub result: Result<StoredRows, StoreError>,
}

/// Where deliveries go.
///
/// **Order.** Deliveries may be stored at the same time and end in any order; each ends once.
///
/// **Again.** The same delivery may come again, after an error and after a crash, with the same origin and the same keys of
/// rows, though perhaps in another order. A row that is there already must be overwritten.
///
/// **Back-pressure.** The forwarder limits what has begun and not ended; the store need not.
pub trait ForwardStore: Send {
    /// Begins to store a delivery.
    fn begin(&mut self, delivery: ForwardDelivery);

    /// What has ended since the last call. Waits at most so long for something to end; `begin` is not called meanwhile.
    fn ended(&mut self, timeout: Duration) -> Vec<ForwardOutcome>;
}
