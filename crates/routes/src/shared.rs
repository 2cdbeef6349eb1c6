//! The table in force, which may be replaced by another one at any time.

use std::sync::{Arc, PoisonError, RwLock};

use super::route_table::RouteTable;

/// A table that several share. Clones share it: what replaces the table of one replaces that of all.
///
/// To look addresses up, take the [current](Self::current) table once for a batch of them, which is the only time
/// that a lock is taken, and keep it for this batch even if another one comes meanwhile.
#[derive(Debug, Clone, Default)]
pub struct SharedRouteTable(Arc<RwLock<Arc<RouteTable>>>);

impl SharedRouteTable {
    /// A table that is in force from the start.
    pub fn new(table: RouteTable) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(table))))
    }

    /// The table in force.
    pub fn current(&self) -> Arc<RouteTable> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts another table in force.
    pub fn replace(&self, table: RouteTable) {
        let table = Arc::new(table);
        let before = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), table);
        // freeing a full table takes a while, and nothing should wait for the lock meanwhile
        drop(before);
    }
}

/// Two are equal when they share their table.
impl PartialEq for SharedRouteTable {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SharedRouteTable {}
