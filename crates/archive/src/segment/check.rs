//! Whether a segment's file is what was written, octet by octet.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use parquet::file::reader::{FileReader, SerializedFileReader};

use super::Segment;
use crate::index::{HEADER_AT, HEADER_OCTETS, Header, SegmentIndex};
use crate::{Action, ArchiveError};

/// The key under which Parquet's footer says where the index is.
pub(super) const INDEX_KEY: &str = "weir.index";

/// What every Parquet file begins and ends with.
const MAGIC: &[u8; 4] = b"PAR1";

/// Octets read at a time.
const PIECE_OCTETS: u64 = 1 << 20;

/// The checksum of some octets of the file, by their offset and number.
type SumOf<'a> = dyn Fn(u64, u64) -> Result<u32, ArchiveError> + 'a;

impl Segment {
    /// Reads the whole file and verifies every checksum; an error names the part that is damaged. The checksums cover
    /// every octet. Of a segment without an index only what Parquet itself can verify is checked: that all of it can be
    /// decoded.
    pub fn check(&self) -> Result<(), ArchiveError> {
        match self.index()? {
            Some(index) => self.check_parts(&index, &|at, octets| self.sum(&index.file, at, octets)),
            None => self.check_old(),
        }
    }

    /// Verifies the checksum of Parquet's page index and footer in the open file of a segment that has one.
    pub fn verify_footer(&self, file: &File) -> Result<(), ArchiveError> {
        let Some(header) = Header::read(file, &self.path())? else { return Ok(()) };
        let at = header.index.offset.saturating_add(header.index.octets);
        let octets = self.octets.saturating_sub(at);
        if self.sum(file, at, octets)? == header.footer_crc { Ok(()) } else { Err(self.damaged("footer")) }
    }

    /// Verifies the checksums of a segment that has any.
    pub(super) fn verify(&self) -> Result<(), ArchiveError> {
        let Some(index) = self.index()? else { return Ok(()) };
        self.check_parts(&index, &|at, octets| self.sum(&index.file, at, octets))
    }

    /// The same for all octets of the file, which were read before.
    pub(super) fn verify_octets(&self, all: &[u8]) -> Result<(), ArchiveError> {
        let Some(index) = self.index()? else { return Ok(()) };
        // what is behind the end of the file is left out
        let part = |at: u64, octets: u64| {
            let rest = all.get(at as usize..).unwrap_or_default();
            &rest[..rest.len().min(octets as usize)]
        };
        self.check_parts(&index, &|at, octets| Ok(crc32c::crc32c(part(at, octets))))
    }

    fn damaged(&self, part: impl Into<String>) -> ArchiveError {
        ArchiveError::DamagedSegment { path: self.path(), part: part.into() }
    }

    fn check_old(&self) -> Result<(), ArchiveError> {
        let file = self.file()?;
        let reader = SerializedFileReader::new(file).map_err(|error| self.damaged(format!("footer: {error}")))?;
        let keys = reader.metadata().file_metadata().key_value_metadata();
        if keys.is_some_and(|keys| keys.iter().any(|pair| pair.key == INDEX_KEY)) {
            return Err(self.damaged("header"));
        }
        let rows = self.read()?.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        if rows == self.rows { Ok(()) } else { Err(self.damaged(format!("{rows} rows instead of {}", self.rows))) }
    }

    fn check_parts(&self, index: &SegmentIndex, sum: &SumOf<'_>) -> Result<(), ArchiveError> {
        let file = &index.file;
        let path = self.path();
        let failed = Action::OpenSegment.failed(&path);
        let Some(header) = Header::read(file, &path)? else { return Err(self.damaged("header")) };
        let length = file.metadata().map_err(failed)?.len();
        if sum(0, HEADER_AT)? != crc32c::crc32c(MAGIC) {
            return Err(self.damaged("start of the file"));
        }
        let mut at = HEADER_AT + HEADER_OCTETS as u64;
        for group in 0..index.row_groups() {
            for leaf in 0..index.contents.leaves {
                let part = || format!("column chunk {leaf} of row group {group}");
                let Ok(chunk) = index.chunk(group, leaf) else { return Err(self.damaged(part())) };
                self.check_part(sum, &mut at, (chunk.offset, chunk.octets, chunk.crc), &part)?;
            }
        }
        for section in &index.contents.sections {
            let part = || format!("section {} of the index", section.kind);
            self.check_part(sum, &mut at, (section.offset, section.octets, section.crc), &part)?;
        }
        let part = || "index".to_owned();
        self.check_part(sum, &mut at, (header.index.offset, header.index.octets, header.index.crc), &part)?;
        let rest = length.checked_sub(at).ok_or_else(|| self.damaged("end of the file"))?;
        let footer = (at, rest, header.footer_crc);
        self.check_part(sum, &mut at, footer, &|| "footer".to_owned())?;
        let rows = index.row_group_rows(index.row_groups().saturating_sub(1)).end;
        if rows == self.rows { Ok(()) } else { Err(self.damaged(format!("{rows} rows instead of {}", self.rows))) }
    }

    /// A part must begin where the one before has ended, so that no octet goes unchecked.
    fn check_part(
        &self,
        sum: &SumOf<'_>,
        at: &mut u64,
        (offset, octets, crc): (u64, u64, u32),
        part: &dyn Fn() -> String,
    ) -> Result<(), ArchiveError> {
        if offset != *at || sum(offset, octets)? != crc {
            return Err(self.damaged(part()));
        }
        *at += octets;
        Ok(())
    }

    /// CRC-32C of some octets; what is behind the end of the file is left out.
    fn sum(&self, file: &File, offset: u64, octets: u64) -> Result<u32, ArchiveError> {
        let (mut crc, mut at, end) = (0, offset, offset.saturating_add(octets));
        let mut piece = vec![0; PIECE_OCTETS.min(octets) as usize];
        while at < end {
            let wanted = (end - at).min(PIECE_OCTETS) as usize;
            let read = match file.read_at(&mut piece[..wanted], at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(source) => return Err(Action::OpenSegment.failed(&self.path())(source)),
            };
            crc = crc32c::crc32c_append(crc, &piece[..read]);
            at += read as u64;
        }
        Ok(crc)
    }
}
