//! The index of a segment against its rows, and damage to any part of its file.

use std::fs;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{TimestampMillisecondType as Time, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use proptest::prelude::*;
use weir_archive::{ArchiveError, ArchiveOptions, PageSet, Segment, SegmentIndex, Snapshot, Writer};
use weir_flow::{Column, ColumnType, Delivery, FlowBatch, FlowBatchBuilder, Table};

/// A row of small numbers: addresses of both families and others, ports, a system; each may be missing.
type Row = (Option<u8>, Option<u8>, Option<u8>, Option<u8>, u8);

fn address(seed: u8) -> Vec<u8> {
    match seed % 5 {
        0..3 => vec![10, 0, seed / 64, seed],
        3 => [[0xfe; 15].to_vec(), vec![seed]].concat(),
        _ => vec![seed; usize::from(seed % 3)],
    }
}

fn name(port: u8) -> String {
    format!("Host{port}.Example.com")
}

fn batch(rows: &[Row]) -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(rows.len());
    for &(src, dst, port, system, time) in rows {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(1_763_683_200_000 + i64::from(time)));
        builder.time(Column::Start).push(system.map(|_| -i64::from(time)));
        builder.address(Column::SrcAddr).push(src.map(address).as_deref());
        builder.address(Column::DstAddr).push(dst.map(address).as_deref());
        builder.address(Column::NextHop).push(system.map(address).as_deref());
        builder.u16(Column::DstPort).push(port.map(|port| u16::from(port) * 200));
        builder.u8(Column::Protocol).push(port.map(|port| port % 3));
        builder.u32(Column::SrcAs).push(system.map(|system| u32::from(system) * 65_521));
        builder.address(Column::SrcMac).push(port.map(|port| [port; 6]).as_ref().map(|octets| &octets[..]));
        builder.address(Column::ApplicationId).push(port.map(address).as_deref());
        builder.u64(Column::Bytes).push(port.map(|port| u64::MAX - u64::from(port)));
        builder.text(Column::ServerName).push(port.map(name).as_deref().map(str::as_bytes));
    }
    builder.finish()
}

fn segment_of(rows: &[Row], dir: &std::path::Path, row_group_rows_max: usize) -> Segment {
    let options = ArchiveOptions { row_group_rows_max, summaries_when_sealing: true, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir, options).expect("an archive");
    writer.append(Delivery::from(batch(rows))).expect("appended");
    writer.close().expect("sealed");
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let [segment] = snapshot.segments(Table::Flows) else { panic!("one segment, not {snapshot:?}") };
    segment.clone()
}

/// Values of a column as octets that order like them, row by row.
fn values(column: Column, values: &ArrayRef) -> Vec<Option<Vec<u8>>> {
    let number = |row: usize| -> Vec<u8> {
        match column.column_type() {
            ColumnType::U8 => values.as_primitive::<UInt8Type>().value(row).to_be_bytes().to_vec(),
            ColumnType::U16 => values.as_primitive::<UInt16Type>().value(row).to_be_bytes().to_vec(),
            ColumnType::U32 => values.as_primitive::<UInt32Type>().value(row).to_be_bytes().to_vec(),
            ColumnType::U64 => values.as_primitive::<UInt64Type>().value(row).to_be_bytes().to_vec(),
            ColumnType::Time => (values.as_primitive::<Time>().value(row) as u64 ^ 1 << 63).to_be_bytes().to_vec(),
            _ => values.as_binary::<i32>().value(row).to_vec(),
        }
    };
    (0..values.len()).map(|row| values.is_valid(row).then(|| number(row))).collect()
}

fn lookup(index: &SegmentIndex, column: Column, low: &[u8], high: &[u8]) -> PageSet {
    let number = |octets: &[u8]| octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
    let time = |octets: &[u8]| (number(octets) ^ 1 << 63) as i64;
    let pages = match column.column_type() {
        ColumnType::Time => index.pages_of_times(column, time(low), time(high)),
        ColumnType::Address => index.pages_of_addresses(column, low, high),
        _ => index.pages_of_numbers(column, number(low), number(high)),
    };
    pages.expect("an index that can be read")
}

