//! Addresses as `PostgreSQL` writes them: the types `inet` and `cidr`.
//!
//! A cast to one of them is a cast to octets that are an address, which the rule of [`crate::literals`] turns into the address
//! itself. The parser takes `'192.0.2.1'::inet` and `CAST('192.0.2.1' AS inet)`, and neither `inet '192.0.2.1'` nor the
//! operators `<<=` and `>>=`; these are respelled before a statement is parsed.

use std::str::CharIndices;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use crate::literals::address_metadata;

/// Texts without which nothing is respelled.
const MARKS: [&str; 4] = ["inet", "cidr", "<<=", ">>="];

/// The planner of these types.
#[derive(Debug)]
pub(crate) struct AddressTypes;

impl TypePlanner for AddressTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        let ast::DataType::Custom(name, modifiers) = sql_type else { return Ok(None) };
        let last = name.0.last().and_then(|part| part.as_ident());
        let is_address = modifiers.is_empty() && last.is_some_and(|ident| is_type_name(&ident.value));
        let field = || Arc::new(Field::new("", DataType::Binary, true).with_metadata(address_metadata()));
        Ok(is_address.then(field))
    }
}

fn is_type_name(word: &str) -> bool {
    word.eq_ignore_ascii_case("inet") || word.eq_ignore_ascii_case("cidr")
}

/// Columns of a line that moved when a statement was respelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shift {
    /// Where they begin.
    at: Location,
    /// How many columns further right they are than in the text that was given.
    columns: i64,
}

impl Shift {
    /// The column of a place in the text that was given. `shifts` are in their order.
    pub(crate) fn original(shifts: &[Self], line: u64, column: u64) -> u64 {
        let of_line = shifts.iter().filter(|shift| shift.at.line == line);
        of_line.fold(column, |column, shift| {
            if column > shift.at.column { column.saturating_add_signed(-shift.columns) } else { column }
        })
    }
}

/// The text with `inet '192.0.2.1'` as `'192.0.2.1'::inet`, and `<<=` as `<<`; `None` when it has neither.
pub(crate) fn respelled(text: &str) -> Option<(String, Vec<Shift>)> {
    let lower = text.to_ascii_lowercase();
    if !MARKS.iter().any(|mark| lower.contains(mark)) {
        return None;
    }
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().ok()?;
    let mut offsets = Offsets { letters: text.char_indices(), line: 1, column: 1 };
    let solid = tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let solid: Vec<_> = solid
        .map(|token| {
            let start = offsets.of(token.span.start);
            let end = offsets.of(token.span.end);
            (token, start..end)
        })
        .collect();
    let (mut again, mut taken, mut shifts) = (String::with_capacity(text.len() + 8), 0, Vec::new());
    for pair in solid.windows(2) {
        let [(first, first_at), (second, second_at)] = pair else { continue };
        let (word, value) = (text.get(first_at.clone())?, text.get(second_at.clone())?);
        let between = text.get(first_at.end..second_at.start)?;
        if is_typed_text(&first.token, &second.token) {
            again.push_str(text.get(taken..first_at.start)?);
            again.extend([value, "::", word]);
            if first.span.start.line == second.span.end.line {
                // what is between them is left out, and `::` comes
                let columns = 2 - between.chars().count() as i64;
                shifts.push(Shift { at: first.span.start, columns });
            } else {
                again.push_str(between);
            }
        } else if is_shift_or_equal(first, second) {
            again.push_str(text.get(taken..second_at.start)?);
            again.push(' ');
        } else {
            continue;
        }
        taken = second_at.end;
    }
    if taken == 0 {
        return None;
    }
    again.push_str(text.get(taken..)?);
    Some((again, shifts))
}

/// `inet '192.0.2.1'`.
fn is_typed_text(first: &Token, second: &Token) -> bool {
    matches!(first, Token::Word(word) if word.quote_style.is_none() && is_type_name(&word.value))
        && matches!(second, Token::SingleQuotedString(_))
}

/// `<<=` or `>>=`, which are two tokens.
fn is_shift_or_equal(first: &TokenWithSpan, second: &TokenWithSpan) -> bool {
    matches!(first.token, Token::ShiftLeft | Token::ShiftRight)
        && second.token == Token::Eq
        && first.span.end == second.span.start
}

/// Offsets of places in a text, which must come in their order.
struct Offsets<'a> {
    letters: CharIndices<'a>,
    line: u64,
    column: u64,
}

impl Offsets<'_> {
    fn of(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.letters.next() {
                Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
        }
        self.letters.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_before_texts_go_behind_them() {
        let spelled = |text: &str| respelled(text).map(|(again, _)| again);
        for (text, expected) in [
            ("SELECT inet '192.0.2.1'", "SELECT '192.0.2.1'::inet"),
            ("SELECT 'ä', Cidr  '::/0', 1", "SELECT 'ä', '::/0'::Cidr, 1"),
            ("WHERE a <<= inet '10.0.0.0/8'", "WHERE a <<  '10.0.0.0/8'::inet"),
            ("SELECT inet\n'::1' AS \"it''s\"", "SELECT '::1'::inet\n AS \"it''s\""),
        ] {
            assert_eq!(spelled(text).as_deref(), Some(expected), "{text}");
        }
        for text in
            ["SELECT 'inet ''::1'''", "SELECT '::1'::inet", "SELECT 1 -- inet '::1'", "a << = b", "SELECT \"inet\" 'a'"]
        {
            assert_eq!(spelled(text), None, "{text}");
        }
    }

    #[test]
    fn places_are_those_of_the_text_that_was_given() {
        let text = "SELECT inet '::1', cidr    '::/0', x";
        let (again, shifts) = respelled(text).expect("respelled");
        let column = |text: &str| text.find('x').map(|at| at as u64 + 1).expect("x");
        assert_ne!(column(&again), column(text));
        assert_eq!(Shift::original(&shifts, 1, column(&again)), column(text));
        assert_eq!(Shift::original(&shifts, 2, 20), 20);
        assert_eq!(Shift::original(&shifts, 1, 3), 3);
    }
}
