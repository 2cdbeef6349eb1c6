//! Flows as they are seen, without the engine.
//!
//! The archive knows no views and does not scale. So what the engine does with each flow is done here once more, batch by batch, in
//! the threads that read: counts are scaled by the sampling of each flow, a filter is applied to the scaled ones, addresses are
//! replaced. What speaks against it is that there are two ways to the same flows; tests compare them.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use weir_filter::Predicate;
use weir_flow::scaling::Corrections;
use weir_flow::schema::field;
use weir_flow::{Column, FlowBatch};
use weir_query::{FlowQuery, QueryError, Select};

use crate::scaling::{deciding, is_scaled, scaled};
use crate::view::Images;
use crate::{EngineOptions, Pseudonyms};

/// How flows that are kept are seen. Threads share it.
pub(crate) struct FlowMasking {
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
    /// What the images of one thread take.
    images_octets: usize,
}

impl FlowMasking {
    /// For a list of these columns, all without any, of the flows of a question: the list of what is kept that is to be read, and
    /// how it is seen. Order and limit of the question are left out.
    pub(crate) fn of_list(columns: &[Column], question: &FlowQuery, options: &EngineOptions) -> (FlowQuery, Self) {
        let kept = options.view.kept(&question.filter);
        let (before, after) = if question.scaled { by_counts(kept) } else { (kept, Predicate::True) };
        let masking = Self::new(columns, after, question.scaled, options);
        let read = FlowQuery {
            filter: Predicate::and([options.view.rows.clone(), before]),
            window: question.window,
            select: Select::List { columns: masking.columns_read(), sorting: None, limit: None },
            scaled: false,
        };
        (read, masking)
    }

    /// These columns, all without any; of scaled flows those that pass `after`.
    fn new(columns: &[Column], after: Predicate, is_scaled: bool, options: &EngineOptions) -> Self {
        let mut columns = if columns.is_empty() { Column::ALL.to_vec() } else { columns.to_vec() };
        columns.sort_unstable();
        columns.dedup();
        let schema = Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()));
        let scaling = is_scaled.then(|| Scaling { corrections: Arc::clone(&options.corrections), filter: after });
        let pseudonyms = options.view.pseudonyms.as_ref().map(AddressReplacement::new);
        Self { columns, schema, scaling, pseudonyms }
    }

    /// The columns that must be read, in the order of the table: what is hidden stays where it is.
    fn columns_read(&self) -> Vec<Column> {
        let is_hidden = |column: &Column| self.pseudonyms.is_some() && Pseudonyms::hides(*column);
        let mut columns: Vec<Column> = self.columns.iter().copied().filter(|column| !is_hidden(column)).collect();
        if let Some(Scaling { corrections, filter }) = &self.scaling {
            columns.extend(deciding(corrections));
            columns.extend(filter.columns());
        }
        if columns.is_empty() {
            // a list of no columns is one of all
            columns.push(Column::Flows);
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// What the images of addresses that a thread keeps take.
    pub(crate) fn thread_octets(&self) -> usize {
        self.pseudonyms.as_ref().map_or(0, |replacement| replacement.images_octets)
    }

    /// What is seen of a batch, with all columns of the list. A column that is absent from what is kept is null throughout.
    pub(crate) fn seen(&self, kept: &RecordBatch) -> Result<RecordBatch, QueryError> {
        // before addresses are replaced: corrections and the filter are of exporters as they are kept
        let batch = match &self.scaling {
            Some(Scaling { corrections, filter }) => passing(scaled(kept, corrections)?, filter)?,
            None => kept.clone(),
        };
        let mut images = self.pseudonyms.as_ref().map(AddressReplacement::take);
        let seen = |(column, field): (&Column, &FieldRef)| match (batch.column_by_name(column.name()), &mut images) {
            (Some(values), None) => Arc::clone(values),
            (Some(values), Some(images)) if !Pseudonyms::hides(*column) => images.of(*column, values),
            _ => new_null_array(field.data_type(), batch.num_rows()),
        };
        let values: Vec<ArrayRef> = self.columns.iter().zip(self.schema.fields()).map(seen).collect();
        if let (Some(replacement), Some(images)) = (&self.pseudonyms, images) {
            replacement.put_back(images);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options)?)
    }
}

impl AddressReplacement {
    fn new(pseudonyms: &Arc<Pseudonyms>) -> Self {
        let first = pseudonyms.images();
        Self { pseudonyms: Arc::clone(pseudonyms), images_octets: first.octets(), images: Mutex::new(vec![first]) }
    }

    /// Those that no thread uses, or new ones.
    fn take(&self) -> Images {
        let kept = self.images.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| self.pseudonyms.images())
    }

    fn put_back(&self, images: Images) {
        self.images.lock().unwrap_or_else(PoisonError::into_inner).push(images);
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

/// The flows of a batch that pass.
fn passing(batch: RecordBatch, filter: &Predicate) -> Result<RecordBatch, QueryError> {
    if *filter == Predicate::True {
        return Ok(batch);
    }
    let flows = FlowBatch::try_new(batch).map_err(|error| QueryError::Source(error.into()))?;
    Ok(filter_record_batch(flows.record_batch(), &filter.mask(&flows))?)
}

#[cfg(test)]
mod tests {
    use weir_query::TimeWindow;

    use super::*;
    use crate::FlowView;

    #[test]
    fn what_is_hidden_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, [7_u8; 32]).expect("written");
        let pseudonyms = Some(Arc::new(Pseudonyms::read(&key).expect("a key")));
        let masked = EngineOptions { view: FlowView { pseudonyms, ..FlowView::default() }, ..EngineOptions::default() };
        let read = |columns: &[Column], scaled: bool, options: &EngineOptions| {
            let select = Select::List { columns: columns.to_vec(), sorting: None, limit: None };
            let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled };
            let Select::List { columns, .. } = FlowMasking::of_list(columns, &question, options).0.select else {
                return Vec::new();
            };
            columns
        };
        let asked = [Column::Bytes, Column::ServerName];
        assert_eq!(read(&asked, false, &masked), [Column::Bytes]);
        assert_eq!(read(&[Column::ServerName], false, &masked), [Column::Flows]);
        assert_eq!(read(&[Column::ServerName], true, &masked), [Column::SamplingInterval]);
        assert!(read(&asked, true, &EngineOptions::default()).contains(&Column::ServerName));
    }
}
