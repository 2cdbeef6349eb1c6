//! A Data Set that waits, those of one message, and what they wait for.

use std::ops::Range;

use weir_wire::TemplateId;

use crate::clock::MessageClock;
use crate::domain::DomainKey;

/// A Data Set whose template has not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingSet {
    pub clock: MessageClock,
    pub body: Box<[u8]>,
    /// Running number, by which the account of sequence numbers identifies it; [`UNNUMBERED`] when a process before this one has
    /// left it on disk.
    pub number: u64,
}

/// The number of sets that no account of sequence numbers waits for.
pub(crate) const UNNUMBERED: u64 = u64::MAX;

/// Octets that a run of sets costs while it is kept, in addition to what is in it: its place in a table that is at least half full,
/// and what its template and source have.
pub(super) const OVERHEAD_OCTETS: usize = 320;

/// Most sets of a run. On disk each is by itself: so many short ones cost little more there than a long one.
const RUN_SETS_MAX: usize = 64;
/// A run of fewer octets is short: hardly any record is, and to keep it costs a hundred times as much as to read a record of
/// that length.
const SHORT_RUN_OCTETS: usize = 24;
/// Of a message so many short runs are kept whatever else is in it: Options Data Sets of a record each, of a few templates, are
/// often all that a message has.
const SHORT_RUNS: usize = 4;
/// The same where messages come in order from the first one on, and templates before their data. Nothing is around a message on such
/// a connection, so that one of four such sets has 36 octets and no more.
const SHORT_RUNS_IN_ORDER: usize = 1;
/// And one more for each of so many octets of sets that wait: a message with a set for each of many templates has long ones
/// among them.
const OCTETS_PER_SHORT_RUN: usize = 128;
/// Octets of a set before its body.
const SET_HEADER_OCTETS: usize = 4;

/// Data Sets of one message that wait for the same template, in the order in which they came. Most are of one set; an exporter
/// that sends very short ones has them kept together, since a place of its own costs a hundred times as much as such a set.
#[derive(Debug)]
pub(crate) struct SetRun {
    pub clock: MessageClock,
    /// The bodies, one behind the other.
    bodies: Box<[u8]>,
    /// Where each of them ends, but for the last.
    ends: Box<[u32]>,
    /// Number of the first.
    first: u64,
    /// Sets that were taken out.
    taken: usize,
}

impl From<WaitingSet> for SetRun {
    fn from(WaitingSet { clock, body, number }: WaitingSet) -> Self {
        Self { clock, bodies: body, ends: Box::default(), first: number, taken: 0 }
    }
}

impl SetRun {
    /// Sets that are in it.
    pub(crate) fn sets(&self) -> usize {
        self.ends.len() + 1 - self.taken
    }

    /// What it costs while it is kept.
    pub(super) fn octets(&self) -> usize {
        self.bodies.len() + size_of_val(&*self.ends) + OVERHEAD_OCTETS
    }

    /// Gives the sets running numbers from this one on.
    pub(super) fn number_from(&mut self, first: u64) {
        self.first = first;
    }

    /// The running numbers of the sets that are in it.
    pub(super) fn numbers(&self) -> Range<u64> {
        let first = self.first + self.taken as u64;
        first..first + self.sets() as u64
    }
}

/// Takes out set after set.
impl Iterator for SetRun {
    type Item = WaitingSet;

    fn next(&mut self) -> Option<WaitingSet> {
        let at = self.taken;
        if self.sets() == 0 {
            return None;
        }
        self.taken += 1;
        let body = if self.ends.is_empty() {
            std::mem::take(&mut self.bodies)
        } else {
            let end_of = |at: usize| self.ends.get(at).map_or(self.bodies.len(), |end| *end as usize);
            let start = at.checked_sub(1).map_or(0, end_of);
            self.bodies.get(start..end_of(at)).unwrap_or_default().into()
        };
        Some(WaitingSet { clock: self.clock, body, number: self.first + at as u64 })
    }
}

