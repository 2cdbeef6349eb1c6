//! What is wrong with a filter, where, and what was probably meant.

use std::ops::Range;

/// Why a text is not a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// What is wrong: lower case, no final period.
    pub message: String,
    /// Where: octets of the text. Empty and at the end when something is missing there.
    pub span: Range<usize>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl ParseError {
    pub(crate) fn new(message: impl Into<String>, span: Range<usize>) -> Self {
        Self { message: message.into(), span, hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: String) -> Self {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn with_hint_from(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// The line of the text with the mistake, carets and the message under it, then the hint on a line of its own.
    /// `text` is the text that was parsed. No line ends in a line break but those inside.
    ///
    /// ```
    /// let text = "proto tcp and\n src prot 80";
    /// let error = weir_filter::parse(text).unwrap_err();
    /// assert_eq!(
    ///     error.render(text),
    ///     " src prot 80\n     ^^^^ unknown word 'prot' after 'src'\nhint: did you mean 'port'?"
    /// );
    /// ```
    pub fn render(&self, text: &str) -> String {
        let start = floor_boundary(text, self.span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = floor_boundary(text, self.span.end).clamp(start, line_end);
        // Tabs stay, so that the carets line up; other control characters never reach a terminal.
        let clean = |c: char| if c == '\t' || !c.is_control() { c } else { '\u{fffd}' };
        let mut out: String = text[line_start..line_end].chars().map(clean).collect();
        out.push('\n');
        out.extend(text[line_start..start].chars().map(|c| if c == '\t' { '\t' } else { ' ' }));
        let carets = text[start..end].chars().count().max(1);
        out.extend(std::iter::repeat_n('^', carets));
        out.push(' ');
        out.push_str(&self.message);
        if let Some(hint) = &self.hint {
            out.push_str("\nhint: ");
            out.push_str(hint);
        }
        out
    }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// The word nearest to `wrong`, when it is near enough to be meant.
pub(crate) fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    let reach = match wrong.len() {
        0 | 1 => 0,
        2 | 3 => 1,
        _ => 2,
    };
    let near = words.into_iter().map(|word| (distance(wrong.as_bytes(), word.as_bytes()), word));
    near.filter(|(far, _)| *far <= reach)
        .min_by_key(|(far, word)| (*far, word.len().abs_diff(wrong.len())))
        .map(|(_, word)| word)
}

/// Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &[u8], b: &[u8]) -> usize {
    const LONG: usize = 32;
    if a.len() > LONG || b.len() > LONG {
        return usize::MAX;
    }
    let mut rows = [[0_usize; LONG + 1]; LONG + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found() {
        let words = ["port", "proto", "packets", "net", "ip"];
        assert_eq!(nearest("prot", words), Some("port"));
        assert_eq!(nearest("PAKETS", words), Some("packets"));
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("x", words), None);
        assert_eq!(nearest(&"x".repeat(100), words), None);
    }

    #[test]
    fn carets_stand_under_the_mistake() {
        let error = ParseError::new("wrong", 3..6);
        assert_eq!(error.render("a\n\tbcd\u{1b} e"), "\tbcd\u{fffd} e\n\t^^^ wrong");
        assert_eq!(ParseError::new("more", 3..3).with_hint("add".into()).render("abc"), "abc\n   ^ more\nhint: add");
        assert_eq!(ParseError::new("odd", 1..90).render("äb"), "äb\n^^ odd");
    }
}
