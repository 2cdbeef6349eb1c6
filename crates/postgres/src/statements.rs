//! The statements of a message.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::errors::{PgError, SYNTAX};

/// A statement and where it is in the text that it came in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) text: String,
    /// Characters before it.
    pub(crate) offset: usize,
    /// Its words and marks, without what is between them.
    pub(crate) tokens: Vec<Token>,
}

/// The statements of a text, which semicolons part.
pub(crate) fn parts(text: &str) -> Result<Vec<Part>, PgError> {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location();
    let tokens = tokens.map_err(|error| PgError::new(SYNTAX, error.to_string()))?;
    let lines: Vec<usize> = std::iter::once(0)
        .chain(text.chars().enumerate().filter(|(_, letter)| *letter == '\n').map(|(at, _)| at + 1))
        .collect();
    let offset = |line: u64, column: u64| {
        let line = lines.get((line as usize).saturating_sub(1)).copied().unwrap_or(0);
        line + (column as usize).saturating_sub(1)
    };
    let letters: Vec<char> = text.chars().collect();
    let (mut parts, mut from, mut found) = (Vec::new(), 0, Vec::new());
    let mut push = |from: usize, to: usize, tokens: &mut Vec<Token>| {
        if !tokens.is_empty() {
            let text = letters.get(from..to.min(letters.len())).unwrap_or_default().iter().collect();
            parts.push(Part { text, offset: from, tokens: std::mem::take(tokens) });
        }
    };
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let at = offset(token.span.start.line, token.span.start.column);
                push(from, at, &mut found);
                from = at + 1;
            }
            Token::Whitespace(_) | Token::EOF => {}
            other => found.push(other),
        }
    }
    push(from, letters.len(), &mut found);
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_part_statements_but_not_texts() {
        let text = "SELECT ';', $$a;b$$; -- no; comment\n  SELECT 'ä';;";
        let parts = parts(text).expect("parts");
        let found: Vec<_> = parts.iter().map(|part| (part.text.trim(), part.offset)).collect();
        assert_eq!(found, [("SELECT ';', $$a;b$$", 0), ("-- no; comment\n  SELECT 'ä'", 20)]);
        assert!(super::parts("SELECT 'open").is_err());
        assert_eq!(super::parts(" ; -- nothing").expect("parts"), []);
    }
}
