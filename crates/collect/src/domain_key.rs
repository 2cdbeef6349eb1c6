//! What one exporting process is known by.

use weir_flow::SequenceKey;

use crate::session::{Session, Transport};

/// What templates, sequence numbers and the books are kept by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DomainKey {
    pub session: Session,
    pub version: u8,
    pub domain: u32,
}

impl DomainKey {
    /// Who sends with one sequence of numbers; `None` for connections, whose numbers begin anew with each.
    pub(crate) fn sequence_key(&self) -> Option<SequenceKey> {
        (self.session.transport == Transport::Udp).then(|| SequenceKey {
            exporter: self.exporter(),
            exporter_port: self.session.source.port(),
            observation_domain: self.domain,
            export_version: self.version,
        })
    }

    /// Address of the exporter, 4 or 16 octets, as flows and books have it.
    pub(crate) fn exporter(&self) -> Vec<u8> {
        weir_flow::address::with_octets(self.session.source.ip().to_canonical(), <[u8]>::to_vec)
    }
}
