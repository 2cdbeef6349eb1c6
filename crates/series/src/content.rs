//! What a block has, whether its steps have been turned around or not.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::block::BlockFile;
use crate::folder::{FileKind, Folder};
use crate::frame::{self, Frame};
use crate::resolution::{BLOCK_STEPS, Resolution};
use crate::rows::{distinct, merged_sketch};
use crate::runs::Runs;
use crate::{Family, FamilyId, FamilyRows, MetricKind, SeriesError};

/// A block that can be read.
#[derive(Debug)]
pub(crate) enum Content {
    /// Series by series.
    Block(BlockFile),
    /// Step by step.
    Steps(StepsFile),
}

impl Content {
    /// Opens a block. A file that was turned around or back meanwhile is looked for as the other kind.
    pub(crate) fn open(
        folder: &Folder,
        resolution: Resolution,
        block: i64,
        kind: FileKind,
    ) -> Result<Option<Self>, SeriesError> {
        Self::opened(folder, resolution, block, kind, false)
    }

    /// The same without steps whose checksums are wrong.
    pub(crate) fn verified(
        folder: &Folder,
        resolution: Resolution,
        block: i64,
        kind: FileKind,
    ) -> Result<Option<Self>, SeriesError> {
        Self::opened(folder, resolution, block, kind, true)
    }

    fn opened(
        folder: &Folder,
        resolution: Resolution,
        block: i64,
        kind: FileKind,
        verify: bool,
    ) -> Result<Option<Self>, SeriesError> {
        let opened = |kind| match kind {
            FileKind::Block => Ok(BlockFile::open(folder.file(resolution, block, kind), resolution)?.map(Self::Block)),
            FileKind::Steps => StepsFile::open(folder, resolution, block, verify).map(|file| file.map(Self::Steps)),
        };
        let other = if kind == FileKind::Steps { FileKind::Block } else { FileKind::Steps };
        match opened(kind)? {
            None => opened(other),
            found => Ok(found),
        }
    }

    /// When the steps begin that it has.
    pub(crate) fn times(&self, resolution: Resolution, block: i64) -> impl Iterator<Item = i64> + '_ {
        let time = move |place: i64| block * resolution.block_secs() + place * i64::from(resolution.step_secs);
        (0..).zip(self.known()).filter(|(_, known)| **known > 0).map(move |(place, _)| time(place))
    }

    /// For each step how many of the finest steps are in it; 0 for a gap.
    pub(crate) fn known(&self) -> &[u32; BLOCK_STEPS] {
        match self {
            Self::Block(file) => &file.known,
            Self::Steps(file) => &file.known,
        }
    }

    /// The places of steps that are left out because their checksums are wrong, ascending.
    pub(crate) fn damaged(&self) -> &[u16] {
        match self {
            Self::Block(_) => &[],
            Self::Steps(file) => &file.damaged_places,
        }
    }

    /// Reads the series `first..=last` of a family. A block that is damaged where they are is an error; of steps those that are
    /// damaged there are left out and noted.
    pub(crate) fn runs(&self, id: FamilyId, family: &Family, first: u32, last: u32) -> Result<Runs, SeriesError> {
        match self {
            Self::Block(file) => file.runs(id, first, last),
            Self::Steps(file) => file.runs(id, family, first, last),
        }
    }

    /// The series of a family that have a value; from a file of steps some come more than once.
    pub(crate) fn ids(&self, id: FamilyId) -> Result<Vec<u32>, SeriesError> {
        match self {
            Self::Block(file) => file.ids(id),
            Self::Steps(file) => {
                let groups = file.groups(id).map(|(_, group)| file.rows(&group, 0, u32::MAX));
                Ok(groups.collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(|rows| rows.ids).collect())
            }
        }
    }
}

/// A file of steps.
#[derive(Debug)]
pub(crate) struct StepsFile {
    path: PathBuf,
    file: File,
    resolution: Resolution,
    pub(crate) frames: Vec<Frame>,
    known: [u32; BLOCK_STEPS],
    /// Octets up to the end of the last whole frame.
    pub(crate) octets: u64,
    /// Frames that are left out because their checksums are wrong.
    pub(crate) damaged: u64,
    /// The continuations of the last frame.
    pub(crate) continuations: u32,
    /// The places of their steps, ascending. Of a step that came in parts no part is known when one is damaged.
    damaged_places: Vec<u16>,
}

