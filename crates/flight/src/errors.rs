//! Refusals as statuses of gRPC.

use std::fmt::Write;

use tonic::{Code, Status};
use weir_sql::{Reason, Refusal};

/// The status of a refusal: its message, with the place and the hint on lines of their own.
pub(crate) fn status(refusal: &Refusal) -> Status {
    let code = match refusal.reason {
        Reason::Credentials => Code::Unauthenticated,
        Reason::Forbidden | Reason::Change => Code::PermissionDenied,
        Reason::TooMany | Reason::Busy | Reason::Memory | Reason::Limit => Code::ResourceExhausted,
        Reason::Time => Code::DeadlineExceeded,
        Reason::Cancelled => Code::Cancelled,
        Reason::UnknownTable => Code::NotFound,
        Reason::UnknownColumn | Reason::UnknownFunction | Reason::Statement | Reason::Value => Code::InvalidArgument,
        Reason::Unsupported => Code::Unimplemented,
        Reason::Archive => Code::DataLoss,
        Reason::Internal => Code::Internal,
    };
    let mut message = refusal.message.clone();
    if let Some(place) = &refusal.place {
        let _ = write!(message, "\nat line {}, column {}: {}", place.line, place.column, place.text.trim());
    }
    if let Some(hint) = &refusal.hint {
        let _ = write!(message, "\nhint: {hint}");
    }
    Status::new(code, message)
}

/// Something that should not happen.
pub(crate) fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_line_of_its_own() {
        let refusal = Refusal::new(Reason::UnknownTable, "no table 'flow'").with_hint("did you mean 'flows'?");
        let status = status(&refusal);
        assert_eq!((status.code(), status.message()), (Code::NotFound, "no table 'flow'\nhint: did you mean 'flows'?"));
    }
}
