//! Statistics that are read from a cluster of Cassandra.
//!
//! A cluster has rows, and says nothing of steps without any: a step is known when the series read have a row of it, or the total
//! has, which has one for every step that was counted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, bail};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Schema, TimestampMillisecondType, UInt32Type, UInt64Type};
use weir_cassandra::{StatisticsPartition, StatisticsReader};
use weir_chain::TimeSpan;
use weir_series::Metric;

use super::source::{ENDINGS, KnownSteps, SeriesRequest, SeriesSource, SeriesValues, SourceRows, StepLength};

/// Partitions whose rows are in memory at once.
const PARTITIONS_AT_ONCE: usize = 256;
/// The family, and its key, that has every step.
const TOTAL: &str = "total";
/// Metrics that are levels. The table does not say which are, and weir keeps no other ones.
const LEVELS: [&str; 1] = ["peers"];
/// Columns of the table before those of metrics: time, step, by, key, known, count.
const FIRST_METRIC: usize = 6;
/// Most steps that are read at once, as of a folder.
const STEPS_MAX: i64 = 20_000_000;

/// The table `series` of a keyspace.
pub(super) struct ClusterSource {
    reader: StatisticsReader,
    partitions: Vec<StatisticsPartition>,
}

impl ClusterSource {
    /// Connects to the cluster of an address, and lists its partitions.
    pub(super) fn connect(url: &str) -> anyhow::Result<Self> {
        let options = crate::command::forward::cluster(url).map_err(anyhow::Error::msg)?;
        let reader = StatisticsReader::connect(options).context("cannot read from Cassandra")?;
        let partitions = reader.partitions()?;
        Ok(Self { reader, partitions })
    }

    /// The partitions that may have what is wanted, by key and time.
    fn of(&self, wanted: &SeriesRequest<'_>) -> Vec<StatisticsPartition> {
        let times_ms = wanted.times_ms();
        let is_wanted = |partition: &&StatisticsPartition| {
            partition.by == wanted.by
                && partition.step_secs == wanted.step.step_secs
                && (wanted.keys.is_empty() || wanted.keys.contains(&partition.key))
                && partition.overlaps(&times_ms)
        };
        self.partitions.iter().filter(is_wanted).cloned().collect()
    }

    /// Gives the rows of partitions, batch by batch.
    fn each_batch(
        &self,
        partitions: &[StatisticsPartition],
        times_ms: &Range<i64>,
        mut take: impl FnMut(&RecordBatch),
    ) -> anyhow::Result<()> {
        for some in partitions.chunks(PARTITIONS_AT_ONCE) {
            self.reader.rows(some, times_ms)?.iter().for_each(&mut take);
        }
        Ok(())
    }

    /// An extent that has the steps of these partitions too, those that begin in a range of time.
    fn widened(
        &self,
        mut extent: Option<(i64, i64)>,
        partitions: &[StatisticsPartition],
        times_ms: &Range<i64>,
    ) -> anyhow::Result<Option<(i64, i64)>> {
        let there: Vec<StatisticsPartition> =
            partitions.iter().filter(|partition| partition.overlaps(times_ms)).cloned().collect();
        self.each_batch(&there, times_ms, |batch| {
            for time_ms in batch.column(0).as_primitive::<TimestampMillisecondType>().values() {
                let secs = time_ms.div_euclid(1_000);
                extent = Some(extent.map_or((secs, secs), |(first, last)| (first.min(secs), last.max(secs))));
            }
        })?;
        Ok(extent)
    }
}

impl SeriesSource for ClusterSource {
    fn families(&self) -> Vec<&str> {
        let families: BTreeSet<&str> = self.partitions.iter().map(|partition| partition.by.as_str()).collect();
        families.into_iter().collect()
    }

