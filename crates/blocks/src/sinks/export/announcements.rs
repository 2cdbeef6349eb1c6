//! Templates and options of an exporter, for collectors that get them at different times.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_export::Datagram;

/// A message to be sent once or several times.
#[derive(Debug)]
pub(super) struct Message {
    octets: Box<[u8]>,
    pub flows: u32,
    records: u32,
    /// Number of announcements that must have been sent before it.
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

/// Everything that a collector needs to understand the flows of an exporter. Each session asks for the announcements that
/// it has not sent yet; a new session has sent none.
#[derive(Debug, Default)]
pub(super) struct Announcements(Mutex<SentAnnouncements>);

#[derive(Debug, Default)]
struct SentAnnouncements {
    /// For sessions that received fewer than `full_count`: all announcements in force, without those that later ones replaced.
    full: Vec<Arc<Message>>,
    full_count: u64,
    /// Announcements after the first `full_count`.
    since: Vec<Arc<Message>>,
}

impl Announcements {
    fn lock(&self) -> MutexGuard<'_, SentAnnouncements> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. Returns how many there are.
    pub(super) fn push(&self, datagram: Datagram<'_>) -> u64 {
        let mut sent = self.lock();
        sent.since.push(Arc::new(Message::new(datagram, 0)));
        sent.count()
    }

    /// The announcements that a session lacks after it has sent `count` of them, and how many there are.
    pub(super) fn after(&self, count: u64) -> (Vec<Arc<Message>>, u64) {
        let sent = self.lock();
        let messages = match count.checked_sub(sent.full_count) {
            Some(skipped) => sent.since.iter().skip(skipped as usize).cloned().collect(),
            None => sent.full.iter().chain(&sent.since).cloned().collect(),
        };
        (messages, sent.count())
    }

    /// Replaces the first `count` announcements by `messages`, which are all that are in force. Sessions that have sent as
    /// many get only those that came after them.
    pub(super) fn replace(&self, messages: Vec<Message>, count: u64) {
        let mut sent = self.lock();
        let skipped = count.saturating_sub(sent.full_count).min(sent.since.len() as u64);
        sent.since.drain(..skipped as usize);
        sent.full_count += skipped;
        sent.full = messages.into_iter().map(Arc::new).collect();
    }
}

impl SentAnnouncements {
    fn count(&self) -> u64 {
        self.full_count + self.since.len() as u64
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
