//! What happened to connections, counted by reason.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_flow::Counter;
use weir_secure::AcceptError;

use super::framing::FramingError;
use crate::rate::RefusedDatagrams;
use crate::shares::BeyondShare;

macro_rules! reasons {
    ($($counter:ident { $($variant:ident $label:literal,)* })*) => {
        /// Why a connection was refused or closed. A closed set, so that no sender can make up labels.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Reason { $($($variant,)*)* }

        impl Reason {
            const ALL: &'static [Reason] = &[$($(Reason::$variant,)*)*];

            const fn label(self) -> &'static str {
                match self { $($(Reason::$variant => $label,)*)* }
            }

            /// The counter of the books that it belongs to.
            const fn counter(self) -> Counter {
                match self { $($(Reason::$variant => Counter::$counter,)*)* }
            }

            /// The counter of the books for this reason alone, which has its label as its name.
            fn own_counter(self) -> Option<Counter> {
                Counter::HANDSHAKE_REASONS.into_iter().find(|counter| counter.name() == self.label())
            }
        }
    };
}

reasons! {
    ConnectionsRefused {
        NotAllowed "connections_not_allowed",
        TooManyConnections "connections_over_limit",
        TooManyOfSource "connections_of_source_over_limit",
        TooManyFiles "connections_over_file_limit",
        SessionExists "session_exists",
        NoResources "connections_without_resources",
        AcceptFailed "accept_failed",
    }
    ConnectionsFailed {
        WrongVersion "stream_wrong_version",
        MessageLength "stream_message_length",
        CutShort "stream_cut_short",
        MessageTooSlow "stream_message_too_slow",
        Idle "stream_idle",
        Broken "stream_broken",
    }
    HandshakesFailed {
        TooManyHandshakes "handshakes_over_limit",
        HandshakeTooSlow "handshake_too_slow",
        HandshakeCutShort "handshake_cut_short",
        NoCertificate "handshake_no_certificate",
        CertificateExpired "handshake_certificate_expired",
        CertificateUntrusted "handshake_certificate_untrusted",
        CertificateRevoked "handshake_certificate_revoked",
        NameNotAllowed "handshake_name_not_allowed",
        RefusedByPeer "handshake_refused_by_peer",
        NotTls "handshake_protocol",
    }
    DatagramsOverRate {
        OverRate "datagrams_over_rate",
    }
    DatagramsNotAllowed {
        SenderNotAllowed "senders_not_allowed",
        AgentNotAllowed "agents_not_allowed",
    }
    DatagramsRefused {
        BeyondShare "domains_beyond_share",
        DomainsOverRate "domains_of_connections_over_rate",
    }
    RelayFailures {
        RelayTooLong "relay_too_long",
        RelayNotSent "relay_not_sent",
    }
}

impl From<FramingError> for Reason {
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::WrongVersion => Self::WrongVersion,
            FramingError::MessageLength => Self::MessageLength,
        }
    }
}

impl From<AcceptError> for Reason {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::TooSlow => Self::HandshakeTooSlow,
            AcceptError::CutShort => Self::HandshakeCutShort,
            AcceptError::NoCertificate => Self::NoCertificate,
            AcceptError::CertificateExpired => Self::CertificateExpired,
            AcceptError::CertificateUntrusted => Self::CertificateUntrusted,
            AcceptError::CertificateRevoked => Self::CertificateRevoked,
            AcceptError::NameNotAdmitted => Self::NameNotAllowed,
            AcceptError::RefusedByPeer => Self::RefusedByPeer,
            AcceptError::NotTls => Self::NotTls,
            AcceptError::NoResources => Self::NoResources,
        }
    }
}

/// The counters that the books have for what is not a datagram, and the reasons behind them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    seen: [AtomicU64; Tally::COUNTERS_LEN],
    /// What is in the books already.
    booked: [AtomicU64; Tally::COUNTERS_LEN],
    reasons: [AtomicU64; Reason::ALL.len()],
    /// What is said about each reason.
    told: Mutex<[Told; Reason::ALL.len()]>,
    /// Sources that the limit on rates has forgotten, because there were too many.
    sources_forgotten: AtomicU64,
    notices: Mutex<VecDeque<String>>,
}

/// What was said about a reason.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    at: Option<Instant>,
    /// How often it has occurred since.
    since: u64,
}

/// A reason is not said more often: whoever floods us must not fill the log.
const TOLD_INTERVAL: Duration = Duration::from_mins(1);

impl Tally {
    const TOTALS: [Counter; 8] = [
        Counter::ConnectionsAccepted,
        Counter::ConnectionsRefused,
        Counter::ConnectionsFailed,
        Counter::HandshakesFailed,
        Counter::DatagramsOverRate,
        Counter::DatagramsRelayed,
        Counter::RelayDrops,
        Counter::RelayFailures,
    ];
    const COUNTERS_LEN: usize = Self::TOTALS.len() + Counter::HANDSHAKE_REASONS.len();

    /// The counters, in the order of `seen`.
    fn counters() -> impl Iterator<Item = Counter> {
        Self::TOTALS.into_iter().chain(Counter::HANDSHAKE_REASONS)
    }

