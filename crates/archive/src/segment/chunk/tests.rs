use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Schema, UInt16Type, UInt32Type, UInt64Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::writer::SerializedFileWriter;
use proptest::prelude::*;

use super::*;
use crate::segment::encoder::parquet_schema;

/// A file of one column, and where what its first pages hold is in it; the headers of pages have no checksum.
fn file<T: Value>(data_type: DataType, pages: &[Vec<Option<T>>], layout: Layout) -> (Vec<u8>, Vec<usize>) {
    let schema = Schema::new(vec![Field::new("column", data_type, true)]);
    let root = parquet_schema(&schema).expect("a schema");
    let descriptor = parquet::schema::types::SchemaDescriptor::new(Arc::clone(&root)).column(0);
    let (mut press, mut page) = (PageCompressor::new(1).expect("a context"), Page::new());
    let mut encoder = ChunkEncoder::new(descriptor, layout);
    for values in pages {
        page.take(values.iter().copied());
        encoder.add(&page, &mut press).expect("encoded");
    }
    let chunk = encoder.finish(&mut press).expect("a chunk");
    let mut writer = SerializedFileWriter::new(Vec::new(), root, Arc::default()).expect("a file");
    let mut group = writer.next_row_group().expect("a row group");
    let dictionary = chunk.dictionary as usize;
    let mut bodies = Vec::new();
    for page in [0..dictionary, dictionary..dictionary + chunk.pages[0] as usize] {
        // zstd's magic number
        let body = chunk.octets[page.clone()].windows(4).position(|four| four == [0x28, 0xb5, 0x2f, 0xfd]);
        bodies.extend(page.skip(body.unwrap_or(usize::MAX)).map(|at| 4 + at));
    }
    group.append_column(&chunk.octets, chunk.close).expect("appended");
    group.close().expect("closed");
    (writer.into_inner().expect("finished"), bodies)
}

fn read(file: Vec<u8>) -> Result<ArrayRef, String> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)).map_err(|error| error.to_string())?;
    let batches = reader.build().map_err(|error| error.to_string())?.collect::<Result<Vec<_>, _>>();
    let columns: Vec<ArrayRef> =
        batches.map_err(|error| error.to_string())?.iter().map(|b| b.column(0).clone()).collect();
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    arrow::compute::concat(&columns).map_err(|error| error.to_string())
}

fn check<A: ArrowPrimitiveType<Native: Value>>(pages: &[Vec<Option<A::Native>>]) {
    for layout in [Layout::Dictionary, Layout::Direct] {
        let (file, _) = file(A::DATA_TYPE, pages, layout);
        let found = read(file).expect("readable");
        let expected: PrimitiveArray<A> = pages.iter().flatten().copied().collect();
        assert_eq!(found.as_primitive::<A>(), &expected, "{layout:?}");
    }
}

/// Pages of values, some with nulls.
fn pages<T: std::fmt::Debug + 'static>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<Vec<Option<T>>>> {
    let value = value.boxed();
    proptest::collection::vec(any::<bool>(), 1..4).prop_flat_map(move |gaps| {
        let page = |gaps| {
            let all = value.clone().prop_map(Some).boxed();
            let value = if gaps { proptest::option::of(value.clone()).boxed() } else { all };
            proptest::collection::vec(value, 1..40)
        };
        gaps.into_iter().map(page).collect::<Vec<_>>()
    })
}

proptest! {
    #[test]
    fn the_library_reads_what_is_written(
        few in pages(0u16..3),
        some in pages(0u32..40),
        many in pages(any::<u64>()),
    ) {
        check::<UInt16Type>(&few);
        check::<UInt32Type>(&some);
        check::<UInt64Type>(&many);
    }

    #[test]
    fn the_library_reads_octets(values in pages(proptest::collection::vec(any::<u8>(), 0..100))) {
        let pages: Vec<Vec<Option<&[u8]>>> =
            values.iter().map(|page| page.iter().map(|value| value.as_deref()).collect()).collect();
        for layout in [Layout::Dictionary, Layout::Direct] {
            let found = read(file(DataType::Binary, &pages, layout).0).expect("readable");
            prop_assert_eq!(found.as_binary::<i32>(), &pages.iter().flatten().copied().collect::<BinaryArray>());
        }
    }
}

#[test]
fn a_page_without_a_value_is_read() {
    check::<UInt32Type>(&[vec![None; 9]]);
    check::<UInt32Type>(&[vec![None; 9], vec![Some(7); 3], vec![Some(8), None]]);
}

/// Numbers of one octet, then of two, then none: the dictionary is full.
#[test]
fn a_dictionary_may_be_full() {
    let pages: Vec<Vec<Option<u32>>> =
        (0..10u32).map(|page| (0..8192).map(|row| Some((page * 8192 + row) * 3)).collect()).collect();
    check::<UInt32Type>(&pages);
}

#[test]
fn addresses_are_read() {
    let values: Vec<Option<Ipv4>> = (0..300u32).map(|row| (row % 7 > 0).then_some(Ipv4(row << 20))).collect();
    for layout in [Layout::Dictionary, Layout::Direct] {
        let found = read(file(DataType::Binary, std::slice::from_ref(&values), layout).0).expect("readable");
        let expected = values.iter().map(|value| value.map(|value| value.0.to_be_bytes()));
        assert_eq!(found.as_binary::<i32>(), &expected.collect::<BinaryArray>());
    }
}

#[test]
fn a_flipped_bit_is_an_error() {
    let values: Vec<Option<u32>> = (0..4000u32).map(|row| Some(row.wrapping_mul(2_654_435_761) % 900)).collect();
    for layout in [Layout::Dictionary, Layout::Direct] {
        let (whole, bodies) = file(DataType::UInt32, std::slice::from_ref(&values), layout);
        let expected = read(whole.clone()).expect("whole");
        assert!(bodies.len() > 500);
        for at in bodies.into_iter().step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            let found = std::panic::catch_unwind(|| read(damaged));
            assert!(
                !matches!(&found, Ok(Ok(found)) if found.as_ref() != expected.as_ref()),
                "{layout:?}: octet {at} of {}",
                whole.len()
            );
        }
    }
}
