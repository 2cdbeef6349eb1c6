//! Streams of a capture within limits, whatever carries them: TCP or SCTP.
//!
//! Streams that are not known to be exports have a table of their own, and so have those that have ended or cannot be read:
//! whoever begins streams by the thousand cannot keep sessions out. Which one has to go for another is returned, since its
//! owner knows it elsewhere, too.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Most sessions at a time; the oldest is given up for another.
pub(super) const SESSIONS_MAX: usize = 1024;
/// Most streams at a time that have ended or are not read; the one that has been so for longest is forgotten for another.
pub(super) const CLOSED_MAX: usize = 1024;
/// Most streams at a time that are not known to be exports; the oldest is forgotten for another.
pub(super) const UNDECIDED_MAX: usize = 1024;
/// Most octets of all streams that wait for others; the oldest stream that has some loses them.
pub(super) const OCTETS_MAX: usize = 64 << 20;

/// What is known of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No message has come.
    Undecided,
    Session,
    /// It cannot be read, or is not to be.
    Ignored,
    Ended,
}

/// What may hold octets that wait for others.
pub(super) trait Holder {
    /// Octets held, with what it takes to hold them.
    fn octets_held(&self) -> usize;
}

/// The streams of one transport.
#[derive(Debug)]
pub(super) struct StreamTable<K, S> {
    streams: HashMap<K, Entry<S>, foldhash::fast::RandomState>,
    /// Those that are undecided, those that are sessions, and all others, the oldest first.
    undecided: BTreeMap<u64, K>,
    sessions: BTreeMap<u64, K>,
    closed: BTreeMap<u64, K>,
    /// Those that hold octets, in the order in which they lose them: undecided ones first, and then the oldest.
    holders: BTreeMap<(bool, u64), K>,
    /// The number of the next one.
    next: u64,
    octets_held: usize,
}

#[derive(Debug)]
struct Entry<S> {
    stream: S,
    state: State,
    /// Those that have their state for less long have larger numbers.
    number: u64,
}

impl<S> Entry<S> {
    /// Its place among those that hold octets.
    fn place(&self) -> (bool, u64) {
        (self.state != State::Undecided, self.number)
    }
}

impl State {
    /// Whether more of the stream is read.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Undecided | Self::Session)
    }
}

impl<K, S> Default for StreamTable<K, S> {
    fn default() -> Self {
        Self {
            streams: HashMap::default(),
            undecided: BTreeMap::new(),
            sessions: BTreeMap::new(),
            closed: BTreeMap::new(),
            holders: BTreeMap::new(),
            next: 0,
            octets_held: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, S: Holder> StreamTable<K, S> {
    /// A stream, and what is known of it.
    pub(super) fn get(&self, key: K) -> Option<(State, &S)> {
        self.streams.get(&key).map(|known| (known.state, &known.stream))
    }

    /// What is known of a stream.
    pub(super) fn state(&self, key: K) -> Option<State> {
        self.streams.get(&key).map(|known| known.state)
    }

    /// Streams that are read: sessions, and then those that are undecided, the oldest first.
    pub(super) fn keys_read(&self) -> Vec<K> {
        self.sessions.values().chain(self.undecided.values()).copied().collect()
    }

    /// Adds a stream that is not in the table and holds nothing. Returns one that is to be removed for it.
    #[must_use]
    pub(super) fn insert(&mut self, key: K, stream: S) -> Option<K> {
        let state = State::Undecided;
        self.streams.insert(key, Entry { stream, state, number: self.next });
        self.set_state(key, state)
    }

    /// Has a stream do something that may change what it holds.
    pub(super) fn work<R>(&mut self, key: K, work: impl FnOnce(&mut S) -> R) -> Option<R> {
        let known = self.streams.get_mut(&key)?;
        let held = known.stream.octets_held();
        let result = work(&mut known.stream);
        let holds = known.stream.octets_held();
        self.octets_held = self.octets_held + holds - held;
        if held == 0 && holds > 0 {
            self.holders.insert(known.place(), key);
        } else if held > 0 && holds == 0 {
            self.holders.remove(&known.place());
        }
        Some(result)
    }

    /// Gives a stream a state, and a place behind the others that have it. Returns the oldest of too many, which is to be
    /// removed.
    #[must_use]
    pub(super) fn set_state(&mut self, key: K, state: State) -> Option<K> {
        let known = self.streams.get_mut(&key)?;
        for table in [&mut self.undecided, &mut self.sessions, &mut self.closed] {
            table.remove(&known.number);
        }
        let is_holder = self.holders.remove(&known.place()).is_some();
        (known.state, known.number) = (state, self.next);
        self.next += 1;
        if is_holder {
            self.holders.insert(known.place(), key);
        }
        let (table, streams_max) = match state {
            State::Undecided => (&mut self.undecided, UNDECIDED_MAX),
            State::Session => (&mut self.sessions, SESSIONS_MAX),
            State::Ignored | State::Ended => (&mut self.closed, CLOSED_MAX),
        };
        table.insert(known.number, key);
        if table.len() <= streams_max {
            return None;
        }
        table.first_key_value().map(|(_, oldest)| *oldest)
    }

    /// Removes a stream; returns what was known of it.
    pub(super) fn remove(&mut self, key: K) -> Option<(State, S)> {
        let known = self.streams.remove(&key)?;
        self.octets_held -= known.stream.octets_held();
        self.holders.remove(&known.place());
        for table in [&mut self.undecided, &mut self.sessions, &mut self.closed] {
            table.remove(&known.number);
        }
        Some((known.state, known.stream))
    }

    /// The stream that is the next to lose its octets; `None` while no more are held than may be.
    pub(super) fn next_to_lose(&self) -> Option<K> {
        if self.octets_held <= OCTETS_MAX {
            return None;
        }
        self.holders.first_key_value().map(|(_, key)| *key)
    }
}

#[cfg(test)]
impl<K: Copy + Eq + Hash + std::fmt::Debug, S: Holder> StreamTable<K, S> {
    /// How many streams there are, and how many of them are undecided, sessions and closed.
    pub(super) fn sizes(&self) -> [usize; 4] {
        [self.streams.len(), self.undecided.len(), self.sessions.len(), self.closed.len()]
    }

    /// Octets held, with what it takes to hold them.
    pub(super) fn octets_held(&self) -> usize {
        self.octets_held
    }

    /// The streams that hold octets, in the order in which they lose them. Checks that they are found without a look at the
    /// others.
    pub(super) fn checked_holders(&self) -> Vec<K> {
        let held: usize = self.streams.values().map(|known| known.stream.octets_held()).sum();
        assert_eq!(held, self.octets_held);
        let mut holders: Vec<_> = self.streams.iter().filter(|(_, known)| known.stream.octets_held() > 0).collect();
        holders.sort_by_key(|(_, known)| known.place());
        let holders: Vec<K> = holders.into_iter().map(|(key, _)| *key).collect();
        assert_eq!(holders, self.holders.values().copied().collect::<Vec<K>>());
        holders
    }
}
