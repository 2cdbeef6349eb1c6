use std::convert::Infallible;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, TimestampMillisecondArray, UInt8Array, UInt16Array, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use weir_flow::Column;
use weir_flow::schema::CONTENT_KEY;

use crate::{Decimals, Format, JsonRows, OutputOptions, PrintError, Printer, Texts, write_batches};

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
            let content = [(CONTENT_KEY.to_owned(), "address".to_owned())].into();
            if *name == "src_addr" { field.with_metadata(content) } else { field }
        })
        .collect();
    let arrays = columns.into_iter().map(|(_, values)| values).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a batch")
}

fn written(batches: &[RecordBatch], format: Format, options: &OutputOptions) -> String {
    let mut text = Vec::new();
    let schema = batches.first().map_or_else(|| batch().schema(), RecordBatch::schema);
    let answers = batches.iter().cloned().map(Ok::<_, Infallible>);
    let rows = write_batches(answers, &schema, format, options, &mut text).expect("written");
    assert_eq!(rows as usize, batches.iter().map(RecordBatch::num_rows).sum::<usize>());
    String::from_utf8(text).expect("text")
}

/// Programs and SQL have the number that the column has, people what it means (RFC 792, RFC 4443).
#[test]
fn tables_for_people_have_type_and_code_of_icmp() {
    let protocols = UInt8Array::from(vec![Some(1), Some(58), Some(6), Some(1), None]);
    // an echo request, a neighbour advertisement, and an unreachable port
    let ports = UInt16Array::from(vec![Some(8 << 8), Some(136 << 8), Some(443), Some(3 << 8 | 3), Some(53)]);
    let columns: [(&str, ArrayRef); 2] = [("protocol", Arc::new(protocols)), ("dst_port", Arc::new(ports))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)));
    let batch = batch.expect("a batch");
    let cells = |format, labels| -> Vec<String> {
        let options = OutputOptions { labels, ..OutputOptions::default() };
        let text = written(std::slice::from_ref(&batch), format, &options);
        text.lines().map(|line| line.split([' ', ',']).next_back().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(cells(Format::Table, true), ["dport", "8.0", "136.0", "443", "3.3", "53"]);
    let numbers = ["dst_port", "2048", "34816", "443", "771", "53"];
    assert_eq!([cells(Format::Table, false), cells(Format::Csv, true)], [numbers, numbers]);
}

/// Where exporters have type and code in elements of their own, the port is 0 or there is none.
#[test]
fn type_and_code_of_icmp_come_from_their_columns_first() {
    let columns: [(&str, ArrayRef); 6] = [
        ("protocol", Arc::new(UInt8Array::from(vec![1, 1, 58, 6]))),
        ("dst_port", Arc::new(UInt16Array::from(vec![Some(0), Some(0x0800), None, Some(443)]))),
        ("bytes", Arc::new(UInt64Array::from(vec![1, 2, 3, 4]))),
        ("icmp_type", Arc::new(UInt8Array::from(vec![Some(3), None, None, Some(3)]))),
        ("icmp_code", Arc::new(UInt8Array::from(vec![Some(1), None, None, Some(1)]))),
        ("icmp_type_code", Arc::new(UInt16Array::from(vec![None, None, Some(0x8100), None]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)));
    let hidden = vec![Column::IcmpType, Column::IcmpCode, Column::IcmpTypeCode];
    let options = OutputOptions { labels: true, hidden, ..OutputOptions::default() };
    let text = written(&[batch.expect("a batch")], Format::Table, &options);
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines, ["proto dport bytes", "ICMP 3.1 1", "ICMP 8.0 2", "IPv6-ICMP 129.0 3", "TCP 443 4"]);
}

#[test]
fn csv_quotes_what_needs_quotes() {
    let expected = "start,src_addr,protocol,tcp_flags,bytes,note,ratio\n\
        2026-01-01T00:00:00.123Z,10.0.0.1,6,18,1250000,\"a,\"\"b\"\"\",0.5\n\
        1970-01-01T00:00:00.000Z,2001:db8::1,253,,999,\"\u{1b}[31m\n\",NaN\n\
        1969-12-31T23:59:59.999Z,,,0,18446744073709551615,,2\n";
    let raw = OutputOptions { texts: Texts::Raw, ..OutputOptions::default() };
    assert_eq!(written(&[batch()], Format::Csv, &raw), expected);
    let harmless = expected.replace("\"\u{1b}[31m\n\"", "\\u{1b}[31m\\n");
    assert_eq!(written(&[batch()], Format::Csv, &OutputOptions::default()), harmless);
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
    // what a terminal obeys beyond ASCII
    let notes: ArrayRef = Arc::new(StringArray::from(vec!["a\u{9b}b\u{202e}c€"]));
    let batch = RecordBatch::try_from_iter([("note", notes)]).expect("a batch");
    assert_eq!(written(&[batch], Format::Ndjson, &options), "{\"note\":\"a\\u009bb\\u202ec€\"}\n");
}

/// Exact sums and differences of counters are decimals, and numbers like the counters themselves.
#[test]
fn decimals_are_numbers() {
    let whole = Decimal128Array::from(vec![Some(-3_900), None, Some(1_i128 << 64)]);
    let whole: ArrayRef = Arc::new(whole.with_precision_and_scale(21, 0).expect("a type"));
    let parts = Decimal128Array::from(vec![15_000, -5, 0]).with_precision_and_scale(38, 4).expect("a type");
    let batch =
        RecordBatch::try_from_iter_with_nullable([("bytes", whole, true), ("mean", Arc::new(parts) as ArrayRef, true)]);
    let batch = batch.expect("a batch");
    let written = |format| written(std::slice::from_ref(&batch), format, &OutputOptions::default());
    let json = "{\"bytes\":-3900,\"mean\":1.5000}\n{\"bytes\":null,\"mean\":-0.0005}\n\
        {\"bytes\":18446744073709551616,\"mean\":0.0000}\n";
    assert_eq!(written(Format::Ndjson), json);
    assert_eq!(written(Format::Csv), "bytes,mean\n-3900,1.5000\n,-0.0005\n18446744073709551616,0.0000\n");
    let texts = OutputOptions { decimals: Decimals::Texts, ..OutputOptions::default() };
    let json = "{\"bytes\":-3900,\"mean\":\"1.5000\"}\n{\"bytes\":null,\"mean\":\"-0.0005\"}\n\
        {\"bytes\":\"18446744073709551616\",\"mean\":\"0.0000\"}\n";
    assert_eq!(self::written(std::slice::from_ref(&batch), Format::Ndjson, &texts), json);
    let mut rows = JsonRows::default();
    rows.push(&batch);
    assert_eq!(rows.finish(), r#"[[-3900,1.5000],[null,-0.0005],["18446744073709551616",0.0000]]"#);
}

#[test]
fn tables_are_for_people() {
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let options = OutputOptions { zone, labels: true, ..OutputOptions::default() };
    let expected = "\
start +02                src addr     proto  flags            bytes  note          ratio
2026-01-01 02:00:00.123  10.0.0.1     TCP    ...A..S.         1.2 M  a,\"b\"           0.5
1970-01-01 02:00:00.000  2001:db8::1  253    -                  999  \\u{1b}[31m\\n    NaN
1970-01-01 01:59:59.999  -            -      ........  18446744.1 T  -                 2
";
    assert_eq!(written(&[batch()], Format::Table, &options), expected);
    let plain = OutputOptions { scaled: false, header: false, ..OutputOptions::default() };
    assert!(written(&[batch()], Format::Table, &plain).lines().next().is_some_and(|line| line.contains("  1250000  ")));
}

#[test]
fn lists_are_lists() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let field = Field::new("list", list.data_type().clone(), true);
    let nothing = Field::new("nothing", DataType::Null, true);
    let columns: Vec<ArrayRef> = vec![Arc::new(list), Arc::new(arrow::array::NullArray::new(3))];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field, nothing])), columns).expect("a batch");
    let options = OutputOptions::default();
    assert_eq!(
        written(std::slice::from_ref(&batch), Format::Ndjson, &options),
        "{\"list\":[1,null],\"nothing\":null}\n{\"list\":null,\"nothing\":null}\n{\"list\":[],\"nothing\":null}\n"
    );
    // A slice of a batch has the items of its own rows.
    let sliced = batch.slice(2, 1);
    assert_eq!(written(&[batch, sliced], Format::Csv, &options), "list,nothing\n\"[1, null]\",\n,\n[],\n[],\n");
}

