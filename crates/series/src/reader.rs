//! Reads series.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::path::Path;

use crate::consolidation::FOLDS;
use crate::content::Content;
use crate::folder::{DescribedFamily, Description, FileKind, Folder, LostKeys};
use crate::resolution::{BLOCK_STEPS, Resolution};
use crate::runs::Runs;
use crate::{
    Catalogue, Damage, DistinctSketch, Family, FamilyId, MetricKind, QuantileSketch, SeriesError, SeriesId, Sketch,
};

/// A store that is read, also while it is written.
#[derive(Debug)]
pub struct SeriesStore {
    pub(crate) folder: Folder,
    description: Description,
    families: Vec<Family>,
}

/// Series as they were read: one entry for each step of the time asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetched {
    /// When the first step begins, in seconds since the epoch.
    pub first_secs: i64,
    /// Length of a step in seconds.
    pub step_secs: u32,
    is_finest: bool,
    /// From this step on a key of a complete family that is absent was zero. Before, it may have had a number whose key is lost.
    zero_from: u32,
    /// For each step how many of the finest steps are known of it; 0 for a gap.
    pub known: Vec<u32>,
    /// Steps that are gaps because their files are damaged. Whoever shows the values must say so.
    pub damaged: Vec<Damage>,
    /// The series that have a value in these steps, ascending.
    pub series: Vec<FetchedSeries>,
}

/// The values of one series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSeries {
    /// Its number.
    pub id: SeriesId,
    is_finest: bool,
    /// The steps that have it, as places in [`Fetched::known`], ascending.
    pub steps: Vec<u32>,
    /// The values, for each column: the metrics in the finest resolution; the number of finest steps, and then sum, smallest,
    /// largest and last value of each metric in coarser ones.
    columns: Vec<Vec<u64>>,
    /// The sketches, for each metric; nothing when none of the steps has any.
    sketches: Vec<Vec<Box<[u8]>>>,
}

/// The blocks of a resolution.
pub(crate) type Blocks = BTreeMap<i64, FileKind>;

/// Most steps that are read at once: five years of an hour, and eight months of a second.
const STEPS_MAX: usize = 20_000_000;

/// Which series are read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ids<'a> {
    List(&'a [SeriesId]),
    /// From one number to another one, which is included.
    Range(u32, u32),
}

/// A metric of a series in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Sum over the finest steps.
    pub sum: u64,
    /// Smallest value of a finest step.
    pub min: u64,
    /// Largest value of a finest step.
    pub max: u64,
    /// Value of the last finest step.
    pub last: u64,
    /// Finest steps that the sum is of. The average is the sum divided by it.
    pub count: u32,
}

impl SeriesStore {
    /// Opens the store in a folder for reading.
    pub fn open(dir: &Path) -> Result<Self, SeriesError> {
        let folder = Folder(dir.to_owned());
        let description = folder.description()?.ok_or_else(|| SeriesError::NoStore(dir.to_owned()))?;
        let families = description.specs();
        Ok(Self { folder, description, families })
    }

    /// The resolutions, the finest first.
    pub fn resolutions(&self) -> &[Resolution] {
        &self.description.resolutions
    }

    /// The families, in the order of their numbers.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// A family by its name.
    pub fn family(&self, name: &str) -> Option<(FamilyId, &Family)> {
        let place = self.families().iter().position(|family| family.name == name)?;
        Some((FamilyId(place as u16), &self.families()[place]))
    }

    /// Reads which series there are. Keys whose lines are damaged beyond repair are not among them: whoever shows keys must say so, see
    /// [`Catalogue::damaged_lines`].
    pub fn catalogue(&self) -> Result<Catalogue, SeriesError> {
        Catalogue::read(&self.folder)
    }

    /// What is noted of keys that a family has lost.
    pub(crate) fn lost(&self, family: FamilyId) -> Option<LostKeys> {
        self.description.families.get(usize::from(family.0))?.lost
    }

    /// The largest number of a family of which it is noted that keys were lost: one without a key up to it was lost.
    pub(crate) fn last_lost(&self, family: FamilyId) -> Option<SeriesId> {
        self.lost(family).map(|lost| SeriesId(lost.last_number))
    }

