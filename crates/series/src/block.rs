//! Steps turned around: all values of a series in a block of 288 steps next to each other.
//!
//! ```text
//! file     run* family* footer footer_len:u32 footer_crc:u32 "weirblck"
//! run      len:u32 crc:u32 then presence: 0 for all known steps, or 1 and a bit for each of 288; then for each column
//!          its chunks, and for each column of sketches the chunks of their lengths and their octets
//! family   page* first number of each page:u32
//! page     crc:u32 then for each of 512 series, of fewer in the last page, ascending: number:u32, then for each: offset of
//!          its run:u64
//! footer   version:u32 step_secs:u32 known:u32 (288 times) families:u16
//!          (family:u16 series:u32 columns:u8 sketches:u8 offset of its first page:u64 crc of its first numbers:u32)*
//! ```
//!
//! Everything has the lowest octet first. A series is found by the first numbers of the pages and one page, and everything
//! that is read for it is verified.
//!
//! Two earlier versions are read. Both have, instead of pages, all numbers of a family and then all offsets, without a
//! checksum; the numbers of series are dense, so the place of one is guessed from the first and the last one and found
//! with one or two reads. The first version has no sketches, nor their number.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::column::{Fields, pack, pack_sketches, unpack, unpack_sketches};
use crate::resolution::{BLOCK_STEPS, Resolution};
use crate::runs::Runs;
use crate::{FamilyId, SeriesError};

const MAGIC: &[u8; 8] = b"weirblck";
const VERSION: u32 = 3;
/// Blocks whose directories have no checksums.
const SECOND_VERSION: u32 = 2;
/// Blocks without sketches, too.
const FIRST_VERSION: u32 = 1;
/// Series of a page of a directory.
const PAGE_SERIES: usize = 512;
/// Octets of a series in a directory: its number and where its run is.
const ENTRY_LEN: usize = 12;
/// Octets of a page that is full.
const PAGE_LEN: usize = 4 + PAGE_SERIES * ENTRY_LEN;
const TRAILER_LEN: u64 = 16;
/// Octets of the presence of steps, one bit each.
const PRESENCE_LEN: usize = BLOCK_STEPS / 8;
/// Octets that are read of a run at first; most are shorter.
const RUN_READ: usize = 4096;
/// Octets that are read at once when many runs are.
const RUNS_READ: usize = 1 << 20;

/// A family in a block.
#[derive(Debug, Clone, Copy)]
struct Section {
    family: FamilyId,
    series: u32,
    columns: u8,
    sketches: u8,
    /// Where its directory is.
    directory: u64,
    /// The checksum of the first numbers of its pages; `None` in earlier versions, which have no pages.
    index_crc: Option<u32>,
}

/// A block that can be read.
#[derive(Debug)]
pub(crate) struct BlockFile {
    path: PathBuf,
    file: File,
    pub(crate) known: [u32; BLOCK_STEPS],
    sections: Vec<Section>,
}

