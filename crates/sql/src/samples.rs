//! A part of the flows of a question, as they are seen.
//!
//! A sample is read without the engine, which reads all pages that may have wanted flows.

use arrow::array::RecordBatch;
use weir_query::{Archive, FlowQuery, QueryError, SampleSize, Select};

use crate::masking::FlowMasking;
use crate::{EngineError, EngineOptions};

/// A part of the flows of a question, as they are seen: batches of one page or delivery each, which may be empty, with the
/// columns of the question in the order of the table.
pub struct FlowSample {
    answer: weir_query::Answer<Result<RecordBatch, QueryError>>,
    one_of: u64,
}

impl std::fmt::Debug for FlowSample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowSample").field("one_of", &self.one_of).finish_non_exhaustive()
    }
}

impl FlowSample {
    /// Draws it from an archive. The question must be a list in no order, without a limit.
    pub(crate) fn draw(
        archive: &Archive,
        question: &FlowQuery,
        size: SampleSize,
        options: &EngineOptions,
    ) -> Result<Self, QueryError> {
        let Select::List { columns, sorting: None, limit: None } = &question.select else {
            return Err(QueryError::NeedsEngine("a part of other answers than lists of flows"));
        };
        let (kept, masking) = FlowMasking::of_list(columns, question, options);
        let sample = archive.sample(&kept, size, move |batch| masking.seen(&batch))?;
        Ok(Self { answer: sample.answer, one_of: sample.one_of })
    }

    /// Of so many pages one was read: each flow stands for so many. 1 when all flows are there.
    pub fn one_of(&self) -> u64 {
        self.one_of
    }

    /// The flows, for the archive that they are of.
    pub(crate) fn flows(self) -> impl Iterator<Item = Result<RecordBatch, QueryError>> {
        self.answer.map(|batch| -> Result<RecordBatch, QueryError> { batch? })
    }
}

impl Iterator for FlowSample {
    type Item = Result<RecordBatch, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.answer.next()? {
            Ok(batch) => batch.map_err(EngineError::from),
            Err(error) => Err(error.into()),
        })
    }
}
