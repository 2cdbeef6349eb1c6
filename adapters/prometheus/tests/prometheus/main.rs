//! Statistics into real receivers of remote write: Prometheus and `VictoriaMetrics`.

mod receivers;
mod server;