    /// Whether a key that is not in the catalogue may be one that the family has lost.
    pub fn may_have_lost_keys(&self, family: FamilyId, catalogue: &Catalogue) -> bool {
        catalogue.damaged_lines() > 0 || self.lost(family).is_some()
    }

    /// The times of the first and the last step of a resolution; `None` when it has none.
    pub fn extent(&self, resolution: Resolution) -> Result<Option<(i64, i64)>, SeriesError> {
        let blocks = self.folder.blocks(resolution)?;
        let mut damage = None;
        let mut known = |(&block, &kind): (&i64, &FileKind)| match Content::open(&self.folder, resolution, block, kind)
        {
            Ok(content) => content.and_then(|content| {
                let times = || content.times(resolution, block);
                Some((times().next()?, times().last()?))
            }),
            // a block that is damaged hides no other one
            Err(error) => {
                damage = Some(error);
                None
            }
        };
        let first = blocks.iter().find_map(&mut known);
        let last = blocks.iter().rev().find_map(&mut known);
        match (first.zip(last), damage) {
            (None, Some(damage)) => Err(damage),
            (found, _) => Ok(found.map(|((first, _), (_, last))| (first, last))),
        }
    }

    /// The blocks that there are.
    pub(crate) fn blocks(&self, resolution: Resolution) -> Result<Blocks, SeriesError> {
        self.folder.blocks(resolution)
    }

    /// The finest resolution that still has the step of a time, when the newest is at `newest_secs`.
    pub fn resolution_for(&self, from_secs: i64, newest_secs: i64) -> Resolution {
        let kept = |resolution: &Resolution| from_secs >= newest_secs.saturating_sub(resolution.keep_secs as i64);
        let resolutions = self.resolutions();
        let mut at = resolutions.iter().position(kept).unwrap_or(resolutions.len() - 1);
        while let Some(coarser) = resolutions.get(at + 1)
            && self.was_dropped(resolutions[at], *coarser, from_secs)
        {
            at += 1;
        }
        resolutions[at]
    }

    /// Whether a limit by size has taken the step of a time from a resolution: the next coarser one has steps of before its first.
    fn was_dropped(&self, resolution: Resolution, coarser: Resolution, from_secs: i64) -> bool {
        let first_block = self.blocks(resolution).ok().and_then(|blocks| blocks.keys().next().copied());
        if first_block.is_none_or(|block| block.saturating_mul(resolution.block_secs()) <= from_secs) {
            return false;
        }
        let first = |of: Resolution| self.extent(of).ok().flatten().map(|(first_secs, _)| first_secs);
        let is_before = |(first_secs, coarser_secs): (i64, i64)| {
            coarser_secs.saturating_add(i64::from(coarser.step_secs)) <= first_secs
        };
        first(resolution).zip(first(coarser)).is_some_and(is_before)
    }

