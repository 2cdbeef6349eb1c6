//! Numbers, addresses and times as digits, fast.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Decimal digits of the numbers below 100.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Octets of the longest number.
const NUMBER_OCTETS: usize = 20;

/// The text of every octet of an IPv4 address with the point behind it, and the length of both.
const OCTETS: [([u8; 4], u8); 256] = {
    let mut octets = [([0; 4], 0); 256];
    let mut number = 0;
    while number < 256 {
        let [tens, ones] = PAIRS[number % 100];
        octets[number] = match number {
            0..10 => ([ones, b'.', 0, 0], 2),
            10..100 => ([tens, ones, b'.', 0], 3),
            _ => ([b'0' + (number / 100) as u8, tens, ones, b'.'], 4),
        };
        number += 1;
    }
    octets
};

/// Appends the first `length` of `N` octets. To copy all of them is faster than to copy a number of octets that is
/// not known beforehand.
#[inline]
fn push_first<const N: usize>(text: &mut Vec<u8>, octets: &[u8; N], length: usize) {
    let end = text.len() + length;
    text.extend_from_slice(octets);
    text.truncate(end);
}

/// Appends a number in decimal.
#[inline]
pub fn push_u64(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 2 * NUMBER_OCTETS];
    let mut start = NUMBER_OCTETS;
    while number >= 100 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[number as usize]);
    } else {
        start -= 1;
        digits[start] = b'0' + number as u8;
    }
    if let Some(digits) = digits[start..].first_chunk::<NUMBER_OCTETS>() {
        push_first(text, digits, NUMBER_OCTETS - start);
    }
}

/// Appends a number in decimal, with its sign when it is negative.
#[inline]
pub fn push_i64(text: &mut Vec<u8>, number: i64) {
    if number < 0 {
        text.push(b'-');
    }
    push_u64(text, number.unsigned_abs());
}

/// Appends a number with a fraction: the shortest text that is read back as the same number, with an exponent only
/// where it would be long without.
pub fn push_f64(text: &mut Vec<u8>, number: f64) {
    let size = number.abs();
    let is_long = size.is_finite() && (size >= 1e16 || (size < 1e-5 && size > 0.0));
    // A vector takes everything.
    let _ = if is_long { write!(text, "{number:e}") } else { write!(text, "{number}") };
}

/// As [`push_f64`], for numbers of half the width.
pub fn push_f32(text: &mut Vec<u8>, number: f32) {
    let size = number.abs();
    let is_long = size.is_finite() && (size >= 1e16 || (size < 1e-5 && size > 0.0));
    let _ = if is_long { write!(text, "{number:e}") } else { write!(text, "{number}") };
}

/// Appends octets as an IPv4 address.
#[inline]
pub fn push_ipv4(text: &mut Vec<u8>, octets: [u8; 4]) {
    let mut address = [0; 16];
    let mut end = 0;
    for octet in octets {
        let (digits, length) = OCTETS[usize::from(octet)];
        address[end..end + 4].copy_from_slice(&digits);
        end += usize::from(length);
    }
    // without the last point
    push_first(text, &address, end - 1);
}

/// Appends a number as nfdump scales it for people: from a million on with one decimal, rounded as printf does, and the letter of
/// a unit of 1000.
pub fn push_scaled(text: &mut Vec<u8>, number: u64) {
    let (unit, letter): (u64, u8) = match number {
        0..1_000_000 => return push_u64(text, number),
        1_000_000..1_000_000_000 => (1_000_000, b'M'),
        1_000_000_000..1_000_000_000_000 => (1_000_000_000, b'G'),
        _ => (1_000_000_000_000, b'T'),
    };
    let tenth = unit / 10;
    if number % tenth == tenth / 2 {
        // A tie, which goes to the side of the binary fraction. Writing to a vector does not fail.
        let _ = write!(text, "{:.1}", number as f64 / unit as f64);
    } else {
        let tenths = number / tenth + u64::from(number % tenth > tenth / 2);
        push_u64(text, tenths / 10);
        text.extend_from_slice(&[b'.', b'0' + (tenths % 10) as u8]);
    }
    text.extend_from_slice(&[b' ', letter]);
}

/// Appends a number in decimal at the right of a field of `width` octets; longer ones take what they need.
#[inline]
pub fn push_u64_right(text: &mut Vec<u8>, number: u64, width: usize) {
    let mut digits = [b' '; 24];
    let mut start = digits.len();
    let mut rest = number;
    while rest >= 100 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[rest as usize]);
    } else {
        start -= 1;
        digits[start] = b'0' + rest as u8;
    }
    let width = width.min(digits.len());
    text.extend_from_slice(&digits[start.min(digits.len() - width)..]);
}

/// Appends blanks before what was appended from `start` on, until it is `width` octets long.
pub fn align_right(text: &mut Vec<u8>, start: usize, width: usize) {
    let missing = width.saturating_sub(text.len() - start);
    if missing > 0 {
        text.resize(text.len() + missing, b' ');
        text[start..].rotate_right(missing);
    }
}