impl BlockFile {
    /// Opens a block; `None` when there is no such file.
    pub(crate) fn open(path: PathBuf, resolution: Resolution) -> Result<Option<Self>, SeriesError> {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SeriesError::io("open", &path)(error)),
        };
        let footer = footer(&file).map_err(SeriesError::io("read", &path))?;
        let parsed = footer.and_then(|footer| parsed_footer(&footer, resolution.step_secs));
        let Some((known, sections)) = parsed else {
            return Err(SeriesError::Damaged { path, what: "it has no footer of a block of this resolution" });
        };
        Ok(Some(Self { path, file, known, sections }))
    }

    fn section(&self, family: FamilyId) -> Option<&Section> {
        self.sections.iter().find(|section| section.family == family)
    }

    /// The series of a family.
    pub(crate) fn ids(&self, family: FamilyId) -> Result<Vec<u32>, SeriesError> {
        let Some(section) = self.section(family) else { return Ok(Vec::new()) };
        if let Some(checksum) = section.index_crc {
            let entries = self.paged_entries(section, checksum, 0, u32::MAX)?;
            return Ok(entries.into_iter().map(|(id, _)| id).collect());
        }
        let octets = self.octets(section.directory, section.series as usize * 4);
        let octets = octets.map_err(SeriesError::io("read", &self.path))?;
        Ok(octets.chunks_exact(4).filter_map(|octets| Fields(octets).u32()).collect())
    }

    /// Reads the series `first..=last` of a family.
    pub(crate) fn runs(&self, family: FamilyId, first: u32, last: u32) -> Result<Runs, SeriesError> {
        let Some(section) = self.section(family) else { return Ok(Runs::default()) };
        let mut runs = Runs::new(usize::from(section.columns), usize::from(section.sketches));
        let entries = match section.index_crc {
            Some(checksum) => self.paged_entries(section, checksum, first, last)?,
            None => self.plain_entries(section, first, last).map_err(SeriesError::io("read", &self.path))?,
        };
        let read_ahead = if entries.len() == 1 { RUN_READ } else { RUNS_READ };
        let mut window = Window { start: 0, octets: Vec::new(), end: section.directory, read_ahead };
        for (id, offset) in entries {
            let io = |source| SeriesError::io("read", &self.path)(source);
            let head = window.octets(&self.file, offset, 8).map_err(io)?;
            let len = 8 + u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let run = window.octets(&self.file, offset, len).map_err(io)?;
            if self.unpack_run(run, &mut runs).is_none() {
                return Err(self.damaged("a series of it has a wrong checksum"));
            }
            runs.end_run(id);
        }
        Ok(runs)
    }

    fn damaged(&self, what: &'static str) -> SeriesError {
        SeriesError::Damaged { path: self.path.clone(), what }
    }

    /// The series `first..=last` of a directory in pages, and where their runs are. Only the pages that have them are read.
    fn paged_entries(
        &self,
        section: &Section,
        index_crc: u32,
        first: u32,
        last: u32,
    ) -> Result<Vec<(u32, u64)>, SeriesError> {
        let series = section.series as usize;
        let pages = series.div_ceil(PAGE_SERIES);
        let index = section.directory + (pages * 4 + series * ENTRY_LEN) as u64;
        let index = self.octets(index, pages * 4).map_err(SeriesError::io("read", &self.path))?;
        if crc32c::crc32c(&index) != index_crc {
            return Err(self.damaged("a directory of it has a wrong checksum"));
        }
        let first_ids: Vec<u32> = index.chunks_exact(4).filter_map(|octets| Fields(octets).u32()).collect();
        let from = first_ids.partition_point(|&id| id <= first).saturating_sub(1);
        let until = first_ids.partition_point(|&id| id <= last);
        let mut entries = Vec::new();
        for page in from..until {
            let count = (series - page * PAGE_SERIES).min(PAGE_SERIES);
            let place = section.directory + (page * PAGE_LEN) as u64;
            let octets = self.octets(place, 4 + count * ENTRY_LEN).map_err(SeriesError::io("read", &self.path))?;
            let (checksum, octets) = octets.split_at(4);
            if Fields(checksum).u32() != Some(crc32c::crc32c(octets)) {
                return Err(self.damaged("a directory of it has a wrong checksum"));
            }
            let (ids, offsets) = octets.split_at(count * 4);
            let page = ids.chunks_exact(4).zip(offsets.chunks_exact(8));
            let page = page.filter_map(|(id, offset)| Some((Fields(id).u32()?, Fields(offset).u64()?)));
            entries.extend(page.filter(|(id, _)| (first..=last).contains(id)));
        }
        Ok(entries)
    }

    /// The same of a directory of earlier versions, which has no checksums.
    fn plain_entries(&self, section: &Section, first: u32, last: u32) -> io::Result<Vec<(u32, u64)>> {
        let from = self.lower_bound(section, first)?;
        let until = match last.checked_add(1) {
            Some(_) if last == first => from + u32::from(from < section.series && self.id(section, from)? == first),
            Some(end) => self.lower_bound(section, end)?,
            None => section.series,
        };
        if from >= until {
            return Ok(Vec::new());
        }
        let count = (until - from) as usize;
        let ids = self.octets(section.directory + u64::from(from) * 4, count * 4)?;
        let offsets = section.directory + u64::from(section.series) * 4 + u64::from(from) * 8;
        let offsets = self.octets(offsets, count * 8)?;
        let entries = ids.chunks_exact(4).zip(offsets.chunks_exact(8));
        Ok(entries.filter_map(|(id, offset)| Some((Fields(id).u32()?, Fields(offset).u64()?))).collect())
    }

    fn octets(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut octets = vec![0; len];
        self.file.read_exact_at(&mut octets, offset)?;
        Ok(octets)
    }

    fn id(&self, section: &Section, index: u32) -> io::Result<u32> {
        let mut octets = [0; 4];
        self.file.read_exact_at(&mut octets, section.directory + u64::from(index) * 4)?;
        Ok(u32::from_le_bytes(octets))
    }

    /// How many series have smaller numbers. Numbers are dense, so the place is guessed first.
    fn lower_bound(&self, section: &Section, id: u32) -> io::Result<u32> {
        if section.series == 0 {
            return Ok(0);
        }
        let (mut low, mut high) = (0, section.series - 1);
        let (mut low_id, mut high_id) = (self.id(section, low)?, self.id(section, high)?);
        if id <= low_id {
            return Ok(0);
        }
        if id > high_id {
            return Ok(section.series);
        }
        // the series at `low` is smaller, that at `high` is not
        let mut guesses = 0;
        while high - low > 1 {
            let share = u64::from(id - low_id) * u64::from(high - low) / u64::from(high_id - low_id);
            let guess = if guesses % 2 == 0 { low + share as u32 } else { low + (high - low) / 2 };
            let middle = guess.clamp(low + 1, high - 1);
            guesses += 1;
            match self.id(section, middle)? {
                found if found == id => return Ok(middle),
                found if found < id => (low, low_id) = (middle, found),
                found => (high, high_id) = (middle, found),
            }
        }
        Ok(high)
    }

    fn unpack_run(&self, run: &[u8], runs: &mut Runs) -> Option<()> {
        let mut fields = Fields(run);
        fields.u32()?;
        (fields.u32()? == crc32c::crc32c(fields.0)).then_some(())?;
        let before = runs.places.len();
        let places = 0..BLOCK_STEPS as u16;
        if fields.u8()? == 0 {
            runs.places.extend(places.filter(|&place| self.known[usize::from(place)] > 0));
        } else {
            let bits = fields.octets(PRESENCE_LEN)?;
            runs.places.extend(places.filter(|place| bits[usize::from(place / 8)] >> (place % 8) & 1 == 1));
        }
        let count = runs.places.len() - before;
        runs.columns.iter_mut().try_for_each(|column| unpack(&mut fields.0, count, column))?;
        runs.sketches.iter_mut().try_for_each(|column| unpack_sketches(&mut fields.0, count, column))
    }
}

