//! Why a statement has no answer.

use crate::connection::ConnectionEnd;
use crate::errors::PgError;

/// Why a statement has no answer, or the connection ends.
pub(crate) enum Failure {
    Statement(PgError),
    Connection(ConnectionEnd),
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        if error.is_fatal { Self::Connection(ConnectionEnd::Said(error)) } else { Self::Statement(error) }
    }
}

impl From<ConnectionEnd> for Failure {
    fn from(end: ConnectionEnd) -> Self {
        Self::Connection(end)
    }
}
