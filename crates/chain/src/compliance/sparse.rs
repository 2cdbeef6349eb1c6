//! Batches of flows are sparse: a flow column that is null in every row may be missing. So a transform must give the same
//! answer with such a column and without it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{FieldRef, Schema};
use weir_flow::Column;

use super::{Cuts, Outcome, run};
use crate::AnyKind;

/// For each flow column of the inputs: sets it to null in every row, then leaves it out, and compares the answers. And
/// leaves out all columns that are null in the inputs as they are, and compares with the answer to those.
pub(super) fn check(kind: &'static dyn AnyKind, options: &str, inputs: &[Vec<RecordBatch>], whole: &Outcome) {
    let sparse = each_batch(inputs, |batch| {
        with_columns(batch, |field, values| (!is_absent(field, values)).then(|| Arc::clone(values)))
    });
    compare(kind, "those that are null in every row", whole, &run(kind, options, &sparse, &mut Cuts::Whole));
    for name in nullable_columns(inputs) {
        let of_nulls = |field: &FieldRef, values: &ArrayRef| {
            if *field.name() == name { new_null_array(field.data_type(), values.len()) } else { Arc::clone(values) }
        };
        let nulls = each_batch(inputs, |batch| with_columns(batch, |field, values| Some(of_nulls(field, values))));
        let nulls = run(kind, options, &nulls, &mut Cuts::Whole);
        let others = |field: &FieldRef, values: &ArrayRef| (*field.name() != name).then(|| Arc::clone(values));
        let absent = each_batch(inputs, |batch| with_columns(batch, others));
        compare(kind, &name, &nulls, &run(kind, options, &absent, &mut Cuts::Whole));
    }
}

fn compare(kind: &dyn AnyKind, columns: &str, with: &Outcome, without: &Outcome) {
    assert_eq!(with.len(), without.len(), "{}: as many rows without columns ({columns}) as with nulls", kind.name());
    assert!(
        present(with) == present(without),
        "{}: the same rows without columns ({columns}) as with nulls",
        kind.name()
    );
    assert_eq!(with.counters, without.counters, "{}: the same counts without columns ({columns})", kind.name());
}

/// The columns of an answer that are present, by name: an answer may leave out flow columns too, and where a column comes
/// only with later bursts it is behind the others when bursts are put together.
fn present(outcome: &Outcome) -> Vec<(String, ArrayRef)> {
    let Some(rows) = &outcome.rows else { return Vec::new() };
    let columns = rows.schema_ref().fields().iter().zip(rows.columns());
    let columns = columns.filter(|(field, values)| !is_absent(field, values));
    let mut columns: Vec<_> = columns.map(|(field, values)| (field.name().clone(), Arc::clone(values))).collect();
    columns.sort_by(|one, other| one.0.cmp(&other.0));
    columns
}

/// True for a flow column without any value.
fn is_absent(field: &FieldRef, values: &ArrayRef) -> bool {
    Column::by_name(field.name()).is_some() && values.logical_null_count() == values.len()
}

/// Names of the flow columns of the inputs that may be null.
fn nullable_columns(inputs: &[Vec<RecordBatch>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for field in inputs.iter().flatten().flat_map(|batch| batch.schema_ref().fields()) {
        if field.is_nullable() && Column::by_name(field.name()).is_some() && !names.contains(field.name()) {
            names.push(field.name().clone());
        }
    }
    names
}

fn each_batch(inputs: &[Vec<RecordBatch>], change: impl Fn(&RecordBatch) -> RecordBatch) -> Vec<Vec<RecordBatch>> {
    inputs.iter().map(|batches| batches.iter().map(&change).collect()).collect()
}

/// The batch with what `change` makes of each column; those for which it returns nothing are left out.
fn with_columns(batch: &RecordBatch, change: impl Fn(&FieldRef, &ArrayRef) -> Option<ArrayRef>) -> RecordBatch {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    let kept = columns.filter_map(|(field, values)| Some((Arc::clone(field), change(field, values)?)));
    let (fields, values): (Vec<FieldRef>, Vec<ArrayRef>) = kept.unzip();
    let schema = Schema::new(fields).with_metadata(batch.schema_ref().metadata().clone());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    match RecordBatch::try_new_with_options(Arc::new(schema), values, &options) {
        Ok(batch) => batch,
        Err(error) => panic!("columns cannot be left out of a batch: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use weir_flow::FlowBatchBuilder;

    use super::*;
    use crate::compliance::transform;
    use crate::{
        Built, ComponentError, ComponentKind, NoOptions, ONE_INPUT, Opener, OptionError, Outlet, Role, Transform,
    };

    /// Hands rows on, and demands a column or not.
    struct Through(Option<&'static str>);

    impl Transform for Through {
        fn take(&mut self, _: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
            if let Some(column) = self.0.filter(|column| rows.column_by_name(column).is_none()) {
                return Err(ComponentError::missing_column(column, &rows));
            }
            out.rows(rows);
            Ok(())
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "what every kind has")]
    fn lenient(_: NoOptions) -> Result<Opener, OptionError> {
        Ok(Box::new(|_| Ok(Built::Transform(Box::new(Through(None))))))
    }

    #[expect(clippy::unnecessary_wraps, reason = "what every kind has")]
    fn strict(_: NoOptions) -> Result<Opener, OptionError> {
        Ok(Box::new(|_| Ok(Built::Transform(Box::new(Through(Some("bytes")))))))
    }

    const LENIENT: ComponentKind<NoOptions> = ComponentKind {
        name: "through",
        role: Role::Transform,
        inputs: ONE_INPUT,
        doc: "Hands rows on.",
        configure: lenient,
    };
    const STRICT: ComponentKind<NoOptions> = ComponentKind { configure: strict, ..LENIENT };

    fn rows() -> RecordBatch {
        let mut builder = FlowBatchBuilder::new(2);
        builder.begin_rows(2);
        builder.u64(Column::Bytes).push(Some(100));
        builder.u64(Column::Bytes).push(Some(200));
        builder.finish().record_batch().clone()
    }

    #[test]
    fn what_needs_no_column_complies() {
        assert_eq!(transform(&LENIENT, "", &[vec![rows()]]).len(), 2);
    }

    #[test]
    fn an_error_about_a_missing_flow_column_is_found() {
        let failed = catch_unwind(AssertUnwindSafe(|| transform(&STRICT, "", &[vec![rows()]])));
        let message = failed.expect_err("the column is null in every row").downcast::<String>().expect("a text");
        assert!(message.contains("input has no column 'bytes'"), "{message}");
    }
}
