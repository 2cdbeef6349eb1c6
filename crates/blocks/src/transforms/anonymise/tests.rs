use std::path::{Path, PathBuf};

use arrow::array::{AsArray, BinaryArray, RecordBatch, StringArray, UInt16Array};
use arrow::datatypes::UInt16Type;
use weir_chain::compliance;
use weir_flow::{FlowBatch, FlowBatchBuilder, parse_address};

use super::*;

const HEX_KEY: &str = "1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202\n";

fn key_file(folder: &Path) -> PathBuf {
    let path = folder.join("key");
    std::fs::write(&path, HEX_KEY).expect("a key file");
    path
}

fn address(text: Option<&str>) -> Option<Vec<u8>> {
    text.map(|text| parse_address(text).expect("an address"))
}

/// Flows with addresses of both families, nulls, MAC addresses, ports and elements.
fn flows() -> FlowBatch {
    let sources = [Some("128.11.68.132"), Some("2001:db8::1"), None, Some("129.118.74.4"), Some("::1")];
    let mut builder = FlowBatchBuilder::new(8);
    builder.begin_rows(sources.len());
    for (row, source) in sources.iter().enumerate() {
        builder.address(Column::Exporter).push(address(Some("10.0.0.1")).as_deref());
        builder.address(Column::SrcAddr).push(address(*source).as_deref());
        builder.address(Column::DstAddr).push(address(Some("141.223.7.43")).as_deref());
        builder.u16(Column::SrcPort).push(Some(row as u16));
        builder.address(Column::SrcMac).push((row != 1).then_some(&[1, 2, 3, 4, 5, row as u8]));
        builder.elements().push(0, 47, &[10, 0, 0, row as u8]);
        builder.elements().end_row();
    }
    builder.finish()
}

fn texts(rows: &RecordBatch, column: Column) -> Vec<String> {
    let values: &BinaryArray = rows.column_by_name(column.name()).expect("the column").as_binary();
    let text =
        |value: Option<&[u8]>| value.map_or("null".to_owned(), |value| weir_flow::AddressText(value).to_string());
    values.iter().map(text).collect()
}

#[test]
fn complies_and_replaces_every_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = format!("key_file = '{}'", key_file(folder.path()).display());
    let rows = flows().record_batch().clone();
    let outcome = compliance::transform(&KIND, &options, &[vec![rows.clone(), rows.slice(1, 3)]]);
    let handed_on = outcome.rows.as_ref().expect("rows").slice(0, 5);
    let images = [
        "135.242.180.132",
        "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e",
        "null",
        "134.136.186.123",
        "78ff:f001:9fc0:20df:8380:b1f1:704:ed",
    ];
    assert_eq!(texts(&handed_on, Column::SrcAddr), images);
    assert_eq!(texts(&handed_on, Column::DstAddr), ["141.167.8.160"; 5]);
    assert!(!texts(&handed_on, Column::Exporter).contains(&"10.0.0.1".to_owned()));
    let macs = ["00:00:00:00:00:00", "null", "00:00:00:00:00:00", "00:00:00:00:00:00", "00:00:00:00:00:00"];
    assert_eq!(texts(&handed_on, Column::SrcMac), macs);
    assert!(handed_on.column_by_name("elements").is_none(), "addresses may stand in elements");
    let ports = handed_on.column_by_name("src_port").expect("ports").as_primitive::<UInt16Type>().clone();
    assert_eq!(ports, UInt16Array::from(vec![0, 1, 2, 3, 4]));
    assert_eq!(texts(&outcome.rows.expect("rows").slice(5, 3), Column::SrcAddr), images[1..4]);
}

#[test]
fn only_what_is_named_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = key_file(folder.path());
    let options =
        format!("key_file = '{}'\ncolumns = ['src_addr']\nports = 'drop'\nmacs = 'keep'\ndrop = []", key.display());
    let rows = flows().record_batch().clone();
    let outcome = compliance::transform(&KIND, &options, &[vec![rows.clone()]]);
    let handed_on = outcome.rows.expect("rows");
    assert_eq!(texts(&handed_on, Column::SrcAddr)[0], "135.242.180.132");
    assert_eq!(texts(&handed_on, Column::DstAddr), texts(&rows, Column::DstAddr));
    assert_eq!(texts(&handed_on, Column::SrcMac), texts(&rows, Column::SrcMac));
    assert_eq!(handed_on.column_by_name("elements"), rows.column_by_name("elements"));
    assert!(handed_on.column_by_name("src_port").is_none());
}

