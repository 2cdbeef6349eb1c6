//! Numbers, durations, addresses and texts as nfdump writes them.

use arrow::array::{Array, StringArray};
use weir_print::digits::{align_right, push_ipv4, push_ipv6, push_scaled, push_u64_right};

/// A condensed IPv6 address has at most this many letters.
const CONDENSED_LETTERS: usize = 16;

/// Appends a number at the right of a field; unless `plain`, from a million on with one decimal and a unit.
#[inline]
pub(super) fn push_number(text: &mut Vec<u8>, number: u64, plain: bool, width: usize) {
    if plain || number < 1_000_000 {
        push_u64_right(text, number, width);
    } else {
        let start = text.len();
        push_scaled(text, number);
        align_right(text, start, width);
    }
}

/// Appends milliseconds as `DDDDd HH:MM:SS.mmm`, the days only when there are some.
#[inline]
pub(super) fn push_duration(text: &mut Vec<u8>, ms: u64) {
    let seconds = ms / 1000;
    let days = seconds / 86_400;
    if days == 0 {
        text.extend_from_slice(b"    ");
    } else {
        push_u64_right(text, days, 2);
        text.extend_from_slice(b"d ");
    }
    let two = |number: u64| [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
    let [[h0, h1], [m0, m1], [s0, s1]] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60].map(two);
    text.extend_from_slice(&[h0, h1, b':', m0, m1, b':', s0, s1]);
    push_fraction(text, ms % 1000);
}

/// Appends milliseconds as seconds with three decimals.
#[inline]
pub(super) fn push_seconds(text: &mut Vec<u8>, ms: u64, width: usize) {
    push_u64_right(text, ms / 1000, width.saturating_sub(4));
    push_fraction(text, ms % 1000);
}

#[inline]
fn push_fraction(text: &mut Vec<u8>, ms: u64) {
    let digit = |number: u64| b'0' + (number % 10) as u8;
    text.extend_from_slice(&[b'.', digit(ms / 100), digit(ms / 10), digit(ms)]);
}

/// Appends an address in full; 0.0.0.0 when there is none.
#[inline]
pub(super) fn push_address(text: &mut Vec<u8>, octets: Option<&[u8]>) {
    let octets = octets.unwrap_or(&[0; 4]);
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        push_ipv4(text, v4);
    } else if let Ok(v6) = <&[u8; 16]>::try_from(octets) {
        push_ipv6(text, v6);
    }
}

/// Appends an address in a field of `width` octets; in a short field a long one loses its middle, without a field
/// (0) it is written in full.
#[inline]
pub(super) fn push_address_right(text: &mut Vec<u8>, octets: Option<&[u8]>, width: usize) {
    let start = text.len();
    push_address(text, octets);
    let letters = text.len() - start;
    if letters > CONDENSED_LETTERS && (1..=CONDENSED_LETTERS).contains(&width) {
        text.drain(start + 7..start + letters - 7);
        text.splice(start + 7..start + 7, *b"..");
    }
    align_right(text, start, width);
}

/// Appends an address of which only the first bits are kept.
pub(super) fn push_network(text: &mut Vec<u8>, octets: Option<&[u8]>, bits: u64, width: usize) {
    let mut network = [0; 16];
    let octets = octets.filter(|octets| octets.len() <= network.len()).unwrap_or(&[0; 4]);
    for (position, (kept, octet)) in network.iter_mut().zip(octets).enumerate() {
        let bits = (bits as usize).saturating_sub(position * 8).min(8);
        *kept = octet & !(0xff_u16 >> bits) as u8;
    }
    push_address_right(text, Some(&network[..octets.len()]), width);
}

/// A text, in quotes where a comma would end it. Texts of flows have no character that a terminal obeys.
pub(super) fn push_text(text: &mut Vec<u8>, texts: &StringArray, row: usize, is_csv: bool) {
    let value = if texts.is_null(row) { "-" } else { texts.value(row) };
    if is_csv && value.contains([',', '"']) {
        text.extend_from_slice(format!("\"{}\"", value.replace('"', "\"\"")).as_bytes());
    } else {
        text.extend_from_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        push(&mut text);
        String::from_utf8(text).expect("letters")
    }

    /// Each line is what nfdump 1.7.1 prints for `%byt`.
    #[test]
    fn large_numbers_are_scaled_as_printf_rounds() {
        let expected = [
            (0, "       0"),
            (999_999, "  999999"),
            (1_000_000, "   1.0 M"),
            (1_049_999, "   1.0 M"),
            (1_050_000, "   1.1 M"),
            (1_949_999, "   1.9 M"),
            (9_950_000, "   9.9 M"),
            (99_950_000, " 100.0 M"),
            (999_950_000, "1000.0 M"),
            (1_050_000_000, "   1.1 G"),
            (4_294_967_295, "   4.3 G"),
        ];
        for (number, expected) in expected {
            assert_eq!(text(|text| push_number(text, number, false, 8)), expected);
        }
        for number in (1_000_000..40_000_000_000_000).step_by(9_999_950_003) {
            let unit = if number < 1_000_000_000 {
                1e6
            } else if number < 1_000_000_000_000 {
                1e9
            } else {
                1e12
            };
            let scaled = text(|text| push_number(text, number, false, 0));
            assert_eq!(scaled[..scaled.len() - 2], format!("{:.1}", number as f64 / unit), "{number}");
        }
        assert_eq!(text(|text| push_number(text, 12_345_678, true, 4)), "12345678");
    }

    #[test]
    fn durations_have_days() {
        assert_eq!(text(|text| push_duration(text, 42 * 60_000 + 30_221)), "    00:42:30.221");
        assert_eq!(text(|text| push_duration(text, 201_589_934_117)), "2333d 05:12:14.117");
        assert_eq!(text(|text| push_seconds(text, 1_002, 16)), "           1.002");
    }

    #[test]
    fn long_addresses_lose_their_middle() {
        let octets = "2001:67c:9:45:212e:38e5:a640:4da2".parse::<std::net::Ipv6Addr>().expect("an address").octets();
        assert_eq!(text(|text| push_address_right(text, Some(&octets), 16)), "2001:67..40:4da2");
        assert_eq!(text(|text| push_address_right(text, Some(&[10, 0, 0, 1]), 16)), "        10.0.0.1");
        assert_eq!(text(|text| push_network(text, Some(&octets), 48, 39)).trim_start(), "2001:67c:9::");
        assert_eq!(text(|text| push_network(text, Some(&[10, 200, 3, 4]), 12, 0)), "10.192.0.0");
    }
}
