//! What users can set of a cluster and what is written to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use weir_chain::options::{Given, OptionText, Options, Problem, read};
use weir_chain::{ByteSize, OptionError, TimeSpan, choices, options};

use crate::CassandraUrl;

choices! {
    /// How flows are in the tables.
    pub enum Model {
        /// A row for each flow, with a typed column for each column of weir.
        Flows = "flows",
        /// A cell for each export packet: an IPFIX Message of its own, in a row for each second and shard.
        Packets = "packets",
    }
}

choices! {
    /// How many replicas must have acknowledged a write.
    pub enum WriteConsistency {
        /// Most of those in the data centre.
        LocalQuorum = "local-quorum",
        /// Most of all.
        Quorum = "quorum",
        /// One.
        One = "one",
        /// One in the data centre.
        LocalOne = "local-one",
        /// Two.
        Two = "two",
        /// All.
        All = "all",
    }
}

options! {
    /// Where a cluster is, and how flows are written to it.
    pub struct CassandraOptions {
        /// The cluster and the keyspace: cassandra://user:password@host:port,host/keyspace. Further options follow a question
        /// mark, separated by &: cassandra://host/keyspace?replication=3&ttl=90d.
        to: CassandraUrl,
        /// Store flows as rows, or export packets as cells.
        model: Model = Model::Flows,
    }
    includes {
        /// How the cluster is reached.
        connection: ConnectionOptions,
        /// What tables are made.
        schema: SchemaOptions,
        /// How flows are written.
        writing: WritingOptions,
    }
}

options! {
    /// How a cluster is reached.
    pub struct ConnectionOptions {
        /// Read name and password from this file, `name:password` in its first line, in place of the address.
        user_file: Option<PathBuf>,
        /// Encrypt connections. Certificates of nodes must be of an authority that the system trusts; the names in them are not
        /// compared.
        tls: bool = false,
        /// Encrypt connections, and trust the certificates in this file (PEM) only.
        tls_ca: Option<PathBuf>,
        /// Show nodes the certificate in this file (PEM).
        tls_cert: Option<PathBuf>,
        /// The key of that certificate (PEM).
        tls_key: Option<PathBuf>,
        /// Wait this long for an answer before it is asked again.
        request_timeout: TimeSpan = TimeSpan::from_secs(10),
    }
}

options! {
    /// What keyspace and tables are made when they are missing.
    pub struct SchemaOptions {
        /// Make the keyspace and the tables when they are missing, and add columns that are new.
        create_schema: bool = true,
        /// Keep this many replicas when the keyspace is made: a number, or one for each data centre (dc1:3,dc2:2).
        replication: String = String::from("1"),
        /// Let flows expire after this time; without it never. Tables are made with it, and what is written carries it.
        ttl: Option<TimeSpan>,
    }
}

options! {
    /// How flows are written.
    pub struct WritingOptions {
        /// Wait for this many replicas.
        consistency: WriteConsistency = WriteConsistency::LocalQuorum,
        /// Keep flows received within this time in one partition of each shard. A day must be a multiple of it.
        bucket: TimeSpan = TimeSpan::from_secs(60),
        /// Spread flows of a bucket over this many partitions.
        shards: u16 = 8 => 1..=4096,
        /// Send about this many bytes in a batch. All flows of a batch are of one partition, so limits of servers on batches do not count.
        batch_size: ByteSize = ByteSize::from_bytes(64 << 10) => 1..=1 << 24,
        /// Have at most this many batches without an answer.
        batches_in_flight: usize = 32 => 1..=4096,
        /// Put this many flows into an export packet, in the model of packets.
        packet_flows: u16 = 30 => 1..=1000,
    }
}

/// A day, of which buckets are parts.
pub(crate) const DAY_MS: i64 = 86_400_000;

