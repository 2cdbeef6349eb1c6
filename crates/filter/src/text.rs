//! Conditions on texts.
//!
//! Names of hosts know no case (RFC 4343), resolvers play with it on purpose, and of a fingerprint nobody remembers it: so
//! texts are compared without regard to the case of letters, unless the condition says otherwise. What speaks
//! against it is that SQL's `=` sees case; for SQL there is [`TextCondition::Exactly`].
//!
//! Letters are folded one by one, as by the simple folding of Unicode (`CaseFolding.txt`, status C and S), but for signs that it takes
//! for letters of ASCII: the Kelvin sign is no `k`. So a text of ASCII is like texts of ASCII only, which are compared by their
//! octets, and which indexes of archives find; these do not know the case of other letters.

use std::cmp::Ordering;

/// A condition on a text. It is false when there is no text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextCondition {
    /// The text is one of these, whatever the case of letters.
    OneOf(TextSet),
    /// The text is this one, octet for octet.
    Exactly(String),
    /// The text is like this pattern, whatever the case of letters: `%` stands for any characters, `_` for one, and
    /// `\` takes the meaning from the character behind it.
    Like(String),
}

/// Texts in small letters, sorted, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSet(Vec<String>);

/// Texts up to which each is compared, rather than looked up.
const COMPARED_MAX: usize = 4;

impl TextSet {
    /// A set of these texts.
    pub fn new(texts: impl IntoIterator<Item = String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().map(|text| text.chars().map(folded).collect()).collect();
        texts.sort_unstable();
        texts.dedup();
        Self(texts)
    }

    /// The texts.
    pub fn texts(&self) -> &[String] {
        &self.0
    }

    /// Whether the text is one of the set.
    pub fn contains(&self, text: &str) -> bool {
        if self.0.len() <= COMPARED_MAX {
            let is_ascii = text.is_ascii();
            return self.0.iter().any(|known| {
                if is_ascii { known.eq_ignore_ascii_case(text) } else { known.chars().eq(text.chars().map(folded)) }
            });
        }
        self.0.binary_search_by(|known| in_small_letters(known, text)).is_ok()
    }
}

/// How a text in small letters orders against another, whatever the case of that.
fn in_small_letters(known: &str, text: &str) -> Ordering {
    if text.is_ascii() {
        return known.bytes().cmp(text.bytes().map(|octet| octet.to_ascii_lowercase()));
    }
    // octets of UTF-8 order as letters do
    known.chars().cmp(text.chars().map(folded))
}

/// A letter without its case. Letters beyond ASCII stay beyond it.
fn folded(letter: char) -> char {
    if letter.is_ascii() {
        return letter.to_ascii_lowercase();
    }
    // by way of the large letter, which forms of a small one share, as final sigma does
    let large = single(letter.to_uppercase()).unwrap_or(letter);
    single(large.to_lowercase()).filter(|small| !small.is_ascii()).unwrap_or(letter)
}

/// The letter, where there is one alone.
fn single(mut letters: impl Iterator<Item = char>) -> Option<char> {
    letters.next().filter(|_| letters.next().is_none())
}

impl TextCondition {
    /// Whether a text meets the condition.
    pub fn holds(&self, text: &str) -> bool {
        match self {
            Self::OneOf(set) => set.contains(text),
            Self::Exactly(known) => known == text,
            Self::Like(pattern) => is_like(text, pattern),
        }
    }
}

/// A character of a pattern.
enum Sign {
    Any,
    One,
    Letter(char),
}

/// The first character of a pattern, and the rest.
fn sign(pattern: &str) -> Option<(Sign, &str)> {
    let mut letters = pattern.chars();
    let sign = match letters.next()? {
        '%' => Sign::Any,
        '_' => Sign::One,
        '\\' => Sign::Letter(letters.next().unwrap_or('\\')),
        letter => Sign::Letter(letter),
    };
    Some((sign, letters.as_str()))
}

