//! Where a source or a component puts what it hands on.

use arrow::array::RecordBatch;
use weir_flow::{FlowBatch, SideTables};

use crate::Burst;

/// Takes what a source or a component hands on. What is in it goes downstream when the call that filled it returns.
#[derive(Debug, Default)]
pub struct Outlet {
    bursts: Vec<Burst>,
}

impl Outlet {
    /// An empty outlet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hands on rows; a batch without rows is dropped.
    pub fn rows(&mut self, rows: RecordBatch) {
        self.burst(Burst::new(rows));
    }

    /// Hands on flows.
    pub fn flows(&mut self, flows: FlowBatch) {
        self.burst(flows.into());
    }

    /// Hands on a burst, which may have something beside its rows.
    pub fn burst(&mut self, burst: Burst) {
        if !burst.is_empty() {
            self.bursts.push(burst);
        }
    }

    /// Gives side tables to the last burst; without one they stay where they are.
    pub(crate) fn attach(&mut self, side_tables: &mut SideTables) {
        let Some(last) = self.bursts.pop_if(|last| last.side_tables().is_empty()) else { return };
        let (rows, _) = last.into_parts();
        self.bursts.push(Burst::with_side_tables(rows, std::mem::take(side_tables)));
    }

    /// Takes out what was put in, oldest first.
    pub fn drain(&mut self) -> impl Iterator<Item = Burst> + '_ {
        self.bursts.drain(..)
    }
}
