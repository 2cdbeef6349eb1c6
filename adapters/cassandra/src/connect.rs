//! From options to a session.

use std::sync::Arc;

use openssl::ssl::{SslContext, SslContextBuilder, SslFiletype, SslMethod, SslVerifyMode};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::retry::DefaultRetryPolicy;
use scylla::statement::Consistency;
use tokio::sync::Mutex;

use crate::options::WriteConsistency;
use crate::{CassandraError, CassandraOptions};

/// Connects to a cluster.
pub(crate) async fn connect(options: &CassandraOptions) -> Result<Session, CassandraError> {
    let hosts = options.to.hosts_text();
    let profile = ExecutionProfile::builder()
        .consistency(consistency(options.writing.consistency))
        .request_timeout(Some(options.request_timeout()))
        // what is sent can be sent again, so the driver may ask another replica
        .retry_policy(Arc::new(DefaultRetryPolicy::new()))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.to.hosts)
        .default_execution_profile_handle(profile.into_handle())
        .connection_timeout(options.request_timeout())
        .keepalive_interval(std::time::Duration::from_secs(5))
        .keepalive_timeout(options.request_timeout())
        // how the keyspace is replicated, by which a batch goes to a node that has its partition; and no columns, of which a
        // cluster of many tables has many
        .keyspaces_to_fetch([&options.to.keyspace])
        .fetch_full_schema_metadata(false);
    if let Some((name, password)) = user(options)? {
        builder = builder.user(name, password);
    }
    if options.is_encrypted() {
        builder = builder.tls_context(Some(tls(options)?));
    }
    builder.build().await.map_err(|error| {
        // the driver keeps why each connection failed in the texts of its errors only
        let message = crate::connect::message(&error);
        let refused = ["credentials", "username and/or password", "requires authentication", "MissingAuthentication"];
        let is_refused = refused.iter().any(|part| message.contains(part)) && !message.contains("Unable to perform");
        if is_refused {
            CassandraError::Authentication { hosts, message }
        } else {
            CassandraError::Unavailable { hosts, message }
        }
    })
}

/// What the driver says, with causes, in one line.
pub(crate) fn message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text.replace('\n', " ")
}

/// What an error of a statement means.
pub(crate) fn statement_error(options: &CassandraOptions, statement: &str, error: &ExecutionError) -> CassandraError {
    let message = message(error);
    if is_final(error) {
        CassandraError::Refused { statement: statement.chars().take(60).collect(), message }
    } else {
        CassandraError::Unavailable { hosts: options.to.hosts_text(), message }
    }
}

/// Whether the server would give the same answer again.
pub(crate) fn is_final(error: &ExecutionError) -> bool {
    let db_error = match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => error,
        ExecutionError::LastAttemptError(RequestAttemptError::SerializationError(_)) | ExecutionError::BadQuery(_) => {
            return true;
        }
        _ => return false,
    };
    matches!(
        db_error,
        DbError::SyntaxError
            | DbError::Invalid
            | DbError::Unauthorized
            | DbError::ConfigError
            | DbError::AlreadyExists { .. }
    )
}

/// Whether that may be because of what is in the row; otherwise every row would be refused.
pub(crate) fn is_of_row(error: &ExecutionError) -> bool {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => matches!(error, DbError::Invalid),
        error => is_final(error),
    }
}

/// The tables that all nodes knew before one of them was asked for something. A node that has not heard of a table yet, which
/// another writer makes at the same time, refuses what it will take.
pub(crate) struct Agreement(Option<u128>);

impl Agreement {
    /// Waits until all nodes that can be reached know the same tables; not for ever, since one of them may be away for long.
    pub(crate) async fn wait(session: &Session) -> Self {
        Self(session.await_schema_agreement().await.ok().map(|version| version.as_u128()))
    }

    /// What came of what was asked: a refusal is final when they know the same tables now as before, and passes otherwise.
    pub(crate) async fn judge<T>(
        self,
        made: Result<T, CassandraError>,
        session: &Session,
        options: &CassandraOptions,
    ) -> Result<T, CassandraError> {
        match made {
            Err(refusal @ CassandraError::Refused { .. }) => {
                let now = session.check_schema_agreement().await.ok().flatten().map(|version| version.as_u128());
                let is_same = now.is_some() && now == self.0;
                Err(if is_same { refusal } else { still_learning(options, &refusal.to_string()) })
            }
            made => made,
        }
    }
}

