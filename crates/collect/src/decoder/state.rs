//! What is known of exporters as octets, for the process after this one.

use std::net::SocketAddr;

use super::domains::Domains;
use crate::domain::{Domain, DomainStatus};
use crate::sampling::StoredSamplers;
use crate::state::StateError;
use crate::state::format::{StoredDomain, Writer, read_part};

/// Whether what is known is another than when it was last exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Something came or went.
    pub changed: bool,
    /// Templates were sent again as they were.
    pub refreshed: bool,
}

/// Writes what decodes the next datagram of every exporter. Times are written as the system's clock would have told them,
/// which is so much ahead of that of ages.
pub(super) fn export(domains: &Domains, jumped_ms: i64) -> Vec<u8> {
    let mut writer = Writer::new();
    for domain in domains.table() {
        let stored = stored(domain, jumped_ms);
        if stored.protected || !stored.templates.is_empty() || stored.samplers != StoredSamplers::default() {
            writer.domain(&stored);
        }
    }
    writer.finish()
}

fn stored(domain: &Domain, jumped_ms: i64) -> StoredDomain {
    let refreshed_ms = |known_ms: i64| known_ms.saturating_add(jumped_ms);
    let own = domain.templates.iter().filter(|known| !known.borrowed);
    StoredDomain {
        key: domain.key,
        protected: domain.activity.status == DomainStatus::Protected,
        heard_ms: domain.activity.heard_ms,
        datagrams: domain.activity.datagrams,
        records_since_ms: domain.activity.records_since_ms,
        system_init_ms: domain.system_init_ms,
        samplers: domain.samplers.stored(),
        lists: domain.templates.learned_lists().collect(),
        templates: own.map(|known| (known.template.clone(), refreshed_ms(known.refreshed_ms))).collect(),
    }
}

/// Reads what any number of decoders have exported, one after the other: the domains of some sources, those heard last
/// first. What comes before an error is read.
pub(super) fn read(
    mut octets: &[u8],
    is_own: impl Fn(SocketAddr) -> bool,
) -> (Vec<StoredDomain>, Result<(), StateError>) {
    let (mut stored, mut result) = (Vec::new(), Ok(()));
    while !octets.is_empty() && result.is_ok() {
        result = read_part(&mut octets)
            .map(|part| stored.extend(part.into_iter().filter(|domain| is_own(domain.key.session.source))));
    }
    stored.sort_by_key(|domain| std::cmp::Reverse(domain.heard_ms));
    (stored, result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::domain::DomainKey;
    use crate::session::Session;

    #[test]
    fn domains_of_which_something_is_known_are_written_and_read_latest_first() {
        let mut domains = Domains::new(1_024);
        for (index, heard_ms) in [(0, 5), (1, 7), (2, 6)] {
            let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 2000 + index as u16)));
            let mut domain = Domain::new(DomainKey { session, version: 9, domain: index }, &Limits::default());
            domain.activity.heard_ms = heard_ms;
            if index < 2 {
                domain.activity.status = DomainStatus::Protected;
            }
            domains.insert(index, domain);
        }
        let octets = export(&domains, 0);
        let read_of = |is_own: fn(SocketAddr) -> bool| {
            let (stored, result) = read(&[octets.as_slice(), b"garbage"].concat(), is_own);
            assert_eq!(result, Err(StateError::Foreign));
            stored.iter().map(|domain| domain.key.domain).collect::<Vec<_>>()
        };
        assert_eq!(read_of(|_| true), [1, 0]);
        assert_eq!(read_of(|source| source.port() == 2000), [0]);
    }
}
