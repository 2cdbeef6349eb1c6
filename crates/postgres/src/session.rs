//! A session: messages in, answers out (chapters 55.2.2 to 55.2.4 of Postgres' manual).
//!
//! One task holds the connection and everything that its client has prepared. While a question runs the task also reads what
//! the client sends, so that it finds out when the client leaves, and looks for a request to cancel.

mod commands;
mod prepared;

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use weir_sql::{Asker, Refusal};

use crate::cancel::CancelKey;
use crate::commands::Command;
use crate::connection::{Connection, ConnectionEnd};
use crate::errors::{FAILED_TRANSACTION, LIMIT_EXCEEDED, NOT_SUPPORTED, OUT_OF_MEMORY, PgError, SHUTDOWN};
use crate::messages::{Bind, ClientMessage, Format, Target};
use crate::portals::{Content, Portal, Prepared, bound, no_cursor};
use crate::replies::{BIND_COMPLETE, CLOSE_COMPLETE, EMPTY_QUERY, NO_DATA, PARSE_COMPLETE, SUSPENDED};
use crate::running::{Asked, Next, Running};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::statements::parts;

/// Whether statements are in a transaction, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    None,
    Open,
    /// A statement has failed.
    Failed,
}

impl Transaction {
    fn letter(self) -> u8 {
        match self {
            Self::None => b'I',
            Self::Open => b'T',
            Self::Failed => b'E',
        }
    }
}

