//! The transaction of a session. Nothing is ever written, so it is only what the client sees of it.

use crate::commands::Command;
use crate::errors::{FAILED_TRANSACTION, NO_TRANSACTION, PgError};

/// Whether statements are in a transaction, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transaction {
    None,
    Open,
    /// A statement has failed.
    Failed,
}

impl Transaction {
    /// The letter for it in the message that a session is ready.
    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::None => b'I',
            Self::Open => b'T',
            Self::Failed => b'E',
        }
    }

    /// Refuses statements of a transaction in which one has failed.
    pub(crate) fn check(self, command: Option<&Command>) -> Result<(), PgError> {
        let is_end = matches!(command, Some(Command::Commit | Command::Rollback | Command::Done("ROLLBACK")));
        if self == Self::Failed && !is_end {
            let message = "the transaction has failed, and statements are ignored until it ends";
            return Err(PgError::new(FAILED_TRANSACTION, message));
        }
        Ok(())
    }

    /// Begins one. Gives a notice for the client when there is one already.
    pub(crate) fn begin(&mut self) -> Option<PgError> {
        let notice = (*self == Self::Open).then(|| PgError::new("25001", "there is a transaction already"));
        *self = Self::Open;
        notice
    }

    /// Ends it. Gives the words that say what was done, and a notice for the client when there was none.
    pub(crate) fn end(&mut self, is_rollback: bool) -> (&'static str, Option<PgError>) {
        let is_failed = is_rollback || *self == Self::Failed;
        let notice = (*self == Self::None).then(|| PgError::new(NO_TRANSACTION, "there is no transaction"));
        *self = Self::None;
        (if is_failed { "ROLLBACK" } else { "COMMIT" }, notice)
    }

    /// A statement has failed in it.
    pub(crate) fn fail(&mut self) {
        if *self == Self::Open {
            *self = Self::Failed;
        }
    }

    /// What has failed in it was rolled back, and it goes on.
    pub(crate) fn resume(&mut self) {
        if *self == Self::Failed {
            *self = Self::Open;
        }
    }
}
