//! Times of a message: what turns an exporter's way of telling time into milliseconds since the epoch.

/// `systemInitTimeMilliseconds`: what uptimes in IPFIX records count from, since the header has no uptime.
pub(crate) const SYSTEM_INIT_TIME_MS: u16 = 160;

/// The times in a message header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageClock {
    /// When the datagram was received, milliseconds since the epoch.
    pub received_ms: i64,
    /// When it was exported by the exporter's clock, milliseconds since the epoch.
    pub export_ms: i64,
    /// Uptime of the exporter at that moment, milliseconds; IPFIX has none.
    pub uptime_ms: Option<u32>,
}

impl MessageClock {
    /// The same clock with the uptime that follows from when the exporter started. A header that has its own
    /// uptime is believed rather.
    pub(crate) fn with_system_init(self, system_init_ms: Option<i64>) -> Self {
        let derived_ms = system_init_ms.map(|init_ms| self.export_ms.wrapping_sub(init_ms) as u32);
        Self { uptime_ms: self.uptime_ms.or(derived_ms), ..self }
    }

    /// The start of a flow whose start and end are uptimes of 32 bits. Of a time that is over 24.8 days before the
    /// export the signed difference comes out after it, and so after the end: the start is once around the counter
    /// before.
    #[inline]
    pub(crate) fn start_by_uptimes(&self, start_ms: i64, end_ms: i64) -> i64 {
        let is_after = start_ms > end_ms && start_ms.saturating_sub(self.export_ms) > UPTIME_AHEAD_MS_MAX;
        if is_after { start_ms - UPTIME_AROUND_MS } else { start_ms }
    }
}

/// Uptimes wrap after so many milliseconds.
const UPTIME_AROUND_MS: i64 = 1 << 32;
/// Headers are written a little before or after the times of the last flows; a start that is after the export by more
/// has wrapped.
const UPTIME_AHEAD_MS_MAX: i64 = 300_000;

/// How a field represents a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeForm {
    /// Milliseconds of uptime, 32 bits, wrapping every 49.7 days.
    Uptime,
    /// Seconds since the epoch.
    Seconds,
    /// Milliseconds since the epoch.
    Millis,
    /// NTP timestamp (RFC 7011 sections 6.1.9 and 6.1.10).
    Ntp,
    /// Microseconds before the export time.
    DeltaMicros,
}

/// How a field represents for how long a flow lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurationForm {
    /// `flowDurationMilliseconds`.
    Millis,
    /// `flowDurationMicroseconds`.
    Micros,
}

impl DurationForm {
    /// Whole milliseconds; what is less than one is left out, as it is of [`TimeForm::DeltaMicros`].
    pub(crate) fn to_ms(self, value: u64) -> i64 {
        match self {
            Self::Millis => saturated(value),
            Self::Micros => saturated(value / 1000),
        }
    }
}

/// 2000-01-01: before it no exporter of today can have measured a flow.
pub(crate) const CLOCKS_BEGIN_MS: i64 = 946_684_800_000;

/// Whether a value in a field for uptimes is one since 1970: some exporters of NetFlow v9 send 64 bits there. No
/// exporter has been up since 1970, so no uptime is that large.
pub(crate) const fn is_absolute(uptime_ms: u64) -> bool {
    uptime_ms >= CLOCKS_BEGIN_MS as u64
}

/// Seconds from 1900, where NTP counts from, to 1970.
const NTP_UNIX_OFFSET_SECS: i64 = 2_208_988_800;

impl TimeForm {
    /// The form of an IANA element that fills a column of times.
    pub(crate) fn of_element(id: u16) -> Option<Self> {
        Some(match id {
            21 | 22 => Self::Uptime,
            150 | 151 => Self::Seconds,
            152 | 153 => Self::Millis,
            154..=157 => Self::Ntp,
            158 | 159 => Self::DeltaMicros,
            _ => return None,
        })
    }

    /// Milliseconds since the epoch. `None` when the message lacks the uptime that the form needs, and for an NTP timestamp
    /// of 0, which is no time (RFC 5905 section 6).
    pub(crate) fn to_ms(self, value: u64, clock: &MessageClock) -> Option<i64> {
        Some(match self {
            // The signed difference is right across a wrap of the 32-bit uptime, and for a flow that ends a little
            // after the header was written.
            Self::Uptime if is_absolute(value) => saturated(value),
            Self::Uptime => {
                let age_ms = clock.uptime_ms?.wrapping_sub(value as u32) as i32;
                clock.export_ms - i64::from(age_ms)
            }
            Self::Seconds => saturated(value).saturating_mul(1000),
            Self::Millis => saturated(value),
            Self::Ntp if value == 0 => return None,
            Self::Ntp => ntp_ms(value),
            Self::DeltaMicros => clock.export_ms - (value / 1000) as i64,
        })
    }
}