    fn listing(&self) -> anyhow::Result<RecordBatch> {
        let mut families: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<u32>)> = BTreeMap::new();
        for partition in &self.partitions {
            let (keys, steps) = families.entry(&partition.by).or_default();
            keys.insert(&partition.key);
            steps.insert(partition.step_secs);
        }
        let keys: UInt64Array = families.values().map(|(keys, _)| Some(keys.len() as u64)).collect();
        let length = |secs: &u32| TimeSpan::from_secs(u64::from(*secs)).to_string();
        let steps = families.values().map(|(_, steps)| steps.iter().map(length).collect::<Vec<_>>().join(", "));
        Ok(RecordBatch::try_from_iter([
            ("by", Arc::new(StringArray::from_iter_values(families.keys())) as ArrayRef),
            ("keys", Arc::new(keys) as ArrayRef),
            ("steps", Arc::new(StringArray::from_iter_values(steps)) as ArrayRef),
        ])?)
    }

    fn keys(&self, by: &str) -> anyhow::Result<Vec<&str>> {
        let of = self.partitions.iter().filter(|partition| partition.by == by);
        let keys: BTreeSet<&str> = of.map(|partition| partition.key.as_str()).collect();
        Ok(keys.into_iter().collect())
    }

    fn has_key(&self, by: &str, key: &str) -> anyhow::Result<bool> {
        Ok(self.partitions.iter().any(|partition| partition.by == by && partition.key == key))
    }

    fn may_have_lost_keys(&self, _by: &str) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn steps(&self) -> Vec<StepLength> {
        let lengths: BTreeSet<u32> = self.partitions.iter().map(|partition| partition.step_secs).collect();
        lengths.into_iter().map(|step_secs| StepLength { step_secs, keep_secs: None }).collect()
    }

    /// Each may be sent by a process of its own, so that even the total may begin later or end earlier than others. Steps after
    /// the last row of a series are known as far as the total has some.
    fn extent(&self, step: StepLength, by: Option<&str>) -> anyhow::Result<Option<(i64, i64)>> {
        let always = i64::MIN..i64::MAX;
        let after = |last: i64| last.saturating_add(1).saturating_mul(1_000)..i64::MAX;
        let is_total = |partition: &StatisticsPartition| partition.by == TOTAL;
        let (total, others): (Vec<_>, Vec<_>) = ends_of(&self.partitions, step, by).into_iter().partition(is_total);
        let extent = self.widened(None, &total, &always)?;
        let Some((first, last)) = extent else {
            let extent = self.widened(None, &others, &always)?;
            let Some((_, last)) = extent else { return Ok(None) };
            return self.widened(extent, &ends_of(&self.partitions, step, Some(TOTAL)), &after(last));
        };
        // of others only what is before or after the total is asked for
        let extent = self.widened(extent, &others, &(i64::MIN..first.saturating_mul(1_000)))?;
        self.widened(extent, &others, &after(last))
    }

    /// Steps are sent once they are whole.
    fn may_grow(&self, _step: StepLength) -> bool {
        false
    }

    fn rows<'a>(&'a self, wanted: &SeriesRequest<'_>) -> anyhow::Result<SourceRows<'a>> {
        let partitions = self.of(wanted);
        let pieces: Vec<Vec<StatisticsPartition>> =
            partitions.chunks(PARTITIONS_AT_ONCE).map(<[StatisticsPartition]>::to_vec).collect();
        let times_ms = wanted.times_ms();
        let read = move |some: Vec<StatisticsPartition>| -> Vec<anyhow::Result<RecordBatch>> {
            match self.reader.rows(&some, &times_ms) {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error.into())],
            }
        };
        Ok(SourceRows { schema: self.reader.schema(), batches: Box::new(pieces.into_iter().flat_map(read)) })
    }

    fn values(&self, wanted: &SeriesRequest<'_>) -> anyhow::Result<Box<dyn SeriesValues>> {
        let mut values = ClusterValues::new(wanted, metrics_of(&self.reader.schema()))?;
        let times_ms = wanted.times_ms();
        self.each_batch(&self.of(wanted), &times_ms, |batch| values.add(batch))?;
        if wanted.by != TOTAL {
            let total = SeriesRequest { by: TOTAL, keys: &[], ..*wanted };
            self.each_batch(&self.of(&total), &times_ms, |batch| values.note_known(batch))?;
        }
        Ok(Box::new(values.finished()))
    }
}

/// The partitions that have the first and the last of all steps of a length, of series of one kind or of all: those that begin
/// first and last.
fn ends_of(partitions: &[StatisticsPartition], step: StepLength, by: Option<&str>) -> Vec<StatisticsPartition> {
    let is_wanted = |partition: &&StatisticsPartition| {
        partition.step_secs == step.step_secs && by.is_none_or(|by| partition.by == by)
    };
    let of_step = || partitions.iter().filter(is_wanted);
    let begins = || of_step().map(|partition| partition.begin_ms);
    let ends = [begins().min(), begins().max()];
    of_step().filter(|partition| ends.contains(&Some(partition.begin_ms))).cloned().collect()
}

/// The metrics of a table by its columns.
fn metrics_of(schema: &Schema) -> Vec<Metric> {
    let names: Vec<&str> = schema.fields().iter().skip(FIRST_METRIC).map(|field| field.name().as_str()).collect();
    let is_metric = |name: &&&str| {
        let metric = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
        metric.is_none_or(|metric| !names.contains(&metric))
    };
    let metric = |name: &&str| if LEVELS.contains(name) { Metric::gauge(name) } else { Metric::counter(name) };
    names.iter().filter(is_metric).map(metric).collect()
}

/// Series that were read from a cluster.
#[derive(Debug)]
struct ClusterValues {
    steps: KnownSteps,
    metrics: Vec<Metric>,
    series: Vec<KeyValues>,
}

