//! Why an answer has no rows, as far as that is cheap to know.
//!
//! An empty table may mean that nothing happened, that the time was mistyped, or that the archive does not reach so far. Whoever
//! prints an answer says which, in its own zone and form.

use weir_filter::{Predicate, Test, TextCondition};
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
    /// What else could be asked: one line without a prefix.
    pub hint: Option<String>,
}

impl EmptyReason {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), extent_ms: None, hint: None }
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
        let reason = Self::new(match (question.filter == Predicate::True, is_ranking) {
            (false, false) => format!("{whose} passes the filter"),
            (false, true) => format!("{whose} passes the filter and has a value of this field"),
            (true, true) => format!("{whose} has a value of this field"),
            (true, false) => "no flows".to_owned(),
        });
        reason.with_texts(answers, question, whose)
    }

    /// Says which of the texts that the filter asks for no flow has, or else that they are compared as a whole. Only where an
    /// archive is asked: a cluster would have to read all flows for that.
    fn with_texts(mut self, answers: &FlowAnswers, question: &FlowQuery, whose: &str) -> Result<Self, EngineError> {
        let mut wanted = Vec::new();
        add_texts(&question.filter, &mut wanted);
        if wanted.is_empty() || answers.archive().is_none() {
            return Ok(self);
        }
        let mut absent: Vec<&str> = Vec::new();
        for (column, _) in &wanted {
            let condition = TextCondition::Like("%".to_owned());
            let has_value = Predicate::Test(Test::Text { column: *column, condition });
            if !absent.contains(&column.name()) && !has_flows(answers, question, has_value)? {
                absent.push(column.name());
            }
        }
        if !absent.is_empty() {
            self.text = format!("{}; {whose} has a value of {}", self.text, absent.join(" or "));
            return Ok(self);
        }
        let part = wanted.iter().find_map(|(column, text)| text.map(|text| (column.name(), text)));
        self.hint = part.map(|(name, text)| format!("write {name} like '%{text}%' for texts with this in them"));
        Ok(self)
    }

    /// Of a question about flows of which only parts were read: what is between them is not known.
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
        Ok(Self::new(format!("{passes} in the parts that were read")))
    }

    /// Why whatever is asked about the time of a question has no rows: there are no flows of it.
    fn of_time(answers: &FlowAnswers, question: &FlowQuery) -> Result<Option<Self>, EngineError> {
        let archive = answers.archive();
        if archive.is_some_and(|archive| archive.snapshot().flows() == 0) {
            return Ok(Some(Self::new("no flows: the archive is empty")));
        }
        if is_of_all_time(question) || has_flows(answers, question, Predicate::True)? {
            return Ok(None);
        }
        let extent_ms = archive.and_then(Archive::time_range_ms);
        Ok(Some(Self { extent_ms, ..Self::new("no flows of this time") }))
    }
}

fn is_of_all_time(question: &FlowQuery) -> bool {
    question.window == TimeWindow { rule: question.window.rule, ..TimeWindow::default() }
}

/// Texts shorter than this are codes of countries and the like, which are in no longer text.
const PART_LETTERS_MIN: usize = 3;

/// Adds the columns of text that flows must have to pass, each with a text that could be a part of a longer one, if a whole one is
/// asked for.
fn add_texts<'f>(filter: &'f Predicate, wanted: &mut Vec<(Column, Option<&'f str>)>) {
    match filter {
        Predicate::And(parts) | Predicate::Or(parts) => parts.iter().for_each(|part| add_texts(part, wanted)),
        Predicate::Test(Test::Text { column, condition }) => {
            let whole = match condition {
                TextCondition::OneOf(set) => set.texts().first().map(String::as_str),
                TextCondition::Like(pattern) => Some(pattern.as_str()),
                TextCondition::Exactly(_) => None,
            };
            let could_be_part =
                |text: &&str| text.len() >= PART_LETTERS_MIN && !text.contains(['%', '_', '\\', '\'', '"']);
            wanted.push((*column, whole.filter(could_be_part)));
        }
        _ => {}
    }
}

/// Whether there are flows of the time of a question that pass a filter, whatever its own.
fn has_flows(answers: &FlowAnswers, question: &FlowQuery, filter: Predicate) -> Result<bool, EngineError> {
    let select = Select::List { columns: vec![Column::Start], sorting: None, limit: Some(1) };
    for batch in answers.ask(&FlowQuery { filter, select, ..question.clone() })? {
        if batch?.num_rows() > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
