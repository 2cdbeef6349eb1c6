//! Sequence numbers: what is missing, what came late, what came twice.
//!
//! What is counted differs: NetFlow v5 counts flows, NetFlow v9 datagrams (RFC 3954 section 5.1), IPFIX data records
//! (RFC 7011 section 3.1), sFlow datagrams and samples. In all of them the number in a header lets the next one be
//! predicted, so one account serves all.
//!
//! A number as expected goes on with a [`Line`]. One ahead opens a gap, one behind must fill one: then `lost - late`
//! is exact, however datagrams overtake one another. What neither goes on nor fills is a stray. It begins a second line
//! next to the first, and when another datagram goes on with that one, the exporter has started again or much was lost;
//! a single odd datagram changes nothing. Where headers have the exporter's uptime, a restart needs no such proof.
//!
//! A line goes on where that of a process before this one ended, when somebody remembers: see [`SequencePosition`].
//!
//! What cannot be known: what was lost before the first datagram or after the last one, of the exporter and of each of
//! its starts; what came late after more gaps than are remembered; and, in IPFIX, which has no uptime, a restart
//! whose numbers go on close ahead of where they were.

mod duplicates;
mod line;
mod resume;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::VecDeque;

use weir_flow::Counter;

use crate::clock::MessageClock;
pub(crate) use duplicates::{DatagramHasher, Duplicates};
use line::{GAP_SURE, Line, Placed};
pub(crate) use line::{GAPS_MAX, Gap};
use resume::Course;
pub(crate) use resume::SequencePosition;
pub use unit::SequenceUnit;
use unit::{RULE_COUNT, Steps};

/// A jump ahead by more than this is taken for a restart of the exporter, not for loss, unless time and uptime say that
/// so much may be missing: see [`resume`].
const GAP_MAX: u32 = 1 << 20;
/// Datagrams with records that wait for their template and whose number of units will be known then.
const WAITING_MAX: usize = 65_536;
/// An uptime that went back by less than this, in milliseconds, may be that of a datagram that came late.
const UPTIME_BACK_MS: u32 = 1_000;
/// The exporter's start moves by this much, in milliseconds, when it starts again, and less when its clock is set.
const START_MOVES_MS: i64 = 5_000;
/// The uptime of 32 bits wraps after this many milliseconds.
const UPTIME_WRAP_MS: i64 = 1 << 32;

/// A datagram, as far as sequence numbers are concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The number in the header.
    pub sequence: u32,
    /// Data Records known to be in it.
    pub records: u32,
    /// The same with Template Records.
    pub all_records: u32,
    /// False when some records could not be counted.
    pub complete: bool,
    /// When it was received, milliseconds since the epoch.
    pub received_ms: i64,
    /// Time of export by the exporter's clock, milliseconds since the epoch.
    pub export_ms: i64,
    /// Uptime of the exporter, where the header has it.
    pub uptime_ms: Option<u32>,
}

impl Arrival {
    /// A message with this number and clock. `records` are Data Records, and Data and Template Records.
    pub(crate) fn of_message(sequence: u32, clock: &MessageClock, records: [u32; 2], complete: bool) -> Self {
        let MessageClock { received_ms, export_ms, uptime_ms } = *clock;
        let [records, all_records] = records;
        Self { sequence, records, all_records, complete, received_ms, export_ms, uptime_ms }
    }
}

/// What a datagram's number changed in the account. Units are those of [`Sequence::unit`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Units found missing.
    pub lost: u32,
    /// Those of them that were missed before this process began.
    pub lost_down: u32,
    /// Units that had been counted as lost, and came.
    pub late: u32,
    /// What had been counted as lost by a rule that proved wrong, since it last held, to be taken back.
    pub taken_back: u64,
    /// Whether a later datagram had come before.
    pub reordered: bool,
    /// Whether the exporter has started again.
    pub reset: bool,
    /// Whether the number shows nothing.
    pub unsequenced: bool,
}

/// A line that strays began.
#[derive(Debug, Clone)]
struct Candidate {
    line: Line,
    outcome: Outcome,
    /// Datagrams on it since the last one on the line in force.
    run: u32,
    newest_export_ms: i64,
}

/// A datagram of which sets wait for their template.
#[derive(Debug, Clone, Copy)]
struct WaitingDatagram {
    /// Number of the first set, see [`crate::waiting::WaitingSets::next_number`].
    first: u64,
    /// Number after the last one.
    end: u64,
    /// Sets not decoded yet.
    left: u64,
    known_end: u32,
    more: u32,
    exact: bool,
}

