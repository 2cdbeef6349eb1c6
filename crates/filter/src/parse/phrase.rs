//! Which primitive is here, and what is wrong when none does.

use std::collections::BTreeSet;

use weir_flow::{Column, is_element_name};

use super::Parser;
use crate::error::{ParseError, nearest};
use crate::lex::Kind;
use crate::other_names::meant;
use crate::primitive::{Form, Join, PHRASE_WORDS_MAX, Phrase, find_phrase, phrases};
use crate::{Comparison, Operand, Predicate, Test};

impl Parser<'_> {
    pub(super) fn primitive(&mut self) -> Result<Predicate, ParseError> {
        if self.is_element() {
            return self.element();
        }
        let words = self.words_ahead();
        for count in (1..=words.len()).rev() {
            let text = words[..count].join(" ");
            let Some(phrase) = find_phrase(&text) else { continue };
            if let Some(hint) = self.why_unanswerable(phrase.form) {
                let span = self.span().start..self.tokens[self.at + count - 1].span.end;
                let error = ParseError::new(format!("'{text}' cannot be answered"), span);
                return Err(error.with_hint(hint.to_owned()));
            }
            (0..count).for_each(|_| self.advance());
            return self.behind_phrase(phrase, &text);
        }
        Err(self.error_no_phrase(&words))
    }

    fn words_ahead(&self) -> Vec<String> {
        let tokens = self.tokens[self.at..].iter().take(PHRASE_WORDS_MAX);
        let words = tokens.take_while(|token| token.kind == Kind::Word);
        words.map(|token| self.text[token.span.clone()].to_ascii_lowercase()).collect()
    }

    fn why_unanswerable(&self, form: Form) -> Option<&'static str> {
        match form {
            Form::Unanswerable(hint) => Some(hint),
            Form::RecordNumber if !self.reader.knows_files => Some("flows of an archive have no order of reading"),
            Form::Ident if !self.reader.knows_files => {
                Some("flows of an archive carry no ident; filter by 'router ip' or 'observation domain id'")
            }
            _ => None,
        }
    }

    pub(super) fn behind_phrase(&mut self, phrase: &Phrase, text: &str) -> Result<Predicate, ParseError> {
        match phrase.form {
            Form::Always => Ok(Predicate::True),
            Form::Family { v6 } => Ok(Test::Family { v6 }.into()),
            Form::Number | Form::RecordNumber => self.numbers(phrase, text, None),
            Form::Zero => Ok(join(phrase, |operand| Test::Number { operand, comparison: Comparison::Equal, value: 0 })),
            Form::Block => Ok(join(phrase, |operand| Test::PortInBlock { column: column_of(operand) })),
            Form::User => self.text(text).map(|name| Test::UserName(name).into()),
            Form::Ident => self.text(text).map(|ident| Test::Ident(ident).into()),
            Form::Named(names) => self.numbers(phrase, text, Some(names)),
            Form::Flags => self.flags(phrase, text),
            Form::Address => self.addresses(phrase),
            Form::Net => self.network(phrase),
            Form::Mac => self.mac(phrase),
            Form::Text => self.texts(phrase, text),
            Form::Time => self.time(phrase),
            Form::Unanswerable(hint) => {
                Err(ParseError::new(format!("'{text}' cannot be answered"), self.span()).with_hint(hint.to_owned()))
            }
        }
    }

    /// No phrase begins here: the longest run of words that begins some phrase shows what was being written.
    fn error_no_phrase(&self, words: &[String]) -> ParseError {
        let known = (0..=words.len()).rev().find(|count| begins_a_phrase(&words[..*count])).unwrap_or(0);
        let before = words[..known].join(" ");
        let next: BTreeSet<&str> = phrases().filter_map(|phrase| word_behind(phrase, &before)).collect();
        let listed = || format!("after '{before}' may come: {}", next.iter().copied().collect::<Vec<_>>().join(", "));
        let Some(wrong) = words.get(known) else {
            return self.error_no_word(known, &before, listed);
        };
        let span = self.tokens[self.at + known].span.clone();
        if known == 0 && ["and", "or"].contains(&wrong.as_str()) {
            return ParseError::new(format!("expected a primitive, found '{wrong}'"), span);
        }
        if known == 0 {
            return ParseError::new(format!("unknown word '{wrong}'"), span)
                .with_hint_from(hint_for_first(wrong, &next));
        }
        if let Some((name, directions)) = directions_of(&words[known..]) {
            let span = self.span().start..self.tokens[self.at + known - 1].span.end;
            return ParseError::new(format!("'{name}' has no direction '{before}'"), span)
                .with_hint(format!("'{name}' knows: {directions}"));
        }
        let hint = nearest(wrong, next.iter().copied()).map(|meant| format!("did you mean '{meant}'?"));
        ParseError::new(format!("unknown word '{wrong}' after '{before}'"), span)
            .with_hint_from(hint.or(Some(listed())))
    }

    /// Something other than a word is where a primitive must go on.
    fn error_no_word(&self, known: usize, before: &str, listed: impl Fn() -> String) -> ParseError {
        let index = (self.at + known).min(self.tokens.len() - 1);
        let token = &self.tokens[index];
        let found = if token.kind == Kind::End { "the end" } else { &self.text[token.span.clone()] };
        if known == 0 {
            let error = ParseError::new(format!("expected a primitive, found {found}"), token.span.clone());
            return error.with_hint("a primitive is, for example, 'src ip 192.0.2.1' or 'dst port 53'".to_owned());
        }
        ParseError::new(format!("'{before}' is not complete"), token.span.clone()).with_hint(listed())
    }
}

