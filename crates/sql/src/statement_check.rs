//! The check of a statement's text for those who parse it before the engine does.

use datafusion::sql::sqlparser::dialect::Dialect;

use crate::statement_size::check_text;
use crate::{EngineError, Mistake};

/// Refuses a text that would take too long to plan, or would overflow the stack of who parses it. An [`Engine`](crate::Engine)
/// checks what it gets; this is for what is parsed before, in the same dialect.
pub fn check_statement_size(text: &str, dialect: &dyn Dialect) -> Result<(), EngineError> {
    check_text(text, dialect).map_err(|error| Mistake::explain(text, &error, &[], &|_, column| column).into())
}