/// A part of a file in memory. Runs that are next to each other are read together.
#[derive(Debug)]
struct Window {
    start: u64,
    octets: Vec<u8>,
    /// Where runs end in the file.
    end: u64,
    read_ahead: usize,
}

impl Window {
    /// The octets at an offset.
    fn octets(&mut self, file: &File, offset: u64, len: usize) -> io::Result<&[u8]> {
        let wanted_end = offset.saturating_add(len as u64);
        if wanted_end > self.end {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a series of the block has an absurd length"));
        }
        if offset < self.start || wanted_end > self.start + self.octets.len() as u64 {
            let len = (self.read_ahead.max(len) as u64).min(self.end - offset);
            self.octets.resize(len as usize, 0);
            file.read_exact_at(&mut self.octets, offset)?;
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.octets[from..from + len])
    }
}

fn footer(file: &File) -> io::Result<Option<Vec<u8>>> {
    let len = file.metadata()?.len();
    if len < TRAILER_LEN {
        return Ok(None);
    }
    // the trailer and, nearly always, the footer in one read
    let end_len = len.min(2048);
    let mut end = vec![0; end_len as usize];
    file.read_exact_at(&mut end, len - end_len)?;
    let mut trailer = Fields(&end[end.len() - TRAILER_LEN as usize..]);
    let (Some(footer_len), Some(checksum)) = (trailer.u32(), trailer.u32()) else { return Ok(None) };
    let footer_len = u64::from(footer_len);
    if trailer.0 != MAGIC || footer_len > len - TRAILER_LEN || footer_len > 1 << 21 {
        return Ok(None);
    }
    let footer = if footer_len + TRAILER_LEN <= end.len() as u64 {
        let until = end.len() - TRAILER_LEN as usize;
        end[until - footer_len as usize..until].to_vec()
    } else {
        let mut footer = vec![0; footer_len as usize];
        file.read_exact_at(&mut footer, len - TRAILER_LEN - footer_len)?;
        footer
    };
    Ok((crc32c::crc32c(&footer) == checksum).then_some(footer))
}

fn parsed_footer(footer: &[u8], step_secs: u32) -> Option<([u32; BLOCK_STEPS], Vec<Section>)> {
    let mut fields = Fields(footer);
    let version = fields.u32()?;
    ([FIRST_VERSION, SECOND_VERSION, VERSION].contains(&version) && fields.u32()? == step_secs).then_some(())?;
    let mut known = [0; BLOCK_STEPS];
    for known in &mut known {
        *known = fields.u32()?;
    }
    let count = fields.u16()?;
    let mut sections = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let (family, series) = (FamilyId(fields.u16()?), fields.u32()?);
        let columns = fields.u8()?;
        let sketches = if version == FIRST_VERSION { 0 } else { fields.u8()? };
        let directory = fields.u64()?;
        let index_crc = if version == VERSION { Some(fields.u32()?) } else { None };
        sections.push(Section { family, series, columns, sketches, directory, index_crc });
    }
    Some((known, sections))
}

/// Writes a block, which gets its name when it is whole.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    path: PathBuf,
    part: PathBuf,
    file: BufWriter<File>,
    octets: u64,
    known: [u32; BLOCK_STEPS],
    step_secs: u32,
    sections: Vec<Section>,
    /// Series of the family that is being written, and where their runs are.
    entries: Vec<(u32, u64)>,
    run: Vec<u8>,
}

