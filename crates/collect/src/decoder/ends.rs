//! Sessions that end: connections are closed, files are read to their end.
//!
//! What a session told is forgotten when it ends (RFC 7011 section 8.1), and its place in the table of domains is given
//! to another. The place is only free when nothing refers to it any more: sets that were released but not decoded, and
//! counts that are not in the books. Both are gone after a delivery was taken, so that is when places become vacant.

use std::collections::HashMap;

use weir_flow::Counter;

use super::Decoder;
use crate::session::{Session, Standing, Transport};

/// Which domains belong to sessions that can end, and which places have become free.
#[derive(Debug, Default)]
pub(super) struct Ends {
    sessions: HashMap<Session, Vec<u32>, foldhash::fast::RandomState>,
    /// Domains of ended sessions, still referred to.
    ended: Vec<u32>,
    pub(super) vacant: Vec<u32>,
}

impl Ends {
    /// A domain of a session was seen for the first time.
    pub(super) fn began(&mut self, session: Session, index: u32) {
        // the end of a session of plain UDP is nothing that anybody sees
        if session.transport != Transport::Udp {
            self.sessions.entry(session).or_default().push(index);
        }
    }

    /// A domain was forgotten before its session has ended.
    pub(super) fn forgotten(&mut self, session: Session, index: u32) {
        if let Some(indices) = self.sessions.get_mut(&session) {
            indices.retain(|of| *of != index);
        }
    }
}

impl Decoder {
    /// Forgets what a session told: its connection was closed, or its file was read to the end. Data Sets that still
    /// wait for their Template are counted under `sets_expired`.
    pub fn end_session(&mut self, session: Session, now_ms: i64) {
        let Some(indices) = self.ends.sessions.remove(&session) else { return };
        self.now_ms = now_ms;
        self.ledger.at(now_ms, &mut self.domains);
        for index in indices {
            let expired = self.waiting.release_domain(index).len() as u64;
            if expired > 0 {
                self.count(index, Counter::SetsExpired, expired);
            }
            let domain = &mut self.domains[index as usize];
            domain.standing = Standing::Ended;
            self.index.remove(&domain.key);
            self.ends.ended.push(index);
        }
        self.last = None;
    }

    /// Frees the places of ended sessions; to be called when all counts have been written to the books.
    pub(super) fn vacate(&mut self) {
        if self.ends.ended.is_empty() || !self.released.is_empty() {
            return;
        }
        for index in std::mem::take(&mut self.ends.ended) {
            self.forget(index);
            self.ends.vacant.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

    use super::*;
    use crate::Limits;

    fn connection(port: u16) -> Session {
        Session { transport: Transport::Tcp, source: SocketAddr::from(([192, 0, 2, 1], port)) }
    }

    fn message(domain: u32, with_template: bool, records: u8) -> Vec<u8> {
        let template = Template::new(TemplateId::new(256).expect("id"), vec![FieldSpecifier::iana(8, 4)], 0);
        let (template, mut out) = (template.expect("a template"), Vec::new());
        let header = ipfix::Header { domain: ObservationDomainId(domain), ..ipfix::Header::default() };
        let mut message = ipfix::MessageBuilder::new(&mut out, &header);
        if with_template {
            message.template(&template).expect("fits");
        }
        for host in 0..records {
            message.record(&template, |out| out.extend([10, 0, 0, host])).expect("fits");
        }
        message.finish();
        out
    }

    #[test]
    fn templates_end_with_their_session_and_only_theirs() {
        let mut decoder = Decoder::new(Limits::default());
        for port in [1, 2] {
            decoder.message(connection(port), 0, &message(1, true, 1));
            decoder.message(connection(port), 0, &message(2, true, 1));
        }
        decoder.end_session(connection(1), 0);
        // before the places are vacant, and after
        for round in 0..2 {
            for port in [1, 2] {
                decoder.message(connection(port), 0, &message(1, false, 1));
            }
            assert_eq!(decoder.take_delivery().rows(), if round == 0 { 5 } else { 1 });
        }
        assert_eq!(decoder.statistics().sets_waiting, 2);
        decoder.end_session(connection(1), 0);
        let seen = decoder.statistics();
        assert_eq!((seen.sets_waiting, seen.total(Counter::SetsExpired)), (0, 2));
        let delivery = decoder.take_delivery();
        assert!(delivery.books().is_some(), "what the session's end counted is in the books");
    }

    #[test]
    fn places_are_used_again() {
        let mut decoder = Decoder::new(Limits { domains_max: 4, template_fields_max: 4, ..Limits::default() });
        for port in 0..1000 {
            decoder.message(connection(port), 0, &message(0, true, 1));
            decoder.message(connection(port), 0, &message(1, true, 1));
            decoder.end_session(connection(port), 0);
            decoder.take_delivery();
        }
        let seen = decoder.statistics();
        assert_eq!((seen.total(Counter::RecordsStored), seen.total(Counter::DatagramsRefused)), (2000, 0));
        assert_eq!((seen.total(Counter::TemplatesRefused), decoder.domains.len(), decoder.template_fields), (0, 2, 0));
        assert!(decoder.ends.sessions.is_empty() && decoder.index.is_empty());
    }

    #[test]
    fn sets_that_no_longer_wait_are_decoded_after_the_end() {
        let mut decoder = Decoder::new(Limits::default());
        let records = 250;
        for _ in 0..1000 {
            decoder.message(connection(1), 0, &message(0, false, records));
        }
        decoder.message(connection(1), 0, &message(0, true, 0));
        decoder.end_session(connection(1), 0);
        let mut rows = 0;
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            rows += delivery.rows();
        }
        assert_eq!(rows, 1000 * usize::from(records));
        assert_eq!((decoder.template_fields, decoder.ends.vacant.len()), (0, 1));
    }
}
