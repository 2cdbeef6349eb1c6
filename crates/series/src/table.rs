//! Series as rows: one for each step and key, with a column for each metric.
//!
//! | column | what it is |
//! | --- | --- |
//! | `time` | when the step begins |
//! | `step` | its length in seconds |
//! | `by` | the family |
//! | `key` | the key |
//! | `known` | how many of the finest steps are known of it |
//! | `count` | how many of the finest steps have the key |
//! | a metric, `bytes` say | the sum of a counter over the step, the average of a gauge, the number of distinct things of a metric that counts these; null when nothing is known |
//! | `bytes_min`, `bytes_max`, `bytes_last` | smallest, largest and last value of a finest step in it |
//! | `bytes_p50`, `bytes_p95`, `bytes_p99` | the value that half, 95 % and 99 % of the finest steps in it are not above, within 1 %; of metrics with their distribution |
//!
//! Steps that are gaps have no row. A store has several steps of the same time, so a question must name one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder, TimestampMillisecondBuilder, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::reader::{Blocks, Fetched, FetchedSeries, Ids, SeriesStore};
use crate::resolution::Resolution;
use crate::{Catalogue, Coverage, Family, FamilyId, Point, SeriesError, SeriesId, Sketch};

/// Series of a block that become rows at once.
const SLICE_SERIES: u32 = 1 << 14;
/// Keys that an error names.
const NAMED_KEYS_MAX: usize = 5;
/// What each metric has columns of, by the end of their names.
const ENDINGS: [&str; 4] = ["", "_min", "_max", "_last"];
/// Columns of metrics that have their distribution, by the end of their names, and which share of the values they are.
const QUANTILES: [(&str, f64); 3] = [("_p50", 0.5), ("_p95", 0.95), ("_p99", 0.99)];

/// A metric as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TableMetric {
    name: String,
    /// Whether any family has the distribution of its values.
    has_quantiles: bool,
}

impl TableMetric {
    /// The names of its columns.
    fn columns(&self) -> impl Iterator<Item = String> {
        let quantiles = QUANTILES.iter().map(|(ending, _)| *ending).filter(|_| self.has_quantiles);
        ENDINGS.into_iter().chain(quantiles).map(|ending| format!("{}{ending}", self.name))
    }
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSelection {
    /// The length of steps.
    pub resolution: Resolution,
    /// Names of families; `None` for all.
    pub families: Option<Vec<String>>,
    /// Keys; `None` for all.
    pub keys: Option<Vec<String>>,
    /// Steps that begin at this time or later, in seconds since the epoch.
    pub from_secs: i64,
    /// Steps that begin before this time.
    pub until_secs: i64,
}

/// Rows of a store, batch by batch.
#[derive(Debug)]
pub struct SeriesRows {
    store: Arc<SeriesStore>,
    catalogue: Arc<Catalogue>,
    schema: SchemaRef,
    metrics: Vec<TableMetric>,
    resolution: Resolution,
    blocks: Blocks,
    parts: std::vec::IntoIter<Part>,
    /// What of the last part cannot be read, or has no key; before the first part, which keys may be lost.
    damaged: Vec<SeriesError>,
    /// The catalogue as it was read last.
    newest: Arc<Catalogue>,
    /// Series that were found to have no key in it.
    lost: BTreeSet<(FamilyId, SeriesId)>,
}

/// What is read at once.
#[derive(Debug)]
struct Part {
    family: FamilyId,
    ids: PartIds,
    from_secs: i64,
    until_secs: i64,
}

#[derive(Debug)]
enum PartIds {
    List(Vec<SeriesId>),
    Range(u32, u32),
}

impl SeriesStore {
    /// The metrics of all families, each once.
    fn table_metrics(&self) -> Vec<TableMetric> {
        let mut found: Vec<TableMetric> = Vec::new();
        for metric in self.families().iter().flat_map(|family| &family.metrics) {
            let has_quantiles = metric.sketch == Sketch::Quantiles;
            match found.iter_mut().find(|known| known.name == metric.name) {
                Some(known) => known.has_quantiles |= has_quantiles,
                None => found.push(TableMetric { name: metric.name.clone(), has_quantiles }),
            }
        }
        found
    }

