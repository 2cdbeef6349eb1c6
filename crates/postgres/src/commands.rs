//! Statements that a session answers itself: transactions, settings, cursors.
//!
//! Drivers send them around questions. There is nothing to roll back, so transactions change only what the client sees of them;
//! everything that is not in this list goes to the engine, which reads and refuses what does not.

use datafusion::sql::sqlparser::tokenizer::{Token, Word};

use crate::errors::{NOT_SUPPORTED, PgError, READ_ONLY, SYNTAX};
use crate::statements::Part;

/// What to do instead of COPY.
const COPY_HINT: &str =
    "write a SELECT; with ADBC set adbc.postgresql.use_copy to false; in DuckDB: SET pg_use_text_protocol = true";

/// A statement that a session answers itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Begin,
    Commit,
    Rollback,
    /// One that changes nothing, and the words that say that it is done.
    Done(&'static str),
    /// A setting; no value is its default.
    Set {
        name: String,
        value: Option<String>,
    },
    ResetAll,
    DiscardAll,
    Show(String),
    ShowAll,
    /// A prepared statement, or all.
    Deallocate(Option<String>),
    /// A cursor and the text of its question.
    Declare {
        name: String,
        question: String,
        is_binary: bool,
    },
    /// Rows of a cursor; all without a number.
    Fetch {
        name: String,
        rows: Option<usize>,
        is_move: bool,
    },
    /// A cursor, or all.
    Close(Option<String>),
}

/// The words of a statement.
struct Words<'a> {
    tokens: &'a [Token],
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.first()
    }

    fn next(&mut self) -> Option<&'a Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Takes a word, if it is the next.
    fn take(&mut self, word: &str) -> bool {
        let is_next = matches!(self.peek(), Some(Token::Word(next)) if is_word(next, word));
        if is_next {
            self.next();
        }
        is_next
    }

    /// A name: as it is in quotes, otherwise in lower case.
    fn name(&mut self) -> Result<String, PgError> {
        match self.next() {
            Some(Token::Word(word)) if word.quote_style.is_some() => Ok(word.value.clone()),
            Some(Token::Word(word)) => Ok(word.value.to_lowercase()),
            other => Err(unexpected(other)),
        }
    }

    fn number(&mut self) -> Option<usize> {
        let Some(Token::Number(digits, _)) = self.peek() else { return None };
        let number = digits.parse().ok()?;
        self.next();
        Some(number)
    }

    fn end(&self) -> Result<(), PgError> {
        match self.peek() {
            None => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

fn is_word(word: &Word, text: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text)
}

fn unexpected(token: Option<&Token>) -> PgError {
    let message =
        token.map_or_else(|| "the statement ends too early".to_owned(), |token| format!("unexpected {token}"));
    PgError::new(SYNTAX, message)
}

impl Command {
    /// The command that a statement is; `None` when it is for the engine.
    pub(crate) fn of(part: &Part) -> Result<Option<Self>, PgError> {
        let mut words = Words { tokens: &part.tokens };
        let Some(Token::Word(first)) = words.next() else { return Ok(None) };
        if first.quote_style.is_some() {
            return Ok(None);
        }
        let command = match first.value.to_ascii_uppercase().as_str() {
            "BEGIN" | "START" => Self::Begin,
            "COMMIT" | "END" => Self::Commit,
            "ROLLBACK" if words.take("TO") => Self::Done("ROLLBACK"),
            "ROLLBACK" | "ABORT" => Self::Rollback,
            "SAVEPOINT" => Self::Done("SAVEPOINT"),
            "RELEASE" => Self::Done("RELEASE"),
            "UNLISTEN" => Self::Done("UNLISTEN"),
            "SET" => set(&mut words)?,
            "RESET" => reset(&mut words)?,
            "DISCARD" => discard(&mut words)?,
            "SHOW" => return show(&mut words),
            "DEALLOCATE" => {
                words.take("PREPARE");
                Self::Deallocate(all_or_name(&mut words)?)
            }
            "DECLARE" => declare(&mut words, part)?,
            "FETCH" => fetch(&mut words, false)?,
            "MOVE" => fetch(&mut words, true)?,
            "CLOSE" => Self::Close(all_or_name(&mut words)?),
            "COPY" => {
                let error = PgError::new(READ_ONLY, "only questions are answered, not COPY");
                return Err(error.with_hint(COPY_HINT));
            }
            "PREPARE" | "EXECUTE" | "LISTEN" | "NOTIFY" | "LOCK" => {
                let message = format!("{} is not offered", first.value.to_uppercase());
                return Err(PgError::new(NOT_SUPPORTED, message));
            }
            _ => return Ok(None),
        };
        Ok(Some(command))
    }

    /// Octets of its names and texts.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Set { name, value } => name.len() + value.as_ref().map_or(0, String::len),
            Self::Declare { name, question, .. } => name.len() + question.len(),
            Self::Show(name) | Self::Fetch { name, .. } => name.len(),
            Self::Deallocate(name) | Self::Close(name) => name.as_ref().map_or(0, String::len),
            Self::Begin
            | Self::Commit
            | Self::Rollback
            | Self::Done(_)
            | Self::ResetAll
            | Self::DiscardAll
            | Self::ShowAll => 0,
        }
    }
}

