//! What a session does for statements that it answers itself.

use super::Session;
use crate::commands::Command;
use crate::errors::{NO_TRANSACTION, PgError};
use crate::failure::Failure;
use crate::kinds::PgKind;
use crate::messages::Format;
use crate::portals::{Content, Portal};
use crate::replies::{NO_DATA, PgColumn, Replies};
use crate::running::Asked;
use crate::settings::{Settings, unknown};
use crate::transaction::Transaction;

/// The columns of `SHOW ALL`.
const SHOWN: [&str; 2] = ["name", "setting"];

impl Session {
    /// Does what a command says; with a description of its rows when it came as a simple query.
    pub(super) async fn command(&mut self, command: &Command, is_simple: bool) -> Result<(), Failure> {
        let (settings, replies) = (&mut self.runner.settings, &mut self.connection.replies);
        let tag = match command {
            Command::Begin => {
                if let Some(notice) = self.transaction.begin() {
                    replies.notice(&notice);
                }
                "BEGIN"
            }
            Command::Commit | Command::Rollback => {
                let (tag, notice) = self.transaction.end(*command == Command::Rollback);
                if let Some(notice) = notice {
                    replies.notice(&notice);
                }
                // cursors end with their transaction
                self.store.clear_portals();
                tag
            }
            Command::Done(tag) => {
                if *tag == "ROLLBACK" {
                    self.transaction.resume();
                }
                *tag
            }
            Command::Set { name, value } => {
                if let Some((name, value)) = settings.set(name, value.as_deref())? {
                    replies.parameter_status(name, value);
                }
                "SET"
            }
            Command::ResetAll => {
                reset(settings, replies);
                "RESET"
            }
            Command::DiscardAll => {
                reset(settings, replies);
                self.store.clear();
                "DISCARD ALL"
            }
            Command::Show(name) => show(settings, name, is_simple, replies)?,
            Command::ShowAll => show_all(settings, is_simple, replies),
            Command::Deallocate(name) => self.store.deallocate(name.as_deref())?,
            Command::Declare { name, question, is_binary } => self.declare(name, question, *is_binary)?,
            Command::Fetch { name, rows, is_move } => return self.fetch(name, *rows, *is_move, is_simple).await,
            Command::Close(name) => self.store.close(name.as_deref())?,
        };
        self.connection.replies.complete(tag);
        Ok(())
    }

    /// Describes the rows of a command.
    pub(super) async fn describe_command(&mut self, command: &Command) -> Result<(), Failure> {
        match command {
            Command::Show(name) => {
                let (name, _) = self.runner.settings.get(name).ok_or_else(|| unknown(name))?;
                self.connection.replies.row_description(&texts(&[name]), &[]);
            }
            Command::ShowAll => self.connection.replies.row_description(&texts(&SHOWN), &[]),
            Command::Fetch { name, is_move: false, .. } => {
                let mut portal = self.store.take_portal(name)?;
                let described = self.runner.describe_portal(&mut self.connection, &mut portal).await;
                self.store.put_portal(name, portal);
                described?;
            }
            _ => self.connection.replies.plain(NO_DATA),
        }
        Ok(())
    }

    fn declare(&mut self, name: &str, question: &str, is_binary: bool) -> Result<&'static str, PgError> {
        if self.transaction == Transaction::None {
            let error = PgError::new(NO_TRANSACTION, "a cursor is declared in a transaction");
            return Err(error.with_hint("BEGIN begins one"));
        }
        let formats = if is_binary { vec![Format::Binary] } else { Vec::new() };
        let asked = Asked { text: question.to_owned(), values: Vec::new(), formats };
        self.store.declare(name, Portal::asking(asked))?;
        Ok("DECLARE CURSOR")
    }

    async fn fetch(&mut self, name: &str, rows: Option<usize>, is_move: bool, is_simple: bool) -> Result<(), Failure> {
        // one that fails is not put back
        let mut portal = self.store.take_portal(name)?;
        let (runner, connection) = (&mut self.runner, &mut self.connection);
        let count = match (is_move, rows) {
            (true, rows) => runner.pass_over(connection, &mut portal, rows.unwrap_or(usize::MAX)).await?,
            (false, Some(0)) => {
                runner.describe_portal(connection, &mut portal).await?;
                0
            }
            (false, _) if portal.is_ended => {
                if is_simple {
                    describe_ended(&portal, &mut connection.replies);
                }
                0
            }
            (false, rows) => runner.rows(connection, &mut portal, rows.unwrap_or(0), is_simple).await?,
        };
        self.store.put_portal(name, portal);
        self.connection.replies.complete(&format!("{} {count}", if is_move { "MOVE" } else { "FETCH" }));
        Ok(())
    }
}

/// Columns of text.
fn texts(names: &[&str]) -> Vec<PgColumn> {
    names.iter().map(|name| PgColumn { name: (*name).to_owned(), kind: PgKind::Text }).collect()
}

/// Sets all settings to what they were at the start, and reports them.
fn reset(settings: &mut Settings, replies: &mut Replies) {
    settings.reset();
    settings.reported().for_each(|(name, value)| replies.parameter_status(name, value));
}

fn show(settings: &Settings, name: &str, is_simple: bool, replies: &mut Replies) -> Result<&'static str, PgError> {
    let (name, value) = settings.get(name).ok_or_else(|| unknown(name))?;
    if is_simple {
        replies.row_description(&texts(&[name]), &[]);
    }
    replies.text_row(&[value]);
    Ok("SHOW")
}

fn show_all(settings: &Settings, is_simple: bool, replies: &mut Replies) -> &'static str {
    if is_simple {
        replies.row_description(&texts(&SHOWN), &[]);
    }
    settings.all().for_each(|(name, value)| replies.text_row(&[name, value]));
    "SHOW"
}

/// Describes a cursor whose rows were all fetched.
fn describe_ended(portal: &Portal, replies: &mut Replies) {
    if let (Content::Question(asked), Some(columns)) = (&portal.content, &portal.columns) {
        replies.row_description(columns, &asked.formats);
    }
}
