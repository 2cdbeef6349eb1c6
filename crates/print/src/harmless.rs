//! Text that came over the network, where it may do harm: a terminal obeys control characters, a table of a spreadsheet
//! computes what begins like a formula.

/// Whether a terminal obeys a character, or shows those around it in another order.
pub(crate) fn is_obeyed(letter: char) -> bool {
    let orders =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // line and paragraph separators
    letter.is_control() || orders || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// Whether octets of UTF-8 may have such a character; when not, they have none.
pub(crate) fn may_be_obeyed(octets: &[u8]) -> bool {
    octets.iter().any(|octet| matches!(octet, 0..0x20 | 0x7f | 0xc2 | 0xd8 | 0xe2))
}

/// Makes what was appended from `start` on harmless as a cell of CSV: what is obeyed is written as `\u{1b}`, `\n` and so
/// on, and before what a spreadsheet would compute there is an apostrophe.
pub(crate) fn make_harmless(text: &mut Vec<u8>, start: usize) {
    let is_formula = matches!(text[start..], [b'=' | b'+' | b'-' | b'@', _, ..]);
    if !is_formula && !may_be_obeyed(&text[start..]) {
        return;
    }
    let bare = text.split_off(start);
    if is_formula {
        text.push(b'\'');
    }
    let mut octets = [0; 4];
    for letter in String::from_utf8_lossy(&bare).chars() {
        if is_obeyed(letter) {
            text.extend(letter.escape_default().map(|ascii| ascii as u8));
        } else {
            text.extend_from_slice(letter.encode_utf8(&mut octets).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_obeyed_is_written_out() {
        let harmless = |cell: &str| {
            let mut text = b"before,".to_vec();
            text.extend_from_slice(cell.as_bytes());
            make_harmless(&mut text, 7);
            String::from_utf8(text).expect("UTF-8")[7..].to_owned()
        };
        for same in ["", "-", "name", "a=b", "Grüße €", "10.0.0.1", "\u{2026}"] {
            assert_eq!(harmless(same), same);
        }
        assert_eq!(harmless("a\u{1b}[2Jb\u{7}"), "a\\u{1b}[2Jb\\u{7}");
        assert_eq!(harmless("a\u{9b}b\u{202e}c\n"), "a\\u{9b}b\\u{202e}c\\n");
        // the Arabic letter mark, and a letter that begins with the same octet
        assert_eq!(harmless("a\u{61c}b\u{628}"), "a\\u{61c}b\u{628}");
        assert_eq!(harmless("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!(harmless("@SUM(1)"), "'@SUM(1)");
        assert_eq!(harmless("\t=1"), "\\t=1");
    }
}