/// Why a statement has no answer, or the connection ends.
enum Failure {
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

/// How the messages of a client are answered.
pub(crate) struct Session {
    connection: Connection,
    asker: Arc<dyn Asker>,
    settings: Settings,
    database: String,
    key: CancelKey,
    shared: Arc<Shared>,
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
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
        Self {
            connection,
            asker,
            settings,
            database,
            key,
            shared,
            statements: HashMap::new(),
            portals: HashMap::new(),
            transaction: Transaction::None,
            is_skipping: false,
        }
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
        let counts = &self.shared.counts;
        match &ended {
            ConnectionEnd::Idle => counts.connections_idle.add_one(),
            ConnectionEnd::TooLarge { .. } => counts.messages_refused.add_one(),
            ConnectionEnd::Said(error) if error.code == crate::errors::PROTOCOL_VIOLATION => {
                counts.messages_malformed.add_one();
            }
            _ => {}
        }
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
        self.settings.reported().for_each(|(name, value)| replies.parameter_status(name, value));
        replies.backend_key(self.key.process, self.key.secret);
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
                if self.transaction == Transaction::Open {
                    self.transaction = Transaction::Failed;
                }
                self.connection.replies.error(&error);
                Ok(true)
            }
        }
    }

    fn ready(&mut self) {
        if self.transaction == Transaction::None {
            self.portals.clear();
        }
        self.connection.replies.ready(self.transaction.letter());
    }

    /// Answers the statements of a text, one after the other.
    async fn query(&mut self, text: &str) -> Result<(), Failure> {
        self.statements.remove("");
        let parts = parts(text)?;
        if parts.is_empty() {
            self.connection.replies.plain(EMPTY_QUERY);
        }
        for part in parts {
            self.shared.counts.statements.add_one();
            let moved = |error: PgError| PgError { position: error.position.map(|at| at + part.offset), ..error };
            let command = Command::of(&part)?;
            self.check_transaction(command.as_ref())?;
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

    /// Refuses statements of a transaction in which one has failed.
    fn check_transaction(&self, command: Option<&Command>) -> Result<(), PgError> {
        let is_end = matches!(command, Some(Command::Commit | Command::Rollback | Command::Done("ROLLBACK")));
        if self.transaction == Transaction::Failed && !is_end {
            let message = "the transaction has failed, and statements are ignored until it ends";
            return Err(PgError::new(FAILED_TRANSACTION, message));
        }
        Ok(())
    }

    /// Answers a statement with all its rows.
    async fn ask_at_once(&mut self, text: String) -> Result<(), Failure> {
        let tag = tag_of(&text);
        let mut portal = Portal::asking(Asked { text, values: Vec::new(), formats: Vec::new() });
        let rows = self.rows(&mut portal, 0, true).await?;
        self.connection.replies.complete(&tagged(tag, rows));
        Ok(())
    }

    /// Sends rows of a portal, at most so many, or all for 0; with their description when that is wanted. Gives their number.
    async fn rows(&mut self, portal: &mut Portal, rows_max: usize, is_described: bool) -> Result<usize, Failure> {
        let Content::Question(asked) = &portal.content else { return Ok(0) };
        let (text, formats) = (asked.text.clone(), asked.formats.clone());
        let refused = |refusal: Refusal| Failure::from(PgError::of_refusal(refusal, &text));
        self.key.requests.mark_unchanged();
        let (running, wait) = self.running(portal);
        let columns = wait.until(running.columns()).await?.map_err(refused)?;
        if is_described {
            self.connection.replies.row_description(&columns, &formats);
        }
        portal.columns = Some(columns);
        let mut rows = 0;
        while rows_max == 0 || rows < rows_max {
            let left = if rows_max == 0 { usize::MAX } else { rows_max - rows };
            let (running, wait) = self.running(portal);
            match wait.until(running.next(left)).await?.map_err(refused)? {
                Next::Rows(octets, count) => {
                    rows += count;
                    self.connection.write_rows(&octets).await?;
                    self.shared.counts.rows.add(count as u64);
                }
                Next::End => {
                    portal.is_ended = true;
                    portal.running = None;
                    break;
                }
            }
        }
        Ok(rows)
    }

    /// The question of a portal, which begins now if it has not, and how to wait for it.
    fn running<'a>(&'a mut self, portal: &'a mut Portal) -> (&'a mut Running, Wait<'a>) {
        let Self { asker, settings, shared, connection, key, database, .. } = self;
        let running = portal.running.get_or_insert_with(|| {
            let asked = match &portal.content {
                Content::Question(asked) => asked.clone(),
                _ => Asked { text: String::new(), values: Vec::new(), formats: Vec::new() },
            };
            Running::start(asker, asked, settings, database, shared.options.rows_max)
        });
        (running, Wait { connection, key })
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
                    Target::Statement(name) => drop(self.statements.remove(&name)),
                    Target::Portal(name) => drop(self.portals.remove(&name)),
                }
                self.connection.replies.plain(CLOSE_COMPLETE);
            }
            _ => {}
        }
        Ok(())
    }

    fn bind(&mut self, bind: Bind) -> Result<(), PgError> {
        let portal = bound(&bind, &self.statements)?;
        if let Content::Command(command) = &portal.content {
            self.check_transaction(Some(command))?;
        } else {
            self.check_transaction(None)?;
        }
        self.check_kept(bind.portal.len() + portal.octets())?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("there is a cursor '{}' already", bind.portal.escape_debug());
            return Err(PgError::new(crate::errors::DUPLICATE_CURSOR, message));
        }
        self.portals.insert(bind.portal, portal);
        Ok(())
    }

    /// Refuses what is more than a connection may keep.
    fn check_kept(&self, more: usize) -> Result<(), PgError> {
        let statements: usize = self.statements.iter().map(|(name, prepared)| name.len() + prepared.octets()).sum();
        let portals: usize = self.portals.iter().map(|(name, portal)| name.len() + portal.octets()).sum();
        let octets_max = self.shared.options.prepared_max.bytes();
        if (statements + portals + more) as u64 > octets_max {
            self.shared.counts.messages_refused.add_one();
            let message =
                format!("prepared statements and values of this connection have more than {octets_max} octets");
            return Err(
                PgError::new(OUT_OF_MEMORY, message).with_hint("DEALLOCATE ALL, or raise the option prepared_max")
            );
        }
        Ok(())
    }

    async fn describe_portal(&mut self, name: &str) -> Result<(), Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let described = self.describe_taken(&mut portal).await;
        self.portals.insert(name.to_owned(), portal);
        described
    }

    async fn describe_taken(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        match &portal.content {
            Content::Question(asked) => {
                let (text, formats) = (asked.text.clone(), asked.formats.clone());
                self.key.requests.mark_unchanged();
                let (running, wait) = self.running(portal);
                let columns = wait.until(running.columns()).await?;
                let columns = columns.map_err(|refusal| PgError::of_refusal(refusal, &text))?;
                self.connection.replies.row_description(&columns, &formats);
            }
            Content::Command(command) => {
                let command = command.clone();
                self.describe_command(&command).await?;
            }
            Content::Empty => self.connection.replies.plain(NO_DATA),
        }
        Ok(())
    }

    async fn execute(&mut self, name: &str, rows_max: usize) -> Result<(), Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        if portal.running.is_none() && !portal.is_ended {
            self.shared.counts.statements.add_one();
        }
        let answered = self.execute_taken(&mut portal, rows_max).await;
        // a portal that has failed is not asked again
        if answered.is_ok() && !matches!(portal.content, Content::Command(_)) {
            self.portals.insert(name.to_owned(), portal);
        }
        answered
    }

    async fn execute_taken(&mut self, portal: &mut Portal, rows_max: usize) -> Result<(), Failure> {
        match &portal.content {
            Content::Empty => self.connection.replies.plain(EMPTY_QUERY),
            Content::Command(command) => {
                let command = command.clone();
                self.check_transaction(Some(&command))?;
                self.command(&command, false).await?;
            }
            Content::Question(asked) => {
                let tag = tag_of(&asked.text);
                self.check_transaction(None)?;
                let rows = if portal.is_ended { 0 } else { self.rows(portal, rows_max, false).await? };
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

/// How a session waits for a question: it also reads what the client sends, and looks for a request to cancel.
struct Wait<'a> {
    connection: &'a mut Connection,
    key: &'a mut CancelKey,
}

impl Wait<'_> {
    async fn until<T>(self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                // the sender lives as long as the key
                _ = self.key.requests.changed() => {
                    return Err(PgError::new("57014", "the statement was cancelled at the request of its user").into());
                }
                filled = self.connection.fill() => filled?,
            }
        }
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

/// The formats of a cursor.
fn cursor_formats(is_binary: bool) -> Vec<Format> {
    if is_binary { vec![Format::Binary] } else { Vec::new() }
}
