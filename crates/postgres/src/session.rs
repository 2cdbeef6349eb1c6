//! A session: messages in, answers out (chapters 55.2.2 to 55.2.4 of Postgres' manual).
//!
//! One task holds the connection and everything that its client has prepared. While a question runs the task also reads what
//! the client sends, so that it finds out when the client leaves, and looks for a request to cancel.

mod commands;
mod prepared;

use std::sync::Arc;

use tokio::sync::watch;
use weir_sql::Asker;

use crate::cancel::CancelKey;
use crate::commands::Command;
use crate::connection::{Connection, ConnectionEnd};
use crate::counts::PostgresCounts;
use crate::errors::{LIMIT_EXCEEDED, NOT_SUPPORTED, PROTOCOL_VIOLATION, PgError, SHUTDOWN};
use crate::failure::Failure;
use crate::messages::{Bind, ClientMessage, Target};
use crate::portals::{Content, Portal, bound};
use crate::question_runner::QuestionRunner;
use crate::replies::{BIND_COMPLETE, CLOSE_COMPLETE, EMPTY_QUERY, NO_DATA, PARSE_COMPLETE, SUSPENDED};
use crate::running::Asked;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::statement_store::StatementStore;
use crate::statements::parts;
use crate::transaction::Transaction;

/// How the messages of a client are answered.
pub(crate) struct Session {
    connection: Connection,
    runner: QuestionRunner,
    store: StatementStore,
    shared: Arc<Shared>,
    transaction: Transaction,
    /// Whether messages are passed over until the client synchronizes, because one has failed.
    is_skipping: bool,
}

impl Session {
    pub(crate) fn new(
        connection: Connection,
        asker: Arc<dyn Asker>,
        settings: Settings,
        database: String,
        key: CancelKey,
        shared: Arc<Shared>,
    ) -> Self {
        let store = StatementStore::new(shared.options.prepared_max.bytes(), Arc::clone(&shared.counts));
        let runner = QuestionRunner::new(asker, settings, database, key, Arc::clone(&shared));
        Self { connection, runner, store, shared, transaction: Transaction::None, is_skipping: false }
    }

    /// Answers until the client leaves or the service ends. Gives the connection back, and what is to be said at its end.
    pub(crate) async fn run(mut self, mut ending: watch::Receiver<bool>) -> (Connection, Option<PgError>) {
        let ended = tokio::select! {
            ended = self.answer_all() => ended,
            _ = ending.wait_for(|ending| *ending) => {
                let error = PgError::fatal(SHUTDOWN, "the service ends");
                return (self.connection, Some(error));
            }
        };
        count_end(&ended, &self.shared.counts);
        let error = ended.error();
        (self.connection, error)
    }

    async fn answer_all(&mut self) -> ConnectionEnd {
        self.greet();
        loop {
            match self.answer_one().await {
                Ok(true) => {}
                Ok(false) => return ConnectionEnd::Lost(std::io::ErrorKind::ConnectionReset.into()),
                Err(end) => return end,
            }
        }
    }

    /// What a client gets to know once it has logged in.
    fn greet(&mut self) {
        let replies = &mut self.connection.replies;
        self.runner.settings.reported().for_each(|(name, value)| replies.parameter_status(name, value));
        replies.backend_key(self.runner.key.process, self.runner.key.secret);
        replies.ready(self.transaction.letter());
    }

    /// Answers a message; false when it was the last.
    async fn answer_one(&mut self) -> Result<bool, ConnectionEnd> {
        // a client that sends many messages at once gets their replies together, but not all of them
        if self.connection.has_input() {
            self.connection.flush_many().await?;
        } else {
            self.connection.flush().await?;
        }
        let (kind, octets) = self.connection.message().await?;
        let message = ClientMessage::parse(kind, octets).map_err(ConnectionEnd::Said)?;
        match message {
            ClientMessage::Terminate => return Ok(false),
            ClientMessage::Sync => {
                self.is_skipping = false;
                self.ready();
                self.connection.flush().await?;
            }
            _ if self.is_skipping => {}
            ClientMessage::Query(text) => {
                let answered = self.query(&text).await;
                self.note(answered)?;
                self.ready();
                self.connection.flush().await?;
            }
            ClientMessage::Flush => self.connection.flush().await?,
            ClientMessage::Other(b'F') => {
                let error = PgError::new(NOT_SUPPORTED, "functions are called in statements only");
                self.note(Err(error.into()))?;
                self.ready();
            }
            // data of a COPY that was refused
            ClientMessage::Other(_) => {}
            extended => {
                let answered = self.extended(extended).await;
                self.is_skipping = self.note(answered)?;
            }
        }
        Ok(true)
    }

    /// Says what went wrong; whether something did.
    fn note(&mut self, answered: Result<(), Failure>) -> Result<bool, ConnectionEnd> {
        match answered {
            Ok(()) => Ok(false),
            Err(Failure::Connection(end)) => Err(end),
            Err(Failure::Statement(error)) => {
                self.shared.counts.statements_failed.add_one();
                if error.code == LIMIT_EXCEEDED {
                    self.shared.counts.answers_cut.add_one();
                }
                self.transaction.fail();
                self.connection.replies.error(&error);
                Ok(true)
            }
        }
    }

    fn ready(&mut self) {
        if self.transaction == Transaction::None {
            self.store.clear_portals();
        }
        self.connection.replies.ready(self.transaction.letter());
    }

