use std::io::{Seek, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{Int32Type, Int64Type};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use weir_flow::Column;

use super::*;

/// 2026-01-01T00:00:00Z, by `date -d`.
const NOW_MS: i64 = 1_767_225_600_000;
const OCTETS_MAX: usize = 64 << 20;

fn zstd() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()))
}

fn file(columns: Vec<(&str, ArrayRef)>, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let rows = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut octets = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut octets, rows.schema(), Some(properties.build())).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
    octets
}

fn texts(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

/// Three flows, as other programs write them.
fn flows() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("src_addr", texts(&["192.0.2.1", "192.0.2.2", "2001:db8::1"])),
        ("bytes", Arc::new(Int64Array::from(vec![Some(100), None, Some(300)]))),
    ]
}

/// Checks octets and reads them, from a file.
fn read_octets(octets: &[u8], octets_max: usize) -> Result<Vec<FlowBatch>, StreamError> {
    check::check(octets, octets_max)?;
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(octets).and_then(|()| file.rewind()).expect("written");
    decode(file, NOW_MS)
}

fn refused(octets: &[u8]) -> String {
    read_octets(octets, OCTETS_MAX).expect_err("an error").to_string()
}

#[test]
fn a_file_is_read_as_lines_of_json_are() {
    let lines = b"{\"src_addr\":\"192.0.2.1\",\"bytes\":100}\n{\"src_addr\":\"192.0.2.2\"}\n{\"src_addr\":\"2001:db8::1\",\"bytes\":300}\n";
    let form = crate::text_body::TextForm::JsonLines;
    let expected = crate::text_body::read(lines, form, NOW_MS, OCTETS_MAX).expect("flows");
    let plain = WriterProperties::builder().set_dictionary_enabled(false);
    let second = zstd().set_writer_version(WriterVersion::PARQUET_2_0).set_encoding(Encoding::PLAIN);
    for properties in [zstd(), plain, WriterProperties::builder(), second.set_dictionary_enabled(false)] {
        let read = read_octets(&file(flows(), properties), OCTETS_MAX).expect("flows");
        let (read, expected) = (read[0].record_batch(), expected[0].record_batch());
        for column in [Column::Received, Column::SrcAddr, Column::Bytes] {
            assert_eq!(read.column_by_name(column.name()), expected.column_by_name(column.name()), "{column}");
        }
    }
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert!(read_octets(&file(vec![("bytes", none)], zstd()), OCTETS_MAX).expect("no flows").is_empty());
}

#[test]
fn columns_have_the_rules_of_other_bodies() {
    let number = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, -1])) };
    assert_eq!(refused(&file(vec![("octets", number())], zstd())), "not columns of flows: octets");
    let wrong = refused(&file(vec![("bytes", number())], zstd()));
    assert_eq!(wrong, "column 'bytes' has values that do not fit into UInt64: 1");
}

#[test]
fn what_is_claimed_more_than_once_is_refused() {
    // lists, another codec, another encoding
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), Some(2)])]);
    assert!(refused(&file(vec![("elements", Arc::new(lists))], zstd())).contains("nested columns"));
    let delta = WriterProperties::builder().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    assert!(refused(&file(vec![("bytes", numbers)], delta)).contains("encoded otherwise"));
    // a text that a file has once and means a hundred thousand times
    let long: ArrayRef = Arc::new(StringArray::from(vec!["a".repeat(100_000)]));
    let many: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 100_000]), long));
    let many = file(vec![("src_label", many)], zstd());
    assert!(many.len() < 100_000, "{}", many.len());
    assert_eq!(refused(&many), StreamError::TooLarge { octets_max: OCTETS_MAX }.to_string());
    // and numbers
    let same: ArrayRef = Arc::new(Int64Array::from(vec![7; 100_000]));
    let same = file(vec![("bytes", same)], zstd());
    assert!(same.len() < 8_000, "{}", same.len());
    let error = read_octets(&same, 1_000_000).expect_err("too large");
    assert_eq!(error, StreamError::TooLarge { octets_max: 1_000_000 });
    let read: usize = read_octets(&same, OCTETS_MAX).expect("flows").iter().map(FlowBatch::rows).sum();
    assert_eq!(read, 100_000);
}

/// An octet of a number of several in the compact protocol.
fn varint(mut number: u64) -> Vec<u8> {
    let mut octets = Vec::new();
    while number >= 0x80 {
        octets.push(number as u8 | 0x80);
        number >>= 7;
    }
    octets.push(number as u8);
    octets
}

fn int(number: i64) -> Vec<u8> {
    varint(((number << 1) ^ (number >> 63)) as u64)
}