/// The values of one series.
#[derive(Debug)]
struct KeyValues {
    key: String,
    /// The steps that it has, as places in [`KnownSteps::known`], ascending.
    places: Vec<u32>,
    /// For each metric its values in these steps.
    values: Vec<Vec<Option<u64>>>,
}

impl ClusterValues {
    /// Nothing yet of the time that is wanted.
    fn new(wanted: &SeriesRequest<'_>, metrics: Vec<Metric>) -> anyhow::Result<Self> {
        let step = i64::from(wanted.step.step_secs).max(1);
        let first_secs = wanted.from_secs.saturating_add(step - 1).div_euclid(step).saturating_mul(step);
        let span = wanted.until_secs.saturating_sub(first_secs).saturating_add(step - 1);
        let count = span.div_euclid(step).max(0);
        if count > STEPS_MAX {
            bail!("{count} steps are too many to read at once\nhint: name a shorter time, or longer steps");
        }
        let known = vec![0; count as usize];
        let steps = KnownSteps { first_secs, step_secs: wanted.step.step_secs, finest_secs: 1.0, known };
        Ok(Self { steps, metrics, series: Vec::new() })
    }

    /// The place of each row of a batch; `None` where it is of another time.
    fn places(&self, batch: &RecordBatch) -> Vec<Option<usize>> {
        let (first_secs, step, count) =
            (self.steps.first_secs, i64::from(self.steps.step_secs), self.steps.known.len());
        let place = |time_ms: &i64| {
            let place = (time_ms.div_euclid(1_000) - first_secs).div_euclid(step.max(1));
            usize::try_from(place).ok().filter(|place| *place < count)
        };
        batch.column(0).as_primitive::<TimestampMillisecondType>().values().iter().map(place).collect()
    }

    /// Notes of which steps the rows of a batch are.
    fn note_known(&mut self, batch: &RecordBatch) {
        let counts = batch.column(4).as_primitive::<UInt32Type>().values();
        for (place, count) in self.places(batch).into_iter().zip(counts) {
            if let Some(known) = place.and_then(|place| self.steps.known.get_mut(place)) {
                *known = (*known).max(*count);
            }
        }
    }

    /// Adds a batch, which is of one key and comes in the order of time, behind the other batches of this key.
    fn add(&mut self, batch: &RecordBatch) {
        if batch.num_rows() == 0 {
            return;
        }
        self.note_known(batch);
        let places = self.places(batch);
        let key = batch.column(3).as_string::<i32>().value(0);
        if self.series.last().is_none_or(|last| last.key != key) {
            let values = vec![Vec::new(); self.metrics.len()];
            self.series.push(KeyValues { key: key.to_owned(), places: Vec::new(), values });
        }
        let Some(series) = self.series.last_mut() else { return };
        for (metric, values) in self.metrics.iter().zip(&mut series.values) {
            let column = batch.column_by_name(&metric.name).map(AsArray::as_primitive::<UInt64Type>);
            let value = |row| column.filter(|column| column.is_valid(row)).map(|column| column.value(row));
            values.extend((0..).zip(&places).filter(|(_, place)| place.is_some()).map(|(row, _)| value(row)));
        }
        series.places.extend(places.into_iter().flatten().map(|place| place as u32));
    }

    /// The same without metrics that no series has, and with the length of the finest steps: some step is whole, as far as can be told.
    fn finished(mut self) -> Self {
        let is_counted = |metric: usize| self.series.iter().any(|one| one.values[metric].iter().any(Option::is_some));
        let counted: Vec<bool> = (0..self.metrics.len()).map(is_counted).collect();
        let mut kept = counted.iter();
        self.metrics.retain(|_| kept.next() == Some(&true));
        for series in &mut self.series {
            let mut kept = counted.iter();
            series.values.retain(|_| kept.next() == Some(&true));
        }
        self.series.retain(|series| !series.places.is_empty());
        let most = self.steps.known.iter().copied().max().unwrap_or(1).max(1);
        self.steps.finest_secs = f64::from(self.steps.step_secs) / f64::from(most);
        self
    }
}

impl SeriesValues for ClusterValues {
    fn steps(&self) -> &KnownSteps {
        &self.steps
    }

    fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    fn count(&self) -> usize {
        self.series.len()
    }

    fn key(&self, series: usize) -> &str {
        &self.series[series].key
    }

    fn totals<'a>(&'a self, series: usize, metric: usize) -> Box<dyn Iterator<Item = Option<u64>> + 'a> {
        let series = &self.series[series];
        let mut next = 0;
        Box::new((0..self.steps.known.len() as u32).map(move |step| {
            if series.places.get(next) != Some(&step) {
                return None;
            }
            next += 1;
            series.values[metric][next - 1]
        }))
    }
}

#[cfg(test)]
mod tests;