impl StepsFile {
    /// Opens the steps of a block; `None` when there is no such file. With `verify` every checksum is looked at.
    pub(crate) fn open(
        folder: &Folder,
        resolution: Resolution,
        block: i64,
        verify: bool,
    ) -> Result<Option<Self>, SeriesError> {
        let path = folder.file(resolution, block, FileKind::Steps);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SeriesError::io("open", &path)(error)),
        };
        let mut found = frame::frames(&file, resolution.step_secs, verify).map_err(SeriesError::io("read", &path))?;
        let damaged_places = places_of(&found.damaged, resolution, block);
        if !damaged_places.is_empty() {
            let is_damaged = |frame: &Frame| damaged_places.contains(&(resolution.place_of(frame.time_secs) as u16));
            found.frames.retain(|frame| !is_damaged(frame));
        }
        let mut known = [0; BLOCK_STEPS];
        for frame in &found.frames {
            let place = &mut known[resolution.place_of(frame.time_secs)];
            *place = frame.known.max(*place);
        }
        Ok(Some(Self {
            path,
            file,
            resolution,
            frames: found.frames,
            known,
            octets: found.octets,
            damaged: found.damaged.len() as u64,
            continuations: found.continuations.unwrap_or_default(),
            damaged_places,
        }))
    }

    pub(crate) fn known(&self) -> &[u32; BLOCK_STEPS] {
        &self.known
    }

    /// The groups of a family with the places of their steps.
    pub(crate) fn groups(&self, id: FamilyId) -> impl Iterator<Item = (u16, frame::Group)> + '_ {
        let place = |frame: &Frame| self.resolution.place_of(frame.time_secs) as u16;
        self.frames.iter().filter_map(move |frame| Some((place(frame), frame.group(id)?)))
    }

    /// The largest number of a series of a family.
    pub(crate) fn last_id(&self, id: FamilyId) -> Result<u32, SeriesError> {
        let lasts = self.groups(id).map(|(_, group)| group.last_id(&self.file));
        lasts.reduce(|one, other| Ok(one?.max(other?))).unwrap_or(Ok(0)).map_err(SeriesError::io("read", &self.path))
    }

    /// Rows of one group.
    pub(crate) fn rows(&self, group: &frame::Group, first: u32, last: u32) -> Result<FamilyRows, SeriesError> {
        group.rows(&self.file, first, last).map_err(SeriesError::io("read", &self.path))
    }

    /// Reads the series `first..=last`, and sorts them by series.
    pub(crate) fn runs(&self, id: FamilyId, family: &Family, first: u32, last: u32) -> Result<Runs, SeriesError> {
        let (mut steps, mut damaged) = (Vec::new(), Vec::new());
        let (mut width, mut sketches) = (0, 0);
        for (place, group) in self.groups(id) {
            let rows = match self.rows(&group, first, last) {
                Err(error) if error.is_damage() => {
                    damaged.push(place);
                    continue;
                }
                rows => rows?,
            };
            width = width.max(rows.columns.len());
            sketches = sketches.max(rows.sketches.len());
            if !rows.ids.is_empty() {
                steps.push((place, rows));
            }
        }
        // another part of the step would be half of it
        steps.retain(|(place, _)| !damaged.contains(place));
        let mut runs = sorted_runs(&steps, family, width, sketches);
        runs.damaged = damaged;
        Ok(runs)
    }
}

/// The places of steps between times, ascending.
fn places_of(times: &[(i64, i64)], resolution: Resolution, block: i64) -> Vec<u16> {
    let time = |place: u16| block * resolution.block_secs() + i64::from(place) * i64::from(resolution.step_secs);
    let is_in = |place: &u16| times.iter().any(|&(first, last)| (first..=last).contains(&time(*place)));
    (0..BLOCK_STEPS as u16).filter(is_in).collect()
}

/// Sorts the rows of steps, which come with their places, by series.
fn sorted_runs(steps: &[(u16, FamilyRows)], family: &Family, width: usize, sketches: usize) -> Runs {
    let mut order: Vec<(u32, u32, u32)> = Vec::new();
    for (step, (_, rows)) in (0_u32..).zip(steps) {
        order.extend((0_u32..).zip(&rows.ids).map(|(row, &id)| (id, step, row)));
    }
    // by series and then by step: steps are in order, so a stable sort by series is enough
    order.sort_by_key(|&(id, ..)| id);
    let mut runs = Runs::new(width, sketches);
    let mut last_place = None;
    for (index, &(id, step, row)) in order.iter().enumerate() {
        let (place, rows) = &steps[step as usize];
        let is_amended = last_place == Some(*place);
        for (column, (out, values)) in runs.columns.iter_mut().zip(&rows.columns).enumerate() {
            let value = values[row as usize];
            match out.last_mut().filter(|_| is_amended) {
                Some(old) => *old = amended(*old, value, family, column),
                None => out.push(value),
            }
        }
        for (metric, out) in runs.sketches.iter_mut().enumerate() {
            let new = rows.sketch(metric, row as usize);
            let Some(old) = out.last_mut().filter(|_| is_amended) else {
                out.push(new.unwrap_or_default().into());
                continue;
            };
            let known = Some(&**old).filter(|octets| !octets.is_empty());
            *old = merged_sketch(&family.metrics[metric], [known, new].into_iter());
            if let Some((value, count)) = runs.columns[metric].last_mut().zip(distinct(old)) {
                *value = count;
            }
        }
        if !is_amended {
            runs.places.push(*place);
        }
        last_place = Some(*place);
        if order.get(index + 1).is_none_or(|&(next, ..)| next != id) {
            runs.end_run(id);
            last_place = None;
        }
    }
    runs
}

/// The value of a step that was written in two parts. Only finest steps are, whose columns are the metrics.
fn amended(old: u64, new: u64, family: &Family, column: usize) -> u64 {
    match family.metrics.get(column).map(|metric| metric.kind) {
        Some(MetricKind::Counter) => old.saturating_add(new),
        _ => old.max(new),
    }
}
