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
    assert_eq!(refused(b"{}\n", JsonLines), "the stream has no columns");
    assert_eq!(refused(b"", Csv), "the stream has no columns");
    // a row that is too short, and one that is no text
    assert!(refused(b"bytes,packets\n1,2\n3\n", Csv).starts_with("line 3: "));
    assert!(refused(b"bytes\n\xff\n", Csv).starts_with("line 2: "));
}

#[test]
fn a_small_body_does_not_fill_the_memory() {
    let first = Column::ALL.iter().filter(|column| **column != Column::Elements);
    let first: Vec<String> = first.map(|column| format!("\"{}\":null", column.name())).collect();
    let body = format!("{{{}}}\n{}", first.join(","), "{}\n".repeat(100_000));
    let error = read(body.as_bytes(), TextForm::JsonLines, NOW_MS, 4 << 20).expect_err("too large");
    assert_eq!(error, StreamError::TooLarge { octets_max: 4 << 20 });
}
