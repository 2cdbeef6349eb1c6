//! The folder of segments and what waits in it.
//!
//! The index is in memory: the place of each set, by what it waits for. Segments are only ever appended to, and removed
//! when nothing in them waits or when their newest set has waited too long. New sets go into a segment of this
//! process; those of processes before are never appended to, so their ends need not be trusted.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::segment::{self, Segment};
use super::{Answer, Request};
use crate::Limits;
use crate::age::AgeClock;
use crate::waiting::SpoolAnswer;
use crate::waiting::set::{SetKey, UNNUMBERED, WaitingSet};
use crate::waiting::spooled::SpoolRequest;

/// A segment ends at this length.
const SEGMENT_OCTETS: u64 = 16 << 20;
/// It also ends at this part of the limits, because all of it is dropped when they are reached.
const LIMIT_PART: u64 = 16;
/// It also ends when its oldest set is older than this part of the longest time that sets wait.
const SEGMENT_AGE_PART: i64 = 16;

/// Why the folder of waiting sets cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path} for waiting data")]
pub struct SpoolError {
    /// The folder or file.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// What a spool holds, and what went wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpoolStatistics {
    /// Sets that wait.
    pub sets: usize,
    /// Octets of the files.
    pub octets: u64,
    /// Sets that could not be written, and were given back, and marks in files.
    pub writes_failed: u64,
    /// Places in files that were damaged.
    pub damaged: u64,
}

/// The decoder that is notified of what happens to a set.
type Owner = Option<u16>;

/// Where a set is.
#[derive(Debug, Clone, Copy)]
struct Place {
    segment: u64,
    offset: u32,
    /// The decoder that sent it; `None` when a process before this one has left it.
    owner: Owner,
    /// Its number, which says something to that decoder.
    number: u64,
}

/// Sets on disk. All methods may wait for it.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    limits: Limits,
    /// By number, the last one being written.
    segments: VecDeque<Segment>,
    /// Whether the last segment is of this process.
    begun: bool,
    next_number: u64,
    sets: HashMap<SetKey, VecDeque<Place>, foldhash::fast::RandomState>,
    /// Decoders.
    decoders: u16,
    buffer: Vec<u8>,
    found_damaged: u64,
    /// By which sets grow old; without it they do by the times at which they are said to have come.
    ages: Option<AgeClock>,
    /// Why a set could not be written, until one can.
    failure: Option<WriteFailure>,
    statistics: SpoolStatistics,
}

/// Why sets cannot be written.
#[derive(Debug)]
struct WriteFailure {
    /// `None` once it was asked for.
    error: Option<io::Error>,
}

impl Spool {
    /// Opens a folder for this many decoders, and finds what waits in it. What is no segment is left alone; a segment
    /// that cannot be read is renamed.
    pub fn open(folder: &Path, limits: &Limits, decoders: u16) -> Result<Self, SpoolError> {
        let failed = |source| SpoolError { path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut spool = Self {
            folder: folder.to_owned(),
            limits: limits.clone(),
            segments: VecDeque::new(),
            begun: false,
            next_number: 1,
            sets: HashMap::default(),
            decoders: decoders.max(1),
            buffer: Vec::new(),
            found_damaged: 0,
            ages: None,
            failure: None,
            statistics: SpoolStatistics::default(),
        };
        let mut paths: Vec<_> = fs::read_dir(folder)
            .map_err(failed)?
            .filter_map(Result::ok)
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
            .filter_map(|entry| Some((segment::number_of(&entry.path())?, entry.path())))
            .collect();
        paths.sort();
        for (number, path) in paths {
            spool.next_number = spool.next_number.max(number.saturating_add(1));
            spool.open_segment(number, &path);
        }
        Ok(spool)
    }

    fn open_segment(&mut self, number: u64, path: &Path) {
        if let Ok(Some((segment, found, damaged))) = Segment::open(path, number) {
            self.damage(damaged);
            for set in found {
                let place = Place { segment: number, offset: set.offset, owner: None, number: UNNUMBERED };
                self.sets.entry(set.key).or_default().push_back(place);
                self.statistics.sets += 1;
            }
            self.statistics.octets += segment.length;
            self.segments.push_back(segment);
        } else {
            self.damage(1);
            let _ = fs::rename(path, path.with_extension("damaged"));
        }
        self.remove_empty();
    }

    fn damage(&mut self, places: u64) {
        self.found_damaged += places;
        self.statistics.damaged += places;
    }

    /// From now on sets grow old by a clock that cannot be set. None of those that were found came later than now.
    pub(super) fn keep_ages(&mut self) {
        let mut ages = AgeClock::start();
        let now_ms = ages.now();
        self.segments.iter_mut().for_each(|segment| segment.came_before(now_ms));
        self.ages = Some(ages);
    }

    /// Drops what has waited too long, by that clock.
    pub(super) fn expire_now(&mut self, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        if let Some(now_ms) = self.ages.as_mut().map(AgeClock::now) {
            self.expire(now_ms, answer);
        }
    }

    /// When a set came that is put now, by that clock. One that had waited too long would not have been put: where its time says
    /// so, the system's clock was set since.
    fn came_at(&mut self, received_ms: i64) -> i64 {
        let age_ms_max = i64::from(self.limits.waiting_secs_max) * 1000;
        let Some(ages) = &mut self.ages else { return received_ms };
        let (now_ms, at_ms) = (ages.now(), ages.at(received_ms));
        if now_ms.saturating_sub(at_ms) > age_ms_max { now_ms } else { at_ms }
    }

    /// Why sets cannot be written, returned once for all that fail one after the other.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.as_mut().and_then(|failure| failure.error.take())
    }