fn all_or_name(words: &mut Words<'_>) -> Result<Option<String>, PgError> {
    let name = if words.take("ALL") { None } else { Some(words.name()?) };
    words.end()?;
    Ok(name)
}

fn set(words: &mut Words<'_>) -> Result<Command, PgError> {
    let _ = words.take("SESSION") || words.take("LOCAL");
    if words.take("TRANSACTION") || words.take("CHARACTERISTICS") {
        let read_write = words.tokens.windows(2).any(|pair| {
            matches!(pair, [Token::Word(first), Token::Word(second)] if is_word(first, "READ") && is_word(second, "WRITE"))
        });
        if read_write {
            return Err(PgError::new(READ_ONLY, "transactions only read"));
        }
        return Ok(Command::Done("SET"));
    }
    let name = if words.take("TIME") {
        if !words.take("ZONE") {
            return Err(unexpected(words.peek()));
        }
        "timezone".to_owned()
    } else {
        let name = words.name()?;
        if !(words.take("TO") || matches!(words.peek(), Some(Token::Eq))) {
            return Err(unexpected(words.peek()));
        }
        if matches!(words.peek(), Some(Token::Eq)) {
            words.next();
        }
        name
    };
    let mut values = Vec::new();
    while let Some(token) = words.next() {
        match token {
            Token::Comma => {}
            Token::SingleQuotedString(text) => values.push(text.clone()),
            Token::Word(word) => values.push(word.value.clone()),
            Token::Number(digits, _) => values.push(digits.clone()),
            Token::Minus => values.push("-".to_owned()),
            other => return Err(unexpected(Some(other))),
        }
    }
    if values.is_empty() {
        return Err(unexpected(None));
    }
    let text = values.join(", ").replace("-, ", "-");
    let is_default = text.eq_ignore_ascii_case("default");
    Ok(Command::Set { name, value: (!is_default).then_some(text) })
}

fn reset(words: &mut Words<'_>) -> Result<Command, PgError> {
    Ok(match all_or_name(words)? {
        Some(name) => Command::Set { name, value: None },
        None => Command::ResetAll,
    })
}

fn discard(words: &mut Words<'_>) -> Result<Command, PgError> {
    if words.take("ALL") {
        return Ok(Command::DiscardAll);
    }
    let is_known = ["PLANS", "SEQUENCES", "TEMP", "TEMPORARY"].into_iter().any(|word| words.take(word));
    if is_known { Ok(Command::Done("DISCARD")) } else { Err(unexpected(words.peek())) }
}

/// `SHOW` of a setting; tables and columns are for the engine.
fn show(words: &mut Words<'_>) -> Result<Option<Command>, PgError> {
    if words.take("TABLES") || words.take("COLUMNS") || words.take("FUNCTIONS") {
        return Ok(None);
    }
    if words.take("ALL") {
        return Ok(Some(Command::ShowAll));
    }
    if words.take("TRANSACTION") {
        // ISOLATION LEVEL
        return Ok(Some(Command::Show("transaction_isolation".to_owned())));
    }
    if words.take("TIME") {
        return Ok(Some(Command::Show("timezone".to_owned())));
    }
    let name = words.name()?;
    words.end()?;
    Ok(Some(Command::Show(name)))
}

fn declare(words: &mut Words<'_>, part: &Part) -> Result<Command, PgError> {
    let name = words.name()?;
    let mut is_binary = false;
    while !words.take("CURSOR") {
        is_binary |= words.take("BINARY");
        let is_known = ["BINARY", "INSENSITIVE", "ASENSITIVE", "NO"].into_iter().any(|word| words.take(word));
        if words.take("SCROLL") || is_known {
            continue;
        }
        if !matches!(words.peek(), Some(Token::Word(word)) if is_word(word, "CURSOR")) {
            return Err(unexpected(words.peek()));
        }
    }
    if words.take("WITH") {
        if words.take("HOLD") {
            let hint = "declare it in a transaction, without WITH HOLD";
            return Err(PgError::new(NOT_SUPPORTED, "a cursor ends with its transaction").with_hint(hint));
        }
    } else {
        words.take("WITHOUT");
    }
    words.take("HOLD");
    if !words.take("FOR") {
        return Err(unexpected(words.peek()));
    }
    Ok(Command::Declare { name, question: question_of(&part.text)?, is_binary })
}

