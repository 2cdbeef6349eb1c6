//! Text into tokens.

use std::ops::Range;

use crate::error::ParseError;
use crate::predicate::Comparison;

/// What a token is; its text is `text[span]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters, digits and `_ : . - / +`.
    Word,
    /// Text in quotes; the span includes them.
    Quoted,
    Open,
    Close,
    ListOpen,
    ListClose,
    Comma,
    Bang,
    NotEqual,
    Compare(Comparison),
    /// `@include` and the name of a file behind it.
    Include,
    /// The end of the text, always the last token.
    End,
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Range<usize>,
}

fn is_word(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"_:.-/+".contains(&octet)
}

/// Cuts a filter into tokens. Comments run from `#` to the end of the line.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ParseError> {
    let octets = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < octets.len() {
        let rest = &octets[at..];
        let run = |wanted: fn(u8) -> bool| rest.iter().take_while(|octet| wanted(**octet)).count();
        let (kind, length) = match rest {
            [b'#', ..] => {
                at += run(|octet| octet != b'\n');
                continue;
            }
            [octet, ..] if octet.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            [octet, ..] if is_word(*octet) => (Kind::Word, run(is_word)),
            [quote @ (b'\'' | b'"'), ..] => (Kind::Quoted, quoted(rest, *quote, at)?),
            [b'!', b'=', ..] => (Kind::NotEqual, 2),
            [b'!', ..] => (Kind::Bang, 1),
            [b'=', b'=', ..] => (Kind::Compare(Comparison::Equal), 2),
            [b'>', b'=', ..] => (Kind::Compare(Comparison::GreaterOrEqual), 2),
            [b'<', b'=', ..] => (Kind::Compare(Comparison::LessOrEqual), 2),
            [b'=', ..] => (Kind::Compare(Comparison::Equal), 1),
            [b'>', ..] => (Kind::Compare(Comparison::Greater), 1),
            [b'<', ..] => (Kind::Compare(Comparison::Less), 1),
            [b'(', ..] => (Kind::Open, 1),
            [b')', ..] => (Kind::Close, 1),
            [b'[', ..] => (Kind::ListOpen, 1),
            [b']', ..] => (Kind::ListClose, 1),
            [b',', ..] => (Kind::Comma, 1),
            [b'@', ..] => (Kind::Include, include(text, at)?),
            _ => return Err(stray(text, at)),
        };
        tokens.push(Token { kind, span: at..at + length });
        at += length;
    }
    tokens.push(Token { kind: Kind::End, span: text.len()..text.len() });
    Ok(tokens)
}

/// Length of a quoted text, quotes included.
fn quoted(rest: &[u8], quote: u8, at: usize) -> Result<usize, ParseError> {
    match rest[1..].iter().position(|octet| *octet == quote || *octet == b'\n') {
        Some(length) if rest[1 + length] == quote => Ok(length + 2),
        _ => Err(ParseError::new("the quoted text does not end", at..at + 1)
            .with_hint(format!("put a {} at its end", char::from(quote)))),
    }
}

/// Length of `@include FILE`; the name ends at white space or a bracket, unless it is quoted.
fn include(text: &str, at: usize) -> Result<usize, ParseError> {
    const WORD: &str = "@include";
    let rest = &text[at..];
    let word = 1 + rest[1..].bytes().take_while(u8::is_ascii_alphanumeric).count();
    if !rest[..word].eq_ignore_ascii_case(WORD) {
        let error = ParseError::new(format!("a filter has no '{}'", &rest[..word]), at..at + word);
        return Err(error.with_hint("'@include FILE' takes in a file".to_owned()));
    }
    let spaces = rest[word..].bytes().take_while(|octet| b" \t".contains(octet)).count();
    let name = &rest.as_bytes()[word + spaces..];
    let length = match name {
        [quote @ (b'\'' | b'"'), ..] => quoted(name, *quote, at + word + spaces)?,
        _ => name.iter().take_while(|octet| !octet.is_ascii_whitespace() && !b"()[]#".contains(octet)).count(),
    };
    if spaces == 0 || length == 0 {
        return Err(ParseError::new("expected the name of a file after '@include'", at..at + word));
    }
    Ok(word + spaces + length)
}

/// An error about a character that no token begins with.
fn stray(text: &str, at: usize) -> ParseError {
    let rest = &text[at..];
    let length = rest.chars().next().map_or(1, char::len_utf8);
    let span = at..at + length;
    let shown: String = rest[..length].escape_debug().collect();
    let error = ParseError::new(format!("a filter has no '{shown}'"), span);
    match rest.as_bytes()[0] {
        b'&' => error.with_hint("write 'and'".to_owned()),
        b'|' => error.with_hint("write 'or'".to_owned()),
        b'~' if !has_subject(&text[..at]) => error.with_hint("write 'not'".to_owned()),
        b'*' if text[..at].ends_with(|last: char| last.is_ascii_digit() || ".:".contains(last)) => {
            error.with_hint("write a network as in 'net 10.0.0.0/24'".to_owned())
        }
        // other languages match texts with these
        b'~' | b'*' => error.with_hint(hint_at_like(rest)),
        b'{' | b'}' => error.with_hint("group with ( ), list with [ ]".to_owned()),
        _ => error,
    }
}

/// Whether there is something before that could be compared, rather than the begin of a filter or of a part of it.
fn has_subject(before: &str) -> bool {
    let before = before.trim_end();
    let length = before.bytes().rev().take_while(|octet| is_word(*octet)).count();
    match &before[before.len() - length..] {
        "" => before.ends_with(['=', '!']),
        word => !["and", "or", "not"].iter().any(|connective| word.eq_ignore_ascii_case(connective)),
    }
}

/// How a part of a text is asked for, with the text that stands here, if one does.
fn hint_at_like(rest: &str) -> String {
    let rest = rest.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let length = rest.bytes().take_while(|octet| is_word(*octet)).count();
    let part = if length == 0 { "…" } else { &rest[..length] };
    format!("write like '%{part}%' for texts with this in them")
}
