//! Prepared statements, one for each set of columns that have values.

use std::collections::HashMap;

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use tokio::sync::Mutex;
use weir_flow::Column;

use crate::connect::statement_error;
use crate::schema::{FLOW_KEY, PACKET_COLUMNS, quoted};
use crate::{CassandraError, CassandraOptions};

/// Statements that are remembered. Deliveries of one exporter have a few sets of columns.
const STATEMENTS_MAX: usize = 256;

/// The statements of a session.
#[derive(Default)]
pub(super) struct Inserts {
    prepared: Mutex<HashMap<Vec<Column>, PreparedStatement>>,
}

impl Inserts {
    /// The statement that writes these columns.
    pub(super) async fn of(
        &self,
        columns: Vec<Column>,
        session: &Session,
        options: &CassandraOptions,
    ) -> Result<PreparedStatement, CassandraError> {
        let mut prepared = self.prepared.lock().await;
        if let Some(found) = prepared.get(&columns) {
            return Ok(found.clone());
        }
        let text = insert(&columns, options);
        let made = prepare(&text, session, options).await?;
        if prepared.len() >= STATEMENTS_MAX {
            prepared.clear();
        }
        prepared.insert(columns, made.clone());
        Ok(made)
    }
}

/// Prepares a statement that may be sent again.
pub(crate) async fn prepare(
    text: &str,
    session: &Session,
    options: &CassandraOptions,
) -> Result<PreparedStatement, CassandraError> {
    let mut made = session.prepare(text).await.map_err(|error| statement_error(options, text, &error.into()))?;
    made.set_is_idempotent(true);
    Ok(made)
}

fn insert(columns: &[Column], options: &CassandraOptions) -> String {
    let keys = FLOW_KEY.iter().map(|(name, _)| (*name).to_owned());
    let names: Vec<_> = keys.chain(columns.iter().map(|column| quoted(*column))).collect();
    let marks = vec!["?"; names.len()].join(", ");
    let keyspace = &options.to.keyspace;
    format!("INSERT INTO {keyspace}.flows ({}) VALUES ({marks}){}", names.join(", "), using_ttl(options.ttl_secs()))
}

/// The statement that writes a packet.
pub(super) fn insert_packet(options: &CassandraOptions) -> String {
    let names = PACKET_COLUMNS.map(|(name, _)| name).join(", ");
    let marks = ["?"; PACKET_COLUMNS.len()].join(", ");
    let keyspace = &options.to.keyspace;
    format!("INSERT INTO {keyspace}.packets ({names}) VALUES ({marks}){}", using_ttl(options.ttl_secs()))
}

/// The end of a statement that writes rows which expire.
pub(crate) fn using_ttl(secs: u64) -> String {
    if secs == 0 { String::new() } else { format!(" USING TTL {secs}") }
}
