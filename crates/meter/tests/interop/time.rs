//! Times as other programs write them.

/// Microseconds since the epoch of `2016-10-28T17:07:52.625696`, whatever follows; fewer decimals count as zeros.
pub(crate) fn micros(text: &str) -> Option<i64> {
    let (day, clock) = text.split_once(['T', ' '])?;
    let mut parts = day.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let clock = clock.split(['+', 'Z']).next()?;
    let (whole, decimals) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let micros: i64 = format!("{decimals:0<6}").get(..6)?.parse().ok()?;
    let secs = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(secs * 1_000_000 + micros)
}

/// Days since the epoch, of years of the common era: years begin in March, so that the day that leap years have comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[test]
fn times_are_read() {
    assert_eq!(micros("1970-01-01T00:00:00.000001"), Some(1));
    assert_eq!(micros("2016-10-28T17:07:52.625696"), Some(1_477_674_472_625_696));
    assert_eq!(micros("2000-02-29T00:00:00+0000"), Some(951_782_400_000_000));
    assert_eq!(micros("2000-03-01 00:00:00.5"), Some(951_868_800_500_000));
    assert_eq!(micros("now"), None);
}