impl BlockWriter {
    pub(crate) fn create(path: &Path, resolution: Resolution, known: &[u32; BLOCK_STEPS]) -> Result<Self, SeriesError> {
        let part = path.with_extension("part");
        let file = weir_disk::create(&part).map_err(SeriesError::io("create", &part))?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file: BufWriter::with_capacity(1 << 20, file),
            octets: 0,
            known: *known,
            step_secs: resolution.step_secs,
            sections: Vec::new(),
            entries: Vec::new(),
            run: Vec::new(),
        })
    }

    /// Appends series of the family that is being written; their numbers are above those written before.
    pub(crate) fn write(&mut self, runs: &Runs) -> Result<(), SeriesError> {
        let known_steps = self.known.iter().filter(|known| **known > 0).count();
        for (index, id) in runs.ids.iter().enumerate() {
            let rows = runs.rows(index);
            self.run.clear();
            self.run.resize(8, 0);
            if rows.len() == known_steps {
                self.run.push(0);
            } else {
                self.run.push(1);
                let mut bits = [0_u8; PRESENCE_LEN];
                for place in &runs.places[rows.clone()] {
                    bits[usize::from(place / 8)] |= 1 << (place % 8);
                }
                self.run.extend_from_slice(&bits);
            }
            for column in &runs.columns {
                pack(&column[rows.clone()], &mut self.run);
            }
            for column in &runs.sketches {
                pack_sketches(&column[rows.clone()], &mut self.run);
            }
            let len = (self.run.len() - 8) as u32;
            let checksum = crc32c::crc32c(&self.run[8..]);
            self.run[..4].copy_from_slice(&len.to_le_bytes());
            self.run[4..8].copy_from_slice(&checksum.to_le_bytes());
            self.entries.push((*id, self.octets));
            self.file.write_all(&self.run).map_err(SeriesError::io("write", &self.part))?;
            self.octets += self.run.len() as u64;
        }
        Ok(())
    }

    /// Ends the family that is being written.
    pub(crate) fn end_family(&mut self, family: FamilyId, columns: usize, sketches: usize) -> Result<(), SeriesError> {
        let series = self.entries.len() as u32;
        let (columns, sketches) = (columns as u8, sketches as u8);
        let mut directory = Vec::with_capacity(self.entries.len() * ENTRY_LEN);
        let mut index = Vec::new();
        for page in self.entries.chunks(PAGE_SERIES) {
            index.extend_from_slice(&page[0].0.to_le_bytes());
            let mut octets: Vec<u8> = page.iter().flat_map(|(id, _)| id.to_le_bytes()).collect();
            octets.extend(page.iter().flat_map(|(_, offset)| offset.to_le_bytes()));
            directory.extend_from_slice(&crc32c::crc32c(&octets).to_le_bytes());
            directory.extend_from_slice(&octets);
        }
        let index_crc = Some(crc32c::crc32c(&index));
        self.sections.push(Section { family, series, columns, sketches, directory: self.octets, index_crc });
        for octets in [&directory, &index] {
            self.file.write_all(octets).map_err(SeriesError::io("write", &self.part))?;
            self.octets += octets.len() as u64;
        }
        self.entries.clear();
        Ok(())
    }

    /// Ends the block, which is durable then.
    pub(crate) fn finish(mut self) -> Result<(), SeriesError> {
        let mut footer = [VERSION.to_le_bytes(), self.step_secs.to_le_bytes()].concat();
        footer.extend(self.known.iter().flat_map(|known| known.to_le_bytes()));
        footer.extend_from_slice(&(self.sections.len() as u16).to_le_bytes());
        for section in &self.sections {
            footer.extend_from_slice(&section.family.0.to_le_bytes());
            footer.extend_from_slice(&section.series.to_le_bytes());
            footer.extend_from_slice(&[section.columns, section.sketches]);
            footer.extend_from_slice(&section.directory.to_le_bytes());
            footer.extend_from_slice(&section.index_crc.unwrap_or_default().to_le_bytes());
        }
        let trailer =
            [&(footer.len() as u32).to_le_bytes()[..], &crc32c::crc32c(&footer).to_le_bytes(), &MAGIC[..]].concat();
        let written = self.file.write_all(&footer).and_then(|()| self.file.write_all(&trailer));
        written.and_then(|()| self.file.flush()).map_err(SeriesError::io("write", &self.part))?;
        weir_disk::sync(self.file.get_ref(), &self.part).map_err(SeriesError::io("sync", &self.part))?;
        weir_disk::rename(&self.part, &self.path).map_err(SeriesError::io("rename", &self.part))?;
        crate::folder::sync_parent(&self.path)
    }
}
