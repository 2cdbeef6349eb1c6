//! The books: what became of everything that was received, per exporter, Observation Domain and minute.
//!
//! Every counter only grows, so that rows of the same exporter and minute may be added up in any order. What balances:
//!
//! * datagrams: `datagrams` = `datagrams_undecodable` + those whose sets are accounted for below;
//! * sets: `sets_waiting_in` = `sets_waiting_out` + `sets_expired` + those that still wait;
//! * records: every Data Record located is one of `records_stored` or `records_options`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray, UInt8Array, UInt32Array, UInt64Array,
};

use crate::Table;

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
    RecordsStored "records_stored" "Flow records that went to the archive.";
    RecordsOptions "records_options" "Options Data Records, read for what they tell about the exporter.";
    Templates "templates" "Template Records and Options Template Records received, refreshes included.";
    TemplatesRefused "templates_refused" "Templates beyond the limit that one Observation Domain may define.";
    TemplatesWithdrawn "templates_withdrawn" "Template Withdrawals received.";
    SetsWaitingIn "sets_waiting_in" "Data Sets put aside because their Template was not known yet.";
    SetsWaitingOut "sets_waiting_out" "Data Sets decoded after their Template had come.";
    SetsExpired "sets_expired" "Data Sets given up: their Template did not come in time, or the room for waiting was full.";
    RecordsLost "records_lost" "Records missing by the sequence numbers of NetFlow v5 and IPFIX.";
    DatagramsLost "datagrams_lost" "Datagrams missing by the sequence numbers of NetFlow v9.";
    RecordsLate "records_late" "Records in datagrams that came after later ones: counted as lost before, and here to be subtracted.";
    DatagramsLate "datagrams_late" "NetFlow v9 datagrams that came after later ones: counted as lost before, and here to be subtracted.";
    SequenceResets "sequence_resets" "Jumps of the sequence number too large for loss: a restarted exporter.";
    DatagramsUndecodable "datagrams_undecodable" "Datagrams of which nothing could be decoded.";
    SetsUndecodable "sets_undecodable" "Sets with an error; records before the error are kept.";
    SetsReserved "sets_reserved" "Sets with a Set ID that the standards reserve, skipped.";
    DatagramsRefused "datagrams_refused" "Datagrams of new exporters beyond the limit on exporters; not known per exporter.";
    KernelDrops "kernel_drops" "Datagrams that the kernel dropped because the socket buffer was full; not known per exporter.";
    QueueDrops "queue_drops" "Datagrams dropped between socket and decoder because the queue was full; not known per exporter.";
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

/// Rows of the books as Arrow columns, with the schema of [`Table::ExporterBooks`].
#[derive(Debug, Clone, PartialEq)]
pub struct BooksBatch(RecordBatch);

impl BooksBatch {
    /// Turns rows into columns.
    pub fn from_rows(rows: &[BooksRow]) -> Self {
        let minutes: TimestampMillisecondArray = rows.iter().map(|row| Some(row.minute_ms)).collect();
        let exporters: BinaryArray = rows.iter().map(|row| row.exporter.as_deref()).collect();
        let domains: UInt32Array = rows.iter().map(|row| row.observation_domain).collect();
        let versions: UInt8Array = rows.iter().map(|row| row.export_version).collect();
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(minutes.with_timezone("UTC")), Arc::new(exporters), Arc::new(domains), Arc::new(versions)];
        for &counter in Counter::ALL {
            let counts: UInt64Array = rows.iter().map(|row| Some(row.counts[counter as usize])).collect();
            columns.push(Arc::new(counts));
        }
        match RecordBatch::try_new(Table::ExporterBooks.schema(), columns) {
            Ok(batch) => Self(batch),
            Err(error) => unreachable!("columns are built in the order of the schema: {error}"),
        }
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
        assert_eq!(batch.record_batch().num_columns(), 4 + Counter::COUNT);
        assert!(BooksBatch::try_new(batch.record_batch().clone()).is_some());
    }
}
