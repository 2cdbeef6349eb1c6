//! Files of other programs, of the twenty lines that [`content`] has.

use std::io::Read;

use super::Packed;
use crate::files::{CaptureError, Input};

/// gzip 1.12: `gzip -n`.
const GZIP: &str = "\
    1f8b080000000000000365ceab0d80401444514f15af0466f92de56c081802acc0d03d024132d71e756a59f6f58e36ae2d8e\
    723e4dfd400ec9a173e81d0687d16172c80e3362ace22a6485add015be4258180b65fde7173ca194165e010000";
/// zstd 1.5.4.
const ZSTD: &str = "\
    28b52ffd645e00b5020034027061636b65742030206f66206d616e790a313233343536373839313131313131313131140037\
    dbc466f3d56c66349b6566f3c96c66319b0566f3bd6c0e97f10e200c2002900308038800e400c2002200dd94cd25ce8929e7";
/// XZ Utils 5.4.1: `xz -9 --check=crc64`.
const XZ: &str = "\
    fd377a585a000004e6d6b446020021011c00000010cf58cce0015d003e5d0038184899cd5cd74ba8bcc3bec1a870251c2699\
    c74a052ed77d7ac4926822999590257a76a513a63401e2c3457f70b1c67d1d875a635ac4bc6e4837cbdf00000000eb158f73\
    52fe865500015ade02000000fff68cf2b1c467fb020000000004595a";
/// bzip2 1.0.8.
const BZIP2: &str = "\
    425a6839314159265359b75470500000915980001040007fe02b0bc42020006834f5503f52687a806054551a0d0066a7a964\
    a159285da50a74074d6bb6fc4b6db6dcd111080002db6db724608fa4608c91823991a1148c11f88c91fc5dc914e14242dd51\
    c140";
/// lz4 1.9.4.
const LZ4: &str = "\
    04224d186440a768000000f3027061636b65742030206f66206d616e790a11001c3111001c3211001c3311001c3411001c35\
    11001c3611001c3711001c3811001c3911001e31ab000dac001d31ad001d31ae001d31af001d31b0001d31b1001d31b2001d\
    31b300b03139206f66206d616e790a00000000f562b7b5";
/// One octet, which XZ Utils 5.4.1 packed with `xz --lzma2=preset=6,dict=256MiB`.
const XZ_LARGE: &str = "\
    fd377a585a000004e6d6b44602002101200000000988a57601000070000000002312f17cf169b7fd00011901a52c81cc1fb6\
    f37d010000000004595a";
/// One octet, which zstd 1.5.4 packed with `zstd --long=28` and with `zstd --long=31 --ultra`, from standard input.
const ZSTD_LARGE: [&str; 2] = ["28b52ffd04900900007823110483", "28b52ffd04a80900007823110483"];

const ALL: [(Packed, &str); 5] =
    [(Packed::Gzip, GZIP), (Packed::Zstd, ZSTD), (Packed::Xz, XZ), (Packed::Bzip2, BZIP2), (Packed::Lz4, LZ4)];

fn content() -> Vec<u8> {
    (0..20).flat_map(|number| format!("packet {number} of many\n").into_bytes()).collect()
}

fn octets(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| ((pair[0] << 4) | pair[1]) as u8).collect()
}

/// What is unpacked of a file, and what is said of its end.
fn unpacked(packed: Packed, file: &[u8]) -> (Vec<u8>, Option<String>) {
    let mut found = Vec::new();
    let read = packed.unpack(file).and_then(|mut reader| reader.read_to_end(&mut found));
    (found, read.err().map(|error| error.to_string()))
}

#[test]
fn files_of_other_programs_are_recognized_and_read() {
    for (packed, digits) in ALL {
        let file = octets(digits);
        assert_eq!(Packed::of(&file), Some(packed));
        assert_eq!(unpacked(packed, &file), (content(), None), "{packed:?}");
        let mut input = Input::new(file.as_slice()).expect("an input");
        assert!(input.is_compressed());
        assert_eq!(input.first_octets().expect("octets"), &content()[..24]);
        // as files that were put together are
        let twice = file.repeat(2);
        assert_eq!(unpacked(packed, &twice), (content().repeat(2), None), "{packed:?}");
    }
    for other in [&b"BZh0"[..], b"\xfd7zXY\0", b"\x02\x21\x4c\x18", b"\xd4\xc3\xb2\xa1", b""] {
        assert_eq!(Packed::of(other), None, "{other:?}");
    }
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_an_error_after_what_could_be_read() {
    for (packed, digits) in ALL {
        let file = octets(digits);
        let name = packed.name();
        for length in super::MAGIC_OCTETS..file.len() {
            let (found, error) = unpacked(packed, &file[..length]);
            assert!(content().starts_with(&found), "{name} of {length} octets");
            let error = error.unwrap_or_else(|| panic!("{name} of {length} octets has no end"));
            assert!(error.starts_with(&format!("the {name} file is ")), "{error}");
        }
        let (_, error) = unpacked(packed, &file[..file.len() / 2]);
        assert_eq!(error, Some(format!("the {name} file is cut short")));
        // the file before it is whole
        let (found, error) = unpacked(packed, &[&file[..], &file[..file.len() / 2]].concat());
        assert!(found.starts_with(&content()) && error.is_some(), "{name}: {error:?}");
    }
}

/// The programs that made the files refuse these as well.
#[test]
fn a_file_with_a_flipped_bit_is_an_error() {
    for (packed, digits) in ALL {
        let mut file = octets(digits);
        let middle = file.len() / 2;
        file[middle] ^= 8;
        let (_, error) = unpacked(packed, &file);
        let error = error.unwrap_or_else(|| panic!("{} is taken for whole", packed.name()));
        assert!(error.starts_with(&format!("the {} file is ", packed.name())), "{error}");
    }
}

#[test]
fn a_dictionary_of_xz_has_a_limit() {
    let file = octets(XZ_LARGE);
    let mut input = Input::new(file.as_slice()).expect("an input");
    let Err(CaptureError::Read { error, .. }) = input.first_octets() else { panic!("it is unpacked") };
    assert_eq!(error.to_string(), "unpacking the xz file takes more than 129 MiB of memory");
}

#[test]
fn a_window_of_zstd_has_a_limit() {
    for digits in ZSTD_LARGE {
        let file = octets(digits);
        let mut input = Input::new(file.as_slice()).expect("an input");
        let Err(CaptureError::Read { error, .. }) = input.first_octets() else { panic!("it is unpacked") };
        assert_eq!(error.to_string(), "unpacking the zstd file takes more than 128 MiB of memory");
    }
}
