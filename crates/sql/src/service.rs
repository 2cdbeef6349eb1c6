//! What a service is to the protocols that carry statements to it: who may ask, and a turn for each question.
//!
//! A protocol (the wire of Postgres, Flight SQL) checks who is at the other end with [`QuestionService`], and then holds an
//! [`Asker`]. Each of its questions goes through [`Asker::ask`], which waits for a turn under the limits that all
//! questions of the service share, opens an engine as that user may see the archive, and runs the protocol's work with it in a
//! thread of its own. So a protocol never makes an engine, and cannot leave out a limit or a rule about rows.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::tz::TimeZone;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use weir_query::Progress;

use crate::threads::LOOK_EVERY;
use crate::{Engine, EngineError, MistakeKind, Place, QueryControl};

/// Who may ask.
pub trait QuestionService: Send + Sync + 'static {
    /// Whether there are users, who must log in. Without, only this machine may reach the service.
    fn has_users(&self) -> bool;

    /// Whoever is on this machine, where there are no users.
    fn local(&self, from: IpAddr) -> Arc<dyn Asker>;

    /// What SCRAM-SHA-256 checks a user's password with, as Postgres writes it: `SCRAM-SHA-256$ROUNDS:SALT$STORED:SERVER`. `None`
    /// for who is no user, or has none; a refusal when there were too many wrong passwords.
    fn scram_verifier(&self, name: &str, from: IpAddr) -> Result<Option<String>, Refusal>;

    /// The user of a name, who has proved to be it, or has not.
    fn by_name(&self, name: &str, from: IpAddr, is_proved: bool) -> Result<Arc<dyn Asker>, Refusal>;

    /// The user of a password.
    fn by_password(&self, name: &str, password: &str, from: IpAddr) -> BoxFuture<'static, Login>;

    /// The user of a token.
    fn by_token(&self, token: &str, from: IpAddr) -> BoxFuture<'static, Login>;
}

/// Who has logged in, or why not.
pub type Login = Result<Arc<dyn Asker>, Refusal>;

/// A user who has logged in.
pub trait Asker: Send + Sync + 'static {
    /// The name.
    fn name(&self) -> &str;

    /// Runs `work` when it is the question's turn. Dropping the future cancels the question: its
    /// [`Progress`](crate::Progress) is stopped.
    fn ask(&self, question: Question, work: Work) -> BoxFuture<'static, Result<(), Refusal>>;
}

/// What a protocol does with the engine of a question. It must not outlive the stop of the control's progress.
pub type Work = Box<dyn FnOnce(&Engine, &QueryControl) -> Result<(), Refusal> + Send>;

/// A question of a protocol.
#[derive(Debug, Clone)]
pub struct Question {
    /// What is asked, for the list of questions and the audit.
    pub text: String,
    /// Zone of times that are written without one.
    pub zone: TimeZone,
    /// How long it may run, when that is less than the limit of the service.
    pub time_max: Option<Duration>,
}

/// The end of a queue that a question puts its answer into, piece by piece. The other end is read by a connection, as fast as its
/// client takes what comes.
#[derive(Debug)]
pub struct AnswerSender<T> {
    pieces: mpsc::Sender<T>,
    runtime: Handle,
    progress: Arc<Progress>,
}

impl<T> AnswerSender<T> {
    /// Must not be called from a task of `runtime`, which is that of the connection: putting a piece into the queue blocks.
    pub fn new(pieces: mpsc::Sender<T>, runtime: Handle, control: &QueryControl) -> Self {
        Self { pieces, runtime, progress: Arc::clone(&control.progress) }
    }

    /// Puts a piece into the queue, and waits while the queue is full: until the client reads, has left, or the question is
    /// stopped.
    pub fn send(&self, piece: T) -> Result<(), Refusal> {
        let left = || Refusal::new(Reason::Cancelled, "the client does not want the answer any more");
        let piece = match self.pieces.try_send(piece) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(left()),
            Err(mpsc::error::TrySendError::Full(piece)) => piece,
        };
        self.runtime.block_on(async {
            while !self.progress.is_stopped() {
                match tokio::time::timeout(LOOK_EVERY, self.pieces.reserve()).await {
                    Ok(Ok(place)) => {
                        place.send(piece);
                        return Ok(());
                    }
                    Ok(Err(_)) => return Err(left()),
                    Err(_) => {}
                }
            }
            Err(left())
        })
    }
}