/// The sequence of one Observation Domain.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    standard: SequenceUnit,
    unit: SequenceUnit,
    /// What they were thought to count before; [`Outcome::taken_back`] is in this unit.
    unit_before: SequenceUnit,
    steps: Steps,
    line: Option<Line>,
    candidate: Option<Box<Candidate>>,
    newest_export_ms: i64,
    newest_uptime_ms: Option<u32>,
    course: Course,
    /// Lost less late, as counted by the rule in force since it last held against each other one, see
    /// [`Steps::holds_against`]: what is taken back where that replaces it.
    doubtful: [u64; RULE_COUNT],
    waiting: VecDeque<WaitingDatagram>,
    /// Datagrams without a place in the line that was in force.
    pub strays: u64,
    /// Strays that went on with one another while the line in force went on as well.
    pub interleaved: u64,
}

impl Sequence {
    /// A sequence that counts what its protocol says.
    pub(crate) fn new(standard: SequenceUnit) -> Self {
        Self {
            standard,
            unit: standard,
            unit_before: standard,
            steps: Steps::default(),
            line: None,
            candidate: None,
            newest_export_ms: i64::MIN,
            newest_uptime_ms: None,
            course: Course::default(),
            doubtful: [0; RULE_COUNT],
            waiting: VecDeque::new(),
            strays: 0,
            interleaved: 0,
        }
    }

    /// What the numbers count by what was seen of them.
    pub(crate) fn unit(&self) -> SequenceUnit {
        self.unit
    }

    /// What the standard says that they count.
    pub(crate) fn standard(&self) -> SequenceUnit {
        self.standard
    }

    /// Takes the next datagram in the order of arrival.
    pub(crate) fn observe(&mut self, arrival: &Arrival) -> Outcome {
        self.steps.look(arrival, self.unit);
        let rule = self.steps.rule(self.standard, self.unit);
        if rule != self.unit {
            return self.change_rule(rule, arrival);
        }
        for (doubtful, holds) in self.doubtful.iter_mut().zip(self.steps.holds_against()) {
            if holds {
                *doubtful = 0;
            }
        }
        if !self.unit.shows_loss() {
            return Outcome { unsequenced: true, ..Outcome::default() };
        }
        let was_resumed = self.course.is_resumed;
        let mut outcome = self.place(&self.by_its_first(arrival));
        if was_resumed && !self.course.is_resumed {
            outcome.lost_down = outcome.lost;
        }
        self.count_missing(outcome.lost, outcome.late);
        outcome
    }

    fn count_missing(&mut self, lost: u32, late: u32) {
        for doubtful in &mut self.doubtful {
            *doubtful = (*doubtful + u64::from(lost)).saturating_sub(u64::from(late));
        }
    }

    /// Begins anew with the units that the exporter really counts. What was counted as lost since the rule last held was not.
    fn change_rule(&mut self, rule: SequenceUnit, arrival: &Arrival) -> Outcome {
        self.unit_before = std::mem::replace(&mut self.unit, rule);
        self.candidate = None;
        self.waiting.clear();
        let against = rule.index().or(self.unit_before.index());
        let taken_back = against.map_or(0, |against| self.doubtful[against]);
        self.doubtful = [0; RULE_COUNT];
        self.steps.forget_latest();
        let course = self.course.clone();
        self.begin(&self.by_its_first(arrival));
        if !rule.shows_loss() {
            // that is still to be told
            self.course = course.ended();
        }
        Outcome { taken_back, unsequenced: !rule.shows_loss(), ..Outcome::default() }
    }

    fn begin(&mut self, arrival: &Arrival) {
        let (units, complete) = self.units(arrival);
        self.line = Some(Line::begin(arrival.sequence, units, complete));
        self.candidate = None;
        self.course.begin(arrival.received_ms);
        self.newest_export_ms = arrival.export_ms;
        self.newest_uptime_ms = arrival.uptime_ms;
    }

    /// The datagram under the number of its first unit. Where numbers are those of the last, a message that cannot be counted
    /// is taken to have all that is missing before its end.
    fn by_its_first(&self, arrival: &Arrival) -> Arrival {
        if self.unit != SequenceUnit::RecordsThrough {
            return *arrival;
        }
        let known = arrival.sequence.wrapping_sub(arrival.records);
        let expected = self.line.as_ref().map(|line| line.expected);
        let after =
            expected.filter(|expected| !arrival.complete && arrival.sequence.wrapping_sub(*expected) <= GAP_SURE);
        let sequence = after.unwrap_or(known);
        Arrival { sequence, records: arrival.sequence.wrapping_sub(sequence), complete: true, ..*arrival }
    }

