//! The books: what happened to everything that was received, per exporter, Observation Domain and minute.
//!
//! Every counter only grows, so that rows of the same exporter and minute may be added up in any order. An archive does so:
//! it keeps one row for each key and minute, and of days long past one row for each key and day, which [`SPAN_COLUMN`]
//! says. What balances, for each exporter and for all, which [`balance`] checks:
//!
//! * datagrams: `datagrams` = `datagrams_decoded` + `datagrams_undecodable` + `datagrams_duplicate`;
//! * sets: `sets_waiting_in` = `sets_waiting_out` + `sets_expired` + those that still wait;
//! * errors: `datagrams_undecodable` + `sets_undecodable` = the sum of `errors_header`, `errors_length`,
//!   `errors_template` and `errors_record`;
//! * records: every Data Record located is one of `records_stored` or `records_options`; flows in the archive are
//!   `records_stored` - `records_filtered` - `records_not_stored`, and `records_made` is a part of `records_stored`;
//! * loss: `records_late` and `records_lost_down` are parts of `records_lost`, and `datagrams_late` and
//!   `datagrams_lost_down` of `datagrams_lost`.
//!
//! What never reached the decoder is in `kernel_drops`, `queue_drops`, `datagrams_refused` and `datagrams_over_rate`, and in
//! none of the equations. [`BooksSums`] says what all of it means for an answer.

mod balance;
mod completeness;
mod lines;
mod sums;

pub use balance::{Counts, Imbalance, balance, balance_rows, sets_waiting};
pub use completeness::Completeness;
pub use lines::{ChangedRows, filtered_rows, not_stored_rows, stored_rows};
pub use sums::{BooksSums, ExporterSums};

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, RecordBatch, TimestampMillisecondArray, UInt8Builder, UInt16Array, UInt32Builder,
    UInt64Array,
};

use crate::Table;

/// The column that says how many minutes a row covers, from its `minute` on: 1, or 1440 where the minutes of a day were
/// added up. Null in rows written before there was this column, which cover one.
pub const SPAN_COLUMN: &str = "span_minutes";

/// What the columns of the books mean that are no counters, for the reference page: name and sentence.
pub const KEY_DOCS: [(&str, &str); 5] = [
    ("minute", "Start of the minute of reception that the row is about, or of the day."),
    ("exporter", "Address of the exporter; null for what is not known per exporter."),
    ("observation_domain", "Observation Domain; null when the datagram did not get that far."),
    ("export_version", "Version of the export protocol; null when the datagram did not get that far."),
    (SPAN_COLUMN, "Minutes that the row covers: 1, or 1440 where an archive has added up a day; null counts as 1."),
];

macro_rules! counters {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// A counter of the books.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Counter {
            $(#[doc = $doc] $variant,)*
        }

        impl Counter {
            /// Every counter, in the order of the table's columns.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant),*];
            /// Number of counters.
            pub const COUNT: usize = Self::ALL.len();

            /// Column name.
            pub const fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$($name),*];
                NAMES[self as usize]
            }

            /// One sentence for the reference page.
            pub const fn doc(self) -> &'static str {
                const DOCS: &[&str] = &[$($doc),*];
                DOCS[self as usize]
            }
        }
    };
}

