//! Predicates as canonical text, which parses back to an equal tree.

use std::fmt;

use weir_flow::AddressText;

use crate::element_name::element_phrase;
use crate::parse::{FLAG_LETTERS, time_text};
use crate::primitive::phrase_of;
use crate::{AddressSet, NumberSet, Operand, Predicate, Test, TextCondition};

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::True => f.write_str("any"),
            Self::False => f.write_str("not any"),
            Self::Not(part) => {
                f.write_str("not ")?;
                group(f, part, matches!(**part, Self::And(_) | Self::Or(_)))
            }
            Self::And(parts) if parts.is_empty() => f.write_str("any"),
            Self::Or(parts) if parts.is_empty() => f.write_str("not any"),
            Self::And(parts) => chain(f, parts, " and ", |part| matches!(part, Self::And(_) | Self::Or(_))),
            Self::Or(parts) => chain(f, parts, " or ", |part| matches!(part, Self::Or(_))),
            Self::Test(test) => test.fmt(f),
        }
    }
}

fn chain(
    f: &mut fmt::Formatter<'_>,
    parts: &[Predicate],
    word: &str,
    grouped: impl Fn(&Predicate) -> bool,
) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(word)?;
        }
        group(f, part, grouped(part))?;
    }
    Ok(())
}

fn group(f: &mut fmt::Formatter<'_>, part: &Predicate, grouped: bool) -> fmt::Result {
    if grouped { write!(f, "({part})") } else { write!(f, "{part}") }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { operand, comparison, value } => {
                write!(f, "{} {} {value}", phrase_of(*operand), comparison.sign())
            }
            Self::NumberIn { operand, values } => write!(f, "{} in {values}", phrase_of(*operand)),
            Self::Address { column, set } => addresses(f, &phrase_of(Operand::Column(*column)), set),
            Self::Flags { mask, exact } => {
                f.write_str(if *exact { "flags =" } else { "flags " })?;
                let set = FLAG_LETTERS.iter().enumerate().rev().filter(|(bit, _)| mask >> bit & 1 == 1);
                set.map(|(_, letter)| letter).try_for_each(|letter| write!(f, "{letter}"))
            }
            Self::Family { v6 } => f.write_str(if *v6 { "ipv6" } else { "ipv4" }),
            Self::Time { column, comparison, ms } => {
                write!(f, "{} {} {}", phrase_of(Operand::Column(*column)), comparison.sign(), time_text(*ms))
            }
            Self::Mac { column, mac } => {
                write!(f, "{} {}", phrase_of(Operand::Column(*column)), AddressText(mac))
            }
            Self::Text { column, condition } => write!(f, "{} {condition}", phrase_of(Operand::Column(*column))),
            Self::ElementText { elements, condition } => write!(f, "{} {condition}", element_phrase(elements)),
            Self::PortInBlock { column } => write!(f, "{} in nat pblock", phrase_of(Operand::Column(*column))),
            Self::UserName(name) => write!(f, "asa user {}", Quoted(name)),
            Self::Ident(ident) => write!(f, "ident {}", Quoted(ident)),
        }
    }
}

impl fmt::Display for TextCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Like(pattern) => write!(f, "like {}", Quoted(pattern)),
            Self::Exactly(text) => write!(f, "exactly {}", Quoted(text)),
            Self::OneOf(set) => match set.texts() {
                [only] => write!(f, "= {}", Quoted(only)),
                texts => {
                    f.write_str("in [")?;
                    for (i, text) in texts.iter().enumerate() {
                        write!(f, "{}{}", if i > 0 { ", " } else { "" }, Quoted(text))?;
                    }
                    f.write_str("]")
                }
            },
        }
    }
}

/// A text in the quotes that it does not hold; no text of a filter holds both.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('\'') { '"' } else { '\'' };
        write!(f, "{quote}{}{quote}", self.0)
    }
}

impl fmt::Display for NumberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, (first, last)) in self.ranges().iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            if first == last { write!(f, "{comma}{first}")? } else { write!(f, "{comma}{first}-{last}")? }
        }
        f.write_str("]")
    }
}

fn addresses(f: &mut fmt::Formatter<'_>, phrase: &str, set: &AddressSet) -> fmt::Result {
    let mut first_two = set.prefixes();
    match (first_two.next(), first_two.next(), phrase.strip_suffix("ip")) {
        (Some(host), None, _) if host.is_host() => write!(f, "{phrase} {host}"),
        (Some(net), None, Some(direction)) => write!(f, "{direction}net {net}"),
        _ => {
            write!(f, "{phrase} in [")?;
            for (i, prefix) in set.prefixes().enumerate() {
                write!(f, "{}{prefix}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str("]")
        }
    }
}
