//! What reports are sent to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use weir_reports::Severity;
use weir_reports::log::LoggedReport;

/// How long a target may take to accept a message.
pub(crate) const SEND_MAX: Duration = Duration::from_secs(10);

/// Something that reports are sent to.
pub(crate) trait Target: Send {
    /// Whether a message may have several reports.
    fn takes_several(&self) -> bool;

    /// What says that the process ends, when it is known. Until then nothing ends.
    fn ends_with(&mut self, _is_ending: &Arc<AtomicBool>) {}

    /// Sends a message. After an error it is as if it were new, so the message may be sent again.
    fn send(&mut self, message: &Message<'_>, now_ms: i64) -> Result<(), SendError>;
}

/// Why a message was not sent. No text has a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// It is worth another try.
    #[error("{reason}")]
    Again {
        /// Why.
        reason: String,
        /// How long the target wants to be left alone.
        after: Option<Duration>,
    },
    /// It is worth another try, and yet may have been taken: it counts as a message of its hour.
    #[error("{0}")]
    Unknown(String),
    /// The target will never take it, because of what is in it.
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> Self {
        Self::again(error.to_string())
    }
}

impl SendError {
    pub(crate) fn again(reason: impl Into<String>) -> Self {
        Self::Again { reason: reason.into(), after: None }
    }
}

/// Reports that are sent together; at least one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a>(pub(crate) &'a [LoggedReport]);

impl Message<'_> {
    /// A name that is the same whenever the same reports are sent.
    pub(crate) fn id(&self) -> String {
        let ids: Vec<&str> = self.0.iter().map(|report| report.text("id")).collect();
        let digest = openssl::sha::sha256(ids.join("\n").as_bytes());
        digest.iter().take(16).fold(String::new(), |id, octet| id + &format!("{octet:02x}"))
    }

    /// The highest severity.
    pub(crate) fn severity(&self) -> Severity {
        let severities = self.0.iter().map(severity_of);
        severities.max_by_key(|severity| severity.rank()).unwrap_or(Severity::Info)
    }

    /// When the last report was written, as a text.
    pub(crate) fn reported(&self) -> &str {
        let last = self.0.last();
        let of = |name| last.map(|report| report.text(name)).filter(|text| !text.is_empty());
        of("reported").or_else(|| of("window_end")).unwrap_or_default()
    }

    /// The reports as values of JSON.
    pub(crate) fn values(&self) -> Vec<Value> {
        self.0.iter().filter_map(|report| report.members.clone().map(Value::Object)).collect()
    }
}

/// The severity of a report; the lowest for one that says nothing known.
pub(crate) fn severity_of(report: &LoggedReport) -> Severity {
    Severity::by_word(report.text("severity")).unwrap_or(Severity::Info)
}