counters! {
    Datagrams "datagrams" "Datagrams received from the exporter.";
    Octets "octets" "Octets of UDP payload received.";
    RecordsStored "records_stored" "Flow records and flow samples that went to the archive.";
    RecordsOptions "records_options" "Options Data Records, read for what they report about the exporter.";
    Templates "templates" "Template Records and Options Template Records received, refreshes included.";
    TemplatesRefused "templates_refused" "Templates beyond the limits: of one Observation Domain, of all together, or new and changed ones of one address beyond twice `templates_max` at once and a thousand in a second.";
    TemplatesChanged "templates_changed" "Templates defined again with other fields: what came before was decoded by the old ones.";
    TemplatesExpired "templates_expired" "Templates forgotten because the exporter did not send them again in time.";
    TemplatesEvicted "templates_evicted" "Templates dropped for those of other exporters, because this one sent nothing to decode with them.";
    TemplatesWithdrawn "templates_withdrawn" "Template Withdrawals received.";
    WithdrawalsIgnored "withdrawals_ignored" "Template Withdrawals in datagrams, which change nothing (RFC 7011 section 8.4).";
    SetsWaitingIn "sets_waiting_in" "Data Sets put aside because their Template was not known yet.";
    SetsWaitingOut "sets_waiting_out" "Data Sets decoded after their Template had come.";
    SetsExpired "sets_expired" "Data Sets dropped: their Template did not come in time or was withdrawn, the memory and files for waiting were full, or a message had many sets of a few octets, each of another Template.";
    RecordsLost "records_lost" "Records missing by the sequence numbers of NetFlow v5 and IPFIX.";
    DatagramsLost "datagrams_lost" "Datagrams missing by the sequence numbers of NetFlow v9 and sFlow.";
    RecordsLate "records_late" "Records in datagrams that came after later ones: counted as lost before, and here to be subtracted.";
    DatagramsLate "datagrams_late" "Datagrams of NetFlow v9 and sFlow that came after later ones: counted as lost before, and here to be subtracted.";
    SequenceResets "sequence_resets" "Jumps of the sequence number too large for loss: a restarted exporter.";
    RecordsLostDown "records_lost_down" "Those of `records_lost` that were missed while the collector was down: after its last delivery that the archive has, and before it went on.";
    DatagramsLostDown "datagrams_lost_down" "Those of `datagrams_lost` that were missed while the collector was down, as above.";
    DatagramsUndecodable "datagrams_undecodable" "Datagrams of which nothing could be decoded.";
    SetsUndecodable "sets_undecodable" "Sets with an error, and samples and records of sFlow; what is before the error is kept.";
    SetsReserved "sets_reserved" "Sets with a Set ID that the standards reserve, skipped.";
    ListsUndecodable "lists_undecodable" "Lists in records (RFC 6313), or parts of them, whose Template is not known or that are damaged; they are kept as octets.";
    SamplersRefused "samplers_refused" "Samplers reported by Options Data Records beyond the limits on samplers; and changes of intervals beyond `samplers_max` of one address at once and a thousand in a second, whose flows have no interval until it is reported again.";
    OptionsUnlisted "options_unlisted" "Options Data Records that did not go to `exporter_options`: too many different ones came within an hour, many of fewer than 8 octets in a message, or more that are new or changed than 262,144 of one address at once and a thousand in a second. Of one message 64 are read, and one for each three octets.";
    DomainsEvicted "domains_evicted" "Times that the Observation Domain was forgotten because others wanted its place.";
    SpoolDamaged "spool_damaged" "Places in files of waiting Data Sets where something was damaged; not known per exporter.";
    DatagramsRefused "datagrams_refused" "Datagrams of new exporters for which no other had to give way, or whose address has as many Observation Domains as one may have and sends of more new ones in a second than that, or which has more made on connections than twice `domains_max` at once and a thousand in a second; not known per exporter.";
    DatagramsNotAllowed "datagrams_not_allowed" "Datagrams of senders that are not among those allowed; not known per exporter.";
    KernelDrops "kernel_drops" "Datagrams that the kernel dropped because the socket buffer was full; not known per exporter.";
    QueueDrops "queue_drops" "Datagrams of DTLS dropped between socket and decoder because the queue was full; not known per exporter.";
    DatagramsDecoded "datagrams_decoded" "Datagrams whose header was read, and whose sets are accounted for.";
    DatagramsDuplicate "datagrams_duplicate" "Datagrams that came again with the same octets, dropped.";
    DatagramsReordered "datagrams_reordered" "Datagrams that came after later ones.";
    DatagramsUnsequenced "datagrams_unsequenced" "Datagrams of exporters whose sequence numbers mean nothing, so that loss before them is not known.";
    RecordsFiltered "records_filtered" "Flow records among `records_stored` that a filter after the collector dropped, or that another transform of a chain took; what it made of them counts as stored again, and in `records_made`.";
    ErrorsHeader "errors_header" "Undecodable because of the message header: too short, or of no known version.";
    ErrorsLength "errors_length" "Undecodable because a length or count does not agree with the octets at hand.";
    ErrorsTemplate "errors_template" "Undecodable because a Template Record makes no sense.";
    ErrorsRecord "errors_record" "Undecodable because a Data Record reaches past its Set.";
    ClockAheadMs "clock_ahead_ms" "Milliseconds by which the exporter's clock was ahead of ours, summed over `datagrams_decoded`; a day each at most.";
    ClockBehindMs "clock_behind_ms" "Milliseconds by which the exporter's clock was behind ours, delay included, summed over `datagrams_decoded`; a day each at most.";
    CountersStored "counters_stored" "Counters samples of sFlow that went to the tables of counters.";
    SamplesLost "samples_lost" "Flow samples and discarded packets missing by the sequence numbers of sFlow's sources, those in lost datagrams included; older books have counters samples in it, where `counter_samples_lost` is not counted yet.";
    SamplesLate "samples_late" "Flow samples and discarded packets that came after later ones of their source: counted as lost before, and here to be subtracted.";
    SamplesDropped "samples_dropped" "Samples that the sFlow agent could not make for lack of resources, by its own count.";
    StructuresSkipped "structures_skipped" "Samples and records of sFlow whose format is not known; records of flow samples are kept among the elements.";
    SourcesRefused "sources_refused" "Samples of sources beyond the limit on sources; stored, but their sequence is not followed.";
    StreamMessages "stream_messages" "Those of `datagrams` that did not come as plain UDP: messages over TCP, TLS, SCTP and DTLS, and from files.";
    ConnectionsAccepted "connections_accepted" "Connections over TCP, TLS and SCTP, and DTLS sessions, that were begun; not known per exporter.";
    ConnectionsRefused "connections_refused" "Connections closed at once because of a limit: of all, of one address, of handshakes under way; not known per exporter.";
    ConnectionsFailed "connections_failed" "Connections closed for an error: broken framing, a message that did not come to its end, silence for too long, a reset; not known per exporter.";
    HandshakesFailed "handshakes_failed" "Handshakes of TLS and DTLS that did not succeed; not known per exporter.";
    DatagramsRelayed "datagrams_relayed" "Datagrams and messages relayed to other collectors, counted for each of them; not known per exporter.";
    RelayDrops "relay_drops" "Datagrams and messages not relayed because the relay did not keep up; not known per exporter.";
    RelayFailures "relay_failures" "Datagrams and messages that could not be sent on: too long for a datagram, or refused by the system, counted for each collector; not known per exporter.";
    ApplicationsRefused "applications_refused" "Names of applications in Options Data Records that were not remembered, because too many are: flows have the number alone.";
    HandshakesOverLimit "handshakes_over_limit" "Those of `handshakes_failed` that were given up because too many were under way; the log names a peer of each reason.";
    HandshakeTooSlow "handshake_too_slow" "Those of `handshakes_failed` that took too long.";
    HandshakeCutShort "handshake_cut_short" "Those of `handshakes_failed` that the peer broke off.";
    HandshakeNoCertificate "handshake_no_certificate" "Those of `handshakes_failed` in which the peer showed no certificate.";
    HandshakeCertificateExpired "handshake_certificate_expired" "Those of `handshakes_failed` with a certificate that has expired or is not valid yet.";
    HandshakeCertificateUntrusted "handshake_certificate_untrusted" "Those of `handshakes_failed` with a certificate of an authority that is not trusted.";
    HandshakeCertificateRevoked "handshake_certificate_revoked" "Those of `handshakes_failed` with a certificate that was revoked.";
    HandshakeNameNotAllowed "handshake_name_not_allowed" "Those of `handshakes_failed` with a certificate of none of the names that are allowed.";
    HandshakeRefusedByPeer "handshake_refused_by_peer" "Those of `handshakes_failed` in which the peer did not accept our certificate.";
    HandshakeProtocol "handshake_protocol" "Those of `handshakes_failed` that were no TLS, or a version before 1.2.";
    DatagramsOverRate "datagrams_over_rate" "Datagrams of senders that sent more a second than the limit on each source (`rate_per_source`) allows, dropped before they were looked at; not known per exporter.";
    RecordsNotStored "records_not_stored" "Flow records among `records_stored` that could not be written: the disk took nothing until the collector stopped, or the record was too large.";
    RecordsMade "records_made" "Those of `records_stored` that no exporter sent: a transform of a chain made them of others, which are in `records_filtered`.";
    CounterSamplesLost "counter_samples_lost" "Counters samples missing by the sequence numbers of sFlow's sources, those in lost datagrams included; no flow is missing with them.";
    CounterSamplesLate "counter_samples_late" "Counters samples that came after later ones of their source: counted as lost before, and here to be subtracted.";
}