    pub(crate) fn count(&self, counter: Counter, by: u64) {
        if let Some(at) = Self::counters().position(|known| known == counter) {
            self.seen[at].fetch_add(by, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_reason(&self, reason: Reason) {
        self.reasons[reason as usize].fetch_add(1, Ordering::Relaxed);
        self.count(reason.counter(), 1);
        if let Some(own) = reason.own_counter() {
            self.count(own, 1);
        }
    }

    /// Counts why a session of a peer was refused or closed, and says so, once a minute for each reason.
    pub(crate) fn count_peer(&self, reason: Reason, peer: SocketAddr) {
        self.count_reason(reason);
        self.say(reason, 1, || format!("session of {peer} refused or closed: {}", reason.label()));
    }

    /// Counts datagrams of sources that send too many, and says so; and sources that a limit on rates has forgotten.
    pub(crate) fn count_over_rate(&self, over_rate: &RefusedDatagrams, sources_forgotten: u64) {
        if sources_forgotten > 0 {
            self.sources_forgotten.fetch_add(sources_forgotten, Ordering::Relaxed);
        }
        let (datagrams, Some(source)) = (over_rate.datagrams, over_rate.last) else { return };
        self.reasons[Reason::OverRate as usize].fetch_add(datagrams, Ordering::Relaxed);
        self.count(Counter::DatagramsOverRate, datagrams);
        let source = source.to_canonical();
        self.say(Reason::OverRate, datagrams, || {
            format!("datagrams of {source} dropped: it sends more a second than rate_per_source allows")
        });
    }

    /// Counts datagrams of sources that are not allowed, which a decoder has entered in the books, and says so.
    pub(crate) fn count_not_allowed(&self, not_allowed: &RefusedDatagrams) {
        self.count_refused(Reason::SenderNotAllowed, not_allowed, |source| {
            format!("datagrams of {source} not looked at: it is not among the senders that are allowed")
        });
    }

    /// Counts datagrams of sFlow of sources that may not speak for the agent that these name, which a decoder has entered in the
    /// books, and says so.
    pub(crate) fn count_agents_not_allowed(&self, not_allowed: &RefusedDatagrams) {
        self.count_refused(Reason::AgentNotAllowed, not_allowed, |source| {
            format!(
                "datagrams of {source} not looked at: sflow_agents does not let it speak for the agent that they name"
            )
        });
    }

    /// Counts datagrams that were refused for a reason and are in the books already, and says so.
    fn count_refused(&self, reason: Reason, refused: &RefusedDatagrams, notice: impl FnOnce(IpAddr) -> String) {
        let (datagrams, Some(source)) = (refused.datagrams, refused.last) else { return };
        self.reasons[reason as usize].fetch_add(datagrams, Ordering::Relaxed);
        self.say(reason, datagrams, || notice(source.to_canonical()));
    }

    /// Counts datagrams of new Observation Domains of sources that have their share of all, which a decoder has refused or for which
    /// it has forgotten others of the same source and has entered that in the books, and says so.
    pub(crate) fn count_beyond_share(&self, beyond: BeyondShare) {
        let BeyondShare { refused, replaced, last: Some(source) } = beyond else { return };
        let datagrams = refused + replaced;
        self.reasons[Reason::BeyondShare as usize].fetch_add(datagrams, Ordering::Relaxed);
        let source = source.to_canonical();
        self.say(Reason::BeyondShare, datagrams, || {
            let end =
                if refused > 0 { "datagrams of new ones are refused" } else { "its own are forgotten for new ones" };
            format!("{source} sends of more Observation Domains than domains_max leaves to one source: {end}")
        });
    }

    /// Counts messages of new Observation Domains of sources that have had too many made on connections, which a decoder has refused
    /// and entered in the books, and says so.
    pub(crate) fn count_domains_over_rate(&self, refused: &RefusedDatagrams) {
        self.count_refused(Reason::DomainsOverRate, refused, |source| {
            format!(
                "messages of new Observation Domains on connections of {source} are refused: it has had more made than twice \
                 domains_max at once and a thousand in a second; find out why it connects or numbers its domains anew so often, \
                 or raise domains_max, and have it connect again"
            )
        });
    }

    /// Counts a time in which the system could not give us connections, and says why. None is refused by that: who comes
    /// meanwhile waits in the kernel.
    pub(crate) fn count_failed_accept(&self, listener: &SocketAddr, error: &io::Error) {
        self.reasons[Reason::AcceptFailed as usize].fetch_add(1, Ordering::Relaxed);
        self.say(Reason::AcceptFailed, 1, || format!("cannot accept connections on {listener}: {error}"));
    }

    /// Says something once a minute for each reason, and how often it has occurred since.
    fn say(&self, reason: Reason, times: u64, notice: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let told = &mut told[reason as usize];
        if told.at.is_some_and(|at| at.elapsed() < TOLD_INTERVAL) {
            told.since += times;
            return;
        }
        let more = match told.since {
            0 => String::new(),
            since => format!(", and {since} more since that was said last"),
        };
        *told = Told { at: Some(Instant::now()), since: 0 };
        let notice = notice() + &more;
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).push_back(notice);
    }

    /// Something that was to be said, returned once.
    pub(crate) fn take_notice(&self) -> Option<String> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// What has been counted since the last call.
    pub(crate) fn not_booked(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Self::counters().zip(&self.seen).zip(&self.booked).map(|((counter, seen), booked)| {
            let seen = seen.load(Ordering::Relaxed);
            (counter, seen.saturating_sub(booked.fetch_max(seen, Ordering::Relaxed)))
        })
    }

    /// The reasons that occurred.
    pub(crate) fn problems(&self) -> Vec<(&'static str, u64)> {
        let counts = Reason::ALL.iter().zip(&self.reasons).map(|(reason, count)| (reason.label(), count));
        counts
            .chain([("rate_sources_forgotten", &self.sources_forgotten)])
            .map(|(label, count)| (label, count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_a_handshake_has_a_counter_of_the_books() {
        let of_handshakes = Reason::ALL.iter().filter(|reason| reason.counter() == Counter::HandshakesFailed);
        let mut own: Vec<_> = of_handshakes.map(|reason| reason.own_counter().expect("a counter")).collect();
        own.dedup();
        assert_eq!(own, Counter::HANDSHAKE_REASONS);
        let tally = Tally::default();
        tally.count_peer(Reason::NoCertificate, SocketAddr::from(([192, 0, 2, 7], 4740)));
        let booked: Vec<_> = tally.not_booked().filter(|(_, count)| *count > 0).collect();
        assert_eq!(booked, [(Counter::HandshakesFailed, 1), (Counter::HandshakeNoCertificate, 1)]);
        assert_eq!(tally.not_booked().map(|(_, count)| count).sum::<u64>(), 0);
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("192.0.2.7:4740") && notice.contains("handshake_no_certificate"), "{notice}");
    }

    #[test]
    fn an_accept_that_fails_refuses_nobody() {
        let tally = Tally::default();
        tally.count_failed_accept(&SocketAddr::from(([127, 0, 0, 1], 4739)), &io::Error::from_raw_os_error(24));
        assert_eq!(tally.not_booked().map(|(_, count)| count).sum::<u64>(), 0);
        assert_eq!(tally.problems(), [("accept_failed", 1)]);
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("127.0.0.1:4739") && notice.contains("Too many open files"), "{notice}");
    }

    #[test]
    fn a_sender_that_is_not_allowed_is_named_once_a_minute_and_is_in_the_books_already() {
        let tally = Tally::default();
        let refused = RefusedDatagrams { datagrams: 27, last: Some(std::net::IpAddr::from([198, 51, 100, 7])) };
        (0..2).for_each(|_| tally.count_not_allowed(&refused));
        tally.count_not_allowed(&RefusedDatagrams::default());
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("198.51.100.7") && notice.contains("allowed"), "{notice}");
        assert_eq!(tally.take_notice(), None);
        tally.count_agents_not_allowed(&refused);
        let notice = tally.take_notice().expect("a notice of another reason");
        assert!(notice.contains("198.51.100.7") && notice.contains("sflow_agents"), "{notice}");
        assert_eq!(tally.problems(), [("senders_not_allowed", 54), ("agents_not_allowed", 27)]);
        assert_eq!(tally.not_booked().map(|(_, count)| count).sum::<u64>(), 0);
    }

    #[test]
    fn a_source_beyond_its_share_is_named_once_a_minute_and_is_in_the_books_already() {
        let tally = Tally::default();
        let source = Some(std::net::IpAddr::from([192, 0, 2, 7]));
        let beyond = BeyondShare { refused: 2, replaced: 1, last: source };
        (0..2).for_each(|_| tally.count_beyond_share(beyond));
        tally.count_beyond_share(BeyondShare::default());
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("192.0.2.7") && notice.contains("domains_max"), "{notice}");
        assert_eq!(tally.take_notice(), None);
        assert_eq!(tally.problems(), [("domains_beyond_share", 6)]);
        assert_eq!(tally.not_booked().map(|(_, count)| count).sum::<u64>(), 0);
        let tally = Tally::default();
        tally.count_beyond_share(BeyondShare { refused: 0, replaced: 1, last: source });
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("192.0.2.7") && notice.contains("forgotten"), "{notice}");
    }

    #[test]
    fn a_source_that_has_too_many_domains_made_on_connections_is_named_for_that() {
        let tally = Tally::default();
        let refused = RefusedDatagrams { datagrams: 3, last: Some(std::net::IpAddr::from([192, 0, 2, 7])) };
        (0..2).for_each(|_| tally.count_domains_over_rate(&refused));
        tally.count_domains_over_rate(&RefusedDatagrams::default());
        let notice = tally.take_notice().expect("a notice");
        assert!(notice.contains("connections of 192.0.2.7") && notice.contains("connect again"), "{notice}");
        assert_eq!(tally.take_notice(), None);
        assert_eq!(tally.problems(), [("domains_of_connections_over_rate", 6)]);
        assert_eq!(tally.not_booked().map(|(_, count)| count).sum::<u64>(), 0);
    }
}