impl CassandraUrl {
    /// The options that the address has, over the defaults of all others.
    pub fn options(&self) -> Result<CassandraOptions, Problem> {
        let mut words: BTreeMap<&'static str, Vec<OsString>> = BTreeMap::new();
        let specs = CassandraOptions::specs();
        for (key, value) in &self.settings {
            let Some(spec) = specs.iter().find(|spec| spec.key == key && key != "to") else {
                let keys: Vec<_> = specs.iter().map(|spec| spec.key).filter(|key| *key != "to").collect();
                return Err(Problem::Because(
                    format!("'{}' is no option of cassandra", key.escape_debug()),
                    Some(format!("options are: {}", keys.join(", "))),
                ));
            };
            words.entry(spec.key).or_default().push(value.into());
        }
        words.insert("to", vec![self.text().into()]);
        let found = read::<CassandraOptions>(&Given::from_words(words));
        let found = found.map_err(|error| Problem::Because(error.message, error.hint))?;
        found.check().map_err(|error| Problem::Because(error.message, error.hint))?;
        Ok(found)
    }
}

impl CassandraOptions {
    /// Refuses what no type does.
    pub fn check(&self) -> Result<(), OptionError> {
        let bucket_ms = self.writing.bucket.millis();
        if bucket_ms < 1000 || DAY_MS % bucket_ms != 0 || bucket_ms % 1000 != 0 {
            let message = format!("'bucket' is {}, of which a day is no multiple", self.writing.bucket);
            return Err(
                OptionError::new("bucket", message).with_hint("give seconds, minutes or hours, such as 60s or 1h")
            );
        }
        if self.connection.tls_cert.is_some() != self.connection.tls_key.is_some() {
            let error = OptionError::new("tls_cert", "'tls_cert' and 'tls_key' must be given together");
            return Err(error.with_hint("a certificate is of no use without its key"));
        }
        let ttl_secs = self.schema.ttl.map(|ttl| ttl.duration().as_secs());
        if ttl_secs.is_some_and(|ttl| ttl == 0 || ttl > TTL_SECS_MAX) {
            let error = OptionError::new("ttl", "'ttl' must be between 1s and 20 years, which Cassandra takes at most");
            return Err(error);
        }
        self.replication().map(|_| ())
    }

    /// The replication of a keyspace, as CQL has it.
    pub(crate) fn replication(&self) -> Result<String, OptionError> {
        let text = &self.schema.replication;
        let wrong = || {
            let message = format!("'replication' is '{}'", text.escape_debug());
            OptionError::new("replication", message)
                .with_hint("give a number, or one for each data centre: dc1:3,dc2:2")
        };
        let factor = |text: &str| text.parse::<u8>().ok().filter(|factor| *factor > 0);
        if let Some(factor) = factor(text) {
            return Ok(format!("{{'class': 'SimpleStrategy', 'replication_factor': {factor}}}"));
        }
        let mut centres = String::new();
        for centre in text.split(',') {
            let (name, count) = centre.split_once(':').ok_or_else(wrong)?;
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let count = factor(count).filter(|_| !name.is_empty() && name.chars().all(is_name)).ok_or_else(wrong)?;
            let _ = write!(centres, ", '{name}': {count}");
        }
        Ok(format!("{{'class': 'NetworkTopologyStrategy'{centres}}}"))
    }

    /// How long flows are kept, in seconds; 0 for ever.
    pub(crate) fn ttl_secs(&self) -> u64 {
        self.schema.ttl.map_or(0, |ttl| ttl.duration().as_secs())
    }

    /// How long lines about partitions are kept, in seconds; 0 for ever. A day longer than what is in them, where Cassandra takes
    /// that.
    pub(crate) fn bucket_ttl_secs(&self) -> u64 {
        match self.ttl_secs() {
            0 => 0,
            ttl => (ttl + DAY_MS.unsigned_abs() / 1000).min(TTL_SECS_MAX),
        }
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        let ConnectionOptions { tls, tls_ca, tls_cert, .. } = &self.connection;
        *tls || tls_ca.is_some() || tls_cert.is_some()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.connection.request_timeout.duration().max(Duration::from_millis(100))
    }

    pub(crate) fn batch_octets(&self) -> usize {
        usize::try_from(self.writing.batch_size.bytes()).unwrap_or(usize::MAX)
    }
}

/// The longest time to live that Cassandra takes.
const TTL_SECS_MAX: u64 = 20 * 365 * 86_400;