    /// The columns of [`rows`](Self::rows).
    pub fn schema(&self) -> SchemaRef {
        let time = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let mut fields = vec![
            Field::new("time", time, false),
            Field::new("step", DataType::UInt32, false),
            Field::new("by", DataType::Utf8, false),
            Field::new("key", DataType::Utf8, false),
            Field::new("known", DataType::UInt32, false),
            Field::new("count", DataType::UInt32, false),
        ];
        for metric in self.table_metrics() {
            fields.extend(metric.columns().map(|name| Field::new(name, DataType::UInt64, true)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Reads series as rows. Of steps whose files are damaged there are none, and none of series whose keys are lost; either
    /// is an error behind the rows of the same block, after which there may be more. Keys of the selection that may be lost are an
    /// error before the first rows.
    pub fn rows(self: &Arc<Self>, selection: &RowSelection) -> Result<SeriesRows, SeriesError> {
        self.rows_with(selection, Arc::new(self.catalogue()?))
    }

    /// The same for those who have the catalogue already, as it was read after the steps that are wanted were there.
    pub fn rows_with(
        self: &Arc<Self>,
        selection: &RowSelection,
        catalogue: Arc<Catalogue>,
    ) -> Result<SeriesRows, SeriesError> {
        let mut parts = Vec::new();
        let resolution = selection.resolution;
        let blocks = self.blocks(resolution)?;
        let ends = blocks.first_key_value().zip(blocks.last_key_value());
        let (from, until) = ends.map_or((0, 0), |((&first, _), (&last, _))| {
            let width = resolution.block_secs();
            (selection.from_secs.max(first * width), selection.until_secs.min((last + 1) * width))
        });
        let damaged = if from < until { self.lost_of(selection, &catalogue, from) } else { Vec::new() };
        for (family, spec) in (0..).map(FamilyId).zip(self.families()) {
            let is_wanted = selection.families.as_ref().is_none_or(|names| names.contains(&spec.name));
            if !is_wanted || from >= until {
                continue;
            }
            let listed = selection.keys.as_ref();
            let listed: Option<Vec<_>> =
                listed.map(|keys| keys.iter().filter_map(|key| catalogue.id(family, key)).collect());
            let last_key = catalogue.series(family).last().map_or(0, |(id, _)| id.0);
            let last = last_key.max(self.last_lost(family).map_or(0, |id| id.0));
            // only blocks that are there: between two of them there may be decades
            for (&block, _) in blocks.range(resolution.block_of(from)..=resolution.block_of(until - 1)) {
                let begin = block * resolution.block_secs();
                let (from_secs, until_secs) = (from.max(begin), until.min(begin + resolution.block_secs()));
                if let Some(ids) = &listed {
                    parts.push(Part { family, ids: PartIds::List(ids.clone()), from_secs, until_secs });
                    continue;
                }
                for first in (0..=last).step_by(SLICE_SERIES as usize) {
                    let end = first.saturating_add(SLICE_SERIES - 1);
                    // the lines that are damaged may be those of the largest numbers
                    let end = if end >= last && catalogue.damaged_lines() > 0 { u32::MAX } else { end };
                    let ids = PartIds::Range(first, end);
                    parts.push(Part { family, ids, from_secs, until_secs });
                }
            }
        }
        Ok(SeriesRows {
            store: Arc::clone(self),
            newest: Arc::clone(&catalogue),
            lost: BTreeSet::new(),
            catalogue,
            schema: self.schema(),
            metrics: self.table_metrics(),
            resolution,
            blocks,
            parts: parts.into_iter(),
            damaged,
        })
    }

    /// Which keys of a selection may be lost: those that are not in the catalogue, or have come again after the loss, when steps
    /// before it are asked for. They have no rows there, which must not pass for what is not the case.
    fn lost_of(&self, selection: &RowSelection, catalogue: &Catalogue, from_secs: i64) -> Vec<SeriesError> {
        let Some(keys) = &selection.keys else { return Vec::new() };
        let is_wanted = |spec: &Family| selection.families.as_ref().is_none_or(|names| names.contains(&spec.name));
        let families = (0..).map(FamilyId).zip(self.families()).filter(|(_, spec)| is_wanted(spec));
        let error = |(id, spec): (FamilyId, &Family)| {
            let lost = self.lost(id).filter(|lost| from_secs <= lost.last_secs);
            let may_be_lost = |key: &&String| match catalogue.id(id, key) {
                None => lost.is_some() || catalogue.damaged_lines() > 0,
                Some(number) => lost.is_some_and(|lost| number.0 > lost.last_number),
            };
            let found: Vec<&str> = keys.iter().filter(may_be_lost).map(String::as_str).collect();
            (!found.is_empty()).then(|| SeriesError::KeysMayBeLost { family: spec.name.clone(), keys: named(&found) })
        };
        families.filter_map(error).collect()
    }
}

/// The first of some keys, and how many more there are.
fn named(keys: &[&str]) -> String {
    let first = keys[..keys.len().min(NAMED_KEYS_MAX)].join(", ");
    match keys.len().saturating_sub(NAMED_KEYS_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

impl SeriesRows {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn read(&mut self, part: &Part) -> Result<Option<RecordBatch>, SeriesError> {
        let ids = match &part.ids {
            PartIds::List(ids) => Ids::List(ids),
            PartIds::Range(first, last) => Ids::Range(*first, *last),
        };
        let times = (part.from_secs, part.until_secs);
        let mut fetched = self.store.fetch_ids(part.family, ids, self.resolution, times, &self.blocks)?;
        self.damaged.extend(fetched.damaged.drain(..).map(SeriesError::DamagedSteps));
        let lost = self.lost_keys(part.family, &fetched)?;
        self.damaged.extend(lost);
        let family = &self.store.families()[usize::from(part.family.0)];
        if family.coverage == Coverage::Complete {
            // whichever blocks a question reads, each series has a row for each known step
            match &part.ids {
                PartIds::List(ids) => fetched.add_silent(ids.iter().copied()),
                PartIds::Range(first, last) => {
                    let ids = self.catalogue.series(part.family).map(|(id, _)| id);
                    fetched.add_silent(ids.filter(|id| (*first..=*last).contains(&id.0)));
                }
            }
        }
        let rows = Rows::new(&self.metrics, family);
        rows.filled(&fetched, part.family, &self.catalogue, &self.schema)
    }
}

impl SeriesRows {
    /// The series whose keys are lost, which have no rows. One without a key that is not noted as lost may also have come since
    /// the catalogue was read: a key is there before the steps that have it, so the catalogue is read once more.
    fn lost_keys(&mut self, id: FamilyId, fetched: &Fetched) -> Result<Option<SeriesError>, SeriesError> {
        let last_noted = self.store.last_lost(id);
        let is_noted = |series: &FetchedSeries| last_noted.is_some_and(|last| series.id <= last);
        let is_unnamed = |series: &&FetchedSeries| self.catalogue.key(id, series.id).is_none();
        let unnamed: Vec<&FetchedSeries> = fetched.series.iter().filter(is_unnamed).collect();
        if self.catalogue.damaged_lines() > 0 {
            let is_open = |catalogue: &Catalogue, lost: &BTreeSet<_>, series: &FetchedSeries| {
                !is_noted(series) && !lost.contains(&(id, series.id)) && catalogue.key(id, series.id).is_none()
            };
            if unnamed.iter().any(|series| is_open(&self.newest, &self.lost, series)) {
                self.newest = Arc::new(self.store.catalogue()?);
                let missing = unnamed.iter().filter(|series| self.newest.key(id, series.id).is_none());
                self.lost.extend(missing.map(|series| (id, series.id)));
            }
        }
        let is_lost = |series: &&&FetchedSeries| is_noted(series) || self.lost.contains(&(id, series.id));
        let lost: Vec<&FetchedSeries> = unnamed.iter().filter(is_lost).copied().collect();
        let Some(first) = lost.iter().filter_map(|series| series.steps.first()).min() else { return Ok(None) };
        Ok(Some(SeriesError::LostKeys {
            family: self.store.families()[usize::from(id.0)].name.clone(),
            series: lost.len(),
            first_secs: fetched.time_secs(*first as usize),
        }))
    }
}

impl Iterator for SeriesRows {
    type Item = Result<RecordBatch, SeriesError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(damage) = self.damaged.pop() {
                return Some(Err(damage));
            }
            let part = self.parts.next()?;
            if let Some(batch) = self.read(&part).transpose() {
                return Some(batch);
            }
        }
    }
}

/// Rows as they are made.
struct Rows<'a> {
    family: &'a Family,
    /// For each metric of the table its place in the family.
    places: Vec<Option<usize>>,
    time: TimestampMillisecondBuilder,
    step: UInt32Builder,
    by: StringBuilder,
    key: StringBuilder,
    known: UInt32Builder,
    count: UInt32Builder,
    /// For each metric its columns.
    values: Vec<Vec<UInt64Builder>>,
}

impl<'a> Rows<'a> {
    fn new(metrics: &[TableMetric], family: &'a Family) -> Self {
        Self {
            family,
            places: metrics.iter().map(|metric| family.metric(&metric.name)).collect(),
            time: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            step: UInt32Builder::new(),
            by: StringBuilder::new(),
            key: StringBuilder::new(),
            known: UInt32Builder::new(),
            count: UInt32Builder::new(),
            values: metrics.iter().map(|metric| metric.columns().map(|_| UInt64Builder::new()).collect()).collect(),
        }
    }

    fn metric_steps(&self, fetched: &Fetched, series: &FetchedSeries, metric: usize) -> MetricSteps {
        let points = fetched.points(self.family, series, metric).collect();
        let totals = fetched.totals(self.family, series, metric).collect();
        let quantiles = match self.family.metrics[metric].sketch {
            Sketch::Quantiles => {
                fetched.quantiles(self.family, series, metric, QUANTILES.map(|(_, share)| share)).collect()
            }
            _ => Vec::new(),
        };
        MetricSteps { points, totals, quantiles }
    }

    /// The rows of what was read; `None` when there are none.
    fn filled(
        mut self,
        fetched: &Fetched,
        id: FamilyId,
        catalogue: &Catalogue,
        schema: &SchemaRef,
    ) -> Result<Option<RecordBatch>, SeriesError> {
        let mut rows = 0_usize;
        for series in &fetched.series {
            let Some(key) = catalogue.key(id, series.id) else { continue };
            let metrics: Vec<MetricSteps> =
                (0..self.family.metrics.len()).map(|metric| self.metric_steps(fetched, series, metric)).collect();
            for (step, &known) in fetched.known.iter().enumerate().filter(|(_, known)| **known > 0) {
                if metrics.iter().all(|metric| metric.points[step].is_none()) {
                    continue;
                }
                self.time.append_value(fetched.time_secs(step).saturating_mul(1_000));
                self.step.append_value(fetched.step_secs);
                self.by.append_value(&self.family.name);
                self.key.append_value(key);
                self.known.append_value(known);
                self.count.append_value(series.count(step as u32));
                for (place, columns) in self.places.iter().zip(&mut self.values) {
                    let (folds, quantiles) = place.map_or(([None; 4], None), |metric| metrics[metric].values(step));
                    let quantiles = (0..QUANTILES.len()).map(|at| quantiles.map(|values| values[at]));
                    for (column, value) in columns.iter_mut().zip(folds.into_iter().chain(quantiles)) {
                        column.append_option(value);
                    }
                }
                rows += 1;
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.time.finish()),
            Arc::new(self.step.finish()),
            Arc::new(self.by.finish()),
            Arc::new(self.key.finish()),
            Arc::new(self.known.finish()),
            Arc::new(self.count.finish()),
        ];
        columns.extend(self.values.iter_mut().flatten().map(|column| Arc::new(column.finish()) as ArrayRef));
        let batch = RecordBatch::try_new(Arc::clone(schema), columns);
        batch.map(Some).map_err(|error| SeriesError::Rows(error.to_string()))
    }
}

/// What the steps have of a metric of a series.
struct MetricSteps {
    points: Vec<Option<Point>>,
    /// The sums of a counter, the averages of a gauge, the numbers of distinct things.
    totals: Vec<Option<u64>>,
    /// Nothing for a metric without its distribution.
    quantiles: Vec<Option<[u64; QUANTILES.len()]>>,
}

impl MetricSteps {
    /// The values of the columns in a step: the folds, and the quantiles when there are some.
    fn values(&self, step: usize) -> ([Option<u64>; 4], Option<[u64; QUANTILES.len()]>) {
        let point = self.points[step];
        let folds = [
            self.totals[step],
            point.map(|point| point.min),
            point.map(|point| point.max),
            point.map(|point| point.last),
        ];
        (folds, self.quantiles.get(step).copied().flatten())
    }
}
