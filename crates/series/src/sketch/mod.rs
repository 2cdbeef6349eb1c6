//! Sketches: what is kept of many values in few octets, so that sketches of finer steps make the one of a coarser step.
//!
//! A sum of finer steps is the sum of the coarser one; the number of distinct peers is not, nor is the 95th percentile. A
//! sketch is, within an error that is stated. Octets of none are no sketch: nothing is known. They begin with their format.

mod distinct;
mod quantiles;

pub use distinct::DistinctSketch;
pub use quantiles::QuantileSketch;

use crate::{Metric, Sketch};

/// The sketch of a metric in a step that is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenSketch {
    /// A part of the step has none, or one that is damaged.
    Unknown,
    Distinct(DistinctSketch),
    Quantiles(QuantileSketch),
}

impl OpenSketch {
    /// The sketch of no values; `None` for a metric without one.
    pub(crate) fn new(metric: &Metric) -> Option<Self> {
        match metric.sketch {
            Sketch::None => None,
            Sketch::Distinct => Some(Self::Distinct(DistinctSketch::default())),
            Sketch::Quantiles => Some(Self::Quantiles(QuantileSketch::default())),
        }
    }

    /// Puts a value of a finest step in, and the sketch of that step if it has one.
    pub(crate) fn take_value(&mut self, value: u64, octets: Option<&[u8]>) {
        match self {
            Self::Quantiles(sketch) => sketch.insert(value),
            _ => self.take_sketch(octets),
        }
    }

    /// Puts the sketch of a finer step in.
    pub(crate) fn take_sketch(&mut self, octets: Option<&[u8]>) {
        let is_known = match (&mut *self, octets) {
            (Self::Distinct(sketch), Some(octets)) => {
                DistinctSketch::decode(octets).map(|other| sketch.merge(&other)).is_some()
            }
            (Self::Quantiles(sketch), Some(octets)) => {
                QuantileSketch::decode(octets).map(|other| sketch.merge(&other)).is_some()
            }
            _ => false,
        };
        if !is_known {
            *self = Self::Unknown;
        }
    }

    /// The octets of the sketch; none when it is unknown.
    pub(crate) fn encode(&self) -> Box<[u8]> {
        match self {
            Self::Unknown => Box::default(),
            Self::Distinct(sketch) => sketch.encode(),
            Self::Quantiles(sketch) => sketch.encode(),
        }
    }
}
