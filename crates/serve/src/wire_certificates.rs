//! Certificates of other protocols than HTTP, which are read again with the rest of the configuration.

use weir_flight::FlightServer;
use weir_postgres::PostgresServer;
use weir_secure::ReadIdentity;

use crate::problem::{Answered, Problem, with_causes};

type Reloader = dyn Fn() -> Answered<ReadIdentity> + Send + Sync;

/// Functions that read the certificates again: one for each protocol that has a certificate.
pub(crate) struct WireCertificates(Vec<Box<Reloader>>);

impl std::fmt::Debug for WireCertificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WireCertificates")
    }
}

impl WireCertificates {
    /// Those of servers that listen.
    pub(crate) fn of(postgres: Option<&PostgresServer>, flight: Option<&FlightServer>) -> Self {
        let mut reloaders: Vec<Box<Reloader>> = Vec::new();
        if let Some(read) = postgres.and_then(PostgresServer::certificate_reloader) {
            reloaders.push(Box::new(move || read().map_err(|error| wrong(&error))));
        }
        if let Some(read) = flight.and_then(FlightServer::certificate_reloader) {
            reloaders.push(Box::new(move || read().map_err(|error| wrong(&error))));
        }
        Self(reloaders)
    }

    /// Reads all of them. None is in use before it is put in place.
    pub(crate) fn read(&self) -> Answered<Vec<ReadIdentity>> {
        self.0.iter().map(|read| read()).collect()
    }
}

fn wrong(error: &dyn std::error::Error) -> Problem {
    Problem::request(with_causes(error))
}