/// Times are unsigned (RFC 7011 sections 6.1.7 and 6.1.8): what is beyond all times of columns is the last of them, and not
/// one before 1970.
fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The upper 32 bits are seconds, the lower a fraction. Seconds below 2^31 belong to the era that begins in 2036
/// (RFC 5905 section 6).
fn ntp_ms(timestamp: u64) -> i64 {
    let secs = (timestamp >> 32) as i64;
    let era = if secs < 1 << 31 { 1_i64 << 32 } else { 0 };
    let fraction_ms = ((timestamp & 0xffff_ffff) * 1000) >> 32;
    (secs + era - NTP_UNIX_OFFSET_SECS) * 1000 + fraction_ms as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: MessageClock =
        MessageClock { received_ms: 1_700_000_001_000, export_ms: 1_700_000_000_000, uptime_ms: Some(5_000) };

    fn check(form: TimeForm, value: u64, expected: i64) {
        assert_eq!(form.to_ms(value, &CLOCK), Some(expected), "{form:?} {value}");
    }

    #[test]
    fn every_form_of_time() {
        check(TimeForm::Uptime, 4_000, 1_699_999_999_000);
        check(TimeForm::Seconds, 1_700_000_000, 1_700_000_000_000);
        check(TimeForm::Millis, 1_700_000_000_123, 1_700_000_000_123);
        // RFC 5905: 2023-11-14T22:13:20.5Z is 3908988800.5 seconds after 1900
        check(TimeForm::Ntp, (3_908_988_800_u64 << 32) | 0x8000_0000, 1_700_000_000_500);
        // 2036-02-07T06:28:16Z is where era 1 begins, the first moment of which says "unknown" (RFC 5905 section 6)
        check(TimeForm::Ntp, 1 << 32, 2_085_978_497_000);
        assert_eq!(TimeForm::Ntp.to_ms(0, &CLOCK), None);
        check(TimeForm::DeltaMicros, 1_500_000, 1_699_999_998_500);
    }

    #[test]
    fn uptime_from_the_time_of_the_start() {
        let ipfix = MessageClock { uptime_ms: None, ..CLOCK };
        // the exporter started 60 days before the export, so the uptime has wrapped once; the flow began 5 s before
        let system_init_ms = CLOCK.export_ms - 60 * 86_400_000;
        let uptime_ms = (60 * 86_400_000_i64 - 5_000) as u32;
        let clock = ipfix.with_system_init(Some(system_init_ms));
        assert_eq!(TimeForm::Uptime.to_ms(uptime_ms.into(), &clock), Some(CLOCK.export_ms - 5_000));
        assert_eq!(CLOCK.with_system_init(Some(system_init_ms)), CLOCK);
        assert_eq!(ipfix.with_system_init(None), ipfix);
    }

    /// An uptime of 34.7 days at the export, 100 ms after the end of a flow that began 1 s after the exporter.
    #[test]
    fn a_start_by_uptime_is_before_the_end() {
        let clock = MessageClock { uptime_ms: Some(3_000_000_100), ..CLOCK };
        let start = |first: u32, last: u32| {
            let [start, end] =
                [first, last].map(|uptime| TimeForm::Uptime.to_ms(uptime.into(), &clock).expect("a time"));
            (clock.start_by_uptimes(start, end) - CLOCK.export_ms, end - CLOCK.export_ms)
        };
        assert_eq!(start(1_000, 3_000_000_000), (-2_999_999_100, -100));
        assert_eq!(start(2_999_999_000, 3_000_000_000), (-1_100, -100));
        // a start after the end that has not wrapped, also behind the header, is what the exporter said
        assert_eq!(start(3_000_000_000, 2_999_999_000), (-100, -1_100));
        assert_eq!(start(3_000_000_110, 3_000_000_105), (10, 5));
    }

    #[test]
    fn uptimes_of_64_bits() {
        // since 1970, or an uptime whose lower half is what the header's counts
        check(TimeForm::Uptime, 1_699_999_999_000, 1_699_999_999_000);
        check(TimeForm::Uptime, (3 << 32) + 4_000, 1_699_999_999_000);
    }

    #[test]
    fn times_are_unsigned() {
        for form in [TimeForm::Millis, TimeForm::Seconds, TimeForm::Uptime] {
            check(form, 1 << 63, i64::MAX);
            check(form, u64::MAX, i64::MAX);
        }
    }

    #[test]
    fn durations_are_of_whole_milliseconds() {
        assert_eq!(DurationForm::Millis.to_ms(1_500), 1_500);
        assert_eq!(DurationForm::Micros.to_ms(1_500_999), 1_500);
        assert_eq!(DurationForm::Micros.to_ms(999), 0);
        assert_eq!(DurationForm::Millis.to_ms(u64::MAX), i64::MAX);
    }

    #[test]
    fn uptime_wraps() {
        // the flow began 3 s before the counter wrapped, 8 s before export
        check(TimeForm::Uptime, u64::from(u32::MAX) - 2_999, 1_699_999_992_000);
        // and one that ends 10 ms after the header was written
        check(TimeForm::Uptime, 5_010, 1_700_000_000_010);
        let ipfix = MessageClock { uptime_ms: None, ..CLOCK };
        assert_eq!(TimeForm::Uptime.to_ms(1, &ipfix), None);
    }
}
