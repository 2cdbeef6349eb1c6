use arrow::array::{BooleanArray, Float64Array, Int64Array};
use arrow::compute::concat;
use arrow::datatypes::Schema;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use proptest::prelude::*;

use super::*;

type Row = (Option<Vec<u8>>, Option<u16>, Option<i64>, Option<bool>, Option<String>, Option<f64>);

fn row() -> impl Strategy<Value = Row> {
    let octets = prop_oneof![
        Just(None),
        Just(Some(vec![])),
        // the same octets, as a longer and as a shorter value
        proptest::collection::vec(0..2u8, 4).prop_map(Some),
        proptest::collection::vec(0..1u8, 4..17).prop_map(Some),
        proptest::collection::vec(0..2u8, 16..18).prop_map(Some),
        Just(Some(vec![7; 40])),
        Just(Some(vec![8; 40])),
    ];
    let text = proptest::option::of(prop_oneof![Just(String::new()), Just("a".to_owned()), Just("ü".repeat(20))]);
    let float = proptest::option::of(prop_oneof![Just(0.0), Just(-0.0), Just(1.5)]);
    let number = proptest::option::of(0..2u16);
    (octets, number, proptest::option::of(-1..1i64), proptest::option::of(any::<bool>()), text, float)
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(FieldRef, ArrayRef)> = vec![
        (Arc::new(field(Column::SrcAddr)), Arc::new(rows.iter().map(|r| r.0.as_deref()).collect::<BinaryArray>())),
        (Arc::new(field(Column::SrcPort)), Arc::new(rows.iter().map(|r| r.1).collect::<UInt16Array>())),
        (Arc::new(Field::new("i", DataType::Int64, true)), Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>())),
        (
            Arc::new(Field::new("b", DataType::Boolean, true)),
            Arc::new(rows.iter().map(|r| r.3).collect::<BooleanArray>()),
        ),
        (
            Arc::new(Field::new("t", DataType::Utf8, true)),
            Arc::new(rows.iter().map(|r| r.4.clone()).collect::<StringArray>()),
        ),
        (
            Arc::new(Field::new("f", DataType::Float64, true)),
            Arc::new(rows.iter().map(|r| r.5).collect::<Float64Array>()),
        ),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
}

/// Keys as text, with what tells lengths and nulls apart.
fn texts(columns: &[(FieldRef, ArrayRef)], rows: usize) -> Vec<String> {
    let options = FormatOptions::new().with_null("null");
    let formatters: Vec<_> =
        columns.iter().map(|(_, array)| ArrayFormatter::try_new(array, &options).expect("a formatter")).collect();
    let text = |row| formatters.iter().map(|f| f.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..rows).map(text).collect()
}

fn of(names: &[&str], batch: &RecordBatch) -> Vec<(FieldRef, ArrayRef)> {
    let column = |name: &&str| Arc::clone(batch.column_by_name(name).expect("a column"));
    names
        .iter()
        .map(|name| (Arc::new(batch.schema().field_with_name(name).expect("a field").clone()), column(name)))
        .collect()
}

const NAMES: [&str; 6] = ["f", "src_addr", "b", "src_port", "i", "t"];

proptest! {
    #[test]
    fn keys_are_numbered_as_they_are_first_seen(
        batches in proptest::collection::vec(proptest::collection::vec(row(), 1..40), 1..4),
        names in 0..7usize,
        keys_max in prop_oneof![Just(usize::MAX), 0..20usize],
    ) {
        let names = &NAMES[..names];
        let mut keys = KeyColumns::new(names.iter().copied());
        let (mut known, mut ids): (Vec<String>, Vec<u32>) = (Vec::new(), Vec::new());
        for rows in &batches {
            let batch = batch(rows);
            let texts = texts(&of(names, &batch), rows.len());
            let expected: Vec<u32> = texts.into_iter().map(|text| {
                let found = known.iter().position(|other| *other == text);
                let new = || if known.len() < keys_max { known.push(text.clone()); known.len() - 1 } else { NO_KEY as usize };
                found.unwrap_or_else(new) as u32
            }).collect();
            keys.ids(&batch, keys_max, &mut ids).expect("numbers");
            prop_assert_eq!(&ids, &expected);
        }
        prop_assert_eq!(keys.len(), known.len());
        let all: Vec<u32> = (0..known.len() as u32).rev().collect();
        let columns = keys.columns(&all).expect("columns");
        known.reverse();
        prop_assert_eq!(texts(&columns, known.len()), known);
    }

    #[test]
    fn what_is_kept_has_new_numbers_in_the_same_order(rows in proptest::collection::vec(row(), 1..60), kept in any::<u64>()) {
        let batch = batch(&rows);
        let (mut keys, mut ids) = (KeyColumns::new(NAMES), Vec::new());
        keys.ids(&batch, usize::MAX, &mut ids).expect("numbers");
        let is_kept = |id: u32| kept >> (id % 64) & 1 == 1;
        let kept: Vec<u32> = (0..keys.len() as u32).filter(|id| is_kept(*id)).collect();
        let before = keys.columns(&kept).expect("columns");
        let renumbered = keys.retain(is_kept);
        let all: Vec<u32> = (0..kept.len() as u32).collect();
        prop_assert_eq!(kept.iter().map(|id| renumbered[*id as usize]).collect::<Vec<_>>(), all.clone());
        prop_assert_eq!(texts(&keys.columns(&all).expect("columns"), all.len()), texts(&before, all.len()));
        let first: Vec<u32> = ids.iter().map(|id| renumbered[*id as usize]).collect();
        keys.ids(&batch, kept.len(), &mut ids).expect("numbers");
        prop_assert_eq!(ids, first);
    }
}

#[test]
fn an_absent_column_of_flows_is_null() {
    let (mut keys, mut ids) = (KeyColumns::new(["src_addr", "dst_addr"]), Vec::new());
    let full = batch(&[(Some(vec![1, 2, 3, 4]), None, None, None, None, None), (None, None, None, None, None, None)]);
    keys.ids(&full, usize::MAX, &mut ids).expect("numbers");
    assert_eq!(ids, [0, 1]);
    keys.ids(&full.project(&[1]).expect("another column"), usize::MAX, &mut ids).expect("numbers");
    assert_eq!(ids, [1, 1]);
    let columns = keys.columns(&[0, 1]).expect("columns");
    assert_eq!((columns[1].0.name().as_str(), columns[1].1.null_count()), ("dst_addr", 2));
}

#[test]
fn what_cannot_be_a_key_is_told() {
    let rows = batch(&[(None, None, None, None, None, None)]);
    let error = KeyColumns::new(["none"]).ids(&rows, 9, &mut Vec::new()).expect_err("no such column");
    assert_eq!(error.to_string(), "input has no column 'none'; it has src_addr, src_port, i, b, t, f");
    let error = KeyColumns::new(["elements"]).ids(&rows, 9, &mut Vec::new()).expect_err("a list");
    assert!(error.to_string().starts_with("column 'elements' of type List"), "{error}");
    let mut keys = KeyColumns::new(["i"]);
    keys.ids(&rows, 9, &mut Vec::new()).expect("numbers");
    let other = concat(&[rows.column(1)]).expect("a column");
    let schema = Arc::new(Schema::new(vec![Field::new("i", DataType::UInt16, true)]));
    let other = RecordBatch::try_new(schema, vec![other]).expect("a batch");
    let error = keys.ids(&other, 9, &mut Vec::new()).expect_err("another type");
    assert_eq!(error.to_string(), "column 'i' is Int64 in some rows and UInt16 in others");
}
