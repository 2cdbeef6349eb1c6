//! The program as people run it: its processes, its signals, its output.

#[path = "weir/process.rs"]
mod process;

// the flows that filters are compared over
#[allow(dead_code)]
#[path = "../../filter/tests/filter/nfcapd.rs"]
mod nfcapd;
#[allow(dead_code)]
#[path = "../../filter/tests/filter/rows.rs"]
mod rows;

#[path = "weir/applications.rs"]
mod applications;
#[path = "weir/archive.rs"]
mod archive;
#[path = "weir/backtests.rs"]
mod backtests;
#[path = "weir/chain.rs"]
mod chain;
#[cfg(feature = "cassandra")]
#[path = "weir/cluster.rs"]
mod cluster;
#[path = "weir/commands.rs"]
mod commands;
#[path = "weir/connection_memory.rs"]
mod connection_memory;
#[path = "weir/damage.rs"]
mod damage;
#[path = "weir/detection.rs"]
mod detection;
#[path = "weir/enrichment.rs"]
mod enrichment;
#[path = "weir/enrichment_versions.rs"]
mod enrichment_versions;
#[path = "weir/examples.rs"]
mod examples;
#[path = "weir/first_day.rs"]
mod first_day;
#[path = "weir/foreign.rs"]
mod foreign;
#[cfg(feature = "cassandra")]
#[path = "weir/forward.rs"]
mod forward;
#[path = "weir/guides.rs"]
mod guides;
#[path = "weir/import_follow.rs"]
mod import_follow;
#[path = "weir/kill.rs"]
mod kill;
#[path = "weir/meter.rs"]
mod meter;
#[path = "weir/meter_live.rs"]
mod meter_live;
#[path = "weir/meter_routes.rs"]
mod meter_routes;
#[path = "weir/missing.rs"]
mod missing;
#[path = "weir/no_stderr.rs"]
mod no_stderr;
#[path = "weir/open_files.rs"]
mod open_files;
#[path = "weir/planted.rs"]
mod planted;
#[path = "weir/query.rs"]
mod query;
#[path = "weir/rrd.rs"]
mod rrd;
#[path = "weir/series.rs"]
mod series;
#[path = "weir/serve.rs"]
mod serve;
#[path = "weir/serve_access.rs"]
mod serve_access;
#[path = "weir/serve_clients.rs"]
mod serve_clients;
#[path = "weir/serve_downloads.rs"]
mod serve_downloads;
#[path = "weir/serve_empty.rs"]
mod serve_empty;
#[path = "weir/serve_ingest.rs"]
mod serve_ingest;
#[path = "weir/serve_metrics.rs"]
mod serve_metrics;
#[path = "weir/serve_process.rs"]
mod serve_process;
#[path = "weir/serve_refused.rs"]
mod serve_refused;
#[path = "weir/serve_sampling.rs"]
mod serve_sampling;
#[path = "weir/serve_senders.rs"]
mod serve_senders;
#[cfg(feature = "snmp")]
#[path = "weir/serve_snmp.rs"]
mod serve_snmp;
#[path = "weir/service.rs"]
mod service;
#[path = "weir/watches.rs"]
mod watches;
