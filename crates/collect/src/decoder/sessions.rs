//! Sessions that end: connections are closed, files are read to their end.
//!
//! What is known of a session is forgotten when it ends (RFC 7011 section 8.1), and its place in the table of domains
//! is given to another. The place is only free when nothing refers to it any more: sets that were released but not
//! decoded, and counts that are not in the books. Both are gone after a delivery was taken, so that is when places
//! become vacant.

use std::collections::{HashMap, HashSet};

use crate::session::{Session, Transport};

/// Places of the domains of a session.
type Places = HashSet<u32, foldhash::fast::RandomState>;

/// Which domains belong to sessions that can end, and which places have become free.
#[derive(Debug, Default)]
pub(super) struct SessionDomains {
    sessions: HashMap<Session, Places, foldhash::fast::RandomState>,
    /// A domain that was removed last: mostly the next one is of the same session and gets its place, so that nothing changes.
    removed: Option<(Session, u32)>,
    /// Domains of ended sessions, still referred to.
    ended: Vec<u32>,
    vacant: Vec<u32>,
}

impl SessionDomains {
    /// Adds a domain of a session.
    pub(super) fn insert(&mut self, session: Session, index: u32) {
        // the end of a session of plain UDP cannot be seen
        if session.transport == Transport::Udp {
            return;
        }
        if self.removed == Some((session, index)) {
            self.removed = None;
            return;
        }
        self.sessions.entry(session).or_default().insert(index);
    }

    /// Removes a domain that was forgotten before its session has ended.
    pub(super) fn remove(&mut self, session: Session, index: u32) {
        if session.transport != Transport::Udp {
            self.remove_last();
            self.removed = Some((session, index));
        }
    }

    fn remove_last(&mut self) {
        if let Some((session, index)) = self.removed.take()
            && let Some(indices) = self.sessions.get_mut(&session)
        {
            indices.remove(&index);
        }
    }

    /// Ends a session. Returns its domains.
    pub(super) fn end(&mut self, session: Session) -> Vec<u32> {
        self.remove_last();
        let mut indices: Vec<u32> = self.sessions.remove(&session).unwrap_or_default().into_iter().collect();
        indices.sort_unstable();
        self.ended.extend(&indices);
        indices
    }

    /// Whether there are domains of ended sessions.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Makes the places of ended sessions vacant. Returns them.
    pub(super) fn vacate(&mut self) -> Vec<u32> {
        let ended = std::mem::take(&mut self.ended);
        self.vacant.extend(&ended);
        ended
    }

    /// A place that can be used again.
    pub(super) fn take_vacant(&mut self) -> Option<u32> {
        self.vacant.pop()
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.sessions.len(), self.vacant.len())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn places_become_vacant_after_the_end_and_not_before() {
        let source = SocketAddr::from(([192, 0, 2, 1], 4739));
        let connection = Session { transport: Transport::Tcp, source };
        let mut sessions = SessionDomains::default();
        sessions.insert(connection, 1);
        sessions.insert(connection, 2);
        sessions.insert(connection, 3);
        sessions.insert(Session::udp(source), 4);
        sessions.remove(connection, 2);
        assert_eq!(sessions.end(Session::udp(source)), [0; 0]);
        assert_eq!(sessions.end(connection), [1, 3]);
        assert_eq!((sessions.take_vacant(), sessions.has_ended()), (None, true));
        assert_eq!(sessions.vacate(), [1, 3]);
        assert_eq!([sessions.take_vacant(), sessions.take_vacant(), sessions.take_vacant()], [Some(3), Some(1), None]);
    }

    #[test]
    fn the_place_of_a_domain_that_is_forgotten_is_that_of_the_one_that_gets_it() {
        let source = SocketAddr::from(([192, 0, 2, 1], 4739));
        let [one, other] = [Transport::Tcp, Transport::Tls].map(|transport| Session { transport, source });
        let mut sessions = SessionDomains::default();
        (1..=3).for_each(|place| sessions.insert(one, place));
        for (place, next) in [(1, one), (2, other), (3, Session::udp(source))] {
            sessions.remove(one, place);
            sessions.insert(next, place);
        }
        assert_eq!((sessions.end(one), sessions.end(other)), (vec![1], vec![2]));
        // a session that begins again, with a place that it had
        sessions.insert(one, 1);
        assert_eq!(sessions.end(one), [1]);
    }
}