impl Counter {
    /// Why something was undecodable: the counters of the reasons.
    pub const REASONS: [Self; 4] = [Self::ErrorsHeader, Self::ErrorsLength, Self::ErrorsTemplate, Self::ErrorsRecord];
    /// Why handshakes failed: the counters of the reasons.
    pub const HANDSHAKE_REASONS: [Self; 10] = [
        Self::HandshakesOverLimit,
        Self::HandshakeTooSlow,
        Self::HandshakeCutShort,
        Self::HandshakeNoCertificate,
        Self::HandshakeCertificateExpired,
        Self::HandshakeCertificateUntrusted,
        Self::HandshakeCertificateRevoked,
        Self::HandshakeNameNotAllowed,
        Self::HandshakeRefusedByPeer,
        Self::HandshakeProtocol,
    ];
}

/// One row of the books before it is a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BooksRow {
    /// Start of the minute, milliseconds since the epoch.
    pub minute_ms: i64,
    /// Address of the exporter, 4 or 16 octets; `None` for what is not known per exporter.
    pub exporter: Option<Vec<u8>>,
    /// Observation Domain, `None` when the datagram did not get that far.
    pub observation_domain: Option<u32>,
    /// Version of the export protocol, `None` when the datagram did not get that far.
    pub export_version: Option<u8>,
    /// Counts by [`Counter`], growth since the row before.
    pub counts: [u64; Counter::COUNT],
}

