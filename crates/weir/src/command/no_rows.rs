//! Why an answer has no rows: one line for standard error.
//!
//! Standard output stays what programs expect: a title, or nothing. The line is printed where people look: beside tables,
//! and on terminals.

use std::io::{self, IsTerminal};

use jiff::tz::TimeZone;
use weir_query::Archive;
use weir_sql::{EmptyReason, EngineError, FlowAnswers, FlowQuery};

use super::answer_format::FormatArg;
use crate::time_args::range_text;

/// Whether somebody looks at an answer in this format.
pub(super) fn is_looked_at(format: FormatArg) -> bool {
    format == FormatArg::Table || io::stderr().is_terminal()
}

/// Why a statement may have no rows.
pub(super) fn of_statement(archive: &Archive, zone: &TimeZone) -> String {
    line(EmptyReason::of_statement(archive), zone)
}

/// Why a question about flows has no rows.
pub(super) fn of_question(answers: &FlowAnswers, question: &FlowQuery, zone: &TimeZone) -> Result<String, EngineError> {
    Ok(line(EmptyReason::of_question(answers, question)?, zone))
}

/// `no flows of this time; the archive has flows from 2026-11-21 10:00 to 11:00 Europe/Zurich`.
fn line(reason: EmptyReason, zone: &TimeZone) -> String {
    let EmptyReason { text, extent_ms, hint } = reason;
    let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    match extent_ms {
        Some((first_ms, last_ms)) => {
            format!("{text}; the archive has flows {}{hint}", range_text(first_ms, last_ms, zone))
        }
        None => format!("{text}{hint}"),
    }
}