/// What a file with one column of numbers says, without any page.
struct Claims {
    rows: i64,
    rows_of_group: i64,
    values: i64,
    packed: i64,
    at: i64,
    children: i64,
    /// Of the column: whether it has one value, one or none, or a list.
    repetition: i64,
    /// Header of the list of row groups: its length and the type of its elements.
    groups: Vec<u8>,
}

impl Default for Claims {
    fn default() -> Self {
        Self { rows: 0, rows_of_group: 0, values: 0, packed: 0, at: 4, children: 1, repetition: 1, groups: vec![0x1c] }
    }
}

impl Claims {
    /// A file with these octets between its marks and its footer, by `parquet.thrift`.
    fn file(&self, pages: &[u8]) -> Vec<u8> {
        // schema: the root with its children, and 'bytes', an optional INT64
        let root = [&[0x48_u8, 4][..], b"root", &[0x15], &int(self.children), &[0]].concat();
        let column = [&[0x15_u8][..], &int(2), &[0x25], &int(self.repetition), &[0x18, 5], b"bytes", &[0]].concat();
        // type, encodings, path, codec, values, sizes unpacked and packed, offset
        let meta = [
            &[0x15_u8][..],
            &int(2),
            &[0x19, 0x15],
            &int(0),
            &[0x19, 0x18, 5],
            b"bytes",
            &[0x15],
            &int(0),
            &[0x16],
            &int(self.values),
            &[0x16],
            &int(self.packed),
            &[0x16],
            &int(self.packed),
            &[0x26],
            &int(self.at),
            &[0],
        ]
        .concat();
        let chunk = [&[0x26_u8][..], &int(4), &[0x1c], &meta, &[0]].concat();
        let group = [&[0x19_u8, 0x1c][..], &chunk, &[0x16], &int(0), &[0x16], &int(self.rows_of_group), &[0]].concat();
        let head = [&[0x15_u8][..], &int(1), &[0x19, 0x2c], &root, &column, &[0x16], &int(self.rows)].concat();
        let footer = [&head[..], &[0x19], &self.groups, &group, &[0]].concat();
        let length = (footer.len() as u32).to_le_bytes();
        [&b"PAR1"[..], pages, &footer, &length, b"PAR1"].concat()
    }
}

/// The header of a page of data, and the page: plain numbers behind the levels of optional values.
fn page(unpacked: i64, packed: i64, values: i64, octets: &[u8]) -> Vec<u8> {
    let data = [&[0x15_u8][..], &int(values), &[0x15], &int(0), &[0x15], &int(3), &[0x15], &int(3), &[0]].concat();
    let head = [&[0x15_u8][..], &int(0), &[0x15], &int(unpacked), &[0x15], &int(packed)].concat();
    [&head[..], &[0x2c], &data, &[0], octets].concat()
}

#[test]
fn a_file_that_lies_is_refused_before_it_is_read() {
    // two values: a run of two levels 1, and the numbers
    let octets = [&[2_u8, 0, 0, 0, 4, 1][..], &100_u64.to_le_bytes(), &200_u64.to_le_bytes()].concat();
    let pages = page(22, 22, 2, &octets);
    let packed = pages.len() as i64;
    let honest = || Claims { rows: 2, rows_of_group: 2, values: 2, packed, ..Claims::default() };
    let read = read_octets(&honest().file(&pages), OCTETS_MAX).expect("flows");
    assert_eq!(read.iter().map(FlowBatch::rows).sum::<usize>(), 2);
    let huge = 1 << 40;
    let too_large = StreamError::TooLarge { octets_max: OCTETS_MAX }.to_string();
    let rows = Claims { rows: huge, rows_of_group: huge, values: huge, ..honest() };
    assert_eq!(refused(&rows.file(&pages)), too_large);
    let at = |claims: Claims| refused(&claims.file(&pages));
    assert!(at(Claims { rows: huge, ..honest() }).contains("as many rows"));
    assert!(at(Claims { rows_of_group: huge, ..honest() }).contains("as many values"));
    assert!(at(Claims { values: huge, ..honest() }).contains("as many values"));
    for wrong in [huge, -1, i64::MAX] {
        assert!(at(Claims { packed: wrong, ..honest() }).starts_with("the body is no Parquet file"), "{wrong}");
        assert!(at(Claims { at: wrong, ..honest() }).starts_with("the body is no Parquet file"), "{wrong}");
    }
    assert!(at(Claims { at: 0, ..honest() }).contains("outside of the file"));
    assert!(at(Claims { children: 2, ..honest() }).contains("nested columns"));
    // lists that are longer than the footer
    for count in [1_u64 << 20, 1 << 31, 1 << 40] {
        let groups = [&[0xfc_u8][..], &varint(count)].concat();
        assert!(at(Claims { groups, ..honest() }).contains("a list is longer"), "{count}");
    }
    // headers of pages
    let with = |pages: Vec<u8>| refused(&Claims { packed: pages.len() as i64, ..honest() }.file(&pages));
    let most = i64::from(i32::MAX);
    assert_eq!(with(page(most, 22, 2, &octets)), too_large);
    assert!(with(page(22, most, 2, &octets)).contains("longer than its chunk"));
    assert!(with(page(22, 22, most, &octets)).contains("as many values"));
    for page in [page(huge, 22, 2, &octets), page(22, huge, 2, &octets), page(22, 22, huge, &octets)] {
        assert!(with(page).contains("too large for its field"));
    }
    assert!(with(page(22, 22, -1, &octets)).contains("missing or negative"));
}