#[test]
fn truncation_keeps_prefixes() {
    let rows = flows().record_batch().clone();
    let outcome = compliance::transform(&KIND, "method = 'truncate'", &[vec![rows.clone()]]);
    let expected = ["128.11.68.0", "2001:db8::", "null", "129.118.74.0", "::"];
    assert_eq!(texts(&outcome.rows.expect("rows"), Column::SrcAddr), expected);
    let nothing = "method = 'truncate'\nprefix_v4_bits = 0\nprefix_v6_bits = 128";
    let outcome = compliance::transform(&KIND, nothing, &[vec![rows]]);
    let expected = ["0.0.0.0", "2001:db8::1", "null", "0.0.0.0", "::1"];
    assert_eq!(texts(&outcome.rows.expect("rows"), Column::SrcAddr), expected);
}

#[test]
fn what_is_no_address_is_taken_out_and_counted() {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    for value in [&[1, 2, 3, 4][..], b"host.example", &[]] {
        builder.address(Column::SrcAddr).push(Some(value));
    }
    let rows = builder.finish().record_batch().clone();
    let outcome = compliance::transform(&KIND, "method = 'truncate'", &[vec![rows]]);
    assert_eq!(outcome.counter("addresses_unreadable"), 2);
    let handed_on = outcome.rows.expect("rows");
    assert_eq!(texts(&handed_on, Column::SrcAddr), ["1.2.3.0", "null", "null"]);
    let octets = handed_on.column(0).as_binary::<i32>().value_data();
    assert!(!octets.windows(4).any(|octets| octets == b"host"), "not even under the null");
}

#[test]
fn columns_of_other_blocks_are_found_by_their_content() {
    let address_field = Field::new("talker", DataType::Binary, true);
    let address_field = address_field.with_metadata([(CONTENT_KEY.to_owned(), "address".to_owned())].into());
    let schema = Arc::new(Schema::new(vec![address_field, Field::new("src_name", DataType::Utf8, true)]));
    let talker: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&[10, 9, 8, 7]]));
    let name: ArrayRef = Arc::new(StringArray::from(vec!["host.example"]));
    let rows = RecordBatch::try_new(schema, vec![talker, name]).expect("rows");
    for options in ["method = 'truncate'", "method = 'truncate'\ncolumns = 'talker'"] {
        let handed_on = compliance::transform(&KIND, options, &[vec![rows.clone()]]).rows.expect("rows");
        assert_eq!(handed_on.num_columns(), 1);
        assert_eq!(handed_on.column(0).as_binary::<i32>().value(0), [10, 9, 8, 0]);
    }
}

fn refused(options: &str) -> OptionError {
    weir_chain::options::parse(options).and_then(configure).err().expect("an error")
}

#[test]
fn mistakes_are_refused_before_the_start() {
    assert_eq!(refused("").key, "key_file");
    assert_eq!(refused("method = 'truncate'\ncolumns = ['src_port']").message, "column 'src_port' has no addresses");
    assert_eq!(refused("method = 'truncate'\ncolumns = []").key, "columns");
}

#[test]
fn a_column_that_is_not_there_ends_the_component() {
    let (Built::Transform(mut block), _) = compliance::open(&KIND, "method = 'truncate'\ncolumns = ['src_adr']") else {
        panic!("a transform")
    };
    let error = block.take(0, flows().record_batch().clone(), &mut Outlet::new()).expect_err("a misspelt column");
    assert!(error.to_string().starts_with("input has no column 'src_adr'"), "{error}");
}

#[test]
fn a_key_of_wrong_length_ends_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("short");
    std::fs::write(&path, "0011").expect("a file");
    let options = AnonymiseOptions { key_file: Some(path), ..AnonymiseOptions::default() };
    let error = configure(options).expect("an opener")(&ComponentContext::default()).err().expect("an error");
    let expected = "short has 4 octets, but 32 octets or 64 hexadecimal digits are needed";
    assert!(error.to_string().ends_with(expected), "{error}");
    assert!(!error.chain().contains("0011"));
}