    /// Reads the series `ids` of a family, or all of them, from one time until another, in seconds since the epoch. The
    /// steps are those that begin in it. Steps whose files are damaged are gaps, and in [`Fetched::damaged`].
    pub fn fetch(
        &self,
        family: FamilyId,
        ids: Option<&[SeriesId]>,
        resolution: Resolution,
        from_secs: i64,
        until_secs: i64,
    ) -> Result<Fetched, SeriesError> {
        // a series that is asked for twice is read once
        let listed = ids.map(|ids| ids.iter().copied().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
        let ids = listed.as_deref().map_or(Ids::Range(0, u32::MAX), Ids::List);
        self.fetch_ids(family, ids, resolution, (from_secs, until_secs), &self.blocks(resolution)?)
    }

    /// The same of these blocks.
    pub(crate) fn fetch_ids(
        &self,
        family: FamilyId,
        ids: Ids<'_>,
        resolution: Resolution,
        (from_secs, until_secs): (i64, i64),
        blocks: &Blocks,
    ) -> Result<Fetched, SeriesError> {
        let step = i64::from(resolution.step_secs);
        let first_secs = from_secs.saturating_add(step - 1).div_euclid(step).saturating_mul(step);
        let span = until_secs.saturating_sub(first_secs).saturating_add(step - 1);
        let steps = usize::try_from(span.div_euclid(step)).unwrap_or(0);
        if steps > STEPS_MAX {
            return Err(SeriesError::TooManySteps { steps, max: STEPS_MAX });
        }
        let is_finest = resolution == self.resolutions()[0];
        let mut fetched = Fetched {
            first_secs,
            step_secs: resolution.step_secs,
            is_finest,
            zero_from: 0,
            known: vec![0; steps],
            damaged: Vec::new(),
            series: Vec::new(),
        };
        let Some(counted) = self.description.families.get(usize::from(family.0)) else {
            return Err(SeriesError::Unknown { kind: "family", name: family.0.to_string() });
        };
        fetched.zero_from =
            fetched.split(counted).map_or(0, |place| place.saturating_add(1).clamp(0, steps as i64) as u32);
        // the last step would be before the first one
        if steps == 0 {
            return Ok(fetched);
        }
        let last_secs = first_secs + (steps as i64 - 1) * step;
        let wanted = resolution.block_of(first_secs)..=resolution.block_of(last_secs);
        let mut places: Vec<u32> = Vec::new();
        for (&block, &kind) in blocks.range(wanted) {
            let offset = (block * resolution.block_secs() - first_secs) / step;
            let read = match self.read_block(family, ids, resolution, block, kind) {
                Err(error) if error.is_damage() => {
                    fetched.note_damage(with_source(&error), (offset..).take(BLOCK_STEPS));
                    continue;
                }
                read => read?,
            };
            let Some(read) = read else { continue };
            if !read.damaged.is_empty() {
                let path = self.folder.file(resolution, block, FileKind::Steps);
                let what = format!("{} is damaged: steps of it have wrong checksums", path.display());
                fetched.note_damage(what, read.damaged.iter().map(|place| offset + i64::from(*place)));
            }
            fetched.note_known(&read.known, offset, counted);
            for runs in &read.runs {
                fetched.append(runs, offset, &mut places);
            }
        }
        fetched.series.retain(|series| !series.steps.is_empty());
        fetched.series.sort_by_key(|series| series.id);
        Ok(fetched)
    }

    /// Reads series of a block without the steps that are damaged where the series are.
    fn read_block(
        &self,
        family: FamilyId,
        ids: Ids<'_>,
        resolution: Resolution,
        block: i64,
        kind: FileKind,
    ) -> Result<Option<ReadBlock>, SeriesError> {
        let Some(content) = Content::open(&self.folder, resolution, block, kind)? else { return Ok(None) };
        let spec = &self.families[usize::from(family.0)];
        let runs: Result<Vec<Runs>, SeriesError> = match ids {
            Ids::List(ids) => ids.iter().map(|id| content.runs(family, spec, id.0, id.0)).collect(),
            Ids::Range(first, last) => content.runs(family, spec, first, last).map(|runs| vec![runs]),
        };
        let mut read = ReadBlock { known: *content.known(), runs: runs?, damaged: content.damaged().to_vec() };
        let places: BTreeSet<u16> = read.runs.iter().flat_map(|runs| &runs.damaged).copied().collect();
        if !places.is_empty() {
            read.damaged.extend(places);
            // a step is known of all series that are read, or of none
            for runs in &mut read.runs {
                runs.leave_out(&read.damaged);
            }
            for place in &read.damaged {
                read.known[usize::from(*place)] = 0;
            }
        }
        Ok(Some(read))
    }
}

/// What was read of a block.
#[derive(Debug)]
struct ReadBlock {
    /// For each step how many of the finest steps are known of it.
    known: [u32; BLOCK_STEPS],
    runs: Vec<Runs>,
    /// The places of steps that are damaged.
    damaged: Vec<u16>,
}

/// An error with what the system said, on one line.
fn with_source(error: &SeriesError) -> String {
    match error {
        SeriesError::Io { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    }
}

impl Fetched {
    /// The place of the step in which series got other numbers because keys were lost; it may be outside of the time asked for. Such
    /// a step has half of a key at most.
    fn split(&self, counted: &DescribedFamily) -> Option<i64> {
        let place =
            |lost: LostKeys| lost.last_secs.saturating_sub(self.first_secs).div_euclid(i64::from(self.step_secs));
        counted.lost.map(place)
    }

    /// Notes which steps of a block are known that begins `offset` steps after the first step.
    fn note_known(&mut self, known: &[u32; BLOCK_STEPS], offset: i64, counted: &DescribedFamily) {
        let (step, split) = (i64::from(self.step_secs), self.split(counted));
        for (place, &known) in (offset..).zip(known) {
            let Ok(inside) = usize::try_from(place) else { continue };
            let time_secs = self.first_secs + place * step;
            // one that begins earlier or ends later may have steps in which the family was counted
            let is_known = counted.is_counted(time_secs, self.step_secs);
            let Some(out) = self.known.get_mut(inside) else { continue };
            *out = if is_known && split != Some(place) { known } else { 0 };
            if split == Some(place) && known > 0 {
                self.note_damage("the catalogue of keys was damaged, and lost some".to_owned(), iter::once(place));
            }
        }
    }

    /// Notes that steps, by their places, cannot be read; those outside the time asked for are nothing to it.
    fn note_damage(&mut self, what: String, places: impl Iterator<Item = i64>) {
        let inside = places.filter(|place| (0..self.known.len() as i64).contains(place));
        let mut times_secs: Vec<i64> = inside.map(|place| self.time_secs(place as usize)).collect();
        times_secs.sort_unstable();
        if !times_secs.is_empty() {
            self.damaged.push(Damage { what, times_secs });
        }
    }

    /// Adds these series without a value, where they have none: in a complete family they were zero in every known step.
    pub fn add_silent(&mut self, ids: impl Iterator<Item = SeriesId>) {
        let known: BTreeSet<SeriesId> = self.series.iter().map(|series| series.id).collect();
        let is_finest = self.is_finest;
        let silent = ids.filter(|id| !known.contains(id));
        self.series.extend(silent.map(|id| FetchedSeries::new(id, is_finest, 0)));
        self.series.sort_by_key(|series| series.id);
    }

    /// Appends the values of a block that begins `offset` steps after the first step.
    fn append(&mut self, runs: &Runs, offset: i64, places: &mut Vec<u32>) {
        for (index, &id) in runs.ids.iter().enumerate() {
            if places.len() <= id as usize {
                places.resize(id as usize + 1, 0);
            }
            let place = &mut places[id as usize];
            if *place == 0 {
                self.series.push(FetchedSeries::new(SeriesId(id), self.is_finest, runs.columns.len()));
                *place = self.series.len() as u32;
            }
            let series = &mut self.series[*place as usize - 1];
            let rows = runs.rows(index);
            let steps = runs.places[rows.clone()].iter().map(|&place| offset + i64::from(place));
            // steps before the first one and after the last one are left out
            let before = steps.clone().take_while(|&step| step < 0).count();
            let inside = steps.clone().filter(|step| (0..self.known.len() as i64).contains(step)).count();
            series.steps.extend(steps.skip(before).take(inside).map(|step| step as u32));
            let rows = rows.start + before..rows.start + before + inside;
            for (out, values) in series.columns.iter_mut().zip(&runs.columns) {
                out.extend_from_slice(&values[rows.clone()]);
            }
            // what was written before there were sketches has none
            let unknown = series.steps.len() - inside;
            series
                .sketches
                .resize_with(series.sketches.len().max(runs.sketches.len()), || vec![Box::default(); unknown]);
            for (metric, out) in series.sketches.iter_mut().enumerate() {
                match runs.sketches.get(metric) {
                    Some(sketches) => out.extend_from_slice(&sketches[rows.clone()]),
                    None => out.resize(series.steps.len(), Box::default()),
                }
            }
        }
    }

    /// When a step begins, in seconds since the epoch.
    pub fn time_secs(&self, step: usize) -> i64 {
        self.first_secs + step as i64 * i64::from(self.step_secs)
    }

    /// The values of a metric of a series, for each step; `None` where nothing is known.
    pub fn points<'a>(
        &'a self,
        family: &'a Family,
        series: &'a FetchedSeries,
        metric: usize,
    ) -> impl Iterator<Item = Option<Point>> + 'a {
        let (is_finest, zero_from) = (self.is_finest, self.zero_from);
        let absent = family.absent_is_zero(metric).then_some(Point { sum: 0, min: 0, max: 0, last: 0, count: 0 });
        let mut next = 0;
        (0..).zip(&self.known).map(move |(step, &known)| {
            if series.steps.get(next) != Some(&step) {
                let is_zero = known > 0 && step >= zero_from;
                return absent.map(|point| Point { count: known, ..point }).filter(|_| is_zero);
            }
            let point = series.point(next, metric, is_finest);
            next += 1;
            // of a family with every key each known step is known of each series
            let count = if absent.is_some() { known } else { point.count };
            // nothing is known of a step in which its number changed
            Some(Point { count, ..point }).filter(|_| known > 0)
        })
    }
}

