//! Keeps the rows that a filter of nfdump's language matches.
//!
//! The language and its evaluation are `weir-filter`'s. Only the columns that the filter reads are shown to it, so a
//! burst costs no more when its rows are wide; that all of them are columns of flows is checked once for each schema.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use weir_chain::{
    Built, ColumnRule, ComponentError, ComponentKind, FlowColumnRule, KindWithColumns, ONE_INPUT, Opener, OptionError,
    Outlet, Role, Transform, options,
};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};

use crate::filter_error::option_error;

/// Keeps the rows that a filter matches.
pub const KIND: ComponentKind<FilterOptions> = ComponentKind {
    name: "filter",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Keeps the rows that a filter matches and drops the others; their order stays. The rows must be flows: a column \
          that is not a column of flows is an error. A flow column that the input lacks is null in every row, and a \
          test of a null is false, so its negation is true. No rows are held.",
    configure,
};

/// The same, with the columns that it needs.
pub const KIND_WITH_COLUMNS: KindWithColumns<FilterOptions> =
    KindWithColumns { kind: KIND, columns: |_| ColumnRule::Kept, flow_columns };

options! {
    /// Options of `filter`.
    pub struct FilterOptions {
        /// Keep the rows that this filter in nfdump's language matches, as in "src net 192.0.2.0/24 and port 53". Times
        /// without a zone are UTC.
        filter: String,
    }
}

/// Those that the filter reads. A filter that means nothing is an error of `configure`.
fn flow_columns(options: &FilterOptions) -> FlowColumnRule {
    let columns = weir_filter::parse(&options.filter).map(|predicate| predicate.columns()).unwrap_or_default();
    FlowColumnRule::Kept(columns.into_iter().map(Column::name).collect())
}

fn configure(options: FilterOptions) -> Result<Opener, OptionError> {
    let text = options.filter;
    let predicate = weir_filter::parse(&text).map_err(|error| option_error("filter", &text, &error))?;
    Ok(Box::new(move |_| {
        let columns = predicate.columns();
        Ok(Built::Transform(Box::new(Filter { predicate, columns, shown: None })))
    }))
}

struct Filter {
    predicate: Predicate,
    /// The columns that the predicate reads.
    columns: BTreeSet<Column>,
    /// The last schema, and where in it those columns are.
    shown: Option<(SchemaRef, Vec<usize>)>,
}

impl Transform for Filter {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let shown = rows.project(self.places(&rows)?);
        let shown = shown.map_err(|error| ComponentError::caused("columns cannot be read", error))?;
        let mask = self.predicate.mask(&flows(shown)?);
        match mask.true_count() {
            0 => {}
            all if all == rows.num_rows() => out.rows(rows),
            _ => {
                let kept = filter_record_batch(&rows, &mask);
                out.rows(kept.map_err(|error| ComponentError::caused("rows cannot be filtered", error))?);
            }
        }
        Ok(())
    }
}

impl Filter {
    /// Where the columns are that the predicate reads.
    fn places(&mut self, rows: &RecordBatch) -> Result<&[usize], ComponentError> {
        let schema = rows.schema_ref();
        if !self.shown.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, schema)) {
            flows(rows.clone())?;
            // both are in the order of the table of columns
            let places = self.columns.iter().filter_map(|column| schema.index_of(column.name()).ok()).collect();
            self.shown = Some((Arc::clone(schema), places));
        }
        Ok(self.shown.as_ref().map_or(&[], |(_, places)| places))
    }
}

