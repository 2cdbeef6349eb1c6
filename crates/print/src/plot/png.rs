//! Pictures as PNG (ISO/IEC 15948), in the one form that is needed: eight bits for each of red, green and blue.
//!
//! A library would do; the ones there are choose features of the compressor that the rest of the program does not use.
//! The format is small: a signature, and chunks of length, name, octets and checksum.

use std::io::{self, Write};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};

const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";
/// Bits of a sample, colour type 2 (red, green, blue), and the only methods there are; not interlaced.
const FORM: [u8; 5] = [8, 2, 0, 0, 0];
/// The filter type that keeps each octet as its difference from the one above: areas of one colour become zeros.
const FILTER_UP: u8 = 2;

/// Writes pixels, row by row from the top, three octets each.
pub(super) fn write(pixels: &[u8], (width, height): (u32, u32), to: &mut impl Write) -> io::Result<()> {
    let row_octets = width as usize * 3;
    if row_octets == 0 || pixels.len() != row_octets * height as usize {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "pixels do not fit the size of the picture"));
    }
    to.write_all(&SIGNATURE)?;
    let mut header = Vec::with_capacity(13);
    header.extend_from_slice(&width.to_be_bytes());
    header.extend_from_slice(&height.to_be_bytes());
    header.extend_from_slice(&FORM);
    chunk(*b"IHDR", &header, to)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    let first = vec![0; row_octets];
    let mut above = first.as_slice();
    for row in pixels.chunks_exact(row_octets) {
        let differences = row.iter().zip(above).map(|(octet, above)| octet.wrapping_sub(*above));
        let filtered: Vec<u8> = std::iter::once(FILTER_UP).chain(differences).collect();
        packed.write_all(&filtered)?;
        above = row;
    }
    chunk(*b"IDAT", &packed.finish()?, to)?;
    chunk(*b"IEND", &[], to)
}

fn chunk(name: [u8; 4], octets: &[u8], to: &mut impl Write) -> io::Result<()> {
    let length = u32::try_from(octets.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut checksum = Crc::new();
    checksum.update(&name);
    checksum.update(octets);
    to.write_all(&length.to_be_bytes())?;
    to.write_all(&name)?;
    to.write_all(octets)?;
    to.write_all(&checksum.sum().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Signature, IHDR and IEND of a picture of 2 by 1 pixels; the checksum of IEND is in every PNG file.
    #[test]
    fn a_file_has_its_chunks() {
        let mut file = Vec::new();
        write(&[255, 0, 0, 0, 0, 255], (2, 1), &mut file).expect("written");
        let header = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x02\x00\x00\x00\x01\x08\x02\x00\x00\x00";
        assert!(file.starts_with(header), "{file:x?}");
        assert!(file.ends_with(b"\x00\x00\x00\x00IEND\xae\x42\x60\x82"), "{file:x?}");
        assert!(write(&[0; 5], (2, 1), &mut file).is_err());
    }
}
