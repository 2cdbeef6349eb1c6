//! A block to copy: it hands rows on as they are and counts those that have no value in a column.
//!
//! This module doc says in one sentence what the block does, then how it is built and what speaks against it. Whoever
//! writes a new block copies this file, and goes through it from top to bottom:
//!
//! 1. Copy `template.rs` to `NAME.rs`, or into a crate of your own that depends on `weir-chain`.
//! 2. Change [`KIND`]: its name, its documentation, its parameters.
//! 3. Change `configure`, which makes sense of the parameters, and the fields of the block.
//! 4. Change `take`. A block that holds rows also has `finish`, which hands on what is left, and `window`, which tells
//!    how much is held. `weir_chain::Block` documents each.
//! 5. Add `pub mod NAME;` and `&NAME::KIND` to `lib.rs`; a program of your own calls `Registry::add` with its kinds.
//! 6. Change the tests. The first of them, the compliance test, cuts the input into bursts in many ways and compares:
//!    it finds most mistakes.
//!
//! A source or a sink has the same shape; it implements `Source` or `Sink` instead of `Block`.

// What a block uses of the framework is in `weir_chain`, what it knows about flows in `weir_flow`, and rows are Arrow's.
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use weir_chain::{
    Built, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, Outlet, ParameterError, ParameterSpec,
    ParameterType, Parameters, Role, Transform,
};
use weir_flow::Column;

/// Counts rows that have no value in a column.
///
/// This table is everything that others know about the block. The reference page is made of it, so its texts are for
/// users: whole sentences that say which columns are needed, what is handed on, what is counted, and what happens when
/// something is too much.
pub const KIND: ComponentKind = ComponentKind {
    // the `type` in chain files
    name: "template",
    role: Role::Transform,
    // a block with several inputs gives each a name: `&["left", "right"]`
    inputs: ONE_INPUT,
    doc: "Hands rows on as they are and counts those that have no value in a column, in the counter rows_without_value. \
          It needs no certain columns. A flow column that the input lacks has no value in any row; another column that \
          the input lacks is an error. No rows are held.",
    // the framework checks types, fills in defaults and refuses keys that are not here
    parameters: &[ParameterSpec {
        key: "column",
        parameter_type: ParameterType::Text,
        default: Some("\"src_addr\""),
        doc: "The column that is looked at.",
    }],
    configure,
};

/// Makes sense of the parameters. It touches nothing outside: `weir chain check` calls it too. What it returns makes
/// the block when the chain starts; there files are opened and threads started.
fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let column = parameters.text("column").to_owned();
    if column.is_empty() {
        // a hint says what to do about it
        return Err(ParameterError::new("column", "'column' is empty").with_hint("name a column, such as src_addr"));
    }
    Ok(Box::new(move |context| {
        // counters are read by others while the chain runs; a name says what is counted, unit first
        let without_value = context.counters.counter("rows_without_value");
        Ok(Built::Transform(Box::new(Template { column, place: None, without_value })))
    }))
}

/// The block. Everything in it is its own; it may be called from another thread each time, but never from two at once.
struct Template {
    column: String,
    /// The last schema, and where the column is in it, so that names are compared once for each schema and not once
    /// for each burst.
    place: Option<(SchemaRef, Option<usize>)>,
    without_value: Counter,
}

impl Transform for Template {
    /// Takes some rows. There is at least one; how the input is cut into bursts must not change the answer, so whatever
    /// is decided is decided row by row, even where the work is done column by column, as here.
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let without_value = match self.find(&rows)? {
            Some(place) => rows.column(place).logical_null_count(),
            None => rows.num_rows(),
        };
        self.without_value.add(without_value as u64);
        // columns are shared, so handing them on costs nothing
        out.rows(rows);
        Ok(())
    }
}

impl Template {
    /// Where the column is; `None` when it is a flow column that the input lacks: batches of flows leave out columns
    /// that are null in every row.
    fn find(&mut self, rows: &RecordBatch) -> Result<Option<usize>, ComponentError> {
        let schema = rows.schema_ref();
        if let Some((known, place)) = &self.place
            && Arc::ptr_eq(known, schema)
        {
            return Ok(*place);
        }
        let place = schema.index_of(&self.column).ok();
        if place.is_none() && Column::by_name(&self.column).is_none() {
            return Err(ComponentError::missing_column(&self.column, rows));
        }
        self.place = Some((Arc::clone(schema), place));
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use weir_chain::compliance;
    use weir_flow::FlowBatchBuilder;

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const TEMPLATE: &ComponentKind = &KIND;

    /// Rows for the tests: `vlans` as a column, and a column without nulls beside it.
    fn rows(vlans: &[Option<u16>]) -> RecordBatch {
        let mut builder = FlowBatchBuilder::new(vlans.len());
        for vlan in vlans {
            builder.begin_rows(1);
            builder.u64(Column::Bytes).push(Some(100));
            builder.u16(Column::SrcVlan).push(*vlan);
        }
        builder.finish().record_batch().clone()
    }

    #[test]
    fn complies() {
        let input = [rows(&[Some(1), None, None]), rows(&[None; 40]), rows(&[Some(9)])];
        let outcome = compliance::transform(TEMPLATE, "column = 'src_vlan'", &[input.to_vec()]);
        assert_eq!((outcome.len(), outcome.counter("rows_without_value")), (44, 42));
        assert_eq!(outcome.rows, Some(arrow::compute::concat_batches(&input[0].schema(), &input).expect("rows")));
    }

    #[test]
    fn a_flow_column_that_is_not_there_has_no_value() {
        let outcome = compliance::transform(TEMPLATE, "", &[vec![rows(&[Some(1); 5])]]);
        assert_eq!((outcome.len(), outcome.counter("rows_without_value")), (5, 5));
    }

    #[test]
    fn a_column_that_nobody_knows_is_an_error() {
        let (Built::Transform(mut block), _) = compliance::open(TEMPLATE, "column = 'colour'") else {
            panic!("a block")
        };
        let error = block.take(0, rows(&[None]), &mut Outlet::new()).expect_err("no such column");
        assert_eq!(error.chain(), "input has no column 'colour'; it has bytes, src_vlan");
    }
}
