//! Flows as tests write them.

use std::collections::BTreeMap;

use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder, parse_address};

/// One value; an absent one is null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Ms(i64),
    Octets(Vec<u8>),
    /// Enterprise, number and octets of elements without a column of their own.
    Elements(Vec<(u32, u16, Vec<u8>)>),
}

/// One flow. Columns that no row of a batch has are absent from the batch.
pub(crate) type Row = BTreeMap<Column, Value>;

pub(crate) fn batch(rows: &[Row]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    for row in rows {
        builder.begin_rows(1);
        for (&column, value) in row {
            match (column.column_type(), value) {
                (ColumnType::U8, Value::Number(n)) => builder.u8(column).push(Some(u8::try_from(*n).expect("u8"))),
                (ColumnType::U16, Value::Number(n)) => builder.u16(column).push(Some(u16::try_from(*n).expect("u16"))),
                (ColumnType::U32, Value::Number(n)) => builder.u32(column).push(Some(u32::try_from(*n).expect("u32"))),
                (ColumnType::U64, Value::Number(n)) => builder.u64(column).push(Some(*n)),
                (ColumnType::Time, Value::Ms(ms)) => builder.time(column).push(Some(*ms)),
                (ColumnType::Elements, Value::Elements(elements)) => {
                    let column = builder.elements();
                    for (enterprise, id, octets) in elements {
                        column.push(*enterprise, *id, octets);
                    }
                    column.end_row();
                }
                (ColumnType::Text, Value::Octets(octets)) => builder.text(column).push(Some(octets)),
                (_, Value::Octets(octets)) => builder.address(column).push(Some(octets)),
                other => panic!("{column}: {other:?}"),
            }
        }
    }
    builder.finish()
}

/// An element from `NUMBER:OCTETS` or `ENTERPRISE/NUMBER:OCTETS`, the octets in hexadecimal.
fn element(text: &str) -> (u32, u16, Vec<u8>) {
    let (name, octets) = text.split_once(':').expect("element:octets");
    let (enterprise, id) = name.split_once('/').unwrap_or(("0", name));
    let octets = (0..octets.len()).step_by(2).map(|at| u8::from_str_radix(&octets[at..at + 2], 16).expect("octet"));
    (enterprise.parse().expect("enterprise"), id.parse().expect("number"), octets.collect())
}

/// A row from `column=value` words: `src_addr=10.0.0.1 src_port=53`.
pub(crate) fn row(text: &str) -> Row {
    let value = |column: Column, text: &str| match column.column_type() {
        ColumnType::Address => Value::Octets(parse_address(text).unwrap_or_else(|| panic!("{text}"))),
        ColumnType::Mac => {
            Value::Octets(text.split(':').map(|part| u8::from_str_radix(part, 16).expect("octet")).collect())
        }
        ColumnType::Elements => Value::Elements(text.split(',').map(element).collect()),
        ColumnType::Text => Value::Octets(text.into()),
        ColumnType::Time => Value::Ms(text.parse().expect("ms")),
        _ => Value::Number(text.parse().expect("number")),
    };
    text.split_whitespace()
        .map(|word| {
            let (name, text) = word.split_once('=').expect("column=value");
            let column = Column::by_name(name).unwrap_or_else(|| panic!("{name}"));
            (column, value(column, text))
        })
        .collect()
}
