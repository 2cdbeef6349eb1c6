use std::net::IpAddr;

use arrow::array::UInt64Array;
use weir_flow::{FlowBatchBuilder, parse_address};

use super::*;

fn names() -> ValueNames {
    let mut names = ValueNames::default();
    let router = |last| IpAddr::from([192, 0, 2, last]);
    for (exporter, index, name) in [(1, 1, "lo"), (1, 2, "eth0"), (2, 1, "lo"), (2, 2, "uplink")] {
        names.interfaces.insert(router(exporter), index, name);
    }
    names.of_index = of_index(&names.interfaces);
    names.systems.insert(64500, "Example".to_owned());
    names
}

fn ranking(column: &str, numbers: Vec<u32>) -> RecordBatch {
    let flows: ArrayRef = Arc::new(UInt64Array::from(vec![7; numbers.len()]));
    let numbers: ArrayRef = Arc::new(UInt32Array::from(numbers));
    RecordBatch::try_from_iter([(column, numbers), ("flows", flows)]).expect("a batch")
}

fn named(names: ValueNames, rows: &RecordBatch) -> Vec<(String, Vec<Option<String>>)> {
    let Some(columns) = names.columns(rows.schema_ref()) else { return Vec::new() };
    let named = columns.rows(rows).expect("rows");
    assert_eq!(named.schema(), columns.schema(rows.schema_ref()));
    let is_name = |name: &str| name.ends_with("_name");
    let fields = named.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let texts = |name: &String| {
        let values = named.column_by_name(name).expect("a column").as_string::<i32>();
        values.iter().map(|value| value.map(str::to_owned)).collect()
    };
    fields.iter().filter(|name| is_name(name)).map(|name| (name.clone(), texts(name))).collect()
}

#[test]
fn an_index_has_the_names_of_all_exporters() {
    let rows = ranking("in_if", vec![1, 2, 3]);
    let expected = vec![Some("lo".to_owned()), Some("eth0, uplink".to_owned()), None];
    assert_eq!(named(names(), &rows), [("in_if_name".to_owned(), expected.clone())]);
    assert_eq!(named(names(), &ranking("if", vec![1, 2, 3])), [("if_name".to_owned(), expected)]);
    assert!(named(ValueNames::default(), &rows).is_empty());
}

#[test]
fn a_row_with_its_exporter_has_the_name_there() {
    let mut builder = FlowBatchBuilder::new(2);
    builder.begin_rows(2);
    for exporter in ["192.0.2.1", "192.0.2.2"] {
        builder.address(Column::Exporter).push(parse_address(exporter).as_deref());
        builder.u32(Column::OutIf).push(Some(2));
        builder.u32(Column::SrcAs).push(Some(64500));
    }
    let rows = builder.finish().record_batch().clone();
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        ("out_if_name".to_owned(), vec![text("eth0"), text("uplink")]),
        ("src_as_name".to_owned(), vec![text("Example"), text("Example")]),
    ];
    assert_eq!(named(names(), &rows), expected);
}

#[test]
fn many_names_of_one_index_are_cut() {
    let mut names = InterfaceNames::default();
    for last in 1..=5 {
        names.insert(IpAddr::from([192, 0, 2, last]), 1, &format!("if{last}"));
    }
    assert_eq!(of_index(&names)[&1], "if1, if2, if3, ...");
}
