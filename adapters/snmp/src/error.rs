//! Why an agent gave no interfaces.

use std::io;

use async_snmp::ErrorKind;

/// Why a poll came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PollError {
    /// Nothing that could be an answer came. A wrong community is answered by silence (RFC 3584, section 5.2.1).
    #[error("there is no answer; an agent does not answer a wrong community either")]
    Unanswered,
    /// Walks took longer than the time until the next ones.
    #[error("it is silent or too slow: it has not sent all by the time that it is asked again")]
    TooSlow,
    /// The system says that the agent cannot be reached.
    #[error("the agent cannot be reached: {0}")]
    Unreachable(#[source] Box<async_snmp::Error>),
    /// The agent refuses the user, or the answers are not from who knows the password.
    #[error("authentication failed: {0}")]
    Refused(#[source] Box<async_snmp::Error>),
    /// The agent tells who it is, and then nothing comes that is authentic. It says that a user or password is wrong in Reports that
    /// anybody could send, so they are not believed (RFC 3414, section 3.2).
    #[error("the agent is there, but nothing that it sends is authentic: is the user or a password wrong?")]
    NotAuthentic,
    /// What the agent sent is no answer.
    #[error("the agent does not keep to the protocol: {0}")]
    Malformed(#[source] Box<async_snmp::Error>),
    /// The agent answers that it cannot.
    #[error("the agent answers with an error: {0}")]
    Failing(#[source] Box<async_snmp::Error>),
    /// The agent answers and has no interfaces, or does not show them.
    #[error("the agent shows no interfaces")]
    Empty,
    /// A secret cannot be read any more.
    #[error("{0}")]
    Secret(#[source] io::Error),
    /// The security that is configured cannot be used.
    #[error("{0}")]
    Security(String),
}

impl From<Box<async_snmp::Error>> for PollError {
    fn from(error: Box<async_snmp::Error>) -> Self {
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::ConstructionTimeout => Self::Unanswered,
            ErrorKind::Network | ErrorKind::Closed => Self::Unreachable(error),
            ErrorKind::Snmp => Self::Failing(error),
            ErrorKind::Auth | ErrorKind::Report => Self::Refused(error),
            _ => Self::Malformed(error),
        }
    }
}

impl PollError {
    /// Whether nothing came that could be an answer, or not in time.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self, Self::Unanswered | Self::TooSlow)
    }

    /// Whether there is no use in asking the agent for anything else now.
    pub(crate) fn ends_poll(&self) -> bool {
        !matches!(self, Self::Malformed(_) | Self::Failing(_))
    }
}
