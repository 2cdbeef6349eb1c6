//! A line over the end of a process, and over a silence.

use super::line::Line;
use super::{Sequence, SequenceUnit};

/// Units that an exporter sends in a millisecond, at most: no larger number can be missing after a silence.
const UNITS_PER_MS_MAX: u64 = 10_000;
/// Numbers from here on are behind.
const AHEAD_MAX: u32 = i32::MAX as u32;
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
        self.units = self.units.saturating_add(units.into());
        self.last_ms = now_ms;
    }

    /// Units that may be missing after the silence that ends now. Where it `is_sure` that the exporter has not started again,
    /// it is as many as any exporter sends; otherwise not many more than this one would have sent. After a silence in which
    /// the numbers may have gone round, nothing is known.
    pub(super) fn units_at_most(&self, now_ms: i64, is_sure: bool) -> u32 {
        let silence_ms = u64::try_from(now_ms.saturating_sub(self.last_ms)).unwrap_or_default();
        let run_ms = u64::try_from(self.last_ms.saturating_sub(self.began_ms)).unwrap_or_default().max(1_000);
        let sent = u128::from(self.units) * u128::from(silence_ms) / u128::from(run_ms);
        if sent > u128::from(AHEAD_MAX) {
            return 0;
        }
        let most = u128::from(silence_ms) * u128::from(UNITS_PER_MS_MAX);
        let units = if is_sure { most } else { most.min(sent * u128::from(FASTER_MAX)) };
        units.min(AHEAD_MAX.into()) as u32
    }
}

/// How the line in force goes on, and what is known of it elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    pub pace: Pace,
    /// The line is that of a process before this one, and nothing has come for it yet.
    pub is_resumed: bool,
    /// `None` when the exporter has begun anew since anything was told.
    told: Option<LastRow>,
    /// Something has come since that was told.
    is_untold: bool,
}

/// What was told last.
#[derive(Debug, Clone, Copy)]
struct LastRow {
    /// Where the line stood.
    next: u32,
    /// When something was received before that.
    received_ms: i64,
    /// Units of the line until then.
    units: u64,
}

impl Course {
    /// A line begins at this time, milliseconds since the epoch.
    pub(super) fn begin(&mut self, now_ms: i64) {
        self.pace = Pace { began_ms: now_ms, last_ms: now_ms, units: 0 };
        self.told = None;
        self.is_resumed = false;
    }

    /// Numbers say nothing any more.
    pub(super) fn ended(self) -> Self {
        Self { is_resumed: false, ..self }
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
    /// How far the numbers went.
    pub units: u64,
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

    /// Tells where the line stands; `None` when there is none. The next call tells how it went on from there. That numbers tell
    /// nothing any more is told once.
    pub(crate) fn tell(&mut self) -> Option<SequencePosition> {
        let line = self.line.as_ref()?;
        let (next, Pace { began_ms, last_ms, units }) = (line.expected, self.course.pace);
        let told = self.course.told;
        let shows_loss = self.unit.shows_loss();
        if !shows_loss && told.is_none() {
            return None;
        }
        self.course.told = shows_loss.then_some(LastRow { next, received_ms: last_ms, units });
        Some(SequencePosition {
            unit: self.unit,
            first: told.filter(|_| shows_loss).map(|told| told.next),
            next,
            units: units - told.map_or(0, |told| told.units.min(units)),
            is_least: line.is_open(),
            received_ms: last_ms,
            since_ms: told.map_or(began_ms, |told| told.received_ms),
            export_ms: self.newest_export_ms,
            uptime_ms: self.newest_uptime_ms,
        })
    }

    /// Goes on from where the sequence stood in a process before this one, unless something has come already.
    ///
    /// What waited there for its template is gone with that process, so that nothing stays undecided: records that could not be
    /// counted count as lost.
    pub(crate) fn resume(&mut self, position: &SequencePosition) {
        let SequencePosition { unit, next, units, since_ms, received_ms, .. } = *position;
        if self.line.is_some() || !unit.shows_loss() {
            return;
        }
        self.unit = unit;
        self.line = Some(Line::resume(next));
        self.newest_export_ms = position.export_ms;
        self.newest_uptime_ms = position.uptime_ms;
        self.course = Course {
            pace: Pace { began_ms: since_ms, last_ms: received_ms, units },
            is_resumed: true,
            told: Some(LastRow { next, received_ms, units }),
            is_untold: false,
        };
    }

    /// What was resumed, when nothing has come for it.
    pub(crate) fn unheard(&self) -> Option<SequencePosition> {
        let line = self.line.as_ref().filter(|_| self.course.is_resumed)?;
        let Pace { began_ms, last_ms, units } = self.course.pace;
        Some(SequencePosition {
            unit: self.unit,
            first: None,
            next: line.expected,
            units,
            is_least: false,
            received_ms: last_ms,
            since_ms: began_ms,
            export_ms: self.newest_export_ms,
            uptime_ms: self.newest_uptime_ms,
        })
    }
}