fn flows(rows: RecordBatch) -> Result<FlowBatch, ComponentError> {
    FlowBatch::try_new(rows)
        .map_err(|error| ComponentError::caused("rows are no flows, which alone can be filtered", error))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, UInt64Array};
    use arrow::compute::concat_batches;
    use arrow::datatypes::{DataType, Field, Schema, UInt8Type, UInt16Type};
    use weir_chain::{AnyKind, compliance};
    use weir_generate::TrafficModel;

    use super::*;

    const FILTER: &dyn AnyKind = &KIND;

    fn batches(count: u64) -> Vec<RecordBatch> {
        let model = TrafficModel { ipv6_permille: 300, hosts: 1 << 10, ..TrafficModel::new(11) };
        model.flows(count).expect("a model").map(|batch| batch.record_batch().clone()).collect()
    }

    fn refusal(text: &str) -> OptionError {
        configure(FilterOptions { filter: text.to_owned() }).err().expect("no filter")
    }

    #[test]
    fn complies() {
        let outcome = compliance::transform(FILTER, "filter = 'dst port 443 and packets > 3'", &[batches(9_000)]);
        assert!((100..8_000).contains(&outcome.len()));
    }

    #[test]
    fn keeps_what_a_loop_over_the_rows_keeps() {
        let batches = batches(9_000);
        let outcome =
            compliance::transform(FILTER, "filter = 'proto udp and not dst port 53'", std::slice::from_ref(&batches));
        let all = concat_batches(batches[0].schema_ref(), &batches).expect("one batch");
        let protocols = all.column_by_name("protocol").expect("protocols").as_primitive::<UInt8Type>();
        let ports = all.column_by_name("dst_port").expect("ports").as_primitive::<UInt16Type>();
        let kept = protocols.iter().zip(ports).map(|(protocol, port)| Some(protocol == Some(17) && port != Some(53)));
        let kept = filter_record_batch(&all, &kept.collect()).expect("rows");
        assert!(kept.num_rows() > 0);
        assert_eq!(outcome.rows, Some(kept));
    }

    #[test]
    fn keeps_what_the_mask_of_the_whole_batch_takes() {
        let batches = batches(5_000);
        let all = concat_batches(batches[0].schema_ref(), &batches).expect("one batch");
        let flows = FlowBatch::try_new(all.clone()).expect("flows");
        for text in [
            "any",
            "not any",
            "inet6",
            "src net 10.0.0.0/8 or bytes > 1k",
            "flags S and not flags AFRPU",
            "src vlan 7",
            "not src vlan 7",
            "bps > 1k",
        ] {
            let kept =
                filter_record_batch(&all, &weir_filter::parse(text).expect("a filter").mask(&flows)).expect("rows");
            let outcome = compliance::transform(FILTER, &format!("filter = '{text}'"), std::slice::from_ref(&batches));
            assert_eq!(outcome.rows, (kept.num_rows() > 0).then_some(kept), "{text}");
        }
    }

    #[test]
    fn a_changed_schema_is_noticed() {
        let all = batches(100).remove(0);
        let port = all.schema_ref().index_of("dst_port").expect("a port");
        let without: Vec<usize> = (0..all.num_columns()).filter(|place| *place != port).collect();
        let without = all.project(&without).expect("columns");
        let (Built::Transform(mut block), _) = compliance::open(FILTER, "filter = 'dst port < 65535'") else {
            panic!("a transform")
        };
        let mut out = Outlet::new();
        for rows in [without.clone(), all.clone(), without, all] {
            block.take(0, rows, &mut out).expect("flows");
        }
        assert_eq!(out.drain().map(|burst| burst.len()).collect::<Vec<_>>(), [100, 100]);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let error = refusal("proto tcp and src prot 80");
        let expected = "'filter' is no filter\n\
                        proto tcp and src prot 80\n                  ^^^^ unknown word 'prot' after 'src'";
        assert_eq!(error.message, expected);
        assert_eq!(error.hint.as_deref(), Some("did you mean 'port'?"));
        // of several lines that with the mistake
        let error = refusal("proto tcp and\n src prot 80");
        let expected = "'filter' is no filter\n src prot 80\n     ^^^^ unknown word 'prot' after 'src'";
        assert_eq!(error.message, expected);
    }

    #[test]
    fn other_rows_are_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("mean", DataType::UInt64, true)]));
        let rows = RecordBatch::try_new(schema, vec![Arc::new(UInt64Array::from(vec![1]))]).expect("rows");
        let (Built::Transform(mut block), _) = compliance::open(FILTER, "filter = 'any'") else {
            panic!("a transform")
        };
        let error = block.take(0, rows, &mut Outlet::new()).expect_err("no flows");
        assert_eq!(error.chain(), "rows are no flows, which alone can be filtered: 'mean' is not a column of flows");
    }
}
