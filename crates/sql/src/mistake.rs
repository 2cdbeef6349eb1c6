//! What is wrong with a question, where, and what to write instead.

pub(crate) mod phrases;

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use weir_flow::{Column, is_element_name};
use weir_query::times::TimeError;

use crate::literals::{BadLiteral, Unfit};
use crate::other_names;
use crate::statement::NoQuestion;
use crate::statement_size::TooLarge;

/// A mistake in the text of a question. Its text is made for people: message, place with a caret, hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// Where, as far as it is known.
    pub place: Option<Place>,
    /// What to write instead.
    pub hint: Option<String>,
}

/// What kind of mistake it is, for protocols that number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MistakeKind {
    /// The statement would change something.
    Change,
    /// There is no such table.
    Table,
    /// There is no such column.
    Column,
    /// There is no such function.
    Function,
    /// Anything else.
    Other,
}

/// How the messages of kinds begin.
const KINDS: [(&str, MistakeKind); 4] = [
    (NoQuestion::BEGIN, MistakeKind::Change),
    ("no table '", MistakeKind::Table),
    ("no column '", MistakeKind::Column),
    ("no function '", MistakeKind::Function),
];

/// Functions in FROM, for those who mistype them.
const IN_FROM: [&str; 5] = ["TUMBLE", "HOP", "SESSION", "HISTORY", "SAME_TIME"];
/// Functions that older dialects group by; with `_start` and `_end` they are the times of a window.
const GROUPED_WINDOWS: [&str; 4] = ["tumble", "hop", "session", "cumulate"];

/// A place in the text of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Line number, from 1.
    pub line: usize,
    /// Column number in characters, from 1.
    pub column: usize,
    /// Characters to underline, at least 1.
    pub width: usize,
    /// The whole line.
    pub text: String,
}

impl Place {
    fn new(sql: &str, line: usize, column: usize, width: usize) -> Option<Self> {
        let text = sql.lines().nth(line.checked_sub(1)?)?;
        let column = column.clamp(1, text.chars().count() + 1);
        let width = width.clamp(1, (text.chars().count() + 1 - column).max(1));
        let text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Some(Self { line, column, width, text })
    }

    /// The first place of `needle`.
    fn find(sql: &str, needle: &str) -> Option<Self> {
        let (line, at, text) =
            sql.lines().enumerate().find_map(|(line, text)| text.find(needle).map(|at| (line, at, text)))?;
        Self::new(sql, line + 1, text[..at].chars().count() + 1, needle.chars().count())
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            let margin = " ".repeat(number.len());
            let (indent, carets) = (" ".repeat(place.column - 1), "^".repeat(place.width));
            write!(f, "\n{margin}--> {}:{}", place.line, place.column)?;
            write!(f, "\n{margin} |\n{number} | {}\n{margin} | {indent}{carets}", place.text)?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Mistake {
    /// What kind it is.
    pub fn kind(&self) -> MistakeKind {
        let found = KINDS.iter().find(|(begin, _)| self.message.starts_with(begin));
        found.map_or(MistakeKind::Other, |(_, kind)| *kind)
    }

    /// Explains why `sql` cannot be planned. `tables` are the names that may follow FROM; `original` gives the column in
    /// `sql` of a place, by its line and column, in the text that was planned.
    pub(crate) fn explain(
        sql: &str,
        error: &DataFusionError,
        tables: &[&str],
        original: &dyn Fn(u64, u64) -> u64,
    ) -> Self {
        let notes = error.diagnostic().map(|found| found.notes.iter().map(|note| note.message.clone()).collect());
        let notes: Vec<String> = notes.unwrap_or_default();
        phrases::refined(sql, Self::of(sql, error, tables, original), &notes)
    }

    fn of(sql: &str, error: &DataFusionError, tables: &[&str], original: &dyn Fn(u64, u64) -> u64) -> Self {
        let diagnostic = error.diagnostic();
        let place = diagnostic.and_then(|diagnostic| place_of(sql, diagnostic, original));
        match error.find_root() {
            DataFusionError::SQL(error, _) => parser_mistake(sql, &error.to_string()),
            DataFusionError::SchemaError(error, _) => schema_mistake(sql, error, place),
            DataFusionError::External(error) => {
                let hint = error.downcast_ref::<Unfit>().map(|unfit| unfit.hint.clone());
                let hint = hint.or_else(|| error.is::<NoQuestion>().then(|| NoQuestion::HINT.to_owned()));
                let hint = hint.or_else(|| error.downcast_ref::<TooLarge>().map(|found| found.hint().to_owned()));
                let other = || Self { message: error.to_string(), place, hint };
                error.downcast_ref::<BadLiteral>().map_or_else(other, |bad| literal_mistake(sql, bad))
            }
            DataFusionError::ArrowError(error, _) => Self::computed(error).at(sql),
            root => {
                let message = diagnostic.map_or_else(|| root.strip_backtrace(), |found| found.message.clone());
                other_mistake(&plain(&message), place, diagnostic, tables)
            }
        }
    }
}

impl Mistake {
    /// What values of the question cannot be computed with. No place is known.
    pub(crate) fn computed(error: &ArrowError) -> Self {
        let text = error.to_string();
        let text = text.split_once("error: ").map_or(text.as_str(), |(_, rest)| rest);
        let quoted = text.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\'')).map(|(inner, _)| inner);
        let (message, hint) = match (error, quoted) {
            (ArrowError::CastError(_) | ArrowError::ParseError(_), Some(value)) if text.contains("imestamp") => {
                let value = value.split('\'').next().unwrap_or(value);
                (format!("'{value}' is no time"), Some(TimeError::HINT))
            }
            (ArrowError::CastError(_), Some(value)) => {
                let value = value.split('\'').next().unwrap_or(value);
                (format!("'{value}' is no number"), Some("try_cast(... AS BIGINT) gives null for what is no number"))
            }
            (ArrowError::DivideByZero, _) => {
                ("a number is divided by zero".to_owned(), Some("nullif(divisor, 0) gives null instead"))
            }
            (ArrowError::ArithmeticOverflow(_), _) => {
                ("a number is too large for its type".to_owned(), Some("cast the numbers first: CAST(... AS DOUBLE)"))
            }
            (ArrowError::InvalidArgumentError(_), _) if is_no_text(error) => {
                ("octets are no text".to_owned(), Some("write host(src_addr) for the text of an address"))
            }
            _ => (plain(text.lines().next().unwrap_or(text)), None),
        };
        Self { message, place: None, hint: hint.map(str::to_owned) }
    }

