//! What options data report about sampling, and which of it is in force for a record.
//!
//! A sampler has a number of its own (`selectorId`, `samplerId`), or is that of a [part](part::Part) of the exporter:
//! the scope of options names it, such as an interface or a template. Without either it is that of the whole Observation
//! Domain. The interval N is one packet in N; where an exporter reports a fraction, the nearest whole number. Exporters
//! may report samplers in another domain than that of the flows (a line card, or the exporter as a whole): that is
//! believed where there is no doubt which sampler is meant.

mod fields;
pub(crate) mod part;
mod rate;
mod samplers;
mod selection;
mod sequence;

pub(crate) use fields::SamplerFields;
pub(crate) use part::Sampler;
pub(crate) use rate::Rate;
pub(crate) use samplers::{AllowedSamplers, SamplerChange, Samplers, SamplersLearned, StoredSamplers};
pub(crate) use selection::{KnownSamplers, SamplingInForce, SelectionFields};
pub(crate) use sequence::SequenceSelectors;
