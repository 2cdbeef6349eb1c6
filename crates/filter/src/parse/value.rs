//! What follows a phrase: numbers, flags, times and lists of them.

use std::ops::Range;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::Parser;
use super::phrase::{column_of, join};
use weir_flow::Column;

use crate::error::{ParseError, nearest};
use crate::lex::Kind;
use crate::names::Names;
use crate::predicate::{Comparison, Predicate, Test};
use crate::primitive::{Phrase, value_max};
use crate::{NumberSet, TextCondition, TextSet, times};

/// Letters of TCP control bits, lowest bit first.
pub(crate) const FLAG_LETTERS: [char; 8] = ['F', 'S', 'R', 'P', 'A', 'U', 'E', 'C'];

impl Parser<'_> {
    /// The comparison that may precede a value, and whether it is negated.
    fn comparison(&mut self) -> (Comparison, bool) {
        let found = match self.kind() {
            Kind::Compare(comparison) => (comparison, false),
            Kind::NotEqual => (Comparison::Equal, true),
            Kind::Word => match self.word().to_ascii_lowercase().as_str() {
                "eq" => (Comparison::Equal, false),
                "ne" => (Comparison::Equal, true),
                "gt" => (Comparison::Greater, false),
                "lt" => (Comparison::Less, false),
                "ge" => (Comparison::GreaterOrEqual, false),
                "le" => (Comparison::LessOrEqual, false),
                _ => return (Comparison::Equal, false),
            },
            _ => return (Comparison::Equal, false),
        };
        self.advance();
        found
    }

    /// An equality sign, for values that have no order.
    pub(super) fn equality(&mut self) -> Result<bool, ParseError> {
        let span = self.span();
        match self.comparison() {
            (Comparison::Equal, negated) => Ok(negated),
            _ => Err(ParseError::new("only '=' and '!=' fit here", span)),
        }
    }

    pub(super) fn numbers(
        &mut self,
        phrase: &Phrase,
        text: &str,
        names: Option<&'static Names>,
    ) -> Result<Predicate, ParseError> {
        let max = phrase.operands.iter().map(|operand| value_max(*operand)).min().unwrap_or(u64::MAX);
        if self.take_word("in") {
            let ranges = self.list(|parser| parser.number_or_range(text, names, max))?;
            let values = NumberSet::from_ranges(ranges);
            return Ok(join(phrase, |operand| Test::NumberIn { operand, values: values.clone() }));
        }
        let (comparison, negated) = self.comparison();
        let value = self.number(text, names, max)?;
        self.refuse_range()?;
        let predicate = join(phrase, |operand| Test::Number { operand, comparison, value });
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    /// A word, or quoted text.
    pub(super) fn text(&mut self, behind: &str) -> Result<String, ParseError> {
        let span = self.span();
        let text = match self.kind() {
            Kind::Word => self.word(),
            Kind::Quoted => &self.text[span.start + 1..span.end - 1],
            _ => {
                return Err(ParseError::new(format!("expected a text after '{behind}', found {}", self.found()), span));
            }
        };
        self.advance();
        Ok(text.to_owned())
    }

    /// A condition on columns of text.
    pub(super) fn texts(&mut self, phrase: &Phrase, behind: &str) -> Result<Predicate, ParseError> {
        let column = phrase.operands.first().map(|operand| column_of(*operand));
        self.text_condition(behind, column, |condition| {
            join(phrase, |operand| Test::Text { column: column_of(operand), condition: condition.clone() })
        })
    }

    /// A condition on texts, of which a test is made.
    pub(super) fn text_condition(
        &mut self,
        behind: &str,
        column: Option<Column>,
        test: impl FnOnce(TextCondition) -> Predicate,
    ) -> Result<Predicate, ParseError> {
        if self.take_word("like") {
            return Ok(test(TextCondition::Like(self.text(behind)?)));
        }
        if self.take_word("exactly") {
            return Ok(test(TextCondition::Exactly(self.text(behind)?)));
        }
        let (texts, negated) = if self.take_word("in") {
            (self.list(|parser| parser.text(behind))?, false)
        } else {
            let negated = self.equality()?;
            (vec![self.text(behind)?], negated)
        };
        self.refuse_range()?;
        let spellings = texts.iter().flat_map(|text| spellings(column, text));
        let predicate = test(TextCondition::OneOf(TextSet::new(spellings)));
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    /// A word that is a number but for a range was tried where a single number is.
    fn refuse_range(&self) -> Result<(), ParseError> {
        if self.kind() != Kind::Comma {
            return Ok(());
        }
        Err(ParseError::new("several values need a list", self.span()).with_hint("write 'in [ … ]'".to_owned()))
    }

    /// The entries of `[ … ]`, parted by spaces or commas.
    pub(super) fn list<T>(&mut self, entry: impl Fn(&mut Self) -> Result<T, ParseError>) -> Result<Vec<T>, ParseError> {
        let open = self.span();
        if !self.take(Kind::ListOpen) {
            let error = ParseError::new(format!("expected '[' after 'in', found {}", self.found()), open);
            return Err(error.with_hint("a list is written [ A, B, C ]".to_owned()));
        }
        let mut entries = Vec::new();
        loop {
            match self.kind() {
                Kind::ListClose => break,
                Kind::End => {
                    return Err(ParseError::new("this '[' is not closed", open).with_hint("add ']'".to_owned()));
                }
                _ => entries.push(entry(self)?),
            }
            self.take(Kind::Comma);
        }
        self.advance();
        Ok(entries)
    }

    fn number_or_range(
        &mut self,
        text: &str,
        names: Option<&'static Names>,
        max: u64,
    ) -> Result<(u64, u64), ParseError> {
        let bounds = if self.kind() == Kind::Word { self.word().split_once('-') } else { None };
        let Some((Some(first), Some(last))) = bounds.map(|(first, last)| (number_of(first), number_of(last))) else {
            return self.number(text, names, max).map(|number| (number, number));
        };
        if first > last {
            return Err(ParseError::new("the range ends before it begins", self.span()));
        }
        if last > max {
            return Err(error_too_large(text, max, self.span()));
        }
        self.advance();
        Ok((first, last))
    }

    fn number(&mut self, text: &str, names: Option<&'static Names>, max: u64) -> Result<u64, ParseError> {
        let span = self.span();
        let word = match self.kind() {
            Kind::Word => self.word(),
            Kind::Quoted if names.is_some() => &self.text[span.start + 1..span.end - 1],
            _ => {
                let wanted = if names.is_some() { "a name or a number" } else { "a number" };
                return Err(ParseError::new(format!("expected {wanted} after '{text}', found {}", self.found()), span));
            }
        };
        let number = match number_of(word) {
            Some(number) => number,
            None => names
                .and_then(|names| names.number(word))
                .ok_or_else(|| error_no_number(text, word, names, span.clone()))?,
        };
        if number > max {
            return Err(error_too_large(text, max, span));
        }
        self.advance();
        Ok(number)
    }

    pub(super) fn flags(&mut self, phrase: &Phrase, text: &str) -> Result<Predicate, ParseError> {
        let explicit = matches!(self.kind(), Kind::Compare(_) | Kind::NotEqual);
        let letters_at = usize::from(explicit);
        let is_letters = self.kind_ahead(letters_at) == Kind::Word && {
            let word = &self.text[self.tokens[self.at + letters_at].span.clone()];
            let comparisons = ["eq", "ne", "gt", "lt", "ge", "le", "in"];
            !word.starts_with(|c: char| c.is_ascii_digit())
                && !comparisons.contains(&word.to_ascii_lowercase().as_str())
        };
        if !is_letters {
            return self.numbers(phrase, text, None);
        }
        let negated = if explicit { self.equality()? } else { false };
        let mask = self.flag_letters()?;
        let predicate = Predicate::Test(Test::Flags { mask, exact: explicit });
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    fn flag_letters(&mut self) -> Result<u16, ParseError> {
        let (word, span) = (self.word(), self.span());
        let mut mask = 0;
        for (at, letter) in word.char_indices() {
            let letter = letter.to_ascii_uppercase();
            mask |= match FLAG_LETTERS.iter().position(|known| *known == letter) {
                Some(bit) => 1 << bit,
                None if letter == 'X' => 63,
                None => {
                    let span = span.start + at..span.start + at + 1;
                    return Err(ParseError::new(format!("'{letter}' is not a TCP flag"), span)
                        .with_hint("the letters are F S R P A U E C, and X for the first six".to_owned()));
                }
            };
        }
        self.advance();
        Ok(mask)
    }

    pub(super) fn mac(&mut self, phrase: &Phrase) -> Result<Predicate, ParseError> {
        let negated = self.equality()?;
        let mac = if self.kind() == Kind::Word { mac_of(self.word()) } else { None };
        let Some(mac) = mac else {
            let error = ParseError::new(format!("expected a MAC address, found {}", self.found()), self.span());
            return Err(error.with_hint("a MAC address is, for example, 00:1b:21:01:02:ff".to_owned()));
        };
        self.advance();
        let predicate = join(phrase, |operand| Test::Mac { column: column_of(operand), mac });
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    pub(super) fn time(&mut self, phrase: &Phrase) -> Result<Predicate, ParseError> {
        let (comparison, negated) = self.comparison();
        let span = self.span();
        let text = match self.kind() {
            Kind::Word => self.word(),
            Kind::Quoted => &self.text[span.start + 1..span.end - 1],
            _ => "",
        };
        let Some((ms, tokens)) = self.moment(text) else {
            let error = ParseError::new(format!("expected a time, found {}", self.found()), span);
            return Err(error.with_hint(self.time_hint(text)));
        };
        for _ in 0..tokens {
            self.advance();
        }
        let predicate = join(phrase, |operand| Test::Time { column: column_of(operand), comparison, ms });
        Ok(if negated { Predicate::not(predicate) } else { predicate })
    }

    /// The moment that a token is, with the next one when that is the time of a day: `yesterday 14:00`. With it comes how
    /// many tokens these are.
    fn moment(&self, text: &str) -> Option<(i64, usize)> {
        let absolute = time_of(text, &self.reader.zone).map(|ms| (ms, 1));
        let Some(now) = self.reader.now.as_ref().filter(|_| absolute.is_none()) else { return absolute };
        let now = now.with_time_zone(self.reader.zone.clone());
        if self.kind() == Kind::Word && self.kind_ahead(1) == Kind::Word {
            let next = &self.text[self.tokens[self.at + 1].span.clone()];
            if let Ok(ms) = times::moment(&format!("{text} {next}"), &now) {
                return Some((ms, 2));
            }
        }
        times::moment(text, &now).ok().map(|ms| (ms, 1))
    }

    fn time_hint(&self, text: &str) -> String {
        let absolute = "a time is YYYY-MM-DDTHH:MM:SS.mmm, cut off anywhere after the year";
        let some_moment = Zoned::new(Timestamp::UNIX_EPOCH, TimeZone::UTC);
        if self.reader.now.is_some() {
            format!("{absolute}; or now, today, yesterday 14:00, monday or -1h30m")
        } else if times::moment(text, &some_moment).is_ok() {
            format!("{absolute}; times relative to now are known on the command line only")
        } else {
            absolute.to_owned()
        }
    }
}

/// Names under which the registry of services has what everybody calls otherwise.
const APPLICATIONS: [(&str, &str); 6] = [
    ("dns", "domain"),
    ("rdp", "ms-wbt-server"),
    ("smb", "microsoft-ds"),
    ("vnc", "rfb"),
    ("ike", "isakmp"),
    ("postgres", "postgresql"),
];

/// A text, and the other name of an application.
fn spellings(column: Option<Column>, text: &str) -> impl Iterator<Item = String> + use<> {
    let other =
        APPLICATIONS.iter().find(|(name, _)| column == Some(Column::Application) && name.eq_ignore_ascii_case(text));
    [Some(text.to_owned()), other.map(|(_, name)| (*name).to_owned())].into_iter().flatten()
}

/// Decimal with an optional suffix k, m, g or t, or hexadecimal after `0x`.
fn number_of(word: &str) -> Option<u64> {
    let lower = word.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0x") {
        return if hex.starts_with('+') { None } else { u64::from_str_radix(hex, 16).ok() };
    }
    let (digits, unit) = match lower.as_bytes().last()? {
        b'k' => (&lower[..lower.len() - 1], 1_000),
        b'm' => (&lower[..lower.len() - 1], 1_000_000),
        b'g' => (&lower[..lower.len() - 1], 1_000_000_000),
        b't' => (&lower[..lower.len() - 1], 1_000_000_000_000),
        _ => (lower.as_str(), 1),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

fn error_no_number(text: &str, word: &str, names: Option<&Names>, span: Range<usize>) -> ParseError {
    let numeric = word.starts_with(|c: char| c.is_ascii_digit());
    match names {
        Some(names) if !numeric => {
            let error = ParseError::new(format!("unknown {} '{word}'", names.what), span);
            let meant = nearest(word, names.table.iter().map(|(name, _)| *name));
            error.with_hint_from(meant.map(|meant| format!("did you mean '{meant}'?")))
        }
        _ => {
            let error = ParseError::new(format!("expected a number after '{text}', found '{word}'"), span);
            let range = word.split_once('-').is_some_and(|(a, b)| number_of(a).is_some() && number_of(b).is_some());
            let hint = match word {
                _ if range => Some(format!("write '{text} in [{word}]'")),
                _ if numeric => Some(
                    "a number is decimal, with k, m, g or t behind it, or 0x and hexadecimal; at most 64 bits"
                        .to_owned(),
                ),
                _ => None,
            };
            error.with_hint_from(hint)
        }
    }
}

fn error_too_large(text: &str, max: u64, span: Range<usize>) -> ParseError {
    ParseError::new(format!("'{text}' is at most {max}"), span)
}

fn mac_of(word: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = word.split([':', '-']);
    for octet in &mut mac {
        let part = parts.next()?;
        if !(1..=2).contains(&part.len()) || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// `YYYY[-MM[-DD[THH[:MM[:SS[.mmm]]]]]]` with an optional `Z` or `+HH:MM` behind a time of day, in milliseconds since
/// the epoch. What is cut off is the first of its kind.
fn time_of(text: &str, zone: &TimeZone) -> Option<i64> {
    let (date, clock) = match text.split_once(['T', 't', ' ']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let date = fields(date, '-')?;
    let (year, month, day) = match date[..] {
        [year] => (year, 1, 1),
        [year, month] => (year, month, 1),
        [year, month, day] => (year, month, day),
        _ => return None,
    };
    if clock.is_some() && date.len() != 3 {
        return None;
    }
    let (clock, zone) = split_zone(clock.unwrap_or("00"), zone)?;
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, fraction)| (clock, Some(fraction)));
    let clock = fields(clock, ':')?;
    let (hour, minute, second) = match clock[..] {
        [hour] => (hour, 0, 0),
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let nanosecond = match fraction {
        Some(digits) if clock.len() == 3 && (1..=3).contains(&digits.len()) => {
            i32::from(*fields(digits, '.')?.first()?) * 10_i32.pow(9 - digits.len() as u32)
        }
        Some(_) => return None,
        None => 0,
    };
    let small = |number: i16| i8::try_from(number).ok();
    let time =
        DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, small(second)?, nanosecond);
    Some(zone.to_timestamp(time.ok()?).ok()?.as_millisecond())
}

/// Numbers of up to four digits parted by `separator`.
fn fields(text: &str, separator: char) -> Option<Vec<i16>> {
    let field = |field: &str| {
        let fits = (1..=4).contains(&field.len()) && field.bytes().all(|digit| digit.is_ascii_digit());
        if fits { field.parse().ok() } else { None }
    };
    text.split(separator).map(field).collect()
}

/// Takes `Z` or an offset from the end of a time of day.
fn split_zone<'t>(clock: &'t str, zone: &TimeZone) -> Option<(&'t str, TimeZone)> {
    if let Some(clock) = clock.strip_suffix(['Z', 'z']) {
        return Some((clock, TimeZone::UTC));
    }
    let Some(at) = clock.find(['+', '-']) else { return Some((clock, zone.clone())) };
    let (clock, offset) = clock.split_at(at);
    let (hours, minutes) = match fields(&offset[1..], ':')?[..] {
        [hours] => (hours, 0),
        [hours, minutes] => (hours, minutes),
        _ => return None,
    };
    let seconds = (i32::from(hours) * 60 + i32::from(minutes)) * 60;
    let seconds = if offset.starts_with('-') { -seconds } else { seconds };
    Some((clock, TimeZone::fixed(Offset::from_seconds(seconds).ok()?)))
}

/// A time as canonical text, UTC; beyond what a calendar can show, the nearest it can.
pub(crate) fn time_text(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(if ms < 0 { Timestamp::MIN } else { Timestamp::MAX });
    time.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
