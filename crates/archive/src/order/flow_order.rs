//! Rows in order, with the numbers of their addresses.

use weir_flow::Column;

use super::hosts::Hosts;

/// Rows in order, and the numbers of their addresses.
#[derive(Debug, Default)]
pub(crate) struct FlowOrder {
    /// Numbers of rows as they came.
    pub(crate) rows: Vec<u32>,
    pub(crate) hosts: Hosts,
    /// Numbers of the source and of the destination address of each row, in the order in which rows came.
    pub(crate) host_numbers: [Vec<u32>; 2],
}

impl FlowOrder {
    /// Rows that stay as they came.
    pub(crate) fn as_received(rows: usize) -> Self {
        Self { rows: (0..rows as u32).collect(), ..Self::default() }
    }

    /// The numbers of a column's addresses, row by row as they came, when they say all that is in it.
    pub(crate) fn numbers_of(&self, column: &str) -> Option<&[u32]> {
        let side = [Column::SrcAddr, Column::DstAddr].iter().position(|side| side.name() == column)?;
        let numbers = &self.host_numbers[side];
        (!numbers.is_empty() && self.hosts.other.is_empty()).then_some(numbers)
    }
}
