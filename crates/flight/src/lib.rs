//! SQL over Arrow Flight: Flight SQL, protocol 1.
//!
//! A [`FlightServer`] hands statements to a [`QuestionService`](weir_sql::QuestionService), which says who asks, when it is their
//! turn, and what they may see; answers go to clients as the Arrow batches that the engine makes, in the types of the archive.
//!
//! Calls are those of [`arrow_flight`]; what they do is written here, because the service that could be taken
//! (datafusion-flight-sql-server) answers neither `GetSqlInfo` nor `GetXdbcTypeInfo` nor a handshake, without which drivers of
//! JDBC and ODBC show no tables.
//!
//! # Invariants
//! A ticket is no right: each call says who calls. An answer is never whole in memory; a client that does not read holds
//! one question, until its time limit.

pub mod counts;
pub mod options;
pub mod server;

mod answers;
mod bound_values;
mod connection_users;
mod errors;
mod incoming;
mod metadata;
mod prepared;
mod service;
mod sessions;
mod shares;

pub use counts::FlightCounts;
pub use options::FlightOptions;
pub use server::{FlightError, FlightServer};
