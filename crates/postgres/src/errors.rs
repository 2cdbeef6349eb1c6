//! Errors as Postgres has them: a code of five letters, a hint, a place.

use weir_sql::{Reason, Refusal};

/// An error that a client gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct PgError {
    /// The code (SQLSTATE).
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub(crate) position: Option<usize>,
    /// Whether the connection ends.
    pub(crate) is_fatal: bool,
}

impl PgError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, position: None, is_fatal: false }
    }

    pub(crate) fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self { is_fatal: true, ..Self::new(code, message) }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Messages that are not those of the protocol.
    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::fatal(PROTOCOL_VIOLATION, message)
    }

    /// Why a statement has no answer.
    pub(crate) fn of_refusal(refusal: Refusal, statement: &str) -> Self {
        let position = refusal.place.as_ref().map(|place| {
            let before = statement.split_inclusive('\n').take(place.line.saturating_sub(1));
            before.map(|line| line.chars().count()).sum::<usize>() + place.column
        });
        // a login that has ended does not begin again on the same connection
        let is_fatal = refusal.reason == Reason::Credentials;
        Self { hint: refusal.hint, position, is_fatal, ..Self::new(code_of(refusal.reason), refusal.message) }
    }
}

pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
pub(crate) const NOT_SUPPORTED: &str = "0A000";
pub(crate) const VALUE_OUT_OF_RANGE: &str = "22003";
pub(crate) const BAD_BINARY: &str = "22P03";
pub(crate) const BAD_TEXT: &str = "22P02";
pub(crate) const BAD_SETTING: &str = "22023";
pub(crate) const READ_ONLY: &str = "25006";
pub(crate) const FAILED_TRANSACTION: &str = "25P02";
pub(crate) const NO_TRANSACTION: &str = "25P01";
pub(crate) const NO_STATEMENT: &str = "26000";
pub(crate) const NOT_AUTHORISED: &str = "28000";
pub(crate) const WRONG_PASSWORD: &str = "28P01";
pub(crate) const NO_CURSOR: &str = "34000";
pub(crate) const DUPLICATE_CURSOR: &str = "42P03";
pub(crate) const DUPLICATE_STATEMENT: &str = "42P05";
pub(crate) const UNKNOWN_SETTING: &str = "42704";
pub(crate) const SYNTAX: &str = "42601";
pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
pub(crate) const OUT_OF_MEMORY: &str = "53200";
pub(crate) const LIMIT_EXCEEDED: &str = "54000";
pub(crate) const SHUTDOWN: &str = "57P01";
pub(crate) const IDLE: &str = "57P05";

/// The code of a reason (appendix A of Postgres' manual).
fn code_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Credentials => WRONG_PASSWORD,
        Reason::Forbidden => "42501",
        Reason::TooMany | Reason::Busy => "53400",
        Reason::Time | Reason::Cancelled => "57014",
        Reason::Memory => OUT_OF_MEMORY,
        Reason::Limit => LIMIT_EXCEEDED,
        Reason::Change => READ_ONLY,
        Reason::UnknownTable => "42P01",
        Reason::UnknownColumn => "42703",
        Reason::UnknownFunction => "42883",
        Reason::Statement => SYNTAX,
        Reason::Value => VALUE_OUT_OF_RANGE,
        Reason::Unsupported => NOT_SUPPORTED,
        Reason::Archive => "58030",
        Reason::Internal => "XX000",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_of_characters() {
        let statement = "SELECT 'ä',\n  colum FROM flows";
        let place = weir_sql::Place { line: 2, column: 3, width: 5, text: "  colum FROM flows".to_owned() };
        let refusal = Refusal { place: Some(place), ..Refusal::new(Reason::UnknownColumn, "no column 'colum'") };
        let error = PgError::of_refusal(refusal, statement);
        assert_eq!((error.code, error.position), ("42703", Some(15)));
        assert_eq!(statement.chars().nth(14), Some('c'));
    }
}
