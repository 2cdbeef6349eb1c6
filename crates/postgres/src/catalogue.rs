//! What drivers and tools ask of a Postgres: `pg_catalog`, `information_schema`, and functions about them.
//!
//! The tables are those that a user sees, with the types that they are shown with; relations for what weir does not have
//! (indexes, constraints, triggers) are there and empty. Statements about them are written for Postgres, so they are changed a
//! little before the engine gets them ([`rewrite`]); statements about flows go to the engine as they came.
//!
//! The catalogue is written here because the one that could be taken (datafusion-pg-catalog) turns on every feature of the
//! engine, and shows columns with other types than they have here. What speaks against it: a new release of a tool may ask
//! for something that is not here; the error then names it.

mod functions;
mod information;
mod input;
mod relation;
mod relations;
mod rewrite;
mod type_rows;

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider};
use weir_sql::{Engine, Reason, Refusal};

pub(crate) use self::input::CatalogueSession;
use self::input::{CatalogueInput, INFORMATION};
use self::relation::Relation;

/// Words of statements that the catalogue may be needed for.
const WORDS: &[&str] = &[
    "pg_",
    "information_schema",
    "current_user",
    "current_role",
    "current_database",
    "current_catalog",
    "current_schema",
    "current_setting",
    "session_user",
    "version()",
    "regclass",
    "regtype",
    "quote_ident",
    "quote_literal",
    "_privilege(",
    "_description(",
    "format_type",
    "array_lower",
    "array_upper",
    "parse_ident",
    "::oid",
    "txid_current",
    "inet_server",
    "inet_client",
];
/// Makes an engine ready for a statement of a client, and gives the statement as the engine takes it.
pub(crate) fn prepared<'a>(
    engine: &Engine,
    text: &'a str,
    session: &CatalogueSession,
) -> Result<Cow<'a, str>, Refusal> {
    let lower = text.to_ascii_lowercase();
    if !WORDS.iter().any(|word| lower.contains(word)) {
        return Ok(Cow::Borrowed(text));
    }
    let input = Arc::new(CatalogueInput { session: session.clone(), tables: engine.tables() });
    let failed = |error: datafusion::error::DataFusionError| Refusal::new(Reason::Internal, error.to_string());
    engine.add_schema("pg_catalog", schema(relations::all(&input)).map_err(failed)?)?;
    engine.add_schema(INFORMATION, schema(information::all(&input)).map_err(failed)?)?;
    for function in functions::all(&input) {
        engine.add_function(function);
    }
    rewrite::rewritten(text, &input)
}

fn schema(relations: Vec<Relation>) -> datafusion::error::Result<Arc<dyn SchemaProvider>> {
    let provider = MemorySchemaProvider::new();
    for relation in relations {
        let batch = relation.batch()?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        provider.register_table(relation.name.to_owned(), Arc::new(table))?;
    }
    Ok(Arc::new(provider))
}
