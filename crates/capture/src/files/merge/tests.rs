//! How many files are merged at a time.

use std::fs;
use std::io::Write;
use std::sync::Arc;

use super::*;

/// A pcap file with packets of one octet at these microseconds.
fn pcap(times: &[u32]) -> Vec<u8> {
    let mut octets =
        [0xa1b2_c3d4_u32.to_le_bytes(), [2, 0, 4, 0], [0; 4], [0; 4], [0xff, 0xff, 0, 0], [1, 0, 0, 0]].concat();
    for time in times {
        let record = [0, *time, 1, 1].map(u32::to_le_bytes).concat();
        octets.extend(record);
        octets.push(7);
    }
    octets
}

fn with_gzip(octets: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(octets).expect("compressed");
    gzip.finish().expect("compressed")
}

fn with_zstd(octets: &[u8]) -> Vec<u8> {
    zstd::encode_all(octets, 1).expect("compressed")
}

/// The times at which three files that overlap are read.
fn times(pack: fn(&[u8]) -> Vec<u8>, files_open_max: usize) -> Vec<i64> {
    let folder = tempfile::tempdir().expect("a folder");
    let files = [&[1, 10][..], &[2, 5], &[3, 11]];
    let paths: Vec<PathBuf> = (0..files.len()).map(|file| folder.path().join(file.to_string())).collect();
    for (path, file) in paths.iter().zip(files) {
        fs::write(path, pack(&pcap(file))).expect("written");
    }
    let warn: WarningHandler = Arc::new(|line: &str| assert!(line.is_empty(), "{line}"));
    let mut merged = Merged::open(&paths, Shared::default(), warn).with_files_open_max(files_open_max);
    let (mut block, mut times) = (PacketBlock::default(), Vec::new());
    while merged.fill(&mut block).expect("packets") == FillOutcome::Packets {
        times.extend(block.packets().iter().map(|packet| packet.time_us));
    }
    assert_eq!(merged.places_taken, 0);
    times
}

#[test]
fn files_whose_decompression_takes_much_memory_have_more_places() {
    let merged = [1, 2, 3, 5, 10, 11];
    let (two_at_a_time, one_at_a_time) = ([1, 2, 5, 3, 10, 11], [1, 10, 2, 5, 3, 11]);
    for (places, expected) in [(1, one_at_a_time), (2, two_at_a_time), (3, merged)] {
        assert_eq!(times(<[u8]>::to_vec, places), expected, "{places} places");
        assert_eq!(times(with_gzip, places), expected, "{places} places");
        assert_eq!(times(with_zstd, places * PACKED_PLACES), expected, "{places} places for files of zstd");
        assert_eq!(
            times(with_zstd, (places + 1) * PACKED_PLACES - 1),
            expected,
            "{places} places for files of zstd, and more"
        );
    }
}
