//! A line over the end of a process, and over a silence.

use super::line::Line;
use super::{Sequence, SequenceUnit};

/// Units that an exporter sends in a millisecond, at most: no larger number can be missing after a silence.
const UNITS_PER_MS_MAX: u64 = 10_000;
/// An exporter without uptimes may have been this many times as fast as before in a silence.
const FASTER_MAX: u64 = 4;

/// How fast a line goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    began_ms: i64,
    last_ms: i64,
    units: u64,
}

impl Pace {
    /// The line went on by so many units.
    #[inline]
    pub(super) fn advance(&mut self, units: u32, now_ms: i64) {
        self.units += u64::from(units);
        self.last_ms = now_ms;
    }

    /// Units that may be missing after the silence that ends now. Where uptimes show that the exporter has not started
    /// again, it is as many as any exporter sends; otherwise not many more than this one would have sent.
    pub(super) fn units_at_most(&self, now_ms: i64, have_uptimes: bool) -> u32 {
        let silence_ms = u64::try_from(now_ms.saturating_sub(self.last_ms)).unwrap_or_default();
        let most = silence_ms.saturating_mul(UNITS_PER_MS_MAX);
        let run_ms = u64::try_from(self.last_ms.saturating_sub(self.began_ms)).unwrap_or_default();
        let expected = u128::from(self.units) * u128::from(FASTER_MAX * silence_ms) / u128::from(run_ms.max(1_000));
        let units = if have_uptimes { most } else { most.min(u64::try_from(expected).unwrap_or(u64::MAX)) };
        // half of all numbers are behind
        u32::try_from(units).unwrap_or(u32::MAX).min(i32::MAX as u32)
    }
}

/// How the line in force goes on, and what is known of it elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    pub pace: Pace,
    /// The line is that of a process before this one, and nothing has come for it yet.
    pub is_resumed: bool,
    /// Where the line stood when that was last told, and when something was received before that; `None` when the exporter
    /// has begun anew since.
    told: Option<(u32, i64)>,
    /// Something has come since that was told.
    is_untold: bool,
}

impl Course {
    /// A line begins at this time, milliseconds since the epoch.
    pub(super) fn begin(&mut self, now_ms: i64) {
        self.pace = Pace { began_ms: now_ms, last_ms: now_ms, units: 0 };
        self.told = None;
    }
}

/// Where a sequence stands, for a process after this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SequencePosition {
    pub unit: SequenceUnit,
    /// Where the line stood when this was last told; `None` when it began since.
    pub first: Option<u32>,
    /// Number of the next datagram.
    pub next: u32,
    /// Whether that may be a larger one.
    pub is_least: bool,
    /// When something was received last, and since when this tells, milliseconds since the epoch.
    pub received_ms: i64,
    pub since_ms: i64,
    pub export_ms: i64,
    pub uptime_ms: Option<u32>,
}

impl Sequence {
    /// Notes that something has come. True when nothing had since it was told where the line stands.
    #[inline]
    pub(crate) fn note_untold(&mut self) -> bool {
        !std::mem::replace(&mut self.course.is_untold, true)
    }

    /// Whether something has come since it was told where the line stands; the next call says no.
    pub(crate) fn take_untold(&mut self) -> bool {
        std::mem::take(&mut self.course.is_untold)
    }

    /// Tells where the line stands; `None` when there is none, or numbers tell nothing. The next call tells how it went on
    /// from there.
    pub(crate) fn tell(&mut self) -> Option<SequencePosition> {
        let line = self.line.as_ref().filter(|_| self.unit.shows_loss())?;
        let (next, Pace { began_ms, last_ms, .. }) = (line.expected, self.course.pace);
        let told = self.course.told.replace((next, last_ms));
        Some(SequencePosition {
            unit: self.unit,
            first: told.map(|(next, _)| next),
            next,
            is_least: line.is_open(),
            received_ms: last_ms,
            since_ms: told.map_or(began_ms, |(_, told_ms)| told_ms),
            export_ms: self.newest_export_ms,
            uptime_ms: self.newest_uptime_ms,
        })
    }

    /// Goes on from where the sequence stood in a process before this one, unless something has come already.
    pub(crate) fn resume(&mut self, position: &SequencePosition) {
        let SequencePosition { unit, next, is_least, since_ms, received_ms, .. } = *position;
        if self.line.is_some() || !unit.shows_loss() {
            return;
        }
        let units = position.first.map_or(0, |first| next.wrapping_sub(first));
        self.unit = unit;
        self.line = Some(Line::resume(next, is_least));
        self.newest_export_ms = position.export_ms;
        self.newest_uptime_ms = position.uptime_ms;
        self.course = Course {
            pace: Pace { began_ms: since_ms, last_ms: received_ms, units: units.into() },
            is_resumed: true,
            told: Some((next, received_ms)),
            is_untold: false,
        };
    }
}
