//! The options, and what is made of them.

use std::path::PathBuf;

use weir_chain::{Built, ColumnRule, ComponentContext, Opener, OptionError, TimeSpan, options};

use super::Enrich;
use super::names::{Limits, Names, system_resolver};
use super::reload::Reload;
use super::tables::{Files, Tables};

options! {
    /// Options of `enrich`.
    pub struct EnrichOptions {
        /// Look up autonomous systems in this MaxMind DB file, such as GeoLite2-ASN.
        asn_mmdb: Option<PathBuf>,
        /// Look up countries in this MaxMind DB file, such as GeoLite2-Country or GeoLite2-City.
        geo_mmdb: Option<PathBuf>,
        /// Look up labels in this text file with a line "prefix,label" for each prefix, of IPv4 or IPv6. Empty lines,
        /// lines that begin with # and a first line with these two words are ignored.
        labels: Option<PathBuf>,
        /// Look up interfaces in this text file of the same form with a line "exporter,if_index,name" for each
        /// interface.
        interfaces: Option<PathBuf>,
        /// Replace src_as and dst_as also where the exporter gave them; where the database has no number they stay.
        overwrite: bool = false,
        /// Check the files this often and read those again that have changed; 0 never checks.
        reload: TimeSpan = TimeSpan::from_secs(60),
        /// Look up names of hosts; the rows handed on then depend on how fast name servers answer.
        reverse_dns: bool = false,
        /// Look up this many names at the same time.
        dns_threads: usize = 4 => 1..=256,
        /// Keep at most this many addresses with their names, or with the fact that they have none; over the limit the
        /// one that came first is forgotten.
        dns_entries_max: usize = 100_000 => 1..=100_000_000,
        /// Let at most this many addresses wait for being looked up; over the limit questions are dropped and counted.
        dns_questions_max: usize = 10_000 => 1..=10_000_000,
        /// Look up a name again after this time.
        dns_ttl: TimeSpan = TimeSpan::from_secs(3600),
        /// Look up an address without a name again after this time.
        dns_negative_ttl: TimeSpan = TimeSpan::from_secs(600),
    }
}

/// The columns of texts are none of flows.
pub(super) fn columns(options: &EnrichOptions) -> ColumnRule {
    let added: [(bool, [&'static str; 2]); 4] = [
        (options.geo_mmdb.is_some(), ["src_country", "dst_country"]),
        (options.labels.is_some(), ["src_label", "dst_label"]),
        (options.interfaces.is_some(), ["in_if_name", "out_if_name"]),
        (options.reverse_dns, ["src_name", "dst_name"]),
    ];
    ColumnRule::Adds(added.into_iter().filter(|(is_added, _)| *is_added).flat_map(|(_, names)| names).collect())
}

pub(super) fn configure(options: EnrichOptions) -> Result<Opener, OptionError> {
    let EnrichOptions { asn_mmdb, geo_mmdb, labels, interfaces, overwrite, reverse_dns, .. } = options;
    let files = Files { asn_mmdb, geo_mmdb, labels, interfaces };
    if files == Files::default() && !reverse_dns {
        let error = OptionError::new("type", "nothing is to be added");
        return Err(error.with_hint("give one of asn_mmdb, geo_mmdb, labels, interfaces or reverse_dns"));
    }
    let limits = Limits {
        threads: options.dns_threads,
        entries_max: options.dns_entries_max,
        questions_max: options.dns_questions_max,
        ttl: options.dns_ttl.duration(),
        negative_ttl: options.dns_negative_ttl.duration(),
    };
    let every = options.reload.duration();
    Ok(Box::new(move |context: &ComponentContext| {
        let tables = Tables::load(&files)?;
        let start = || Names::start(limits, &system_resolver(), &context.counters);
        let names = reverse_dns.then(start).transpose()?;
        let reload = Some(Reload::new(every, context));
        Ok(Built::Transform(Box::new(Enrich { tables, overwrite, names, reload, plan: None })))
    }))
}
