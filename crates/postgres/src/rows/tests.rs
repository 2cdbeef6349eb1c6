//! Expected octets come from a real Postgres 15: `COPY (SELECT …) TO STDOUT (FORMAT binary)` and its text output.

use arrow::array::{BinaryArray, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow::datatypes::Schema;

use super::*;

fn written(field: Field, values: ArrayRef, format: Format, zone: TimeZone) -> Result<Vec<Option<Vec<u8>>>, Refusal> {
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).expect("a batch");
    let mut rows = Vec::new();
    let mut writer = RowWriter::new(&schema, &[format], zone);
    writer.write(&batch, 64, |octets, ends| {
        let mut from = 0;
        for end in ends {
            let row = &octets[from..end as usize];
            assert_eq!(row[0], b'D');
            assert_eq!(u32::from_be_bytes(row[1..5].try_into().expect("4")) as usize, row.len() - 1);
            let length = i32::from_be_bytes(row[7..11].try_into().expect("4"));
            rows.push((length >= 0).then(|| row[11..].to_vec()));
            from = end as usize;
        }
        assert_eq!(from, octets.len());
        Ok(())
    })?;
    Ok(rows)
}

fn text(field: Field, values: ArrayRef, zone: TimeZone) -> Vec<Option<String>> {
    let rows = written(field, values, Format::Text, zone).expect("rows");
    rows.into_iter().map(|row| row.map(|row| String::from_utf8(row).expect("text"))).collect()
}

fn field(kind: DataType) -> Field {
    Field::new("value", kind, true)
}

#[test]
fn counters_are_bigint_and_those_beyond_are_an_error() {
    let values: ArrayRef = Arc::new(UInt64Array::from(vec![Some(7), None, Some(i64::MAX as u64)]));
    let expected = [Some("7".to_owned()), None, Some(i64::MAX.to_string())];
    assert_eq!(text(field(DataType::UInt64), values, TimeZone::UTC), expected);
    let values: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 63]));
    let refusal = written(field(DataType::UInt64), values, Format::Binary, TimeZone::UTC).expect_err("too large");
    assert_eq!(refusal.message, "value is 9223372036854775808, which is beyond bigint");
    assert!(refusal.hint.is_some_and(|hint| hint.contains("DECIMAL(20, 0)")));
}

#[test]
fn addresses_are_inet() {
    let address = field(DataType::Binary)
        .with_metadata([(weir_flow::schema::CONTENT_KEY.to_owned(), "address".to_owned())].into());
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let values: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[192, 0, 2, 1], &v6]));
    let expected = [Some("192.0.2.1".to_owned()), Some("2001:db8::1".to_owned())];
    assert_eq!(text(address.clone(), Arc::clone(&values), TimeZone::UTC), expected);
    let binary = written(address, values, Format::Binary, TimeZone::UTC).expect("rows");
    assert_eq!(binary[0].as_deref(), Some([2, 32, 0, 4, 192, 0, 2, 1].as_slice()));
    assert_eq!(binary[1].as_deref(), Some([[3, 128, 0, 16].as_slice(), &v6].concat().as_slice()));
}

#[test]
fn times_have_the_zone_of_the_session() {
    let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let values: ArrayRef =
        Arc::new(arrow::array::TimestampMillisecondArray::from(vec![1_700_000_000_007]).with_timezone("UTC"));
    let expected = [Some("2023-11-14 22:13:20.007+00".to_owned())];
    assert_eq!(text(field(utc.clone()), Arc::clone(&values), TimeZone::UTC), expected);
    let kolkata = TimeZone::get("Asia/Kolkata").expect("a zone");
    let expected = [Some("2023-11-15 03:43:20.007+05:30".to_owned())];
    assert_eq!(text(field(utc.clone()), Arc::clone(&values), kolkata), expected);
    let binary = written(field(utc), values, Format::Binary, TimeZone::UTC).expect("rows");
    // extract(epoch from timestamptz '2023-11-14 22:13:20.007+00' - '2000-01-01 00:00+00') * 1000000
    assert_eq!(binary[0].as_deref(), Some(753_315_200_007_000_i64.to_be_bytes().as_slice()));
    let date: ArrayRef = Arc::new(arrow::array::Date32Array::from(vec![19_675]));
    assert_eq!(text(field(DataType::Date32), Arc::clone(&date), TimeZone::UTC), [Some("2023-11-14".to_owned())]);
    let binary = written(field(DataType::Date32), date, Format::Binary, TimeZone::UTC).expect("rows");
    assert_eq!(binary[0].as_deref(), Some(8718_i32.to_be_bytes().as_slice()));
}

#[test]
fn numeric_is_in_groups_of_four_digits() {
    let values = |values: Vec<i128>| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 2).expect("a type"))
    };
    let kind = DataType::Decimal128(38, 2);
    let expected = ["1234567.89", "-0.05", "0.00"].map(|text| Some(text.to_owned()));
    assert_eq!(text(field(kind.clone()), values(vec![123_456_789, -5, 0]), TimeZone::UTC), expected);
    let binary = written(field(kind), values(vec![123_456_789, -5, 0]), Format::Binary, TimeZone::UTC).expect("rows");
    let words = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    assert_eq!(binary[0], Some(words(&[3, 1, 0, 2, 123, 4567, 8900])));
    assert_eq!(binary[1], Some(words(&[1, 0xffff, 0x4000, 2, 500])));
    assert_eq!(binary[2], Some(words(&[0, 0, 0, 2])));
}

#[test]
fn what_is_no_number_is_a_word() {
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.5, f64::NAN, f64::NEG_INFINITY]));
    let expected = ["1.5", "NaN", "-Infinity"].map(|text| Some(text.to_owned()));
    assert_eq!(text(field(DataType::Float64), values, TimeZone::UTC), expected);
}

#[test]
fn intervals_are_those_of_postgres() {
    let kind = DataType::Duration(TimeUnit::Millisecond);
    let values: ArrayRef = Arc::new(arrow::array::DurationMillisecondArray::from(vec![3_723_500, 0, -1000]));
    let expected = ["01:02:03.5", "00:00:00", "-00:00:01"].map(|text| Some(text.to_owned()));
    assert_eq!(text(field(kind), values, TimeZone::UTC), expected);
}

#[test]
fn pieces_end_where_rows_end() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![field(DataType::Int64)]));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).expect("a batch");
    let (mut rows, mut pieces) = (0, 0);
    let mut writer = RowWriter::new(&schema, &[], TimeZone::UTC);
    let take = |octets: Vec<u8>, ends: Vec<u32>| {
        assert!(octets.len() < 256 + 40, "{}", octets.len());
        rows += ends.len();
        pieces += 1;
        Ok(())
    };
    writer.write(&batch, 256, take).expect("rows");
    assert_eq!(rows, 1000);
    assert!(pieces > 50, "{pieces}");
}
