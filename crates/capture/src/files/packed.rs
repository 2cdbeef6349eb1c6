//! How captures are compressed, and what takes that off.
//!
//! The first octets show it. Every decompressor works on a stream, in memory that has a limit. They are read in small
//! pieces: what one has unpacked in the call in which it meets damage is lost, and what it has handed on before is not.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;

/// Octets that show how a file is compressed, if it is.
pub(super) const MAGIC_OCTETS: usize = 6;
/// Compressed octets read at a time.
const PACKED_OCTETS: usize = 128 << 10;
/// Octets that are unpacked in one call.
const PIECE_OCTETS: usize = 16 << 10;
/// Memory for one file of xz, in units of 1,024 octets: a dictionary of 128 MiB and what the decoder needs beside it. The
/// presets of xz end at 64 MiB, and 128 MiB is also what libzstd takes.
const XZ_MEMORY_KIB: u32 = 129 << 10;

/// What libzstd reports of a window that is larger than 128 MiB: `ZSTD_error_frameParameter_windowTooLarge` in its
/// `error_private.c`. Its code is lost on the way, the text is not.
const ZSTD_WINDOW_TOO_LARGE: &str = "Frame requires too much memory for decoding";

/// A compression that captures may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packed {
    /// RFC 1952; several members are one file.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The file format of XZ Utils, version 1.2; several streams are one file.
    Xz,
    /// bzip2; several streams are one file.
    Bzip2,
    /// The frame format of LZ4, version 1.6; several frames are one file. Neither the format before it nor frames to be
    /// skipped.
    Lz4,
}

impl Packed {
    /// How a file is compressed that begins with these octets; `None` when it is not, or otherwise.
    pub(super) fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Self::Bzip2),
            [0x04, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }

    /// Whether a file may declare that unpacking it takes tens of MiB. The others take a few.
    pub(super) fn takes_much_memory(self) -> bool {
        matches!(self, Self::Zstd | Self::Xz)
    }

    /// What people call it.
    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
        }
    }

    /// A reader of what is in a file.
    pub(super) fn unpack<'a>(self, whole: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        let whole = BufReader::with_capacity(PACKED_OCTETS, whole);
        let reader: Box<dyn Read + Send + 'a> = match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(whole)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
            Self::Xz => Box::new(XzReader::new_mem_limit(whole, true, XZ_MEMORY_KIB)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(whole)),
            Self::Lz4 => Box::new(Lz4Frames::new(whole)),
        };
        Ok(Box::new(Unpacked { packed: self, reader }))
    }
}

/// The content of a compressed file, in pieces.
struct Unpacked<'a> {
    packed: Packed,
    reader: Box<dyn Read + Send + 'a>,
}

impl Unpacked<'_> {
    /// Says of which compression an error is; those of the system stay as they are.
    fn explained(&self, error: io::Error) -> io::Error {
        let (kind, name) = (error.kind(), self.packed.name());
        if error.raw_os_error().is_some() || kind == ErrorKind::Interrupted {
            return error;
        }
        let text = match kind {
            ErrorKind::UnexpectedEof => format!("the {name} file is cut short"),
            _ if self.packed == Packed::Zstd && error.to_string() == ZSTD_WINDOW_TOO_LARGE => {
                "unpacking the zstd file takes more than 128 MiB of memory".to_owned()
            }
            ErrorKind::OutOfMemory => {
                format!("unpacking the {name} file takes more than {} MiB of memory", XZ_MEMORY_KIB >> 10)
            }
            _ => format!("the {name} file is damaged: {error}"),
        };
        io::Error::new(kind, text)
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let octets = into.len().min(PIECE_OCTETS);
        self.reader.read(&mut into[..octets]).map_err(|error| self.explained(error))
    }
}

/// Frames of LZ4 one after the other.
///
/// The decoder reports an end after each frame, and also where the file ends between two blocks of a frame. It asks for no
/// octet behind the end of a frame, so a file that ended while it was at work is cut short.
struct Lz4Frames<R: BufRead> {
    decoder: FrameDecoder<Watched<R>>,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(whole: R) -> Self {
        Self { decoder: FrameDecoder::new(Watched { reader: whole, has_ended: false }) }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let octets = self.decoder.read(into)?;
            if octets > 0 || into.is_empty() {
                return Ok(octets);
            }
            let whole = self.decoder.get_mut();
            if whole.has_ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if whole.reader.fill_buf()?.is_empty() {
                return Ok(0);
            }
        }
    }
}

/// A reader, and whether somebody has met its end.
struct Watched<R> {
    reader: R,
    has_ended: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let octets = self.reader.read(into)?;
        self.has_ended |= octets == 0 && !into.is_empty();
        Ok(octets)
    }
}

#[cfg(test)]
mod tests;
