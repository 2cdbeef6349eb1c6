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
//! | a metric, `bytes` say | the sum of a counter over the step, the average of a gauge; null when nothing is known |
//! | `bytes_min`, `bytes_max`, `bytes_last` | smallest, largest and last value of a finest step in it |
//!
//! Steps that are gaps have no row. A store has several steps of the same time, so a question must name one of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder, TimestampMillisecondBuilder, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::reader::{Blocks, Fetched, Ids, SeriesStore};
use crate::resolution::Resolution;
use crate::{Catalogue, Coverage, Family, FamilyId, MetricKind, Point, SeriesError, SeriesId};

/// Series of a block that become rows at once.
const SLICE_SERIES: u32 = 1 << 14;
/// What each metric has columns of, by the end of their names.
const ENDINGS: [&str; 4] = ["", "_min", "_max", "_last"];

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
    catalogue: Catalogue,
    schema: SchemaRef,
    metrics: Vec<String>,
    resolution: Resolution,
    blocks: Blocks,
    parts: std::vec::IntoIter<Part>,
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
    fn metric_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for metric in self.families().iter().flat_map(|family| &family.metrics) {
            if !names.contains(&metric.name) {
                names.push(metric.name.clone());
            }
        }
        names
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
        for name in self.metric_names() {
            fields.extend(ENDINGS.map(|ending| Field::new(format!("{name}{ending}"), DataType::UInt64, true)));
        }
        Arc::new(Schema::new(fields))
    }

    /// Reads series as rows.
    pub fn rows(self: &Arc<Self>, selection: &RowSelection) -> Result<SeriesRows, SeriesError> {
        let catalogue = self.catalogue()?;
        let mut parts = Vec::new();
        let resolution = selection.resolution;
        let (from, until) = match self.extent(resolution)? {
            Some((first, last)) => (selection.from_secs.max(first), selection.until_secs.min(last.saturating_add(1))),
            None => (0, 0),
        };
        let blocks = self.blocks(resolution)?;
        for (family, spec) in (0..).map(FamilyId).zip(self.families()) {
            let is_wanted = selection.families.as_ref().is_none_or(|names| names.contains(&spec.name));
            if !is_wanted || from >= until {
                continue;
            }
            let listed = selection.keys.as_ref();
            let listed: Option<Vec<_>> =
                listed.map(|keys| keys.iter().filter_map(|key| catalogue.id(family, key)).collect());
            let last = catalogue.series(family).last().map_or(0, |(id, _)| id.0);
            // only blocks that are there: between two of them there may be decades
            for (&block, _) in blocks.range(resolution.block_of(from)..=resolution.block_of(until - 1)) {
                let begin = block * resolution.block_secs();
                let (from_secs, until_secs) = (from.max(begin), until.min(begin + resolution.block_secs()));
                if let Some(ids) = &listed {
                    parts.push(Part { family, ids: PartIds::List(ids.clone()), from_secs, until_secs });
                    continue;
                }
                for first in (0..=last).step_by(SLICE_SERIES as usize) {
                    let ids = PartIds::Range(first, first.saturating_add(SLICE_SERIES - 1));
                    parts.push(Part { family, ids, from_secs, until_secs });
                }
            }
        }
        Ok(SeriesRows {
            store: Arc::clone(self),
            catalogue,
            schema: self.schema(),
            metrics: self.metric_names(),
            resolution,
            blocks,
            parts: parts.into_iter(),
        })
    }
}

impl SeriesRows {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn read(&self, part: &Part) -> Result<Option<RecordBatch>, SeriesError> {
        let ids = match &part.ids {
            PartIds::List(ids) => Ids::List(ids),
            PartIds::Range(first, last) => Ids::Range(*first, *last),
        };
        let times = (part.from_secs, part.until_secs);
        let mut fetched = self.store.fetch_ids(part.family, ids, self.resolution, times, &self.blocks)?;
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

impl Iterator for SeriesRows {
    type Item = Result<RecordBatch, SeriesError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
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
    values: Vec<UInt64Builder>,
}

impl<'a> Rows<'a> {
    fn new(metrics: &[String], family: &'a Family) -> Self {
        Self {
            family,
            places: metrics.iter().map(|name| family.metric(name)).collect(),
            time: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            step: UInt32Builder::new(),
            by: StringBuilder::new(),
            key: StringBuilder::new(),
            known: UInt32Builder::new(),
            count: UInt32Builder::new(),
            values: metrics.iter().flat_map(|_| ENDINGS.map(|_| UInt64Builder::new())).collect(),
        }
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
            let metrics: Vec<Vec<Option<Point>>> = (0..self.family.metrics.len())
                .map(|metric| fetched.points(self.family, series, metric).collect())
                .collect();
            for (step, &known) in fetched.known.iter().enumerate().filter(|(_, known)| **known > 0) {
                if metrics.iter().all(|points| points[step].is_none()) {
                    continue;
                }
                self.time.append_value(fetched.time_secs(step).saturating_mul(1_000));
                self.step.append_value(fetched.step_secs);
                self.by.append_value(&self.family.name);
                self.key.append_value(key);
                self.known.append_value(known);
                self.count.append_value(series.count(step as u32));
                for (place, values) in self.places.iter().zip(self.values.chunks_mut(ENDINGS.len())) {
                    let point = place.and_then(|metric| metrics[metric][step]);
                    let kind = place.map(|metric| self.family.metrics[metric].kind);
                    let columns = point.map(|point| [total(point, kind), point.min, point.max, point.last]);
                    for (fold, column) in values.iter_mut().enumerate() {
                        column.append_option(columns.map(|columns| columns[fold]));
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
        columns.extend(self.values.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
        let batch = RecordBatch::try_new(Arc::clone(schema), columns);
        batch.map(Some).map_err(|error| SeriesError::Rows(error.to_string()))
    }
}

/// What a step has of a metric: the sum of a counter, the average of a gauge.
fn total(point: Point, kind: Option<MetricKind>) -> u64 {
    match kind {
        Some(MetricKind::Gauge) => point.sum / u64::from(point.count.max(1)),
        _ => point.sum,
    }
}