/// Fails when the answer of a question that has ended has less than what was asked for, or a sum that does not fit. For protocols
/// that have no place for warnings: their clients would take the answer for a whole one. One that may have less, for all that can
/// be known, passes: once a key is lost, every question about a key that never was would fail.
pub fn check_whole(control: &QueryControl) -> Result<(), Refusal> {
    if let Some(warning) = control.progress.first_loss() {
        let hint = "weir sql and POST /api/v1/sql answer with the rest";
        return Err(Refusal::new(Reason::Archive, warning).with_hint(hint));
    }
    if control.progress.saturation().is_set() {
        let hint = "sum(CAST(... AS DECIMAL(38, 0))) has 38 digits, and sum(CAST(... AS DOUBLE)) is near any sum";
        let message = "a sum does not fit into 64 bits, or one of decimals into 38 digits";
        return Err(Refusal::new(Reason::Value, message).with_hint(hint));
    }
    Ok(())
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of reason it is.
    pub reason: Reason,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the statement.
    pub place: Option<Place>,
}

/// Kinds of reasons for which there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Name, password or token are not right.
    Credentials,
    /// The user may not ask this.
    Forbidden,
    /// Too many questions of one user run or wait.
    TooMany,
    /// Too many questions wait.
    Busy,
    /// The question ran longer than it may.
    Time,
    /// The question was cancelled.
    Cancelled,
    /// The question needs more memory than it may have.
    Memory,
    /// The answer is larger than it may be.
    Limit,
    /// The statement would change something.
    Change,
    /// The statement names a table that is not there.
    UnknownTable,
    /// The statement names a column that is not there.
    UnknownColumn,
    /// The statement names a function that is not there.
    UnknownFunction,
    /// The statement is wrong otherwise.
    Statement,
    /// A value does not fit its type.
    Value,
    /// What is asked for is not offered.
    Unsupported,
    /// The archive cannot be read.
    Archive,
    /// Something that should not happen.
    Internal,
}

impl Refusal {
    /// A refusal without hint and place.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), hint: None, place: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        if let EngineError::Mistake(mistake) = error {
            let reason = match mistake.kind() {
                MistakeKind::Change => Reason::Change,
                MistakeKind::Table => Reason::UnknownTable,
                MistakeKind::Column => Reason::UnknownColumn,
                MistakeKind::Function => Reason::UnknownFunction,
                MistakeKind::Other => Reason::Statement,
            };
            return Self { reason, message: mistake.message, hint: mistake.hint, place: mistake.place };
        }
        let reason = match &error {
            EngineError::Cancelled { .. } | EngineError::Query(weir_query::QueryError::Cancelled) => Reason::Cancelled,
            EngineError::TimeLimit { .. } => Reason::Time,
            EngineError::Memory(_) | EngineError::Query(weir_query::QueryError::Memory(_)) => Reason::Memory,
            EngineError::Plan(_) => Reason::Statement,
            EngineError::Archive(_) | EngineError::Query(_) | EngineError::Unreadable(_) => Reason::Archive,
            _ => Reason::Internal,
        };
        let hint = error.hint().map(str::to_owned);
        let text = weir_flow::with_causes(&error);
        // messages that are made for a terminal have their hint on a line of its own
        let (message, said) = match text.split_once("\nhint: ") {
            Some((message, hint)) => (message.to_owned(), Some(hint.to_owned())),
            None => (text, None),
        };
        Self { reason, message, hint: said.or(hint), place: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_a_warning_is_not_whole() {
        let control = QueryControl::default();
        assert_eq!(check_whole(&control), Ok(()));
        control.progress.warn_of_doubt("a key may be lost".to_owned());
        assert_eq!(check_whole(&control), Ok(()));
        control.progress.warn("a step is lost".to_owned());
        let refusal = check_whole(&control).expect_err("it has less than was asked for");
        assert_eq!((refusal.reason, refusal.message.as_str()), (Reason::Archive, "a step is lost"));
    }

    #[test]
    fn an_answer_with_a_sum_that_does_not_fit_is_refused() {
        let control = QueryControl::default();
        control.progress.saturation().set();
        let refusal = check_whole(&control).expect_err("it has a wrong number");
        assert_eq!(refusal.reason, Reason::Value);
        assert!(refusal.message.starts_with("a sum does not fit into 64 bits"), "{}", refusal.message);
    }
}