/// What a row of the books is about; see [`BooksRow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BooksKey<'a> {
    /// Start of the minute, milliseconds since the epoch.
    pub minute_ms: i64,
    /// Address of the exporter, 4 or 16 octets; `None` for what is not known per exporter.
    pub exporter: Option<&'a [u8]>,
    /// Observation Domain, `None` when the datagram did not get that far.
    pub observation_domain: Option<u32>,
    /// Version of the export protocol, `None` when the datagram did not get that far.
    pub export_version: Option<u8>,
}

/// Gathers rows of the books, column by column.
///
/// Most rows have a handful of counters that are not zero, and most counters are zero in all rows. So a column begins with the
/// first count that is not, and those without any are one array of zeros: a row costs as much as was counted, and not as
/// much as there are counters.
#[derive(Debug)]
pub struct BooksBuilder {
    minutes: Vec<i64>,
    exporters: BinaryBuilder,
    domains: UInt32Builder,
    versions: UInt8Builder,
    /// By [`Counter`]; zeros at the end are left out.
    counts: [Vec<u64>; Counter::COUNT],
}

impl Default for BooksBuilder {
    fn default() -> Self {
        Self {
            minutes: Vec::new(),
            exporters: BinaryBuilder::with_capacity(0, 0),
            domains: UInt32Builder::with_capacity(0),
            versions: UInt8Builder::with_capacity(0),
            counts: std::array::from_fn(|_| Vec::new()),
        }
    }
}

impl BooksBuilder {
    /// Most octets of a row: minute, address and where it ends, Observation Domain, version, which of them are null, and every
    /// counter. A column may have memory for twice as many.
    pub const ROW_OCTETS_MAX: usize = 8 + 16 + 4 + 4 + 1 + 1 + 8 * Counter::COUNT;

    /// Appends a row. Counters that `counts` leaves out are zero.
    pub fn push(&mut self, key: BooksKey<'_>, counts: impl IntoIterator<Item = (Counter, u64)>) {
        let row = self.minutes.len();
        self.minutes.push(key.minute_ms);
        self.exporters.append_option(key.exporter);
        self.domains.append_option(key.observation_domain);
        self.versions.append_option(key.export_version);
        for (counter, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let column = &mut self.counts[counter as usize];
            column.resize(row + 1, 0);
            column[row] += count;
        }
    }

    /// Rows appended since the last batch.
    pub fn rows(&self) -> usize {
        self.minutes.len()
    }

    /// Hands the rows out.
    pub fn finish(&mut self) -> BooksBatch {
        let Self { minutes, mut exporters, mut domains, mut versions, counts } = std::mem::take(self);
        let rows = minutes.len();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from(minutes).with_timezone("UTC")),
            Arc::new(exporters.finish()),
            Arc::new(domains.finish()),
            Arc::new(versions.finish()),
            Arc::new(UInt16Array::from(vec![1; rows])),
        ];
        let zeros: ArrayRef = Arc::new(UInt64Array::from(vec![0; rows]));
        columns.extend(counts.into_iter().map(|mut column| -> ArrayRef {
            if column.is_empty() {
                return Arc::clone(&zeros);
            }
            column.resize(rows, 0);
            Arc::new(UInt64Array::from(column))
        }));
        match RecordBatch::try_new(Table::ExporterBooks.schema(), columns) {
            Ok(batch) => BooksBatch(batch),
            Err(error) => unreachable!("columns are built in the order of the schema: {error}"),
        }
    }
}

