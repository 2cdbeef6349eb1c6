//! A part of the flows of a question, as they are seen.
//!
//! A sample is read without the engine, which reads all pages that may have wanted flows. So what the engine does with each flow
//! is done here once more, batch by batch: counts are scaled by the sampling of each flow, a filter is applied to the scaled
//! ones, addresses are replaced. What speaks against it is that there are two ways to the same flows; tests compare them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use weir_filter::Predicate;
use weir_flow::scaling::Corrections;
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch};
use weir_query::{Archive, FlowQuery, QueryError, SampleSize, Select};

use crate::scaling::{deciding, is_scaled, scaled};
use crate::view::Images;
use crate::{EngineError, EngineOptions, Pseudonyms};

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
        let kept = options.view.kept(&question.filter);
        let (before, after) = if question.scaled { by_counts(kept) } else { (kept, Predicate::True) };
        let seen = FlowMasking::new(columns, after, question.scaled, options);
        let read = FlowQuery {
            filter: Predicate::and([options.view.rows.clone(), before]),
            window: question.window,
            select: Select::List { columns: seen.columns_read(), sorting: None, limit: None },
            scaled: false,
        };
        let sample = archive.sample(&read, size, move |batch| seen.of(batch))?;
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

/// A filter in two parts that a flow must both pass: of what stays as it is, and of counts that are scaled.
fn by_counts(filter: Predicate) -> (Predicate, Predicate) {
    let parts = match filter {
        Predicate::And(parts) => parts,
        other => vec![other],
    };
    let (after, before): (Vec<_>, Vec<_>) =
        parts.into_iter().partition(|part| part.columns().into_iter().any(is_scaled));
    (Predicate::and(before), Predicate::and(after))
}

/// How flows that are kept are seen.
struct FlowMasking {
    /// The columns of the answer, in the order of the table.
    columns: Vec<Column>,
    schema: SchemaRef,
    scaling: Option<Scaling>,
    pseudonyms: Option<AddressReplacement>,
}

/// By what counts are scaled, and the filter of the scaled ones.
struct Scaling {
    corrections: Arc<Corrections>,
    filter: Predicate,
}

/// What replaces addresses, with the images that threads have kept.
struct AddressReplacement {
    pseudonyms: Arc<Pseudonyms>,
    images: Mutex<Vec<Images>>,
}

impl FlowMasking {
    /// These columns, all without any; of scaled flows those that pass `after`.
    fn new(columns: &[Column], after: Predicate, is_scaled: bool, options: &EngineOptions) -> Self {
        let mut columns = if columns.is_empty() { Column::ALL.to_vec() } else { columns.to_vec() };
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()));
        let scaling = is_scaled.then(|| Scaling { corrections: Arc::clone(&options.corrections), filter: after });
        let pseudonyms = options.view.pseudonyms.as_ref();
        let replacing = |pseudonyms: &Arc<Pseudonyms>| AddressReplacement {
            pseudonyms: Arc::clone(pseudonyms),
            images: Mutex::default(),
        };
        Self { columns, schema, scaling, pseudonyms: pseudonyms.map(replacing) }
    }

    /// The columns that must be read, in the order of the table.
    fn columns_read(&self) -> Vec<Column> {
        let mut columns = self.columns.clone();
        if let Some(Scaling { corrections, filter }) = &self.scaling {
            columns.extend(deciding(corrections));
            columns.extend(filter.columns());
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What is seen of a batch.
    fn of(&self, batch: RecordBatch) -> Result<RecordBatch, QueryError> {
        // before addresses are replaced: corrections and the filter are of exporters as they are kept
        let batch = match &self.scaling {
            Some(Scaling { corrections, filter }) => passing(scaled(&batch, corrections)?, filter)?,
            None => batch,
        };
        let mut images = self.pseudonyms.as_ref().map(AddressReplacement::take);
        let seen = |(column, field): (&Column, &FieldRef)| match (batch.column_by_name(column.name()), &mut images) {
            (Some(values), None) => Arc::clone(values),
            (Some(values), Some(images)) if !Pseudonyms::hides(*column) => images.of(*column, values),
            _ => new_null_array(field.data_type(), batch.num_rows()),
        };
        let values: Vec<ArrayRef> = self.columns.iter().zip(self.schema.fields()).map(seen).collect();
        if let (Some(replacing), Some(images)) = (&self.pseudonyms, images) {
            replacing.put_back(images);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)?)
    }
}

impl AddressReplacement {
    /// Those that no thread uses, or new ones.
    fn take(&self) -> Images {
        let kept = self.images.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.pseudonyms.images())
    }

    fn put_back(&self, images: Images) {
        self.images.lock().unwrap_or_else(PoisonError::into_inner).push(images);
    }
}

/// The flows of a batch that pass.
fn passing(batch: RecordBatch, filter: &Predicate) -> Result<RecordBatch, QueryError> {
    if *filter == Predicate::True {
        return Ok(batch);
    }
    let flows = FlowBatch::try_new(batch).map_err(|error| QueryError::Source(error.into()))?;
    Ok(filter_record_batch(flows.record_batch(), &filter.mask(&flows))?)
}
