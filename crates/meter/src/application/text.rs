//! Text from the network: cut, cleaned, and taken apart into lines.

/// Most octets of a text that are kept.
pub(super) const TEXT_OCTETS_MAX: usize = 255;

/// A text as it is kept: not too long, and without what is no printable character. `None` when nothing is left.
pub(super) fn clean(octets: &[u8]) -> Option<Box<str>> {
    let octets = octets.trim_ascii();
    let octets = &octets[..octets.len().min(TEXT_OCTETS_MAX)];
    let printable = |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let text: Box<str> = match std::str::from_utf8(octets) {
        Ok(text) if !text.contains(char::is_control) => text.into(),
        _ => String::from_utf8_lossy(octets).chars().map(printable).collect::<String>().into(),
    };
    (!text.is_empty()).then_some(text)
}

/// The first line without its end, and what follows it; `None` when there is no end of a line.
pub(super) fn line(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = octets.iter().position(|octet| *octet == b'\n')?;
    let line = &octets[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &octets[end + 1..]))
}

/// Whether the octets begin with this word, in letters of either case.
pub(super) fn begins(octets: &[u8], word: &[u8]) -> bool {
    octets.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Whether the word is somewhere in the octets.
pub(super) fn contains(octets: &[u8], word: &[u8]) -> bool {
    octets.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cleaned_and_cut() {
        assert_eq!(clean(b" www.example.org\r\n").as_deref(), Some("www.example.org"));
        assert_eq!(clean(b"a\x1b[2Jb\xff").as_deref(), Some("a\u{fffd}[2Jb\u{fffd}"));
        assert_eq!(clean(b" \t"), None);
        assert_eq!(clean(&[b'x'; 300]).map(|text| text.len()), Some(TEXT_OCTETS_MAX));
    }

    #[test]
    fn lines_end_with_or_without_a_return() {
        assert_eq!(line(b"one\r\ntwo\nthree"), Some((&b"one"[..], &b"two\nthree"[..])));
        assert_eq!(line(b"two\nthree"), Some((&b"two"[..], &b"three"[..])));
        assert_eq!(line(b"three"), None);
    }
}
