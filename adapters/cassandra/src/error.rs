//! What can go wrong with a cluster.

use weir_forward::StoreError;

/// Why something could not be done with a cluster.
#[derive(Debug, thiserror::Error)]
pub enum CassandraError {
    /// The cluster is away, slow or overloaded; it can be tried again.
    #[error("cassandra {hosts} is not available: {message}")]
    Unavailable {
        /// Its nodes, as they were given.
        hosts: String,
        /// What the driver says.
        message: String,
    },
    /// Name and password are refused.
    #[error("cassandra {hosts} refuses the user: {message}")]
    Authentication {
        /// Its nodes, as they were given.
        hosts: String,
        /// What the server says.
        message: String,
    },
    /// A statement is refused; trying it again is of no use.
    #[error("cassandra refuses '{statement}': {message}")]
    Refused {
        /// Its begin.
        statement: String,
        /// What the server says.
        message: String,
    },
    /// The tables are not those of this version.
    #[error("{0}")]
    Schema(String),
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// A file of the options cannot be used.
    #[error("cannot use {path}: {message}")]
    File {
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
    /// What is stored is not what this version writes.
    #[error("column '{column}' has a value that is none of weir: {message}")]
    Value {
        /// The column.
        column: String,
        /// What is wrong.
        message: String,
    },
}

impl CassandraError {
    /// Whether it may pass by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}

impl From<CassandraError> for StoreError {
    fn from(error: CassandraError) -> Self {
        let message = error.to_string();
        if error.may_pass() { Self::Unavailable(message) } else { Self::Refused(message) }
    }
}
