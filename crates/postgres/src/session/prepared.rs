//! What a session does with prepared statements.

use super::{Failure, Session, Transaction, Wait};
use crate::commands::Command;
use crate::errors::{DUPLICATE_STATEMENT, PgError, SYNTAX};
use crate::portals::{Prepared, no_statement};
use crate::replies::NO_DATA;
use crate::running::describe;
use crate::statements::parts;

impl Session {
    /// Prepares a statement. What is wrong with it is found when it is described or executed.
    pub(super) fn parse(&mut self, name: String, text: String, types: Vec<u32>) -> Result<(), PgError> {
        if !name.is_empty() && self.statements.contains_key(&name) {
            let message = format!("there is a prepared statement '{}' already", name.escape_debug());
            return Err(PgError::new(DUPLICATE_STATEMENT, message));
        }
        let mut parts = parts(&text)?;
        if parts.len() > 1 {
            return Err(PgError::new(SYNTAX, "only one statement can be prepared at a time"));
        }
        let part = parts.pop();
        let command = part.as_ref().map(Command::of).transpose()?.flatten();
        if part.is_some() {
            self.check_transaction(command.as_ref())?;
        }
        let prepared = Prepared { is_empty: part.is_none(), command, text, types, columns: None };
        self.statements.remove(&name);
        self.check_kept(name.len() + prepared.octets())?;
        self.statements.insert(name, prepared);
        Ok(())
    }

    /// Describes a statement: types of its parameters, columns of its answer.
    pub(super) async fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.statements.get(name).ok_or_else(|| no_statement(name))?;
        if prepared.is_empty || prepared.command.is_some() {
            let command = prepared.command.clone();
            self.connection.replies.parameter_description(&[]);
            match command {
                Some(command) => self.describe_command(&command).await?,
                None => self.connection.replies.plain(NO_DATA),
            }
            return Ok(());
        }
        if prepared.columns.is_none() {
            self.check_transaction(None)?;
            let (text, types) = (prepared.text.clone(), prepared.types.clone());
            self.key.requests.mark_unchanged();
            let Self { asker, settings, connection, key, database, .. } = self;
            let wait = Wait { connection, key };
            let described = wait.until(describe(asker, &text, types, settings, database)).await?;
            let (columns, types) = described.map_err(|refusal| PgError::of_refusal(refusal, &text))?;
            if let Some(prepared) = self.statements.get_mut(name) {
                prepared.columns = Some(columns);
                prepared.types = types;
            }
            if let Err(error) = self.check_kept(0) {
                // what is not kept is not described
                self.statements.remove(name);
                return Err(error.into());
            }
        }
        let Some(prepared) = self.statements.get(name) else { return Err(no_statement(name).into()) };
        let replies = &mut self.connection.replies;
        replies.parameter_description(&prepared.types);
        match prepared.columns.as_deref() {
            // formats are not known yet
            Some(columns) => replies.row_description(columns, &[]),
            None => replies.plain(NO_DATA),
        }
        Ok(())
    }

    /// Ends a transaction, and cursors with it.
    pub(super) fn end_transaction(&mut self) {
        self.transaction = Transaction::None;
        self.portals.clear();
    }
}
