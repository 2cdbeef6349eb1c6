//! A component to copy: it hands rows on as they are and counts those that have no value in a column.
//!
//! This module doc says in one sentence what the component does, then how it is built and what speaks against it. To
//! write a new component, copy this file and go through it from top to bottom; all files have the same order:
//!
//! 1. Copy `template.rs` to `NAME.rs`, or into a crate of your own that depends on `weir-chain`.
//! 2. Change [`KIND`]: its name and its documentation.
//! 3. Change [`TemplateOptions`]: what users can set. The doc comment of a field is the help of its flag and its line in
//!    the reference: imperative, the effect first, in plain words. Options that several components have are a struct of
//!    their own that this one includes, and enums of words are written with `weir_chain::choices!`.
//! 4. Change `configure`, which makes sense of the options, and the fields of the component.
//! 5. Change `take`. A component that holds rows also has `finish`, which hands on what is left, and `state`, which says
//!    how much is held. `weir_chain::Transform` documents each.
//! 6. Add `pub mod NAME;` and `&NAME::KIND` to `mod.rs`; a program of your own calls `Registry::add` with its kinds.
//! 7. Change the tests. The first of them, the compliance test, cuts the input into bursts in many ways and compares:
//!    it finds most mistakes.
//!
//! A source or a sink has the same shape; it implements `Source` or `Sink` instead of `Transform`.

// What a component uses of the framework is in `weir_chain`, what it knows about flows in `weir_flow`, and rows are
// Arrow's.
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use weir_chain::{
    Built, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError, Outlet, Role, Transform, options,
};
use weir_flow::Column;

/// Counts rows that have no value in a column.
///
/// The kind and its options are everything that others know about the component. The reference page is made of them, so
/// their texts are for users: whole sentences that say which columns are needed, what is handed on, what is counted, and
/// what happens when something is too much.
pub const KIND: ComponentKind<TemplateOptions> = ComponentKind {
    // the `type` in chain files
    name: "template",
    role: Role::Transform,
    // a component with several inputs gives each a name: `&["left", "right"]`
    inputs: ONE_INPUT,
    doc: "Hands rows on as they are and counts those that have no value in a column, in the counter `rows_without_value`. \
          It needs no certain columns. A flow column that the input lacks has no value in any row; another column that \
          the input lacks is an error. No rows are held.",
    configure,
};

options! {
    /// Options of `template`.
    // the framework checks types and ranges, fills in defaults and refuses keys that are not here; a field without a
    // default must be given, unless it is an `Option`; a range is written `rows_max: u64 = 1000 => 1..=1 << 31`
    pub struct TemplateOptions {
        /// Count rows that have no value in this column.
        column: String = Column::SrcAddr.name().to_owned(),
    }
}

/// Makes sense of the options. It touches nothing outside: `weir chain check` calls it too. What it returns makes the
/// component when the chain starts; there files are opened and threads started.
fn configure(options: TemplateOptions) -> Result<Opener, OptionError> {
    let TemplateOptions { column } = options;
    if column.is_empty() {
        // a hint says what to do about it
        return Err(OptionError::new("column", "'column' is empty").with_hint("name a column, such as src_addr"));
    }
    Ok(Box::new(move |context| {
        // counters are read by others while the chain runs; a name says what is counted, unit first
        let without_value = context.counters.counter("rows_without_value");
        Ok(Built::Transform(Box::new(Template { column, place: None, without_value })))
    }))
}

/// The component. Everything in it is its own; it may be called from another thread each time, but never from two at once.
struct Template {
    column: String,
    /// The last schema, and where the column is in it, so that names are compared once for each schema and not once
    /// for each burst.
    place: Option<(SchemaRef, Option<usize>)>,
    without_value: Counter,
}

impl Transform for Template {
    /// Takes some rows. There is at least one; how the input is cut into bursts must not change the answer, so what is
    /// decided is decided row by row, even where the work is done column by column, as here.
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
    use weir_chain::{AnyKind, compliance};
    use weir_flow::FlowBatchBuilder;

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const TEMPLATE: &dyn AnyKind = &KIND;

    /// Rows for the tests: `vlans` as a column, and a column without nulls next to it.
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
    fn an_unknown_column_is_an_error() {
        let (Built::Transform(mut transform), _) = compliance::open(TEMPLATE, "column = 'colour'") else {
            panic!("a transform")
        };
        let error = transform.take(0, rows(&[None]), &mut Outlet::new()).expect_err("no such column");
        assert_eq!(error.chain(), "input has no column 'colour'; it has bytes, src_vlan");
    }

    #[test]
    fn an_empty_column_is_refused() {
        let error = configure(TemplateOptions { column: String::new() }).err().expect("an error");
        assert_eq!((error.key.as_str(), error.message.as_str()), ("column", "'column' is empty"));
    }
}
