//! Bodies of text, and what is refused.

use arrow::array::{Array, UInt64Array};
use arrow::datatypes::{TimestampMillisecondType, UInt16Type};

use super::*;

/// 2026-01-01T00:00:00Z, by `date -d`.
const NOW_MS: i64 = 1_767_225_600_000;
const OCTETS_MAX: usize = 64 << 20;

fn flows(body: &str, form: TextForm) -> Vec<FlowBatch> {
    read(body.as_bytes(), form, NOW_MS, OCTETS_MAX).expect("flows")
}

fn refused(body: &[u8], form: TextForm) -> String {
    read(body, form, NOW_MS, OCTETS_MAX).expect_err("an error").to_string()
}

#[test]
fn both_forms_are_the_same_flows() {
    let json = "{\"src_addr\":\"192.0.2.1\",\"bytes\":100,\"start\":\"2026-01-01T00:00:00Z\"}\r\n\n\
                {\"bytes\":\"200\",\"dst_port\":53,\"src_addr\":null,\"received\":1767225600007}\n";
    let csv = "src_addr,bytes,start,dst_port,received\r\n192.0.2.1,100,2026-01-01T00:00:00Z,,\r\n\
               ,200,,\"53\",1767225600007\r\n";
    for (body, form) in [(json, TextForm::JsonLines), (csv, TextForm::Csv)] {
        let found = flows(body, form);
        let [flows] = found.as_slice() else { panic!("one batch: {found:?}") };
        assert_eq!(flows.column(Column::Bytes).expect("bytes").as_ref(), &UInt64Array::from(vec![100, 200]));
        let received = flows.primitive::<TimestampMillisecondType>(Column::Received).expect("times");
        assert_eq!(received.values(), &[NOW_MS, NOW_MS + 7], "{form:?}");
        let starts = flows.primitive::<TimestampMillisecondType>(Column::Start).expect("times");
        assert_eq!((starts.value(0), starts.is_null(1)), (NOW_MS, true));
        let ports = flows.primitive::<UInt16Type>(Column::DstPort).expect("ports");
        assert_eq!((ports.is_null(0), ports.value(1)), (true, 53));
        let sources = flows.binary(Column::SrcAddr).expect("addresses");
        assert_eq!((sources.value(0), sources.is_null(1)), (&[192, 0, 2, 1][..], true));
    }
    assert!(flows("", TextForm::JsonLines).is_empty());
    assert!(flows("bytes\n", TextForm::Csv).is_empty());
}

#[test]
fn long_bodies_are_several_batches() {
    let body: String = (0..BATCH_ROWS + 3)
        .flat_map(|number| ["{\"bytes\":".to_owned(), number.to_string(), "}\n".to_owned()])
        .collect();
    let rows: Vec<usize> = flows(&body, TextForm::JsonLines).iter().map(FlowBatch::rows).collect();
    assert_eq!(rows, [BATCH_ROWS, 3]);
}

#[test]
fn what_is_not_understood_is_refused_by_its_name() {
    use TextForm::{Csv, JsonLines};
    assert_eq!(refused(b"{\"octets\":1}", JsonLines), "not columns of flows: octets");
    assert_eq!(refused(b"{\"octets\":null}", JsonLines), "not columns of flows: octets");
    assert_eq!(refused(b"bytes,sip,octets\n1,2,3\n", Csv), "not columns of flows: sip, octets");
    assert_eq!(refused(b"bytes,bytes\n1,2\n", Csv), "column 'bytes' is there twice");
    assert_eq!(
        refused(b"{\"dst_port\":1}\n{\"dst_port\":65536}\n", JsonLines),
        "column 'dst_port' has values that do not fit into UInt16: 1"
    );
    assert_eq!(
        refused(b"src_addr\nhere\n", Csv),
        "column 'src_addr' has values that do not fit into addresses of 4 or 16 octets: 1"
    );
    for value in ["[1]", "{}", "true"] {
        let error = refused(format!("\n{{\"bytes\":{value}}}").as_bytes(), JsonLines);
        assert_eq!(error, "line 2: 'bytes' is neither a number nor a text");
    }
    assert!(refused(b"{\"elements\":\"x\"}", JsonLines).starts_with("column 'elements' has type Utf8"));
}

