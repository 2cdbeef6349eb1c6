//! Why an answer has no rows, as far as that is cheap to know.
//!
//! An empty table may mean that nothing happened, that the time was mistyped, or that the archive does not reach so far. Whoever
//! prints an answer says which, in its own zone and form.

use weir_filter::Predicate;
use weir_flow::Column;
use weir_query::Archive;

use crate::{EngineError, FlowAnswers, FlowQuery, Select, TimeWindow};

/// Why an answer has no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyReason {
    /// A few words: `no flows of this time`.
    pub text: String,
    /// The first and the last millisecond of the flows of the archive, where that says more.
    pub extent_ms: Option<(i64, i64)>,
}

impl EmptyReason {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), extent_ms: None }
    }

    /// Of a statement of SQL.
    pub fn of_statement(archive: &Archive) -> Self {
        match (archive.snapshot().flows(), archive.time_range_ms()) {
            (0, _) => Self::new("no rows: the archive has no flows"),
            (_, extent_ms @ Some(_)) => Self { extent_ms, ..Self::new("no rows") },
            (flows, None) => Self::new(format!("no rows; the archive has {flows} flows")),
        }
    }

    /// Of a question about flows. Looks for one flow of the time that was asked for.
    ///
    /// # Errors
    ///
    /// The archive cannot be read, or the question was cancelled.
    pub fn of_question(answers: &FlowAnswers, question: &FlowQuery) -> Result<Self, EngineError> {
        if let Some(reason) = Self::of_time(answers, question)? {
            return Ok(reason);
        }
        let whose = if is_of_all_time(question) { "no flow" } else { "no flow of this time" };
        let is_ranking = matches!(question.select, Select::Statistic { .. });
        Ok(Self::new(match (question.filter == Predicate::True, is_ranking) {
            (false, false) => format!("{whose} passes the filter"),
            (false, true) => format!("{whose} passes the filter and has a value of this field"),
            (true, true) => format!("{whose} has a value of this field"),
            (true, false) => "no flows".to_owned(),
        }))
    }

    /// Of a question about flows of which only parts of its time were read: what is between them is not known.
    ///
    /// # Errors
    ///
    /// The archive cannot be read, or the question was cancelled.
    pub fn of_parts(answers: &FlowAnswers, question: &FlowQuery) -> Result<Self, EngineError> {
        if let Some(reason) = Self::of_time(answers, question)? {
            return Ok(reason);
        }
        let is_filtered = question.filter != Predicate::True;
        let passes = if is_filtered { "no flow passes the filter" } else { "no flows" };
        Ok(Self::new(format!("{passes} in the parts of this time that were read")))
    }

    /// Why whatever is asked about the time of a question has no rows: there are no flows of it.
    fn of_time(answers: &FlowAnswers, question: &FlowQuery) -> Result<Option<Self>, EngineError> {
        let archive = answers.archive();
        if archive.is_some_and(|archive| archive.snapshot().flows() == 0) {
            return Ok(Some(Self::new("no flows: the archive is empty")));
        }
        if is_of_all_time(question) || has_flows(answers, question)? {
            return Ok(None);
        }
        let extent_ms = archive.and_then(Archive::time_range_ms);
        Ok(Some(Self { extent_ms, ..Self::new("no flows of this time") }))
    }
}

fn is_of_all_time(question: &FlowQuery) -> bool {
    question.window == TimeWindow { rule: question.window.rule, ..TimeWindow::default() }
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
