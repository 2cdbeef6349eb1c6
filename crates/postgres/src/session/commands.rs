//! What a session does for statements that it answers itself.

use super::{Failure, Session, Transaction, cursor_formats};
use crate::commands::Command;
use crate::errors::{DUPLICATE_CURSOR, NO_TRANSACTION, PgError};
use crate::kinds::PgKind;
use crate::portals::{Content, Portal, no_cursor, no_statement};
use crate::replies::{NO_DATA, PgColumn};
use crate::running::{Asked, Next};
use crate::settings::{Settings, unknown};

/// Columns of text.
fn texts(names: &[&str]) -> Vec<PgColumn> {
    names.iter().map(|name| PgColumn { name: (*name).to_owned(), kind: PgKind::Text }).collect()
}

/// The columns of `SHOW ALL`.
const SHOWN: [&str; 2] = ["name", "setting"];

impl Session {
    /// Does what a command says; with a description of its rows when it came as a simple query.
    pub(super) async fn command(&mut self, command: &Command, is_simple: bool) -> Result<(), Failure> {
        let tag = match command {
            Command::Begin => {
                if self.transaction == Transaction::Open {
                    let notice = PgError::new("25001", "there is a transaction already");
                    self.connection.replies.notice(&notice);
                }
                self.transaction = Transaction::Open;
                "BEGIN".to_owned()
            }
            Command::Commit | Command::Rollback => {
                let is_failed = self.transaction == Transaction::Failed || *command == Command::Rollback;
                if self.transaction == Transaction::None {
                    let notice = PgError::new(NO_TRANSACTION, "there is no transaction");
                    self.connection.replies.notice(&notice);
                }
                self.end_transaction();
                if is_failed { "ROLLBACK" } else { "COMMIT" }.to_owned()
            }
            Command::Done(tag) => {
                if *tag == "ROLLBACK" && self.transaction == Transaction::Failed {
                    self.transaction = Transaction::Open;
                }
                (*tag).to_owned()
            }
            Command::Set { name, value } => {
                if let Some((name, value)) = self.settings.set(name, value.as_deref())? {
                    self.connection.replies.parameter_status(name, value);
                }
                "SET".to_owned()
            }
            Command::ResetAll => {
                self.reset_settings();
                "RESET".to_owned()
            }
            Command::DiscardAll => {
                self.reset_settings();
                self.statements.clear();
                self.portals.clear();
                "DISCARD ALL".to_owned()
            }
            Command::Show(name) => self.show(name, is_simple)?,
            Command::ShowAll => self.show_all(is_simple),
            Command::Deallocate(name) => self.deallocate(name.as_deref())?,
            Command::Declare { name, question, is_binary } => self.declare(name, question, *is_binary)?,
            Command::Fetch { name, rows, is_move } => self.fetch(name, *rows, *is_move, is_simple).await?,
            Command::Close(name) => self.close(name.as_deref())?,
        };
        self.connection.replies.complete(&tag);
        Ok(())
    }

    /// Describes the rows of a command.
    pub(super) async fn describe_command(&mut self, command: &Command) -> Result<(), Failure> {
        match command {
            Command::Show(name) => {
                let (name, _) = self.settings.get(name).ok_or_else(|| unknown(name))?;
                self.connection.replies.row_description(&texts(&[name]), &[]);
            }
            Command::ShowAll => self.connection.replies.row_description(&texts(&SHOWN), &[]),
            Command::Fetch { name, is_move: false, .. } => {
                let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                let described = self.describe_cursor(&mut portal).await;
                self.portals.insert(name.clone(), portal);
                described?;
            }
            _ => self.connection.replies.plain(NO_DATA),
        }
        Ok(())
    }

    async fn describe_cursor(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        let Content::Question(asked) = &portal.content else { return Ok(()) };
        let (text, formats) = (asked.text.clone(), asked.formats.clone());
        self.key.requests.mark_unchanged();
        let (running, wait) = self.running(portal);
        let columns = wait.until(running.columns()).await?;
        let columns = columns.map_err(|refusal| PgError::of_refusal(refusal, &text))?;
        self.connection.replies.row_description(&columns, &formats);
        Ok(())
    }

