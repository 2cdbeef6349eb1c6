//! Words of the language for whoever helps to write a filter.

use weir_flow::Column;

use crate::Operand;
use crate::primitive::{Direction, form_of_column, primitives};

/// Words that join primitives.
const JOINS: &[(&str, &str)] =
    &[("and", "Both sides hold."), ("or", "One side or both hold."), ("not", "What follows does not hold.")];
/// Completions that are listed.
const COMPLETIONS_MAX: usize = 50;

/// A word or a phrase of the language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterWord {
    /// The words, parted by one space.
    pub text: String,
    /// What they test.
    pub doc: String,
    /// The columns that they read.
    pub columns: Vec<Column>,
}

/// Every phrase in its first spelling, and every column by its name.
pub fn words() -> Vec<FilterWord> {
    let mut words: Vec<FilterWord> = Vec::new();
    for primitive in primitives() {
        for Direction(direction, operands) in primitive.directions {
            let text = if direction.is_empty() {
                primitive.name.to_owned()
            } else {
                format!("{direction} {}", primitive.name)
            };
            let column = |operand: &Operand| match operand {
                Operand::Column(column) => Some(*column),
                _ => None,
            };
            let columns = operands.iter().filter_map(column).collect();
            words.push(FilterWord { text, doc: primitive.doc.to_owned(), columns });
        }
    }
    for &column in Column::ALL {
        if form_of_column(column).is_some() && !words.iter().any(|word| word.text == column.name()) {
            let (text, doc) = (column.name().to_owned(), column.spec().doc.to_owned());
            words.push(FilterWord { text, doc, columns: vec![column] });
        }
    }
    words
}

/// What may take the place of the word that ends at an octet of a text: words that go on with it, and with what is before it.
///
/// ```
/// let found = weir_filter::complete("proto tcp and src po", 20);
/// assert_eq!(found[0].text, "port");
/// assert!(weir_filter::complete("proto tcp a", 11).iter().any(|word| word.text == "and"));
/// ```
pub fn complete(text: &str, at: usize) -> Vec<FilterWord> {
    let before = text[..text.floor_char_boundary(at.min(text.len()))].to_lowercase();
    let breaks = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | ',' | '!');
    let mut parts: Vec<&str> = before.split(breaks).collect();
    let begun = parts.pop().unwrap_or_default();
    parts.retain(|part| !part.is_empty());
    let known = words();
    let mut found: Vec<FilterWord> = Vec::new();
    // the longest phrase that is begun says most
    for taken in (0..=parts.len().min(crate::primitive::PHRASE_WORDS_MAX)).rev() {
        let earlier = parts[parts.len() - taken..].join(" ");
        let prefix = if earlier.is_empty() { begun.to_owned() } else { format!("{earlier} {begun}") };
        let rest = known
            .iter()
            .filter(|&word| word.text.starts_with(&prefix))
            .map(|word| FilterWord { text: word.text[prefix.len() - begun.len()..].to_owned(), ..word.clone() });
        found.extend(rest.filter(|word| word.text != begun));
        if taken > 0 && !found.is_empty() {
            break;
        }
    }
    let is_after_word = !parts.is_empty();
    let joins =
        JOINS.iter().filter(|(text, _)| (is_after_word || *text == "not") && text.starts_with(begun) && *text != begun);
    found.extend(joins.map(|(text, doc)| FilterWord {
        text: (*text).to_owned(),
        doc: (*doc).to_owned(),
        columns: Vec::new(),
    }));
    found.sort_by_key(|word| word.text.len());
    found.truncate(COMPLETIONS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        complete(text, text.len()).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn every_word_is_part_of_the_language() {
        for word in words() {
            let phrase = crate::primitive::find_phrase(&word.text);
            assert!(phrase.is_some(), "'{}' is no phrase", word.text);
        }
    }

    #[test]
    fn words_go_on_with_what_is_before_them() {
        assert_eq!(texts("dst po").first().map(String::as_str), Some("port"));
        assert!(texts("por").contains(&"port".to_owned()));
        assert!(texts("proto tcp and (src as").contains(&"as".to_owned()) || !texts("proto tcp and (src a").is_empty());
        assert!(texts("xyzzy").is_empty());
        // a letter of several octets is not cut
        assert_eq!(complete("prä", 3), complete("pr", 2));
    }
}
