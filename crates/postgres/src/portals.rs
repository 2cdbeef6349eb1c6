//! Prepared statements, and portals: statements with their values.

use std::sync::Arc;

use crate::arguments;
use crate::commands::Command;
use crate::errors::{NO_CURSOR, NO_STATEMENT, PROTOCOL_VIOLATION, PgError};
use crate::messages::{Bind, Format};
use crate::replies::PgColumn;
use crate::running::{Asked, Running};

/// Octets that a statement or a portal takes besides its text and values.
const OCTETS: usize = 512;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) text: String,
    /// Types of parameters as far as the client has declared them; then as they were described.
    pub(crate) types: Vec<u32>,
    /// `None` when it is for the engine.
    pub(crate) command: Option<Command>,
    pub(crate) is_empty: bool,
    pub(crate) columns: Option<Vec<PgColumn>>,
}

impl Prepared {
    pub(crate) fn octets(&self) -> usize {
        let command = self.command.as_ref().map_or(0, Command::octets);
        let columns = self.columns.as_deref().map_or(0, columns_octets);
        OCTETS + self.text.len() + self.types.len() * 4 + command + columns
    }
}

/// A statement with its values, and how far its answer is.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) content: Content,
    pub(crate) running: Option<Running>,
    /// Its columns, once they are known.
    pub(crate) columns: Option<Arc<[PgColumn]>>,
    pub(crate) is_ended: bool,
}

/// What a portal does.
#[derive(Debug)]
pub(crate) enum Content {
    Empty,
    Command(Command),
    Question(Asked),
}

impl Portal {
    pub(crate) fn asking(asked: Asked) -> Self {
        Self { content: Content::Question(asked), running: None, columns: None, is_ended: false }
    }

    pub(crate) fn octets(&self) -> usize {
        let content = match &self.content {
            Content::Question(asked) => asked.octets(),
            Content::Command(command) => command.octets(),
            Content::Empty => 0,
        };
        OCTETS + content + self.columns.as_deref().map_or(0, columns_octets)
    }
}

fn columns_octets(columns: &[PgColumn]) -> usize {
    columns.iter().map(|column| size_of::<PgColumn>() + column.name.len()).sum()
}

pub(crate) fn no_cursor(name: &str) -> PgError {
    PgError::new(NO_CURSOR, format!("there is no cursor '{}'", name.escape_debug()))
}

pub(crate) fn no_statement(name: &str) -> PgError {
    PgError::new(NO_STATEMENT, format!("there is no prepared statement '{}'", name.escape_debug()))
}

/// The portal of a statement with values.
pub(crate) fn bound(bind: &Bind, statement: &Prepared) -> Result<Portal, PgError> {
    if bind.formats.len() > 1 && bind.formats.len() != bind.values.len() {
        let message = format!("{} formats came for {} values", bind.formats.len(), bind.values.len());
        return Err(PgError::new(PROTOCOL_VIOLATION, message));
    }
    let content = if statement.is_empty {
        Content::Empty
    } else if let Some(command) = &statement.command {
        Content::Command(command.clone())
    } else {
        let value = |(position, octets): (usize, &Option<bytes::Bytes>)| {
            let oid = statement.types.get(position).copied().unwrap_or(0);
            arguments::value(oid, Format::at(&bind.formats, position), octets.as_deref())
        };
        let values = bind.values.iter().enumerate().map(value).collect::<Result<_, _>>()?;
        Content::Question(Asked { text: statement.text.clone(), values, formats: bind.results.clone() })
    };
    Ok(Portal { content, running: None, columns: None, is_ended: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::PgKind;

    #[test]
    fn what_is_kept_is_counted() {
        let name = "c".repeat(100);
        let declare = || Command::Declare { name: name.clone(), question: "q".repeat(1000), is_binary: false };
        let columns = || vec![PgColumn { name: name.clone(), kind: PgKind::Text }];
        let mut prepared =
            Prepared { text: "t".repeat(10), types: vec![25], command: None, is_empty: false, columns: None };
        let plain = prepared.octets();
        assert_eq!(plain, OCTETS + 10 + 4);
        prepared.command = Some(declare());
        assert_eq!(prepared.octets(), plain + 1100);
        prepared.columns = Some(columns());
        assert_eq!(prepared.octets(), plain + 1200 + size_of::<PgColumn>());
        let mut portal = Portal { content: Content::Command(declare()), running: None, columns: None, is_ended: false };
        assert_eq!(portal.octets(), OCTETS + 1100);
        portal.columns = Some(columns().into());
        assert_eq!(portal.octets(), OCTETS + 1200 + size_of::<PgColumn>());
    }
}
