//! Why an answer has no rows, as far as that is cheap to know: one line for standard error.
//!
//! Standard output stays what programs expect: a title, or nothing. The line is printed where people look: beside tables,
//! and on terminals.

use std::io::{self, IsTerminal};

use jiff::tz::TimeZone;
use weir_filter::Predicate;
use weir_flow::Column;
use weir_query::Archive;
use weir_sql::{EngineError, FlowAnswers, FlowQuery, Select, TimeWindow};

use super::FormatArg;
use crate::time_args::range_text;

/// Whether somebody looks at an answer in this format.
pub(super) fn is_looked_at(format: FormatArg) -> bool {
    format == FormatArg::Table || io::stderr().is_terminal()
}

/// Why a statement may have no rows.
pub(super) fn of_statement(archive: &Archive, zone: &TimeZone) -> String {
    match (archive.snapshot().flows(), extent(archive, zone)) {
        (0, _) => "no rows: the archive has no flows".to_owned(),
        (_, Some(extent)) => format!("no rows; the archive has flows {extent}"),
        (flows, None) => format!("no rows; the archive has {flows} flows"),
    }
}

/// Why a question about flows has no rows. Looks for one flow of the time that was asked for.
pub(super) fn of_question(answers: &FlowAnswers, question: &FlowQuery, zone: &TimeZone) -> Result<String, EngineError> {
    let archive = answers.archive();
    if archive.is_some_and(|archive| archive.snapshot().flows() == 0) {
        return Ok("no flows: the archive is empty".to_owned());
    }
    let is_of_all_time = question.window == TimeWindow { rule: question.window.rule, ..TimeWindow::default() };
    if !is_of_all_time && !has_flows(answers, question)? {
        let extent = archive.and_then(|archive| extent(archive, zone));
        let extent = extent.map(|extent| format!("; the archive has flows {extent}")).unwrap_or_default();
        return Ok(format!("no flows of this time{extent}"));
    }
    let whose = if is_of_all_time { "no flow" } else { "no flow of this time" };
    let is_ranking = matches!(question.select, Select::Statistic { .. });
    Ok(match (question.filter == Predicate::True, is_ranking) {
        (false, false) => format!("{whose} passes the filter"),
        (false, true) => format!("{whose} passes the filter and has a value of this field"),
        (true, true) => format!("{whose} has a value of this field"),
        (true, false) => "no flows".to_owned(),
    })
}

/// Whether there are flows of the time of a question, whatever its filter.
fn has_flows(answers: &FlowAnswers, question: &FlowQuery) -> Result<bool, EngineError> {
    let select = Select::List { columns: vec![Column::Start], sorting: None, limit: Some(1) };
    for batch in answers.ask(&FlowQuery { filter: Predicate::True, select, ..question.clone() })? {
        if batch?.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `from 2026-11-21 10:00 to 11:00 Europe/Zurich`.
fn extent(archive: &Archive, zone: &TimeZone) -> Option<String> {
    archive.time_range_ms().map(|(first_ms, last_ms)| range_text(first_ms, last_ms, zone))
}
