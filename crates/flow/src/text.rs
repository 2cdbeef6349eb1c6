//! Text from the network, as columns of text keep it.
//!
//! What an exporter or a packet says is anybody's: it is cut to [`TEXT_OCTETS_MAX`] octets, what is no UTF-8 and every
//! control character becomes U+FFFD, and octets of zero at the end, with which exporters fill fields of a fixed length,
//! are taken off. A text of which nothing is left is null. What was lost is kept where the column came from an element:
//! the octets stay among the elements as they came.

/// Most octets of a text in a column.
pub const TEXT_OCTETS_MAX: usize = 1024;

/// The octets without what fills a field of a fixed length.
pub fn trimmed(octets: &[u8]) -> &[u8] {
    let end = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    &octets[..end]
}

/// Whether a column keeps all of the text.
pub fn is_clean(octets: &[u8]) -> bool {
    let octets = trimmed(octets);
    octets.len() <= TEXT_OCTETS_MAX && as_clean(octets).is_some()
}

/// Appends what a column keeps of the octets.
#[inline]
pub fn push_clean(octets: &[u8], to: &mut String) {
    let octets = trimmed(octets);
    match as_clean(octets).filter(|text| text.len() <= TEXT_OCTETS_MAX) {
        Some(text) => to.push_str(text),
        None => push_cleaned(octets, to),
    }
}

/// The text, when it has no control character. Nearly all texts are of printable ASCII.
#[inline]
fn as_clean(octets: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(octets).ok()?;
    let is_printable = octets.iter().all(|octet| (b' '..=b'~').contains(octet));
    (is_printable || !text.contains(char::is_control)).then_some(text)
}

fn push_cleaned(octets: &[u8], to: &mut String) {
    let start = to.len();
    // one character more than fits is enough to be cut
    let octets = &octets[..octets.len().min(TEXT_OCTETS_MAX + 4)];
    for character in String::from_utf8_lossy(octets).chars() {
        let character = if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
        if to.len() - start + character.len_utf8() > TEXT_OCTETS_MAX {
            break;
        }
        to.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(octets: &[u8], expected: &str, whole: bool) {
        let mut text = "before ".to_owned();
        push_clean(octets, &mut text);
        assert_eq!(text, format!("before {expected}"));
        assert_eq!(is_clean(octets), whole, "{expected}");
    }

    #[test]
    fn texts_lose_what_a_terminal_obeys() {
        check(b"", "", true);
        check(b"\0\0", "", true);
        check(b"web-browsing\0\0\0\0", "web-browsing", true);
        check("m\u{fc}nchen.example".as_bytes(), "m\u{fc}nchen.example", true);
        check(b"a\x1b[2Jb\xff\r", "a\u{fffd}[2Jb\u{fffd}\u{fffd}", false);
        // a control character beyond ASCII: NEXT LINE
        check("a\u{85}".as_bytes(), "a\u{fffd}", false);
        check(b"a\0b", "a\u{fffd}b", false);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        check(&[b'x'; TEXT_OCTETS_MAX], &"x".repeat(TEXT_OCTETS_MAX), true);
        check(&vec![b'x'; 100_000], &"x".repeat(TEXT_OCTETS_MAX), false);
        let wide = "\u{20ac}".repeat(500);
        check(wide.as_bytes(), &"\u{20ac}".repeat(TEXT_OCTETS_MAX / 3), false);
        check(&[0xff; 2000], &"\u{fffd}".repeat(TEXT_OCTETS_MAX / 3), false);
    }
}