    fn reset_settings(&mut self) {
        self.settings.reset();
        let replies = &mut self.connection.replies;
        Settings::reported(&self.settings).for_each(|(name, value)| replies.parameter_status(name, value));
    }

    fn show(&mut self, name: &str, is_simple: bool) -> Result<String, PgError> {
        let (name, value) = self.settings.get(name).ok_or_else(|| unknown(name))?;
        let replies = &mut self.connection.replies;
        if is_simple {
            replies.row_description(&texts(&[name]), &[]);
        }
        replies.text_row(&[value]);
        Ok("SHOW".to_owned())
    }

    fn show_all(&mut self, is_simple: bool) -> String {
        let replies = &mut self.connection.replies;
        if is_simple {
            replies.row_description(&texts(&SHOWN), &[]);
        }
        self.settings.all().for_each(|(name, value)| replies.text_row(&[name, value]));
        "SHOW".to_owned()
    }

    fn deallocate(&mut self, name: Option<&str>) -> Result<String, PgError> {
        match name {
            None => {
                self.statements.clear();
                Ok("DEALLOCATE ALL".to_owned())
            }
            Some(name) => {
                self.statements.remove(name).ok_or_else(|| no_statement(name))?;
                Ok("DEALLOCATE".to_owned())
            }
        }
    }

    fn declare(&mut self, name: &str, question: &str, is_binary: bool) -> Result<String, PgError> {
        if self.transaction == Transaction::None {
            let error = PgError::new(NO_TRANSACTION, "a cursor is declared in a transaction");
            return Err(error.with_hint("BEGIN begins one"));
        }
        if self.portals.contains_key(name) {
            return Err(PgError::new(DUPLICATE_CURSOR, format!("there is a cursor '{}' already", name.escape_debug())));
        }
        let asked = Asked { text: question.to_owned(), values: Vec::new(), formats: cursor_formats(is_binary) };
        let portal = Portal::asking(asked);
        self.check_kept(name.len() + portal.octets())?;
        self.portals.insert(name.to_owned(), portal);
        Ok("DECLARE CURSOR".to_owned())
    }

    async fn fetch(
        &mut self,
        name: &str,
        rows: Option<usize>,
        is_move: bool,
        is_simple: bool,
    ) -> Result<String, Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
        let fetched = match (is_move, rows) {
            (true, rows) => self.pass_over(&mut portal, rows.unwrap_or(usize::MAX)).await,
            (false, Some(0)) => self.describe_cursor(&mut portal).await.map(|()| 0),
            (false, _) if portal.is_ended => {
                self.describe_ended(&portal, is_simple);
                Ok(0)
            }
            (false, rows) => self.rows(&mut portal, rows.unwrap_or(0), is_simple).await,
        };
        let count = fetched?;
        self.portals.insert(name.to_owned(), portal);
        Ok(format!("{} {count}", if is_move { "MOVE" } else { "FETCH" }))
    }

    /// Describes a cursor whose rows were all fetched.
    fn describe_ended(&mut self, portal: &Portal, is_simple: bool) {
        if let (true, Content::Question(asked), Some(columns)) = (is_simple, &portal.content, &portal.columns) {
            self.connection.replies.row_description(columns, &asked.formats);
        }
    }

    async fn pass_over(&mut self, portal: &mut Portal, rows_max: usize) -> Result<usize, Failure> {
        let mut rows = 0;
        self.key.requests.mark_unchanged();
        while rows < rows_max && !portal.is_ended {
            let (running, wait) = self.running(portal);
            let next = wait.until(running.next(rows_max - rows)).await?;
            match next.map_err(|refusal| PgError::of_refusal(refusal, ""))? {
                Next::Rows(_, count) => rows += count,
                Next::End => portal.is_ended = true,
            }
        }
        Ok(rows)
    }

    fn close(&mut self, name: Option<&str>) -> Result<String, PgError> {
        match name {
            None => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL".to_owned())
            }
            Some(name) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                Ok("CLOSE CURSOR".to_owned())
            }
        }
    }
}