const COLUMNS: [Column; 9] = [
    Column::Received,
    Column::Start,
    Column::SrcAddr,
    Column::DstAddr,
    Column::NextHop,
    Column::DstPort,
    Column::Protocol,
    Column::SrcAs,
    Column::Bytes,
];

fn page_of(index: &SegmentIndex, row: usize) -> usize {
    let pages: Vec<Range<u64>> = (0..index.pages()).map(|page| index.page_rows(page)).collect();
    pages.iter().position(|rows| rows.contains(&(row as u64))).expect("every row is on a page")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_page_that_has_a_value_is_left_out(
        rows in proptest::collection::vec(any::<Row>(), 1..60),
        row_group_rows_max in 1usize..20,
        asked in proptest::collection::vec((0usize..60, 0usize..60), 4),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let segment = segment_of(&rows, dir.path(), row_group_rows_max);
        let index = segment.index().expect("readable").expect("an index");
        prop_assert_eq!(index.pages(), rows.len().div_ceil(row_group_rows_max));
        prop_assert_eq!(index.page_rows(index.pages()), 0..0);
        let batches = segment.read().expect("readable");
        let read = arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("one batch");
        for column in COLUMNS {
            let found = values(column, read.column(column as usize));
            let with_nulls = index.pages_with_nulls(column).expect("readable");
            for page in 0..index.pages() {
                let rows = index.page_rows(page);
                let nulls = found[rows.start as usize..rows.end as usize].iter().any(Option::is_none);
                prop_assert_eq!(with_nulls.contains(page), nulls, "nulls of {} on page {}", column, page);
            }
            let present: Vec<&Vec<u8>> = found.iter().flatten().filter(|value| column.column_type() != ColumnType::Address || matches!(value.len(), 4 | 16)).collect();
            for &(a, b) in &asked {
                let (Some(&a), Some(&b)) = (present.get(a), present.get(b)) else { continue };
                if a.len() != b.len() {
                    continue;
                }
                let (low, high) = (a.min(b), a.max(b));
                let pages = lookup(&index, column, low, high);
                let fits = |value: &Vec<u8>| value.len() == low.len() && low <= value && value <= high;
                let mut expected = PageSet::none(index.pages());
                for (row, _) in found.iter().enumerate().filter(|(_, value)| value.as_ref().is_some_and(fits)) {
                    expected.insert(page_of(&index, row));
                }
                let mut missing = expected.clone();
                missing.and_not(&pages);
                prop_assert!(missing.is_none(), "{} from {:?} to {:?}: {:?}", column, low, high, missing);
                if matches!(column, Column::SrcAddr | Column::DstAddr) {
                    prop_assert_eq!(&pages, &expected, "hosts are listed page by page");
                }
            }
        }
        let with_text = index.pages_with_text(Column::ServerName).expect("readable");
        for (row, text) in read.column(Column::ServerName as usize).as_string::<i32>().iter().enumerate() {
            let page = page_of(&index, row);
            let Some(text) = text else { continue };
            prop_assert!(with_text.contains(page));
            for asked in [text.to_owned(), text.to_lowercase(), text.to_uppercase()] {
                prop_assert!(index.pages_of_text(Column::ServerName, &asked).expect("readable").contains(page), "{}", asked);
            }
        }
        prop_assert!(index.pages_of_addresses(Column::SrcAddr, &[9; 4], &[9; 4]).expect("readable").is_none());
        prop_assert!(index.pages_of_numbers(Column::FlowId, 0, u64::MAX).expect("readable").is_none());
        segment.check().expect("whole");
    }
}

fn some_rows() -> Vec<Row> {
    (0..100)
        .map(|row: u8| (Some(row), Some(row / 2), (!row.is_multiple_of(7)).then_some(row % 5), Some(row % 4), row))
        .collect()
}

