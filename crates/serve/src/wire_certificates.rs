//! Certificates of other protocols than HTTP, which are read again with the rest of the configuration.

use weir_flight::FlightServer;
use weir_postgres::PostgresServer;
use weir_secure::ReadIdentity;

use crate::problem::{Answered, Problem, with_causes};

type Read = dyn Fn() -> Answered<Option<ReadIdentity>> + Send + Sync;

/// How the certificates of other protocols are read again: one of each that is spoken.
pub(crate) struct WireCertificates(Vec<Box<Read>>);

impl std::fmt::Debug for WireCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WireCertificates")
    }
}

impl WireCertificates {
    /// Those of servers that listen.
    pub(crate) fn of(postgres: Option<&PostgresServer>, flight: Option<&FlightServer>) -> Self {
        let mut certificates: Vec<Box<Read>> = Vec::new();
        if let Some(server) = postgres {
            let read = server.reading_again();
            certificates.push(Box::new(move || read().map_err(|error| wrong(&error))));
        }
        if let Some(server) = flight {
            let read = server.reading_again();
            certificates.push(Box::new(move || read().map_err(|error| wrong(&error))));
        }
        Self(certificates)
    }

    /// Reads all of them. None is in use before it is put in place.
    pub(crate) fn read(&self) -> Answered<Vec<ReadIdentity>> {
        let mut certificates = Vec::new();
        for read in &self.0 {
            certificates.extend(read()?);
        }
        Ok(certificates)
    }
}

fn wrong(error: &dyn std::error::Error) -> Problem {
    Problem::request(with_causes(error))
}
