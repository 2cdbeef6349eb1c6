//! Templates and options of an exporter, for collectors that are told them at different times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_export::Datagram;

/// A message to be sent once or several times.
#[derive(Debug)]
pub(super) struct Message {
    octets: Box<[u8]>,
    pub flows: u32,
    records: u32,
    /// What must have been told before it: so many announcements.
    pub announced: u64,
}

impl Message {
    pub(super) fn new(datagram: Datagram<'_>, announced: u64) -> Self {
        Self { octets: datagram.octets.into(), flows: datagram.flows, records: datagram.records, announced }
    }

    pub(super) fn datagram(&self) -> Datagram<'_> {
        Datagram { octets: &self.octets, flows: self.flows, records: self.records }
    }

    /// Its length.
    pub(super) fn octets(&self) -> usize {
        self.octets.len()
    }
}

/// Everything that a collector needs to understand the flows of an exporter. Whoever has a session with one asks for
/// what it does not know yet; one that begins anew knows nothing.
#[derive(Debug, Default)]
pub(super) struct Announcements(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// For whoever knows less than `before`: all that was told until then, without what has been corrected since.
    whole: Vec<Arc<Message>>,
    before: u64,
    /// What was told after that.
    later: Vec<Arc<Message>>,
}

impl Announcements {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Yields how many there are.
    pub(super) fn push(&self, datagram: Datagram<'_>) -> u64 {
        let mut told = self.lock();
        told.later.push(Arc::new(Message::new(datagram, 0)));
        told.count()
    }

    /// Those that a session lacks that was told so many, and how many there are.
    pub(super) fn after(&self, known: u64) -> (Vec<Arc<Message>>, u64) {
        let told = self.lock();
        let messages = match known.checked_sub(told.before) {
            Some(skipped) => told.later.iter().skip(skipped as usize).cloned().collect(),
            None => told.whole.iter().chain(&told.later).cloned().collect(),
        };
        (messages, told.count())
    }

    /// Puts all that is in force in place of what was told before the last ones, of which `known` come first. Sessions
    /// that know those learn only what came after them.
    pub(super) fn replace(&self, messages: Vec<Message>, known: u64) {
        let mut told = self.lock();
        let skipped = known.saturating_sub(told.before).min(told.later.len() as u64);
        told.later.drain(..skipped as usize);
        told.before += skipped;
        told.whole = messages.into_iter().map(Arc::new).collect();
    }
}

impl Told {
    fn count(&self) -> u64 {
        self.before + self.later.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(octets: &[u8]) -> Datagram<'_> {
        Datagram { octets, flows: 0, records: 1 }
    }

    #[test]
    fn sessions_get_what_they_lack() {
        let announcements = Announcements::default();
        assert_eq!(announcements.push(message(&[1])), 1);
        assert_eq!(announcements.push(message(&[2])), 2);
        let octets = |known: u64| {
            let (messages, count) = announcements.after(known);
            (messages.iter().map(|message| message.octets[0]).collect::<Vec<_>>(), count)
        };
        assert_eq!([octets(0), octets(1), octets(2)], [(vec![1, 2], 2), (vec![2], 2), (vec![], 2)]);
        // 3 corrects 2
        assert_eq!(announcements.push(message(&[3])), 3);
        announcements.replace(vec![Message::new(message(&[9]), 0)], 2);
        assert_eq!([octets(0), octets(1)], [(vec![9, 3], 3), (vec![9, 3], 3)]);
        assert_eq!([octets(2), octets(3)], [(vec![3], 3), (vec![], 3)]);
    }
}
