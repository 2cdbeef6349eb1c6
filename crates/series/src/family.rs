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

/// A number that each series of a family has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, such as `bytes`.
    pub name: String,
    /// What its numbers are.
    pub kind: MetricKind,
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
        let metric = |name: &&str| Metric { name: (*name).to_owned(), kind: MetricKind::Counter };
        Self { name: name.to_owned(), coverage: Coverage::Complete, metrics: metrics.iter().map(metric).collect() }
    }

    /// The place of a metric.
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
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
