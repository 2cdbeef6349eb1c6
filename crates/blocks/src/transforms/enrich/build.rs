//! What is made of the options.

use weir_chain::{Built, ComponentContext, ComponentError, Opener, OptionError};
use weir_flow::Column;

use super::names::{Limits, Names, system_resolver};
use super::options::EnrichOptions;
use super::reload::Reload;
use super::tables::Tables;
use super::{Enrich, plan};

impl EnrichOptions {
    /// The columns that are made, in the order of the schema; none when nothing is asked for.
    pub fn columns(&self) -> Vec<Column> {
        let mut columns: Vec<_> = plan::made(self).map(|(column, _)| column).collect();
        columns.sort_unstable();
        columns
    }
}

/// Finds out whether the files of these options can be read.
pub fn check(options: &EnrichOptions) -> Result<(), ComponentError> {
    Tables::load(options).map(drop)
}

pub(super) fn configure(options: EnrichOptions) -> Result<Opener, OptionError> {
    let made: Vec<_> = plan::made(&options).collect();
    if made.is_empty() {
        let error = OptionError::new("type", "nothing is to be added");
        return Err(error.with_hint("give a file, such as asn_mmdb, labels, routes or interfaces, or reverse_dns"));
    }
    let limits = Limits {
        threads: options.dns_threads,
        entries_max: options.dns_entries_max,
        questions_max: options.dns_questions_max,
        ttl: options.dns_ttl.duration(),
        negative_ttl: options.dns_negative_ttl.duration(),
    };
    Ok(Box::new(move |context: &ComponentContext| {
        // as `check` does
        let tables = Tables::load(&options)?;
        let start = || Names::start(limits, &system_resolver(), &context.counters);
        let names = options.reverse_dns.then(start).transpose()?;
        let reload = Some(Reload::new(options.reload.duration(), context));
        let overwrite = options.overwrite;
        Ok(Built::Transform(Box::new(Enrich { tables, made, overwrite, names, reload, plan: None })))
    }))
}
