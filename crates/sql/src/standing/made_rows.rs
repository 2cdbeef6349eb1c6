//! Rows that a plan made, which are kept for windows that come later.
//!
//! Whether a sum among them does not fit is kept with them: a window that has them has that sum, although it was added up for
//! another one.

use arrow::array::RecordBatch;
use weir_query::SaturationFlag;

/// Rows that a plan made.
#[derive(Debug, Clone, Default)]
pub(crate) struct MadeRows {
    pub(crate) batches: Vec<RecordBatch>,
    /// Whether a sum that they were made of does not fit into 64 bits.
    pub(crate) is_saturated: bool,
}

impl MadeRows {
    /// What something makes, whose sums note in `saturation` that they do not fit; it is left as it was.
    pub(crate) fn of<E>(
        saturation: &SaturationFlag,
        make: impl FnOnce() -> Result<Vec<RecordBatch>, E>,
    ) -> Result<Self, E> {
        let (batches, is_saturated) = saturation.during(make);
        Ok(Self { batches: batches?, is_saturated })
    }

    /// The rows for an answer; that a sum does not fit is noted of it.
    pub(crate) fn noted_in(self, saturation: &SaturationFlag) -> Vec<RecordBatch> {
        if self.is_saturated {
            saturation.set();
        }
        self.batches
    }
}