#[test]
fn what_is_no_text_of_flows_is_refused() {
    use TextForm::{Csv, JsonLines};
    for body in [&b"{\"bytes\":1"[..], b"[1]", b"1", b"PAR1", b"{\"bytes\":1}{", b"\xff\xfe", b"{\"bytes\":\"\xff\"}"] {
        let error = refused(body, JsonLines);
        assert!(error.starts_with("line 1: no object of JSON: "), "{error}");
    }
    // a line is named once
    let error = refused(b"{\"bytes\":1}\n  {\"bytes\":1,}\n", JsonLines);
    assert_eq!(error, "line 2: no object of JSON: trailing comma at column 14");
    assert_eq!(refused(b"{}\n", JsonLines), "the stream has no columns");
    assert_eq!(refused(b"", Csv), "the stream has no columns");
    // a row that is too short, and one that is no text
    assert!(refused(b"bytes,packets\n1,2\n3\n", Csv).starts_with("line 3: "));
    assert!(refused(b"bytes\n\xff\n", Csv).starts_with("line 2: "));
}

/// As when the connection of a sender broke.
#[test]
fn a_body_that_ends_within_quotes_is_refused() {
    for body in [&b"src_addr\n\"1.1.1.1"[..], b"src_addr\n\"", b"src_addr\n\"1.1.1.1\n", b"src_addr\n\"1.1.1.1\"\""] {
        assert_eq!(refused(body, TextForm::Csv), "line 2: the body ends within quotes");
    }
    assert_eq!(refused(b"bytes,server_name\n1,a\n2,\"b\nc", TextForm::Csv), "line 3: the body ends within quotes");
    // a last line without its end is whole, and a row may have several lines
    for (body, rows) in [("bytes\n1\n2", 2), ("bytes\n\"1\"", 1), ("bytes,server_name\n1,\"a\nb\"", 1), ("bytes", 0)] {
        let found: usize = flows(body, TextForm::Csv).iter().map(FlowBatch::rows).sum();
        assert_eq!(found, rows, "{body}");
    }
}

#[test]
fn times_are_seconds_or_milliseconds_by_their_size() {
    // 2100-01-01T00:00:00Z, by `date -d`
    const LATER_MS: i64 = 4_102_444_800_000;
    for start in ["4102444800000", "4102444800000.0", "4.1024448e12", "4102444800", "4102444800.0", "4.1024448e9"] {
        let body = format!("{{\"start\":{start}}}");
        let found = flows(&body, TextForm::JsonLines);
        let starts = found[0].primitive::<TimestampMillisecondType>(Column::Start).expect("times");
        assert_eq!(starts.value(0), LATER_MS, "{start}");
    }
    // years that no date of four digits has, microseconds among them
    for start in ["4.1024448e15", "4102444800000000", "2e15", "-4e14", "1e300"] {
        let error = refused(format!("{{\"start\":{start}}}").as_bytes(), TextForm::JsonLines);
        assert!(error.starts_with("column 'start' has values that do not fit"), "{start}: {error}");
    }
}

#[test]
fn a_small_body_does_not_fill_the_memory() {
    let first = Column::ALL.iter().filter(|column| **column != Column::Elements);
    let first: Vec<String> = first.map(|column| format!("\"{}\":null", column.name())).collect();
    let body = format!("{{{}}}\n{}", first.join(","), "{}\n".repeat(100_000));
    let error = read(body.as_bytes(), TextForm::JsonLines, NOW_MS, 4 << 20).expect_err("too large");
    assert_eq!(error, StreamError::TooLarge { octets_max: 4 << 20 });
}

/// Read as values of JSON, the elements took 32 octets for each two of the body. Here the body is no JSON behind the begin of the
/// array, which nobody sees who does not read it.
#[test]
fn nested_values_are_refused_before_they_are_read() {
    for begin in ["[0,", "{\"a\":0,", "[[[["] {
        let body = format!("{{\"bytes\":1}}\n{{\"packets\":{begin}");
        assert_eq!(refused(body.as_bytes(), TextForm::JsonLines), "line 2: 'packets' is neither a number nor a text");
    }
    // and a name that is unknown before the members behind it
    assert_eq!(refused(b"{\"octets\":1,", TextForm::JsonLines), "not columns of flows: octets");
}

#[test]
fn a_member_that_is_there_twice_is_refused() {
    for body in
        ["{\"bytes\":1,\"bytes\":2}", "{\"bytes\":null,\"bytes\":2}", "{\"bytes\":1,\"packets\":3,\"bytes\":null}"]
    {
        let error = refused(format!("{{\"bytes\":1}}\n{body}\n").as_bytes(), TextForm::JsonLines);
        assert_eq!(error, "line 2: 'bytes' is there twice");
    }
}