    /// What a function of the engine says of its arguments.
    pub(crate) fn said(message: &str) -> Self {
        let mut lines = message.lines();
        let first = plain(lines.next().unwrap_or(message));
        let hint = lines.find_map(|line| line.strip_prefix("hint: ")).map(str::to_owned);
        phrases::refined("", Self { message: first, place: None, hint }, &[])
    }

    /// With the place of the value that the message begins with, if it is in the question.
    fn at(mut self, sql: &str) -> Self {
        let value = self.message.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map(|(value, _)| value);
        self.place = value.and_then(|value| Place::find(sql, &format!("'{value}'")));
        self
    }
}

/// Whether octets were to be read as letters, and are none.
pub(crate) fn is_no_text(error: &ArrowError) -> bool {
    matches!(error, ArrowError::InvalidArgumentError(message) if message.starts_with("Encountered non UTF-8 data"))
}

/// Without the prefix that names the kind of error: it says nothing to the caller.
fn plain(message: &str) -> String {
    let message = message.strip_prefix("Error during planning: ").unwrap_or(message);
    let message = message.split(". No function matches").next().unwrap_or(message);
    let mut letters = message.chars();
    match letters.next() {
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect::<String>().trim_end_matches('.').to_owned()
        }
        _ => message.trim_end_matches('.').to_owned(),
    }
}

fn place_of(sql: &str, diagnostic: &Diagnostic, original: &dyn Fn(u64, u64) -> u64) -> Option<Place> {
    let span = diagnostic.span?;
    let (start, end) = (span.start, span.end);
    let width = if start.line == end.line { end.column.saturating_sub(start.column) } else { 1 };
    Place::new(sql, start.line as usize, original(start.line, start.column) as usize, width as usize)
}

fn other_mistake(message: &str, place: Option<Place>, diagnostic: Option<&Diagnostic>, tables: &[&str]) -> Mistake {
    if let Some((message, hint)) = message.split_once("\nhint: ") {
        return Mistake { message: message.to_owned(), place, hint: Some(hint.to_owned()) };
    }
    if let Some(name) = message.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found")) {
        let name = name.rsplit('.').next().unwrap_or(name);
        let hint = nearest(name, tables.iter().copied());
        let hint = hint.unwrap_or_else(|| format!("the tables are {}", tables.join(", ")));
        return Mistake { message: format!("no table '{name}'"), place, hint: Some(hint) };
    }
    if let Some(name) = message.strip_prefix("invalid function '").and_then(|rest| rest.split('\'').next()) {
        let note = diagnostic.and_then(|found| found.notes.first());
        let known = note.and_then(|note| note.message.strip_prefix("Possible function '"));
        let hint = known.and_then(|known| nearest(name, std::iter::once(known.trim_end_matches('\''))));
        let lower = name.to_lowercase();
        let is_window = GROUPED_WINDOWS.contains(&lower.trim_end_matches("_start").trim_end_matches("_end"));
        let hint = match lower.as_str() {
            _ if is_window => Some(phrases::WINDOW_IN_FROM.to_owned()),
            "mod" => Some("write a % b for the remainder".to_owned()),
            _ => hint,
        };
        return Mistake { message: format!("no function '{name}'"), place, hint };
    }
    if let Some(name) = message.strip_prefix("table function '").and_then(|rest| rest.strip_suffix("' not found")) {
        let hint = nearest(name, IN_FROM.into_iter());
        return Mistake { message: format!("no function '{name}' of rows in FROM"), place, hint };
    }
    if message.starts_with("DDL not") || message.starts_with("DML not") || message.starts_with("statement not") {
        let hint = Some(NoQuestion::HINT.to_owned());
        return Mistake { message: NoQuestion::BEGIN.to_owned(), place, hint };
    }
    let help = diagnostic.and_then(|found| found.helps.first()).map(|help| help.message.clone());
    let note = || diagnostic.and_then(|found| found.notes.first()).map(|note| plain(&note.message));
    Mistake { message: message.to_owned(), place, hint: help.or_else(note) }
}

