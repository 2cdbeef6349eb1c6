//! Files as they are, or decompressed by what their first octets say.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

/// Octets that show how a file is compressed, and then what it is.
const MAGIC_OCTETS: usize = 12;

/// What a file holds, decompressed.
pub(super) type Input = BufReader<Box<dyn Read>>;

/// Opens a file. Its first octets, decompressed, are returned and are read again.
pub(super) fn open(path: &Path) -> io::Result<(Vec<u8>, Input)> {
    let (magic, whole) = peek(Box::new(BufReader::new(File::open(path)?)))?;
    let decompressed: Box<dyn Read> = match magic[..] {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(whole)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(whole)?),
        _ => whole,
    };
    let (magic, whole) = peek(decompressed)?;
    Ok((magic, BufReader::with_capacity(1 << 16, whole)))
}

/// The first octets of what can be read, and all of it with these.
fn peek(mut input: Box<dyn Read>) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut magic = Vec::with_capacity(MAGIC_OCTETS);
    input.by_ref().take(MAGIC_OCTETS as u64).read_to_end(&mut magic)?;
    let whole = Cursor::new(magic.clone()).chain(input);
    Ok((magic, Box::new(whole)))
}