#[test]
fn numbers_are_read_as_they_are_written() {
    let found = flows("{\"bytes\":18446744073709551615}\n{\"packets\":3}\n{\"bytes\":\"7\"}\n", TextForm::JsonLines);
    let [flows] = found.as_slice() else { panic!("one batch: {found:?}") };
    let expected = UInt64Array::from(vec![Some(u64::MAX), None, Some(7)]);
    assert_eq!(flows.column(Column::Bytes).expect("bytes").as_ref(), &expected);
    let expected = UInt64Array::from(vec![None, Some(3), None]);
    assert_eq!(flows.column(Column::Packets).expect("packets").as_ref(), &expected);
    assert!(refused(b"{\"bytes\":-1}", TextForm::JsonLines).starts_with("column 'bytes' has values"));
}

#[test]
fn a_header_has_no_more_fields_than_there_are_columns() {
    let too_long = format!("line 1: the header has more than {HEADER_OCTETS_MAX} octets");
    for begin in ["", "bytes", "\n\n", "x\",\"\n", "\"\n\"", "\u{feff}\""] {
        let body = format!("{begin}{}", ",".repeat(1 << 20));
        assert_eq!(refused(body.as_bytes(), TextForm::Csv), too_long, "{begin:?}");
    }
    // an octet of a character may be the last that is looked at
    assert_eq!(refused(format!("a{}", "é".repeat(1 << 20)).as_bytes(), TextForm::Csv), too_long);
    let body = format!("bytes{}\n", ",".repeat(Column::COUNT));
    let (fields, columns) = (Column::COUNT + 1, Column::COUNT);
    assert_eq!(
        refused(body.as_bytes(), TextForm::Csv),
        format!("line 1: the header has {fields} fields, and flows have {columns} columns")
    );
    // all columns, and a body that is longer than a header
    let names: Vec<&str> = Column::ALL.iter().map(|column| column.name()).filter(|name| *name != "elements").collect();
    let row = ",".repeat(names.len() - 1);
    let body = format!("{}\n{}", names.join(","), format!("{row}\n").repeat(1000));
    assert!(body.len() > HEADER_OCTETS_MAX);
    assert_eq!(flows(&body, TextForm::Csv).iter().map(FlowBatch::rows).sum::<usize>(), 1000);
}

/// Read by the reader of `csv`, a row of as many commas took 16 octets for each before its fields were counted.
#[test]
fn a_row_has_no_more_fields_than_the_header() {
    let error = "line 2: the row has more fields than the header, which has 2";
    let commas = ",".repeat(1 << 20);
    for row in [&commas[..], "1,2,", "1,2,3", "1,2,\"", "1,2,3\r\n"] {
        assert_eq!(refused(format!("bytes,packets\n{row}").as_bytes(), TextForm::Csv), error);
    }
    // what is behind the field that is too much is not looked at
    assert_eq!(refused(b"bytes,packets\n1,2,\xff", TextForm::Csv), error);
    let mut rows = CsvRows::new(commas.as_bytes(), 2);
    assert!(rows.read_row().is_err());
    assert_eq!((rows.fields.len(), rows.ends.len()), (ROW_OCTETS, 2));
}

/// RFC 4180, and what else there is: empty lines, white space, a mark of the order of octets, a last row without an end.
#[test]
fn rows_of_csv_are_read_whatever_surrounds_their_fields() {
    let spaces = " ".repeat(3 * ROW_OCTETS);
    let body = format!(
        "\u{feff}bytes , application\r\n\r\n 1,\"a\"\"b,c\"\r\n\n\"2\",\u{a0}d \n{spaces}3,{spaces}\r\n,\n5,last"
    );
    let found = flows(&body, TextForm::Csv);
    let [flows] = found.as_slice() else { panic!("one batch: {found:?}") };
    let expected = UInt64Array::from(vec![Some(1), Some(2), Some(3), None, Some(5)]);
    assert_eq!(flows.column(Column::Bytes).expect("bytes").as_ref(), &expected);
    let texts: Vec<_> = flows.text(Column::Application).expect("texts").iter().collect();
    assert_eq!(texts, [Some("a\"b,c"), Some("d"), None, None, Some("last")]);
}

#[test]
fn an_error_of_a_row_names_the_line_on_which_it_begins() {
    for (rows, error) in [
        ("1,a\r\n\r\n2\r\n", "line 4: the row has fewer fields than the header: 1 of 2"),
        ("1,\"a\nb\"\n2", "line 4: the row has fewer fields than the header: 1 of 2"),
        ("1,a\n\n\n2,b,c\n", "line 5: the row has more fields than the header, which has 2"),
    ] {
        assert_eq!(refused(format!("bytes,application\n{rows}").as_bytes(), TextForm::Csv), error);
    }
    assert_eq!(refused(b"bytes\r\n1\r\n\xff\r\n", TextForm::Csv), "line 3: 'bytes' is no text in UTF-8");
}