    fn units(&self, arrival: &Arrival) -> (u32, bool) {
        (self.unit.of(arrival), arrival.complete || self.unit == SequenceUnit::Datagrams)
    }

    fn place(&mut self, arrival: &Arrival) -> Outcome {
        let (units, complete) = self.units(arrival);
        let can_be_late = arrival.export_ms <= self.newest_export_ms;
        let restarted = self.has_restarted(arrival);
        let Some(line) = &mut self.line else {
            self.begin(arrival);
            return Outcome::default();
        };
        let ahead = line.ahead(arrival.sequence);
        if ahead != 0 && restarted {
            self.begin(arrival);
            return Outcome { reset: true, ..Outcome::default() };
        }
        let placed = line.take(arrival.sequence, units, complete, can_be_late);
        let Some(placed) = placed else { return self.stray(arrival) };
        if !placed.reordered {
            self.course.is_resumed = false;
            self.course.pace.advance(ahead as u32 + units, arrival.received_ms);
            self.newest_export_ms = self.newest_export_ms.max(arrival.export_ms);
            self.newest_uptime_ms = arrival.uptime_ms;
        }
        if let Some(candidate) = &mut self.candidate {
            candidate.run = 0;
        }
        Outcome { lost: placed.lost, late: placed.late, reordered: placed.reordered, ..Outcome::default() }
    }

    /// How far the exporter's start has moved by the uptimes, and how far the uptime went back, in milliseconds; `None`
    /// without uptimes. A wrap of the uptime moves no start.
    fn moved_ms(&self, arrival: &Arrival) -> Option<[i64; 2]> {
        let (before_ms, now_ms) = self.newest_uptime_ms.zip(arrival.uptime_ms)?;
        let back_ms = i64::from(before_ms) - i64::from(now_ms);
        let moved_ms = arrival.export_ms.saturating_sub(self.newest_export_ms).saturating_add(back_ms);
        // to the nearest multiple of a wrap
        let moved_ms = moved_ms.saturating_add(UPTIME_WRAP_MS / 2).rem_euclid(UPTIME_WRAP_MS) - UPTIME_WRAP_MS / 2;
        Some([moved_ms, back_ms])
    }

    /// Whether the uptime shows that the exporter has started again. It also goes back when a datagram comes late, when
    /// it wraps, and seems to when the clock is set: then the exporter's start stays where it was.
    fn has_restarted(&self, arrival: &Arrival) -> bool {
        self.moved_ms(arrival)
            .is_some_and(|[moved_ms, back_ms]| back_ms > i64::from(UPTIME_BACK_MS) && moved_ms > START_MOVES_MS)
    }

    /// Takes a datagram that the line in force has no place for.
    fn stray(&mut self, arrival: &Arrival) -> Outcome {
        self.strays += 1;
        self.steps.note_astray();
        let (units, complete) = self.units(arrival);
        let placed = self.candidate.as_mut().and_then(|candidate| {
            let placed = candidate.line.take(arrival.sequence, units, complete, true);
            placed.map(|placed| (placed, &mut **candidate))
        });
        let Some((placed, candidate)) = placed else {
            let line = Line::begin(arrival.sequence, units, complete);
            self.candidate = Some(Box::new(Candidate {
                line,
                outcome: Outcome::default(),
                run: 1,
                newest_export_ms: arrival.export_ms,
            }));
            // nobody listened meanwhile, so that much is missing was to be expected
            let is_plausible = self.course.is_resumed && self.may_be_missing(arrival.sequence, arrival);
            return if is_plausible { self.confirm(arrival) } else { Outcome::default() };
        };
        candidate.newest_export_ms = candidate.newest_export_ms.max(arrival.export_ms);
        candidate.outcome.lost += placed.lost;
        candidate.outcome.late += placed.late;
        candidate.run += 1;
        if candidate.run < 2 {
            self.interleaved += 1;
            return Outcome { reordered: placed.reordered, ..Outcome::default() };
        }
        Outcome { reordered: placed.reordered, ..self.confirm(arrival) }
    }

    /// The strays go on with one another: their line is the one in force now.
    fn confirm(&mut self, arrival: &Arrival) -> Outcome {
        let Some(candidate) = self.candidate.take() else { return Outcome::default() };
        let is_loss = self.may_be_missing(candidate.line.first, arrival);
        let Some(line) = &mut self.line else { return Outcome::default() };
        let Candidate { line: other, mut outcome, newest_export_ms, .. } = *candidate;
        if is_loss {
            let missing = other.first.wrapping_sub(line.expected);
            outcome.lost += line.join(other);
            self.course.is_resumed = false;
            self.course.pace.advance(missing, arrival.received_ms);
        } else {
            *line = other;
            outcome.reset = true;
            self.course.begin(arrival.received_ms);
        }
        self.newest_export_ms = newest_export_ms;
        self.newest_uptime_ms = arrival.uptime_ms;
        outcome
    }