#[test]
fn a_rare_text_is_looked_for_on_its_page() {
    let dir = tempfile::tempdir().expect("a folder");
    let rows: Vec<Row> = (0..2000).map(|row| (None, None, Some((row / 100) as u8), None, 0)).collect();
    let segment = segment_of(&rows, dir.path(), 100);
    let index = segment.index().expect("readable").expect("an index");
    let batches = segment.read().expect("readable");
    let read = arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("one batch");
    let texts = read.column(Column::ServerName as usize).as_string::<i32>();
    for port in 0..20 {
        let mut expected = PageSet::none(index.pages());
        let rows = (0..texts.len()).filter(|row| texts.value(*row) == name(port));
        rows.for_each(|row| expected.insert(page_of(&index, row)));
        let found = index.pages_of_text(Column::ServerName, &name(port).to_lowercase()).expect("readable");
        assert_eq!(found, expected, "{port}");
        assert!(found.count() < index.pages());
    }
    assert!(index.pages_of_text(Column::ServerName, "nobody.example.com").expect("readable").is_none());
    assert!(index.pages_of_text(Column::Ja4, "t13d").expect("readable").is_none());
}

#[test]
fn pages_lie_where_the_index_says() {
    let dir = tempfile::tempdir().expect("a folder");
    let segment = segment_of(&some_rows(), dir.path(), 40);
    let index = segment.index().expect("readable").expect("an index");
    let octets = fs::read(segment.path()).expect("a file");
    for column in Column::ALL.iter().copied().filter(|column| *column != Column::Elements) {
        if index.is_null(column).expect("readable") {
            assert!(index.column_pages(column).expect("readable").is_none());
            assert!(index.pages_with_nulls(column).expect("readable").is_all());
            continue;
        }
        let places = index.column_pages(column).expect("readable").expect("a column with values");
        assert_eq!(places.groups.len(), index.row_groups());
        for (group, places) in places.groups.iter().enumerate() {
            assert_eq!(places.pages.len(), index.row_group_pages(group).len());
            let chunk = &octets[places.chunk.start as usize..places.chunk.end as usize];
            assert_eq!(crc32c::crc32c(chunk), places.crc32c);
            let rows = index.row_group_rows(group);
            assert_eq!(places.pages.iter().map(|page| page.rows).sum::<u64>(), rows.end - rows.start);
        }
    }
    assert!(index.is_null(Column::FlowId).expect("readable"));
    assert!(!index.is_null(Column::SrcMac).expect("readable"));
}

#[test]
fn a_bit_flipped_anywhere_is_found() {
    let dir = tempfile::tempdir().expect("a folder");
    let segment = segment_of(&some_rows(), dir.path(), 40);
    let octets = fs::read(segment.path()).expect("a file");
    for at in (0..octets.len()).step_by(7) {
        let mut damaged = octets.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(segment.path(), &damaged).expect("written");
        let error = segment.check().expect_err("damage at a place that nothing checks");
        assert!(error.to_string().contains(&segment.path().display().to_string()), "octet {at}: {error}");
        assert!(matches!(error, ArchiveError::DamagedSegment { .. }), "octet {at}: {error:?}");
    }
    for octets_left in [0, 3, 43, 60, octets.len() / 2, octets.len() - 1] {
        fs::write(segment.path(), &octets[..octets_left]).expect("written");
        segment.check().expect_err("a file that was cut");
    }
}

/// An address of IPv4, of IPv6, or, where `odd`, of neither; or none.
fn hosts(odd: bool) -> impl Strategy<Value = Option<Vec<u8>>> {
    let short = (0u8..3, any::<u8>()).prop_map(|(net, host)| Some(vec![10, net, 0, host]));
    // IPv6 whose first four octets are those of an IPv4 address too, and those that share the last key
    let first = prop_oneof![Just([10, 1, 0, 7]), Just([0x20, 1, 0xd, 0xb8]), Just([0xff; 4])];
    let long = (first, prop_oneof![Just(0u8), Just(0xff)], any::<u8>())
        .prop_map(|(first, fill, last)| Some([&first[..], &[fill; 11], &[last]].concat()));
    let other = proptest::collection::vec(any::<u8>(), 0..7).prop_map(Some);
    prop_oneof![3 => short, 3 => long, 2 => Just(None), u32::from(odd) => other]
}

type Pair = (Option<Vec<u8>>, Option<Vec<u8>>);

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    any::<bool>().prop_flat_map(|odd| proptest::collection::vec((hosts(odd), hosts(odd)), 1..120))
}

