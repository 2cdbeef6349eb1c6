use arrow::array::{BinaryArray, Int64Array, UInt8Array, UInt64Array, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::Field;
use proptest::prelude::*;
use weir_flow::FlowBatchBuilder;
use weir_flow::schema::field;

use super::*;

/// Octets of a value: none, IPv4, IPv6, or of an odd length.
fn octets() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        any::<[u8; 4]>().prop_map(|octets| Some(octets.to_vec())),
        any::<[u8; 16]>().prop_map(|octets| Some(octets.to_vec())),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Some),
    ]
}

fn uniform<const N: usize>(rows: usize) -> BoxedStrategy<Vec<Option<Vec<u8>>>>
where
    [u8; N]: Arbitrary,
{
    proptest::collection::vec(any::<[u8; N]>().prop_map(|octets| Some(octets.to_vec())), rows).boxed()
}

/// A batch of up to 30 rows with an address column that is uniform or mixed, numbers with and without nulls, a boolean
/// (which goes to Arrow) and elements; some columns are absent, and the batch may be a slice of a longer one.
fn batch() -> impl Strategy<Value = RecordBatch> {
    (1..30usize)
        .prop_flat_map(|rows| {
            let mixed = proptest::collection::vec(octets(), rows).boxed();
            let addresses = prop_oneof![uniform::<4>(rows), uniform::<6>(rows), uniform::<16>(rows), mixed];
            let numbers = proptest::collection::vec(proptest::option::of(any::<u8>()), rows);
            (addresses, numbers, any::<[bool; 4]>(), 0..rows)
        })
        .prop_map(|(addresses, numbers, present, from)| {
            let rows = numbers.len();
            let mut columns: Vec<(Arc<Field>, ArrayRef)> = Vec::new();
            let counts: Vec<u64> = numbers.iter().map(|n| u64::from(n.unwrap_or(3)) << 40).collect();
            let signed: Int64Array = numbers.iter().map(|n| n.map(|n| i64::from(n) - 100)).collect();
            let bools: arrow::array::BooleanArray = numbers.iter().map(|n| n.map(|n| n > 100)).collect();
            if present[0] {
                let values: BinaryArray = addresses.iter().map(|a| a.as_deref()).collect();
                columns.push((Arc::new(field(Column::SrcAddr)), Arc::new(values)));
            }
            if present[1] {
                columns.push((
                    Arc::new(field(Column::Protocol)),
                    Arc::new(numbers.iter().copied().collect::<UInt8Array>()),
                ));
            }
            columns.push((Arc::new(field(Column::Bytes)), Arc::new(UInt64Array::from(counts))));
            if present[2] {
                columns.push((Arc::new(Field::new("signed", DataType::Int64, true)), Arc::new(signed)));
                columns.push((Arc::new(Field::new("truth", DataType::Boolean, true)), Arc::new(bools)));
            }
            if present[3] {
                columns.push((Arc::new(field(Column::Elements)), elements(&numbers)));
            }
            let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
            RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch").slice(from, rows - from)
        })
}

fn elements(numbers: &[Option<u8>]) -> ArrayRef {
    let mut builder = FlowBatchBuilder::new(numbers.len());
    for number in numbers {
        builder.begin_rows(1);
        if let Some(number) = number {
            builder.elements().push(9, u16::from(*number), &[*number]);
        }
        builder.elements().end_row();
    }
    Arc::clone(builder.finish().column(Column::Elements).expect("elements"))
}

/// The batch with the columns of another schema, absent ones as nulls.
fn padded(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let columns = schema.fields().iter().map(|field| {
        let found = batch.column_by_name(field.name()).cloned();
        found.unwrap_or_else(|| new_null_array(field.data_type(), batch.num_rows()))
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).expect("a batch")
}

proptest! {
    #[test]
    fn taking_is_what_arrow_does(batch in batch(), seed in proptest::collection::vec(any::<u32>(), 0..50)) {
        let rows: Vec<u32> = seed.iter().map(|row| row % batch.num_rows() as u32).collect();
        let taken = take(&batch, &rows).expect("rows");
        let expected = arrow::compute::take_record_batch(&batch, &UInt32Array::from(rows)).expect("rows");
        prop_assert_eq!(taken, expected);
    }

    #[test]
    fn interleaving_is_taking_from_all_batches_put_together(
        batches in proptest::collection::vec(batch(), 1..5),
        seed in proptest::collection::vec(any::<(u32, u32)>(), 0..80),
    ) {
        let picks: Vec<Pick> = seed
            .iter()
            .map(|(batch, row)| (*batch as usize % batches.len(), *row))
            .map(|(batch, row)| Pick { batch: batch as u32, row: row % batches[batch].num_rows() as u32 })
            .collect();
        let found = interleave(&batches, &picks).expect("rows");
        let padded: Vec<_> = batches.iter().map(|batch| padded(batch, &found.schema())).collect();
        let together = concat_batches(&found.schema(), &padded).expect("one batch");
        let before = |batch: u32| batches[..batch as usize].iter().map(|b| b.num_rows() as u32).sum::<u32>();
        let rows: UInt32Array = picks.iter().map(|pick| before(pick.batch) + pick.row).collect();
        prop_assert_eq!(found, arrow::compute::take_record_batch(&together, &rows).expect("rows"));
    }
}

proptest! {
    #[test]
    fn a_store_holds_what_was_appended(
        batches in proptest::collection::vec((batch(), any::<[u32; 3]>(), any::<bool>()), 1..6),
    ) {
        let mut store = RowStore::new();
        let (mut picks, mut all): (Vec<Pick>, Vec<RecordBatch>) = (Vec::new(), Vec::new());
        for (number, (batch, rows, is_range)) in batches.into_iter().enumerate() {
            let len = batch.num_rows() as u32;
            let rows = if is_range { (rows[0] % len..len).collect() } else { rows.map(|row| row % len).to_vec() };
            store.append(&Sources::new(&batch), &rows).expect("rows");
            picks.extend(rows.iter().map(|&row| Pick { batch: number as u32, row }));
            all.push(batch);
        }
        prop_assert_eq!(store.len(), picks.len());
        let (found, expected) = (store.finish().expect("rows"), interleave(&all, &picks).expect("rows"));
        prop_assert_eq!(found.schema(), expected.schema());
        for (found, expected) in found.columns().iter().zip(expected.columns()) {
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn columns_of_flows_keep_the_order_of_their_table() {
    let schema = |columns: &[Column], other: &[&str]| {
        let others = other.iter().map(|name| Field::new(*name, DataType::Int64, true));
        Arc::new(Schema::new(columns.iter().map(|&column| field(column)).chain(others).collect::<Vec<_>>()))
    };
    let first = schema(&[Column::End, Column::Bytes], &["b"]);
    let second = schema(&[Column::Start, Column::Packets], &["a", "b"]);
    let united = united([&first, &second]).expect("a schema");
    assert_eq!(united, schema(&[Column::Start, Column::End, Column::Packets, Column::Bytes], &["b", "a"]));
}

#[test]
fn a_column_of_two_types_is_refused() {
    let schema = |data_type| Arc::new(Schema::new(vec![Field::new("n", data_type, true)]));
    let error = united([&schema(DataType::Int64), &schema(DataType::UInt8)]).expect_err("two types");
    assert_eq!(error.to_string(), "column 'n' is Int64 in some rows and UInt8 in others");
}