/// The tables that all nodes knew when something was refused last. What is sent after that and refused while they still know the
/// same was refused by nodes that knew them; or by one that was away when it was noted, came back without them, and learned them
/// before it was asked.
#[derive(Default)]
pub(crate) struct Settled(Mutex<Option<u128>>);

impl Settled {
    /// What is known before something is sent.
    pub(crate) async fn before(&self) -> Option<u128> {
        *self.0.lock().await
    }

    /// Fails when the refusal of what was sent may be that of a node which did not know a table yet: then it is to be sent again.
    pub(crate) async fn check(
        &self,
        before: Option<u128>,
        session: &Session,
        options: &CassandraOptions,
        refusal: &str,
    ) -> Result<(), CassandraError> {
        let now = session.check_schema_agreement().await.ok().flatten().map(|version| version.as_u128());
        if now.is_some() && now == before {
            return Ok(());
        }
        // of others that are on their way this says nothing: they were sent before
        *self.0.lock().await = now;
        Err(still_learning(options, refusal))
    }
}

fn still_learning(options: &CassandraOptions, message: &str) -> CassandraError {
    let message = format!("nodes may not all know the tables yet, it is sent again: {message}");
    CassandraError::Unavailable { hosts: options.to.hosts_text(), message }
}

fn user(options: &CassandraOptions) -> Result<Option<(String, String)>, CassandraError> {
    let Some(path) = &options.connection.user_file else { return Ok(options.to.user.clone()) };
    let wrong = |message: String| CassandraError::File { path: path.display().to_string(), message };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    let (name, password) =
        line.split_once(':').ok_or_else(|| wrong("its first line is not name:password".to_owned()))?;
    Ok(Some((name.to_owned(), password.to_owned())))
}

fn tls(options: &CassandraOptions) -> Result<SslContext, CassandraError> {
    let connection = &options.connection;
    let plain = |error: openssl::error::ErrorStack| CassandraError::Options(format!("TLS cannot be set up: {error}"));
    let mut builder = SslContextBuilder::new(SslMethod::tls_client()).map_err(plain)?;
    builder.set_verify(SslVerifyMode::PEER);
    let of_file = |path: &std::path::Path, result: Result<(), openssl::error::ErrorStack>| {
        result.map_err(|error| CassandraError::File { path: path.display().to_string(), message: error.to_string() })
    };
    match &connection.tls_ca {
        Some(path) => of_file(path, builder.set_ca_file(path))?,
        None => builder.set_default_verify_paths().map_err(plain)?,
    }
    if let Some(path) = &connection.tls_cert {
        of_file(path, builder.set_certificate_chain_file(path))?;
    }
    if let Some(path) = &connection.tls_key {
        of_file(path, builder.set_private_key_file(path, SslFiletype::PEM))?;
    }
    Ok(builder.build())
}

fn consistency(consistency: WriteConsistency) -> Consistency {
    match consistency {
        WriteConsistency::LocalQuorum => Consistency::LocalQuorum,
        WriteConsistency::Quorum => Consistency::Quorum,
        WriteConsistency::One => Consistency::One,
        WriteConsistency::LocalOne => Consistency::LocalOne,
        WriteConsistency::Two => Consistency::Two,
        WriteConsistency::All => Consistency::All,
    }
}

#[cfg(test)]
mod tests {
    use scylla::cluster::metadata::Strategy;
    use weir_chain::OptionText;
    use weir_testkit::cassandra::Cassandra;

    use crate::{CassandraUrl, schema};

    /// Without knowing how a keyspace is replicated, the driver sends each batch to any node, which has to send it on.
    #[test]
    fn the_driver_knows_which_nodes_have_a_partition() {
        let Some(cluster) = Cassandra::shared() else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let text = format!("cassandra://{}/replicas?request_timeout=20s", cluster.hosts());
        let options = CassandraUrl::parse_text(&text).and_then(|url| url.options()).expect("options");
        let session = runtime.block_on(super::connect(&options)).expect("connected");
        runtime.block_on(schema::prepare(&session, &options)).expect("tables");
        let state = session.get_cluster_state();
        let keyspace = state.get_keyspace("replicas").expect("the driver knows the keyspace");
        let is_known = match &keyspace.strategy {
            Strategy::SimpleStrategy { replication_factor } => *replication_factor == 1,
            Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
                datacenter_repfactors.values().all(|factor| *factor == 1)
            }
            _ => false,
        };
        assert!(is_known, "{:?}", keyspace.strategy);
    }
}