/// Appends blanks after what was appended from `start` on, until it is `width` octets long.
#[inline]
pub fn align_left(text: &mut Vec<u8>, start: usize, width: usize) {
    let missing = width.saturating_sub(text.len() - start);
    text.resize(text.len() + missing, b' ');
}

/// Appends octets as an IPv6 address in the text of RFC 5952.
pub fn push_ipv6(text: &mut Vec<u8>, octets: &[u8; 16]) {
    let mut groups = [0_u16; 8];
    for (group, pair) in groups.iter_mut().zip(octets.chunks_exact(2)) {
        *group = u16::from_be_bytes([pair[0], pair[1]]);
    }
    if groups[..5] == [0; 5] && groups[5] == 0xffff {
        text.extend_from_slice(b"::ffff:");
        return push_ipv4(text, [octets[12], octets[13], octets[14], octets[15]]);
    }
    let (gap_start, gap_end) = longest_zeros(&groups);
    push_groups(text, &groups[..gap_start]);
    if gap_end > gap_start {
        text.extend_from_slice(b"::");
        push_groups(text, &groups[gap_end..]);
    }
}

/// The longest run of at least two groups that are zero, the first of equally long ones; empty at the end when there
/// is none.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let (mut best, mut run_start) = ((8, 8), 0);
    for (position, group) in groups.iter().enumerate() {
        if *group != 0 {
            run_start = position + 1;
        } else if position + 1 - run_start > (best.1 - best.0).max(1) {
            best = (run_start, position + 1);
        }
    }
    best
}

fn push_groups(text: &mut Vec<u8>, groups: &[u16]) {
    for (position, &group) in groups.iter().enumerate() {
        if position > 0 {
            text.push(b':');
        }
        let digits = [group >> 12, group >> 8 & 15, group >> 4 & 15, group & 15].map(|digit| HEX[usize::from(digit)]);
        let zeros = (group.max(1).leading_zeros() / 4) as usize;
        text.extend_from_slice(&digits[zeros..]);
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends octets in hexadecimal.
pub fn push_hex(text: &mut Vec<u8>, octets: &[u8]) {
    for octet in octets {
        text.extend_from_slice(&[HEX[usize::from(octet >> 4)], HEX[usize::from(octet & 15)]]);
    }
}

const DAY_SECONDS: i64 = 86_400;

/// Writes civil times; keeps the last date, because times of neighbours are of one day.
#[derive(Debug, Clone)]
pub struct Clock {
    day: i64,
    date: Vec<u8>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that has written nothing yet.
    pub fn new() -> Self {
        let mut clock = Self { day: 0, date: Vec::with_capacity(10) };
        clock.set_day(0);
        clock
    }

    /// Appends `YYYY-MM-DD`, the separator, and `HH:MM:SS.mmm`.
    #[inline]
    pub fn push(&mut self, text: &mut Vec<u8>, ms: i64, separator: u8) {
        let (seconds, ms) = (ms.div_euclid(1000), ms.rem_euclid(1000) as u64);
        let (day, second) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS) as usize);
        if day != self.day {
            self.set_day(day);
        }
        match self.date.first_chunk::<10>() {
            Some(date) if self.date.len() == 10 => text.extend_from_slice(date),
            _ => text.extend_from_slice(&self.date),
        }
        let [h0, h1] = PAIRS[second / 3600];
        let [m0, m1] = PAIRS[second / 60 % 60];
        let [s0, s1] = PAIRS[second % 60];
        let [tens, ones] = PAIRS[(ms % 100) as usize];
        let hundreds = b'0' + (ms / 100) as u8;
        let time = [separator, h0, h1, b':', m0, m1, b':', s0, s1, b'.', hundreds, tens, ones];
        text.extend_from_slice(&time);
    }

    /// Days to civil date in the proleptic Gregorian calendar, by eras of 400 years that begin on March 1.
    fn set_day(&mut self, day: i64) {
        let shifted = day + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        self.day = day;
        self.date.clear();
        if (0..=9999).contains(&year) {
            self.date.extend_from_slice(&PAIRS[(year / 100) as usize]);
            self.date.extend_from_slice(&PAIRS[(year % 100) as usize]);
        } else {
            // ISO 8601: years beyond four digits carry a sign.
            self.date.push(if year < 0 { b'-' } else { b'+' });
            self.date.extend_from_slice(format!("{:06}", year.unsigned_abs()).as_bytes());
        }
        for part in [month, day_of_month] {
            self.date.push(b'-');
            self.date.extend_from_slice(&PAIRS[part as usize]);
        }
    }
}

/// Writes civil times of a zone.
#[derive(Debug, Clone)]
pub struct ZonedClock {
    zone: TimeZone,
    clock: Clock,
    /// Quarter of an hour, and the milliseconds that the zone is ahead of UTC in it. Zones change their offset at full
    /// quarters only.
    offset: (i64, i64),
}

const QUARTER_MS: i64 = 900_000;

impl ZonedClock {
    /// A clock of a zone.
    pub fn new(zone: TimeZone) -> Self {
        Self { zone, clock: Clock::new(), offset: (i64::MIN, 0) }
    }

