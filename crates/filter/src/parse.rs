//! Tokens into a predicate.
//!
//! ```text
//! or    = and { "or" and }
//! and   = unary { "and" unary }
//! unary = { "not" | "!" } ( "(" or ")" | primitive )
//! ```

mod address;
mod element;
mod phrase;
mod value;

pub(crate) use value::{FLAG_LETTERS, time_text};

use std::net::IpAddr;
use std::ops::Range;

use jiff::tz::TimeZone;

use crate::error::ParseError;
use crate::include::Expanded;
use crate::lex::{Kind, Token, tokens};
use crate::{Predicate, Reader};

impl Reader {
    /// Reads a filter. The empty text, or one of comments alone, is [`Predicate::True`]. Of a mistake in an included
    /// file the error's span is that of the `@include`.
    pub fn parse(&self, text: &str) -> Result<Predicate, ParseError> {
        if !text.contains('@') {
            return Parser::parse(text, self);
        }
        let expanded = Expanded::new(text, self.folder.as_deref())?;
        Parser::parse(&expanded.text, self).map_err(|error| expanded.in_original(error))
    }
}

/// Reads a filter that names neither files nor hosts. Times without a zone are UTC. The empty text, or one of comments
/// alone, is [`Predicate::True`].
///
/// ```
/// let filter = weir_filter::parse("src net 192.0.2.0/24 and (port 53 or proto icmp)").unwrap();
/// assert_eq!(filter.to_string(), "src net 192.0.2.0/24 and (src port = 53 or dst port = 53 or proto = 1)");
/// assert_eq!(weir_filter::parse(filter.to_string().as_str()), Ok(filter));
/// ```
pub fn parse(text: &str) -> Result<Predicate, ParseError> {
    Reader::new().parse(text)
}

/// Reads a filter as [`parse`] does, but times without a zone are civil times of `zone`.
pub fn parse_in_zone(text: &str, zone: &TimeZone) -> Result<Predicate, ParseError> {
    Reader::new().in_zone(zone.clone()).parse(text)
}

/// Parentheses and negations may nest this deep, so that code may walk the tree recursively.
pub(crate) const NESTING_MAX: usize = 128;

pub(crate) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// Index of the next token; never beyond the last, which is [`Kind::End`].
    at: usize,
    depth: usize,
    reader: &'a Reader,
}

impl<'a> Parser<'a> {
    /// Reads a filter without `@include`.
    pub(crate) fn parse(text: &'a str, reader: &'a Reader) -> Result<Predicate, ParseError> {
        let mut parser = Self { text, tokens: tokens(text)?, at: 0, depth: 0, reader };
        if parser.kind() == Kind::End {
            return Ok(Predicate::True);
        }
        let predicate = parser.or()?;
        match parser.kind() {
            Kind::End => Ok(predicate),
            _ => Err(parser.error_behind_primitive()),
        }
    }

    fn kind(&self) -> Kind {
        self.tokens[self.at].kind
    }

    fn kind_ahead(&self, tokens: usize) -> Kind {
        self.tokens.get(self.at + tokens).map_or(Kind::End, |token| token.kind)
    }

    fn span(&self) -> Range<usize> {
        self.tokens[self.at].span.clone()
    }

    /// Text of the next token.
    fn word(&self) -> &'a str {
        &self.text[self.span()]
    }

    /// The token as errors name it.
    fn found(&self) -> String {
        match self.kind() {
            Kind::End => "the end".to_owned(),
            Kind::Quoted => "quoted text".to_owned(),
            _ => format!("'{}'", self.word()),
        }
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn take(&mut self, kind: Kind) -> bool {
        let taken = self.kind() == kind;
        if taken {
            self.advance();
        }
        taken
    }

    fn is_word(&self, word: &str) -> bool {
        self.kind() == Kind::Word && self.word().eq_ignore_ascii_case(word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let taken = self.is_word(word);
        if taken {
            self.advance();
        }
        taken
    }

    fn or(&mut self) -> Result<Predicate, ParseError> {
        let mut parts = vec![self.and()?];
        while self.take_word("or") {
            parts.push(self.and()?);
        }
        Ok(Predicate::or(parts))
    }

    fn and(&mut self) -> Result<Predicate, ParseError> {
        let mut parts = vec![self.unary()?];
        while self.take_word("and") {
            parts.push(self.unary()?);
        }
        Ok(Predicate::and(parts))
    }

    fn unary(&mut self) -> Result<Predicate, ParseError> {
        let mut negated = false;
        while self.take(Kind::Bang) || self.take_word("not") {
            negated = !negated;
        }
        let predicate = if self.kind() == Kind::Open { self.parentheses()? } else { self.primitive()? };
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    fn parentheses(&mut self) -> Result<Predicate, ParseError> {
        let open = self.span();
        if self.depth == NESTING_MAX {
            return Err(ParseError::new(format!("parentheses nest deeper than {NESTING_MAX}"), open));
        }
        self.advance();
        self.depth += 1;
        let predicate = self.or()?;
        self.depth -= 1;
        match self.kind() {
            Kind::Close => self.advance(),
            Kind::End => {
                return Err(ParseError::new("this '(' is not closed", open).with_hint("add ')'".to_owned()));
            }
            _ => return Err(self.error_behind_primitive()),
        }
        Ok(predicate)
    }

    /// What is wrong when a primitive is complete and neither a connective nor the end follows.
    fn error_behind_primitive(&self) -> ParseError {
        let error = |message: String| ParseError::new(message, self.span());
        match self.kind() {
            Kind::Close => error("this ')' was never opened".to_owned()),
            Kind::Word | Kind::Bang | Kind::Open => {
                let word = self.word();
                let hint = match crate::error::nearest(word, ["and", "or"]) {
                    Some(meant) => format!("did you mean '{meant}'?"),
                    None if word.parse::<IpAddr>().is_ok() => {
                        format!("several values are written as a list, such as 'ip in [192.0.2.1 {word}]'")
                    }
                    None if word.bytes().all(|octet| octet.is_ascii_digit()) => {
                        format!("several values are written as a list, such as 'port in [80 {word}]'")
                    }
                    None => format!("write 'and {word}' or 'or {word}'"),
                };
                error(format!("expected 'and' or 'or' before '{word}'")).with_hint(hint)
            }
            _ => error(format!("expected 'and' or 'or', found {}", self.found())),
        }
    }
}
