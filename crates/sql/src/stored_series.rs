//! Statistics, wherever they are kept, as the table `series` reads them.
//!
//! The store finds rows by the length of their step, by what they are series of, by key and by time; everything else is done by the
//! engine, which looks at every condition once more.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_flow::with_causes;
use weir_query::Progress;
use weir_series::{RowSelection, SeriesError, SeriesStore};

/// A store of statistics.
pub trait StoredSeries: Debug + Send + Sync {
    /// The columns of its rows: `time`, `step`, `by` and `key`, with the types that [`SeriesStore::schema`] gives them, and others.
    fn schema(&self) -> SchemaRef;

    /// The lengths of steps that there are, in seconds; `None` when the store knows them only once it reads.
    fn step_lengths(&self) -> Option<Vec<u32>>;

    /// Reads rows, and hands over batch by batch until `take` returns that the question has ended. Rows that are not in the selection
    /// may be among them. It may block. What is lost of the rows is a gap, and a warning of `progress`.
    fn read(
        &self,
        selection: &SeriesSelection,
        progress: &Progress,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Which rows are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSelection {
    /// Length of the steps in seconds.
    pub step_secs: u32,
    /// What they are series of; `None` for everything.
    pub families: Option<Vec<String>>,
    /// Keys; `None` for all.
    pub keys: Option<Vec<String>>,
    /// Steps that begin at this time or later, in seconds since the epoch.
    pub from_secs: i64,
    /// Steps that begin before this time.
    pub until_secs: i64,
}

impl StoredSeries for Arc<SeriesStore> {
    fn schema(&self) -> SchemaRef {
        SeriesStore::schema(self)
    }

    fn step_lengths(&self) -> Option<Vec<u32>> {
        Some(self.resolutions().iter().map(|resolution| resolution.step_secs).collect())
    }

    fn read(
        &self,
        selection: &SeriesSelection,
        progress: &Progress,
        take: &mut dyn FnMut(RecordBatch) -> bool,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let has_length = |step_secs: u32| step_secs == selection.step_secs;
        let found = self.resolutions().iter().find(|resolution| has_length(resolution.step_secs));
        let Some(&resolution) = found else { return Ok(()) };
        let selection = RowSelection {
            resolution,
            families: selection.families.clone(),
            keys: selection.keys.clone(),
            from_secs: selection.from_secs,
            until_secs: selection.until_secs,
        };
        for batch in self.rows(&selection)? {
            if progress.is_stopped() {
                break;
            }
            match batch {
                // a key that never was looks like one that is lost
                Err(error @ SeriesError::KeysMayBeLost { .. }) => progress.warn_of_doubt(with_causes(&error)),
                // steps that are damaged hide no other ones
                Err(error) if error.is_damage() => progress.warn(with_causes(&error)),
                batch => {
                    if !take(batch?) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