/// What is behind the first FOR of a declaration: its name may be quoted, so the text is read again.
fn question_of(text: &str) -> Result<String, PgError> {
    let mut in_quotes = false;
    for (at, letter) in text.char_indices() {
        in_quotes ^= letter == '"';
        let is_for = !in_quotes
            && text[at..].get(..3).is_some_and(|word| word.eq_ignore_ascii_case("for"))
            && text[..at].ends_with(char::is_whitespace)
            && text[at + 3..].starts_with(|next: char| next.is_whitespace() || next == '(');
        if is_for {
            return Ok(text[at + 3..].trim().to_owned());
        }
    }
    Err(unexpected(None))
}

fn fetch(words: &mut Words<'_>, is_move: bool) -> Result<Command, PgError> {
    let _ = words.take("FORWARD") || words.take("RELATIVE");
    let backward = ["BACKWARD", "PRIOR", "FIRST", "LAST", "ABSOLUTE"].into_iter().any(|word| words.take(word));
    if backward || matches!(words.peek(), Some(Token::Minus)) {
        return Err(PgError::new(NOT_SUPPORTED, "a cursor goes forward only"));
    }
    let rows = if words.take("ALL") { None } else { Some(words.number().unwrap_or(1)) };
    words.take("NEXT");
    let _ = words.take("FROM") || words.take("IN");
    let name = words.name()?;
    words.end()?;
    Ok(Command::Fetch { name, rows, is_move })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::parts;

    fn command(text: &str) -> Result<Option<Command>, PgError> {
        Command::of(&parts(text).expect("parts")[0])
    }

    fn set_to(name: &str, value: &str) -> Command {
        Command::Set { name: name.to_owned(), value: Some(value.to_owned()) }
    }

    #[test]
    fn what_drivers_send_around_questions_is_known() {
        let fetch = |rows| Command::Fetch { name: "c1".to_owned(), rows, is_move: false };
        let question = "SELECT ' for ' FROM flows".to_owned();
        for (text, expected) in [
            ("BEGIN ISOLATION LEVEL READ COMMITTED", Command::Begin),
            ("START TRANSACTION READ ONLY", Command::Begin),
            ("commit work", Command::Commit),
            ("ROLLBACK TO SAVEPOINT a", Command::Done("ROLLBACK")),
            ("SET extra_float_digits = 3", set_to("extra_float_digits", "3")),
            ("SET SESSION search_path TO \"$user\", public", set_to("search_path", "$user, public")),
            ("set datestyle to 'ISO'", set_to("datestyle", "ISO")),
            ("SET TIME ZONE 'Europe/Paris'", set_to("timezone", "Europe/Paris")),
            ("SET statement_timeout = DEFAULT", Command::Set { name: "statement_timeout".to_owned(), value: None }),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", Command::Done("SET")),
            ("RESET ALL", Command::ResetAll),
            ("DISCARD ALL", Command::DiscardAll),
            ("SHOW server_version", Command::Show("server_version".to_owned())),
            ("SHOW TRANSACTION ISOLATION LEVEL", Command::Show("transaction_isolation".to_owned())),
            ("DEALLOCATE PREPARE \"S_1\"", Command::Deallocate(Some("S_1".to_owned()))),
            ("DEALLOCATE ALL", Command::Deallocate(None)),
            ("FETCH FORWARD 100 FROM \"c1\"", fetch(Some(100))),
            ("FETCH ALL IN c1", fetch(None)),
            ("FETCH NEXT FROM c1", fetch(Some(1))),
            ("CLOSE c1", Command::Close(Some("c1".to_owned()))),
            (
                "DECLARE \"for\" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT ' for ' FROM flows",
                Command::Declare { name: "for".to_owned(), question, is_binary: false },
            ),
        ] {
            assert_eq!(command(text), Ok(Some(expected)), "{text}");
        }
    }

    #[test]
    fn names_and_texts_of_a_command_are_counted() {
        for (text, octets) in [
            ("DECLARE cc CURSOR FOR SELECT 1", 10),
            ("SET datestyle TO 'ISO'", 12),
            ("FETCH 5 FROM abc", 3),
            ("CLOSE ALL", 0),
            ("DEALLOCATE \"S_1\"", 3),
            ("COMMIT", 0),
        ] {
            assert_eq!(command(text).expect(text).expect(text).octets(), octets, "{text}");
        }
    }

    #[test]
    fn the_rest_is_for_the_engine_or_refused() {
        for text in ["SELECT 1", "SHOW TABLES", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1)"] {
            assert_eq!(command(text), Ok(None), "{text}");
        }
        for (text, code) in [
            ("SET TRANSACTION READ WRITE", READ_ONLY),
            ("PREPARE a AS SELECT 1", NOT_SUPPORTED),
            ("COPY flows TO STDOUT", READ_ONLY),
            ("FETCH BACKWARD 1 FROM c", NOT_SUPPORTED),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", NOT_SUPPORTED),
            ("SET a", SYNTAX),
            ("CLOSE a b", SYNTAX),
        ] {
            assert_eq!(command(text).expect_err(text).code, code, "{text}");
        }
    }
}
