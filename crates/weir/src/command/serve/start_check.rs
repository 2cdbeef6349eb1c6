//! Whether a service could begin, found out without listening anywhere and without writing anything.
//!
//! Each part of the service finds it out by what its start does first, so nothing here knows what makes a certificate usable or a
//! folder writable. What is in use by others, such as ports and the lock of an archive, is found out by starting alone: a
//! configuration is right also while the service that has it runs.

use std::path::PathBuf;

use anyhow::bail;
use weir_blocks::sinks::{archive, statistics};
use weir_blocks::sources::{collector, meter};
use weir_blocks::transforms::enrich;
use weir_chain::{ChainBuilder, ComponentError};
use weir_serve::Server;

use super::chains::Chains;
use super::settings::Settings;
use crate::command::chain_parts::show_or_build;

impl Settings {
    /// Finds out whether the service could begin: what is wrong beyond the options themselves, such as files that are not there.
    /// Nothing is fetched for it: files that are not there and will be are left out.
    pub(in crate::command) fn check(mut self) -> anyhow::Result<()> {
        self.leave_out_missing_downloads();
        let chain = self.chain();
        let makes_archive = chain.is_some();
        if let Some(chain) = chain {
            self.check_options(&chain)?;
            show_or_build(chain, false)?;
            self.check_components()?;
        }
        Chains::read(&self.chains)?;
        Server::check(&self.service, makes_archive).map_err(|error| self.origin.cannot_serve(error))
    }

    /// Refuses options of the chain that collects which make no sense, each with its place in the file.
    pub(super) fn check_options(&self, chain: &ChainBuilder) -> anyhow::Result<()> {
        let wrong = |(component, error): &(String, _)| self.origin.wrong_option(component, error).to_string();
        let texts: Vec<String> = chain.option_errors().iter().map(wrong).collect();
        if texts.is_empty() {
            return Ok(());
        }
        bail!("{}", texts.join("\n"))
    }

    /// Asks the components of the chain that collects, as their starts do.
    fn check_components(&self) -> anyhow::Result<()> {
        let asked = |section: &'static str, answer: Result<(), ComponentError>| {
            answer.map_err(|error| self.origin.cannot_begin(section, &error))
        };
        if let Some(options) = self.collector_options() {
            asked("collect", collector::check(&options))?;
        }
        self.meter_options().iter().try_for_each(|options| asked("meter", meter::check(options)))?;
        #[cfg(feature = "snmp")]
        self.snmp.iter().try_for_each(|options| asked("snmp", weir_snmp::source::check(options)))?;
        asked("enrichment", enrich::check(&self.enrich_options()))?;
        asked("archive", archive::check(&self.archive_options()))?;
        self.statistics_options().map_or(Ok(()), |options| asked("statistics", statistics::check(&options)))
    }

    /// Leaves out files that are not there and are fetched at the start, and prints which.
    fn leave_out_missing_downloads(&mut self) {
        let files = self.downloads.iter().map(|download| &download.file);
        let missing: Vec<PathBuf> = files.filter(|file| !file.exists()).cloned().collect();
        for file in &missing {
            eprintln!("{} is not there: it is fetched at the start", file.display());
        }
        let (kept, asked) = (&mut self.enrichment, &mut self.service.enrichment);
        let named = [&mut kept.addresses.asn_mmdb, &mut kept.addresses.geo_mmdb, &mut kept.addresses.labels];
        let of_exporters = [&mut kept.exporters.interfaces, &mut kept.exporters.exporters];
        let of_questions = [&mut asked.asn_mmdb, &mut asked.geo_mmdb, &mut asked.labels, &mut asked.interfaces];
        let of_senders = self.collect.as_mut().map(|collect| &mut collect.tls.tls_crl);
        for file in named.into_iter().chain(of_exporters).chain(of_questions).chain(of_senders) {
            file.take_if(|file| missing.contains(file));
        }
        kept.routes.routes.retain(|file| !missing.contains(file));
        asked.routes.retain(|file| !missing.contains(file));
        self.meters.iter_mut().for_each(|meter| meter.routing.routes.retain(|file| !missing.contains(file)));
        self.chains.retain(|file| !missing.contains(file));
    }
}