fn hosts_segment(rows: &[Pair], dir: &std::path::Path, row_group_rows_max: usize, summaries: bool) -> Segment {
    let options = ArchiveOptions { row_group_rows_max, summaries_when_sealing: summaries, ..ArchiveOptions::default() };
    let (mut writer, _) = Writer::open(dir, options).expect("an archive");
    let mut builder = FlowBatchBuilder::new(rows.len());
    for (number, (src, dst)) in rows.iter().enumerate() {
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(1_763_683_200_000));
        builder.u64(Column::FlowId).push(Some(number as u64));
        builder.address(Column::SrcAddr).push(src.as_deref());
        builder.address(Column::DstAddr).push(dst.as_deref());
    }
    writer.append(Delivery::from(builder.finish())).expect("appended");
    writer.close().expect("sealed");
    let snapshot = Snapshot::open(dir).expect("a snapshot");
    let [segment] = snapshot.segments(Table::Flows) else { panic!("one segment, not {snapshot:?}") };
    segment.clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Both families and nulls on one page: the values, the footer of Parquet and our zone maps say the same.
    #[test]
    fn addresses_of_both_families_are_told_right_everywhere(
        rows in pairs(), row_group_rows_max in 1usize..40, summaries in any::<bool>(),
    ) {
        use parquet::file::reader::FileReader as _;
        let dir = tempfile::tempdir().expect("a folder");
        let segment = hosts_segment(&rows, dir.path(), row_group_rows_max, summaries);
        segment.check().expect("whole");
        let batches = segment.read().expect("readable");
        let read = arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("one batch");
        let ids = read.column(Column::FlowId as usize).as_primitive::<UInt64Type>();
        let options = parquet::file::serialized_reader::ReadOptionsBuilder::new().with_page_index().build();
        let file = fs::File::open(segment.path()).expect("a file");
        let file = parquet::file::reader::SerializedFileReader::new_with_options(file, options).expect("Parquet");
        let index = segment.index().expect("readable").expect("an index");
        for (column, side) in [(Column::SrcAddr, 0), (Column::DstAddr, 1)] {
            let found = values(column, read.column(column as usize));
            for (row, value) in found.iter().enumerate() {
                let (src, dst) = &rows[ids.value(row) as usize];
                prop_assert_eq!(value, [src, dst][side], "{} of flow {}", column, ids.value(row));
            }
            let mut at = 0;
            for group in 0..file.metadata().num_row_groups() {
                let group = file.metadata().row_group(group);
                let values = &found[at..at + group.num_rows() as usize];
                at += group.num_rows() as usize;
                let chunk = group.columns().iter().find(|chunk| chunk.column_path().string() == column.name());
                let Some(statistics) = chunk.expect("a column").statistics() else { continue };
                let present = || values.iter().flatten().map(Vec::as_slice);
                prop_assert_eq!(statistics.null_count_opt(), Some((values.len() - present().count()) as u64));
                prop_assert_eq!(statistics.min_bytes_opt(), present().min());
                prop_assert_eq!(statistics.max_bytes_opt(), present().max());
            }
            // single values, and ranges within a family
            let present: Vec<&Vec<u8>> = found.iter().flatten().filter(|value| matches!(value.len(), 4 | 16)).collect();
            for pair in present.windows(2).map(|pair| [pair[0], pair[1]]).chain(present.iter().map(|one| [*one, *one])) {
                if pair[0].len() != pair[1].len() {
                    continue;
                }
                let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
                let pages = index.pages_of_addresses(column, low, high).expect("readable");
                let fits = |value: &Vec<u8>| value.len() == low.len() && low <= value && value <= high;
                for (row, _) in found.iter().enumerate().filter(|(_, value)| value.as_ref().is_some_and(fits)) {
                    prop_assert!(pages.contains(page_of(&index, row)), "{} {:?}..{:?} row {}", column, low, high, row);
                }
            }
            let with_nulls = index.pages_with_nulls(column).expect("readable");
            for (row, _) in found.iter().enumerate().filter(|(_, value)| value.is_none()) {
                prop_assert!(with_nulls.contains(page_of(&index, row)), "null of {}", column);
            }
        }
    }
}
