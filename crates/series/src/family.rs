//! Families of series and their metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a family in its store, in the order in which families were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(pub u16);

/// Number of a series in its family, in the order in which series were first seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesId(pub u32);

/// What the numbers of a metric are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// How much there was in the step; several steps together have the sum.
    Counter,
    /// A level, such as a number of peers; several steps together have an average.
    Gauge,
}

/// What is known about a series that is absent from a step that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coverage {
    /// Its counters were zero: the family has every key.
    Complete,
    /// Nothing: the family has its largest keys only.
    Largest,
}

/// What coarser steps keep of a metric beside its sum, smallest, largest and last value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sketch {
    /// Nothing.
    #[default]
    None,
    /// The metric counts distinct things, and finest steps come with a sketch of them: how many there were in the whole step.
    Distinct,
    /// The distribution of the values of finest steps.
    Quantiles,
}

/// A number that each series of a family has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, such as `bytes`.
    pub name: String,
    /// What its numbers are.
    pub kind: MetricKind,
    /// What coarser steps keep of it.
    #[serde(default, skip_serializing_if = "Sketch::is_none")]
    pub sketch: Sketch,
}

impl Sketch {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Metric {
    /// A counter without a sketch.
    pub fn counter(name: &str) -> Self {
        Self { name: name.to_owned(), kind: MetricKind::Counter, sketch: Sketch::None }
    }

    /// A gauge without a sketch.
    pub fn gauge(name: &str) -> Self {
        Self { kind: MetricKind::Gauge, ..Self::counter(name) }
    }

    /// The same with a sketch.
    #[must_use]
    pub fn with(self, sketch: Sketch) -> Self {
        Self { sketch, ..self }
    }
}

/// All series of one kind of key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Family {
    /// Its name, such as `host`.
    pub name: String,
    /// What is known about series that are absent from a step.
    pub coverage: Coverage,
    /// What is counted for each series, at most 32.
    pub metrics: Vec<Metric>,
}

impl Family {
    /// A family of every key, with these counters.
    pub fn counters(name: &str, metrics: &[&str]) -> Self {
        let metrics = metrics.iter().map(|name| Metric::counter(name)).collect();
        Self { name: name.to_owned(), coverage: Coverage::Complete, metrics }
    }

    /// The place of a metric.
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }

    /// Whether any metric has a sketch.
    pub(crate) fn has_sketches(&self) -> bool {
        self.metrics.iter().any(|metric| metric.sketch != Sketch::None)
    }

    /// The family with the sketches of another one, too: what is kept once stays. `None` when they differ in anything else.
    pub(crate) fn with_sketches_of(&self, other: &Self) -> Option<Self> {
        let mut joined = self.clone();
        let is_same = self.name == other.name && self.coverage == other.coverage;
        (is_same && self.metrics.len() == other.metrics.len()).then_some(())?;
        for (own, more) in joined.metrics.iter_mut().zip(&other.metrics) {
            (own.name == more.name && own.kind == more.kind).then_some(())?;
            own.sketch = match (own.sketch, more.sketch) {
                (Sketch::None, sketch) | (sketch, Sketch::None) => sketch,
                (one, another) => (one == another).then_some(one)?,
            };
        }
        Some(joined)
    }

    /// Whether an absent series was zero, for this metric.
    pub(crate) fn absent_is_zero(&self, metric: usize) -> bool {
        self.coverage == Coverage::Complete && self.metrics[metric].kind == MetricKind::Counter
    }
}

impl fmt::Display for SeriesId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