/// The library reads the lower 32 bits of a number in a field of 32 bits, whatever type is before it.
#[test]
fn numbers_that_the_library_would_read_as_others_are_refused() {
    let octets = [&[2_u8, 0, 0, 0, 4, 1][..], &100_u64.to_le_bytes(), &200_u64.to_le_bytes()].concat();
    let pages = page(22, 22, 2, &octets);
    let claims = |repetition: i64| {
        let packed = pages.len() as i64;
        Claims { rows: 2, rows_of_group: 2, values: 2, packed, repetition, ..Claims::default() }.file(&pages)
    };
    assert_eq!(read_octets(&claims(1), OCTETS_MAX).expect("flows").len(), 1);
    for list in [2, 3, -1] {
        assert!(refused(&claims(list)).contains("nested columns or lists"), "{list}");
    }
    for cut in [2 + (1 << 32), 1 + (1 << 32), 1 - (1 << 32)] {
        assert!(refused(&claims(cut)).contains("too large for its field"), "{cut}");
    }
    // pages of as many octets, by their lower bits
    let cut = page(22 + (1 << 32), 22, 2, &octets);
    let cut = Claims { rows: 2, rows_of_group: 2, values: 2, packed: cut.len() as i64, ..Claims::default() }.file(&cut);
    assert!(refused(&cut).contains("too large for its field"));
}

#[test]
fn values_count_as_what_they_become() {
    const ROWS: usize = 100_000;
    let small = || -> ArrayRef { Arc::new(Int32Array::from(vec![7; ROWS])) };
    let large = || -> ArrayRef { Arc::new(Int64Array::from(vec![7; ROWS])) };
    // numbers of 8 octets, addresses of 16 and texts of numbers with their places, and times of reception
    for (name, values, octets) in
        [("bytes", small(), 8 + 8), ("src_addr", large(), 20 + 8), ("src_label", large(), 44 + 8)]
    {
        let file = file(vec![(name, values)], zstd());
        let octets_max = ROWS * octets - 1;
        let error = read_octets(&file, octets_max).expect_err("too large");
        assert_eq!(error, StreamError::TooLarge { octets_max }, "{name}");
        // the pages, which say one value for all rows
        let read = read_octets(&file, octets_max + 10_000).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.iter().map(FlowBatch::rows).sum::<usize>(), ROWS, "{name}");
    }
}

/// Wherever a file ends, and whatever octet of it is another: an error or flows, and never more than there may be.
#[test]
fn a_file_that_is_cut_or_damaged_anywhere_is_no_panic() {
    /// Some times what the file takes.
    const DAMAGED_OCTETS_MAX: usize = 4096;
    let whole = file(flows(), zstd());
    assert!(read_octets(&whole, DAMAGED_OCTETS_MAX).is_ok());
    for end in 0..whole.len() {
        assert!(matches!(read_octets(&whole[..end], OCTETS_MAX), Err(StreamError::Parquet(_))), "{end}");
    }
    for at in 0..whole.len() {
        for changed in [0x55, 0xff, 0x80, 0x01] {
            let mut damaged = whole.clone();
            damaged[at] ^= changed;
            let Ok(read) = read_octets(&damaged, DAMAGED_OCTETS_MAX) else { continue };
            // each row has a time of reception at least
            let rows: usize = read.iter().map(FlowBatch::rows).sum();
            assert!(rows * 8 <= DAMAGED_OCTETS_MAX, "octet {at}: {rows} rows");
            let columns = read.iter().flat_map(|flows| flows.record_batch().columns());
            let octets: usize = columns.map(|values| values.to_data().get_slice_memory_size().expect("a size")).sum();
            // offsets of no value and bits of nulls come on top
            assert!(octets <= DAMAGED_OCTETS_MAX + DAMAGED_OCTETS_MAX / 8 + 64, "octet {at}: {octets} octets");
        }
    }
}