/// Data Sets of a message that have to wait, before they are kept. Each Template Set has them taken, so what was taken before
/// counts too: an empty one costs four octets.
#[derive(Debug)]
pub(crate) struct GatheredSets<'m> {
    sets: Vec<(TemplateId, &'m [u8])>,
    /// Octets of the sets that were taken.
    octets: usize,
    /// Short runs that were kept.
    short_kept: usize,
    /// Short runs that are kept whatever else is in the message.
    short_always: usize,
}

impl<'m> GatheredSets<'m> {
    /// None yet, of a message that came in order behind all that its session has sent, or of another one.
    pub(crate) fn of_message(is_in_order: bool) -> Self {
        let short_always = if is_in_order { SHORT_RUNS_IN_ORDER } else { SHORT_RUNS };
        Self { sets: Vec::new(), octets: 0, short_kept: 0, short_always }
    }

    /// Adds the next one, which waits for this template.
    pub(crate) fn push(&mut self, template: TemplateId, body: &'m [u8]) {
        self.sets.push((template, body));
    }

    /// Takes all of them. Those of a template are in the order in which they came. Short runs beyond those that are kept of a
    /// message are left out.
    pub(crate) fn take_runs(&mut self, clock: &MessageClock) -> GatheredRuns {
        let mut gathered = GatheredRuns::default();
        if self.sets.is_empty() {
            return gathered;
        }
        let mut sets = std::mem::take(&mut self.sets);
        // keeps the order of equal ones
        sets.sort_by_key(|(template, _)| *template);
        self.octets += sets.iter().map(|(_, body)| SET_HEADER_OCTETS + body.len()).sum::<usize>();
        let short_max = self.short_always + self.octets / OCTETS_PER_SHORT_RUN;
        let of_a_template = sets.chunk_by(|(one, _), (other, _)| one == other);
        for sets in of_a_template.flat_map(|sets| sets.chunks(RUN_SETS_MAX)) {
            let Some((template, _)) = sets.first() else { continue };
            if octets_of(sets) < SHORT_RUN_OCTETS {
                if self.short_kept >= short_max {
                    gathered.left_out += sets.len() as u64;
                    continue;
                }
                self.short_kept += 1;
            }
            gathered.runs.push((*template, run_of(sets, clock)));
        }
        gathered
    }
}

/// Data Sets of a message that have to wait, together with those of the same template.
#[derive(Debug, Default)]
pub(crate) struct GatheredRuns {
    pub runs: Vec<(TemplateId, SetRun)>,
    /// Sets that are not kept.
    pub left_out: u64,
}

fn octets_of(sets: &[(TemplateId, &[u8])]) -> usize {
    sets.iter().map(|(_, body)| body.len()).sum()
}

fn run_of(sets: &[(TemplateId, &[u8])], clock: &MessageClock) -> SetRun {
    let mut bodies: Vec<u8> = Vec::with_capacity(octets_of(sets));
    let mut ends: Vec<u32> = Vec::with_capacity(sets.len() - 1);
    for (number, (_, body)) in sets.iter().enumerate() {
        if number > 0 {
            ends.push(bodies.len() as u32);
        }
        bodies.extend_from_slice(body);
    }
    SetRun { clock: *clock, bodies: bodies.into(), ends: ends.into(), first: 0, taken: 0 }
}

