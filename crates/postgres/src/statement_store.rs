//! What a connection keeps: prepared statements and portals, by name, up to a limit in octets.

use std::collections::HashMap;
use std::sync::Arc;

use crate::counts::PostgresCounts;
use crate::errors::{DUPLICATE_CURSOR, DUPLICATE_STATEMENT, OUT_OF_MEMORY, PgError};
use crate::portals::{Portal, Prepared, no_cursor, no_statement};
use crate::replies::PgColumn;

/// The prepared statements and portals of a connection.
#[derive(Debug)]
pub(crate) struct StatementStore {
    statements: HashMap<String, Prepared>,
    portals: HashMap<String, Portal>,
    octets_max: u64,
    counts: Arc<PostgresCounts>,
}

impl StatementStore {
    pub(crate) fn new(octets_max: u64, counts: Arc<PostgresCounts>) -> Self {
        Self { statements: HashMap::new(), portals: HashMap::new(), octets_max, counts }
    }

    /// A prepared statement.
    pub(crate) fn statement(&self, name: &str) -> Result<&Prepared, PgError> {
        self.statements.get(name).ok_or_else(|| no_statement(name))
    }

    /// Refuses a name that a prepared statement has. What has no name is replaced.
    pub(crate) fn check_statement_name(&self, name: &str) -> Result<(), PgError> {
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("there is a prepared statement '{}' already", name.escape_debug());
            return Err(PgError::new(DUPLICATE_STATEMENT, message));
        }
        Ok(())
    }

    /// Keeps a statement, in place of the one of that name.
    pub(crate) fn insert_statement(&mut self, name: String, prepared: Prepared) -> Result<(), PgError> {
        self.statements.remove(&name);
        self.check_octets(name.len() + prepared.octets())?;
        self.statements.insert(name, prepared);
        Ok(())
    }

    /// Keeps what a statement was described as.
    pub(crate) fn set_description(
        &mut self,
        name: &str,
        columns: Vec<PgColumn>,
        types: Vec<u32>,
    ) -> Result<(), PgError> {
        if let Some(prepared) = self.statements.get_mut(name) {
            prepared.columns = Some(columns);
            prepared.types = types;
        }
        if let Err(error) = self.check_octets(0) {
            // what is not kept is not described
            self.statements.remove(name);
            return Err(error);
        }
        Ok(())
    }

    /// Removes a statement; one that is not there is no error.
    pub(crate) fn remove_statement(&mut self, name: &str) {
        self.statements.remove(name);
    }

    /// Removes a statement, or all. Gives the words that say what was done.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<&'static str, PgError> {
        match name {
            None => {
                self.statements.clear();
                Ok("DEALLOCATE ALL")
            }
            Some(name) => {
                self.statements.remove(name).ok_or_else(|| no_statement(name))?;
                Ok("DEALLOCATE")
            }
        }
    }

    /// Keeps the portal of a bound statement, in place of the one without a name if it has none.
    pub(crate) fn bind(&mut self, name: String, portal: Portal) -> Result<(), PgError> {
        self.check_octets(name.len() + portal.octets())?;
        if !name.is_empty() {
            self.check_portal_name(&name)?;
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Keeps the portal of a declared cursor.
    pub(crate) fn declare(&mut self, name: &str, portal: Portal) -> Result<(), PgError> {
        self.check_portal_name(name)?;
        self.check_octets(name.len() + portal.octets())?;
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Takes a portal out, to work with it.
    pub(crate) fn take_portal(&mut self, name: &str) -> Result<Portal, PgError> {
        self.portals.remove(name).ok_or_else(|| no_cursor(name))
    }

    /// Puts a portal back that was taken out.
    pub(crate) fn put_portal(&mut self, name: &str, portal: Portal) {
        self.portals.insert(name.to_owned(), portal);
    }

    /// Removes a portal; one that is not there is no error.
    pub(crate) fn remove_portal(&mut self, name: &str) {
        self.portals.remove(name);
    }

    /// Closes a cursor, or all. Gives the words that say what was done.
    pub(crate) fn close(&mut self, name: Option<&str>) -> Result<&'static str, PgError> {
        match name {
            None => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                Ok("CLOSE CURSOR")
            }
        }
    }

    pub(crate) fn clear_portals(&mut self) {
        self.portals.clear();
    }

    /// Removes all statements and portals.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
        self.portals.clear();
    }

    fn check_portal_name(&self, name: &str) -> Result<(), PgError> {
        if self.portals.contains_key(name) {
            return Err(PgError::new(DUPLICATE_CURSOR, format!("there is a cursor '{}' already", name.escape_debug())));
        }
        Ok(())
    }

    /// Refuses what is more than a connection may keep.
    fn check_octets(&self, more: usize) -> Result<(), PgError> {
        let statements: usize = self.statements.iter().map(|(name, prepared)| name.len() + prepared.octets()).sum();
        let portals: usize = self.portals.iter().map(|(name, portal)| name.len() + portal.octets()).sum();
        let octets_max = self.octets_max;
        if (statements + portals + more) as u64 > octets_max {
            self.counts.messages_refused.add_one();
            let message =
                format!("prepared statements and values of this connection have more than {octets_max} octets");
            return Err(
                PgError::new(OUT_OF_MEMORY, message).with_hint("DEALLOCATE ALL, or raise the option prepared_max")
            );
        }
        Ok(())
    }
}