    /// As [`Clock::push`].
    #[inline]
    pub fn push(&mut self, text: &mut Vec<u8>, ms: i64, separator: u8) {
        let offset = self.offset_ms(ms);
        self.clock.push(text, ms.saturating_add(offset), separator);
    }

    /// As [`Clock::push`], in UTC.
    pub fn push_utc(&mut self, text: &mut Vec<u8>, ms: i64, separator: u8) {
        self.clock.push(text, ms, separator);
    }

    /// The seconds that the zone is ahead of UTC at a time.
    pub fn offset_seconds(&mut self, ms: i64) -> i64 {
        self.offset_ms(ms) / 1000
    }

    fn offset_ms(&mut self, ms: i64) -> i64 {
        let quarter = ms.div_euclid(QUARTER_MS);
        if self.offset.0 != quarter {
            let offset = Timestamp::from_millisecond(ms).map_or(0, |time| self.zone.to_offset(time).seconds());
            self.offset = (quarter, i64::from(offset) * 1000);
        }
        self.offset.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_the_standard_library() {
        for number in [0, 7, 10, 99, 100, 101, 65535, 1_000_000, u64::MAX] {
            let mut text = Vec::new();
            push_u64(&mut text, number);
            assert_eq!(text, number.to_string().as_bytes());
        }
        let mut text = Vec::new();
        push_i64(&mut text, i64::MIN);
        assert_eq!(text, i64::MIN.to_string().as_bytes());
    }

    #[test]
    fn ipv4_matches_the_standard_library() {
        for octet in 0..=255 {
            for octets in [[octet, 0, 0, 0], [1, octet, 22, 255], [255, 255, octet, 9], [100, 10, 1, octet]] {
                let mut text = b"> ".to_vec();
                push_ipv4(&mut text, octets);
                assert_eq!(String::from_utf8_lossy(&text), format!("> {}", std::net::Ipv4Addr::from(octets)));
            }
        }
    }

    #[test]
    fn fields_are_filled_up() {
        for (number, width, expected) in
            [(7, 3, "  7"), (1234, 3, "1234"), (0, 1, "0"), (u64::MAX, 22, "  18446744073709551615")]
        {
            let mut text = Vec::new();
            push_u64_right(&mut text, number, width);
            assert_eq!(String::from_utf8_lossy(&text), expected);
        }
        let mut text = b"> abc".to_vec();
        align_right(&mut text, 2, 5);
        align_left(&mut text, 2, 7);
        align_right(&mut text, 2, 3);
        assert_eq!(text, b">   abc  ");
    }

    #[test]
    fn ipv6_matches_the_standard_library() {
        let check = |octets: [u8; 16]| {
            let mut text = Vec::new();
            push_ipv6(&mut text, &octets);
            assert_eq!(String::from_utf8_lossy(&text), std::net::Ipv6Addr::from(octets).to_string());
        };
        // every pattern of zero and other groups, with values of one to four digits
        for pattern in 0..256_u32 {
            for value in [0x1_u16, 0x20, 0x300, 0xffff] {
                let groups = [0, 1, 2, 3, 4, 5, 6, 7].map(|bit| if pattern >> bit & 1 == 1 { value } else { 0 });
                check(std::net::Ipv6Addr::from(groups).octets());
            }
        }
    }

    #[test]
    fn fractions_are_short_and_read_back() {
        let text = |number| {
            let mut text = Vec::new();
            push_f64(&mut text, number);
            String::from_utf8(text).expect("digits")
        };
        let expected = ["0.1", "2", "-0", "123456.789", "1e16", "1e-6", "0.00001", "NaN", "-inf", "5e-324"];
        let numbers = [0.1, 2.0, -0.0, 123456.789, 1e16, 1e-6, 1e-5, f64::NAN, f64::NEG_INFINITY, 5e-324];
        assert_eq!(numbers.map(text), expected);
        for bits in (1..u64::MAX).step_by(0x0123_4567_89ab_cdef) {
            let number = f64::from_bits(bits);
            assert!(number.is_nan() || text(number).parse::<f64>().is_ok_and(|read| read.to_bits() == bits), "{bits}");
        }
        let mut narrow = Vec::new();
        push_f32(&mut narrow, 0.1);
        assert_eq!(narrow, b"0.1");
    }

    #[test]
    fn times_match_jiff() {
        let mut clock = Clock::new();
        let days = (-800_000..800_000).step_by(997).map(|day: i64| day * 86_400_000 + day.rem_euclid(86_400_000));
        for ms in days.chain([0, -1, 951_782_400_000, 4_102_444_799_999]) {
            let Ok(time) = jiff::Timestamp::from_millisecond(ms) else { continue };
            let mut text = Vec::new();
            clock.push(&mut text, ms, b'T');
            let expected = time.strftime("%Y-%m-%dT%H:%M:%S.%3f").to_string();
            if expected.len() == text.len() {
                assert_eq!(String::from_utf8_lossy(&text), expected);
            }
        }
    }
}