    /// What waits and what went wrong.
    pub fn statistics(&self) -> SpoolStatistics {
        self.statistics
    }

    /// Notifies every decoder of what was found when the folder was opened.
    pub fn report_found(&mut self, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        for (&key, places) in &self.sets {
            let sets = places.iter().filter(|place| place.owner.is_none()).count() as u64;
            for decoder in (0..self.decoders).filter(|_| sets > 0) {
                answer(decoder, Answer(SpoolAnswer::Found(key, sets)));
            }
        }
        self.report_damaged(answer);
    }

    /// Does what a decoder asks. `answer` hands an answer to a decoder, and is false when that decoder has ended.
    pub fn serve(&mut self, decoder: u16, request: Request, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        match request.0 {
            SpoolRequest::Put(key, sets) => sets.for_each(|set| self.put(decoder, key, set, answer)),
            SpoolRequest::Recall(key) => self.recall(decoder, key, answer),
            SpoolRequest::Confirm => {
                answer(decoder, Answer(SpoolAnswer::Confirmed));
            }
        }
        self.report_damaged(answer);
    }

    /// Drops what has waited too long.
    pub fn expire(&mut self, now_ms: i64, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        let oldest_ms = now_ms.saturating_sub(i64::from(self.limits.waiting_secs_max) * 1000);
        while let Some(at) = self.segments.iter().position(|segment| segment.newest_ms < oldest_ms) {
            self.drop_segment(at, answer);
        }
        let age_ms_max = (i64::from(self.limits.waiting_secs_max) * 1000 / SEGMENT_AGE_PART).max(1);
        if self.segments.back().is_some_and(|last| last.oldest_ms < now_ms.saturating_sub(age_ms_max)) {
            self.begun = false;
        }
    }

    fn put(&mut self, decoder: u16, key: SetKey, set: WaitingSet, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        while !self.segments.is_empty()
            && (self.statistics.octets >= self.limits.spool_octets_max
                || self.statistics.sets >= self.limits.spool_sets_max)
        {
            self.drop_segment(0, answer);
        }
        let came_ms = self.came_at(set.clock.received_ms);
        let written = self.segment().and_then(|()| {
            let Some(segment) = self.segments.back_mut() else { return Err(io::ErrorKind::NotFound.into()) };
            let before = segment.length;
            let offset = segment.append(key, &set, came_ms, &mut self.buffer)?;
            let place = Place { segment: segment.number, offset, owner: Some(decoder), number: set.number };
            Ok((place, segment.length - before))
        });
        match written {
            Ok((place, octets)) => {
                self.statistics.octets += octets;
                self.statistics.sets += 1;
                self.sets.entry(key).or_default().push_back(place);
                self.failure = None;
            }
            Err(error) => {
                self.statistics.writes_failed += 1;
                self.failure.get_or_insert(WriteFailure { error: Some(error) });
                answer(decoder, Answer(SpoolAnswer::GivenBack(key, set)));
            }
        }
    }