/// What follows `before` in a phrase that begins with it.
fn word_behind<'a>(phrase: &'a str, before: &str) -> Option<&'a str> {
    let rest = phrase.strip_prefix(before)?;
    let rest = if before.is_empty() { rest } else { rest.strip_prefix(' ')? };
    rest.split(' ').next()
}

fn begins_a_phrase(words: &[String]) -> bool {
    let before = words.join(" ");
    words.is_empty() || phrases().any(|phrase| word_behind(phrase, &before).is_some())
}

/// The primitive that the words begin with, if any, and the directions it knows.
fn directions_of(words: &[String]) -> Option<(String, String)> {
    let name = (1..=words.len()).rev().map(|count| words[..count].join(" ")).find(|name| {
        phrases().any(|phrase| phrase == name || phrase.strip_suffix(name.as_str()).is_some_and(|d| d.ends_with(' ')))
    })?;
    let mut directions: Vec<&str> = phrases()
        .filter_map(|phrase| phrase.strip_suffix(name.as_str()))
        .filter_map(|direction| if direction.is_empty() { Some("none") } else { direction.strip_suffix(' ') })
        // Other spellings of the same would only make the list longer.
        .filter(|direction| ![" and ", " or ", "xlate", "previous"].iter().any(|word| direction.contains(word)))
        .collect();
    directions.sort_by_key(|direction| (*direction != "none", direction.split(' ').count(), *direction));
    Some((name, directions.join(", ")))
}

fn hint_for_first(wrong: &str, first_words: &BTreeSet<&str>) -> Option<String> {
    if wrong.parse::<std::net::IpAddr>().is_ok() {
        return Some(format!("write 'ip {wrong}'"));
    }
    if crate::Prefix::parse(wrong).is_some() {
        return Some(format!("write 'net {wrong}'"));
    }
    if wrong.bytes().all(|octet| octet.is_ascii_digit()) {
        return Some(format!("a number needs a primitive before it: 'port {wrong}'"));
    }
    if crate::names::PROTOCOLS.number(wrong).is_some() {
        return Some(format!("write 'proto {wrong}'"));
    }
    let meant = meant(wrong, first_words.iter().copied()).map(|meant| format!("did you mean '{meant}'?"));
    meant.or_else(|| is_element_name(wrong).then(|| format!("it is an Information Element: write 'element {wrong}'")))
}

/// One test per operand, joined as the phrase says.
pub(super) fn join(phrase: &Phrase, test: impl Fn(Operand) -> Test) -> Predicate {
    let tests = phrase.operands.iter().map(|operand| Predicate::Test(test(*operand)));
    match phrase.join {
        Join::Any => Predicate::or(tests),
        Join::All => Predicate::and(tests),
    }
}

/// Phrases of addresses and times read columns only, which the table of primitives shows.
pub(super) fn column_of(operand: Operand) -> Column {
    match operand {
        Operand::Column(column) => column,
        other => unreachable!("{other:?} stands in the table under a primitive of numbers"),
    }
}
