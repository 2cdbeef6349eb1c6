//! What happened on connections.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines counters with their names and sentences.
macro_rules! counts {
    ($($name:ident: $doc:literal,)*) => {
        /// Counters of Flight SQL.
        #[derive(Debug, Default)]
        pub struct FlightCounts {
            $(#[doc = $doc] pub(crate) $name: Counter,)*
            /// Connections that are open.
            pub(crate) open: AtomicU64,
        }

        impl FlightCounts {
            /// Name, sentence and value of each counter.
            pub fn all(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $doc, self.$name.get()),)*]
            }

            /// Connections that are open.
            pub fn open(&self) -> u64 {
                self.open.load(Ordering::Relaxed)
            }
        }
    };
}

counts! {
    connections: "Connections that were accepted",
    connections_refused: "Connections over the limit",
    connections_idle: "Connections that were closed because nothing came over them",
    logins_refused: "Calls with a wrong name, password or token",
    handshakes_failed: "Handshakes of TLS that failed or took too long",
    sessions_ended: "Logins that were forgotten for newer ones",
    statements: "Statements that came",
    statements_failed: "Statements that ended with an error",
    prepared_forgotten: "Prepared statements that were forgotten for newer ones",
    rows: "Rows that were sent",
    answers_cut: "Answers that had more rows than they may",
    cancels: "Requests to cancel that named a statement",
    cancels_unknown: "Requests to cancel that named none",
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add_one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