#[test]
fn columns_that_are_not_of_flows_are_written_too() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a \"b\"", "c", "d"]));
    let texts = ListArray::new(
        Arc::new(Field::new("item", DataType::Utf8, true)),
        arrow::buffer::OffsetBuffer::from_lengths([2, 1]),
        texts,
        None,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("change", Arc::new(Int64Array::from(vec![i64::MIN, 7]))),
        ("rate", Arc::new(Float64Array::from(vec![1.0 / 3.0, 1234567.891]))),
        ("tiny", Arc::new(Float64Array::from(vec![1e-9, 0.000125]))),
        ("name", Arc::new(StringArray::from(vec![Some("Zürich"), None]))),
        ("is_new", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("since", Arc::new(TimestampMillisecondArray::from(vec![Some(951_782_400_001), None]))),
        ("key", Arc::new(BinaryArray::from_vec(vec![&[0xde, 0xad, 0xbe], &[]]))),
        ("names", Arc::new(texts)),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let batches = [batch];
    let options = OutputOptions::default();
    let csv = "change,rate,tiny,name,is_new,since,key,names\n\
        -9223372036854775808,0.3333333333333333,1e-9,Zürich,true,2000-02-29T00:00:00.001Z,0xdeadbe,\"[a \"\"b\"\", c]\"\n\
        7,1234567.891,0.000125,,,,0x,[d]\n";
    assert_eq!(written(&batches, Format::Csv, &options), csv);
    let json = "{\"change\":7,\"rate\":1234567.891,\"tiny\":0.000125,\"name\":null,\"is_new\":null,\"since\":null,\
        \"key\":\"0x\",\"names\":[\"d\"]}";
    assert_eq!(written(&batches, Format::Ndjson, &options).lines().nth(1), Some(json));
    let table = "\
change                rate      tiny      name    is_new  since                    key       names
-9223372036854775808  0.333333      1e-9  Zürich  true    2000-02-29 00:00:00.001  0xdeadbe  [a \"b\", c]
                   7   1234568  0.000125  -       -       -                        0x        [d]
";
    let found = written(&batches, Format::Table, &options);
    assert_eq!(found.lines().skip(1).collect::<Vec<_>>(), table.lines().skip(1).collect::<Vec<_>>());
    let plain = OutputOptions { scaled: false, ..options };
    assert!(written(&batches, Format::Table, &plain).contains("0.3333333333333333"));
}

/// Everything that a printer writes, with rows cut as told.
fn printed(format: Format, batch: &RecordBatch, cuts: &[usize]) -> Vec<u8> {
    let mut printer = Printer::new(format, &OutputOptions::default(), Vec::new());
    let mut from = 0;
    for cut in cuts.iter().map(|rows| rows % 4).chain([batch.num_rows()]) {
        let rows = cut.min(batch.num_rows() - from);
        printer.write(&batch.slice(from, rows)).expect("written");
        printer.flush().expect("flushed");
        from += rows;
    }
    assert_eq!(printer.rows_written(), batch.num_rows() as u64);
    printer.finish().expect("finished")
}

proptest! {
    #[test]
    fn cuts_do_not_change_what_programs_read(cuts in proptest::collection::vec(0_usize..4, 0..6)) {
        let batch = arrow::compute::concat_batches(&batch().schema(), &[batch(), batch(), batch()]).expect("a batch");
        for format in [Format::Csv, Format::Json, Format::Ndjson] {
            prop_assert_eq!(printed(format, &batch, &cuts), printed(format, &batch, &[]));
        }
    }
}

#[test]
fn a_printer_without_rows_writes_what_a_program_can_read() {
    let finished = |format| {
        let printer = Printer::new(format, &OutputOptions::default(), Vec::new());
        String::from_utf8(printer.finish().expect("finished")).expect("text")
    };
    let expected = ["", "", "[]\n", "", ""];
    assert_eq!(Format::ALL.iter().map(|&format| finished(format)).collect::<Vec<_>>(), expected);
    let mut printer = Printer::new(Format::Csv, &OutputOptions::default(), Vec::new());
    printer.begin(&Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
    assert_eq!(printer.finish().expect("finished"), b"a,b\n");
}

#[test]
fn rows_of_other_columns_are_an_error() {
    let mut printer = Printer::new(Format::Json, &OutputOptions::default(), Vec::new());
    printer.write(&batch()).expect("written");
    let narrow = batch().project(&[0, 1]).expect("a batch");
    assert_eq!(
        printer.write(&narrow).expect_err("an error").to_string(),
        "rows of 2 columns come after rows of 7 columns"
    );
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
    for format in [Format::Csv, Format::Json, Format::Ndjson, Format::Table] {
        let endless = std::iter::repeat_with(|| Ok::<_, Infallible>(batch()));
        let rows = write_batches(endless, &schema, format, &OutputOptions::default(), &mut ClosedPipe);
        assert!(rows.is_ok_and(|rows| rows > 0), "{format:?}");
    }
}

/// All rows are in one batch, whose text is written before it is at its end.
#[test]
fn rows_that_nobody_reads_are_rows() {
    let batches = vec![batch(); 10_000];
    let batch = arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("a batch");
    let one = std::iter::once(Ok::<_, Infallible>(batch.clone()));
    let rows = write_batches(one, &batch.schema(), Format::Table, &OutputOptions::default(), &mut ClosedPipe);
    assert!(rows.is_ok_and(|rows| rows == 30_000));
}

#[test]
fn other_errors_are_told() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _octets: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (schema, options) = (batch().schema(), OutputOptions::default());
    let one = std::iter::once(Ok::<_, Infallible>(batch()));
    let full = write_batches(one, &schema, Format::Csv, &options, &mut Full);
    assert!(matches!(full, Err(PrintError::Write(error)) if error.kind() == ErrorKind::StorageFull));
    let failing = [Ok(batch()), Err("no more")].into_iter();
    let mut text = Vec::new();
    let failed = write_batches(failing, &schema, Format::Csv, &options, &mut text);
    assert!(matches!(failed, Err(PrintError::Batches("no more"))));
}

/// 750 and 250 of 1000; the line of the table is 13 letters, the bar gets what a terminal of 36 leaves.
#[test]
fn bars_show_each_row_s_share_of_the_whole() {
    let addresses: BinaryArray = [&[10, 0, 0, 1][..], &[0xfe; 16][..]].into_iter().map(Some).collect();
    let bytes = UInt64Array::from(vec![750, 250]);
    let batch = RecordBatch::try_from_iter([("src_addr", Arc::new(addresses) as ArrayRef), ("bytes", Arc::new(bytes))]);
    let batch = batch.expect("a batch");
    let drawn = |column: &str, terminal_width| {
        let bars = Some(crate::Bars { column: column.to_owned(), total: 1000, terminal_width });
        let mut printer = Printer::new(Format::Table, &OutputOptions { bars, ..OutputOptions::default() }, Vec::new());
        printer.write(&batch).expect("written");
        String::from_utf8(printer.finish().expect("finished")).expect("text")
    };
    let expected = "\
src_addr                                 bytes  share
10.0.0.1                                   750  ████████████  75.0 %
fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe    250  ████          25.0 %
";
    assert_eq!(drawn("bytes", Some(68)), expected);
    let narrow = drawn("bytes", Some(40));
    assert!(narrow.contains("fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe    250   25.0 %\n"), "{narrow}");
    assert!(!drawn("octets", None).contains("share"));
}