    /// Whether all up to this number may have been sent since the line went on, and have got lost.
    fn may_be_missing(&self, sequence: u32, arrival: &Arrival) -> bool {
        let moved_ms = self.moved_ms(arrival).map(|[moved_ms, _]| moved_ms);
        // one that has started again while nobody listened, or another behind the same address and port
        if moved_ms.is_some_and(|moved_ms| moved_ms.abs() > START_MOVES_MS) {
            return false;
        }
        let missing_max =
            GAP_MAX.saturating_add(self.course.pace.units_at_most(arrival.received_ms, moved_ms.is_some()));
        let ahead = self.line.as_ref().and_then(|line| u32::try_from(line.ahead(sequence)).ok());
        ahead.is_some_and(|ahead| (GAP_SURE..=missing_max).contains(&ahead))
    }

    /// What the books count of an outcome.
    pub(crate) fn counts(&self, outcome: Outcome) -> [(Counter, u64); 6] {
        let unit = if outcome.taken_back > 0 { self.unit_before } else { self.unit };
        let (lost, down, late) = match unit {
            SequenceUnit::Datagrams => (Counter::DatagramsLost, Counter::DatagramsLostDown, Counter::DatagramsLate),
            _ => (Counter::RecordsLost, Counter::RecordsLostDown, Counter::RecordsLate),
        };
        [
            (lost, u64::from(outcome.lost)),
            (down, u64::from(outcome.lost_down)),
            (late, u64::from(outcome.late) + outcome.taken_back),
            (Counter::DatagramsReordered, u64::from(outcome.reordered)),
            (Counter::SequenceResets, u64::from(outcome.reset)),
            (Counter::DatagramsUnsequenced, u64::from(outcome.unsequenced)),
        ]
    }

    /// Datagrams and ranges about which it is not decided yet whether something is missing.
    #[inline]
    pub(crate) fn unsettled(&self) -> usize {
        let lines = self.line.iter().chain(self.candidate.iter().map(|candidate| &candidate.line));
        self.waiting.len() + lines.map(Line::undecided).sum::<usize>()
    }

    /// Leaves undecided for good what is undecided now: it counts as complete.
    pub(crate) fn leave_unsettled(&mut self) {
        self.waiting = VecDeque::new();
        let lines = self.line.iter_mut().chain(self.candidate.iter_mut().map(|candidate| &mut candidate.line));
        lines.for_each(Line::leave_undecided);
    }

    /// Notes that sets of this datagram, with these numbers, wait for their template.
    pub(crate) fn sets_wait(&mut self, arrival: &Arrival, sets: std::ops::Range<u64>) {
        if matches!(self.unit, SequenceUnit::Datagrams | SequenceUnit::RecordsThrough) || sets.is_empty() {
            return;
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
        }
        let known_end = arrival.sequence.wrapping_add(self.unit.of(arrival));
        let left = sets.end - sets.start;
        self.waiting.push_back(WaitingDatagram {
            first: sets.start,
            end: sets.end,
            left,
            known_end,
            more: 0,
            exact: true,
        });
    }

    /// Takes how many records a set had that waited, `None` when they could not all be counted. Once all sets
    /// of its datagram were decoded, it is known whether something is missing after it.
    pub(crate) fn set_decoded(&mut self, number: u64, records: Option<u32>) -> Outcome {
        // a flood has the oldest dropped
        let is_first = self.waiting.front().is_none_or(|waiting| number < waiting.end);
        let at = if is_first { 0 } else { self.waiting.partition_point(|waiting| waiting.end <= number) };
        let Some(waiting) = self.waiting.get_mut(at).filter(|waiting| waiting.first <= number) else {
            return Outcome::default();
        };
        waiting.more += records.unwrap_or(0);
        waiting.exact &= records.is_some();
        waiting.left -= 1;
        if waiting.left > 0 {
            return Outcome::default();
        }
        let WaitingDatagram { known_end, more, exact, .. } = *waiting;
        self.waiting.remove(at);
        let placed = match &mut self.line {
            Some(line) if exact => line.settle(known_end, more),
            _ => Placed::default(),
        };
        self.count_missing(placed.lost, placed.late);
        Outcome { lost: placed.lost, late: placed.late, ..Outcome::default() }
    }
}
