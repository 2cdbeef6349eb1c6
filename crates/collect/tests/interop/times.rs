//! Times as other implementations print them.

/// Milliseconds since 1970 of a time like `2023-02-28T09:47:00.123Z`.
pub(crate) fn rfc3339_ms(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, separator| -> Option<Vec<i64>> { text.split(separator).map(|part| part.parse().ok()).collect() };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let [hours, minutes, seconds] = numbers(time, ':')?.try_into().ok()?;
    // three digits of the fraction are milliseconds
    let fraction_ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let secs = days_since_1970(year, month, day) * 86_400 + hours * 3_600 + minutes * 60 + seconds;
    Some(secs * 1000 + fraction_ms)
}

/// Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that leap days come last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[test]
fn times_of_other_programs() {
    assert_eq!(rfc3339_ms("1970-01-01T00:00:00Z"), Some(0));
    assert_eq!(rfc3339_ms("2023-11-14T22:13:20.5Z"), Some(1_700_000_000_500));
    assert_eq!(rfc3339_ms("2000-02-29T00:00:00.001Z"), Some(951_782_400_001));
    assert_eq!(rfc3339_ms("HundredGigE0/0/0/11"), None);
}
