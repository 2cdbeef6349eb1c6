//! Parts of the chains that several commands are: their arguments, the kinds of components, `enrich`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use weir_blocks::sinks::statistics::{SeriesOptions, StatisticsSinkOptions};
use weir_blocks::transforms::enrich::{self, AddressFileOptions, EnrichOptions, ExporterFileOptions, RouteFileOptions};
use weir_chain::config::ThreadChoice;
use weir_chain::{Chain, ChainBuilder};

use crate::flags::Flags;

/// Files about addresses and exporters; what they say is stored with the flows.
#[derive(Debug, clap::Args)]
pub(crate) struct EnrichmentArgs {
    #[command(flatten)]
    addresses: Flags<AddressFileOptions>,
    #[command(flatten)]
    exporters: Flags<ExporterFileOptions>,
    #[command(flatten)]
    routes: Flags<RouteFileOptions>,
}

impl EnrichmentArgs {
    /// As options of the component `enrich`.
    pub(crate) fn options(&self) -> EnrichOptions {
        let (addresses, exporters, routes) =
            (self.addresses.0.clone(), self.exporters.0.clone(), self.routes.0.clone());
        EnrichOptions { addresses, exporters, routes, ..EnrichOptions::default() }
    }
}

/// Which statistics are kept next to the flows.
#[derive(Debug, clap::Args)]
pub(crate) struct StatisticsArgs {
    /// Keep statistics over time in this folder [default: the folder statistics of the archive]
    ///
    /// weir series lists and draws them, and weir sql has them as the table series. --show-chain prints the options of the
    /// sink statistics, to be changed in a chain file.
    #[arg(
        long, value_name = "DIR", num_args = 0..=1, require_equals = true, help_heading = "Statistics"
    )]
    #[expect(clippy::option_option, reason = "not given, given without a folder, given with one")]
    statistics: Option<Option<PathBuf>>,
    /// Keep statistics by these columns of flows as well, several joined by +: src_net, exporter+in_if+dst_port
    ///
    /// Without it there are statistics by total, exporter, interface, protocol, port, host and as.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', requires = "statistics", help_heading = "Statistics")]
    statistics_by: Vec<String>,
}

impl StatisticsArgs {
    /// Options of the sink `statistics`, if statistics are requested: in the given folder, else next to the flows of the archive.
    pub(crate) fn options(&self, archive: Option<&Path>) -> anyhow::Result<Option<StatisticsSinkOptions>> {
        let Some(given) = &self.statistics else { return Ok(None) };
        let beside = || archive.map(|archive| archive.join(super::series::FOLDER));
        let folder = given.clone().or_else(beside).context(
            "no folder is given that statistics are kept in\nhint: --statistics=DIR, or --archive DIR to keep them beside the flows",
        )?;
        let mut series = SeriesOptions::default();
        series.by.extend(self.statistics_by.iter().cloned());
        Ok(Some(StatisticsSinkOptions { statistics: folder, series }))
    }
}

/// Every kind of component that chain files may name.
pub(crate) fn registry() -> weir_chain::Registry {
    let mut registry = weir_blocks::registry();
    registry.add(&weir_watch::transform::KIND);
    #[cfg(feature = "cassandra")]
    weir_cassandra::kinds().for_each(|kind| registry.add(kind));
    #[cfg(feature = "snmp")]
    weir_snmp::kinds().for_each(|kind| registry.add(kind));
    registry
}

/// The chain of a command, built; with `shows` it is printed as a chain file, and `None` is returned.
pub(crate) fn show_or_build(chain: ChainBuilder, shows: bool) -> anyhow::Result<Option<Chain>> {
    if shows {
        print!("{}", chain.text());
        return Ok(None);
    }
    chain.build().map(Some).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("{}", texts.join("\n"))
    })
}

/// Puts the component `enrich` behind another one when the options add a column. Returns the name of the last of both.
pub(crate) fn enriched(
    chain: ChainBuilder,
    input: &'static str,
    options: EnrichOptions,
) -> (ChainBuilder, &'static str) {
    let (chain, outputs) = enriched_all(chain, vec![input], options);
    (chain, outputs.first().copied().unwrap_or(input))
}

/// As [`enriched`], behind several components.
pub(crate) fn enriched_all(
    chain: ChainBuilder,
    inputs: Vec<&str>,
    options: EnrichOptions,
) -> (ChainBuilder, Vec<&str>) {
    if options.columns().is_empty() {
        return (chain, inputs);
    }
    (chain.add("enrich", &enrich::KIND, options, &inputs, ThreadChoice::Default), vec!["enrich"])
}