    /// Makes the last segment one to be appended to.
    fn segment(&mut self) -> io::Result<()> {
        let octets_max = SEGMENT_OCTETS.min(self.limits.spool_octets_max / LIMIT_PART + 1);
        let sets_max = self.limits.spool_sets_max / LIMIT_PART as usize + 1;
        let has_room = |last: &Segment| last.length < octets_max && last.waiting < sets_max;
        if self.begun && self.segments.back().is_some_and(has_room) {
            return Ok(());
        }
        let segment = match Segment::create(&self.folder, self.next_number) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&self.folder)?;
                Segment::create(&self.folder, self.next_number)?
            }
            created => created?,
        };
        self.next_number += 1;
        self.statistics.octets += segment.length;
        self.segments.push_back(segment);
        self.begun = true;
        Ok(())
    }

    fn recall(&mut self, decoder: u16, key: SetKey, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        let mut places = self.sets.remove(&key).unwrap_or_default();
        let mut found = 0;
        while let Some(place) = places.pop_front() {
            let at = self.segments.binary_search_by_key(&place.segment, |segment| segment.number);
            let Some(segment) = at.ok().and_then(|at| self.segments.get_mut(at)) else { continue };
            let returned = match segment.read(place.offset, &mut self.buffer) {
                Some((of, set)) if of == key => {
                    Answer(SpoolAnswer::Returned(key, WaitingSet { number: place.number, ..set }))
                }
                _ => {
                    self.found_damaged += 1;
                    self.statistics.damaged += 1;
                    Answer(SpoolAnswer::Dropped(key, vec![place.number]))
                }
            };
            if !answer(decoder, returned) {
                // it has ended: the process after this one finds them
                places.push_front(place);
                break;
            }
            found += u64::from(place.owner.is_none());
            self.statistics.sets -= 1;
            // a mark that cannot be written costs a set twice after a restart; there is nothing better to do
            if segment.cross_out(place.offset).is_err() {
                self.statistics.writes_failed += 1;
            }
        }
        if !places.is_empty() {
            self.sets.insert(key, places);
        }
        for other in (0..self.decoders).filter(|&other| found > 0 && other != decoder) {
            answer(other, Answer(SpoolAnswer::TakenElsewhere(key, found)));
        }
        answer(decoder, Answer(SpoolAnswer::RecallDone(key)));
        self.remove_empty();
    }

    fn remove_empty(&mut self) {
        while let Some(at) = self.segments.iter().position(|segment| segment.waiting == 0) {
            self.remove(at);
        }
    }

    fn remove(&mut self, at: usize) {
        if at + 1 == self.segments.len() {
            self.begun = false;
        }
        if let Some(segment) = self.segments.remove(at) {
            self.statistics.octets -= segment.length;
            segment.remove();
        }
    }

    /// Drops all sets of a segment.
    fn drop_segment(&mut self, at: usize, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        let Some(number) = self.segments.get(at).map(|segment| segment.number) else { return };
        let mut dropped: HashMap<(SetKey, Owner), Vec<u64>> = HashMap::new();
        self.sets.retain(|&key, places| {
            places.retain(|place| {
                let stays = place.segment != number;
                if !stays {
                    dropped.entry((key, place.owner)).or_default().push(place.number);
                }
                stays
            });
            !places.is_empty()
        });
        self.remove(at);
        for ((key, owner), numbers) in dropped {
            let sets = numbers.len();
            self.statistics.sets -= sets;
            answer(owner.unwrap_or(0), Answer(SpoolAnswer::Dropped(key, numbers)));
            for other in (1..self.decoders).filter(|_| owner.is_none()) {
                answer(other, Answer(SpoolAnswer::TakenElsewhere(key, sets as u64)));
            }
        }
    }

    fn report_damaged(&mut self, answer: &mut dyn FnMut(u16, Answer) -> bool) {
        let damaged = std::mem::take(&mut self.found_damaged);
        if damaged > 0 {
            answer(0, Answer(SpoolAnswer::Damaged(damaged)));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::TemplateId;

    use super::*;
    use crate::clock::MessageClock;
    use crate::domain::DomainKey;
    use crate::session::Session;

    const HOUR_MS: i64 = 3_600_000;

    /// Sets that are left of one that came this long ago by the system's clock, which has jumped ahead by so much since the start.
    fn left(jumped_ms: i64, came_ms_ago: i64) -> usize {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::open(folder.path(), &Limits::default(), 1).expect("a spool");
        let session = Session::udp(([192, 0, 2, 1], 4739).into());
        let domain = DomainKey { session, version: 10, domain: 1 };
        let key = SetKey { domain, template: TemplateId::new(256).expect("id") };
        let clock = MessageClock { received_ms: crate::socket::now_ms() - came_ms_ago, export_ms: 1, uptime_ms: None };
        let set = WaitingSet { clock, body: vec![0; 100].into(), number: 1 };
        spool.ages = Some(AgeClock::after_jump(jumped_ms));
        spool.put(0, key, set, &mut |_, _| true);
        spool.expire_now(&mut |_, _| true);
        spool.statistics().sets
    }

    #[test]
    fn a_clock_that_was_set_makes_no_set_old() {
        assert_eq!(left(0, 10_000), 1);
        assert_eq!(left(-2 * HOUR_MS, 10_000), 1, "it was set back, and the set came after that");
        assert_eq!(left(-2 * HOUR_MS, -2 * HOUR_MS), 1, "or before");
        assert_eq!(left(2 * HOUR_MS, 10_000), 1, "it was set ahead");
        assert_eq!(left(2 * HOUR_MS, 2 * HOUR_MS), 1, "and the set came before that");
    }
}