/// What a set waits for: a template of an Observation Domain of a transport session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetKey {
    pub domain: DomainKey,
    pub template: TemplateId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_a_message_wait_together_and_come_out_as_they_came() {
        let clock = MessageClock { received_ms: 1, export_ms: 2, uptime_ms: None };
        let id = |id: u16| TemplateId::new(id).expect("id");
        let bodies: Vec<Vec<u8>> = (0..200_u8).map(|number| vec![number; 1 + usize::from(number % 5)]).collect();
        let mut gathered = GatheredSets::of_message(false);
        // two templates in turns, and one set of a third
        bodies.iter().zip(0..).for_each(|(body, number)| gathered.push(id(258 - number % 2), body));
        gathered.push(id(256), &[7; 9]);
        let GatheredRuns { mut runs, left_out } = gathered.take_runs(&clock);
        assert!(left_out == 0 && gathered.take_runs(&clock).runs.is_empty());
        let shape: Vec<_> = runs.iter().map(|(id, run)| (id.get(), run.sets())).collect();
        assert_eq!(shape, [(256, 1), (257, 64), (257, 36), (258, 64), (258, 36)]);
        let octets: usize = bodies.iter().map(Vec::len).sum();
        assert!(runs.iter().map(|(_, run)| run.octets()).sum::<usize>() < octets + 200 * 4 + 9 + 5 * OVERHEAD_OCTETS);
        let (_, run) = &mut runs[1];
        run.number_from(1_000);
        assert_eq!(run.next().map(|set| (set.number, set.body)), Some((1_000, bodies[1].as_slice().into())));
        assert_eq!((run.numbers(), run.sets()), (1_001..1_064, 63));
        let rest: Vec<_> = run.map(|set| (set.number, set.body.to_vec(), set.clock)).collect();
        let expected: Vec<_> = (1..64_usize).map(|at| (1_000 + at as u64, bodies[1 + 2 * at].clone(), clock)).collect();
        assert_eq!(rest, expected);
        assert_eq!(runs.remove(0).1.map(|set| set.body.to_vec()).collect::<Vec<_>>(), [vec![7_u8; 9]]);
    }

    #[test]
    fn of_many_short_runs_of_a_message_few_are_kept() {
        let clock = MessageClock { received_ms: 1, export_ms: 2, uptime_ms: None };
        let kept_of = |is_in_order: bool, sets: &[(u16, usize)]| {
            let bodies: Vec<(u16, Vec<u8>)> = sets.iter().map(|(id, octets)| (*id, vec![0; *octets])).collect();
            let mut gathered = GatheredSets::of_message(is_in_order);
            for (id, body) in &bodies {
                gathered.push(TemplateId::new(*id).expect("id"), body);
            }
            let GatheredRuns { runs, left_out } = gathered.take_runs(&clock);
            (runs.iter().map(|(_, run)| run.sets()).sum::<usize>(), left_out)
        };
        let kept = |sets: &[(u16, usize)]| kept_of(false, sets);
        assert_eq!(kept(&[(256, 12), (257, 12), (258, 12), (259, 1)]), (4, 0), "four are always kept");
        assert_eq!(kept(&[(256, 1), (257, 1), (258, 1), (259, 1), (260, 1), (260, 2)]), (4, 2));
        assert_eq!(kept(&[(256, 24), (257, 24), (258, 23), (259, 24)]), (4, 0), "these are not short");
        let of_each = |octets: usize| (0..280_u16).map(|number| (256 + number, octets)).collect::<Vec<_>>();
        assert_eq!(kept(&of_each(1)), (4 + 1_400 / 128, 280 - 14));
        assert_eq!(kept(&of_each(24)), (280, 0));
        // of one template they are one run
        assert_eq!(kept(&[(256, 1); 24]), (24, 0));
        let next_to_a_long_one = [&[(256, 1_000)][..], &of_each(1)[1..9]].concat();
        assert_eq!(kept(&next_to_a_long_one), (9, 0), "next to longer ones there may be some");
        let four = [(256, 12), (257, 12), (258, 12), (259, 24)];
        assert_eq!(kept_of(true, &four), (2, 2), "one, and what is not short");
        assert_eq!(kept_of(true, &next_to_a_long_one), (9, 0));
        assert_eq!(kept(&four), (4, 0));
    }

    #[test]
    fn short_runs_count_for_the_message_however_often_they_are_taken() {
        let clock = MessageClock { received_ms: 1, export_ms: 2, uptime_ms: None };
        let mut gathered = GatheredSets::of_message(false);
        let (mut kept, mut left_out) = (0, 0);
        for number in 0..155_u16 {
            gathered.push(TemplateId::new(256 + number).expect("id"), &[1]);
            let taken = gathered.take_runs(&clock);
            kept += taken.runs.len();
            left_out += taken.left_out;
        }
        assert_eq!((kept, left_out), (4 + 155 * 5 / 128, 155 - 10));
    }
}