/// Rows of the books as Arrow columns, with the schema of [`Table::ExporterBooks`].
#[derive(Debug, Clone, PartialEq)]
pub struct BooksBatch(RecordBatch);

impl BooksBatch {
    /// Puts lines of others behind these.
    #[must_use]
    pub fn followed_by(&self, other: &Self) -> Self {
        let batches = [&self.0, &other.0];
        match arrow::compute::concat_batches(batches[0].schema_ref(), batches) {
            Ok(batch) => Self(batch),
            Err(error) => unreachable!("both have the schema of the books: {error}"),
        }
    }

    /// Turns rows into columns.
    pub fn from_rows(rows: &[BooksRow]) -> Self {
        let mut builder = BooksBuilder::default();
        for row in rows {
            let key = BooksKey {
                minute_ms: row.minute_ms,
                exporter: row.exporter.as_deref(),
                observation_domain: row.observation_domain,
                export_version: row.export_version,
            };
            builder.push(key, Counter::ALL.iter().copied().zip(row.counts));
        }
        builder.finish()
    }

    /// Takes a record batch that has the schema of the books.
    pub fn try_new(batch: RecordBatch) -> Option<Self> {
        (batch.schema_ref().fields() == Table::ExporterBooks.schema().fields()).then_some(Self(batch))
    }

    /// The rows as Arrow sees them.
    pub fn record_batch(&self) -> &RecordBatch {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let mut counts = [0; Counter::COUNT];
        counts[Counter::Datagrams as usize] = 3;
        let row = BooksRow {
            minute_ms: 60_000,
            exporter: Some(vec![192, 0, 2, 1]),
            observation_domain: Some(7),
            export_version: Some(9),
            counts,
        };
        let none = BooksRow { exporter: None, observation_domain: None, export_version: None, ..row.clone() };
        let batch = BooksBatch::from_rows(&[row, none]);
        assert_eq!(batch.record_batch().num_rows(), 2);
        assert_eq!(batch.record_batch().num_columns(), KEY_DOCS.len() + Counter::COUNT);
        assert!(BooksBatch::try_new(batch.record_batch().clone()).is_some());
    }

    /// Rows, counters and what is counted, as text: `row:counter:count`.
    fn counted(batch: &BooksBatch) -> Vec<String> {
        let column = |counter: &Counter| {
            let column = batch.record_batch().column_by_name(counter.name()).expect("a column");
            column.as_any().downcast_ref::<UInt64Array>().expect("counts").clone()
        };
        let of = |counter: &Counter| {
            let counts = column(counter);
            let rows = counts.values().iter().enumerate().filter(|(_, count)| **count > 0);
            rows.map(|(row, count)| format!("{row}:{}:{count}", counter.name())).collect::<Vec<_>>()
        };
        Counter::ALL.iter().flat_map(of).collect()
    }

    #[test]
    fn what_was_not_counted_costs_no_memory_of_its_own() {
        let key = BooksKey {
            minute_ms: 0,
            exporter: Some(&[192, 0, 2, 1]),
            observation_domain: None,
            export_version: Some(10),
        };
        let mut builder = BooksBuilder::default();
        builder.push(key, []);
        builder.push(key, [(Counter::Octets, 16), (Counter::Datagrams, 0), (Counter::Octets, 4)]);
        builder.push(key, [(Counter::RecordsNotStored, 7)]);
        builder.push(BooksKey { exporter: None, ..key }, [(Counter::Octets, 1)]);
        assert_eq!(builder.rows(), 4);
        let batch = builder.finish();
        assert_eq!(counted(&batch), ["1:octets:20", "3:octets:1", "2:records_not_stored:7"]);
        assert_eq!(batch.record_batch().column(1).null_count(), 1);
        let columns = batch.record_batch().columns();
        let kept: std::collections::BTreeSet<_> =
            columns.iter().map(|column| Arc::as_ptr(column).cast::<u8>()).collect();
        assert_eq!(kept.len(), KEY_DOCS.len() + 3, "two counters, and the zeros of all others");
        assert_eq!((builder.rows(), builder.finish().record_batch().num_rows()), (0, 0));
    }
}
