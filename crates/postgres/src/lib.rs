//! SQL over the wire of Postgres, protocol 3.0.
//!
//! A [`PostgresServer`] accepts clients of Postgres and hands their statements to a [`QuestionService`](weir_sql::QuestionService),
//! which says who they are, when it is their turn, and what they may see. What is sent to them looks like a Postgres that can
//! only be read: addresses are `inet`, counters `bigint`, times `timestamptz`, and `catalogue` answers what drivers and
//! tools ask of `pg_catalog` and `information_schema`.
//!
//! The protocol is written here rather than taken from a library, because it is small and each of its parts has a limit of
//! ours: decision record 0032 has what speaks against that.
//!
//! ```text
//! startup (TLS, SCRAM) ─▶ session ─▶ question (its thread, its engine) ─▶ rows ─▶ bounded queue ─▶ session ─▶ client
//! ```
//!
//! # Invariants
//! Nothing that a client sends is allocated by its word: a buffer grows with the octets that have come. An answer is never whole
//! in memory. A client that does not read holds one question, until its time limit.

pub mod counts;
pub mod options;
pub mod server;

mod arguments;
mod cancel;
mod catalogue;
mod collation;
mod commands;
mod connection;
mod errors;
mod failure;
mod kinds;
mod messages;
mod portals;
mod question_runner;
mod replies;
mod rows;
mod running;
mod scram;
mod session;
mod settings;
mod shared;
mod startup;
mod statement_store;
mod statements;
mod transaction;

pub use counts::PostgresCounts;
pub use options::PostgresOptions;
pub use scram::{is_scram_verifier, scram_verifier};
pub use server::{PostgresError, PostgresServer};