/// The parser gives the place in words: `… at Line: 1, Column: 15`.
fn parser_mistake(sql: &str, message: &str) -> Mistake {
    let message = message.trim_start_matches("sql parser error: ").trim_start_matches("Invalid tokenizer: ");
    let Some((message, place)) = message.rsplit_once(" at Line: ") else {
        let end = sql.lines().count().max(1);
        let column = sql.lines().last().map_or(1, |line| line.chars().count() + 1);
        return Mistake { message: plain(message), place: Place::new(sql, end, column, 1), hint: None };
    };
    let mut numbers = place.split(", Column: ").map(|number| number.trim().parse().unwrap_or(1));
    let (line, column) = (numbers.next().unwrap_or(1), numbers.next().unwrap_or(1));
    let word = sql.lines().nth(line - 1).unwrap_or_default().chars().skip(column - 1);
    let width = word.take_while(|c| c.is_alphanumeric() || *c == '_').count();
    Mistake { message: plain(message), place: Place::new(sql, line, column, width), hint: None }
}

fn schema_mistake(sql: &str, error: &SchemaError, place: Option<Place>) -> Mistake {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let names: Vec<&str> = valid_fields.iter().map(datafusion::common::Column::name).collect();
            let is_of_no_table = field.relation.as_ref().is_some_and(|table| {
                !valid_fields.is_empty() && valid_fields.iter().all(|known| known.relation.as_ref() != Some(table))
            });
            if let Some(table) = field.relation.as_ref().filter(|_| is_of_no_table) {
                return unknown_table(&table.to_string(), valid_fields, place);
            }
            if phrases::is_quantified(field.name()) {
                let (message, hint) = phrases::SUBQUERY_PLACE;
                return Mistake { message: message.to_owned(), place: None, hint: Some(hint.to_owned()) };
            }
            let meant = other_names::meant(field.name(), &names).map(|meant| format!("did you mean {meant}?"));
            let hint = meant.or_else(|| phrases::unknown_name(sql, field.name(), !names.is_empty()));
            let hint = hint.or_else(|| nearest(field.name(), names.iter().copied()));
            let hint = hint.or_else(|| element_hint(field.name(), &names));
            let hint = hint.or_else(|| names_hint(valid_fields));
            Mistake { message: format!("no column '{}'", field.name()), place, hint }
        }
        SchemaError::AmbiguousReference { field } => {
            let hint = Some(format!("write the table's name before it, as in flows.{}", field.name()));
            Mistake { message: format!("column '{}' is in more than one table", field.name()), place, hint }
        }
        other => Mistake { message: plain(&other.to_string()), place, hint: None },
    }
}

/// A column of a table that the question does not name.
fn unknown_table(name: &str, fields: &[datafusion::common::Column], place: Option<Place>) -> Mistake {
    let mut tables: Vec<String> =
        fields.iter().filter_map(|field| field.relation.as_ref()).map(ToString::to_string).collect();
    tables.dedup();
    let hint = Some(format!("the tables of this question are {}", tables.join(", ")));
    Mistake { message: format!("no table '{name}' in this question"), place, hint }
}

/// How an Information Element is asked for that has no column of its own.
fn element_hint(name: &str, columns: &[&str]) -> Option<String> {
    let has_elements = columns.contains(&Column::Elements.name());
    (has_elements && is_element_name(name))
        .then(|| format!("it is an Information Element: write element(elements, '{name}')"))
}

fn names_hint(fields: &[datafusion::common::Column]) -> Option<String> {
    let names: Vec<_> = fields.iter().take(12).map(datafusion::common::Column::name).collect();
    let more = if fields.len() > names.len() { ", …; all of them: DESCRIBE flows" } else { "" };
    (!names.is_empty()).then(|| format!("the columns are {}{more}", names.join(", ")))
}

fn literal_mistake(sql: &str, bad: &BadLiteral) -> Mistake {
    let place = Place::find(sql, &format!("'{}'", bad.text));
    Mistake { message: bad.to_string(), place, hint: Some(bad.hint().to_owned()) }
}

/// The name that was probably meant: at most a third of the letters differ.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let name = name.to_lowercase();
    // letters that changed their places are one slip and not two
    let distance = |known: &str| strsim::osa_distance(&name, &known.to_lowercase());
    let (distance, known) = known.map(|known| (distance(known), known)).min()?;
    (distance <= name.len().max(3) / 3).then(|| format!("did you mean '{known}'?"))
}
