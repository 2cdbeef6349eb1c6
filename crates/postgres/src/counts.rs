//! What happened on connections.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines counters with their names and sentences.
macro_rules! counts {
    ($($name:ident: $doc:literal,)*) => {
        /// Counters of the wire of Postgres.
        #[derive(Debug, Default)]
        pub struct PostgresCounts {
            $(#[doc = $doc] pub(crate) $name: Counter,)*
            /// Connections that are open.
            pub(crate) open: AtomicU64,
        }

        impl PostgresCounts {
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
    connections_refused: "Connections over the limit of all, or of one user",
    connections_idle: "Connections that were closed because nothing happened on them",
    logins_refused: "Logins with a wrong name or password, or without TLS",
    logins_late: "Connections that were closed because they did not log in in time",
    handshakes_failed: "Handshakes of TLS that failed",
    messages_malformed: "Messages that are not those of Postgres",
    messages_refused: "Messages, statements and values over a limit of size",
    statements: "Statements that came",
    statements_failed: "Statements that ended with an error",
    rows: "Rows that were sent",
    answers_cut: "Answers that had more rows than they may",
    cancels: "Requests to cancel that named a connection",
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
