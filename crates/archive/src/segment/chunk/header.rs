//! The header of a page: a Thrift structure in the compact protocol (parquet.thrift, `PageHeader`).

use parquet::basic::Encoding;

/// What a page's header says.
#[derive(Debug, Clone, Copy)]
pub(super) enum PageHeader {
    Data { rows: usize, encoding: Encoding },
    Dictionary { values: usize },
}

/// Types of fields.
const I32: u8 = 5;
const STRUCT: u8 = 12;
const STOP: u8 = 0;

/// Numbers of encodings in parquet.thrift.
fn number(encoding: Encoding) -> u32 {
    match encoding {
        Encoding::RLE => 3,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 6,
        Encoding::RLE_DICTIONARY => 8,
        Encoding::BYTE_STREAM_SPLIT => 9,
        _ => 0,
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field whose number is `step` more than the one before: not negative, hence twice as zigzag.
fn put_field(out: &mut Vec<u8>, step: u8, value: usize) {
    out.push(step << 4 | I32);
    put_varint(out, value as u64 * 2);
}

pub(super) fn put_header(out: &mut Vec<u8>, page: PageHeader, unpacked: usize, packed: usize) {
    let (kind, step) = match page {
        PageHeader::Data { .. } => (0, 2),
        PageHeader::Dictionary { .. } => (2, 4),
    };
    put_field(out, 1, kind);
    put_field(out, 1, unpacked);
    put_field(out, 1, packed);
    out.push(step << 4 | STRUCT);
    match page {
        PageHeader::Data { rows, encoding } => {
            put_field(out, 1, rows);
            put_field(out, 1, number(encoding) as usize);
            put_field(out, 1, number(Encoding::RLE) as usize);
            put_field(out, 1, number(Encoding::RLE) as usize);
        }
        PageHeader::Dictionary { values } => {
            put_field(out, 1, values);
            put_field(out, 1, number(Encoding::PLAIN) as usize);
        }
    }
    out.extend([STOP, STOP]);
}
