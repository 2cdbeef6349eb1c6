//! Timestamps of capture files, and what unit they are in.

const MICROS_PER_SEC: i64 = 1_000_000;

/// Which part of a second a timestamp counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros,
    /// This many to the microsecond.
    Finer(u64),
    /// This many microseconds.
    Coarser(u64),
    /// The power of two that goes into a second.
    Binary(u32),
}

/// What timestamps of one interface mean (pcapng section 4.2: `if_tsresol`, `if_tsoffset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    unit: Unit,
    offset_us: i64,
}

impl Clock {
    /// Microseconds since the epoch, which is what pcap and pcapng have unless they say otherwise.
    pub(super) const MICROS: Self = Self { unit: Unit::Micros, offset_us: 0 };
    /// Nanoseconds since the epoch.
    pub(super) const NANOS: Self = Self { unit: Unit::Finer(1000), offset_us: 0 };

    /// With the resolution that the octet of `if_tsresol` says: a negative power of ten, or of two when the highest bit
    /// is set.
    #[must_use]
    pub(super) fn with_resolution(self, octet: u8) -> Self {
        let exponent = u32::from(octet & 0x7f);
        let power = |exponent| 10_u64.checked_pow(exponent).unwrap_or(u64::MAX);
        let unit = match exponent {
            _ if octet & 0x80 != 0 => Unit::Binary(exponent),
            6 => Unit::Micros,
            7.. => Unit::Finer(power(exponent - 6)),
            _ => Unit::Coarser(power(6 - exponent)),
        };
        Self { unit, ..self }
    }

    /// With this many seconds to be added (`if_tsoffset`).
    #[must_use]
    pub(super) fn with_offset_secs(self, secs: i64) -> Self {
        Self { offset_us: secs.saturating_mul(MICROS_PER_SEC), ..self }
    }

    /// Microseconds since the epoch of a 64-bit timestamp; finer times are cut off, and a time that is out of all range
    /// is the last there is.
    #[inline]
    pub(super) fn micros(self, ticks: u64) -> i64 {
        let micros = match self.unit {
            Unit::Micros => ticks,
            // by far the most common divisor, and a constant one is much cheaper
            Unit::Finer(1000) => ticks / 1000,
            Unit::Finer(ticks_per_micro) => ticks / ticks_per_micro,
            Unit::Coarser(micros_per_tick) => ticks.saturating_mul(micros_per_tick),
            Unit::Binary(exponent) => ((u128::from(ticks) * MICROS_PER_SEC as u128) >> exponent) as u64,
        };
        i64::try_from(micros).unwrap_or(i64::MAX).saturating_add(self.offset_us)
    }

    /// Microseconds since the epoch of seconds and a part of a second, as pcap has them.
    #[inline]
    pub(super) fn micros_of_parts(self, secs: u32, part: u32) -> i64 {
        i64::from(secs) * MICROS_PER_SEC + self.micros(u64::from(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked out from the draft: value, `if_tsresol`, `if_tsoffset`, microseconds.
    #[test]
    fn ticks_of_any_resolution_become_microseconds() {
        for (ticks, resolution, offset_secs, micros) in [
            (1_700_000_000_123_456, 6, 0, 1_700_000_000_123_456),
            (1_700_000_000_123_456_789, 9, 0, 1_700_000_000_123_456),
            (1_700_000_000_123, 3, 0, 1_700_000_000_123_000),
            (1_700_000_000, 0, 0, 1_700_000_000_000_000),
            (5 << 20, 0x94, 0, 5_000_000),
            ((5 << 20) | (1 << 19), 0x94, 0, 5_500_000),
            (7, 0x80, 0, 7_000_000),
            (1_500_000, 6, 1_000, 1_001_500_000),
            (1_500_000, 6, -1, 500_000),
            (u64::MAX, 127, 0, 0),
            (u64::MAX, 0, 0, i64::MAX),
            (u64::MAX, 6, i64::MAX, i64::MAX),
            (u64::MAX, 0xff, 0, 0),
            (0, 6, i64::MIN, i64::MIN),
        ] {
            let clock = Clock::MICROS.with_resolution(resolution).with_offset_secs(offset_secs);
            // a divisor that does not fit into 64 bits leaves one microsecond at most
            let found = clock.micros(ticks);
            assert!(
                (micros..=micros.saturating_add(i64::from(resolution == 127))).contains(&found),
                "{ticks} {resolution:#x}: {found}"
            );
        }
    }

    #[test]
    fn parts_of_seconds_may_be_nanoseconds() {
        assert_eq!(Clock::MICROS.micros_of_parts(3, 999_999), 3_999_999);
        assert_eq!(Clock::NANOS.micros_of_parts(u32::MAX, 999_999_999), 4_294_967_295_999_999);
    }
}
