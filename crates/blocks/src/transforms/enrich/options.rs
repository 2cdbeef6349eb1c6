//! The options.

use std::path::PathBuf;

use weir_chain::{TimeSpan, options};

options! {
    /// Options of `enrich`.
    pub struct EnrichOptions {
        /// Replace also what the exporter gave, or an enrichment before; where the file has nothing it stays.
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
    includes {
        /// What is known of addresses.
        addresses: AddressFileOptions,
        /// What is known of exporters.
        exporters: ExporterFileOptions,
        /// What is known of routes.
        routes: RouteFileOptions,
    }
}

options! {
    /// Files of routes.
    pub struct RouteFileOptions {
        /// Fill autonomous systems from these files where the exporter gave none: MRT dumps of routing tables, or lines of
        /// prefixes with a number; also compressed with gzip, bzip2 or zstd. The longest prefix of all files counts, and of
        /// the same prefix that of the last file. What no route has is looked up in asn_mmdb.
        routes: Vec<PathBuf> = Vec::new(),
    }
}

options! {
    /// Files about addresses.
    pub struct AddressFileOptions {
        /// Fill autonomous systems from this MaxMind DB file, such as GeoLite2-ASN, where the exporter gave none.
        asn_mmdb: Option<PathBuf>,
        /// Keep the countries of addresses, by this MaxMind DB file, such as GeoLite2-Country or GeoLite2-City.
        geo_mmdb: Option<PathBuf>,
        /// Keep labels of addresses, by this text file with a line "prefix,label" for each prefix, of IPv4 or IPv6. Empty
        /// lines, lines that begin with # and a first line with these two words are ignored.
        labels: Option<PathBuf>,
    }
}

options! {
    /// Files about exporters.
    pub struct ExporterFileOptions {
        /// Keep names of interfaces, by this text file of the form of labels with a line "exporter,if_index,name" for each
        /// interface.
        interfaces: Option<PathBuf>,
        /// Keep names of exporters, by this text file of the form of labels with a line "exporter,name" for each exporter;
        /// a prefix stands for all exporters in it.
        exporters: Option<PathBuf>,
    }
}
