//! The file of a summary: a directory, then the sections of rollups as the segment had them.
//!
//! ```text
//! "weir.sum"  version (4 octets)  number of sections (4)
//! for each section: kind (1)  offset in the file (8)  octets (8)  CRC-32C of them (4)
//! CRC-32C of all of the above (4)
//! sections, one behind the other, to the end of the file
//! ```
//!
//! Numbers are little-endian. A file without sections of rollups is that of flows that could not be summed up. A
//! section of kind 255 has the tails that its segment was made of, as text: `1-3,7`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::index::octets::{CorruptIndex, OctetReader, put_u32};
use crate::index::{ROLLUPS, Section};
use crate::rollup::Rollup;
use crate::tail_set::TailSet;
use crate::{Action, ArchiveError};

const MAGIC: &[u8; 8] = b"weir.sum";
const VERSION: u32 = 1;
/// Octets before the directory.
const START_OCTETS: usize = MAGIC.len() + 4 + 4;
/// Octets of a section in the directory.
const SECTION_OCTETS: usize = 1 + 8 + 8 + 4;
const CRC_OCTETS: usize = 4;
/// Kind of the section that has the tails.
const TAILS: u8 = u8::MAX;
/// Sections at most: their kinds have one octet.
const SECTIONS_MAX: u32 = 256;

/// A summary of these rollups, of a segment that was made of these tails.
pub(super) fn encode(rollups: &[(Rollup, Vec<u8>)], tails: &TailSet) -> Vec<u8> {
    let tails = tails.to_string().into_bytes();
    let rollups = rollups.iter().map(|(rollup, octets)| (ROLLUPS + *rollup as u8, octets));
    let sections: Vec<(u8, &Vec<u8>)> = rollups.chain([(TAILS, &tails)]).collect();
    let mut out = MAGIC.to_vec();
    put_u32(&mut out, VERSION);
    put_u32(&mut out, sections.len() as u32);
    let mut offset = (START_OCTETS + sections.len() * SECTION_OCTETS + CRC_OCTETS) as u64;
    for &(kind, octets) in &sections {
        let (octets, crc) = (octets.len() as u64, crc32c::crc32c(octets));
        Section { kind, offset, octets, crc }.put(&mut out);
        offset += octets;
    }
    let crc = crc32c::crc32c(&out);
    put_u32(&mut out, crc);
    for (_, octets) in sections {
        out.extend(octets);
    }
    out
}

/// The tails that the segment was made of; `None` in the files of older programs.
pub(super) fn tails(sections: &[Section], file: &File, path: &Path) -> Result<Option<TailSet>, ArchiveError> {
    let Some(section) = sections.iter().find(|section| section.kind == TAILS) else { return Ok(None) };
    let octets = section.read(file, path, "tails").map_err(super::of_summary)?;
    let tails = std::str::from_utf8(&octets).ok().and_then(|text| text.parse().ok());
    let damaged = || ArchiveError::DamagedSummary { path: path.to_owned(), part: "tails".to_owned() };
    tails.map(Some).ok_or_else(damaged)
}

/// The sections of a summary. That they reach to the end of the file, each from where the one before ends, is checked.
pub(super) fn sections(file: &File, path: &Path) -> Result<Vec<Section>, ArchiveError> {
    let damaged = || ArchiveError::DamagedSummary { path: path.to_owned(), part: "directory".to_owned() };
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::UnexpectedEof => damaged(),
        _ => Action::ReadSummary.failed(path)(source),
    };
    let mut start = [0; START_OCTETS];
    file.read_exact_at(&mut start, 0).map_err(failed)?;
    let (version, count) = parse_start(&start).map_err(|CorruptIndex| damaged())?;
    if version != VERSION {
        let part = format!("version {version} instead of {VERSION}");
        return Err(ArchiveError::DamagedSummary { path: path.to_owned(), part });
    }
    let mut octets = vec![0; START_OCTETS + count as usize * SECTION_OCTETS + CRC_OCTETS];
    file.read_exact_at(&mut octets, 0).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    parse_directory(&octets, count, length).map_err(|CorruptIndex| damaged())
}

fn parse_start(octets: &[u8; START_OCTETS]) -> Result<(u32, u32), CorruptIndex> {
    let mut reader = OctetReader::new(octets);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(CorruptIndex);
    }
    let (version, count) = (reader.u32()?, reader.u32()?);
    if count > SECTIONS_MAX { Err(CorruptIndex) } else { Ok((version, count)) }
}

fn parse_directory(octets: &[u8], count: u32, length: u64) -> Result<Vec<Section>, CorruptIndex> {
    let (signed, crc) = octets.split_at_checked(octets.len().saturating_sub(CRC_OCTETS)).ok_or(CorruptIndex)?;
    if OctetReader::new(crc).u32()? != crc32c::crc32c(signed) {
        return Err(CorruptIndex);
    }
    let mut reader = OctetReader::new(signed);
    reader.take(START_OCTETS)?;
    let sections = (0..count).map(|_| Section::parse(&mut reader)).collect::<Result<Vec<_>, CorruptIndex>>()?;
    let end = sections.iter().try_fold(octets.len() as u64, |at, section| {
        (section.offset == at).then(|| at.checked_add(section.octets)).flatten()
    });
    if end == Some(length) { Ok(sections) } else { Err(CorruptIndex) }
}
