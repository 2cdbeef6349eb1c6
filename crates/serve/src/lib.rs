//! Everything over HTTP: questions, watches, metrics, pages.
//!
//! A [`Server`] answers questions about one archive while a collector writes it, in this process or in another one. A
//! request becomes a question of [`weir_query`] or [`weir_sql`] and its answer becomes JSON or Arrow; what is asked and how it
//! is answered is theirs. What is ours is that many may ask: how many questions run at once, with how much memory and for
//! how long ([`questions`]), who may ask ([`users`]), and what is kept of answers.
//!
//! Connections are asynchronous, questions are not: each runs in a thread of its own, of lower priority than those that
//! collect, so that a question costs time and never a record. What speaks against threads is that each costs some
//! tenths of a millisecond; in return the executor of connections never waits for a disk.
//!
//! ```text
//! connection ─▶ access ─▶ api ─▶ questions (threads, limits) ─▶ archive ─▶ answer (JSON, Arrow) ─▶ cache
//! ```

pub mod audit;
pub mod config;
pub mod granting;
pub mod problem;
pub mod questions;
pub mod reload;
pub mod server;
pub mod users;
pub mod view;

mod access;
mod answer;
mod api;
mod archive;
mod body;
mod cache;
mod completeness;
mod downloads;
mod exposure;
mod http_counts;
mod ingesting;
mod live;
mod metrics;
mod moment;
mod pages;
mod peer;
mod places;
mod priority;
mod rate_limit;
mod reloading;
mod sampling;
mod sending;
mod service;
mod stalled;
mod status;
mod tls;
mod version_keeper;
mod why_empty;
mod wire_certificates;
mod wire_counts;
mod wires;

pub use api::openapi;
pub use audit::AuditOptions;
pub use config::{ConfigFile, HttpOptions, IngestOptions, QuestionOptions};
pub use downloads::{DownloadError, DownloadOptions, Downloading, Downloads};
pub use exposure::Unprotected;
pub use ingesting::Ingest;
pub use problem::Problem;
pub use reload::{Reloaded, Reloader};
pub use server::{ServeError, Server};
pub use service::ServiceOptions;
pub use status::Status;
pub use users::{Role, User, hash_password};
pub use weir_flight::FlightOptions;
pub use weir_postgres::{PostgresOptions, scram_verifier};
