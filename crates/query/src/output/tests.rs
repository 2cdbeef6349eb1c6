use std::io::ErrorKind;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryArray, Float64Array, StringArray, TimestampMillisecondArray, UInt8Array, UInt16Array,
};
use arrow::array::{ListArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};

use super::*;
use crate::literals::address_metadata;

fn batch() -> RecordBatch {
    let addresses = BinaryArray::from_opt_vec(vec![
        Some(&[10, 0, 0, 1][..]),
        Some(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]),
        None,
    ]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("start", Arc::new(TimestampMillisecondArray::from(vec![1_767_225_600_123, 0, -1]).with_timezone("UTC"))),
        ("src_addr", Arc::new(addresses)),
        ("protocol", Arc::new(UInt8Array::from(vec![Some(6), Some(253), None]))),
        ("tcp_flags", Arc::new(UInt16Array::from(vec![Some(0x12), None, Some(0)]))),
        ("bytes", Arc::new(UInt64Array::from(vec![1_250_000, 999, u64::MAX]))),
        ("note", Arc::new(StringArray::from(vec![Some("a,\"b\""), Some("\u{1b}[31m\n"), None]))),
        ("ratio", Arc::new(Float64Array::from(vec![0.5, f64::NAN, 2.0]))),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, values)| {
            let field = Field::new(*name, values.data_type().clone(), true);
            if *name == "src_addr" { field.with_metadata(address_metadata()) } else { field }
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, values)| values).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
}

fn written(batches: &[RecordBatch], format: Format, options: &OutputOptions) -> String {
    let mut text = Vec::new();
    let schema = batches.first().map_or_else(|| batch().schema(), RecordBatch::schema);
    let answers = batches.iter().cloned().map(Ok);
    let rows = write_batches(answers, &schema, format, options, &mut text).expect("written");
    assert_eq!(rows as usize, batches.iter().map(RecordBatch::num_rows).sum::<usize>());
    String::from_utf8(text).expect("text")
}

#[test]
fn csv_quotes_what_needs_quotes() {
    let expected = "start,src_addr,protocol,tcp_flags,bytes,note,ratio\n\
        2026-01-01T00:00:00.123Z,10.0.0.1,6,18,1250000,\"a,\"\"b\"\"\",0.5\n\
        1970-01-01T00:00:00.000Z,2001:db8::1,253,,999,\"\u{1b}[31m\n\",NaN\n\
        1969-12-31T23:59:59.999Z,,,0,18446744073709551615,,2\n";
    assert_eq!(written(&[batch()], Format::Csv, &OutputOptions::default()), expected);
    let bare = OutputOptions { header: false, ..OutputOptions::default() };
    assert_eq!(written(&[], Format::Csv, &bare), "");
}

#[test]
fn json_is_one_array_or_one_object_a_line() {
    let rows = [
        r#"{"start":"2026-01-01T00:00:00.123Z","src_addr":"10.0.0.1","protocol":6,"tcp_flags":18,"bytes":1250000,"note":"a,\"b\"","ratio":0.5}"#,
        r#"{"start":"1970-01-01T00:00:00.000Z","src_addr":"2001:db8::1","protocol":253,"tcp_flags":null,"bytes":999,"note":"\u001b[31m\n","ratio":null}"#,
        r#"{"start":"1969-12-31T23:59:59.999Z","src_addr":null,"protocol":null,"tcp_flags":0,"bytes":18446744073709551615,"note":null,"ratio":2}"#,
    ];
    let options = OutputOptions::default();
    assert_eq!(written(&[batch()], Format::Ndjson, &options), format!("{}\n", rows.join("\n")));
    let twice = format!("[\n{},\n{}\n]\n", rows.join(",\n"), rows.join(",\n"));
    assert_eq!(written(&[batch(), batch()], Format::Json, &options), twice);
    assert_eq!(written(&[], Format::Json, &options), "[]\n");
}

#[test]
fn tables_are_for_people() {
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let options = OutputOptions { zone, labels: true, ..OutputOptions::default() };
    let expected = "\
start                    src addr     proto  flags            bytes  note          ratio
2026-01-01 02:00:00.123  10.0.0.1     TCP    ...A..S.         1.2 M  a,\"b\"           0.5
1970-01-01 02:00:00.000  2001:db8::1  253    -                  999  \\u{1b}[31m\\n    NaN
1970-01-01 01:59:59.999  -            -      ........  18446744.0 T  -                 2
";
    assert_eq!(written(&[batch()], Format::Table, &options), expected);
    let plain = OutputOptions { scaled: false, header: false, ..OutputOptions::default() };
    assert!(written(&[batch()], Format::Table, &plain).lines().next().is_some_and(|line| line.contains("  1250000  ")));
}

#[test]
fn lists_without_a_meaning_of_ours_are_text() {
    let list = ListArray::from_iter_primitive::<arrow::datatypes::Int32Type, _, _>([Some([Some(1), None])]);
    let field = Field::new("list", list.data_type().clone(), true);
    let nothing = Field::new("nothing", DataType::Null, true);
    let columns: Vec<ArrayRef> = vec![Arc::new(list), Arc::new(arrow::array::NullArray::new(1))];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field, nothing])), columns).expect("a batch");
    let options = OutputOptions::default();
    assert_eq!(
        written(std::slice::from_ref(&batch), Format::Ndjson, &options),
        "{\"list\":\"[1, ]\",\"nothing\":null}\n"
    );
    assert_eq!(written(&[batch], Format::Csv, &options), "list,nothing\n\"[1, ]\",\n");
}

struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _octets: &[u8]) -> std::io::Result<usize> {
        Err(ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_ends_silently() {
    let schema = batch().schema();
    let endless = std::iter::repeat_with(|| Ok(batch()));
    let rows = write_batches(endless, &schema, Format::Csv, &OutputOptions::default(), &mut ClosedPipe);
    assert!(rows.is_ok_and(|rows| rows > 0));
}
