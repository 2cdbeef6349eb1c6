//! Where statistics are read from, and what is read of them: a folder and a cluster are listed, printed, drawn and exported by the same code.

#[cfg(feature = "cassandra")]
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use weir_series::Metric;

/// Ends of the names of columns that a metric has beside its own.
pub(super) const ENDINGS: [&str; 6] = ["_min", "_max", "_last", "_p50", "_p95", "_p99"];

/// Statistics of a folder or a cluster.
pub(super) trait SeriesSource {
    /// What there are series by.
    fn families(&self) -> Vec<&str>;

    /// A row for each of them, with the number of keys and what else is known.
    fn listing(&self) -> anyhow::Result<RecordBatch>;

    /// The keys of one of them, in alphabetical order.
    fn keys(&self, by: &str) -> anyhow::Result<Vec<&str>>;

    /// Whether there is a series of this key.
    fn has_key(&self, by: &str, key: &str) -> anyhow::Result<bool>;

    /// Whether a key that is not there may have been lost.
    fn may_have_lost_keys(&self, by: &str) -> anyhow::Result<bool>;

    /// The steps that there are, the shortest first.
    fn steps(&self) -> Vec<StepLength>;

    /// When the first and the last step of a length begin, in seconds since the epoch; `None` when there is none. Where series
    /// begin and end apart, those of one kind count when it is named, else all.
    fn extent(&self, step: StepLength, by: Option<&str>) -> anyhow::Result<Option<(i64, i64)>>;

    /// Whether the newest step of this length may still get another part.
    fn may_grow(&self, step: StepLength) -> bool;

    /// Reads series as rows. What is damaged is left out, with a warning on standard error.
    fn rows<'a>(&'a self, wanted: &SeriesRequest<'_>) -> anyhow::Result<SourceRows<'a>>;

    /// Reads series into memory. What is damaged is a gap, with a warning on standard error.
    fn values(&self, wanted: &SeriesRequest<'_>) -> anyhow::Result<Box<dyn SeriesValues>>;
}

/// Steps of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepLength {
    /// The length in seconds.
    pub(super) step_secs: u32,
    /// How long they are kept, when that is known.
    pub(super) keep_secs: Option<u64>,
}

/// Selects the series to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesRequest<'a> {
    /// What they are series by.
    pub(super) by: &'a str,
    /// Their keys; all when there is none.
    pub(super) keys: &'a [String],
    /// Their steps.
    pub(super) step: StepLength,
    /// Steps that begin at this time or later, in seconds since the epoch.
    pub(super) from_secs: i64,
    /// Steps that begin before this time.
    pub(super) until_secs: i64,
}

impl SeriesRequest<'_> {
    /// The time in milliseconds since the epoch.
    #[cfg(feature = "cassandra")]
    pub(super) fn times_ms(&self) -> Range<i64> {
        self.from_secs.saturating_mul(1_000)..self.until_secs.saturating_mul(1_000)
    }
}

/// Series as rows, in the columns of the table `series` that say something of them.
pub(super) struct SourceRows<'a> {
    pub(super) schema: SchemaRef,
    pub(super) batches: Box<dyn Iterator<Item = anyhow::Result<RecordBatch>> + 'a>,
}

/// The steps of series that were read together.
#[derive(Debug, Clone)]
pub(super) struct KnownSteps {
    /// When the first one begins, in seconds since the epoch.
    pub(super) first_secs: i64,
    /// Their length in seconds.
    pub(super) step_secs: u32,
    /// The length of the finest steps that they were made of, in seconds.
    pub(super) finest_secs: f64,
    /// For each step how many of the finest steps are known of it; 0 for a gap.
    pub(super) known: Vec<u32>,
}

impl KnownSteps {
    /// When a step begins, in seconds since the epoch.
    pub(super) fn time_secs(&self, step: usize) -> i64 {
        self.first_secs + step as i64 * i64::from(self.step_secs)
    }
}

/// Values of series over the same steps.
pub(super) trait SeriesValues {
    /// The steps.
    fn steps(&self) -> &KnownSteps;

    /// What the series count.
    fn metrics(&self) -> &[Metric];

    /// How many series there are.
    fn count(&self) -> usize;

    /// The key of a series, by its place.
    fn key(&self, series: usize) -> &str;

    /// For each step what a metric has of it: the sum of a counter, the average or the distinct number of a level; `None` where that
    /// is not known.
    fn totals<'a>(&'a self, series: usize, metric: usize) -> Box<dyn Iterator<Item = Option<u64>> + 'a>;
}
