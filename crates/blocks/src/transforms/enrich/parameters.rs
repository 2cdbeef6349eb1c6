//! The parameters, and what is made of them.

use weir_chain::{Built, ComponentContext, Opener, ParameterError, ParameterSpec, ParameterType, Parameters};

use super::Enrich;
use super::names::{Limits, Names, system_resolver};
use super::reload::Reload;
use super::tables::{Files, Tables};

pub(super) const SPECS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "asn_mmdb",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "A MaxMind DB file with autonomous systems, such as GeoLite2-ASN.",
    },
    ParameterSpec {
        key: "geo_mmdb",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "A MaxMind DB file with countries, such as GeoLite2-Country or GeoLite2-City.",
    },
    ParameterSpec {
        key: "labels",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "A text file with a line 'prefix,label' for each prefix, of IPv4 or IPv6; empty lines, lines that begin \
              with '#' and a first line with these two words are left out.",
    },
    ParameterSpec {
        key: "interfaces",
        parameter_type: ParameterType::Path,
        default: Some(""),
        doc: "A text file of the same form with a line 'exporter,if_index,name' for each interface.",
    },
    ParameterSpec {
        key: "overwrite",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether 'src_as' and 'dst_as' are replaced where the exporter told them; where the database has no \
              number they stay.",
    },
    ParameterSpec {
        key: "reload_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("60"),
        doc: "How often files are looked at; one that has changed is read again, and 0 means never.",
    },
    ParameterSpec {
        key: "reverse_dns",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether names of hosts are asked for; the rows handed on then depend on how fast name servers answer.",
    },
    ParameterSpec {
        key: "dns_threads",
        parameter_type: ParameterType::Integer(1, 256),
        default: Some("4"),
        doc: "How many names are asked for at the same time.",
    },
    ParameterSpec {
        key: "dns_entries_max",
        parameter_type: ParameterType::Integer(1, 100_000_000),
        default: Some("100000"),
        doc: "How many addresses are kept with their names, or with the fact that they have none; over it the one that \
              came first is forgotten.",
    },
    ParameterSpec {
        key: "dns_questions_max",
        parameter_type: ParameterType::Integer(1, 10_000_000),
        default: Some("10000"),
        doc: "How many addresses may wait for being asked for; over it questions are dropped and counted.",
    },
    ParameterSpec {
        key: "dns_ttl_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("3600"),
        doc: "After what time a name is asked for again.",
    },
    ParameterSpec {
        key: "dns_negative_ttl_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("600"),
        doc: "After what time an address without a name is asked for again.",
    },
];

pub(super) fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let files = Files {
        asn_mmdb: parameters.path("asn_mmdb"),
        geo_mmdb: parameters.path("geo_mmdb"),
        labels: parameters.path("labels"),
        interfaces: parameters.path("interfaces"),
    };
    let reverse_dns = parameters.boolean("reverse_dns");
    if files == Files::default() && !reverse_dns {
        let error = ParameterError::new("type", "nothing is to be added");
        return Err(error.with_hint("give one of asn_mmdb, geo_mmdb, labels, interfaces or reverse_dns"));
    }
    let limits = Limits {
        threads: parameters.integer("dns_threads") as usize,
        entries_max: parameters.integer("dns_entries_max") as usize,
        questions_max: parameters.integer("dns_questions_max") as usize,
        ttl: parameters.duration("dns_ttl_secs"),
        negative_ttl: parameters.duration("dns_negative_ttl_secs"),
    };
    let (overwrite, every) = (parameters.boolean("overwrite"), parameters.duration("reload_secs"));
    Ok(Box::new(move |context: &ComponentContext| {
        let tables = Tables::load(&files)?;
        let start = || Names::start(limits, &system_resolver(), &context.counters);
        let names = reverse_dns.then(start).transpose()?;
        let reload = (!every.is_zero()).then(|| Reload::new(every, &context.counters));
        Ok(Built::Transform(Box::new(Enrich { tables, overwrite, names, reload, plan: None })))
    }))
}
