//! What the Tab key knows: commands, words of SQL, tables, columns and functions.

use rustyline::completion::Completer;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Highlighter, Hinter, Result};
use weir_flow::Table;
use weir_sql::UserTable;
use weir_sql::functions::function_names;

const COMMANDS: &[&str] = &["\\d", "\\df", "\\format", "\\q", "\\timing", "\\watch", "\\?"];
const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "LIMIT",
    "HAVING",
    "JOIN",
    "LEFT JOIN",
    "USING",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "IS NULL",
    "IS NOT NULL",
    "AS",
    "DESC",
    "ASC",
    "DISTINCT",
    "INTERVAL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "WITH",
    "UNION ALL",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "SHOW TABLES",
    "DESCRIBE",
    "count(*)",
    "sum(",
    "avg(",
    "min(",
    "max(",
    "approx_distinct(",
    "now()",
    "date_trunc(",
    "QUALIFY",
];

/// Completes words, and finds out whether a statement goes on in the next line.
#[derive(Helper, Highlighter, Hinter)]
pub(super) struct Completion {
    names: Vec<String>,
}

impl Completion {
    pub(super) fn new(tables: &[UserTable]) -> Self {
        let mut names: Vec<String> = WORDS.iter().map(|word| (*word).to_owned()).collect();
        names.extend(function_names().into_iter().map(|name| format!("{name}(")));
        names.extend(tables.iter().map(|table| table.name.clone()));
        for table in Table::ALL {
            names.push(table.name().to_owned());
            // a word of SQL is no column without its quotes
            names.extend(table.schema().fields().iter().map(|field| field.name().clone()));
        }
        names.sort_by_key(|name| name.to_lowercase());
        names.dedup();
        Self { names }
    }

    /// What the word before the cursor may become, and where it begins.
    fn candidates(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = &line[..at];
        let is_of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '\\' | '?');
        let begin = before.rfind(|letter| !is_of_word(letter)).map_or(0, |last| last + 1);
        let word = before[begin..].to_lowercase();
        let is_meant = |name: &&str| name.to_lowercase().starts_with(&word);
        let names = self.names.iter().map(String::as_str);
        let candidates = match word.as_str() {
            "" => Vec::new(),
            command if command.starts_with('\\') => COMMANDS.iter().copied().filter(is_meant).collect(),
            _ => names.filter(is_meant).collect(),
        };
        (begin, candidates.into_iter().map(str::to_owned).collect())
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _context: &Context<'_>) -> Result<(usize, Vec<String>)> {
        Ok(self.candidates(line, at))
    }
}

impl Validator for Completion {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        Ok(if is_whole(context.input()) { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

/// Whether a statement ends here: by its `;`, or by an empty line.
fn is_whole(text: &str) -> bool {
    let word = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let is_command = word.starts_with('\\') || matches!(word.as_str(), "" | "help" | "quit" | "exit");
    is_command || text.trim_end().ends_with(';') || text.ends_with('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_where_they_begin() {
        let completion = Completion::new(&[UserTable { name: "src_hosts".to_owned(), path: "hosts.csv".into() }]);
        let (begin, found) = completion.candidates("SELECT src_a", 12);
        assert_eq!(begin, 7);
        assert!(found.contains(&"src_addr".to_owned()) && found.contains(&"src_as".to_owned()), "{found:?}");
        assert_eq!(completion.candidates("FROM src_h", 10).1, ["src_hosts"]);
        assert_eq!(completion.candidates("\\wa", 3), (0, vec!["\\watch".to_owned()]));
        assert!(completion.candidates("SELECT ", 7).1.is_empty());
    }

    #[test]
    fn statements_end_with_a_semicolon_or_an_empty_line() {
        assert!(is_whole("SELECT 1;") && is_whole("SELECT 1;  ") && is_whole("\\d flows") && is_whole("help"));
        assert!(is_whole("SELECT 1\n") && !is_whole("SELECT 1") && !is_whole("SELECT 1,\n2"));
    }
}