impl Fetched {
    /// For each step what a metric has of it: the sum of a counter, the average of a gauge, the number of distinct things of one
    /// that counts these; `None` where that is not known.
    pub fn totals<'a>(
        &'a self,
        family: &'a Family,
        series: &'a FetchedSeries,
        metric: usize,
    ) -> Box<dyn Iterator<Item = Option<u64>> + 'a> {
        let points = self.points(family, series, metric);
        match (family.metrics[metric].sketch, family.metrics[metric].kind) {
            (Sketch::Distinct, _) => Box::new(self.distinct(family, series, metric)),
            (_, MetricKind::Counter) => Box::new(points.map(|point| point.map(|point| point.sum))),
            (_, MetricKind::Gauge) => {
                Box::new(points.map(|point| point.map(|point| point.sum / u64::from(point.count.max(1)))))
            }
        }
    }

    /// For each step, how many distinct things a metric with [`Sketch::Distinct`] counted in all of it; `None` where that is
    /// not known.
    pub fn distinct<'a>(
        &'a self,
        family: &'a Family,
        series: &'a FetchedSeries,
        metric: usize,
    ) -> impl Iterator<Item = Option<u64>> + 'a {
        let is_finest = self.is_finest;
        self.points(family, series, metric).zip(0..).map(move |(point, step)| {
            let point = point?;
            if is_finest {
                return Some(point.last);
            }
            let octets = series.sketch(metric, step)?;
            DistinctSketch::decode(octets).map(|sketch| sketch.estimate())
        })
    }

    /// For each step, the values of finest steps that these shares of them are not above, of a metric with
    /// [`Sketch::Quantiles`], not beyond the least and the largest value; `None` where they are not known.
    pub fn quantiles<'a, const N: usize>(
        &'a self,
        family: &'a Family,
        series: &'a FetchedSeries,
        metric: usize,
        shares: [f64; N],
    ) -> impl Iterator<Item = Option<[u64; N]>> + 'a {
        let (is_finest, absent_is_zero) = (self.is_finest, family.absent_is_zero(metric));
        self.points(family, series, metric).zip(0..).map(move |(point, step)| {
            let point = point?;
            if is_finest || series.steps.binary_search(&step).is_err() {
                return Some([point.last; N]);
            }
            let sketch = QuantileSketch::decode(series.sketch(metric, step)?)?;
            // steps in which the series was absent are not in the sketch
            let zeros = if absent_is_zero { u64::from(point.count).saturating_sub(sketch.count()) } else { 0 };
            let values = shares.map(|share| sketch.quantile(share, zeros));
            // the middle of a bucket may be beyond all values that are in it
            let least = if zeros > 0 { 0 } else { point.min };
            let within = |value: Option<u64>| value.unwrap_or_default().max(least).min(point.max);
            values.iter().all(Option::is_some).then(|| values.map(within))
        })
    }
}

impl FetchedSeries {
    /// The sketch of a metric in a step, when there is one.
    fn sketch(&self, metric: usize, step: u32) -> Option<&[u8]> {
        let row = self.steps.binary_search(&step).ok()?;
        self.sketches.get(metric).map(|sketches| &*sketches[row]).filter(|octets| !octets.is_empty())
    }

    fn new(id: SeriesId, is_finest: bool, columns: usize) -> Self {
        Self { id, is_finest, steps: Vec::new(), columns: vec![Vec::new(); columns], sketches: Vec::new() }
    }

    /// How many of the finest steps of a step have the series.
    pub fn count(&self, step: u32) -> u32 {
        let Ok(row) = self.steps.binary_search(&step) else { return 0 };
        if self.is_finest { 1 } else { self.columns[0][row] as u32 }
    }

    fn point(&self, row: usize, metric: usize, is_finest: bool) -> Point {
        if is_finest {
            let value = self.columns[metric][row];
            return Point { sum: value, min: value, max: value, last: value, count: 1 };
        }
        let [sum, min, max, last] = [0, 1, 2, 3].map(|fold| self.columns[1 + FOLDS * metric + fold][row]);
        Point { sum, min, max, last, count: self.columns[0][row] as u32 }
    }
}
