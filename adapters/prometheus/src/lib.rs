//! Statistics to Prometheus, `VictoriaMetrics`, Mimir, Thanos and others that take its remote write.
//!
//! A [`RemoteWriteStore`] is where a [`StatisticsForwarder`](weir_forward::StatisticsForwarder) hands steps to: each becomes
//! one request, or several when it is large, which is sent until it was acknowledged.
//!
//! A metric of a step is a sample of its own: `weir_bytes{by="total",key="total",step="60"}` has the bytes of the minute that
//! ends at the time of the sample. It is no counter that grows, because a counter would have to go on after a restart from what
//! it was; so sums over time are `sum_over_time`, and rates these divided by the time. A gauge has the average of the step.

pub mod message;
pub mod options;
pub mod remote_write;

pub use options::{RemoteWriteError, RemoteWriteOptions};
pub use remote_write::RemoteWriteStore;
