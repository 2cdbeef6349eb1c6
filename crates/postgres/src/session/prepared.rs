//! What a session does with prepared statements.

use super::Session;
use crate::commands::Command;
use crate::errors::{PgError, SYNTAX};
use crate::failure::Failure;
use crate::portals::Prepared;
use crate::replies::NO_DATA;
use crate::statements::parts;
use crate::transaction::Transaction;

impl Session {
    /// Prepares a statement. What is wrong with it is found when it is described or executed.
    pub(super) fn parse(&mut self, name: String, text: String, types: Vec<u32>) -> Result<(), PgError> {
        self.store.check_statement_name(&name)?;
        let prepared = prepared(text, types, self.transaction)?;
        self.store.insert_statement(name, prepared)
    }

    /// Describes a statement: types of its parameters, columns of its answer.
    pub(super) async fn describe_statement(&mut self, name: &str) -> Result<(), Failure> {
        let prepared = self.store.statement(name)?;
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
            self.transaction.check(None)?;
            let (text, types) = (prepared.text.clone(), prepared.types.clone());
            let (columns, types) = self.runner.describe_statement(&mut self.connection, &text, types).await?;
            self.store.set_description(name, columns, types)?;
        }
        let prepared = self.store.statement(name)?;
        let replies = &mut self.connection.replies;
        replies.parameter_description(&prepared.types);
        match prepared.columns.as_deref() {
            // formats are not known yet
            Some(columns) => replies.row_description(columns, &[]),
            None => replies.plain(NO_DATA),
        }
        Ok(())
    }
}

/// The statement of a text, if the transaction lets it be prepared.
fn prepared(text: String, types: Vec<u32>, transaction: Transaction) -> Result<Prepared, PgError> {
    let mut parts = parts(&text)?;
    if parts.len() > 1 {
        return Err(PgError::new(SYNTAX, "only one statement can be prepared at a time"));
    }
    let part = parts.pop();
    let command = part.as_ref().map(Command::of).transpose()?.flatten();
    if part.is_some() {
        transaction.check(command.as_ref())?;
    }
    Ok(Prepared { is_empty: part.is_none(), command, text, types, columns: None })
}