    /// Answers the statements of a text, one after the other.
    async fn query(&mut self, text: &str) -> Result<(), Failure> {
        self.store.remove_statement("");
        let parts = parts(text)?;
        if parts.is_empty() {
            self.connection.replies.plain(EMPTY_QUERY);
        }
        for part in parts {
            self.shared.counts.statements.add_one();
            let moved = |error: PgError| PgError { position: error.position.map(|at| at + part.offset), ..error };
            let command = Command::of(&part)?;
            self.transaction.check(command.as_ref())?;
            let answered = match command {
                Some(command) => self.command(&command, true).await,
                None => self.ask_at_once(part.text.clone()).await,
            };
            answered.map_err(|failure| match failure {
                Failure::Statement(error) => Failure::Statement(moved(error)),
                end @ Failure::Connection(_) => end,
            })?;
            self.connection.flush_many().await?;
        }
        Ok(())
    }

    /// Answers a statement with all its rows.
    async fn ask_at_once(&mut self, text: String) -> Result<(), Failure> {
        let tag = tag_of(&text);
        let mut portal = Portal::asking(Asked { text, values: Vec::new(), formats: Vec::new() });
        let rows = self.runner.rows(&mut self.connection, &mut portal, 0, true).await?;
        self.connection.replies.complete(&tagged(tag, rows));
        Ok(())
    }

    /// Answers a message of the extended protocol.
    async fn extended(&mut self, message: ClientMessage) -> Result<(), Failure> {
        match message {
            ClientMessage::Parse { name, statement, types } => {
                self.parse(name, statement, types)?;
                self.connection.replies.plain(PARSE_COMPLETE);
            }
            ClientMessage::Bind(bind) => {
                self.bind(bind)?;
                self.connection.replies.plain(BIND_COMPLETE);
            }
            ClientMessage::Describe(Target::Statement(name)) => self.describe_statement(&name).await?,
            ClientMessage::Describe(Target::Portal(name)) => self.describe_portal(&name).await?,
            ClientMessage::Execute { portal, rows_max } => self.execute(&portal, rows_max).await?,
            ClientMessage::Close(target) => {
                // one that is not there is no error
                match target {
                    Target::Statement(name) => self.store.remove_statement(&name),
                    Target::Portal(name) => self.store.remove_portal(&name),
                }
                self.connection.replies.plain(CLOSE_COMPLETE);
            }
            _ => {}
        }
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), PgError> {
        let portal = bound(&bind, self.store.statement(&bind.statement)?)?;
        let command = if let Content::Command(command) = &portal.content { Some(command) } else { None };
        self.transaction.check(command)?;
        self.store.bind(bind.portal, portal)
    }

    async fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        let mut portal = self.store.take_portal(name)?;
        let described = self.describe_taken(&mut portal).await;
        self.store.put_portal(name, portal);
        described
    }

    async fn describe_taken(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        match &portal.content {
            Content::Question(_) => self.runner.describe_portal(&mut self.connection, portal).await?,
            Content::Command(command) => {
                let command = command.clone();
                self.describe_command(&command).await?;
            }
            Content::Empty => self.connection.replies.plain(NO_DATA),
        }
        Ok(())
    }

    async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let mut portal = self.store.take_portal(name)?;
        if portal.running.is_none() && !portal.is_ended {
            self.shared.counts.statements.add_one();
        }
        let answered = self.execute_taken(&mut portal, rows_max).await;
        // a portal that has failed is not asked again
        if answered.is_ok() && !matches!(portal.content, Content::Command(_)) {
            self.store.put_portal(name, portal);
        }
        answered
    }

    async fn execute_taken(&mut self, portal: &mut Portal, rows_max: usize) -> Result<(), Failure> {
        match &portal.content {
            Content::Empty => self.connection.replies.plain(EMPTY_QUERY),
            Content::Command(command) => {
                let command = command.clone();
                self.transaction.check(Some(&command))?;
                self.command(&command, false).await?;
            }
            Content::Question(asked) => {
                let tag = tag_of(&asked.text);
                self.transaction.check(None)?;
                let rows = if portal.is_ended {
                    0
                } else {
                    self.runner.rows(&mut self.connection, portal, rows_max, false).await?
                };
                if portal.is_ended {
                    self.connection.replies.complete(&tagged(tag, rows));
                } else {
                    self.connection.replies.plain(SUSPENDED);
                }
            }
        }
        Ok(())
    }
}

/// Counts why a connection has ended.
fn count_end(ended: &ConnectionEnd, counts: &PostgresCounts) {
    match ended {
        ConnectionEnd::Idle => counts.connections_idle.add_one(),
        ConnectionEnd::TooLarge { .. } => counts.messages_refused.add_one(),
        ConnectionEnd::Said(error) if error.code == PROTOCOL_VIOLATION => counts.messages_malformed.add_one(),
        _ => {}
    }
}

/// The word that says what was done.
fn tag_of(text: &str) -> &'static str {
    let is = |word: &str| text.trim_start().get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word));
    if is("explain") {
        "EXPLAIN"
    } else if is("show") {
        "SHOW"
    } else {
        "SELECT"
    }
}

fn tagged(tag: &str, rows: usize) -> String {
    if tag == "SELECT" { format!("SELECT {rows}") } else { tag.to_owned() }
}