/// Whether a text is like a pattern. When a letter does not fit, only the last `%` takes one more: so it takes as many
/// steps as the product of both lengths at most.
fn is_like(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text, pattern);
    let mut retry: Option<(&str, &str)> = None;
    loop {
        let found = sign(pattern);
        let mut letters = text.chars();
        match (found, letters.next()) {
            (Some((Sign::Any, rest)), _) => {
                retry = Some((text, rest));
                pattern = rest;
            }
            (None, None) => return true,
            (Some((Sign::One, rest)), Some(_)) => (text, pattern) = (letters.as_str(), rest),
            (Some((Sign::Letter(wanted), rest)), Some(letter)) if folded(wanted) == folded(letter) => {
                (text, pattern) = (letters.as_str(), rest);
            }
            _ => {
                let Some((from, rest)) = retry else { return false };
                let mut letters = from.chars();
                if letters.next().is_none() {
                    return false;
                }
                (text, pattern) = (letters.as_str(), rest);
                retry = Some((text, rest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_sql() {
        let like = |text: &str, pattern: &str| TextCondition::Like(pattern.to_owned()).holds(text);
        for (text, pattern) in [
            ("www.example.com", "%.example.com"),
            ("WWW.Example.COM", "%.example.com"),
            ("a.example.com.example.com", "%.example.com"),
            ("", "%"),
            ("", ""),
            ("abc", "a%c"),
            ("abc", "a_c"),
            ("a\u{fc}c", "a_c"),
            ("aXbXc", "%x%x%"),
            ("100%", "100\\%"),
            ("a_b", "a\\_b"),
            ("mississippi", "%iss%ip%"),
            ("M\u{fc}nchen", "m\u{dc}%"),
        ] {
            assert!(like(text, pattern), "{text} like {pattern}");
        }
        for (text, pattern) in [
            ("example.com", "%.example.com"),
            ("www.example.com.evil", "%.example.com"),
            ("ac", "a_c"),
            ("1000", "100\\%"),
            ("axb", "a\\_b"),
            ("abc", ""),
            ("", "_"),
        ] {
            assert!(!like(text, pattern), "{text} like {pattern}");
        }
    }

    #[test]
    fn hostile_patterns_end() {
        // tries of all places for each % would take longer than the world stands
        assert!(!is_like(&"a".repeat(2000), &format!("{}b", "%a".repeat(500))));
    }

    #[test]
    fn sets_know_no_case() {
        let many: Vec<String> = (0..40).map(|number| format!("Host{number}.EXAMPLE")).collect();
        let set = TextSet::new(many);
        assert!(set.contains("hOST39.example") && !set.contains("host40.example") && !set.contains(""));
        let few = TextSet::new(["TLS".to_owned(), "tls".to_owned()]);
        assert_eq!(few.texts(), ["tls"]);
        assert!(few.contains("Tls"));
        assert!(!TextCondition::Exactly("tls".to_owned()).holds("TLS"));
    }

    /// Pairs are those of `CaseFolding.txt` of Unicode 15.
    #[test]
    fn letters_beyond_ascii_know_no_case() {
        let others = || (0..COMPARED_MAX).map(|number| format!("\u{e8}{number}"));
        for (text, known) in [
            ("\u{e9}.example", "\u{c9}.EXAMPLE"),
            ("\u{3bf}\u{3b4}\u{3bf}\u{3c2}", "\u{39f}\u{394}\u{39f}\u{3a3}"),
            ("\u{43c}\u{438}\u{440}", "\u{41c}\u{418}\u{420}"),
            ("stra\u{df}e", "STRA\u{1e9e}E"),
            ("\u{5b57}", "\u{5b57}"),
        ] {
            for (text, known) in [(text, known), (known, text)] {
                let many = TextSet::new(others().chain([known.to_owned()]));
                assert!(TextSet::new([known.to_owned()]).contains(text) && many.contains(text), "{text} and {known}");
                assert!(is_like(text, known), "{text} and {known}");
            }
        }
        // other letters, signs that only look like letters of ASCII, and what becomes two letters
        for (text, known) in [
            ("\u{e9}", "\u{c8}"),
            ("\u{e9}", "e"),
            ("\u{212a}", "k"),
            ("\u{17f}", "S"),
            ("\u{131}", "I"),
            ("\u{df}", "SS"),
        ] {
            for (text, known) in [(text, known), (known, text)] {
                let many = TextSet::new(others().chain([known.to_owned()]));
                assert!(!TextSet::new([known.to_owned()]).contains(text) && !many.contains(text), "{text} and {known}");
                assert!(!is_like(text, known), "{text} and {known}");
            }
        }
    }
}
