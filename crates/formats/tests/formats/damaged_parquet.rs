//! Parquet files that are damaged anywhere are errors, and never panics.

use std::fs;

use weir_flow::{Column, FlowBatchBuilder};
use weir_formats::columnar::Reader;

/// A file of flows as other programs write them: dictionaries, texts, statistics, compressed pages.
fn whole() -> Vec<u8> {
    let rows = 3_000;
    let mut builder = FlowBatchBuilder::new(rows);
    builder.begin_rows(rows);
    builder.time(Column::Received).extend((0..rows).map(|row| 1_767_225_600_000 + row as i64));
    builder.time(Column::Start).extend((0..rows).map(|row| 1_767_225_600_000 - row as i64 % 7));
    builder.address(Column::SrcAddr).extend_fixed((0..rows as u32).map(|row| (row * 77).to_be_bytes()));
    builder.u64(Column::Bytes).extend((0..rows).map(|row| (row * row) as u64));
    builder.u16(Column::DstPort).extend((0..rows as u16).map(|row| row % 9));
    builder.u8(Column::Protocol).extend((0..rows).map(|row| if row % 3 == 0 { 6 } else { 17 }));
    let batch = builder.finish().record_batch().clone();
    let mut octets = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut octets, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    octets
}

/// A small generator (`SplitMix64`).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn damage_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("flows.parquet");
    let whole = whole();
    let times: u64 = std::env::var("WEIR_MUTATIONS").ok().map_or(1, |times| times.parse().expect("a number"));
    let (mut state, mut errors) = (1, 0);
    for _ in 0..3_000 * times {
        let mut damaged = whole.clone();
        // where the file says what is in it more often than in the values
        let footer = whole.len() - 3_000;
        for _ in 0..=next(&mut state) % 3 {
            let at = if next(&mut state).is_multiple_of(2) { footer } else { 0 };
            let at = at + next(&mut state) as usize % (whole.len() - at);
            damaged[at] = next(&mut state) as u8;
        }
        if next(&mut state).is_multiple_of(8) {
            let from = next(&mut state) as usize % damaged.len();
            let end = damaged.len().min(from + next(&mut state) as usize % 50);
            damaged.drain(from..end);
        }
        fs::write(&path, &damaged).expect("written");
        match Reader::open(&path, &[]) {
            Ok(reader) => errors += u32::from(reader.into_iter().any(|batch| batch.is_err())),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 100, "{errors}");
}
